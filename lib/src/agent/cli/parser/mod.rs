//! What agents say while they work: lines of their streams in, what they tell out. Nothing here touches the world.
//!
//! Every program has its own words, and none of them is bound to a version. So lines that are no JSON and kinds nobody
//! knows are passed over, and what a stream leaves out is simply not told.

mod claude;
mod codex;
mod gemini;
mod jsonl;
mod opencode;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::config::ParserName;
use crate::event::{ToolCall, Usage};
use crate::llm::{Message, Part, Role};

/// A line longer than this is not kept.
const LONGEST_LINE: usize = 64 << 20;

/// What a stream tells.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// The conversation has this id.
    Session(String),
    /// A model call has ended, and so have the tools it asked for.
    Call(Box<StreamedCall>),
    /// What was called so far is a turn, whether tools were used or not.
    TurnOver,
    /// What the run has cost so far, all its calls together.
    Total(Total),
    /// The agent was not allowed to use a tool.
    Denied(String),
    /// Something went wrong, which may be mended by itself.
    Complaint(String),
    /// How the agent says it went.
    Result(Claim),
}

/// One model call and the tools it asked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StreamedCall {
    /// The model, where the stream names it.
    pub model: Option<String>,
    /// The messages: the model's, then the tools'.
    pub messages: Vec<Message>,
    /// The tools.
    pub tools: Vec<ToolCall>,
    /// What it cost in tokens, where the stream says so for each call.
    pub usage: Usage,
    /// What it cost in dollars, likewise.
    pub cost_usd: Option<f64>,
}

impl StreamedCall {
    /// What the model said.
    pub fn text(&self) -> String {
        let said = self.messages.iter().filter(|message| message.role == Role::Assistant).map(Message::text);
        said.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    }
}

/// What a whole run has cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Total {
    /// In tokens, without what earlier runs of the same conversation used.
    pub usage: Usage,
    /// The same with them, where the agent counts so: what the next run of the conversation must take off.
    pub with_earlier: Option<Usage>,
    /// In dollars.
    pub cost_usd: Option<f64>,
}

/// How an agent says it went.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Its last words; empty where the stream has them in a call.
    pub text: String,
    /// Why it failed, if it did.
    pub failure: Option<AgentFailure>,
}

/// A failure as the agent tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFailure {
    /// Why.
    pub why: String,
    /// What that means for another try.
    pub kind: AgentFailureKind,
}

/// Whether trying again helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentFailureKind {
    /// It may.
    Transient,
    /// It does not.
    Terminal,
    /// Its key or account is refused, or its provider has no such model.
    Refused,
    /// The agent came to a limit it was given.
    Limit,
}

impl AgentFailure {
    /// A failure with the HTTP status that came with it, or else the first one its text names.
    pub(super) fn of(why: impl Into<String>, status: Option<u64>) -> Self {
        let why = why.into();
        let kind = match status.or_else(|| status_in(&why)) {
            Some(408 | 409 | 429) => AgentFailureKind::Transient,
            Some(401..=404) => AgentFailureKind::Refused,
            Some(400..=499) => AgentFailureKind::Terminal,
            _ => AgentFailureKind::Transient,
        };
        Self { why, kind }
    }
}

/// The first number in a text that is an HTTP status of a failure.
fn status_in(text: &str) -> Option<u64> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| word.len() == 3)
        .filter_map(|word| word.parse().ok())
        .find(|status| (400..600).contains(status))
}

/// Reads the events of one kind of stream.
trait StreamParser: Send {
    /// Takes in one event.
    fn event(&mut self, event: &Value, events: &mut Vec<StreamEvent>);

    /// The stream is over. Whatever was open ends here.
    fn end(&mut self, events: &mut Vec<StreamEvent>);
}

/// Reads a stream, chunk by chunk.
pub struct StreamReader {
    parse: Option<Box<dyn StreamParser>>,
    line: Vec<u8>,
    too_long: bool,
}

impl std::fmt::Debug for StreamReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("line", &self.line.len()).finish_non_exhaustive()
    }
}

impl StreamReader {
    /// A reader of this kind of stream. `earlier` is what earlier runs of the conversation used, for agents that count
    /// it in.
    pub fn new(parser: ParserName, earlier: Usage) -> Self {
        let parse: Option<Box<dyn StreamParser>> = match parser {
            ParserName::None => None,
            ParserName::Claude => Some(Box::<claude::Claude>::default()),
            ParserName::Codex => Some(Box::new(codex::Codex::new(earlier))),
            ParserName::Gemini => Some(Box::<gemini::Gemini>::default()),
            ParserName::Opencode => Some(Box::<opencode::Opencode>::default()),
            ParserName::Jsonl => Some(Box::<jsonl::Jsonl>::default()),
        };
        Self { parse, line: Vec::new(), too_long: false }
    }

    /// Takes in the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        if self.parse.is_none() {
            return events;
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + piece.len() > LONGEST_LINE {
                self.too_long = true;
                self.line.clear();
            }
            if !self.too_long {
                self.line.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                self.take_line(&mut events);
            }
        }
        events
    }

    /// The stream is over.
    pub fn finish(&mut self) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        self.take_line(&mut events);
        if let Some(parse) = &mut self.parse {
            parse.end(&mut events);
        }
        events
    }

    fn take_line(&mut self, events: &mut Vec<StreamEvent>) {
        let line = std::mem::take(&mut self.line);
        let too_long = std::mem::take(&mut self.too_long);
        if let (Some(parse), Ok(event @ Value::Object(_)), false) =
            (&mut self.parse, serde_json::from_slice(&line), too_long)
        {
            parse.event(&event, events);
        }
    }
}

/// A call while it is heard: parts of the model's message, and the tools with their answers.
#[derive(Debug, Default)]
struct OpenCall {
    model: Option<String>,
    parts: Vec<Part>,
    results: Vec<Part>,
    usage: Usage,
    cost_usd: Option<f64>,
}

impl OpenCall {
    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.results.is_empty()
    }

    /// Words. A stream may give them in pieces.
    fn say(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(Part::Text { text: said, .. }) => said.push_str(text),
            _ => self.parts.push(Part::text(text)),
        }
    }

    fn ask(&mut self, id: &str, name: &str, arguments: Value) {
        self.parts.push(Part::tool_call(id, name, arguments));
    }

    fn answer(&mut self, id: &str, content: impl Into<String>, is_error: bool) {
        self.results.push(Part::tool_result(id, content, is_error));
    }

    /// Whether every tool that was asked for has answered, and one was.
    fn is_answered(&self) -> bool {
        let asked = self.parts.iter().filter(|part| matches!(part, Part::ToolCall { .. })).count();
        asked > 0 && self.results.len() >= asked
    }

    /// Ends the call, if there is anything of one.
    fn close(&mut self, events: &mut Vec<StreamEvent>) {
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
fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// A text of an event.
fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A value as a tool's answer: words as they are, anything else as JSON.
fn content(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) if parts.iter().all(|part| part.get("text").is_some_and(Value::is_string)) => {
            parts.iter().map(|part| text(part, "text")).collect::<Vec<_>>().join("\n")
        }
        Some(other) => other.to_string(),
    }
}
