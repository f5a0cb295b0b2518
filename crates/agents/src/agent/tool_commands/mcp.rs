//! What a server of the Model Context Protocol answers, as far as tools need it: `initialize`, `ping`, `tools/list` and
//! `tools/call`.

use serde_json::{Value, json};

use super::tool_command::ToolCommand;
use crate::agent::rpc::{self, INVALID_PARAMS, RpcMessage};

/// The versions of the protocol it speaks, the newest first. What it uses of them is the same in all.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// What is to be done about a line of the client.
#[derive(Debug, PartialEq)]
pub(super) enum ServerAction {
    /// Nothing.
    Ignore,
    /// Answer this.
    Answer(Vec<u8>),
    /// Run a tool, and answer with what it says.
    Call {
        /// The request's id.
        id: Value,
        /// The tool.
        tool: ToolCommand,
    },
    /// Nobody waits for the answer to this request any more.
    Cancel(Value),
}

/// What a line of the client asks for.
pub(super) fn receive(tools: &[ToolCommand], line: &str) -> ServerAction {
    match rpc::parse(line) {
        RpcMessage::Request { id, method, params } => request(tools, id, &method, &params),
        RpcMessage::Notification { method, params } if method == "notifications/cancelled" => {
            ServerAction::Cancel(params["requestId"].clone())
        }
        RpcMessage::Notification { .. } | RpcMessage::Response { .. } => ServerAction::Ignore,
        RpcMessage::Noise if line.trim().is_empty() => ServerAction::Ignore,
        RpcMessage::Noise => ServerAction::Answer(rpc::unreadable()),
    }
}

fn request(tools: &[ToolCommand], id: Value, method: &str, params: &Value) -> ServerAction {
    ServerAction::Answer(match method {
        "initialize" => {
            let asked = params["protocolVersion"].as_str();
            let version = VERSIONS.into_iter().find(|known| Some(*known) == asked).unwrap_or(VERSIONS[0]);
            let own = json!({"name": "pleach", "title": "pleach", "version": env!("CARGO_PKG_VERSION")});
            rpc::answer(&id, json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": own}))
        }
        "ping" => rpc::answer(&id, json!({})),
        "tools/list" => rpc::answer(&id, json!({"tools": tools.iter().map(describe).collect::<Vec<_>>()})),
        "tools/call" => {
            let name = params["name"].as_str().unwrap_or_default();
            match tools.iter().find(|tool| tool.wire_name() == name || tool.name == name) {
                Some(tool) => return ServerAction::Call { id, tool: tool.clone() },
                None => rpc::refusal(&id, INVALID_PARAMS, &format!("Unknown tool: {name}")),
            }
        }
        other => rpc::not_offered(&id, other),
    })
}

fn describe(tool: &ToolCommand) -> Value {
    let nothing = json!({"type": "object", "properties": {}, "additionalProperties": false});
    json!({"name": tool.wire_name(), "description": tool.description(), "inputSchema": nothing})
}

/// The answer to a call: what the tool said, and whether it failed.
pub(super) fn called(id: &Value, text: &str, is_error: bool) -> Vec<u8> {
    rpc::answer(id, json!({"content": [{"type": "text", "text": text}], "isError": is_error}))
}
