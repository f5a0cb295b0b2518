//! What is wrong with a pipeline that could be read: [`check`] runs every rule, linear in the size of the graph.
//!
//! Rules about single attributes (`attribute_type`, `condition_syntax`, `stylesheet_syntax`, `fidelity_valid`,
//! `edge_target_exists`, `alias`, …) report while the file is read, in [`crate::plan::load`].

mod attributes;
mod conditions;
mod cycles;
mod files;
mod flow;
mod gates;
mod known_names;
mod outcome;
mod parallel;
mod tasks;
mod templates;
#[cfg(test)]
mod tests;

pub(super) use files::{child_file, missing_children};
pub use tasks::task_pipeline;

use super::diagnostic::{Diagnostic, each_once};
use super::pipeline::{HandlerKind, Pipeline};

pub use attributes::CORE_OUTCOMES;
pub use known_names::KnownNames;

/// A rule of the embedding program's own.
pub trait LintRule {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// What it finds.
    fn apply(&self, pipeline: &Pipeline) -> Vec<Diagnostic>;
}

/// Everything the built-in rules and `extra` find, in the order of the file.
pub fn check(pipeline: &Pipeline, known: &KnownNames, extra: &[&dyn LintRule]) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    flow::check(pipeline, &mut found);
    cycles::check(pipeline, &mut found);
    gates::check(pipeline, &mut found);
    let misspelt = conditions::check(pipeline, &mut found);
    outcome::check(pipeline, &misspelt, &mut found);
    templates::check(pipeline, &mut found);
    parallel::check(pipeline, &mut found);
    attributes::check(pipeline, known, &mut found);
    for rule in extra {
        found.extend(rule.apply(pipeline));
    }
    each_once(found)
}

/// What is valid but cannot be run by this version; empty when the pipeline can be.
pub fn unsupported(pipeline: &Pipeline) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let refuse = |what: &str, span| {
        Diagnostic::error("unsupported", format!("{what} cannot be run by this version of pleach yet"), span)
    };
    for hook in ["tool_hooks.pre", "tool_hooks.post"] {
        if let Some(attr) = pipeline.attrs.get(hook) {
            found.push(refuse(&format!("`{hook}`"), attr.span));
        }
    }
    for node in pipeline.nodes() {
        let what = match node.handler {
            HandlerKind::ManagerLoop => Some("a manager loop (`shape=house`)"),
            _ => None,
        };
        found.extend(what.map(|what| refuse(what, node.span.0).at_node(&node.id)));
        for hook in ["tool_hooks.pre", "tool_hooks.post"] {
            let attr = node.attrs.get(hook);
            found.extend(attr.map(|attr| refuse(&format!("`{hook}`"), attr.span).at_node(&node.id)));
        }
    }
    found
}
