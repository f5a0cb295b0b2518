//! How an agent is started for a job: its command line, its variables, what it reads.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::agent::CliAgent;
use super::gateway_setup::{self, GatewayEndpoint, GatewaySetup, Variables};
use super::separate_home;
use super::template::Values;
use crate::agent::gateway_run::WAS_INTERRUPTED;
use crate::agent::liveness::{IDLE, signs_of_life};
use crate::agent::repo_context::describe_repos;
use crate::agent::tool_commands::{Launchers, ToolServer};
use crate::agent::{AgentError, Job, bounds};
use os::confined_fs::ConfinedDir;
use os::process::{CommandLimits, CommandSpec, Sandbox, Stdin};
use pleach_core::config::AgentStdin;

/// How much of what an agent says is kept beside what is understood of it.
const OUTPUT: usize = 1 << 20;

/// What differs from one start to the next.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LaunchOptions<'a> {
    /// The conversation to resume.
    pub session: Option<&'a str>,
    /// The settings with the hooks.
    pub hooks: Option<&'a str>,
    /// The gateway it is to go through.
    pub endpoint: Option<&'a GatewayEndpoint>,
    /// What it may touch, see [`Launch::bounds`].
    pub bounds: Option<&'a Arc<Sandbox>>,
}

/// An agent that is started for a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launch<'a> {
    pub agent: &'a CliAgent,
    pub job: &'a Job,
    /// Its commands, where it has some.
    pub launchers: Option<&'a Launchers>,
}

impl<'a> Launch<'a> {
    /// The prompt. An agent that resumes a conversation has the task already.
    pub(super) fn prompt(&self, goes_on: bool, bounds: Option<&Arc<Sandbox>>) -> String {
        let epilogue = self.epilogue(bounds.map(Arc::as_ref));
        if goes_on && self.job.continues {
            return format!(
                "{WAS_INTERRUPTED} The files are now as they were after your last \
                 recorded step: changes you made after it are gone. Look at them, go on with the task, and end with a \
                 short account of what you did and what is left.{epilogue}"
            );
        }
        let profile = self.agent.profile.text();
        let profile = if profile.is_empty() { String::new() } else { format!("{}\n\n", profile.trim()) };
        format!("{profile}{}{epilogue}", self.job.prompt)
    }

    /// The end of its prompt.
    fn epilogue(&self, bounds: Option<&Sandbox>) -> String {
        if !self.agent.settings.is_command {
            return epilogue(self.job, bounds, self.launchers);
        }
        let bounds = bounds.map(bounds::describe);
        let notes = notes(self.job, self.launchers).chain(bounds);
        notes.map(|note| format!("\n\n{note}")).collect()
    }

