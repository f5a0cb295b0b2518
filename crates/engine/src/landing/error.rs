//! Why the queue could not go on.

use std::path::PathBuf;

use crate::merging::left_words;
use git::record::EntryError;
use git::workspace::{self, LockError};
use git::{LandError, SwapError};
use os::process::SpawnError;
use pleach_core::ids::{BranchName, RepoPath};
use pleach_core::queue::{EntryState, QueueEntry};

/// Why the queue stopped. Its entries stay.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// A git operation failed.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// The target could not be moved.
    #[error(transparent)]
    Land(#[from] LandError),
    /// Another process works the queue.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A worktree could not be used.
    #[error(transparent)]
    Workspace(#[from] workspace::Error),
    /// A program could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A session of the queue failed.
    #[error(transparent)]
    Session(#[from] crate::env::Error),
    /// An entry, or the list of them, cannot be read.
    #[error(transparent)]
    Unreadable(EntryError),
    /// The queue kept changing.
    #[error("the queue of `{0}` was changed by others again and again; try again")]
    Contended(BranchName),
    /// There is no such entry.
    #[error("there is no entry `{0}` in the merge queue")]
    NoEntry(String),
    /// Several entries match.
    #[error("`{given}` can be several entries of the merge queue: {}", fitting.join(", "))]
    Ambiguous {
        /// What was given.
        given: String,
        /// The entries it fits.
        fitting: Vec<String>,
    },
    /// An entry is in the wrong state for this.
    #[error("{name} is {state}: {why}")]
    WrongState {
        /// What people call it.
        name: String,
        /// What commands know it by.
        reference: String,
        /// Its state.
        state: EntryState,
        /// Why that is wrong.
        why: String,
    },
    /// A conflict is not fully resolved.
    #[error("{}", left_words(paths))]
    Unresolved {
        /// The files.
        paths: Vec<RepoPath>,
        /// The worktree they are in.
        path: PathBuf,
    },
    /// There is no such branch.
    #[error("there is no branch `{0}`")]
    NoBranch(BranchName),
    /// A shallow clone lacks a merge base.
    #[error(
        "this shallow clone lacks the commit `{branch}` and `{target}` started from; `git fetch --unshallow` fetches the rest"
    )]
    Shallow {
        /// The branch, or what else is to be merged.
        branch: String,
        /// What it is to be merged into.
        target: BranchName,
    },
    /// A branch cannot be merged into itself.
    #[error("`{0}` cannot be merged into itself")]
    Itself(BranchName),
    /// The setup command of a worktree failed.
    #[error("the setup command `{command}` failed ({exit}):\n{output}")]
    Setup {
        /// The command.
        command: String,
        /// How it ended.
        exit: String,
        /// The end of its output.
        output: String,
    },
}

impl QueueError {
    /// An entry is in the wrong state for this.
    pub(super) fn wrong_state(entry: &QueueEntry, why: impl Into<String>) -> Self {
        let (name, reference) = (entry.name(), entry.reference());
        Self::WrongState { name, reference, state: entry.state, why: why.into() }
    }
}

impl From<EntryError> for QueueError {
    fn from(error: EntryError) -> Self {
        match error {
            EntryError::Git(error) => Self::Git(error),
            unreadable @ EntryError::Unreadable { .. } => Self::Unreadable(unreadable),
        }
    }
}

impl From<SwapError> for QueueError {
    fn from(error: SwapError) -> Self {
        Self::Git(error.into())
    }
}

/// Whether to retry a change: another process was first.
pub(super) fn outrun(error: SwapError) -> Result<(), QueueError> {
    match error {
        SwapError::Stale { .. } => Ok(()),
        error => Err(error.into()),
    }
}
