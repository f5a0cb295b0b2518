//! The worktrees pleach made in a repository: `inventory` whose they are and what state they are in, `prune` which of
//! them can go, and their removal.

mod inventory;
mod prune;

pub(super) use inventory::idle_slots;
pub use inventory::{OwnWorktree, WorktreeOwner, WorktreePlaces, WorktreeState, own_worktrees};
pub use prune::{PrunedWork, WorktreeStays, prune_worktree, to_prune};
pub(super) use prune::{remove_conflict, remove_idle_slot};
