//! What was answered at the gates of a session.

use jiff::Timestamp;
use serde::Serialize;

use pleach_core::event::{Event, Recorded};
use pleach_core::ids::{ContextId, NodeId};

/// An answer to a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AnswerView {
    /// When it was given.
    pub at: Timestamp,
    /// The context that asked.
    pub context: ContextId,
    /// The gate.
    pub node: NodeId,
    /// The gate's visit.
    pub visit: u32,
    /// What was asked.
    pub question: String,
    /// The choice taken, or the words of the person.
    pub answer: String,
    /// The comment for the next node.
    pub comment: Option<String>,
    /// Where it came from: `console`, `file`, `auto-approve`, `default`.
    pub source: String,
    /// Who gave it, if that is known.
    pub by: Option<String>,
    /// The run was forked from another one after it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inherited: bool,
    /// The run has gone back behind it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
}

impl AnswerView {
    /// What an event tells of one, if it does.
    pub(super) fn read(recorded: &Recorded, context: &ContextId) -> Option<Self> {
        let Event::HumanInteraction(data) = &recorded.event else { return None };
        Some(Self {
            at: recorded.at,
            context: context.clone(),
            node: data.node_id.clone(),
            visit: data.visit,
            question: data.question.clone(),
            answer: data.answer.clone(),
            comment: data.comment.clone(),
            source: data.source.clone(),
            by: data.by.clone(),
            inherited: false,
            left: false,
        })
    }

    /// How it was given, in words.
    pub fn how(&self) -> &str {
        match self.source.as_str() {
            "console" => "at the terminal",
            "file" => "with the command",
            "auto-approve" => "--auto-approve",
            "default" => "by default",
            other => other,
        }
    }
}
