//! Streams of Anthropic's Messages.

use serde_json::{Value, json};

use crate::llm::wire::json::{JsonObject, WireError, count, object, shape, take_text};
use crate::llm::wire::sse;

/// A streamed answer being put together.
#[derive(Debug, Clone, Default)]
pub(in crate::llm::wire) struct AnthropicStream {
    message: JsonObject,
    blocks: Vec<Block>,
    stopped: bool,
}

#[derive(Debug, Clone, Default)]
struct Block {
    fields: JsonObject,
    /// The pieces of a tool's input, which is JSON only when all are there.
    input: String,
}

impl AnthropicStream {
    pub(in crate::llm::wire) fn push(&mut self, mut event: Value) -> Result<(), WireError> {
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        let index = count(&event, &["index"]) as usize;
        match kind.as_str() {
            "message_start" => self.message = object(event["message"].take(), "the start of the answer")?,
            "content_block_start" => {
                let fields = object(event["content_block"].take(), "a block")?;
                if index != self.blocks.len() {
                    return Err(shape(format!("block {index} comes after {} blocks", self.blocks.len())));
                }
                self.blocks.push(Block { fields, input: String::new() });
            }
            "content_block_delta" => {
                let delta = object(event["delta"].take(), "a piece of a block")?;
                let block = self.blocks.get_mut(index);
                block.ok_or_else(|| shape(format!("a piece of block {index}, which did not begin")))?.add(delta);
            }
            "message_delta" => {
                self.message.extend(object(event["delta"].take(), "the end of the answer")?);
                self.add_usage(event["usage"].take());
            }
            "message_stop" => self.stopped = true,
            // Pings, ends of blocks, and what comes after this version.
            _ => {}
        }
        Ok(())
    }

    /// Counts at the end are totals; what is not counted again stays.
    fn add_usage(&mut self, usage: Value) {
        let Value::Object(usage) = usage else { return };
        let said = usage.into_iter().filter(|(_, value)| !value.is_null());
        match self.message.get_mut("usage").and_then(Value::as_object_mut) {
            Some(all) => all.extend(said),
            None => drop(self.message.insert("usage".into(), said.collect::<JsonObject>().into())),
        }
    }

    pub(in crate::llm::wire) fn has_begun(&self) -> bool {
        !self.blocks.is_empty()
    }

    pub(in crate::llm::wire) fn is_done(&self) -> bool {
        self.stopped || self.message.get("stop_reason").is_some_and(Value::is_string)
    }

    pub(in crate::llm::wire) fn finish(mut self) -> Value {
        let blocks = self.blocks.into_iter().map(Block::finish).collect::<Vec<_>>();
        self.message.insert("content".into(), blocks.into());
        self.message.into()
    }
}

impl Block {
    fn add(&mut self, mut delta: JsonObject) {
        let kind = take_text(&mut delta, "type").unwrap_or_default();
        let field = match kind.as_str() {
            "text_delta" => "text",
            "thinking_delta" => "thinking",
            "signature_delta" => "signature",
            "input_json_delta" => {
                self.input.push_str(&take_text(&mut delta, "partial_json").unwrap_or_default());
                return;
            }
            "citations_delta" => {
                let citation = delta.shift_remove("citation").unwrap_or_default();
                if let Value::Array(all) = self.fields.entry("citations").or_insert_with(|| json!([])) {
                    all.push(citation);
                }
                return;
            }
            _ => return,
        };
        let piece = take_text(&mut delta, field).unwrap_or_default();
        match self.fields.get_mut(field) {
            Some(Value::String(text)) => text.push_str(&piece),
            _ => drop(self.fields.insert(field.into(), piece.into())),
        }
    }

    fn finish(mut self) -> Value {
        if !self.input.is_empty() {
            // An input that was cut off is no JSON: the tool is then told what came of it.
            let input = serde_json::from_str(&self.input).unwrap_or(Value::String(self.input));
            self.fields.insert("input".into(), input);
        }
        self.fields.into()
    }
}

pub(in crate::llm::wire) fn stream_reply(body: &Value) -> Vec<sse::SseEvent> {
    let mut events = Vec::new();
    let mut send = |event: Value| {
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        events.push(sse::SseEvent::new(kind, event.to_string()));
    };
    let mut start = body.clone();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    if let Some(tokens) = start.get_mut("usage").and_then(|usage| usage.get_mut("output_tokens")) {
        *tokens = 1.into();
    }
    send(json!({"type": "message_start", "message": start}));
    for (index, block) in body["content"].as_array().into_iter().flatten().enumerate() {
        let mut begun = block.clone();
        let delta = match block["type"].as_str() {
            Some("text") => {
                begun["text"] = "".into();
                Some(json!({"type": "text_delta", "text": block["text"]}))
            }
            Some("thinking") => {
                begun["thinking"] = "".into();
                Some(json!({"type": "thinking_delta", "thinking": block["thinking"]}))
            }
            Some("tool_use") => {
                begun["input"] = json!({});
                Some(json!({"type": "input_json_delta", "partial_json": block["input"].to_string()}))
            }
            _ => None,
        };
        send(json!({"type": "content_block_start", "index": index, "content_block": begun}));
        if let Some(delta) = delta {
            send(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        send(json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": body["stop_reason"]});
    send(json!({"type": "message_delta", "delta": delta, "usage": body["usage"]}));
    send(json!({"type": "message_stop"}));
    events
}
