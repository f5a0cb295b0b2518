//! What an agent is told about the run so far, by the fidelity of its node. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::ids::{NodeId, SessionId};
use crate::plan::pipeline::{Edge, Fidelity, HandlerKind, Node, Pipeline};
use crate::route::text_of;
use crate::state::State;
use crate::text::shorten;

/// Characters per token, as a rule of thumb.
const CHARS_PER_TOKEN: usize = 4;

/// The fidelity of a node entered along `edge`: the edge's own, the node's, the graph's, then `compact`.
pub fn fidelity(pipeline: &Pipeline, edge: Option<&Edge>, node: &Node) -> Fidelity {
    edge.and_then(|edge| edge.fidelity).or(node.fidelity).or(pipeline.default_fidelity).unwrap_or_default()
}

/// The conversation a node with full fidelity goes on with: its own, the edge's, the graph's, that of the subgraph
/// around it, then the previous node's.
pub fn thread(pipeline: &Pipeline, edge: Option<&Edge>, node: &Node, from: Option<&NodeId>) -> String {
    node.thread_id
        .clone()
        .or_else(|| edge.and_then(|edge| edge.thread_id.clone()))
        .or_else(|| pipeline.default_thread.clone())
        .or_else(|| node.classes.last().cloned())
        .or_else(|| from.map(NodeId::to_string))
        .unwrap_or_else(|| node.id.to_string())
}

/// The text in front of a node's prompt. Empty with full fidelity: the conversation itself carries on.
pub fn text(
    pipeline: &Pipeline,
    state: &State,
    session: &SessionId,
    fidelity: Fidelity,
    responses: &BTreeMap<NodeId, String>,
) -> String {
    let mut text = String::new();
    if !pipeline.goal.is_empty() {
        let _ = writeln!(text, "Goal: {}", pipeline.goal);
    }
    let budget = match fidelity {
        Fidelity::Full => return person(state).unwrap_or_default(),
        Fidelity::Truncate => {
            let _ = writeln!(text, "Run: {session}");
            text.extend(person(state));
            return text;
        }
        Fidelity::Compact => {
            push_steps(&mut text, pipeline, state);
            push_context(&mut text, state);
            text.extend(person(state));
            return text;
        }
        Fidelity::SummaryLow => 600,
        Fidelity::SummaryMedium => 1_500,
        Fidelity::SummaryHigh => 3_000,
    };
    push_steps(&mut text, pipeline, state);
    push_context(&mut text, state);
    text.extend(person(state));
    push_responses(&mut text, state, responses, budget * CHARS_PER_TOKEN);
    text
}

/// What a person has said at the newest gate beside the choice. It is told whole, whatever the fidelity: it is short, and
/// meant for whoever comes next.
fn person(state: &State) -> Option<String> {
    let said = |key: &str| state.context.get(&format!("human.gate.{key}")).map(text_of).filter(|text| !text.is_empty());
    match (said("text"), said("comment")) {
        (Some(text), _) => Some(format!("A person answered: {text}\n")),
        (None, Some(comment)) => {
            Some(format!("A person chose `{}` and says: {comment}\n", said("label").unwrap_or_default()))
        }
        (None, None) => None,
    }
}

/// The nodes that did something, with how they ended, newest visit only.
fn push_steps(text: &mut String, pipeline: &Pipeline, state: &State) {
    let mut seen = Vec::new();
    for id in state.completed.iter().rev() {
        let works = pipeline.node(id).is_some_and(|node| {
            !matches!(node.handler, HandlerKind::Start | HandlerKind::Exit | HandlerKind::Conditional)
        });
        if works && !seen.contains(&id) {
            seen.push(id);
        }
    }
    if seen.is_empty() {
        return;
    }
    text.push_str("So far:\n");
    for id in seen.into_iter().rev() {
        let Some(outcome) = state.outcome(id) else { continue };
        let label = pipeline.node(id).map_or(id.as_str(), |node| node.label.as_str());
        let note = outcome.failure_reason.as_ref().or(outcome.notes.as_ref());
        let note = note.map(|note| format!(": {}", shorten(note, 300))).unwrap_or_default();
        let _ = writeln!(text, "- {label} ({id}): {}{note}", outcome.status);
    }
}

fn push_context(text: &mut String, state: &State) {
    let hidden = ["graph.", "internal.", "outcome", "preferred_label", "current_node", "last_stage", "last_response"];
    let told = ["human.gate.text", "human.gate.comment"];
    let shown = state.context.iter().filter(|(key, _)| !told.contains(&key.as_str()));
    let shown = shown.filter(|(key, _)| !hidden.iter().any(|prefix| key.starts_with(prefix)));
    let lines: Vec<String> =
        shown.map(|(key, value)| format!("- {key}: {}\n", shorten(&text_of(value), 400))).collect();
    if !lines.is_empty() {
        text.push_str("Known:\n");
        text.extend(lines);
    }
}

/// The newest answers first get their share of the budget; they are shown in the order they were given.
fn push_responses(text: &mut String, state: &State, responses: &BTreeMap<NodeId, String>, budget: usize) {
    let mut left = budget.saturating_sub(text.len());
    let mut parts = Vec::new();
    let mut seen = Vec::new();
    for id in state.completed.iter().rev() {
        let Some(response) = responses.get(id).filter(|_| !seen.contains(&id)) else { continue };
        seen.push(id);
        if left < 80 {
            break;
        }
        let part = format!("### {id}\n{}\n", shorten(response.trim(), left - 40));
        left = left.saturating_sub(part.len());
        parts.push(part);
    }
    if !parts.is_empty() {
        text.push_str("What was answered:\n");
        text.extend(parts.into_iter().rev());
    }
}
