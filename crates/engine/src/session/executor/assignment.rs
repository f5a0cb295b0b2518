//! Input of an executor: ids and limits only, no live objects. Everything else follows from the record it names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::env::BudgetVerdict;
use crate::merging::ConflictSides;
use crate::session::preamble;
use pleach_core::budget::Allowance;
use pleach_core::event::Snapshot;
use pleach_core::ids::{CommitId, ContextId, NodeId, RepoName, RepoPath, SessionId};
use pleach_core::plan::pipeline::{Edge, Fidelity, Node, Pipeline};
use pleach_core::route;
use pleach_core::state::{State, Visit};

/// Work to do in the worktrees of a context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The session.
    pub session: SessionId,
    /// The context.
    pub context: ContextId,
    /// The record it follows from: that of the node's start, or otherwise the newest of the context.
    pub record: CommitId,
    /// The node, with the numbers of the visit and the attempt.
    pub visit: Visit,
    /// How the node starts.
    pub start: NodeStart,
    /// How the node takes part in the conversations of the run.
    pub conversation: Conversation,
    /// The number of its next turn.
    pub next_turn: u64,
    /// What it may spend.
    pub allowance: Allowance,
    /// The budget's verdict on spending anything at all.
    pub verdict: BudgetVerdict,
    /// The merge conflicts it resolves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolves: Option<ConflictWork>,
    /// The kind of work.
    pub job: AssignedWork,
}

/// Merge conflicts for a node to resolve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConflictWork {
    /// The branch whose work conflicts.
    pub branch: ContextId,
    /// The files in conflict.
    pub paths: Vec<RepoPath>,
    /// Commits to merge into the worktrees before the node starts, with the conflicts marked in the files. Where a node has
    /// committed something since the conflict was found, the files stay as it left them.
    pub lay: Snapshot,
    /// What both sides of each merge started from, where their histories do not tell.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bases: Snapshot,
    /// Both sides of each merge.
    pub sides: BTreeMap<RepoName, ConflictSides>,
    /// The fan-out the branch is of. To go back there gives up the merge.
    pub fan_out: Option<NodeId>,
    /// The fan-in whose gate must hold on the resolved files, if nothing else is left to resolve.
    pub gate: Option<NodeId>,
}

/// The kind of work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssignedWork {
    /// Run the visit of the node.
    Node,
    /// Set up the worktrees again before the node can run in them.
    Setup,
    /// Run the tests of the session's task on a commit. This is not a visit.
    Retest {
        /// The commit.
        commit: CommitId,
    },
}

/// How a node starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeStart {
    /// For the first time.
    First,
    /// After its last recorded turn.
    Continued,
    /// From where it began, its calls answered from the record up to its last turn.
    Redriven,
    /// After its last recorded turn, in a new conversation that is told of it.
    Retold,
}

/// How an agent node takes part in the conversations of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// How much of the run the agent gets.
    pub fidelity: Fidelity,
    /// The conversation it resumes, with full fidelity.
    pub thread: Option<String>,
}

impl Conversation {
    /// The conversation of a node. With `degrade` the agent cannot be given a conversation.
    pub(crate) fn of(pipeline: &Pipeline, state: &State, node: &Node, visit: &Visit, degrade: bool) -> Self {
        let edge = entry_edge(pipeline, state, visit);
        match preamble::fidelity(pipeline, edge, node) {
            // A long summary replaces the conversation itself.
            Fidelity::Full if degrade => Self { fidelity: Fidelity::SummaryHigh, thread: None },
            Fidelity::Full => {
                let thread = preamble::thread(pipeline, edge, node, visit.from.as_ref());
                Self { fidelity: Fidelity::Full, thread: Some(thread) }
            }
            fidelity => Self { fidelity, thread: None },
        }
    }

    /// No conversation.
    pub(crate) fn none() -> Self {
        Self { fidelity: Fidelity::default(), thread: None }
    }
}

/// The edge the run took to the node; `None` if it jumped to a retry target. The edge is selected again from the same
/// facts, so among parallel edges it is the one that was taken.
fn entry_edge<'a>(pipeline: &'a Pipeline, state: &State, visit: &Visit) -> Option<&'a Edge> {
    let from = pipeline.node(visit.from.as_ref()?)?;
    route::select_edge(pipeline, state, from, state.outcome(&from.id)?).filter(|edge| edge.to == visit.node)
}
