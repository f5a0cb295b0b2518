//! What came of working a queue.

use pleach_core::queue::{EntryState, QueueEntry};

/// The result of working a queue.
#[derive(Debug, Default)]
pub struct QueueOutcome {
    /// The landed entries, in order.
    pub landed: Vec<QueueEntry>,
    /// The open entries.
    pub open: Vec<QueueEntry>,
    /// What blocks the target.
    pub held: Option<String>,
    /// How many tests have run.
    pub tests: usize,
    /// Something waits because its tests are not approved.
    pub is_unapproved: bool,
    /// It was stopped before the end.
    pub is_stopped: bool,
}

impl QueueOutcome {
    /// The open entries in one of these states.
    pub fn in_state<'o>(&'o self, states: &'o [EntryState]) -> impl Iterator<Item = &'o QueueEntry> {
        self.open.iter().filter(move |entry| states.contains(&entry.state))
    }
}
