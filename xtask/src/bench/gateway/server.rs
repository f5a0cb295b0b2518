//! A model server that streams the same answer to everybody who asks.

use std::error::Error;
use std::sync::Arc;

use agents::llm::wire::{Format, sse};
use agents::llm::{Message, Part, Response, Role, Stop};
use pleach_core::event::Usage;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The pieces an answer comes in.
pub const PIECES: usize = 60;

/// What the model answers a client.
pub fn asks(client: usize) -> Message {
    let call = Part::tool_call(format!("call-{client}"), "write_file", json!({"file_path": "a", "content": "x"}));
    Message::new(Role::Assistant, vec![Part::text("word ".repeat(PIECES)), call])
}

/// The answer to a client, as it goes over the wire: a piece per event.
fn answer(client: usize) -> Vec<Vec<u8>> {
    let response = Response {
        message: asks(client),
        usage: Usage { input: 1000, output: 100, ..Usage::default() },
        model: "m-1".into(),
        stop: Stop::ToolCalls,
        extra: Default::default(),
    };
    let events = Format::Anthropic.stream_reply(&Format::Anthropic.encode_reply(&response));
    let mut pieces = Vec::new();
    for event in events {
        let data: serde_json::Value = serde_json::from_str(&event.data).unwrap_or_default();
        match data.pointer("/delta/text").and_then(serde_json::Value::as_str) {
            // Words come one by one.
            Some(words) => pieces.extend(words.split_inclusive(' ').map(|word| {
                let mut data = data.clone();
                data["delta"]["text"] = word.into();
                sse::SseEvent::new(event.event.clone(), data.to_string())
            })),
            None => pieces.push(event),
        }
    }
    let chunk = |event: &sse::SseEvent| {
        let text = event.to_text();
        format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
    };
    pieces.iter().map(chunk).chain([b"0\r\n\r\n".to_vec()]).collect()
}

/// A model server, on a thread of its own.
pub struct Server {
    port: u16,
}

impl Server {
    /// Starts it on a free port of loopback.
    pub fn start() -> Result<Self, Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let port = listener.local_addr()?.port();
        std::thread::spawn(move || {
            runtime.block_on(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let _ = stream.set_nodelay(true);
                    tokio::spawn(serve(stream));
                }
            });
        });
        Ok(Self { port })
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// Answers one connection until it ends.
async fn serve(mut stream: TcpStream) {
    let mut got = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let mut known: Option<(usize, Arc<Vec<Vec<u8>>>)> = None;
    loop {
        let Some(end) = whole(&got) else {
            match stream.read(&mut buffer).await {
                Ok(read) if read > 0 => got.extend_from_slice(&buffer[..read]),
                _ => return,
            }
            continue;
        };
        let client = client_of(&got[..end]);
        got.drain(..end);
        let pieces = match &known {
            Some((number, pieces)) if *number == client => Arc::clone(pieces),
            _ => Arc::new(answer(client)),
        };
        known = Some((client, Arc::clone(&pieces)));
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        if stream.write_all(head).await.is_err() {
            return;
        }
        for piece in &*pieces {
            if stream.write_all(piece).await.is_err() {
                return;
            }
        }
    }
}

/// Where the first request ends, if it is all there.
fn whole(got: &[u8]) -> Option<usize> {
    let head = got.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&got[..head]).to_ascii_lowercase();
    let length: usize = text.split("content-length: ").nth(1)?.lines().next()?.trim().parse().ok()?;
    (got.len() >= head + length).then_some(head + length)
}

/// The number in `client-7.`
fn client_of(request: &[u8]) -> usize {
    let text = String::from_utf8_lossy(request);
    let number = text.split("client-").nth(1).and_then(|rest| rest.split('.').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_default()
}
