//! Agents no budget can hold, because nobody is told what they spend.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::budget::BudgetLimits;
use crate::engine::Engine;
use crate::ids::NodeId;
use crate::plan::pipeline::Pipeline;
use crate::text::listed;

/// So many nodes are named.
const NAMED: usize = 5;

/// An agent that works under a limit and does not say what it spends.
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
            "agent `{agent}` does not report what it spends, so the budget cannot limit it at {word} {nodes}; \
             `timeout` and `max_visits` can"
        )
    }
}

impl Engine {
    /// The agents of these pipelines that no budget can hold although there is one.
    pub fn unheld<P: Borrow<Pipeline>>(&self, pipelines: impl IntoIterator<Item = P>) -> Vec<UnmeteredAgent> {
        let mut found: BTreeMap<String, BTreeSet<NodeId>> = BTreeMap::new();
        for pipeline in pipelines {
            let pipeline = pipeline.borrow();
            for node in pipeline.agent_nodes() {
                let budget = self.budget.limits.clone();
                let is_limited = BudgetLimits { budget, pipeline: pipeline.budget, node: node.budget }.is_set();
                let silent = self.agents.of(node).is_ok_and(|agent| !agent.tells_spending());
                let Ok(name) = self.agents.name(node) else { continue };
                if is_limited && silent {
                    found.entry(name).or_default().insert(node.id.clone());
                }
            }
        }
        found.into_iter().map(|(agent, nodes)| UnmeteredAgent { agent, nodes }).collect()
    }
}
