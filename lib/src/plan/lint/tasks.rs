//! What a pipeline needs to work on tasks of a tree.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{NodeId, StepName};
use crate::plan::diagnostic::Diagnostic;
use crate::plan::pipeline::{Node, Pipeline};

/// Why a pipeline cannot be one attempt at a task; empty when it can.
///
/// An attempt is one pass, so it must not go in circles: the run over the tree begins the next attempt, and counts it.
/// A step has one node, because a task goes on behind it after an interruption.
pub fn task_pipeline(pipeline: &Pipeline) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut steps: BTreeMap<&str, &Node> = BTreeMap::new();
    for node in pipeline.nodes() {
        let Some(step) = node.step.as_deref() else { continue };
        let refuse = |why: String| Diagnostic::error("task_steps", why, node.span.0).at_node(&node.id);
        if StepName::new(step).is_err() || ["complete", "reset", "run-start", "skipped", "failed"].contains(&step) {
            found.push(refuse(format!("`{step}` cannot be the name of a step: use a-z, 0-9 and `-`")));
        } else if let Some(other) = steps.insert(step, node) {
            found.push(refuse(format!("`{}` and `{}` are both the step `{step}`", other.id, node.id)));
        }
    }
    if steps.is_empty() {
        let why = "no node has a `step`, so nothing of an attempt would be committed";
        found.push(Diagnostic::error("task_steps", why, pipeline.span.0));
    }
    if let Some(node) = circle(pipeline) {
        let why = format!("the way leads back to `{}`; an attempt at a task is one pass without circles", node.id);
        found.push(Diagnostic::error("task_acyclic", why, node.span.0).at_node(&node.id));
    }
    found
}

/// A node the run could come to twice.
fn circle(pipeline: &Pipeline) -> Option<&Node> {
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
    // What is left is in a circle or behind one. Against the edges the way leads into it, and round.
    let mut at = *waiting.keys().next()?;
    let mut passed = BTreeSet::new();
    while passed.insert(at) {
        at = pipeline.incoming(at).map(|edge| &edge.from).find(|from| waiting.contains_key(from)).unwrap_or(at);
    }
    pipeline.nodes().iter().find(|node| node.id == *at)
}
