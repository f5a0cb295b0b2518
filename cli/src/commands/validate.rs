//! `pleach validate`

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use pleach::plan::diagnostic::{Diagnostic, Severity};
use pleach::plan::lint::{Known, unsupported};
use pleach::plan::validate;
use serde_json::{Value, json};

use crate::commands::Globals;
use crate::exit::{Exit, Failure};
use crate::pipeline_file::PipelineFile;
use crate::render::{Out, Source};

/// Check pipelines without running them.
///
/// Every file is read and linted; every finding is shown with its place and, where it is known, how to mend it. Errors
/// mean that the pipeline cannot be run; warnings and notes do not. With -q only errors are shown.
#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// The pipelines to check.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// What came of one file.
struct Checked {
    file: PipelineFile,
    findings: Vec<Diagnostic>,
    size: Option<(usize, usize)>,
}

pub fn run(globals: &Globals, args: ValidateArgs) -> Result<Exit, Failure> {
    let mut out = Out::new();
    let mut documents = Vec::new();
    let mut valid = true;
    for name in &args.files {
        let document = match PipelineFile::read(name, &globals.path(name)).map(check) {
            Ok(checked) => {
                valid &= !checked.findings.iter().any(Diagnostic::is_error);
                if !globals.json {
                    checked.print(&mut out, globals.verbosity < 0)?;
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
    if globals.json {
        out.json(&json!({"valid": valid, "files": documents}))?;
    }
    Ok(if valid { Exit::Done } else { Exit::Usage })
}

fn check(file: PipelineFile) -> Checked {
    let (pipeline, mut findings) = validate(&file.source, &file.inputs(BTreeMap::new()), &Known::default());
    if let Some(pipeline) = &pipeline {
        // The file is right; it is pleach that cannot run it yet.
        let later = unsupported(pipeline).into_iter();
        findings.extend(later.map(|found| Diagnostic { severity: Severity::Note, ..found }));
        findings.sort_by_key(|found| (found.span, found.severity));
    }
    let size = pipeline.map(|pipeline| (pipeline.nodes().len(), pipeline.edges().len()));
    Checked { file, findings, size }
}

impl Checked {
    fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|found| found.severity == severity).count()
    }

    fn print(&self, out: &mut Out, only_errors: bool) -> Result<(), Failure> {
        let source = Source::new(&self.file.name, &self.file.source);
        for found in self.findings.iter().filter(|found| found.is_error() || !only_errors) {
            out.line(format!("{}\n", source.show(found)))?;
        }
        let counts =
            [Severity::Error, Severity::Warning, Severity::Note].map(|severity| (self.count(severity), severity));
        let words = [("error", "errors"), ("warning", "warnings"), ("note", "notes")];
        let found = counts.iter().zip(words).filter(|((count, _), _)| *count > 0);
        let found: Vec<_> = found
            .map(|((count, _), (one, many))| format!("{count} {}", if *count == 1 { one } else { many }))
            .collect();
        let size =
            self.size.filter(|_| counts[0].0 == 0).map(|(nodes, edges)| format!("ok, {nodes} nodes, {edges} edges"));
        let parts: Vec<_> = size.into_iter().chain(found).collect();
        out.line(format!("{}: {}", self.file.name, parts.join(", ")))
    }

    fn json(&self) -> Value {
        let source = Source::new(&self.file.name, &self.file.source);
        let findings: Vec<_> = self.findings.iter().map(|found| source.json(found)).collect();
        json!({
            "file": self.file.name,
            "valid": self.count(Severity::Error) == 0,
            "nodes": self.size.map(|(nodes, _)| nodes),
            "edges": self.size.map(|(_, edges)| edges),
            "diagnostics": findings,
        })
    }
}
