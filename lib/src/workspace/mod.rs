//! Where a session works: its branch, its worktrees, what it saves before removing, and who may write.

mod change;
mod changes;
mod disk;
mod error;
mod follower;
mod guard;
mod held_files;
mod keep;
mod lock;
mod names;
mod own_files;
mod recovery;
mod scratch;
mod settings;
mod setup;
mod stop_request;
mod submodules;
mod turn_change;
mod working_copy;
mod workspace;

pub use change::{Author, ObservedBranch, TurnChange};
pub use changes::Changes;
pub use disk::{check_writable, free_space};
pub use error::Error;
pub use follower::{BranchFollower, LaggingBranch};
pub use guard::{Guard, GuardWatch, Guards, Violations};
pub use keep::{KEEP, save as keep};
pub use lock::{Lock, LockError, LockHolder};
pub use names::{
    agent_home, agent_homes, branch_key, branch_of_key, branch_ref, default_worktree_base, new_session_id,
    phase_branch, phase_branches, repo_name, session_branch, target_of, task_branch, task_branches,
};
pub use own_files::{non_directory_at, remove_file, write_file};
pub use recovery::{UndoResult, hand_over, overlay_tree, rebase_to, recover, restoring_commit, undo};
pub use scratch::{OrphanScratch, Scratch};
pub use settings::{WorktreeSettings, make_base};
pub use setup::{
    absent_file_warnings, apply_exclusions, has_lost_setup, note_undone_setup, scan_before_setup, snapshot_setup,
    snapshot_setup_again,
};
pub use stop_request::StopRequest;
pub use submodules::{refuse_submodule_work, submodule_work};
pub use turn_change::{commit_change, find_changes, patch, prepare_commit, unchanged, uncommitted_in_words};
pub use working_copy::{CopyPosition, WorkingCopy};
pub use workspace::Workspace;
