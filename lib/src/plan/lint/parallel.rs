//! Fan-out and fan-in: every branch must come together again, under a name of its own.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{ContextId, NodeId};
use crate::plan::diagnostic::Diagnostic;
use crate::plan::join_point::{branch_nodes, join_of};
use crate::plan::parallel::JoinPolicy;
use crate::plan::pipeline::{HandlerKind, Node, Pipeline};

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
            }
            _ => {}
        }
    }
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
