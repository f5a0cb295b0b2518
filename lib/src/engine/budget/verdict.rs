//! What a budget says of a session's spending.

use serde::{Deserialize, Serialize};

use crate::budget::Amount;

/// What the sessions of a tree's run have spent before this one.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::engine) struct Earlier {
    /// All of them.
    pub run: Amount,
    /// Those on the same task.
    pub task: Amount,
}

/// What the loop tells a worker after a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetVerdict {
    /// Go on.
    Go,
    /// End here: the run was interrupted, or its branch is somebody else's now.
    Halt,
    /// End here: nothing is left to spend. The node fails for this reason, and the run with it.
    Stop(String),
    /// End here: nothing is left to spend. The run pauses in the node.
    Pause,
}
