//! The picture as SVG.

use std::fmt::Write as _;

use pleach_core::plan::pipeline::HandlerKind;

use crate::render::graph::geometry::{Point, Size};
use crate::render::graph::label::{Label, escape};
use crate::render::graph::layout::{Layout, lay_out};
use crate::render::graph::parts::{Body, Course, Wire};
use crate::render::graph::{Diagram, Figure, Link};
use crate::render::node::kind;

/// The room around everything.
const MARGIN: f64 = 24.0;

/// Colours come from classes, so that a viewer's dark mode can change them all; the page is painted as well, because a
/// viewer may show a picture without background on anything.
const STYLE: &str = include_str!("style.css");

/// Draws the diagram as SVG.
pub fn svg(diagram: &Diagram) -> String {
    let order = diagram.order();
    let texts: Vec<Vec<Part>> = diagram.nodes.iter().map(node_text).collect();
    let notes: Vec<Vec<Part>> = diagram.links.iter().map(link_text).collect();
    let bodies: Vec<Body> = diagram.nodes.iter().zip(&texts).map(|(node, text)| body(node, text)).collect();
    let wires: Vec<Wire> = diagram
        .links
        .iter()
        .zip(&notes)
        .map(|(link, note)| Wire { from: link.from, to: link.to, label: size(note) })
        .collect();
    let layout = lay_out(&bodies, &wires, &order, diagram.flow);
    let heading = heading(diagram, layout.size.width);
    let sheet = Sheet::new(&layout, &heading);

    let mut out = sheet.open(diagram);
    out.push_str(&heading_text(&heading));
    for ((link, course), back) in diagram.links.iter().zip(&layout.wires).zip(&order.back) {
        out.push_str(&sheet.edge(diagram, link, course, *back));
    }
    for (index, node) in diagram.nodes.iter().enumerate() {
        out.push_str(&sheet.node(node, &texts[index], layout.nodes[index], bodies[index].size));
    }
    for ((link, course), note) in diagram.links.iter().zip(&layout.wires).zip(&notes) {
        out.push_str(&sheet.note(diagram, link, course, note));
    }
    out.push_str("</g>\n</svg>\n");
    out
}

/// Lines of text that look alike.
struct Part {
    class: &'static str,
    label: Label,
}

fn node_text(node: &Figure) -> Vec<Part> {
    let columns = node.shape.columns();
    let mut parts = vec![Part { class: "label", label: Label::new(&node.label, 14.0, columns, 6) }];
    let below = if node.own_label().is_some() { Some(&node.id) } else { node.command.as_ref() };
    parts.extend(below.map(|text| Part { class: "id", label: Label::new(text, 10.5, columns * 1.3, 2) }));
    parts
}

fn link_text(link: &Link) -> Vec<Part> {
    let condition = if link.condition.is_empty() { String::new() } else { format!("when {}", link.condition) };
    let restart = if link.restarts { "restarts" } else { "" };
    let parts = [("label", link.label.as_str()), ("when", &condition), ("when", restart)];
    let parts = parts.into_iter().filter(|(_, text)| !text.is_empty());
    parts.map(|(class, text)| Part { class, label: Label::new(text, 11.5, 26.0, 5) }).collect()
}

fn size(parts: &[Part]) -> Size {
    parts
        .iter()
        .map(|part| part.label.size())
        .fold(Size::default(), |all, part| Size::new(all.width.max(part.width), all.height + part.height))
}

fn body(node: &Figure, text: &[Part]) -> Body {
    let size = node.shape.size(size(text));
    Body { size, outline: node.shape.outline(size) }
}

fn heading(diagram: &Diagram, width: f64) -> Vec<Part> {
    // As wide as the picture, but a line of reading width at least.
    let columns = |font: f64| (width.clamp(420.0, 1200.0) / (font * 0.6)).floor();
    let name = Part { class: "name", label: Label::new(&diagram.name, 18.0, columns(18.0), 2) };
    let goal = Part { class: "goal", label: Label::new(&diagram.goal, 13.0, columns(13.0), 4) };
    [name, goal].into_iter().filter(|part| !part.label.lines.is_empty()).collect()
}

fn heading_text(heading: &[Part]) -> String {
    let at = Point::new(MARGIN, MARGIN);
    text(heading, at, "start")
}

