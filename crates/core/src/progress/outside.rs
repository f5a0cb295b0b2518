//! Nodes of a tree that are worked in other repositories than the one that is looked at.

use std::collections::BTreeMap;

use super::{GateProgress, Progress, StepCommit, TaskState};
use crate::ids::{RepoName, TaskId};
use crate::plan::tree::{NodeRepos, TaskTree};

/// A node that is worked in another repository, as that one has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutsideNode {
    pub state: TaskState,
    /// What happened to its gate; only of an inner node.
    pub gate: Option<GateProgress>,
}

impl OutsideNode {
    /// Whether it has a step that a gate does not know. Between repositories only dates tell, and no step of a tree is
    /// dated before one it follows.
    pub(super) fn is_later_than(&self, run: &StepCommit) -> bool {
        self.state.newest().is_some_and(|newest| newest.at > run.at)
    }
}

impl Progress {
    /// The same, with the nodes that are worked in other repositories as those have them.
    pub fn with_outside(
        mut self,
        tree: &TaskTree,
        own: &RepoName,
        repos: &NodeRepos,
        others: &BTreeMap<RepoName, Progress>,
    ) -> Self {
        let nothing = Self::default();
        let mut outside = BTreeMap::new();
        for node in tree.nodes() {
            let repo = repos.of(&node.id);
            if repo == own {
                continue;
            }
            let there = others.get(repo).unwrap_or(&nothing);
            let gate = (!node.is_leaf()).then(|| there.gate_with(tree, &node.id, repos, own, &self, others));
            outside.insert(node.id.clone(), OutsideNode { state: there.task(&node.id).clone(), gate });
        }
        self.not_before =
            others.values().map(|there| there.not_before).chain([self.not_before]).max().unwrap_or_default();
        self.outside = outside;
        self
    }

    /// The gate of an inner node of this repository, when the leaves below it may be in others.
    fn gate_with(
        &self,
        tree: &TaskTree,
        id: &TaskId,
        repos: &NodeRepos,
        own: &RepoName,
        of_own: &Self,
        others: &BTreeMap<RepoName, Self>,
    ) -> GateProgress {
        let here = repos.of(id);
        let (inside, outside): (Vec<&TaskId>, Vec<&TaskId>) =
            tree.leaves_below(id).into_iter().partition(|leaf| repos.of(leaf) == here);
        let mut gate = self.gate(id, inside);
        let state = |leaf: &TaskId| match repos.of(leaf) {
            repo if repo == own => Some(of_own.task(leaf)),
            repo => others.get(repo).map(|there| there.task(leaf)),
        };
        if let Some(run) = &gate.newest {
            let is_later = |state: &TaskState| state.newest().is_some_and(|newest| newest.at > run.at);
            gate.green &= !outside.into_iter().filter_map(state).any(is_later);
        }
        gate
    }

    /// Whether a node is worked in another repository.
    pub fn is_outside(&self, id: &TaskId) -> bool {
        self.outside.contains_key(id)
    }

    /// All tasks and phases that have steps in the repositories they are worked in, by id.
    pub fn tasks_anywhere(&self) -> impl Iterator<Item = (&TaskId, &TaskState)> {
        let outside = self.outside.iter().map(|(id, node)| (id, &node.state));
        let mut all: Vec<_> = self.tasks().chain(outside.filter(|(_, state)| !state.steps.is_empty())).collect();
        all.sort_by_key(|(id, _)| *id);
        all.into_iter()
    }
}
