//! From a draft to a valid tree, or to all its errors.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{CycleLink, DependencyGraph, components};
use super::hierarchy::Hierarchy;
use super::{Draft, DraftError, DraftNode, ListItem, ParentField, TaskNode, TaskTree};
use crate::ids::TaskId;

/// How many links of a cycle a message names.
const LINKS_SHOWN: usize = 12;

/// Checks a draft and orders its leaves.
pub(in crate::plan) fn check(draft: Draft) -> Result<TaskTree, Vec<DraftError>> {
    let mut checker = Checker::new(&draft.nodes);
    let ids = checker.ids();
    checker.names();
    let parents = checker.parents();
    let children = checker.children(&parents);
    let roots = roots(&draft, &parents);
    let shape = Hierarchy::new(&roots, &parents, &children);
    let depends_on = checker.dependencies(&shape);
    let waits = DependencyGraph { parents: &parents, children: &children, depends_on: &depends_on };
    let mut order = waits.order(&shape.entered);
    let cyclic = order.len() < children.iter().filter(|children| children.is_empty()).count();
    if cyclic {
        checker.cycles(&waits.cycles());
    }
    if !draft.order.is_empty() {
        order = checker.given_order(&draft.order, &children);
        if !cyclic {
            checker.contradictions(&draft.order, &order, &shape, &depends_on);
        }
    }
    match (ids, checker.faults) {
        (Some(ids), faults) if faults.is_empty() => Ok(tree(draft, ids, &parents, &children, &roots, &order)),
        (_, faults) => Err(faults),
    }
}

struct Checker<'d> {
    nodes: &'d [DraftNode],
    index: BTreeMap<&'d str, usize>,
    faults: Vec<DraftError>,
}

impl<'d> Checker<'d> {
    fn new(nodes: &'d [DraftNode]) -> Self {
        let mut index = BTreeMap::new();
        for (at, node) in nodes.iter().enumerate() {
            index.entry(node.id.as_str()).or_insert(at);
        }
        Self { nodes, index, faults: Vec::new() }
    }

    fn fault(&mut self, node: usize, field: &'static str, item: Option<usize>, message: String) {
        self.faults.push(DraftError { node: Some(node), field, item, message });
    }

