//! Placing slots with the layout crate: its order of slots and its coordinates are better than those of our own sweeps,
//! but its time grows much faster.
//!
//! Only these two steps of it are used. What comes before them in the crate looks for cycles along every path there is,
//! which takes for ever on some small graphs, and it has no place for the size of our labels.

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

/// Graphs with more slots than this take the crate too long.
const MOST_SLOTS: usize = 200;

/// The room it keeps between two boxes.
const GAP: f64 = 28.0;

/// Whether the crate places these layers in a moment.
pub fn can_place(layers: &Layers) -> bool {
    // It panics on an empty graph.
    (1..=MOST_SLOTS).contains(&layers.layer.len())
}

/// Orders the slots within their layers and gives the middle of each.
pub fn place(layers: &mut Layers) -> Vec<f64> {
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
    element.pos = Position::new(Point::zero(), size, Point::zero(), Point::splat(GAP));
    element
}
