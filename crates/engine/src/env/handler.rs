//! Handlers registered by the embedding program.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use agents::agent::BoxFuture;
use os::process::Cancel;
use pleach_core::event::Outcome;
use pleach_core::plan::pipeline::{Node, Pipeline};

/// The input of a handler.
#[derive(Debug, Clone)]
pub struct HandlerContext {
    /// The node, with all its attributes.
    pub node: Node,
    /// The pipeline.
    pub pipeline: Arc<Pipeline>,
    /// The number of the visit to the node.
    pub visit: u32,
    /// The attempt within the visit.
    pub attempt: u32,
    /// The context values that nodes have set.
    pub context: BTreeMap<String, Value>,
    /// The worktree.
    pub cwd: PathBuf,
    /// Stops the handler.
    pub cancel: Cancel,
}

/// A handler registered by the embedding program.
pub trait Handler: Send + Sync {
    /// Runs the node. Its changes to the worktree are committed as the node's turn; a panic counts as a failure.
    fn run(&self, context: HandlerContext) -> BoxFuture<'_, Outcome>;
}

impl fmt::Debug for dyn Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}