    fn id(&self, node: usize) -> &'d str {
        &self.nodes[node].id
    }

    /// The ids, when all of them are good.
    fn ids(&mut self) -> Option<Vec<TaskId>> {
        if self.nodes.is_empty() {
            let message = "the tree has no tasks; add at least one".to_owned();
            self.faults.push(DraftError { node: None, field: "nodes", item: None, message });
        }
        let mut ids = Vec::with_capacity(self.nodes.len());
        for (at, node) in self.nodes.iter().enumerate() {
            match TaskId::new(node.id.as_str()) {
                Ok(id) => ids.push(id),
                Err(invalid) => self.fault(at, "id", None, invalid.to_string()),
            }
            if self.index[node.id.as_str()] != at {
                self.fault(at, "id", None, format!("`{}` is given twice; give one of them another id", node.id));
            }
        }
        (ids.len() == self.nodes.len()).then_some(ids)
    }

    fn names(&mut self) {
        for (at, node) in self.nodes.iter().enumerate() {
            if node.name.as_ref().is_some_and(|name| name.trim().is_empty()) {
                self.fault(at, "name", None, "is empty; describe it in a few words".to_owned());
            }
        }
    }

    /// The node an item of a list names; an error when there is none, or when an earlier item names it too.
    fn named(
        &mut self,
        node: usize,
        field: &'static str,
        item: &'d ListItem,
        seen: &mut BTreeSet<usize>,
    ) -> Option<usize> {
        let Some(&other) = self.index.get(item.id.as_str()) else {
            self.fault(node, field, Some(item.at), format!("there is no node `{}`", item.id));
            return None;
        };
        if !seen.insert(other) {
            self.fault(node, field, Some(item.at), format!("`{}` is given twice; keep one", item.id));
            return None;
        }
        Some(other)
    }

    /// The one parent of each node, with no node inside of itself.
    fn parents(&mut self) -> Vec<Option<usize>> {
        let lists = self.child_lists();
        let mut listed_by = vec![Vec::new(); self.nodes.len()];
        for (parent, list) in lists.iter().enumerate() {
            for &(item, child) in list {
                listed_by[child].push((parent, item));
            }
        }
        let mut parents = vec![None; self.nodes.len()];
        for child in 0..self.nodes.len() {
            let named = self.named_parent(child);
            if let Some(parent) = named
                && self.nodes[parent].children.is_some()
                && !listed_by[child].iter().any(|(by, _)| *by == parent)
            {
                let message = format!("`{}` does not list it in `children`; make them agree", self.id(parent));
                self.fault(child, "parent", None, message);
            }
            parents[child] = named.or(listed_by[child].first().map(|(by, _)| *by));
            self.other_parents(child, parents[child], &listed_by[child]);
        }
        self.unravel(&mut parents);
        parents
    }

    /// The nodes each node lists as its children, with their places in the list.
    fn child_lists(&mut self) -> Vec<Vec<(usize, usize)>> {
        let mut lists = vec![Vec::new(); self.nodes.len()];
        for (parent, node) in self.nodes.iter().enumerate() {
            let mut seen = BTreeSet::new();
            for item in node.children.iter().flatten() {
                match self.named(parent, "children", item, &mut seen) {
                    Some(child) if child == parent => {
                        self.fault(parent, "children", Some(item.at), "it cannot be its own child".to_owned());
                    }
                    Some(child) => lists[parent].push((item.at, child)),
                    None => {}
                }
            }
        }
        lists
    }

    fn named_parent(&mut self, child: usize) -> Option<usize> {
        let ParentField::Named(name) = &self.nodes[child].parent else { return None };
        match self.index.get(name.as_str()) {
            Some(&parent) if parent != child => Some(parent),
            Some(_) => {
                self.fault(child, "parent", None, "it cannot be its own parent".to_owned());
                None
            }
            None => {
                self.fault(child, "parent", None, format!("there is no node `{name}`"));
                None
            }
        }
    }

    fn other_parents(&mut self, child: usize, parent: Option<usize>, listed_by: &[(usize, usize)]) {
        let id = self.id(child);
        let orphan = self.nodes[child].parent == ParentField::None;
        for &(by, item) in listed_by.iter().filter(|(by, _)| orphan || Some(*by) != parent) {
            let message = match parent {
                Some(parent) if !orphan => {
                    format!("`{id}` is part of `{}` already; a node has one parent", self.id(parent))
                }
                _ => format!("`{id}` has no `parent`; make them agree"),
            };
            self.fault(by, "children", Some(item), message);
        }
    }

    /// Reports nodes that contain themselves and makes them roots.
    fn unravel(&mut self, parents: &mut [Option<usize>]) {
        let edges: Vec<Vec<usize>> = parents.iter().map(|parent| parent.iter().copied().collect()).collect();
        for cycle in components(&edges).into_iter().filter(|component| component.len() > 1) {
            let up = std::iter::successors(Some(cycle[0]), |node| parents[*node]).take(cycle.len().min(LINKS_SHOWN));
            let names: Vec<String> = up.map(|node| format!("`{}`", self.id(node))).collect();
            let more = if cycle.len() > LINKS_SHOWN { ", …" } else { "" };
            let message = format!("it contains itself: {}{more}, and again `{}`", names.join(", "), self.id(cycle[0]));
            self.fault(cycle[0], "parent", None, message);
            cycle.into_iter().for_each(|node| parents[node] = None);
        }
    }

    /// The children of each node: as it lists them, or in the order of the text when it does not.
    fn children(&self, parents: &[Option<usize>]) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.nodes.len()];
        let mut placed = vec![false; self.nodes.len()];
        for (parent, node) in self.nodes.iter().enumerate() {
            for child in node.children.iter().flatten().filter_map(|item| self.index.get(item.id.as_str())) {
                if parents[*child] == Some(parent) && !std::mem::replace(&mut placed[*child], true) {
                    children[parent].push(*child);
                }
            }
        }
        for child in (0..self.nodes.len()).filter(|child| !placed[*child]) {
            if let Some(parent) = parents[child] {
                children[parent].push(child);
            }
        }
        children
    }

    /// What each node depends on, without what could never be.
    fn dependencies(&mut self, shape: &Hierarchy) -> Vec<Vec<usize>> {
        let mut depends_on = vec![Vec::new(); self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            let mut seen = BTreeSet::new();
            for item in &node.depends_on {
                let Some(other) = self.named(at, "depends_on", item, &mut seen) else { continue };
                let message = if other == at {
                    "it cannot depend on itself".to_owned()
                } else if shape.holds(other, at) {
                    format!("it is part of `{}`, which cannot be done before it", item.id)
                } else if shape.holds(at, other) {
                    format!("`{}` is part of it and cannot be done before it starts", item.id)
                } else {
                    depends_on[at].push(other);
                    continue;
                };
                self.fault(at, "depends_on", Some(item.at), message);
            }
        }
        depends_on
    }

    fn cycles(&mut self, cycles: &[Vec<CycleLink>]) {
        for cycle in cycles {
            let Some(&CycleLink::DependsOn(node, on)) = cycle.first() else { continue };
            let words = cycle.iter().take(LINKS_SHOWN).map(|link| match *link {
                CycleLink::DependsOn(from, to) => format!("`{}` depends on `{}`", self.id(from), self.id(to)),
                CycleLink::PartOf(from, to) => format!("`{}` is part of `{}`", self.id(from), self.id(to)),
                CycleLink::Holds(from, to) => format!("`{}` holds `{}`", self.id(from), self.id(to)),
            });
            let mut words: Vec<String> = words.collect();
            if cycle.len() > LINKS_SHOWN {
                words.push(format!("and {} more", cycle.len() - LINKS_SHOWN));
            }
            let item = self.nodes[node].depends_on.iter().find(|item| item.id == self.id(on)).map(|item| item.at);
            self.fault(node, "depends_on", item, format!("dependency cycle: {}", words.join(", ")));
        }
    }

    /// The leaves in the order that was given.
    fn given_order(&mut self, given: &[ListItem], children: &[Vec<usize>]) -> Vec<usize> {
        let mut seen = BTreeSet::new();
        let mut order = Vec::with_capacity(given.len());
        for item in given {
            let id = &item.id;
            let message = match self.index.get(id.as_str()) {
                None => format!("there is no node `{id}`"),
                Some(node) if !children[*node].is_empty() => {
                    format!("`{id}` has children: only leaves are worked, so name those")
                }
                Some(node) if !seen.insert(*node) => format!("`{id}` is given twice; keep one"),
                Some(node) => {
                    order.push(*node);
                    continue;
                }
            };
            self.faults.push(DraftError { node: None, field: "execution_order", item: Some(item.at), message });
        }
        order
    }

    /// Reports where a given order puts something before what it depends on.
    fn contradictions(&mut self, given: &[ListItem], order: &[usize], shape: &Hierarchy, depends_on: &[Vec<usize>]) {
        let (first, last) = shape.span(order);
        for (node, others) in depends_on.iter().enumerate() {
            for &other in others {
                let (Some(begin), Some(end)) = (first[node], last[other]) else { continue };
                if begin > end {
                    continue;
                }
                let early = self.id(order[begin]);
                let item = given.iter().find(|item| item.id == early).map(|item| item.at);
                let inherited =
                    if order[begin] == node { String::new() } else { format!(" (through `{}`)", self.id(node)) };
                let group = if order[end] == other { String::new() } else { format!(", of `{}`", self.id(other)) };
                let message =
                    format!("`{early}` comes before `{}`{group}, which it depends on{inherited}", self.id(order[end]));
                self.faults.push(DraftError { node: None, field: "execution_order", item, message });
            }
        }
    }
}

