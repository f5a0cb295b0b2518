//! Title and text of a pull request: what was to be done, and what was.

use std::fmt::Write as _;

use engine::view::{TurnView, View};
use pleach_core::event::{Event, HumanInteraction, StepFinished, ToolExecution};
use pleach_core::redact::Redactor;
use pleach_core::text::shorten;

use super::pushed_branch::PushedBranch;
use crate::render::spent;

/// The most characters of a title.
const TITLE: usize = 100;

/// The most characters of a text; services take a little more.
const BODY: usize = 60_000;

/// The most turns, steps, commands and answers that are listed, each.
const LISTED: usize = 100;

/// Title and text of a pull request.
#[derive(Debug, PartialEq, Eq)]
pub struct RequestText {
    /// The title.
    pub title: String,
    /// The text.
    pub body: String,
}

impl RequestText {
    /// The request for what a session did in a repository. `description` is that of its task.
    pub fn of(
        redactor: &Redactor,
        view: &View,
        description: Option<&str>,
        branch: &PushedBranch,
        others: &[&PushedBranch],
    ) -> Self {
        let (summary, started) = (&view.summary, &view.summary.started);
        let goal = description.map(str::to_owned).or_else(|| Some(started.goal.clone()));
        let goal = goal.filter(|goal| !goal.trim().is_empty());
        let name = match &started.task {
            Some(task) => task.name.clone(),
            None => goal.clone().unwrap_or_else(|| format!("Work of pipeline {}", started.name)),
        };
        let mut body = goal.map(|goal| format!("{}\n\n", goal.trim())).unwrap_or_default();
        let turns = view.turns();
        let in_repo = |turn: &&TurnView| turn.commit_in(&branch.repo).is_some();
        section(&mut body, "What was done", turns.iter().filter(in_repo).map(|turn| turn_line(turn, branch)));
        let events = || view.events().map(|(_, recorded)| &recorded.event);
        let steps = events().filter_map(|event| match event {
            Event::StepFinished(step) => Some(step_line(step)),
            _ => None,
        });
        section(&mut body, "Tests, reviews and other steps", steps);
        let commands = events().filter_map(|event| match event {
            Event::ToolExecution(run) => Some(command_line(run)),
            _ => None,
        });
        section(&mut body, "Commands", commands);
        let reviews = events().filter_map(|event| match event {
            Event::HumanInteraction(gate) => Some(gate_line(gate)),
            _ => None,
        });
        section(&mut body, "Answers of people", reviews);
        let branches = others.iter().map(|other| format!("`{}` of {} ({})", other.branch, other.repo, other.remote));
        section(&mut body, "The same work in other repositories", branches);
        let turns = pleach_core::text::counted(summary.turns, "turn");
        let _ = writeln!(body, "Session `{}`: {turns}, {}.", summary.run, spent(&summary.spent));
        let title = name.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned();
        Self { title: shorten(&redactor.text(&title), TITLE), body: shorten(&redactor.text(&body), BODY) }
    }
}

fn section(body: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return;
    }
    let _ = write!(body, "## {title}\n\n");
    for line in lines.iter().take(LISTED) {
        let _ = writeln!(body, "- {line}");
    }
    if lines.len() > LISTED {
        let _ = writeln!(body, "- … and {} more", lines.len() - LISTED);
    }
    body.push('\n');
}

/// The first line of the turn's commit.
fn turn_line(turn: &TurnView, branch: &PushedBranch) -> String {
    let subject = turn.message.as_deref().and_then(|message| message.lines().next()).unwrap_or_default();
    let commit = turn.commit_in(&branch.repo).map(|commit| format!(" ({})", commit.short())).unwrap_or_default();
    format!("{subject}{commit}, `{}` of {}", turn.turn, turn.node)
}

fn step_line(step: &StepFinished) -> String {
    let attempt = step.attempt.map(|attempt| format!(", attempt {}", attempt + 1)).unwrap_or_default();
    let said =
        step.body.lines().find(|line| !line.trim().is_empty()).map(|line| format!(": {}", shorten(line.trim(), 200)));
    format!("{}{attempt}{}", step.status, said.unwrap_or_default())
}

fn command_line(run: &ToolExecution) -> String {
    let command = shorten(run.command.lines().next().unwrap_or_default(), 200).replace('`', "'");
    format!("`{command}` of {}: {}", run.node_id, run.exit)
}

fn gate_line(gate: &HumanInteraction) -> String {
    let comment = gate.comment.as_ref().map(|comment| format!(": {}", shorten(comment, 500))).unwrap_or_default();
    let question = shorten(gate.question.lines().next().unwrap_or_default(), 200);
    format!("{question} {}{comment} ({}, {})", gate.answer, gate.node_id, gate.source)
}
