//! A run as people are told it: what it was for, what came of it, and what happened at each of its nodes.

use std::collections::BTreeMap;

use agents::llm::Message;
use engine::env::Error;
use engine::view::{Deed, SessionStatus, TurnView, View};
use git::Repo;
use git::record::ChainTip;
use jiff::Timestamp;
use pleach_core::event::{Event, HumanInteraction, NodeExecution, NodeStarted};
use pleach_core::ids::{ContextId, NodeId, RepoName};
use pleach_core::text::first_line;

use super::Diffs;
use crate::journal::told::{Teller, title};
use crate::journal::{LogEntry, LogKind};

/// A run as people are told it.
#[derive(Debug)]
pub struct RunStory {
    /// The run: `SESSION`, or `SESSION/r1`.
    pub run: String,
    /// What it is about, in a line.
    pub title: String,
    /// The goal, whole.
    pub goal: String,
    /// How it stands, in a word.
    pub standing: &'static str,
    /// Why, where there is more to say.
    pub why: Option<String>,
    /// What is said about it in a word or two each, with names.
    pub facts: Vec<(&'static str, String)>,
    /// What happened, in order.
    pub items: Vec<StoryItem>,
}

/// Something that happened in a run.
#[derive(Debug)]
pub enum StoryItem {
    /// It was at a node.
    Visit(Box<StoryVisit>),
    /// It went on, paused, reported a step or landed.
    Note(Box<LogEntry>),
}

/// An attempt at a node.
#[derive(Debug)]
pub struct StoryVisit {
    /// The context.
    pub context: ContextId,
    /// The node.
    pub node: NodeId,
    /// Its visit.
    pub visit: u32,
    /// The attempt within the visit.
    pub attempt: u32,
    /// When it started.
    pub at: Timestamp,
    /// How it ended; none where it has not.
    pub ended: Option<NodeExecution>,
    /// What a person was asked and has answered.
    pub gate: Option<HumanInteraction>,
    /// Its turns.
    pub turns: Vec<StoryTurn>,
}

/// A turn with all that was said and changed in it.
#[derive(Debug)]
pub struct StoryTurn {
    /// The turn.
    pub turn: TurnView,
    /// What was said.
    pub messages: Vec<Message>,
    /// What it changed, by repository.
    pub patches: BTreeMap<RepoName, String>,
}

impl RunStory {
    /// Reads what is told of a session.
    pub fn read(view: &View, repo: &Repo, diffs: &Diffs) -> Result<Self, Error> {
        let summary = &view.summary;
        let root = ContextId::main();
        let chain = ChainTip { session: summary.session.clone(), context: root.clone(), tip: summary.tip };
        let teller = Teller::new(chain, false);
        let mut items = Vec::new();
        for (record, recorded) in view.all_events() {
            let context = &record.context;
            match &recorded.event {
                Event::NodeStarted(started) => items.push(visit(context, recorded.at, started)),
                Event::AgentTurn(_) | Event::ToolExecution(_) => {
                    let Some(turn) = TurnView::read(recorded) else { continue };
                    let messages = view.messages(repo, &turn)?;
                    let patches = turn.commit.as_ref().map(|commits| diffs.of(commits)).unwrap_or_default();
                    let patches = patches.into_iter().map(|(name, patch)| (name, patch.to_owned())).collect();
                    if let Some(visit) = at_node(&mut items, context, &turn.node) {
                        visit.turns.push(StoryTurn { turn, messages, patches });
                    }
                }
                Event::HumanInteraction(gate) => {
                    if let Some(visit) = at_node(&mut items, context, &gate.node_id) {
                        visit.gate = Some(gate.clone());
                    }
                }
                Event::NodeExecution(ended) => {
                    if let Some(visit) = at_node(&mut items, context, &ended.node_id) {
                        visit.ended = Some(ended.clone());
                    }
                }
                _ if *context == root => {
                    let note = teller.as_ref().and_then(|teller| teller.milestone(recorded));
                    items.extend(
                        note.filter(|note| note.kind != LogKind::Start).map(|note| StoryItem::Note(note.into())),
                    );
                }
                _ => {}
            }
        }
        items.retain(has_something_to_tell);
        let standing = summary.standing();
        let why = match &standing {
            SessionStatus::Failed { reason } => Some(reason.clone()),
            SessionStatus::Paused { why, .. } => why.clone(),
            _ => None,
        };
        let (title, run) = (title(&summary.started), summary.run.to_string());
        let (goal, facts, standing) = (summary.started.goal.trim().to_owned(), facts(view), standing.word());
        Ok(Self { run, title, goal, standing, why, facts, items })
    }
}

fn visit(context: &ContextId, at: Timestamp, started: &NodeStarted) -> StoryItem {
    StoryItem::Visit(Box::new(StoryVisit {
        context: context.clone(),
        node: started.node_id.clone(),
        visit: started.visit,
        attempt: started.attempt,
        at,
        ended: None,
        gate: None,
        turns: Vec::new(),
    }))
}

/// The newest visit of a context, which is at this node.
fn at_node<'i>(items: &'i mut [StoryItem], context: &ContextId, node: &NodeId) -> Option<&'i mut StoryVisit> {
    items.iter_mut().rev().find_map(|item| match item {
        StoryItem::Visit(visit) if visit.context == *context && visit.node == *node => Some(visit.as_mut()),
        _ => None,
    })
}

