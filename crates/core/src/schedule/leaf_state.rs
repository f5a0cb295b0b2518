//! What the commits say about a node, cut down to what decides.

use std::sync::Arc;

use crate::ids::TaskId;
use crate::plan::tree::TaskTree;
use crate::progress::{Progress, StepCommit, StepPlace, TaskState, TaskStatus};

/// What became of a leaf, as far as others depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeafState {
    /// It is to be worked.
    Open {
        /// Attempts that had a result, over its whole history.
        attempts: u32,
        /// Those of the budget.
        in_budget: u32,
        /// An attempt was started and has no result.
        begun: bool,
        /// The phase on whose branch it was done before it was set back.
        left_on: Option<TaskId>,
    },
    /// It has ended on its own branch.
    Waiting { failed: bool },
    /// It was given up, and the target says so.
    Failed { attempts: u32 },
    /// It is done: on the branch of its phase, or on the target.
    Complete { on_target: bool },
    /// It is done on the branch of a phase it is no part of any more: it comes with that one.
    Elsewhere { phase: TaskId },
    /// It is worked in another repository, and not done there.
    Outside { failed: bool },
}

impl LeafState {
    /// What became of a leaf of a tree.
    pub(super) fn at(progress: &Progress, tree: &TaskTree, leaf: &TaskId) -> Self {
        let standing = Self::of(progress.task(leaf), tree.phase_of(leaf));
        match standing {
            standing if !progress.is_outside(leaf) => standing,
            // What it brings others counts once it is where everybody finds it.
            Self::Complete { on_target: true } => standing,
            standing => Self::Outside { failed: standing.has_failed() },
        }
    }

    pub(super) fn of(state: &TaskState, phase: &TaskId) -> Self {
        let on = state.newest().map(|found| &found.on);
        let on_target = on == Some(&StepPlace::Target);
        match state.status {
            TaskStatus::Complete | TaskStatus::Failed if !state.landed => {
                Self::Waiting { failed: state.status == TaskStatus::Failed }
            }
            TaskStatus::Complete => match on {
                Some(StepPlace::Phase(other)) if other != phase => Self::Elsewhere { phase: other.clone() },
                _ => Self::Complete { on_target },
            },
            TaskStatus::Failed => Self::Failed { attempts: state.attempts },
            TaskStatus::Pending | TaskStatus::Implementing | TaskStatus::Testing | TaskStatus::Reviewing => {
                Self::Open {
                    attempts: state.attempts,
                    in_budget: state.in_budget,
                    begun: !state.unfinished().is_empty(),
                    left_on: left_on(state),
                }
            }
        }
    }

    pub(super) fn is_there(&self, level: DependencyLevel) -> bool {
        match self {
            Self::Complete { on_target } => *on_target || level == DependencyLevel::Landed,
            _ => false,
        }
    }

    /// The phase whose branch has it, though it is no part of that one any more.
    pub(super) fn comes_with(&self) -> Option<&TaskId> {
        match self {
            Self::Elsewhere { phase } => Some(phase),
            _ => None,
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Waiting { failed: true } | Self::Outside { failed: true })
    }

    /// Whether it was worked once more since it failed, and failed once more.
    pub(super) fn failed_again(&self, now: &Self) -> bool {
        match (self, now) {
            (Self::Failed { attempts: before }, Self::Failed { attempts }) => attempts > before,
            // On its own branch, which is new.
            (Self::Failed { .. }, Self::Waiting { failed }) => *failed,
            _ => false,
        }
    }

    /// It is done, whether or not anybody has it yet.
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Waiting { failed: false } | Self::Complete { .. } | Self::Elsewhere { .. })
    }
}

/// The phase on whose branch a task was done that is to be done again.
fn left_on(state: &TaskState) -> Option<TaskId> {
    let is_done = |found: &&Arc<StepCommit>| TaskStatus::after(&found.step) == TaskStatus::Complete;
    match &state.steps.iter().rev().find(is_done)?.on {
        StepPlace::Phase(phase) => Some(phase.clone()),
        StepPlace::Target | StepPlace::Task(_) => None,
    }
}

/// What became of a gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct GateState {
    pub(super) runs: u32,
    pub(super) green: bool,
    /// Its newest run failed.
    pub(super) red: bool,
    /// Its newest run is on the branch of its phase, and is of no use without what is there.
    pub(super) gathered: bool,
    /// It runs in another repository.
    pub(super) outside: bool,
}

impl GateState {
    /// What became of the gate of a node, as far as these leaves below it tell.
    pub(super) fn at<'a>(progress: &Progress, id: &TaskId, leaves: impl IntoIterator<Item = &'a TaskId>) -> Self {
        let (gate, outside) = (progress.gate(id, leaves), progress.is_outside(id));
        let red = gate.newest.as_ref().is_some_and(|found| !found.step.passed);
        let gathered = gate.newest.as_ref().is_some_and(|found| found.on != StepPlace::Target);
        Self { runs: gate.runs, green: gate.green, red, gathered, outside }
    }
}

/// How far a dependency must have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DependencyLevel {
    /// Landed on the branch of its phase, or on the target.
    Landed = 0,
    /// On the target.
    OnTarget = 1,
}

pub(super) const LEVELS: [DependencyLevel; 2] = [DependencyLevel::Landed, DependencyLevel::OnTarget];
