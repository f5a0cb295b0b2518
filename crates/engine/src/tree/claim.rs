//! What a run holds so that no other works on the same tasks: the target for a tree's file, each task for ad-hoc tasks.

use super::Error;
use git::Repo;
use git::workspace::{Lock, target_lock, task_lock, task_slot_lock};
use pleach_core::ids::{BranchName, TaskId};

/// More slots than anybody uses: names are short enough for so many.
pub(super) const MOST_SLOTS: u32 = 999;

/// What no other run works on as long as this is held. Landing is safe without it: branches move by compare-and-swap.
#[derive(Debug, Default)]
pub struct TreeClaim {
    locks: Vec<Lock>,
}

impl TreeClaim {
    /// Claims the trees with a file on a target, or reports who has them.
    pub fn of_target(repo: &Repo, target: &BranchName) -> Result<Self, Error> {
        check_target(target)?;
        let what = format!("the list of tasks on `{target}`");
        Ok(Self { locks: vec![Lock::take(repo.common_dir(), &target_lock(target), &what)?] })
    }

    /// Claims an ad-hoc task, or reports who has it.
    pub fn of_task(repo: &Repo, target: &BranchName, task: &TaskId) -> Result<Self, Error> {
        let mut claim = Self::default();
        claim.add_task(repo, target, task)?;
        Ok(claim)
    }

    /// Claims an ad-hoc task as well, or reports who has it.
    pub fn add_task(&mut self, repo: &Repo, target: &BranchName, task: &TaskId) -> Result<(), Error> {
        check_target(target)?;
        let name = task_lock(target, task);
        check_name(target, &name)?;
        self.locks.push(Lock::take(repo.common_dir(), &name, task.as_str())?);
        Ok(())
    }
}

/// Refuses a target whose name is too long for file names.
pub fn check_target(target: &BranchName) -> Result<(), Error> {
    check_name(target, &task_slot_lock(target, MOST_SLOTS))
}

/// Refuses a file name that nearly no file system takes.
fn check_name(target: &BranchName, name: &str) -> Result<(), Error> {
    if name.len() > 255 { Err(Error::LongName(target.clone())) } else { Ok(()) }
}
