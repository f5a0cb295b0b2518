//! A tree run: pick the next action, do it, land it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Error;
use super::plan::TreePlan;
use super::run_state::RunState;
use super::stamp::Stamp;
use crate::env::{Engine, RunLedger, Subscription};
use git::workspace::{branch_ref, phase_branch, task_branch};
use git::{BlobId, Repo};
use pleach_core::ids::{BranchName, CommitId, RepoName, TaskId};
use pleach_core::merge::LandingTarget;
use pleach_core::progress::Progress;
use pleach_core::schedule::{NextAction, Schedule};

/// A tree run. It is the only writer of its tasks.
#[derive(Debug)]
pub struct TreeRun {
    pub(super) engine: Arc<Engine>,
    pub(super) repo: Repo,
    pub(super) plan: Arc<TreePlan>,
    pub(super) state: RunState,
    pub(super) progress: Progress,
    /// The progress of the tree's other repositories, when it was last looked at.
    pub(super) others: BTreeMap<RepoName, Progress>,
    /// The number of done and landed tasks.
    pub(super) done: usize,
    /// The target's tip when the progress was read, or where this run has moved it since.
    pub(super) seen: CommitId,
    pub(super) schedule: Schedule,
    /// The stamp of the tree's file at the last check.
    pub(super) stamp: Option<Stamp>,
    /// The initial warnings were published.
    pub(super) greeted: bool,
    /// The tree's file, once it is written for the records.
    pub(super) document: Option<BlobId>,
    /// The spending of the run's sessions, once it is needed.
    pub(super) spending: Option<RunLedger>,
}

impl TreeRun {
    /// Subscribes to its events and those of its sessions from now on.
    pub fn events(&self) -> Subscription {
        self.engine.events.subscribe()
    }

    /// The progress of the tasks so far.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The first action.
    pub fn next(&self) -> NextAction {
        self.schedule.next()
    }

    /// Whether the run still has to write its opening commit. Ad-hoc tasks have none.
    pub(super) fn begins_now(&self) -> bool {
        let has_start = self.plan.name.file().is_some();
        has_start && !self.state.opened && (self.plan.fresh || !self.progress.is_begun(&self.plan.tree))
    }

    /// Restricts a run for one task to the task just done and what belongs to it: the tests and the merge of a phase
    /// belong to the task that completes it.
    pub(super) fn choose(&mut self, task: TaskId) {
        if self.plan.one && self.state.chosen.is_none() {
            self.state.chosen = Some(task);
            self.schedule = self.state.schedule(&self.plan, &self.progress);
        }
    }

    pub(super) fn read_again(&mut self) -> Result<(), Error> {
        self.seen = target_tip(&self.repo, &self.plan.target)?;
        let progress = tokio::task::block_in_place(|| self.state.reader.read(&self.plan.name))?;
        self.progress = self.plan.beside_others(self.plan.of_own(progress), &self.others);
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

    pub(super) fn branch_of(&self, task: &TaskId) -> Result<BranchName, Error> {
        Ok(task_branch(&self.plan.branch_prefix, &self.plan.target, task)?)
    }

    /// The branch a task lands on: the target, or its phase's. The result of a phase's tests lands where the tested
    /// code is.
    pub(super) fn lands_on(&self, task: &TaskId) -> Result<BranchName, Error> {
        let phase = self.plan.tree.phase_of(task);
        let is_leaf = self.plan.tree.is_leaf(task);
        if if is_leaf { self.schedule.gathers(phase) } else { self.schedule.is_ahead(phase) } {
            Ok(phase_branch(&self.plan.branch_prefix, &self.plan.target, phase)?)
        } else {
            Ok(self.plan.target.clone())
        }
    }

    /// The tip of the branch a task lands on.
    pub(super) fn landing_tip(&self, task: &TaskId) -> Result<CommitId, Error> {
        self.tip_or_target(&self.lands_on(task)?)
    }

    /// The tip of a branch. A phase's branch starts at the target.
    pub(super) fn tip_or_target(&self, on: &BranchName) -> Result<CommitId, Error> {
        match self.repo.refs().find(&branch_ref(on))? {
            Some(tip) => Ok(tip),
            None => target_tip(&self.repo, &self.plan.target),
        }
    }

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

/// The tip of a target.
pub(super) fn target_tip(repo: &Repo, target: &BranchName) -> Result<CommitId, Error> {
    repo.refs().find(&branch_ref(target))?.ok_or_else(|| Error::NoTarget(target.clone()))
}
