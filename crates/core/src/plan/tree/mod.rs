//! The task tree: phases, groups and tasks, what each waits for, and the order the tasks are worked in.
//!
//! A [`TaskTree`] is sound by construction: [`TaskTree::read`] gives one without cycles, unknown ids or orphans, or all
//! the errors at once. Later code never checks again.

mod check;
mod difference;
mod draft;
mod graph;
mod hierarchy;
mod json;
mod node_repos;
mod path_pattern;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{RepoName, TaskId};
pub(in crate::plan) use check::check;
pub(in crate::plan) use draft::{Draft, DraftError, DraftNode, ParentField};
pub(in crate::plan) use json::{Json, ListItem, ObjectFields};
pub use node_repos::NodeRepos;
pub use path_pattern::PathPattern;
pub(in crate::plan) use read::{node_fields, tree_errors};

/// A checked task tree.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskTree {
    nodes: Vec<TaskNode>,
    index: BTreeMap<TaskId, usize>,
    /// The root ancestor of each node.
    phases: Vec<usize>,
    /// The place of each node in `order`, for the leaves that have one.
    positions: Vec<Option<usize>>,
    roots: Vec<TaskId>,
    order: Vec<TaskId>,
    spec_files: Vec<String>,
    unknown: Map<String, Value>,
}

/// A phase, a group or a task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskNode {
    /// Its name in branches and commits.
    pub id: TaskId,
    /// What people call it; never blank.
    pub name: String,
    /// What is to be done.
    pub description: String,
    /// The node it is part of.
    pub parent: Option<TaskId>,
    /// Its parts. A node without any is a leaf: work to be done.
    pub children: Vec<TaskId>,
    /// What must be done before it, or before anything below it, may start.
    pub depends_on: Vec<TaskId>,
    /// The file it was read from.
    pub source_file: Option<String>,
    /// The line it was read from, from 1.
    pub source_line: Option<u64>,
    /// What must pass: for a leaf before review, for an inner node when its last leaf is done.
    pub test_commands: Vec<TestCommand>,
    /// The pipeline file that takes the place of the built-in one.
    pub pipeline: Option<String>,
    /// The files it is expected to change, as far as it says.
    pub touches: Vec<PathPattern>,
    /// The repository of the workspace it is worked in, if it names one; else that of the node it is part of.
    pub repo: Option<RepoName>,
    unknown: UnknownFields,
}

/// Fields of a node that mean nothing here and are written back as they were.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::plan) struct UnknownFields {
    pub fields: Map<String, Value>,
    /// Those of the test commands, by their index.
    pub tests: Vec<Map<String, Value>>,
}

/// A command that tests a node, or prepares or cleans up after its tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestCommand {
    /// What kind of command it is.
    pub kind: TestKind,
    /// A line for the shell.
    pub command: String,
    /// The test framework whose output it prints.
    pub framework: Option<String>,
    /// How long it may take; none for the default.
    pub timeout: Option<Duration>,
}

impl TestCommand {
    /// The default timeout of a command.
    pub const TIMEOUT: Duration = Duration::from_secs(300);
}

/// What a test command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TestKind {
    /// Tests of one task.
    Unit,
    /// Tests of how tasks work together.
    Integration,
    /// Tests of the whole.
    E2e,
    /// Runs before the tests.
    Setup,
    /// Runs after the tests, whatever came of them.
    Teardown,
}

impl TestKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Unit, Self::Integration, Self::E2e, Self::Setup, Self::Teardown];

    /// Whether it tests anything: what runs before and after tests does not.
    pub fn is_test(self) -> bool {
        !matches!(self, Self::Setup | Self::Teardown)
    }

    /// The word for it in trees and trailers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Integration => "integration",
            Self::E2e => "e2e",
            Self::Setup => "setup",
            Self::Teardown => "teardown",
        }
    }
}

impl fmt::Display for TestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that is no kind of test.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a type of test command: use unit, integration, e2e, setup or teardown")]
pub struct UnknownTestKind(String);

impl FromStr for TestKind {
    type Err = UnknownTestKind;
    fn from_str(word: &str) -> Result<Self, UnknownTestKind> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word).ok_or_else(|| UnknownTestKind(word.to_owned()))
    }
}

/// One error in a tree, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}{}{message}", if .path.is_empty() { "" } else { ": " })]
pub struct TreeError {
    /// The JSON path, as in `nodes.T001.depends_on[0]`; empty when it is about the whole text.
    pub path: String,
    /// What is wrong and how to fix it.
    pub message: String,
}

impl TaskTree {
    /// The node of that name.
    pub fn node(&self, id: &TaskId) -> Option<&TaskNode> {
        self.index.get(id).map(|index| &self.nodes[*index])
    }

    /// All nodes, in the order of the file.
    pub fn nodes(&self) -> impl Iterator<Item = &TaskNode> {
        self.nodes.iter()
    }

