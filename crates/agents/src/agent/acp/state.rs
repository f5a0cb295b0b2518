//! What a turn records so that a later one can resume its session.

use serde::Deserialize;
use serde_json::{Value, json};

/// The kind of agent, as records have it.
pub(super) const KIND: &str = "acp";

fn users() -> String {
    "user".to_owned()
}

/// A session an agent can resume.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct AcpState {
    /// Its name.
    pub session: String,
    /// What it has cost so far, as far as the agent says.
    #[serde(default)]
    pub cost_usd: f64,
    /// Whose home it is kept in: that of the `user`, or the agent's `own` behind the gateway.
    #[serde(default = "users")]
    pub home: String,
}

impl AcpState {
    /// As records have it.
    pub fn to_json(&self) -> Value {
        json!({"agent": KIND, "session": self.session, "cost_usd": self.cost_usd, "home": self.home})
    }

    /// Reads what an earlier turn left; none when another kind of agent left it.
    pub fn read(state: &Value) -> Option<Self> {
        Self::deserialize(state).ok().filter(|_| state.get("agent").and_then(Value::as_str) == Some(KIND))
    }
}
