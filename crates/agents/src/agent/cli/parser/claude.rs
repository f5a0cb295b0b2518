//! The stream of `claude -p --output-format stream-json --verbose --include-partial-messages`.
//!
//! A call is a run of `assistant` events with one `message.id`; each of them holds one block. The usage in them is the
//! one the call began with: what it came to is only in the partial messages, and the sum in the result.

use serde_json::Value;

use super::event::{AgentFailure, AgentFailureKind, Claim, StreamEvent, Total};
use super::open_call::{OpenCall, StreamParser, content, number, text};
use crate::llm::Part;
use pleach_core::event::Usage;

#[derive(Debug, Default)]
pub(super) struct Claude {
    session: Option<String>,
    id: String,
    open: OpenCall,
    denied: Vec<String>,
}

impl StreamParser for Claude {
    fn event(&mut self, event: &Value, events: &mut Vec<StreamEvent>) {
        let session = text(event, "session_id");
        if !session.is_empty() && self.session.as_deref() != Some(session) {
            self.session = Some(session.to_owned());
            events.push(StreamEvent::Session(session.to_owned()));
        }
        // What a sub-agent does is part of the tool that started it.
        if event.get("parent_tool_use_id").is_some_and(|parent| !parent.is_null()) {
            return;
        }
        match text(event, "type") {
            "assistant" => self.assistant(&event["message"], events),
            "stream_event" => self.partial(&event["event"], events),
            "user" => self.user(&event["message"], events),
            "system" => self.system(event, events),
            "result" => self.result(event, events),
            _ => {}
        }
    }

    fn end(&mut self, events: &mut Vec<StreamEvent>) {
        self.open.close(events);
    }
}

impl Claude {
    fn begin(&mut self, message: &Value, events: &mut Vec<StreamEvent>) {
        let id = text(message, "id");
        if id != self.id {
            self.open.close(events);
            self.id = id.to_owned();
            self.open.model = Some(text(message, "model").to_owned()).filter(|model| !model.is_empty());
            self.open.usage = usage(&message["usage"]);
        }
    }

    fn assistant(&mut self, message: &Value, events: &mut Vec<StreamEvent>) {
        // What the program says in the model's place, such as the text of an error, is in the result as well.
        if text(message, "model") == "<synthetic>" {
            return;
        }
        self.begin(message, events);
        for block in message["content"].as_array().into_iter().flatten() {
            match text(block, "type") {
                "text" => self.open.parts.push(Part::text(text(block, "text"))),
                "tool_use" => self.open.ask(text(block, "id"), text(block, "name"), block["input"].clone()),
                "thinking" => self.open.parts.push(Part::Thinking {
                    text: text(block, "thinking").to_owned(),
                    signature: block.get("signature").and_then(Value::as_str).map(str::to_owned),
                    extra: Default::default(),
                }),
                _ => {}
            }
        }
    }

    fn partial(&mut self, event: &Value, events: &mut Vec<StreamEvent>) {
        match text(event, "type") {
            "message_start" => self.begin(&event["message"], events),
            "message_delta" => {
                let reported = usage(&event["usage"]);
                let began = self.open.usage;
                // Older servers leave the input out of the last word on a call.
                let input =
                    if reported.input + reported.cache_read + reported.cache_write > 0 { reported } else { began };
                self.open.usage = Usage { output: reported.output, reasoning: reported.reasoning, ..input };
            }
            _ => {}
        }
    }

    fn user(&mut self, message: &Value, events: &mut Vec<StreamEvent>) {
        for block in message["content"].as_array().into_iter().flatten() {
            if text(block, "type") == "tool_result" {
                let failed = block.get("is_error").and_then(Value::as_bool).unwrap_or(false);
                self.open.answer(text(block, "tool_use_id"), content(block.get("content")), failed);
            }
        }
        if self.open.is_answered() {
            self.open.close(events);
            self.id.clear();
        }
    }

    fn system(&mut self, event: &Value, events: &mut Vec<StreamEvent>) {
        match text(event, "subtype") {
            "permission_denied" => self.deny(text(event, "tool_use_id"), text(event, "tool_name"), events),
            "api_retry" => {
                let status = event.get("error_status").and_then(Value::as_u64);
                let status = status.map(|status| format!(" ({status})")).unwrap_or_default();
                events.push(StreamEvent::Complaint(format!(
                    "the model did not answer: {}{status}",
                    text(event, "error")
                )));
            }
            _ => {}
        }
    }

    fn deny(&mut self, id: &str, tool: &str, events: &mut Vec<StreamEvent>) {
        if !self.denied.iter().any(|known| known == id) {
            self.denied.push(id.to_owned());
            events.push(StreamEvent::Denied(tool.to_owned()));
        }
    }

    fn result(&mut self, event: &Value, events: &mut Vec<StreamEvent>) {
        for denied in event["permission_denials"].as_array().into_iter().flatten() {
            self.deny(text(denied, "tool_use_id"), text(denied, "tool_name"), events);
        }
        self.open.close(events);
        events.push(StreamEvent::Total(Total {
            usage: usage(&event["usage"]),
            with_earlier: None,
            cost_usd: cost(event),
        }));
        let said = text(event, "result");
        let failed = event.get("is_error").and_then(Value::as_bool).unwrap_or(false);
        let limit = text(event, "terminal_reason") == "max_turns" || text(event, "subtype") == "error_max_turns";
        let errors = || event["errors"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let why = match (said.is_empty(), errors().next()) {
            (true, Some(error)) => error.to_owned(),
            (true, None) => format!("it ended with {}", text(event, "subtype")),
            (false, _) => said.to_owned(),
        };
        let failure = match (failed || limit, limit) {
            (false, _) => None,
            (true, true) => Some(AgentFailure { why, kind: AgentFailureKind::Limit }),
            (true, false) => Some(AgentFailure::of(why, event.get("api_error_status").and_then(Value::as_u64))),
        };
        let text = if failure.is_some() { String::new() } else { said.to_owned() };
        events.push(StreamEvent::Result(Claim { text, failure }));
    }
}

/// Claude counts cached input beside the rest.
fn usage(value: &Value) -> Usage {
    Usage {
        input: number(value, "input_tokens"),
        cache_read: number(value, "cache_read_input_tokens"),
        cache_write: number(value, "cache_creation_input_tokens"),
        output: number(value, "output_tokens"),
        reasoning: value.get("output_tokens_details").map_or(0, |details| number(details, "thinking_tokens")),
        cache_write_1h: value.get("cache_creation").map_or(0, |kept| number(kept, "ephemeral_1h_input_tokens")),
        web_searches: value.get("server_tool_use").map_or(0, |used| number(used, "web_search_requests")),
    }
}

/// What this run cost. `total_cost_usd` counts the earlier runs of a conversation in, so it comes second.
fn cost(event: &Value) -> Option<f64> {
    let models = event.get("model_usage_since_last_result").and_then(Value::as_object);
    match models {
        Some(models) => {
            Some(models.values().filter_map(|model| model.get("costUSD")?.as_f64()).fold(0.0, |sum, cost| sum + cost))
        }
        None => event.get("total_cost_usd").and_then(Value::as_f64),
    }
}
