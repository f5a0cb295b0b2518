//! Deletes the branches of tasks and phases whose commits are on the target. The records of their sessions keep what was
//! built anew on the way there.

use super::Error;
use super::run::{TreeRun, target_tip};
use crate::event::WarningCode;
use crate::git::SwapError;
use crate::ids::{BranchName, CommitId, TaskId};
use crate::progress::{StepPlace, TaskStatus, print};
use crate::workspace::{branch_ref, phase_branches, task_branches};

impl TreeRun {
    /// Deletes the branches that have nothing the target lacks, unless somebody wants to keep them. A branch that cannot
    /// be deleted stays, with a warning: the work is where it belongs.
    pub(super) fn delete_landed_branches(&self) -> Result<(), Error> {
        if !self.plan.delete_branches {
            return Ok(());
        }
        tokio::task::block_in_place(|| {
            let target = target_tip(&self.repo, &self.plan.target)?;
            for (branch, tip) in self.landed_branches(target)? {
                // Under a checkout, HEAD would lead nowhere.
                if !self.repo.checkouts_of(&branch)?.is_empty() {
                    continue;
                }
                let name = branch_ref(&branch);
                // Nobody but who has the target writes this one, so a lock on it was left by a killed run.
                self.repo.release_stale_lock(&name)?;
                match self.repo.delete(&name, tip, "pleach: landed") {
                    Ok(()) => {}
                    // Somebody is just using it.
                    Err(SwapError::Stale { .. }) => {}
                    Err(error) => self.engine.warn(
                        WarningCode::BranchNotDeleted
                            .with(format!("`{branch}` has landed and is not deleted: {error}")),
                    ),
                }
            }
            Ok(())
        })
    }

    /// The branches of this tree that have nothing the target lacks, with where they stand.
    fn landed_branches(&self, target: CommitId) -> Result<Vec<(BranchName, CommitId)>, Error> {
        let mut landed = Vec::new();
        for (id, branch, tip) in self.branches_below(&task_branches(&self.plan.branch_prefix, &self.plan.target))? {
            if self.has_landed(&id) && (self.repo.is_ancestor(tip, target)? || self.is_copied(&id, tip)?) {
                landed.push((branch, tip));
            }
        }
        for (id, branch, tip) in self.branches_below(&phase_branches(&self.plan.branch_prefix, &self.plan.target))? {
            if self.plan.tree.node(&id).is_some() && self.repo.is_ancestor(tip, target)? {
                landed.push((branch, tip));
            }
        }
        Ok(landed)
    }

    /// The branches below a prefix that can be read, each with the task or phase it is named after.
    fn branches_below(&self, prefix: &str) -> Result<Vec<(TaskId, BranchName, CommitId)>, Error> {
        let all = self.repo.unread_references(&format!("refs/heads/{prefix}"))?.into_iter();
        Ok(all
            .filter_map(|(name, tip)| {
                let branch = BranchName::new(name.strip_prefix("refs/heads/")?).ok()?;
                let id = TaskId::new(branch.as_str().strip_prefix(prefix)?).ok()?;
                Some((id, branch, tip.filter(|tip| self.repo.commit(*tip).is_ok())?))
            })
            .collect())
    }

    /// Whether a task is complete on the target, or what the tests of a phase last said is there. The code of a task that
    /// was given up is on its branch alone.
    fn has_landed(&self, id: &TaskId) -> bool {
        let state = self.progress.task(id);
        let is_there = state.newest().is_some_and(|newest| newest.on == StepPlace::Target);
        let is_under_way = self.course.unfinished.contains_key(id);
        is_there && !is_under_way && (state.status == TaskStatus::Complete || !self.plan.tree.is_leaf(id))
    }

    /// Whether the target has the step a branch ends in as a copy, built anew there.
    fn is_copied(&self, id: &TaskId, tip: CommitId) -> Result<bool, Error> {
        let newest = self.repo.message_of(tip)?;
        let tip = print(&newest.message, newest.seconds, newest.offset);
        Ok(self.progress.task(id).newest().is_some_and(|newest| newest.print == tip))
    }
}
