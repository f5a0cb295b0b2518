//! Fan-out and fan-in: every branch must come together again, under a name of its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::ids::{ContextId, NodeId};
use crate::plan::diagnostic::Diagnostic;
use crate::plan::join_point::{branch_nodes, is_for_failures, is_read_only, join_of};
use crate::plan::parallel::{FanInPolicy, JoinPolicy};
use crate::plan::pipeline::{Edge, HandlerKind, Node, Pipeline};

pub(super) fn check(pipeline: &Pipeline, found: &mut Vec<Diagnostic>) {
    let fan_ins = pipeline.nodes().iter().filter(|node| node.handler == HandlerKind::FanIn).map(|node| &node.id);
    // Everything a join can be reached from, found backwards in one pass for all branches.
    let mut joined: BTreeSet<_> = fan_ins.clone().collect();
    let mut open: Vec<_> = fan_ins.collect();
    while let Some(id) = open.pop() {
        open.extend(pipeline.incoming(id).map(|edge| &edge.from).filter(|id| joined.insert(id)));
    }
    for node in pipeline.nodes() {
        match node.handler {
            HandlerKind::Parallel => {
                fan_out(pipeline, node, found);
                for edge in pipeline.outgoing(&node.id).filter(|edge| !joined.contains(&edge.to)) {
                    let message = format!("the branch from `{}` to `{}` never reaches a fan-in", edge.from, edge.to);
                    let fix = "lead it to a node with `shape=tripleoctagon`";
                    found.push(
                        Diagnostic::warning("fan_out_joins", message, edge.span.0)
                            .at_edge(&edge.from, &edge.to)
                            .with_fix(fix),
                    );
                }
            }
            HandlerKind::FanIn => {
                let inputs = pipeline.incoming(&node.id).count();
                if inputs < 2 {
                    let has = if inputs == 0 { "no input" } else { "one input" };
                    let message = format!("the fan-in `{}` has {has}: there is nothing to merge", node.id);
                    let fix = "lead every branch of the fan-out to it";
                    found.push(
                        Diagnostic::warning("fan_in_inputs", message, node.span.0).at_node(&node.id).with_fix(fix),
                    );
                }
                conflicts_resolved(pipeline, node, found);
            }
            _ => {}
        }
    }
}

/// A conflict that reaches an exit or another fan-out fails the run: something has to resolve it before.
fn conflicts_resolved(pipeline: &Pipeline, fan_in: &Node, found: &mut Vec<Diagnostic>) {
    let merges = fan_in.fan_in.as_ref().is_some_and(|rules| rules.policy == FanInPolicy::Merge && rules.gate.is_none());
    if !merges || !may_conflict(pipeline, &fan_in.id) {
        return;
    }
    let (mut seen, mut open) = (BTreeSet::from([&fan_in.id]), VecDeque::from([&fan_in.id]));
    while let Some(id) = open.pop_front() {
        for edge in ways_with_conflicts(pipeline, id, *id == fan_in.id) {
            let Some(to) = pipeline.node(&edge.to).filter(|to| !to.may_resolve()) else { continue };
            if matches!(to.handler, HandlerKind::Exit | HandlerKind::Parallel) {
                let message = format!(
                    "where branches of `{}` conflict, no node before `{}` can resolve that: the run fails",
                    fan_in.id, to.id
                );
                let fix =
                    "lead it to an agent or a gate (`shape=hexagon`) first, or give it a `gate` that tests the result";
                found.push(
                    Diagnostic::warning("conflicts_resolved", message, fan_in.span.0).at_node(&fan_in.id).with_fix(fix),
                );
                return;
            }
            if seen.insert(&to.id) {
                open.push_back(&to.id);
            }
        }
    }
}

