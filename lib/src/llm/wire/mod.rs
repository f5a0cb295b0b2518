//! The languages model providers speak: JSON in, conversations out, and back. No network, no clock.
//!
//! Reading and writing loses nothing. What a provider says that pleach has no field for is kept under the name of the
//! format it came in (`extra["anthropic"]`), and goes back to servers of that format only; a kind of content pleach does
//! not know is kept whole. Thoughts go back to no other format than their own, whose server alone can check them.

mod anthropic;
mod chat;
mod gemini;
mod responses;
pub mod sse;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use super::{Part, Request, Response};
use crate::event::{Extra, Usage};

/// A JSON object.
type Object = Map<String, Value>;

/// The language a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Responses.
    Responses,
    /// OpenAI's Chat Completions, which many servers speak.
    Chat,
    /// Google's generateContent.
    Gemini,
}

/// Text of a server that cannot be taken for a request or an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It does not have the shape of its format.
    #[error("{0}")]
    Shape(String),
    /// The stream ended before the answer did.
    #[error("the stream ended in the middle of the answer")]
    Cut,
    /// The server reported an error in the stream.
    #[error("{message}")]
    Reported {
        /// The server's word for it.
        kind: String,
        /// What happened.
        message: String,
    },
}

fn shape(text: impl Into<String>) -> WireError {
    WireError::Shape(text.into())
}

impl Format {
    /// The name under which records keep what only this format knows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Responses => "openai",
            Self::Chat => "chat",
            Self::Gemini => "gemini",
        }
    }

    /// The name of its API, for messages.
    pub(crate) fn api(self) -> &'static str {
        match self {
            Self::Anthropic => "Anthropic Messages",
            Self::Responses => "OpenAI Responses",
            Self::Chat => "Chat Completions",
            Self::Gemini => "Gemini",
        }
    }

    /// A request's body.
    pub fn encode_request(self, request: &Request, stream: bool) -> Value {
        match self {
            Self::Anthropic => anthropic::encode_request(request, stream),
            Self::Responses => responses::encode_request(request, stream),
            Self::Chat => chat::encode_request(request, stream),
            Self::Gemini => gemini::encode_request(request, stream),
        }
    }

    /// The request a body holds.
    pub fn decode_request(self, body: Value) -> Result<Request, WireError> {
        match self {
            Self::Anthropic => anthropic::decode_request(body),
            Self::Responses => responses::decode_request(body),
            Self::Chat => chat::decode_request(body),
            Self::Gemini => gemini::decode_request(body),
        }
    }

    /// The body of an answer that is not streamed.
    pub fn encode_reply(self, response: &Response) -> Value {
        match self {
            Self::Anthropic => anthropic::encode_reply(response),
            Self::Responses => responses::encode_reply(response),
            Self::Chat => chat::encode_reply(response),
            Self::Gemini => gemini::encode_reply(response),
        }
    }

    /// The answer a body holds.
    pub fn decode_reply(self, body: Value) -> Result<Response, WireError> {
        match self {
            Self::Anthropic => anthropic::decode_reply(body),
            Self::Responses => responses::decode_reply(body),
            Self::Chat => chat::decode_reply(body),
            Self::Gemini => gemini::decode_reply(body),
        }
    }

    /// The stream of events that stands for an answer's body.
    pub fn stream_reply(self, body: &Value) -> Vec<sse::Event> {
        match self {
            Self::Anthropic => anthropic::stream_reply(body),
            Self::Responses => responses::stream_reply(body),
            Self::Chat => chat::stream_reply(body),
            Self::Gemini => gemini::stream_reply(body),
        }
    }

    /// The tokens a body counts, whatever else of it can be read.
    pub fn usage_of(self, body: &Value) -> Usage {
        let counts = ["usage", "usageMetadata"].iter().filter_map(|key| body.get(*key)?.as_object()).flatten();
        let counts = counts.filter(|(_, count)| !count.is_null());
        let counts: Object = counts.map(|(name, count)| (name.clone(), count.clone())).collect();
        // Read as those of an answer without words.
        let body = match self {
            Self::Anthropic => json!({"content": [], "usage": counts}),
            Self::Responses => json!({"output": [], "usage": counts}),
            Self::Chat => json!({"choices": [{"message": {}}], "usage": counts}),
            Self::Gemini => json!({"candidates": [{}], "usageMetadata": counts}),
        };
        self.decode_reply(body).map(|response| response.usage).unwrap_or_default()
    }

    /// The error in a body, if it is one: the server's word for it, and what happened.
    pub fn reported_error(self, body: &Value) -> Option<(String, String)> {
        let error = body.get("error").filter(|error| !error.is_null())?;
        let text = |key: &str| error.get(key).and_then(Value::as_str);
        let kind = ["code", "status", "type"].into_iter().find_map(text).unwrap_or("error");
        let kind = if self == Self::Anthropic { text("type").unwrap_or(kind) } else { kind };
        let message = text("message").or(error.as_str()).unwrap_or(kind);
        Some((kind.to_owned(), message.to_owned()))
    }
}

