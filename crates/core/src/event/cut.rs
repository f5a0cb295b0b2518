//! Points in the history of a run, and what goes on from them: a return, or a replay.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Snapshot;
use crate::ids::{CommitId, ContextId, NodeId, TurnId};

/// A place in a chain of records: so many events of a record count, and all of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CutPoint {
    /// The record.
    pub record: CommitId,
    /// How many of its events count.
    pub events: usize,
}

/// A point in time of a run: where each of its contexts stands. Those that are missing do not exist yet.
pub type HistoryCut = BTreeMap<ContextId, CutPoint>;

/// How the agent that was in the middle of its node goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewindVia {
    /// Its program runs again, and its model's answers are those that were recorded.
    Redrive,
    /// It is told what was done.
    Summary,
}

/// A run goes back to a point of its history. What came after it stays recorded, and is left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Return {
    /// How many returns the run has seen, this one included.
    pub number: u32,
    /// The turn it goes back to.
    pub turn: TurnId,
    /// Where this context goes on.
    pub to: CutPoint,
    /// Where all contexts of the run go on: those that a crash has kept from saying so say it when they are opened next.
    pub cut: HistoryCut,
    /// How an agent goes on that was in the middle of its node, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<RewindVia>,
    /// The commits that bring back the code of that turn.
    pub work: Snapshot,
}

/// What a replay does otherwise than the run it is forked from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplayChanges {
    /// The model of agents, for nodes that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The agent, for nodes that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What its first agent is told beside its prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_append: Option<String>,
    /// Other values of inputs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// Another pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<ReplayPipeline>,
}

impl ReplayChanges {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The pipeline of a replay, as [`super::PipelineStarted`] has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayPipeline {
    /// The DOT file, byte for byte.
    pub dot: String,
    /// Where it was read from, for messages only.
    pub dot_path: String,
    /// Files it names, by the name it uses.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// A point of a run that another run goes on from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replayed {
    /// The turn it goes on after, unless it is a checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// Where this context goes on.
    pub to: CutPoint,
    /// Where all contexts of the run go on; the open ones among them are forked as well.
    pub cut: HistoryCut,
    /// The node it begins with on the code of that point, instead of where the run was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begins: Option<NodeId>,
    /// How an agent goes on that was in the middle of its node, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<RewindVia>,
    /// What it does otherwise.
    #[serde(default, skip_serializing_if = "ReplayChanges::is_empty")]
    pub changes: ReplayChanges,
}