    /// The command that starts the agent.
    pub(super) fn command(&self, prompt: &str, start: LaunchOptions<'_>) -> Result<CommandSpec, AgentError> {
        let failed = |why: String| AgentError::Terminal(why);
        let preset = &self.agent.preset;
        if !self.job.tools && !preset.can_go_without_tools(self.agent.settings.is_command) {
            return Err(failed(format!(
                "{} cannot be kept from its tools, which `tools=false` asks for; let another agent run the node",
                preset.title
            )));
        }
        let template = match start.session {
            Some(_) if !preset.resume.is_empty() => &preset.resume,
            _ => &preset.argv,
        };
        let mut values = Values::default();
        values.set("prompt", Some(prompt));
        let model = self.agent.model(self.job);
        // A name of pleach's own leads to the gateway, for programs that know models by their provider.
        let routed = start.endpoint.and(preset.gateway.model.as_ref());
        values.set(
            "model",
            match (&model, routed) {
                (Some(model), Some(template)) => Some(template.replace("{model}", model)),
                _ => model,
            },
        );
        values.set("base_url", start.endpoint.map(|endpoint| endpoint.address.as_str()));
        values.set("effort", self.job.effort.clone());
        values.set("cwd", Some(self.job.cwd.display().to_string()));
        values.set("session", start.session);
        values.set("permission_mode", self.agent.settings.permission_mode.clone());
        values.set("hooks", start.hooks);
        let tools = Some(&self.agent.settings.tools).filter(|tools| !tools.is_empty() && self.job.tools);
        // Commands of the configuration are no tools of its own.
        let configured: Vec<String> = self.agent.commands.names().collect();
        let own =
            |tools: &Vec<String>| tools.iter().filter(|tool| !configured.contains(tool)).cloned().collect::<Vec<_>>();
        values.set("tools", tools.map(|tools| preset.tools_in_a_word(&own(tools))));
        let server = self.launchers.and_then(Launchers::server);
        preset.mcp.set_values(&mut values, server);
        let needs_file = template.iter().chain(&self.agent.settings.args).any(|word| word.contains("{prompt_file}"));
        if needs_file {
            let file = prompt_file(&self.job.status_file, prompt).map_err(|error| {
                AgentError::Transient(format!("cannot write the task to a file for the agent: {error}"))
            })?;
            values.set("prompt_file", Some(file.display().to_string()));
        }
        let mut template: Vec<String> = template.clone();
        if let Some(at) = template.iter().position(|word| word == "{permissions}") {
            template.splice(at..=at, self.permissions().iter().cloned());
        }
        let more = tools.iter().flat_map(|_| &preset.tools.args).chain(start.hooks.iter().flat_map(|_| &preset.hooks));
        let more = more.chain(server.iter().flat_map(|_| &preset.mcp.args));
        let more =
            more.chain(start.endpoint.iter().flat_map(|_| &preset.gateway.args)).chain(&self.agent.settings.args);
        let more: Vec<String> = more.cloned().collect();
        let filled = |template: &[String]| values.words(template).map_err(|error| failed(error.to_string()));
        let (mut words, more) = (filled(&template)?, filled(&more)?);
        // Options go before a last word that says where the task comes from.
        let end = words.len() - usize::from(words.last().is_some_and(|word| word == "-"));
        words.splice(end..end, more);
        let mut command = CommandSpec::new(
            std::iter::once(self.agent.program.clone().into_os_string()).chain(words.into_iter().map(OsString::from)),
            self.job.cwd.clone(),
        );
        command.env = self.variables(start.endpoint)?;
        if let Some(launchers) = self.launchers {
            launchers.add_to_path(&mut command.env, self.agent.spawner.inherited("PATH"));
        }
        command.sandbox = start.bounds.cloned();
        command.stdin = match preset.stdin {
            AgentStdin::None => Stdin::Null,
            AgentStdin::Prompt => Stdin::Bytes(prompt.as_bytes().to_vec()),
        };
        let own = self.agent.settings.timeout.map(Duration::from_secs);
        command.limits = CommandLimits {
            wall: [own, self.job.timeout].into_iter().flatten().min(),
            idle: Some(self.agent.settings.idle_timeout.map_or(IDLE, Duration::from_secs)),
            output: OUTPUT,
            ..CommandLimits::default()
        };
        command.signs = Some(signs_of_life(&self.job.root, None));
        command.locks = self.job.locks.clone();
        Ok(command)
    }

