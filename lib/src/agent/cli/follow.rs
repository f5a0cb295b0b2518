//! A program while it works: what it says is taken in, its turns are reported, and it is ended when it must.

use std::time::Duration;

use tokio::sync::mpsc;

use super::gather::Gathered;
use super::hooks::{Listener, Waiting};
use super::parser::{Heard, Reader};
use super::{CliAgent, Ran};
use crate::agent::{AgentError, Job, Turns, Verdict};
use crate::config::TurnMode;
use crate::process::{Cancel, Canceller, CommandSpec, OutputStream};

/// How long the stream may lag behind a hook that tells of the same tools.
const LAG: Duration = Duration::from_secs(5);

/// One run of the program while it goes on.
pub(super) struct Following<'a> {
    pub agent: &'a CliAgent,
    pub job: &'a Job,
    pub listener: Option<Listener>,
    pub gathered: Gathered,
    pub turns: &'a Turns,
    pub stopped: bool,
}

impl Following<'_> {
    /// Follows the program to its end.
    pub(super) async fn follow(
        mut self,
        command: CommandSpec,
        mut reader: Reader,
        cancel: &Cancel,
    ) -> Result<Ran, AgentError> {
        let (sender, mut heard) = mpsc::unbounded_channel();
        let (canceller, own) = Cancel::new();
        let output = {
            let mut on_output = |stream: OutputStream, bytes: &[u8]| {
                if stream == OutputStream::Stdout {
                    // The other end is in this function.
                    reader.feed(bytes).into_iter().for_each(|heard| drop(sender.send(heard)));
                }
            };
            let agent = self.agent;
            let running = agent.spawner.run(command, &own, &mut on_output);
            tokio::pin!(running);
            let mut killed = false;
            loop {
                tokio::select! {
                    biased;
                    Some(next) = heard.recv() => self.hear(next, &canceller).await,
                    () = cancel.killed(), if !killed => {
                        killed = true;
                        canceller.kill();
                    }
                    waiting = next_hook(self.listener.as_mut()) => {
                        // What the stream says of these tools belongs to the turn, so it is read first.
                        let mut lag = Box::pin(tokio::time::sleep(LAG));
                        let tools = waiting.tools();
                        let mut ended = None;
                        while waiting.is_of_agent() && !self.gathered.knows(&tools) && ended.is_none() {
                            tokio::select! {
                                biased;
                                Some(next) = heard.recv() => self.gathered.hear(next),
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
        while let Ok(next) = heard.try_recv() {
            self.hear(next, &canceller).await;
        }
        for next in reader.finish() {
            self.gathered.hear(next);
        }
        let (gathered, stopped) = (self.gathered, self.stopped);
        Ok(Ran { output, gathered, stopped, undone: None, given_up: None, unanswered: None })
    }

    async fn hear(&mut self, heard: Heard, canceller: &Canceller) {
        self.gathered.hear(heard);
        if self.agent.turns == TurnMode::Stream && self.gathered.has_turn() {
            self.report(canceller).await;
        }
    }

    async fn hook(&mut self, waiting: Waiting, canceller: &Canceller) {
        // The last words of an agent wait for its end; tools nobody told of are a turn of their own.
        let is_turn = !waiting.is_end() || self.gathered.has_turn();
        if !waiting.is_of_agent() || !is_turn {
            return waiting.answer(true).await;
        }
        let verdict = self.report(canceller).await;
        waiting.answer(verdict == Verdict::Go).await;
    }

    /// Reports a turn that is over. On a stop the program is ended: what it does from here on is nobody's wish.
    async fn report(&mut self, canceller: &Canceller) -> Verdict {
        let Self { agent, job, .. } = self;
        let turn = self.gathered.turn(|model, usage| agent.price(job, model, usage));
        let turn = self.agent.told(self.job, turn, &self.gathered);
        let verdict = self.turns.report(turn).await;
        if verdict == Verdict::Stop {
            self.stopped = true;
            canceller.kill();
        }
        verdict
    }
}

/// The next hook that waits, where hooks are listened to.
async fn next_hook(listener: Option<&mut Listener>) -> Waiting {
    match listener {
        Some(listener) => listener.next().await,
        None => std::future::pending().await,
    }
}
