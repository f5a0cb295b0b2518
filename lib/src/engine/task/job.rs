//! What a session has to know of its task.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::ids::{CommitId, RepoPath};
use crate::plan::OF_TASKS;
use crate::plan::pipeline::Node;
use crate::plan::tree::{TaskNode, TestCommand, TestKind};
use crate::step::report;

/// What a session has to know of its task.
#[derive(Debug, Clone)]
pub struct TaskJob {
    /// The task.
    pub task: TaskNode,
    /// What tests it; nothing means that it is not tested.
    pub tests: Vec<TestCommand>,
    /// How long a test of its pipeline may take that does not say.
    pub test_timeout: Duration,
    /// Where logs go, from the root of the repository.
    pub logs: String,
    /// Where reports go, likewise.
    pub reports: String,
    /// Whether logs and reports are committed; otherwise the record alone has them.
    pub commit_logs: bool,
    /// How many attempts a budget has, now. When the session was begun it may have been another number.
    pub attempts: u32,
    /// The earliest date its steps may have.
    pub not_before: Timestamp,
    /// Steps of it that lie where it lands, from before its branch: what they changed is its work as well.
    pub begun: Vec<CommitId>,
}

impl TaskJob {
    /// Whether a file is a log or a report of a task, and not its work.
    pub fn is_own(&self, path: &RepoPath) -> bool {
        report::is_own(path, &self.logs, &self.reports)
    }

    /// What a test step runs: its own command, or what tests the task. None for every other node.
    pub fn tests_of(&self, node: &Node) -> Option<Vec<TestCommand>> {
        let own = |command: &String| TestCommand {
            kind: TestKind::Unit,
            command: command.clone(),
            framework: None,
            timeout: node.timeout.or(Some(self.test_timeout)),
        };
        let tests = || node.tool_command.as_ref().map_or_else(|| self.tests.clone(), |command| vec![own(command)]);
        (node.step.as_deref() == Some("test")).then(tests)
    }

    /// What its pipeline is told of the task.
    pub fn inputs(&self) -> BTreeMap<String, String> {
        let TaskNode { id, name, description, .. } = &self.task;
        let values = [id.as_str(), name, description].map(str::to_owned);
        OF_TASKS.map(str::to_owned).into_iter().zip(values).collect()
    }
}
