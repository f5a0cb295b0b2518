//! A CXDB server inside the test: the binary and the HTTP port of the real one, kept in memory, and told to fail.
//!
//! It answers as the public snapshot of 2026-02 was captured to, its defects included: a bad request closes the
//! connection, an idempotency key is not looked at, a frame goes out in five writes without `TCP_NODELAY`, a fork is not
//! found by its tag. Not kept: compressed payloads (refused), filesystem snapshots (read over), enums, references and
//! times in typed views (plain), pages (`before_turn_id`), `view=both`, and the clock, which counts events.
//!
//! One lock guards all state. A connection's own lock orders what is written to it; it is taken before that of the state,
//! never after it.

#![allow(dead_code, reason = "each test file that includes this uses a part of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

type Hash = [u8; 32];

const HELLO: u16 = 1;
const CTX_CREATE: u16 = 2;
const CTX_FORK: u16 = 3;
const GET_HEAD: u16 = 4;
const APPEND_TURN: u16 = 5;
const GET_LAST: u16 = 6;
const GET_BLOB: u16 = 9;
const PUT_BLOB: u16 = 11;
const ERROR: u16 = 255;
const LARGEST_FRAME: usize = 64 << 20;
/// The first moment of the server's clock, in milliseconds.
const EPOCH: u64 = 1_795_050_500_000;

/// A running server. Dropping it closes both ports and every connection.
#[derive(Debug)]
pub struct CxdbServer {
    shared: Arc<Shared>,
    ports: [u16; 2],
    doors: Vec<JoinHandle<()>>,
}

/// A turn as the server keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredTurn {
    /// Its id, unique on the server.
    pub turn: u64,
    /// The turn before it, 0 for a first one.
    pub parent: u64,
    /// How many turns are before it.
    pub depth: u32,
    /// Its declared type.
    pub type_id: String,
    /// The declared version of the type.
    pub version: u32,
    /// Its declared encoding, 1 for msgpack.
    pub encoding: u32,
    /// BLAKE3 of the payload.
    pub hash: Hash,
    /// What the client wrote.
    pub payload: Vec<u8>,
}

