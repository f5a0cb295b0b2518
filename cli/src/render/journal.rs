//! The log and what a search has found, as text.

use history::journal::{LogEntry, LogKind, SearchHit};
use jiff::Timestamp;

use super::session::plain;
use super::style::{self, FAINT, paint};
use super::{cut, width, without_beginning};

/// What the columns of the log take at least: the run or turn, and the word for what happened.
const RUN: usize = 11;
const TURN: usize = 16;
const WORD: usize = 10;

/// What is left for words however long the name of a turn is.
const LEAST: usize = 12;

/// Lines of the log, with a heading for each day.
#[derive(Debug)]
pub struct LogLines {
    columns: Option<usize>,
    turns: bool,
    day: Option<String>,
}

impl LogLines {
    /// Lines of so many columns, or of as many as they need.
    pub fn new(columns: Option<usize>, turns: bool) -> Self {
        Self { columns, turns, day: None }
    }

    /// An entry, below its day if that is another than the one before.
    pub fn show(&mut self, entry: &LogEntry) -> String {
        let day = entry.at.strftime("%Y-%m-%d").to_string();
        let heading = if self.day.as_ref() == Some(&day) { String::new() } else { format!("{}\n", paint(FAINT, &day)) };
        self.day = Some(day);
        let at = entry.at.strftime("%H:%M");
        let who = match (&entry.run, &entry.turn) {
            (Some(run), Some(turn)) => format!("{}/{turn}", run.split('/').next().unwrap_or_default()),
            (Some(run), None) => run.clone(),
            (None, _) => String::new(),
        };
        let width = if self.turns { TURN } else { RUN };
        let word = word(entry);
        let used = 7 + who.chars().count().max(width) + 2 + word.chars().count().max(WORD) + 2;
        let room = self.columns.map_or(usize::MAX, |columns| columns.saturating_sub(used).max(LEAST));
        let text = cut(&plain(&text(entry)).replace(['\n', '\t'], " "), room);
        let (name, gap) = (style::standing(&word), " ".repeat(WORD.saturating_sub(word.chars().count())));
        format!("{heading}{at}  {who:width$}  {name}{gap}  {text}").trim_end().to_owned()
    }
}

/// What happened, in a word.
fn word(entry: &LogEntry) -> String {
    let outcome = || entry.outcome.clone().unwrap_or_default();
    match entry.kind {
        LogKind::Start => "started".to_owned(),
        LogKind::Resume => "resumed".to_owned(),
        LogKind::Return => "returned".to_owned(),
        LogKind::Fork => "forked".to_owned(),
        LogKind::Pause => "paused".to_owned(),
        LogKind::Turn if entry.failed() => "fail".to_owned(),
        LogKind::Turn => "turn".to_owned(),
        LogKind::End | LogKind::Step | LogKind::Entry | LogKind::Landing | LogKind::Attempt => outcome(),
    }
}

/// The words behind it.
fn text(entry: &LogEntry) -> String {
    let node = entry.node.as_ref().map(ToString::to_string).unwrap_or_default();
    match (entry.kind, &entry.model, &entry.task) {
        (LogKind::Turn, Some(model), _) => format!("{node} · {model} · {}", entry.text),
        (LogKind::Turn, None, _) => {
            let exit = entry.outcome.as_ref().map(|exit| format!(" ({exit})")).unwrap_or_default();
            format!("{node} · {}{exit}", entry.text)
        }
        (LogKind::Attempt, ..) => format!("{node} · {}", entry.text),
        (LogKind::Step, _, Some(task)) => format!("{task} {}", entry.text),
        (LogKind::Landing, _, Some(task)) if entry.entry.is_none() => format!("{task} {}", entry.text),
        _ => entry.text.clone(),
    }
}

/// A message that was found: whose it is, and the line with what was found in it.
pub fn hit(hit: &SearchHit, columns: Option<usize>) -> String {
    let session = hit.run.split('/').next().unwrap_or_default();
    let whose = match &hit.turn {
        Some(turn) => format!("{session}/{turn}"),
        None => hit.run.clone(),
    };
    let node = hit.node.as_ref().map(|node| format!("  {node}")).unwrap_or_default();
    let at = minute(hit.at);
    let head =
        format!("{}{node}  {}", paint(style::BEGINS, &whose), paint(FAINT, &format!("{}  {at}", hit.part.as_str())));
    format!("{head}\n    {}", within(hit, columns.map_or(usize::MAX, |columns| columns.saturating_sub(4))))
}

/// The line, cut on both sides if it is too long, with what was found marked.
fn within(hit: &SearchHit, room: usize) -> String {
    let [before, found, after] =
        [0..hit.found.start, hit.found.clone(), hit.found.end..hit.excerpt.len()].map(|part| plain(&hit.excerpt[part]));
    let found = cut(&found, room);
    let left = room.saturating_sub(width(&found));
    // What one side does not need is the other's.
    let side = width(&before).min(left - width(&after).min(left / 2));
    let before = if side > 0 { without_beginning(&before, side) } else { String::new() };
    let rest = left.saturating_sub(width(&before));
    let after = cut(&after, rest.max(1));
    format!("{before}{}{after}", paint(anstyle::Style::new().bold(), &found))
}

/// `2026-11-15 01:12`
fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M").to_string()
}
