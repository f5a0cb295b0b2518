//! Why something is not removed.

use std::path::PathBuf;

use crate::env::Error;
use git::workspace;
use pleach_core::ids::{BranchName, CommitId, RepoName};
use pleach_core::text::{quoted_path, shorten};

/// The maximum length of a path in a message.
const LONGEST_PATH: usize = 280;

/// Why a session was not removed, or not completely.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// The session could not be read or is in use.
    #[error(transparent)]
    Session(#[from] Error),
    /// Removing the branch would leave a checkout without one.
    #[error("branch `{branch}` is checked out at `{}`", path.display())]
    CheckedOut {
        /// The session branch.
        branch: BranchName,
        /// The checkout.
        path: PathBuf,
    },
    /// The worktree is locked with `git worktree lock`.
    #[error("the worktree `{}` is locked{}", path.display(), because(why))]
    WorktreeLocked {
        /// Where it is.
        path: PathBuf,
        /// The reason given for the lock.
        why: String,
    },
    /// Work would be lost.
    #[error(transparent)]
    Obstacle(Obstacle),
}

fn because(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(" ({why})") }
}

impl From<git::Error> for RemoveError {
    fn from(error: git::Error) -> Self {
        Self::Session(error.into())
    }
}

impl From<workspace::Error> for RemoveError {
    fn from(error: workspace::Error) -> Self {
        Self::Session(error.into())
    }
}

/// Why a session should not be removed unless the user insists.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// Its commits are on no other branch.
    #[error("branch `{branch}` is not merged: {tip} is on no other branch")]
    Unmerged {
        /// The session branch.
        branch: BranchName,
        /// Its newest recorded commit.
        tip: CommitId,
    },
    /// Its newest commit is only in its record.
    #[error("branch `{branch}` does not have the session's newest commit: {tip} is on no branch")]
    OnNoBranch {
        /// The session branch, which was deleted or is behind.
        branch: BranchName,
        /// The commit.
        tip: CommitId,
    },
    /// The branch is at a commit the session did not make. Such a branch is never removed.
    #[error("branch `{branch}` was moved to {to}, which no turn of the session recorded")]
    BranchMoved {
        /// The session branch.
        branch: BranchName,
        /// Its tip.
        to: CommitId,
    },
    /// Its record is unreadable, and is removed nevertheless.
    #[error("its record cannot be read, and what only it holds is lost: {why}")]
    Unreadable {
        /// The cause.
        why: String,
    },
    /// Its newest commit is unreadable. The removal uses an older one.
    #[error("its newest commit cannot be read, and what only it holds is lost: {why}")]
    Lost {
        /// The cause.
        why: String,
    },
    /// A repository it works in is not known, so that what it has there stays.
    #[error("its branch in the repository `{repo}` stays: `workspace.repos` does not have it")]
    RepoMissing {
        /// The name of the repository.
        repo: RepoName,
    },
    /// Files that git cannot keep: repositories inside the worktree, or unreadable files.
    #[error("`{}` cannot be saved and would be lost: {why}", shorten(&quoted_path(path.as_os_str().as_encoded_bytes()), LONGEST_PATH))]
    Unsaved {
        /// The file or directory.
        path: PathBuf,
        /// Why they cannot be saved.
        why: String,
    },
}
