//! What may run beside what.

use std::collections::BTreeSet;

use super::NextAction;
use super::graph::Schedule;
use crate::ids::TaskId;

/// What runs, as far as others may not run beside it. Nodes are named by their place among the schedule's items.
struct ParallelWork<'s> {
    schedule: &'s Schedule,
    nodes: BTreeSet<usize>,
    /// Phases with a task that is worked or lands.
    worked: BTreeSet<usize>,
    /// Phases in which nothing is started: they are merged or tested, or tests wait there for work to end.
    closed: BTreeSet<usize>,
    tests: bool,
    merges: bool,
}

impl Schedule {
    /// All that may start now, given the tasks, gates and phases that run already: never more than `slots` together with
    /// those. With nothing running and one slot it is what [`Schedule::next`] says. What ends or stops the run comes alone
    /// and when nothing runs any more; until then, nothing starts. The same holds for everything but landings while a task
    /// finished by an earlier run has not landed: if it is refused, nobody has worked on top of that. Those of the running
    /// that are held up, by a person or a conflict, are no reason for that.
    pub fn starts(&self, running: &BTreeSet<TaskId>, held: &BTreeSet<TaskId>, slots: usize) -> Vec<NextAction> {
        let free = slots.saturating_sub(running.len());
        let alone = self.limits.only.is_some();
        if free == 0 {
            return Vec::new();
        }
        if running.is_empty() {
            let next = self.next();
            if alone || next.node().is_none() {
                return vec![next];
            }
        } else if alone || self.stops().is_some() {
            return Vec::new();
        }
        let mut beside = ParallelWork::of(self, running);
        let lands_only = self.lands().any(|task| !held.contains(&task));
        let (mut starts, mut overlapping) = (Vec::new(), Vec::new());
        for next in self.may_start().filter(|next| !lands_only || matches!(next, NextAction::Land(_))) {
            if starts.len() == free {
                break;
            }
            // Two that change the same files may end in a conflict: other tasks are better used for what is free.
            if beside.overlaps(&next) {
                overlapping.push(next);
            } else if beside.takes(&next) {
                starts.push(next);
            }
        }
        let free = free - starts.len();
        starts.extend(overlapping.into_iter().filter(|next| beside.takes(next)).take(free));
        starts
    }
}

impl NextAction {
    /// The task, the gate or the phase it is about; none where nothing is to be done.
    pub fn node(&self) -> Option<&TaskId> {
        match self {
            Self::Land(id) | Self::Gate(id) | Self::MergePhase(id) => Some(id),
            Self::Work { task, .. } | Self::GiveUp { task, .. } => Some(task),
            Self::Stranded(_) | Self::OtherTree(_) | Self::Unreadable(_) => None,
            Self::Done | Self::Failed(_) | Self::GateRed(_) | Self::Stalled(_) => None,
        }
    }
}

impl<'s> ParallelWork<'s> {
    fn of(schedule: &'s Schedule, running: &BTreeSet<TaskId>) -> Self {
        let nodes = running.iter().filter_map(|id| schedule.index.get(id)).copied().collect();
        let [worked, closed] = [BTreeSet::new(), BTreeSet::new()];
        let mut beside = Self { schedule, nodes, worked, closed, tests: false, merges: false };
        for node in beside.nodes.clone() {
            let item = &schedule.items[node];
            if item.is_leaf {
                beside.worked.insert(item.phase);
            } else {
                beside.closed.insert(item.phase);
                // A phase is merged once its tests have passed.
                let merges = item.gathers && !schedule.is_due(node);
                beside.merges |= merges;
                beside.tests |= !merges;
            }
        }
        beside
    }

    /// Whether it works a task that is expected to change files another one does that runs.
    fn overlaps(&self, next: &NextAction) -> bool {
        let tree = &self.schedule.tree;
        let NextAction::Work { task, .. } = next else { return false };
        let touches = tree.touches(task);
        let tasks = self.nodes.iter().map(|node| &self.schedule.items[*node]).filter(|item| item.is_leaf);
        let mut others = tasks.filter(|item| item.id != *task).flat_map(|item| tree.touches(&item.id));
        !touches.is_empty() && others.any(|other| touches.iter().any(|own| own.overlaps(other)))
    }

    /// Whether something may start beside what runs, which it then does too.
    fn takes(&mut self, next: &NextAction) -> bool {
        let Some(&node) = next.node().and_then(|id| self.schedule.index.get(id)) else { return false };
        let phase = self.schedule.items[node].phase;
        let begins = !self.nodes.contains(&node)
            && match next {
                // They test what is there, so that nothing may come there meanwhile: where they have to wait for work
                // to end, no other is started.
                NextAction::Gate(_) => {
                    self.closed.insert(phase);
                    !self.worked.contains(&phase) && !self.merges
                }
                // The target moves, and with it what others would be merged with and tested on.
                NextAction::MergePhase(_) => !self.worked.contains(&phase) && !self.merges && !self.tests,
                _ => !self.closed.contains(&phase),
            };
        if begins {
            self.nodes.insert(node);
            match next {
                NextAction::Gate(_) => self.tests = true,
                NextAction::MergePhase(_) => {
                    self.merges = true;
                    self.closed.insert(phase);
                }
                _ => {
                    self.worked.insert(phase);
                }
            }
        }
        begins
    }
}
