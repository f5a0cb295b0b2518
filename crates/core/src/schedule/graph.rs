//! The tree as a run sees it: who waits for whom, counted, so that a change costs only what it touches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ScheduleOptions;
use super::leaf_state::{DependencyLevel, GateState, LEVELS, LeafState};
use crate::config::Isolation;
use crate::ids::TaskId;
use crate::plan::tree::{TaskNode, TaskTree};
use crate::progress::{OtherTreeWork, Progress, StrandedWork, UnreadableBranch};

#[derive(Debug)]
pub(super) struct ScheduleNode {
    pub(super) id: TaskId,
    pub(super) parent: Option<usize>,
    pub(super) phase: usize,
    pub(super) is_leaf: bool,
    /// It is a phase whose tasks land on a branch of its own: by the run's options, or because one of them already has.
    pub(super) gathers: bool,
    /// Its place in the order, if it is a leaf that has one.
    pub(super) position: Option<usize>,
    pub(super) standing: LeafState,
    pub(super) gate: Option<GateState>,
    /// Per level: leaves at or below that are not there, and gates at or below that are not green.
    pub(super) missing: [u32; 2],
    /// Per level: the leaves and phases that wait for it.
    pub(super) dependents: [Vec<usize>; 2],
    /// How many of the dependencies of a leaf, or of a whole phase that is gathered, are not met.
    pub(super) unmet: u32,
}

/// A run over a tree: what it may do, and what happened in it.
#[derive(Debug)]
pub struct Schedule {
    pub(super) tree: Arc<TaskTree>,
    pub(super) limits: ScheduleOptions,
    pub(super) index: BTreeMap<TaskId, usize>,
    pub(super) items: Vec<ScheduleNode>,
    /// By the phase whose branch they are done on and that they are no part of any more: how many leaves that is, at or
    /// below each node.
    along: BTreeMap<TaskId, BTreeMap<usize, u32>>,
    /// Leaves by their position.
    pub(super) order: Vec<usize>,
    pub(super) ready: BTreeSet<usize>,
    /// Leaves that have ended on their own branch, by position.
    pub(super) waiting: BTreeSet<(usize, usize)>,
    /// Finished work the tree does not have any more.
    pub(super) stray: Option<StrandedWork>,
    /// Branches other trees have work on.
    pub(super) taken: Vec<OtherTreeWork>,
    /// Branches that cannot be read.
    pub(super) unread: Vec<UnreadableBranch>,
    /// Gates to run, the red ones first.
    pub(super) due: BTreeSet<(bool, usize)>,
    /// Phases to merge.
    pub(super) merges: BTreeSet<usize>,
    /// Leaves that had failed when the run started and were not worked since.
    failed_before: BTreeSet<usize>,
    /// The leaves that failed in this run, in that order.
    pub(super) failed: Vec<usize>,
    /// The gates that were red in this run, in that order.
    pub(super) red: Vec<usize>,
}

impl Schedule {
    /// The schedule of a run that starts now.
    pub fn new(tree: &Arc<TaskTree>, progress: &Progress, limits: ScheduleOptions) -> Self {
        let standing = |id: &TaskId| LeafState::at(progress, tree, id);
        let gate = |id: &TaskId| GateState::at(progress, id, tree.leaves_below(id));
        let (stray, taken, unread) = (progress.stray(tree), progress.taken.clone(), progress.unread.clone());
        Self { stray, taken, unread, ..Self::build(tree, limits, &standing, &gate) }
    }

    /// Takes in the new steps of a task or a gate. A merged phase may have landed tasks of others: that needs a new
    /// schedule.
    pub fn update(&mut self, progress: &Progress, id: &TaskId) {
        let Some(&node) = self.index.get(id) else { return };
        let tree = self.tree.clone();
        let leaves = if self.items[node].is_leaf { vec![id] } else { tree.leaves_below(id) };
        for leaf in &leaves {
            self.set(leaf, LeafState::at(progress, &tree, leaf));
        }
        let mut above = Some(node);
        while let Some(inner) = above {
            if let Some(before) = self.items[inner].gate {
                let mut gate = GateState::at(progress, &self.items[inner].id, leaves.iter().copied());
                // Only its own run makes a gate green; of the leaves below, only these were looked at. One in another
                // repository has not seen what is new here.
                gate.green &= inner == node || (before.green && !gate.outside);
                gate.green &= !gate.gathered || self.is_ahead(&self.items[self.items[inner].phase].id);
                self.set_gate_at(inner, gate);
            }
            above = self.items[inner].parent;
        }
        if !self.along.is_empty() {
            // Who waits for what may be another thing now.
            self.renew(progress);
        }
    }

