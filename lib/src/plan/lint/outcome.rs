//! Conditions that can never hold: contradictions, and outcomes the node before cannot have.

use std::collections::{BTreeMap, BTreeSet};

use super::words::CORE_OUTCOMES;
use crate::ids::NodeId;
use crate::plan::condition::{Expr, Op};
use crate::plan::diagnostic::Diagnostic;
use crate::plan::pipeline::{Edge, HandlerKind, Node, Pipeline};

/// The outcomes an edge can see. What is not certain is `Any`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcomes {
    Any,
    Of(BTreeSet<String>),
}

/// A set that grows past this says nothing a person would want to read.
const MAX_OUTCOMES: usize = 16;

impl Outcomes {
    fn of<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Of(words.into_iter().map(str::to_owned).collect())
    }

    /// Adds `other`; true when that changed anything.
    fn add(&mut self, other: &Self) -> bool {
        match (&mut *self, other) {
            (Self::Any, _) => false,
            (_, Self::Any) => {
                *self = Self::Any;
                true
            }
            (Self::Of(own), Self::Of(more)) => {
                let before = own.len();
                own.extend(more.iter().cloned());
                let changed = own.len() != before;
                if own.len() > MAX_OUTCOMES {
                    *self = Self::Any;
                }
                changed
            }
        }
    }
}

pub(super) fn check(pipeline: &Pipeline, found: &mut Vec<Diagnostic>) {
    let seen = outcomes(pipeline);
    for edge in pipeline.edges() {
        let Some(condition) = &edge.condition else { continue };
        let outcomes = seen.get(&edge.from).unwrap_or(&Outcomes::Any);
        if let Some(why) = never(condition.expr(), outcomes) {
            let span = edge.attrs.get("condition").map_or(edge.span.0, |attr| attr.span);
            let message = format!("the condition `{condition}` can never hold: {why}");
            found.push(Diagnostic::warning("condition_can_hold", message, span).at_edge(&edge.from, &edge.to));
        }
    }
}

/// The outcome each node leaves behind. Branch points pass on what came before them.
fn outcomes(pipeline: &Pipeline) -> BTreeMap<&NodeId, Outcomes> {
    let jumped_to: BTreeSet<&NodeId> = pipeline
        .nodes()
        .iter()
        .flat_map(|node| [&node.retry_target, &node.fallback_retry_target])
        .chain([&pipeline.retry_target, &pipeline.fallback_retry_target])
        .flatten()
        .collect();
    let own = |node: &Node| match node.handler {
        HandlerKind::Start => Outcomes::of(["success"]),
        HandlerKind::Tool | HandlerKind::Wait | HandlerKind::WaitHuman => Outcomes::of(CORE_OUTCOMES),
        HandlerKind::Conditional if !jumped_to.contains(&node.id) => Outcomes::Of(BTreeSet::new()),
        _ => Outcomes::Any,
    };
    let mut seen: BTreeMap<&NodeId, Outcomes> = pipeline.nodes().iter().map(|node| (&node.id, own(node))).collect();
    let is_branch = |id: &NodeId| pipeline.node(id).is_some_and(|node| node.handler == HandlerKind::Conditional);
    let mut open: Vec<&NodeId> = pipeline.nodes().iter().map(|node| &node.id).collect();
    while let Some(id) = open.pop() {
        for edge in pipeline.outgoing(id).filter(|edge| is_branch(&edge.to)) {
            let passed = passed_on(edge, &seen[id]);
            if seen.get_mut(&edge.to).is_some_and(|there| there.add(&passed)) {
                open.push(&edge.to);
            }
        }
    }
    seen
}

/// The outcomes that can come along an edge: those its source has, or the one its condition asks for.
fn passed_on(edge: &Edge, source: &Outcomes) -> Outcomes {
    let Some(condition) = &edge.condition else { return source.clone() };
    let parts = match condition.expr() {
        Expr::All(parts) => parts.as_slice(),
        one => std::slice::from_ref(one),
    };
    let asked = parts.iter().find_map(|part| match part {
        Expr::Compare { key, op: Op::Equal, literal } if key == "outcome" => Some(literal.as_str()),
        _ => None,
    });
    match (asked, source) {
        (Some(word), Outcomes::Of(words)) if !words.contains(word) => Outcomes::Of(BTreeSet::new()),
        (Some(word), _) => Outcomes::of([word]),
        (None, _) => source.clone(),
    }
}

/// Why an expression can never hold, where that is certain.
fn never(expr: &Expr, outcomes: &Outcomes) -> Option<String> {
    match expr {
        Expr::Any(parts) => {
            let mut reasons = parts.iter().map(|part| never(part, outcomes)).collect::<Option<Vec<_>>>()?;
            reasons.pop()
        }
        Expr::All(parts) => parts.iter().find_map(|part| never(part, outcomes)).or_else(|| contradiction(parts)),
        Expr::Compare { key, op: Op::Equal, literal } if key == "outcome" => match outcomes {
            Outcomes::Of(words) if !words.is_empty() && !words.contains(literal) => {
                let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
                Some(format!("the outcome here is {}", words.join(", ")))
            }
            _ => None,
        },
        _ => None,
    }
}

fn contradiction(parts: &[Expr]) -> Option<String> {
    let mut required: BTreeMap<&str, &str> = BTreeMap::new();
    for part in parts {
        if let Expr::Compare { key, op: Op::Equal, literal } = part
            && let Some(other) = required.insert(key, literal)
            && other != literal
        {
            return Some(format!("`{key}` cannot be both `{other}` and `{literal}`"));
        }
    }
    parts.iter().find_map(|part| match part {
        Expr::Compare { key, op: Op::NotEqual, literal } if required.get(key.as_str()) == Some(&literal.as_str()) => {
            Some(format!("`{key}` cannot be `{literal}` and not be it"))
        }
        Expr::Not(inner) => match &**inner {
            Expr::Compare { key, op: Op::Equal, literal } if required.get(key.as_str()) == Some(&literal.as_str()) => {
                Some(format!("`{key}` cannot be `{literal}` and not be it"))
            }
            _ => None,
        },
        _ => None,
    })
}
