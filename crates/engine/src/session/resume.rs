//! Resumes a session: load, fold, move branch and worktree to the newest record, continue.

use std::sync::Arc;

use super::context::{OpenedContext, recording, worktrees};
use super::point::RunPoint;
use super::session_plan::SessionPlan;
use super::start::{self, OnOpen};
use super::task::TaskJob;
use super::{Session, fan_out, fork, going_back, session};
use crate::env::{Engine, Error, Locks, SessionRepos};
use crate::view::{recorded_pipeline, recorded_state};
use git::Repo;
use git::record::{Batch, History, Recorder};
use git::workspace::FIRST_SLOT;
use pleach_core::clock;
use pleach_core::event::{Resumed, RewindVia};
use pleach_core::ids::{CommitId, ContextId, NodeId, RunId};
use pleach_core::plan::pipeline::Pipeline;
use pleach_core::state::{Phase, State};
use pleach_core::text::listed;

/// A session that has not ended, read from its record.
pub(crate) struct RecordedSession {
    pub history: History,
    pub pipeline: Pipeline,
    pub state: State,
}

/// Where a run continues.
#[derive(Debug)]
pub enum ResumeAt {
    /// Where it stands.
    Newest,
    /// At a node it has reached before.
    Node(NodeId),
    /// After a turn. What came later is left.
    Turn {
        /// The turn, and what the run was then.
        point: Box<RunPoint>,
        /// How an agent goes on that was in the middle of its node, if that was asked for.
        via: Option<RewindVia>,
    },
}

/// Reads a session to resume. The caller holds its locks.
pub(super) fn find(repo: &Repo, run: &RunId) -> Result<RecordedSession, Error> {
    let found = read(repo, run)?;
    match over(&found, run) {
        Some(over) => Err(over),
        None => Ok(found),
    }
}

/// Why a session cannot be resumed. A failed session can be, at the node it failed at; a failed task continues with its
/// next attempt instead.
fn over_for_good(found: &RecordedSession, id: &RunId) -> Option<Error> {
    let failed = matches!(found.state.phase, Phase::Failed { .. }) && found.state.task.is_none();
    over(found, id).filter(|_| !failed)
}

/// The node to restart at, if the session does not resume where it stands.
fn starts_at(state: &State, id: &RunId, wanted: Option<&NodeId>) -> Result<Option<NodeId>, Error> {
    let Some(node) = wanted.or(state.failed_node()) else { return Ok(None) };
    if state.can_start_at(node) {
        return Ok(Some(node.clone()));
    }
    let visited = state.nodes.keys().map(|node| format!("`{node}`")).collect::<Vec<_>>();
    Err(Error::NotVisited { run: id.clone(), node: node.clone(), visited: listed(&visited, usize::MAX) })
}

/// Why a session counts as ended.
fn over(found: &RecordedSession, id: &RunId) -> Option<Error> {
    let phase = &found.state.phase;
    let goes_on = matches!(phase, Phase::Running | Phase::Paused { .. });
    (!goes_on).then(|| Error::Over { run: id.clone(), phase: phase.word() })
}

/// Reads a session to write to. The caller holds its locks.
pub(crate) fn read(repo: &Repo, run: impl Into<RunId>) -> Result<RecordedSession, Error> {
    let history = History::newest(repo, run)?;
    let pipeline = recorded_pipeline(&history.started)?;
    let state = recorded_state(&history, &pipeline)?;
    Ok(RecordedSession { history, pipeline, state })
}

