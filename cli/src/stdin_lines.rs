//! Lines a person types at the terminal, for everybody who asks there.
//!
//! There is one reader for all questions: a question nobody answered in time must not take the answer to the next one.
//! It reads a line when somebody waits for it and never ahead, for a program in the background that reads is stopped.
//! What was typed before a question is there answers no question.

use std::io::{self, IsTerminal as _, Write};
use std::thread;

use rustix::process::getpgrp;
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::oneshot::{Receiver, channel};
use tokio::sync::{Mutex, MutexGuard};

/// A line that is being read.
type Reading = Receiver<io::Result<String>>;

/// The line of the current question, or of one that timed out.
static READING: Mutex<Option<Reading>> = Mutex::const_new(None);

/// Whether there is a terminal to ask on.
pub fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// The lines one question is answered with. The next question waits until it is dropped.
#[derive(Debug)]
pub struct Lines(MutexGuard<'static, Option<Reading>>);

/// Waits until no other question is open.
pub async fn lines() -> Lines {
    Lines(READING.lock().await)
}

impl Lines {
    /// Asks, and waits for the line typed from then on, with its end; empty at the end of the input.
    pub async fn ask(&mut self, asking: &mut impl Write, text: &str) -> io::Result<String> {
        begin(&mut self.0, asking, text)?;
        let line = self.0.get_or_insert_with(read).await;
        *self.0 = None;
        line.unwrap_or_else(|gone| Err(io::Error::other(gone)))
    }
}

/// As [`Lines::ask`], for who cannot do anything else meanwhile.
pub fn ask(asking: &mut (impl Write + Send), text: &str) -> io::Result<String> {
    let wait = || {
        let mut reading = READING.blocking_lock();
        begin(&mut reading, asking, text)?;
        let line = reading.take().unwrap_or_else(read).blocking_recv();
        line.unwrap_or_else(|gone| Err(io::Error::other(gone)))
    };
    // In a thread of its own: where futures run, nobody may wait like this.
    let waited = thread::scope(|scope| scope.spawn(wait).join());
    waited.unwrap_or_else(|_| Err(io::Error::other("the reader panicked")))
}

/// Writes a question once everything typed before it is gone: lines that were read, and what the terminal still holds.
fn begin(reading: &mut Option<Reading>, asking: &mut impl Write, text: &str) -> io::Result<()> {
    let terminal = io::stdin();
    // What is typed while pleach is in the background is for others, and would stop pleach before it has asked.
    if tcgetpgrp(&terminal).is_ok_and(|front| front == getpgrp()) {
        let _ = tcflush(&terminal, QueueSelector::IFlush);
    }
    *reading = reading.take().and_then(unread);
    asking.write_all(text.as_bytes())?;
    asking.flush()
}

/// A line that is still to come; none where it has come.
fn unread(mut reading: Reading) -> Option<Reading> {
    reading.try_recv().is_err_and(|why| why == TryRecvError::Empty).then_some(reading)
}

/// Starts to read a line. The thread ends with it, or is left behind at the end of the program.
fn read() -> Reading {
    let (sender, reading) = channel();
    thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin().read_line(&mut line).map(|_| line);
        // Nobody waits any more when the program is about to end.
        let _ = sender.send(read);
    });
    reading
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_an_earlier_question_is_ignored() {
        let (sender, reading) = channel();
        let reading = unread(reading).expect("it is still to come");
        sender.send(Ok("y\n".to_owned())).expect("somebody waits");
        assert!(unread(reading).is_none());
        let (sender, reading) = channel();
        drop(sender);
        assert!(unread(reading).is_none(), "nobody reads it any more");
    }

    #[test]
    fn the_next_question_starts_without_it() {
        let (sender, reading) = channel();
        let (mut reading, mut shown) = (Some(reading), Vec::new());
        begin(&mut reading, &mut shown, "one? ").expect("a question in memory");
        assert!(reading.is_some(), "the line that is being read is the next one");
        sender.send(Ok("y\n".to_owned())).expect("somebody waits");
        begin(&mut reading, &mut shown, "two? ").expect("a question in memory");
        assert!(reading.is_none());
        assert_eq!(shown, b"one? two? ");
    }
}
