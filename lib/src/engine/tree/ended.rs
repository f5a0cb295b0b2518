//! How a run over a tree ended.

use super::refusal::Refusal;
use crate::engine::Pause;
use crate::ids::TaskId;
use crate::schedule::Blocked;

/// How a run over a tree ended.
#[derive(Debug)]
pub enum TreeEnded {
    /// Every task is complete and every gate green.
    Done,
    /// The one task that was asked for is complete.
    TaskDone(TaskId),
    /// A task was given up.
    Failed {
        /// The task.
        task: TaskId,
        /// Attempts over its whole history.
        attempts: u32,
        /// A run before this one gave it up.
        before: bool,
        /// Why, in one line.
        reason: Option<String>,
    },
    /// The session of a task, or of the tests of a phase, was cancelled. The next run goes on with the task.
    Cancelled(TaskId),
    /// The tests of a phase fail.
    GateRed {
        /// The phase, or the group in one.
        gate: TaskId,
        /// The phase is gathered, so that they ran on what its merge into the target would be.
        on_merge: bool,
        /// Why, in one line.
        reason: Option<String>,
    },
    /// Nothing can be started: what waits for what.
    Stalled(Vec<Blocked>),
    /// It stopped and goes on when it is run again.
    Paused(Pause),
    /// Nothing is left to spend. It goes on when it is run again with more.
    OutOfBudget {
        /// Which limit was reached, and how to go on.
        why: String,
    },
    /// Finished work could not land and waits on its branch, or new work could not have its branch.
    Refused(Refusal),
    /// It came to a task with something nobody was asked about. Ask about what [`super::pending_trust`] gives, and run it again.
    Unasked,
}
