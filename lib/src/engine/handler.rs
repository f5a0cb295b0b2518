//! Handlers the embedding program registers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::agent::BoxFuture;
use crate::event::Outcome;
use crate::plan::pipeline::{Node, Pipeline};
use crate::process::Cancel;

/// What a handler of the embedding program is given.
#[derive(Debug, Clone)]
pub struct HandlerContext {
    /// The node, with all its attributes.
    pub node: Node,
    /// The pipeline.
    pub pipeline: Arc<Pipeline>,
    /// How often the run has come to the node.
    pub visit: u32,
    /// The attempt within the visit.
    pub attempt: u32,
    /// What the nodes have told each other.
    pub context: BTreeMap<String, Value>,
    /// The worktree.
    pub cwd: PathBuf,
    /// Stops the handler.
    pub cancel: Cancel,
}

/// A handler registered by the embedding program.
pub trait Handler: Send + Sync {
    /// Runs the node. What it changes in the worktree is committed as the node's turn; a panic is a failure.
    fn run(&self, context: HandlerContext) -> BoxFuture<'_, Outcome>;
}

impl fmt::Debug for dyn Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}
