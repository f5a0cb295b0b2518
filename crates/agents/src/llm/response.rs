//! What a model answers.

use super::message::Message;
use pleach_core::event::{Extra, Usage};

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It had said everything.
    End,
    /// It waits for tools.
    ToolCalls,
    /// It reached its token limit; the answer is cut off.
    Length,
    /// The provider withheld the rest.
    ContentFilter,
    /// Anything else, in the provider's word.
    Other(String),
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// What it said and asked for.
    pub message: Message,
    /// What it cost.
    pub usage: Usage,
    /// The model that answered, as the provider names it.
    pub model: String,
    /// Why it stopped.
    pub stop: Stop,
    /// What only one format knows, by its name.
    pub extra: Extra,
}

/// An answer, and whether what it cost is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The answer.
    pub response: Response,
    /// Whether its tokens are estimated, because the provider did not say.
    pub estimated: bool,
}
