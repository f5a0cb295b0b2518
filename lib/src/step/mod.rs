//! The steps of a task: what they ask, how their answers are read, and the commits that tell of them.

pub mod counts;
pub mod verdict;

use serde::{Deserialize, Serialize};

/// What an earlier attempt is known to have failed of; the next one is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// Which step said it.
    pub kind: FeedbackKind,
    /// Its words: the review, the output of the tests, the runner's error.
    pub text: String,
}

/// Which step gave a [`Feedback`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackKind {
    /// The reviewer rejected the work.
    Rejected,
    /// Tests failed.
    TestFailure,
    /// The agent failed to do its work.
    RunnerError,
}
