//! What a turn changed in one repository, as objects that are not yet written.

use jiff::Timestamp;

use crate::git::{TreeId, Writer};
use pleach_core::event::Warning;
use pleach_core::ids::{CommitId, RepoPath};
use pleach_core::trailer::TurnFacts;

/// What a turn changed, as objects that are not yet written.
#[derive(Debug)]
pub struct TurnChange {
    /// Holds the objects until they are written with the record that speaks of them.
    pub writer: Writer,
    /// The commit, when there is something to commit.
    pub commit: Option<CommitId>,
    /// The tree of the worktree.
    pub tree: TreeId,
    /// The paths that differ from the turn before.
    pub paths: Vec<RepoPath>,
    /// The agent's own commit that was joined.
    pub agent_head: Option<CommitId>,
    /// The commit's message without trailers.
    pub message: Option<String>,
    /// The session branch, where it was looked at.
    pub branch: Option<ObservedBranch>,
    /// What a person should know.
    pub warnings: Vec<Warning>,
}

/// The session's branch as it was when a change was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedBranch {
    /// Where it stood; none where it was gone.
    pub at: Option<CommitId>,
    /// The agent had it checked out, and what it has committed there is adopted.
    pub checked_out: bool,
}

/// Who made a turn's changes, and how its commit reads.
pub struct Author<'a> {
    /// The facts that become trailers.
    pub facts: TurnFacts,
    /// Further trailers.
    pub trailers: Vec<(String, String)>,
    /// When the turn ended.
    pub at: Timestamp,
    /// Makes the message from the changed paths, knowing whether they are all new.
    pub message: &'a (dyn Fn(&[RepoPath], bool) -> String + Sync),
}

impl std::fmt::Debug for Author<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Author").field("facts", &self.facts).field("at", &self.at).finish_non_exhaustive()
    }
}
