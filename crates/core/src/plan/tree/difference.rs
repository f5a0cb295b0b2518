//! What changed between two readings of a tree, for people.

use std::collections::BTreeSet;

use super::{TaskNode, TaskTree};
use crate::ids::{RepoName, TaskId};

impl TaskTree {
    /// What `newer` changes, one line each: nodes first, the order last. Where a node was read from is no change.
    pub fn difference(&self, newer: &TaskTree) -> Vec<String> {
        let mut lines = Vec::new();
        for node in self.nodes().filter(|node| newer.node(&node.id).is_none()) {
            lines.push(format!("{} removed: {}", node.id, node.name));
        }
        for node in newer.nodes() {
            match self.node(&node.id) {
                None => lines.push(format!("{} added: {}", node.id, node.name)),
                Some(old) => changes(old, node, &mut lines),
            }
        }
        lines.extend(self.order_change(newer));
        lines
    }

    /// Leaves both trees have, in another order, or taken out of it or into it.
    fn order_change(&self, newer: &TaskTree) -> Vec<String> {
        let both = |id: &&TaskId| self.is_leaf(id) && newer.is_leaf(id);
        let old: Vec<&TaskId> = self.order.iter().filter(both).collect();
        let new: Vec<&TaskId> = newer.order.iter().filter(both).collect();
        let (in_old, in_new): (BTreeSet<_>, BTreeSet<_>) = (old.iter().collect(), new.iter().collect());
        let mut lines = Vec::new();
        lines.extend(old.iter().filter(|id| !in_new.contains(id)).map(|id| format!("{id} is left out of the order")));
        lines.extend(
            new.iter().filter(|id| !in_old.contains(id)).map(|id| format!("{id} is no longer left out of the order")),
        );
        let kept = old.iter().filter(|id| in_new.contains(id));
        let moved = kept.zip(new.iter().filter(|id| in_old.contains(id))).find(|(old, new)| old != new);
        lines.extend(moved.map(|(old, new)| format!("the order changed: {new} comes before {old}")));
        lines
    }
}

fn changes(old: &TaskNode, new: &TaskNode, lines: &mut Vec<String>) {
    let id = &new.id;
    if old.name != new.name {
        lines.push(format!("{id} renamed: {} → {}", old.name, new.name));
    }
    if old.description != new.description {
        lines.push(format!("{id}: the description changed"));
    }
    if old.parent != new.parent {
        let shown = |parent: &Option<TaskId>| parent.as_ref().map_or("the top", TaskId::as_str).to_owned();
        lines.push(format!("{id} moved: {} → {}", shown(&old.parent), shown(&new.parent)));
    }
    if old.is_leaf() != new.is_leaf() {
        lines.push(format!("{id} {}", if new.is_leaf() { "is a task now" } else { "is no longer a task" }));
    }
    for other in new.depends_on.iter().filter(|other| !old.depends_on.contains(other)) {
        lines.push(format!("{id} depends on {other} now"));
    }
    for other in old.depends_on.iter().filter(|other| !new.depends_on.contains(other)) {
        lines.push(format!("{id} no longer depends on {other}"));
    }
    if old.test_commands != new.test_commands || old.unknown.tests != new.unknown.tests {
        lines.push(format!("{id}: the test commands changed"));
    }
    if old.pipeline != new.pipeline {
        let shown = |file: &Option<String>| file.as_deref().unwrap_or("the built-in one").to_owned();
        lines.push(format!("{id}: the pipeline changed: {} → {}", shown(&old.pipeline), shown(&new.pipeline)));
    }
    if old.touches != new.touches {
        lines.push(format!("{id}: what it touches changed"));
    }
    if old.repo != new.repo {
        let shown = |repo: &Option<RepoName>| repo.as_ref().map_or("none of its own", RepoName::as_str).to_owned();
        lines.push(format!("{id}: the repository changed: {} → {}", shown(&old.repo), shown(&new.repo)));
    }
    if old.unknown.fields != new.unknown.fields {
        lines.push(format!("{id}: fields of its own changed"));
    }
}
