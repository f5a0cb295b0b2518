//! Templates where nothing fills them in. Those in goals, prompts and commands are checked while the file is read.

use std::collections::BTreeSet;

use crate::plan::alias;
use crate::plan::diagnostic::Diagnostic;
use crate::plan::dot::{AttrValue, DefaultsFor, is_identifier};
use crate::plan::pipeline::{Attr, Attrs, Pipeline};

/// Attributes of graphs and nodes whose templates are filled in.
const FILLED: [&str; 4] = ["goal", "label", "prompt", "tool_command"];

pub(super) fn check(pipeline: &Pipeline, found: &mut Vec<Diagnostic>) {
    unfilled(DefaultsFor::Graph, &pipeline.attrs, |warning| found.push(warning));
    for node in pipeline.nodes() {
        unfilled(DefaultsFor::Node, &node.attrs, |warning| found.push(warning.at_node(&node.id)));
    }
    for edge in pipeline.edges() {
        unfilled(DefaultsFor::Edge, &edge.attrs, |warning| found.push(warning.at_edge(&edge.from, &edge.to)));
    }
}

fn unfilled(target: DefaultsFor, attrs: &Attrs, mut report: impl FnMut(Diagnostic)) {
    // Attributes of others are for handlers of one's own, which may fill them in.
    let own = attrs.iter().filter(|(key, _)| alias::known(target).binary_search(&key.as_str()).is_ok());
    for (key, attr) in own.filter(|(key, _)| target == DefaultsFor::Edge || !FILLED.contains(&key.as_str())) {
        for name in names(attr) {
            let message = format!("`{{{{ {name} }}}}` is undefined");
            let fix = format!("write the value: `{key}` takes no templates");
            report(Diagnostic::warning("undefined_variable", message, attr.span).with_fix(fix));
        }
    }
}

/// The names in the templates of a text, each once.
fn names(attr: &Attr) -> BTreeSet<&str> {
    let AttrValue::Text(text) = &attr.value else { return BTreeSet::new() };
    let inside = text.split("{{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0.trim()));
    inside.filter(|name| name.split('.').all(is_identifier)).collect()
}
