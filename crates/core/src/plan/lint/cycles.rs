//! Cycles without a way out, edges that lose to others, and limits that let nothing through.

use std::collections::{BTreeMap, BTreeSet};

use super::flow::reached;
use crate::ids::NodeId;
use crate::plan::diagnostic::{Diagnostic, Span};
use crate::plan::pipeline::{Attrs, DEFAULT_MAX_VISITS, Edge, HandlerKind, Node, Pipeline};
use crate::text::listed;

/// How many nodes of a cycle a message names.
const NAMED: usize = 8;

pub(super) fn check(pipeline: &Pipeline, found: &mut Vec<Diagnostic>) {
    if pipeline.exit().is_some() {
        endless(pipeline, found);
    }
    for node in pipeline.nodes() {
        found.extend(losing_edge(pipeline, node));
    }
    limits(pipeline, found);
}

/// Where the run can go from a node, by edges or after a failure.
fn successors<'a>(pipeline: &'a Pipeline, id: &NodeId) -> impl Iterator<Item = &'a NodeId> {
    let targets = pipeline.node(id).into_iter().flat_map(|node| [&node.retry_target, &node.fallback_retry_target]);
    let edges = pipeline.outgoing(id).map(|edge| &edge.to);
    edges.chain(targets.flatten()).filter(|id| pipeline.node(id).is_some())
}

/// Cycles a run that came there can never leave, each once.
fn endless(pipeline: &Pipeline, found: &mut Vec<Diagnostic>) {
    let ends = pipeline
        .nodes()
        .iter()
        .filter(|node| node.handler == HandlerKind::Exit || successors(pipeline, &node.id).next().is_none());
    let mut leading: BTreeMap<&NodeId, Vec<&NodeId>> = BTreeMap::new();
    for node in pipeline.nodes() {
        for to in successors(pipeline, &node.id) {
            leading.entry(to).or_default().push(&node.id);
        }
    }
    // Everything an end can be reached from; what remains only leads to itself.
    let mut open: Vec<&NodeId> = ends.map(|node| &node.id).collect();
    let mut done: BTreeSet<&NodeId> = open.iter().copied().collect();
    while let Some(id) = open.pop() {
        open.extend(leading.get(id).into_iter().flatten().copied().filter(|id| done.insert(id)));
    }
    let reached = reached(pipeline);
    for node in pipeline.nodes().iter().filter(|node| reached.contains(&node.id)) {
        if done.contains(&node.id) {
            continue;
        }
        // Straight on until a node comes again: that closes a cycle, or leads into one that is known.
        let mut way = vec![&node.id];
        let mut places = BTreeMap::from([(&node.id, 0)]);
        let cycle = loop {
            let Some(next) = way.last().and_then(|id| successors(pipeline, id).next()) else { break &[][..] };
            if done.contains(next) {
                break &[][..];
            }
            match places.insert(next, way.len()) {
                Some(at) => break &way[at..],
                None => way.push(next),
            }
        };
        if let Some(first) = cycle.first().and_then(|id| pipeline.node(id)) {
            let names =
                listed(cycle.iter().chain([&&first.id]).map(|id| format!("`{id}`")), NAMED).replace(", ", " → ");
            let message = format!("the cycle {names} has no way out");
            let fix = "add an edge that leaves it, and a condition for when";
            found.push(Diagnostic::warning("cycle_has_exit", message, first.span.0).at_node(&first.id).with_fix(fix));
        }
        done.extend(way);
    }
}

/// An edge without a condition that always loses to another one.
fn losing_edge(pipeline: &Pipeline, node: &Node) -> Option<Diagnostic> {
    // What a node prefers it says by a label; a start and a pause say nothing.
    let by_label = match node.handler {
        HandlerKind::Start | HandlerKind::Wait => false,
        HandlerKind::Codergen | HandlerKind::Tool | HandlerKind::Conditional | HandlerKind::FanIn => true,
        _ => return None,
    };
    let branches = |id: &NodeId| pipeline.node(id).is_some_and(|node| node.handler == HandlerKind::Conditional);
    // A failure follows no edge without a condition, but those of branch points.
    let on_failure = |edge: &Edge| branches(&edge.from) || branches(&edge.to);
    let open: Vec<&Edge> = pipeline.outgoing(&node.id).filter(|edge| edge.condition.is_none()).collect();
    let wins = |one: &Edge, other: &Edge| {
        let first = (std::cmp::Reverse(one.weight), &one.to) < (std::cmp::Reverse(other.weight), &other.to);
        first && one.max_visits.is_none() && (on_failure(one) || !on_failure(other))
    };
    let mut plain = open.iter().filter(|edge| !by_label || edge.label.is_empty());
    let (loser, winner) = plain.find_map(|edge| Some((*edge, *open.iter().find(|other| wins(other, edge))?)))?;
    let message =
        format!("`{}` has several edges without a condition; only the one to `{}` is taken", node.id, winner.to);
    let fix = "give them conditions or labels, or run them side by side with `shape=component`";
    let warning = Diagnostic::warning("one_edge_taken", message, loser.span.0);
    Some(warning.at_edge(&loser.from, &loser.to).with_fix(fix))
}

fn limits(pipeline: &Pipeline, found: &mut Vec<Diagnostic>) {
    let limit = |attrs: &Attrs, key: &str, value: Option<u32>, span: Span| {
        let span = attrs.get(key).map_or(span, |attr| attr.span);
        let message = format!("`{key}=0` allows no visit at all");
        let fix = format!("remove it for the default of {DEFAULT_MAX_VISITS}, or write 1 or more");
        (value == Some(0)).then(|| Diagnostic::warning("visits_allowed", message, span).with_fix(fix))
    };
    found.extend(limit(&pipeline.attrs, "default_max_visits", pipeline.default_max_visits, pipeline.span.0));
    for node in pipeline.nodes() {
        let zero = limit(&node.attrs, "max_visits", node.max_visits, node.span.0);
        found.extend(zero.map(|warning| warning.at_node(&node.id)));
    }
    for edge in pipeline.edges() {
        let zero = limit(&edge.attrs, "max_visits", edge.max_visits, edge.span.0);
        found.extend(
            zero.map(|warning| warning.with_fix("remove it, or write 1 or more").at_edge(&edge.from, &edge.to)),
        );
    }
}
