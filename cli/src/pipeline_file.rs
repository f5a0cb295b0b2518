//! A pipeline as it lies on disk: its text and the prompt files it names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use pleach::config::Config;
use pleach::plan::lint::Known;
use pleach::plan::{Inputs, files_named};

use crate::exit::{Exit, Failure};

/// A pipeline's text with everything it needs to be read.
#[derive(Debug)]
pub struct PipelineFile {
    /// The name the user gave, for messages.
    pub name: String,
    /// The text.
    pub source: String,
    /// The prompt files that could be read; the linter names those that could not.
    pub files: BTreeMap<String, String>,
}

impl PipelineFile {
    /// Reads the file at `path`, called `name` in messages. Its prompt files lie relative to it.
    pub fn read(name: &Path, path: &Path) -> Result<Self, Failure> {
        let source = fs::read_to_string(path).map_err(|error| {
            Failure::new(Exit::Usage, format!("cannot read `{}`", name.display()))
                .because(&error)
                .hint("give the path of a pipeline, a text file in the DOT language")
        })?;
        let dir = path.parent().unwrap_or(Path::new(""));
        let named = files_named(&source).into_iter();
        let files =
            named.filter_map(|file| fs::read_to_string(dir.join(&file)).ok().map(|text| (file, text))).collect();
        Ok(Self { name: name.display().to_string(), source, files })
    }

    /// What [`pleach::plan::load`] takes beside the text.
    pub fn inputs(&self, values: BTreeMap<String, String>) -> Inputs {
        Inputs { files: self.files.clone(), values }
    }
}

/// The agents and models a configuration knows.
pub fn known(config: &Config) -> Known {
    let built_in = ["builtin", "simulation", "claude", "codex", "gemini", "opencode"];
    let agents = config.agents.keys().cloned().chain(built_in.into_iter().map(str::to_owned)).collect();
    let providers = &config.providers;
    let models: BTreeSet<String> = [&providers.anthropic, &providers.openai, &providers.gemini, &providers.compatible]
        .into_iter()
        .flat_map(|provider| provider.models.iter().flat_map(|(role, model)| [role.clone(), model.clone()]))
        .collect();
    Known { agents: Some(agents), models: Some(models).filter(|models| !models.is_empty()), ..Known::default() }
}
