//! Events that are broadcast and never recorded: what becomes of a tree's tasks is read from their commits, and what is
//! being said is recorded with its turn. Listeners get these in one stream with the recorded ones.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Extra, Recorded};
use crate::ids::{BranchName, CommitId, ContextId, EntryId, NodeId, RepoName, RepoPath, SessionId, TaskId};

/// Something that happened, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    /// The session and its context; none for what happens to a whole tree.
    pub by: Option<(SessionId, ContextId)>,
    /// What happened, and when.
    pub recorded: Arc<Recorded>,
}

/// A run over a tree was opened by a commit on its target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The tree's file, from the root of the repository.
    pub tree: String,
    /// The repository.
    pub repo: RepoName,
    /// The branch everything lands on.
    pub target: BranchName,
    /// The commit.
    pub commit: CommitId,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A task, or the tests of a phase, are started or taken up again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskStarted {
    /// The task or phase.
    pub task: TaskId,
    /// Its name.
    pub title: String,
    /// The repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<RepoName>,
    /// The session it is worked in.
    pub session: SessionId,
    /// Which attempt of its budget; none for the tests of a phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// How many attempts the budget has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u32>,
    /// It was started by a run before this one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumed: bool,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A branch moved because a task ended or the tests of a phase ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskLanded {
    /// The task or phase.
    pub task: TaskId,
    /// What happened to the task: `complete`, or `failed` where its steps alone are there. None for the tests of a
    /// phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The repository.
    pub repo: RepoName,
    /// The branch it landed on: the target, or its phase's.
    pub target: BranchName,
    /// Where that branch is now.
    pub commit: CommitId,
    /// How many tasks of the tree are done now.
    pub done: usize,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A phase was merged into the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseMerged {
    /// The phase.
    pub task: TaskId,
    /// The repository.
    pub repo: RepoName,
    /// The target.
    pub target: BranchName,
    /// Where the target is now.
    pub commit: CommitId,
    /// How many tasks of the tree are done now.
    pub done: usize,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The merge queue has landed an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MergeComplete {
    /// The entry.
    pub entry: EntryId,
    /// The task it is the work of.
    #[serde(default)]
    pub task: Option<TaskId>,
    /// Whether nobody had to approve it.
    pub auto: bool,
    /// The branch.
    #[serde(default)]
    pub branch: Option<BranchName>,
    /// The branch it was merged into.
    pub target: BranchName,
    /// What merged it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// What is to be said of it: that it passed only with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether no test has run on what was landed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unverified: bool,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An agent begins to resolve the conflict of an entry of the merge queue, or has come to an end with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MergeResolution {
    /// The entry.
    pub entry: EntryId,
    /// The task it is the work of.
    #[serde(default)]
    pub task: Option<TaskId>,
    /// The branch.
    #[serde(default)]
    pub branch: Option<BranchName>,
    /// The branch it is to be merged into.
    pub target: BranchName,
    /// The session of the agent.
    pub session: SessionId,
    /// What it does, or what came of it.
    pub text: String,
    /// The files in conflict, where it begins; none where only the tests fail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<RepoPath>,
    /// Whose landed work it conflicts with, where it begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
    /// Whether the conflict is resolved, where the agent has come to an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<bool>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The merge queue needs a person for an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MergeEscalated {
    /// The entry.
    pub entry: EntryId,
    /// The task it is the work of.
    #[serde(default)]
    pub task: Option<TaskId>,
    /// The branch.
    #[serde(default)]
    pub branch: Option<BranchName>,
    /// The branch it was to be merged into.
    pub target: BranchName,
    /// How many files are in conflict.
    pub conflicts: usize,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An agent said something, or asks for tools, in an unfinished turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentSpoke {
    /// The node it works on.
    pub node_id: NodeId,
    /// What it said, as records hold messages.
    pub message: Value,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An agent waits for something outside of its work, or no longer does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentWaits {
    /// The node it works on.
    pub node_id: NodeId,
    /// What it waits for; none where it continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}