/// The lines of all parts from `top` downwards, as one text element.
fn text(parts: &[Part], top: Point, anchor: &str) -> String {
    let mut out = String::new();
    let mut y = top.y;
    for Part { class, label } in parts {
        let _ = write!(out, r#"<text class="{class}" text-anchor="{anchor}" font-size="{}">"#, label.font);
        for line in &label.lines {
            // Letters sit on their baseline, about this far below the top of a line.
            let baseline = y + label.font * 0.98;
            let _ = write!(out, r#"<tspan x="{:.1}" y="{baseline:.1}">{}</tspan>"#, top.x, escape(line));
            y += label.line_height();
        }
        out.push_str("</text>");
    }
    out
}

/// The page the picture is on.
struct Sheet {
    size: Size,
    /// The place of the drawing on the page.
    origin: Point,
}

impl Sheet {
    fn new(layout: &Layout, heading: &[Part]) -> Self {
        let title = size(heading);
        let width = layout.size.width.max(title.width);
        let above = if heading.is_empty() { 0.0 } else { title.height + MARGIN };
        let origin = Point::new(MARGIN + (width - layout.size.width) / 2.0, MARGIN + above);
        Self { size: Size::new(width + 2.0 * MARGIN, origin.y + layout.size.height + MARGIN), origin }
    }

    fn open(&self, diagram: &Diagram) -> String {
        let Size { width, height } = Size::new(self.size.width.ceil(), self.size.height.ceil());
        let name = escape(&diagram.name);
        let goal = escape(&diagram.goal);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
             <title>{name}</title>\n<desc>{goal}</desc>\n<style>\n{STYLE}</style>\n\
             <rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n<g class=\"graph\">\n"
        )
    }

    fn node(&self, node: &Figure, parts: &[Part], at: Point, size: Size) -> String {
        let at = self.origin.plus(at);
        let middle = at.plus(node.shape.text_at(size));
        let top = Point::new(middle.x, middle.y - self::size(parts).height / 2.0);
        let hover = match node.about() {
            Some(label) => format!("{} ({}): {label}", node.id, kind(&node.kind)),
            None => format!("{} ({})", node.id, kind(&node.kind)),
        };
        format!(
            "<g class=\"node {}\" id=\"node-{id}\" data-shape=\"{}\"><title>{}</title>{}{}</g>\n",
            class(&node.kind),
            node.shape.word(),
            escape(&hover),
            node.shape.draw(at, size),
            text(parts, top, "middle"),
            id = escape(&node.id),
        )
    }

    fn edge(&self, diagram: &Diagram, link: &Link, course: &Course, back: bool) -> String {
        let (from, to) = ends(diagram, link);
        let class = if back { "edge back" } else { "edge" };
        let head = match course.path.head.as_str() {
            "" => String::new(),
            head => format!(r#"<path class="head" d="{head}"/>"#),
        };
        format!(
            "<g class=\"{class}\" data-from=\"{from}\" data-to=\"{to}\" transform=\"translate({:.1} {:.1})\">\
             <title>{from} → {to}</title><path class=\"line\" d=\"{}\"/>{head}</g>\n",
            self.origin.x, self.origin.y, course.path.line,
        )
    }

    /// What is written on an edge, above all lines.
    fn note(&self, diagram: &Diagram, link: &Link, course: &Course, parts: &[Part]) -> String {
        if parts.is_empty() {
            return String::new();
        }
        let (from, to) = ends(diagram, link);
        let at = self.origin.plus(course.label_at);
        let Size { width, height } = size(parts);
        let corner = at.plus(Point::new(-width / 2.0, -height / 2.0));
        format!(
            "<g class=\"note\" data-from=\"{from}\" data-to=\"{to}\"><rect class=\"behind\" x=\"{:.1}\" y=\"{:.1}\" \
             width=\"{width:.1}\" height=\"{height:.1}\"/>{}</g>\n",
            corner.x,
            corner.y,
            text(parts, Point::new(at.x, corner.y), "middle"),
        )
    }
}

fn ends(diagram: &Diagram, link: &Link) -> (String, String) {
    (escape(&diagram.nodes[link.from].id), escape(&diagram.nodes[link.to].id))
}

/// The class that colours a node.
fn class(kind: &HandlerKind) -> &'static str {
    match kind {
        HandlerKind::Start | HandlerKind::Exit => "end",
        HandlerKind::Codergen => "agent",
        HandlerKind::Tool => "tool",
        HandlerKind::Conditional => "branch",
        HandlerKind::WaitHuman => "human",
        HandlerKind::Wait => "pause",
        HandlerKind::Parallel | HandlerKind::FanIn => "fan",
        HandlerKind::ManagerLoop | HandlerKind::Custom(_) => "other",
    }
}