    /// What the agent may do without asking, as arguments.
    fn permissions(&self) -> &'a [String] {
        let permissions = &self.agent.preset.permissions;
        if !self.job.tools {
            &permissions.no_tools
        } else if self.agent.settings.permission_mode.is_some() {
            &permissions.given
        } else if self.job.sandbox.is_some() {
            &permissions.bounded
        } else {
            &permissions.usual
        }
    }

    fn variables(&self, endpoint: Option<&GatewayEndpoint>) -> Result<Variables, AgentError> {
        let mut env = self.job.env.clone();
        if endpoint.is_some() {
            // Where the node has a cache of its own, that goes over the user's.
            env.splice(0..0, gateway_setup::tools(&self.agent.environment, |_| true));
        }
        // What lifts checks of the agent's own is only set where something else holds it.
        let bounded = self.agent.preset.bounded_env.iter().filter(|_| self.job.sandbox.is_some());
        let own = self.agent.preset.env.iter().chain(bounded);
        env.extend(own.map(|(name, value)| (OsString::from(name), Some(OsString::from(value)))));
        if let Some(endpoint) = endpoint {
            env.extend(self.gateway_setup(endpoint).variables()?);
            return Ok(env);
        }
        // Secrets are kept from what agents start, but its own key is what it works with.
        let keys = self.agent.preset.keys.iter().filter_map(|key| Some((key, self.agent.environment.get_os(key)?)));
        env.extend(keys.map(|(key, value)| (OsString::from(key), Some(value.to_owned()))));
        env.extend(separate_home::set_up(&self.agent.preset, &self.agent.environment, &self.job.home)?);
        let server = self.launchers.and_then(Launchers::server);
        // What the settings of the agent say counts more.
        let mcp = self.agent.preset.mcp.variables(server, &self.agent.environment);
        env.extend(mcp.into_iter().filter(|(name, _)| !self.agent.preset.env.keys().any(|own| name == own.as_str())));
        Ok(env)
    }

    /// How it comes to its model through a gateway.
    pub(super) fn gateway_setup<'e>(&'e self, endpoint: &'e GatewayEndpoint) -> GatewaySetup<'e> {
        let CliAgent { preset, environment, .. } = self.agent;
        let (model, server) = (self.agent.model(self.job), self.launchers.and_then(Launchers::server));
        GatewaySetup { preset, environment, home: &self.job.home, model, endpoint, server }
    }

    /// What the agent may touch: what the node's work may, what it keeps for itself, and its model.
    pub(super) fn bounds(&self, endpoint: Option<&GatewayEndpoint>) -> Option<Arc<Sandbox>> {
        let server = self.launchers.and_then(Launchers::server).map(ToolServer::program);
        let sandbox = self.job.sandbox.as_ref()?.with_read(server);
        Some(Arc::new(match endpoint {
            Some(endpoint) => sandbox.through(endpoint.port).with_write([self.job.home.clone()]),
            None => {
                let open = separate_home::writable_paths(&self.agent.preset, &self.agent.environment);
                let sandbox = if self.agent.settings.is_closed { sandbox } else { sandbox.with_network() };
                let own = self.agent.preset.own_files_in(&self.agent.environment);
                sandbox.with_read(own).with_write(open.into_iter().chain([self.job.home.clone()]))
            }
        }))
    }
}

/// The end of the prompt of every agent that works by itself. `sandbox` is the agent's, which may be wider than what
/// holds other work of the node.
pub(in crate::agent) fn epilogue(job: &Job, sandbox: Option<&Sandbox>, launchers: Option<&Launchers>) -> String {
    let bounds = match sandbox {
        Some(sandbox) if job.tools => format!(" {}", bounds::describe(sandbox)),
        _ => String::new(),
    };
    let tools = if job.tools { "" } else { " You have no tools in this step: answer in words." };
    let notes: String = notes(job, launchers).map(|note| format!("\n\n{note}")).collect();
    format!(
        "{notes}\n\nYou work in a copy of the repository made for this run; keep to it. Nobody watches and nobody can \
         answer a question: decide yourself. {}{tools}{bounds} If there is nothing to change, say \
         why. If the step did not simply succeed, write {{\"outcome\": \"success|retry|fail|partial_success\", \"notes\": \"why\"}} to the file `{}`.",
        bounds::COMMITS,
        job.status_file.display()
    )
}

/// What an agent is told about its repositories and its commands.
fn notes(job: &Job, launchers: Option<&Launchers>) -> impl Iterator<Item = String> {
    describe_repos(&job.repos).into_iter().chain(launchers.map(Launchers::describe))
}

