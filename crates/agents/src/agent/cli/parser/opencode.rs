//! The stream of `opencode run --format json`.
//!
//! `step_start` and `step_finish` stand around each model call, with its tokens and its cost. A run that ends without a
//! step that stopped by itself was cut off, whatever its exit code says.

use serde_json::Value;

use super::event::{AgentFailure, AgentFailureKind, Claim, StreamEvent};
use super::open_call::{OpenCall, StreamParser, content, number, text};
use crate::llm::Part;
use pleach_core::event::Usage;

#[derive(Debug, Default)]
pub(super) struct Opencode {
    session: Option<String>,
    open: OpenCall,
    /// Why the newest step ended.
    reason: Option<String>,
    failure: Option<AgentFailure>,
    rejected: Option<String>,
}

impl Opencode {
    fn tool(&mut self, part: &Value, events: &mut Vec<StreamEvent>) {
        let (id, name, state) = (text(part, "callID"), text(part, "tool"), &part["state"]);
        self.open.ask(id, name, state["input"].clone());
        let failed = text(state, "status") == "error";
        let said = if failed { state.get("error") } else { state.get("output") };
        let said = content(said);
        if failed && is_rejection(&said) {
            self.rejected = Some(name.to_owned());
            events.push(StreamEvent::Denied(name.to_owned()));
        }
        self.open.answer(id, said, failed);
    }
}

fn is_rejection(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    said.contains("rejected permission")
        || said.contains("permission rejected")
        || said.contains("permission denied by")
}

impl StreamParser for Opencode {
    fn event(&mut self, event: &Value, events: &mut Vec<StreamEvent>) {
        let session = text(event, "sessionID");
        if !session.is_empty() && self.session.as_deref() != Some(session) {
            self.session = Some(session.to_owned());
            events.push(StreamEvent::Session(session.to_owned()));
        }
        let part = &event["part"];
        match text(event, "type") {
            "step_start" => self.open.close(events),
            "text" => self.open.parts.push(Part::text(text(part, "text"))),
            "reasoning" => self.open.parts.push(Part::Thinking {
                text: text(part, "text").to_owned(),
                signature: None,
                extra: Default::default(),
            }),
            "tool_use" => self.tool(part, events),
            "step_finish" => {
                self.open.usage = usage(&part["tokens"]);
                // A model it has no price for costs nothing here, which is not so.
                let cost = part.get("cost").and_then(Value::as_f64);
                self.open.cost_usd = cost.filter(|cost| *cost > 0.0 || self.open.usage.total() == 0);
                self.reason = Some(text(part, "reason").to_owned());
                if self.open.is_empty() {
                    // A step without words or tools has cost something all the same.
                    self.open.say("");
                }
                self.open.close(events);
            }
            "error" => {
                let error = &event["error"];
                let said = [text(&error["data"], "message"), text(error, "message"), text(error, "name")];
                let said = said.into_iter().find(|said| !said.is_empty()).unwrap_or("an error without words");
                self.failure = Some(AgentFailure::of(said, error["data"].get("statusCode").and_then(Value::as_u64)));
                events.push(StreamEvent::Complaint(said.to_owned()));
            }
            _ => {}
        }
    }

    fn end(&mut self, events: &mut Vec<StreamEvent>) {
        self.open.close(events);
        let failure = match (self.failure.take(), self.reason.as_deref()) {
            (Some(failure), _) => Some(failure),
            (None, Some("stop")) => None,
            (None, Some("length")) => {
                Some(AgentFailure { why: "its model's answer was cut off".to_owned(), kind: AgentFailureKind::Limit })
            }
            (None, Some(_)) => Some(match &self.rejected {
                Some(tool) => AgentFailure {
                    why: format!("it was not allowed to use `{tool}` and stopped"),
                    kind: AgentFailureKind::Terminal,
                },
                None => AgentFailure {
                    why: "it ended before its model was done".to_owned(),
                    kind: AgentFailureKind::Transient,
                },
            }),
            // It said nothing at all, so it claims nothing either.
            (None, None) => return,
        };
        events.push(StreamEvent::Result(Claim { text: String::new(), failure }));
    }
}

/// OpenCode counts cached input beside the rest.
fn usage(tokens: &Value) -> Usage {
    let cache = &tokens["cache"];
    let reasoning = number(tokens, "reasoning");
    Usage {
        input: number(tokens, "input"),
        cache_read: number(cache, "read"),
        cache_write: number(cache, "write"),
        output: number(tokens, "output").saturating_add(reasoning),
        reasoning,
        ..Usage::default()
    }
}
