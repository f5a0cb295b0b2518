//! What a run does next, by where its tree is.

use std::sync::Arc;

use super::blockers::Blockers;
use super::graph::Schedule;
use super::leaf_state::{DependencyLevel, LeafState};
use super::{Blocked, GiveUpReason, NextAction, Wait, Why};
use crate::ids::TaskId;
use crate::progress::{OpenBranch, OtherTreeState, OtherTreeWork, StepPlace};
use crate::step::AttemptNumber;

impl Schedule {
    /// What to do now.
    pub fn next(&self) -> NextAction {
        if let Some(stop) = self.stops() {
            return stop;
        }
        if let Some(only) = &self.limits.only {
            return self.next_of(only);
        }
        self.may_start().next().or_else(|| self.stray.clone().map(NextAction::Stranded)).unwrap_or_else(|| self.end())
    }

    /// What ends or stops the run, whatever else could be done.
    pub(super) fn stops(&self) -> Option<NextAction> {
        let id = |node: usize| self.items[node].id.clone();
        if !self.limits.keep_going {
            let failed = self.failed.first().map(|leaf| NextAction::Failed(id(*leaf)));
            let red = || self.red.first().map(|gate| NextAction::GateRed(id(*gate)));
            if let Some(stop) = failed.or_else(red) {
                return Some(stop);
            }
        }
        let goes_on =
            |taken: &&OtherTreeWork| taken.stands != OtherTreeState::Left && self.needs(&taken.branch, &taken.id);
        if let Some(taken) = self.taken.iter().find(goes_on) {
            return Some(NextAction::OtherTree(taken.clone()));
        }
        let unread = self.unread.iter().find(|unread| self.needs(&unread.branch, &unread.id));
        unread.map(|unread| NextAction::Unreadable(unread.clone()))
    }

    /// All that could be done now if nothing else were, what comes first first. Where finished work has to be settled,
    /// nothing but landings comes before that.
    pub(super) fn may_start(&self) -> impl Iterator<Item = NextAction> {
        let id = |node: usize| self.items[node].id.clone();
        let lands = self.lands().map(NextAction::Land);
        // What was red in this run is red again: nothing below it is worked any more.
        let due = self.due.iter().filter(|(_, gate)| !self.red.contains(gate));
        let gates = due.map(move |(_, gate)| NextAction::Gate(id(*gate)));
        let merges = self.merges.iter().map(move |phase| NextAction::MergePhase(id(*phase)));
        let works = self.ready.iter().map(|position| self.work(self.order[*position]));
        lands.chain(gates.chain(merges).chain(works).filter(|_| self.stray.is_none()))
    }

    /// The tasks that may land now.
    pub(super) fn lands(&self) -> impl Iterator<Item = TaskId> {
        let free = self.waiting.iter().filter(|(_, leaf)| !self.is_held(*leaf));
        free.map(|(_, leaf)| self.items[*leaf].id.clone())
    }

    /// Whether a branch another tree continues with, or that cannot be read, is one that this run would use. That it
    /// may not be its next task makes no difference: two trees that both start what they can would end up waiting for
    /// each other.
    fn needs(&self, branch: &OpenBranch, id: &TaskId) -> bool {
        let Some(&node) = self.index.get(id) else { return false };
        let only = self.limits.only.as_ref().and_then(|only| self.index.get(only));
        if only.is_some_and(|only| !self.is_above(node, *only)) {
            return false;
        }
        let item = &self.items[node];
        match branch.place {
            StepPlace::Phase(_) => item.gathers && item.missing[DependencyLevel::OnTarget as usize] > 0,
            StepPlace::Task(_) if item.is_leaf => {
                let open = matches!(item.standing, LeafState::Open { .. });
                item.position.is_some() && (open || self.may_retry(node))
            }
            StepPlace::Task(_) => item.gate.is_some_and(|gate| !gate.green && !gate.outside),
            StepPlace::Target => false,
        }
    }

