//! Where the branches of a fan-out join, and which nodes lie in between.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::condition::Condition;
use super::pipeline::{Edge, HandlerKind, Node, Pipeline, WritePolicy};
use crate::ids::NodeId;

/// Where the branches of a fan-out join: the nearest fan-in they all reach that is not another fan-out's, or, without
/// one, the nearest node they all reach. None where some branch reaches nothing the others do.
pub fn join_of<'p>(pipeline: &'p Pipeline, fan_out: &NodeId) -> Option<&'p NodeId> {
    JoinSearch { pipeline, open: BTreeSet::new() }.join_of(fan_out)
}

impl Pipeline {
    /// Where the branches of a fan-out join; none where they do not.
    pub fn join_of(&self, fan_out: &NodeId) -> Option<&NodeId> {
        join_of(self, fan_out)
    }
}

/// The nodes a branch can visit, from its first one until the join.
pub(crate) fn branch_nodes<'p>(pipeline: &'p Pipeline, first: &'p NodeId, join: Option<&NodeId>) -> Vec<&'p Node> {
    let (mut seen, mut open, mut nodes) = (BTreeSet::from([first]), vec![first], Vec::new());
    while let Some(id) = open.pop() {
        if Some(id) == join {
            continue;
        }
        nodes.extend(pipeline.node(id));
        open.extend(pipeline.outgoing(id).map(|edge| &edge.to).filter(|to| seen.insert(to)));
    }
    nodes
}

/// Whether no node of a branch may change files.
pub fn is_read_only(pipeline: &Pipeline, first: &NodeId, join: Option<&NodeId>) -> bool {
    branch_nodes(pipeline, first, join).into_iter().all(|node| match node.handler {
        HandlerKind::Codergen | HandlerKind::Tool | HandlerKind::Custom(_) => node.write == WritePolicy::Never,
        _ => true,
    })
}

/// Whether an edge is taken after a failure and never after a success.
pub(crate) fn is_for_failures(edge: &Edge) -> bool {
    let with = |outcome: &str, condition: &Condition| {
        condition.eval(&|key: &str| if key == "outcome" { outcome.to_owned() } else { String::new() })
    };
    edge.condition.as_ref().is_some_and(|condition| with("fail", condition) && !with("success", condition))
}

/// How a branch comes to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reached {
    /// Over so many edges.
    steps: usize,
    /// Not only as the join of another fan-out.
    directly: bool,
}

struct JoinSearch<'p> {
    pipeline: &'p Pipeline,
    /// The fan-outs whose joins are being looked for, so that a cycle ends.
    open: BTreeSet<NodeId>,
}

