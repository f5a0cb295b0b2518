//! The worktrees of a target's tasks. A task works in a slot; the next one re-uses it, with the files git ignores: caches,
//! builds. Slots never move, because moved paths void such caches.

use crate::env::Error;
use git::Repo;
use git::workspace::{Lock, Workspace, task_slot_lock};
use pleach_core::ids::BranchName;

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
    /// Takes a slot of a target's tasks, or reports its holder at once.
    pub fn take(repo: &Repo, target: &BranchName, number: u32) -> Result<Self, Error> {
        let name = task_slot_lock(target, number);
        let what = format!("the worktree of the tasks on `{target}`");
        Ok(Self { number, lock: Lock::take_now(repo.common_dir(), &name, &what)?, workspace: None })
    }
}
