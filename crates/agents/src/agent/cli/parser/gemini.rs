//! The stream of `gemini -o stream-json`.
//!
//! Calls have no id: one ends when all its tools have answered, or when words follow answers. Tokens are only in the
//! result, for the whole run.

use serde_json::Value;

use super::event::{AgentFailure, AgentFailureKind, Claim, StreamEvent, Total};
use super::open_call::{OpenCall, StreamParser, content, number, text};
use pleach_core::event::Usage;

#[derive(Debug, Default)]
pub(super) struct Gemini {
    model: Option<String>,
    open: OpenCall,
    complaint: Option<String>,
}

impl Gemini {
    /// A tool that answered ends the call once something else follows.
    fn before_words(&mut self, events: &mut Vec<StreamEvent>) {
        if !self.open.results.is_empty() {
            self.open.close(events);
        }
        self.open.model.clone_from(&self.model);
    }
}

impl StreamParser for Gemini {
    fn event(&mut self, event: &Value, events: &mut Vec<StreamEvent>) {
        match text(event, "type") {
            "init" => {
                self.model = Some(text(event, "model").to_owned()).filter(|model| !model.is_empty());
                events.push(StreamEvent::Session(text(event, "session_id").to_owned()));
            }
            "message" if text(event, "role") == "assistant" => {
                self.before_words(events);
                self.open.say(text(event, "content"));
            }
            "tool_use" => {
                self.before_words(events);
                self.open.ask(text(event, "tool_id"), text(event, "tool_name"), event["parameters"].clone());
            }
            "tool_result" => {
                let error = event.get("error").filter(|error| !error.is_null());
                let said = event.get("output").or_else(|| error?.get("message"));
                let failed = error.is_some() || text(event, "status") == "error";
                self.open.answer(text(event, "tool_id"), content(said), failed);
                if error.is_some_and(|error| is_denial(text(error, "type"))) {
                    let id = text(event, "tool_id");
                    events.push(StreamEvent::Denied(id.split("__").next().unwrap_or(id).to_owned()));
                }
                if self.open.is_answered() {
                    self.open.close(events);
                }
            }
            "error" => {
                let said = text(event, "message").to_owned();
                self.complaint = Some(said.clone());
                events.push(StreamEvent::Complaint(said));
            }
            "result" => self.result(event, events),
            _ => {}
        }
    }

    fn end(&mut self, events: &mut Vec<StreamEvent>) {
        self.open.close(events);
    }
}

impl Gemini {
    fn result(&mut self, event: &Value, events: &mut Vec<StreamEvent>) {
        self.open.close(events);
        events.push(StreamEvent::Total(Total { usage: usage(&event["stats"]), with_earlier: None, cost_usd: None }));
        let failure = (text(event, "status") != "success").then(|| {
            let error = &event["error"];
            let said = text(error, "message");
            let said = if said.is_empty() { self.complaint.take().unwrap_or_default() } else { said.to_owned() };
            match text(error, "type") {
                "FatalTurnLimitedError" => AgentFailure { why: said, kind: AgentFailureKind::Limit },
                _ => AgentFailure::of(said, None),
            }
        });
        events.push(StreamEvent::Result(Claim { text: String::new(), failure }));
    }
}

fn is_denial(kind: &str) -> bool {
    matches!(kind, "execution_denied" | "permission_denied" | "policy_violation" | "tool_not_registered")
}

/// Gemini counts cached input within the input; `input` is what is left without it.
fn usage(stats: &Value) -> Usage {
    let cache_read = number(stats, "cached");
    let input = match stats.get("input").and_then(Value::as_u64) {
        Some(input) => input,
        None => number(stats, "input_tokens").saturating_sub(cache_read),
    };
    Usage { input, cache_read, output: number(stats, "output_tokens"), ..Usage::default() }
}
