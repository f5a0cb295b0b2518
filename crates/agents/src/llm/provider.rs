//! The providers of answers.

use super::error::LlmError;
use super::price::{ModelNames, Pricing, context_of};
use super::remote::Remote;
use super::request::Request;
use super::response::Answered;
use super::script::Script;
use os::process::Cancel;
use pleach_core::event::Usage;

/// A provider of answers. An enum, not a trait: the set is closed and every one of them ships with pleach.
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

    /// Makes one call. Never retries; ends early only on a kill.
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
    pub fn cost(&self, model: ModelNames<'_>, usage: &Usage) -> Option<f64> {
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
    pub fn pricing(&self, model: ModelNames<'_>) -> Pricing {
        match self {
            Self::Script(script) => script.pricing(model),
            Self::Remote(remote) => remote.pricing(model),
        }
    }
}
