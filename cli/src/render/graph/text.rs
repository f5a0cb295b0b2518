//! The graph as text: every node with its edges below it, in an order that follows the run. The branches of a fan-out are
//! indented below it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use pleach_core::text::shorten;

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
    let mut list = NodeList { diagram, leaving, listed: BTreeSet::new(), out };
    list.add(&order.nodes, &Margin::default(), None);
    let mut out = list.out;
    if diagram.nodes.is_empty() {
        out.push_str("\n(no nodes)");
    }
    out.push('\n');
    out
}

/// What is beside the lines of a branch.
#[derive(Debug, Default)]
struct Margin {
    /// Before its first node.
    first: String,
    /// Before everything after that.
    rest: String,
    /// What the edge to its first node says.
    edge: String,
}

/// The nodes that are listed so far.
struct NodeList<'d> {
    diagram: &'d Diagram,
    /// The edges that leave each node, and whether they lead back.
    leaving: Vec<Vec<(&'d Link, bool)>>,
    listed: BTreeSet<usize>,
    out: String,
}

impl<'d> NodeList<'d> {
    /// Lists nodes, those of a branch with the node where it joins the others.
    fn add(&mut self, nodes: &[usize], margin: &Margin, join: Option<usize>) {
        let (mut before, mut edge) = (&margin.first, margin.edge.as_str());
        for index in nodes {
            if !self.listed.insert(*index) {
                continue;
            }
            let node = &self.diagram.nodes[*index];
            let mut line = format!("{before}{NAME}{}{NAME:#}", node.id);
            if let Some(label) = node.about() {
                let _ = write!(line, "  {}", shorten(label, LABEL));
            }
            let _ = write!(line, " {KIND}({}){KIND:#}   {edge}", kind(&node.kind));
            let _ = write!(self.out, "\n{}", line.trim_end());
            (before, edge) = (&margin.rest, "");
            let branches = node.join.map(|join| self.branches(*index, join, nodes)).unwrap_or_default();
            self.add_arrows(*index, before, &branches, join);
            let last = branches.len().saturating_sub(1);
            for (number, (link, branch)) in branches.iter().enumerate() {
                let (first, rest) = if number == last { ("└ ", "  ") } else { ("├ ", "│ ") };
                let [first, rest] = [first, rest].map(|sign| format!("{before}  {sign}"));
                self.add(branch, &Margin { first, rest, edge: words(link, false) }, node.join);
            }
        }
    }

    /// Lists the edges of a node, except those to branches that follow below it.
    fn add_arrows(&mut self, node: usize, before: &str, below: &[(&Link, Vec<usize>)], join: Option<usize>) {
        let is_below = |link: &Link| below.iter().any(|(other, _)| std::ptr::eq(*other, link));
        let leaving: Vec<_> = self.leaving[node].iter().filter(|(link, _)| !is_below(link)).collect();
        let width = leaving.iter().map(|(link, _)| self.diagram.nodes[link.to].id.len()).max().unwrap_or(0);
        for (link, back) in leaving {
            let to = &self.diagram.nodes[link.to].id;
            let sign = if Some(link.to) == join { '⇥' } else { '→' };
            let arrow = format!("{before}  {sign} {to:width$}   {}", words(link, *back));
            let _ = write!(self.out, "\n{}", arrow.trim_end());
        }
    }

    /// The branches of a fan-out, each with the nodes before the join that no earlier one has.
    fn branches(&self, fan_out: usize, join: usize, among: &[usize]) -> Vec<(&'d Link, Vec<usize>)> {
        let mut taken = self.reached(join, &self.listed);
        taken.extend(&self.listed);
        let mut branches = Vec::new();
        for (link, _) in self.leaving[fan_out].iter().filter(|(_, back)| !back) {
            let own = self.reached(link.to, &taken);
            let own: Vec<usize> = among.iter().copied().filter(|node| own.contains(node)).collect();
            taken.extend(&own);
            branches.push((*link, own));
        }
        branches.retain(|(_, branch)| !branch.is_empty());
        branches
    }

    /// The nodes that edges lead forward to from one of them, itself included, without going through others.
    fn reached(&self, from: usize, without: &BTreeSet<usize>) -> BTreeSet<usize> {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(node) = next.pop() {
            if !without.contains(&node) && reached.insert(node) {
                next.extend(self.leaving[node].iter().filter(|(_, back)| !back).map(|(link, _)| link.to));
            }
        }
        reached
    }
}

/// What an edge says.
fn words(link: &Link, back: bool) -> String {
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
    words.join("   ")
}
