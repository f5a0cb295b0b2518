//! Why a worktree could not be used.

use super::lock::LockError;
use crate::git;
use pleach_core::ids::{BranchName, CommitId};

/// Why a worktree could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// git said no.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// Somebody moved the session branch.
    #[error("branch `{branch}` was moved to {to}, which no turn of the session recorded; the session is at {tip}")]
    BranchMoved {
        /// The session branch.
        branch: BranchName,
        /// Where it is.
        to: CommitId,
        /// Where it should be.
        tip: CommitId,
    },
    /// Somebody removed the session branch.
    #[error("branch `{branch}` was removed; the session is at {tip}")]
    BranchGone {
        /// The session branch.
        branch: BranchName,
        /// Where it should be.
        tip: CommitId,
    },
    /// Submodules have work that is nowhere else, and would be the next session's.
    #[error(
        "worktree `{}` has changes in submodules that are {}; commit and push them in the submodule, or remove them, then run again",
        path.display(),
        work.missing().join(", and ")
    )]
    InSubmodules {
        /// The worktree.
        path: std::path::PathBuf,
        /// What there is.
        work: crate::git::SubmoduleWork,
    },
    /// The directory of worktrees cannot be made.
    #[error("cannot create {}", pleach_core::text::quoted_path(.path.as_os_str().as_encoded_bytes()))]
    NoBase {
        /// The directory.
        path: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Somebody else works here.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A file cannot be used.
    #[error("cannot {doing} {}", pleach_core::text::quoted_path(.path.as_os_str().as_encoded_bytes()))]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl Error {
    /// Whether somebody moved or removed the session's own branch.
    pub fn is_of_own_branch(&self) -> bool {
        matches!(self, Self::BranchMoved { .. } | Self::BranchGone { .. })
    }
}
