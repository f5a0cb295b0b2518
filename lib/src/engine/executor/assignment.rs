//! What an executor is given to do: ids and limits, nothing that lives. All else follows from the record it names.

use serde::{Deserialize, Serialize};

use crate::budget::Allowance;
use crate::engine::budget::BudgetVerdict;
use crate::engine::preamble;
use crate::ids::{CommitId, ContextId, SessionId};
use crate::plan::pipeline::{Edge, Fidelity, Node, Pipeline};
use crate::route;
use crate::state::{State, Visit};

/// Something to be done in the worktrees of a context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The session.
    pub session: SessionId,
    /// The context.
    pub context: ContextId,
    /// The record it follows from: that of the node's start, or else the newest of the context.
    pub record: CommitId,
    /// The node, and which visit and attempt it is.
    pub visit: Visit,
    /// How the node is started.
    pub start: NodeStart,
    /// How the node takes part in the conversations of the run.
    pub conversation: Conversation,
    /// The number of its next turn.
    pub next_turn: u64,
    /// What it may spend.
    pub allowance: Allowance,
    /// Whether it may spend anything at all.
    pub verdict: BudgetVerdict,
    /// What is to be done.
    pub job: AssignedWork,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssignedWork {
    /// Carry the visit of the node out.
    Node,
    /// Set the worktrees up again, before the node can be carried out in them.
    Setup,
    /// Run the tests of the session's task on a commit, which is no visit.
    Retest {
        /// The commit.
        commit: CommitId,
    },
}

/// How a node is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeStart {
    /// For the first time.
    First,
    /// After its last recorded turn.
    Continued,
    /// From its base, because it cannot go on.
    Over,
}

/// How a node of an agent takes part in the conversations of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// How much it is told.
    pub fidelity: Fidelity,
    /// Which conversation it goes on with, with full fidelity.
    pub thread: Option<String>,
}

impl Conversation {
    /// That of a node. With `degrade` it cannot be given a conversation.
    pub(in crate::engine) fn of(pipeline: &Pipeline, state: &State, node: &Node, visit: &Visit, degrade: bool) -> Self {
        let edge = entry_edge(pipeline, state, visit);
        match preamble::fidelity(pipeline, edge, node) {
            // A long summary stands in for the conversation itself.
            Fidelity::Full if degrade => Self { fidelity: Fidelity::SummaryHigh, thread: None },
            Fidelity::Full => {
                let thread = preamble::thread(pipeline, edge, node, visit.from.as_ref());
                Self { fidelity: Fidelity::Full, thread: Some(thread) }
            }
            fidelity => Self { fidelity, thread: None },
        }
    }

    /// None: nobody is told anything.
    pub(in crate::engine) fn none() -> Self {
        Self { fidelity: Fidelity::default(), thread: None }
    }
}

/// The edge the run came along; none when it jumped to a retry target. The choice is made again from the same facts,
/// so of several edges between the same nodes it is the one that was taken.
fn entry_edge<'a>(pipeline: &'a Pipeline, state: &State, visit: &Visit) -> Option<&'a Edge> {
    let from = pipeline.node(visit.from.as_ref()?)?;
    route::select_edge(pipeline, state, from, state.outcome(&from.id)?).filter(|edge| edge.to == visit.node)
}
