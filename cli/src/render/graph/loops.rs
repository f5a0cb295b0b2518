//! Edges from a node to itself.

use crate::render::graph::geometry::{Flow, Point, Size};
use crate::render::graph::parts::{Body, Course, LABEL_MARGIN, Wire};
use crate::render::graph::path::Path;
use crate::render::graph::routes;

/// How far a loop reaches out, and by how much more the next one does.
const LOOP: f64 = 26.0;
const NEXT_LOOP: f64 = 14.0;

/// The loops of all nodes: at the right side, one around the other, with the labels beside them.
pub struct Loops {
    /// The loops of each node.
    by_node: Vec<Vec<usize>>,
    /// The room they take beside the node.
    room: Vec<Size>,
}

impl Loops {
    /// Counts the loops and measures their labels.
    pub fn new(bodies: &[Body], wires: &[Wire]) -> Self {
        let mut by_node = vec![Vec::new(); bodies.len()];
        let mut room = vec![Size::default(); bodies.len()];
        for (index, wire) in wires.iter().enumerate().filter(|(_, wire)| wire.from == wire.to) {
            let room = &mut room[wire.from];
            by_node[wire.from].push(index);
            let reach = LOOP + NEXT_LOOP * (by_node[wire.from].len() - 1) as f64;
            room.width = room.width.max(reach + wire.label.width + 2.0 * LABEL_MARGIN);
            room.height += wire.label.height;
        }
        Self { by_node, room }
    }

    /// The size of a node together with its loops. Both sides grow, so that the node stays in the middle.
    pub fn widened(&self, node: usize, size: Size) -> Size {
        Size::new(size.width + 2.0 * self.room[node].width, size.height.max(self.room[node].height))
    }

    /// The way of a loop at a node with that middle, and where its label goes; all in a drawing that runs downwards.
    pub fn course(&self, body: &Body, middle: Point, wire: usize, wires: &[Wire], flow: Flow) -> Course {
        let own = &self.by_node[wires[wire].from];
        let number = own.iter().position(|own| *own == wire).unwrap_or_default();
        let reach = LOOP + NEXT_LOOP * number as f64;
        let half = (body.size.height * (0.18 + 0.08 * number as f64)).min(body.size.height * 0.42);
        let right = |y: f64| {
            let turned: Vec<Point> = body.outline.iter().map(|corner| corner.transposed()).collect();
            routes::reach(&turned, y).1
        };
        let path = Path::looped(
            middle.plus(Point::new(right(-half), -half)),
            middle.plus(Point::new(right(half), half)),
            middle.x + body.size.width / 2.0 + reach,
            flow,
        );
        let above: f64 = own[..number].iter().map(|own| wires[*own].label.height).sum();
        let widest = LOOP + NEXT_LOOP * (own.len() - 1) as f64;
        let Size { width, height } = wires[wire].label;
        let label_at = Point::new(
            middle.x + body.size.width / 2.0 + widest + LABEL_MARGIN + width / 2.0,
            middle.y - self.room[wires[wire].from].height / 2.0 + above + height / 2.0,
        );
        Course { path, label_at: flow.turn(label_at) }
    }
}
