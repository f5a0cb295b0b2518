//! A pipeline as a DOT file that reads back as the same pipeline.

use std::fmt::Write;

use super::dot::{AttrValue, is_identifier, show_duration};
use super::pipeline::{Attrs, Pipeline};

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
        let plain = key.split('.').all(is_identifier);
        let key = if plain { key } else { &quote(key) };
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

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;
    use crate::ids::NodeId;
    use crate::plan::build::build;
    use crate::plan::diagnostic::{Diagnostic, Span, show};
    use crate::plan::dot::parse;
    use crate::plan::graph::{Attr, Graph, RawEdge, RawNode, flatten};

    fn read(source: &str) -> Pipeline {
        let (document, diagnostics) = parse(source);
        assert!(!diagnostics.iter().any(Diagnostic::is_error), "{}\n{source}", show(source, &diagnostics));
        build(flatten(&document).0.expect("a graph")).0
    }

    fn any_value() -> impl Strategy<Value = AttrValue> {
        prop_oneof![
            any::<String>().prop_map(AttrValue::Text),
            "[ -~\n\t\"\\\\]{0,12}".prop_map(AttrValue::Text),
            any::<i64>().prop_map(AttrValue::Integer),
            any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(AttrValue::Float),
            any::<bool>().prop_map(AttrValue::Boolean),
            any::<u64>().prop_map(|millis| AttrValue::Duration(std::time::Duration::from_millis(millis))),
        ]
    }

    fn any_attrs() -> impl Strategy<Value = Attrs> {
        let known =
            ["label", "prompt", "shape", "type", "timeout", "class", "condition", "goal", "weight", "tool_hooks.pre"];
        let key = prop_oneof![
            proptest::sample::select(known.to_vec()).prop_map(str::to_owned),
            "x[a-z_]{1,4}(\\.[a-z]{1,3})?",
            "[ -~]{0,5}x",
        ];
        let attr = any_value().prop_map(|value| Attr { value, span: Span::default(), value_span: Span::default() });
        btree_map(key, attr, 0..4)
    }

    fn any_graph() -> impl Strategy<Value = Graph> {
        let class = vec("[a-z0-9-]{1,4}", 0..3);
        let nodes = vec((any_attrs(), class), 1..8);
        (any_attrs(), nodes, vec((any::<u8>(), any::<u8>(), any_attrs()), 0..10)).prop_map(|(attrs, nodes, edges)| {
            let id = |n: usize| NodeId::new(format!("n{n}")).unwrap();
            let count = nodes.len();
            let nodes = nodes.into_iter().enumerate().map(|(n, (attrs, mut subgraphs))| {
                subgraphs.sort();
                subgraphs.dedup();
                RawNode { id: id(n), attrs, subgraphs, declared: true, span: Span::default() }
            });
            let edges = edges.into_iter().map(|(from, to, attrs)| {
                let (from, to) = (id(usize::from(from) % count), id(usize::from(to) % count));
                RawEdge { from, to, attrs, span: Span::default() }
            });
            Graph { id: "G".into(), span: Span::default(), attrs, nodes: nodes.collect(), edges: edges.collect() }
        })
    }

    proptest! {
        #[test]
        fn reading_what_was_printed_gives_the_same(graph in any_graph()) {
            let (pipeline, _) = build(graph);
            let text = dot(&pipeline);
            prop_assert_eq!(read(&text), pipeline, "{}", text);
        }
    }

    #[test]
    fn a_file_reads_back_with_scopes_and_subgraphs_laid_in() {
        let source = r#"digraph G { goal="x" node [timeout=90s] subgraph { label="Loop A" a [prompt="say \"hi\"\n"] b } c
            subgraph { label="Loop A" d subgraph { label="Deep" e } } a -> b -> c [condition="outcome=success", weight=2] }"#;
        let pipeline = read(source);
        insta::assert_snapshot!(dot(&pipeline), @r#"
        digraph G {
            graph [goal="x"]
            subgraph {
                label="loop-a"
                a [prompt="say \"hi\"\n", timeout=90s]
                b [timeout=90s]
            }
            c [timeout=90s]
            subgraph {
                label="loop-a"
                d [timeout=90s]
            }
            subgraph {
                label="loop-a"
                subgraph {
                    label="deep"
                    e [timeout=90s]
                }
            }
            a -> b [condition="outcome=success", weight=2]
            b -> c [condition="outcome=success", weight=2]
        }
        "#);
        assert_eq!(read(&dot(&pipeline)), pipeline);
    }
}
