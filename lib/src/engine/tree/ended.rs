//! How a tree run ended.

use super::refusal::Refusal;
use crate::engine::Pause;
use crate::ids::TaskId;
use crate::schedule::Blocked;

/// How a tree run ended.
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
