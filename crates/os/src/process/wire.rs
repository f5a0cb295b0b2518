//! The protocol between spawner and supervisor, over a socket.
//!
//! A request is a header, which carries the descriptors, and a body. The spawner sends the header before the supervisor
//! exists, so a lock in it always has a holder. From then on the spawner only ever closes its side, which means: kill.
//! The supervisor answers with one [`SupervisorReport`] before it exits.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use super::sandbox::{Sandbox, from_words, to_words};

/// Starts every request. Both ends are the same program, unless it was replaced while it ran.
const MAGIC: &[u8; 8] = b"pl-exec5";
/// The maximum number of locks in a request: one for every repository of a workspace.
const MOST_LOCKS: usize = 64;
/// The word count of the sandbox if there is none.
const UNBOUND: u32 = u32::MAX;
/// The number of open files if none is set.
const UNLIMITED: u64 = u64::MAX;
/// Magic, whether there is an input, the number of locks, the length of the body.
const HEADER: usize = MAGIC.len() + 2 + 4;

/// What the supervisor runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SpawnRequest {
    pub(super) argv: Vec<OsString>,
    pub(super) grace: Duration,
    /// How many files it may open at once; none leaves that as it is.
    pub(super) open_files: Option<u64>,
    pub(super) sandbox: Option<Arc<Sandbox>>,
}

/// The descriptors of a request.
#[derive(Debug, Default)]
pub(super) struct Descriptors<F> {
    pub(super) stdin: Option<F>,
    pub(super) locks: Vec<F>,
}

impl SpawnRequest {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let grace = u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX);
        let mut bytes = grace.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.open_files.unwrap_or(UNLIMITED).to_le_bytes());
        let bounds = self.sandbox.as_ref().map(|sandbox| to_words(sandbox));
        let count = bounds.as_ref().map_or(UNBOUND, |bounds| u32::try_from(bounds.len()).unwrap_or(UNBOUND - 1));
        bytes.extend_from_slice(&count.to_le_bytes());
        for word in bounds.iter().flatten().chain(&self.argv) {
            // No word contains NUL, which the system could not pass on.
            bytes.extend_from_slice(word.as_bytes());
            bytes.push(0);
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (grace, words) = bytes.split_first_chunk::<8>()?;
        let (open_files, words) = words.split_first_chunk::<8>()?;
        let (bounds, words) = words.split_first_chunk::<4>()?;
        let mut words = words.strip_suffix(&[0])?.split(|byte| *byte == 0);
        let sandbox = match u32::from_le_bytes(*bounds) {
            UNBOUND => None,
            count => Some(Arc::new(from_words(words.by_ref().take(count as usize))?)),
        };
        let argv = words.map(|word| OsStr::from_bytes(word).to_os_string()).collect();
        let open_files = Some(u64::from_le_bytes(*open_files)).filter(|files| *files != UNLIMITED);
        Some(Self { argv, grace: Duration::from_millis(u64::from_le_bytes(*grace)), open_files, sandbox })
    }
}

/// Sends the header with the descriptors; the body of `length` bytes is written after it.
pub(super) fn send_header(
    socket: &UnixStream,
    length: usize,
    descriptors: &Descriptors<BorrowedFd<'_>>,
) -> io::Result<()> {
    let length = u32::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::ArgumentListTooLong))?;
    let mut header = MAGIC.to_vec();
    let fds: Vec<BorrowedFd<'_>> = descriptors.stdin.iter().chain(&descriptors.locks).copied().collect();
    let locks = descriptors.locks.len();
    if locks > MOST_LOCKS {
        return Err(io::Error::other(format!("a command holds {locks} locks, {MOST_LOCKS} at most can be handed on")));
    }
    header.push(u8::from(descriptors.stdin.is_some()));
    header.push(u8::try_from(locks).unwrap_or(u8::MAX));
    header.extend_from_slice(&length.to_le_bytes());

    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_LOCKS + 1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    let sent = sendmsg(socket, &[IoSlice::new(&header)], &mut control, SendFlags::empty())?;
    if sent == header.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives a complete request.
pub(super) fn receive(socket: &mut UnixStream) -> io::Result<(SpawnRequest, Descriptors<OwnedFd>)> {
    let mut header = [0; HEADER];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_LOCKS + 1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(&*socket, &mut [IoSliceMut::new(&mut header)], &mut control, close_on_exec())?.bytes;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            fds.extend(received);
        }
    }
    mark_close_on_exec(&fds)?;
    socket.read_exact(&mut header[got..])?;

    let not_ours = || io::Error::new(io::ErrorKind::InvalidData, "standard input holds no request of pleach");
    let (magic, rest) = header.split_first_chunk::<8>().ok_or_else(not_ours)?;
    let ([has_stdin, locks], length) = rest.split_first_chunk::<2>().ok_or_else(not_ours)?;
    let length = u32::from_le_bytes(length.try_into().map_err(|_| not_ours())?);
    if magic != MAGIC {
        return Err(not_ours());
    }
    if fds.len() != usize::from(*has_stdin) + usize::from(*locks) {
        return Err(not_ours());
    }
    let mut fds = fds.into_iter();
    let stdin = if *has_stdin == 0 { None } else { fds.next() };
    let descriptors = Descriptors { stdin, locks: fds.collect() };

    let mut body = vec![0; length as usize];
    socket.read_exact(&mut body)?;
    Ok((SpawnRequest::from_bytes(&body).ok_or_else(not_ours)?, descriptors))
}