/// Whether several branches that end at a fan-in may change files.
fn may_conflict(pipeline: &Pipeline, fan_in: &NodeId) -> bool {
    let fan_outs = pipeline.nodes().iter().filter(|node| node.handler == HandlerKind::Parallel);
    let mut joined = fan_outs.filter(|node| join_of(pipeline, &node.id) == Some(fan_in));
    joined.any(|node| {
        let writes = |edge: &&Edge| !is_read_only(pipeline, &edge.to, Some(fan_in));
        pipeline.outgoing(&node.id).filter(writes).count() > 1
    })
}

/// The edges that may be taken while conflicts are open. A fan-in with some has ended as `partial_success`.
fn ways_with_conflicts<'p>(pipeline: &'p Pipeline, id: &'p NodeId, is_fan_in: bool) -> Vec<&'p Edge> {
    let holds = |edge: &&Edge| {
        let value = |key: &str| if key == "outcome" { "partial_success" } else { "conflict" }.to_owned();
        edge.condition.as_ref().is_some_and(|condition| condition.eval(&value))
    };
    let edges = || pipeline.outgoing(id).filter(|edge| !is_for_failures(edge));
    let taken: Vec<&Edge> = edges().filter(|edge| is_fan_in && holds(edge)).collect();
    if taken.is_empty() { edges().filter(|edge| !is_fan_in || edge.condition.is_none()).collect() } else { taken }
}

fn fan_out(pipeline: &Pipeline, node: &Node, found: &mut Vec<Diagnostic>) {
    let error = |rule: &str, message: String| Diagnostic::error(rule, message, node.span.0).at_node(&node.id);
    let branches = pipeline.outgoing(&node.id).count();
    let join = join_of(pipeline, &node.id);
    if branches == 0 {
        found.push(error("fan_out_joins", format!("the fan-out `{}` has no branches", node.id)));
    } else if join.is_none() {
        let fix = "lead every branch to one node with `shape=tripleoctagon`";
        let message = format!("the branches of `{}` have no node in common to join at", node.id);
        found.push(error("fan_out_joins", message).with_fix(fix));
    }
    if let Some(join) = join {
        leads_back(pipeline, node, join, found);
    }
    if let Some(JoinPolicy::KOfN(k)) = node.fan_out.map(|rules| rules.join) {
        let is_given = node.attrs.contains_key("k");
        if !is_given || k == 0 || k as usize > branches {
            let message = format!("`join_policy=k_of_n` needs `k`, a number from 1 to {branches}");
            found.push(error("join_count", message));
        }
    }
    let mut names: BTreeMap<ContextId, &NodeId> = BTreeMap::new();
    for edge in pipeline.outgoing(&node.id) {
        if let Some(other) = names.insert(ContextId::of_node(&edge.to), &edge.to).filter(|other| **other != edge.to) {
            let message = format!("the branches at `{other}` and `{}` would have the same name", edge.to);
            found.push(error("branch_names", message).with_fix("rename one of the nodes"));
        }
        let inside = branch_nodes(pipeline, &edge.to, join);
        let restarts = inside.iter().flat_map(|node| pipeline.outgoing(&node.id)).filter(|edge| edge.loop_restart);
        for edge in restarts {
            let message = format!("`loop_restart` inside a branch of `{}`: a branch cannot restart the run", node.id);
            found.push(Diagnostic::error("branch_restarts", message, edge.span.0).at_edge(&edge.from, &edge.to));
        }
    }
}

