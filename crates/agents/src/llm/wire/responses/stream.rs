//! Streams of the Responses API.

use serde_json::{Value, json};

use crate::llm::wire::json::{ERROR_WORDS, JsonObject, WireError, object, reported_error};
use crate::llm::wire::sse;

/// A streamed answer being put together. The last event holds it whole; items come before it one by one.
#[derive(Debug, Clone, Default)]
pub(in crate::llm::wire) struct ResponsesStream {
    items: Vec<Value>,
    /// The item that has begun and not ended.
    open: Option<Value>,
    body: Option<JsonObject>,
    begun: bool,
}

/// Events about the answer as a whole, which come before any part of it.
const BEFORE: [&str; 3] = ["response.created", "response.queued", "response.in_progress"];

impl ResponsesStream {
    pub(in crate::llm::wire) fn push(&mut self, mut event: Value) -> Result<(), WireError> {
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.begun |= kind.starts_with("response.") && kind != "response.failed" && !BEFORE.contains(&kind.as_str());
        match kind.as_str() {
            "response.output_item.added" => self.open = Some(event["item"].take()),
            "response.output_text.delta" => self.add("output_text", event["delta"].as_str()),
            "response.function_call_arguments.delta" => {
                if let (Some(open), Some(piece)) = (&mut self.open, event["delta"].as_str()) {
                    let begun = open["arguments"].as_str().unwrap_or_default();
                    open["arguments"] = format!("{begun}{piece}").into();
                }
            }
            "response.output_item.done" => {
                self.open = None;
                self.items.push(event["item"].take());
            }
            "response.completed" | "response.incomplete" => {
                self.body = Some(object(event["response"].take(), "the answer")?);
            }
            "response.failed" => {
                let error = reported_error(&event["response"], ERROR_WORDS);
                let (kind, message) = error.unwrap_or_else(|| ("error".into(), "the provider failed".into()));
                return Err(WireError::Reported { kind, message });
            }
            "error" => {
                let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or("error").to_owned();
                return Err(WireError::Reported { kind: text("code"), message: text("message") });
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds words to the item that has begun.
    fn add(&mut self, kind: &str, piece: Option<&str>) {
        let (Some(open), Some(piece)) = (&mut self.open, piece) else { return };
        let begun = open["content"][0]["text"].as_str().unwrap_or_default();
        open["content"] = json!([{"type": kind, "text": format!("{begun}{piece}")}]);
    }

    pub(in crate::llm::wire) fn has_begun(&self) -> bool {
        self.begun
    }

    pub(in crate::llm::wire) fn is_done(&self) -> bool {
        self.body.is_some()
    }

    pub(in crate::llm::wire) fn finish(self) -> Value {
        let mut items = self.items;
        if self.body.is_none() {
            items.extend(self.open);
        }
        let mut body = self.body.unwrap_or_default();
        // Some servers leave the items out of the end, having sent them before.
        if body.get("output").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            body.insert("output".into(), items.into());
        }
        body.into()
    }
}

pub(in crate::llm::wire) fn stream_reply(body: &Value) -> Vec<sse::SseEvent> {
    let mut events = Vec::new();
    let mut send = |mut event: Value| {
        event["sequence_number"] = events.len().into();
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        events.push(sse::SseEvent::new(kind, event.to_string()));
    };
    let mut begun = body.clone();
    begun["status"] = "in_progress".into();
    begun["output"] = json!([]);
    begun["usage"] = Value::Null;
    send(json!({"type": "response.created", "response": begun}));
    for (index, item) in body["output"].as_array().into_iter().flatten().enumerate() {
        let at = |kind: &str| json!({"type": kind, "output_index": index, "item_id": item["id"]});
        let mut begun = item.clone();
        if begun.get("content").is_some_and(Value::is_array) {
            begun["content"] = json!([]);
        }
        if begun.get("arguments").is_some() {
            begun["arguments"] = "".into();
        }
        send(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
        for (nth, block) in item["content"].as_array().into_iter().flatten().enumerate() {
            if let Some(text) = block["text"].as_str() {
                let mut delta = at("response.output_text.delta");
                delta["content_index"] = nth.into();
                delta["delta"] = text.into();
                send(delta);
            }
        }
        if let Some(arguments) = item.get("arguments") {
            let mut delta = at("response.function_call_arguments.delta");
            delta["delta"] = arguments.clone();
            send(delta);
        }
        send(json!({"type": "response.output_item.done", "output_index": index, "item": item}));
    }
    let end = if body["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
    send(json!({"type": end, "response": body}));
    events
}
