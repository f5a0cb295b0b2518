//! Contexts that fork from others. The parent's record is enough to start a fork, so a crash between the two records
//! loses nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::context::{Context, OpenedContext};
use super::{Session, going_back};
use crate::env::{Error, worktree_lock};
use crate::push::RefNote;
use crate::view::{folded, recorded_state};
use git::record::{self, Batch, History, Recorder};
use git::workspace::Lock;
use pleach_core::clock;
use pleach_core::event::{ContextForked, Event, ForkKind, Recorded};
use pleach_core::ids::{CommitId, ContextId};
use pleach_core::state::{FanOut, State};

/// Where a context starts: the record of the fork, and the state folded up to it.
pub(super) struct ForkOrigin {
    pub record: CommitId,
    pub fork_event: Recorded,
    pub state: State,
}

/// Opens the branches of fan-outs that are not over, and recursively those forked from them. Of the other contexts only
/// the spending still counts.
pub(super) fn open_forks(session: &mut Session, mut locks: BTreeMap<ContextId, Lock>) -> Result<(), Error> {
    let mut parents = vec![session.root_id().clone()];
    while let Some(parent) = parents.pop() {
        let state = Arc::clone(&session.context(&parent).state);
        for fork in state.forks.values() {
            let id = fork.context.clone();
            if !is_open(state.fan_out.as_ref(), &id) {
                close_fork(session, &id)?;
                continue;
            }
            let lock = match locks.remove(&id) {
                Some(lock) => lock,
                None => worktree_lock(&session.repo, &session.plan.run.session, &id)?,
            };
            let mut child = open_fork(session, &parent, fork, lock)?;
            follow_back(session, &state, &mut child)?;
            session.add(child);
            parents.push(id);
        }
        // What a return has left has been paid for.
        for left in state.taken.iter().filter(|context| !state.forks.contains_key(*context)) {
            close_fork(session, left)?;
        }
    }
    Ok(())
}

fn is_open(fan_out: Option<&FanOut>, context: &ContextId) -> bool {
    let open = fan_out.filter(|fan_out| !fan_out.is_over);
    open.and_then(|fan_out| fan_out.branch(context)).is_some_and(|branch| branch.ended.is_none())
}