    /// Takes in everything that happened to the tree, and still knows what failed in this run.
    pub fn renew(&mut self, progress: &Progress) {
        let anew = Self::new(&self.tree, progress, self.limits.clone());
        let (mut failed, red) = (std::mem::take(&mut self.failed), std::mem::take(&mut self.red));
        let (again, failed_before): (BTreeSet<usize>, BTreeSet<usize>) = anew
            .failed_before
            .intersection(&self.failed_before)
            .partition(|leaf| self.items[**leaf].standing.failed_again(&anew.items[**leaf].standing));
        again.into_iter().for_each(|leaf| add(&mut failed, leaf));
        let in_this_run: Vec<usize> = anew.failed_before.difference(&failed_before).copied().collect();
        *self = Self { failed_before, failed, red, ..anew };
        // They get no further budget.
        in_this_run.into_iter().for_each(|leaf| self.refresh_leaf(leaf));
    }

    /// The tasks that may be worked now, in their order.
    #[cfg(test)]
    pub(super) fn ready(&self) -> impl Iterator<Item = &TaskId> {
        self.ready.iter().map(|position| &self.items[self.order[*position]].id)
    }

    /// Whether the tasks of a phase land on a branch of its own. A phase keeps its mode until its end: its tests and
    /// later tasks need what is there.
    pub fn gathers(&self, phase: &TaskId) -> bool {
        self.index.get(phase).is_some_and(|phase| self.items[*phase].gathers)
    }

    /// Whether a task has ended on its own branch and not landed, as far as the schedule was told.
    pub fn waits_to_land(&self, task: &TaskId) -> bool {
        self.index.get(task).is_some_and(|leaf| matches!(self.items[*leaf].standing, LeafState::Waiting { .. }))
    }

    /// Whether something of a phase is on its branch that the target does not have.
    pub fn is_ahead(&self, phase: &TaskId) -> bool {
        let is_ahead =
            |leaf: &&TaskId| self.items[self.index[*leaf]].standing == LeafState::Complete { on_target: false };
        self.tree.leaves_below(phase).iter().any(is_ahead)
    }

    /// Whether the run may come to a task: to land it, or to work it once what it waits for is there. As things are: a
    /// phase that is merged meanwhile may bring steps that reopen one.
    pub fn may_come_to(&self, task: &TaskId) -> bool {
        let Some(&leaf) = self.index.get(task).filter(|node| self.items[**node].is_leaf) else { return false };
        let item = &self.items[leaf];
        let is_wanted = item.position.is_some() && self.limits.only.as_ref().is_none_or(|only| only == task);
        match item.standing {
            LeafState::Waiting { .. } => true,
            LeafState::Open { .. } => is_wanted,
            LeafState::Failed { .. } => is_wanted && self.may_retry(leaf),
            LeafState::Complete { .. } | LeafState::Elsewhere { .. } | LeafState::Outside { .. } => false,
        }
    }

    /// The phases whose branches are to be merged now.
    pub fn merges(&self) -> impl Iterator<Item = &TaskId> {
        self.merges.iter().map(|phase| &self.items[*phase].id)
    }

    /// Whether a gate is to be run.
    pub(super) fn is_due(&self, gate: usize) -> bool {
        [true, false].iter().any(|fresh| self.due.contains(&(*fresh, gate)))
    }
}