impl CxdbServer {
    /// Starts an empty server on two ports of the loopback that the system chooses.
    pub fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let listeners = [Door::Frames, Door::Http].map(|door| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
            (listener.local_addr().expect("a bound listener has an address").port(), listener, door)
        });
        let ports = [listeners[0].0, listeners[1].0];
        let doors = listeners.map(|(_, listener, door)| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || accept(&listener, door, &shared))
        });
        Self { shared, ports, doors: doors.into() }
    }

    /// Where it listens, as `127.0.0.1:BINARY,http=HTTP`.
    pub fn address(&self) -> String {
        let [binary, http] = self.ports;
        format!("127.0.0.1:{binary},http={http}")
    }

    /// The process ends and begins anew: every connection is closed, all contexts, turns, blobs and bundles are gone, ids
    /// begin at 1. The ports stay, and so do the faults that were set.
    pub fn restart_without_data(&self) {
        let mut state = self.shared.state();
        state.store = Store::default();
        state.close_all();
    }

    /// The next `n` appends are stored and not answered; with the last of them their connections are closed.
    pub fn close_after(&self, n: usize) {
        self.shared.state().faults.close = (n > 0).then_some(n);
    }

    /// After `n` more answered appends, the next one is stored, half of its answer is sent, and the connection closed.
    pub fn half_a_frame_after(&self, n: usize) {
        self.shared.state().faults.half = Some(n);
    }

    /// After `n` more appends, requests are worked and nothing is answered, on both ports, until [`Self::speak`].
    pub fn silent_after(&self, n: usize) {
        let mut state = self.shared.state();
        state.faults.is_silent = n == 0;
        state.faults.silence = (n > 0).then_some(n);
    }

    /// Ends a silence. What was worked meanwhile is answered now, in order, where the connection still stands.
    pub fn speak(&self) {
        let mut state = self.shared.state();
        (state.faults.is_silent, state.faults.silence) = (false, None);
        let connections: Vec<_> = state.connections.values().cloned().collect();
        drop(state);
        self.shared.changed.notify_all();
        for connection in connections {
            // A client that has gone does not read what was kept for it.
            _ = connection.send(&[], false, &self.shared);
        }
    }

    /// After `n` more appends, the next one is answered with ERROR 500 "no space" and not stored.
    pub fn error_after(&self, n: usize) {
        self.shared.state().faults.error = Some(n);
    }

    /// After `n` more appends, the next one gets a sibling at once: another client's, on the same parent.
    pub fn sibling_after(&self, n: usize) {
        self.shared.state().faults.sibling = Some(n);
    }

    /// A turn of a context is no longer in its chain.
    pub fn lose(&self, context: u64, index: usize) {
        let chain = self.chain(context);
        let mut state = self.shared.state();
        let next = state.store.turns.iter_mut().find(|turn| turn.turn == chain[index + 1].turn);
        next.expect("another one follows").parent = chain[index].parent;
    }

    /// The connection of the next request is gone, as after a long silence: the request is not worked.
    pub fn hang_up(&self) {
        self.shared.state().faults.hang_up = true;
    }

    /// Whether connections are closed as soon as they are accepted, on both ports. Open ones stay.
    pub fn refuse(&self, refuse: bool) {
        self.shared.state().faults.refuse = refuse;
    }

    /// Whether a typed view fails whole, with 424, for one turn of an unknown type version. The public source does that;
    /// without it, only that turn's `data` is left out.
    pub fn strict_types(&self, strict: bool) {
        self.shared.state().faults.strict_types = strict;
    }

    /// Appends a turn at the context's head, as another client would, and returns its id. No fault counts it.
    pub fn append_foreign(&self, context: u64) -> u64 {
        let mut state = self.shared.state();
        let parent = state.store.parent_of(context, 0).expect("the context is known");
        let turn = state.store.append(context, parent, foreign()).turn;
        self.shared.changed.notify_all();
        turn
    }

    /// The ids of all contexts.
    pub fn contexts(&self) -> Vec<u64> {
        self.shared.state().store.contexts.keys().copied().collect()
    }

    /// The turns of a context, oldest first, by their parents from its head. Empty for an unknown context.
    pub fn chain(&self, context: u64) -> Vec<StoredTurn> {
        let state = self.shared.state();
        let head = state.store.contexts.get(&context).map_or(0, |context| context.head);
        state.store.chain(head, usize::MAX).into_iter().cloned().collect()
    }

    /// What a typed view shows of a context's turns, oldest first: their types and fields; null where a type is unknown.
    pub fn shown(&self, context: u64) -> Vec<(String, Value)> {
        let chain = self.chain(context);
        let state = self.shared.state();
        let fields = |turn: &StoredTurn| state.store.registry.typed(turn, true).map_or(Value::Null, |fields| fields);
        chain.iter().map(|turn| (turn.type_id.clone(), fields(turn))).collect()
    }

    /// How many turns were stored since the start or the last restart, those no context leads to included.
    pub fn turns(&self) -> usize {
        self.shared.state().store.turns.len()
    }

    /// The ids of all bundles.
    pub fn bundles(&self) -> Vec<String> {
        self.shared.state().store.registry.bundles.keys().cloned().collect()
    }

    /// The contexts a search for the tag finds: those whose own first turn has it, not their forks.
    pub fn contexts_of(&self, tag: &str) -> Vec<u64> {
        self.shared.state().store.tagged(tag).collect()
    }

    /// How many connections the binary port has accepted since the start, refused ones included.
    pub fn accepted(&self) -> usize {
        self.shared.state().accepted
    }

    /// Waits until at least `n` turns are stored; false when the time is over before.
    pub fn appended(&self, n: usize, timeout: Duration) -> bool {
        self.wait_while(timeout, |state| state.store.turns.len() < n)
    }

    /// Waits until at least `n` requests were worked, appends among them; false when the time is over before.
    pub fn worked(&self, n: usize, timeout: Duration) -> bool {
        self.wait_while(timeout, |state| state.worked < n)
    }

    fn wait_while(&self, timeout: Duration, are_few: impl Fn(&mut State) -> bool) -> bool {
        let waited = self.shared.changed.wait_timeout_while(self.shared.state(), timeout, are_few);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for CxdbServer {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.is_stopping = true;
        state.close_all();
        drop(state);
        self.shared.changed.notify_all();
        for (port, door) in self.ports.into_iter().zip(self.doors.drain(..)) {
            // Only a connection wakes a thread that accepts.
            _ = TcpStream::connect(("127.0.0.1", port));
            _ = door.join();
        }
    }
}

// ---- Connections

#[derive(Debug, Clone, Copy, PartialEq)]
enum Door {
    Frames,
    Http,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    store: Store,
    faults: Faults,
    connections: BTreeMap<u64, Arc<Connection>>,
    opened: u64,
    accepted: usize,
    worked: usize,
    is_stopping: bool,
}

/// What is to go wrong. A number counts the appends that come before it.
#[derive(Debug, Default)]
struct Faults {
    refuse: bool,
    hang_up: bool,
    strict_types: bool,
    is_silent: bool,
    silence: Option<usize>,
    error: Option<usize>,
    half: Option<usize>,
    sibling: Option<usize>,
    close: Option<usize>,
    /// The connections with appends that were not answered, to be closed with the last of them.
    muted: BTreeSet<u64>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    /// The server counts a session for every connection, whether or not it says HELLO.
    session: u64,
    /// Answers kept back in a silence.
    held: Mutex<Vec<u8>>,
}

