//! Agents that speak the Agent Client Protocol: JSON-RPC over their standard streams. One prompt is one run; where its
//! turns begin and end is inferred from what the agent tells meanwhile.
//!
//! [`client`] decides what to say, [`gather`] makes turns of what is heard, [`policy`] answers questions for permission;
//! `pipes` has the pipes and the clock. Behind the gateway turns are not inferred: `driven` takes those it has seen.

mod client;
mod driven;
mod gather;
mod lines;
mod pipes;
mod policy;
mod rpc;
mod schema;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use self::client::{Ask, Client, Ended};
use self::driven::Route;
use self::pipes::{Talked, Told};
use self::policy::Policy;
use self::state::State;
use super::cli::{Billed, Preset, Variables, epilogue, is_no_tier};
use super::driven::TASK_WAS_INTERRUPTED;
use super::signs::{IDLE, signs};
use super::{Agent, AgentError, BoxFuture, End, Introduction, Job, Profile, Reply, Turn, Turns, Verdict};
use crate::config::{AgentSettings, Environment};
use crate::gateway::{Meter, Upstream};
use crate::llm::Unusable;
use crate::process::{Cancel, Command, Exit, Limits, Output, Spawner};
use crate::text::{last_words, shorten};

/// The kind of agent, as records have it.
const KIND: &str = "acp";

/// How much of a failed agent's complaint goes into the message.
const COMPLAINT: usize = 2_000;

/// How much of what an agent writes is kept.
const OUTPUT: usize = 64 << 10;

/// A program that speaks the Agent Client Protocol.
#[derive(Debug, Clone)]
pub struct AcpAgent {
    argv: Vec<OsString>,
    spawner: Spawner,
    profile: Profile,
    env: Variables,
    mode: Option<String>,
    timeout: Option<Duration>,
    idle: Duration,
    max_failed_calls: Option<u32>,
    /// What is known of it where it is not behind the gateway, and where the user's own things are.
    known: Option<(&'static Preset, Environment)>,
    /// Variables it gets only in a sandbox.
    bounded_env: Variables,
    /// Who is billed, where that is known.
    billed: Option<Billed>,
    /// How it comes to its model through the gateway, where it does.
    route: Option<Route>,
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
        }
    }

    /// The same behind the gateway, where `upstream` answers. It is brought there as `preset` says; `models` are those
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
        self.billed = Some(Billed::through_gateway(&upstream));
        self.route = Some(Route { preset, upstream, environment: environment.clone(), models });
        self
    }

    /// The same for a program of an agent that is known: it gets its own key and may write its own files, as it does when
    /// it is run by its name. A program is known by its bare name, as PATH finds it: whoever brings another one along
    /// does not get at keys by giving it that name.
    #[must_use]
    pub fn as_known(mut self, environment: &Environment) -> Self {
        let Some(preset) = self.argv.first().and_then(|program| known(program.to_str()?)) else { return self };
        let keys = preset.keys.iter().filter_map(|key| Some((key.into(), Some(environment.get_os(key)?.to_owned()))));
        self.env.extend(keys);
        self.env.extend(variables(&preset.env));
        self.bounded_env = variables(&preset.bounded_env);
        self.known = Some((preset, environment.clone()));
        self.billed = Some(Billed::without_gateway(preset, environment));
        self
    }

    /// The same, with what makes a named agent different from the others.
    #[must_use]
    pub fn with_profile(self, profile: Profile) -> Self {
        Self { profile, ..self }
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

    fn name(&self) -> String {
        let program = self.argv.first().map(Path::new).and_then(Path::file_name);
        program.map_or_else(|| "acp".into(), |name| name.to_string_lossy().into_owned())
    }

    /// What the agent is asked.
    fn prompt(&self, job: &Job) -> String {
        let prompt = format!("{}{}", job.prompt.trim_end(), epilogue(job, job.sandbox.as_deref()));
        if job.continues {
            return format!("{TASK_WAS_INTERRUPTED}\n\n{prompt}");
        }
        match self.profile.layers.is_empty() {
            true => prompt,
            false => format!("{}\n\n{prompt}", self.profile.told().trim()),
        }
    }

    fn ask(&self, job: &Job) -> Ask {
        Ask {
            prompt: self.prompt(job),
            cwd: job.cwd.clone(),
            resume: job.resume.as_ref().and_then(State::read).filter(|state| state.home == self.home()),
            model: job.model.clone().or_else(|| self.profile.model.clone()),
            mode: self.mode.clone(),
            policy: Policy {
                allows: job.tools,
                cwd: job.cwd.clone(),
                writable: vec![job.root.clone(), job.status_file.clone()],
            },
            home: self.home(),
            name: self.name(),
        }
    }

    /// Whose home it keeps its sessions in.
    fn home(&self) -> &'static str {
        if self.route.is_some() { "own" } else { "user" }
    }

    /// What it is told where something else holds it, unless the settings say what it may do.
    fn bounded(&self, job: &Job) -> &[String] {
        let preset = self.route.as_ref().map(|route| &route.preset).or(self.known.as_ref().map(|(preset, _)| *preset));
        match preset {
            Some(preset) if job.sandbox.is_some() && job.tools && self.mode.is_none() => {
                &preset.permissions.bounded_over_acp
            }
            _ => &[],
        }
    }

    /// The command that starts the agent.
    fn command(&self, mut job: Job, variables: Variables, arguments: Vec<String>, meter: Option<Meter>) -> Command {
        let signs = signs(&job.root, meter);
        job.env.extend(self.bounded_env.iter().filter(|_| job.sandbox.is_some()).cloned());
        job.env.extend(self.env.iter().cloned().chain(variables));
        let wall = job.timeout.into_iter().chain(self.timeout).min();
        let arguments = self.bounded(&job).iter().cloned().chain(arguments);
        let argv = self.argv.iter().cloned().chain(arguments.map(OsString::from));
        Command {
            env: job.env,
            limits: Limits { wall, idle: Some(self.idle), output: OUTPUT, ..Limits::default() },
            locks: job.locks,
            sandbox: job.sandbox,
            signs: Some(signs),
            ..Command::new(argv, job.cwd)
        }
    }

    async fn work(&self, mut job: Job, turns: &Turns, cancel: &Cancel) -> Result<Reply, AgentError> {
        if let Some(settled) = job.settled(cancel) {
            return settled;
        }
        if let Some(route) = &self.route {
            return self.drive(route, job, turns, cancel).await;
        }
        let mut variables = Variables::new();
        if let Some((preset, environment)) = &self.known {
            variables = preset.move_apart(environment, &job.home)?;
        }
        job.sandbox = job.sandbox.map(|bounds| {
            let open = self.known.as_ref().map(|(preset, environment)| preset.open_outside(environment));
            let writes = open.into_iter().flatten().chain([job.home.clone()]);
            // It speaks to its model by itself.
            Arc::new(bounds.with_network().with_write(writes))
        });
        let ask = self.ask(&job);
        let command = self.command(job, variables, Vec::new(), None);
        let talked =
            pipes::talk(&self.spawner, command, Client::new(ask), Told::Turns(turns, self.is_unbilled()), cancel).await;
        let (client, ended) = self.ended(talked, turns, cancel)?;
        self.conclude(client, ended, turns).await
    }

    /// How the agent ended, in any case.
    fn ended(&self, talked: Talked, turns: &Turns, cancel: &Cancel) -> Result<(Client, Ended), AgentError> {
        let Talked { client, ended, output } = talked;
        let output = output.map_err(|error| AgentError::of_spawn(&error))?;
        turns.said_beside(&output.stderr.to_text());
        let ended = match ended {
            _ if cancel.is_killed() => Ended::Failed(AgentError::Cancelled),
            Some(ended) => ended,
            None => Ended::Failed(self.gone(&client, &output)),
        };
        Ok((client, ended))
    }

    fn is_unbilled(&self) -> bool {
        self.billed.as_ref().is_some_and(Billed::is_subscription)
    }

    /// Reports the turn in flight, now that nothing of the agent runs any more, and says how it ended.
    async fn conclude(&self, mut client: Client, ended: Ended, turns: &Turns) -> Result<Reply, AgentError> {
        let verdict = match client.last_turn(ended.failed().as_deref()) {
            Some(turn) => turns.report(Turn { unbilled: self.is_unbilled(), ..turn }).await,
            None => Verdict::Go,
        };
        let text = client.words().to_owned();
        Ok(Reply::new(text, end(ended, verdict)?))
    }

    /// What to say of an agent that ended without an answer.
    fn gone(&self, client: &Client, output: &Output) -> AgentError {
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
            Exit::Code(_) | Exit::Signal(_) if client.is_asked() => AgentError::Transient(why(" before its answer")),
            Exit::Code(_) | Exit::Signal(_) => {
                AgentError::Terminal(why(" before it took a task; does it speak the Agent Client Protocol?"))
            }
        }
    }
}

