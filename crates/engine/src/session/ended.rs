//! How a session ended, or why it paused.

use crate::env::Question;
use pleach_core::event::PauseReason;
use pleach_core::ids::NodeId;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEnded {
    /// The run reached its exit.
    Completed,
    /// The run failed.
    Failed {
        /// Why.
        reason: String,
    },
    /// The run was cancelled.
    Cancelled,
    /// The run stopped and can be resumed.
    Paused(Pause),
}

/// Why a session stopped before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Why.
    pub reason: PauseReason,
    /// The node it stopped in.
    pub node: Option<NodeId>,
    /// Details of the reason, if there are any.
    pub why: Option<String>,
    /// The open questions, if the session waits for a person: one for each context that waits.
    pub questions: Vec<Question>,
}

impl Pause {
    /// An interruption between two pieces of work.
    pub(crate) fn interrupted() -> Self {
        Self { reason: PauseReason::Interrupted, node: None, why: None, questions: Vec::new() }
    }
}
