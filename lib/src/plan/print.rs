//! A pipeline as a DOT file that reads back as the same pipeline.

use std::fmt::Write;

use crate::plan::dot::{AttrValue, show_duration};
use crate::plan::pipeline::{Attrs, Pipeline};

/// The pipeline as DOT: defaults, classes of subgraphs and the stylesheet are already laid into the nodes.
pub fn dot(pipeline: &Pipeline) -> String {
    let mut out = format!("digraph {} {{\n", pipeline.id);
    if !pipeline.attrs.is_empty() {
        statement(&mut out, 1, "graph", &pipeline.attrs);
    }
    let mut around: &[String] = &[];
    for node in pipeline.nodes() {
        if node.subgraphs != around {
            close(&mut out, around.len());
            around = &node.subgraphs;
            open(&mut out, around);
        }
        statement(&mut out, around.len() + 1, node.id.as_str(), &node.attrs);
    }
    close(&mut out, around.len());
    for edge in pipeline.edges() {
        statement(&mut out, 1, &format!("{} -> {}", edge.from, edge.to), &edge.attrs);
    }
    out.push_str("}\n");
    out
}

fn indent(out: &mut String, depth: usize) {
    out.extend(std::iter::repeat_n("    ", depth));
}

/// Opens a subgraph for each class; a label that is already a class gives just that class.
fn open(out: &mut String, classes: &[String]) {
    for (depth, class) in classes.iter().enumerate() {
        indent(out, depth + 1);
        out.push_str("subgraph {\n");
        indent(out, depth + 2);
        let _ = writeln!(out, "label={}", quote(class));
    }
}

fn close(out: &mut String, depth: usize) {
    for depth in (1..=depth).rev() {
        indent(out, depth);
        out.push_str("}\n");
    }
}

fn statement(out: &mut String, depth: usize, head: &str, attrs: &Attrs) {
    indent(out, depth);
    out.push_str(head);
    for (index, (key, attr)) in attrs.iter().enumerate() {
        out.push_str(if index == 0 { " [" } else { ", " });
        let _ = write!(out, "{key}={}", value(&attr.value));
    }
    out.push_str(if attrs.is_empty() { "\n" } else { "]\n" });
}

fn value(value: &AttrValue) -> String {
    match value {
        AttrValue::Text(text) => quote(text),
        AttrValue::Integer(number) => number.to_string(),
        AttrValue::Float(number) => {
            let text = number.to_string();
            if text.contains('.') { text } else { text + ".0" }
        }
        AttrValue::Boolean(value) => value.to_string(),
        AttrValue::Duration(duration) => show_duration(*duration),
    }
}

/// A quoted string that reads back as `text`.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
