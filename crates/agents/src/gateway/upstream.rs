//! The provider or script that answers forwarded calls.

use crate::llm::{LlmError, ModelNames, Pricing, Remote, Script};
use pleach_core::event::Usage;

/// The provider or script that answers forwarded calls.
#[derive(Debug, Clone)]
pub enum Upstream {
    /// A provider behind a server.
    Remote(Remote),
    /// A script, in the format of the client.
    Script(Script),
}

impl Upstream {
    /// Its name, as records have it.
    pub fn name(&self) -> &str {
        match self {
            Self::Remote(remote) => remote.name(),
            Self::Script(_) => "script",
        }
    }

    pub(super) fn cost(&self, model: ModelNames<'_>, usage: &Usage) -> Option<f64> {
        match self {
            Self::Remote(remote) => remote.cost(model, usage),
            Self::Script(script) => script.cost(model, usage),
        }
    }

    /// How well the price of a model is known.
    pub(super) fn pricing(&self, model: ModelNames<'_>) -> Pricing {
        match self {
            Self::Remote(remote) => remote.pricing(model),
            Self::Script(script) => script.pricing(model),
        }
    }

    /// The error of its refusal.
    pub(super) fn refusal(&self, model: &str, status: u16, message: &str) -> LlmError {
        match self {
            Self::Remote(remote) => remote.refusal(model, status, message),
            Self::Script(_) => LlmError::from_status(status, message),
        }
    }
}
