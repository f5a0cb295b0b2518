//! Runs over one tree in several repositories, one after another: which of them goes on, and what they share.

use std::collections::BTreeSet;

use super::ended::TreeEnded;
use super::ending::ending;
use super::run::TreeRun;
use super::{Error, queued_marks, start};
use pleach_core::ids::{CommitId, TaskId};
use pleach_core::plan::tree::TaskTree;
use pleach_core::schedule::NextAction;

impl TreeRun {
    /// Writes the opening commit now. A tree that is restarted is so in all its repositories before anything is worked:
    /// what was done before in one of them must not count in another. Returns a value if the run cannot start.
    pub fn begin(&mut self) -> Result<Option<TreeEnded>, Error> {
        start::begin_run(self)
    }

    /// Writes what people have decided about its tasks while it was not under way.
    pub fn write_marks(&mut self) -> Result<(), Error> {
        tokio::task::block_in_place(|| queued_marks::write_marks(self, &BTreeSet::new()))
    }

    /// Reads again what became of the tree, here and in its other repositories.
    pub fn look_at_others(&mut self) -> Result<(), Error> {
        self.others = tokio::task::block_in_place(|| self.plan.others())?;
        self.read_again()
    }

    /// What it would start now, and the place of that in the tree; none if it can start nothing.
    pub fn to_start(&self) -> Option<(usize, NextAction)> {
        let waiting = &self.state.waiting;
        let starts = self.schedule.starts(waiting, waiting, waiting.len() + 1);
        let next = starts.into_iter().next()?;
        Some((place_in_order(&self.plan.tree, &next)?, next))
    }

    /// Where its target was when it was last looked at.
    pub fn target_at(&self) -> CommitId {
        self.seen
    }

    /// Whether a node is worked in its repository.
    pub fn works(&self, node: &TaskId) -> bool {
        self.plan.repos.as_ref().is_none_or(|repos| *repos.nodes.of(node) == self.plan.repo_name)
    }

    /// Restricts it to what belongs to a task that was done, in any of the repositories.
    pub fn restrict_to(&mut self, task: &TaskId) {
        self.choose(task.clone());
    }

    /// How it ends when nothing more is started.
    pub fn conclude(&mut self) -> Result<Option<TreeEnded>, Error> {
        let next = self.schedule.next();
        ending(self, next)
    }
}

/// The place of what is next in the order of the tree; none if nothing can be done.
pub fn place_in_order(tree: &TaskTree, next: &NextAction) -> Option<usize> {
    let node = next.node()?;
    let first = tree.leaves_below(node).first().copied().unwrap_or(node);
    Some(tree.order().iter().position(|task| task == first).unwrap_or(usize::MAX))
}
