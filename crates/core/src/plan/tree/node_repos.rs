//! Which repository each node of a tree is worked in.

use std::collections::{BTreeMap, BTreeSet};

use super::{TaskNode, TaskTree};
use crate::ids::{RepoName, TaskId};

/// The repository of each node of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRepos {
    /// The tree's own.
    own: RepoName,
    nodes: BTreeMap<TaskId, RepoName>,
    /// Inner nodes with tasks in several repositories.
    joint: BTreeSet<TaskId>,
}

impl TaskTree {
    /// Where the nodes are worked when the tree itself is of the repository `own`. A task is worked in the repository it
    /// names, or in that of the nearest node it is part of that names one. The tests of a phase belong where all its
    /// tasks are; those of a phase over several repositories follow the rule of tasks.
    pub fn repos(&self, own: &RepoName) -> NodeRepos {
        let named = |id: &TaskId| -> RepoName {
            let above = |node: &&TaskNode| node.parent.as_ref().and_then(|parent| self.node(parent));
            let mut line = std::iter::successors(self.node(id), above);
            line.find_map(|node| node.repo.clone()).unwrap_or_else(|| own.clone())
        };
        let (mut nodes, mut joint) = (BTreeMap::new(), BTreeSet::new());
        for node in self.nodes() {
            let leaves = if node.is_leaf() { Vec::new() } else { self.leaves_below(&node.id) };
            let below: BTreeSet<RepoName> = leaves.into_iter().map(named).collect();
            let repo = match below.first() {
                Some(only) if below.len() == 1 => only.clone(),
                _ => named(&node.id),
            };
            if below.len() > 1 {
                joint.insert(node.id.clone());
            }
            nodes.insert(node.id.clone(), repo);
        }
        NodeRepos { own: own.clone(), nodes, joint }
    }

    /// Whether any node names a repository.
    pub fn names_repos(&self) -> bool {
        self.nodes().any(|node| node.repo.is_some())
    }
}

impl NodeRepos {
    /// The repository of a node.
    pub fn of(&self, id: &TaskId) -> &RepoName {
        self.nodes.get(id).unwrap_or(&self.own)
    }

    /// Whether a node has tasks in several repositories.
    pub fn is_joint(&self, id: &TaskId) -> bool {
        self.joint.contains(id)
    }

    /// The repositories in which there is something to do: tasks of the order, and tests of phases.
    pub fn used(&self, tree: &TaskTree) -> BTreeSet<&RepoName> {
        let gates = tree.gates().into_iter().map(|gate| &gate.id);
        tree.order().iter().chain(gates).map(|id| self.of(id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_comes_from_the_nearest_node_above() {
        let text = r#"{"nodes": {
            "P": {"id": "P", "name": "p", "repo": "back", "children": ["A", "B", "G"],
                  "test_commands": [{"type": "e2e", "command": "true"}]},
            "A": {"id": "A", "name": "a", "parent": "P"},
            "B": {"id": "B", "name": "b", "parent": "P", "repo": "front"},
            "G": {"id": "G", "name": "g", "parent": "P", "children": ["C"]},
            "C": {"id": "C", "name": "c", "parent": "G", "repo": "front"},
            "D": {"id": "D", "name": "d"}}}"#;
        let tree = TaskTree::read(text).unwrap();
        let repo = |name: &str| RepoName::new(name).unwrap();
        let repos = tree.repos(&repo("main"));
        let id = |id: &str| TaskId::new(id).unwrap();
        let names = ["P", "A", "B", "G", "C", "D"].map(|node| repos.of(&id(node)).to_string());
        assert_eq!(names, ["back", "back", "front", "front", "front", "main"]);
        assert!(repos.is_joint(&id("P")) && !repos.is_joint(&id("G")) && !repos.is_joint(&id("A")));
        let used: Vec<_> = repos.used(&tree).into_iter().map(RepoName::as_str).collect();
        assert_eq!(used, ["back", "front", "main"]);
        assert_eq!(TaskTree::read(&tree.write()).unwrap(), tree);
        assert!(tree.names_repos());
    }
}
