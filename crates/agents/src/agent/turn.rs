//! The turns of an agent, and where they are reported.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::gateway::UsageMeter;
use crate::llm::Message;
use pleach_core::budget::{Allowance, Amount};
use pleach_core::event::{SideCall, ToolCall, Usage, Warning};
use pleach_core::ids::NodeId;

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
    /// Whether it is not billed by the token: a login has paid for it.
    pub unbilled: bool,
    /// Side calls, such as for a title.
    pub side_calls: Vec<SideCall>,
    /// The model, as the agent names it.
    pub model: String,
    /// The provider of the model.
    pub provider: String,
    /// What the turn was for, in the agent's own words.
    pub intent: String,
    /// The paths it wrote, relative to the root of the worktree; none when it ran something that may have written
    /// anywhere, so that only a scan can tell.
    pub writes: Option<Vec<PathBuf>>,
    /// Whether the turn's end is exact rather than inferred.
    pub exact: bool,
    /// Whether nothing of the agent runs any more, so that no file changes after this turn.
    pub is_last: bool,
    /// What the user should know about it.
    pub warnings: Vec<Warning>,
    /// What the agent needs to resume after this turn, where its messages are not all of it.
    pub state_ref: Option<Value>,
    /// Whether it is the last recorded turn again, answered from the record: its files should be those of then.
    pub repeats: bool,
}

impl Turn {
    /// Whether it tells of no call of a model at all: nothing was said and nothing spent.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.side_calls.is_empty() && self.usage == Usage::default()
    }

    /// What it cost, with its side calls.
    pub fn spent(&self) -> Amount {
        let own = Amount::of_call(self.usage, self.cost_usd);
        self.side_calls.iter().map(Amount::of_side).fold(own, |sum, call| sum + call)
    }
}

/// What the engine answers to a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnVerdict {
    /// The turn is recorded; continue.
    Go,
    /// The turn is recorded; make no further call and end here. One that has come to its end anyway answers with that.
    Stop,
}

/// Where an agent reports its turns.
#[derive(Debug, Clone)]
pub struct Turns {
    sender: mpsc::Sender<(Turn, oneshot::Sender<TurnVerdict>)>,
    /// Whose budget it is, and what may be spent after the newest turn; none where nothing is limited.
    allowance: Arc<Mutex<Option<(NodeId, Allowance)>>>,
    tally: Arc<Mutex<Tally>>,
    /// The standard error of the agent's program.
    stderr_text: Arc<Mutex<String>>,
    /// The listener for what the agent waits for.
    waits: Option<WaitListener>,
    /// How many turns have changed files.
    writes: Arc<AtomicU64>,
}

/// Called with what an agent waits for, and with none once it continues.
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

/// What an agent has spent, as far as it is metered.
#[derive(Debug, Default)]
struct Tally {
    meter: Option<UsageMeter>,
    reported: Amount,
}

impl Turns {
    /// A place to report, and the turns reported there.
    pub fn channel() -> (Self, mpsc::Receiver<(Turn, oneshot::Sender<TurnVerdict>)>) {
        let (sender, receiver) = mpsc::channel(1);
        let (allowance, tally, stderr_text) = (Arc::default(), Arc::default(), Arc::default());
        (Self { sender, allowance, tally, stderr_text, waits: None, writes: Arc::default() }, receiver)
    }

    /// The same, with a listener for what the agent waits for.
    pub fn with_waits(self, waits: Option<WaitListener>) -> Self {
        Self { waits, ..self }
    }

    /// Says what the agent waits for, until [`Turns::stop_waiting`].
    pub fn wait(&self, why: &str) {
        self.waits.iter().for_each(|listener| listener.tell(Some(why)));
    }

    /// Says that the agent waits for nothing any more.
    pub fn stop_waiting(&self) {
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
    pub fn set_meter(&self, meter: UsageMeter) {
        self.tally().meter = Some(meter);
    }

    /// What was spent beyond the turns that were reported, where it is metered.
    pub fn unreported(&self) -> Amount {
        let tally = self.tally();
        let total = tally.meter.as_ref().map(UsageMeter::total).unwrap_or_default();
        Amount::of_call(total.usage, total.cost_usd) - tally.reported
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the standard error of a program once it has ended.
    pub fn push_stderr(&self, stderr: &str) {
        let mut stderr_text = self.stderr_text.lock().unwrap_or_else(PoisonError::into_inner);
        if !stderr_text.is_empty() && !stderr_text.ends_with('\n') && !stderr.is_empty() {
            stderr_text.push('\n');
        }
        stderr_text.push_str(stderr);
    }

    /// Takes the standard error so far.
    pub fn take_stderr(&self) -> String {
        std::mem::take(&mut *self.stderr_text.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reports a turn and waits until it is recorded. Once recording has ended, the answer is [`TurnVerdict::Stop`].
    pub async fn report(&self, turn: Turn) -> TurnVerdict {
        let (sender, receiver) = oneshot::channel();
        self.tally().reported += turn.spent();
        match self.sender.send((turn, sender)).await {
            Ok(()) => receiver.await.unwrap_or(TurnVerdict::Stop),
            Err(_) => TurnVerdict::Stop,
        }
    }
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
                let verdict = if intents.len() < 2 { TurnVerdict::Go } else { TurnVerdict::Stop };
                answer.send(verdict).expect("the agent waits for its verdict");
            }
            intents
        });
        let turn = |intent: &str| Turn { intent: intent.into(), ..Turn::default() };
        assert_eq!(turns.report(turn("one")).await, TurnVerdict::Go);
        assert_eq!(turns.report(turn("two")).await, TurnVerdict::Stop);
        drop(turns);
        assert_eq!(engine.await.unwrap(), ["one", "two"]);
    }

    #[tokio::test]
    async fn an_agent_stops_when_nobody_records() {
        let (turns, inbox) = Turns::channel();
        drop(inbox);
        assert_eq!(turns.report(Turn::default()).await, TurnVerdict::Stop);
    }
}
