//! The result of a scan.

use std::collections::BTreeSet;

use gix::bstr::BString;

use pleach_core::ids::RepoPath;

/// What a scan of the files found.
#[derive(Debug, Clone, Default)]
pub struct ScanResult {
    /// Paths that may differ: tracked files that changed or are gone, and files that are new.
    pub(super) candidates: BTreeSet<BString>,
    /// Tracked files that exist but are to be untracked.
    pub(super) dropped: BTreeSet<BString>,
    /// Repositories inside the worktree that are no submodules. They are not committed.
    pub nested: Vec<RepoPath>,
    /// Submodules at another commit than the tree records. The recorded commit does not change.
    pub submodules: Vec<RepoPath>,
    /// What git ignores, a directory for all in it; not all of it where another repository or the file system is odd.
    pub(super) ignored: Vec<BString>,
    /// Directories and files that lie too deep for any path. They are not committed.
    pub(super) deep: Vec<RepoPath>,
    /// Pipes and sockets in place of files git reads, which were removed.
    pub(super) cleared: Vec<RepoPath>,
    /// Directories that were unreadable until their permissions were restored.
    pub(super) unlocked: Vec<RepoPath>,
}

/// What of a checkout no commit has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uncommitted {
    /// Files, and submodules that stand elsewhere or have changes of their own.
    pub paths: BTreeSet<RepoPath>,
    /// Repositories inside that are no submodules.
    pub nested: Vec<RepoPath>,
}

impl ScanResult {
    /// Whether nothing may have changed.
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty() && self.dropped.is_empty()
    }

    /// The paths that may have changed.
    pub fn paths(&self) -> impl Iterator<Item = RepoPath> {
        self.candidates.union(&self.dropped).map(|path| RepoPath::new(path.to_vec()))
    }
}
