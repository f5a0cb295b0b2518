//! The built-in agent's tools. Each takes JSON arguments and answers with text; what goes wrong is an answer too, so
//! that the model can react.

mod answer;
mod arguments;
mod files;
mod search;
mod shell;

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::BuiltinLimits;
use super::truncate::truncate;
use crate::config;
use crate::confined_fs::Jail;
use crate::llm::ToolSpec;
use crate::process::Cancel;

pub(super) use answer::{ToolAnswer, Wrote};
pub(super) use shell::Shell;

/// The tools with what they work on.
#[derive(Debug)]
pub(super) struct Toolbox {
    jail: Arc<Jail>,
    shell: Shell,
    specs: Vec<ToolSpec>,
    /// Commands of the configuration that are tools.
    commands: Vec<config::ToolSettings>,
}

impl Toolbox {
    pub(super) fn new(jail: Jail, shell: Shell, limits: &BuiltinLimits) -> Self {
        Self { jail: Arc::new(jail), shell, specs: specs(limits, &[]), commands: Vec::new() }
    }

    /// The same with commands as further tools.
    pub(super) fn with_commands(mut self, commands: &[config::ToolSettings]) -> Self {
        self.specs.extend(commands.iter().map(of_command));
        Self { commands: commands.to_vec(), ..self }
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
        let mut answer = match name {
            "read_file" => self.blocking(arguments, files::read).await,
            "write_file" => self.blocking(arguments, files::write).await,
            "edit_file" => self.blocking(arguments, files::edit).await,
            "grep" => {
                let cancel = cancel.clone();
                self.blocking(arguments, move |jail, args| search::grep(jail, args, &cancel)).await
            }
            "glob" => {
                let cancel = cancel.clone();
                self.blocking(arguments, move |jail, args| search::glob(jail, args, &cancel)).await
            }
            _ => match self.commands.iter().find(|command| command.name == name) {
                Some(command) => self.shell.run_configured(&command.command, cancel).await,
                None => match parse(arguments) {
                    Ok(args) => self.shell.run(args, cancel).await,
                    Err(answer) => answer,
                },
            },
        };
        answer.text = truncate(name, answer.text);
        answer
    }

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

/// The tool specification of a command of the configuration.
fn of_command(command: &config::ToolSettings) -> ToolSpec {
    let description = match command.description.trim() {
        "" => format!("Runs `{}`.", command.command),
        words => words.to_owned(),
    };
    let parameters = json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    ToolSpec { name: command.name.clone(), description, parameters, extra: Default::default() }
}

/// The tool specifications for the model.
pub(super) fn specs(limits: &BuiltinLimits, commands: &[config::ToolSettings]) -> Vec<ToolSpec> {
    let (default, most) = (limits.command_timeout.as_millis(), limits.max_command_timeout.as_millis());
    let tool = |name: &str, description: &str, required: &[&str], properties: Value| ToolSpec {
        name: name.into(),
        description: description.into(),
        parameters: json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }),
        extra: Default::default(),
    };
    let text = |what: &str| json!({"type": "string", "description": what});
    let number = |what: &str| json!({"type": "integer", "minimum": 1, "description": what});
    let flag = |what: &str| json!({"type": "boolean", "description": what});
    let own = vec![
        tool(
            "read_file",
            "Read a text file. Lines come numbered as `NNN | text`.",
            &["file_path"],
            json!({
                "file_path": text("The file, relative to the working directory."),
                "offset": number("The first line to read, from 1."),
                "limit": number("How many lines to read; 2000 when not given."),
            }),
        ),
        tool(
            "write_file",
            "Write a file whole, making it and its directories where they are missing.",
            &["file_path", "content"],
            json!({"file_path": text("The file."), "content": text("Its new content, all of it.")}),
        ),
        tool(
            "edit_file",
            "Replace a piece of a file. The piece must occur exactly once, unless `replace_all` is true.",
            &["file_path", "old_string", "new_string"],
            json!({
                "file_path": text("The file."),
                "old_string": text("The piece as it stands in the file, without line numbers."),
                "new_string": text("What takes its place."),
                "replace_all": flag("Replace every occurrence."),
            }),
        ),
        tool(
            "grep",
            "Search files for a regular expression. Answers `path:line:text`; files ignored by git are left out.",
            &["pattern"],
            json!({
                "pattern": text("The regular expression."),
                "path": text("The file or directory to search; the working directory when not given."),
                "glob_filter": text("Only files like this, as in `*.rs` or `src/**/*.rs`."),
                "case_insensitive": flag("Take upper and lower case for the same."),
                "max_results": number("How many lines at most; 100 when not given."),
            }),
        ),
        tool(
            "glob",
            "List files by a pattern, newest first; files ignored by git are left out.",
            &["pattern"],
            json!({
                "pattern": text("The pattern, as in `**/*.rs`."),
                "path": text("The directory to start in; the working directory when not given."),
            }),
        ),
        tool(
            "shell",
            "Run a shell command in the working directory. It has no terminal and no input, and nothing it starts \
             outlives it.",
            &["command"],
            json!({
                "command": text("The command."),
                "timeout_ms": number(&format!("Milliseconds it may take; {default} when not given, {most} at most.")),
                "description": text("What it is for, in a few words."),
            }),
        ),
    ];
    own.into_iter().chain(commands.iter().map(of_command)).collect()
}

#[cfg(test)]
mod tests;
