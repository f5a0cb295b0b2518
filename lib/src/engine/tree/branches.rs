//! The branches a run works with: those of tasks, and the ones they land on.

use super::Error;
use super::run::{TreeRun, target_tip};
use crate::ids::{BranchName, CommitId, TaskId};
use crate::workspace::{branch_ref, phase_branch, task_branch};

impl TreeRun {
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
}
