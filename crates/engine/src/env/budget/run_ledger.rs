//! What the sessions of a tree run spend. They share it, so that a limit of the run holds while several of them work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use pleach_core::budget::Amount;
use pleach_core::ids::{SessionId, TaskId};

/// The spending of each session of a run, and its task.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunLedger(Arc<Mutex<BTreeMap<SessionId, (TaskId, Amount)>>>);

/// What other sessions of a run have spent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OthersSpending {
    /// All of them.
    pub run: Amount,
    /// Those on the same task.
    pub task: Amount,
}

impl RunLedger {
    /// Notes what a session has spent in all.
    pub(crate) fn set(&self, session: &SessionId, task: &TaskId, spent: Amount) {
        self.entries(|entries| drop(entries.insert(session.clone(), (task.clone(), spent))));
    }

    /// What all sessions but this one have spent.
    pub(crate) fn others(&self, session: &SessionId, task: &TaskId) -> OthersSpending {
        self.entries(|entries| {
            let mut others = OthersSpending::default();
            for (entry_task, amount) in entries.iter().filter(|(id, _)| *id != session).map(|(_, entry)| entry) {
                others.run += *amount;
                if entry_task == task {
                    others.task += *amount;
                }
            }
            others
        })
    }

    fn entries<T>(&self, work: impl FnOnce(&mut BTreeMap<SessionId, (TaskId, Amount)>) -> T) -> T {
        // A thread that panicked here has changed one entry, or none.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