/// Resumes a session if its newest record is still `seen`, so that it runs what was approved: where it stands, at the
/// node it failed at, or at `from`, which the run has visited before. Returns the session, and where uncommitted work
/// of the killed process was saved. A completed or cancelled session is an error; its branch still catches up with its
/// record.
pub async fn resume_session(
    engine: Arc<Engine>,
    repos: SessionRepos,
    id: &RunId,
    seen: CommitId,
    at: &ResumeAt,
    opened: OnOpen<'_>,
) -> Result<(Session, Option<String>), Error> {
    let (mut starts, mut goes_back) = (None, false);
    let mut session = tokio::task::block_in_place(|| {
        let repo = repos.record();
        let (locks, found) = Locks::take(repo, id)?.with(|| read(repo, id))?;
        let over = over_for_good(&found, id);
        if over.is_none() && found.history.tip != seen {
            return Err(Error::Replaced { run: id.clone() });
        }
        let mut found = found;
        if over.is_none() {
            match at {
                ResumeAt::Newest => starts = starts_at(&found.state, id, None)?,
                ResumeAt::Node(node) => starts = starts_at(&found.state, id, Some(node))?,
                ResumeAt::Turn { point, .. } if point.is_newest => starts = starts_at(&found.state, id, None)?,
                ResumeAt::Turn { point, via } => {
                    // Whoever goes on with it records so in its root: it is still as it was when the point was read.
                    going_back::record_return(&engine, &repos, point, *via, &found.history, &found.state)?;
                    found = read(repo, id)?;
                    goes_back = true;
                }
            }
        }
        let mut session = open_recorded(engine, repos, locks, found, None, FIRST_SLOT)?;
        match over {
            Some(over) => session::bring_up(&mut session).and(Err(over)),
            None => Ok(session),
        }
    })?;
    if !goes_back {
        record_resumed(&mut session, starts)?;
    }
    session.plan.push.claim().await;
    session.check_own()?;
    opened(&session);
    let kept = go_on(&mut session).await?;
    Ok((session, kept))
}

/// Moves branch and worktree of every open context to its newest record. Returns where work was saved.
pub(super) async fn go_on(session: &mut Session) -> Result<Option<String>, Error> {
    let mut kept = Vec::new();
    for context in session.open_contexts() {
        let state = &session.context(&context).state;
        if state.is_branch && !state.has_started {
            continue;
        }
        let went_on = worktrees::go_on(session.context_mut(&context)).await;
        kept.extend(start::pause_if_interrupted(session, went_on)?);
        // A killed run may have had no time for that.
        tokio::task::block_in_place(|| fan_out::clean_up(session.context_mut(&context)))?;
    }
    Ok((!kept.is_empty()).then(|| kept.join(" and ")))
}

pub(super) fn open_recorded(
    engine: Arc<Engine>,
    repos: SessionRepos,
    locks: Locks,
    found: RecordedSession,
    job: Option<Arc<TaskJob>>,
    slot: u32,
) -> Result<Session, Error> {
    let RecordedSession { history, pipeline, state } = found;
    let repo = repos.record().clone();
    let (run, id) = (history.run(), history.session.clone());
    let end = history.end(&state);
    let context = history.context.clone();
    let recorder = Recorder::resume(repo.clone(), id.clone(), context.clone(), engine.redactor.clone(), end);
    let events = history.events().count();
    let started = history.started;
    let recorder = recorder.on_task(started.task.as_ref().map(|task| task.id.clone()));
    let Locks { session, mut worktrees } = locks;
    let lock = worktrees.remove(&context).expect("the lock of the root's worktree was taken");
    let opened = OpenedContext { id: context, state, recorder, lock, workspace: None, events, written: Vec::new() };
    let registered = engine.supervisor.register(&repo, &run, &engine.cancel);
    let plan = SessionPlan::new(run, started, pipeline, repos, job, registered.cancel.clone())?;
    let plan = SessionPlan { slot, ..plan };
    let mut session = Session::new(engine, registered, repo, plan, session, opened);
    fork::open_forks(&mut session, worktrees)?;
    Ok(session)
}

/// Records in every open context that the session resumes, at `from` if given.
pub(super) fn record_resumed(session: &mut Session, from: Option<NodeId>) -> Result<(), Error> {
    let summary = from.as_ref().map_or_else(|| "resume".to_owned(), |node| format!("resume at {node}"));
    let root = session.root_id().clone();
    let others = session.open_contexts().into_iter().filter(|context| *context != root);
    let all: Vec<ContextId> = std::iter::once(root.clone()).chain(others).collect();
    for context in all {
        let from = from.clone().filter(|_| context == root);
        let batch = Batch { summary: summary.clone(), ..Batch::default() };
        let event = Resumed { from, ..Resumed::default() };
        recording::record(session.context_mut(&context), batch, vec![event.into()], clock::now())?;
    }
    Ok(())
}
