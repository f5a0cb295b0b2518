//! Starts a session: lock, first record, branch, worktree, in that order. A crash in between leaves a session that can
//! be resumed, or nothing.

use std::sync::Arc;

use super::context::{OpenedContext, worktrees};
use super::session_plan::SessionPlan;
use super::start_request::{TREE_FILE, TaskStart};
use super::{Session, StartRequest, pausing};
use crate::env::{Engine, Error, Locks, SessionRepos, secret_check};
use crate::keep::{self, RemoveError};
use crate::view::start_node;
use git::record::{self, Batch, Recorder};
use git::workspace::{FIRST_SLOT, branch_ref, new_session_id};
use pleach_core::clock;
use pleach_core::event::{Event, PauseReason, PipelineStarted, Recorded};
use pleach_core::ids::ContextId;
use pleach_core::state::{Phase, State};

/// Called with a session once it is recorded and before its worktree is created, which may take long.
pub(crate) type OnOpen<'a> = &'a mut (dyn FnMut(&Session) + Send);

/// Starts a session without running anything. `opened` is called once it is recorded, before its worktree is created.
pub async fn start_session(engine: Arc<Engine>, request: StartRequest, opened: OnOpen<'_>) -> Result<Session, Error> {
    let session = tokio::task::block_in_place(|| open_session(engine, request))?;
    opened(&session);
    Ok(make_first_copy(session).await?.0)
}

/// Records a session, which has no worktree yet. Blocks.
pub(crate) fn open_session(engine: Arc<Engine>, request: StartRequest) -> Result<Session, Error> {
    secret_check::pipeline(&engine.redactor, &request.dot_path, &request.dot, &request.files)?;
    secret_check::inputs(&engine.redactor, &request.inputs)?;
    engine.check_places(&request.repos())?;
    open_new(engine, request, None)
}

/// Creates branch and worktree of a newly opened session. If the worktree cannot be created, the session is removed
/// completely: no work has started in it.
pub(crate) async fn make_first_copy(mut session: Session) -> Result<(Session, Option<String>), Error> {
    let is_first = !has_branch(&session.plan.repos, session.started())?;
    match make_copy(&mut session).await {
        Ok(kept) => Ok((session, kept)),
        Err(error) => {
            if session.root().workspace.is_none() {
                // A session that remains anyway can be resumed or removed; the original error matters more.
                let _ = tokio::task::block_in_place(|| withdraw(session, is_first));
            }
            Err(error)
        }
    }
}

/// Creates branch and worktree of the root context. An interrupted setup pauses the session.
pub(super) async fn make_copy(session: &mut Session) -> Result<Option<String>, Error> {
    let done = worktrees::make_copy(session.root_mut()).await;
    pause_if_interrupted(session, done)
}

/// Records a session that was interrupted during setup as paused, unless it has already ended and waits to land.
pub(super) fn pause_if_interrupted<T>(session: &mut Session, done: Result<T, Error>) -> Result<T, Error> {
    if matches!(done, Err(Error::Interrupted { .. })) && session.state().phase == Phase::Running {
        tokio::task::block_in_place(|| pausing::pause(session, PauseReason::Interrupted))?;
    }
    done
}

/// Removes the record, and the branch if it was created for the session.
fn withdraw(session: Session, with_branch: bool) -> Result<(), RemoveError> {
    let (repo, plan) = (session.repo.clone(), Arc::clone(&session.plan));
    let (session, root) = session.into_root();
    let branches = plan.started.branches.iter().filter(|_| with_branch);
    for (repo_name, branch) in branches {
        let (name, tip) = (branch_ref(branch), root.state.on_branches().get(repo_name).copied());
        let repo = plan.repo_of(repo_name);
        if tip.is_some() && repo.refs().find(&name)? == tip {
            keep::delete(repo, vec![(name, tip)])?;
        }
    }
    let is_shared = plan.started.task.is_some();
    if !is_shared {
        for name in plan.started.branches.keys() {
            git::worktree::remove(plan.repo_of(name), &worktrees::copy_path(&root, name))?;
        }
    }
    if !is_shared {
        keep::remove_run_directory(&plan.root(&root.engine, &root.id))?;
    }
    keep::delete(&repo, keep::records(&repo, &plan.run)?)?;
    if !is_shared {
        root.lock.remove().map_err(Error::from)?;
    }
    session.remove().map_err(Error::from)?;
    Ok(())
}

/// Writes the first record, which creates the session.
pub(super) fn open_new(engine: Arc<Engine>, request: StartRequest, task: Option<TaskStart>) -> Result<Session, Error> {
    let repos = request.repos();
    let repo = repos.record().clone();
    let start_node = start_node(&request.pipeline)?;
    engine.refuse_uncounted(&repo, &request.pipeline)?;
    loop {
        let id = new_session_id();
        let (started, locks) = match &task {
            Some(task) => (task.started(&request)?, Locks::beside(&repo, &id, task.worktree.lock.clone())?),
            None => {
                let started = request.started(&id)?;
                // The branch belongs to another session, even without a record: a clone has only the branches.
                if has_branch(&repos, &started)? {
                    continue;
                }
                (started, Locks::take(&repo, &id)?)
            }
        };
        // Sessions are opened only here; other code asks for the root.
        let root = ContextId::main();
        let recorder = Recorder::create(repo.clone(), id.clone(), root.clone(), engine.redactor.clone());
        let mut recorder = recorder.on_task(task.as_ref().map(|task| task.of.id.clone()));
        let at = clock::now();
        let attempt = task.as_ref().map(|task| task.attempt.clone());
        let laid = attempt.as_ref().and_then(|attempt| attempt.laid);
        let events = std::iter::once(started.clone().into()).chain(request.arrivals()).chain(attempt.map(Event::from));
        let events: Vec<Recorded> = events.map(|event| engine.without_secrets(Recorded { at, event })).collect();
        let mut state = State::new(start_node.clone());
        for event in &events {
            state.apply(event)?;
        }
        let batch = Batch {
            summary: format!("start {}", started.name),
            work: started.base.get(repos.record_name()).copied().into_iter().chain(laid).collect(),
            files: task.as_ref().map(|task| (TREE_FILE.to_owned(), task.document)).into_iter().collect(),
            events,
            ..Batch::default()
        };
        match recorder.append(repo.writer(), &batch) {
            Err(record::Error::Exists { .. }) => continue,
            other => other?,
        };
        let Locks { session, mut worktrees } = locks;
        let lock = worktrees.remove(&root).expect("the lock of the root's worktree was taken");
        let slot = task.as_ref().map_or(FIRST_SLOT, |task| task.worktree.number);
        let (job, workspace) = task.map(|task| (task.job, task.worktree.workspace)).unzip();
        let opened = OpenedContext {
            id: root,
            state,
            recorder,
            lock,
            workspace: workspace.flatten(),
            events: batch.events.len(),
            written: batch.events,
        };
        let registered = engine.supervisor.register(&repo, &id.clone().into(), &engine.cancel);
        let cancel = registered.cancel.clone();
        let plan = SessionPlan { slot, ..SessionPlan::new(id.into(), started, request.pipeline, repos, job, cancel)? };
        return Ok(Session::new(engine, registered, repo, plan, session, opened));
    }
}

/// Whether one of the session's branches already exists.
fn has_branch(repos: &SessionRepos, started: &PipelineStarted) -> Result<bool, Error> {
    for (name, branch) in &started.branches {
        let repo = repos.get(name).unwrap_or(repos.record());
        if repo.refs().find(&branch_ref(branch))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
