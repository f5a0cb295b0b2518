//! From text to a pipeline or a task tree that may be run. Everything here is pure: no file is read and nothing is spawned.
//!
//! [`dot::parse`] gives a document with spans, [`graph`] flattens it, [`transform`] fills it in, [`build`] makes the
//! typed [`pipeline::Pipeline`] of it. [`load`] does all four, [`lint`] checks the result.
//!
//! [`tree`] is the other kind of plan: tasks and what they wait for, from a file, from markdown ([`spec`]) or from a model
//! ([`planner`]). [`ad_hoc`] makes trees of tasks that have no file.

pub mod ad_hoc;
mod alias;
pub mod build;
mod built_in;
pub mod condition;
pub mod diagnostic;
pub mod dot;
pub mod graph;
pub mod join_point;
pub mod label;
pub mod lint;
pub mod parallel;
pub mod pipeline;
pub mod planner;
pub mod print;
mod prompt;
mod shell;
pub mod spec;
pub mod stylesheet;
mod suggestions;
mod task_pipeline;
#[cfg(test)]
mod tests;
pub mod transform;
pub mod tree;

use std::collections::BTreeSet;

pub use built_in::{GATE_PIPELINE, STEP_ATTRIBUTES, TASK_PIPELINE};
use diagnostic::{Diagnostic, each_once};
use pipeline::Pipeline;
pub use prompt::{PromptTest, pipeline_for_prompt};
pub use transform::{Inputs, OF_TASKS, Transform};

/// Reads a pipeline. There is one when the file holds a graph at all; it may be run when no diagnostic is an error and
/// the linter finds none either.
pub fn load(source: &str, inputs: &Inputs, transforms: &[&dyn Transform]) -> (Option<Pipeline>, Vec<Diagnostic>) {
    let (document, mut diagnostics) = dot::parse(source);
    let sound = !diagnostics.iter().any(Diagnostic::is_error);
    let (graph, found) = graph::flatten(&document);
    // A statement that could not be read may have been the declaration.
    diagnostics.extend(found.into_iter().filter(|found| sound || found.rule != "edge_target_exists"));
    let pipeline = graph.map(|mut graph| {
        diagnostics.extend(transform::apply(&mut graph, inputs, transforms));
        let (pipeline, found) = build::build(graph);
        diagnostics.extend(found);
        pipeline
    });
    (pipeline, each_once(diagnostics))
}

/// Reads a pipeline that works on tasks: its steps behave as steps of a task do ([`Pipeline::for_tasks`]).
pub fn load_for_tasks(source: &str, inputs: &Inputs) -> (Option<Pipeline>, Vec<Diagnostic>) {
    let (pipeline, diagnostics) = load(source, inputs, &[]);
    (pipeline.map(Pipeline::for_tasks), diagnostics)
}

/// Reads a pipeline and lints it: all diagnostics of a file. A text that does not parse is not linted, since half a
/// graph has errors its author did not make.
pub fn validate(source: &str, inputs: &Inputs, known: &lint::KnownNames) -> (Option<Pipeline>, Vec<Diagnostic>) {
    let (pipeline, mut diagnostics) = load(source, inputs, &[]);
    let parsed = !diagnostics.iter().any(|diagnostic| diagnostic.is_error() && diagnostic.rule == "syntax");
    if let Some(pipeline) = pipeline.as_ref().filter(|_| parsed) {
        // A node that was never declared has no prompt and leads nowhere; that is one error, not three.
        let undeclared = diagnostics.iter().filter(|found| found.rule == "edge_target_exists");
        let (spans, edges): (BTreeSet<_>, BTreeSet<_>) =
            undeclared.map(|found| (found.span, found.edge.clone())).unzip();
        let follows =
            |found: &Diagnostic| spans.contains(&found.span) || (found.edge.is_some() && edges.contains(&found.edge));
        diagnostics.extend(lint::check(pipeline, known, &[]).into_iter().filter(|found| !follows(found)));
        diagnostics.extend(lint::missing_children(pipeline, &inputs.files));
    }
    (pipeline, each_once(diagnostics))
}

/// The files a pipeline names, each once, so that the caller can read them before [`load`]: prompts (`prompt="@file"`,
/// `prompt_file`) and pipelines of its own (`stack.child_dotfile`).
pub fn files_named(source: &str) -> Vec<String> {
    let (document, _) = dot::parse(source);
    let (graph, _) = graph::flatten(&document);
    let graph = graph.unwrap_or_default();
    let prompts = graph.nodes.iter().filter_map(|node| transform::prompt_file(&node.attrs)).map(|(_, _, name)| name);
    let all = graph.nodes.iter().map(|node| &node.attrs).chain([&graph.attrs]);
    let children = all.filter_map(|attrs| lint::child_file(attrs)).map(|(_, name)| name);
    let names: BTreeSet<_> = prompts.chain(children).collect();
    names.into_iter().collect()
}
