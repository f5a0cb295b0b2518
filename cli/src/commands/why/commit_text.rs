//! A commit: what it is, and whose work is in it.

use history::why::{CommitKind, CommitLines, CommitWhy, Origin};
use pleach_core::text::counted;

use super::card::{Card, when};
use super::table::lines_words;
use crate::render::session::plain;
use crate::render::{Table, style};

/// How many files are listed, and how many ranges of one, unless all was asked for.
const FILES: usize = 12;
const RANGES: usize = 4;

pub fn text(why: &CommitWhy, whole: bool) -> String {
    let mut card = Card::new();
    card.add("commit", format!("{} {}", why.commit.short(), why.what.subject));
    card.add("is", kind(why));
    card.add("by", format!("{} <{}>", why.what.author, why.what.email));
    card.add("when", when(why.what.at));
    if let Some(merge) = &why.what.merge {
        card.add("merged", merge.of.join(", "));
        card.add("tier", merge.tier.clone().unwrap_or_default());
        card.add("resolved", merge.resolved.join("\n"));
        card.add("resolver", merge.resolver.as_ref().map(ToString::to_string).unwrap_or_default());
    }
    if let Some(session) = &why.what.session {
        card.add("session", session.to_string());
    }
    let mut text = card.text();
    if !why.lines.is_empty() {
        text.push_str(&format!("\n{}\n", lines(&why.lines, &why.what.author, whole).shown()));
    }
    let most = if whole { usize::MAX } else { FILES };
    if why.lines.len() > most {
        text.push_str(&format!("… {}; -v shows all\n", counted(why.lines.len() - most, "more line")));
    }
    if let (1, Some((key, turn))) = (why.turns.len(), why.turns.iter().next()) {
        let mut card = Card::new();
        card.turn(key, turn, whole);
        card.add("look", format!("pleach show {key}"));
        text.push_str(&format!("\n{}", card.text()));
    }
    text
}

fn kind(why: &CommitWhy) -> &'static str {
    match why.what.kind {
        CommitKind::Turn => "a turn of a run",
        CommitKind::Step => "a step of a task",
        CommitKind::Merge => "made by the merge queue",
        CommitKind::FanIn => "branches of a run, joined",
        CommitKind::Restored => "put back by pleach",
        CommitKind::Squash => "made of runs it names",
        CommitKind::OtherAgent => "of an agent that pleach did not run",
        CommitKind::Person if !why.turns.is_empty() => "made of a run",
        CommitKind::Person => "of a person, as far as git knows",
    }
}

/// Files with the turns that have lines in them.
fn lines(all: &[CommitLines], author: &str, whole: bool) -> Table {
    let mut table = Table::new(["file", "lines", "of", "where"]).right(1).path(0).text(2).less([3]);
    for lines in all.iter().take(if whole { usize::MAX } else { FILES }) {
        let by = match (&lines.turn, lines.origin) {
            (Some(turn), _) => style::paint(style::BEGINS, turn),
            (None, Origin::Step) => "the step".to_owned(),
            (None, Origin::Merge) => "the merge".to_owned(),
            (None, Origin::Restored) => "what was put back".to_owned(),
            (None, Origin::OtherAgent) => "another agent".to_owned(),
            (None, _) => plain(author),
        };
        let most = if whole { usize::MAX } else { RANGES };
        let ranges = lines.ranges.iter().take(most).map(|(first, last)| lines_words(*first, *last));
        let mut ranges = ranges.collect::<Vec<_>>().join(",");
        ranges.push_str(if lines.ranges.len() > most { ",…" } else { "" });
        table.row([lines.file.to_string(), lines.count.to_string(), by, ranges]);
    }
    table
}
