//! How the tasks of a run land through the merge queue.

use std::collections::BTreeMap;

use crate::landing::QueueSettings;
use pleach_core::ids::TaskId;

/// How the tasks of a run land through the queue.
#[derive(Debug, Clone)]
pub struct QueueLanding {
    /// How the queue works.
    pub settings: QueueSettings,
    /// Whether tasks enter it by themselves.
    pub is_enabled: bool,
    /// Whether only tasks that are in it already land through it: the run lands the others itself.
    pub only_queued: bool,
    /// Whether a person has agreed that they land.
    pub approves: bool,
    /// The priorities of tasks that have one.
    pub priorities: BTreeMap<TaskId, i32>,
}
