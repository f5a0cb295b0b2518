//! Agents that no budget can limit because they do not report what they spend.

use std::collections::BTreeSet;
use std::fmt;

use pleach_core::ids::NodeId;
use pleach_core::text::listed;

/// Number of nodes a message names.
const NAMED: usize = 5;

/// An agent that runs under a limit but does not report what it spends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmeteredAgent {
    /// The agent, as the node or the settings name it.
    pub agent: String,
    /// The nodes it works on.
    pub nodes: BTreeSet<NodeId>,
}

impl fmt::Display for UnmeteredAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { agent, nodes } = self;
        let word = if nodes.len() == 1 { "node" } else { "nodes" };
        let nodes = listed(nodes.iter().map(|node| format!("`{node}`")), NAMED);
        write!(
            f,
            "agent `{agent}` does not report what it spends, so the budget cannot limit it at {word} \
             {nodes}; `timeout` and `max_visits` can"
        )
    }
}
