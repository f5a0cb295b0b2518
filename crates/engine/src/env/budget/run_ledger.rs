//! What runs that share a budget spend: the sessions of a tree run, or several runs of a session. A limit of the run holds
//! for all of them while they work side by side.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use pleach_core::budget::Amount;
use pleach_core::ids::{RunId, TaskId};

/// What each run has spent, and the task it works on.
type SpentByRun = BTreeMap<RunId, (Option<TaskId>, Amount)>;

/// The spending of runs that share a budget.
#[derive(Debug, Clone, Default)]
pub struct RunLedger(Arc<Mutex<SpentByRun>>);

/// What the others have spent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OthersSpending {
    /// All of them.
    pub run: Amount,
    /// Those on the same task.
    pub task: Amount,
}

impl RunLedger {
    /// Notes what a run has spent in all.
    pub(crate) fn set(&self, run: &RunId, task: Option<&TaskId>, spent: Amount) {
        self.entries(|entries| drop(entries.insert(run.clone(), (task.cloned(), spent))));
    }

    /// What all but this run have spent.
    pub(crate) fn others(&self, run: &RunId, task: Option<&TaskId>) -> OthersSpending {
        self.entries(|entries| {
            let mut others = OthersSpending::default();
            for (entry_task, amount) in entries.iter().filter(|(id, _)| *id != run).map(|(_, entry)| entry) {
                others.run += *amount;
                if task.is_some() && entry_task.as_ref() == task {
                    others.task += *amount;
                }
            }
            others
        })
    }

    fn entries<T>(&self, work: impl FnOnce(&mut SpentByRun) -> T) -> T {
        // A thread that panicked here has changed one entry, or none.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
