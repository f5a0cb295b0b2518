//! One connection to a CXDB server. A server that says nothing, or something odd, is an error after a while.

use std::time::Duration;

use rustix::net::sockopt::set_tcp_quickack;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::error::{MirrorError, told};
use super::frame::{HEADER, Hash, Header, MirrorHead, MirrorRequest, MirrorTurn, Reply};
use os::deadline::within;
use pleach_core::config::MirrorAddress;

/// How long a server may take to be reached, and to say who it is.
const REACHED: Duration = Duration::from_secs(3);

/// How long it may be silent, and how much longer an answer may take for each of its MiB.
const PATIENCE: Duration = Duration::from_secs(10);
const PER_MIB: Duration = Duration::from_secs(1);

/// The longest answer that is taken: what a server takes itself, and what is around it.
const LONGEST_ANSWER: usize = 65 * 1024 * 1024;

/// What is asked without waiting for the answers: at most so many requests, of so many bytes together. The answers fit into
/// what the system keeps for a connection.
const WINDOW: (usize, usize) = (256, 1024 * 1024);

/// A connection, and the number of its last request.
#[derive(Debug)]
pub(super) struct Connection {
    stream: BufReader<TcpStream>,
    asked: u64,
}

impl Connection {
    /// Connects, and says who is speaking.
    pub async fn open(address: &MirrorAddress) -> Result<Self, MirrorError> {
        let server = address.server();
        let unreachable = |why: String| MirrorError::Unreachable { server: server.clone(), why };
        let stream = match within(REACHED, TcpStream::connect(&server)).await {
            Some(Ok(stream)) => stream,
            Some(Err(error)) => return Err(unreachable(error.to_string())),
            None => return Err(unreachable(format!("no connection within {} s", REACHED.as_secs()))),
        };
        let _ = stream.set_nodelay(true);
        let mut connection = Self { stream: BufReader::with_capacity(64 * 1024, stream), asked: 0 };
        let hello =
            MirrorRequest::Hello { tag: concat!("pleach/", env!("CARGO_PKG_VERSION")).into(), meta: "{}".into() };
        match within(REACHED, connection.ask(&hello)).await.unwrap_or(Err(MirrorError::Silent)) {
            Ok(Reply::Session { version: 1, .. }) => Ok(connection),
            Ok(Reply::Session { version, .. }) => {
                Err(unreachable(format!("it speaks version {version} of the protocol")))
            }
            Ok(_) => Err(unreachable("it does not answer as a CXDB server".to_owned())),
            Err(error) => Err(unreachable(error.to_string())),
        }
    }

    /// Asks one thing. Where the server has no answer, it closes the connection.
    pub async fn ask(&mut self, request: &MirrorRequest) -> Result<Reply, MirrorError> {
        let mut frame = Vec::new();
        self.write(request, &mut frame);
        self.send(&frame).await?;
        let reply = self.answer(matches!(request, MirrorRequest::Last { payloads: true, .. })).await?;
        match (request, &reply) {
            (MirrorRequest::Hello { .. }, Reply::Session { .. })
            | (
                MirrorRequest::Create { .. } | MirrorRequest::Fork { .. } | MirrorRequest::Head { .. },
                Reply::Head(_),
            )
            | (MirrorRequest::PutBlob { .. }, Reply::Kept { .. }) => Ok(reply),
            (MirrorRequest::Last { limit, .. }, Reply::Last(turns)) if turns.len() <= *limit as usize => Ok(reply),
            _ => Err(MirrorError::Odd("it answers something else".to_owned())),
        }
    }

    fn write(&mut self, request: &MirrorRequest, frames: &mut Vec<u8>) {
        self.asked += 1;
        request.write(self.asked, frames);
    }

    async fn send(&mut self, mut frames: &[u8]) -> Result<(), MirrorError> {
        while !frames.is_empty() {
            let sent = within(PATIENCE, self.stream.get_mut().write(frames)).await;
            match sent.ok_or(MirrorError::Silent)? {
                Ok(sent) if sent > 0 => frames = &frames[sent..],
                _ => return Err(MirrorError::Closed),
            }
        }
        Ok(())
    }

