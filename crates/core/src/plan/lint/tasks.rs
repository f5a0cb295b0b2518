//! What a pipeline needs to work on tasks of a tree.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{NodeId, StepName};
use crate::plan::diagnostic::Diagnostic;
use crate::plan::join_point::{branch_nodes, join_of};
use crate::plan::pipeline::{HandlerKind, Node, Pipeline};

/// Why nothing may lead back.
const ONE_PASS: &str = "the pipeline of a task must not loop";

/// Reserved step names: pleach's own steps and their ends.
const TAKEN: [&str; 5] = ["complete", "failed", "reset", "run-start", "skipped"];

/// Why a pipeline cannot be one attempt at a task; empty when it can.
///
/// An attempt is one pass, so it must not go in circles: the run over the tree starts the next attempt, and counts it.
/// A step has one node, because a task continues after it after an interruption.
pub fn task_pipeline(pipeline: &Pipeline) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut steps: BTreeMap<&str, &Node> = BTreeMap::new();
    for node in pipeline.nodes() {
        let Some(step) = node.step.as_deref() else { continue };
        let refuse = |why: String| Diagnostic::error("task_steps", why, node.span.0).at_node(&node.id);
        if let Some(why) = no_step(node) {
            found.push(refuse(why));
        } else if StepName::new(step).is_err() {
            found.push(refuse(format!("`{step}` cannot be the name of a step: use a-z, 0-9 and `-`")));
        } else if TAKEN.contains(&step) {
            found.push(refuse(format!("`{step}` cannot be the name of a step: {} are reserved", TAKEN.join(", "))));
        } else if let Some(other) = steps.insert(step, node) {
            found.push(refuse(format!("`{}` and `{}` are both the step `{step}`", other.id, node.id)));
        }
    }
    for node in steps_in_branches(pipeline) {
        let why = format!("`{}` is in a branch of a fan-out and cannot be a step: remove `step`", node.id);
        found.push(Diagnostic::error("task_steps", why, node.span.0).at_node(&node.id));
    }
    if steps.is_empty() {
        let why = "no node has a `step`, so an attempt would commit nothing";
        found.push(Diagnostic::error("task_steps", why, pipeline.span.0));
    }
    if let Some(node) = find_cycle(pipeline) {
        let why = format!("an edge leads back to `{}`; {ONE_PASS}", node.id);
        found.push(Diagnostic::error("task_acyclic", why, node.span.0).at_node(&node.id));
    }
    found.extend(jumps_back(pipeline));
    found
}

/// The steps that would be done by several branches at once, where a task has one step after another.
fn steps_in_branches(pipeline: &Pipeline) -> Vec<&Node> {
    let fan_outs = pipeline.nodes().iter().filter(|node| node.handler == HandlerKind::Parallel);
    let mut found: BTreeMap<&NodeId, &Node> = BTreeMap::new();
    for fan_out in fan_outs {
        let join = join_of(pipeline, &fan_out.id);
        for edge in pipeline.outgoing(&fan_out.id) {
            let steps = branch_nodes(pipeline, &edge.to, join).into_iter().filter(|node| node.step.is_some());
            found.extend(steps.map(|node| (&node.id, node)));
        }
    }
    found.into_values().collect()
}

/// Why a node that names a step makes none; none where it does, or names none.
pub(super) fn no_step(node: &Node) -> Option<String> {
    let step = node.step.as_deref()?;
    if matches!(node.handler, HandlerKind::Codergen | HandlerKind::Tool) {
        return None;
    }
    let said = |key: &str| node.attrs.get(key).map(|attr| format!("{key}={}", attr.value));
    let what = said("type").or_else(|| said("shape")).unwrap_or_else(|| format!("type={}", node.handler.as_str()));
    Some(format!(
        "`{}` (`{what}`) cannot be the step `{step}`: only agents (`shape=box`) and commands (`shape=parallelogram`) can be \
         steps",
        node.id
    ))
}

/// Retry targets that lead back: they would repeat the pass without counting an attempt.
fn jumps_back(pipeline: &Pipeline) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (key, target) in
        [("retry_target", &pipeline.retry_target), ("fallback_retry_target", &pipeline.fallback_retry_target)]
    {
        if let Some(target) = target {
            let why = format!("{key} of the graph leads back to `{target}`; {ONE_PASS}");
            let span = pipeline.attrs.get(key).map_or(pipeline.span.0, |attr| attr.span);
            found.push(Diagnostic::error("task_acyclic", why, span));
        }
    }
    for node in pipeline.nodes() {
        let targets = [("retry_target", &node.retry_target), ("fallback_retry_target", &node.fallback_retry_target)];
        for (key, target) in targets {
            let Some(target) = target else { continue };
            // A gate sends the run back from the exit, so wherever it sends it is behind.
            if node.goal_gate || leads_to(pipeline, target, &node.id) {
                let why = format!("{key} leads back to `{target}`; {ONE_PASS}");
                let span = node.attrs.get(key).map_or(node.span.0, |attr| attr.span);
                found.push(Diagnostic::error("task_acyclic", why, span).at_node(&node.id));
            }
        }
    }
    found
}

/// Whether the run can come from one node to another, along edges and by jumps.
fn leads_to(pipeline: &Pipeline, from: &NodeId, to: &NodeId) -> bool {
    let mut open = vec![from];
    let mut passed = BTreeSet::new();
    while let Some(id) = open.pop() {
        if id == to {
            return true;
        }
        if passed.insert(id) {
            open.extend(pipeline.outgoing(id).map(|edge| &edge.to));
            let node = pipeline.node(id).into_iter();
            open.extend(node.flat_map(|node| node.retry_target.iter().chain(&node.fallback_retry_target)));
        }
    }
    false
}

/// A node the run could come to twice.
fn find_cycle(pipeline: &Pipeline) -> Option<&Node> {
    let mut waiting: BTreeMap<&NodeId, usize> =
        pipeline.nodes().iter().map(|node| (&node.id, pipeline.incoming(&node.id).count())).collect();
    let mut free: Vec<&NodeId> = waiting.iter().filter(|(_, count)| **count == 0).map(|(id, _)| *id).collect();
    while let Some(id) = free.pop() {
        waiting.remove(id);
        for edge in pipeline.outgoing(id) {
            if let Some(count) = waiting.get_mut(&edge.to) {
                *count -= 1;
                if *count == 0 {
                    free.extend(pipeline.node(&edge.to).map(|node| &node.id));
                }
            }
        }
    }
    // What is left is in a circle or after one. Against the edges the way leads into it, and round.
    let mut at = *waiting.keys().next()?;
    let mut passed = BTreeSet::new();
    while passed.insert(at) {
        at = pipeline.incoming(at).map(|edge| &edge.from).find(|from| waiting.contains_key(from)).unwrap_or(at);
    }
    pipeline.nodes().iter().find(|node| node.id == *at)
}