/// Nodes without a parent: as the text orders them when it names exactly these, else as they come.
fn roots(draft: &Draft, parents: &[Option<usize>]) -> Vec<usize> {
    let roots: Vec<usize> = (0..parents.len()).filter(|node| parents[*node].is_none()).collect();
    let by_name: BTreeMap<&str, usize> = roots.iter().map(|node| (draft.nodes[*node].id.as_str(), *node)).collect();
    let given: Vec<usize> = draft.roots.iter().filter_map(|id| by_name.get(id.as_str()).copied()).collect();
    let distinct: BTreeSet<usize> = given.iter().copied().collect();
    let exact = given.len() == draft.roots.len() && distinct.len() == given.len() && given.len() == roots.len();
    if exact { given } else { roots }
}

/// Puts a draft that holds together into its final form.
fn tree(
    draft: Draft,
    ids: Vec<TaskId>,
    parents: &[Option<usize>],
    children: &[Vec<usize>],
    roots: &[usize],
    order: &[usize],
) -> TaskTree {
    let index: BTreeMap<TaskId, usize> = ids.iter().cloned().zip(0..).collect();
    let mut phases: Vec<usize> = (0..ids.len()).collect();
    let mut open = roots.to_vec();
    while let Some(node) = open.pop() {
        for &child in &children[node] {
            phases[child] = phases[node];
            open.push(child);
        }
    }
    let mut positions = vec![None; ids.len()];
    order.iter().enumerate().for_each(|(position, leaf)| positions[*leaf] = Some(position));
    let named = |nodes: &[usize]| nodes.iter().map(|node| ids[*node].clone()).collect::<Vec<_>>();
    let nodes = draft.nodes.into_iter().enumerate().map(|(at, node)| TaskNode {
        id: ids[at].clone(),
        name: node.name.unwrap_or_default(),
        description: node.description,
        parent: parents[at].map(|parent| ids[parent].clone()),
        children: named(&children[at]),
        depends_on: node.depends_on.iter().map(|item| ids[index[item.id.as_str()]].clone()).collect(),
        source_file: node.source_file,
        source_line: node.source_line,
        test_commands: node.test_commands,
        pipeline: node.pipeline,
        touches: node.touches,
        repo: node.repo,
        unknown: node.unknown,
    });
    TaskTree {
        nodes: nodes.collect(),
        phases,
        positions,
        roots: named(roots),
        order: named(order),
        spec_files: draft.spec_files,
        unknown: draft.unknown,
        index,
    }
}
