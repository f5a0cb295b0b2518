//! How a session ended, or why it paused.

use crate::engine::Question;
use crate::event::PauseReason;
use crate::ids::NodeId;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEnded {
    /// It reached its exit.
    Completed,
    /// It failed.
    Failed {
        /// Why.
        reason: String,
    },
    /// It was cancelled.
    Cancelled,
    /// It stopped and can be resumed.
    Paused(Pause),
}

/// Why a session stopped before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Why.
    pub reason: PauseReason,
    /// The node it stopped in.
    pub node: Option<NodeId>,
    /// The reason in words, where there is more to say.
    pub why: Option<String>,
    /// What a person is asked, when it waits for one.
    pub question: Option<Box<Question>>,
}

impl Pause {
    /// An interruption between two pieces of work.
    pub(crate) fn interrupted() -> Self {
        Self { reason: PauseReason::Interrupted, node: None, why: None, question: None }
    }
}
