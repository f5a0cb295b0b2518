//! Where everything goes: nodes in layers, edges between them, labels of edges in layers of their own.
//!
//! All of it is computed as if the picture ran downwards; for one that runs to the right the two axes change their roles
//! at the beginning and at the end.

use std::collections::BTreeSet;

use crate::render::graph::geometry::{Flow, Point, Size};
use crate::render::graph::layers::{Arc, Cell, Layers, Route, Stack};
use crate::render::graph::loops::Loops;
use crate::render::graph::order::Order;
use crate::render::graph::parts::{Body, Course, LABEL_MARGIN, Strand, Wire};
use crate::render::graph::path::Path;
use crate::render::graph::{crossings, routes, spines};

/// Where everything goes.
#[derive(Debug, Default)]
pub struct Layout {
    pub size: Size,
    /// The middle of each node.
    pub nodes: Vec<Point>,
    pub wires: Vec<Course>,
}

/// Places nodes and edges.
pub fn lay_out(bodies: &[Body], wires: &[Wire], order: &Order, flow: Flow) -> Layout {
    let bodies: Vec<Body> = bodies.iter().map(|body| body.turned(flow)).collect();
    let wires: Vec<Wire> = wires.iter().map(|wire| Wire { label: flow.turn_size(wire.label), ..*wire }).collect();
    let loops = Loops::new(&bodies, &wires);
    let (stack, boxes, strands) = pile(&bodies, &wires, order, &loops);
    let mut layers = Layers::new(&stack);
    crossings::untangle(&mut layers);
    let x = spines::place(&layers, &ways(&strands, &stack, &layers));
    let mut outlines: Vec<Option<&[Point]>> = vec![None; stack.boxes.len()];
    for (node, slot) in boxes.iter().enumerate() {
        outlines[*slot] = Some(&bodies[node].outline);
    }
    let routed = routes::route(&layers, &stack, x, &outlines, &strands);
    let course = |(index, (strand, knots)): (usize, (&Strand, &Vec<Point>))| {
        let node = wires[index].from;
        if wires[index].to == node {
            return loops.course(&bodies[node], routed.middle[boxes[node]], index, &wires, flow);
        }
        let label_at = strand.label.map(|slot| flow.turn(routed.middle[slot])).unwrap_or_default();
        let joins = strand.arcs.iter().any(|arc| matches!(layers.routes[*arc], Route::Joins(..)));
        let path = if joins { Path::joining } else { Path::along };
        Course { path: path(knots, strand.rises, flow), label_at }
    };
    Layout {
        size: flow.turn_size(routed.size),
        nodes: boxes.iter().map(|slot| flow.turn(routed.middle[*slot])).collect(),
        wires: strands.iter().zip(&routed.knots).enumerate().map(course).collect(),
    }
}

/// Stacks nodes and labels of edges so that every arc leads to a later box. Gives the box of each node as well.
fn pile(bodies: &[Body], wires: &[Wire], order: &Order, loops: &Loops) -> (Stack, Vec<usize>, Vec<Strand>) {
    let mut place = vec![0; bodies.len()];
    order.nodes.iter().enumerate().for_each(|(at, node)| place[*node] = at);
    let mut leaving = vec![Vec::new(); bodies.len()];
    let mut strands = vec![Strand::default(); wires.len()];
    for (index, wire) in wires.iter().enumerate().filter(|(_, wire)| wire.from != wire.to) {
        strands[index].rises = place[wire.from] > place[wire.to];
        leaving[if strands[index].rises { wire.to } else { wire.from }].push(index);
    }
    // Where one edge of a node has a label, the others leave room for one: what they lead to is in one row.
    let has_label =
        |edges: &Vec<usize>| edges.iter().any(|edge| !strands[*edge].rises && !wires[*edge].label.is_empty());
    let labelled: Vec<bool> = leaving.iter().map(has_label).collect();
    let mut stack = Stack::default();
    let mut boxes = vec![0; bodies.len()];
    let mut joined = BTreeSet::new();
    for node in &order.nodes {
        boxes[*node] = stack.boxes.len();
        let size = loops.widened(*node, bodies[*node].size);
        stack.boxes.push(Cell { size, sinks: false, is_label: false });
        for index in &leaving[*node] {
            let Wire { from, to, label } = wires[*index];
            // Of edges without a label only one can take the straight way from node to node.
            let in_row = labelled[*node] && !strands[*index].rises;
            if !label.is_empty() || !joined.insert((from.min(to), from.max(to))) || in_row {
                let size = Size::new(label.width + 2.0 * LABEL_MARGIN, label.height + 4.0);
                strands[*index].label = Some(stack.boxes.len());
                // The label of an edge that leads back belongs to the node it leaves, which is the lower one.
                stack.boxes.push(Cell { size, sinks: strands[*index].rises, is_label: true });
            }
        }
    }
    for (index, strand) in strands.iter_mut().enumerate() {
        let Wire { from, to, .. } = wires[index];
        if from == to {
            continue;
        }
        let (upper, lower) = if strand.rises { (boxes[to], boxes[from]) } else { (boxes[from], boxes[to]) };
        let stations = [Some(upper), strand.label, Some(lower)];
        let stations: Vec<usize> = stations.into_iter().flatten().collect();
        for pair in stations.windows(2) {
            strand.arcs.push(stack.arcs.len());
            stack.arcs.push(Arc { from: pair[0], to: pair[1], rises: strand.rises });
        }
    }
    (stack, boxes, strands)
}

