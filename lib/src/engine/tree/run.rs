//! The run over a tree: ask what is next, do it, land it.

use std::sync::Arc;

use super::Error;
use super::plan::TreePlan;
use super::run_state::{RunState, Spending};
use super::stamp::Stamp;
use crate::engine::{Engine, Subscription};
use crate::git::{BlobId, Repo};
use crate::ids::{BranchName, CommitId, TaskId};
use crate::merge::LandingTarget;
use crate::progress::Progress;
use crate::schedule::{NextAction, Schedule};
use crate::workspace::{branch_ref, phase_branch, task_branch};

/// A run over a tree. The one writer of its target's tasks.
#[derive(Debug)]
pub struct TreeRun {
    pub(super) engine: Arc<Engine>,
    pub(super) repo: Repo,
    pub(super) plan: Arc<TreePlan>,
    pub(super) state: RunState,
    pub(super) progress: Progress,
    /// How many tasks are done and landed.
    pub(super) done: usize,
    /// What the target stood at when the progress was read, or where this run moved it since.
    pub(super) seen: CommitId,
    pub(super) schedule: Schedule,
    /// What the tree's file looked like when it was last looked at.
    pub(super) stamp: Option<Stamp>,
    /// Somebody was told what is special about it.
    pub(super) greeted: bool,
    /// The tree's file, once it is written for the records.
    pub(super) document: Option<BlobId>,
    /// What the sessions of the run have spent, once somebody had to know.
    pub(super) spending: Option<Spending>,
}

impl TreeRun {
    /// What is told of it, and of its sessions, from now on.
    pub fn events(&self) -> Subscription {
        self.engine.events.subscribe()
    }

    /// What has become of the tasks so far.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// What would be done first.
    pub fn next(&self) -> NextAction {
        self.schedule.next()
    }

    /// Whether the next thing this run does is to open itself.
    pub(super) fn begins_now(&self) -> bool {
        !self.state.opened && (self.plan.fresh || !self.progress.is_begun(&self.plan.tree))
    }

    /// Goes on with what belongs to a task that is done, and nothing else, where any one was asked for: the tests and the
    /// merge of its phase belong to the task that completes it.
    pub(super) fn choose(&mut self, task: TaskId) {
        if self.plan.one && self.state.chosen.is_none() {
            self.state.chosen = Some(task);
            self.schedule = self.state.schedule(&self.plan, &self.progress);
        }
    }

    pub(super) fn read_again(&mut self) -> Result<(), Error> {
        self.seen = target_tip(&self.repo, &self.plan.target)?;
        let progress = tokio::task::block_in_place(|| self.state.reader.read(&self.plan.path))?;
        self.progress = progress.of(&self.plan.tree);
        self.done = self.progress.done(&self.plan.tree);
        self.schedule.renew(&self.progress);
        Ok(())
    }

    /// Whether a commit is built on the start of the run that counts.
    pub(super) fn is_of_run(&self, commit: CommitId) -> Result<bool, Error> {
        let starts = &self.progress.run_starts;
        for start in starts.iter() {
            if self.repo.history().is_ancestor(start.commit, commit)? {
                return Ok(true);
            }
        }
        Ok(starts.is_empty())
    }

    /// The branch of a task.
    pub(super) fn branch_of(&self, task: &TaskId) -> Result<BranchName, Error> {
        Ok(task_branch(&self.plan.branch_prefix, &self.plan.target, task)?)
    }

    /// The branch a task lands on: the target, or its phase's. What the tests of a phase say stands where what they ran on
    /// is.
    pub(super) fn lands_on(&self, task: &TaskId) -> Result<BranchName, Error> {
        let phase = self.plan.tree.phase_of(task);
        let is_leaf = self.plan.tree.is_leaf(task);
        match if is_leaf { self.schedule.gathers(phase) } else { self.schedule.is_ahead(phase) } {
            true => Ok(phase_branch(&self.plan.branch_prefix, &self.plan.target, phase)?),
            false => Ok(self.plan.target.clone()),
        }
    }

    /// Where the branch stands a task lands on.
    pub(super) fn landing_tip(&self, task: &TaskId) -> Result<CommitId, Error> {
        self.tip_or_target(&self.lands_on(task)?)
    }

    /// Where a branch stands. A phase's begins at the target.
    pub(super) fn tip_or_target(&self, on: &BranchName) -> Result<CommitId, Error> {
        match self.repo.refs().find(&branch_ref(on))? {
            Some(tip) => Ok(tip),
            None => target_tip(&self.repo, &self.plan.target),
        }
    }

    /// A branch of the repository.
    pub(super) fn target_of(&self, branch: BranchName) -> LandingTarget {
        LandingTarget { repo: self.plan.repo_name.clone(), branch }
    }

    /// Whether a commit is on the branch a task lands on, or on the target.
    pub(super) fn is_on_target(&self, task: &TaskId, commit: CommitId) -> Result<bool, Error> {
        let (on, target) = (self.landing_tip(task)?, target_tip(&self.repo, &self.plan.target)?);
        Ok(self.repo.history().is_ancestor(commit, on)?
            || (on != target && self.repo.history().is_ancestor(commit, target)?))
    }
}

/// Where a target stands.
pub(super) fn target_tip(repo: &Repo, target: &BranchName) -> Result<CommitId, Error> {
    repo.refs().find(&branch_ref(target))?.ok_or_else(|| Error::NoTarget(target.clone()))
}
