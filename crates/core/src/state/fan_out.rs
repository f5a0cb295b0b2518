//! A fan-out as the context that started it knows it: its branches, how they ended, and what could not be merged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Position, State, Visit};
use crate::event::{
    ContextJoined, Outcome, ParallelBranch, ParallelBranchCompleted, ParallelCompleted, ParallelStarted, Status,
    WorktreeMergeConflict, WorktreeMerged,
};
use crate::ids::{ContextId, NodeId};

/// The newest fan-out of a context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FanOut {
    /// Its node.
    pub node: NodeId,
    /// The visit of the node.
    pub visit: u32,
    /// The attempt within the visit.
    pub attempt: u32,
    /// Where its branches join.
    pub join: NodeId,
    /// Its branches, in the order of the edges.
    pub branches: Vec<Branch>,
    /// Every branch has ended or was stopped.
    pub is_over: bool,
    /// Its branches were brought together.
    #[serde(default)]
    pub is_joined: bool,
    /// The node that did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined_by: Option<NodeId>,
}

/// A branch of a fan-out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Branch {
    /// What it is.
    pub of: ParallelBranch,
    /// How it ended.
    pub ended: Option<ParallelBranchCompleted>,
}

impl Branch {
    /// Whether it has ended well.
    pub fn has_succeeded(&self) -> bool {
        self.ended.as_ref().is_some_and(|ended| !ended.stopped && ended.outcome.status.is_success())
    }

    /// Whether it has ended, and not well.
    pub fn has_failed(&self) -> bool {
        self.ended.as_ref().is_some_and(|ended| !ended.stopped && !ended.outcome.status.is_success())
    }
}

impl FanOut {
    /// Whether it is this visit's.
    pub fn is_of(&self, visit: &Visit) -> bool {
        (&self.node, self.visit, self.attempt) == (&visit.node, visit.visit, visit.attempt)
    }

    /// The branch with this context.
    pub fn branch(&self, context: &ContextId) -> Option<&Branch> {
        self.branches.iter().find(|branch| branch.of.context == *context)
    }

    /// The branches that have neither ended nor been stopped.
    pub fn open(&self) -> impl Iterator<Item = &Branch> {
        self.branches.iter().filter(|branch| branch.ended.is_none())
    }
}

impl State {
    pub(super) fn parallel_started(&mut self, data: &ParallelStarted) -> Result<(), String> {
        self.must_run()?;
        match &self.position {
            Position::Running { visit, interrupted: false, .. }
                if (&visit.node, visit.visit, visit.attempt) == (&data.node_id, data.visit, data.attempt) => {}
            _ => return Err(format!("`{}` is not running", data.node_id)),
        }
        for branch in &data.branches {
            let taken = self.edges_taken.entry(data.node_id.clone()).or_default();
            *taken.entry(branch.node_id.clone()).or_default() += 1;
        }
        let branches = data.branches.iter().map(|branch| Branch { of: branch.clone(), ended: None }).collect();
        let (node, join, visit, attempt) = (data.node_id.clone(), data.join.clone(), data.visit, data.attempt);
        // It is repeated, and with it what could not be merged.
        if self.fan_out.as_ref().is_some_and(|before| before.node == node) {
            self.conflicts.clear();
        }
        let (is_over, is_joined, joined_by) = (false, false, None);
        self.fan_out = Some(FanOut { node, visit, attempt, join, branches, is_over, is_joined, joined_by });
        Ok(())
    }

    pub(super) fn branch_started(&mut self) -> Result<(), String> {
        self.must_run()?;
        self.has_started = true;
        Ok(())
    }

    pub(super) fn branch_completed(&mut self, data: &ParallelBranchCompleted) -> Result<(), String> {
        self.must_run()?;
        let fan_out = self.fan_out.as_mut().filter(|fan_out| fan_out.node == data.node_id && !fan_out.is_over);
        let fan_out = fan_out.ok_or_else(|| format!("`{}` has no branches", data.node_id))?;
        let branch = fan_out.branches.iter_mut().find(|branch| branch.of.context == data.context);
        match branch {
            Some(branch) if branch.ended.is_none() => branch.ended = Some(data.clone()),
            Some(_) => return Err(format!("branch `{}` has ended already", data.context)),
            None => return Err(format!("`{}` has no branch `{}`", data.node_id, data.context)),
        }
        Ok(())
    }

    pub(super) fn parallel_completed(&mut self, data: &ParallelCompleted) -> Result<(), String> {
        self.must_run()?;
        let fan_out = self.fan_out.as_mut().filter(|fan_out| fan_out.node == data.node_id);
        match fan_out {
            Some(fan_out) if fan_out.open().next().is_none() => fan_out.is_over = true,
            Some(_) => return Err(format!("branches of `{}` have not ended", data.node_id)),
            None => return Err(format!("`{}` has no branches", data.node_id)),
        }
        Ok(())
    }

    /// What the joined branches say of their goal gates counts from here on.
    pub(super) fn joined(&mut self, data: &ContextJoined) -> Result<(), String> {
        self.must_run()?;
        let Some(fan_out) = self.fan_out.as_mut().filter(|fan_out| fan_out.is_over) else {
            return Err("no fan-out is over".into());
        };
        (fan_out.is_joined, fan_out.joined_by) = (true, Some(data.node_id.clone()));
        for branch in fan_out.branches.iter().filter(|branch| data.contexts.contains(&branch.of.context)) {
            for (gate, status) in branch.ended.iter().flat_map(|ended| &ended.goal_gates) {
                self.nodes.entry(gate.clone()).or_default().outcome = Some(Outcome::of(status.clone()));
                self.recheck.remove(gate);
            }
        }
        Ok(())
    }

    pub(super) fn merged(&mut self, data: &WorktreeMerged) -> Result<(), String> {
        self.must_run()?;
        self.conflicts.retain(|conflict| (&conflict.repo, &conflict.context) != (&data.repo, &data.context));
        self.work.insert(data.repo.clone(), data.git_sha);
        self.merged_work = self.work.clone();
        Ok(())
    }

    pub(super) fn merge_conflict(&mut self, data: &WorktreeMergeConflict) -> Result<(), String> {
        self.must_run()?;
        self.conflicts.push(data.clone());
        self.merged_work = self.work.clone();
        Ok(())
    }

    /// The conflicts of the branch that is to be resolved next, one for each repository that has some.
    pub fn next_conflict(&self) -> Vec<&WorktreeMergeConflict> {
        let Some(first) = self.conflicts.first() else { return Vec::new() };
        self.conflicts.iter().filter(|conflict| conflict.context == first.context).collect()
    }

    /// Whether other branches conflict beside the one that is to be resolved next.
    pub fn has_later_conflicts(&self) -> bool {
        self.next_conflict().len() < self.conflicts.len()
    }

    /// How a branch ended that has come to its end.
    pub fn branch_outcome(&self) -> Option<&Outcome> {
        self.branch_end.as_ref()
    }

    /// The newest outcomes of the goal gates a branch has reached itself, as its parent takes them over.
    pub fn own_outcomes(&self, nodes: impl IntoIterator<Item = NodeId>) -> BTreeMap<NodeId, Status> {
        let own = |node: &NodeId| self.nodes.get(node).filter(|known| known.visits > known.visits_before);
        let outcome = |node: NodeId| {
            let status = own(&node)?.outcome.as_ref()?.status.clone();
            Some((node, status))
        };
        nodes.into_iter().filter_map(outcome).collect()
    }
}
