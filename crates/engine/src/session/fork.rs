//! Contexts that fork from others. The parent's record is enough to start a fork, so a crash between the two records
//! loses nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Session;
use super::context::{Context, OpenedContext};
use crate::env::{Error, worktree_lock};
use crate::push::RefNote;
use crate::view::recorded_state;
use git::record::{self, Batch, ChainEnd, History, Recorder};
use git::workspace::Lock;
use pleach_core::event::{ContextForked, Event, Recorded};
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
                None => worktree_lock(&session.repo, &session.plan.id, &id)?,
            };
            let child = open_fork(session, &parent, fork, lock)?;
            session.add(child);
            parents.push(id);
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
        match History::newest_in(&session.repo, &session.plan.id, &context) {
            Ok(history) => {
                let state = recorded_state(&history, &session.plan.pipeline)?;
                session.count_closed(context, &state);
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
    match History::newest_in(&session.repo, &session.plan.id, &fork.context) {
        Ok(history) => {
            let state = recorded_state(&history, &session.plan.pipeline)?;
            session.plan.push.note(session.plan.work_in_others(&state));
            let end = ChainEnd { first: history.first, tip: history.tip, messages: state.messages };
            let (repo, redactor) = (session.repo.clone(), session.engine.redactor.clone());
            let recorder = Recorder::resume(repo, session.plan.id.clone(), fork.context.clone(), redactor, end);
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
        Err(record::Error::Missing { .. }) => {
            let history = History::all_in(&session.repo, &session.plan.id, parent)?;
            let origin = origin(session, &history, fork)?;
            begin_fork(session.context(parent), origin, lock)
        }
        Err(error) => Err(error.into()),
    }
}

/// The origin of a context whose own chain was never written.
fn origin(session: &Session, history: &History, fork: &ContextForked) -> Result<ForkOrigin, Error> {
    let mut state = State::new(session.plan.start_node.clone());
    for record in &history.records {
        for event in &record.events {
            state.apply(event)?;
        }
        let fork_event = record.events.iter().find(|recorded| recorded.event == Event::from(fork.clone()));
        if let Some(fork_event) = fork_event.filter(|_| record.context == fork.from) {
            return Ok(ForkOrigin { record: record.commit, fork_event: fork_event.clone(), state });
        }
    }
    let why = format!("context `{}` is in no record", fork.context);
    Err(Error::Worker { node: fork.node_id.clone(), why })
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
    let (id, written) = (state.id.clone(), batch.events);
    let opened = OpenedContext { id, state, recorder, lock, workspace: None, events: 1, written };
    Ok(Context::new(Arc::clone(&parent.engine), parent.repo.clone(), Arc::clone(&parent.plan), opened))
}
