//! An update of a ref, and why it failed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::{Error, locked};
use pleach_core::ids::{BranchName, CommitId};

/// How long a ref that someone else is writing is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// Who the reflog names.
pub(super) const NAME: &str = "pleach";

pub(super) const EMAIL: &str = "pleach@local";

/// A ref that should move. `old` is where it must be, none: it must not exist, nor name anything if a file of it is there.
/// `new` is where it goes, none: away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefUpdate {
    /// The full name, as `refs/heads/main`.
    pub name: String,
    /// What it must be now.
    pub old: Option<CommitId>,
    /// What it becomes.
    pub new: Option<CommitId>,
}

/// Why a ref did not move.
#[derive(Debug, thiserror::Error)]
pub enum SwapError {
    /// It is not where the caller thought it was.
    #[error("`{name}` has moved: it is at {}", actual.map_or_else(|| "no commit".to_owned(), |id| id.to_string()))]
    Stale {
        /// Which ref.
        name: String,
        /// Where it is.
        actual: Option<CommitId>,
    },
    /// Someone holds its lock file.
    #[error("`{name}` cannot move: {}", locked(lock))]
    Locked {
        /// Which ref.
        name: String,
        /// The lock file.
        lock: PathBuf,
    },
    /// Another ref needs its name as a directory, or the other way round.
    #[error("`{name}` cannot be created while `{with}` exists: git does not allow both names")]
    Clash {
        /// Which ref.
        name: String,
        /// The one in the way.
        with: String,
    },
    /// Anything else.
    #[error(transparent)]
    Other(#[from] Error),
}

impl From<SwapError> for Error {
    fn from(error: SwapError) -> Self {
        match error {
            SwapError::Other(error) => error,
            SwapError::Locked { lock, .. } => Self::Locked { lock },
            refused => Self::Library { doing: "move a ref".into(), detail: refused.to_string() },
        }
    }
}

pub(super) fn lock_path(path: &Path) -> PathBuf {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    lock.into()
}

pub(super) fn full_name(branch: &BranchName) -> String {
    format!("refs/heads/{branch}")
}
