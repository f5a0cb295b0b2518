//! Opens the session of a task: the one an earlier run left, or a new one with the existing work.

use std::sync::Arc;

use super::attempts::start_after;
use super::feedback::feedback;
use super::resume::{self, OpeningSession};
use super::run::TreeRun;
use super::{Error, base, earlier_runs, pipelines, spending};
use crate::session::{SessionRepo, StartRequest, TaskJob, TaskSession, TaskStart, code_of};
use git::BlobId;
use pleach_core::event::{AttemptStarted, TaskOf, TaskStarted, WarningCode};
use pleach_core::plan::tree::TaskNode;
use pleach_core::step::{AttemptNumber, Feedback};

/// The session for a task: the one an earlier run left, or a new one.
pub(super) fn open_session(
    run: &mut TreeRun,
    job: &Arc<TaskJob>,
    attempt: AttemptNumber,
    retry: u32,
) -> Result<OpeningSession, Error> {
    match resume::resume_unfinished(run, &job.task.id, job)? {
        Some(opening) => Ok(opening),
        None => begin(run, job, attempt, retry),
    }
}

/// Takes over an opened session.
pub(super) fn opened(
    run: &mut TreeRun,
    mut session: TaskSession,
    kept: Option<String>,
    job: &TaskJob,
    resumed: bool,
) -> Result<TaskSession, Error> {
    spending::tell_spent(run, &mut session)?;
    // An abandoned session committed its work, yet no step has it.
    let what = if resumed { "uncommitted work" } else { "work that is in no step" };
    if let Some(name) = kept {
        run.engine.warn(WarningCode::WorkKept.with(format!("{what} was in the worktree; it is kept at {name}")));
    }
    session.take_warnings().into_iter().for_each(|warning| run.engine.warn(warning));
    let attempt = session.attempt().filter(|_| job.task.is_leaf());
    run.engine.tell(TaskStarted {
        task: job.task.id.clone(),
        title: job.task.name.clone(),
        repo: Some(run.plan.repo_name.clone()),
        session: session.id().clone(),
        number: attempt.map(|attempt| attempt.number),
        of: attempt.map(|attempt| attempt.of),
        resumed,
        extra: Default::default(),
    });
    Ok(session)
}

/// Warns about a task that is done again because its commits are gone, and says where they are.
fn tell_lost(run: &TreeRun, task: &TaskNode) -> Result<(), Error> {
    if let Some((id, landed)) = earlier_runs::lost(run, &task.id)?.filter(|_| task.is_leaf()) {
        let (task, on) = (&task.id, run.lands_on(&task.id)?);
        run.engine.warn(WarningCode::TaskLost.with(format!(
            "{task} is done again: what session {id} has landed is not on `{on}`; its work is {}, which its \
             record keeps",
            landed.short()
        )));
    }
    Ok(())
}

/// A new session on a task, with the existing work.
pub(super) fn begin(
    run: &mut TreeRun,
    job: &Arc<TaskJob>,
    attempt: AttemptNumber,
    retry: u32,
) -> Result<OpeningSession, Error> {
    let task = &job.task;
    tell_lost(run, task)?;
    let beginning = base::beginning(run, &task.id)?;
    let used = pipelines::pipeline_of(run, task);
    let inputs = job.inputs();
    let pipeline = pipelines::load(&used, &inputs, &task.id)?;
    let start = start_after(&pipeline, beginning.after.as_ref()).ok_or_else(|| Error::Pipeline {
        path: used.path.clone(),
        task: task.id.clone(),
        why: "it has no start".into(),
    })?;
    let task_base = run.repo.tree_of(beginning.task_base)?;
    let code = code_of(&run.repo, task_base, run.repo.tree_of(beginning.base)?, job)?;
    let first = AttemptStarted {
        retry,
        number: attempt.number,
        of: attempt.of,
        start,
        code,
        laid: beginning.laid,
        feedback: lessons(run, task),
        extra: Default::default(),
    };
    let request = StartRequest {
        record: SessionRepo {
            repo: run.repo.clone(),
            name: run.plan.repo_name.clone(),
            branch_prefix: run.plan.branch_prefix.clone(),
            at: None,
            arrival: None,
        },
        others: Vec::new(),
        pipeline,
        dot: used.dot,
        dot_path: used.path,
        files: used.files,
        inputs,
        config: run.plan.config.clone(),
        simulated: false,
        resolves: None,
    };
    let recorded_task = TaskOf {
        repo: run.plan.repo_name.clone(),
        target: run.plan.target.clone(),
        tree: run.plan.name.for_task(&task.id),
        id: task.id.clone(),
        name: task.name.clone(),
        base: beginning.task_base,
        commits: run.plan.commits,
        status: beginning.status,
    };
    let start = TaskStart {
        of: recorded_task,
        job: job.clone(),
        document: document(run)?,
        branch: beginning.branch,
        base: beginning.base,
        attempt: first,
        worktree: run.state.slots.take()?,
    };
    let session = Box::pin(TaskSession::start(run.engine.clone(), request, start));
    Ok(OpeningSession { session, resumed: false })
}

/// The feedback of earlier attempts. The tests of a phase get none, because no agent runs there.
fn lessons(run: &TreeRun, task: &TaskNode) -> Vec<Feedback> {
    let steps = if task.is_leaf() { run.progress.task(&task.id).feedback_steps() } else { &[] };
    feedback(&run.repo, &run.progress, &run.engine.redactor, steps)
}

/// The tree's file for the records of sessions, written with the first of them.
fn document(run: &mut TreeRun) -> Result<BlobId, Error> {
    if let Some(written) = run.document {
        return Ok(written);
    }
    let mut writer = run.repo.writer();
    let id = writer.blob(run.engine.redactor.text(&run.plan.document).as_bytes())?;
    writer.flush()?;
    Ok(*run.document.insert(id))
}
