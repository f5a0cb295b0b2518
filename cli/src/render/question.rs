//! The question at a gate, and the work to judge.

use engine::env::{Question, ReviewedWork};
use git::FileStat;
use pleach_core::event::HumanInteraction;
use pleach_core::ids::RunId;
use pleach_core::plan::pipeline::QuestionKind;
use pleach_core::text::{counted, listed, shorten};
use serde_json::{Value, json};

use super::duration;
use super::session::plain;
use crate::globals::Globals;
use crate::next_commands::about;

/// The most lines of the newest answer that are shown.
const LINES: usize = 12;
const CHARACTERS: usize = 1_000;

/// The most changed files that are named.
const FILES: usize = 10;

/// A question as it is put at the terminal: what is to be judged, how to see more, the choices, and what happens without an
/// answer.
pub fn asked(globals: &Globals, question: &Question) -> String {
    let mut text = String::new();
    if let Some(work) = &question.work {
        text.push_str(&judged(work));
        let see = |command: String| about(globals, &globals.dir, &command, None);
        let run = RunId::of_context(&work.session, &question.context);
        let diff = see(format!("diff {}", question.place(&work.session)));
        text.push_str(&format!("  see more: {diff}, {}\n", see(format!("turns {run}"))));
    }
    // A replay is named: others may ask the same.
    let run = Some(question.context.run_root().to_string()).filter(|run| run != "main");
    let by = question.task.as_ref().map(ToString::to_string).or(run);
    let by = by.map(|by| format!("{by}: ")).unwrap_or_default();
    text.push_str(&format!("? {by}{}\n", plain(&question.text)));
    for choice in question.shown() {
        text.push_str(&format!("  [{}] {}\n", plain(&choice.key), plain(&choice.label)));
    }
    match question.kind {
        QuestionKind::Freeform => {
            let or = if question.shown().next().is_some() { "or " } else { "" };
            text.push_str(&format!("  {or}answer in your own words\n"));
        }
        QuestionKind::Confirmation => text.push_str("  [N] No: the gate fails\n"),
        QuestionKind::YesNo | QuestionKind::MultipleChoice => {}
    }
    if let Some(unanswered) = unanswered(question) {
        text.push_str(&format!("  {unanswered}\n"));
    }
    text
}

/// What happens without an answer, where that is not simply to wait.
pub fn unanswered(question: &Question) -> Option<String> {
    let default = question.default.map(|index| format!("`{}` is chosen", plain(&question.choices[index].label)));
    match (question.timeout, default) {
        (Some(timeout), default) => {
            let then = default.unwrap_or_else(|| "the run pauses".to_owned());
            Some(format!("without an answer within {}, {then}", duration(timeout)))
        }
        (None, Some(default)) => Some(format!("without a terminal, {default}")),
        (None, None) => None,
    }
}

/// The work that is to be judged: the newest answer and the changes so far.
pub fn judged(work: &ReviewedWork) -> String {
    let mut text = String::new();
    if let Some((node, answer)) = work.answer.as_ref().filter(|(_, answer)| !answer.trim().is_empty()) {
        text.push_str(&format!("  {node} answered:\n"));
        let answer = shorten(answer.trim(), CHARACTERS);
        let mut lines = answer.lines();
        lines.by_ref().take(LINES).for_each(|line| text.push_str(&format!("  | {}\n", plain(line))));
        match lines.count() {
            0 => {}
            more => text.push_str(&format!("  | … {}\n", counted(more, "more line"))),
        }
    }
    text.push_str(&changes(&work.changes));
    if !work.conflicts.is_empty() {
        let (files, place) = (listed(&work.conflicts, FILES), work.worktree.display());
        text.push_str(&format!("  in conflict: {files}; resolve it in {place} before you answer\n"));
    }
    text
}

fn changes(changes: &[FileStat]) -> String {
    if changes.is_empty() {
        return "  no file was changed so far\n".to_owned();
    }
    let sum = |side: fn((u64, u64)) -> u64| changes.iter().filter_map(|file| file.lines).map(side).sum::<u64>();
    let (added, removed) = (sum(|lines| lines.0), sum(|lines| lines.1));
    let mut text = format!("  changed so far: {}, +{added} -{removed}\n", counted(changes.len(), "file"));
    for file in changes.iter().take(FILES) {
        let lines = file.lines.map_or_else(|| "binary".to_owned(), |(added, removed)| format!("+{added} -{removed}"));
        text.push_str(&format!("    {} {lines}\n", plain(&file.path.to_string())));
    }
    if changes.len() > FILES {
        text.push_str(&format!("    … {}\n", counted(changes.len() - FILES, "more file")));
    }
    text
}

/// An answer in a line.
pub fn answered(answer: &HumanInteraction) -> String {
    let comment = answer.comment.as_ref().map(|comment| format!(": {}", plain(comment))).unwrap_or_default();
    format!("  {}: {}{comment} ({})", answer.question, plain(&answer.answer), answer.source)
}

/// A question as JSON.
pub fn json(question: &Question) -> Value {
    let choices =
        question.shown().map(|choice| json!({"key": choice.key, "label": choice.label, "target": choice.target}));
    json!({
        "context": question.context,
        "node": question.node,
        "visit": question.visit,
        "type": question.kind.as_str(),
        "text": question.text,
        "choices": choices.collect::<Vec<_>>(),
        "default": question.default.map(|index| &question.choices[index].label),
        "timeout_seconds": question.timeout.map(|timeout| timeout.as_secs_f64()),
    })
}
