//! The lines of a file, and who they are of.

use std::collections::BTreeMap;

use history::why::{FileStart, FileWhy, LineWhy, Origin, TurnWhy};
use pleach_core::clock;

use crate::render::session::{age, one_line, plain};
use crate::render::{Table, style};

/// All lines; what equal neighbours have in common is said once.
pub fn text(start: &FileStart, why: &FileWhy) -> String {
    if why.lines.is_empty() {
        return "the file is empty\n".to_owned();
    }
    rows(start, why)
}

/// The lines that were asked for.
pub fn rows(start: &FileStart, why: &FileWhy) -> String {
    if is_foreign(why) {
        return format!("no run of pleach wrote these lines; git says\n\n{}\n", by_git(why).shown());
    }
    let lines: Vec<&[u8]> = start.lines().collect();
    let headings = ["line", "turn", "node", "model", "age", ""];
    let mut table = Table::new(headings).right(0).text(1).text(2).text(3).text(5).less([3, 4, 2]);
    for line in &why.lines {
        let [turn, node, model, age] = cells(why, line);
        let turn = if line.turn.is_some() { style::paint(style::BEGINS, &turn) } else { turn };
        let mut once = [turn, node, model, age];
        for number in line.first..=line.last {
            let text = lines.get(number as usize - 1).map(|text| String::from_utf8_lossy(text)).unwrap_or_default();
            let text = plain(&text).replace('\t', "    ").trim_end().to_owned();
            let [turn, node, model, age] = std::mem::take(&mut once);
            table.row([number.to_string(), turn, node, model, age, text]);
        }
    }
    format!("{}\n", table.shown())
}

/// Whether pleach has nothing to say of any line.
fn is_foreign(why: &FileWhy) -> bool {
    let is_gits = |line: &LineWhy| {
        matches!(line.origin, Origin::Person | Origin::Before | Origin::Uncommitted) && line.via.is_none()
    };
    why.lines.iter().all(is_gits)
}

/// Author, date and subject of each part.
fn by_git(why: &FileWhy) -> Table {
    let headings = ["lines", "commit", "author", "date", "subject"];
    let mut table = Table::new(headings).text(2).text(4).less([3]);
    for line in &why.lines {
        let commit = line.commit.and_then(|id| Some((id, why.commits.get(&id)?)));
        let lines = lines_words(line.first, line.last);
        table.row(match commit {
            Some((id, commit)) => [
                lines,
                id.short(),
                one_line(&commit.author),
                commit.at.strftime("%Y-%m-%d").to_string(),
                one_line(&commit.subject),
            ],
            None => [lines, String::new(), "not committed".to_owned(), String::new(), String::new()],
        });
    }
    table
}

/// `12`, `12-14`.
pub fn lines_words(first: u32, last: u32) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// Who, where, with what, and how long ago.
fn cells(why: &FileWhy, line: &LineWhy) -> [String; 4] {
    let commit = line.commit.and_then(|id| why.commits.get(&id));
    let turn = line.turn.as_ref().and_then(|turn| Some((turn, why.turns.get(turn)?)));
    let at = turn.map(|(_, turn)| turn.at).or(commit.map(|commit| commit.at));
    let age = at.map(|at| age(at, clock::now())).unwrap_or_default();
    let [who, node, model] = match turn {
        Some((key, TurnWhy { node, model, .. })) => [key.clone(), node.to_string(), one_line(model)],
        None => {
            let (who, node) = who(line, commit.map_or("", |commit| &commit.author));
            [one_line(&who), node.to_owned(), String::new()]
        }
    };
    [who, node, model, age]
}

/// Who a line without a turn is of, and what kind of commit it is of.
pub fn who(line: &LineWhy, author: &str) -> (String, &'static str) {
    match line.origin {
        Origin::Turn | Origin::Person => (author.to_owned(), ""),
        Origin::Step => (task_of(line.step.as_deref().unwrap_or_default()), "step"),
        Origin::Merge => ("pleach".to_owned(), "merge"),
        Origin::Restored => ("pleach".to_owned(), "restored"),
        Origin::OtherAgent => (line.agent.clone().unwrap_or_default(), "agent"),
        Origin::Before => ("older".to_owned(), ""),
        Origin::Uncommitted => ("not committed".to_owned(), ""),
    }
}

/// `T002` of `task(main@T002@implement-pass): …`
fn task_of(step: &str) -> String {
    let inner = step.strip_prefix("task(").and_then(|rest| rest.split_once("): "));
    let task = inner.and_then(|(inner, _)| inner.rsplit('@').nth(1));
    task.filter(|task| !task.is_empty()).unwrap_or("pleach").to_owned()
}

/// The turns of some lines, each once, in the order of the lines.
pub fn turns_in_order(why: &FileWhy) -> Vec<(&str, &TurnWhy)> {
    let mut seen: BTreeMap<&str, ()> = BTreeMap::new();
    let keys = why.lines.iter().filter_map(|line| line.turn.as_deref());
    keys.filter(|key| seen.insert(key, ()).is_none()).filter_map(|key| Some((key, why.turns.get(key)?))).collect()
}
