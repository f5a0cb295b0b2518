//! Contexts that fork from others: begun on record, and opened again from it. What the parent's record says is enough to
//! begin one, so a crash between the two records loses nothing.

use std::collections::BTreeMap;

use super::context::{Context, Opened};
use super::locks::worktree_lock;
use super::resume::recorded_state;
use super::{Error, Session};
use crate::clock;
use crate::event::{ContextForked, Event, ForkKind, Recorded};
use crate::ids::{BranchName, CommitId, ContextId, NodeId, RepoName};
use crate::record::{self, Batch, History, Recorder, context_ref};
use crate::state::State;
use crate::workspace::{Lock, branch_ref};

/// Where a context begins: the record that tells of it, and what was folded up to it.
struct Origin {
    record: CommitId,
    told: Recorded,
    state: State,
}

impl Session {
    /// Lets another context begin at a node, beside the one it forks from, with its own branch and worktree.
    pub async fn fork(&mut self, from: &ContextId, node: &NodeId) -> Result<ContextId, Error> {
        if self.plan.pipeline.node(node).is_none() {
            return Err(Error::Worker { node: node.clone(), why: "the pipeline has no such node".into() });
        }
        let context = tokio::task::block_in_place(|| {
            let parent = self.context_mut(from);
            let context = parent.state.fork_name(node);
            let forked = ContextForked {
                from: from.clone(),
                context: context.clone(),
                kind: ForkKind::Parallel,
                node_id: node.clone(),
                base: parent.state.work.clone(),
                branches: parent.fork_branches(&context)?,
                extra: Default::default(),
            };
            let lock = worktree_lock(&self.repo, &self.plan.id, &context)?;
            let origin = self.context_mut(from).record_fork(forked)?;
            let child = self.begin_fork(from, origin, lock)?;
            self.add(child);
            Ok::<_, Error>(context)
        })?;
        let made = self.context_mut(&context).make_copy().await;
        self.pause_if_interrupted(made)?;
        Ok(context)
    }

    /// Opens the contexts that were forked, with all that were forked from those.
    pub(super) fn open_forks(&mut self, mut locks: BTreeMap<ContextId, Lock>) -> Result<(), Error> {
        let mut parents = vec![self.root_id().clone()];
        while let Some(parent) = parents.pop() {
            let forks: Vec<ContextForked> = self.context(&parent).state.forks.values().cloned().collect();
            for fork in forks {
                let id = fork.context.clone();
                let lock = match locks.remove(&id) {
                    Some(lock) => lock,
                    None => worktree_lock(&self.repo, &self.plan.id, &id)?,
                };
                // These refs are this context's alone, so a lock on one of them was left by a killed run.
                self.repo.refs().remove_stale_lock(&context_ref(&self.plan.id, &id))?;
                for branch in fork.branches.values() {
                    self.repo.refs().remove_stale_lock(&branch_ref(branch))?;
                }
                let child = self.open_fork(&parent, &fork, lock)?;
                self.add(child);
                parents.push(id);
            }
        }
        Ok(())
    }

    fn open_fork(&self, parent: &ContextId, fork: &ContextForked, lock: Lock) -> Result<Context, Error> {
        match History::newest_in(&self.repo, &self.plan.id, &fork.context) {
            Ok(history) => {
                let state = recorded_state(&history, &self.plan.pipeline)?;
                let newest = (history.first, history.tip, state.messages);
                let (repo, redactor) = (self.repo.clone(), self.engine.redactor.clone());
                let recorder = Recorder::resume(repo, self.plan.id.clone(), fork.context.clone(), redactor, newest);
                let task = self.plan.started.task.as_ref().map(|task| task.id.clone());
                let events = history.events().count();
                Ok(self.new_context(Opened {
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
                let history = History::all_in(&self.repo, &self.plan.id, parent)?;
                let origin = self.origin(&history, fork)?;
                self.begin_fork(parent, origin, lock)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Where a context begins whose own chain was never written.
    fn origin(&self, history: &History, fork: &ContextForked) -> Result<Origin, Error> {
        let mut state = State::new(self.plan.start_node.clone());
        for record in &history.records {
            for told in &record.events {
                state.apply(told)?;
            }
            let told = record.events.iter().find(|told| told.event == Event::from(fork.clone()));
            if let Some(told) = told.filter(|_| record.context == fork.from) {
                return Ok(Origin { record: record.commit, told: told.clone(), state });
            }
        }
        let why = format!("context `{}` is told of by no record", fork.context);
        Err(Error::Worker { node: fork.node_id.clone(), why })
    }

    /// Writes the first record of a context. Text and date come from its parent's, so that it is the same whenever it is
    /// written.
    fn begin_fork(&self, parent: &ContextId, origin: Origin, lock: Lock) -> Result<Context, Error> {
        let Origin { record, told, mut state } = origin;
        let messages = state.messages;
        state.apply(&told)?;
        let mut recorder = self.context(parent).recorder.fork(state.id.clone(), (record, messages));
        let batch = Batch {
            summary: format!("fork {} from {parent}", state.id),
            work: state.base.values().copied().collect(),
            events: vec![told],
            ..Batch::default()
        };
        recorder.append(self.repo.writer(), &batch)?;
        let (id, written) = (state.id.clone(), batch.events);
        Ok(self.new_context(Opened { id, state, recorder, lock, workspace: None, events: 1, written }))
    }
}

impl Context {
    /// The branches of a context that forks from this one.
    fn fork_branches(&self, context: &ContextId) -> Result<BTreeMap<RepoName, BranchName>, Error> {
        let beside = |(repo, branch): (&RepoName, &BranchName)| {
            let branch = BranchName::new(format!("{branch}--{context}"));
            Ok((repo.clone(), branch.map_err(|error| Error::Name(error.to_string()))?))
        };
        self.plan.started.branches.iter().map(beside).collect()
    }

    /// Tells of a context that forks from this one.
    fn record_fork(&mut self, forked: ContextForked) -> Result<Origin, Error> {
        let batch = Batch {
            summary: format!("fork {} at {}", forked.context, forked.node_id),
            work: forked.base.values().copied().collect(),
            ..Batch::default()
        };
        let told = Recorded { at: clock::now(), event: forked.into() };
        self.record(batch, vec![told.event.clone()], told.at)?;
        Ok(Origin { record: self.newest_record(), told, state: State::clone(&self.state) })
    }
}
