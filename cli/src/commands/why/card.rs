//! All that is known of a line.

use history::why::{CommitKind, FileStart, FileWhy, LineWhy, Origin, PastLine, ReasonSource, TurnCheck, TurnWhy, Via};
use jiff::Timestamp;
use pleach_core::clock;
use pleach_core::text::shorten;

use super::table::{lines_words, rows, turns_in_order, who};
use crate::render::session::{age, plain};
use crate::render::{columns, cut, style, width, wrapped};

/// How many lines of a prompt and of a reason a card has, and how many turns are shown, unless all was asked for.
const PROMPT: usize = 4;
const REASON: usize = 6;
const CARDS: usize = 3;

/// How wide text is at most: longer lines are hard to read.
const WIDEST: usize = 80;

/// Names and values, with the values wrapped.
pub struct Card {
    fields: Vec<(&'static str, String)>,
}

/// The card of a line, or a table of several with a card for each turn.
pub fn text(start: &FileStart, why: &FileWhy, whole: bool) -> String {
    let [line] = &why.lines[..] else {
        let turns = turns_in_order(why);
        let most = if whole { turns.len() } else { CARDS };
        let cards = turns.iter().take(most).map(|(key, turn)| {
            let mut card = Card::new();
            card.turn(key, turn, whole);
            format!("\n{}", card.text())
        });
        let more = turns.len().saturating_sub(most);
        let more = if more > 0 { format!("\n… {more} more; -v shows all\n") } else { String::new() };
        return format!("{}{}{more}", rows(start, why), cards.collect::<String>());
    };
    let said = start.lines().nth(line.first as usize - 1).unwrap_or_default();
    let more = if line.last > line.first { " …" } else { "" };
    let place = format!("{}:{}", why.file, lines_words(line.first, line.last));
    let said = plain(&String::from_utf8_lossy(said));
    let said = match columns() {
        Some(columns) => cut(said.trim(), columns.saturating_sub(width(&place) + 4)),
        None => said.trim().to_owned(),
    };
    let mut card = Card::new();
    match line.turn.as_ref().and_then(|turn| Some((turn, why.turns.get(turn)?))) {
        Some((key, turn)) => {
            card.turn(key, turn, whole);
            card.came_as(why, line, turn);
        }
        None => card.without_turn(why, line),
    }
    card.before(&line.before, why);
    if let Some(turn) = &line.turn {
        card.add("look", format!("pleach show {turn}"));
    }
    format!("{place}  {said}{more}\n\n{}", card.text())
}

impl Card {
    pub fn new() -> Self {
        Self { fields: Vec::new() }
    }

    pub fn add(&mut self, name: &'static str, value: impl Into<String>) {
        let value = value.into();
        if !value.trim().is_empty() {
            self.fields.push((name, value));
        }
    }

    /// What a turn was, what it was asked and what it said.
    pub fn turn(&mut self, key: &str, turn: &TurnWhy, whole: bool) {
        self.add("turn", key);
        let times = match (turn.visit, turn.attempt) {
            (Some(visit), Some(attempt)) if attempt > 1 => format!(" (visit {visit}, attempt {attempt})"),
            (Some(visit), _) if visit > 1 => format!(" (visit {visit})"),
            _ => String::new(),
        };
        self.add("node", format!("{}{times}", turn.node));
        let agent = turn.agent.as_ref().map(|agent| format!("{agent}, ")).unwrap_or_default();
        self.add("agent", format!("{agent}{} ({})", turn.model, turn.provider));
        self.add("task", turn.task.clone().unwrap_or_default());
        self.add("when", when(turn.at));
        self.add("prompt", begin(turn.prompt.as_deref().unwrap_or_default(), PROMPT, whole));
        let reason = begin(turn.reason.as_deref().unwrap_or_default(), REASON, whole);
        let name = if turn.reason_from == Some(ReasonSource::Message) { "message" } else { "reason" };
        self.add(name, reason);
        let checks: Vec<String> = turn.checked_by.iter().map(check).collect();
        self.add("checked", checks.join("\n"));
    }

