//! Agents: who does the work of a node. All of them take a [`Job`] and report the turns they take; what they changed
//! is found and kept by others.

mod acp;
mod bounds;
pub mod builtin;
pub mod cli;
mod command;
mod commit_message;
mod driven;
mod imperative;
mod intent;
mod profile;
mod roster;
mod scribe;
mod signs;
mod simulated;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::budget::{Allowance, Amount};
use crate::event::{SideCall, ToolCall, Usage, Warning};
use crate::gateway::Meter;
use crate::ids::NodeId;
use crate::llm::{Message, Pricing, Unusable};
use crate::process::{Cancel, Sandbox, SpawnError};

pub use acp::AcpAgent;
pub use builtin::Builtin;
pub use cli::{CliAgent, Introduction, Preset, Versions, find_program, hook_main};
pub use command::CommandAgent;
pub use commit_message::{command_message, commit_message};
pub use driven::{Driven, Seen, StateRef};
pub use profile::{LayerError, Profile};
pub use roster::{NoAgent, Roster};
pub use scribe::{Scribe, Subject, Written};
pub use simulated::Simulated;

/// A future behind a pointer, so that [`Agent`] can be one.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One node's task for an agent.
#[derive(Debug, Clone)]
pub struct Job {
    /// The node.
    pub node: NodeId,
    /// How often the run has come to the node, from 1.
    pub visit: u32,
    /// The attempt within the visit, from 1.
    pub attempt: u32,
    /// The task in words.
    pub prompt: String,
    /// The root of the working copy, which file tools cannot leave.
    pub root: PathBuf,
    /// Where the agent works: the root, or a directory in it.
    pub cwd: PathBuf,
    /// The model, if the pipeline names one.
    pub model: Option<String>,
    /// The provider, if the pipeline names one.
    pub provider: Option<String>,
    /// How hard the model should think.
    pub effort: Option<String>,
    /// Whether the agent may use tools.
    pub tools: bool,
    /// The conversation so far.
    pub history: Vec<Message>,
    /// The history already holds this task: the job was interrupted and goes on.
    pub continues: bool,
    /// The history ends with the answer to this task: nothing is left to do.
    pub answered: bool,
    /// Variables to set or remove for whatever the agent starts.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// How long the whole job may take.
    pub timeout: Option<Duration>,
    /// Where the agent may leave its outcome.
    pub status_file: PathBuf,
    /// A directory outside the root whose files it may read: what earlier nodes answered and printed.
    pub reads: Option<PathBuf>,
    /// The locks of its worktrees, held as long as anything the agent started lives.
    pub locks: Vec<Arc<File>>,
    /// What the agent, and whatever it starts, may touch; everything if not given. An agent that reaches its model
    /// through pleach takes [`Sandbox::through`], one that speaks to it by itself [`Sandbox::with_network`].
    pub sandbox: Option<Arc<Sandbox>>,
    /// Remarks for the agent while it works.
    pub steering: Steering,
    /// A directory of this session's agents, outside every repository. It need not exist; whoever needs it makes it. It
    /// stays until the session is removed.
    pub home: PathBuf,
    /// What the agent said it needs to go on with this conversation: the newest [`Turn::state_ref`] of it.
    pub resume: Option<Value>,
    /// What was said before the job was interrupted, when it starts over: an agent behind a gateway is answered from it
    /// again, as far as it goes.
    pub recorded: Vec<Message>,
}

impl Job {
    /// A first visit's task in the working copy `root`, with tools and without a past.
    pub fn new(
        node: NodeId,
        prompt: impl Into<String>,
        root: impl Into<PathBuf>,
        status_file: impl Into<PathBuf>,
    ) -> Self {
        let (root, status_file) = (root.into(), status_file.into());
        Self {
            node,
            visit: 1,
            attempt: 1,
            prompt: prompt.into(),
            cwd: root.clone(),
            root,
            model: None,
            provider: None,
            effort: None,
            tools: true,
            history: Vec::new(),
            continues: false,
            answered: false,
            env: Vec::new(),
            timeout: None,
            home: status_file.with_file_name("home"),
            status_file,
            reads: None,
            locks: Vec::new(),
            sandbox: None,
            steering: Steering::default(),
            resume: None,
            recorded: Vec::new(),
        }
    }

