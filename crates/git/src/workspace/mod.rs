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
mod push_state;
mod recovery;
mod scratch;
mod settings;
mod setup;
mod slots;
mod start_point;
mod stop_request;
mod submodules;
mod turn_change;
mod working_copy;
mod workspace;

pub use change::{Author, ObservedBranch, TurnChange};
pub use changes::Changes;
pub use disk::{check_writable, disk_usage, free_space};
pub use error::Error;
pub use follower::{BranchFollower, LaggingBranch};
pub use guard::{Guard, GuardWatch, Guards, Violations};
pub use keep::{KEEP, KeepOwner, save as keep};
pub use lock::{Lock, LockError, LockHolder};
pub use names::{
    agent_home, agent_homes, context_of_branch, is_default_worktree_base, names_beside, parallel_branches,
    session_branch, task_branches,
};
pub use names::{
    branch_ref, default_worktree_base, new_entry_id, new_session_id, own_name, phase_branch, phase_branches, repo_name,
    target_of, task_branch,
};
pub use own_files::non_directory_at;
pub use own_files::{remove_file, write_file};
pub use push_state::{FailedPush, PushState, RemoteState};
pub use recovery::{UndoResult, undo};
pub use recovery::{hand_over, overlay_tree, rebase_to, recover};
pub use scratch::{OrphanScratch, Scratch};
pub use settings::WorktreeSettings;
pub use settings::make_base;
pub use setup::{absent_file_warnings, apply_exclusions, scan_before_setup};
pub use setup::{has_lost_setup, snapshot_setup, snapshot_setup_again};
pub use slots::{
    FIRST_SLOT, OF_TASKS, conflict_path, queue_slot_lock, queue_slot_path, task_slot_lock, task_slot_path,
};
pub use slots::{queue_lock, target_lock, task_lock};
pub use start_point::{StartPoint, is_unrelated, start_point, upstream};
pub use stop_request::StopRequest;
pub use submodules::refuse_submodule_work;
pub use turn_change::{patch, prepare_commit, unchanged};
pub use working_copy::SESSION_NOTE;
pub use working_copy::{CopyOwner, CopyPosition, WorkingCopy};
pub use workspace::Workspace;
