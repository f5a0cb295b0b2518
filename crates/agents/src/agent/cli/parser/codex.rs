//! The stream of `codex exec --json`.
//!
//! It marks no model calls: what it calls a turn is the whole prompt. So one run is one call here. Its usage counts the
//! earlier runs of a conversation in, and cached input within the input.

use serde_json::{Value, json};

use super::event::{AgentFailure, AgentFailureKind, Claim, StreamEvent, StreamedCall, Total};
use super::open_call::{OpenCall, StreamParser, number, text};
use crate::llm::Part;
use pleach_core::event::Usage;

#[derive(Debug)]
pub(super) struct Codex {
    earlier: Usage,
    open: OpenCall,
    /// What was said and done before what is open.
    before: Vec<StreamEvent>,
    /// The model's newest words.
    words: String,
}

impl Codex {
    pub(super) fn new(earlier: Usage) -> Self {
        Self { earlier, open: OpenCall::default(), before: Vec::new(), words: String::new() }
    }

    /// Words after the answers of tools are another message.
    fn begin_words(&mut self) {
        if !self.open.results.is_empty() {
            self.open.close(&mut self.before);
        }
    }

    /// Everything as one call, in the order it came.
    fn close(&mut self, events: &mut Vec<StreamEvent>) {
        self.open.close(&mut self.before);
        let mut whole = StreamedCall::default();
        for part in self.before.drain(..) {
            if let StreamEvent::Call(part) = part {
                whole.messages.extend(part.messages);
                whole.tools.extend(part.tools);
            }
        }
        if !whole.messages.is_empty() {
            events.push(StreamEvent::Call(Box::new(whole)));
        }
    }

    fn item(&mut self, item: &Value, events: &mut Vec<StreamEvent>) {
        let id = text(item, "id");
        match text(item, "type") {
            "agent_message" => {
                self.begin_words();
                text(item, "text").clone_into(&mut self.words);
                self.open.parts.push(Part::text(text(item, "text")));
            }
            "reasoning" => self.open.parts.push(Part::Thinking {
                text: text(item, "text").to_owned(),
                signature: None,
                extra: Default::default(),
            }),
            "command_execution" => {
                self.open.ask(id, "shell", json!({"command": text(item, "command")}));
                let failed = item.get("exit_code").and_then(Value::as_i64).is_some_and(|code| code != 0);
                self.open.answer(id, text(item, "aggregated_output"), failed || is_bad(text(item, "status")));
            }
            "file_change" => {
                self.open.ask(id, "apply_patch", json!({"changes": item["changes"]}));
                self.open.answer(id, "", is_bad(text(item, "status")));
            }
            // It tells of an unknown model this way, which is no failure.
            "error" => events.push(StreamEvent::Complaint(text(item, "message").to_owned())),
            kind @ ("mcp_tool_call" | "web_search") => {
                let name = Some(text(item, "tool")).filter(|name| !name.is_empty()).unwrap_or(kind);
                self.open.ask(
                    id,
                    name,
                    item.get("arguments").cloned().unwrap_or_else(|| json!({"query": item["query"]})),
                );
                self.open.answer(id, "", is_bad(text(item, "status")));
            }
            _ => {}
        }
    }
}

fn is_bad(status: &str) -> bool {
    matches!(status, "failed" | "declined")
}

impl StreamParser for Codex {
    fn event(&mut self, event: &Value, events: &mut Vec<StreamEvent>) {
        match text(event, "type") {
            "thread.started" => events.push(StreamEvent::Session(text(event, "thread_id").to_owned())),
            "item.completed" => self.item(&event["item"], events),
            "error" => events.push(StreamEvent::Complaint(message(text(event, "message")))),
            "turn.completed" => {
                let all = usage(&event["usage"]);
                self.close(events);
                let total = Total { usage: all - self.earlier, with_earlier: Some(all), cost_usd: None };
                events.push(StreamEvent::Total(total));
                events.push(StreamEvent::Result(Claim { text: std::mem::take(&mut self.words), failure: None }));
            }
            "turn.failed" => {
                self.close(events);
                let failure = AgentFailure::of(message(text(&event["error"], "message")), None);
                let failure = if text(&event["error"], "message").contains("invalid_request_error") {
                    AgentFailure { kind: AgentFailureKind::Terminal, ..failure }
                } else {
                    failure
                };
                events.push(StreamEvent::Result(Claim { text: String::new(), failure: Some(failure) }));
            }
            _ => {}
        }
    }

    fn end(&mut self, events: &mut Vec<StreamEvent>) {
        self.close(events);
    }
}

/// A message that is the server's own JSON, in words.
fn message(text: &str) -> String {
    let read = serde_json::from_str::<Value>(text).ok();
    let inner = read.as_ref().and_then(|value| value.pointer("/error/message")).and_then(Value::as_str);
    inner.unwrap_or(text).to_owned()
}

fn usage(value: &Value) -> Usage {
    let (cache_read, cache_write) = (number(value, "cached_input_tokens"), number(value, "cache_write_input_tokens"));
    Usage {
        input: number(value, "input_tokens").saturating_sub(cache_read).saturating_sub(cache_write),
        cache_read,
        cache_write,
        output: number(value, "output_tokens"),
        reasoning: number(value, "reasoning_output_tokens"),
        ..Usage::default()
    }
}
