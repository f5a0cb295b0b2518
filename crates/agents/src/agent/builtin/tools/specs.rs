//! The tools as the model is told of them.

use serde_json::{Value, json};

use crate::agent::RepoContext;
use crate::agent::builtin::BuiltinLimits;
use crate::agent::tool_commands::ToolCommand;
use crate::llm::ToolSpec;

/// Tools that only look.
const LOOKS: [&str; 3] = ["read_file", "grep", "glob"];

/// All tools of a job: the agent's own, in a workspace of several repositories also those of each of them, and commands.
pub(in crate::agent::builtin) fn specs(
    limits: &BuiltinLimits,
    repos: &[RepoContext],
    commands: &[ToolCommand],
) -> Vec<ToolSpec> {
    let several = repos.iter().filter(|_| repos.len() > 1);
    let of_repos = several.flat_map(|repo| {
        let tools = own(limits).into_iter().filter(|tool| repo.writable || LOOKS.contains(&tool.name.as_str()));
        tools.map(|tool| ToolSpec {
            name: format!("{}:{}", repo.name, tool.name),
            description: format!(
                "In the repository `{}`, whose root is its working directory: {}",
                repo.name, tool.description
            ),
            ..tool
        })
    });
    own(limits).into_iter().chain(of_repos).chain(commands.iter().map(of_command)).collect()
}

/// The tool specification of a command of the configuration.
fn of_command(command: &ToolCommand) -> ToolSpec {
    let parameters = json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    ToolSpec { name: command.name.clone(), description: command.description(), parameters, extra: Default::default() }
}

/// The agent's own tools, which work where the job does.
pub(in crate::agent::builtin) fn own(limits: &BuiltinLimits) -> Vec<ToolSpec> {
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
    vec![
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
    ]
}
