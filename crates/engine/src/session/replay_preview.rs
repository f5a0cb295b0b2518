//! What replays would do, without one being begun.

use serde::Serialize;

use super::point::{DoneLater, RunPoint};
use super::replay::ReplayOptions;
use pleach_core::event::ReplayChanges;
use pleach_core::ids::{NodeId, RunId, TurnId};

/// What one replay of a point would do, or several.
#[derive(Debug, Serialize)]
pub struct ReplayPreview<'a> {
    /// The run.
    pub from: &'a RunId,
    /// The turn they go on after, unless it is another point.
    pub from_turn: Option<&'a TurnId>,
    /// The node they go on at.
    pub node: Option<&'a NodeId>,
    /// What the original did from there on.
    pub later: &'a [DoneLater],
    /// Its tokens for that.
    pub tokens: u64,
    /// What that has cost, as far as it is known.
    pub cost_usd: f64,
    /// What the first of them does otherwise.
    pub changes: Option<&'a ReplayChanges>,
    /// What each of them does otherwise.
    pub runs: Vec<&'a ReplayChanges>,
}

impl<'a> ReplayPreview<'a> {
    /// That of replays with these options.
    pub fn of(point: &'a RunPoint, planned: &'a [ReplayOptions]) -> Self {
        let first = planned.first();
        Self {
            from: &point.run,
            from_turn: point.turn.as_ref(),
            node: first.and_then(|options| options.begins.as_ref()).or(point.next_node()),
            later: &point.later,
            tokens: point.later.iter().map(|node| node.tokens).sum(),
            cost_usd: point.later.iter().map(|node| node.cost_usd).sum(),
            changes: first.map(|options| &options.changes),
            runs: planned.iter().map(|options| &options.changes).collect(),
        }
    }
}
