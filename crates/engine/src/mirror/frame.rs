//! The frames of CXDB's binary protocol, as values and as bytes. Nothing here reads or sends.

use super::error::MirrorError;

/// The name of content: BLAKE3 of its bytes.
pub(super) type Hash = [u8; 32];

/// The length of a frame's header: how long its payload is, its type, flags, and the number of the request.
pub(super) const HEADER: usize = 16;

/// MessagePack, the one encoding of payloads.
const MSGPACK: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub length: usize,
    pub kind: u16,
    pub flags: u16,
    pub request: u64,
}

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MirrorRequest {
    /// Who speaks, and what it says of itself.
    Hello { tag: String, meta: String },
    /// A context that begins at a turn, or with none at 0.
    Create { base: u64 },
    /// A context that goes on from a turn.
    Fork { base: u64 },
    /// The head of a context.
    Head { context: u64 },
    /// A turn of a context, on the turn `parent`, or on its head at 0. Servers do nothing with the key against repetition.
    Append { context: u64, parent: u64, turn: MirrorTurn, key: String },
    /// The newest turns of a context.
    Last { context: u64, limit: u32, payloads: bool },
    /// Content by its name.
    GetBlob { hash: Hash },
    /// Keeps content.
    PutBlob { bytes: Vec<u8> },
}

/// A turn as a server keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MirrorTurn {
    pub type_id: String,
    pub version: u32,
    pub payload: Vec<u8>,
}

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    Session { id: u64, version: u16 },
    Head(MirrorHead),
    Appended { head: MirrorHead, hash: Hash },
    Last(Vec<LastTurn>),
    Blob(Vec<u8>),
    Kept { hash: Hash, is_new: bool },
    Refused { code: u32, text: String },
}

/// Where a context ends: turn 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MirrorHead {
    pub context: u64,
    pub turn: u64,
    pub depth: u32,
}

/// One of the newest turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LastTurn {
    pub turn: u64,
    pub parent: u64,
    pub depth: u32,
    pub type_id: String,
    pub version: u32,
    pub length: u32,
    pub hash: Hash,
    pub payload: Option<Vec<u8>>,
}

impl Header {
    pub fn read(bytes: [u8; HEADER]) -> Self {
        let mut rest = Fields(&bytes);
        let read = |rest: &mut Fields<'_>| {
            Some(Self { length: rest.u32()? as usize, kind: rest.u16()?, flags: rest.u16()?, request: rest.u64()? })
        };
        read(&mut rest).expect("a header has these fields")
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend((self.length as u32).to_le_bytes());
        out.extend(self.kind.to_le_bytes());
        out.extend(self.flags.to_le_bytes());
        out.extend(self.request.to_le_bytes());
    }
}

/// Adds a frame to others.
fn write_frame(kind: u16, request: u64, payload: &[u8], out: &mut Vec<u8>) {
    Header { length: payload.len(), kind, flags: 0, request }.write(out);
    out.extend(payload);
}

impl MirrorRequest {
    fn kind(&self) -> u16 {
        match self {
            Self::Hello { .. } => 1,
            Self::Create { .. } => 2,
            Self::Fork { .. } => 3,
            Self::Head { .. } => 4,
            Self::Append { .. } => 5,
            Self::Last { .. } => 6,
            Self::GetBlob { .. } => 9,
            Self::PutBlob { .. } => 11,
        }
    }

    /// Adds the frame of the request with this number to others.
    pub fn write(&self, number: u64, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        let put = &mut payload;
        match self {
            Self::Hello { tag, meta } => {
                put.extend(1u16.to_le_bytes());
                put.extend((tag.len() as u16).to_le_bytes());
                put.extend(tag.as_bytes());
                with_length(meta.as_bytes(), put);
            }
            Self::Create { base } | Self::Fork { base } => put.extend(base.to_le_bytes()),
            Self::Head { context } => put.extend(context.to_le_bytes()),
            Self::Append { context, parent, turn, key } => {
                put.extend(context.to_le_bytes());
                put.extend(parent.to_le_bytes());
                with_length(turn.type_id.as_bytes(), put);
                put.extend(turn.version.to_le_bytes());
                put.extend(MSGPACK.to_le_bytes());
                // Not compressed.
                put.extend(0u32.to_le_bytes());
                put.extend((turn.payload.len() as u32).to_le_bytes());
                put.extend(turn.hash());
                with_length(&turn.payload, put);
                with_length(key.as_bytes(), put);
            }
            Self::Last { context, limit, payloads } => {
                put.extend(context.to_le_bytes());
                put.extend(limit.to_le_bytes());
                put.extend(u32::from(*payloads).to_le_bytes());
            }
            Self::GetBlob { hash } => put.extend(hash),
            Self::PutBlob { bytes } => {
                put.extend(blake3::hash(bytes).as_bytes());
                with_length(bytes, put);
            }
        }
        write_frame(self.kind(), number, &payload, out);
    }
}

