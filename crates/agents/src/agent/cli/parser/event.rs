//! The events of all streams, in common types.

use crate::llm::{Message, Role};
use pleach_core::event::{ToolCall, Usage};

/// An event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StreamEvent {
    /// The conversation has this id.
    Session(String),
    /// A model call has ended, and so have the tools it asked for.
    Call(Box<StreamedCall>),
    /// What was called so far is a turn, whether tools were used or not.
    TurnOver,
    /// What the run has cost so far, all its calls together.
    Total(Total),
    /// The agent was not allowed to use a tool.
    Denied(String),
    /// An error the agent may recover from.
    Complaint(String),
    /// The result, as the agent reports it.
    Result(Claim),
}

/// One model call and the tools it asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StreamedCall {
    /// The model, where the stream names it.
    pub model: Option<String>,
    /// The messages: the model's, then the tools'.
    pub messages: Vec<Message>,
    /// The tools.
    pub tools: Vec<ToolCall>,
    /// What it cost in tokens, where the stream says so for each call.
    pub usage: Usage,
    /// What it cost in dollars, likewise.
    pub cost_usd: Option<f64>,
}

impl StreamedCall {
    /// What the model said.
    pub fn text(&self) -> String {
        let said = self.messages.iter().filter(|message| message.role == Role::Assistant).map(Message::text);
        said.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

/// What a whole run has cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Total {
    /// In tokens, without what earlier runs of the same conversation used.
    pub usage: Usage,
    /// The same with them, where the agent counts so: what the next run of the conversation must take off.
    pub with_earlier: Option<Usage>,
    /// In dollars.
    pub cost_usd: Option<f64>,
}

/// The result of a run, as the agent reports it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Claim {
    /// Its last words; empty where the stream has them in a call.
    pub text: String,
    /// Why it failed, if it did.
    pub failure: Option<AgentFailure>,
}

/// A failure as the agent tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentFailure {
    /// Why.
    pub why: String,
    /// What that means for another try.
    pub kind: AgentFailureKind,
}

/// Whether trying again helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentFailureKind {
    /// It may.
    Transient,
    /// It does not.
    Terminal,
    /// Its key or account is refused, or its provider has no such model.
    Refused,
    /// The agent came to a limit it was given.
    Limit,
}

impl AgentFailure {
    /// A failure with the HTTP status that came with it, or else the first one its text names.
    pub(in crate::agent::cli) fn of(why: impl Into<String>, status: Option<u64>) -> Self {
        let why = why.into();
        let kind = match status.or_else(|| status_in(&why)) {
            Some(408 | 409 | 429) => AgentFailureKind::Transient,
            Some(401..=404) => AgentFailureKind::Refused,
            Some(400..=499) => AgentFailureKind::Terminal,
            _ => AgentFailureKind::Transient,
        };
        Self { why, kind }
    }
}

/// The first number in a text that is an HTTP status of a failure.
fn status_in(text: &str) -> Option<u64> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| word.len() == 3)
        .filter_map(|word| word.parse().ok())
        .find(|status| (400..600).contains(status))
}
