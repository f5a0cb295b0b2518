//! What an agent writes, line by line.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc::UnboundedSender;

/// How much unread output an agent may have: a whole file may be in one line.
pub(super) const UNREAD: usize = 128 << 20;

/// Something an agent wrote.
#[derive(Debug)]
pub(super) enum OutputLine {
    /// A line, without its end.
    Text(String),
    /// More than can be kept.
    TooMuch,
}

/// Cuts output into lines.
pub(super) struct LineSplitter {
    heard: UnboundedSender<OutputLine>,
    unfinished: Vec<u8>,
    /// How much of it waits to be read.
    unread: Arc<AtomicUsize>,
    is_over: bool,
}

impl LineSplitter {
    /// Lines go to `heard`; its receiver takes their length off `unread`.
    pub fn new(heard: UnboundedSender<OutputLine>, unread: Arc<AtomicUsize>) -> Self {
        Self { heard, unfinished: Vec::new(), unread, is_over: false }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n').filter(|_| !self.is_over) {
            self.unfinished.extend_from_slice(&rest[..at]);
            rest = &rest[at + 1..];
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.unfinished)).into_owned();
            self.unread.fetch_add(line.len(), Ordering::Relaxed);
            self.send(OutputLine::Text(line));
        }
        if !self.is_over {
            self.unfinished.extend_from_slice(rest);
        }
        if self.unread.load(Ordering::Relaxed) + self.unfinished.len() > UNREAD && !self.is_over {
            self.is_over = true;
            self.unfinished = Vec::new();
            self.send(OutputLine::TooMuch);
        }
    }

    fn send(&self, line: OutputLine) {
        // The receiver may have stopped.
        let _ = self.heard.send(line);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    #[test]
    fn lines_come_whole_and_a_flood_ends_them() {
        let (heard, mut lines) = unbounded_channel();
        let unread = Arc::new(AtomicUsize::new(0));
        let mut splitter = LineSplitter::new(heard, Arc::clone(&unread));
        splitter.push(b"on");
        splitter.push(b"e\ntw\xff\n\nrest");
        let mut next = || match lines.try_recv() {
            Ok(OutputLine::Text(line)) => line,
            Ok(OutputLine::TooMuch) => "too much".to_owned(),
            Err(_) => "nothing".to_owned(),
        };
        assert_eq!([next(), next(), next(), next()], ["one", "tw\u{fffd}", "", "nothing"]);
        assert_eq!(unread.load(Ordering::Relaxed), 8);
        unread.store(UNREAD, Ordering::Relaxed);
        splitter.push(b"!\nmore\n");
        assert_eq!([next(), next(), next()], ["rest!", "more", "too much"]);
        splitter.push(b"never heard\n");
        assert_eq!(next(), "nothing");
    }
}
