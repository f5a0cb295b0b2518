//! Files a pipeline counts on.

use std::collections::BTreeMap;

use crate::plan::diagnostic::Diagnostic;
use crate::plan::pipeline::{Attr, Attrs, Pipeline};

/// The pipeline another one watches over, where these attributes name one.
pub(in crate::plan) fn child_file(attrs: &Attrs) -> Option<(&Attr, String)> {
    let attr = attrs.get("stack.child_dotfile")?;
    let name = attr.value.to_string();
    (!name.trim().is_empty()).then_some((attr, name))
}

/// Pipelines that are named and could not be read.
pub(in crate::plan) fn missing_children(pipeline: &Pipeline, files: &BTreeMap<String, String>) -> Vec<Diagnostic> {
    let missing = |attrs: &Attrs| {
        let (attr, name) = child_file(attrs).filter(|(_, name)| !files.contains_key(name))?;
        let message = format!("cannot read the child pipeline `{name}`");
        let fix = "create it, or correct `stack.child_dotfile`; the path is relative to the pipeline";
        Some(Diagnostic::error("child_dotfile", message, attr.span).with_fix(fix))
    };
    let of_nodes = pipeline.nodes().iter().filter_map(|node| Some(missing(&node.attrs)?.at_node(&node.id)));
    missing(&pipeline.attrs).into_iter().chain(of_nodes).collect()
}
