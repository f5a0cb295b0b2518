//! Worktrees that nobody needs any more: `inventory` all that pleach made, whose they are and what state they are in; `prune`
//! which of them can go, and their removal; `kept_work` what only such a worktree has, which is kept first; `remove_error` why
//! something stays.

mod inventory;
mod kept_work;
mod prune;
mod remove_error;

pub(super) use inventory::idle_slots;
pub use inventory::{OwnWorktree, WorktreeOwner, WorktreePlaces, WorktreeState, own_worktrees};
pub(super) use kept_work::{
    KeptWork, RUN_DIR, RecordRefs, copied_in, delete, read_work, records, remove_branch_worktree, remove_directory,
    remove_run_directory, run_directory, uncommitted,
};
pub use prune::{PrunedWork, WorktreeStays, prune_worktree, to_prune};
pub(super) use prune::{remove_conflict, remove_idle_slot};
pub use remove_error::{Obstacle, RemoveError};