    /// The task for an agent that is told everything in one text: with the bounds it works in.
    pub fn prompt_in_bounds(&self) -> String {
        match &self.sandbox {
            Some(sandbox) => format!("{}\n\n{}", self.prompt.trim_end(), bounds::told(sandbox)),
            None => self.prompt.clone(),
        }
    }

    /// What came of the job where nothing has to be done for it: it was answered already, or nobody wants it any more.
    fn settled(&self, cancel: &Cancel) -> Option<Result<Reply, AgentError>> {
        if let Some(reply) = self.answer() {
            return Some(Ok(reply));
        }
        if cancel.is_killed() {
            return Some(Err(AgentError::Cancelled));
        }
        cancel.is_stopped().then(|| Ok(Reply::new(String::new(), End::Stopped)))
    }

    /// The answer the history already holds, if the job was interrupted after it.
    fn answer(&self) -> Option<Reply> {
        let last = self.history.last().filter(|_| self.answered)?;
        Some(Reply::new(last.text(), End::Done))
    }
}

/// Remarks waiting for a working agent; clones share them. Agents that cannot be talked to leave them lying.
#[derive(Debug, Clone, Default)]
pub struct Steering(Arc<Mutex<VecDeque<String>>>);

impl Steering {
    /// Adds a remark. The agent hears it after the turn it is in.
    pub fn say(&self, text: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(text.into());
    }

    fn take(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }
}

/// One model call and the tools it asked for.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// The messages that are new in this turn.
    pub messages: Vec<Message>,
    /// The tools it used.
    pub tool_calls: Vec<ToolCall>,
    /// What it cost in tokens.
    pub usage: Usage,
    /// What it cost in dollars, where that is known.
    pub cost_usd: Option<f64>,
    /// Whether some of that is estimated, where the provider did not say.
    pub estimated: bool,
    /// Whether nobody is billed for it by the token: a login has paid for it.
    pub unbilled: bool,
    /// Model calls beside those of the conversation, such as for a title.
    pub side_calls: Vec<SideCall>,
    /// The model, as the agent names it.
    pub model: String,
    /// The provider of the model.
    pub provider: String,
    /// What the turn was for, in the agent's own words.
    pub intent: String,
    /// The paths it wrote, relative to the root of the working copy; none when it ran something that may have written
    /// anywhere, so that only a scan can tell.
    pub writes: Option<Vec<PathBuf>>,
    /// Whether the turn's end is exact rather than inferred.
    pub exact: bool,
    /// Whether nothing of the agent runs any more, so that no file changes after this turn.
    pub is_last: bool,
    /// What the user should know about it.
    pub warnings: Vec<Warning>,
    /// What the agent needs to go on after this turn, where its messages are not all of it.
    pub state_ref: Option<Value>,
    /// Whether it is the last recorded turn again, answered from the record: its files should be those of then.
    pub repeats: bool,
}

impl Turn {
    /// Whether it tells of no call of a model at all: nothing was said and nothing spent.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.side_calls.is_empty() && self.usage == Usage::default()
    }

    /// What it cost, with the calls beside it.
    pub fn spent(&self) -> Amount {
        let own = Amount::of_call(self.usage, self.cost_usd);
        self.side_calls.iter().map(Amount::of_side).fold(own, |sum, call| sum + call)
    }
}

/// What the engine answers to a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The turn is recorded; go on.
    Go,
    /// The turn is recorded; make no further call and end here. One that has come to its end anyway answers with that.
    Stop,
}

/// Where an agent reports its turns.
#[derive(Debug, Clone)]
pub struct Turns {
    sender: mpsc::Sender<(Turn, oneshot::Sender<Verdict>)>,
    /// Whose budget it is, and what may be spent after the newest turn; none where nothing is limited.
    allowance: Arc<Mutex<Option<(NodeId, Allowance)>>>,
    tally: Arc<Mutex<Tally>>,
    /// What the agent's program said beside its answers.
    beside: Arc<Mutex<String>>,
    /// Hears what the agent waits for.
    waits: Option<WaitListener>,
    /// How many turns have changed files.
    writes: Arc<AtomicU64>,
}

/// Is told what an agent waits for, and nothing once it goes on.
#[derive(Clone)]
pub struct WaitListener(Arc<OnWait>);

type OnWait = dyn Fn(Option<&str>) + Send + Sync;

impl WaitListener {
    /// A listener that calls this.
    pub fn new(listener: impl Fn(Option<&str>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listener))
    }

    /// Tells it.
    pub fn tell(&self, why: Option<&str>) {
        (self.0)(why);
    }
}

