//! What a model is asked.

use std::collections::BTreeMap;

use serde_json::Value;

use super::message::Message;
use pleach_core::event::Extra;

/// A tool the model may ask for.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name, as the model calls it.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON schema of its arguments.
    pub parameters: Value,
    /// What only one format knows, by its name.
    pub extra: Extra,
}

/// Everything a model gets for one answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// The model, as the provider names it; empty for the provider's own choice.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// The tools the model may ask for.
    pub tools: Vec<ToolSpec>,
    /// The most tokens the answer may have.
    pub max_tokens: Option<u32>,
    /// How hard to think: `low`, `medium`, `high`.
    pub effort: Option<String>,
    /// Facts about the call that are no part of the conversation, by name ([`meta`]). They never leave the machine.
    pub metadata: BTreeMap<String, String>,
    /// What only one format knows, by its name.
    pub extra: Extra,
}

impl Request {
    /// The same without the conversation.
    pub(crate) fn without_messages(&self) -> Self {
        Self {
            model: self.model.clone(),
            system: self.system.clone(),
            messages: Vec::new(),
            tools: self.tools.clone(),
            max_tokens: self.max_tokens,
            effort: self.effort.clone(),
            metadata: self.metadata.clone(),
            extra: self.extra.clone(),
        }
    }
}

/// Names in [`Request::metadata`].
pub mod meta {
    /// The pipeline node that asks.
    pub const NODE: &str = "node";
    /// How often the run has come to the node, from 1.
    pub const VISIT: &str = "visit";
    /// The attempt within the visit, from 1.
    pub const ATTEMPT: &str = "attempt";
    /// Which try of the same call this is, from 1.
    pub const TRY: &str = "try";
    /// Where the agent may leave its outcome.
    pub const STATUS_FILE: &str = "status_file";
    /// How many bytes of the system prompt are the same for every agent of the run.
    pub const SHARED: &str = "shared";
}
