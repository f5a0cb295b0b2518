//! What the gateway adds to a model call: `cargo xtask bench gateway`.
//!
//! A server on loopback streams the same answer to everybody, as a thread of its own. Calls go to it directly and through
//! a gateway that lets everything through, by turns; then many streams at once, one way after the other.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pleach::config::{self, Environment, ProviderName};
use pleach::event::Usage;
use pleach::gateway::{Facts, Gate, Gateway, Upstream};
use pleach::llm::wire::{Format, sse};
use pleach::llm::{Message, Part, Remote, Request, Response, Role, Stop, ToolSpec};
use pleach::process::Spawner;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::options::Options;
use super::samples::Samples;
use super::verdict::Verdicts;

/// What a call may take longer through the gateway, at the median.
const ADDED_MS: f64 = 1.0;

/// The words of the rules in every request: what real agents send.
const RULES: usize = 64 << 10;

/// The pieces an answer comes in.
const PIECES: usize = 60;

/// Calls before anything is measured.
const WARM_UP: usize = 20;

/// Runs the benchmark.
pub fn run(options: &Options) -> Result<Verdicts, Box<dyn Error>> {
    let server = Server::start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let found = runtime.block_on(measure(&server, options.calls, options.streams))?;
    let Found { direct, through, direct_rate, through_rate } = &found;
    println!("{} calls one after the other, {} pieces each, {} KB sent", options.calls, PIECES, RULES >> 10);
    for (what, samples) in [("direct", direct), ("through the gateway", through)] {
        println!(
            "{what:<22} p50 {:8.3} ms   p99 {:8.3} ms   best {:8.3} ms",
            samples.median(),
            samples.percentile(0.99),
            samples.best()
        );
    }
    println!("{} streams at once", options.streams);
    for (what, rate) in [("direct", direct_rate), ("through the gateway", through_rate)] {
        println!("{what:<22} {:8.0} calls/s {:8.1} MB/s", rate.calls, rate.megabytes);
    }
    let mut verdicts = Verdicts::default();
    verdicts.at_most("added to a call at p50", through.median() - direct.median(), ADDED_MS, " ms");
    println!("added to a call at p99: {:.3} ms", through.percentile(0.99) - direct.percentile(0.99));
    println!("throughput against a direct connection: {:.2} ×", through_rate.calls / direct_rate.calls);
    println!("what a turn takes to be committed and recorded comes on top: `cargo xtask bench turn-commit`");
    Ok(verdicts)
}

struct Found {
    direct: Samples,
    through: Samples,
    direct_rate: Rate,
    through_rate: Rate,
}

struct Rate {
    calls: f64,
    megabytes: f64,
}

async fn measure(server: &Server, calls: usize, streams: usize) -> Result<Found, Box<dyn Error>> {
    let (gateway, mut arrivals) = Gateway::open(upstream(&server.url())?, Facts::default()).await?;
    let gates = tokio::spawn(async move {
        let mut opened = 0;
        while let Some(arrival) = arrivals.recv().await {
            opened += usize::from(arrival.answer.send(Gate::Forward).is_ok());
        }
        opened
    });
    let ways =
        [format!("{}/v1/messages", server.url()), format!("{}/v1/messages", gateway.base_url(Format::Anthropic))];
    let mut clients = Vec::new();
    for url in &ways {
        clients.push(Client::connect(url, 0).await?);
    }
    let mut samples = [Samples::default(), Samples::default()];
    for round in 0..WARM_UP + calls {
        for (client, samples) in clients.iter_mut().zip(&mut samples) {
            let begun = Instant::now();
            client.call().await?;
            if round >= WARM_UP {
                samples.push(begun.elapsed());
            }
        }
    }
    drop(clients);
    let each = (calls / streams).max(3);
    let direct_rate = rate(&ways[0], streams, each).await?;
    let through_rate = rate(&ways[1], streams, each).await?;
    let rest = gateway.close().await;
    if !rest.warnings.is_empty() {
        return Err(rest.warnings.join("\n").into());
    }
    let [direct, through] = samples;
    let (opened, made) = (gates.await?, WARM_UP + calls + streams * (each + 1));
    if opened != made {
        return Err(format!("{opened} of {made} calls came to the gate").into());
    }
    Ok(Found { direct, through, direct_rate, through_rate })
}

/// How much goes one way when many ask at once.
async fn rate(url: &str, streams: usize, each: usize) -> Result<Rate, Box<dyn Error>> {
    let mut clients = Vec::new();
    for number in 0..streams {
        let mut client = Client::connect(url, number + 1).await?;
        client.call().await?;
        clients.push(client);
    }
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for mut client in clients {
        tasks.spawn(async move {
            let mut bytes = 0;
            for _ in 0..each {
                bytes += client.call().await.map_err(|error| error.to_string())?;
            }
            Ok::<usize, String>(bytes)
        });
    }
    let mut bytes = 0;
    while let Some(done) = tasks.join_next().await {
        bytes += done??;
    }
    let took = begun.elapsed().as_secs_f64();
    Ok(Rate { calls: (streams * each) as f64 / took, megabytes: bytes as f64 / took / 1e6 })
}

fn upstream(url: &str) -> Result<Upstream, Box<dyn Error>> {
    let mut given = config::Provider::default();
    given.settings.api_base = Some(url.to_owned());
    let env = Environment::from_pairs([("ANTHROPIC_API_KEY", "sk-bench-0123456789")]);
    let spawner = Spawner::new(Vec::new(), &env);
    Ok(Upstream::Remote(Remote::new(ProviderName::Anthropic, &given, &env, &spawner, Path::new("/"))?))
}

fn asks(client: usize) -> Message {
    let call = Part::tool_call(format!("call-{client}"), "write_file", json!({"file_path": "a", "content": "x"}));
    Message::new(Role::Assistant, vec![Part::text("word ".repeat(PIECES)), call])
}

/// The next request of an agent in the middle of its work.
fn request(client: usize, path: &str, host: &str) -> Vec<u8> {
    let result = Part::tool_result(format!("call-{client}"), "written", false);
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
                sse::Event::new(event.event.clone(), data.to_string())
            })),
            None => pieces.push(event),
        }
    }
    let chunk = |event: &sse::Event| {
        let text = event.to_text();
        format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
    };
    pieces.iter().map(chunk).chain([b"0\r\n\r\n".to_vec()]).collect()
}

/// A connection that asks the same again and again.
struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    buffer: Vec<u8>,
}

impl Client {
    async fn connect(url: &str, number: usize) -> Result<Self, Box<dyn Error>> {
        let rest = url.strip_prefix("http://").ok_or("plain HTTP")?;
        let (host, path) = rest.split_once('/').ok_or("a path")?;
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, request: request(number, &format!("/{path}"), host), buffer: vec![0; 64 << 10] })
    }

    /// Asks, and reads the answer to its end. Gives its length.
    async fn call(&mut self) -> Result<usize, Box<dyn Error>> {
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

/// A model server, on a thread of its own.
struct Server {
    port: u16,
}

impl Server {
    fn start() -> Result<Self, Box<dyn Error>> {
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

    fn url(&self) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_are_measured() {
        let server = Server::start().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let found = runtime.block_on(measure(&server, 10, 4)).unwrap();
        assert_eq!((found.direct.len(), found.through.len()), (10, 10));
        assert!(found.direct_rate.calls > 0.0 && found.through_rate.megabytes > 0.0);
        assert!(found.through.median() > 0.0);
    }
}
