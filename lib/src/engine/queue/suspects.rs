//! Entries that made tests fail, and are not blamed yet.

use std::collections::BTreeMap;

use super::results::TestResult;
use crate::ids::{CommitId, EntryId};
use crate::queue::EntryTest;

/// Entries that made tests fail, and are not blamed yet.
#[derive(Debug, Default)]
pub(super) struct Suspects(BTreeMap<EntryId, Suspect>);

/// An entry that made tests fail.
#[derive(Debug)]
pub(super) struct Suspect {
    pub head: CommitId,
    /// What its merge is built on.
    pub onto: CommitId,
    /// Its head has passed its tests.
    pub tested: bool,
    pub tests: Vec<EntryTest>,
    pub result: TestResult,
}

impl Suspects {
    pub(super) fn has(&self, id: &EntryId) -> bool {
        self.0.contains_key(id)
    }

    pub(super) fn insert(&mut self, id: EntryId, suspect: Suspect) {
        self.0.insert(id, suspect);
    }

    pub(super) fn get_mut(&mut self, id: &EntryId) -> Option<&mut Suspect> {
        self.0.get_mut(id)
    }

    pub(super) fn remove(&mut self, id: &EntryId) -> Option<Suspect> {
        self.0.remove(id)
    }
}
