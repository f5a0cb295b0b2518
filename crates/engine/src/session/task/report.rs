//! Reports of a step, of the tests at a landing, and of a whole task.

use serde_json::Value;

use pleach_core::event::Warning;
use pleach_core::ids::RepoPath;
use pleach_core::step::TestFacts;
use pleach_core::step::text::{self, Body};

/// The result of a task's tests at its landing.
#[derive(Debug)]
pub enum Retest {
    /// They pass.
    Green,
    /// They fail, with this report.
    Red(Box<StepReport>),
    /// An agent runs them, and it is asked only within an attempt; this is the feedback for another one.
    Unknown(Box<StepReport>),
    /// The run stopped before they ended.
    Interrupted,
}

/// The result of a task's tests at its landing.
#[derive(Debug)]
pub struct Retested {
    /// How they ended.
    pub outcome: Retest,
    /// The warnings.
    pub warnings: Vec<Warning>,
}

/// What a node's worker found out about its step.
#[derive(Debug, Default)]
pub struct StepReport {
    /// The text of the commit.
    pub body: Body,
    /// The feedback for the next attempt, if it failed.
    pub said: String,
    /// The complete output, if there is a log.
    pub log: Option<String>,
    /// The facts of a test.
    pub test: Option<TestFacts>,
    /// The tests that failed, if the text is incomplete.
    pub failing: Vec<String>,
    /// Whether it ended before it could say anything about the code.
    pub broke_off: bool,
    /// The kinds and models of the agents that did the work.
    pub by: Vec<(String, String)>,
}

impl StepReport {
    /// Marks the step as failed for this reason, whatever the report said.
    pub(crate) fn fail(&mut self, why: &str) {
        self.body = text::runner_error(why);
        let with_why = |text: &str| format!("{}\n{why}\n", text.trim_end());
        self.log = Some(with_why(self.log.as_ref().unwrap_or(&self.said)));
        self.said = with_why(&self.said);
        self.broke_off = true;
    }
}

/// The report of a completed task, without secrets, and its destination.
#[derive(Debug)]
pub enum TaskReport {
    /// A file in its last step.
    Committed(RepoPath, String),
    /// The session's record alone.
    Recorded(Value),
}
