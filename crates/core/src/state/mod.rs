//! What happened to a session: a fold over its recorded events.
//!
//! Nothing here is ever written beside the facts. An event that cannot follow the ones before it is an error, never
//! skipped: it means the record was tampered with or written by a broken program.

mod fan_out;
mod fold;
mod fork;
mod landing;
mod task;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use fan_out::{Branch, FanOut};
pub use fold::{IllegalEvent, digest, result_digest};
pub use fork::branch_of;
pub use task::{Attempt, FailedAttempt, TaskWork};

use crate::budget::Spent;
use crate::event::{
    BudgetExceeded, Checkpoint, Commits, ContextForked, Landing, MessageRange, Outcome, PauseReason, PreEncoded,
    Return, RewindVia, Snapshot, WorktreeMergeConflict,
};
use crate::ids::{BranchName, ContextId, NodeId, RepoName, TurnId};

/// Whether the run continues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Phase {
    /// No event yet.
    New,
    /// Started and not ended. Whether a process works on it is a question for its lock.
    Running,
    /// Stopped on purpose; can be resumed.
    Paused {
        /// Why.
        reason: PauseReason,
        /// In words, where there is more to say.
        #[serde(default)]
        why: Option<String>,
    },
    /// Reached its exit with every gate satisfied.
    Completed,
    /// Ended without reaching its goal.
    Failed {
        /// Why.
        reason: String,
    },
    /// Called off.
    Cancelled,
}

/// One pass of the engine through one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// The node.
    pub node: NodeId,
    /// How often the run has reached it, from 1.
    pub visit: u32,
    /// The attempt within the visit, from 1.
    pub attempt: u32,
    /// The node the run came from.
    pub from: Option<NodeId>,
}

/// A turn of the node that is running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnMark {
    /// The turn.
    pub turn: TurnId,
    /// Its messages.
    pub messages: Option<MessageRange>,
    /// What its agent needs to continue after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_state: Option<Value>,
    /// The agent's kind and model; none of a command.
    #[serde(default)]
    pub by: Option<(String, String)>,
    /// Whether nothing of its agent ran any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_last: bool,
}

/// Where the run is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Position {
    /// This node comes next.
    Ready {
        /// Which one.
        visit: Visit,
        /// Not before this time.
        not_before: Option<Timestamp>,
    },
    /// This node has been started and has no outcome.
    Running {
        /// Which one.
        visit: Visit,
        /// Since when.
        since: Timestamp,
        /// The commits its worktrees was at.
        base: Snapshot,
        /// Its turns so far.
        turns: Vec<TurnMark>,
        /// The process that started it is gone.
        interrupted: bool,
    },
    /// There is nothing more to do.
    Ended,
}

/// How an agent goes on at a point that was gone back to, or forked from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewound {
    /// The way that was asked for.
    pub via: Option<RewindVia>,
}

/// What is known of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeState {
    /// How often the run has reached it.
    pub visits: u32,
    /// Its visits when the failed run was last resumed: limits count from there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub visits_before: u32,
    /// Attempts after the first in its newest visit.
    pub retries: u32,
    /// Its newest final outcome, without the context updates, which are in the context.
    pub outcome: Option<Outcome>,
    /// A digest of that whole outcome, of the trees it ended with and of its output.
    pub result: u64,
    /// How often in a row it ended with that result.
    pub repeats: u32,
    /// How its newest attempt ended that is followed by another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retried: Option<Outcome>,
    /// The message with the answer or the output of its newest attempt.
    pub response: Option<u64>,
    /// The command of its newest visit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<RanCommand>,
    /// The conversation its newest visit continued with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
}

/// A command that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RanCommand {
    /// The command line.
    pub command: String,
    /// How it ended.
    pub exit: String,
}