/// Building, and taking in changes.
impl Schedule {
    pub(super) fn build(
        tree: &Arc<TaskTree>,
        limits: ScheduleOptions,
        standing: &dyn Fn(&TaskId) -> LeafState,
        gate: &dyn Fn(&TaskId) -> GateState,
    ) -> Self {
        let index: BTreeMap<TaskId, usize> = tree.nodes().enumerate().map(|(at, node)| (node.id.clone(), at)).collect();
        let open = LeafState::Open { attempts: 0, in_budget: 0, begun: false, left_on: None };
        let by_phase = limits.isolation == Isolation::Phase;
        let gathered_in = |leaf: &TaskId| match standing(leaf) {
            LeafState::Complete { on_target: false } => Some(tree.phase_of(leaf).clone()),
            LeafState::Elsewhere { phase } => Some(phase),
            _ => None,
        };
        let gathered: BTreeSet<TaskId> = tree.order().iter().filter_map(gathered_in).collect();
        let gathers =
            |node: &TaskNode| node.parent.is_none() && !node.is_leaf() && (by_phase || gathered.contains(&node.id));
        let item = |node: &TaskNode| ScheduleNode {
            id: node.id.clone(),
            parent: node.parent.as_ref().map(|parent| index[parent]),
            phase: index[tree.phase_of(&node.id)],
            is_leaf: node.is_leaf(),
            gathers: gathers(node),
            position: None,
            standing: open.clone(),
            gate: None,
            missing: [0; 2],
            dependents: [Vec::new(), Vec::new()],
            unmet: 0,
        };
        let items = tree.nodes().map(item).collect();
        let order: Vec<usize> = tree.order().iter().map(|id| index[id]).collect();
        let mut schedule = Self {
            tree: tree.clone(),
            limits,
            index,
            items,
            along: BTreeMap::new(),
            order,
            ready: BTreeSet::new(),
            waiting: BTreeSet::new(),
            stray: None,
            taken: Vec::new(),
            unread: Vec::new(),
            due: BTreeSet::new(),
            merges: BTreeSet::new(),
            failed_before: BTreeSet::new(),
            failed: Vec::new(),
            red: Vec::new(),
        };
        schedule.count_all_as_missing();
        for node in 0..schedule.items.len() {
            let item = &schedule.items[node];
            if item.is_leaf {
                let standing = standing(&item.id);
                schedule.failed_before.extend(standing.has_failed().then_some(node));
                schedule.set_at(node, standing);
            } else if item.gate.is_some() {
                let mut gate = gate(&item.id);
                gate.green &= !gate.gathered || gathered.contains(tree.phase_of(&item.id));
                schedule.set_gate_at(node, gate);
            }
        }
        // What was red before this run is tried again.
        schedule.red.clear();
        schedule.connect();
        schedule
    }

    /// Nothing is done yet: every leaf that is to be worked is missing to all above it, every gate too.
    fn count_all_as_missing(&mut self) {
        for (position, leaf) in self.order.clone().into_iter().enumerate() {
            self.items[leaf].position = Some(position);
            self.shift_missing(leaf, LEVELS.map(|_| 1));
        }
        for gate in self.tree.clone().gates() {
            let gate = self.index[&gate.id];
            self.items[gate].gate = Some(GateState::default());
            self.shift_missing(gate, LEVELS.map(|_| 1));
        }
        // What is never worked is never there, but nothing above it is held up by that.
        for item in &mut self.items {
            item.missing = item.missing.map(|missing| missing.max(1));
        }
    }

    /// Ties leaves, and whole phases that are gathered, to what they wait for. Such a phase starts on the target: what any
    /// of its tasks that are to be done needs from elsewhere must be there before the first of them.
    fn connect(&mut self) {
        let mut tied = BTreeSet::new();
        let is_to_do = |leaf: &usize| !self.items[*leaf].standing.is_done();
        for leaf in self.order.iter().copied().filter(is_to_do).collect::<Vec<_>>() {
            let phase = self.items[leaf].phase;
            for dependency in self.tree.dependencies(&self.items[leaf].id) {
                let dependency = self.index[dependency];
                let Some(level) = self.level(phase, dependency) else { continue };
                let waits = if self.items[phase].gathers && level == DependencyLevel::OnTarget { phase } else { leaf };
                if waits == leaf || tied.insert((waits, dependency)) {
                    self.items[dependency].dependents[level as usize].push(waits);
                    self.items[waits].unmet += u32::from(self.items[dependency].missing[level as usize] > 0);
                }
            }
        }
        self.order.clone().into_iter().for_each(|leaf| self.refresh_leaf(leaf));
    }

