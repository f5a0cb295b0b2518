//! JSON-RPC 2.0 as the protocols of agents and their tools use it: one message per line, questions in both directions.

use serde::Deserialize;
use serde_json::{Value, json};

/// The error code of an unknown method.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;

/// The error code of a request that makes no sense.
pub(super) const INVALID_PARAMS: i64 = -32602;

/// The error code of a line that is no message.
const PARSE_ERROR: i64 = -32700;

/// The error code of something that went wrong inside.
pub(super) const INTERNAL: i64 = -32603;

/// The protocol's error code for an agent without a login.
pub(super) const AUTH_REQUIRED: i64 = -32000;

/// What a line of the other side says.
#[derive(Debug, PartialEq)]
pub(super) enum RpcMessage {
    /// It asks for something.
    Request {
        /// To be given back with the answer.
        id: Value,
        /// What it asks for.
        method: String,
        /// The details.
        params: Value,
    },
    /// It tells something.
    Notification {
        /// What it tells.
        method: String,
        /// The details.
        params: Value,
    },
    /// It answers.
    Response {
        /// The request's id.
        id: Value,
        /// The answer, or why there is none.
        result: Result<Value, RpcError>,
    },
    /// No message at all: a log line that strayed onto standard output.
    Noise,
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct RpcError {
    /// The kind of error.
    #[serde(default)]
    pub code: i64,
    /// What went wrong.
    #[serde(default)]
    pub message: String,
    /// More about it, in any form.
    #[serde(default)]
    pub data: Value,
}

impl std::fmt::Display for RpcError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)?;
        match &self.data {
            Value::Null => Ok(()),
            Value::String(text) => write!(f, ": {text}"),
            // Most agents put what really happened here.
            data => match data.get("details").or(data.get("message")).and_then(Value::as_str) {
                Some(text) => write!(f, ": {text}"),
                None => write!(f, ": {data}"),
            },
        }
    }
}

#[derive(Deserialize)]
struct RpcLine {
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    error: Option<RpcError>,
}

/// Reads a line.
pub(super) fn parse(line: &str) -> RpcMessage {
    match serde_json::from_str::<RpcLine>(line) {
        Ok(RpcLine { id: Some(id), method: Some(method), params, .. }) => RpcMessage::Request { id, method, params },
        Ok(RpcLine { id: None, method: Some(method), params, .. }) => RpcMessage::Notification { method, params },
        Ok(RpcLine { id: Some(id), method: None, result, error, .. }) => {
            RpcMessage::Response { id, result: error.map_or(Ok(result), Err) }
        }
        Ok(RpcLine { id: None, method: None, .. }) | Err(_) => RpcMessage::Noise,
    }
}

/// A request.
pub(super) fn request(id: u64, method: &str, params: Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

/// A notification.
pub(super) fn notification(method: &str, params: Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
}

/// The answer to a request.
pub(super) fn answer(id: &Value, result: Value) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// The answer to a request for something this client does not offer.
pub(super) fn not_offered(id: &Value, method: &str) -> Vec<u8> {
    refusal(id, METHOD_NOT_FOUND, &format!("pleach does not offer `{method}`"))
}

/// The answer to a request that cannot be met.
pub(super) fn refusal(id: &Value, code: i64, message: &str) -> Vec<u8> {
    line(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
}

/// The answer to what is no message.
pub(super) fn unreadable() -> Vec<u8> {
    refusal(&Value::Null, PARSE_ERROR, "this is no message of JSON-RPC 2.0")
}

fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_message_is_told_apart() {
        let request = r#"{"jsonrpc":"2.0","id":"a","method":"m","params":{"x":1},"new":true}"#;
        assert_eq!(parse(request), RpcMessage::Request { id: json!("a"), method: "m".into(), params: json!({"x": 1}) });
        assert_eq!(parse(r#"{"method":"m"}"#), RpcMessage::Notification { method: "m".into(), params: Value::Null });
        assert_eq!(parse(r#"{"id":1,"result":null}"#), RpcMessage::Response { id: json!(1), result: Ok(Value::Null) });
        let failed = r#"{"id":1,"error":{"code":-32603,"message":"Internal error","data":{"details":"no key"}}}"#;
        let RpcMessage::Response { result: Err(error), .. } = parse(failed) else { panic!("an error") };
        assert_eq!(error.to_string(), "Internal error (code -32603): no key");
        for noise in ["", "Loading…", "[1]", "{}", "{\"id\":", "3"] {
            assert_eq!(parse(noise), RpcMessage::Noise, "{noise}");
        }
    }

    #[test]
    fn every_message_is_one_line() {
        let said = request(7, "session/prompt", json!({"text": "a\nb"}));
        assert_eq!(said.iter().filter(|byte| **byte == b'\n').count(), 1);
        let text = String::from_utf8(said).unwrap();
        assert_eq!(
            parse(&text),
            RpcMessage::Request { id: json!(7), method: "session/prompt".into(), params: json!({"text": "a\nb"}) }
        );
        let refused = String::from_utf8(not_offered(&json!(3), "fs/read_text_file")).unwrap();
        let RpcMessage::Response { result: Err(error), .. } = parse(&refused) else { panic!("an error") };
        assert_eq!(error.code, METHOD_NOT_FOUND);
    }
}
