//! Talking to models: one shape of conversation for every provider.
//!
//! A provider answers one [`Request`] with one [`Response`] and remembers nothing: whatever it needs is in the
//! request. Retrying is the caller's business, so that a retry is seen where budgets and records are kept.

mod estimate;
mod http;
mod message;
mod price;
mod providers;
mod proxy;
mod remote;
pub mod script;
pub mod wire;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::event::{Extra, Usage};
use crate::process::Cancel;

pub(crate) use estimate::{by_length, tokens, warning as uncounted, words};
pub(crate) use http::{Answer, HttpError};
pub(crate) use message::newest_task;
pub use message::{Message, Part, Role};
use price::context_of;
pub use price::{Named, Prices, Pricing, usual_model};
pub(crate) use price::{price_estimated, price_unknown};
pub use providers::{NoProvider, Providers};
pub(crate) use remote::{PassError, Passed, passed_on};
pub use remote::{Remote, Unusable, key_variables};
pub use script::{Script, ScriptError};

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

/// Everything a model is told for one answer.
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
    /// How often this very call was tried, from 1.
    pub const TRY: &str = "try";
    /// Where the agent may leave its outcome.
    pub const STATUS_FILE: &str = "status_file";
    /// How many bytes of the system prompt are the same for every agent of the run.
    pub const SHARED: &str = "shared";
}

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

/// What kind of failure a call ended in, which decides what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// It may work when tried again: overload, server error, network.
    Transient,
    /// The answer broke off in the middle. Another call may work, but a part of this one was given and is paid for: it is
    /// not made again often.
    Cut,
    /// It will not work when tried again.
    Terminal,
    /// The key was refused.
    Auth,
    /// Nothing is wrong with what was asked: the account is empty, there is no such model or server. It will work once
    /// somebody has seen to that.
    Unavailable,
    /// The conversation is longer than the model can take.
    ContextLength,
    /// The answer could not be read.
    Malformed,
    /// The call was called off.
    Cancelled,
}

/// A call without an answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct LlmError {
    /// What kind of failure it is.
    pub class: ErrorClass,
    /// What happened, for people.
    pub message: String,
    /// How long the provider asks to wait before the next try.
    pub retry_after: Option<Duration>,
    /// What it cost all the same, where that is known.
    pub charge: Option<Box<Charge>>,
    /// What arrived of the answer, where it can be read.
    pub arrived: Option<Box<Message>>,
}

/// What a call without a usable answer cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The model.
    pub model: String,
    /// In tokens.
    pub usage: Usage,
    /// Whether they are estimated, because the provider did not say.
    pub estimated: bool,
}

impl LlmError {
    /// An error of a class.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), retry_after: None, charge: None, arrived: None }
    }

    /// The same for a call of a model that cost this.
    pub fn charged(mut self, model: &str, (usage, estimated): (Usage, bool)) -> Self {
        let charge = Charge { model: model.to_owned(), usage, estimated };
        self.charge = (usage != Usage::default()).then(|| Box::new(charge));
        self
    }

    /// The same for a call of which this arrived.
    pub fn with(mut self, arrived: Option<Message>) -> Self {
        self.arrived = arrived.filter(|message| !message.content.is_empty()).map(Box::new);
        self
    }

    /// The error an HTTP status stands for. Statuses nobody has named are worth another try.
    pub fn from_status(status: u16, message: &str) -> Self {
        let class = match status {
            401 | 403 => ErrorClass::Auth,
            402 | 404 => ErrorClass::Unavailable,
            413 => ErrorClass::ContextLength,
            400 | 408 | 422 => ErrorClass::Terminal,
            _ => ErrorClass::Transient,
        };
        Self::new(class, format!("the provider answered {status}: {message}"))
    }

    /// The call was called off.
    pub fn cancelled() -> Self {
        Self::new(ErrorClass::Cancelled, "the model call was cancelled")
    }
}

/// Who answers. An enum, not a trait: the set is closed and every one of them ships with pleach.
#[derive(Debug, Clone)]
pub enum Provider {
    /// Answers from a YAML file.
    Script(Script),
    /// A server answers.
    Remote(Remote),
}

impl Provider {
    /// The provider's name, as records have it.
    pub fn name(&self) -> &str {
        match self {
            Self::Script(_) => "script",
            Self::Remote(remote) => remote.name(),
        }
    }

    /// Asks for one answer. Never tries twice; ends early only when `cancel` says kill.
    pub async fn complete(&self, request: &Request, cancel: &Cancel) -> Result<Answered, LlmError> {
        match self {
            Self::Script(script) => {
                let response = script.complete(request, cancel).await?;
                Ok(Answered { response, estimated: false })
            }
            Self::Remote(remote) => remote.complete(request, cancel).await,
        }
    }

    /// The most tokens the answer to a request may have, where that is known.
    pub fn output_limit(&self, request: &Request) -> Option<u32> {
        match self {
            Self::Script(_) => request.max_tokens,
            Self::Remote(remote) => remote.output_limit(&remote.model(&request.model).ok()?, request.max_tokens),
        }
    }

    /// The most tokens of input a model takes, by the name a request has for it, where that is known.
    pub fn context(&self, asked: &str) -> Option<u64> {
        match self {
            Self::Script(_) => None,
            Self::Remote(remote) => context_of(&remote.model(asked).ok()?),
        }
    }

    /// What a call of a model cost in US dollars, if its price is known.
    pub fn cost(&self, model: Named<'_>, usage: &Usage) -> Option<f64> {
        match self {
            Self::Script(script) => script.cost(model, usage),
            Self::Remote(remote) => remote.cost(model, usage),
        }
    }

    /// Whether a model is known to take an effort, or at least not known to refuse one.
    pub fn takes_effort(&self, model: &str) -> bool {
        match self {
            Self::Script(_) => true,
            Self::Remote(remote) => remote.takes_effort(model),
        }
    }

    /// How well the price of a model is known.
    pub fn pricing(&self, model: Named<'_>) -> Pricing {
        match self {
            Self::Script(script) => script.pricing(model),
            Self::Remote(remote) => remote.pricing(model),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_decide_whether_another_try_makes_sense() {
        for status in [429, 500, 502, 503, 529, 418] {
            assert_eq!(LlmError::from_status(status, "").class, ErrorClass::Transient, "{status}");
        }
        for status in [400, 408, 422] {
            assert_eq!(LlmError::from_status(status, "").class, ErrorClass::Terminal, "{status}");
        }
        for status in [402, 404] {
            assert_eq!(LlmError::from_status(status, "").class, ErrorClass::Unavailable, "{status}");
        }
        assert_eq!(LlmError::from_status(401, "").class, ErrorClass::Auth);
        assert_eq!(LlmError::from_status(403, "").class, ErrorClass::Auth);
        assert_eq!(LlmError::from_status(413, "").class, ErrorClass::ContextLength);
        assert_eq!(LlmError::from_status(429, "slow down").to_string(), "the provider answered 429: slow down");
    }
}