/// Everything each edge goes through, its two nodes included, or the edge it joins.
fn ways(strands: &[Strand], stack: &Stack, layers: &Layers) -> Vec<Vec<usize>> {
    let way = |strand: &Strand| {
        let mut way = Vec::new();
        for arc in &strand.arcs {
            let Arc { from, to, rises } = stack.arcs[*arc];
            match &layers.routes[*arc] {
                Route::Through(bends) => way.extend([from].iter().chain(bends).chain(&[to])),
                Route::Joins(bends, trunk) if rises => way.extend([*trunk].iter().chain(bends).chain(&[to])),
                Route::Joins(bends, trunk) => way.extend([from].iter().chain(bends).chain(&[*trunk])),
                Route::Around => way.extend([from, to]),
            }
        }
        way.dedup();
        way
    };
    strands.iter().map(way).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::graph::order::order;
    use crate::render::graph::shapes::Shape;

    fn laid_out(count: usize, edges: &[(usize, usize)], label: Size, flow: Flow) -> Layout {
        let size = Size::new(80.0, 40.0);
        let bodies = vec![Body { size, outline: Shape::Box.outline(size) }; count];
        let wires: Vec<Wire> = edges.iter().map(|(from, to)| Wire { from: *from, to: *to, label }).collect();
        lay_out(&bodies, &wires, &order(count, edges, None), flow)
    }

    fn assert_sound(layout: &Layout, what: &str) {
        for (index, a) in layout.nodes.iter().enumerate() {
            let inside =
                a.x >= 39.9 && a.y >= 19.9 && a.x <= layout.size.width - 39.9 && a.y <= layout.size.height - 19.9;
            assert!(inside, "{what}: {a:?} sticks out of {:?}", layout.size);
            for b in &layout.nodes[index + 1..] {
                assert!((a.x - b.x).abs() >= 79.9 || (a.y - b.y).abs() >= 39.9, "{what}: {a:?} and {b:?} overlap");
            }
        }
        for wire in &layout.wires {
            assert!(wire.path.line.starts_with('M') && !wire.path.line.contains("NaN"), "{what}: {wire:?}");
            assert!(!wire.path.head.contains("NaN") && !wire.path.head.contains("inf"), "{what}: {wire:?}");
        }
    }

    #[test]
    fn any_graph_can_be_laid_out() {
        for seed in 0..120_usize {
            let count = seed % 14;
            let many = if count == 0 { 0 } else { seed % 31 };
            let edges: Vec<_> = (0..many).map(|n| ((n * 7 + seed) % count, (n * n * 5 + seed / 3) % count)).collect();
            let label = if seed % 2 == 0 { Size::default() } else { Size::new(70.0, 30.0) };
            let flow = if seed % 3 == 0 { Flow::Right } else { Flow::Down };
            assert_sound(&laid_out(count, &edges, label, flow), &format!("{count} nodes, {edges:?}"));
        }
    }

    #[test]
    fn a_chain_runs_down_or_to_the_right() {
        let down = laid_out(3, &[(0, 1), (1, 2)], Size::default(), Flow::Down);
        assert!(down.nodes.windows(2).all(|pair| pair[0].y < pair[1].y && (pair[0].x - pair[1].x).abs() < 0.1));
        let right = laid_out(3, &[(0, 1), (1, 2)], Size::default(), Flow::Right);
        assert!(right.nodes.windows(2).all(|pair| pair[0].x < pair[1].x && (pair[0].y - pair[1].y).abs() < 0.1));
    }

    #[test]
    fn parallel_edges_and_edges_back_take_ways_of_their_own() {
        let layout = laid_out(2, &[(0, 1), (0, 1), (1, 0), (0, 0), (0, 0)], Size::default(), Flow::Down);
        let mut lines: Vec<&str> = layout.wires.iter().map(|wire| wire.path.line.as_str()).collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), 5, "{lines:?}");
    }

    #[test]
    fn edges_that_go_around_stay_on_the_page() {
        let count = 600;
        let chain = (1..count).map(|node| (node - 1, node));
        let far = (0..count / 2).map(|node| (node, node + count / 2));
        let layout = laid_out(count, &chain.chain(far).collect::<Vec<_>>(), Size::default(), Flow::Down);
        assert_sound(&layout, "a chain with many long ways");
        assert!(layout.wires.iter().all(|wire| wire.path.head.ends_with('Z')));
    }
}
