//! Contexts that fork from others. The parent's record is enough to start a fork, so a crash between the two records
//! loses nothing.

use std::collections::BTreeMap;

use super::context::{Context, OpenedContext};
use super::locks::worktree_lock;
use super::recorded::recorded_state;
use super::{Error, Session, start};
use crate::clock;
use crate::engine::context::{begin_node, recording, worktrees};
use crate::event::{ContextForked, Event, ForkKind, Recorded};
use crate::ids::{BranchName, CommitId, ContextId, NodeId, RepoName};
use crate::record::{self, Batch, History, Recorder, context_ref};
use crate::state::State;
use crate::workspace::{Lock, branch_ref};

/// Where a context starts: the record of the fork, and the state folded up to it.
struct ForkOrigin {
    record: CommitId,
    told: Recorded,
    state: State,
}

/// Forks a context at a node, with its own branch and worktree.
pub async fn fork_context(session: &mut Session, from: &ContextId, node: &NodeId) -> Result<ContextId, Error> {
    if session.plan.pipeline.node(node).is_none() {
        return Err(Error::Worker { node: node.clone(), why: "the pipeline has no such node".into() });
    }
    let context = tokio::task::block_in_place(|| {
        let parent = session.context_mut(from);
        let context = parent.state.fork_name(node);
        let forked = ContextForked {
            from: from.clone(),
            context: context.clone(),
            kind: ForkKind::Parallel,
            node_id: node.clone(),
            base: parent.state.work.clone(),
            branches: fork_branches(parent, &context)?,
            extra: Default::default(),
        };
        let lock = worktree_lock(&session.repo, &session.plan.id, &context)?;
        let origin = record_fork(session.context_mut(from), forked)?;
        let child = begin_fork(session, from, origin, lock)?;
        session.add(child);
        Ok::<_, Error>(context)
    })?;
    let made = worktrees::make_copy(session.context_mut(&context)).await;
    start::pause_if_interrupted(session, made)?;
    Ok(context)
}

/// Opens all forked contexts, and recursively those forked from them.
pub(super) fn open_forks(session: &mut Session, mut locks: BTreeMap<ContextId, Lock>) -> Result<(), Error> {
    let mut parents = vec![session.root_id().clone()];
    while let Some(parent) = parents.pop() {
        let forks: Vec<ContextForked> = session.context(&parent).state.forks.values().cloned().collect();
        for fork in forks {
            let id = fork.context.clone();
            let lock = match locks.remove(&id) {
                Some(lock) => lock,
                None => worktree_lock(&session.repo, &session.plan.id, &id)?,
            };
            // Only this context uses these refs, so a lock on one of them was left by a killed run.
            session.repo.refs().remove_stale_lock(&context_ref(&session.plan.id, &id))?;
            for branch in fork.branches.values() {
                session.repo.refs().remove_stale_lock(&branch_ref(branch))?;
            }
            let child = open_fork(session, &parent, &fork, lock)?;
            session.add(child);
            parents.push(id);
        }
    }
    Ok(())
}

fn open_fork(session: &Session, parent: &ContextId, fork: &ContextForked, lock: Lock) -> Result<Context, Error> {
    match History::newest_in(&session.repo, &session.plan.id, &fork.context) {
        Ok(history) => {
            let state = recorded_state(&history, &session.plan.pipeline)?;
            let newest = (history.first, history.tip, state.messages);
            let (repo, redactor) = (session.repo.clone(), session.engine.redactor.clone());
            let recorder = Recorder::resume(repo, session.plan.id.clone(), fork.context.clone(), redactor, newest);
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
            begin_fork(session, parent, origin, lock)
        }
        Err(error) => Err(error.into()),
    }
}

/// The origin of a context whose own chain was never written.
fn origin(session: &Session, history: &History, fork: &ContextForked) -> Result<ForkOrigin, Error> {
    let mut state = State::new(session.plan.start_node.clone());
    for record in &history.records {
        for told in &record.events {
            state.apply(told)?;
        }
        let told = record.events.iter().find(|told| told.event == Event::from(fork.clone()));
        if let Some(told) = told.filter(|_| record.context == fork.from) {
            return Ok(ForkOrigin { record: record.commit, told: told.clone(), state });
        }
    }
    let why = format!("context `{}` is in no record", fork.context);
    Err(Error::Worker { node: fork.node_id.clone(), why })
}

/// Writes the first record of a context. Text and date come from its parent's record, so that it is the same whenever
/// it is written.
fn begin_fork(session: &Session, parent: &ContextId, origin: ForkOrigin, lock: Lock) -> Result<Context, Error> {
    let ForkOrigin { record, told, mut state } = origin;
    let messages = state.messages;
    state.apply(&told)?;
    let mut recorder = session.context(parent).recorder.fork(state.id.clone(), (record, messages));
    let batch = Batch {
        summary: format!("fork {} from {parent}", state.id),
        work: state.base.values().copied().collect(),
        events: vec![told],
        ..Batch::default()
    };
    recorder.append(session.repo.writer(), &batch)?;
    let (id, written) = (state.id.clone(), batch.events);
    Ok(session.new_context(OpenedContext { id, state, recorder, lock, workspace: None, events: 1, written }))
}

/// The branches of a fork of this context.
fn fork_branches(parent: &Context, context: &ContextId) -> Result<BTreeMap<RepoName, BranchName>, Error> {
    let beside = |(repo, branch): (&RepoName, &BranchName)| {
        let branch = BranchName::new(format!("{branch}--{context}"));
        Ok((repo.clone(), branch.map_err(|error| Error::Name(error.to_string()))?))
    };
    parent.plan.started.branches.iter().map(beside).collect()
}

/// Records the fork in the parent.
fn record_fork(context: &mut Context, forked: ContextForked) -> Result<ForkOrigin, Error> {
    let batch = Batch {
        summary: format!("fork {} at {}", forked.context, forked.node_id),
        work: forked.base.values().copied().collect(),
        ..Batch::default()
    };
    let told = Recorded { at: clock::now(), event: forked.into() };
    recording::record(context, batch, vec![told.event.clone()], told.at)?;
    Ok(ForkOrigin { record: begin_node::newest_record(context), told, state: State::clone(&context.state) })
}