impl Shared {
    /// The state, also after a panic: the test that panicked says why, and the rest can still be taken down.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Sends an answer after those held back, or holds it when it was made in a silence that has not ended. As in the real
    /// server, each field of a header is a write and Nagle's algorithm is on: a client that acknowledges late waits.
    fn send(&self, answer: &[u8], made_in_silence: bool, shared: &Shared) -> io::Result<()> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if made_in_silence && shared.state().faults.is_silent {
            held.extend(answer);
            return Ok(());
        }
        let (mut stream, mut rest) = (&self.stream, answer);
        stream.write_all(&std::mem::take(&mut *held))?;
        for field in [4, 2, 2, 8, usize::MAX] {
            let (now, later) = rest.split_at(field.min(rest.len()));
            stream.write_all(now)?;
            rest = later;
        }
        Ok(())
    }

    fn shut(&self) {
        // It may be closed from the other side already.
        _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl State {
    fn close_all(&mut self) {
        std::mem::take(&mut self.connections).values().for_each(|connection| connection.shut());
        self.faults.muted.clear();
    }

    /// Takes a connection in, unless it is to be refused.
    fn admit(&mut self, stream: TcpStream, door: Door) -> Option<(u64, Arc<Connection>)> {
        self.accepted += usize::from(door == Door::Frames);
        if self.faults.refuse {
            return None;
        }
        self.opened += 1;
        self.store.sessions_begun += u64::from(door == Door::Frames);
        let session = self.store.sessions_begun;
        let connection = Arc::new(Connection { stream, session, held: Mutex::default() });
        self.connections.insert(self.opened, Arc::clone(&connection));
        Some((self.opened, connection))
    }

    /// Works one request: what is sent, and whether the connection stays. None closes it without a word.
    fn work(&mut self, id: u64, frame: &Frame) -> Option<(Vec<u8>, bool)> {
        // None also when a restart came between reading the request and now.
        let connection = Arc::clone(self.connections.get(&id)?);
        if std::mem::take(&mut self.faults.hang_up) {
            return None;
        }
        let (kind, payload) =
            if frame.kind == APPEND_TURN { self.append(frame)? } else { self.store.work(&connection, frame)? };
        let answer = encode_frame(kind, frame.request, &payload);
        self.worked += 1;
        if kind == APPEND_TURN {
            self.count_append(id)?;
        }
        // Answers come in order: after one was left out, none follows on its connection.
        if self.faults.muted.contains(&id) {
            return Some((Vec::new(), true));
        }
        let is_half = kind == APPEND_TURN && is_due(&mut self.faults.half);
        Some(if is_half { (answer[..answer.len() / 2].to_vec(), false) } else { (answer, true) })
    }

    /// Stores a turn, unless there is to be no space for it.
    fn append(&mut self, frame: &Frame) -> Option<(u16, Vec<u8>)> {
        let (context, turn) = parse_append(frame)?;
        let parent = self.store.parent_of(context, turn.parent)?;
        if is_due(&mut self.faults.error) {
            return Some((ERROR, error_reply(500, "no space")));
        }
        let StoredTurn { turn, depth, hash, .. } = self.store.append(context, parent, turn);
        let answer = [&context.to_le_bytes()[..], &turn.to_le_bytes(), &depth.to_le_bytes(), hash].concat();
        if is_due(&mut self.faults.sibling) {
            self.store.append(context, parent, foreign());
        }
        Some((APPEND_TURN, answer))
    }

    /// What the faults do after a stored append. None when its connection is closed.
    fn count_append(&mut self, id: u64) -> Option<()> {
        let faults = &mut self.faults;
        if let Some(left) = faults.silence {
            faults.silence = (left > 1).then_some(left - 1);
            faults.is_silent = left == 1;
        }
        let Some(left) = faults.close else { return Some(()) };
        faults.muted.insert(id);
        faults.close = (left > 1).then_some(left - 1);
        if left > 1 {
            return Some(());
        }
        let closed = std::mem::take(&mut faults.muted);
        closed.iter().filter_map(|id| self.connections.remove(id)).for_each(|connection| connection.shut());
        None
    }
}

/// A turn of another client.
fn foreign() -> StoredTurn {
    let (type_id, payload) = ("com.example.Note".to_owned(), b"\x81\x01\xa4note".to_vec()); // {1: "note"}
    let hash = *blake3::hash(&payload).as_bytes();
    StoredTurn { turn: 0, parent: 0, depth: 0, type_id, version: 1, encoding: 1, hash, payload }
}

/// Counts down, and is true once, when nothing is left to count.
fn is_due(count: &mut Option<usize>) -> bool {
    let is_due = *count == Some(0);
    *count = count.and_then(|left| left.checked_sub(1));
    is_due
}

fn accept(listener: &TcpListener, door: Door, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let mut state = shared.state();
        if state.is_stopping {
            return;
        }
        let Some((id, connection)) = stream.ok().and_then(|stream| state.admit(stream, door)) else { continue };
        drop(state);
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            let ended = match door {
                Door::Frames => serve_frames(&shared, id, &connection),
                Door::Http => serve_http(&shared, id, &connection),
            };
            connection.shut();
            let mut state = shared.state();
            // The server forgets a session when its client goes, and keeps it when an error ends the connection.
            if state.connections.remove(&id).is_some() && door == Door::Frames && ended.is_ok() {
                state.store.sessions.remove(&connection.session);
            }
        });
    }
}

