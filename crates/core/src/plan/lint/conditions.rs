//! Conditions that read well and mean something else.

use std::collections::BTreeSet;

use super::attributes::CORE_OUTCOMES;
use crate::plan::condition::{Expr, Op};
use crate::plan::diagnostic::{Diagnostic, Span};
use crate::plan::pipeline::{Edge, Pipeline};
use crate::text::closest;

/// The keys the engine sets under a name of its own.
const KEYS: [&str; 2] = ["outcome", "preferred_label"];

/// Words that look like an outcome of the engine and are none.
const LOOKALIKES: [(&str, &str); 14] = [
    ("succeed", "success"),
    ("successful", "success"),
    ("succes", "success"),
    ("pass", "success"),
    ("passed", "success"),
    ("ok", "success"),
    ("failure", "fail"),
    ("error", "fail"),
    ("errored", "fail"),
    ("partial", "partial_success"),
    ("partial-success", "partial_success"),
    ("partial_succeeded", "partial_success"),
    ("retrying", "retry"),
    ("skip", "skipped"),
];

/// Checks the words of all conditions. Gives the places of those that are misspelt: whatever else is wrong with them
/// follows from that.
pub(super) fn check(pipeline: &Pipeline, found: &mut Vec<Diagnostic>) -> BTreeSet<Span> {
    let mut misspelt = BTreeSet::new();
    for edge in pipeline.edges() {
        let Some(condition) = &edge.condition else { continue };
        let span = place(edge);
        let mut warn = |rule: &str, message: String| {
            misspelt.insert(span);
            found.push(Diagnostic::warning(rule, message, span).at_edge(&edge.from, &edge.to));
        };
        for key in condition.keys() {
            if let Some(meant) = meant_key(key) {
                warn("condition_key", format!("unknown key `{key}` (did you mean `{meant}`?)"));
            }
        }
        condition.expr().walk(&mut |part| {
            let Expr::Compare { key, op, literal } = part else { return };
            if let Some((word, operator)) = joining_word(edge, key, literal) {
                let message = format!("`{word}` is part of the value `{literal}`; join conditions with `{operator}`");
                warn("condition_words", message);
            } else if let (true, Some(meant)) = (matches!(op, Op::Equal | Op::NotEqual), meant_outcome(key, literal)) {
                let message = format!("`{literal}` is not a built-in outcome (did you mean `{meant}`?)");
                warn("outcome_known", message);
            }
        });
    }
    misspelt
}

/// Where the condition of an edge is.
pub(super) fn place(edge: &Edge) -> Span {
    edge.attrs.get("condition").map_or(edge.span.0, |attr| attr.span)
}

/// The key that was meant by one that is almost it.
fn meant_key(key: &str) -> Option<String> {
    if let Some((prefix, rest)) = key.split_once('.') {
        return (prefix != "context" && prefix.eq_ignore_ascii_case("context")).then(|| format!("context.{rest}"));
    }
    let lower = key.to_ascii_lowercase();
    if KEYS.contains(&key) {
        return None;
    }
    KEYS.into_iter().find(|known| *known == lower).or_else(|| closest(&lower, KEYS)).map(str::to_owned)
}

/// A word that joins conditions elsewhere, inside a value, and the operator for it.
fn joining_word(edge: &Edge, key: &str, literal: &str) -> Option<(&'static str, &'static str)> {
    let text = edge.attrs.get("condition").map(|attr| attr.value.to_string()).unwrap_or_default();
    // Whoever quotes a value means all of it; no outcome has blanks.
    let is_outcome = is_outcome(key);
    if !is_outcome && text.contains(&format!("\"{literal}\"")) {
        return None;
    }
    let lower = literal.to_ascii_lowercase();
    let joins = |word: &str| {
        let joint = format!(" {word} ");
        let mut rest = lower.match_indices(&joint).map(|(at, found)| &lower[at + found.len()..]);
        rest.any(|rest| is_outcome || is_comparison(rest))
    };
    [("and", "&&"), ("or", "||"), ("&", "&&"), ("|", "||")].into_iter().find(|(word, _)| joins(word))
}

/// Whether a text starts with a key and an operator.
fn is_comparison(text: &str) -> bool {
    let rest = text.trim_start().trim_start_matches(|c: char| c.is_alphanumeric() || "_.-".contains(c));
    let has_key = rest.len() < text.trim_start().len();
    has_key && rest.trim_start().starts_with(['=', '!', '<', '>'])
}

fn is_outcome(key: &str) -> bool {
    key == "outcome" || key == "context.outcome"
}

/// The outcome of the engine that was meant by a word that is almost one.
fn meant_outcome(key: &str, literal: &str) -> Option<&'static str> {
    if !is_outcome(key) || CORE_OUTCOMES.contains(&literal) {
        return None;
    }
    let lower = literal.to_lowercase();
    let lookalike = LOOKALIKES.iter().find(|(other, _)| *other == lower).map(|(_, real)| *real);
    let same = CORE_OUTCOMES.into_iter().find(|word| *word == lower);
    same.or(lookalike).or_else(|| closest(&lower, CORE_OUTCOMES))
}