    async fn answer(&mut self, payloads: bool) -> Result<Reply, MirrorError> {
        // The server sends an answer in small pieces and waits in between for their receipts.
        let _ = set_tcp_quickack(self.stream.get_ref(), true);
        let mut header = [0; HEADER];
        self.read(&mut header, PATIENCE).await?;
        let header = Header::read(header);
        if header.length > LONGEST_ANSWER {
            return Err(MirrorError::Odd(format!("an answer of {} bytes is announced", header.length)));
        }
        let mut payload = vec![0; header.length];
        self.read(&mut payload, PATIENCE + PER_MIB * (header.length >> 20) as u32).await?;
        match Reply::read(header.kind, &payload, payloads)? {
            Reply::Refused { code, text } => Err(MirrorError::Refused { code, text: told(&text) }),
            reply => Ok(reply),
        }
    }

    async fn read(&mut self, bytes: &mut [u8], patience: Duration) -> Result<(), MirrorError> {
        let read = within(patience, self.stream.read_exact(bytes)).await.ok_or(MirrorError::Silent)?;
        read.map(drop).map_err(|_| MirrorError::Closed)
    }

    /// Content by its names, in order: so many bytes at most.
    pub async fn blobs(&mut self, names: &[Hash], most: usize) -> Result<Vec<Vec<u8>>, MirrorError> {
        let (mut found, mut rest) = (Vec::with_capacity(names.len()), most);
        for window in names.chunks(WINDOW.0) {
            let mut frames = Vec::new();
            window.iter().for_each(|hash| self.write(&MirrorRequest::GetBlob { hash: *hash }, &mut frames));
            self.send(&frames).await?;
            for hash in window {
                match self.answer(false).await? {
                    Reply::Blob(bytes) if blake3::hash(&bytes) == *hash && bytes.len() <= rest => {
                        rest -= bytes.len();
                        found.push(bytes);
                    }
                    _ => return Err(MirrorError::Odd("content is not what its name says".to_owned())),
                }
            }
        }
        Ok(found)
    }

    /// Appends turns to a context after the turn at `head`, which moves with every one that is acknowledged; `taken` counts
    /// these. Whoever gets an error must not append there again: some that were not acknowledged may be worked yet.
    pub async fn append(
        &mut self,
        head: &mut MirrorHead,
        turns: &[MirrorTurn],
        taken: &mut usize,
    ) -> Result<(), MirrorError> {
        let mut rest = turns;
        while !rest.is_empty() {
            let mut frames = Vec::new();
            let mut count = 0;
            for turn in rest.iter().take(WINDOW.0) {
                if count > 0 && frames.len() + turn.payload.len() > WINDOW.1 {
                    break;
                }
                // Only the first can name the turn it is on.
                let parent = if count == 0 { head.turn } else { 0 };
                let (context, turn, key) = (head.context, turn.clone(), String::new());
                self.write(&MirrorRequest::Append { context, parent, turn, key }, &mut frames);
                count += 1;
            }
            let (window, later) = rest.split_at(count);
            self.send(&frames).await?;
            for turn in window {
                let Reply::Appended { head: at, hash } = self.answer(false).await? else {
                    return Err(MirrorError::Odd("an append is answered by something else".to_owned()));
                };
                let depth = if head.turn == 0 { 0 } else { head.depth.saturating_add(1) };
                if at.context != head.context || at.turn == 0 || hash != turn.hash() {
                    return Err(MirrorError::Odd("another append is acknowledged".to_owned()));
                }
                if at.depth != depth {
                    return Err(MirrorError::Disturbed);
                }
                (*head, *taken) = (at, *taken + 1);
            }
            if count > 1 {
                self.check_window(head.context, window).await?;
            }
            rest = later;
        }
        Ok(())
    }

    /// Whether turns that were sent together are on each other: one of somebody else may have come in between.
    async fn check_window(&mut self, context: u64, window: &[MirrorTurn]) -> Result<(), MirrorError> {
        let limit = window.len() as u32;
        match self.ask(&MirrorRequest::Last { context, limit, payloads: false }).await? {
            Reply::Last(turns) if turns.iter().map(|turn| turn.hash).eq(window.iter().map(MirrorTurn::hash)) => Ok(()),
            _ => Err(MirrorError::Disturbed),
        }
    }
}
