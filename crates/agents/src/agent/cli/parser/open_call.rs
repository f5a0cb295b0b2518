//! What the parsers of all streams share: the trait, and a call while its events come.

use serde_json::Value;

use super::event::{StreamEvent, StreamedCall};
use crate::llm::{Message, Part, Role};
use pleach_core::event::{ToolCall, Usage};

/// Reads the events of one kind of stream.
pub(super) trait StreamParser: Send {
    /// Takes in one event.
    fn event(&mut self, event: &Value, events: &mut Vec<StreamEvent>);

    /// The stream is over. Whatever was open ends here.
    fn end(&mut self, events: &mut Vec<StreamEvent>);
}

/// A call while its events come: parts of the model's message, and the tools with their answers.
#[derive(Debug, Default)]
pub(super) struct OpenCall {
    pub(super) model: Option<String>,
    pub(super) parts: Vec<Part>,
    pub(super) results: Vec<Part>,
    pub(super) usage: Usage,
    pub(super) cost_usd: Option<f64>,
}

impl OpenCall {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.results.is_empty()
    }

    /// Words. A stream may give them in pieces.
    pub(super) fn say(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Text { text: said, .. }) => said.push_str(text),
            _ => self.parts.push(Part::text(text)),
        }
    }

    pub(super) fn ask(&mut self, id: &str, name: &str, arguments: Value) {
        self.parts.push(Part::tool_call(id, name, arguments));
    }

    pub(super) fn answer(&mut self, id: &str, content: impl Into<String>, is_error: bool) {
        self.results.push(Part::tool_result(id, content, is_error));
    }

    /// Whether every tool that was asked for has answered, and one was.
    pub(super) fn is_answered(&self) -> bool {
        let asked = self.parts.iter().filter(|part| matches!(part, Part::ToolCall { .. })).count();
        asked > 0 && self.results.len() >= asked
    }

    /// Ends the call, if there is anything of one.
    pub(super) fn close(&mut self, events: &mut Vec<StreamEvent>) {
        if self.is_empty() {
            return;
        }
        let Self { model, parts, results, usage, cost_usd } = std::mem::take(self);
        let failed = |id: &str| {
            results.iter().any(|part| matches!(part, Part::ToolResult { id: of, is_error: true, .. } if of == id))
        };
        let tools = parts.iter().filter_map(|part| match part {
            Part::ToolCall { id, name, arguments, .. } => Some(ToolCall {
                id: id.clone(),
                name: name.clone(),
                arguments: arguments.clone(),
                is_error: failed(id),
            }),
            _ => None,
        });
        let tools = tools.collect();
        let mut messages = Vec::new();
        if !parts.is_empty() {
            messages.push(Message::new(Role::Assistant, parts));
        }
        if !results.is_empty() {
            messages.push(Message::new(Role::Tool, results));
        }
        events.push(StreamEvent::Call(Box::new(StreamedCall { model, messages, tools, usage, cost_usd })));
    }
}

/// A number of an event.
pub(super) fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// A text of an event.
pub(super) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A value as a tool's answer: words as they are, anything else as JSON.
pub(super) fn content(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) if parts.iter().all(|part| part.get("text").is_some_and(Value::is_string)) => {
            parts.iter().map(|part| text(part, "text")).collect::<Vec<_>>().join("\n")
        }
        Some(other) => other.to_string(),
    }
}
