//! The steps of a task: what they ask, how their answers are read, and the commits that report them.

pub mod counts;
mod message;
pub mod prompt;
mod reason;
pub mod report;
pub mod text;
mod tree_name;
pub mod verdict;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::event::{Feedback, FeedbackKind};
pub use crate::plan::tree::TestKind;
pub use message::{AttemptNumber, Step, StepKind, name_line, short_id, shown_name};
pub use reason::{failure, reason, reason_of};
pub use tree_name::TreeName;

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestFacts {
    /// The first command's kind.
    pub kind: TestKind,
    /// The counts of the commands of that kind, where they could be read.
    pub counts: Option<Counts>,
    /// How long all commands took, if known.
    pub runtime: Option<Duration>,
    /// Where the whole output is.
    pub log: Option<String>,
}

/// A test command that has run, and what it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RanTest {
    /// What the command is for.
    pub kind: TestKind,
    /// The command.
    pub command: String,
    /// How it ended, for people.
    pub exit: String,
    /// Whether it went well.
    pub passed: bool,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    /// The test counts, if known.
    pub counts: Option<Counts>,
    /// The tests that failed, where something is left out of what it printed.
    pub failing: Vec<String>,
    /// How long it took.
    pub runtime: Duration,
}
