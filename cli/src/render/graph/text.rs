//! The graph as text: every node with its edges below it, in an order that follows the run.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use pleach::text::shorten;

use crate::render::graph::{Diagram, Link};
use crate::render::node::kind;

const NAME: Style = Style::new().bold();
const KIND: Style = Style::new().dimmed();
const WHEN: Style = AnsiColor::Cyan.on_default();
const BACK: Style = AnsiColor::Yellow.on_default();

/// Labels longer than this are cut: a node is one line.
const LABEL: usize = 72;

/// Draws the diagram as text, with colours for a terminal.
pub fn text(diagram: &Diagram) -> String {
    let order = diagram.order();
    let mut out = format!("{NAME}{}{NAME:#}", diagram.name);
    if !diagram.goal.is_empty() {
        let _ = write!(out, "  {}", shorten(&diagram.goal, LABEL));
    }
    out.push('\n');
    let mut leaving = vec![Vec::new(); diagram.nodes.len()];
    for (link, back) in diagram.links.iter().zip(&order.back) {
        leaving[link.from].push((link, *back));
    }
    for index in order.nodes {
        let node = &diagram.nodes[index];
        let _ = write!(out, "\n{NAME}{}{NAME:#}", node.id);
        if let Some(label) = node.about() {
            let _ = write!(out, "  {}", shorten(label, LABEL));
        }
        let _ = write!(out, " {KIND}({}){KIND:#}", kind(&node.kind));
        let width = leaving[index].iter().map(|(link, _)| diagram.nodes[link.to].id.len()).max().unwrap_or(0);
        for (link, back) in &leaving[index] {
            out.push('\n');
            out.push_str(arrow(link, &diagram.nodes[link.to].id, width, *back).trim_end());
        }
    }
    if diagram.nodes.is_empty() {
        out.push_str("\n(no nodes)");
    }
    out.push('\n');
    out
}

fn arrow(link: &Link, to: &str, width: usize, back: bool) -> String {
    let mut words = Vec::new();
    if !link.label.is_empty() {
        words.push(format!("\"{}\"", shorten(&link.label, LABEL)));
    }
    if !link.condition.is_empty() {
        words.push(format!("when {WHEN}{}{WHEN:#}", shorten(&link.condition, LABEL)));
    }
    if link.restarts {
        words.push(format!("{BACK}restarts{BACK:#}"));
    }
    if back {
        words.push(format!("{BACK}↺{BACK:#}"));
    }
    format!("  → {to:width$}   {}", words.join("   "))
}