fn variables(all: &BTreeMap<String, String>) -> Variables {
    all.iter().map(|(name, value)| (name.into(), Some(value.into()))).collect()
}

/// How an agent that ended is to be taken, after what was answered to its last turn.
fn end(ended: Ended, verdict: Verdict) -> Result<End, AgentError> {
    Ok(match ended {
        Ended::Failed(error) => return Err(error),
        Ended::Cancelled => End::Stopped,
        _ if verdict == Verdict::Stop => End::Stopped,
        Ended::Done => End::Done,
        Ended::Doubtful(why) => End::Doubtful(why),
        Ended::Limit(why) => End::Limit(why),
    })
}

/// What is known of a program, by its name: the agent itself, or what makes it speak the protocol. A program is known by
/// its bare name, as PATH finds it.
pub(super) fn known(program: &str) -> Option<&'static Preset> {
    let ends = ["-agent-acp", "-code-acp", "-acp"];
    Preset::of(ends.iter().find_map(|end| program.strip_suffix(end)).unwrap_or(program))
}

impl Agent for AcpAgent {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn can_continue(&self) -> bool {
        false
    }

    fn needs_network(&self) -> bool {
        self.route.is_none()
    }

    fn repeats_calls(&self) -> bool {
        self.route.is_some()
    }

    fn introduction(&self) -> Option<Introduction> {
        let billed = self.billed.clone()?;
        Some(Introduction {
            name: format!("acp:{}", self.name()),
            version: None,
            outdated: None,
            turns: None,
            billed,
            other: None,
        })
    }

    fn check_model(&self, asked: Option<&str>) -> Result<(), Unusable> {
        let Some(route) = &self.route else { return Ok(()) };
        let asked = asked.or(self.profile.model.as_deref());
        route.told(asked).map_or(Ok(()), |model| is_no_tier(&model, &route.preset.provider))
    }

    fn can_resume(&self, state: Option<&Value>, home: &Path) -> bool {
        let Some(state) = state else { return true };
        let is_own = State::read(state).is_some_and(|state| state.home == self.home());
        is_own && self.route.as_ref().is_none_or(|route| route.has_kept(home))
    }

    fn run<'a>(&'a self, job: Job, turns: &'a Turns, cancel: &'a Cancel) -> BoxFuture<'a, Result<Reply, AgentError>> {
        Box::pin(self.work(job, turns, cancel))
    }
}
