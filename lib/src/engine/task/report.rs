//! What a step, the tests of a landing, or a whole task reports.

use serde_json::Value;

use crate::event::Warning;
use crate::ids::RepoPath;
use crate::step::TestFacts;
use crate::step::text::{self, Body};

/// How a task's tests ended where it is to land.
#[derive(Debug)]
pub enum Retest {
    /// They pass.
    Green,
    /// They fail, and this is what they said.
    Red(Box<StepReport>),
    /// They are an agent's, which is asked in an attempt alone; this is what another one is told.
    Unknown(Box<StepReport>),
    /// Nobody waited for their end.
    Interrupted,
}

/// What came of a task's tests where it is to land.
#[derive(Debug)]
pub struct Retested {
    /// How they ended.
    pub outcome: Retest,
    /// What a person should know.
    pub warnings: Vec<Warning>,
}

/// What a node's worker found out about the step it stands for.
#[derive(Debug, Default)]
pub struct StepReport {
    /// The text of the commit.
    pub body: Body,
    /// What the next attempt is told, where it failed.
    pub said: String,
    /// Everything that was said, where a log has it.
    pub log: Option<String>,
    /// The facts of a test.
    pub test: Option<TestFacts>,
    /// The tests that failed, where not all that was said is there.
    pub failing: Vec<String>,
    /// Whether it ended before it could say anything about the code.
    pub broke_off: bool,
    /// The kinds and models of the agents it is the work of.
    pub by: Vec<(String, String)>,
}

impl StepReport {
    /// It failed after all, for this reason, whatever was said.
    pub(in crate::engine) fn fail(&mut self, why: &str) {
        self.body = text::runner_error(why);
        let with_why = |text: &str| format!("{}\n{why}\n", text.trim_end());
        self.log = Some(with_why(self.log.as_ref().unwrap_or(&self.said)));
        self.said = with_why(&self.said);
        self.broke_off = true;
    }
}

/// The report of a completed task, without secrets, and where it goes.
#[derive(Debug)]
pub enum TaskReport {
    /// Into a file of its last step.
    Committed(RepoPath, String),
    /// Into the session's record alone.
    Recorded(Value),
}
