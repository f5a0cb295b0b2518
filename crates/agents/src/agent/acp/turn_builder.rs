//! Makes turns of an agent's updates. The protocol has no mark between two model calls, so it is inferred: words that
//! come after tools which have all ended begin the next turn.

use serde_json::{Map, Value, json};

use super::schema::{Chunk, Prompted, ToolStatus, ToolUpdate, Update, UsageUpdate};
use crate::agent::Turn;
use crate::agent::intent::intent_of;
use crate::llm::{Message, Part, Role};
use pleach_core::event::{ToolCall, Usage};
use pleach_core::text::shorten;

/// How much of a tool's answer is kept.
const RESULT: usize = 20_000;

/// A piece of the turn in flight, in the order it came.
#[derive(Debug)]
enum Piece {
    Words { text: String, message: Option<String> },
    Thought(String),
    Tool(Box<Tool>),
}

/// A tool call and what became of it.
#[derive(Debug, Default)]
struct Tool {
    id: String,
    name: Option<String>,
    title: Option<String>,
    kind: Option<String>,
    status: Option<ToolStatus>,
    input: Value,
    output: Value,
    content: Vec<Value>,
    paths: Vec<String>,
}

/// What a prompt has come to so far.
#[derive(Debug, Default)]
pub(super) struct TurnBuilder {
    /// The task, until the first turn is reported.
    prompt: Option<String>,
    pieces: Vec<Piece>,
    /// How full the context was in this turn.
    used: Option<u64>,
    /// The same, reported when the turn was over already: it belongs to the next one.
    used_next: Option<u64>,
    /// What earlier turns were said to use.
    reported: Usage,
    /// What the session has cost, and how much of that is reported.
    cost: Option<f64>,
    cost_reported: f64,
    model: String,
    last_words: String,
}

impl TurnBuilder {
    /// Begins with a task. `cost` is what the session had cost before.
    pub fn new(prompt: String, model: String, cost: f64) -> Self {
        Self { prompt: Some(prompt), model, cost_reported: cost, ..Self::default() }
    }

    /// What the session has cost, as far as the agent says.
    pub fn cost(&self) -> f64 {
        self.cost.unwrap_or(self.cost_reported)
    }

    /// The agent's newest words.
    pub fn words(&self) -> &str {
        &self.last_words
    }

    /// Takes something in; gives the turn that was over before it.
    pub fn take(&mut self, update: Update) -> Option<Turn> {
        match update {
            Update::AgentMessageChunk(chunk) => {
                let over = self.begins_turn(chunk.message_id.as_deref()).then(|| self.finish(false));
                self.say(chunk);
                over
            }
            Update::AgentThoughtChunk(chunk) => {
                let over = self.begins_turn(chunk.message_id.as_deref()).then(|| self.finish(false));
                let text = chunk.content.into_text();
                match self.pieces.last_mut() {
                    Some(Piece::Thought(thought)) => thought.push_str(&text),
                    _ => self.pieces.push(Piece::Thought(text)),
                }
                over
            }
            Update::ToolCall(tool) => {
                self.tool(tool);
                None
            }
            Update::Usage(usage) => {
                self.usage(usage);
                None
            }
            Update::Other => None,
        }
    }

    fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Tool(tool) => Some(&**tool),
            _ => None,
        })
    }

    fn tools_are_over(&self) -> bool {
        self.tools().next().is_some() && self.tools().all(Tool::is_over)
    }

    /// Whether words of this message begin a turn.
    fn begins_turn(&self, message: Option<&str>) -> bool {
        let newest = self.pieces.iter().rev().find_map(|piece| match piece {
            Piece::Words { message, .. } => message.as_deref(),
            _ => None,
        });
        let goes_on = message.is_some() && message == newest;
        self.tools_are_over() && !goes_on
    }

    fn say(&mut self, chunk: Chunk) {
        let Chunk { content, message_id } = chunk;
        let more = content.into_text();
        match self.pieces.last_mut() {
            Some(Piece::Words { text, message }) if *message == message_id => text.push_str(&more),
            _ => self.pieces.push(Piece::Words { text: more, message: message_id }),
        }
    }

    /// Takes an update of a tool call, also one that comes with a permission request.
    pub fn tool(&mut self, update: ToolUpdate) {
        let id = update.tool_call_id.clone();
        let known = self.pieces.iter_mut().find_map(|piece| match piece {
            Piece::Tool(tool) if tool.id == id => Some(tool),
            _ => None,
        });
        match known {
            Some(tool) => tool.learn(update),
            None => {
                let mut tool = Box::new(Tool { id, ..Tool::default() });
                tool.learn(update);
                self.pieces.push(Piece::Tool(tool));
            }
        }
    }

    fn usage(&mut self, update: UsageUpdate) {
        if let Some(model) = update.meta.get("_claude/model").and_then(Value::as_str) {
            self.model = model.to_owned();
        }
        if let Some(cost) = update.cost.filter(|cost| cost.currency == "USD") {
            self.cost = Some(cost.amount);
        }
        let Some(used) = update.used else { return };
        // Some agents tell it when a call ends, some when the next one begins as well.
        if self.tools_are_over() && self.used.is_some() {
            self.used_next = Some(used);
        } else {
            self.used = Some(used);
        }
    }

    /// The last turn, with what the agent says that the whole prompt took.
    pub fn last(&mut self, answer: Option<&Prompted>, failed: Option<&str>) -> Turn {
        let mut turn = self.finish(true);
        if let Some((usage, model)) = answer.and_then(reported_usage) {
            // An agent may add up differently than its updates did; what was reported stays so.
            turn.usage = left(usage, self.reported);
            if let Some(model) = model {
                turn.model = model;
            }
        }
        if let Some(why) = failed {
            match turn.messages.iter_mut().rfind(|message| message.role == Role::Assistant) {
                Some(message) => message.mark_failed(why),
                None => {
                    let mut message = Message::assistant("");
                    message.mark_failed(why);
                    turn.messages.push(message);
                }
            }
        }
        turn
    }

    fn finish(&mut self, last: bool) -> Turn {
        let pieces = std::mem::take(&mut self.pieces);
        let after_tools = pieces.iter().rposition(|piece| matches!(piece, Piece::Tool(_))).map_or(0, |at| at + 1);
        let (mut asking, mut answering, mut results) = (Vec::new(), Vec::new(), Vec::new());
        let (mut words, mut titles, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        for (at, piece) in pieces.into_iter().enumerate() {
            let parts = if at < after_tools { &mut asking } else { &mut answering };
            match piece {
                Piece::Words { text, .. } => {
                    words.push(text.trim().to_owned());
                    parts.push(Part::text(text));
                }
                Piece::Thought(text) => {
                    parts.push(Part::Thinking { text, signature: None, extra: Default::default() });
                }
                Piece::Tool(tool) => {
                    titles.extend(tool.title.clone());
                    parts.push(Part::tool_call(&tool.id, tool.name(), tool.arguments()));
                    results.push(Part::tool_result(&tool.id, tool.answer(), tool.is_error()));
                    calls.push(tool.call());
                }
            }
        }
        let mut messages: Vec<Message> = self.prompt.take().map(Message::user).into_iter().collect();
        if !asking.is_empty() {
            messages.push(Message::new(Role::Assistant, asking));
            messages.push(Message::new(Role::Tool, results));
        }
        if !answering.is_empty() || last {
            messages.push(Message::new(Role::Assistant, answering));
        }
        let words = words.join("\n");
        if !words.is_empty() {
            self.last_words.clone_from(&words);
        }
        let intent = if words.is_empty() { titles.join(", ") } else { words };
        let usage = Usage { input: self.used.take().unwrap_or_default(), ..Usage::default() };
        self.used = self.used_next.take();
        if !last {
            self.reported += usage;
        }
        let cost_usd = self.cost.map(|cost| (cost - self.cost_reported).max(0.0));
        if let Some(cost) = self.cost {
            self.cost_reported = cost;
        }
        Turn {
            messages,
            intent: intent_of(&intent, &calls),
            tool_calls: calls,
            usage,
            cost_usd,
            model: self.model.clone(),
            provider: "acp".into(),
            // The end of the prompt is one; what is between two calls is inferred.
            exact: last,
            is_last: last,
            ..Turn::default()
        }
    }
}

