//! Finished work that nothing would land: the tree was edited since it was started.

use std::fmt;

use super::{OpenBranch, Progress, StepPlace, TaskState, TaskStatus};
use crate::ids::TaskId;
use crate::plan::tree::TaskTree;

/// A branch with finished work that nothing of a tree lands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrandedWork {
    /// The task that was done there, or the phase it was done for.
    pub id: TaskId,
    /// What it is no longer.
    pub lacks: StrandedReason,
    /// The branch.
    pub branch: OpenBranch,
    /// The tasks whose finished work is there.
    pub tasks: Vec<TaskId>,
}

/// What a task or phase is no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrandedReason {
    /// The tree does not have it.
    Node,
    /// It has tasks below it.
    Task,
    /// It is a task, or part of another phase.
    Phase,
    /// It is part of another phase or of none, or left out of the order.
    Part,
}

impl fmt::Display for StrandedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Node => "is no longer in the tree",
            Self::Task => "is now a group of tasks",
            Self::Phase => "is no longer a phase of its own",
            Self::Part => "is no longer part of that phase",
        })
    }
}

impl Progress {
    /// A branch with finished work that nothing would land: its task is not in the tree, or none of the tasks whose work is
    /// on a phase's branch is part of that phase any more, and nothing else of it brings them along.
    pub fn stray(&self, tree: &TaskTree) -> Option<StrandedWork> {
        self.open.iter().find_map(|branch| {
            let tasks: Vec<&TaskId> = self.finished_on(&branch.place).collect();
            let first = *tasks.first()?;
            let (id, lacks) = match &branch.place {
                StepPlace::Task(id) if tree.is_leaf(id) => return None,
                StepPlace::Task(id) => (id, StrandedReason::Task),
                StepPlace::Phase(phase) if !is_phase(tree, phase) => (phase, StrandedReason::Phase),
                StepPlace::Phase(phase) => {
                    let of_phase = tree.leaves_below(phase);
                    if tasks.iter().any(|task| of_phase.contains(task)) {
                        return None;
                    }
                    // What is part of other phases by now comes along once the rest of this one is done there.
                    let is_there = |state: &TaskState| state.status == TaskStatus::Complete && state.landed;
                    let is_to_do = |leaf: &&TaskId| !is_there(self.task(leaf));
                    if of_phase.iter().any(is_to_do) && tasks.iter().all(|task| is_part(tree, task)) {
                        return None;
                    }
                    let became_group = tree.node(first).is_some() && !tree.is_leaf(first);
                    (first, if became_group { StrandedReason::Task } else { StrandedReason::Part })
                }
                StepPlace::Target => return None,
            };
            let lacks = if tree.node(id).is_none() { StrandedReason::Node } else { lacks };
            let tasks = tasks.into_iter().cloned().collect();
            Some(StrandedWork { id: id.clone(), lacks, branch: branch.clone(), tasks })
        })
    }

    /// The tasks whose finished work is in one place.
    pub fn finished_on(&self, place: &StepPlace) -> impl Iterator<Item = &TaskId> {
        let is_there = move |state: &TaskState| state.newest().is_some_and(|found| found.on == *place);
        let finished =
            move |(_, state): &(&TaskId, &TaskState)| state.status == TaskStatus::Complete && is_there(state);
        self.tasks().filter(finished).map(|(task, _)| task)
    }
}

/// Whether a task is to be worked as part of some phase.
fn is_part(tree: &TaskTree, id: &TaskId) -> bool {
    tree.phase_of(id) != id && tree.leaves_below(tree.phase_of(id)).contains(&id)
}

fn is_phase(tree: &TaskTree, id: &TaskId) -> bool {
    tree.phase_of(id) == id && tree.node(id).is_some_and(|node| !node.is_leaf())
}
