//! Where is looked.

use jiff::Timestamp;
use pleach_core::ids::TaskId;

use super::SearchPart;
use crate::journal::RunScope;

/// Where is looked; everywhere by default.
#[derive(Debug, Clone, Default)]
pub struct SearchFilter {
    /// Only in this run, or session.
    pub run: Option<RunScope>,
    /// Only in sessions on this task.
    pub task: Option<TaskId>,
    /// Only in records that are not older.
    pub since: Option<Timestamp>,
    /// Only in these parts of messages; all where none is named.
    pub parts: Vec<SearchPart>,
}
