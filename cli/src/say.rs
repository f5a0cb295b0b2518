//! The one door to standard error, where progress and warnings go. What cannot be written there, because nobody reads it
//! or the disk it goes to is full, is dropped: work never ends for the lack of somebody to tell.

use std::fmt;
use std::io::Write as _;

/// Writes one line on standard error, as `eprintln!` does but for the panic.
macro_rules! say {
    ($($arg:tt)*) => { $crate::say::line(format_args!($($arg)*)) };
}

/// Writes one line, without its colours where they are not wanted.
pub fn line(text: fmt::Arguments<'_>) {
    // In one piece, so that lines of several threads do not mix.
    let _ = anstream::stderr().write_all(format!("{text}\n").as_bytes());
}