impl MirrorTurn {
    pub fn hash(&self) -> Hash {
        blake3::hash(&self.payload).into()
    }
}

impl Reply {
    /// Reads an answer. What it answers tells whether the newest turns come with their payloads.
    pub fn read(kind: u16, payload: &[u8], payloads: bool) -> Result<Self, MirrorError> {
        let mut rest = Fields(payload);
        let read = |rest: &mut Fields<'_>| {
            Some(match kind {
                1 => Self::Session { id: rest.u64()?, version: rest.u16()? },
                2..=4 => Self::Head(rest.head()?),
                5 => Self::Appended { head: rest.head()?, hash: rest.hash()? },
                6 => {
                    let count = rest.u32()?;
                    Self::Last((0..count).map(|_| rest.last_turn(payloads)).collect::<Option<_>>()?)
                }
                9 => Self::Blob(rest.with_length()?.to_vec()),
                11 => Self::Kept { hash: rest.hash()?, is_new: rest.take(1)? == [1] },
                255 => Self::Refused { code: rest.u32()?, text: rest.text()? },
                _ => return None,
            })
        };
        let reply = read(&mut rest).filter(|_| rest.0.is_empty());
        reply.ok_or_else(|| MirrorError::Odd(format!("its answer of type {kind} has {} bytes", payload.len())))
    }
}