/// The folded events of one context, and of those it was forked from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The context.
    #[serde(default = "ContextId::main")]
    pub id: ContextId,
    /// It is a parallel branch, and its session's root decides whether it continues.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_branch: bool,
    /// The node a parallel branch ends at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<NodeId>,
    /// The parallel branch has begun to work: it has its worktrees.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_started: bool,
    /// The fan-outs it is a branch of, the one its parent is a branch of included: they are open as long as it runs.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub within: BTreeSet<NodeId>,
    /// How the branch ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    branch_end: Option<Outcome>,
    /// The contexts that were forked from it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub forks: BTreeMap<ContextId, ContextForked>,
    /// The names contexts forked from it have had, those of returns that were left included.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub taken: BTreeSet<ContextId>,
    /// How often the run has gone back.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub returns: u32,
    /// How it went back last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Box<Return>>,
    /// Its newest fan-out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_out: Option<FanOut>,
    /// What of its joined branches conflicts and is not resolved, branch after branch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<WorktreeMergeConflict>,
    /// The commits at which the next conflict was found: while they are the newest, nobody has resolved any of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub merged_work: Snapshot,
    /// Its branch in each repository.
    #[serde(default)]
    pub branches: BTreeMap<RepoName, BranchName>,
    /// Whether it continues.
    pub phase: Phase,
    /// Where it is.
    pub position: Position,
    /// Where the repositories was at the start.
    pub base: Snapshot,
    /// The newest recorded commit of each repository.
    pub work: Snapshot,
    /// The commits of the newest checkpoint.
    pub checkpointed: Snapshot,
    /// Nodes completed since the start or the last restart, each once, in the order in which they completed last.
    pub completed: Vec<NodeId>,
    /// What is known of each node.
    pub nodes: BTreeMap<NodeId, NodeState>,
    /// How often each edge was taken, by `from` and `to`.
    pub edges_taken: BTreeMap<NodeId, BTreeMap<NodeId, u32>>,
    /// How often each unsatisfied goal gate sent the run back.
    pub gate_retries: BTreeMap<NodeId, u32>,
    /// Gates that sent the run back and have not been run again since.
    pub recheck: BTreeSet<NodeId>,
    /// The context updates of the nodes.
    pub context: BTreeMap<String, Value>,
    /// The context the run started with, for a restart.
    pub initial_context: BTreeMap<String, Value>,
    /// The messages of each conversation, in order.
    pub threads: BTreeMap<String, Vec<MessageRange>>,
    /// What the agent of a conversation needs to continue with it, where its messages are not enough.
    #[serde(default)]
    pub thread_states: BTreeMap<String, Value>,
    /// The number of the last turn.
    pub turns: u64,
    /// The number of the last message.
    pub messages: u64,
    /// Tokens and dollars of all turns.
    pub spent: Spent,
    /// The limits that were said to be reached.
    pub exceeded: BTreeSet<String>,
    /// The models that were said to have no price.
    pub price_unknown: BTreeSet<String>,
    /// Where its targets are about to move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub landing: Vec<Landing>,
    /// The commits its targets were at once they had its work.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub landed: Snapshot,
    /// The running node's agent is in the middle of its work at a point that was gone back to, or forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewound: Option<Rewound>,
    /// What the next agent is told beside its prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_append: Option<String>,
    /// The turns before it that are of another run.
    #[serde(default, skip_serializing_if = "is_none_before")]
    pub turns_before: u64,
    /// The task it works on, in a tree.
    #[serde(default)]
    pub task: Option<Box<TaskWork>>,
    /// The node it failed at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed_at: Option<NodeId>,
    /// The thread the running node's turns belong to.
    thread: Option<String>,
    /// The run ended at its exit, with every gate satisfied.
    reached_exit: bool,
}

impl State {
    /// A session that will start at this node, and to which nothing has happened yet.
    pub fn new(start_node: NodeId) -> Self {
        let first = Visit { node: start_node, visit: 1, attempt: 1, from: None };
        Self {
            id: ContextId::main(),
            is_branch: false,
            join: None,
            has_started: false,
            within: BTreeSet::new(),
            branch_end: None,
            forks: BTreeMap::new(),
            taken: BTreeSet::new(),
            returns: 0,
            returned: None,
            fan_out: None,
            conflicts: Vec::new(),
            merged_work: Snapshot::new(),
            branches: BTreeMap::new(),
            phase: Phase::New,
            position: Position::Ready { visit: first, not_before: None },
            base: Snapshot::new(),
            work: Snapshot::new(),
            checkpointed: Snapshot::new(),
            completed: Vec::new(),
            nodes: BTreeMap::new(),
            edges_taken: BTreeMap::new(),
            gate_retries: BTreeMap::new(),
            recheck: BTreeSet::new(),
            context: BTreeMap::new(),
            initial_context: BTreeMap::new(),
            threads: BTreeMap::new(),
            thread_states: BTreeMap::new(),
            turns: 0,
            messages: 0,
            spent: Spent::default(),
            exceeded: BTreeSet::new(),
            price_unknown: BTreeSet::new(),
            landing: Vec::new(),
            landed: Snapshot::new(),
            rewound: None,
            prompt_append: None,
            turns_before: 0,
            task: None,
            failed_at: None,
            thread: None,
            reached_exit: false,
        }
    }

