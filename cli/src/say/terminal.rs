//! The terminal a live line is drawn on.

use std::io;

use console::Term;
use indicatif::{ProgressDrawTarget, TermLike};

/// What a terminal shows by itself for Ctrl-C: `^C`.
const KEY: u16 = 2;

/// How often a second it is drawn at most, as indicatif does by itself.
const RATE: u8 = 20;

/// Where a live line is drawn: on standard error, if that can draw.
pub fn target() -> ProgressDrawTarget {
    let term = Term::buffered_stderr();
    match ProgressDrawTarget::stderr().is_hidden() {
        true => ProgressDrawTarget::hidden(),
        false => ProgressDrawTarget::term_like_with_hz(Box::new(Narrower(term)), RATE),
    }
}

/// A terminal without its last columns. A live line is filled up to the end of its row, so that a key the terminal shows by
/// itself would go to the next one, and what is drawn afterwards would leave a copy of the line behind.
#[derive(Debug)]
struct Narrower(Term);

impl TermLike for Narrower {
    fn width(&self) -> u16 {
        TermLike::width(&self.0).saturating_sub(KEY).max(1)
    }

    fn height(&self) -> u16 {
        TermLike::height(&self.0)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_up(n)
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_down(n)
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_right(n)
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.0.move_cursor_left(n)
    }

    fn write_line(&self, s: &str) -> io::Result<()> {
        self.0.write_line(s)
    }

    fn write_str(&self, s: &str) -> io::Result<()> {
        self.0.write_str(s)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}