impl std::fmt::Debug for WaitListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WaitListener")
    }
}

/// What an agent has spent, as far as somebody counts along.
#[derive(Debug, Default)]
struct Tally {
    meter: Option<Meter>,
    reported: Amount,
}

impl Turns {
    /// A place to report, and the turns reported there.
    pub fn channel() -> (Self, mpsc::Receiver<(Turn, oneshot::Sender<Verdict>)>) {
        let (sender, receiver) = mpsc::channel(1);
        let (allowance, tally, beside) = (Arc::default(), Arc::default(), Arc::default());
        (Self { sender, allowance, tally, beside, waits: None, writes: Arc::default() }, receiver)
    }

    /// The same, with somebody who hears what the agent waits for.
    pub fn with_waits(self, waits: Option<WaitListener>) -> Self {
        Self { waits, ..self }
    }

    /// Says what the agent waits for, until [`Turns::go_on`].
    pub fn wait(&self, why: &str) {
        self.waits.iter().for_each(|listener| listener.tell(Some(why)));
    }

    /// Says that the agent waits for nothing any more.
    pub fn go_on(&self) {
        self.waits.iter().for_each(|listener| listener.tell(None));
    }

    /// Says that a turn has changed files.
    pub fn wrote(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// How many turns have changed files.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Says what may be spent from now on.
    pub fn limit(&self, node: &NodeId, allowance: Allowance) {
        *self.allowance.lock().unwrap_or_else(PoisonError::into_inner) = Some((node.clone(), allowance));
    }

    /// Whether one more call may be made after this much was spent that is not reported yet.
    pub fn allow(&self, unreported: Amount) -> bool {
        let allowance = self.allowance.lock().unwrap_or_else(PoisonError::into_inner);
        allowance.as_ref().is_none_or(|(node, allowance)| allowance.allows(node, unreported))
    }

    /// Whether no model may be asked whose price is not known.
    pub fn must_be_priced(&self) -> bool {
        let allowance = self.allowance.lock().unwrap_or_else(PoisonError::into_inner);
        allowance.as_ref().is_some_and(|(_, allowance)| allowance.limits.needs_prices())
    }

    /// Says who counts what the agent spends, from its first call on.
    pub fn count(&self, meter: Meter) {
        self.tally().meter = Some(meter);
    }

    /// What was spent beyond the turns that were reported, where somebody counts along.
    pub fn unreported(&self) -> Amount {
        let tally = self.tally();
        let total = tally.meter.as_ref().map(Meter::total).unwrap_or_default();
        Amount::of_call(total.usage, total.cost_usd) - tally.reported
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells what a program has said beside its answers, once it has ended, however it did.
    pub fn said_beside(&self, stderr: &str) {
        let mut beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        if !beside.is_empty() && !beside.ends_with('\n') && !stderr.is_empty() {
            beside.push('\n');
        }
        beside.push_str(stderr);
    }

    /// Takes what was told so far.
    pub fn take_beside(&self) -> String {
        std::mem::take(&mut *self.beside.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reports a turn and waits until it is recorded. When nobody records any more, the answer is [`Verdict::Stop`].
    pub async fn report(&self, turn: Turn) -> Verdict {
        let (sender, receiver) = oneshot::channel();
        self.tally().reported += turn.spent();
        match self.sender.send((turn, sender)).await {
            Ok(()) => receiver.await.unwrap_or(Verdict::Stop),
            Err(_) => Verdict::Stop,
        }
    }
}

/// What an agent answers to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Its last words.
    pub text: String,
    /// Why it ended.
    pub end: End,
}

impl Reply {
    /// The last words of an agent, and why they were the last.
    pub fn new(text: String, end: End) -> Self {
        Self { text, end }
    }
}

/// Why an agent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It says that it is done.
    Done,
    /// It was asked to stop; the job can go on later.
    Stopped,
    /// It came to a limit, said in words.
    Limit(String),
    /// It says that it is done, but was kept from something it wanted to do, said in words: that is only believed if
    /// files changed.
    Doubtful(String),
}

/// A job without an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// It may work when tried again.
    #[error("{0}")]
    Transient(String),
    /// It will not work when tried again.
    #[error("{0}")]
    Terminal(String),
    /// Nothing is wrong with the job: the program cannot be started, the key is refused. It will work once somebody has
    /// seen to that.
    #[error("{0}")]
    Environment(String),
    /// Nobody answered, however often the model was asked. It may work in a while.
    #[error("{0}")]
    Unanswered(String),
    /// It took too long.
    #[error("{0}")]
    TimedOut(String),
    /// It was called off.
    #[error("the agent was cancelled")]
    Cancelled,
}

impl AgentError {
    /// Whether nobody could work, rather than that the work failed: then it waits for somebody to see to that. `attempted`:
    /// a model has answered before in an attempt that counts, and its next request may be what nobody can answer.
    pub fn is_stuck(&self, attempted: bool) -> bool {
        match self {
            Self::Environment(_) => true,
            Self::Unanswered(_) => !attempted,
            Self::Transient(_) | Self::Terminal(_) | Self::TimedOut(_) | Self::Cancelled => false,
        }
    }