/// Counts turns and spending of a context that has ended, and those forked from it.
fn close_fork(session: &mut Session, context: &ContextId) -> Result<(), Error> {
    let mut closed = vec![context.clone()];
    while let Some(context) = closed.pop() {
        match History::newest_in(&session.repo, &session.plan.run.session, &context) {
            Ok(history) => {
                let state = recorded_state(&history, &session.plan.pipeline)?;
                session.count_closed(context, &state);
                let left = state.taken.into_iter().filter(|context| !state.forks.contains_key(context));
                closed.extend(left.collect::<Vec<_>>());
                closed.extend(state.forks.into_keys());
            }
            // It was forked and never started.
            Err(record::Error::Missing { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn open_fork(session: &Session, parent: &ContextId, fork: &ContextForked, lock: Lock) -> Result<Context, Error> {
    match History::newest_in(&session.repo, &session.plan.run.session, &fork.context) {
        Ok(history) => {
            let state = recorded_state(&history, &session.plan.pipeline)?;
            session.plan.push.note(session.plan.work_in_others(&state));
            let end = history.end(&state);
            let (repo, redactor) = (session.repo.clone(), session.engine.redactor.clone());
            let recorder =
                Recorder::resume(repo, session.plan.run.session.clone(), fork.context.clone(), redactor, end);
            let task = session.plan.started.task.as_ref().map(|task| task.id.clone());
            let events = history.events().count();
            Ok(session.new_context(OpenedContext {
                id: fork.context.clone(),
                state,
                recorder: recorder.on_task(task),
                lock,
                workspace: None,
                events,
                written: Vec::new(),
            }))
        }
        Err(record::Error::Missing { .. }) if fork.kind == ForkKind::Replay => begin_replay(session, fork, lock),
        Err(record::Error::Missing { .. }) => {
            let history = History::all_in(&session.repo, &session.plan.run.session, parent)?;
            let origin = origin(session, &history, fork)?;
            begin_fork(session.context(parent), origin, lock)
        }
        Err(error) => Err(error.into()),
    }
}

/// A branch goes back with the context it is forked from. A crash may have kept it from doing so.
fn follow_back(session: &Session, parent: &State, branch: &mut Context) -> Result<(), Error> {
    let Some(back) = going_back::following(parent, &branch.state) else { return Ok(()) };
    let history = History::up_to(&session.repo, &session.plan.run.session, &branch.id, back.to)?;
    let then = recorded_state(&history, &session.plan.pipeline)?;
    let now = Arc::clone(&branch.state);
    let (state, event) = going_back::append(&session.plan.repos, &mut branch.recorder, back, &now, then)?;
    branch.returned(state, event);
    session.plan.push.note(session.plan.work_in_others(&branch.state));
    Ok(())
}

/// The origin of a context whose own chain was never written.
fn origin(session: &Session, history: &History, fork: &ContextForked) -> Result<ForkOrigin, Error> {
    let mut events = 0;
    for record in history.records.iter() {
        events += record.events.len();
        let Some(first) = record.events.first().filter(|_| record.context == fork.from) else { continue };
        let told = record.events.iter().find(|recorded| recorded.event == Event::from(fork.clone()));
        // Of the branches that had not begun when a replay did, only its state knows.
        let is_inherited = matches!(&first.event, Event::ContextForked(own) if own.context == fork.from && own.kind == ForkKind::Replay);
        let inherited = is_inherited.then(|| Recorded { at: first.at, event: fork.clone().into() });
        let Some(fork_event) = told.cloned().or(inherited) else { continue };
        let state = folded(history, &session.plan.start_node, events)?;
        if state.forks.get(&fork.context) == Some(fork) {
            return Ok(ForkOrigin { record: record.commit, fork_event, state });
        }
    }
    let why = format!("context `{}` is in no record", fork.context);
    Err(Error::Worker { node: fork.node_id.clone(), why })
}

/// Writes the first record of a branch that was open where its run was forked from another one.
fn begin_replay(session: &Session, fork: &ContextForked, lock: Lock) -> Result<Context, Error> {
    let missing = || record::Error::Missing { session: session.plan.run.session.clone() };
    let to = fork.replayed.as_ref().map(|replayed| replayed.to).ok_or_else(missing)?;
    let history = History::up_to(&session.repo, &session.plan.run.session, &fork.from, to)?;
    let mut state = recorded_state(&history, &session.plan.pipeline)?;
    let end = history.end(&state);
    let fork = ContextForked { base: state.work.clone(), ..fork.clone() };
    let fork_event = Recorded { at: clock::now(), event: fork.clone().into() };
    state.apply(&fork_event)?;
    let (id, redactor) = (fork.context.clone(), session.engine.redactor.clone());
    let recorder = Recorder::replay(session.repo.clone(), session.plan.run.session.clone(), id.clone(), redactor, end);
    let mut recorder = recorder;
    let batch = Batch {
        summary: format!("replay {} as {id}", fork.from),
        work: state.work.get(session.plan.repos.record_name()).copied().into_iter().collect(),
        events: vec![fork_event],
        ..Batch::default()
    };
    let first = recorder.append(session.repo.writer(), &batch)?;
    let (repo, name) = (session.plan.repos.record_name().clone(), recorder.reference());
    session.plan.push.note([RefNote { repo, name, commit: first }]);
    session.plan.mirror.recorded(&id);
    let events = history.events().count() + 1;
    let opened = OpenedContext { id, state, recorder, lock, workspace: None, events, written: batch.events };
    Ok(session.new_context(opened))
}

/// Writes the first record of a context. Text and date come from its parent's record, so that it is the same whenever
/// it is written.
pub(super) fn begin_fork(parent: &Context, origin: ForkOrigin, lock: Lock) -> Result<Context, Error> {
    let ForkOrigin { record, fork_event, mut state } = origin;
    let messages = state.messages;
    state.apply(&fork_event)?;
    let mut recorder = parent.recorder.fork(state.id.clone(), record, messages);
    let batch = Batch {
        summary: format!("fork {} from {}", state.id, parent.id),
        work: state.base.get(parent.plan.repos.record_name()).copied().into_iter().collect(),
        events: vec![fork_event],
        ..Batch::default()
    };
    let first = recorder.append(parent.repo.writer(), &batch)?;
    let (repo, name) = (parent.plan.repos.record_name().clone(), recorder.reference());
    parent.plan.push.note([RefNote { repo, name, commit: first }]);
    parent.plan.mirror.recorded(&state.id);
    let (id, written) = (state.id.clone(), batch.events);
    let opened = OpenedContext { id, state, recorder, lock, workspace: None, events: 1, written };
    Ok(Context::new(Arc::clone(&parent.engine), parent.repo.clone(), Arc::clone(&parent.plan), opened))
}
