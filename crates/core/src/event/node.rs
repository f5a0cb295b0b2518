//! What becomes of a node: its start, its end and where the run goes from there.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Extra, Outcome, Snapshot, Warning, to_the_millisecond};
use crate::ids::NodeId;

/// See [`Event::NodeStarted`](super::Event::NodeStarted).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeStarted {
    /// The node.
    pub node_id: NodeId,
    /// How often the run has reached the node, from 1.
    pub visit: u32,
    /// The attempt within the visit, from 1.
    pub attempt: u32,
    /// The handler's type: `codergen`, `tool`, …
    pub handler: String,
    /// The commits the worktrees was at.
    pub base: Snapshot,
    /// The handler was interrupted, cannot continue and starts again from `base`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starts_over: bool,
    /// How much of the run so far an agent node sees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fidelity: Option<String>,
    /// The conversation an agent node continues with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::HumanInteraction`](super::Event::HumanInteraction).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HumanInteraction {
    /// The gate.
    pub node_id: NodeId,
    /// The node's visit.
    pub visit: u32,
    /// What was asked.
    pub question: String,
    /// The choices, by the label shown.
    pub options: Vec<String>,
    /// The choice taken, or free text.
    pub answer: String,
    /// The comment for the next node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Where the answer came from: `console`, `file`, `auto-approve`, `default`.
    pub source: String,
    /// Who gave it, by their name in git; none where nobody did, or they have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Where the run goes after a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Route {
    /// Along an edge.
    Edge {
        /// The next node.
        to: NodeId,
    },
    /// To a retry target, because the node failed and no edge takes failures.
    FailureTarget {
        /// The next node.
        to: NodeId,
    },
    /// Back from the exit, because a goal gate is not satisfied.
    GateRetry {
        /// The gate.
        gate: NodeId,
        /// The next node.
        to: NodeId,
    },
    /// Along a `loop_restart` edge: the run starts again at this node with a fresh context.
    Restart {
        /// The next node.
        to: NodeId,
    },
    /// The branch has reached the node where the branches of its fan-out join.
    Join {
        /// That node.
        to: NodeId,
    },
    /// The same node once more; a `RetryAt` says when.
    Retry,
    /// The run is complete.
    Complete,
    /// The run has failed.
    Fail {
        /// Why.
        reason: String,
    },
}

/// See [`Event::NodeExecution`](super::Event::NodeExecution).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeExecution {
    /// The node.
    pub node_id: NodeId,
    /// The node's visit.
    pub visit: u32,
    /// The attempt within the visit.
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Where the run goes from here.
    pub route: Route,
    /// How long it took.
    pub duration_ms: u64,
    /// The message with the prompt an agent was given.
    pub prompt: Option<u64>,
    /// The message with its last answer.
    pub response: Option<u64>,
    /// The message with what the agent's program wrote to standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<u64>,
    /// The trees the worktrees ended with, by which a run that goes in circles is noticed.
    #[serde(default)]
    pub trees: Snapshot,
    /// A digest of what it printed or answered, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_digest: Option<String>,
    /// What a person should know: files held back, changes outside the worktree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::RetryAt`](super::Event::RetryAt).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetryAt {
    /// The node.
    pub node_id: NodeId,
    /// The node's visit.
    pub visit: u32,
    /// The attempt that comes.
    pub attempt: u32,
    /// When it is due.
    #[serde(serialize_with = "to_the_millisecond")]
    pub at: Timestamp,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}
