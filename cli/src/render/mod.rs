//! Text for people: where results go, and how numbers and tables look.

pub mod agent_output;
pub mod comparison;
mod diagnostics;
mod git_progress;
pub mod graph;
pub mod journal;
pub mod live;
pub mod node;
mod pages;
pub mod patch;
pub mod progress;
pub mod pushes;
pub mod question;
pub mod run_tree;
pub mod session;
pub mod stream;
pub mod style;
mod table;
pub mod tree;
mod units;

use std::fmt::Display;
use std::io::{self, Write as _};

pub use self::{
    diagnostics::Source,
    git_progress::show_git_progress,
    pages::Pages,
    table::{Table, columns, cut, set_wide, width, without_beginning, wrapped},
    units::{UNKNOWN, bytes, cost, duration, spent, spent_tokens, tokens},
};
use crate::code::Code;
use crate::failure::Failure;

/// Standard output, where results go. A reader that stops reading gets no more of them; the command goes on to its end,
/// and to its exit code.
#[derive(Debug, Default)]
pub struct Out(());

impl Out {
    /// The process's standard output.
    pub fn new() -> Self {
        Self(())
    }

    /// Writes one line.
    pub fn line(&mut self, text: impl Display) -> Result<(), Failure> {
        unless_closed(writeln!(anstream::stdout(), "{text}"))
    }

    /// Writes a JSON value on one line.
    pub fn json(&mut self, value: &serde_json::Value) -> Result<(), Failure> {
        unless_closed(writeln!(io::stdout(), "{value}"))
    }

    /// Writes text that ends its own lines, without its colours where they are not wanted.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        let mut out = anstream::stdout().lock();
        unless_closed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
    }

    /// Writes bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        unless_closed(out.write_all(bytes).and_then(|()| out.flush()))
    }
}

/// What was written, or is not read any more.
fn unless_closed(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(unwritable(&error)),
        _ => Ok(()),
    }
}

fn unwritable(error: &io::Error) -> Failure {
    Failure::new(Code::StdoutUnwritable, "cannot write to standard output").because(error)
}
