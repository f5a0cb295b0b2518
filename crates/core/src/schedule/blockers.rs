//! What keeps tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use super::graph::Schedule;
use super::leaf_state::{DependencyLevel, LeafState};
use super::{Wait, Why};
use crate::ids::TaskId;

/// What tasks wait for, with what many of them share found out once.
pub(super) struct Blockers<'s> {
    schedule: &'s Schedule,
    /// What whole phases wait for, by the phase.
    phases: BTreeMap<usize, Rc<[(usize, Wait)]>>,
    whys: BTreeMap<(usize, DependencyLevel), Option<Why>>,
    /// The tasks that failed, by what holds them.
    failed: BTreeMap<TaskId, Arc<[TaskId]>>,
}

impl<'s> Blockers<'s> {
    pub(super) fn new(schedule: &'s Schedule) -> Self {
        Self { schedule, phases: BTreeMap::new(), whys: BTreeMap::new(), failed: BTreeMap::new() }
    }

    /// What a task waits for that is not there.
    pub(super) fn of(&mut self, leaf: usize) -> Vec<Wait> {
        let schedule = self.schedule;
        let item = &schedule.items[leaf];
        if let LeafState::Elsewhere { phase } = &item.standing {
            return vec![self.wait_on(leaf, Why::Elsewhere(phase.clone()))];
        }
        // Its own dependencies come first, then what its phase waits for on behalf of others.
        let own = dependencies(schedule, &item.id);
        let mut waits: Vec<Wait> = own.iter().filter_map(|needed| self.wait(item.phase, *needed)).collect();
        if schedule.items[item.phase].gathers {
            let own = BTreeSet::from_iter(own);
            let of_phase = self.of_phase(item.phase);
            waits.extend(of_phase.iter().filter(|(on, _)| !own.contains(on)).map(|(_, wait)| wait.clone()));
        }
        waits
    }

    /// What any task of a phase that is to be done needs from elsewhere and is not there, each by its node.
    fn of_phase(&mut self, phase: usize) -> Rc<[(usize, Wait)]> {
        if let Some(known) = self.phases.get(&phase) {
            return known.clone();
        }
        let schedule = self.schedule;
        let mut seen = BTreeSet::new();
        let mut waits = Vec::new();
        for leaf in schedule.tree.leaves_below(&schedule.items[phase].id) {
            if schedule.items[schedule.index[leaf]].standing.is_done() {
                continue;
            }
            for dependency in dependencies(schedule, leaf) {
                if schedule.items[dependency].phase != phase && seen.insert(dependency) {
                    waits.extend(self.wait(phase, dependency).map(|wait| (dependency, wait)));
                }
            }
        }
        self.phases.entry(phase).or_insert(waits.into()).clone()
    }

    /// That a task of a phase waits for a dependency; none when that is met.
    fn wait(&mut self, phase: usize, dependency: usize) -> Option<Wait> {
        let schedule = self.schedule;
        let level = schedule.level(phase, dependency)?;
        let why = self.whys.entry((dependency, level)).or_insert_with(|| schedule.why(dependency, level));
        why.clone().map(|why| self.wait_on(dependency, why))
    }

    fn wait_on(&mut self, node: usize, why: Why) -> Wait {
        let (schedule, item) = (self.schedule, &self.schedule.items[node]);
        let holder = schedule.fails_in(node, &why);
        let failed = || holder.into_iter().flat_map(|holder| schedule.failed_in(holder)).cloned().collect();
        let failed = match holder {
            Some(holder) => self.failed.entry(holder.clone()).or_insert_with(failed).clone(),
            None => Arc::default(),
        };
        Wait { on: item.id.clone(), why, failed }
    }
}

/// What a task depends on, itself or by what it is part of.
fn dependencies(schedule: &Schedule, leaf: &TaskId) -> Vec<usize> {
    schedule.tree.dependencies(leaf).into_iter().map(|needed| schedule.index[needed]).collect()
}

impl Schedule {
    /// What keeps a node away once one of the tasks in it has failed, by why it is not there.
    pub(super) fn fails_in<'a>(&'a self, node: usize, why: &'a Why) -> Option<&'a TaskId> {
        let item = &self.items[node];
        match why {
            Why::Failed => Some(&item.id),
            Why::NotMerged => Some(&self.items[item.phase].id),
            Why::Elsewhere(phase) => Some(phase),
            Why::LeftOut | Why::NotDone | Why::NotLanded | Why::GateRed | Why::GateNotRun | Why::NoTask => None,
        }
    }

    /// The tasks of a node that failed, in their order.
    pub(super) fn failed_in(&self, node: &TaskId) -> impl Iterator<Item = &TaskId> {
        let has_failed = |leaf: &&TaskId| self.items[self.index[*leaf]].standing.has_failed();
        self.tree.leaves_below(node).into_iter().filter(has_failed)
    }

    /// Why a dependency is not met; none when it is.
    pub(super) fn why(&self, node: usize, level: DependencyLevel) -> Option<Why> {
        let item = &self.items[node];
        let [landed, _] = item.missing;
        if item.missing[level as usize] == 0 {
            return None;
        }
        if item.is_leaf {
            return Some(match &item.standing {
                LeafState::Failed { .. } | LeafState::Outside { failed: true } => Why::Failed,
                LeafState::Waiting { .. } => Why::NotLanded,
                LeafState::Elsewhere { phase } => Why::Elsewhere(phase.clone()),
                LeafState::Complete { .. } => Why::NotMerged,
                LeafState::Open { .. } if item.position.is_none() => Why::LeftOut,
                LeafState::Open { .. } | LeafState::Outside { failed: false } => Why::NotDone,
            });
        }
        let leaves = self.tree.leaves_below(&item.id);
        let standing = |leaf: &TaskId| &self.items[self.index[leaf]].standing;
        let elsewhere = leaves.iter().find_map(|leaf| match standing(leaf) {
            LeafState::Elsewhere { phase } => Some(phase),
            _ => None,
        });
        Some(match (item.gate, elsewhere) {
            _ if leaves.is_empty() => Why::LeftOut,
            _ if leaves.iter().any(|leaf| standing(leaf).has_failed()) => Why::Failed,
            _ if landed == 0 => Why::NotMerged,
            (_, Some(phase)) if leaves.iter().all(|leaf| standing(leaf).is_done()) => Why::Elsewhere(phase.clone()),
            (Some(gate), _) if landed == 1 && gate.red && !gate.green => Why::GateRed,
            (Some(gate), _) if landed == 1 && !gate.green => Why::GateNotRun,
            _ => Why::NotDone,
        })
    }
}
