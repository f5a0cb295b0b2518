//! A pipeline as it is on disk: its text and the prompt files it names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use os::plain_file;
use pleach_core::config::Config;
use pleach_core::plan::lint::KnownNames;
use pleach_core::plan::{Inputs, files_named};
use pleach_core::text::{listed, shell_word};

use crate::code::Code;
use crate::failure::Failure;

/// A pipeline's text with everything it needs to be read.
#[derive(Debug)]
pub struct PipelineFile {
    /// The name the user gave, for messages.
    pub name: String,
    /// The text.
    pub source: String,
    /// The prompt files that could be read; the linter names those that could not.
    pub files: BTreeMap<String, String>,
    /// There is no such file: pleach brings it along.
    pub is_built_in: bool,
}

impl PipelineFile {
    /// Reads the file at `path`, named by a tree or settings. In messages it is called `name`. Its prompt files lie
    /// relative to it.
    pub fn read(name: &Path, path: &Path) -> Result<Self, Failure> {
        Self::read_by(plain_file::read, name, path)
    }

    /// The same for one that is named on the command line.
    pub fn read_given(name: &Path, path: &Path) -> Result<Self, Failure> {
        let file = Self::read_by(plain_file::read_given, name, path)?;
        match other_command(name).filter(|_| !file.source.contains("digraph")) {
            Some(hint) => {
                Err(Failure::new(Code::PipelineInvalid, format!("`{}` is not a pipeline", name.display())).hint(hint))
            }
            None => Ok(file),
        }
    }

    fn read_by(how: fn(&Path) -> io::Result<String>, name: &Path, path: &Path) -> Result<Self, Failure> {
        let source = how(path).map_err(|error| {
            Failure::new(Code::PipelineUnreadable, format!("cannot read `{}`", name.display()))
                .because(&error)
                .hint(what_to_read(name, path))
        })?;
        let dir = parent(path);
        let named = files_named(&source).into_iter();
        let files = named.filter_map(|file| plain_file::read(&dir.join(&file)).ok().map(|text| (file, text))).collect();
        Ok(Self { name: name.display().to_string(), source, files, is_built_in: false })
    }

    /// The inputs of [`pleach_core::plan::load`].
    pub fn inputs(&self, values: BTreeMap<String, String>) -> Inputs {
        Inputs { files: self.files.clone(), values }
    }
}

/// The pipelines that may have been meant by a path that is not one.
fn what_to_read(name: &Path, path: &Path) -> String {
    let with_ending = path.with_added_extension("dot");
    if with_ending.is_file() {
        return format!("did you mean `{}.dot`?", name.display());
    }
    if name.to_str().is_some_and(|name| is_pipeline_name(name) && name.contains(char::is_whitespace)) {
        return "this looks like a file name; end a prompt with a full stop".to_owned();
    }
    // Of a directory its own pipelines, of a missing file its neighbours.
    let (dir, shown) = if path.is_dir() { (path, name) } else { (parent(path), parent(name)) };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let is_pipeline = |file: &PathBuf| file.extension() == Some("dot".as_ref()) && file.is_file();
    let pipelines = entries.map(|entry| entry.path()).filter(is_pipeline);
    let pipelines = pipelines.filter_map(|file| Some(format!("`{}`", shown.join(file.file_name()?).display())));
    let mut pipelines: Vec<String> = pipelines.collect();
    pipelines.sort();
    if pipelines.is_empty() || path.is_file() {
        "give the path of a pipeline, a text file in the DOT language".to_owned()
    } else {
        format!("give the path of a pipeline; there is {}", listed(pipelines, 5))
    }
}

/// The command for a file that is no pipeline by its name: markdown with tasks, or a tree of them.
fn other_command(name: &Path) -> Option<String> {
    let is = |ending: &str| name.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending));
    if is("md") {
        let dir = Some(parent(name)).filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let dir = shell_word(dir.display());
        Some(format!("`pleach build --spec-dir {dir}` makes a task tree of markdown, which `pleach gardener` works"))
    } else if is("json") {
        Some(format!("`pleach gardener --tree {}` works a task tree", shell_word(name.display())))
    } else {
        None
    }
}

/// Whether a text ends like the name of a pipeline.
pub fn is_pipeline_name(text: &str) -> bool {
    [".dot", ".gv"].iter().any(|ending| text.ends_with(ending))
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// The agents, models and providers a configuration knows.
pub fn known(config: &Config) -> KnownNames {
    let built_in = ["builtin", "simulation", "claude", "codex", "gemini", "opencode"];
    let agents = config.agents.keys().cloned().chain(built_in.into_iter().map(str::to_owned)).collect();
    let providers = &config.providers;
    let models: BTreeSet<String> = providers
        .remote()
        .flat_map(|(_, provider)| provider.models.iter().flat_map(|(role, model)| [role.clone(), model.clone()]))
        .collect();
    // Google's models are asked for by either name.
    let providers = providers.names().chain(["google"]).map(str::to_owned).collect();
    KnownNames {
        agents: Some(agents),
        models: Some(models).filter(|models| !models.is_empty()),
        providers: Some(providers),
        ..KnownNames::default()
    }
}
