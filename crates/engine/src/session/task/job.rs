//! The task of a session.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::env::SessionRepos;
use crate::session::joint_slot::JointRepo;
use git::Repo;
use pleach_core::ids::{CommitId, RepoName, RepoPath};
use pleach_core::plan::OF_TASKS;
use pleach_core::plan::pipeline::Node;
use pleach_core::plan::tree::{TaskNode, TestCommand, TestKind};
use pleach_core::step::report;

/// The task of a session, with its settings.
#[derive(Debug, Clone)]
pub struct TaskJob {
    /// The task.
    pub task: TaskNode,
    /// Its tests; empty if it is not tested.
    pub tests: Vec<TestCommand>,
    /// The default timeout for tests of its pipeline.
    pub test_timeout: Duration,
    /// The directory of logs, relative to the root of the repository.
    pub logs: String,
    /// The directory of reports, likewise.
    pub reports: String,
    /// Whether logs are committed; otherwise they are only in the record.
    pub commit_logs: bool,
    /// Whether reports are committed, likewise.
    pub commit_reports: bool,
    /// The current number of attempts in a budget. It may have changed since the session started.
    pub attempts: u32,
    /// The earliest date for its steps.
    pub not_before: Timestamp,
    /// Steps of this task already on its target, from before its branch. Their changes count as its work.
    pub begun: Vec<CommitId>,
    /// The other repositories its tests see, in worktrees side by side; none if they run in its own worktree.
    pub beside: Vec<JointRepo>,
}

impl TaskJob {
    /// Whether a file is a log or a report of a task rather than its work.
    pub fn is_own(&self, path: &RepoPath) -> bool {
        report::is_own(path, &self.logs, &self.reports)
    }

    /// The tests of a test step: its own command, or the task's tests. `None` for every other node.
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

    /// The repositories its tests see, besides its own.
    pub(crate) fn repos(&self, name: RepoName, repo: Repo) -> SessionRepos {
        SessionRepos::new(name, repo, self.beside.iter().map(|repo| (repo.name.clone(), repo.repo.clone())))
    }

    /// The task as inputs of its pipeline.
    pub fn inputs(&self) -> BTreeMap<String, String> {
        values_of(&self.task)
    }
}

/// A task as inputs of its pipeline.
pub(crate) fn values_of(task: &TaskNode) -> BTreeMap<String, String> {
    let TaskNode { id, name, description, .. } = task;
    let values = [id.as_str(), name, description].map(str::to_owned);
    OF_TASKS.map(str::to_owned).into_iter().zip(values).collect()
}
