//! What other trees have on the branches of a target: tasks of two trees may have the same id, and share a branch then.

use std::collections::BTreeSet;

use super::{CandidateStep, Chain, OpenBranch, StepPlace, fold};
use crate::ids::{SessionId, TaskId};
use crate::step::TreeName;

/// A task's or phase's branch with steps of another tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherTreeWork {
    /// The branch.
    pub branch: OpenBranch,
    /// The task or phase it is named after.
    pub id: TaskId,
    /// The other tree.
    pub tree: TreeName,
    /// What the other tree has there.
    pub stands: OtherTreeState,
    /// The session of a task.
    pub session: Option<SessionId>,
    /// The tasks whose finished work a phase's branch has.
    pub tasks: Vec<TaskId>,
}

/// What a tree has on a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherTreeState {
    /// Steps of a run that does not count any more.
    Left,
    /// Work its next run continues with.
    UnderWay,
    /// A finished task its next run lands.
    Waiting,
}

/// The branches that have steps of other trees than `tree` which are nowhere else. Of tasks only those that are not over:
/// the branch of one that is may be used again.
pub fn taken(target: &[CandidateStep], branches: &[Chain], tree: &TreeName) -> Vec<OtherTreeWork> {
    fn names(chain: &Chain) -> impl Iterator<Item = TreeName> {
        chain.steps.iter().filter_map(|seen| seen.found.step.tree.as_deref().map(TreeName::of))
    }
    let others: BTreeSet<TreeName> = branches.iter().flat_map(names).filter(|named| named != tree).collect();
    let mut taken = Vec::new();
    for other in others {
        let progress = fold(target, branches, &other);
        for chain in branches.iter().filter(|chain| names(chain).any(|named| named == other)) {
            let is_open = progress.open.contains(&chain.branch);
            let (id, stands, session, tasks) = match &chain.branch.place {
                StepPlace::Task(id) => {
                    let state = progress.task(id);
                    if !is_open || state.landed {
                        continue;
                    }
                    let is_over = state.status.is_over();
                    (
                        id,
                        if is_over { OtherTreeState::Waiting } else { OtherTreeState::UnderWay },
                        state.session.clone(),
                        Vec::new(),
                    )
                }
                StepPlace::Phase(id) => {
                    // What is left of tasks that failed, or of tests, is nothing its next run would merge.
                    let finished = || progress.finished_on(&chain.branch.place).cloned();
                    let tasks: Vec<TaskId> = if is_open { finished().collect() } else { Vec::new() };
                    (id, if tasks.is_empty() { OtherTreeState::Left } else { OtherTreeState::UnderWay }, None, tasks)
                }
                StepPlace::Target => continue,
            };
            let (branch, id, tree) = (chain.branch.clone(), id.clone(), other.clone());
            taken.push(OtherTreeWork { branch, id, tree, stands, session, tasks });
        }
    }
    taken
}
