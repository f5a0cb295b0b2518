//! What a picture is made of, before and after it has a place.

use crate::render::graph::geometry::{Flow, Point, Size};
use crate::render::graph::path::Path;

/// The room left free around the label of an edge.
pub const LABEL_MARGIN: f64 = 6.0;

/// A node to be placed.
#[derive(Debug, Clone)]
pub struct Body {
    pub size: Size,
    /// The corners of its outline, around its middle.
    pub outline: Vec<Point>,
}

impl Body {
    pub fn turned(&self, flow: Flow) -> Self {
        let outline = self.outline.iter().map(|corner| flow.turn(*corner)).collect();
        Self { size: flow.turn_size(self.size), outline }
    }
}

/// An edge to be drawn.
#[derive(Debug, Clone, Copy)]
pub struct Wire {
    pub from: usize,
    pub to: usize,
    /// The room its text needs; nothing when it has none.
    pub label: Size,
}

/// Where an edge goes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Course {
    pub path: Path,
    /// The middle of its label.
    pub label_at: Point,
}

/// The way of an edge through the stack.
#[derive(Debug, Clone, Default)]
pub struct Strand {
    /// Its arcs from top to bottom; none for an edge from a node to itself.
    pub arcs: Vec<usize>,
    /// The box of its label.
    pub label: Option<usize>,
    /// It leads upwards.
    pub rises: bool,
}