impl Tool {
    fn learn(&mut self, update: ToolUpdate) {
        let ToolUpdate { name, title, kind, status, raw_input, raw_output, content, locations, .. } = update;
        self.name = name.or(self.name.take());
        self.title = title.or(self.title.take());
        self.kind = kind.or(self.kind.take());
        self.status = status.or(self.status);
        for (known, new) in [(&mut self.input, raw_input), (&mut self.output, raw_output)] {
            if !new.is_null() {
                *known = new;
            }
        }
        if let Some(content) = content {
            self.content = content;
        }
        for location in locations.into_iter().flatten() {
            let path = location.path.to_string_lossy().into_owned();
            if !self.paths.contains(&path) {
                self.paths.push(path);
            }
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.status, Some(ToolStatus::Completed | ToolStatus::Failed))
    }

    fn is_error(&self) -> bool {
        self.status != Some(ToolStatus::Completed)
    }

    fn name(&self) -> &str {
        self.name.as_deref().or(self.kind.as_deref()).unwrap_or("tool")
    }

    /// What it was given; where the agent does not say, what is known of it.
    fn arguments(&self) -> Value {
        if self.input.as_object().is_some_and(|input| !input.is_empty()) {
            return self.input.clone();
        }
        let mut known = Map::new();
        if let Some(title) = &self.title {
            known.insert("title".into(), json!(title));
        }
        let diffs = self.content.iter().filter_map(|part| part.get("path")?.as_str()).map(str::to_owned);
        let mut paths = self.paths.clone();
        paths.extend(diffs);
        paths.sort();
        paths.dedup();
        if !paths.is_empty() {
            known.insert("paths".into(), json!(paths));
        }
        Value::Object(known)
    }

    fn answer(&self) -> String {
        let said: Vec<&str> = self.content.iter().filter_map(|part| part.pointer("/content/text")?.as_str()).collect();
        let text = match &self.output {
            _ if !said.is_empty() => said.join("\n"),
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.get("output").and_then(Value::as_str).map_or_else(|| other.to_string(), str::to_owned),
        };
        match (self.is_over(), text.is_empty()) {
            (false, true) => "the tool did not end".into(),
            _ => shorten(&text, RESULT),
        }
    }

    fn call(&self) -> ToolCall {
        ToolCall {
            id: self.id.clone(),
            name: self.name().to_owned(),
            arguments: self.arguments(),
            is_error: self.is_error(),
        }
    }
}

/// What the agent says that a prompt took, and with which model. It stands in one of two places.
fn reported_usage(answer: &Prompted) -> Option<(Usage, Option<String>)> {
    let quota = answer.meta.get("quota");
    let models = quota.and_then(|quota| quota.get("model_usage")?.as_array());
    let model = models.and_then(|models| match models.as_slice() {
        [one] => Some(one.get("model")?.as_str()?.to_owned()),
        _ => None,
    });
    let counts = Some(&answer.usage).filter(|usage| usage.is_object()).or_else(|| quota?.get("token_count"))?;
    let number = |names: &[&str]| names.iter().find_map(|name| counts.get(name)?.as_u64()).unwrap_or_default();
    let mut usage = Usage {
        input: number(&["inputTokens", "input_tokens"]),
        cache_read: number(&["cachedReadTokens", "cachedInputTokens", "cached_input_tokens"]),
        cache_write: number(&["cachedWriteTokens", "cacheWriteInputTokens"]),
        output: number(&["outputTokens", "output_tokens"]),
        reasoning: number(&["thoughtTokens", "reasoningOutputTokens"]),
        ..Usage::default()
    };
    let total = number(&["totalTokens", "total_tokens"]);
    let cached = usage.cache_read.saturating_add(usage.cache_write);
    if cached > 0 && total == usage.input.saturating_add(usage.output) {
        // This agent counts what was cached as input as well.
        usage.input = usage.input.saturating_sub(cached);
    } else if usage.reasoning > 0 && total == usage.total().saturating_add(usage.reasoning) {
        // And this one does not count thoughts as output.
        usage.output += usage.reasoning;
    }
    Some((usage, model))
}

/// What is left of `all` after `reported`.
fn left(all: Usage, reported: Usage) -> Usage {
    Usage { input: all.input.saturating_sub(reported.input), ..all }
}
