//! Models whose price nobody knows: under a limit in dollars they are not asked, for it could not hold.

use std::borrow::Borrow;

use crate::budget::{Amount, BudgetLimits};
use crate::engine::{Engine, Session};
use crate::event::AgentTurn;
use crate::ids::NodeId;
use crate::llm::{Pricing, price_unknown};
use crate::plan::pipeline::{Node, Pipeline};

/// The provider nobody is billed by.
pub(super) const SCRIPT: &str = "script";

/// A model without a price at a node with a limit in dollars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpriced {
    /// The node.
    pub node: NodeId,
    /// The model.
    pub model: String,
}

impl std::fmt::Display for Unpriced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "node `{}`: {}", self.node, price_unknown(&self.model))
    }
}

impl Engine {
    /// The first node of these pipelines that may spend only so many dollars and asks a model without a price.
    pub fn unpriced<P: Borrow<Pipeline>>(&self, pipelines: impl IntoIterator<Item = P>) -> Option<Unpriced> {
        pipelines.into_iter().find_map(|pipeline| {
            let pipeline = pipeline.borrow();
            let needs_price = |node: &&Node| {
                let budget = self.budget.limits.clone();
                BudgetLimits { budget, pipeline: pipeline.budget, node: node.budget }.needs_prices()
            };
            let mut nodes = self.agent_nodes(pipeline).filter(needs_price);
            nodes.find_map(|node| Some(Unpriced { node: node.id.clone(), model: self.unpriced_model(node)? }))
        })
    }

    /// The model an agent's node would ask although nobody knows its price.
    fn unpriced_model(&self, node: &Node) -> Option<String> {
        let (model, pricing) = self.agents.of(node).ok()?.pricing(node.llm_model.as_deref())?;
        (pricing == Pricing::Unknown).then_some(model)
    }
}

impl Session {
    /// The model a node would ask although nobody knows its price, or that was asked before and still has none: how much
    /// is left of a limit in dollars nobody knows then.
    pub(in crate::engine) fn unpriced(&self, node: &Node) -> Option<String> {
        let agents = &self.engine.agents;
        let asked =
            || self.spendings().flat_map(|spent| &spent.unpriced).find(|model| !agents.knows_price(model)).cloned();
        let model = self.engine.unpriced_model(node).or_else(|| asked().filter(|_| !agents.is_scripted()));
        model.filter(|_| self.engine.is_of_agent(node))
    }
}

/// A model that was asked in a turn and whose price nobody knows.
pub(in crate::engine) fn unpriced_in(turn: &AgentTurn) -> Option<String> {
    if turn.unbilled {
        return None;
    }
    let is_unpriced = |amount: Amount, provider: &str| amount.unpriced > 0 && provider != SCRIPT;
    if is_unpriced(Amount::of_call(turn.token_usage, turn.cost_usd), &turn.provider) {
        return Some(turn.model.clone());
    }
    let unpriced = turn.side_calls.iter().find(|call| is_unpriced(Amount::of_side(call), &call.provider));
    unpriced.map(|call| call.model.clone())
}
