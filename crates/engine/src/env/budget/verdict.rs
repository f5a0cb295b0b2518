//! The verdict of a budget on a session's spending.

use serde::{Deserialize, Serialize};

/// The loop's answer to a worker after a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetVerdict {
    /// Continue.
    Go,
    /// Stop: the run was interrupted, or another process moved its branch.
    Halt,
    /// Stop: the budget is exhausted. The node fails for this reason, and so does the run.
    Stop(String),
    /// Stop: the budget is exhausted. The run pauses in the node.
    Pause,
}