    /// How far something must have come that a task of a phase needs. None where the branch of that phase has it, though it
    /// is part of another by now.
    pub(super) fn level(&self, phase: usize, dependency: usize) -> Option<DependencyLevel> {
        if !self.items[phase].gathers {
            return Some(DependencyLevel::OnTarget);
        }
        if self.items[dependency].phase == phase {
            return Some(DependencyLevel::Landed);
        }
        let come_along = self.along.get(&self.items[phase].id).and_then(|below| below.get(&dependency));
        // All that is not on the target comes along, and no gate is missing.
        let has_all = come_along == Some(&self.items[dependency].missing[DependencyLevel::OnTarget as usize]);
        if has_all { None } else { Some(DependencyLevel::OnTarget) }
    }

    /// Whether a leaf that could land is built on something that is not where it would land: the tree was edited since, or
    /// that was set back. What was set back where it lands, or added since, does not hold it; that would not hold it either
    /// if it had landed in time.
    pub(super) fn is_held(&self, leaf: usize) -> bool {
        let item = &self.items[leaf];
        let standing = |below: &TaskId| &self.items[self.index[below]].standing;
        let holds = |needed: &TaskId| {
            let Some(level) = self.level(item.phase, self.index[needed]) else { return false };
            let leaves = self.tree.leaves_below(needed);
            leaves.iter().any(|leaf| match standing(leaf) {
                LeafState::Open { left_on: Some(phase), .. } => {
                    level == DependencyLevel::OnTarget || *phase != self.items[item.phase].id
                }
                standing => standing.is_done() && !standing.is_there(level),
            })
        };
        !item.standing.has_failed() && self.tree.dependencies(&item.id).into_iter().any(holds)
    }

    /// Takes in what became of a leaf.
    pub(super) fn set(&mut self, leaf: &TaskId, standing: LeafState) {
        if let Some(&leaf) = self.index.get(leaf) {
            let failed = standing.has_failed();
            if !failed || self.items[leaf].standing.failed_again(&standing) {
                self.failed_before.remove(&leaf);
            }
            if matches!(standing, LeafState::Failed { .. }) && !self.failed_before.contains(&leaf) {
                add(&mut self.failed, leaf);
            }
            self.set_at(leaf, standing);
        }
    }

    fn set_at(&mut self, leaf: usize, standing: LeafState) {
        let before = &self.items[leaf].standing;
        let changes = LEVELS.map(|level| i64::from(before.is_there(level)) - i64::from(standing.is_there(level)));
        let waits = matches!(standing, LeafState::Waiting { .. });
        self.count_along(leaf, &standing);
        self.items[leaf].standing = standing;
        self.shift_missing(leaf, changes);
        let position = self.items[leaf].position.unwrap_or(usize::MAX);
        keep(&mut self.waiting, (position, leaf), waits);
        self.refresh_leaf(leaf);
    }

    /// Takes in what became of a gate.
    #[cfg(test)]
    pub(super) fn set_gate(&mut self, gate: &TaskId, state: GateState) {
        if let Some(&gate) = self.index.get(gate) {
            self.set_gate_at(gate, state);
        }
    }

    fn set_gate_at(&mut self, gate: usize, state: GateState) {
        let Some(before) = self.items[gate].gate.replace(state) else { return };
        if state.red && state.runs > before.runs {
            add(&mut self.red, gate);
        }
        self.due.remove(&(!before.red, gate));
        let change = i64::from(before.green) - i64::from(state.green);
        self.shift_missing(gate, LEVELS.map(|_| change));
        self.refresh_inner(gate);
    }