/// Writes the task beside the status file, outside the worktree.
fn prompt_file(status_file: &Path, prompt: &str) -> std::io::Result<PathBuf> {
    const NAME: &str = "prompt.md";
    let dir = status_file.parent().ok_or(std::io::ErrorKind::InvalidInput)?;
    std::fs::create_dir_all(dir)?;
    // The agent can write there, and may have been here before.
    ConfinedDir::at(dir)?.write(NAME, prompt.as_bytes())?;
    Ok(dir.join(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::cli::{CliSettings, Preset, Versions};
    use crate::agent::{ConfiguredTools, Profile};
    use os::process::sandbox::Availability;
    use os::process::{Connect, Spawner};
    use pleach_core::config::{Environment, TurnMode};
    use pleach_core::ids::NodeId;

    fn agent(kind: &'static str, turns: TurnMode) -> CliAgent {
        let is_command = kind == "command";
        let preset = if is_command { Preset::of_command(&["mine".into()]) } else { Preset::of(kind).unwrap().clone() };
        CliAgent {
            kind,
            name: kind.to_owned(),
            preset,
            settings: CliSettings { is_command, ..CliSettings::default() },
            program: "/bin/true".into(),
            turns,
            profile: Profile::default(),
            environment: Environment::default(),
            spawner: Spawner::new(Vec::new(), &Environment::default()),
            versions: Versions::default(),
            hook: Vec::new(),
            commands: ConfiguredTools::default(),
            server: Vec::new(),
            upstream: None,
        }
    }

    fn job() -> Job {
        let by = Availability { landlock_abi: Some(7), bubblewrap: None, filters: true };
        let closed = Sandbox { by, connect: Connect::Ports(Vec::new()), ..Sandbox::default() };
        let mut job = Job::new(NodeId::new("n").unwrap(), "Work on it", "/r", "/s/status.json");
        job.sandbox = Some(Arc::new(closed));
        job
    }

    fn endpoint() -> GatewayEndpoint {
        GatewayEndpoint {
            base_url: "http://127.0.0.1:9/SECRET/v1".into(),
            root_url: "http://127.0.0.1:9/SECRET".into(),
            address: "http://127.0.0.1:9/v1".into(),
            key: "SECRET".into(),
            port: 9,
        }
    }

    #[test]
    fn no_command_line_contains_the_gateway_secret() {
        let endpoint = endpoint();
        for kind in ["claude", "codex", "gemini", "opencode", "command"] {
            let mut agent = agent(kind, TurnMode::Gateway);
            agent.settings.args = ["{base_url}", "--at={base_url}", "{root_url}", "{key}"].map(String::from).to_vec();
            let start = LaunchOptions { endpoint: Some(&endpoint), ..LaunchOptions::default() };
            let command = Launch { agent: &agent, job: &job(), launchers: None }.command("x", start).unwrap();
            let words: Vec<_> = command.argv.iter().map(|word| word.to_string_lossy()).collect();
            assert!(!words.iter().any(|word| word.contains("SECRET")), "{kind}: {words:?}");
            assert!(words.contains(&"--at=http://127.0.0.1:9/v1".into()), "{kind}: {words:?}");
            let secret = |(_, value): &(OsString, Option<OsString>)| {
                value.as_ref().is_some_and(|value| value.to_string_lossy().contains("SECRET"))
            };
            assert!(command.env.iter().any(secret), "{kind} finds it in its variables");
            let arguments = Launch { agent: &agent, job: &job(), launchers: None }.gateway_setup(&endpoint).arguments();
            assert!(!arguments.iter().any(|word| word.contains("SECRET")), "{kind}: {arguments:?}");
        }
    }

    #[test]
    fn the_prompt_describes_the_sandbox() {
        let job = job();
        for (kind, turns) in [("claude", TurnMode::Stream), ("claude", TurnMode::Node), ("command", TurnMode::Node)] {
            let agent = agent(kind, turns);
            let bounds = Launch { agent: &agent, job: &job, launchers: None }.bounds(None);
            let prompt = Launch { agent: &agent, job: &job, launchers: None }.prompt(false, bounds.as_ref());
            assert!(
                prompt.starts_with("Work on it\n\n") && prompt.contains("You run in a sandbox"),
                "{kind}: {prompt}"
            );
            assert!(!prompt.contains("network"), "it speaks to its model by itself: {prompt}");
            let start = LaunchOptions { bounds: bounds.as_ref(), ..LaunchOptions::default() };
            let command = Launch { agent: &agent, job: &job, launchers: None }.command(&prompt, start).unwrap();
            assert_eq!(command.sandbox.map(|sandbox| sandbox.connect.clone()), Some(Connect::Anywhere));
        }
        let endpoint = endpoint();
        let agent = agent("claude", TurnMode::Gateway);
        let bounds = Launch { agent: &agent, job: &job, launchers: None }.bounds(Some(&endpoint));
        assert!(
            Launch { agent: &agent, job: &job, launchers: None }
                .prompt(false, bounds.as_ref())
                .contains("The network reaches your model and nothing else.")
        );
    }

    #[test]
    fn tools_are_limited_by_the_agents_own_options() {
        let mut reviewer = agent("claude", TurnMode::Node);
        let line = |agent: &CliAgent, job: &Job| {
            let command = Launch { agent, job, launchers: None }.command("x", LaunchOptions::default()).unwrap();
            command.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        let all = line(&reviewer, &job());
        assert!(!all.contains("--tools") && !all.contains("--strict-mcp-config"), "{all}");
        reviewer.settings.tools = vec!["read_file".into(), "grep".into(), "WebFetch".into()];
        let kept = line(&reviewer, &job());
        assert!(kept.contains(" --tools Read,Grep,WebFetch --strict-mcp-config"), "{kept}");
        let none = line(&reviewer, &Job { tools: false, ..job() });
        assert!(!none.contains("Grep"), "a node without tools has none of them: {none}");
        let mut own = agent("command", TurnMode::Node);
        own.preset.argv = vec!["--only".into(), "{tools}".into(), "--go".into()];
        assert_eq!(line(&own, &job()), "/bin/true --go");
        own.settings.tools = vec!["read_file".into(), "x".into()];
        assert_eq!(line(&own, &job()), "/bin/true --only read_file,x --go");
    }

    #[test]
    fn gateway_settings_override_those_of_the_user() {
        let endpoint = endpoint();
        for (kind, gone, set) in [
            ("claude", "CLAUDE_CODE_USE_BEDROCK", "ANTHROPIC_BASE_URL"),
            ("codex", "CODEX_SQLITE_HOME", "CODEX_HOME"),
            ("gemini", "GEMINI_CLI_HOME", "GOOGLE_GEMINI_BASE_URL"),
            ("opencode", "OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT"),
        ] {
            let mut agent = agent(kind, TurnMode::Gateway);
            agent.preset.env.insert(gone.into(), "settings do not bring it back".into());
            let start = LaunchOptions { endpoint: Some(&endpoint), ..LaunchOptions::default() };
            let command = Launch { agent: &agent, job: &job(), launchers: None }.command("x", start).unwrap();
            let last =
                |name: &str| command.env.iter().rev().find(|(set, _)| set == name).map(|(_, value)| value.clone());
            assert_eq!(last(gone), Some(None), "{kind}");
            assert!(last(set).flatten().is_some(), "{kind}");
        }
    }

    #[test]
    fn tools_false_is_refused_where_it_cannot_hold() {
        let job = Job { tools: false, ..job() };
        let command = |kind| {
            let agent = agent(kind, TurnMode::Node);
            Launch { agent: &agent, job: &job, launchers: None }.command("x", LaunchOptions::default())
        };
        let refused = command("opencode").unwrap_err();
        assert!(refused.to_string().contains("OpenCode cannot be kept from its tools"), "{refused}");
        assert!(command("claude").is_ok());
    }
}
