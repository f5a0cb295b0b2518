//! A program that speaks the Agent Client Protocol, and what is known of it before it runs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::client::{AcpClient, AcpEnd, AcpTask};
use super::policy::PermissionPolicy;
use super::route::AcpRoute;
use super::session::EndedSession;
use super::state::AcpState;
use crate::agent::cli::{Billing, Preset, Variables, epilogue};
use crate::agent::gateway_run::TASK_WAS_INTERRUPTED;
use crate::agent::liveness::{IDLE, signs_of_life};
use crate::agent::tool_commands::{Launchers, ToolServer};
use crate::agent::{AgentError, AgentReply, ConfiguredTools, Job, Profile, Turn, TurnVerdict, Turns};
use crate::gateway::{Upstream, UsageMeter};
use os::process::{Cancel, CommandLimits, CommandSpec, Exit, Output, Spawner};
use pleach_core::config::{AgentSettings, Environment};
use pleach_core::text::{last_words, shorten};

/// How much of a failed agent's complaint goes into the message.
const COMPLAINT: usize = 2_000;

/// How much of what an agent writes is kept.
const OUTPUT: usize = 64 << 10;

/// A program that speaks the Agent Client Protocol.
#[derive(Debug, Clone)]
pub(crate) struct AcpAgent {
    pub(super) argv: Vec<OsString>,
    pub(super) spawner: Spawner,
    pub(super) profile: Profile,
    pub(super) env: Variables,
    pub(super) mode: Option<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) idle: Duration,
    pub(super) max_failed_calls: Option<u32>,
    /// What is known of it where it is not behind the gateway, and where the user's own things are.
    pub(super) known: Option<(&'static Preset, Environment)>,
    /// Variables it gets only in a sandbox.
    pub(super) bounded_env: Variables,
    /// Who is billed, where that is known.
    pub(super) billed: Option<Billing>,
    /// How it comes to its model through the gateway, where it does.
    pub(super) route: Option<AcpRoute>,
    /// The commands of the configuration that it finds on its PATH.
    pub(super) commands: ConfiguredTools,
    /// The program, with arguments, that is the server of these commands.
    pub(super) server: Vec<OsString>,
}

