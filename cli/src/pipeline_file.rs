//! Reads a pipeline and the files it names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pleach::config::Config;
use pleach::plan::diagnostic::{Diagnostic, Severity};
use pleach::plan::lint::{self, Known};
use pleach::plan::pipeline::Pipeline;
use pleach::plan::{self, Inputs};

use crate::exit::{Exit, Failure};

/// A pipeline file that was read, with everything that was found out about it.
#[derive(Debug)]
pub struct PipelineFile {
    /// The file.
    pub path: PathBuf,
    /// Its text.
    pub source: String,
    /// The files it names, by the names it uses.
    pub files: BTreeMap<String, String>,
    /// The pipeline, if the text holds a graph at all.
    pub pipeline: Option<Pipeline>,
    /// What is wrong with it.
    pub diagnostics: Vec<Diagnostic>,
}

impl PipelineFile {
    /// Reads the text of a pipeline file.
    pub fn text(path: &Path) -> Result<String, Failure> {
        let bytes = std::fs::read(path).map_err(|error| {
            Failure::new(Exit::Usage, format!("cannot read `{}`", path.display()))
                .because(&error)
                .hint("name a pipeline file, as in `pleach run examples/hello.dot`")
        })?;
        String::from_utf8(bytes).map_err(|_| {
            Failure::new(Exit::Usage, format!("`{}` is not UTF-8 text", path.display()))
                .hint("a pipeline is a text file in the DOT language")
        })
    }

    /// Reads and checks a pipeline. Files it names are looked for beside it.
    pub fn read(path: &Path, values: BTreeMap<String, String>, config: &Config) -> Result<Self, Failure> {
        let source = Self::text(path)?;
        let mut files = BTreeMap::new();
        for name in plan::files_named(&source) {
            let file = path.parent().unwrap_or(Path::new("")).join(&name);
            // A file that cannot be read is left out; the plan says where it is named.
            if let Ok(text) = std::fs::read_to_string(file) {
                files.insert(name, text);
            }
        }
        let inputs = Inputs { files: files.clone(), values };
        let (pipeline, mut diagnostics) = plan::load(&source, &inputs, &[]);
        if let Some(pipeline) = &pipeline {
            diagnostics.extend(lint::check(pipeline, &known(config), &[]));
            diagnostics.sort_by_key(|found| (found.span, found.severity));
        }
        Ok(Self { path: path.to_owned(), source, files, pipeline, diagnostics })
    }

    /// Whether nothing speaks against running it.
    pub fn is_valid(&self) -> bool {
        self.pipeline.is_some() && self.diagnostics.iter().all(|found| found.severity != Severity::Error)
    }
}

/// The agents and models a configuration knows.
fn known(config: &Config) -> Known {
    let built_in = ["builtin", "simulation", "claude", "codex", "gemini", "opencode"];
    let agents: BTreeSet<String> =
        config.agents.keys().cloned().chain(built_in.into_iter().map(str::to_owned)).collect();
    let providers = &config.providers;
    let models: BTreeSet<String> = [&providers.anthropic, &providers.openai, &providers.gemini, &providers.compatible]
        .into_iter()
        .flat_map(|provider| provider.models.iter().flat_map(|(role, model)| [role.clone(), model.clone()]))
        .collect();
    Known { agents: Some(agents), models: Some(models).filter(|models| !models.is_empty()), ..Known::default() }
}
