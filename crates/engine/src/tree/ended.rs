//! How a tree run ended.

use super::error::Error;
use super::plan::TreePlan;
use super::refusal::{Refusal, RefusalCode};
use crate::session::Pause;
use pleach_core::event::PauseReason;
use pleach_core::ids::TaskId;
use pleach_core::schedule::Blocked;

/// How a tree run ended, for every reason there is: tasks that run at once may end at once.
#[derive(Debug, Default)]
pub struct TreeOutcome {
    /// What ended it, in the order it came.
    pub ends: Vec<TreeEnded>,
    /// What went wrong.
    pub errors: Vec<Error>,
}

impl TreeOutcome {
    /// Adds a reason, unless it is one of those there are.
    pub fn add(&mut self, ended: TreeEnded) {
        if !self.ends.iter().any(|other| other.repeats(&ended)) {
            self.ends.push(ended);
        }
    }

    /// Takes out that a task waits.
    pub(super) fn forget_refusal(&mut self, task: &TaskId) {
        self.ends.retain(|ended| !matches!(ended, TreeEnded::Refused(refusal) if refusal.task == *task));
    }

    /// Takes out that something needs approval, if that is so.
    pub fn take_unasked(&mut self) -> bool {
        let all = self.ends.len();
        self.ends.retain(|ended| !matches!(ended, TreeEnded::Unasked));
        self.ends.len() < all
    }
}

/// A reason for which a tree run ended.
#[derive(Debug)]
pub enum TreeEnded {
    /// Every task is complete and every gate green.
    Done,
    /// The requested task is complete.
    TaskDone(TaskId),
    /// A task was given up.
    Failed {
        /// The task.
        task: TaskId,
        /// Attempts over its whole history.
        attempts: u32,
        /// An earlier run gave it up.
        before: bool,
        /// The reason in one line.
        reason: Option<String>,
    },
    /// The session of a task or of a phase's tests was cancelled. The next run continues the task.
    Cancelled(TaskId),
    /// The tests of a phase fail.
    GateRed {
        /// The phase, or the group in one.
        gate: TaskId,
        /// The phase has its own branch, so the tests ran on its merge into the target.
        on_merge: bool,
        /// The reason in one line.
        reason: Option<String>,
    },
    /// No task can start; the blocked tasks and what they wait for.
    Stalled(Vec<Blocked>),
    /// The run stopped; running it again continues.
    Paused(Pause),
    /// The budget is exhausted. Running it again with more continues.
    OutOfBudget {
        /// The limit that was reached, and how to continue.
        why: String,
    },
    /// Finished work could not land and waits on its branch, or new work could not get its branch.
    Refused(Refusal),
    /// A task needs something that is not approved. Ask for approval of [`super::pending_trust`], and run it again.
    Unasked,
}

impl TreeEnded {
    /// Whether tasks that do not depend on the one it is about can still be worked.
    pub(super) fn is_of_one_task(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::GateRed { .. })
    }

    /// Whether a session waits for a person.
    pub(super) fn waits_for_person(&self) -> bool {
        match self {
            Self::Paused(pause) => pause.reason == PauseReason::WaitsForPerson,
            Self::Refused(refusal) => refusal.code == RefusalCode::Unapproved,
            _ => false,
        }
    }

    /// Whether tasks of other repositories are still worked after it.
    pub fn lets_others_work(&self, plan: &TreePlan) -> bool {
        (self.is_of_one_task() && plan.limits.keep_going) || (self.waits_for_person() && plan.jobs > 1 && !plan.one)
    }

    /// Whether another one says the same: a run that is interrupted interrupts every task.
    pub fn repeats(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Failed { task, .. }, Self::Failed { task: other, .. }) => task == other,
            (Self::GateRed { gate, .. }, Self::GateRed { gate: other, .. }) => gate == other,
            (Self::OutOfBudget { why }, Self::OutOfBudget { why: other }) => why == other,
            (Self::Paused(pause), Self::Paused(other)) => {
                let asked = |pause: &Pause| -> Vec<_> {
                    pause.questions.iter().map(|question| question.address_with_task()).collect()
                };
                pause.reason == other.reason && pause.why == other.why && asked(pause) == asked(other)
            }
            (Self::Done, Self::Done) | (Self::Unasked, Self::Unasked) => true,
            _ => false,
        }
    }
}
