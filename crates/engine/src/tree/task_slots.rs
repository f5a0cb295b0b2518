//! The slots of a run over a tree: which are free, and which of them stay when it ends.

use std::collections::{BTreeMap, BTreeSet};

use super::claim::MOST_SLOTS;
use super::plan::TreePlan;
use crate::env::{Engine, Error};
use crate::keep::{WorktreePlaces, idle_slots, remove_idle_slot};
use crate::session::TaskSlot;
use git::Repo;
use git::workspace::{FIRST_SLOT, LockError};
use pleach_core::ids::BranchName;

/// The slots of a run over a tree.
#[derive(Debug)]
pub(super) struct TaskSlots {
    repo: Repo,
    target: BranchName,
    free: BTreeMap<u32, TaskSlot>,
    /// How many this run has taken; other runs on the target have others.
    taken: usize,
    /// A task of this run was worked.
    is_used: bool,
    /// How many stay when the run ends, those with the lowest numbers; all of them if it is not said.
    pool: Option<usize>,
    places: WorktreePlaces,
}

impl TaskSlots {
    /// A slot of a target; others are taken when they are needed.
    pub(super) fn open(engine: &Engine, repo: &Repo, plan: &TreePlan) -> Result<Self, Error> {
        let first = unused(repo, &plan.target)?;
        Ok(Self {
            repo: repo.clone(),
            target: plan.target.clone(),
            free: BTreeMap::from([(first.number, first)]),
            taken: 1,
            is_used: false,
            pool: engine.worktrees.pool,
            places: WorktreePlaces::of(engine, repo, &plan.repo_name),
        })
    }

    /// Takes a free slot, the one with the lowest number, or another one.
    pub(super) fn take(&mut self) -> Result<TaskSlot, Error> {
        self.is_used = true;
        if let Some((_, slot)) = self.free.pop_first() {
            return Ok(slot);
        }
        let slot = unused(&self.repo, &self.target)?;
        self.taken += 1;
        Ok(slot)
    }

    /// Takes a slot back.
    pub(super) fn put_back(&mut self, slot: TaskSlot) {
        self.free.insert(slot.number, slot);
    }

    /// A free slot, if there is one.
    pub(super) fn free(&self) -> Option<&TaskSlot> {
        self.free.values().next()
    }

    /// Removes slots beyond the configured pool size, also those of earlier runs. One that has anything no branch has, or
    /// that cannot be removed, stays: the next run tries again.
    fn trim(&self) -> Result<(), Error> {
        let Some(size) = self.pool else { return Ok(()) };
        let own: BTreeSet<u32> = self.free.keys().copied().collect();
        for (number, worktree) in idle_slots(&self.repo, &self.places, &self.target)?.into_iter().skip(size) {
            // Something a killed run has started may still work there.
            let held =
                if own.contains(&number) { None } else { Some(TaskSlot::take(&self.repo, &self.target, number)) };
            if held.is_none_or(|held| held.is_ok()) {
                let _ = remove_idle_slot(&self.repo, &self.places, &worktree);
            }
        }
        Ok(())
    }
}

/// The slot with the lowest number that nobody works in.
fn unused(repo: &Repo, target: &BranchName) -> Result<TaskSlot, Error> {
    let mut number = FIRST_SLOT;
    loop {
        match TaskSlot::take(repo, target, number) {
            Err(Error::Lock(LockError::Held { .. })) if number < MOST_SLOTS => number += 1,
            taken => return taken,
        }
    }
}

/// However a run ends, it holds its target and its slots until here, so nobody else begins to work in one meanwhile.
impl Drop for TaskSlots {
    fn drop(&mut self) {
        // A slot that is not back was left by a panic.
        let is_complete = self.free.len() == self.taken;
        if self.is_used && is_complete && !std::thread::panicking() {
            let _ = self.trim();
        }
    }
}
