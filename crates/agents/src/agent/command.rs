//! Any program as an agent: it reads the task, does its work and says what it did. One run of it is one turn.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use super::intent::intent_of;
use super::liveness::{IDLE, signs_of_life};
use super::tool_commands::Launchers;
use super::{Agent, AgentError, AgentReply, BoxFuture, ConfiguredTools, End, Job, Turn, TurnVerdict, Turns};
use crate::llm::Message;
use os::process::{Cancel, CommandLimits, CommandSpec, Exit, Output, Spawner, Stdin};
use pleach_core::text::last_words;

/// How much of what a program says is kept.
const OUTPUT: usize = 1 << 20;

/// How much of a failed program's complaint goes into the message.
const COMPLAINT: usize = 2_000;

/// The exit code by which a program says that it may work another time (`EX_TEMPFAIL`).
const TRY_AGAIN: i32 = 75;

/// An agent that is a program: the task on its standard input, its answer on standard output.
#[derive(Debug, Clone)]
pub struct CommandAgent {
    argv: Vec<OsString>,
    spawner: Spawner,
    /// The network stays as the node has it, instead of being open.
    is_closed: bool,
    /// Commands of the configuration that it finds on its PATH.
    tools: ConfiguredTools,
}

impl CommandAgent {
    /// The program and its arguments.
    pub fn new<A: Into<OsString>>(argv: impl IntoIterator<Item = A>, spawner: Spawner) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            spawner,
            is_closed: false,
            tools: ConfiguredTools::default(),
        }
    }

    /// The same without a network of its own: what it does, it does with what is there.
    pub fn closed(self, is_closed: bool) -> Self {
        Self { is_closed, ..self }
    }

    /// The same with commands of the configuration on its PATH.
    pub fn with_tools(self, tools: ConfiguredTools) -> Self {
        Self { tools, ..self }
    }

    /// The program's file name, which stands where other agents name a model.
    fn model(&self) -> String {
        let program = self.argv.first().map(Path::new).and_then(Path::file_name);
        program.map_or_else(|| "command".into(), |name| name.to_string_lossy().into_owned())
    }

    async fn turn(&self, mut job: Job, turns: &Turns, cancel: &Cancel) -> Result<AgentReply, AgentError> {
        if let Some(early_reply) = job.early_reply(cancel) {
            return early_reply;
        }
        if !self.is_closed {
            // Whom it asks is its own affair: it cannot be given a way to its model through pleach.
            job.sandbox = job.sandbox.map(|sandbox| Arc::new(sandbox.with_network()));
        }
        let mut prompt = job.prompt_in_bounds();
        if let Some(launchers) = Launchers::install(&self.tools, &job, &[])? {
            prompt = format!("{}\n\n{}", prompt.trim_end(), launchers.describe());
            launchers.add_to_path(&mut job.env, self.spawner.inherited("PATH"));
        }
        let command = CommandSpec {
            stdin: Stdin::Bytes(prompt.into_bytes()),
            env: job.env,
            limits: CommandLimits { wall: job.timeout, idle: Some(IDLE), output: OUTPUT, ..CommandLimits::default() },
            signs: Some(signs_of_life(&job.root, None)),
            locks: job.locks,
            sandbox: job.sandbox,
            ..CommandSpec::new(self.argv.iter().cloned(), job.cwd)
        };
        let output = self.spawner.run(command, cancel, &mut |_, _| {}).await;
        let output = output.map_err(|error| AgentError::of_spawn(&error))?;
        turns.push_stderr(&output.stderr.to_text());
        let checked = self.check(&output);
        if checked == Err(AgentError::Cancelled) {
            return Err(AgentError::Cancelled);
        }
        let text = output.stdout.to_text().trim().to_owned();
        let mut answer = Message::assistant(&text);
        if let Err(error) = &checked {
            answer.mark_failed(&error.to_string());
        }
        let turn = Turn {
            intent: intent_of(&text, &[]),
            messages: vec![Message::user(job.prompt), answer],
            model: self.model(),
            provider: "local".into(),
            exact: true,
            is_last: true,
            ..Turn::default()
        };
        let verdict = turns.report(turn).await;
        checked?;
        let end = match verdict {
            TurnVerdict::Go => End::Done,
            TurnVerdict::Stop => End::Stopped,
        };
        Ok(AgentReply::new(text, end))
    }

    fn check(&self, output: &Output) -> Result<(), AgentError> {
        let complaint = || {
            let said = output.stderr.to_text();
            let said = last_words(said.trim(), COMPLAINT);
            let program = self.argv.first().map(|program| program.to_string_lossy()).unwrap_or_default();
            let colon = if said.is_empty() { "" } else { ": " };
            format!("agent `{program}` {}{colon}{said}", output.exit.sentence())
        };
        match output.exit {
            Exit::Code(0) => Ok(()),
            // Whoever is killed has not given up.
            Exit::Code(TRY_AGAIN) | Exit::Signal(_) => Err(AgentError::Transient(complaint())),
            Exit::Code(_) => Err(AgentError::Terminal(complaint())),
            Exit::TimedOut(_) => Err(AgentError::TimedOut(complaint())),
            Exit::Cancelled => Err(AgentError::Cancelled),
        }
    }
}

impl Agent for CommandAgent {
    fn kind(&self) -> &'static str {
        "command"
    }

    fn can_continue(&self) -> bool {
        false
    }

    fn needs_network(&self) -> bool {
        !self.is_closed
    }

    /// It says what it did, and nothing about money.
    fn tells_spending(&self) -> bool {
        false
    }

    fn run<'a>(
        &'a self,
        job: Job,
        turns: &'a Turns,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<AgentReply, AgentError>> {
        Box::pin(self.turn(job, turns, cancel))
    }
}