/// Answers requests one after the other, until the client goes or something is wrong.
fn serve_frames(shared: &Shared, id: u64, connection: &Connection) -> io::Result<()> {
    let mut input = BufReader::new(&connection.stream);
    loop {
        let frame = match read_frame(&mut input) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            frame => frame?,
        };
        let mut state = shared.state();
        let in_silence = state.faults.is_silent;
        let outcome = state.work(id, &frame);
        drop(state);
        shared.changed.notify_all();
        let (answer, stays) = outcome.ok_or(io::ErrorKind::InvalidInput)?;
        connection.send(&answer, in_silence, shared)?;
        if !stays {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
    }
}

// ---- Frames

#[derive(Debug)]
struct Frame {
    kind: u16,
    flags: u16,
    request: u64,
    payload: Vec<u8>,
}

fn read_frame(input: &mut impl Read) -> io::Result<Frame> {
    let mut header = [0; 16];
    input.read_exact(&mut header)?;
    let [l0, l1, l2, l3, k0, k1, f0, f1, request @ ..] = header;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if length > LARGEST_FRAME {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut payload = vec![0; length];
    input.read_exact(&mut payload)?;
    let [kind, flags] = [[k0, k1], [f0, f1]].map(u16::from_le_bytes);
    Ok(Frame { kind, flags, request: u64::from_le_bytes(request), payload })
}

fn encode_frame(kind: u16, request: u64, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    [&length[..], &kind.to_le_bytes(), &[0; 2], &request.to_le_bytes(), payload].concat()
}

fn error_reply(code: u32, text: &str) -> Vec<u8> {
    [&code.to_le_bytes(), &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

/// Takes the next bytes; none when they are cut short, which closes the connection.
fn bytes_of<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(*bytes)
}

fn u32_of(input: &mut &[u8]) -> Option<u32> {
    bytes_of(input).map(u32::from_le_bytes)
}

fn u64_of(input: &mut &[u8]) -> Option<u64> {
    bytes_of(input).map(u64::from_le_bytes)
}

/// Takes bytes that follow their length.
fn sized_of<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32_of(input)? as usize;
    input.split_off(..length)
}

/// The tag a client gives itself. The rest of its HELLO is checked and not used.
fn hello_tag(mut input: &[u8]) -> Option<String> {
    if input.is_empty() {
        return Some(String::new());
    }
    let [_version, length] = [bytes_of(&mut input)?, bytes_of(&mut input)?].map(u16::from_le_bytes);
    let tag = input.split_off(..usize::from(length))?;
    let _meta = sized_of(&mut input)?;
    String::from_utf8(tag.to_vec()).ok()
}

/// The context an append names, and its turn without an id yet.
fn parse_append(frame: &Frame) -> Option<(u64, StoredTurn)> {
    let input = &mut &frame.payload[..];
    let (context, parent) = (u64_of(input)?, u64_of(input)?);
    let type_id = String::from_utf8(sized_of(input)?.to_vec()).ok()?;
    let (version, encoding, compression, length) = (u32_of(input)?, u32_of(input)?, u32_of(input)?, u32_of(input)?);
    let hash: Hash = bytes_of(input)?;
    let payload = sized_of(input)?.to_vec();
    let _idempotency_key = sized_of(input)?;
    if frame.flags & 1 != 0 {
        let _filesystem: Hash = bytes_of(input)?;
    }
    let is_right = compression == 0 && length as usize == payload.len() && *blake3::hash(&payload).as_bytes() == hash;
    is_right.then_some((context, StoredTurn { turn: 0, parent, depth: 0, type_id, version, encoding, hash, payload }))
}

// ---- Storage

#[derive(Debug, Default)]
struct Store {
    /// A turn's id is its place, from 1.
    turns: Vec<StoredTurn>,
    contexts: BTreeMap<u64, Context>,
    contexts_created: u64,
    blobs: BTreeMap<Hash, Vec<u8>>,
    registry: Registry,
    sessions: BTreeMap<u64, Session>,
    sessions_begun: u64,
    events: u64,
}

#[derive(Debug, Default)]
struct Context {
    head: u64,
    depth: u32,
    /// When its head was moved last.
    at: u64,
    /// Tag and title of the first turn that was appended in it, which searches go by.
    labels: [Option<String>; 2],
}

#[derive(Debug)]
struct Session {
    tag: String,
    peer: String,
    contexts: BTreeSet<u64>,
}

impl Store {
    /// Works a request other than an append: kind and payload of the answer, or none to close the connection.
    fn work(&mut self, connection: &Connection, frame: &Frame) -> Option<(u16, Vec<u8>)> {
        let input = &mut &frame.payload[..];
        let payload = match frame.kind {
            HELLO => {
                self.session(connection, hello_tag(input)?);
                [&connection.session.to_le_bytes()[..], &1u16.to_le_bytes()].concat()
            }
            CTX_CREATE | CTX_FORK => {
                let context = self.create(u64_of(input)?)?;
                self.session(connection, String::new()).contexts.insert(context);
                self.head(context)?
            }
            GET_HEAD => self.head(u64_of(input)?)?,
            GET_LAST => self.last(input)?,
            GET_BLOB => {
                let blob = self.blobs.get(*input)?;
                [&(blob.len() as u32).to_le_bytes(), &blob[..]].concat()
            }
            PUT_BLOB => {
                let (hash, blob): (Hash, _) = (bytes_of(input)?, sized_of(input)?);
                let blob = (*blake3::hash(blob).as_bytes() == hash).then(|| blob.to_vec())?;
                [&hash[..], &[self.blobs.insert(hash, blob).is_none().into()]].concat()
            }
            _ => return Some((ERROR, error_reply(422, "unknown msg_type"))),
        };
        Some((frame.kind, payload))
    }

    /// The session of a connection, which its first word begins.
    fn session(&mut self, connection: &Connection, tag: String) -> &mut Session {
        self.sessions.entry(connection.session).or_insert_with(|| {
            let peer = connection.stream.peer_addr().map(|peer| peer.to_string()).unwrap_or_default();
            Session { tag, peer, contexts: BTreeSet::new() }
        })
    }

    fn turn(&self, id: u64) -> Option<&StoredTurn> {
        self.turns.get(usize::try_from(id.checked_sub(1)?).ok()?)
    }

    /// The newest `limit` turns that lead to a head, oldest first.
    fn chain(&self, head: u64, limit: usize) -> Vec<&StoredTurn> {
        let newest_first = std::iter::successors(self.turn(head), |turn| self.turn(turn.parent));
        let mut chain: Vec<_> = newest_first.take(limit).collect();
        chain.reverse();
        chain
    }

    fn move_head(&mut self, context: u64, head: u64) -> &mut Context {
        self.events += 1;
        let depth = self.turn(head).map_or(0, |head| head.depth);
        let context = self.contexts.entry(context).or_default();
        (context.head, context.depth, context.at) = (head, depth, EPOCH + self.events);
        context
    }

    fn create(&mut self, base: u64) -> Option<u64> {
        if base != 0 {
            self.turn(base)?;
        }
        self.contexts_created += 1;
        self.move_head(self.contexts_created, base);
        Some(self.contexts_created)
    }

    fn head(&self, id: u64) -> Option<Vec<u8>> {
        let context = self.contexts.get(&id)?;
        Some([&id.to_le_bytes()[..], &context.head.to_le_bytes(), &context.depth.to_le_bytes()].concat())
    }

    fn last(&self, input: &mut &[u8]) -> Option<Vec<u8>> {
        let (context, limit, with_payload) = (u64_of(input)?, u32_of(input)?, u32_of(input)? != 0);
        let turns = self.chain(self.contexts.get(&context)?.head, limit as usize);
        let mut out = (turns.len() as u32).to_le_bytes().to_vec();
        for turn in turns {
            let length = turn.payload.len() as u32;
            out.extend([turn.turn, turn.parent].map(u64::to_le_bytes).as_flattened());
            out.extend([turn.depth, turn.type_id.len() as u32].map(u32::to_le_bytes).as_flattened());
            out.extend(turn.type_id.as_bytes());
            out.extend([turn.version, turn.encoding, 0, length].map(u32::to_le_bytes).as_flattened());
            out.extend(turn.hash);
            if with_payload {
                out.extend(length.to_le_bytes());
                out.extend(&turn.payload);
            }
        }
        Some(out)
    }

    /// The parent a turn is to have, 0 for none. A parent that is named is looked up and the context is not: as in the real
    /// server, such an append makes a context that was never created.
    fn parent_of(&self, context: u64, named: u64) -> Option<u64> {
        if named == 0 { Some(self.contexts.get(&context)?.head) } else { Some(self.turn(named)?.turn) }
    }

    fn append(&mut self, context: u64, parent: u64, turn: StoredTurn) -> &StoredTurn {
        let id = self.turns.len() as u64 + 1;
        let depth = self.turn(parent).map_or(0, |parent| parent.depth + 1);
        self.blobs.insert(turn.hash, turn.payload.clone());
        let labels = (depth == 0).then(|| labels_of(&turn.payload));
        self.turns.push(StoredTurn { turn: id, parent, depth, ..turn });
        let context = self.move_head(context, id);
        if let Some(labels) = labels {
            context.labels = labels;
        }
        &self.turns[self.turns.len() - 1]
    }

    fn tagged(&self, tag: &str) -> impl DoubleEndedIterator<Item = u64> {
        let has_tag = |context: &Context| context.labels[0].as_deref() == Some(tag);
        self.contexts.iter().filter(move |(_, context)| has_tag(context)).map(|(id, _)| *id)
    }
}

/// Tag and title in a first payload, under key 30.
fn labels_of(payload: &[u8]) -> [Option<String>; 2] {
    let payload = unpack(&mut &payload[..]).unwrap_or_default();
    ["1", "2"].map(|key| payload["30"][key].as_str().map(str::to_owned))
}

// ---- Bundles

/// An answer over HTTP: status, kind of content, content.
type Reply = (u16, &'static str, Vec<u8>);

#[derive(Debug, Default)]
struct Registry {
    /// As they came, and parsed.
    bundles: BTreeMap<String, (Vec<u8>, Value)>,
    last: Option<String>,
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// The versions of a type in a bundle, with their fields.
fn versions<'a>(bundle: &'a Value, type_id: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    entries(&bundle["types"][type_id]["versions"]).map(|(version, spec)| (version, &spec["fields"]))
}

impl Registry {
    /// Keeps a bundle under the id in its body; what the path says is not looked at. Of a refused bundle nothing is kept,
    /// where the real server may keep types it read before the one it refused.
    fn put(&mut self, body: &[u8]) -> Result<Reply, Reply> {
        let bundle: Value =
            serde_json::from_slice(body).map_err(|error| refusal(422, format!("invalid json: {error}")))?;
        let has_version = bundle["registry_version"].as_u64().is_some_and(|version| version > 0);
        let id = bundle["bundle_id"].as_str().filter(|_| has_version).map(str::to_owned);
        let id = id.ok_or_else(|| refusal(422, "invalid json: no registry_version and bundle_id"))?;
        match self.bundles.get(&id) {
            Some((known, _)) if known == body => return Ok((204, "", Vec::new())),
            Some(_) => return Err(refusal(422, "bundle_id already exists with different content")),
            None => {}
        }
        for (type_id, _) in entries(&bundle["types"]) {
            versions(&bundle, type_id).try_for_each(|new| self.check(type_id, new, &bundle))?;
        }
        let answer = reply(201, json!({"bundle_id": id}));
        self.last = Some(id.clone());
        self.bundles.insert(id, (body.to_vec(), bundle));
        Ok(answer)
    }

    /// A version of a type is never changed, and a tag keeps its type in all versions, whichever bundle they are in.
    fn check(&self, type_id: &str, (version, fields): (&String, &Value), bundle: &Value) -> Result<(), Reply> {
        let all = || self.bundles.values().map(|(_, known)| known).chain([bundle]);
        let known: Vec<_> = all().flat_map(|known| versions(known, type_id)).collect();
        if known.iter().any(|(other, known)| *other == version && compared(known) != compared(fields)) {
            return Err(refusal(422, format!("type {type_id} version {version} differs from existing")));
        }
        for (tag, field) in entries(fields) {
            let mut known = known.iter().filter_map(|(_, known)| known.get(tag));
            if known.any(|known| ["type", "enum"].iter().any(|key| known[*key] != field[*key])) {
                return Err(refusal(422, format!("tag reuse conflict for type {type_id} tag {tag}")));
            }
        }
        Ok(())
    }

    /// A payload with the names of its type's fields for their tags; null when the type is unknown.
    fn typed(&self, turn: &StoredTurn, numbers: bool) -> Result<Value, Reply> {
        let version = turn.version.to_string();
        let mut known = self.bundles.values().flat_map(|(_, bundle)| versions(bundle, &turn.type_id));
        let Some((_, fields)) = known.find(|(known, _)| **known == version) else { return Ok(Value::Null) };
        let payload = unpack(&mut &turn.payload[..]).filter(Value::is_object);
        let payload = payload.ok_or_else(|| refusal(422, "payload is not a map"))?;
        let named = entries(fields).filter_map(|(tag, field)| {
            let value = typed_value(field["type"].as_str()?, payload.get(tag)?.clone(), numbers);
            Some((field["name"].as_str()?.to_owned(), value))
        });
        Ok(named.collect())
    }
}

/// The fields of a version as they are compared: what else a bundle says of them makes no difference.
fn compared<'a>(fields: &'a Value) -> BTreeMap<&'a String, ([&'a Value; 5], bool)> {
    let compared = |field: &'a Value| {
        let is_optional = field["optional"].as_bool().unwrap_or_default();
        (["name", "type", "enum", "ref", "items"].map(|key| &field[key]), is_optional)
    };
    entries(fields).map(|(tag, field)| (tag, compared(field))).collect()
}

