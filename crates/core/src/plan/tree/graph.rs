//! What waits for what, as indices. No walk is recursive and none visits an edge twice, however deep or wide the tree.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// Groups of vertices that reach each other, each sorted; groups in the order of their smallest vertex.
pub(super) fn components(edges: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    let mut number = vec![NEW; edges.len()];
    let mut lowest = vec![0; edges.len()];
    let mut done = vec![false; edges.len()];
    let (mut stack, mut walk, mut found) = (Vec::new(), Vec::new(), Vec::new());
    let mut next = 0;
    for start in 0..edges.len() {
        if number[start] == NEW {
            walk.push((start, 0));
        }
        while let Some((vertex, edge)) = walk.pop() {
            if edge == 0 {
                number[vertex] = next;
                lowest[vertex] = next;
                next += 1;
                stack.push(vertex);
            } else {
                let came_from = edges[vertex][edge - 1];
                if !done[came_from] {
                    lowest[vertex] = lowest[vertex].min(lowest[came_from]);
                }
            }
            let unseen = (edge..edges[vertex].len()).find(|at| number[edges[vertex][*at]] == NEW);
            let seen = &edges[vertex][edge..unseen.unwrap_or(edges[vertex].len())];
            let open = seen.iter().filter(|to| !done[**to]).map(|to| number[*to]);
            lowest[vertex] = open.fold(lowest[vertex], usize::min);
            if let Some(at) = unseen {
                walk.push((vertex, at + 1));
                walk.push((edges[vertex][at], 0));
            } else if lowest[vertex] == number[vertex] {
                let from = stack.iter().rposition(|other| *other == vertex).unwrap_or(0);
                let mut component = stack.split_off(from);
                component.iter().for_each(|member| done[*member] = true);
                component.sort_unstable();
                found.push(component);
            }
        }
    }
    found.sort_unstable_by_key(|component| component[0]);
    found
}

/// The shortest way from `start` back to it inside of its component, beginning with `start`; empty when there is none.
pub(super) fn shortest_cycle(edges: &[Vec<usize>], component: &[usize], start: usize) -> Vec<usize> {
    let mut reached_from = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(vertex) = queue.pop_front() {
        for &to in edges[vertex].iter().filter(|to| component.binary_search(to).is_ok()) {
            if to == start {
                let back = std::iter::successors(Some(vertex), |at| reached_from.get(at).copied());
                let mut cycle: Vec<_> = back.collect();
                cycle.reverse();
                return cycle;
            }
            if let Entry::Vacant(entry) = reached_from.entry(to) {
                entry.insert(vertex);
                queue.push_back(to);
            }
        }
    }
    Vec::new()
}

/// A hierarchy and what its nodes depend on.
pub(super) struct DependencyGraph<'a> {
    pub parents: &'a [Option<usize>],
    pub children: &'a [Vec<usize>],
    /// What each node depends on, apart from what it is part of and what it holds.
    pub depends_on: &'a [Vec<usize>],
}

/// One link of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CycleLink {
    /// The first waits for the second.
    DependsOn(usize, usize),
    /// The first cannot start before the second does.
    PartOf(usize, usize),
    /// The first is not done before the second is.
    Holds(usize, usize),
}

/// A node may start when its parent may and its dependencies are done; it is done when its children are. As two
/// vertices per node that is a graph with as many edges as the tree has words, where a dependency between two phases
/// of n leaves would otherwise be n² of them.
fn start(node: usize) -> usize {
    2 * node
}

fn done(node: usize) -> usize {
    2 * node + 1
}

impl DependencyGraph<'_> {
    /// What each vertex waits for.
    fn before(&self) -> Vec<Vec<usize>> {
        let mut before = vec![Vec::new(); 2 * self.parents.len()];
        for node in 0..self.parents.len() {
            before[start(node)].extend(self.depends_on[node].iter().map(|other| done(*other)));
            before[start(node)].extend(self.parents[node].map(start));
            before[done(node)].extend(self.children[node].iter().map(|child| done(*child)));
            if self.children[node].is_empty() {
                before[done(node)].push(start(node));
            }
        }
        before
    }

    /// The leaves, each after all it waits for: whenever a leaf is done, those it frees come next in line, in the order
    /// of `rank`. Leaves on cycles are missing.
    pub fn order(&self, rank: &[usize]) -> Vec<usize> {
        let before = self.before();
        let mut open: Vec<usize> = before.iter().map(Vec::len).collect();
        let mut after = vec![Vec::new(); before.len()];
        for (vertex, waits) in before.iter().enumerate() {
            waits.iter().for_each(|other| after[*other].push(vertex));
        }
        let is_leaf_start = |vertex: usize| vertex == start(vertex / 2) && self.children[vertex / 2].is_empty();
        // Follows what has happened as far as it goes without a leaf being worked.
        let mut follow = |mut happened: Vec<usize>| {
            let mut freed = Vec::new();
            while let Some(vertex) = happened.pop() {
                if is_leaf_start(vertex) {
                    freed.push(vertex / 2);
                    continue;
                }
                for &next in &after[vertex] {
                    open[next] -= 1;
                    if open[next] == 0 {
                        happened.push(next);
                    }
                }
            }
            freed.sort_unstable_by_key(|leaf| rank[*leaf]);
            freed
        };
        let free = (0..before.len()).filter(|vertex| before[*vertex].is_empty()).collect();
        let mut queue = VecDeque::from(follow(free));
        let mut order = Vec::new();
        while let Some(leaf) = queue.pop_front() {
            order.push(leaf);
            queue.extend(follow(vec![done(leaf)]));
        }
        order
    }

    /// One cycle for each group of nodes that wait for each other, beginning with a dependency.
    pub fn cycles(&self) -> Vec<Vec<CycleLink>> {
        let before = self.before();
        let groups = components(&before).into_iter().filter(|group| group.len() > 1);
        let cycles = groups.map(|group| {
            let depends = |vertex: &&usize| {
                **vertex == start(**vertex / 2)
                    && self.depends_on[**vertex / 2].iter().any(|other| group.binary_search(&done(*other)).is_ok())
            };
            let first = group.iter().find(depends).copied().unwrap_or(group[0]);
            let mut links = self.links(&shortest_cycle(&before, &group, first));
            let begin = links.iter().position(|link| matches!(link, CycleLink::DependsOn(..))).unwrap_or(0);
            links.rotate_left(begin);
            links
        });
        cycles.collect()
    }

    fn links(&self, cycle: &[usize]) -> Vec<CycleLink> {
        let next = cycle.iter().cycle().skip(1);
        let links = cycle.iter().zip(next).filter_map(|(from, to)| match (from % 2, to % 2) {
            (0, 1) => Some(CycleLink::DependsOn(from / 2, to / 2)),
            (0, _) => Some(CycleLink::PartOf(from / 2, to / 2)),
            (_, 1) => Some(CycleLink::Holds(from / 2, to / 2)),
            // A leaf is done when it was started: the same node.
            _ => None,
        });
        links.collect()
    }
}
