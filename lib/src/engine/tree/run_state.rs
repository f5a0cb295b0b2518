//! What a run over a tree has done and holds.

use std::collections::BTreeMap;

use super::pending_trust::Approved;
use super::plan::TreePlan;
use super::progress::ProgressReader;
use super::unfinished::Unfinished;
use crate::budget::Amount;
use crate::engine::task::SharedWorktree;
use crate::git::TreeId;
use crate::ids::{CommitId, SessionId, TaskId};
use crate::progress::Progress;
use crate::schedule::{Schedule, ScheduleOptions};
use crate::workspace::Lock;

/// How far a run has come, and what it holds.
#[derive(Debug)]
pub(super) struct RunState {
    pub(super) reader: ProgressReader,
    /// The worktree, when no task is worked.
    pub(super) worktree: Option<SharedWorktree>,
    /// What the tests of each phase last passed on, in this run.
    pub(super) gated: BTreeMap<TaskId, TreeId>,
    /// The one task that is worked: the one that was asked for, or the first that was done where any one was.
    pub(super) chosen: Option<TaskId>,
    /// What this run has done.
    pub(super) done: BTreeMap<TaskId, Completed>,
    /// Sessions of tasks that have not landed, from runs before this one.
    pub(super) unfinished: BTreeMap<TaskId, Unfinished>,
    /// What somebody was asked about.
    pub(super) approved: Approved,
    /// Sessions from runs before this one that have landed, and of which no step is among what is done.
    pub(super) lost: BTreeMap<TaskId, Vec<SessionId>>,
    /// This run was opened.
    pub(super) opened: bool,
    pub(super) _lock: Lock,
}

impl RunState {
    /// What comes next in a tree, after what has become of it.
    pub(super) fn schedule(&self, plan: &TreePlan, progress: &Progress) -> Schedule {
        let limits = ScheduleOptions { only: self.chosen.clone(), ..plan.limits.clone() };
        Schedule::new(&plan.tree, progress, limits)
    }
}

/// A task this run has done, or a gate it has run.
#[derive(Debug)]
pub(super) struct Completed {
    /// The newest steps before, because of which it was.
    pub(super) because: Vec<CommitId>,
    /// Where the branch stood that it has landed on.
    pub(super) landed: CommitId,
}

/// What each session has spent, and on which task.
pub(super) type Spending = BTreeMap<SessionId, (TaskId, Amount)>;
