//! The state of a tree run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::Notify;

use super::claim::TreeClaim;
use super::pending_trust::Approved;
use super::plan::TreePlan;
use super::progress::ProgressReader;
use super::queue_work::QueueWork;
use super::task_slots::TaskSlots;
use super::unfinished::Unfinished;
use git::TreeId;
use pleach_core::ids::{CommitId, SessionId, TaskId};
use pleach_core::progress::Progress;
use pleach_core::schedule::{Schedule, ScheduleOptions};

/// The progress of a run, and the resources it holds.
#[derive(Debug)]
pub(super) struct RunState {
    pub(super) reader: ProgressReader,
    /// The worktrees of tasks.
    pub(super) slots: TaskSlots,
    /// The files on which the tests of each phase last passed in this run.
    pub(super) gated: BTreeMap<TaskId, TreeId>,
    /// The only task to work on: the requested one, or the first one done if any one was requested.
    pub(super) chosen: Option<TaskId>,
    /// Tasks done and gates run in this run.
    pub(super) done: BTreeMap<TaskId, Completed>,
    /// Unlanded sessions of tasks, from earlier runs.
    pub(super) unfinished: BTreeMap<TaskId, Unfinished>,
    /// What was submitted for approval.
    pub(super) approved: Approved,
    /// Landed sessions of earlier runs without a step in the progress.
    pub(super) lost: BTreeMap<TaskId, Vec<SessionId>>,
    /// Tasks that wait for a person or were cancelled, while others are worked.
    pub(super) waiting: BTreeSet<TaskId>,
    /// What the merge queue has landed for this run on commits that are not approved, from and to which commit.
    pub(super) queue_moves: BTreeSet<(CommitId, CommitId)>,
    /// Work on the merge queue that goes on behind the tasks.
    pub(super) queue_work: QueueWork,
    /// Told when the entry of a task in the merge queue turns out to conflict or no longer does, and when the queue is worked.
    pub(super) queue_news: Arc<Notify>,
    /// The tests of all tasks, once the merge queue needs them.
    pub(super) landing_tests: Option<BTreeSet<String>>,
    /// The opening commit is written.
    pub(super) opened: bool,
    /// The last to go: the slots are trimmed while it is held.
    pub(super) _claim: TreeClaim,
}

impl RunState {
    /// The schedule of a tree, given its progress.
    pub(super) fn schedule(&self, plan: &TreePlan, progress: &Progress) -> Schedule {
        let limits = ScheduleOptions { only: self.chosen.clone(), ..plan.limits.clone() };
        Schedule::new(&plan.tree, progress, limits)
    }
}

/// A task this run has done, or a gate it has run.
#[derive(Debug)]
pub(super) struct Completed {
    /// The newest steps at that time, which were the reason for it.
    pub(super) because: Vec<CommitId>,
    /// The tip of the branch it landed on.
    pub(super) landed: CommitId,
}
