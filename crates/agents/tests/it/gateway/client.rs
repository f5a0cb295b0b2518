//! A client of the gateway, by hand, so that it can misbehave.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::TcpStream;

/// How long the gateway may take to say anything; so long that only what hangs takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for something to be read, and fails the test when it does not come.
async fn within<T>(reading: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, reading).await.expect("the gateway says something within a minute")
}

/// A connection.
pub struct Client {
    stream: BufStream<TcpStream>,
    host: String,
}

/// The beginning of an answer.
#[derive(Debug)]
pub struct Head {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
}

/// A whole answer.
#[derive(Debug)]
pub struct Got {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Got {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// `http://127.0.0.1:1234/secret/v1` in two: the host with its port, and the path.
fn split(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("http://").expect("the gateway speaks plain HTTP");
    let at = rest.find('/').unwrap_or(rest.len());
    rest.split_at(at)
}

impl Client {
    pub async fn connect(url: &str) -> Self {
        let host = split(url).0;
        let stream = TcpStream::connect(host).await.expect("the gateway listens");
        stream.set_nodelay(true).expect("a socket");
        Self { stream: BufStream::new(stream), host: host.to_owned() }
    }

    /// Sends a request.
    pub async fn send(&mut self, method: &str, url: &str, headers: &[(&str, &str)], body: &[u8]) {
        let path = split(url).1;
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n{headers}\r\n",
            self.host,
            body.len()
        );
        // The gateway may have hung up already; then the answer is missing.
        let _ = self.stream.write_all(head.as_bytes()).await;
        let _ = self.stream.write_all(body).await;
        let _ = self.stream.flush().await;
    }

    /// Says that nothing more comes, and continues listening.
    pub async fn half_close(&mut self) {
        self.stream.get_mut().shutdown().await.expect("an open socket");
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = within(self.stream.read_line(&mut line)).await.ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// The beginning of the answer; none when there is none.
    pub async fn head(&mut self) -> Option<Head> {
        let line = self.line().await?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = BTreeMap::new();
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
        Some(Head { status, headers })
    }

    /// The next piece of a body in pieces; empty at its end, none when it broke off.
    pub async fn piece(&mut self) -> Option<Vec<u8>> {
        let length = usize::from_str_radix(&self.line().await?, 16).ok()?;
        let mut piece = vec![0; length + 2];
        within(self.stream.read_exact(&mut piece)).await.ok()?;
        piece.truncate(length);
        Some(piece)
    }

    /// The whole answer; none when it broke off.
    pub async fn answer(&mut self) -> Option<Got> {
        let Head { status, headers } = self.head().await?;
        let mut body = Vec::new();
        if headers.get("transfer-encoding").is_some_and(|encoding| encoding == "chunked") {
            loop {
                let piece = self.piece().await?;
                if piece.is_empty() {
                    break;
                }
                body.extend(piece);
            }
        } else {
            let length = headers.get("content-length").map_or(0, |length| length.parse().expect("a number"));
            body.resize(length, 0);
            within(self.stream.read_exact(&mut body)).await.ok()?;
        }
        Some(Got { status, headers, body })
    }

    /// Asks and waits for the whole answer.
    pub async fn ask(&mut self, url: &str, headers: &[(&str, &str)], body: &[u8]) -> Option<Got> {
        self.send("POST", url, headers, body).await;
        self.answer().await
    }
}

/// Posts JSON on a connection of its own.
pub async fn post(url: &str, body: &Value) -> Got {
    let mut client = Client::connect(url).await;
    client.ask(url, &[("content-type", "application/json")], body.to_string().as_bytes()).await.expect("an answer")
}
