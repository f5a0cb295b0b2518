//! Follows a program while it works: reads its stream, reports its turns, and ends it on a stop.

use std::time::Duration;

use tokio::sync::mpsc;

use super::agent::CliAgent;
use super::hooks::{HookListener, WaitingHook};
use super::outcome::ProgramRun;
use super::parser::{StreamEvent, StreamReader};
use super::transcript::Transcript;
use crate::agent::{AgentError, Job, TurnVerdict, Turns};
use os::process::{Cancel, Canceller, CommandSpec, OutputStream};
use pleach_core::config::TurnMode;

/// How long the stream may lag behind a hook that tells of the same tools.
const LAG: Duration = Duration::from_secs(5);

/// A run of the program.
pub(super) struct StreamFollower<'a> {
    pub agent: &'a CliAgent,
    pub job: &'a Job,
    pub listener: Option<HookListener>,
    pub transcript: Transcript,
    pub turns: &'a Turns,
    pub stopped: bool,
}

impl StreamFollower<'_> {
    /// Follows the program to its end.
    pub(super) async fn follow(
        mut self,
        command: CommandSpec,
        mut reader: StreamReader,
        cancel: &Cancel,
    ) -> Result<ProgramRun, AgentError> {
        let (sender, mut events) = mpsc::unbounded_channel();
        let (canceller, own) = Cancel::new();
        let output = {
            let mut on_output = |stream: OutputStream, bytes: &[u8]| {
                if stream == OutputStream::Stdout {
                    // The other end is in this function.
                    reader.feed(bytes).into_iter().for_each(|event| drop(sender.send(event)));
                }
            };
            let agent = self.agent;
            let running = agent.spawner.run(command, &own, &mut on_output);
            tokio::pin!(running);
            let mut killed = false;
            loop {
                tokio::select! {
                    biased;
                    Some(next) = events.recv() => self.take(next, &canceller).await,
                    () = cancel.killed(), if !killed => {
                        killed = true;
                        canceller.kill();
                    }
                    waiting = next_hook(self.listener.as_mut()) => {
                        // What the stream says of these tools belongs to the turn, so it is read first.
                        let mut lag = Box::pin(tokio::time::sleep(LAG));
                        let tools = waiting.tools();
                        let mut ended = None;
                        while waiting.is_of_agent() && !self.transcript.knows(&tools) && ended.is_none() {
                            tokio::select! {
                                biased;
                                Some(next) = events.recv() => self.transcript.push(next),
                                () = &mut lag => break,
                                output = &mut running => ended = Some(output),
                            }
                        }
                        self.hook(waiting, &canceller).await;
                        if let Some(output) = ended {
                            break output;
                        }
                    }
                    output = &mut running => break output,
                }
            }
        };
        let output = output.map_err(|error| AgentError::of_spawn(&error))?;
        while let Ok(next) = events.try_recv() {
            self.take(next, &canceller).await;
        }
        for next in reader.finish() {
            self.transcript.push(next);
        }
        let (transcript, stopped) = (self.transcript, self.stopped);
        Ok(ProgramRun { output, transcript, stopped, undone: None, given_up: None, unanswered: None })
    }

    async fn take(&mut self, event: StreamEvent, canceller: &Canceller) {
        self.transcript.push(event);
        if self.agent.turns == TurnMode::Stream && self.transcript.has_turn() {
            self.report(canceller).await;
        }
    }

    async fn hook(&mut self, waiting: WaitingHook, canceller: &Canceller) {
        // The last words of an agent wait for its end; tools missing from the stream are a turn of their own.
        let is_turn = !waiting.is_end() || self.transcript.has_turn();
        if !waiting.is_of_agent() || !is_turn {
            return waiting.answer(true).await;
        }
        let verdict = self.report(canceller).await;
        waiting.answer(verdict == TurnVerdict::Go).await;
    }

    /// Reports a turn that is over. On a stop the program is ended: its further work is not wanted.
    async fn report(&mut self, canceller: &Canceller) -> TurnVerdict {
        let Self { agent, job, .. } = self;
        let turn = self.transcript.turn(|model, usage| agent.price(job, model, usage));
        let turn = self.agent.with_common_fields(self.job, turn, &self.transcript);
        let verdict = self.turns.report(turn).await;
        if verdict == TurnVerdict::Stop {
            self.stopped = true;
            canceller.kill();
        }
        verdict
    }
}

/// The next hook that waits, where hooks are listened to.
async fn next_hook(listener: Option<&mut HookListener>) -> WaitingHook {
    match listener {
        Some(listener) => listener.next().await,
        None => std::future::pending().await,
    }
}
