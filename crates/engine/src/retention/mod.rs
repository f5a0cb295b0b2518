//! What may go, and its removal: sessions and branches whose time is over, and what dead sessions have left.
//!
//! Sees all other rooms of the engine. Begin with `remove`.
//!
//! - `remove` takes a session apart, step by step, and keeps what nothing else has; `remove/known` are the commits that stay.
//! - `cleanup` tells which sessions and branches may go by their age, and which stay, and why.
//! - `orphans` finds the processes and worktrees of runs that were killed.

mod cleanup;
mod orphans;
mod remove;

pub use cleanup::{
    BranchStays, LeftBranch, RemovedBranch, SessionFate, SessionStays, left_branches, remove_branch, session_fates,
};
pub use orphans::{Orphan, orphaned_worktrees, orphans};
pub use remove::{Removal, RemovalStep, RepoStep, prepare_removal};
