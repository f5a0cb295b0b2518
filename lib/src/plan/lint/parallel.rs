//! Fan-out and fan-in: every branch must come together again.

use std::collections::BTreeSet;

use crate::plan::diagnostic::Diagnostic;
use crate::plan::pipeline::{HandlerKind, Pipeline};

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