/// A value as its field's type has it, null when it is of another one.
fn typed_value(kind: &str, value: Value, numbers: bool) -> Value {
    match kind {
        "string" if !value.is_string() => Value::Null,
        "bool" if !value.is_boolean() => Value::Null,
        "array" if !value.is_array() => Value::Null,
        "u64" | "uint64" | "i64" | "int64" if !value.is_u64() => Value::Null,
        "u32" | "uint32" | "u8" | "uint8" | "int32" if !value.is_i64() => Value::Null,
        "u32" | "uint32" | "u8" | "uint8" | "int32" => value,
        _ => plain(value, numbers),
    }
}

// ---- HTTP

/// An answer with its keys in order, as the real server writes them.
fn reply(status: u16, mut body: Value) -> Reply {
    body.sort_all_objects();
    (status, "Content-Type: application/json\r\n", body.to_string().into())
}

fn refusal(status: u16, message: impl Into<String>) -> Reply {
    reply(status, json!({"error": {"code": status, "message": message.into()}}))
}

/// Answers the one request of a connection.
fn serve_http(shared: &Shared, id: u64, connection: &Connection) -> io::Result<()> {
    let mut input = BufReader::new(&connection.stream);
    let lines = input.by_ref().lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let length =
        head.iter().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    input.read_exact(&mut body)?;
    let mut words = head.first().map_or("", String::as_str).split(' ');
    let mut state = shared.state();
    if !state.connections.contains_key(&id) {
        return Ok(());
    }
    let reply = state.route(words.next().unwrap_or_default(), words.next().unwrap_or_default(), &body);
    drop(shared.changed.wait_while(state, |state| state.faults.is_silent && !state.is_stopping));
    let (Ok((status, kind, body)) | Err((status, kind, body))) = reply;
    let length = body.len();
    let head = format!("HTTP/1.1 {status} -\r\n{kind}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    (&connection.stream).write_all(&[head.as_bytes(), &body].concat())
}

type Query = BTreeMap<String, String>;

fn query_of(text: &str) -> Query {
    let pairs = text.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(name, value)| (decode(name), decode(value))).collect()
}