    /// The nodes without a parent: the phases, and tasks that belong to none.
    pub fn roots(&self) -> &[TaskId] {
        &self.roots
    }

    /// Whether it is a task to be worked, not a phase or a group.
    pub fn is_leaf(&self, id: &TaskId) -> bool {
        self.node(id).is_some_and(TaskNode::is_leaf)
    }

    /// The tasks to be worked, in the order they are taken up when nothing else decides.
    pub fn order(&self) -> &[TaskId] {
        &self.order
    }

    /// The leaves a given `execution_order` leaves out: they are never worked.
    pub fn left_out(&self) -> Vec<&TaskId> {
        let nodes = self.nodes.iter().zip(&self.positions);
        nodes.filter(|(node, position)| node.is_leaf() && position.is_none()).map(|(node, _)| &node.id).collect()
    }

    /// The root ancestor; a root is its own.
    pub fn phase_of<'a>(&'a self, id: &'a TaskId) -> &'a TaskId {
        self.index.get(id).map_or(id, |index| &self.nodes[self.phases[*index]].id)
    }

    /// The tasks below a node that are to be worked, in their order. A leaf gives itself.
    pub fn leaves_below(&self, id: &TaskId) -> Vec<&TaskId> {
        let Some(&start) = self.index.get(id) else { return Vec::new() };
        if self.nodes[start].is_leaf() {
            return vec![&self.nodes[start].id];
        }
        let mut open = vec![start];
        let mut found = Vec::new();
        while let Some(node) = open.pop() {
            found.extend(self.positions[node]);
            open.extend(self.nodes[node].children.iter().map(|child| self.index[child]));
        }
        found.sort_unstable();
        found.into_iter().map(|position| &self.order[position]).collect()
    }

    /// What a task waits for: its own dependencies and those of all its ancestors, leaves or inner nodes, each once.
    pub fn dependencies(&self, leaf: &TaskId) -> Vec<&TaskId> {
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        let mut node = self.node(leaf);
        while let Some(current) = node {
            found.extend(current.depends_on.iter().filter(|id| seen.insert(*id)));
            node = current.parent.as_ref().and_then(|parent| self.node(parent));
        }
        found
    }

    /// The inner nodes whose integration and end-to-end tests must pass when their last leaf is done, in the order of
    /// the file. One below which nothing is worked has nothing to gate.
    pub fn gates(&self) -> Vec<&TaskNode> {
        let tests = |kind| matches!(kind, TestKind::Integration | TestKind::E2e);
        let gates = |node: &&TaskNode| !node.is_leaf() && node.test_commands.iter().any(|test| tests(test.kind));
        self.nodes.iter().filter(gates).filter(|node| !self.leaves_below(&node.id).is_empty()).collect()
    }

    /// The inner nodes with unit tests, which never run: only tasks have those.
    pub fn with_idle_tests(&self) -> Vec<&TaskId> {
        let is_idle =
            |node: &&TaskNode| !node.is_leaf() && node.test_commands.iter().any(|test| test.kind == TestKind::Unit);
        self.nodes.iter().filter(is_idle).map(|node| &node.id).collect()
    }

    /// The inner nodes that name a pipeline, which works nothing: those are of tasks.
    pub fn with_idle_pipelines(&self) -> Vec<&TaskId> {
        let is_idle = |node: &&TaskNode| !node.is_leaf() && node.pipeline.is_some();
        self.nodes.iter().filter(is_idle).map(|node| &node.id).collect()
    }

    /// The files a task is expected to change: by its own words, or by those of the nearest node it is part of that
    /// says so.
    pub fn touches(&self, task: &TaskId) -> &[PathPattern] {
        let mut at = self.node(task);
        while let Some(node) = at {
            if !node.touches.is_empty() {
                return &node.touches;
            }
            at = node.parent.as_ref().and_then(|parent| self.node(parent));
        }
        &[]
    }

    /// A cycle between phases, each waiting for the next and the last for the first. Tasks may still have an order
    /// then, but phases that land as a whole do not.
    pub fn phase_cycle(&self) -> Option<Vec<TaskId>> {
        let mut waits = vec![Vec::new(); self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            let phases = node.depends_on.iter().map(|id| self.phases[self.index[id]]);
            waits[self.phases[index]].extend(phases.filter(|phase| *phase != self.phases[index]));
        }
        let component = graph::components(&waits).into_iter().find(|component| component.len() > 1)?;
        let cycle = graph::shortest_cycle(&waits, &component, component[0]);
        Some(cycle.into_iter().map(|phase| self.nodes[phase].id.clone()).collect())
    }

    /// The files the tree was made from.
    pub fn spec_files(&self) -> &[String] {
        &self.spec_files
    }
}

impl TaskNode {
    /// Whether it is a task to be worked, not a phase or a group.
    pub fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }
}
