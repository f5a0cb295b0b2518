//! The worktrees of a target's tasks. A task works in a slot; the next one re-uses it, with the files git ignores: caches,
//! builds. Slots never move, because moved paths void such caches.

use std::path::{Path, PathBuf};

use crate::engine::Error;
use crate::git::Repo;
use crate::ids::{BranchName, TaskId};
use crate::workspace::{Lock, Workspace, branch_key};

/// The number of the slot every target has.
pub(in crate::engine) const FIRST_SLOT: u32 = 1;

/// A worktree in which tasks of a target are worked, one after another.
#[derive(Debug)]
pub struct TaskSlot {
    /// Its number, from 1.
    pub number: u32,
    /// Held as long as anything runs in it.
    pub lock: Lock,
    /// The worktrees, once they are open.
    pub workspace: Option<Workspace>,
}

impl TaskSlot {
    /// The name of the lock on a slot. Branches have no colon in their names, so no two targets share one.
    pub fn lock_name(target: &BranchName, number: u32) -> String {
        let key = branch_key(target);
        if number == FIRST_SLOT { format!("worktree-tasks-{key}") } else { format!("worktree-tasks-{key}:{number}") }
    }

    /// Takes a slot of a target's tasks, or reports its holder at once.
    pub fn take(repo: &Repo, target: &BranchName, number: u32) -> Result<Self, Error> {
        let name = Self::lock_name(target, number);
        let what = format!("the worktree of the tasks on `{target}`");
        Ok(Self { number, lock: Lock::take_now(repo.common_dir(), &name, &what)?, workspace: None })
    }
}

/// The name of the lock a run holds on an ad-hoc task.
pub fn task_lock(target: &BranchName, task: &TaskId) -> String {
    format!("tree-{}-task:{task}", branch_key(target))
}

/// The name of the lock a run over a tree holds on its target.
pub fn target_lock(target: &BranchName) -> String {
    format!("target-{}", branch_key(target))
}

/// The path of a slot of a target's tasks, below the base of all worktrees.
pub(in crate::engine) fn slot_path(target: &BranchName, number: u32) -> PathBuf {
    let name = if number == FIRST_SLOT { "main".to_owned() } else { number.to_string() };
    Path::new("tasks").join(branch_key(target)).join(name)
}
