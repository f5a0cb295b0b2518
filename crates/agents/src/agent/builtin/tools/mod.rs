//! The built-in agent's tools. Each takes JSON arguments and answers with text; what goes wrong is an answer too, so
//! that the model can react.

mod answer;
mod arguments;
mod files;
mod search;
mod shell;
mod specs;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::truncate::truncate;
use crate::agent::Job;
use crate::agent::tool_commands::ToolCommand;
use crate::llm::ToolSpec;
use os::confined_fs::Jail;
use os::process::Cancel;
use pleach_core::ids::RepoName;

pub(super) use answer::{ToolAnswer, Wrote};
pub(super) use shell::Shell;
pub(super) use specs::{own, specs};

/// The tools with what they work on.
#[derive(Debug)]
pub(super) struct Toolbox {
    /// Where the job works.
    here: FileScope,
    /// Each repository, where there are several.
    repos: Vec<(RepoName, FileScope)>,
    shell: Shell,
    specs: Vec<ToolSpec>,
    /// Commands of the configuration that are tools.
    commands: Vec<ToolCommand>,
}

/// The directory that tools work in.
#[derive(Debug)]
struct FileScope {
    jail: Arc<Jail>,
    dir: PathBuf,
    /// What comes before the paths that were written: nothing in the only repository.
    prefix: PathBuf,
}

impl Toolbox {
    /// The tools of a job, whose own directory is `jail`.
    pub(super) fn new(job: &Job, jail: Jail, shell: Shell, specs: Vec<ToolSpec>) -> io::Result<Self> {
        let several = job.repos.len() > 1;
        let of_repo = |path: &PathBuf| -> io::Result<FileScope> {
            let jail = Arc::new(Jail::new(path, path, None)?);
            Ok(FileScope { jail, dir: path.clone(), prefix: path.clone() })
        };
        let repos = job.repos.iter().filter(|_| several).map(|repo| Ok((repo.name.clone(), of_repo(&repo.path)?)));
        let prefix = if several { job.root.clone() } else { PathBuf::new() };
        Ok(Self {
            here: FileScope { jail: Arc::new(jail), dir: job.cwd.clone(), prefix },
            repos: repos.collect::<io::Result<_>>()?,
            shell,
            specs,
            commands: Vec::new(),
        })
    }

    /// The same with commands as further tools.
    pub(super) fn with_commands(self, commands: Vec<ToolCommand>) -> Self {
        Self { commands, ..self }
    }

    /// Runs one tool to its end. Only a kill shortens a search or a command; a file is always written whole.
    pub(super) async fn run(&self, name: &str, arguments: &Value, cancel: &Cancel) -> ToolAnswer {
        let Some(spec) = self.specs.iter().find(|spec| spec.name == name) else {
            let names = self.specs.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>().join(", ");
            return ToolAnswer::error(format!("there is no tool `{name}`; the tools are {names}"));
        };
        let arguments = &match arguments::fit(&spec.parameters, arguments) {
            Ok(arguments) => arguments,
            Err(why) => return ToolAnswer::error(format!("the arguments do not fit the tool: {why}")),
        };
        if let Some(command) = self.commands.iter().find(|command| command.name == name) {
            let mut answer = self.shell.run_configured(command, cancel).await;
            answer.text = truncate(name, answer.text);
            return answer;
        }
        let (scope, tool) = self.scope(name);
        let mut answer = match tool {
            "read_file" => scope.blocking(arguments, files::read).await,
            "write_file" => scope.blocking(arguments, files::write).await,
            "edit_file" => scope.blocking(arguments, files::edit).await,
            "grep" => {
                let cancel = cancel.clone();
                scope.blocking(arguments, move |jail, args| search::grep(jail, args, &cancel)).await
            }
            "glob" => {
                let cancel = cancel.clone();
                scope.blocking(arguments, move |jail, args| search::glob(jail, args, &cancel)).await
            }
            _ => match parse(arguments) {
                Ok(args) => self.shell.run(args, &scope.dir, cancel).await,
                Err(answer) => answer,
            },
        };
        if let Wrote::Path(path) = &mut answer.wrote {
            *path = scope.prefix.join(&*path);
        }
        answer.text = truncate(tool, answer.text);
        answer
    }

    /// Where a tool works, and what it is called there.
    fn scope<'a>(&self, name: &'a str) -> (&FileScope, &'a str) {
        let of_repo = name.split_once(':').and_then(|(repo, tool)| {
            let (_, scope) = self.repos.iter().find(|(name, _)| name.as_str() == repo)?;
            Some((scope, tool))
        });
        of_repo.unwrap_or((&self.here, name))
    }
}

impl FileScope {
    async fn blocking<T: DeserializeOwned + Send + 'static>(
        &self,
        arguments: &Value,
        tool: impl FnOnce(&Jail, T) -> ToolAnswer + Send + 'static,
    ) -> ToolAnswer {
        let args = match parse(arguments) {
            Ok(args) => args,
            Err(answer) => return answer,
        };
        let jail = Arc::clone(&self.jail);
        let done = tokio::task::spawn_blocking(move || tool(&jail, args)).await;
        done.unwrap_or_else(|error| ToolAnswer::error(format!("the tool crashed: {error}")))
    }
}

/// Reads arguments that fit the tool's schema. What serde says of others would repeat them.
fn parse<T: DeserializeOwned>(arguments: &Value) -> Result<T, ToolAnswer> {
    serde_json::from_value(arguments.clone()).map_err(|_| ToolAnswer::error("the arguments do not fit the tool"))
}

#[cfg(test)]
mod tests;
