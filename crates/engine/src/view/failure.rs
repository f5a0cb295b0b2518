//! Failed attempts and their reasons.

use jiff::Timestamp;
use serde::Serialize;

use pleach_core::event::{Event, Recorded, Route, Status};
use pleach_core::ids::NodeId;

/// An attempt at a node that did not succeed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeFailure {
    /// When it ended.
    pub at: Timestamp,
    /// The node.
    pub node: NodeId,
    /// The node's visit.
    pub visit: u32,
    /// The attempt within the visit.
    pub attempt: u32,
    /// How it ended: `fail`, `retry`, or an outcome without a matching edge.
    pub outcome: Status,
    /// The reason.
    pub reason: String,
    /// The node was retried.
    pub retried: bool,
    /// The run has gone back behind it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
}

impl NodeFailure {
    /// What an event tells of one, if it does.
    pub fn read(recorded: &Recorded) -> Option<Self> {
        let Event::NodeExecution(data) = &recorded.event else { return None };
        let own = matches!(data.outcome.status, Status::Fail | Status::Retry);
        let reason = match &data.route {
            _ if own => data.outcome.failure_reason.clone().or_else(|| data.outcome.notes.clone()),
            // The node itself succeeded, but no edge leads on from it.
            Route::Fail { reason } => Some(reason.clone()),
            _ => return None,
        };
        Some(Self {
            at: recorded.at,
            node: data.node_id.clone(),
            visit: data.visit,
            attempt: data.attempt,
            outcome: data.outcome.status.clone(),
            reason: reason.unwrap_or_else(|| "no reason given".to_owned()),
            retried: data.route == Route::Retry,
            left: false,
        })
    }

    /// `exit 1: boom; retried`
    pub fn in_words(&self) -> String {
        let retried = if self.retried { "; retried" } else { "" };
        format!("{}{retried}", self.reason)
    }
}
