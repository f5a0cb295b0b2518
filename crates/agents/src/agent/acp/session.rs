//! The conversation with a running agent: its pipes, and how long it may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::client::{AcpAction, AcpClient, AcpEnd, AcpTask};
use super::lines::{LineSplitter, OutputLine, UNREAD};
use crate::agent::{AgentError, StateRef, Turn, TurnVerdict, Turns};
use os::deadline::{Deadline, reached, within};
use os::process::{Cancel, Canceller, CommandSpec, Output, OutputStream, SpawnError, Spawner};

/// How long an agent may take until it can be given its task.
const OPENING: Duration = Duration::from_secs(180);

/// How long an agent may take to answer that it has stopped.
const STOPPING: Duration = Duration::from_secs(10);

/// How long an agent may take to end after its input has.
const ENDING: Duration = Duration::from_secs(1);

/// Where inferred turns go, or only the resume state where the gateway sees the turns.
#[derive(Debug, Clone)]
pub(super) enum TurnSink<'a> {
    /// They are reported, with whether they are not billed by the token.
    Turns(&'a Turns, bool),
    /// The gateway sees them.
    State(StateRef),
}

/// How a conversation went.
pub(super) struct EndedSession {
    /// What was said.
    pub client: AcpClient,
    /// How it ended; none when the agent went by itself.
    pub ended: Option<AcpEnd>,
    /// What the program left.
    pub output: Result<Output, SpawnError>,
}

/// Starts the agent, talks with it until it is done or gone, and sees to it that it goes.
pub(super) async fn run(
    spawner: &Spawner,
    command: CommandSpec,
    task: AcpTask,
    sink: TurnSink<'_>,
    cancel: &Cancel,
) -> EndedSession {
    let (client, hello) = AcpClient::new(task);
    let (say, input) = unbounded_channel();
    let (heard, lines) = unbounded_channel();
    let (killer, door) = Cancel::new();
    let unread = Arc::new(AtomicUsize::new(0));
    let running = async {
        // Dropped with this block, so that the end of the lines is the end of the program.
        let mut splitter = LineSplitter::new(heard, Arc::clone(&unread));
        let mut on_output = |stream: OutputStream, bytes: &[u8]| {
            if stream == OutputStream::Stdout {
                splitter.push(bytes);
            }
        };
        spawner.talk(command, input, &door, &mut on_output).await
    };
    let session =
        AcpSession { client, say, lines, unread: Arc::clone(&unread), killer, sink, cancel, is_stopping: false };
    let (output, (client, ended)) = tokio::join!(running, session.run(hello));
    EndedSession { client, ended, output }
}

/// The conversation with a running agent.
struct AcpSession<'a> {
    client: AcpClient,
    say: UnboundedSender<Vec<u8>>,
    lines: UnboundedReceiver<OutputLine>,
    unread: Arc<AtomicUsize>,
    killer: Canceller,
    sink: TurnSink<'a>,
    cancel: &'a Cancel,
    is_stopping: bool,
}

impl AcpSession<'_> {
    /// Talks until the agent is done or gone, and sees to it that it goes. Without an end it went by itself.
    async fn run(mut self, hello: Vec<u8>) -> (AcpClient, Option<AcpEnd>) {
        self.send(hello);
        let mut deadline = Some(Deadline::after(OPENING));
        let ended = loop {
            let line = tokio::select! {
                biased;
                () = self.cancel.killed() => {
                    self.cancel_prompt();
                    self.killer.kill();
                    break None;
                }
                () = self.cancel.stopped(), if !self.is_stopping => {
                    self.is_stopping = true;
                    if !self.client.has_prompted() {
                        // Nothing has begun, so nothing has to finish.
                        break Some(AcpEnd::Cancelled);
                    }
                    continue;
                }
                () = reached(deadline) => break Some(self.too_slow()),
                line = self.lines.recv() => line,
            };
            let line = match line {
                None => break None,
                Some(OutputLine::TooMuch) => {
                    break Some(AcpEnd::Failed(AgentError::Terminal(format!(
                        "the agent writes faster than pleach can read, or a line of more than {} MiB",
                        UNREAD >> 20
                    ))));
                }
                Some(OutputLine::Text(line)) => line,
            };
            self.unread.fetch_sub(line.len(), Ordering::Relaxed);
            let had_prompted = self.client.has_prompted();
            if let Some(ended) = self.take(&line).await {
                break Some(ended);
            }
            if !had_prompted && self.client.has_prompted() {
                deadline = None;
                if let (TurnSink::State(known), Some(state)) = (&self.sink, self.client.state()) {
                    known.set(state);
                }
            }
            if self.client.is_cancelled() {
                deadline = deadline.or(Some(Deadline::after(STOPPING)));
            }
        };
        let Self { client, say, lines, killer, .. } = self;
        // The end of its input tells the agent to go. Not all of them listen.
        drop(say);
        if within(ENDING, drained(lines)).await.is_none() {
            killer.kill();
        }
        (client, ended)
    }

    /// Takes in a line and does what follows from it.
    async fn take(&mut self, line: &str) -> Option<AcpEnd> {
        for act in self.client.receive(line) {
            match act {
                AcpAction::Say(said) => self.send(said),
                AcpAction::End(ended) => return Some(ended),
                AcpAction::Turn(turn) => {
                    let TurnSink::Turns(turns, unbilled) = self.sink else { continue };
                    let verdict = turns.report(Turn { unbilled, ..*turn }).await;
                    if verdict == TurnVerdict::Stop || self.is_stopping {
                        self.cancel_prompt();
                    }
                }
            }
        }
        None
    }

    fn send(&self, said: Vec<u8>) {
        // An agent that has ended reads nothing; its end is noticed elsewhere.
        let _ = self.say.send(said);
    }

    fn cancel_prompt(&mut self) {
        if let Some(said) = self.client.cancel() {
            self.send(said);
        }
    }

    fn too_slow(&self) -> AcpEnd {
        if self.client.has_prompted() {
            // It was asked to stop and did not; it is made to.
            AcpEnd::Cancelled
        } else {
            AcpEnd::Failed(AgentError::TimedOut(format!(
                "the agent was not ready for its task after {} s; does it speak the Agent Client Protocol?",
                OPENING.as_secs()
            )))
        }
    }
}

/// Waits for the end of a program.
async fn drained(mut lines: UnboundedReceiver<OutputLine>) {
    while lines.recv().await.is_some() {}
}