impl<'p> JoinSearch<'p> {
    fn join_of(&mut self, fan_out: &NodeId) -> Option<&'p NodeId> {
        if !self.open.insert(fan_out.clone()) {
            return None;
        }
        let found =
            self.common(fan_out, true, |_| true).or_else(|| self.common(fan_out, false, |edge| !is_for_failures(edge)));
        let found = found.or_else(|| self.common(fan_out, false, |_| true));
        self.open.remove(fan_out);
        found
    }

    /// The nearest node that all branches reach along edges that are followed.
    fn common(&mut self, fan_out: &NodeId, fan_ins_only: bool, follows: fn(&Edge) -> bool) -> Option<&'p NodeId> {
        let pipeline = self.pipeline;
        let heads: Vec<&NodeId> = pipeline.outgoing(fan_out).map(|edge| &edge.to).collect();
        let mut common: BTreeMap<&NodeId, (usize, Reached)> = BTreeMap::new();
        for head in &heads {
            for (node, reached) in self.reached_from(head, fan_out, follows) {
                let (count, before) = common.entry(node).or_insert((0, Reached { steps: 0, directly: false }));
                *count += 1;
                *before =
                    Reached { steps: before.steps.max(reached.steps), directly: before.directly || reached.directly };
            }
        }
        let is_exit = |node: &NodeId| pipeline.node(node).is_some_and(|node| node.handler == HandlerKind::Exit);
        let is_fan_in = |node: &NodeId| pipeline.node(node).is_some_and(|node| node.handler == HandlerKind::FanIn);
        // A lone branch reaches every one of its nodes; without a fan-in it runs to the end.
        let is_join = |node: &NodeId| if fan_ins_only { is_fan_in(node) } else { heads.len() > 1 || is_exit(node) };
        let shared = common
            .into_iter()
            .filter(|(node, (count, reached))| *count == heads.len() && reached.directly && is_join(node));
        shared.min_by_key(|(node, (_, reached))| (reached.steps, *node)).map(|(node, _)| node)
    }

    /// Every node a branch comes to, with the fan-outs on its way taken as one step.
    fn reached_from(
        &mut self,
        head: &'p NodeId,
        fan_out: &NodeId,
        follows: fn(&Edge) -> bool,
    ) -> BTreeMap<&'p NodeId, Reached> {
        let mut reached = BTreeMap::from([(head, Reached { steps: 0, directly: true })]);
        let mut open = VecDeque::from([head]);
        while let Some(at) = open.pop_front() {
            if at == fan_out {
                continue;
            }
            let steps = reached[at].steps + 1;
            let is_fan_out = self.pipeline.node(at).is_some_and(|node| node.handler == HandlerKind::Parallel);
            let joined = if is_fan_out { self.join_of(at) } else { None };
            let next: Vec<(&NodeId, bool)> = match joined {
                Some(join) => vec![(join, false)],
                None => self.pipeline.outgoing(at).filter(|edge| follows(edge)).map(|edge| (&edge.to, true)).collect(),
            };
            for (to, directly) in next {
                match reached.get_mut(to) {
                    Some(before) => before.directly |= directly,
                    None => {
                        reached.insert(to, Reached { steps, directly });
                        open.push_back(to);
                    }
                }
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::lint::KnownNames;
    use crate::plan::{Inputs, validate};

    fn joins(body: &str) -> String {
        let source = format!("digraph g {{ start [shape=Mdiamond]\nexit [shape=Msquare]\n{body} }}");
        let (pipeline, found) = validate(&source, &Inputs::default(), &KnownNames::default());
        let pipeline = pipeline.unwrap_or_else(|| panic!("{found:?}"));
        let fan_outs = pipeline.nodes().iter().filter(|node| node.handler == HandlerKind::Parallel);
        let join = |node: &Node| format!("{}={}", node.id, join_of(&pipeline, &node.id).map_or("-", NodeId::as_str));
        fan_outs.map(join).collect::<Vec<_>>().join(" ")
    }

    const FORK: &str = "node [prompt=x]\nfork [shape=component]\njoin [shape=tripleoctagon]\nstart -> fork\n";

    #[test]
    fn branches_of_any_length_join_at_their_fan_in() {
        assert_eq!(joins(&format!("{FORK} fork -> a1 -> a2 -> join; fork -> b -> join; join -> exit")), "fork=join");
        // Both pass through a node they share, and a failure leads elsewhere.
        let shared = "fork -> a -> check -> join; fork -> b -> check; join -> exit; a -> bad [condition=\"outcome=fail\"]; b -> bad [condition=\"outcome=fail\"]; bad -> exit";
        assert_eq!(joins(&format!("{FORK} {shared}")), "fork=join");
        assert_eq!(joins(&format!("{FORK} fork -> a -> b -> join; join -> exit")), "fork=join");
        assert_eq!(joins(&format!("{FORK} fork -> a -> join; fork -> join; join -> exit")), "fork=join");
    }

    #[test]
    fn without_a_fan_in_the_nearest_shared_node_joins() {
        let body = "node [prompt=x]\nfork [shape=component]\nstart -> fork\nfork -> a -> review; fork -> b -> c -> review; review -> exit; a -> oops [condition=\"outcome=fail\"]; b -> oops [condition=\"outcome=fail\"]; oops -> exit";
        assert_eq!(joins(body), "fork=review");
        assert_eq!(
            joins("node [prompt=x]\nfork [shape=component]\nstart -> fork\nfork -> a -> exit; fork -> b -> exit"),
            "fork=exit"
        );
        assert_eq!(
            joins("node [prompt=x]\nfork [shape=component]\nstart -> fork\nfork -> a -> b -> exit"),
            "fork=exit"
        );
    }

    #[test]
    fn a_fan_in_belongs_to_the_innermost_fan_out() {
        let body = "two [shape=component]\njoin2 [shape=tripleoctagon]\nfork -> a -> join; fork -> two; two -> x -> join2; two -> y -> join2; join2 -> join; join -> exit";
        assert_eq!(joins(&format!("{FORK} {body}")), "fork=join two=join2");
        let shared =
            "two [shape=component]\nfork -> a -> join; fork -> two; two -> x -> join; two -> y -> join; join -> exit";
        assert_eq!(joins(&format!("{FORK} {shared}")), "fork=join two=join");
        // The second fan-in is no business of the first fan-out.
        let row = "node [prompt=x]\nfork [shape=component]\ntwo [shape=component]\njoin [shape=tripleoctagon]\nstart -> fork; fork -> a -> review; fork -> b -> review; review -> two; two -> c -> join; two -> d -> join; join -> exit";
        assert_eq!(joins(row), "fork=review two=join");
    }

    #[test]
    fn loops_do_not_confuse_the_join() {
        let inside = "fork -> a -> t; t -> a [condition=\"outcome=fail\"]; t -> join [condition=\"outcome=success\"]; fork -> b -> join; join -> exit";
        assert_eq!(joins(&format!("{FORK} {inside}")), "fork=join");
        let around = "fork -> a -> join; fork -> b -> join; join -> review; review -> fork [condition=\"outcome=fail\"]; review -> exit [condition=\"outcome=success\"]";
        assert_eq!(joins(&format!("{FORK} {around}")), "fork=join");
    }
}
