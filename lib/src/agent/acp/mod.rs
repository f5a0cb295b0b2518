//! Agents that speak the Agent Client Protocol: JSON-RPC over their standard streams. One prompt is one run; where its
//! turns begin and end is inferred from what the agent tells meanwhile.
//!
//! [`client`] decides what to say, [`gather`] makes turns of what is heard, [`policy`] answers questions for permission;
//! this file has the pipes and the clock.

mod client;
mod gather;
mod lines;
mod policy;
mod rpc;
mod schema;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until, timeout};

use self::client::{Act, Ask, Client, Ended};
use self::lines::{Line, Lines, UNREAD};
use self::policy::Policy;
use self::state::State;
use super::cli::{Billed, Preset, epilogue};
use super::{Agent, AgentError, BoxFuture, End, Introduction, Job, Profile, Reply, Turns, Verdict};
use crate::config::{AgentSettings, Environment};
use crate::process::{Cancel, Canceller, Command, Exit, Limits, Output, SpawnError, Spawner, Stream};
use crate::text::{shorten, tail};

/// The kind of agent, as records have it.
const KIND: &str = "acp";

/// What an agent is told that goes on with a task.
const INTERRUPTED: &str = "Your work on the task below was interrupted. The working copy holds what has been done so far; \
                           go on until the task is done.";

/// How long an agent may take until it can be given its task.
const OPENING: Duration = Duration::from_secs(180);

/// How long an agent may be silent, where the settings do not say. A model may think for long.
const IDLE: Duration = Duration::from_secs(1800);

/// How long an agent may take to answer that it has stopped.
const STOPPING: Duration = Duration::from_secs(10);

