//! Nothing is done twice in a run for the same reason, however its commits are read.

use super::Error;
use super::run::TreeRun;
use super::work::Worked;
use crate::ids::{CommitId, TaskId};
use crate::step::Attempt;

/// A task this run has done, or a gate it has run.
#[derive(Debug)]
pub(super) struct Did {
    /// The newest steps before, because of which it was.
    because: Vec<CommitId>,
    /// Where the branch stood that it has landed on.
    landed: CommitId,
}

impl TreeRun<'_> {
    /// Works a task from an attempt on, or lands one a run before this one has finished.
    pub(super) async fn task_once(&mut self, task: &TaskId, attempt: Option<(Attempt, u32)>) -> Result<Worked, Error> {
        let because = self.not_again(task, &[task])?;
        let worked = match attempt {
            Some((attempt, retry)) => self.work(task, attempt, retry).await?,
            None => self.land_waiting(task).await?,
        };
        if let Worked::Done(task) = &worked {
            self.note_done(task, because)?;
        }
        Ok(worked)
    }

    pub(super) async fn gate_once(&mut self, gate: &TaskId) -> Result<Worked, Error> {
        let because = self.not_again(gate, &self.plan.tree.leaves_below(gate))?;
        let worked = self.gate(gate).await?;
        if let Worked::GoOn = &worked {
            self.note_done(gate, because)?;
        }
        Ok(worked)
    }

    /// Because of which steps a task is worked or a gate run, unless this run has done it for the same ones: then its
    /// commits are not read as they were meant, and doing it once more would help as little.
    fn not_again(&self, task: &TaskId, tasks: &[&TaskId]) -> Result<Vec<CommitId>, Error> {
        let newest = tasks.iter().filter_map(|task| self.progress.task(task).newest());
        let because: Vec<CommitId> = newest.map(|found| found.commit).collect();
        if let Some(did) = self.course.done.get(task).filter(|did| did.because == because)
            && (self.repo.is_ancestor(did.landed, self.landing_tip(task)?)?
                || self.repo.is_ancestor(did.landed, self.seen)?)
        {
            let status = self.progress.task(task).status.as_str();
            let (because, is_task) = (because.last().copied(), self.plan.tree.is_leaf(task));
            return Err(Error::StillOpen { task: task.clone(), status, because, is_task });
        }
        Ok(because)
    }

    fn note_done(&mut self, task: &TaskId, because: Vec<CommitId>) -> Result<(), Error> {
        let landed = self.landing_tip(task)?;
        self.course.done.insert(task.clone(), Did { because, landed });
        Ok(())
    }
}
