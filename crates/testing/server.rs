//! A model server on loopback for the tests: plain HTTP by hand, so that every kind of misbehaviour can be played.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::Value;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The connection it came on, from 0.
    pub connection: usize,
    /// `POST /v1/messages HTTP/1.1`
    pub line: String,
    /// Headers by their name in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body, if it is JSON.
    pub body: Value,
    /// The body as it came.
    pub raw: Vec<u8>,
}

/// What the server does.
#[derive(Debug, Clone)]
pub enum Play {
    /// Answers with a status, further headers and a body, and keeps the connection.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// Streams these pieces and keeps the connection.
    Stream(Vec<String>),
    /// Streams these pieces and closes in the middle.
    Cut(Vec<String>),
    /// Streams these pieces, then nothing more until the caller goes.
    Stall(Vec<String>),
    /// Closes without a word.
    Drop,
    /// Says nothing until the caller goes.
    Hang,
    /// Answers and closes, though nothing in the answer says so.
    Close(String),
    /// Answers with a body that is no text, and keeps the connection.
    Bytes(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Streams the first piece, then the second this many times, then the last, and keeps the connection.
    Flood(String, String, usize, String),
}

type Handler = dyn Fn(&Seen, usize) -> Play + Send + Sync;

/// A server that answers as a function says: it is given the request and how many came before.
#[derive(Clone)]
pub struct Server {
    port: u16,
    state: Arc<State>,
}

struct State {
    seen: Mutex<Vec<Seen>>,
    /// Connections the caller has ended while the server was silent.
    left: Mutex<usize>,
    /// Pieces of a flood that were sent.
    sent: AtomicUsize,
    changed: Condvar,
}

impl Server {
    /// Starts a server on a free port of loopback.
    pub fn start(handler: impl Fn(&Seen, usize) -> Play + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port on loopback");
        let port = listener.local_addr().expect("a bound socket").port();
        let state = Arc::new(State {
            seen: Mutex::default(),
            left: Mutex::new(0),
            sent: AtomicUsize::new(0),
            changed: Condvar::new(),
        });
        let handler: Arc<Handler> = Arc::new(handler);
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                let (state, handler) = (Arc::clone(&shared), Arc::clone(&handler));
                let Ok(stream) = stream else { return };
                std::thread::spawn(move || serve(connection, &stream, &state, &*handler));
            }
        });
        Self { port, state }
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().expect("no handler has panicked").clone()
    }

    /// How many pieces of a flood were sent.
    pub fn sent(&self) -> usize {
        self.state.sent.load(Ordering::SeqCst)
    }

    /// Waits until this many callers have hung up on a silent server.
    pub fn wait_for_leaving(&self, count: usize) {
        let left = self.state.left.lock().expect("no handler has panicked");
        let waited = self.state.changed.wait_timeout_while(left, Duration::from_secs(20), |left| *left < count);
        assert!(!waited.expect("no handler has panicked").1.timed_out(), "nobody hung up");
    }
}

fn serve(connection: usize, stream: &TcpStream, state: &State, handler: &Handler) {
    let mut reader = BufReader::new(stream);
    while let Some(mut request) = read(&mut reader) {
        request.connection = connection;
        let before = {
            let mut seen = state.seen.lock().expect("no handler has panicked");
            seen.push(request.clone());
            seen.len() - 1
        };
        if !play(handler(&request, before), stream, &mut reader, state) {
            break;
        }
    }
    // The caller may be gone already.
    let _ = stream.shutdown(Shutdown::Both);
}

fn read(reader: &mut BufReader<&TcpStream>) -> Option<Seen> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|read| *read > 0)?;
        let Some((name, value)) = header.trim().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let raw = body;
    let body = serde_json::from_slice(&raw).unwrap_or_default();
    Some(Seen { connection: 0, line: line.trim().to_owned(), headers, body, raw })
}

/// Does what it is told; false when the connection is over.
fn play(play: Play, mut stream: &TcpStream, reader: &mut BufReader<&TcpStream>, state: &State) -> bool {
    const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut send = |text: &str| stream.write_all(text.as_bytes()).is_ok();
    let chunk = |piece: &String| format!("{:x}\r\n{piece}\r\n", piece.len());
    let chunks = |pieces: &[String]| pieces.iter().filter(|piece| !piece.is_empty()).map(chunk).collect::<Vec<_>>();
    let mut wait = || {
        // Nothing more comes from the caller but its end.
        let _ = reader.read(&mut [0; 1]);
        *state.left.lock().expect("no handler has panicked") += 1;
        state.changed.notify_all();
        false
    };
    match play {
        Play::Answer(status, headers, body) => {
            let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
            send(&head) && send(&body)
        }
        Play::Stream(pieces) => send(STREAM) && chunks(&pieces).iter().all(|chunk| send(chunk)) && send("0\r\n\r\n"),
        Play::Cut(pieces) => {
            let _ = send(STREAM) && chunks(&pieces).iter().all(|chunk| send(chunk));
            false
        }
        Play::Stall(pieces) => {
            let _ = send(STREAM) && chunks(&pieces).iter().all(|chunk| send(chunk));
            wait()
        }
        Play::Drop => false,
        Play::Hang => wait(),
        Play::Bytes(status, headers, body) => {
            let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
            send(&head) && stream.write_all(&body).is_ok()
        }
        Play::Flood(first, again, times, last) => {
            let again = chunk(&again);
            let counted = |sent: bool| {
                state.sent.fetch_add(usize::from(sent), Ordering::SeqCst);
                sent
            };
            send(STREAM)
                && send(&chunk(&first))
                && (0..times).all(|_| counted(send(&again)))
                && send(&chunk(&last))
                && send("0\r\n\r\n")
        }
        Play::Close(body) => {
            send(&format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
            false
        }
    }
}
