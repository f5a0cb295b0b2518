//! `pleach validate`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use pleach_core::plan::diagnostic::{Diagnostic, Severity};
use pleach_core::plan::lint::{KnownNames, unsupported};
use pleach_core::plan::validate;
use pleach_core::text::counted;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::pipeline_file::{PipelineFile, known};
use crate::render::{Out, Source};
use crate::settings;

/// Check pipelines without running them.
///
/// Every file is read and linted; every finding is shown with its location and, if known, its fix. A pipeline with
/// errors cannot be run; one with warnings can. With -q only errors are shown, with -v also where names of other
/// engines are understood.
#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// The pipelines to check.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// The result for one file.
struct Checked {
    file: PipelineFile,
    findings: Vec<Diagnostic>,
    size: Option<(usize, usize)>,
}

pub fn run(globals: &Globals, args: ValidateArgs) -> Result<Exit, Failure> {
    let mut out = Out::new();
    let mut documents = Vec::new();
    let mut valid = true;
    let mut errors = Vec::new();
    let mut configured = BTreeMap::new();
    for name in &args.files {
        let path = globals.path(name);
        let dir = path.parent().unwrap_or(&globals.dir);
        // A configuration with errors is told once, and the pipelines are checked without it.
        let known = configured.entry(dir.to_owned()).or_insert_with(|| offered(globals, dir, &mut errors));
        let document = match PipelineFile::read_given(name, &path).map(|file| check(file, known)) {
            Ok(checked) => {
                valid &= !checked.findings.iter().any(Diagnostic::is_error);
                if !globals.json {
                    checked.print(&mut out, globals.verbosity)?;
                }
                checked.json()
            }
            // One file that cannot be read does not keep the others from being checked.
            Err(failure) => {
                valid = false;
                failure.report(false);
                json!({"file": name.display().to_string(), "valid": false, "error": failure.sentence()})
            }
        };
        documents.push(document);
    }
    valid &= errors.is_empty();
    if globals.json {
        out.json(&json!({"valid": valid, "errors": errors, "files": documents}))?;
    }
    Ok(if valid { Exit::Done } else { Exit::Usage })
}

/// The agents and models configured for a directory.
fn offered(globals: &Globals, dir: &Path, errors: &mut Vec<String>) -> KnownNames {
    match settings::load_for(globals, dir) {
        Ok(settings) => known(&settings.resolved.config),
        Err(failure) => {
            failure.report(false);
            errors.push(failure.sentence());
            KnownNames::default()
        }
    }
}

fn check(file: PipelineFile, known: &KnownNames) -> Checked {
    let (pipeline, mut findings) = validate(&file.source, &file.inputs(BTreeMap::new()), known);
    if let Some(pipeline) = &pipeline {
        // The file is right; it is pleach that cannot run it yet.
        let later = unsupported(pipeline).into_iter();
        findings.extend(later.map(|found| Diagnostic { severity: Severity::Note, ..found }));
        findings.sort_by_key(|found| (found.span, found.severity));
    }
    let size = pipeline.map(|pipeline| (pipeline.nodes().len(), pipeline.edges().len()));
    Checked { file, findings, size }
}

/// Another engine's name for something, which is understood.
fn is_alias(found: &Diagnostic) -> bool {
    found.rule == "alias" && found.severity == Severity::Note
}

impl Checked {
    fn print(&self, out: &mut Out, verbosity: i8) -> Result<(), Failure> {
        let source = Source::new(&self.file.name, &self.file.source);
        let findings: Vec<_> = self.findings.iter().filter(|found| verbosity > 0 || !is_alias(found)).collect();
        for found in findings.iter().filter(|found| found.is_error() || verbosity >= 0) {
            out.line(format!("{}\n", source.show(found)))?;
        }
        let count = |severity: Severity| findings.iter().filter(|found| found.severity == severity).count();
        let errors = count(Severity::Error);
        let size = self.size.filter(|_| errors == 0);
        let size = size.map(|(nodes, edges)| format!("ok, {}, {}", counted(nodes, "node"), counted(edges, "edge")));
        let found = [(errors, "error"), (count(Severity::Warning), "warning"), (count(Severity::Note), "note")];
        let found = found.into_iter().filter(|(count, _)| *count > 0).map(|(count, word)| counted(count, word));
        let parts: Vec<_> = size.into_iter().chain(found).collect();
        out.line(format!("{}: {}", self.file.name, parts.join(", ")))
    }

    fn json(&self) -> Value {
        let source = Source::new(&self.file.name, &self.file.source);
        let findings: Vec<_> = self.findings.iter().map(|found| source.json(found)).collect();
        json!({
            "file": self.file.name,
            "valid": !self.findings.iter().any(Diagnostic::is_error),
            "nodes": self.size.map(|(nodes, _)| nodes),
            "edges": self.size.map(|(_, edges)| edges),
            "diagnostics": findings,
        })
    }
}