/// Puts a streamed answer together again: events in, the body of an answer that was not streamed out.
#[derive(Debug, Clone)]
pub struct Assembler {
    format: Format,
    parts: Assembling,
}

#[derive(Debug, Clone)]
enum Assembling {
    Anthropic(anthropic::Stream),
    Responses(responses::Stream),
    Chat(chat::Stream),
    Gemini(gemini::Stream),
}

impl Assembler {
    /// For a stream of this format.
    pub fn new(format: Format) -> Self {
        let parts = match format {
            Format::Anthropic => Assembling::Anthropic(Default::default()),
            Format::Responses => Assembling::Responses(Default::default()),
            Format::Chat => Assembling::Chat(Default::default()),
            Format::Gemini => Assembling::Gemini(Default::default()),
        };
        Self { format, parts }
    }

    /// Takes the next event.
    pub fn push(&mut self, event: &sse::Event) -> Result<(), WireError> {
        if event.data.is_empty() || event.data == "[DONE]" {
            return Ok(());
        }
        let body: Value = serde_json::from_str(&event.data)
            .map_err(|error| shape(format!("an event of the stream is not JSON: {error}")))?;
        if let Some((kind, message)) = self.format.reported_error(&body) {
            return Err(WireError::Reported { kind, message });
        }
        match &mut self.parts {
            Assembling::Anthropic(stream) => stream.push(body),
            Assembling::Responses(stream) => stream.push(body),
            Assembling::Chat(stream) => stream.push(body),
            Assembling::Gemini(stream) => stream.push(body),
        }
    }

    /// Whether any part of the answer has come. Servers send other things before it: pings, ids, first counts.
    pub fn has_begun(&self) -> bool {
        match &self.parts {
            Assembling::Anthropic(stream) => stream.has_begun(),
            Assembling::Responses(stream) => stream.has_begun(),
            Assembling::Chat(stream) => stream.has_begun(),
            Assembling::Gemini(stream) => stream.has_begun(),
        }
    }

    /// Whether everything is there, whatever the stream still sends.
    pub fn is_done(&self) -> bool {
        match &self.parts {
            Assembling::Anthropic(stream) => stream.is_done(),
            Assembling::Responses(stream) => stream.is_done(),
            Assembling::Chat(stream) => stream.is_done(),
            Assembling::Gemini(stream) => stream.is_done(),
        }
    }

    /// The body of the answer.
    pub fn finish(self) -> Result<Value, WireError> {
        if !self.is_done() {
            return Err(WireError::Cut);
        }
        Ok(self.so_far())
    }

    /// The body of what has come, be it whole or not.
    pub fn so_far(self) -> Value {
        match self.parts {
            Assembling::Anthropic(stream) => stream.finish(),
            Assembling::Responses(stream) => stream.finish(),
            Assembling::Chat(stream) => stream.finish(),
            Assembling::Gemini(stream) => stream.finish(),
        }
    }
}

