//! Where a session works: its branch, its working copies, what it saves before removing, and who may write.

mod copies;
mod copy;
mod disk;
mod follower;
mod guard;
mod held;
mod keep;
mod lock;
mod names;
mod scratch;
mod settings;
mod wish;

pub use copies::{Changes, Guards, Workspace};
pub use copy::{Author, Change, Position, SeenBranch, Undone, WorkingCopy};
pub use disk::{check_writable, free_space};
pub use follower::{BranchFollower, LaggingBranch};
pub use guard::{Guard, Violations, Watch};
pub use keep::{KEEP, save as keep};
pub use lock::{Holder, Lock, LockError};
pub use names::{
    agent_home, agent_homes, branch_key, branch_of_key, branch_ref, default_worktree_base, new_session_id,
    phase_branch, phase_branches, repo_name, session_branch, target_of, task_branch, task_branches,
};
pub use scratch::{Left, Scratch};
pub use settings::{WorktreeSettings, make_base};
pub use wish::Wish;

use crate::git;
use crate::ids::{BranchName, CommitId};

impl Error {
    /// Whether somebody moved or removed the session's own branch.
    pub fn is_of_own_branch(&self) -> bool {
        matches!(self, Self::BranchMoved { .. } | Self::BranchGone { .. })
    }
}

/// Why a working copy could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// git said no.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// Somebody moved the session branch.
    #[error("branch `{branch}` was moved to {to}, which no turn of the session recorded; the session stands at {tip}")]
    BranchMoved {
        /// The session branch.
        branch: BranchName,
        /// Where it stands.
        to: CommitId,
        /// Where it should stand.
        tip: CommitId,
    },
    /// Somebody removed the session branch.
    #[error("branch `{branch}` was removed; the session stands at {tip}")]
    BranchGone {
        /// The session branch.
        branch: BranchName,
        /// Where it should stand.
        tip: CommitId,
    },
    /// Submodules have work that is nowhere else, and would be the next session's.
    #[error(
        "changes in submodules of the worktree `{}` are {}; commit and push them in their own repository, or remove them there, then run again",
        path.display(),
        work.missing().join(", and ")
    )]
    InSubmodules {
        /// The worktree.
        path: std::path::PathBuf,
        /// What there is.
        work: crate::git::InSubmodules,
    },
    /// The directory of worktrees cannot be made.
    #[error("cannot create {}", crate::text::quoted_path(.path.as_os_str().as_encoded_bytes()))]
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
    #[error("cannot {doing} {}", crate::text::quoted_path(.path.as_os_str().as_encoded_bytes()))]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: std::path::PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}
