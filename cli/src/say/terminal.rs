//! The terminal a live line is drawn on.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use console::Term;
use indicatif::{ProgressDrawTarget, TermLike};

/// What a terminal shows by itself for Ctrl-C: `^C`.
const KEY: u16 = 2;

/// How often a second it is drawn at most, as indicatif does by itself.
const RATE: u8 = 20;

/// Where a live line is drawn: on standard error, if that can draw.
pub fn target() -> ProgressDrawTarget {
    let term = Term::buffered_stderr();
    if ProgressDrawTarget::stderr().is_hidden() {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::term_like_with_hz(Box::new(Narrower::new(term)), RATE)
    }
}

/// The columns of a live line.
pub fn width() -> usize {
    usize::from(Narrower::new(Term::stderr()).width())
}

/// A terminal without its last columns. A live line is filled up to the end of its row, so that a key the terminal shows by
/// itself would go to the next one, and what is drawn afterwards would leave a copy of the line behind. Where several
/// lines are drawn, the next one does not begin by itself then.
#[derive(Debug)]
struct Narrower {
    term: Term,
    /// How often was written since it was drawn last: each line, and what fills it up.
    writes: AtomicUsize,
}

impl Narrower {
    fn new(term: Term) -> Self {
        Self { term, writes: AtomicUsize::new(0) }
    }
}

impl TermLike for Narrower {
    fn width(&self) -> u16 {
        TermLike::width(&self.term).saturating_sub(KEY).max(1)
    }

    fn height(&self) -> u16 {
        TermLike::height(&self.term)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.term.move_cursor_up(n)
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.term.move_cursor_down(n)
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.term.move_cursor_right(n)
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.term.move_cursor_left(n)
    }

    fn write_line(&self, s: &str) -> io::Result<()> {
        self.term.write_line(s)
    }

    fn write_str(&self, s: &str) -> io::Result<()> {
        let writes = self.writes.fetch_add(1, Ordering::Relaxed);
        if writes > 0 && writes.is_multiple_of(2) {
            self.term.write_str("\r\n")?;
        }
        self.term.write_str(s)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.term.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.writes.store(0, Ordering::Relaxed);
        self.term.flush()
    }
}
