//! Nothing is done twice in a run for the same reason, however its commits are read.

use super::Error;
use super::run::TreeRun;
use crate::ids::{CommitId, TaskId};

/// A task this run has done, or a gate it has run.
#[derive(Debug)]
pub(super) struct Completed {
    /// The newest steps before, because of which it was.
    because: Vec<CommitId>,
    /// Where the branch stood that it has landed on.
    landed: CommitId,
}

impl TreeRun {
    /// Because of which steps a task is worked or a gate run, unless this run has done it for the same ones: then its
    /// commits are not read as they were meant, and doing it once more would help as little.
    pub(super) fn not_again(&self, task: &TaskId, tasks: &[&TaskId]) -> Result<Vec<CommitId>, Error> {
        let newest = tasks.iter().filter_map(|task| self.progress.task(task).newest());
        let because: Vec<CommitId> = newest.map(|found| found.commit).collect();
        if let Some(did) = self.course.done.get(task).filter(|did| did.because == because)
            && (self.repo.history().is_ancestor(did.landed, self.landing_tip(task)?)?
                || self.repo.history().is_ancestor(did.landed, self.seen)?)
        {
            let status = self.progress.task(task).status.as_str();
            let (because, is_task) = (because.last().copied(), self.plan.tree.is_leaf(task));
            return Err(Error::StillOpen { task: task.clone(), status, because, is_task });
        }
        Ok(because)
    }

    /// Notes that a task is done, or a gate was run, because of these steps.
    pub(super) fn note_done(&mut self, task: &TaskId, because: Vec<CommitId>) -> Result<(), Error> {
        let landed = self.landing_tip(task)?;
        self.course.done.insert(task.clone(), Completed { because, landed });
        Ok(())
    }
}
