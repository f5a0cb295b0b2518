//! What the sessions of a tree's run have spent: a limit of the run, and of a task, counts all of them.

use std::collections::BTreeMap;

use super::Error;
use super::run::TreeRun;
use crate::budget::Amount;
use crate::engine::Session;
use crate::engine::budget::{Earlier, Uncounted, spent_in};
use crate::ids::{SessionId, TaskId};
use crate::record::{History, root_ref};

/// What each session has spent, and on which task.
pub(super) type Spending = BTreeMap<SessionId, (TaskId, Amount)>;

impl TreeRun {
    /// Tells a session what the others of this run have spent.
    pub(super) fn tell_spent(&mut self, session: &mut Session) -> Result<(), Error> {
        let spends = self.engine.agent_nodes(session.pipeline()).next().is_some();
        if !spends || !self.engine.budget.counts_runs() {
            return Ok(());
        }
        let spending = match self.spending.take() {
            Some(spending) => spending,
            None => tokio::task::block_in_place(|| self.read_spending())?,
        };
        let (own, task) = (session.id(), &session.task().id);
        let others = spending.iter().filter(|(id, _)| *id != own).map(|(_, spent)| spent);
        let mut earlier = Earlier::default();
        for (of, amount) in others {
            earlier.run += *amount;
            if of == task {
                earlier.task += *amount;
            }
        }
        session.earlier = earlier;
        self.spending = Some(spending);
        Ok(())
    }

    /// Takes the working copy back from a session that is left, and remembers what it has spent.
    pub(super) fn take_back(&mut self, session: Session) {
        if let Some(spending) = &mut self.spending {
            let spent = (session.task().id.clone(), session.spent());
            spending.insert(session.id().clone(), spent);
        }
        self.course.seat = Some(session.leave());
    }

    fn read_spending(&self) -> Result<Spending, Error> {
        let mut spending = Spending::new();
        for id in History::sessions(&self.repo)? {
            let read = || match History::task_summary(&self.repo, &id)? {
                Some(_) => History::newest(&self.repo, &id).map(Some),
                None => Ok(None),
            };
            let read = self.engine.budget.counted(&root_ref(&id), Uncounted::RUN, read())?;
            let Some(history) = read.flatten() else { continue };
            let Some(task) = &history.started.task else { continue };
            let is_of_tree = task.target == self.plan.target && task.tree == self.plan.path;
            if is_of_tree && self.was_begun_in_run(&history)? {
                spending.insert(id, (task.id.clone(), spent_in(&history).total));
            }
        }
        Ok(spending)
    }

    /// Whether a session was begun in the run that counts. Within the second of its start only the commits can tell.
    fn was_begun_in_run(&self, history: &History) -> Result<bool, Error> {
        let Some(run) = self.progress.run_starts.iter().map(|start| start.at.as_second()).min() else {
            return Ok(true);
        };
        let begun = history.started_at.as_second();
        if begun != run {
            return Ok(begun > run);
        }
        match history.started.built_on() {
            Some(base) => self.is_of_run(base),
            None => Ok(false),
        }
    }
}
