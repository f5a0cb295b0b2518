//! How an attempt of a node ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// How a node's attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Status {
    /// It did what it was asked to.
    Success,
    /// It did part of it, which the node accepts.
    PartialSuccess,
    /// It asks to be run again.
    Retry,
    /// It failed.
    Fail,
    /// It was skipped; what came before is.
    Skipped,
    /// A word of the pipeline's own, which its conditions name; satisfies no goal gate.
    Custom(String),
}

impl Status {
    /// The word conditions compare with.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Success => "success",
            Self::PartialSuccess => "partial_success",
            Self::Retry => "retry",
            Self::Fail => "fail",
            Self::Skipped => "skipped",
            Self::Custom(word) => word,
        }
    }

    /// Whether a goal gate is content with it.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Success | Self::PartialSuccess)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl From<Status> for String {
    fn from(status: Status) -> String {
        status.as_str().to_owned()
    }
}

/// An outcome without a word in it.
#[derive(Debug, thiserror::Error)]
#[error("an outcome must be a word like success, fail, retry or partial_success")]
pub struct EmptyStatus;

impl TryFrom<String> for Status {
    type Error = EmptyStatus;
    fn try_from(text: String) -> Result<Self, EmptyStatus> {
        // Agents also shout. A `FAIL` taken for a word of the pipeline's own would continue like a success.
        match text.trim().to_ascii_lowercase().as_str() {
            "" => Err(EmptyStatus),
            "success" | "succeeded" => Ok(Self::Success),
            "partial_success" => Ok(Self::PartialSuccess),
            "retry" => Ok(Self::Retry),
            "fail" | "failed" => Ok(Self::Fail),
            "skipped" => Ok(Self::Skipped),
            _ => Ok(Self::Custom(text.trim().to_owned())),
        }
    }
}

/// Whether a failure is worth another attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureClass {
    /// The network, a rate limit, a provider's bad day.
    Transient,
    /// Anything else.
    #[default]
    Terminal,
    /// Nothing a repetition could change: a person's No, a budget, a configuration that cannot work.
    Final,
}

impl FailureClass {
    fn is_terminal(&self) -> bool {
        *self == Self::Terminal
    }
}

/// What a node's handler answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// The edge label it would like to follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_label: Option<String>,
    /// The nodes it would like to go to, best first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggested_next_ids: Vec<String>,
    /// What it wants the rest of the run to know.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context_updates: BTreeMap<String, Value>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Whether a failure is worth another attempt.
    #[serde(default, skip_serializing_if = "FailureClass::is_terminal")]
    pub failure_class: FailureClass,
}

impl Outcome {
    /// An outcome with this status and nothing else.
    pub fn of(status: Status) -> Self {
        Self {
            status,
            preferred_label: None,
            suggested_next_ids: Vec::new(),
            context_updates: BTreeMap::new(),
            notes: None,
            failure_reason: None,
            failure_class: FailureClass::Terminal,
        }
    }

    /// What is said of one that is neither a success nor a failure, but a word of its own.
    pub fn own_word(&self) -> Option<String> {
        let notes = self.notes.as_deref().map(|notes| format!(": {notes}")).unwrap_or_default();
        let status = Some(&self.status).filter(|status| matches!(status, Status::Custom(_) | Status::Skipped));
        status.map(|status| format!("it ended with `{status}`{notes}"))
    }

    /// Success.
    pub fn success() -> Self {
        Self::of(Status::Success)
    }

    /// An ordinary failure.
    pub fn fail(reason: impl Into<String>) -> Self {
        Self { failure_reason: Some(reason.into()), ..Self::of(Status::Fail) }
    }

    /// Failure that is never retried.
    pub fn final_failure(reason: impl Into<String>) -> Self {
        Self { failure_class: FailureClass::Final, ..Self::fail(reason) }
    }

    /// Failure that may pass by itself.
    pub fn transient(reason: impl Into<String>) -> Self {
        Self { failure_class: FailureClass::Transient, ..Self::fail(reason) }
    }

    /// A request to be run again.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self { failure_reason: Some(reason.into()), ..Self::of(Status::Retry) }
    }
}
