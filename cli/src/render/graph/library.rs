//! Placing slots with the layout crate: on small graphs it finds fewer crossings and straighter edges than our sweeps
//! do, but its time grows much faster.
//!
//! Only two steps of it are used. What comes before them in the crate looks for cycles along every path there is, which
//! takes for ever on some graphs of thirty nodes, and it has no place for labels of several lines.

use layout::adt::dag::NodeHandle;
use layout::core::base::Orientation;
use layout::core::format::Visible as _;
use layout::core::geometry::{Point, Position};
use layout::core::style::StyleAttr;
use layout::std_shapes::shapes::{Element, ShapeKind};
use layout::topo::layout::VisualGraph;
use layout::topo::optimizer::EdgeCrossOptimizer;
use layout::topo::placer::Placer;

use crate::render::graph::layers::Layers;
use crate::render::graph::sweeps::{self, BOX_GAP};

/// The crate compares every pair of a layer with the whole next layer, over and over. Up to this many comparisons in
/// one round it takes about a twentieth of a second.
const MOST_COMPARISONS: usize = 5_000;
/// It also looks for slots in lists of all of them.
const MOST_SLOTS: usize = 400;

/// Whether the crate places these layers in a moment.
pub fn can_place(layers: &Layers) -> bool {
    let pairs = layers.rows.windows(2).map(|rows| rows[0].len().pow(2) * rows[1].len());
    // It panics on an empty graph.
    (1..=MOST_SLOTS).contains(&layers.layer.len()) && pairs.sum::<usize>() <= MOST_COMPARISONS
}

/// Orders the slots within their layers and gives the middle of each.
pub fn place(layers: &mut Layers) -> Vec<f64> {
    // The crate begins with the order it is given, and keeps it unless it finds a better one.
    sweeps::reorder(layers);
    let mut graph = VisualGraph::new(Orientation::TopToBottom);
    let handles: Vec<NodeHandle> = (0..layers.layer.len()).map(|slot| graph.add_node(element(layers, slot))).collect();
    // The check is for the crate's own mistakes, and slow.
    graph.dag.set_validate(false);
    for (upper, below) in layers.below.iter().enumerate() {
        for lower in below {
            graph.dag.add_edge(handles[upper], handles[*lower]);
        }
    }
    *graph.dag.ranks_mut() = layers.rows.iter().map(|row| row.iter().map(|slot| handles[*slot]).collect()).collect();
    EdgeCrossOptimizer::new(&mut graph.dag).optimize();
    Placer::new(&mut graph).layout(false);
    layers.rows = graph.dag.ranks().iter().map(|row| row.iter().map(NodeHandle::get_index).collect()).collect();
    handles.iter().map(|handle| graph.pos(*handle).center().x).collect()
}

fn element(layers: &Layers, slot: usize) -> Element {
    if layers.is_bend(slot) {
        let mut bend = Element::empty_connector(Orientation::TopToBottom);
        bend.resize();
        return bend;
    }
    let size = layers.size[slot];
    let size = Point::new(size.width, size.height);
    let shape = ShapeKind::new_box("");
    let mut element = Element::create(shape, StyleAttr::simple(), Orientation::TopToBottom, size);
    element.pos = Position::new(Point::zero(), size, Point::zero(), Point::splat(BOX_GAP));
    element
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::graph::layers::Stack;
    use crate::render::graph::layers::tests::stack;

    #[test]
    fn small_graphs_are_for_the_crate_and_empty_or_wide_ones_are_not() {
        let fan = |wide: usize| (1..=wide).flat_map(move |n| [(0, n), (n, wide + 1)]).collect::<Vec<_>>();
        assert!(!can_place(&Layers::new(&Stack::default())));
        assert!(can_place(&Layers::new(&stack(1, &[]))));
        assert!(can_place(&Layers::new(&stack(22, &fan(20)))));
        assert!(!can_place(&Layers::new(&stack(202, &fan(200)))));
    }

    #[test]
    fn a_graph_with_very_many_paths_takes_no_longer() {
        // Thirty diamonds below each other: two to the power of thirty ways through.
        let arcs: Vec<_> =
            (0..30).flat_map(|n| [(0, 1), (0, 2), (1, 3), (2, 3)].map(|(a, b)| (3 * n + a, 3 * n + b))).collect();
        let mut layers = Layers::new(&stack(91, &arcs));
        assert!(can_place(&layers));
        assert_eq!(place(&mut layers).len(), 91);
    }
}
