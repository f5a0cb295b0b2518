//! The conversation with a running agent: its pipes, and how long it may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until, timeout};

use super::client::{Act, Client, Ended};
use super::lines::{Line, Lines, UNREAD};
use crate::agent::{AgentError, StateRef, Turn, Turns, Verdict};
use crate::process::{Cancel, Canceller, Command, Output, SpawnError, Spawner, Stream};

/// How long an agent may take until it can be given its task.
const OPENING: Duration = Duration::from_secs(180);

/// How long an agent may take to answer that it has stopped.
const STOPPING: Duration = Duration::from_secs(10);

/// How long an agent may take to end after its input has.
const ENDING: Duration = Duration::from_secs(1);

/// Where turns go that are inferred, or what is needed to go on where others see them.
#[derive(Debug, Clone)]
pub(super) enum Told<'a> {
    /// They are reported, with whether nobody is billed for them by the token.
    Turns(&'a Turns, bool),
    /// The gateway sees them.
    State(StateRef),
}

/// How a conversation went.
pub(super) struct Talked {
    /// What was said.
    pub client: Client,
    /// How it ended; none when the agent went by itself.
    pub ended: Option<Ended>,
    /// What the program left.
    pub output: Result<Output, SpawnError>,
}

/// Starts the agent, talks with it until it is done or gone, and sees to it that it goes.
pub(super) async fn talk(
    spawner: &Spawner,
    command: Command,
    (client, hello): (Client, Vec<u8>),
    told: Told<'_>,
    cancel: &Cancel,
) -> Talked {
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
        spawner.talk(command, input, &door, &mut on_output).await
    };
    let talk = Talk { client, say, lines, unread: Arc::clone(&unread), killer, told, cancel, is_stopping: false };
    let (output, (client, ended)) = tokio::join!(running, talk.run(hello));
    Talked { client, ended, output }
}

/// The conversation with a running agent.
struct Talk<'a> {
    client: Client,
    say: UnboundedSender<Vec<u8>>,
    lines: UnboundedReceiver<Line>,
    unread: Arc<AtomicUsize>,
    killer: Canceller,
    told: Told<'a>,
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
                    self.cancel();
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
                        "the agent writes faster than pleach can read, or a line of more than {} MiB",
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
                if let (Told::State(known), Some(state)) = (&self.told, self.client.state()) {
                    known.set(state);
                }
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
                    let Told::Turns(turns, unbilled) = self.told else { continue };
                    let verdict = turns.report(Turn { unbilled, ..*turn }).await;
                    if verdict == Verdict::Stop || self.is_stopping {
                        self.cancel();
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

    fn cancel(&mut self) {
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
