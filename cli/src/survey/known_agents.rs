//! The coding agents that are installed here.

use std::path::{Path, PathBuf};

use agents::agent::{Preset, Versions, find_program};
use os::process::{Cancel, Spawner};
use pleach_core::config::Environment;

use super::keys;
use crate::code::Code;
use crate::failure::Failure;
use crate::settings::Settings;

/// The agents pleach knows by name, in the order in which one is picked.
const KNOWN: [&str; 4] = ["claude", "codex", "gemini", "opencode"];

/// The hint where no agent is installed.
pub const INSTALL: &str = "install claude, codex, gemini or opencode, set a key such as ANTHROPIC_API_KEY for the built-in \
     agent, or name a program: `agent: command:PROGRAM` or `agent: acp:PROGRAM` in pleach.yaml";

/// An agent that is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// What it is called.
    pub name: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// The version it says it has.
    pub version: Option<String>,
    /// Whether it has a login.
    pub has_login: bool,
    /// Whether a key is there that it would use.
    pub has_key: bool,
}

/// The names of the agents that are installed.
pub fn on_path(environment: &Environment) -> Vec<&'static str> {
    let there =
        |name: &&str| Preset::of(name).is_some_and(|preset| find_program(&preset.program, environment).is_some());
    KNOWN.into_iter().filter(there).collect()
}

/// The agent of prompts, pipelines and conflicts in the merge queue where the settings name none: the only one that is installed, or the built-in one
/// where there is nothing but a key.
pub fn default_agent(settings: &Settings) -> Result<&'static str, Failure> {
    let installed = on_path(&settings.own_environment);
    match installed.as_slice() {
        [only] => Ok(only),
        [] if !keys(&settings.environment).is_empty() => Ok("builtin"),
        [] => Err(Failure::new(Code::NoAgentInstalled, "no agent is configured, and none is installed")
            .hint(format!("{INSTALL}; `agent: simulation` or `--agent simulation` tries a pipeline without one"))),
        [first, ..] => {
            let message = format!("no agent is configured, and several are installed: {}", installed.join(", "));
            Err(Failure::new(Code::AgentAmbiguous, message)
                .hint(format!("pass --agent {first}, or set `agent:` in pleach.yaml; `pleach init` writes it")))
        }
    }
}

/// The agents that are installed, each asked for its version at the same time.
pub async fn installed(environment: &Environment, spawner: &Spawner) -> Vec<Installed> {
    let there = KNOWN.iter().filter_map(|name| Some((*name, Preset::of(name)?)));
    let there = there.filter_map(|(name, preset)| Some((name, preset, find_program(&preset.program, environment)?)));
    let asked: Vec<_> = there
        .map(|(name, preset, path)| {
            let (program, spawner) = (path.clone(), spawner.clone());
            let asking =
                tokio::spawn(async move { Versions::default().of(&program, &spawner, &Cancel::never()).await });
            (name, preset, path, asking)
        })
        .collect();
    let home = environment.get_os("HOME").map(Path::new);
    let is_set = |key: &String| environment.get(key).is_some_and(|value| !value.trim().is_empty());
    let mut found = Vec::new();
    for (name, preset, path, asking) in asked {
        found.push(Installed {
            name,
            path,
            version: asking.await.ok().flatten(),
            has_login: home.is_some_and(|home| preset.logins.iter().any(|login| home.join(login).is_file())),
            has_key: preset.keys.iter().any(is_set),
        });
    }
    found
}
