//! The gateway between clients that speak every language and servers that play every part. Nothing leaves the machine.

mod client;
mod driven;
mod wire;

use std::borrow::Borrow;
use std::path::Path;

use agents::gateway::{CallDecision, Facts, Gateway, HeldCall, Upstream};
use agents::llm::wire::{Assembler, Format, sse};
use agents::llm::{Message, Part, Remote, Request, Response, Role, Stop, ToolSpec};
use pleach_core::config::{self, Environment, ProviderName};
use pleach_core::event::Usage;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::server::{Play, Server};
use crate::spawner::spawner;

pub const KEY: &str = "sk-real-0123456789abcdef";

pub const USAGE: Usage =
    Usage { input: 100, cache_read: 50, cache_write: 0, output: 20, reasoning: 5, cache_write_1h: 0, web_searches: 0 };

/// Every language: who speaks it, and where its calls go below the base URL.
pub const ALL: [(ProviderName, Format, &str); 4] = [
    (ProviderName::ANTHROPIC, Format::Anthropic, "/v1/messages"),
    (ProviderName::OPENAI, Format::Responses, "/responses"),
    (ProviderName::COMPATIBLE, Format::Chat, "/chat/completions"),
    (ProviderName::GEMINI, Format::Gemini, "/v1beta/models/m-1:streamGenerateContent?alt=sse"),
];

pub fn remote(
    server: &Server,
    name: impl Borrow<ProviderName>,
    change: impl FnOnce(&mut config::ServerSettings),
) -> Upstream {
    let mut given = config::ServerSettings::default();
    given.settings.api_base = Some(server.url());
    given.prices.insert("m-1".into(), config::Price { input: 1.0, output: 2.0, ..Default::default() });
    change(&mut given);
    let keys = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "COMPATIBLE_API_KEY"];
    let env = Environment::from_pairs(keys.map(|key| (key, KEY)));
    Upstream::Remote(Remote::new(name.borrow(), &given, &env, &spawner(), Path::new("/")).unwrap())
}

pub async fn open(server: &Server, name: impl Borrow<ProviderName>) -> (Gateway, UnboundedReceiver<HeldCall>) {
    Gateway::open(remote(server, name, |_| {}), Facts::default()).await.unwrap()
}

/// Lets everything through.
pub fn let_through(mut arrivals: UnboundedReceiver<HeldCall>) {
    tokio::spawn(async move {
        while let Some(arrival) = arrivals.recv().await {
            let _ = arrival.answer.send(CallDecision::Forward);
        }
    });
}

pub fn tool() -> ToolSpec {
    let properties = json!({"file_path": {"type": "string"}, "content": {"type": "string"}});
    ToolSpec {
        name: "write_file".into(),
        description: "Writes a file".into(),
        parameters: json!({"type": "object", "properties": properties}),
        extra: Default::default(),
    }
}

pub fn request(messages: &[Message]) -> Request {
    Request { model: "m-1".into(), messages: messages.to_vec(), tools: vec![tool()], ..Request::default() }
}

pub fn body(format: Format, messages: &[Message]) -> Value {
    format.encode_request(&request(messages), true)
}

pub fn says(text: &str) -> Message {
    Message::assistant(text)
}

pub fn writes(id: &str, file: &str) -> Message {
    let call = Part::tool_call(id, "write_file", json!({"file_path": file, "content": "x"}));
    Message::new(Role::Assistant, vec![Part::text(format!("I write {file}.")), call])
}

pub fn result(id: &str) -> Message {
    Message::new(Role::Tool, vec![Part::tool_result(id, "written", false)])
}

pub fn response(message: Message) -> Response {
    let stop = if message.tool_calls().next().is_some() { Stop::ToolCalls } else { Stop::End };
    Response { message, usage: USAGE, model: "m-1".into(), stop, extra: Default::default() }
}

/// An answer as a stream, an event per piece.
pub fn events(format: Format, message: Message) -> Vec<String> {
    format.stream_reply(&format.encode_reply(&response(message))).iter().map(sse::SseEvent::to_text).collect()
}

pub fn stream(format: Format, message: Message) -> Play {
    Play::Stream(events(format, message))
}

/// What a streamed body says.
pub fn read(format: Format, body: &[u8]) -> Response {
    let mut reader = sse::SseReader::default();
    let mut assembler = Assembler::new(format);
    for event in reader.push(body) {
        assembler.push(&event).unwrap();
    }
    format.decode_reply(assembler.finish().unwrap()).unwrap()
}
