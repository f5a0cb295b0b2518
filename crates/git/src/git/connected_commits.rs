//! Commits whose objects are known to be complete.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use pleach_core::ids::CommitId;

/// Commits that are known to be whole: pleach put a HEAD there itself, or has looked.
#[derive(Debug, Default)]
pub(super) struct ConnectedCommits(Mutex<BTreeSet<CommitId>>);

impl ConnectedCommits {
    /// Takes a commit as whole.
    pub fn add(&self, commit: CommitId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(commit);
    }

    pub fn has(&self, commit: CommitId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&commit)
    }
}