fn with_length(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

/// What of a payload is not read yet.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn hash(&mut self) -> Option<Hash> {
        self.array()
    }

    fn with_length(&mut self) -> Option<&'b [u8]> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.with_length()?.to_vec()).ok()
    }

    fn head(&mut self) -> Option<MirrorHead> {
        Some(MirrorHead { context: self.u64()?, turn: self.u64()?, depth: self.u32()? })
    }

    fn last_turn(&mut self, payloads: bool) -> Option<LastTurn> {
        let (turn, parent, depth) = (self.u64()?, self.u64()?, self.u32()?);
        let (type_id, version) = (self.text()?, self.u32()?);
        let (_encoding, compression) = (self.u32()?, self.u32()?);
        let (length, hash) = (self.u32()?, self.hash()?);
        let payload = if payloads { Some(self.with_length()?.to_vec()) } else { None };
        // Compressed ones are of others.
        let payload = payload.filter(|_| compression == 0);
        Some(LastTurn { turn, parent, depth, type_id, version, length, hash, payload })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// What a real server was asked, and what it answered.
    const CAPTURED: &str = include_str!("../../testdata/cxdb-frames.jsonl");

    impl MirrorRequest {
        fn read(kind: u16, payload: &[u8]) -> Option<Self> {
            let mut rest = Fields(payload);
            let request = match kind {
                1 => {
                    let (_, length) = (rest.u16()?, rest.u16()?);
                    let tag = String::from_utf8(rest.take(length.into())?.to_vec()).ok()?;
                    Self::Hello { tag, meta: rest.text()? }
                }
                2 => Self::Create { base: rest.u64()? },
                3 => Self::Fork { base: rest.u64()? },
                4 => Self::Head { context: rest.u64()? },
                5 => {
                    let (context, parent) = (rest.u64()?, rest.u64()?);
                    let (type_id, version) = (rest.text()?, rest.u32()?);
                    let (encoding, compression, _, hash) = (rest.u32()?, rest.u32()?, rest.u32()?, rest.hash()?);
                    let turn = MirrorTurn { type_id, version, payload: rest.with_length()?.to_vec() };
                    let key = rest.text()?;
                    let is_sound = (encoding, compression) == (MSGPACK, 0) && hash == turn.hash();
                    is_sound.then_some(Self::Append { context, parent, turn, key })?
                }
                6 => Self::Last { context: rest.u64()?, limit: rest.u32()?, payloads: rest.u32()? == 1 },
                9 => Self::GetBlob { hash: rest.hash()? },
                11 => {
                    rest.hash()?;
                    Self::PutBlob { bytes: rest.with_length()?.to_vec() }
                }
                _ => return None,
            };
            rest.0.is_empty().then_some(request)
        }
    }

    impl Reply {
        fn write(&self, kind: u16, number: u64) -> Vec<u8> {
            let mut payload = Vec::new();
            let put = &mut payload;
            let head = |head: &MirrorHead, put: &mut Vec<u8>| {
                put.extend(head.context.to_le_bytes());
                put.extend(head.turn.to_le_bytes());
                put.extend(head.depth.to_le_bytes());
            };
            match self {
                Self::Session { id, version } => {
                    put.extend(id.to_le_bytes());
                    put.extend(version.to_le_bytes());
                }
                Self::Head(at) => head(at, put),
                Self::Appended { head: at, hash } => {
                    head(at, put);
                    put.extend(hash);
                }
                Self::Last(turns) => {
                    put.extend((turns.len() as u32).to_le_bytes());
                    for turn in turns {
                        put.extend(turn.turn.to_le_bytes());
                        put.extend(turn.parent.to_le_bytes());
                        put.extend(turn.depth.to_le_bytes());
                        with_length(turn.type_id.as_bytes(), put);
                        put.extend(turn.version.to_le_bytes());
                        put.extend([1u32, 0, turn.length].iter().flat_map(|field| field.to_le_bytes()));
                        put.extend(turn.hash);
                        turn.payload.iter().for_each(|payload| with_length(payload, put));
                    }
                }
                Self::Blob(bytes) => with_length(bytes, put),
                Self::Kept { hash, is_new } => {
                    put.extend(hash);
                    put.push(u8::from(*is_new));
                }
                Self::Refused { code, text } => {
                    put.extend(code.to_le_bytes());
                    with_length(text.as_bytes(), put);
                }
            }
            let mut frame = Vec::new();
            write_frame(kind, number, &payload, &mut frame);
            frame
        }
    }

    fn hex(value: &Value) -> Option<Vec<u8>> {
        let text = value.as_str()?;
        let digits = (0..text.len()).step_by(2);
        Some(digits.map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect())
    }

    fn apart(frame: &[u8]) -> (Header, &[u8]) {
        let (header, payload) = frame.split_at(HEADER);
        let header = Header::read(header.try_into().expect("a header"));
        assert_eq!((header.length, header.flags), (payload.len(), 0));
        (header, payload)
    }

    #[test]
    fn captured_frames_are_read_and_written_byte_for_byte() {
        let (mut requests, mut others, mut replies) = (0, Vec::new(), 0);
        for line in CAPTURED.lines() {
            let line: Value = serde_json::from_str(line).expect("a line of JSON");
            let Some(frame) = hex(&line["request"]) else { continue };
            let (header, payload) = apart(&frame);
            let mut again = Vec::new();
            write_frame(header.kind, header.request, payload, &mut again);
            assert_eq!(again, frame, "{}", line["name"]);
            let request = MirrorRequest::read(header.kind, payload);
            match &request {
                Some(request) => {
                    let mut written = Vec::new();
                    request.write(header.request, &mut written);
                    assert_eq!(written, frame, "{}", line["name"]);
                    requests += 1;
                }
                None => others.push(line["name"].as_str().expect("a name").to_owned()),
            }
            let Some(frame) = hex(&line["reply"]) else { continue };
            let (header, payload) = apart(&frame);
            let with_payloads = matches!(request, Some(MirrorRequest::Last { payloads: true, .. }));
            let reply = Reply::read(header.kind, payload, with_payloads).expect("an answer");
            assert_eq!(reply.write(header.kind, header.request), frame, "{}", line["name"]);
            replies += 1;
        }
        // What no client of pleach asks: nothing, or what cannot be answered.
        let unasked = ["unknown message type", "hello, empty", "append with a wrong hash", "a payload cut short"];
        others.retain(|name| !unasked.contains(&name.as_str()));
        assert_eq!((requests, replies, others), (19, 22, Vec::new()));
    }

    fn turn() -> impl Strategy<Value = MirrorTurn> {
        ("[a-zA-Z.]{0,40}", any::<u32>(), proptest::collection::vec(any::<u8>(), 0..200))
            .prop_map(|(type_id, version, payload)| MirrorTurn { type_id, version, payload })
    }

    fn request() -> impl Strategy<Value = MirrorRequest> {
        prop_oneof![
            (".{0,20}", ".{0,20}").prop_map(|(tag, meta)| MirrorRequest::Hello { tag, meta }),
            any::<u64>().prop_map(|base| MirrorRequest::Create { base }),
            any::<u64>().prop_map(|base| MirrorRequest::Fork { base }),
            any::<u64>().prop_map(|context| MirrorRequest::Head { context }),
            (any::<u64>(), any::<u64>(), turn(), "[a-z/]{0,9}")
                .prop_map(|(context, parent, turn, key)| MirrorRequest::Append { context, parent, turn, key }),
            (any::<u64>(), any::<u32>(), any::<bool>()).prop_map(|(context, limit, payloads)| MirrorRequest::Last {
                context,
                limit,
                payloads
            }),
            any::<Hash>().prop_map(|hash| MirrorRequest::GetBlob { hash }),
            proptest::collection::vec(any::<u8>(), 0..200).prop_map(|bytes| MirrorRequest::PutBlob { bytes }),
        ]
    }

    proptest! {
        #[test]
        fn frames_read_back_what_was_written(request in request(), number in any::<u64>()) {
            let mut frame = Vec::new();
            request.write(number, &mut frame);
            let (header, payload) = apart(&frame);
            prop_assert_eq!(header.request, number);
            prop_assert_eq!(MirrorRequest::read(header.kind, payload), Some(request));
        }

        #[test]
        fn answers_of_any_bytes_are_refused_or_read(kind in 0..12u16, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(reply) = Reply::read(kind, &bytes, false) {
                prop_assert!(kind == 6 || kind == 11 || reply.write(kind, 7)[HEADER..] == bytes[..]);
            }
        }
    }
}
