//! Events about spending.

use serde::{Deserialize, Serialize};

use super::Extra;
use crate::ids::NodeId;

/// See [`super::Event::BudgetExceeded`]. Recorded once for each limit and its value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BudgetExceeded {
    /// The key that sets the limit.
    pub limit: String,
    /// What it limits: `day`, `run`, `task`, `pipeline` or `node`.
    pub scope: String,
    /// The node, of a limit of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// What was spent: tokens or dollars, as the limit counts.
    pub spent: f64,
    /// What may be spent.
    pub of: f64,
    /// What follows: `stop`, `pause` or `warn`.
    pub action: String,
    /// All of it in words.
    pub text: String,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}

/// See [`super::Event::PriceUnknown`]. Recorded once for each model, when there is a limit in dollars.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PriceUnknown {
    /// The model.
    pub model: String,
    /// What that means, in words.
    pub text: String,
    /// Fields of a newer writer.
    #[serde(flatten)]
    pub extra: Extra,
}
