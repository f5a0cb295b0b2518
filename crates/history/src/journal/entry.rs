//! A line of the log.

use jiff::Timestamp;
use pleach_core::event::to_the_millisecond;
use pleach_core::ids::{CommitId, EntryId, NodeId, SessionId, TaskId, TurnId};
use serde::Serialize;

/// One thing that happened, as `pleach log --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogEntry {
    /// When.
    #[serde(serialize_with = "to_the_millisecond")]
    pub at: Timestamp,
    /// What it is.
    pub kind: LogKind,
    /// The run it happened in: `SESSION`, or `SESSION/r1` for a replay.
    pub run: Option<String>,
    /// The turn.
    pub turn: Option<TurnId>,
    /// The task it is about.
    pub task: Option<TaskId>,
    /// The entry of the merge queue.
    pub entry: Option<EntryId>,
    /// The node.
    pub node: Option<NodeId>,
    /// The model.
    pub model: Option<String>,
    /// What came of it, in a word.
    pub outcome: Option<String>,
    /// More about it, in a line.
    pub text: String,
    /// The commit it has led to.
    pub commit: Option<CommitId>,
    /// It did not go well.
    #[serde(skip)]
    pub(super) failed: bool,
    /// The attempt a step belongs to.
    #[serde(skip)]
    pub(super) attempt: Option<u32>,
    /// The session whose title the line lacks.
    #[serde(skip)]
    pub(super) untitled: Option<SessionId>,
}

/// What a line of the log is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogKind {
    /// A run started.
    Start,
    /// A later process went on with it.
    Resume,
    /// It went back to an earlier turn.
    Return,
    /// It began as a replay of another run.
    Fork,
    /// It paused.
    Pause,
    /// It ended: done, failed or cancelled.
    End,
    /// A step of a task ended.
    Step,
    /// An entry of the merge queue has another state.
    Entry,
    /// A branch moved over finished work.
    Landing,
    /// A turn.
    Turn,
    /// An attempt at a node failed.
    Attempt,
}

impl LogEntry {
    /// An entry with nothing but what all have.
    pub(super) fn new(at: Timestamp, kind: LogKind, text: String) -> Self {
        Self {
            at,
            kind,
            run: None,
            turn: None,
            task: None,
            entry: None,
            node: None,
            model: None,
            outcome: None,
            text,
            commit: None,
            failed: false,
            attempt: None,
            untitled: None,
        }
    }

    /// Whether it did not go well.
    pub fn failed(&self) -> bool {
        self.failed
    }
}