    /// What to do for one task: what waits to land or was red before, then work it, then what its end brings about, and
    /// nothing else.
    fn next_of(&self, only: &TaskId) -> NextAction {
        if let Some(task) = self.lands().next() {
            return NextAction::Land(task);
        }
        if let Some(stray) = self.stray.clone() {
            return NextAction::Stranded(stray);
        }
        if let Some((false, gate)) = self.due.first() {
            return NextAction::Gate(self.items[*gate].id.clone());
        }
        let stalled = |waits_for| NextAction::Stalled(vec![Blocked { task: only.clone(), waits_for }]);
        let itself = |why| vec![Wait { on: only.clone(), why, failed: Arc::default() }];
        let leaf = self.index.get(only).filter(|node| self.items[**node].is_leaf);
        let Some(&leaf) = leaf else { return stalled(itself(Why::NoTask)) };
        let item = &self.items[leaf];
        if let LeafState::Complete { .. } = item.standing {
            let above = |gate: &&(bool, usize)| self.is_above(gate.1, leaf);
            return match self.due.iter().find(above) {
                Some((_, gate)) => NextAction::Gate(self.items[*gate].id.clone()),
                None if self.merges.contains(&item.phase) => NextAction::MergePhase(self.items[item.phase].id.clone()),
                None => NextAction::Done,
            };
        }
        let Some(position) = item.position else { return stalled(itself(Why::LeftOut)) };
        if self.ready.contains(&position) {
            self.work(leaf)
        } else if item.standing.has_failed() && !self.may_retry(leaf) {
            NextAction::Failed(only.clone())
        } else {
            stalled(Blockers::new(self).of(leaf))
        }
    }

    fn work(&self, leaf: usize) -> NextAction {
        let task = self.items[leaf].id.clone();
        let max = self.limits.max_retries;
        let (attempts, in_budget, begun) = match self.items[leaf].standing {
            LeafState::Open { attempts, in_budget, begun, .. } => (attempts, in_budget, begun),
            LeafState::Failed { attempts } => (attempts, 0, false),
            LeafState::Waiting { .. }
            | LeafState::Complete { .. }
            | LeafState::Elsewhere { .. }
            | LeafState::Outside { .. } => unreachable!("only open tasks are ready"),
        };
        if in_budget >= max && !begun {
            return NextAction::GiveUp { task, reason: GiveUpReason::OutOfAttempts };
        }
        let number = in_budget.saturating_add(1);
        NextAction::Work { task, attempt: AttemptNumber { number, of: max.max(number) }, retry: attempts }
    }

    /// Nothing can be worked any more: whether that is success, failure or a stall.
    fn end(&self) -> NextAction {
        // What fails in another repository is told there.
        let is_outside = |standing: &LeafState| matches!(standing, LeafState::Outside { .. });
        let has_failed = |leaf: &&usize| {
            let standing = &self.items[**leaf].standing;
            standing.has_failed() && !is_outside(standing)
        };
        let is_open = |leaf: &&usize| {
            let standing = &self.items[**leaf].standing;
            matches!(
                standing,
                LeafState::Open { .. } | LeafState::Waiting { failed: false } | LeafState::Elsewhere { .. }
            )
        };
        let mut waits = Blockers::new(self);
        let blocked = |leaf: &usize| Blocked { task: self.items[*leaf].id.clone(), waits_for: waits.of(*leaf) };
        let left_out = self.waiting.iter().filter(|(position, _)| *position == usize::MAX).map(|(_, leaf)| leaf);
        let stuck: Vec<_> = self.order.iter().chain(left_out).filter(is_open).map(blocked).collect();
        match self.order.iter().find(has_failed) {
            _ if !stuck.is_empty() => NextAction::Stalled(stuck),
            Some(leaf) => NextAction::Failed(self.items[*leaf].id.clone()),
            None => match self.red.first() {
                Some(gate) => NextAction::GateRed(self.items[*gate].id.clone()),
                None => NextAction::Done,
            },
        }
    }

    fn is_above(&self, inner: usize, node: usize) -> bool {
        std::iter::successors(Some(node), |node| self.items[*node].parent).any(|above| above == inner)
    }
}