    /// How a turn's line came into the commit that has it.
    fn came_as(&mut self, why: &FileWhy, line: &LineWhy, turn: &TurnWhy) {
        let Some((id, commit)) = line.commit.and_then(|id| Some((id, why.commits.get(&id)?))) else { return };
        if id == turn.commit {
            return;
        }
        let how = match line.via {
            Some(Via::Squash) => "a squash, ",
            Some(Via::Resolved) => "a resolved conflict, ",
            Some(Via::Restored) => "put back, ",
            Some(Via::Copy) | None => "",
        };
        self.add("landed as", format!("{} {how}{}", id.short(), commit.subject));
    }

    fn without_turn(&mut self, why: &FileWhy, line: &LineWhy) {
        let Some((id, commit)) = line.commit.and_then(|id| Some((id, why.commits.get(&id)?))) else {
            return self.add("by", "you: it is not committed yet");
        };
        let (by, _) = who(line, &commit.author);
        let words = match line.origin {
            Origin::Step => format!("a step of task {by}; which turn it was is not known"),
            Origin::Merge => "pleach, which merged two sides".to_owned(),
            Origin::Restored => "pleach, which put it back".to_owned(),
            Origin::OtherAgent => format!("{by}, which pleach did not run"),
            Origin::Before => "somebody before the history of this shallow clone begins".to_owned(),
            Origin::Person if commit.kind == CommitKind::Merge => "a person, who resolved the conflict".to_owned(),
            _ => format!("{} <{}>", commit.author, commit.email),
        };
        self.add("by", words);
        self.add("when", when(commit.at));
        self.add("commit", format!("{} {}", id.short(), commit.subject));
        if let Some(merge) = &commit.merge {
            self.add("tier", merge.tier.clone().unwrap_or_default());
            self.add("merged", merge.of.join(", "));
        }
        self.add("sides", line.sides.join("\n"));
        if let Some(session) = &commit.session {
            self.add("session", session.to_string());
        }
    }

    /// What the line was before.
    fn before(&mut self, before: &[PastLine], why: &FileWhy) {
        let told = before.iter().map(|past| {
            let author = why.commits.get(&past.commit).map(|commit| commit.author.clone()).unwrap_or_default();
            let by = past.turn.clone().unwrap_or(author);
            format!("{} {by}  {}", past.commit.short(), past.text.trim())
        });
        self.add("before", told.collect::<Vec<_>>().join("\n"));
    }

    pub fn text(&self) -> String {
        let names = self.fields.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        let room = room(names + 2);
        let mut text = String::new();
        for (name, value) in &self.fields {
            let lines = plain(value).lines().flat_map(|line| wrapped(line, room)).collect::<Vec<_>>();
            for (number, line) in lines.into_iter().enumerate() {
                let name = if number == 0 { *name } else { "" };
                let line = if *name == *"turn" { style::paint(style::BEGINS, &line) } else { line };
                text.push_str(format!("{name:names$}  {line}").trim_end());
                text.push('\n');
            }
        }
        text
    }
}

impl Default for Card {
    fn default() -> Self {
        Self::new()
    }
}

/// `2026-11-19 13:01 UTC, 3d ago`
pub fn when(at: Timestamp) -> String {
    format!("{} UTC, {} ago", at.strftime("%Y-%m-%d %H:%M"), age(at, clock::now()))
}

fn check(check: &TurnCheck) -> String {
    let by = check.by.as_ref().map(|by| if by.len() == 40 { by[..10].to_owned() } else { by.clone() });
    let by = by.map(|by| format!(" ({by})")).unwrap_or_default();
    match check.kind {
        "command" => format!("passed {}{by}", shorten(check.what.lines().next().unwrap_or_default(), 60)),
        kind => format!("{kind}: {}{by}", check.what),
    }
}

/// The columns of a text that begins behind so many.
fn room(behind: usize) -> usize {
    columns().unwrap_or(WIDEST).min(WIDEST).saturating_sub(behind).max(20)
}

/// The first lines of a text, empty ones left out.
fn begin(text: &str, most: usize, whole: bool) -> String {
    if whole {
        return text.to_owned();
    }
    let room = room(12);
    let lines: Vec<String> =
        text.lines().filter(|line| !line.trim().is_empty()).flat_map(|line| wrapped(line, room)).collect();
    let shown = lines.iter().take(most).cloned().collect::<Vec<_>>().join("\n");
    if lines.len() > most { format!("{shown} …") } else { shown }
}