/// Nodes that only lead on, and did, are not told.
fn has_something_to_tell(item: &StoryItem) -> bool {
    let StoryItem::Visit(visit) = item else { return true };
    let went_on = visit.ended.as_ref().is_some_and(|ended| ended.outcome.status.is_success());
    !visit.turns.is_empty() || visit.gate.is_some() || !went_on
}

fn facts(view: &View) -> Vec<(&'static str, String)> {
    let summary = &view.summary;
    let mut facts = vec![("started", minute(summary.started_at)), ("updated", minute(summary.updated_at))];
    facts.push(("turns", summary.turns.to_string()));
    let tokens = summary.spent.tokens.total();
    if tokens > 0 {
        facts.push(("tokens", tokens.to_string()));
    }
    facts.extend(summary.spent.known_usd().filter(|usd| *usd > 0.0).map(|usd| ("cost", format!("${usd:.4}"))));
    for of_repo in summary.repos() {
        let name = if summary.started.has_several_repos() { format!("{}: ", of_repo.repo) } else { String::new() };
        facts.push(("branch", format!("{name}{}", of_repo.branch)));
        if let (Some(base), Some(work)) = (of_repo.base, of_repo.work) {
            facts.push(("commits", format!("{name}{} to {}", base.short(), work.short())));
        }
    }
    facts
}

impl StoryVisit {
    /// `code`, `code, visit 2`, `tests/code, visit 1, attempt 3`
    pub fn name(&self) -> String {
        let context = if self.context == ContextId::main() { String::new() } else { format!("{}/", self.context) };
        let pass = match (self.visit, self.attempt) {
            (1, 1) => String::new(),
            (visit, 1) => format!(", visit {visit}"),
            (visit, attempt) => format!(", visit {visit}, attempt {attempt}"),
        };
        format!("{context}{}{pass}", self.node)
    }

    /// How it ended, in a word.
    pub fn outcome(&self) -> String {
        self.ended.as_ref().map_or_else(|| "open".to_owned(), |ended| ended.outcome.status.to_string())
    }

    /// Why it failed, or what its agent has noted.
    pub fn remark(&self) -> Option<&str> {
        let outcome = &self.ended.as_ref()?.outcome;
        outcome.failure_reason.as_deref().or(outcome.notes.as_deref()).filter(|text| !text.trim().is_empty())
    }
}

impl StoryTurn {
    /// `main.3 · opus · 1200 tokens`
    pub fn heading(&self) -> String {
        let turn = &self.turn;
        let more = match &turn.deed {
            Deed::Agent { model, tokens, .. } if tokens.total() > 0 => format!("{model} · {} tokens", tokens.total()),
            Deed::Agent { model, .. } => model.clone(),
            Deed::Tool { exit, .. } => exit.clone(),
        };
        format!("{} · {more}", turn.turn)
    }

    /// The command of a tool node.
    pub fn command(&self) -> Option<&str> {
        match &self.turn.deed {
            Deed::Tool { command, .. } => Some(command),
            Deed::Agent { .. } => None,
        }
    }
}

/// A note as a line.
pub(super) fn note(entry: &LogEntry) -> String {
    let word = match (entry.kind, &entry.outcome) {
        (LogKind::Resume, _) => "resumed",
        (LogKind::Return, _) => "returned",
        (LogKind::Fork, _) => "forked",
        (LogKind::Pause, _) => "paused",
        (_, Some(outcome)) => outcome,
        (_, None) => "",
    };
    format!("{word} {}", first_line(&entry.text)).trim().to_owned()
}

/// `2026-11-15 01:12 UTC`
pub(super) fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}
