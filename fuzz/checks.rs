//! What must hold for any text whatsoever. The fuzzers try it on texts they invent; a test of the library tries it on
//! the corpus, with an ordinary compiler.

use std::path::Path;

use pleach_core::config::{Layer, Precedence, parse_dotenv, parse_project, resolve};
use pleach_core::plan::diagnostic::{Diagnostic, line_column};
use pleach_core::plan::lint::KnownNames;
use pleach_core::plan::{Inputs, build, dot, files_named, graph, print, validate};
use pleach_core::trailer::{CommitMessage, TurnFacts};

/// A pipeline: findings lie inside the text, and what is sound survives being printed.
pub fn dot(source: &str) {
    let (pipeline, diagnostics) = validate(source, &Inputs::default(), &KnownNames::default());
    for found in &diagnostics {
        let (start, end) = (found.span.start, found.span.end);
        assert!(start <= end && source.get(start..end).is_some(), "{found:?} lies outside of the text");
        line_column(source, start);
    }
    files_named(source);
    let Some(pipeline) = pipeline.filter(|_| !diagnostics.iter().any(Diagnostic::is_error)) else { return };
    let printed = print::dot(&pipeline);
    let (document, found) = dot::parse(&printed);
    assert!(!found.iter().any(Diagnostic::is_error), "{found:?}\n{printed}");
    let again = graph::flatten(&document).0.map(|graph| build::build(graph).0);
    assert_eq!(again.as_ref(), Some(&pipeline), "{printed}");
}

/// A commit message: writing it again keeps every trailer, and a second time changes nothing.
pub fn trailer(text: &str) {
    let message = CommitMessage::read(text);
    TurnFacts::read(&message);
    // Without a subject the trailers become one; pleach writes no such message.
    let has_subject = message.subject.contains(|c: char| !c.is_control() && !c.is_whitespace());
    if message.trailers.is_empty() || !has_subject {
        return;
    }
    let again = CommitMessage::read(&message.write());
    let keys = |message: &CommitMessage| message.trailers.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&again), keys(&message), "{}", message.write());
    assert_eq!(CommitMessage::read(&again.write()).trailers, again.trailers, "{}", again.write());
}

/// A configuration: mistakes are told, and what resolves can be recorded and read back.
pub fn config(text: &str) {
    let file = Path::new("/project/pleach.yaml");
    let _ = parse_dotenv(text, Path::new("/project/.env"));
    let _ = parse_project(text, file);
    for level in [Precedence::Project, Precedence::Arborist] {
        if let Ok(resolved) = resolve(vec![Layer::file(level, file, text)]) {
            let recorded = resolved.config.recordable();
            pleach_core::config::Config::from_recorded(recorded).expect("what was recorded is a configuration");
        }
    }
}