fn decode(text: &str) -> String {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, later)) = rest.split_first() {
        let digits = later.get(..2).filter(|_| *first == b'%').and_then(|digits| str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(byte.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = if byte.is_some() { &later[2..] } else { later };
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn limit_of(query: &Query, default: usize) -> usize {
    query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(default)
}

impl State {
    fn route(&mut self, method: &str, target: &str, body: &[u8]) -> Result<Reply, Reply> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (query, segments) = (query_of(query), path.split('/').skip(1).collect::<Vec<_>>());
        match (method, &segments[..]) {
            ("GET", ["healthz"]) => Ok((200, "Content-Type: text/plain\r\n", b"ok".to_vec())),
            ("PUT", ["v1", "registry", "bundles", _]) => self.store.registry.put(body),
            ("GET", ["v1", "registry", "bundles", id]) => {
                let bundle = self.store.registry.bundles.get(*id).ok_or_else(|| refusal(404, "bundle"))?;
                Ok((200, "Content-Type: application/json\r\n", bundle.0.clone()))
            }
            ("GET", ["v1", "contexts"]) => Ok(reply(200, self.store.overview(&query))),
            ("GET", ["v1", "contexts", "search"]) => self.store.search(&query),
            ("GET", ["v1", "contexts", id, "turns"]) => {
                let id = id.parse().map_err(|_| refusal(422, "invalid context_id"))?;
                self.turns_view(id, &query)
            }
            _ => Err(refusal(404, "route")),
        }
    }

    fn turns_view(&self, id: u64, query: &Query) -> Result<Reply, Reply> {
        let context = self.store.contexts.get(&id).ok_or_else(|| refusal(404, "context"))?;
        let turns = self.store.chain(context.head, limit_of(query, 64));
        let views: Result<Vec<_>, _> = turns.iter().map(|turn| self.turn_view(turn, query)).collect();
        let meta = json!({"context_id": id.to_string(), "head_depth": context.depth,
            "head_turn_id": context.head.to_string(), "registry_bundle_id": self.store.registry.last});
        let next = turns.first().map(|turn| turn.turn.to_string());
        Ok(reply(200, json!({"meta": meta, "next_before_turn_id": next, "turns": views?})))
    }

    fn turn_view(&self, turn: &StoredTurn, query: &Query) -> Result<Value, Reply> {
        let declared = json!({"type_id": turn.type_id, "type_version": turn.version});
        let mut out = json!({"declared_type": declared, "depth": turn.depth,
            "parent_turn_id": turn.parent.to_string(), "turn_id": turn.turn.to_string()});
        if query.get("view").is_some_and(|view| view == "raw") {
            out["bytes_b64"] = STANDARD.encode(&turn.payload).into();
            out["compression"] = 0.into();
            out["content_hash_b3"] = blake3::Hash::from(turn.hash).to_string().into();
            out["encoding"] = turn.encoding.into();
            out["uncompressed_len"] = turn.payload.len().into();
            return Ok(out);
        }
        let numbers = query.get("u64_format").is_some_and(|format| format == "number");
        match self.store.registry.typed(turn, numbers)? {
            Value::Null if self.faults.strict_types => return Err(refusal(424, "type descriptor")),
            Value::Null => {}
            data => (out["data"], out["decoded_as"]) = (data, declared),
        }
        Ok(out)
    }
}

impl Store {
    /// What search and overview both say of a context, and the session that created it, while the server knows of it.
    fn entry(&self, id: u64) -> (Value, Option<(&u64, &Session)>) {
        let context = &self.contexts[&id];
        let session = self.sessions.iter().find(|(_, session)| session.contexts.contains(&id));
        let entry = json!({"context_id": id.to_string(), "created_at_unix_ms": context.at, "head_depth": context.depth,
            "head_turn_id": context.head.to_string(), "is_live": session.is_some()});
        (entry, session)
    }

    /// Of the query language only `tag = "X"` is known.
    fn search(&self, query: &Query) -> Result<Reply, Reply> {
        let text = query.get("q").map_or("", String::as_str);
        let tag = text.trim().strip_prefix("tag").and_then(|rest| rest.trim().strip_prefix('='));
        let tag = tag.and_then(|rest| rest.trim().strip_prefix('"')?.strip_suffix('"'));
        let tag = tag.ok_or_else(|| reply(400, json!({"error": "only tag = \"X\" is known here"})))?;
        let found = self.tagged(tag).rev().take(limit_of(query, usize::MAX)).map(|id| {
            let mut entry = self.entry(id).0;
            entry["client_tag"] = tag.into();
            self.contexts[&id].labels[1].iter().for_each(|title| entry["title"] = title.as_str().into());
            entry
        });
        let (found, count) = (found.collect::<Vec<_>>(), self.tagged(tag).count());
        Ok(reply(200, json!({"contexts": found, "elapsed_ms": 0, "query": text, "total_count": count})))
    }

    /// All contexts, newest head first, and the sessions. Here a fork has the tag of the turn its chain begins with.
    fn overview(&self, query: &Query) -> Value {
        let mut contexts: Vec<_> = self.contexts.iter().collect();
        contexts.sort_by_key(|(_, context)| std::cmp::Reverse(context.at));
        let contexts = contexts.into_iter().take(limit_of(query, 20)).map(|(id, context)| {
            let (mut entry, session) = self.entry(*id);
            let chain = self.chain(context.head, usize::MAX);
            let [tag, _] = chain.first().map(|turn| labels_of(&turn.payload)).unwrap_or_default();
            let tag = tag.or_else(|| Some(session?.1.tag.clone())).filter(|tag| !tag.is_empty());
            tag.into_iter().for_each(|tag| entry["client_tag"] = tag.into());
            if let Some((id, _)) = session {
                (entry["session_id"], entry["last_activity_at"]) = (id.to_string().into(), context.at.into());
            }
            entry
        });
        let contexts: Vec<Value> = contexts.collect();
        let sessions = self.sessions.iter().map(|(id, Session { tag, peer, contexts })| {
            json!({"client_tag": tag, "connected_at": EPOCH, "context_count": contexts.len(),
                "last_activity_at": EPOCH, "peer_addr": peer, "session_id": id.to_string()})
        });
        let sessions: Vec<Value> = sessions.collect();
        let tags: BTreeSet<_> =
            self.sessions.values().map(|session| &session.tag).filter(|tag| !tag.is_empty()).collect();
        json!({"active_sessions": sessions, "active_tags": tags, "count": contexts.len(), "contexts": contexts})
    }
}

// ---- Msgpack

/// Reads a msgpack value; keys become strings, bytes base64. None for what is cut short, and for extension types.
fn unpack(input: &mut &[u8]) -> Option<Value> {
    let [mark] = bytes_of(input)?;
    Some(match mark {
        0x00..=0x7f => mark.into(),
        0x80..=0x8f => unpack_map((mark & 15).into(), input)?,
        0x90..=0x9f => unpack_array((mark & 15).into(), input)?,
        0xa0..=0xbf => str::from_utf8(input.split_off(..usize::from(mark & 31))?).ok()?.into(),
        0xc0 => Value::Null,
        0xc2 | 0xc3 => (mark == 0xc3).into(),
        0xc4..=0xc6 => STANDARD.encode(unpack_sized(input, 1 << (mark - 0xc4))?).into(),
        0xca => f32::from_be_bytes(bytes_of(input)?).into(),
        0xcb => f64::from_be_bytes(bytes_of(input)?).into(),
        0xcc..=0xcf => unpack_uint(input, 1 << (mark - 0xcc))?.into(),
        0xd0..=0xd3 => {
            let length = 1 << (mark - 0xd0);
            let unused = 64 - 8 * length;
            (((unpack_uint(input, length)? << unused) as i64) >> unused).into()
        }
        0xd9..=0xdb => str::from_utf8(unpack_sized(input, 1 << (mark - 0xd9))?).ok()?.into(),
        0xdc | 0xdd => unpack_array(unpack_uint(input, 2 << (mark - 0xdc))?, input)?,
        0xde | 0xdf => unpack_map(unpack_uint(input, 2 << (mark - 0xde))?, input)?,
        0xe0..=0xff => (mark as i8).into(),
        _ => return None,
    })
}

fn unpack_uint(input: &mut &[u8], length: usize) -> Option<u64> {
    let bytes = input.split_off(..length)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn unpack_sized<'a>(input: &mut &'a [u8], length_bytes: usize) -> Option<&'a [u8]> {
    let length = unpack_uint(input, length_bytes)?;
    input.split_off(..usize::try_from(length).ok()?)
}

fn unpack_array(length: u64, input: &mut &[u8]) -> Option<Value> {
    (0..length).map(|_| unpack(input)).collect()
}

fn unpack_map(length: u64, input: &mut &[u8]) -> Option<Value> {
    let entry = |_| match (unpack(input)?, unpack(input)?) {
        (Value::String(key), value) => Some((key, value)),
        (key, value) => Some((key.to_string(), value)),
    };
    (0..length).map(entry).collect::<Option<Map<_, _>>>().map(Value::Object)
}

/// A value without a type: numbers from 0 as strings, unless numbers are asked for.
fn plain(value: Value, numbers: bool) -> Value {
    match value {
        Value::Number(number) if number.is_u64() && !numbers => number.to_string().into(),
        Value::Array(items) => items.into_iter().map(|item| plain(item, numbers)).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, plain(value, numbers))).collect(),
        other => other,
    }
}
