//! What a tree's run does next: which task, which attempt, which gate, and why nothing more.
//!
//! Pure: a [`Schedule`] is made from the tree and from what the commits say, told of every task that got a new step, and
//! asked what to do. Making it costs what the tree is long, with what each task depends on; an answer costs what has
//! changed, or what it tells.

mod attempts;
mod blockers;
mod graph;
mod leaf_state;
mod next;
mod parallel;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use crate::config::Isolation;
use crate::ids::TaskId;
use crate::plan::tree::TaskTree;
use crate::progress::{OtherTreeWork, Progress, StrandedWork, UnreadableBranch};
use crate::step::AttemptNumber;
use crate::text::listed;

pub use attempts::{AfterFailure, AttemptFailure, EndedAttempt, GiveUpReason, after};
pub use graph::Schedule;

/// The options of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleOptions {
    /// How many attempts a budget has.
    pub max_retries: u32,
    /// What finished tasks land on.
    pub isolation: Isolation,
    /// Tasks that were given up before this run get a new budget.
    pub retry_failed: bool,
    /// Tasks that get nowhere are given up before their budget is used up.
    pub early_stop: bool,
    /// Work this task and no other.
    pub only: Option<TaskId>,
    /// What does not depend on a task that failed, or on tests that did, is still worked.
    pub keep_going: bool,
}

impl Default for ScheduleOptions {
    fn default() -> Self {
        Self {
            max_retries: 5,
            isolation: Isolation::None,
            retry_failed: false,
            early_stop: true,
            only: None,
            keep_going: false,
        }
    }
}

/// What a run does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextAction {
    /// Land a task that has ended on its own branch, complete or failed. Nothing else starts before, unless what the task
    /// is built on is done and not where it lands: then that comes first.
    Land(TaskId),
    /// Nothing, until stranded work on a branch is merged or dropped.
    Stranded(StrandedWork),
    /// Nothing, until another tree's work is off a branch that this one needs.
    OtherTree(OtherTreeWork),
    /// Nothing, until an unreadable branch this tree needs is repaired or dropped.
    Unreadable(UnreadableBranch),
    /// Run the tests of an inner node, all of whose leaves are done.
    Gate(TaskId),
    /// Merge the branch of a phase into the target: its leaves are done and its gates green.
    MergePhase(TaskId),
    /// Work a task. An attempt that was cut off continues; whether an early stop is due is for [`after`] to say.
    Work {
        /// The task.
        task: TaskId,
        /// Which attempt of its budget.
        attempt: AttemptNumber,
        /// The number of the attempt over the task's whole history, from 0.
        retry: u32,
    },
    /// Give a task up.
    GiveUp {
        /// The task.
        task: TaskId,
        /// Why no more.
        reason: GiveUpReason,
    },
    /// Everything asked for is done.
    Done,
    /// A task failed: in this run, or before and nothing is left but such tasks.
    Failed(TaskId),
    /// A gate was red in this run.
    GateRed(TaskId),
    /// Nothing can be worked: what is left waits for something this run cannot bring.
    Stalled(Vec<Blocked>),
}

/// A task that cannot be worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The task.
    pub task: TaskId,
    /// What keeps it.
    pub waits_for: Vec<Wait>,
}

/// Something a task waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// A task or an inner node.
    pub on: TaskId,
    /// Why it is not there.
    pub why: Why,
    /// The tasks whose failure keeps it away: itself, tasks it holds, or others of the phase it is merged with.
    pub failed: Arc<[TaskId]>,
}

/// Why something a task waits for is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It was given up.
    Failed,
    /// A given `execution_order` leaves it out, so that it is never worked.
    LeftOut,
    /// It is not done.
    NotDone,
    /// It is done and waits to land.
    NotLanded,
    /// It is done on the branch of its phase, which is not merged.
    NotMerged,
    /// It is done on the branch of a phase it is no part of any more, and which is not merged.
    Elsewhere(TaskId),
    /// Its tests failed.
    GateRed,
    /// Its tests have not been run on what is there now.
    GateNotRun,
    /// The tree has no such task to work.
    NoTask,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Failed => "failed",
            Self::LeftOut => "not in execution_order",
            Self::NotDone => "not done",
            Self::NotLanded => "waits to land",
            Self::NotMerged => "its phase is not merged",
            Self::Elsewhere(phase) => return write!(f, "done on the branch of {phase}, which is not merged"),
            Self::GateRed => "its tests failed",
            Self::GateNotRun => "its tests have not run",
            Self::NoTask => "not a task of this tree",
        })
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [wait] = &self.waits_for[..]
            && wait.on == self.task
        {
            return write!(f, "{} is {}", self.task, wait.why);
        }
        write!(f, "{} waits for ", self.task)?;
        for (index, wait) in self.waits_for.iter().enumerate() {
            let between = if index == 0 { "" } else { ", " };
            write!(f, "{between}{} (", wait.on)?;
            match wait.why {
                // Of something larger it says little that it failed.
                Why::Failed if *wait.failed != [wait.on.clone()] => write!(f, "{} failed)", listed(&*wait.failed, 5))?,
                _ => write!(f, "{})", wait.why)?,
            }
        }
        Ok(())
    }
}

/// What a run that starts now does first. A run that continues keeps a [`Schedule`], which knows what failed in it.
pub fn next(tree: &Arc<TaskTree>, progress: &Progress, limits: &ScheduleOptions) -> NextAction {
    Schedule::new(tree, progress, limits.clone()).next()
}
