//! pleach's own lines, for programs that are written or wrapped to be its agents (`docs/agents-reference.md`).
//!
//! ```text
//! {"type": "session", "id": "…"}
//! {"type": "turn", "text": "…", "model": "…", "tools": [{"name": "…", "arguments": {…}, "output": "…", "is_error": false}],
//!  "usage": {"input": 1, "cache_read": 0, "cache_write": 0, "output": 1, "reasoning": 0}, "cost_usd": 0.1}
//! {"type": "denied", "tool": "…"}
//! {"type": "error", "message": "…"}
//! {"type": "result", "status": "success|error|limit", "text": "…", "retry": true}
//! ```

use serde_json::Value;

use super::event::{AgentFailure, AgentFailureKind, Claim, StreamEvent};
use super::open_call::{OpenCall, StreamParser, content, number, text};
use pleach_core::event::Usage;

#[derive(Debug, Default)]
pub(super) struct Jsonl {
    calls: u64,
}

impl Jsonl {
    fn turn(&mut self, event: &Value, events: &mut Vec<StreamEvent>) {
        let mut open = OpenCall { model: Some(text(event, "model").to_owned()), ..OpenCall::default() };
        open.model = open.model.filter(|model| !model.is_empty());
        open.usage = usage(&event["usage"]);
        open.cost_usd = event.get("cost_usd").and_then(Value::as_f64);
        open.say(text(event, "text"));
        for tool in event["tools"].as_array().into_iter().flatten() {
            self.calls += 1;
            let id = format!("call-{}", self.calls);
            open.ask(&id, text(tool, "name"), tool["arguments"].clone());
            let failed = tool.get("is_error").and_then(Value::as_bool).unwrap_or(false);
            open.answer(&id, content(tool.get("output")), failed);
        }
        open.close(events);
        events.push(StreamEvent::TurnOver);
    }
}

impl StreamParser for Jsonl {
    fn event(&mut self, event: &Value, events: &mut Vec<StreamEvent>) {
        match text(event, "type") {
            "session" => events.push(StreamEvent::Session(text(event, "id").to_owned())),
            "turn" => self.turn(event, events),
            "denied" => events.push(StreamEvent::Denied(text(event, "tool").to_owned())),
            "error" => events.push(StreamEvent::Complaint(text(event, "message").to_owned())),
            "result" => {
                let said = text(event, "text").to_owned();
                let again = event.get("retry").and_then(Value::as_bool).unwrap_or(false);
                let kind = match text(event, "status") {
                    "success" => None,
                    "limit" => Some(AgentFailureKind::Limit),
                    _ if again => Some(AgentFailureKind::Transient),
                    _ => Some(AgentFailureKind::Terminal),
                };
                let failure = kind.map(|kind| AgentFailure { why: complaint(text(event, "status"), &said), kind });
                events.push(StreamEvent::Result(Claim { text: said, failure }));
            }
            _ => {}
        }
    }

    fn end(&mut self, _: &mut Vec<StreamEvent>) {}
}

/// Why a program says that it has failed. An unknown status is not a success.
fn complaint(status: &str, said: &str) -> String {
    match status {
        "error" | "limit" => said.to_owned(),
        other if said.is_empty() => format!("unknown outcome `{other}`; use success, error or limit"),
        other => format!("unknown outcome `{other}`: {said}; use success, error or limit"),
    }
}

fn usage(value: &Value) -> Usage {
    Usage {
        input: number(value, "input"),
        cache_read: number(value, "cache_read"),
        cache_write: number(value, "cache_write"),
        output: number(value, "output"),
        reasoning: number(value, "reasoning"),
        ..Usage::default()
    }
}
