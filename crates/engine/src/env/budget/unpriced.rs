//! Models without a known price. They are not called under a limit in dollars, which could not be enforced.

use agents::llm::price_unknown;
use pleach_core::budget::Amount;
use pleach_core::event::{AgentTurn, PriceUnknown};
use pleach_core::ids::NodeId;

/// The provider that bills nothing.
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

/// What is said of a model without a price.
pub(crate) fn unknown_price(model: &str) -> PriceUnknown {
    let text = format!(
        "the price of `{model}` is unknown, so it counts against no limit in dollars; set \
         `providers.NAME.prices.{model}`"
    );
    PriceUnknown { model: model.to_owned(), text, extra: Default::default() }
}

/// A model that was called in a turn and has no known price.
pub(crate) fn unpriced_in(turn: &AgentTurn) -> Option<String> {
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
