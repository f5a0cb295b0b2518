//! The worktree shared by the tasks of a target, one after another.

use std::path::{Path, PathBuf};

use crate::engine::Error;
use crate::git::Repo;
use crate::ids::BranchName;
use crate::workspace::{Lock, Workspace, branch_key};

/// The worktree shared by the tasks of a target, one after another.
#[derive(Debug)]
pub struct SharedWorktree {
    /// Held as long as anything runs in it.
    pub lock: Lock,
    /// The worktrees, once they are open.
    pub workspace: Option<Workspace>,
}

impl SharedWorktree {
    /// The name of the lock on the worktree of a target's tasks.
    pub fn lock_name(target: &BranchName) -> String {
        format!("worktree-tasks-{}", branch_key(target))
    }

    /// Takes the worktree of a target's tasks, or reports its holder.
    pub fn take(repo: &Repo, target: &BranchName) -> Result<Self, Error> {
        let name = Self::lock_name(target);
        let what = format!("the worktree of the tasks on `{target}`");
        Ok(Self { lock: Lock::take(repo.common_dir(), &name, &what)?, workspace: None })
    }
}

/// The path of the worktree of a target's tasks, below the base of all worktrees.
pub(in crate::engine) fn shared_copy(target: &BranchName) -> PathBuf {
    Path::new("tasks").join(branch_key(target)).join("main")
}
