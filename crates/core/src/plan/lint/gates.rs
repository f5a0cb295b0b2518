//! Gates: choices that cannot be distinguished, and defaults that are none of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::diagnostic::Diagnostic;
use crate::plan::label::{choice, normalise_label};
use crate::plan::pipeline::{Edge, HandlerKind, Node, Pipeline};
use crate::text::listed;

pub(super) fn check(pipeline: &Pipeline, found: &mut Vec<Diagnostic>) {
    for node in pipeline.nodes().iter().filter(|node| node.handler == HandlerKind::WaitHuman) {
        let edges: Vec<&Edge> = pipeline.outgoing(&node.id).collect();
        found.extend(default_choice(node, &edges).map(|warning| warning.at_node(&node.id)));
        // Words of a person's own are typed, not chosen by a key.
        let chosen: Vec<&Edge> = edges.into_iter().filter(|edge| !edge.freeform).collect();
        same_keys(node, &chosen, found);
    }
}

/// A default is a choice by its label, its target or its key, as an answer is.
fn default_choice(node: &Node, edges: &[&Edge]) -> Option<Diagnostic> {
    let default = node.human_default_choice.as_deref()?;
    let wanted = normalise_label(default);
    let fits = |edge: &&Edge| {
        let (key, label) = choice(edge);
        normalise_label(&label) == wanted || edge.to == default.trim() || key.eq_ignore_ascii_case(default.trim())
    };
    if edges.iter().any(fits) {
        return None;
    }
    let span = node.attrs.get("human.default_choice").map_or(node.span.0, |attr| attr.span);
    let message = format!("the default `{default}` is not a choice at gate `{}`", node.id);
    let fix = format!("use one of {}", listed(edges.iter().map(|edge| choice(edge).1), usize::MAX));
    Some(Diagnostic::warning("default_choice_exists", message, span).with_fix(fix))
}

fn same_keys(node: &Node, edges: &[&Edge], found: &mut Vec<Diagnostic>) {
    let taken: BTreeSet<String> = edges.iter().map(|edge| choice(edge).0).collect();
    let mut first: BTreeMap<String, (String, &Edge)> = BTreeMap::new();
    for edge in edges {
        let (key, label) = choice(edge);
        let Some((other, before)) = first.get(&key) else {
            first.insert(key, (label, edge));
            continue;
        };
        // The same choice twice leads one way.
        if before.to == edge.to && normalise_label(other) == normalise_label(&label) {
            continue;
        }
        let message = format!("`{other}` and `{label}` have the same key `{key}` at gate `{}`", node.id);
        let span = edge.attrs.get("label").map_or(edge.span.0, |attr| attr.span);
        let fix = format!("give each a key of its own, such as `label=\"[{}] {label}\"`", free_key(&label, &taken));
        let warning = Diagnostic::warning("gate_keys", message, span).at_edge(&edge.from, &edge.to);
        found.push(warning.with_fix(fix));
    }
}

/// The first letter of a label that no choice has as its key.
fn free_key(label: &str, taken: &BTreeSet<String>) -> String {
    let mut letters = label.chars().filter(|c| c.is_alphanumeric()).map(|c| c.to_uppercase().to_string());
    letters.find(|key| !taken.contains(key)).unwrap_or_else(|| "1".to_owned())
}