    /// A program that did not run to its end.
    pub(crate) fn of_spawn(error: &SpawnError) -> Self {
        let why = format!("the agent did not run: {error}");
        match error {
            SpawnError::Empty
            | SpawnError::Directory { .. }
            | SpawnError::Program { .. }
            | SpawnError::Supervisor { .. } => Self::Environment(why),
            _ => Self::Terminal(why),
        }
    }
}

/// Who does the work of a node.
pub trait Agent: Send + Sync {
    /// The kind of agent, as records have it: `builtin`, `command`, …
    fn kind(&self) -> &'static str;

    /// Whether an interrupted job goes on after its last recorded turn. Others start again.
    fn can_continue(&self) -> bool;

    /// Whether a conversation can be gone on with from what one of its turns left as [`Turn::state_ref`], although its
    /// messages are not enough. Without a state the question is whether it ever can.
    fn can_resume(&self, state: Option<&Value>, home: &Path) -> bool {
        let _ = (state, home);
        false
    }

    /// Whether it knows which model it is to ask when a node names this one.
    fn check_model(&self, asked: Option<&str>) -> Result<(), Unusable> {
        let _ = asked;
        Ok(())
    }

    /// The model it would ask when a node names this one, with how well its price is known; none where that shows only
    /// when it asks, and where nobody is billed.
    fn pricing(&self, asked: Option<&str>) -> Option<(String, Pricing)> {
        let _ = asked;
        None
    }

    /// Whether it reaches its model by itself: then the network is open to it, also where it is closed to others.
    fn needs_network(&self) -> bool {
        false
    }

    /// Whether its turns say what they cost in tokens, as far as that can be known before. A budget holds only what is
    /// told.
    fn tells_spending(&self) -> bool {
        true
    }

    /// Whether a job that starts over is answered from its record again ([`Job::recorded`]) as far as that goes.
    fn repeats_calls(&self) -> bool {
        false
    }

    /// The agent as a program that can be introduced before it works.
    fn as_program(&self) -> Option<&CliAgent> {
        None
    }

    /// How an agent is introduced that need not be asked for its version: by who is billed, where that is known.
    fn introduction(&self) -> Option<Introduction> {
        None
    }

    /// Does the job, reporting each turn as soon as it is over. A stop lets the turn in flight finish; a kill ends it at
    /// once. The turn of an agent that pleach drives itself is then not reported; what a program has left is.
    fn run<'a>(&'a self, job: Job, turns: &'a Turns, cancel: &'a Cancel) -> BoxFuture<'a, Result<Reply, AgentError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_report_waits_for_its_verdict() {
        let (turns, mut inbox) = Turns::channel();
        let engine = tokio::spawn(async move {
            let mut intents = Vec::new();
            while let Some((turn, answer)) = inbox.recv().await {
                intents.push(turn.intent);
                let verdict = if intents.len() < 2 { Verdict::Go } else { Verdict::Stop };
                answer.send(verdict).expect("the agent waits for its verdict");
            }
            intents
        });
        let turn = |intent: &str| Turn { intent: intent.into(), ..Turn::default() };
        assert_eq!(turns.report(turn("one")).await, Verdict::Go);
        assert_eq!(turns.report(turn("two")).await, Verdict::Stop);
        drop(turns);
        assert_eq!(engine.await.unwrap(), ["one", "two"]);
    }

    #[tokio::test]
    async fn without_an_engine_an_agent_stops() {
        let (turns, inbox) = Turns::channel();
        drop(inbox);
        assert_eq!(turns.report(Turn::default()).await, Verdict::Stop);
    }
}
