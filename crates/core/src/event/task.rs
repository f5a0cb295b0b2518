//! Events of a task, besides those inside its pipeline.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Extra, to_the_millisecond};
use crate::ids::{BranchName, CommitId, NodeId, RepoName, StepName, TaskId};

/// The task a session works on. A session is one budget of attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOf {
    /// The repository its steps are in.
    pub repo: RepoName,
    /// The branch the run was started on.
    pub target: BranchName,
    /// The tree's file, from the root of the repository; `task:ID` for an ad-hoc task.
    pub tree: String,
    /// The task.
    pub id: TaskId,
    /// Its name.
    pub name: String,
    /// The commit its branch started at.
    pub base: CommitId,
    /// What its branch carries.
    #[serde(default)]
    pub commits: Commits,
    /// The status of the newest step its branch had when the session started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

/// What the branch of a task carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Commits {
    /// A commit per step; what the turns committed is reached from the record.
    #[default]
    Steps,
    /// The turns' commits as well.
    Turns,
}

/// Feedback of an earlier attempt for the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// What went wrong.
    pub kind: FeedbackKind,
    /// The step, where it is one of the pipeline's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepName>,
    /// In which words.
    pub text: String,
}

impl Feedback {
    /// What went wrong in a step that every pipeline can have.
    pub fn new(kind: FeedbackKind, text: impl Into<String>) -> Self {
        Self { kind, step: None, text: text.into() }
    }
}

/// What went wrong in an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackKind {
    /// A review rejected it.
    Rejected,
    /// A test or another step failed.
    TestFailure,
    /// The agent failed.
    RunnerError,
}

/// See [`super::Event::AttemptStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptStarted {
    /// Counted from 0 over everything that was tried on the task.
    pub retry: u32,
    /// Counted from 1 in the session's budget.
    pub number: u32,
    /// The attempts of the budget.
    pub of: u32,
    /// The node the pass starts at: the pipeline's start, or the one after the newest step.
    pub start: NodeId,
    /// The code it starts with: the tree without the logs and reports of pleach's own.
    pub code: CommitId,
    /// A commit whose files lie over the base, uncommitted: the code of the budget before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub laid: Option<CommitId>,
    /// What went wrong before the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feedback: Vec<Feedback>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`super::Event::StepFinished`]. The step's commit is built from this alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepFinished {
    /// The repository its commit is in.
    pub repo: RepoName,
    /// The task.
    pub task: TaskId,
    /// The step: `implement`, `test`, …
    pub step: String,
    /// What became of it: `implement-pass`, `test-fail`, …
    pub status: String,
    /// The attempt it belongs to, from 0; none for the end of a task.
    pub attempt: Option<u32>,
    /// The commit before it.
    pub parent: CommitId,
    /// Its tree.
    pub tree: CommitId,
    /// The commit's first line.
    pub subject: String,
    /// The text below it.
    pub body: String,
    /// The facts at its end.
    pub trailers: Vec<(String, String)>,
    /// When it ended.
    #[serde(serialize_with = "to_the_millisecond")]
    pub date: Timestamp,
    /// The commit.
    pub git_sha: CommitId,
    /// The tree without the logs and reports of pleach's own: by it attempts are compared.
    pub code: CommitId,
    /// The tests that failed, where their names could be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<String>,
    /// The feedback for the next attempt, where the step failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<Feedback>,
    /// The message with all that was said, where that is no node's: of tests that failed where the task was to land.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<u64>,
    /// The report of a completed task, where its commit does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Value>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

impl StepFinished {
    /// The subject without the part that programs read.
    pub fn subject_alone(&self) -> String {
        let rest = self.subject.split_once("): ").map_or(self.subject.as_str(), |(_, rest)| rest);
        format!("{} {}: {rest}", self.task, self.status)
    }

    /// Whether it ended its attempt without success.
    pub fn failed_attempt(&self) -> bool {
        self.feedback.is_some()
    }
}

/// See [`super::Event::Landing`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Landing {
    /// The repository.
    pub repo: RepoName,
    /// The branch that is to move: the target, or that of a phase.
    pub target: BranchName,
    /// Where it is.
    pub from: CommitId,
    /// Where it is to be.
    pub to: CommitId,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`super::Event::Landed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Landed {
    /// The repository.
    pub repo: RepoName,
    /// The branch that moved.
    pub target: BranchName,
    /// Where it is now.
    pub commit: CommitId,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}