impl AcpAgent {
    /// The program and its arguments.
    pub fn new<A: Into<OsString>>(argv: impl IntoIterator<Item = A>, spawner: Spawner) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            spawner,
            profile: Profile::default(),
            env: Vec::new(),
            mode: None,
            timeout: None,
            idle: IDLE,
            max_failed_calls: None,
            known: None,
            bounded_env: Vec::new(),
            billed: None,
            route: None,
            commands: ConfiguredTools::default(),
            server: Vec::new(),
        }
    }

    /// The same behind the gateway, where `upstream` answers. It is configured as `preset` says; `models` are those
    /// behind short names. It gets no key, and a home of its own.
    #[must_use]
    pub fn behind(
        mut self,
        preset: Preset,
        upstream: Upstream,
        environment: &Environment,
        models: BTreeMap<String, String>,
    ) -> Self {
        self.env.extend(variables(&preset.env));
        self.bounded_env = variables(&preset.bounded_env);
        self.billed = Some(Billing::through_gateway(&upstream));
        self.route = Some(AcpRoute { preset, upstream, environment: environment.clone(), models });
        self
    }

    /// The same for a program of an agent that is known: it gets its own key and may write its own files, as it does
    /// when it is run by its name. A program is known by its bare name, as PATH finds it: a repository with another one
    /// does not get at keys by giving it that name.
    #[must_use]
    pub fn with_known_program(mut self, environment: &Environment) -> Self {
        let Some(preset) = self.argv.first().and_then(|program| known(program.to_str()?)) else { return self };
        let keys = preset.keys.iter().filter_map(|key| Some((key.into(), Some(environment.get_os(key)?.to_owned()))));
        self.env.extend(keys);
        self.env.extend(variables(&preset.env));
        self.bounded_env = variables(&preset.bounded_env);
        self.known = Some((preset, environment.clone()));
        self.billed = Some(Billing::without_gateway(preset, environment));
        self
    }

    /// The same, with what makes a named agent different from the others.
    #[must_use]
    pub fn with_profile(self, profile: Profile) -> Self {
        Self { profile, ..self }
    }

    /// The same with commands of the configuration, on its PATH and from a server that is the program `server`.
    #[must_use]
    pub fn with_tools(self, commands: ConfiguredTools, server: Vec<OsString>) -> Self {
        Self { commands, server, ..self }
    }

    /// The same, with the settings of a program that is an agent.
    #[must_use]
    pub fn with_settings(mut self, settings: &AgentSettings) -> Self {
        self.env.extend(variables(&settings.env));
        self.argv.extend(settings.args.iter().map(OsString::from));
        self.mode = settings.permission_mode.clone().or(self.mode);
        self.timeout = settings.timeout.map(Duration::from_secs).or(self.timeout);
        self.max_failed_calls = settings.max_failed_calls.or(self.max_failed_calls);
        self.idle = settings.idle_timeout.map_or(self.idle, Duration::from_secs);
        self
    }

    pub(super) fn name(&self) -> String {
        let program = self.argv.first().map(Path::new).and_then(Path::file_name);
        program.map_or_else(|| "acp".into(), |name| name.to_string_lossy().into_owned())
    }

    /// What the agent is asked.
    pub(super) fn prompt(&self, job: &Job, launchers: Option<&Launchers>) -> String {
        let prompt = format!("{}{}", job.prompt.trim_end(), epilogue(job, job.sandbox.as_deref(), launchers));
        if job.continues {
            return format!("{TASK_WAS_INTERRUPTED}\n\n{prompt}");
        }
        if self.profile.layers.is_empty() { prompt } else { format!("{}\n\n{prompt}", self.profile.text().trim()) }
    }

    pub(super) fn task(&self, job: &Job, launchers: Option<&Launchers>) -> AcpTask {
        AcpTask {
            prompt: self.prompt(job, launchers),
            servers: launchers.and_then(Launchers::server).map(ToolServer::over_acp).into_iter().collect(),
            cwd: job.cwd.clone(),
            resume: job.resume.as_ref().and_then(AcpState::read).filter(|state| state.home == self.home()),
            model: job.model.clone().or_else(|| self.profile.model.clone()),
            mode: self.mode.clone(),
            policy: PermissionPolicy {
                allows: job.tools,
                cwd: job.cwd.clone(),
                writable: vec![job.root.clone(), job.status_file.clone()],
            },
            home: self.home(),
            name: self.name(),
        }
    }

    /// Whose home it keeps its sessions in.
    pub(super) fn home(&self) -> &'static str {
        if self.route.is_some() { "own" } else { "user" }
    }

    /// Its arguments in a sandbox, unless the settings say what it may do.
    pub(super) fn bounded(&self, job: &Job) -> &[String] {
        let preset = self.route.as_ref().map(|route| &route.preset).or(self.known.as_ref().map(|(preset, _)| *preset));
        match preset {
            Some(preset) if job.sandbox.is_some() && job.tools && self.mode.is_none() => {
                &preset.permissions.bounded_over_acp
            }
            _ => &[],
        }
    }

    /// The command that starts the agent.
    pub(super) fn command(
        &self,
        mut job: Job,
        variables: Variables,
        arguments: Vec<String>,
        launchers: Option<&Launchers>,
        meter: Option<UsageMeter>,
    ) -> CommandSpec {
        let signs = signs_of_life(&job.root, meter);
        job.env.extend(self.bounded_env.iter().filter(|_| job.sandbox.is_some()).cloned());
        job.env.extend(self.env.iter().cloned().chain(variables));
        if let Some(launchers) = launchers {
            launchers.add_to_path(&mut job.env, self.spawner.inherited("PATH"));
            let server = launchers.server().map(ToolServer::program);
            job.sandbox = job.sandbox.map(|sandbox| Arc::new(sandbox.with_read(server)));
        }
        let wall = job.timeout.into_iter().chain(self.timeout).min();
        let arguments = self.bounded(&job).iter().cloned().chain(arguments);
        let argv = self.argv.iter().cloned().chain(arguments.map(OsString::from));
        CommandSpec {
            env: job.env,
            limits: CommandLimits { wall, idle: Some(self.idle), output: OUTPUT, ..CommandLimits::default() },
            locks: job.locks,
            sandbox: job.sandbox,
            signs: Some(signs),
            ..CommandSpec::new(argv, job.cwd)
        }
    }

    /// How the agent ended, in any case.
    pub(super) fn ended(
        &self,
        talked: EndedSession,
        turns: &Turns,
        cancel: &Cancel,
    ) -> Result<(AcpClient, AcpEnd), AgentError> {
        let EndedSession { client, ended, output } = talked;
        let output = output.map_err(|error| AgentError::of_spawn(&error))?;
        turns.push_stderr(&output.stderr.to_text());
        let ended = match ended {
            _ if cancel.is_killed() => AcpEnd::Failed(AgentError::Cancelled),
            Some(ended) => ended,
            None => AcpEnd::Failed(self.ended_early(&client, &output)),
        };
        Ok((client, ended))
    }

    pub(super) fn is_unbilled(&self) -> bool {
        self.billed.as_ref().is_some_and(Billing::is_subscription)
    }

    /// Reports the turn in flight, now that nothing of the agent runs any more, and says how it ended.
    pub(super) async fn conclude(
        &self,
        mut client: AcpClient,
        ended: AcpEnd,
        turns: &Turns,
    ) -> Result<AgentReply, AgentError> {
        let verdict = match client.last_turn(ended.failed().as_deref()) {
            Some(turn) => turns.report(Turn { unbilled: self.is_unbilled(), ..turn }).await,
            None => TurnVerdict::Go,
        };
        let text = client.words().to_owned();
        Ok(AgentReply::new(text, ended.into_end(verdict)?))
    }

    /// What to say of an agent that ended without an answer.
    pub(super) fn ended_early(&self, client: &AcpClient, output: &Output) -> AgentError {
        let stderr = output.stderr.to_text();
        let said = match last_words(stderr.trim(), COMPLAINT) {
            "" => client.noise.as_deref().map(|noise| shorten(noise, COMPLAINT)).unwrap_or_default(),
            said => said.to_owned(),
        };
        let colon = if said.is_empty() { "" } else { ": " };
        let program = self.argv.first().map(|program| program.to_string_lossy()).unwrap_or_default();
        let why = |when: &str| format!("agent `{program}` {}{when}{colon}{said}", output.exit.sentence());
        match output.exit {
            Exit::TimedOut(_) => AgentError::TimedOut(why("")),
            Exit::Cancelled => AgentError::Cancelled,
            Exit::Code(_) | Exit::Signal(_) if client.has_prompted() => {
                AgentError::Transient(why(" before its answer"))
            }
            Exit::Code(_) | Exit::Signal(_) => {
                AgentError::Terminal(why(" before it took a task; does it speak the Agent Client Protocol?"))
            }
        }
    }
}

fn variables(all: &BTreeMap<String, String>) -> Variables {
    all.iter().map(|(name, value)| (name.into(), Some(value.into()))).collect()
}

/// What is known of a program, by its name: the agent itself, or what makes it speak the protocol. A program is known
/// by its bare name, as PATH finds it.
pub(in crate::agent) fn known(program: &str) -> Option<&'static Preset> {
    let ends = ["-agent-acp", "-code-acp", "-acp"];
    Preset::of(ends.iter().find_map(|end| program.strip_suffix(end)).unwrap_or(program))
}