/// How long an agent may take to end after its input has.
const ENDING: Duration = Duration::from_secs(1);

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
    env: Vec<(OsString, Option<OsString>)>,
    mode: Option<String>,
    timeout: Option<Duration>,
    idle: Duration,
    /// What it writes outside its working copy.
    keeps: Vec<PathBuf>,
    /// Variables it gets only in a sandbox.
    bounded_env: Vec<(OsString, Option<OsString>)>,
    /// Who is billed, where that is known.
    billed: Option<Billed>,
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
            keeps: Vec::new(),
            bounded_env: Vec::new(),
            billed: None,
        }
    }

    /// The same for a program of an agent that is known: it gets its own key and may write its own files, as it does when
    /// it is run by its name. A program is known by its bare name, as PATH finds it: whoever brings another one along
    /// does not get at keys by giving it that name.
    #[must_use]
    pub fn as_known(mut self, environment: &Environment) -> Self {
        let Some(preset) = self.argv.first().and_then(|program| known(program.to_str()?)) else { return self };
        let keys = preset.keys.iter().filter_map(|key| Some((key.into(), Some(environment.get_os(key)?.to_owned()))));
        self.env.extend(keys);
        let variables = |all: &BTreeMap<String, String>| -> Vec<(OsString, Option<OsString>)> {
            all.iter().map(|(name, value)| (name.into(), Some(value.into()))).collect()
        };
        self.env.extend(variables(&preset.env));
        self.bounded_env = variables(&preset.bounded_env);
        self.keeps = [preset.kept_in(environment), preset.logins_in(environment)].concat();
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
        let variables = settings.env.iter().map(|(name, value)| (name.into(), Some(value.into())));
        self.env.extend(variables);
        self.argv.extend(settings.args.iter().map(OsString::from));
        self.mode = settings.permission_mode.clone().or(self.mode);
        self.timeout = settings.timeout.map(Duration::from_secs).or(self.timeout);
        self.idle = settings.idle_timeout.map_or(self.idle, Duration::from_secs);
        self
    }

    fn name(&self) -> String {
        let program = self.argv.first().map(Path::new).and_then(Path::file_name);
        program.map_or_else(|| "acp".into(), |name| name.to_string_lossy().into_owned())
    }

    fn ask(&self, job: &Job) -> Ask {
        let mut prompt = format!("{}{}", job.prompt.trim_end(), epilogue(job, job.sandbox.as_deref()));
        if job.continues {
            prompt = format!("{INTERRUPTED}\n\n{prompt}");
        } else if !self.profile.layers.is_empty() {
            prompt = format!("{}\n\n{prompt}", self.profile.told().trim());
        }
        Ask {
            prompt,
            cwd: job.cwd.clone(),
            resume: job.resume.as_ref().and_then(State::read),
            model: job.model.clone().or_else(|| self.profile.model.clone()),
            mode: self.mode.clone(),
            policy: Policy {
                allows: job.tools,
                cwd: job.cwd.clone(),
                writable: vec![job.root.clone(), job.status_file.clone()],
            },
            name: self.name(),
        }
    }

    async fn work(&self, mut job: Job, turns: &Turns, cancel: &Cancel) -> Result<Reply, AgentError> {
        if let Some(settled) = job.settled(cancel) {
            return settled;
        }
        if job.sandbox.is_some() {
            // What is not there cannot be opened to it. The files among them it makes beside the directories.
            let missing = self.keeps.iter().filter(|kept| kept.extension().is_none() && !kept.exists());
            missing.for_each(|kept| drop(std::fs::create_dir_all(kept)));
        }
        // It speaks to its model by itself.
        job.sandbox = job.sandbox.map(|bounds| Arc::new(bounds.with_network().with_write(self.keeps.iter().cloned())));
        let (client, hello) = Client::new(self.ask(&job));
        job.env.extend(self.bounded_env.iter().filter(|_| job.sandbox.is_some()).cloned());
        job.env.extend(self.env.iter().cloned());
        let wall = job.timeout.into_iter().chain(self.timeout).min();
        let command = Command {
            env: job.env,
            limits: Limits { wall, idle: Some(self.idle), output: OUTPUT, ..Limits::default() },
            lock: job.lock,
            sandbox: job.sandbox,
            ..Command::new(self.argv.iter().cloned(), job.cwd)
        };
        let (say, input) = unbounded_channel();
        let (heard, lines) = unbounded_channel();
        let (killer, door) = Cancel::new();
        let unread = Arc::new(AtomicUsize::new(0));
        let running = async {
            // Dropped with this block, so that the end of the lines is the end of the program.
            let mut splitter = Lines::new(heard, Arc::clone(&unread));
            let mut on_output = |stream: Stream, bytes: &[u8]| {
                if stream == Stream::Stdout {
                    splitter.push(bytes);
                }
            };
            self.spawner.talk(command, input, &door, &mut on_output).await
        };
        let talk = Talk { client, say, lines, unread: Arc::clone(&unread), killer, turns, cancel, is_stopping: false };
        let (output, (client, ended)) = tokio::join!(running, talk.run(hello));
        self.conclude(client, ended, output, turns, cancel).await
    }

    /// Reports the turn in flight, now that nothing of the agent runs any more, and says how it ended.
    async fn conclude(
        &self,
        mut client: Client,
        ended: Option<Ended>,
        output: Result<Output, SpawnError>,
        turns: &Turns,
        cancel: &Cancel,
    ) -> Result<Reply, AgentError> {
        let output = output.map_err(|error| AgentError::Terminal(format!("the agent did not run: {error}")))?;
        let ended = match ended {
            _ if cancel.is_killed() => Ended::Failed(AgentError::Cancelled),
            Some(ended) => ended,
            None => Ended::Failed(self.gone(&client, &output)),
        };
        let failed = match &ended {
            Ended::Done | Ended::Limit(_) => None,
            Ended::Cancelled => Some("stopped".to_owned()),
            Ended::Failed(error) => Some(error.to_string()),
        };
        let verdict = match client.last_turn(failed.as_deref()) {
            Some(turn) => turns.report(turn).await,
            None => Verdict::Go,
        };
        let end = match ended {
            Ended::Failed(error) => return Err(error),
            Ended::Cancelled => End::Stopped,
            _ if verdict == Verdict::Stop => End::Stopped,
            Ended::Done => End::Done,
            Ended::Limit(why) => End::Limit(why),
        };
        Ok(Reply { text: client.words().to_owned(), end })
    }

    /// What to say of an agent that ended without an answer.
    fn gone(&self, client: &Client, output: &Output) -> AgentError {
        let stderr = output.stderr.to_text();
        let said = match tail(stderr.trim(), COMPLAINT) {
            "" => client.noise.as_deref().map(|noise| shorten(noise, COMPLAINT)).unwrap_or_default(),
            said => said.to_owned(),
        };
        let colon = if said.is_empty() { "" } else { ": " };
        let program = self.argv.first().map(|program| program.to_string_lossy()).unwrap_or_default();
        let why = |when: &str| format!("the agent `{program}` ended with {}{when}{colon}{said}", output.exit);
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

/// What is known of a program, by its name: the agent itself, or what makes it speak the protocol.
fn known(program: &str) -> Option<&'static Preset> {
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
        true
    }

    fn introduction(&self) -> Option<Introduction> {
        let billed = self.billed.clone()?;
        Some(Introduction { name: format!("acp:{}", self.name()), version: None, turns: None, billed })
    }

    fn can_resume(&self, state: Option<&Value>, _home: &Path) -> bool {
        state.is_none_or(|state| State::read(state).is_some())
    }

    fn run<'a>(&'a self, job: Job, turns: &'a Turns, cancel: &'a Cancel) -> BoxFuture<'a, Result<Reply, AgentError>> {
        Box::pin(self.work(job, turns, cancel))
    }
}

