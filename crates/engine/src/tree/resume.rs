//! Resumes the session an earlier run left on a task, or reports why not.

use std::sync::Arc;

use serde_json::Value;

use super::run::TreeRun;
use super::tree_edits::ok_or_warn;
use super::unfinished::{self, OpenSession, Unfinished};
use super::{Error, keep, pipelines};
use crate::env;
use crate::session::{TaskJob, TaskSession, cancel};
use agents::agent::BoxFuture;
use git::record::{self, History, check_chain};
use git::workspace::branch_ref;
use pleach_core::event::{PauseReason, WarningCode};
use pleach_core::ids::TaskId;
use pleach_core::plan::tree::TaskNode;
use pleach_core::state::{Phase, State, TaskWork};

/// A session whose worktree is being created in the background, because that takes long. Also yields where work found
/// in the worktree was saved.
pub(super) struct OpeningSession {
    pub session: BoxFuture<'static, Result<(TaskSession, Option<String>), env::Error>>,
    /// It was started by an earlier run.
    pub resumed: bool,
}

/// Why a session is not resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SkipReason {
    /// Its task has since been worked on, or decided about.
    Superseded,
    /// It could not work with its settings, and they have changed since.
    SettingsChanged,
}

/// The session an earlier run left, if it can be resumed.
pub(super) fn resume_unfinished(
    run: &mut TreeRun,
    task: &TaskId,
    job: &Arc<TaskJob>,
) -> Result<Option<OpeningSession>, Error> {
    let Some(Unfinished { id, first, given }) = run.state.unfinished.get(task).cloned() else {
        return Ok(None);
    };
    // A resume needs the complete record.
    let whole = History::newest(&run.repo, &id).and_then(|history| {
        check_chain(&run.repo, history.tip).map_err(record::Error::from)?;
        Ok(history)
    });
    let Some(history) = ok_or_warn(&run.engine, whole, &id) else {
        run.state.unfinished.remove(task);
        return Ok(None);
    };
    if history.first != first {
        run.state.unfinished.remove(task);
        // The commands it would run now are not approved.
        run.engine.warn(
            WarningCode::SessionReplaced
                .with(format!("session {id} is skipped: its record was replaced since this run started")),
        );
        return Ok(None);
    }
    let state = unfinished::state_of(&history)?;
    let resumable = resumable(run, &job.task, &history, &state)?;
    if let Ok(left) = &resumable {
        if given {
            left.at.iter().try_for_each(|at| run.state.approved.require(task, *at))?
        } else {
            return Err(Error::Unasked(task.clone()));
        }
    }
    run.state.unfinished.remove(task);
    if let Err(aside) = resumable {
        cancel::abandon_session(&run.repo, &run.engine.redactor, &id, run.state.slots.free())?;
        warn_session_abandoned(run, task, &history, &state, aside)?;
        return Ok(None);
    }
    let worktree = run.state.slots.take()?;
    let (engine, repo, job) = (run.engine.clone(), run.repo.clone(), job.clone());
    let session = Box::pin(async move { TaskSession::resume(engine, repo, &id, job, worktree).await });
    Ok(Some(OpeningSession { session, resumed: true }))
}

/// The session and its pipeline, or why it is not resumed.
pub(super) fn resumable(
    run: &TreeRun,
    task: &TaskNode,
    history: &History,
    state: &State,
) -> Result<Result<OpenSession, SkipReason>, Error> {
    // The node may have been a phase then, and the session its tests.
    let (Some(left), Some(work)) = (OpenSession::of(history, state), &state.task) else {
        return Ok(Err(SkipReason::Superseded));
    };
    if !fits(run, &task.id, state)? || !is_newest(run, &task.id, history, work)? {
        return Ok(Err(SkipReason::Superseded));
    }
    Ok(if has_changed_settings(run, task, history, state) { Err(SkipReason::SettingsChanged) } else { Ok(left) })
}

