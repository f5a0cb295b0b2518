//! Colours, by what they mean. Streams take them out where they are not wanted.

use anstyle::{AnsiColor, Style};

/// Success.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Failure.
pub const BAD: Style = AnsiColor::Red.on_default();
/// Waiting for a person.
pub const WAITS: Style = AnsiColor::Yellow.on_default();
/// A start.
pub const BEGINS: Style = AnsiColor::Cyan.on_default();
/// What comes next.
pub const HEADING: Style = Style::new().bold();
/// Less important text.
pub const FAINT: Style = Style::new().dimmed();

/// A text in a style.
pub fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// A word for how something is, in its colour.
pub fn standing(word: &str) -> String {
    let style = match word.split([' ', ':', ',']).next().unwrap_or_default() {
        "done" | "landed" | "complete" | "pass" => GOOD,
        "failed" | "unreadable" | "dead" | "cancelled" | "fail" => BAD,
        "paused" | "waits" | "waiting" | "ready" | "stalled" | "stopped" => WAITS,
        "running" | "queued" | "implementing" | "testing" | "reviewing" | "landing" => BEGINS,
        _ => return word.to_owned(),
    };
    paint(style, word)
}

/// A result whose first word says how it ended, that word in its colour.
pub fn head(text: &str) -> String {
    match text.split_once(' ') {
        Some((word, rest)) if word.ends_with(':') => format!("{} {rest}", standing(word)),
        _ => text.to_owned(),
    }
}
