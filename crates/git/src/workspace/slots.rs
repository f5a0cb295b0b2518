//! The worktrees that sessions share, of tasks and of the merge queue: where they lie and what their locks are called.
//! Branches have no colon in their names, so no two targets share one.

use std::path::{Path, PathBuf};

use pleach_core::ids::{BranchName, EntryId, TaskId, branch_key};

/// The number of the slot every target has.
pub const FIRST_SLOT: u32 = 1;

/// The directory of the slots of tasks, below the base of all worktrees.
pub const OF_TASKS: &str = "tasks";

/// The directory of the queue's slots, below the base of all worktrees.
pub(crate) const OF_QUEUE: &str = "merge";

/// The path of a slot of a target's tasks, below the base of all worktrees.
pub fn task_slot_path(target: &BranchName, number: u32) -> PathBuf {
    let name = if number == FIRST_SLOT { "main".to_owned() } else { number.to_string() };
    Path::new(OF_TASKS).join(branch_key(target)).join(name)
}

/// The name of the lock on a slot of a target's tasks.
pub fn task_slot_lock(target: &BranchName, number: u32) -> String {
    let key = branch_key(target);
    if number == FIRST_SLOT { format!("worktree-tasks-{key}") } else { format!("worktree-tasks-{key}:{number}") }
}

/// The path of a slot of a target's queue, below the base of all worktrees.
pub fn queue_slot_path(target: &BranchName, number: u32) -> PathBuf {
    Path::new(OF_QUEUE).join(branch_key(target)).join(number.to_string())
}

/// The name of the lock on a slot of a target's queue.
pub fn queue_slot_lock(target: &BranchName, number: u32) -> String {
    format!("worktree-merge-{}:{number}", branch_key(target))
}

/// The worktree in which a person resolves the conflict of an entry, by the base of all worktrees.
pub fn conflict_path(base: &Path, target: &BranchName, id: &EntryId) -> PathBuf {
    base.join("resolve").join(branch_key(target)).join(id.as_str())
}

/// The name of the lock a run holds on an ad-hoc task.
pub fn task_lock(target: &BranchName, task: &TaskId) -> String {
    format!("tree-{}-task:{task}", branch_key(target))
}

/// The name of the lock a run over a tree holds on its target.
pub fn target_lock(target: &BranchName) -> String {
    format!("target-{}", branch_key(target))
}

/// The name of the lock on the queue of a target.
pub fn queue_lock(target: &BranchName) -> String {
    format!("queue-{}", branch_key(target))
}