    /// Adds to what is missing at a node and above it, and updates its dependents.
    fn shift_missing(&mut self, node: usize, changes: [i64; 2]) {
        let mut at = Some(node);
        while let Some(current) = at {
            for (level, change) in changes.into_iter().enumerate() {
                let before = self.items[current].missing[level];
                let after = u32::try_from(i64::from(before) + change).expect("no more is taken away than was counted");
                self.items[current].missing[level] = after;
                if (before == 0) != (after == 0) {
                    self.tell_dependents(current, level, after == 0);
                }
            }
            self.refresh_inner(current);
            at = self.counts_to(current);
        }
    }

    /// What a node counts to beside itself. A leaf nobody works is missing to those who name it, not to what it is part of.
    fn counts_to(&self, node: usize) -> Option<usize> {
        let item = &self.items[node];
        item.parent.filter(|_| !item.is_leaf || item.position.is_some())
    }

    /// Takes a leaf from those that come along with the branch of a phase, or adds it to them.
    fn count_along(&mut self, leaf: usize, standing: &LeafState) {
        let before = self.items[leaf].standing.comes_with().cloned();
        let after = standing.comes_with();
        if before.as_ref() == after {
            return;
        }
        let nodes: Vec<usize> = std::iter::successors(Some(leaf), |node| self.counts_to(*node)).collect();
        if let Some(phase) = before
            && let Some(below) = self.along.get_mut(&phase)
        {
            for node in &nodes {
                if let Some(count) = below.get_mut(node) {
                    *count -= 1;
                    if *count == 0 {
                        below.remove(node);
                    }
                }
            }
            if below.is_empty() {
                self.along.remove(&phase);
            }
        }
        if let Some(phase) = after {
            let below = self.along.entry(phase.clone()).or_default();
            nodes.iter().for_each(|node| *below.entry(*node).or_default() += 1);
        }
    }

    fn tell_dependents(&mut self, node: usize, level: usize, met: bool) {
        let dependents = std::mem::take(&mut self.items[node].dependents[level]);
        for &waiting in &dependents {
            let unmet = &mut self.items[waiting].unmet;
            let before = *unmet;
            *unmet = if met { before - 1 } else { before + 1 };
            if (before == 0) != (*unmet == 0) {
                self.refresh_below(waiting);
            }
        }
        self.items[node].dependents[level] = dependents;
    }

    /// A leaf's dependencies, or those of a whole phase, were met or are so no more.
    fn refresh_below(&mut self, node: usize) {
        if self.items[node].is_leaf {
            return self.refresh_leaf(node);
        }
        for leaf in self.tree.clone().leaves_below(&self.items[node].id) {
            self.refresh_leaf(self.index[leaf]);
        }
    }

    fn refresh_leaf(&mut self, leaf: usize) {
        let item = &self.items[leaf];
        let Some(position) = item.position else { return };
        let open = matches!(item.standing, LeafState::Open { .. }) || self.may_retry(leaf);
        let ready = open && item.unmet == 0 && self.items[item.phase].unmet == 0;
        keep(&mut self.ready, position, ready);
    }

    pub(super) fn may_retry(&self, leaf: usize) -> bool {
        let failed = matches!(self.items[leaf].standing, LeafState::Failed { .. });
        failed && self.limits.retry_failed && self.failed_before.contains(&leaf)
    }

    /// Whether a gate is to be run, a phase to be merged.
    fn refresh_inner(&mut self, node: usize) {
        let item = &self.items[node];
        if item.is_leaf {
            return;
        }
        let [landed, on_target] = item.missing;
        let merge = item.parent.is_none() && landed == 0 && on_target > 0;
        let gate = item.gate.map(|gate| ((!gate.red, node), !gate.green && landed == 1 && !gate.outside));
        keep(&mut self.merges, node, merge);
        if let Some((key, due)) = gate {
            keep(&mut self.due, key, due);
        }
    }
}

fn add(list: &mut Vec<usize>, node: usize) {
    if !list.contains(&node) {
        list.push(node);
    }
}

fn keep<T: Ord>(set: &mut BTreeSet<T>, value: T, inside: bool) {
    if inside {
        set.insert(value);
    } else {
        set.remove(&value);
    }
}
