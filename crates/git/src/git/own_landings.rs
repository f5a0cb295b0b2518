//! The branches this process has landed on, so that whoever watches over an agent does not take its landings for something
//! the agent did.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use pleach_core::ids::CommitId;

/// The newest commit this process has moved each branch to, by full name.
#[derive(Debug, Default)]
pub(super) struct OwnLandings(RwLock<BTreeMap<String, CommitId>>);

/// The landings, which wait as long as this is held.
pub(crate) struct SeenLandings<'a>(RwLockReadGuard<'a, BTreeMap<String, CommitId>>);

impl OwnLandings {
    /// Moves a branch while nobody looks at it. `land` says whether it moved.
    pub(super) fn land<E>(&self, name: &str, to: CommitId, land: impl FnOnce() -> Result<bool, E>) -> Result<bool, E> {
        // A thread that panicked here has added one entry, or none.
        let mut landed = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let moved = land()?;
        if moved {
            landed.insert(name.to_owned(), to);
        }
        Ok(moved)
    }

    /// Holds landings up for a look.
    pub(super) fn look(&self) -> SeenLandings<'_> {
        SeenLandings(self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SeenLandings<'_> {
    /// Whether this process has moved a branch to a commit.
    pub(crate) fn has(&self, name: &str, commit: CommitId) -> bool {
        self.0.get(name) == Some(&commit)
    }

    /// What has landed so far.
    pub(crate) fn all(&self) -> &BTreeMap<String, CommitId> {
        &self.0
    }
}
