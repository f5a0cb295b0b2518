//! The one door to standard error, where progress and warnings go. What cannot be written, because nobody reads it or
//! the disk is full, is dropped: work never ends for that.
//!
//! At the foot of a terminal a live line may be drawn. Everything else that is written there goes through here, so that
//! neither it nor the live line is written over: lines are above it, and a question takes its place.

mod terminal;

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Stderr, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anstream::AutoStream;
use indicatif::{ProgressBar, ProgressDrawTarget, WeakProgressBar};
use pleach_core::config::Environment;
use pleach_core::event::Warning;

/// Writes one line on standard error, as `eprintln!` does but for the panic.
macro_rules! say {
    ($($arg:tt)*) => { $crate::say::line(format_args!($($arg)*)) };
}

/// Writes a warning with this code on standard error, once: what is met again and again is one warning.
macro_rules! warning {
    ($code:ident, $($arg:tt)*) => {
        $crate::say::warn(&pleach_core::event::WarningCode::$code.with(format!($($arg)*)))
    };
}

/// The variable that has every error and every warning name its code. What a repository says does not count.
pub const CODES: &str = "PLEACH_CODES";

/// Whether codes are shown.
static SHOWS_CODES: AtomicBool = AtomicBool::new(false);

/// Whether only results and errors are wanted.
static QUIET: AtomicBool = AtomicBool::new(false);

/// The warnings said so far.
static WARNINGS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Whether colours are wanted on a stream, as `--color` or the stream itself says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Also in files and pipes, and with NO_COLOR.
    Always,
    /// Nowhere.
    Never,
}

/// Says nothing but errors from now on, if so asked, and with colours or without.
pub fn set_up(quiet: bool, color: Color) {
    QUIET.store(quiet, Ordering::Relaxed);
    match color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    }
    .write_global();
    // The live line is drawn by others, who have a mind of their own about colours.
    let colored = anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never;
    console::set_colors_enabled_stderr(colored);
}

/// Shows codes from now on, if the environment asks for it.
pub fn set_up_codes(environment: &Environment) {
    SHOWS_CODES.store(environment.get(CODES) == Some("1"), Ordering::Relaxed);
}

/// A code as it is behind `error` and `warning`: in brackets, or not at all.
pub fn code(code: &str) -> String {
    if SHOWS_CODES.load(Ordering::Relaxed) { format!("[{code}]") } else { String::new() }
}

/// Prints a warning, unless it was printed already or output is quiet.
pub fn warn(warning: &Warning) {
    let is_new = || WARNINGS.lock().unwrap_or_else(PoisonError::into_inner).insert(warning.text.clone());
    if !QUIET.load(Ordering::Relaxed) && is_new() {
        let yellow = anstyle::AnsiColor::Yellow.on_default().bold();
        line(format_args!("{yellow}warning{}:{yellow:#} {warning}", code(warning.code.as_str())));
    }
}

/// The foot of the terminal.
struct Foot {
    /// The live line, as long as its owner keeps it.
    live: Option<WeakProgressBar>,
    /// Its text.
    words: String,
    /// The current wait, shown too.
    wait: Option<String>,
    /// The number of open questions.
    questions: usize,
}

static FOOT: Mutex<Foot> = Mutex::new(Foot { live: None, words: String::new(), wait: None, questions: 0 });

impl Foot {
    fn bar(&self) -> Option<ProgressBar> {
        self.live.as_ref().and_then(WeakProgressBar::upgrade)
    }

    /// The wait comes first: it may be all there is room for.
    fn show(&self, bar: &ProgressBar) {
        let parts = [self.wait.as_deref(), Some(&self.words)];
        bar.set_message(parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · "));
    }
}

fn foot() -> MutexGuard<'static, Foot> {
    FOOT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes one line, without its colours where they are not wanted.
pub fn line(text: fmt::Arguments<'_>) {
    // In one piece, so that lines of several threads do not mix.
    let text = format!("{text}\n");
    let write = || drop(anstream::stderr().write_all(text.as_bytes()));
    // Held until it is written: no live line may start meanwhile.
    let foot = foot();
    match foot.bar() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Draws a live line, until it is dropped or a question takes its place; none while a question is there.
pub fn live(make: impl FnOnce(ProgressDrawTarget) -> ProgressBar) -> Option<ProgressBar> {
    let mut foot = foot();
    if foot.questions > 0 {
        return None;
    }
    let bar = make(terminal::target());
    foot.live = Some(bar.downgrade());
    Some(bar)
}

/// How wide a live line may be.
pub fn width() -> usize {
    terminal::width()
}

/// Says on the live line what continues.
pub fn show(words: String) {
    let mut foot = foot();
    foot.words = words;
    foot.bar().iter().for_each(|bar| foot.show(bar));
}

/// Says what is waited for, on the live line for as long as it is, else as a line.
pub fn wait(why: Option<&str>) {
    let mut foot = foot();
    let goes_on = foot.wait.is_some();
    foot.wait = why.map(str::to_owned);
    match (foot.bar(), why) {
        (Some(bar), _) => foot.show(&bar),
        // One line for a wait, however often there is news of it.
        (None, Some(why)) if !goes_on => {
            drop(foot);
            line(format_args!("  {why}"));
        }
        (None, _) => {}
    }
}

/// A person is asked at the terminal, as long as this is kept. What they are asked is written to it, and unlike a line
/// it is not dropped in silence: where nobody can read the question, nobody answers it.
#[derive(Debug)]
pub struct Asking(AutoStream<Stderr>);

/// Puts the live line away: nothing may be drawn over a question. Lines are still written meanwhile, for Ctrl-C is
/// answered also then.
pub fn asking() -> Asking {
    let mut foot = foot();
    foot.questions += 1;
    if let Some(bar) = foot.live.take().and_then(|live| live.upgrade()) {
        bar.finish_and_clear();
    }
    Asking(anstream::stderr())
}

impl Write for Asking {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        foot().questions -= 1;
    }
}
