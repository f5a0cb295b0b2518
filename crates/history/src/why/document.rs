//! The answer, as programs read it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use pleach_core::ids::{CommitId, NodeId, RepoPath, SessionId};

/// Why the lines of a file are there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FileWhy {
    /// The file, from the root of its repository.
    pub file: RepoPath,
    /// The commit it is read from; none where it is the file of the checkout.
    pub rev: Option<CommitId>,
    /// Its lines, equal neighbours together.
    pub lines: Vec<LineWhy>,
    /// The turns they name, as `SESSION/main.4`.
    pub turns: BTreeMap<String, TurnWhy>,
    /// The commits they name.
    pub commits: BTreeMap<CommitId, WhyCommit>,
    /// The sessions whose records would say more and cannot be read, each with why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unread: BTreeMap<SessionId, String>,
}

/// Lines that follow each other and are there for the same reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LineWhy {
    /// The first, counted from 1.
    pub first: u32,
    /// The last.
    pub last: u32,
    /// The commit that git blames; none for what is not committed.
    pub commit: Option<CommitId>,
    /// The file there.
    pub path: RepoPath,
    /// The first of them there.
    pub line: u32,
    /// Who they are of.
    pub origin: Origin,
    /// The turn, as `SESSION/main.4`.
    pub turn: Option<String>,
    /// The subject of the step that brought them.
    pub step: Option<String>,
    /// How the turn's lines came into that commit, where it is not the turn's own.
    pub via: Option<Via>,
    /// How that is known.
    pub evidence: Option<Evidence>,
    /// The agent, where it is none of pleach's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Where two sides became one: the turns of both.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sides: Vec<String>,
    /// What the first of them was before, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<PastLine>,
}

/// What a line was before.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PastLine {
    /// The commit it is of.
    pub commit: CommitId,
    /// The file there.
    pub path: RepoPath,
    /// Its number there.
    pub line: u32,
    /// What it said.
    pub text: String,
    /// Who it is of.
    pub origin: Origin,
    /// The turn.
    pub turn: Option<String>,
}

/// Who a line is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A turn of a run.
    Turn,
    /// A step of a task; which turn of it is not known.
    Step,
    /// A merge of pleach's, where neither side has the line.
    Merge,
    /// pleach put it back, and what it was is not known.
    Restored,
    /// An agent that pleach did not run.
    OtherAgent,
    /// A person, or whoever git names.
    Person,
    /// It is older than what this shallow clone has.
    Before,
    /// It is in no commit.
    Uncommitted,
}

/// How the lines of a turn came into a commit that is not the turn's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// A step, or a copy of it on the way to its target.
    Copy,
    /// Somebody made one commit of a run.
    Squash,
    /// A conflict was resolved, or a merge repaired.
    Resolved,
    /// Something that was gone was put back.
    Restored,
}

/// How it is known what a commit was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Its message says so.
    Message,
    /// Its file is that of a run, byte for byte.
    Blob,
}

/// A turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TurnWhy {
    /// The node.
    pub node: NodeId,
    /// The node's visit.
    pub visit: Option<u32>,
    /// The attempt within the visit.
    pub attempt: Option<u32>,
    /// The kind of agent.
    pub agent: Option<String>,
    /// The model.
    pub model: String,
    /// The model's provider.
    pub provider: String,
    /// When it was.
    pub at: Timestamp,
    /// The task of a tree.
    pub task: Option<String>,
    /// What was asked.
    pub prompt: Option<String>,
    /// Why it did what it did, in its own words.
    pub reason: Option<String>,
    /// Where those words are from.
    pub reason_from: Option<ReasonSource>,
    /// What has passed since, with these lines in it.
    pub checked_by: Vec<TurnCheck>,
    /// Its commit in this repository.
    pub commit: CommitId,
    /// Whether the session's record was read; the rest says what the commit does.
    pub record: bool,
}

/// Where the reason is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonSource {
    /// The agent's words.
    Words,
    /// The message of the commit.
    Message,
}

/// Something that has passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TurnCheck {
    /// `test`, `command`, `review`, or `queue`.
    pub kind: &'static str,
    /// What it was: the command, or the words of the verdict.
    pub what: String,
    /// The turn or the commit that shows it.
    pub by: Option<String>,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WhyCommit {
    /// Its author.
    pub author: String,
    /// Their address.
    pub email: String,
    /// When it was written.
    pub at: Timestamp,
    /// The first line of its message.
    pub subject: String,
    /// What kind of commit it is.
    pub kind: CommitKind,
    /// The session it names.
    pub session: Option<SessionId>,
    /// What a merge says of itself: the tier it took, what was resolved, and from what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge: Option<MergeWords>,
}

/// What is known of a merge.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MergeWords {
    /// The entry of the merge queue.
    pub entry: Option<String>,
    /// The tier that was needed.
    pub tier: Option<String>,
    /// What was resolved: `path#hunk=source`.
    pub resolved: Vec<String>,
    /// The session of the agent that resolved it.
    pub resolver: Option<SessionId>,
    /// What was merged: the branch or the task, or the contexts of a fan-in.
    pub of: Vec<String>,
    /// The node that joined them.
    pub node: Option<NodeId>,
}

/// What kind of commit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitKind {
    /// A turn of a run, or a copy of one.
    Turn,
    /// The step of a task, or a copy of it.
    Step,
    /// The merge queue made it.
    Merge,
    /// A run joined its branches.
    FanIn,
    /// pleach put something back.
    Restored,
    /// Somebody made one commit of runs it names.
    Squash,
    /// An agent that pleach did not run.
    OtherAgent,
    /// Whoever git names.
    Person,
}

/// What a commit is, and the turns in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CommitWhy {
    /// The commit.
    pub commit: CommitId,
    /// What it is.
    #[serde(flatten)]
    pub what: WhyCommit,
    /// What is left of its message without trailers.
    pub body: String,
    /// What it brought, by file and turn.
    pub lines: Vec<CommitLines>,
    /// The turns it has lines of.
    pub turns: BTreeMap<String, TurnWhy>,
    /// The sessions whose records would say more and cannot be read, each with why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unread: BTreeMap<SessionId, String>,
}

/// Lines a commit has brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CommitLines {
    /// The file.
    pub file: RepoPath,
    /// Who they are of.
    pub origin: Origin,
    /// The turn.
    pub turn: Option<String>,
    /// The lines in the file of the commit, first and last.
    pub ranges: Vec<(u32, u32)>,
    /// How many they are.
    pub count: u32,
}
