//! The parts of the Agent Client Protocol that are used. Fields this client does not know are passed over, and so is a
//! known one of another shape where it can be done without.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The version of the protocol spoken here.
pub(super) const VERSION: u64 = 1;

/// The value, or none where it has another shape.
fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// The answer to `initialize`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Initialized {
    pub protocol_version: u64,
    #[serde(default, deserialize_with = "lenient")]
    pub agent_capabilities: Capabilities,
    #[serde(default, deserialize_with = "lenient")]
    pub auth_methods: Vec<AuthMethod>,
    #[serde(default, deserialize_with = "lenient")]
    pub agent_info: AgentInfo,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Capabilities {
    #[serde(default, deserialize_with = "lenient")]
    pub load_session: bool,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct AgentInfo {
    #[serde(default, deserialize_with = "lenient")]
    pub name: String,
}

/// A way to log in.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct AuthMethod {
    pub id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub name: String,
}

/// The answer to `session/new` and `session/load`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OpenedSession {
    #[serde(default, deserialize_with = "lenient")]
    pub session_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub models: Models,
    #[serde(default, deserialize_with = "lenient")]
    pub modes: Modes,
    #[serde(default, deserialize_with = "lenient")]
    pub config_options: Vec<ConfigOption>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Models {
    #[serde(default, deserialize_with = "lenient")]
    pub available_models: Vec<Model>,
    #[serde(default, deserialize_with = "lenient")]
    pub current_model_id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Model {
    pub model_id: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Modes {
    #[serde(default, deserialize_with = "lenient")]
    pub available_modes: Vec<Mode>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Mode {
    pub id: String,
}

/// A choice the agent offers for the session; the model is one in newer agents.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConfigOption {
    pub id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub category: String,
    #[serde(default, deserialize_with = "lenient")]
    pub current_value: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub options: Vec<ConfigValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ConfigValue {
    pub value: String,
}

/// The details of `session/update`.
#[derive(Debug, Deserialize)]
pub(super) struct SessionUpdate {
    pub update: Update,
}

/// What an agent tells while it works.
#[derive(Debug, Deserialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub(super) enum Update {
    AgentMessageChunk(Chunk),
    AgentThoughtChunk(Chunk),
    #[serde(alias = "tool_call_update")]
    ToolCall(ToolUpdate),
    #[serde(rename = "usage_update")]
    Usage(UsageUpdate),
    #[serde(other)]
    Other,
}

/// A piece of a message.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk {
    pub content: ContentBlock,
    #[serde(default, deserialize_with = "lenient")]
    pub message_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ContentBlock {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, deserialize_with = "lenient")]
    text: Option<String>,
}

impl ContentBlock {
    /// Its words; of anything else only that it was there.
    pub fn into_text(self) -> String {
        self.text.unwrap_or_else(|| format!("[{}]", self.kind))
    }
}

/// What is known of a tool call. Every field but the id may come later.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolUpdate {
    pub tool_call_id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub name: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub title: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub kind: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub status: Option<ToolStatus>,
    #[serde(default)]
    pub raw_input: Value,
    #[serde(default)]
    pub raw_output: Value,
    #[serde(default, deserialize_with = "lenient")]
    pub content: Option<Vec<Value>>,
    #[serde(default, deserialize_with = "lenient")]
    pub locations: Option<Vec<Location>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToolStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Location {
    pub path: PathBuf,
}

/// How full the model's context is, and what the session has cost so far.
#[derive(Debug, Deserialize)]
pub(super) struct UsageUpdate {
    #[serde(default, deserialize_with = "lenient")]
    pub used: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    pub cost: Option<Cost>,
    #[serde(default, rename = "_meta")]
    pub meta: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct Cost {
    pub amount: f64,
    pub currency: String,
}

/// The details of `session/request_permission`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Permission {
    pub tool_call: ToolUpdate,
    #[serde(default, deserialize_with = "lenient")]
    pub options: Vec<PermissionOption>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionOption {
    pub option_id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub kind: String,
}

/// The answer to `session/prompt`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Prompted {
    pub stop_reason: String,
    #[serde(default)]
    pub usage: Value,
    #[serde(default, rename = "_meta")]
    pub meta: Value,
}