#[cfg(not(target_vendor = "apple"))]
fn close_on_exec() -> RecvFlags {
    RecvFlags::CMSG_CLOEXEC
}

#[cfg(target_vendor = "apple")]
fn close_on_exec() -> RecvFlags {
    RecvFlags::empty()
}

/// Sets close-on-exec on systems that cannot do so on receipt. The supervisor has started nothing yet, so there is no
/// race.
fn mark_close_on_exec(fds: &[OwnedFd]) -> io::Result<()> {
    fds.iter().try_for_each(|fd| Ok(rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC)?))
}

/// How the command ended, according to its supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SupervisorReport {
    /// It could not be started, with the system's error number.
    NotStarted(i32),
    /// It ended by itself before the supervisor was asked to kill.
    Ended(CommandEnd),
    /// The supervisor started killing before it ended.
    Killed(CommandEnd),
    /// A process is left that cannot be killed.
    Unkillable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandEnd {
    Code(i32),
    Signal(i32),
}

impl SupervisorReport {
    pub(super) fn send(self, socket: &mut UnixStream) -> io::Result<()> {
        let (kind, (how, number)) = match self {
            Self::NotStarted(errno) => (b'n', (b'e', errno)),
            Self::Ended(status) => (b'e', status.to_parts()),
            Self::Killed(status) => (b'k', status.to_parts()),
            Self::Unkillable => (b'u', (b'-', 0)),
        };
        let mut bytes = vec![kind, how];
        bytes.extend_from_slice(&number.to_le_bytes());
        socket.write_all(&bytes)
    }

    /// Reads the report of a supervisor that has ended, without waiting for one that was never sent.
    pub(super) fn receive(socket: &mut UnixStream) -> io::Result<Option<Self>> {
        socket.set_nonblocking(true)?;
        let mut bytes = [0; 6];
        match socket.read_exact(&mut bytes) {
            Ok(()) => Ok(Self::from_bytes(bytes)),
            Err(e) if matches!(e.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::WouldBlock) => Ok(None),
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn from_bytes([kind, how, number @ ..]: [u8; 6]) -> Option<Self> {
        let number = i32::from_le_bytes(number);
        let status = || match how {
            b'c' => Some(CommandEnd::Code(number)),
            b's' => Some(CommandEnd::Signal(number)),
            _ => None,
        };
        match kind {
            b'n' => Some(Self::NotStarted(number)),
            b'e' => status().map(Self::Ended),
            b'k' => status().map(Self::Killed),
            b'u' => Some(Self::Unkillable),
            _ => None,
        }
    }
}

impl CommandEnd {
    fn to_parts(self) -> (u8, i32) {
        match self {
            Self::Code(code) => (b'c', code),
            Self::Signal(signal) => (b's', signal),
        }
    }
}

/// Whether a word can be passed to a program.
pub(super) fn is_passable(word: &OsStr) -> bool {
    !word.as_bytes().contains(&0)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_request_arrives_with_its_descriptors() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let request = SpawnRequest {
            argv: vec!["a".into(), "".into(), OsStr::from_bytes(b"\xff b").into()],
            grace: Duration::from_millis(1500),
            open_files: Some(1024),
            sandbox: Some(Arc::new(Sandbox { write: vec!["/w".into()], ..Sandbox::default() })),
        };
        let body = request.to_bytes();
        send_header(&ours, body.len(), &Descriptors { stdin: Some(reader.as_fd()), locks: Vec::new() }).expect("sent");
        (&ours).write_all(&body).expect("sent");
        drop(reader);

        let (got, descriptors) = receive(&mut theirs).expect("received");
        assert_eq!(got, request);
        let unbound = SpawnRequest { open_files: None, sandbox: None, ..request };
        assert_eq!(SpawnRequest::from_bytes(&unbound.to_bytes()), Some(unbound));
        assert!(descriptors.locks.is_empty());
        writer.write_all(b"hello").expect("written");
        drop(writer);
        let mut text = String::new();
        let mut pipe = std::fs::File::from(descriptors.stdin.expect("stdin came along"));
        assert!(rustix::io::fcntl_getfd(&pipe).expect("flags").contains(rustix::io::FdFlags::CLOEXEC));
        pipe.read_to_string(&mut text).expect("read");
        assert_eq!(text, "hello");
    }

    #[test]
    fn a_stranger_is_refused() {
        let (mut ours, mut theirs) = UnixStream::pair().expect("a pair");
        ours.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
        assert_eq!(receive(&mut theirs).expect_err("refused").kind(), io::ErrorKind::InvalidData);
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        drop(ours);
        assert_eq!(receive(&mut theirs).expect_err("refused").kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_report_arrives_and_a_missing_one_is_none() {
        let killed = SupervisorReport::Killed(CommandEnd::Signal(9));
        for report in [
            SupervisorReport::NotStarted(2),
            SupervisorReport::Ended(CommandEnd::Code(-1)),
            killed,
            SupervisorReport::Unkillable,
        ] {
            let (mut ours, mut theirs) = UnixStream::pair().expect("a pair");
            report.send(&mut theirs).expect("sent");
            assert_eq!(SupervisorReport::receive(&mut ours).expect("read"), Some(report));
        }
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        assert_eq!(SupervisorReport::receive(&mut ours).expect("read"), None);
        drop(theirs);
        assert_eq!(SupervisorReport::receive(&mut ours).expect("read"), None);
    }
}
