//! Where a run can go: start, exit, reachability, retry targets, goal gates.

use std::collections::BTreeSet;

use crate::ids::NodeId;
use crate::plan::build::rule_of_target;
use crate::plan::diagnostic::Diagnostic;
use crate::plan::pipeline::{Attrs, DEFAULT_MAX_VISITS, HandlerKind, Node, Pipeline};
use crate::plan::suggestions::Suggestions;

pub(super) fn check(pipeline: &Pipeline, found: &mut Vec<Diagnostic>) {
    exactly_one(pipeline, HandlerKind::Start, found);
    exactly_one(pipeline, HandlerKind::Exit, found);
    for node in pipeline.nodes() {
        ends(pipeline, node, found);
    }
    reachability(pipeline, found);
    let mut names = Suggestions::among(pipeline.nodes().iter().map(|node| node.id.as_str()));
    named_nodes(pipeline, &pipeline.attrs, &mut names, |warning| found.push(warning));
    for node in pipeline.nodes() {
        named_nodes(pipeline, &node.attrs, &mut names, |warning| found.push(warning.at_node(&node.id)));
        goal_gate(pipeline, node, found);
    }
}

fn exactly_one(pipeline: &Pipeline, kind: HandlerKind, found: &mut Vec<Diagnostic>) {
    let (rule, what, shape) = match kind {
        HandlerKind::Start => ("start_node", "start", "Mdiamond"),
        _ => ("terminal_node", "exit", "Msquare"),
    };
    let mut nodes = pipeline.nodes().iter().filter(|node| node.handler == kind);
    let Some(first) = nodes.next() else {
        let span = pipeline.span.0;
        let fix = format!("add `{what} [shape={shape}]`");
        found.push(Diagnostic::error(rule, format!("the pipeline has no {what} node"), span).with_fix(fix));
        return;
    };
    for node in nodes {
        let message = format!("a second {what} node: `{}` is one already", first.id);
        found.push(
            Diagnostic::error(rule, message, node.span.0).at_node(&node.id).with_fix(format!("keep one {what} node")),
        );
    }
}

/// Nothing leads into the start, nothing out of the exit, and something out of everything else.
fn ends(pipeline: &Pipeline, node: &Node, found: &mut Vec<Diagnostic>) {
    let error = |rule: &str, message: String, edge: &crate::plan::pipeline::Edge| {
        Diagnostic::error(rule, message, edge.span.0).at_edge(&edge.from, &edge.to).with_fix("remove this edge")
    };
    match node.handler {
        HandlerKind::Start => {
            for edge in pipeline.incoming(&node.id) {
                found.push(error(
                    "start_no_incoming",
                    format!("an edge leads back to the start node `{}`", node.id),
                    edge,
                ));
            }
        }
        HandlerKind::Exit => {
            for edge in pipeline.outgoing(&node.id) {
                found.push(error("exit_no_outgoing", format!("an edge leaves the exit node `{}`", node.id), edge));
            }
            return;
        }
        _ => {}
    }
    if pipeline.outgoing(&node.id).next().is_none() {
        let message = format!("`{}` has no outgoing edge", node.id);
        let fix = "add an edge; a run succeeds only at its exit";
        found.push(Diagnostic::warning("dead_end", message, node.span.0).at_node(&node.id).with_fix(fix));
    }
}

/// The nodes that can be reached from the start, by edges or as a retry target.
pub(super) fn reached(pipeline: &Pipeline) -> BTreeSet<&NodeId> {
    let Some(start) = pipeline.start() else { return BTreeSet::new() };
    let mut reached = BTreeSet::from([&start.id]);
    let mut open = vec![&start.id];
    let graph_targets = [&pipeline.retry_target, &pipeline.fallback_retry_target];
    let gated = pipeline.nodes().iter().any(|node| node.goal_gate);
    let mut seeds: Vec<&NodeId> = if gated { graph_targets.into_iter().flatten().collect() } else { Vec::new() };
    loop {
        while let Some(id) = open.pop() {
            let targets =
                pipeline.node(id).into_iter().flat_map(|node| [&node.retry_target, &node.fallback_retry_target]);
            let next = pipeline.outgoing(id).map(|edge| &edge.to).chain(targets.flatten());
            open.extend(next.filter(|id| reached.insert(id)));
        }
        match seeds.pop() {
            Some(seed) if reached.insert(seed) => open.push(seed),
            Some(_) => {}
            None => return reached,
        }
    }
}

fn reachability(pipeline: &Pipeline, found: &mut Vec<Diagnostic>) {
    if pipeline.start().is_none() {
        return;
    }
    let reached = reached(pipeline);
    for node in pipeline.nodes().iter().filter(|node| !reached.contains(&node.id) && node.handler != HandlerKind::Start)
    {
        let message = format!("`{}` cannot be reached from the start node", node.id);
        found.push(
            Diagnostic::error("reachability", message, node.span.0)
                .at_node(&node.id)
                .with_fix("add an edge to it, or remove it"),
        );
    }
}

fn named_nodes(pipeline: &Pipeline, attrs: &Attrs, names: &mut Suggestions<'_>, mut report: impl FnMut(Diagnostic)) {
    for key in ["retry_target", "fallback_retry_target", "check"] {
        let Some(attr) = attrs.get(key) else { continue };
        let Ok(target) = NodeId::new(attr.value.to_string().trim()) else { continue };
        if pipeline.node(&target).is_none() {
            let meant = names.closest(target.as_str());
            let meant = meant.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
            let message = format!("`{key}` names the unknown node `{target}`{meant}");
            report(Diagnostic::warning(rule_of_target(key), message, attr.span));
        }
    }
}

/// A gate needs somewhere to go back to, and a bound on how often.
fn goal_gate(pipeline: &Pipeline, node: &Node, found: &mut Vec<Diagnostic>) {
    if !node.goal_gate {
        return;
    }
    let span = node.attrs.get("goal_gate").map_or(node.span.0, |attr| attr.span);
    let targets =
        [&node.retry_target, &node.fallback_retry_target, &pipeline.retry_target, &pipeline.fallback_retry_target];
    let Some(target) = targets.into_iter().flatten().next() else {
        let message = format!("goal gate `{}` has no retry target", node.id);
        let fix = "give the node or the graph a `retry_target`";
        found.push(Diagnostic::warning("goal_gate_has_retry", message, span).at_node(&node.id).with_fix(fix));
        return;
    };
    let bounded = |id: &NodeId| pipeline.node(id).is_some_and(|node| node.max_visits.is_some());
    if pipeline.default_max_visits.is_none() && !bounded(&node.id) && !bounded(target) {
        let message =
            format!("goal gate `{}` uses the default limit of {DEFAULT_MAX_VISITS} visits; set `max_visits`", node.id);
        let fix = format!("give `{}` or `{target}` a `max_visits`", node.id);
        found.push(Diagnostic::warning("goal_gate_bounded", message, span).at_node(&node.id).with_fix(fix));
    }
}
