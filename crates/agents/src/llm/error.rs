//! Why a call has no answer.

use std::time::Duration;

use super::message::Message;
use pleach_core::event::Usage;

/// What kind of failure a call ended in, which decides what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// Worth a retry: overload, server error, network.
    Transient,
    /// The answer broke off in the middle. Another call may work, but a part of this one was given and is paid for: it
    /// is not made again often.
    Cut,
    /// Not worth a retry.
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
    /// The call was cancelled.
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

    /// The error an HTTP status stands for. Unknown statuses are retried.
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

    /// The call was cancelled.
    pub fn cancelled() -> Self {
        Self::new(ErrorClass::Cancelled, "the model call was cancelled")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_decide_whether_to_retry() {
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
