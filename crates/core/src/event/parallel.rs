//! Events of fan-outs and fan-ins.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::conflict::ConflictedPath;
use super::{Extra, Outcome, Snapshot, Status};
use crate::ids::{CommitId, ContextId, NodeId, RepoName};

/// See [`Event::ParallelStarted`](super::Event::ParallelStarted). Recorded together with the start of the fan-out's node
/// and a `ContextForked` per branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParallelStarted {
    /// The fan-out.
    pub node_id: NodeId,
    /// Its visit.
    pub visit: u32,
    /// The attempt within the visit.
    pub attempt: u32,
    /// Where the branches join.
    pub join: NodeId,
    /// `wait_all`, `first_success`, `k_of_n` or `quorum`.
    pub join_policy: String,
    /// `continue`, `fail_fast` or `ignore`.
    pub error_policy: String,
    /// How many branches run at once.
    pub max_parallel: u32,
    /// The branches, in the order of the edges.
    pub branches: Vec<ParallelBranch>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A branch of a fan-out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParallelBranch {
    /// Its context.
    pub context: ContextId,
    /// Its first node.
    pub node_id: NodeId,
    /// None of its nodes may write, so it shares the worktrees of the context it forks from.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// See [`Event::ParallelBranchStarted`](super::Event::ParallelBranchStarted). Recorded by the branch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParallelBranchStarted {
    /// The fan-out.
    pub fan_out: NodeId,
    /// The branch's context.
    pub context: ContextId,
    /// Its first node.
    pub node_id: NodeId,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::ParallelBranchCompleted`](super::Event::ParallelBranchCompleted). Recorded by the context with the
/// fan-out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParallelBranchCompleted {
    /// The fan-out.
    pub node_id: NodeId,
    /// The branch's context.
    pub context: ContextId,
    /// How it ended.
    pub outcome: Outcome,
    /// It was stopped, because its result was not needed any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// How good its result is, where one of its nodes has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Its newest commits.
    pub work: Snapshot,
    /// The outcomes of the goal gates it has reached. They count once it is joined.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub goal_gates: BTreeMap<NodeId, Status>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::ParallelCompleted`](super::Event::ParallelCompleted).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParallelCompleted {
    /// The fan-out.
    pub node_id: NodeId,
    /// Its visit.
    pub visit: u32,
    /// The attempt within the visit.
    pub attempt: u32,
    /// Branches that succeeded.
    pub succeeded: u32,
    /// Branches that failed.
    pub failed: u32,
    /// Branches that were stopped.
    pub stopped: u32,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::ContextJoined`](super::Event::ContextJoined).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContextJoined {
    /// The node that joins them.
    pub node_id: NodeId,
    /// The contexts that are part of the result.
    pub contexts: Vec<ContextId>,
    /// `merge`, `pick` or `judge`.
    pub policy: String,
    /// Where the session branches are after it.
    pub result: Snapshot,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::WorktreeMerged`](super::Event::WorktreeMerged).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorktreeMerged {
    /// The repository.
    pub repo: RepoName,
    /// The context whose work it is.
    pub context: ContextId,
    /// The merge commit.
    pub git_sha: CommitId,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`Event::WorktreeMergeConflict`](super::Event::WorktreeMergeConflict).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorktreeMergeConflict {
    /// The repository.
    pub repo: RepoName,
    /// The context whose work conflicts.
    pub context: ContextId,
    /// Its newest commit.
    pub theirs: CommitId,
    /// The files in conflict.
    pub paths: Vec<ConflictedPath>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}
