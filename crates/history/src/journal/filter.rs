//! Which lines of the log are wanted.

use jiff::Timestamp;
use pleach_core::ids::{NodeId, TaskId};

use super::{LogEntry, RunScope};

/// What is wanted of the log; all of it by default.
#[derive(Debug, Clone, Default)]
pub struct LogFilter {
    /// Only this run, or session.
    pub run: Option<RunScope>,
    /// Only this task.
    pub task: Option<TaskId>,
    /// Only what happened at this node.
    pub node: Option<NodeId>,
    /// Only turns of models with this in their names.
    pub model: Option<String>,
    /// Only what did not go well.
    pub failed: bool,
    /// Nothing before.
    pub since: Option<Timestamp>,
    /// Nothing after.
    pub until: Option<Timestamp>,
    /// Every turn and every failed attempt as well.
    pub turns: bool,
}

impl LogFilter {
    /// Whether turns and attempts are looked at. Nodes and models are theirs, and many of them fail.
    pub fn has_turns(&self) -> bool {
        self.turns || self.failed || self.node.is_some() || self.model.is_some()
    }

    pub(super) fn takes(&self, entry: &LogEntry) -> bool {
        let of_model = |part: &String| entry.model.as_ref().is_some_and(|model| model.contains(part.as_str()));
        self.task.as_ref().is_none_or(|task| entry.task.as_ref() == Some(task))
            && self.node.as_ref().is_none_or(|node| entry.node.as_ref() == Some(node))
            && self.model.as_ref().is_none_or(of_model)
            && (entry.failed || !self.failed)
            && self.since.is_none_or(|since| entry.at >= since)
            && self.until.is_none_or(|until| entry.at <= until)
    }
}