/// Warns that a session is not resumed, and says where its work is.
fn warn_session_abandoned(
    run: &TreeRun,
    task: &TaskId,
    history: &History,
    state: &State,
    aside: SkipReason,
) -> Result<(), Error> {
    let (id, branch) = (&history.session, run.branch_of(task)?);
    let has_steps = state.task.as_ref().is_some_and(|task| task.status.is_some());
    // A restart from the last step drops the work after it.
    let steps_alone = has_steps && aside == SkipReason::Superseded;
    let done = if steps_alone { state.on_branches() } else { state.work.clone() };
    let done = state.task.as_ref().and_then(|task| done.get(&task.of.repo).copied());
    let base = history.started.built_on();
    let Some(done) = done.filter(|done| Some(*done) != base) else { return Ok(()) };
    let why = match run.repo.refs().find(&branch_ref(&branch))? {
        // Someone has built on it, or merged it.
        Some(at) if run.repo.history().is_ancestor(done, at)? => return Ok(()),
        _ if run.is_on_target(task, done)? => return Ok(()),
        _ if aside == SkipReason::SettingsChanged => "its settings or its pipeline were changed since".to_owned(),
        Some(_) => format!("`{branch}` has diverged"),
        None => format!("`{branch}` was removed"),
    };
    run.engine.warn(WarningCode::SessionAbandoned.with(format!(
        "{task} does not resume session {id}: {why}; its work is {}, which its record keeps",
        done.short()
    )));
    Ok(())
}

/// Whether a session waits for settings or a pipeline that were fixed since: it still has the old ones.
fn has_changed_settings(run: &TreeRun, task: &TaskNode, history: &History, state: &State) -> bool {
    let could_not_work = matches!(&state.phase, Phase::Paused { reason: PauseReason::Interrupted, why: Some(_) });
    let (started, today) = (&history.started, pipelines::pipeline_of(run, task));
    // Records hold no secrets. Values may have become known as secrets since, so both sides are compared redacted.
    let without_secrets = |config: &Value| {
        let mut config = config.clone();
        run.engine.redactor.json(&mut config);
        config
    };
    let is_same = without_secrets(&started.config) == without_secrets(&run.plan.config)
        && started.dot == today.dot
        && started.files == today.files;
    could_not_work && !is_same
}

/// Whether a session is still the newest on its task. Since it was left, the task may have been reset, skipped or
/// worked on by another session.
fn is_newest(run: &TreeRun, task: &TaskId, history: &History, work: &TaskWork) -> Result<bool, Error> {
    let base = history.started.built_on();
    let has_steps = base.is_some_and(|base| base != work.step);
    let tip = run.repo.refs().find(&branch_ref(&run.branch_of(task)?))?;
    // If it was killed between record and branch, only it knows of its last step.
    let is_known = has_steps && tip == Some(work.step);
    let state = run.progress.task(task);
    let Some(newest) = state.newest() else { return Ok(true) };
    Ok(match newest.step.session.as_ref() {
        Some(session) if *session == history.session => !state.landed,
        _ if is_known => false,
        // Its base is older, whatever the clock of another machine said.
        _ if newest.at <= history.started_at => true,
        _ => base.map_or(Ok(false), |base| run.repo.history().is_ancestor(newest.commit, base))?,
    })
}

/// Whether a task's branch is where a session left it, or was about to move it from. Otherwise the branch wins: the
/// user removed it to have the task done again, or has committed to it since.
fn fits(run: &TreeRun, task: &TaskId, state: &State) -> Result<bool, Error> {
    let Some(work) = &state.task else { return Ok(false) };
    // Another clone may use another repository name.
    let Some(tip) = state.on_branches().get(&work.of.repo).copied() else { return Ok(false) };
    match run.repo.refs().find(&branch_ref(&run.branch_of(task)?))? {
        None => Ok(state.task.as_ref().is_some_and(|task| task.status.is_none())),
        Some(at) => Ok(run.repo.history().is_ancestor(at, tip)? || keep::kept_at(run, task, at)?.is_some()),
    }
}
