//! A pipeline as a picture: SVG for a viewer, text for a terminal.
//!
//! [`Diagram`] is what there is to see, [`order`] tells forward edges from those that lead back, and each format draws
//! from the two. Nothing here can fail: whatever the parser accepts can be drawn.

mod blocks;
mod crossings;
mod geometry;
mod label;
mod layers;
mod layout;
mod loops;
mod order;
mod parts;
mod path;
mod routes;
mod shapes;
mod spines;
mod svg;
mod text;

use std::collections::BTreeMap;

use pleach_core::ids::NodeId;
use pleach_core::plan::pipeline::{Edge, HandlerKind, Node, Pipeline};
use pleach_core::text::is_steering;
use serde_json::{Value, json};

use self::geometry::Flow;
use self::shapes::Shape;
pub use self::{svg::svg, text::text};

/// The drawable part of a pipeline.
#[derive(Debug, Default)]
pub struct Diagram {
    /// The name people know it by.
    name: String,
    /// What it is for.
    goal: String,
    flow: Flow,
    nodes: Vec<Figure>,
    links: Vec<Link>,
}

/// A node.
#[derive(Debug)]
struct Figure {
    id: String,
    /// Its label; the id by default.
    label: String,
    /// What a node without a label runs.
    command: Option<String>,
    /// What runs it.
    kind: HandlerKind,
    shape: Shape,
    /// Where the branches of a fan-out join.
    join: Option<usize>,
}

/// An edge between two nodes of the diagram.
#[derive(Debug)]
struct Link {
    from: usize,
    to: usize,
    label: String,
    /// When it may be taken; empty means always.
    condition: String,
    /// Taking it starts the run again.
    restarts: bool,
}

impl Diagram {
    /// The diagram of `pipeline`.
    pub fn new(pipeline: &Pipeline) -> Self {
        let index: BTreeMap<&NodeId, usize> =
            pipeline.nodes().iter().enumerate().map(|(index, node)| (&node.id, index)).collect();
        let link = |edge: &Edge| {
            Some(Link {
                from: *index.get(&edge.from)?,
                to: *index.get(&edge.to)?,
                label: one_line(&edge.label),
                condition: edge.condition.as_ref().map(ToString::to_string).unwrap_or_default(),
                restarts: edge.loop_restart,
            })
        };
        let figure = |node: &Node| {
            let is_fan_out = node.handler == HandlerKind::Parallel;
            let join = if is_fan_out { pipeline.join_of(&node.id) } else { None };
            Figure { join: join.and_then(|join| index.get(join).copied()), ..Figure::new(node) }
        };
        Self {
            name: if pipeline.label.is_empty() { pipeline.id.clone() } else { one_line(&pipeline.label) },
            goal: one_line(&pipeline.goal),
            flow: flow(pipeline),
            nodes: pipeline.nodes().iter().map(figure).collect(),
            links: pipeline.edges().iter().filter_map(link).collect(),
        }
    }

    /// The diagram as JSON: nodes in text order, edges as written.
    pub fn json(&self) -> Value {
        let order = self.order();
        let node = |index: usize| {
            let Figure { id, label, kind, shape, .. } = &self.nodes[index];
            json!({"id": id, "label": label, "type": kind.as_str(), "shape": shape.word()})
        };
        let edge = |(link, back): (&Link, &bool)| {
            json!({
                "from": self.nodes[link.from].id,
                "to": self.nodes[link.to].id,
                "label": link.label,
                "condition": link.condition,
                "loop_restart": link.restarts,
                "back": back,
            })
        };
        json!({
            "name": self.name,
            "goal": self.goal,
            "nodes": order.nodes.iter().map(|index| node(*index)).collect::<Vec<_>>(),
            "edges": self.links.iter().zip(&order.back).map(edge).collect::<Vec<_>>(),
        })
    }

    /// Which edges lead back, and the order of the nodes without them.
    fn order(&self) -> order::Order {
        let edges: Vec<_> = self.links.iter().map(|link| (link.from, link.to)).collect();
        let start = self.nodes.iter().position(|node| node.kind == HandlerKind::Start);
        order::order(self.nodes.len(), &edges, start)
    }
}

impl Figure {
    fn new(node: &Node) -> Self {
        let command = node.tool_command.as_deref().filter(|_| node.label == node.id.as_str());
        let label = one_line(&node.label);
        let id = node.id.to_string();
        let shape = if node.attrs.contains_key("shape") {
            Shape::of_word(&node.shape)
        } else {
            Shape::of_handler(&node.handler)
        };
        let label = if label.is_empty() { id.clone() } else { label };
        let command = command.map(one_line).filter(|command| !command.is_empty());
        Self { label, id, command, kind: node.handler.clone(), shape, join: None }
    }

    /// The label, where it says more than the id.
    fn own_label(&self) -> Option<&str> {
        (self.label != self.id).then_some(&self.label)
    }

    /// The text besides the id: the label, or the command.
    fn about(&self) -> Option<&str> {
        self.own_label().or(self.command.as_deref())
    }
}

/// To the right where the graph asks for it. Upwards and to the left are drawn as their opposites.
fn flow(pipeline: &Pipeline) -> Flow {
    match pipeline.attrs.get("rankdir").map(|attr| attr.value.to_string()).as_deref() {
        Some("LR" | "RL") => Flow::Right,
        _ => Flow::Down,
    }
}

/// The text without line breaks, and without characters that would move a terminal's cursor or break XML.
fn one_line(text: &str) -> String {
    let printable: String = text.chars().map(|c| if is_printable(c) { c } else { ' ' }).collect();
    printable.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Neither a control character, nor one that turns the direction of the text around it, nor one XML forbids.
fn is_printable(c: char) -> bool {
    !is_steering(c) && !matches!(c, '\u{fffe}' | '\u{ffff}')
}
