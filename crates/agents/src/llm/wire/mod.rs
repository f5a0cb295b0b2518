//! The API formats of model providers: JSON in, conversations out, and back. No network, no clock.
//!
//! Reading and writing loses nothing. What a provider says that pleach has no field for is kept under the name of the
//! format it came in (`extra["anthropic"]`), and goes back to servers of that format only; a kind of content pleach
//! does not know is kept whole. Thoughts go back to no other format than their own, whose server alone can check them.

mod anthropic;
mod chat;
mod gemini;
mod json;
mod responses;
pub mod sse;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use self::json::{ERROR_WORDS, JsonObject, shape};
use super::{Request, Response};
use pleach_core::event::Usage;

pub use self::json::WireError;

/// The format of a server's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Responses.
    Responses,
    /// OpenAI's Chat Completions, which many servers support.
    Chat,
    /// Google's generateContent.
    Gemini,
}

impl Format {
    /// The name under which records keep what only this format knows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => anthropic::FORMAT,
            Self::Responses => responses::FORMAT,
            Self::Chat => chat::FORMAT,
            Self::Gemini => gemini::FORMAT,
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
    pub fn stream_reply(self, body: &Value) -> Vec<sse::SseEvent> {
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
        let counts: JsonObject = counts.map(|(name, count)| (name.clone(), count.clone())).collect();
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
        let words = match self {
            Self::Anthropic => ["type", "code", "status"],
            Self::Responses | Self::Chat | Self::Gemini => ERROR_WORDS,
        };
        json::reported_error(body, words)
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
    Anthropic(anthropic::AnthropicStream),
    Responses(responses::ResponsesStream),
    Chat(chat::ChatStream),
    Gemini(gemini::GeminiStream),
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
    pub fn push(&mut self, event: &sse::SseEvent) -> Result<(), WireError> {
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
