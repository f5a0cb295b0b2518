//! A command of the configuration as a tool.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::agent::Job;
use os::process::Output;
use pleach_core::config::{Config, RepoTool, ToolSettings};
use pleach_core::ids::{RepoName, wire_name};

/// The commands of the configuration that agents use as tools.
#[derive(Debug, Clone, Default)]
pub struct ConfiguredTools {
    /// Those that run where the agent works.
    tools: Vec<ToolSettings>,
    /// Those that run in the worktree of a repository.
    of_repos: BTreeMap<RepoName, BTreeMap<String, RepoTool>>,
}

/// A command as a tool of one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::agent) struct ToolCommand {
    /// Its name: that of its repository comes first, with a colon.
    pub name: String,
    /// The shell command.
    pub command: String,
    /// What it is for; may be empty.
    description: String,
    /// Where it runs.
    pub dir: PathBuf,
}

impl ConfiguredTools {
    /// The tools of a configuration.
    pub fn of(config: &Config) -> Self {
        Self { tools: config.tools.clone(), of_repos: config.workspace.tools.clone() }
    }

    /// Their names, those of repositories with a colon.
    pub(in crate::agent) fn names(&self) -> impl Iterator<Item = String> {
        let of_repos =
            self.of_repos.iter().flat_map(|(repo, tools)| tools.keys().map(move |tool| qualified(repo, tool)));
        self.tools.iter().map(|tool| tool.name.clone()).chain(of_repos)
    }

    /// Those with these names; all where no name is given.
    pub(in crate::agent) fn limited_to(mut self, names: &[String]) -> Self {
        if !names.is_empty() {
            self.tools.retain(|tool| names.contains(&tool.name));
            for (repo, tools) in &mut self.of_repos {
                tools.retain(|tool, _| names.contains(&qualified(repo, tool)));
            }
        }
        self
    }

    /// Those a job can use, where they run in it: none of a repository it does not work in.
    pub(in crate::agent) fn of_job(&self, job: &Job) -> Vec<ToolCommand> {
        if !job.tools {
            return Vec::new();
        }
        let own = self.tools.iter().map(|tool| ToolCommand {
            name: tool.name.clone(),
            command: tool.command.clone(),
            description: tool.description.clone(),
            dir: job.cwd.clone(),
        });
        let of_repos = job.repos.iter().flat_map(|repo| {
            let tools = self.of_repos.get(&repo.name).into_iter().flatten();
            tools.map(|(name, tool)| ToolCommand {
                name: qualified(&repo.name, name),
                command: tool.command.clone(),
                description: tool.description.clone(),
                dir: repo.path.clone(),
            })
        });
        own.chain(of_repos).collect()
    }
}

fn qualified(repo: &RepoName, tool: &str) -> String {
    format!("{repo}:{tool}")
}

impl ToolCommand {
    /// Its name as a command, and for programs that take no colon.
    pub fn wire_name(&self) -> String {
        wire_name(&self.name)
    }

    /// What it is for, in words for a model.
    pub fn description(&self) -> String {
        match self.description.trim() {
            "" => format!("Runs `{}`.", self.command),
            words => words.to_owned(),
        }
    }
}

/// What a command said and how it ended, in words for a model.
pub(in crate::agent) fn describe_output(output: &Output) -> String {
    let mut text = String::new();
    for (name, capture) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        let said = capture.to_text();
        if !said.is_empty() {
            text.push_str(&format!("[{name}]\n{said}"));
            if !said.ends_with('\n') {
                text.push('\n');
            }
        }
    }
    text.push_str(&format!("[{}]", output.exit));
    text
}