/// The conversation with a running agent.
struct Talk<'a> {
    client: Client,
    say: UnboundedSender<Vec<u8>>,
    lines: UnboundedReceiver<Line>,
    unread: Arc<AtomicUsize>,
    killer: Canceller,
    turns: &'a Turns,
    cancel: &'a Cancel,
    is_stopping: bool,
}

impl Talk<'_> {
    /// Talks until the agent is done or gone, and sees to it that it goes. Without an end it went by itself.
    async fn run(mut self, hello: Vec<u8>) -> (Client, Option<Ended>) {
        self.tell(hello);
        let mut deadline = Some(Instant::now() + OPENING);
        let ended = loop {
            let line = tokio::select! {
                biased;
                () = self.cancel.killed() => {
                    self.call_off();
                    self.killer.kill();
                    break None;
                }
                () = self.cancel.stopped(), if !self.is_stopping => {
                    self.is_stopping = true;
                    if !self.client.is_asked() {
                        // Nothing has begun, so nothing has to finish.
                        break Some(Ended::Cancelled);
                    }
                    continue;
                }
                () = until(deadline) => break Some(self.too_slow()),
                line = self.lines.recv() => line,
            };
            let line = match line {
                None => break None,
                Some(Line::TooMuch) => {
                    break Some(Ended::Failed(AgentError::Terminal(format!(
                        "the agent writes faster than it can be followed, or a line of more than {} MiB",
                        UNREAD >> 20
                    ))));
                }
                Some(Line::Text(line)) => line,
            };
            self.unread.fetch_sub(line.len(), Ordering::Relaxed);
            let was_asked = self.client.is_asked();
            if let Some(ended) = self.take(&line).await {
                break Some(ended);
            }
            if !was_asked && self.client.is_asked() {
                deadline = None;
            }
            if self.client.is_cancelled() {
                deadline = deadline.or(Some(Instant::now() + STOPPING));
            }
        };
        let Self { client, say, lines, killer, .. } = self;
        // The end of its input tells the agent to go. Not all of them listen.
        drop(say);
        if timeout(ENDING, gone(lines)).await.is_err() {
            killer.kill();
        }
        (client, ended)
    }

    /// Takes in a line and does what follows from it.
    async fn take(&mut self, line: &str) -> Option<Ended> {
        for act in self.client.hear(line) {
            match act {
                Act::Say(said) => self.tell(said),
                Act::End(ended) => return Some(ended),
                Act::Turn(turn) => {
                    let verdict = self.turns.report(*turn).await;
                    if verdict == Verdict::Stop || self.is_stopping {
                        self.call_off();
                    }
                }
            }
        }
        None
    }

    fn tell(&self, said: Vec<u8>) {
        // An agent that is gone hears nothing; its end is noticed elsewhere.
        let _ = self.say.send(said);
    }

    fn call_off(&mut self) {
        if let Some(said) = self.client.cancel() {
            self.tell(said);
        }
    }

    fn too_slow(&self) -> Ended {
        match self.client.is_asked() {
            // It was asked to stop and did not; it is made to.
            true => Ended::Cancelled,
            false => Ended::Failed(AgentError::TimedOut(format!(
                "the agent was not ready for its task after {} s; does it speak the Agent Client Protocol?",
                OPENING.as_secs()
            ))),
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Waits for the end of a program.
async fn gone(mut lines: UnboundedReceiver<Line>) {
    while lines.recv().await.is_some() {}
}
