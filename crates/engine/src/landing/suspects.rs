//! Entries that made tests fail, and are not blamed yet.

use std::collections::BTreeMap;

use super::results::TestResult;
use pleach_core::ids::{CommitId, EntryId};
use pleach_core::queue::EntryTest;

/// Entries that made tests fail, and are not blamed yet.
#[derive(Debug, Default)]
pub(super) struct Suspects(BTreeMap<EntryId, Suspect>);

/// An entry that made tests fail.
#[derive(Debug)]
pub(super) struct Suspect {
    pub head: CommitId,
    /// What its merge is built on.
    pub onto: CommitId,
    /// Those of its tests that the target has to pass as well.
    pub of_target: Vec<EntryTest>,
    /// Its last test result.
    pub result: TestResult,
    /// They have failed a second time.
    pub is_red_again: bool,
    /// Whether the files without it pass, if known.
    pub passes_without: Option<bool>,
    /// Whether its branch passes without the target, if known.
    pub passes_alone: Option<bool>,
}

impl Suspects {
    pub(super) fn has(&self, id: &EntryId) -> bool {
        self.0.contains_key(id)
    }

    pub(super) fn insert(&mut self, id: EntryId, suspect: Suspect) {
        self.0.insert(id, suspect);
    }

    pub(super) fn get(&self, id: &EntryId) -> Option<&Suspect> {
        self.0.get(id)
    }

    pub(super) fn note(&mut self, id: &EntryId, edit: impl FnOnce(&mut Suspect)) {
        self.0.get_mut(id).map(edit);
    }

    pub(super) fn remove(&mut self, id: &EntryId) -> Option<Suspect> {
        self.0.remove(id)
    }
}
