//! Conditions that can never hold: contradictions, and outcomes the node before cannot have.

use std::collections::{BTreeMap, BTreeSet};

use super::attributes::CORE_OUTCOMES;
use super::conditions::place;
use crate::ids::NodeId;
use crate::plan::condition::{Condition, Expr, Op};
use crate::plan::diagnostic::{Diagnostic, Span};
use crate::plan::pipeline::{Edge, HandlerKind, Node, Pipeline};

/// The outcomes an edge can see. What is not certain is `Any`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcomes {
    Any,
    Of(BTreeSet<String>),
}

/// A larger set is not worth listing.
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

/// Checks all conditions but those at `misspelt` places.
pub(super) fn check(pipeline: &Pipeline, misspelt: &BTreeSet<Span>, found: &mut Vec<Diagnostic>) {
    let seen = outcomes(pipeline);
    let mut dead: BTreeSet<&NodeId> = BTreeSet::new();
    for edge in pipeline.edges() {
        let Some(condition) = &edge.condition else { continue };
        let outcomes = seen.get(&edge.from).unwrap_or(&Outcomes::Any);
        if misspelt.contains(&place(edge)) {
            dead.insert(&edge.from);
        } else if let Some(why) = never(condition.expr(), outcomes) {
            dead.insert(&edge.from);
            let message = format!("the condition `{condition}` can never hold: {why}");
            let warning = Diagnostic::warning("condition_can_hold", message, place(edge));
            found.push(warning.at_edge(&edge.from, &edge.to));
        }
    }
    for node in pipeline.nodes().iter().filter(|node| !dead.contains(&node.id)) {
        found.extend(success_leads_on(pipeline, node).map(|warning| warning.at_node(&node.id)));
    }
}

/// A node that succeeds must have an edge to follow, unless its outcome is known to be another.
fn success_leads_on(pipeline: &Pipeline, node: &Node) -> Option<Diagnostic> {
    let works = matches!(node.handler, HandlerKind::Codergen | HandlerKind::Tool | HandlerKind::Conditional);
    let conditions: Vec<&Expr> =
        pipeline.outgoing(&node.id).map(|edge| edge.condition.as_ref().map(Condition::expr)).collect::<Option<_>>()?;
    let can_hold = |expr: &&Expr| holds(expr, "success") != Some(false);
    if !works || conditions.is_empty() || conditions.iter().any(can_hold) {
        return None;
    }
    let mut asked: Vec<&str> = Vec::new();
    for condition in conditions {
        condition.walk(&mut |part| match part {
            Expr::Compare { key, op: Op::Equal, literal } if is_outcome(key) && !asked.contains(&literal.as_str()) => {
                asked.push(literal);
            }
            _ => {}
        });
    }
    let sources = sources(pipeline, node)?;
    if sources.iter().any(|source| may_say(source, &asked)) {
        return None;
    }
    let words: Vec<_> = asked.iter().map(|word| format!("`{word}`")).collect();
    let asks = if words.is_empty() { String::new() } else { format!("; its edges ask for {}", words.join(", ")) };
    let message = format!("no edge of `{}` is taken on `success`{asks}", node.id);
    let fix = "add an edge for `outcome=success` or without a condition, or name the outcomes in the prompt";
    Some(Diagnostic::warning("outcome_given", message, node.span.0).with_fix(fix))
}

/// The nodes whose outcome a node has: itself, or those before a branch point. None where that is not certain.
fn sources<'a>(pipeline: &'a Pipeline, node: &'a Node) -> Option<Vec<&'a Node>> {
    let (mut open, mut seen, mut sources) = (vec![node], BTreeSet::from([&node.id]), Vec::new());
    while let Some(at) = open.pop() {
        match at.handler {
            HandlerKind::Conditional => {
                let before = pipeline.incoming(&at.id).filter_map(|edge| pipeline.node(&edge.from));
                open.extend(before.filter(|node| seen.insert(&node.id)));
            }
            HandlerKind::Codergen | HandlerKind::Tool | HandlerKind::Start => sources.push(at),
            _ => return None,
        }
    }
    (!sources.is_empty()).then_some(sources)
}

/// Whether a node may end with one of these outcomes: its prompt names them, or its command can write them.
fn may_say(node: &Node, words: &[&str]) -> bool {
    let own = || words.iter().filter(|word| !CORE_OUTCOMES.contains(*word));
    let names = |text: &str| own().any(|word| text.to_lowercase().contains(&word.to_lowercase()));
    let is_program = |text: &str| text.contains(['/', '.']) || text.to_lowercase().contains("status");
    match node.handler {
        HandlerKind::Tool => {
            let command = node.tool_command.as_deref().unwrap_or_default();
            own().next().is_some() && (names(command) || is_program(command))
        }
        HandlerKind::Codergen => {
            let by_program = node.agent.as_deref().is_some_and(|agent| agent.contains(':'));
            own().next().is_some() && (by_program || names(&node.prompt) || names(&node.label))
        }
        _ => false,
    }
}

fn is_outcome(key: &str) -> bool {
    key == "outcome" || key == "context.outcome"
}

/// Whether an expression holds with this outcome; none where that depends on more.
fn holds(expr: &Expr, outcome: &str) -> Option<bool> {
    let all = |parts: &[Expr], stops: bool| {
        let parts: Vec<_> = parts.iter().map(|part| holds(part, outcome)).collect();
        if parts.contains(&Some(stops)) { Some(stops) } else { parts.iter().all(Option::is_some).then_some(!stops) }
    };
    match expr {
        Expr::All(parts) => all(parts, false),
        Expr::Any(parts) => all(parts, true),
        Expr::Not(part) => holds(part, outcome).map(|holds| !holds),
        Expr::Set(key) if is_outcome(key) => Some(true),
        Expr::Compare { key, op, literal } if is_outcome(key) => match op {
            Op::Equal => Some(outcome == literal),
            Op::NotEqual => Some(outcome != literal),
            Op::Contains => Some(outcome.contains(literal.as_str())),
            _ => None,
        },
        _ => None,
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
        // Agents and commands may write a word of their own into their status file.
        HandlerKind::Wait | HandlerKind::WaitHuman => Outcomes::of(CORE_OUTCOMES),
        HandlerKind::Conditional if !jumped_to.contains(&node.id) => Outcomes::Of(BTreeSet::new()),
        _ => Outcomes::Any,
    };
    let mut seen: BTreeMap<&NodeId, Outcomes> = pipeline.nodes().iter().map(|node| (&node.id, own(node))).collect();
    let is_branch = |id: &NodeId| pipeline.node(id).is_some_and(|node| node.handler == HandlerKind::Conditional);
    let mut open: Vec<&NodeId> = pipeline.nodes().iter().map(|node| &node.id).collect();
    while let Some(id) = open.pop() {
        for edge in pipeline.outgoing(id).filter(|edge| is_branch(&edge.to)) {
            let passed = outcomes_along(edge, &seen[id]);
            if seen.get_mut(&edge.to).is_some_and(|there| there.add(&passed)) {
                open.push(&edge.to);
            }
        }
    }
    seen
}

/// The outcomes that can come along an edge: those its source has, or the one its condition asks for.
fn outcomes_along(edge: &Edge, source: &Outcomes) -> Outcomes {
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
            Some(format!("`{key}` cannot both be and not be `{literal}`"))
        }
        Expr::Not(inner) => match &**inner {
            Expr::Compare { key, op: Op::Equal, literal } if required.get(key.as_str()) == Some(&literal.as_str()) => {
                Some(format!("`{key}` cannot both be and not be `{literal}`"))
            }
            _ => None,
        },
        _ => None,
    })
}
