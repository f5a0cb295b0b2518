//! A client that asks for the next call of the same conversation again and again.

use std::error::Error;

use agents::llm::wire::Format;
use agents::llm::{Message, Part, Request, Role, ToolSpec};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::server::asks;

/// The words of the rules in every request: what real agents send.
pub const RULES: usize = 64 << 10;

/// What a tool answers, with room for a number: no two requests are alike, or the second would be another try.
const RESULT: &str = "written 00000000";

/// The digits of that number.
const DIGITS: usize = 8;

/// The next request of an agent in the middle of its work.
fn request(client: usize, path: &str, host: &str) -> Vec<u8> {
    let result = Part::tool_result(format!("call-{client}"), RESULT, false);
    let tool = ToolSpec {
        name: "write_file".into(),
        description: "Writes a file".into(),
        parameters: json!({"type": "object"}),
        extra: Default::default(),
    };
    let request = Request {
        model: "m-1".into(),
        system: "rule ".repeat(RULES / 5),
        messages: vec![
            Message::user(format!("task client-{client}.")),
            asks(client),
            Message::new(Role::Tool, vec![result]),
        ],
        tools: vec![tool],
        ..Request::default()
    };
    let body = Format::Anthropic.encode_request(&request, true).to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}

/// A connection that goes on with one conversation.
pub struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    /// Where in the request the number stands that no other has.
    number_at: usize,
    asked: usize,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects to the address of a server's calls.
    pub async fn connect(url: &str, number: usize) -> Result<Self, Box<dyn Error>> {
        let rest = url.strip_prefix("http://").ok_or("plain HTTP")?;
        let (host, path) = rest.split_once('/').ok_or("a path")?;
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        let request = request(number, &format!("/{path}"), host);
        let result = RESULT.as_bytes();
        let at = request.windows(result.len()).position(|part| part == result).ok_or("the result of a tool")?;
        let number_at = at + result.len() - DIGITS;
        Ok(Self { stream, request, number_at, asked: 0, buffer: vec![0; 64 << 10] })
    }

    /// Asks, and reads the answer to its end. Gives its length.
    pub async fn call(&mut self) -> Result<usize, Box<dyn Error>> {
        self.asked += 1;
        let number = format!("{:0DIGITS$}", self.asked);
        self.request[self.number_at..][..DIGITS].copy_from_slice(&number.as_bytes()[..DIGITS]);
        self.stream.write_all(&self.request).await?;
        let mut tail: Vec<u8> = Vec::new();
        let mut all = 0;
        loop {
            let read = self.stream.read(&mut self.buffer).await?;
            if read == 0 {
                return Err(format!("the answer broke off after {all} bytes").into());
            }
            if all == 0 && !self.buffer.starts_with(b"HTTP/1.1 200") {
                return Err(String::from_utf8_lossy(&self.buffer[..read]).into_owned().into());
            }
            all += read;
            tail.extend_from_slice(&self.buffer[read.saturating_sub(7)..read]);
            tail.drain(..tail.len().saturating_sub(7));
            if tail == b"\r\n0\r\n\r\n" {
                return Ok(all);
            }
        }
    }
}