    /// The node that has been started and has no outcome.
    pub fn running(&self) -> Option<&Visit> {
        match &self.position {
            Position::Running { visit, .. } => Some(visit),
            _ => None,
        }
    }

    /// The node that runs or comes next.
    pub fn next_node(&self) -> Option<&NodeId> {
        match &self.position {
            Position::Ready { visit, .. } | Position::Running { visit, .. } => Some(&visit.node),
            Position::Ended => None,
        }
    }

    /// The newest final outcome of a node.
    pub fn outcome(&self, node: &NodeId) -> Option<&Outcome> {
        self.nodes.get(node).and_then(|state| state.outcome.as_ref())
    }

    /// How often the run has reached a node.
    pub fn visits(&self, node: &NodeId) -> u32 {
        self.nodes.get(node).map_or(0, |state| state.visits)
    }

    /// How many of those visits count for its limit.
    pub fn rounds(&self, node: &NodeId) -> u32 {
        self.nodes.get(node).map_or(0, |state| state.visits.saturating_sub(state.visits_before))
    }

    /// The node a failed run failed at.
    pub fn failed_node(&self) -> Option<&NodeId> {
        let failed = matches!(self.phase, Phase::Failed { .. });
        self.failed_at.as_ref().or(self.completed.last()).filter(|_| failed)
    }

    /// Whether the run can continue at a node: it has reached it before, or failed on the way to it.
    pub fn can_start_at(&self, node: &NodeId) -> bool {
        self.visits(node) > 0 || self.failed_node() == Some(node)
    }

    /// The checkpoint that describes this state.
    pub fn to_checkpoint(&self, current_node: NodeId) -> Checkpoint {
        let nodes = self.nodes.iter();
        let outcomes = nodes.clone().filter_map(|(id, node)| Some((id, &node.outcome.as_ref()?.status)));
        let visits = nodes.clone().filter(|(_, node)| node.visits > 0).map(|(id, node)| (id, node.visits));
        let retries = nodes.filter(|(_, node)| node.retries > 0).map(|(id, node)| (id.clone(), node.retries));
        Checkpoint {
            current_node,
            completed_nodes: PreEncoded::list(&self.completed),
            node_outcomes: PreEncoded::map(outcomes),
            context: self.context.clone(),
            node_retries: retries.collect(),
            visits: PreEncoded::map(visits),
            next_node: self.next_node().cloned(),
            workspace_snapshot: (self.work != self.checkpointed).then(|| self.work.clone()),
            extra: Default::default(),
        }
    }

    /// Where the session's branches are: at the newest commit, or at the newest step where they carry steps alone.
    pub fn on_branches(&self) -> Snapshot {
        match &self.task {
            Some(task) if task.of.commits == Commits::Steps => {
                self.work.keys().map(|repo| (repo.clone(), task.step)).collect()
            }
            _ => self.work.clone(),
        }
    }

    /// The turns that were taken in it.
    pub fn own_turns(&self) -> u64 {
        self.turns - self.turns_before.min(self.turns)
    }

    /// Whether the running node has taken turns.
    pub fn has_turns(&self) -> bool {
        matches!(&self.position, Position::Running { turns, .. } if !turns.is_empty())
    }

    /// What the agent needs to continue with the conversation of the running node, or with the one named `thread`.
    pub fn agent_state(&self, thread: Option<&str>) -> Option<&Value> {
        let of_node = match &self.position {
            Position::Running { turns, .. } => turns.iter().rev().find_map(|turn| turn.agent_state.as_ref()),
            _ => None,
        };
        of_node.or_else(|| self.thread_states.get(thread?))
    }
}

impl Phase {
    /// One word for people.
    pub fn word(&self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Running => "running",
            Self::Paused { .. } => "paused",
            Self::Completed => "done",
            Self::Failed { .. } => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The identity of a reached limit: one that was raised can be reached again.
pub fn limit_mark(data: &BudgetExceeded) -> String {
    let node = data.node_id.as_ref().map(|node| format!(" {node}")).unwrap_or_default();
    format!("{}{node} {} {}", data.scope, data.limit, data.of)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_none_before(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
