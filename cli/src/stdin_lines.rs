//! Lines a person types at the terminal, for everybody who asks there.
//!
//! There is one reader for all questions: a question nobody answered in time must not take the answer to the next one.
//! It reads a line when somebody waits for it and never ahead, for a program in the background that reads is stopped.

use std::io::{self, IsTerminal as _};
use std::thread;

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

/// Waits until no other question is open. A late answer to an earlier question is ignored.
pub async fn lines() -> Lines {
    let mut reading = READING.lock().await;
    *reading = reading.take().and_then(unread);
    Lines(reading)
}

impl Lines {
    /// The next line, with its end; empty at the end of the input.
    pub async fn next(&mut self) -> io::Result<String> {
        let line = self.0.get_or_insert_with(read).await;
        *self.0 = None;
        line.unwrap_or_else(|gone| Err(io::Error::other(gone)))
    }
}

/// One line, for who cannot do anything else meanwhile. As with [`lines`], it counts from now on.
pub fn line_from_now_on() -> io::Result<String> {
    let wait = || {
        let mut reading = READING.blocking_lock();
        let line = reading.take().and_then(unread).unwrap_or_else(read).blocking_recv();
        line.unwrap_or_else(|gone| Err(io::Error::other(gone)))
    };
    // In a thread of its own: where futures run, nobody may wait like this.
    let waited = thread::scope(|scope| scope.spawn(wait).join());
    waited.unwrap_or_else(|_| Err(io::Error::other("the reader panicked")))
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

    #[tokio::test]
    async fn the_next_question_starts_without_it() {
        let (sender, reading) = channel();
        *READING.lock().await = Some(reading);
        assert!(lines().await.0.is_some(), "the line that is being read is the next one");
        sender.send(Ok("y\n".to_owned())).expect("somebody waits");
        assert!(lines().await.0.is_none());
    }
}
