//! The steps of a task: what they ask, how their answers are read, and the commits that tell of them.

mod message;
pub mod text;

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use message::{Attempt, Step, StepKind, shown_name};

/// What a test command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestKind {
    /// Tests a task alone.
    Unit,
    /// Tests how the tasks of a phase fit together.
    Integration,
    /// Tests the whole from outside.
    E2e,
    /// Runs before the tests.
    Setup,
    /// Runs after the tests, whatever they found.
    Teardown,
}

impl TestKind {
    /// The word in trees and trailers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Integration => "integration",
            Self::E2e => "e2e",
            Self::Setup => "setup",
            Self::Teardown => "teardown",
        }
    }
}

/// A word that is no kind of test.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no kind of test command: use unit, integration, e2e, setup or teardown")]
pub struct UnknownKind(String);

impl FromStr for TestKind {
    type Err = UnknownKind;
    fn from_str(word: &str) -> Result<Self, UnknownKind> {
        [Self::Unit, Self::Integration, Self::E2e, Self::Setup, Self::Teardown]
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .ok_or_else(|| UnknownKind(word.to_owned()))
    }
}

/// How many tests did what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed, errors included.
    pub failed: u64,
    /// Tests that were not run.
    pub skipped: u64,
}

/// What a test step found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestFacts {
    /// The first command's kind.
    pub kind: TestKind,
    /// The counts of the commands of that kind, where they could be read.
    pub counts: Option<Counts>,
    /// How long all commands took.
    pub runtime: Duration,
    /// Where the whole output is.
    pub log: Option<String>,
}

/// What an earlier attempt tells the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// What went wrong.
    pub kind: FeedbackKind,
    /// In whose words.
    pub text: String,
}

/// What went wrong in an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackKind {
    /// The reviewer said no.
    Rejected,
    /// Tests failed, or a step of the pipeline's own.
    TestFailure,
    /// The agent could not do its work.
    RunnerError,
}