/// Ways from inside the branches of a fan-out back to it: it is still open there, and would fork without end. Those of
/// branches of other fan-outs inside them are among them.
fn leads_back(pipeline: &Pipeline, fan_out: &Node, join: &NodeId, found: &mut Vec<Diagnostic>) {
    // Where it fails it follows such an edge itself, outside of its branches.
    let branches = pipeline.outgoing(&fan_out.id).filter(|edge| !is_for_failures(edge));
    let mut next: VecDeque<Hop<'_>> = branches.map(Hop::Edge).collect();
    let mut before: BTreeMap<&NodeId, &NodeId> = BTreeMap::new();
    while let Some(hop) = next.pop_front() {
        let (from, to) = (hop.from(), hop.to());
        if *to == fan_out.id {
            let way = std::iter::successors(Some(from), |at| before.get(*at).copied()).map(NodeId::as_str);
            let mut way: Vec<&str> = std::iter::once(to.as_str()).chain(way).collect();
            way.reverse();
            let message = format!("a branch of `{to}` leads back to it while it is open: {}", way.join(" → "));
            let fix = format!("lead back to a node of the branch, or to `{to}` from after `{join}`");
            found.push(hop.error("branch_leads_back", message).with_fix(fix));
        } else if to != join && !before.contains_key(to) {
            before.insert(to, from);
            // A way back to a fan-out around this one is reported of that one.
            if !encloses(pipeline, to, &fan_out.id) {
                next.extend(hops(pipeline, to));
            }
        }
    }
}

/// Whether a node is a fan-out with another one inside its branches. Of two that lead to each other, the one the run
/// reaches first is the outer one.
fn encloses(pipeline: &Pipeline, outer: &NodeId, inner: &NodeId) -> bool {
    let is_fan_out = pipeline.node(outer).is_some_and(|node| node.handler == HandlerKind::Parallel);
    let reaches = |from: &NodeId, until: Option<&NodeId>, to: &NodeId| {
        pipeline
            .node(from)
            .is_some_and(|from| branch_nodes(pipeline, &from.id, until).iter().any(|node| node.id == *to))
    };
    let join = if is_fan_out { join_of(pipeline, outer) } else { None };
    join.is_some()
        && pipeline.outgoing(outer).any(|edge| reaches(&edge.to, join, inner))
        && pipeline.start().is_some_and(|start| reaches(&start.id, Some(inner), outer))
}

/// A way from a node to another.
enum Hop<'p> {
    Edge(&'p Edge),
    /// By its target for failures.
    Target(&'p Node, &'p NodeId),
}

impl<'p> Hop<'p> {
    fn from(&self) -> &'p NodeId {
        match self {
            Self::Edge(edge) => &edge.from,
            Self::Target(node, _) => &node.id,
        }
    }

    fn to(&self) -> &'p NodeId {
        match self {
            Self::Edge(edge) => &edge.to,
            Self::Target(_, to) => to,
        }
    }

    fn error(&self, rule: &str, message: String) -> Diagnostic {
        match self {
            Self::Edge(edge) => Diagnostic::error(rule, message, edge.span.0).at_edge(&edge.from, &edge.to),
            Self::Target(node, _) => {
                let key = if node.retry_target.is_some() { "retry_target" } else { "fallback_retry_target" };
                let span = node.attrs.get(key).map_or(node.span.0, |attr| attr.span);
                Diagnostic::error(rule, message, span).at_node(&node.id)
            }
        }
    }
}

/// Every way on from a node.
fn hops<'p>(pipeline: &'p Pipeline, id: &'p NodeId) -> impl Iterator<Item = Hop<'p>> {
    let node = pipeline.node(id).filter(|node| !has_edge_for_failures(pipeline, node));
    let target = node.and_then(|node| {
        let to = node.retry_target.as_ref().or(node.fallback_retry_target.as_ref())?;
        pipeline.node(to).map(|_| Hop::Target(node, to))
    });
    pipeline.outgoing(id).map(Hop::Edge).chain(target)
}

/// Whether a failure of a node always has an edge to follow. A goal gate may have a target all the same, for the exit.
fn has_edge_for_failures(pipeline: &Pipeline, node: &Node) -> bool {
    let branches = |id: &NodeId| pipeline.node(id).is_some_and(|node| node.handler == HandlerKind::Conditional);
    let takes = |edge: &Edge| match &edge.condition {
        Some(condition) => {
            condition.keys().iter().all(|key| *key == "outcome") && condition.eval(&|_: &str| "fail".to_owned())
        }
        None => branches(&edge.from) || branches(&edge.to),
    };
    pipeline.outgoing(&node.id).any(|edge| edge.max_visits.is_none() && takes(edge))
}