/// An object, or what stands in its place named in an error.
fn object(value: Value, what: &str) -> Result<Object, WireError> {
    match value {
        Value::Object(object) => Ok(object),
        other => Err(shape(format!("{what} is not an object but {}", kind_of(&other)))),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Takes a text out of an object; none when there is none, or something else in its place.
fn take_text(object: &mut Object, key: &str) -> Option<String> {
    match object.get(key) {
        Some(Value::String(_)) => match object.shift_remove(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Takes a text that must be there out of an object.
fn need_text(object: &mut Object, key: &str, what: &str) -> Result<String, WireError> {
    take_text(object, key).ok_or_else(|| shape(format!("{what} has no `{key}`")))
}

/// Takes a list out of an object; nothing in its place is an empty one.
fn take_list(object: &mut Object, key: &str) -> Result<Vec<Value>, WireError> {
    match object.shift_remove(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => Ok(list),
        Some(other) => Err(shape(format!("`{key}` is not a list but {}", kind_of(&other)))),
    }
}

/// A number of tokens somewhere in an object.
fn count(value: &Value, path: &[&str]) -> u64 {
    path.iter().try_fold(value, |value, key| value.get(key)).and_then(Value::as_u64).unwrap_or_default()
}

/// Keeps what a format alone knows, if there is anything.
fn keep(extra: &mut Extra, format: Format, rest: Object) {
    if !rest.is_empty() {
        extra.insert(format.name().to_owned(), Value::Object(rest));
    }
}

/// What a format alone knows.
fn kept(extra: &Extra, format: Format) -> Option<&Object> {
    extra.get(format.name()).and_then(Value::as_object)
}

/// Adds what one side says; what it says in several messages becomes one, with its parts under `key`. What the format
/// alone knows of the message stays with it.
fn say(said: &mut Vec<Object>, role: &str, (key, parts): (&str, Vec<Value>), known: Option<&Object>) {
    if parts.is_empty() {
        return;
    }
    let known = known.cloned().unwrap_or_default();
    match said.last_mut().filter(|last| last["role"] == role) {
        Some(last) => {
            if let Some(Value::Array(before)) = last.get_mut(key) {
                before.extend(parts);
            }
            last.extend(known);
        }
        None => {
            let mut fields = Object::from_iter([("role".into(), role.into()), (key.into(), parts.into())]);
            fields.extend(known);
            said.push(fields);
        }
    }
}

/// These fields and those the format alone knows; the former win.
fn with_kept(fields: Value, extra: &Extra, format: Format) -> Value {
    let mut all = match fields {
        Value::Object(fields) => fields,
        other => return other,
    };
    for (key, value) in kept(extra, format).into_iter().flatten() {
        if !all.contains_key(key) {
            all.insert(key.clone(), value.clone());
        }
    }
    Value::Object(all)
}

/// Content pleach does not know, as a part of a message.
fn native(format: Format, value: Value) -> Part {
    Part::Unknown(json!({"type": "native", "format": format.name(), "value": value}))
}

/// The content behind [`native`], if it is of this format.
fn native_of(part: &Value, format: Format) -> Option<&Value> {
    let ours = part.get("type")? == "native" && part.get("format")? == format.name();
    part.get("value").filter(|_| ours)
}

/// A part's words as blocks of `text`, or the text itself.
fn words_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Arguments that were sent as text. Text that is no JSON stays text, and the tool is told so.
fn parse_arguments(raw: &str) -> Value {
    if raw.trim().is_empty() {
        return json!({});
    }
    serde_json::from_str(raw).unwrap_or_else(|_| raw.into())
}

/// Reads arguments sent as text, and keeps the text in `rest` where it would be written differently.
fn read_arguments(raw: &str, rest: &mut Object) -> Value {
    let value = parse_arguments(raw);
    let written = value.to_string();
    if written != raw {
        rest.insert("arguments".into(), raw.into());
    }
    value
}

/// The text of arguments: the one that came, as long as it says the same.
fn write_arguments(value: &Value, known: Option<&Object>) -> String {
    let raw = known.and_then(|known| known.get("arguments")?.as_str());
    raw.filter(|raw| parse_arguments(raw) == *value).map_or_else(|| value.to_string(), str::to_owned)
}
