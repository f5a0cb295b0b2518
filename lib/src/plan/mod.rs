//! From text to a pipeline that may be run. Everything here is pure: no file is read and nothing is spawned.
//!
//! [`dot::parse`] gives a document with spans, [`graph`] flattens it, [`transform`] fills it in, [`build`] makes the
//! typed [`pipeline::Pipeline`] of it. [`load`] does all four, [`lint`] says what is wrong with the result.

mod alias;
pub mod build;
pub mod condition;
pub mod diagnostic;
pub mod dot;
pub mod graph;
pub mod lint;
pub mod pipeline;
pub mod print;
pub mod stylesheet;
mod text;
pub mod transform;

use std::collections::BTreeSet;

use diagnostic::Diagnostic;
use pipeline::Pipeline;
pub use transform::{Inputs, Transform};

/// Reads a pipeline. There is one when the file holds a graph at all; it may be run when no diagnostic is an error and
/// the linter finds none either.
pub fn load(source: &str, inputs: &Inputs, transforms: &[&dyn Transform]) -> (Option<Pipeline>, Vec<Diagnostic>) {
    let (document, mut diagnostics) = dot::parse(source);
    let (graph, found) = graph::flatten(&document);
    diagnostics.extend(found);
    let pipeline = graph.map(|mut graph| {
        diagnostics.extend(transform::apply(&mut graph, inputs, transforms));
        let (pipeline, found) = build::build(graph);
        diagnostics.extend(found);
        pipeline
    });
    diagnostics.sort_by_key(|diagnostic| (diagnostic.span, diagnostic.severity));
    (pipeline, diagnostics)
}

/// Reads a pipeline and lints it: everything there is to say about a file. A text that does not parse is not linted,
/// since half a graph has mistakes its author did not make.
pub fn validate(source: &str, inputs: &Inputs, known: &lint::Known) -> (Option<Pipeline>, Vec<Diagnostic>) {
    let (pipeline, mut diagnostics) = load(source, inputs, &[]);
    let parsed = !diagnostics.iter().any(|diagnostic| diagnostic.is_error() && diagnostic.rule == "syntax");
    if let Some(pipeline) = pipeline.as_ref().filter(|_| parsed) {
        diagnostics.extend(lint::check(pipeline, known, &[]));
        diagnostics.sort_by_key(|diagnostic| (diagnostic.span, diagnostic.severity));
    }
    (pipeline, diagnostics)
}

/// The files a pipeline takes prompts from (`prompt="@file"`, `prompt_file`), each once, so that the caller can read
/// them before [`load`].
pub fn files_named(source: &str) -> Vec<String> {
    let (document, _) = dot::parse(source);
    let (graph, _) = graph::flatten(&document);
    let nodes = graph.map_or_else(Vec::new, |graph| graph.nodes);
    let names: BTreeSet<_> =
        nodes.iter().filter_map(|node| transform::prompt_file(&node.attrs)).map(|(_, _, name)| name).collect();
    names.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMOKE: &str = r#"
// a comment
digraph Smoke {
    graph [goal="Write a greeting", model_stylesheet="* { llm_model: small; } .hard { llm_model: big; }"]
    rankdir=LR
    start [shape=Mdiamond, label="Start"]
    plan [shape=box, prompt="Plan: $goal // not a comment", timeout=900s]
    implement [class="hard", prompt="Do it", goal_gate=true, max_retries=2]
    review [prompt="Review {{ goal }}", timeout="15m", human.default_choice=x]
    done [shape=Msquare]
    start -> plan -> implement
    implement -> review [condition="outcome=success"]
    implement -> plan [condition="outcome=fail", label="Retry"]
    review -> done [weight=-1]
    review -> implement
}
"#;

    #[test]
    fn smoke() {
        let (pipeline, diagnostics) = load(SMOKE, &Inputs::default(), &[]);
        assert_eq!(diagnostics, []);
        let pipeline = pipeline.unwrap();
        assert_eq!((pipeline.nodes().len(), pipeline.edges().len()), (5, 6));
        assert_eq!(pipeline.nodes()[1].prompt, "Plan: Write a greeting // not a comment");
        assert_eq!(pipeline.nodes()[2].llm_model.as_deref(), Some("big"));
        assert_eq!(pipeline.start().unwrap().id, "start");
        assert_eq!(pipeline.exit().unwrap().id, "done");
    }
}
