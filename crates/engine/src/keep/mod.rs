//! Worktrees that nobody needs any more, and what is kept of them. The queue, trees and sessions remove their own by it.
//!
//! Sees `merging`, `env`, `push` and `view`. Begin with `inventory`.
//!
//! - `inventory` lists all worktrees that pleach made, whose they are and what state they are in.
//! - `prune` says which of them can go, and removes them; `remove_error` says why something stays.
//! - `kept_work` keeps what only such a worktree has, before it goes.

mod inventory;
mod kept_work;
mod prune;
mod remove_error;

pub(crate) use inventory::idle_slots;
pub use inventory::{OwnWorktree, WorktreeOwner, WorktreePlaces, WorktreeState, own_worktrees};
pub(crate) use kept_work::{
    KeptWork, RUN_DIR, RecordRefs, copied_in, delete, read_work, records, remove_branch_worktree, remove_directory,
    remove_run_directory, run_directory, uncommitted,
};
pub use prune::{PrunedWork, WorktreeStays, prune_worktree, to_prune};
pub(crate) use prune::{remove_conflict, remove_idle_slot};
pub use remove_error::{Obstacle, RemoveError};
