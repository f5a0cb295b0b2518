//! The commits an entry is merged from.

use git::{Repo, TreeId};
use pleach_core::ids::CommitId;
use pleach_core::queue::QueueEntry;

/// The commits of a merge.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntrySides {
    /// Where the work began.
    pub base: CommitId,
    /// What the entry is merged onto.
    pub onto: CommitId,
    /// The entry's own commit.
    pub head: CommitId,
    /// The work's base was removed from the target since.
    pub is_taken_back: bool,
}

impl EntrySides {
    /// The sides of merging an entry onto a commit; none if they have nothing in common.
    pub(super) fn find(repo: &Repo, entry: &QueueEntry, onto: CommitId) -> Result<Option<Self>, git::Error> {
        let Some(shared) = repo.history().merge_base(entry.head, onto)? else { return Ok(None) };
        let base = match entry.base {
            // What the target had when the work began may have been removed from it, and is not part of the work.
            Some(own) if repo.history().is_ancestor(shared, own)? => own,
            _ => shared,
        };
        Ok(Some(Self { base, onto, head: entry.head, is_taken_back: base != shared }))
    }

    /// Their files.
    pub(super) fn trees(&self, repo: &Repo) -> Result<[TreeId; 3], git::Error> {
        Ok([repo.tree_of(self.base)?, repo.tree_of(self.onto)?, repo.tree_of(self.head)?])
    }
}
