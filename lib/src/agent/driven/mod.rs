//! Programs behind the gateway: every model call of theirs ends a turn before it is let through.
//!
//! ```text
//! program ──call n+1──▶ gateway ──arrival──▶ turn n is reported, recorded, committed, paid for
//!                          ◀── go: forwarded · stop: refused, and the program is ended ──┘
//! ```

mod tape;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

use self::tape::Tapes;
use super::intent::intent_of;
use super::{AgentError, Job, Turn, Turns, Verdict};
use crate::budget::Amount;
use crate::event::{SideCall, ToolCall, Warning};
use crate::gateway::{
    Arrival, Exchange, FEW, Facts, Failing, Gate, Gateway, Meter, Spent, Upstream, answers_on_record,
    is_beside_the_script,
};
use crate::llm::wire::Format;
use crate::llm::{ErrorClass, LlmError, Message, Part, meta, price_unknown};
use crate::process::Cancel;
use crate::text::counted;

/// What a program is told when it is to end.
const STOPPED: &str = "pleach: this run was stopped; do not try again";

/// What a program is told whose calls cannot be let through.
const GIVEN_UP: &str = "pleach: no more calls of this run are let through; do not try again";

/// What a program is told when it asks after its time.
const OVER: &str = "pleach: this program's work is over";

/// How a program is told that its conversation goes on.
pub(super) const WAS_INTERRUPTED: &str = "You were interrupted while you worked on your task.";

/// How a program is told that it goes on with a task in a conversation of its own.
pub(super) const TASK_WAS_INTERRUPTED: &str = "Your work on the task below was interrupted. The working copy holds what \
                                               has been done so far; go on until the task is done.";

/// What some versions of Claude Code put into a conversation before that, with an answer nobody gave.
const MADE_UP: &str = "Continue from where you left off.";

/// Messages with these are no task: they come from pleach, or from a program that goes on.
const INTERRUPTIONS: [&str; 3] = [WAS_INTERRUPTED, TASK_WAS_INTERRUPTED, MADE_UP];

/// How long a program that is to end is left its calls that are on their way, and those are waited for that one which has
/// ended has left behind.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a call waits for others whose answers the program does not read: it may read on only when this one is
/// answered.
const DEADLOCK: Duration = Duration::from_secs(20);

/// How many calls in a row may end without a whole answer, where the settings do not say.
const MAX_FAILED_CALLS: u32 = 10;

/// A program that is going to work behind a gateway.
#[derive(Debug)]
pub struct Driven {
    gateway: Gateway,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    tapes: Tapes,
    state: StateRef,
    max_failed_calls: u32,
}

/// What the program needs to go on after its newest turn, as far as that is known. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct StateRef(Arc<Mutex<Option<Value>>>);

impl StateRef {
    /// From now on, turns are recorded with this.
    pub fn set(&self, state: Value) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
    }

    fn get(&self) -> Option<Value> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How a program's work behind the gateway went.
#[derive(Debug)]
pub struct Seen<T> {
    /// What running the program gave.
    pub ended: T,
    /// Its last turn, which is still to be reported, now that nothing of the program runs any more. None when every turn
    /// was.
    pub last: Option<Turn>,
    /// Whether it was stopped after a turn.
    pub stopped: bool,
    /// The model's last words in the agent's own conversation.
    pub said: String,
    /// Whether it asked its model for anything.
    pub asked: bool,
    /// Whether its model answered any of that.
    pub answered: bool,
    /// Why it was ended, where no more of its calls could be let through.
    pub given_up: Option<AgentError>,
    /// Why its newest call in a conversation has no whole answer, where that is so.
    pub unanswered: Option<LlmError>,
    /// Whether a script was there for its work, and was asked for none of it.
    pub unscripted: bool,
}

impl<T> Seen<T> {
    /// Why a program has not done its work, whatever it says: without an answer of its model to the last thing it asked, it
    /// cannot know that it has.
    pub fn undone(&self, program: &str) -> Option<AgentError> {
        let ended = format!("agent `{program}` ended, but");
        if let Some(why) = &self.unanswered {
            let what = match self.answered {
                true => "the last call of its model was not answered",
                false => "no call of its model was answered",
            };
            return Some(without_answer(why.class, format!("{ended} {what}: {why}")));
        }
        if self.asked && !self.answered {
            return Some(AgentError::Transient(format!("{ended} no call of its model was answered")));
        }
        let why =
            "the script was not asked for anything: none of its calls brought tools, which is how its work is known";
        self.unscripted.then(|| AgentError::Terminal(format!("{ended} {why}")))
    }
}

/// Why a program failed: where its newest call was not answered for reasons outside of the job, that is why, whatever it
/// made of it.
pub fn why_failed(program: &str, error: AgentError, unanswered: Option<&LlmError>) -> AgentError {
    let Some(LlmError { class, message, .. }) = unanswered else { return error };
    let why = without_answer(*class, format!("agent `{program}` got no answer from its model: {message}"));
    match (&error, &why) {
        // The program may know that it is refused, but not whose key that was.
        (AgentError::Environment(_), AgentError::Environment(_))
        | (
            AgentError::Transient(_) | AgentError::Terminal(_),
            AgentError::Environment(_) | AgentError::Unanswered(_),
        ) => why,
        _ => error,
    }
}

/// What it means for a job that a call has no answer, which is of this class.
fn without_answer(class: ErrorClass, message: String) -> AgentError {
    match class {
        ErrorClass::Auth | ErrorClass::Unavailable => AgentError::Environment(message),
        ErrorClass::Transient | ErrorClass::Cut => AgentError::Unanswered(message),
        // It would be refused again.
        ErrorClass::Terminal | ErrorClass::ContextLength | ErrorClass::Malformed | ErrorClass::Cancelled => {
            AgentError::Terminal(message)
        }
    }
}

impl Driven {
    /// Opens a gateway to `upstream` for a job.
    pub async fn open(upstream: Upstream, job: &Job) -> Result<Self, AgentError> {
        let metadata = [
            (meta::NODE, job.node.to_string()),
            (meta::VISIT, job.visit.to_string()),
            (meta::ATTEMPT, job.attempt.to_string()),
            (meta::STATUS_FILE, job.status_file.to_string_lossy().into_owned()),
        ];
        let metadata = metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let whole = || job.history.iter().filter(|message| !message.is_broken_off()).cloned().collect::<Vec<_>>();
        let answered = job.continues.then(|| answers_on_record(&whole(), &INTERRUPTIONS));
        let cwd = job.cwd.clone();
        let facts = Facts { metadata, cwd, has_tools: job.tools, interruptions: &INTERRUPTIONS, answered };
        let opened = Gateway::open(upstream, facts).await;
        let (gateway, arrivals) =
            opened.map_err(|error| AgentError::Transient(format!("cannot open a gateway for the agent: {error}")))?;
        let (tapes, state) = (Tapes::new(&job.recorded), StateRef::default());
        Ok(Self { gateway, arrivals, tapes, state, max_failed_calls: MAX_FAILED_CALLS })
    }

    /// The same with so many calls in a row that may end without a whole answer, where that is said.
    #[must_use]
    pub fn with_max_failed_calls(self, max_failed_calls: Option<u32>) -> Self {
        Self { max_failed_calls: max_failed_calls.unwrap_or(self.max_failed_calls), ..self }
    }

    /// Counts what goes through.
    pub fn meter(&self) -> Meter {
        self.gateway.meter()
    }

    /// What the program is given as the base URL of its provider.
    pub fn base_url(&self, format: Format) -> String {
        self.gateway.base_url(format)
    }

    /// The same without the gateway's secret, for where everybody can read it.
    pub fn address(&self, format: Format) -> String {
        self.gateway.address(format)
    }

    /// What the program is given as its key.
    pub fn key(&self) -> &str {
        self.gateway.key()
    }

    /// The gateway's port, the only one the program needs to reach.
    pub fn port(&self) -> u16 {
        self.gateway.port()
    }

    /// Where to leave what the program needs to go on.
    pub fn state(&self) -> StateRef {
        self.state.clone()
    }

    /// Sees the program through: `run` starts it and follows it to its end, or until what it is given is raised. Each turn
    /// is reported before the next call of the program is let through; the last one is given back.
    pub async fn see_through<T, F: Future<Output = T>>(
        self,
        turns: &Turns,
        cancel: &Cancel,
        run: impl FnOnce(Cancel) -> F,
    ) -> Seen<T> {
        let Self { gateway, mut arrivals, tapes, state, max_failed_calls } = self;
        turns.count(gateway.meter());
        let (canceller, inner) = Cancel::new();
        let provider = gateway.provider().to_owned();
        let mut log = Log { provider, tapes, state, max_failed_calls, ..Log::new(turns) };
        let mut flights = gateway.flights();
        let mut failing = gateway.failing();
        let running = run(inner);
        tokio::pin!(running);
        let mut killed = false;
        let mut ending = None;
        let ended = loop {
            tokio::select! {
                // A turn that is over is recorded before the program's end is looked at.
                biased;
                Some(arrival) = arrivals.recv() => {
                    log.take(arrival).await;
                }
                // One call less on its way may leave room for another.
                Ok(()) = flights.changed(), if !log.waiting.is_empty() => {}
                () = sleep(DEADLOCK), if !log.waiting.is_empty() => {
                    log.may_overtake = gateway.is_unread();
                }
                // What nobody answered is paid for all the same, and may be all that comes for a while.
                Ok(()) = failing.changed() => log.account(&gateway).await,
                () = cancel.stopped(), if !log.is_stopping => log.is_stopping = true,
                // Calls of its helpers that are on their way are paid for: cut off, they would not be counted.
                () = unattended_until(&gateway, ending), if ending.is_some() && !killed => {
                    killed = true;
                    canceller.kill();
                }
                () = cancel.killed(), if !killed => {
                    killed = true;
                    canceller.kill();
                }
                ended = &mut running => break ended,
            }
            // What comes and goes from here on is looked at again.
            flights.mark_unchanged();
            if log.is_stopping && gateway.failing().borrow().calls > 0 && flights.borrow().awaited() == 0 {
                // Between two tries it does nothing that would have to be finished.
                log.stopped_by = log.stopped_by.or(Some(STOPPED));
            }
            if log.let_through(&gateway, &mut arrivals).await == Verdict::Stop {
                gateway.refuse(STOPPED);
                ending.get_or_insert_with(|| Instant::now() + PATIENCE);
            }
        };
        gateway.refuse(OVER);
        log.stopped_by = log.stopped_by.or(Some(OVER));
        log.let_through(&gateway, &mut arrivals).await;
        // Who is over need not be stopped.
        let stopped = log.stopped_by == Some(STOPPED);
        if !killed {
            // What the program did not wait for is paid for as well.
            tokio::select! {
                () = quiet_until(&gateway, Some(Instant::now() + PATIENCE)) => {}
                () = cancel.killed() => {}
            }
        }
        turns.go_on();
        let is_script = gateway.is_scripted();
        let rest = gateway.close().await;
        log.put_aside(rest.aside, rest.warnings);
        let mut last = None;
        for exchange in rest.exchanges.into_iter().chain(rest.broken) {
            if let Some(turn) = last.replace(log.turn(exchange)) {
                log.report(turn).await;
            }
        }
        let last = last.or_else(|| log.remains());
        let last = last.map(|turn| Turn { is_last: true, ..log.with_aside(turn) });
        let Log { said, asked, answered, scripted, given_up, .. } = log;
        let (unscripted, unanswered) = (is_script && answered && !scripted, rest.unanswered);
        Seen { ended, last, stopped, said, asked, answered, given_up, unanswered, unscripted }
    }
}

/// Waits until nobody waits for a call that is on its way, but not longer than until then.
async fn unattended_until(gateway: &Gateway, end: Option<Instant>) {
    let _ = timeout_at(end.unwrap_or_else(Instant::now), gateway.unattended()).await;
}

/// Waits until no call is on its way, but not longer than until then.
async fn quiet_until(gateway: &Gateway, end: Option<Instant>) {
    // One that takes longer is cut off, and counts as far as it has come.
    let _ = timeout_at(end.unwrap_or_else(Instant::now), gateway.quiet()).await;
}

/// The turns of a program, as they come.
struct Log<'a> {
    turns: &'a Turns,
    provider: String,
    tapes: Tapes,
    /// Whether the last turn on record is still to come again.
    repeating: bool,
    state: StateRef,
    aside: Vec<SideCall>,
    warnings: Vec<Warning>,
    reported: usize,
    said: String,
    asked: bool,
    answered: bool,
    /// Whether an answer was none that is given beside a script.
    scripted: bool,
    stopped_by: Option<&'static str>,
    given_up: Option<AgentError>,
    /// Somebody wants it to stop: the next call is not let through.
    is_stopping: bool,
    /// How many calls in a row may end without a whole answer.
    max_failed_calls: u32,
    /// Calls that are held, oldest first.
    waiting: VecDeque<Arrival>,
    /// Whether the oldest of them is let through beside others for which there is no room with it.
    may_overtake: bool,
}

impl<'a> Log<'a> {
    fn new(turns: &'a Turns) -> Self {
        Self {
            turns,
            provider: String::new(),
            tapes: Tapes::default(),
            repeating: false,
            state: StateRef::default(),
            aside: Vec::new(),
            warnings: Vec::new(),
            reported: 0,
            said: String::new(),
            asked: false,
            answered: false,
            scripted: false,
            stopped_by: None,
            given_up: None,
            is_stopping: false,
            max_failed_calls: MAX_FAILED_CALLS,
            waiting: VecDeque::new(),
            may_overtake: false,
        }
    }

    /// Takes in a call: what has ended before it is reported. Then it is answered from the record, or it waits.
    async fn take(&mut self, mut arrival: Arrival) {
        self.asked |= arrival.talk.is_some();
        self.put_aside(std::mem::take(&mut arrival.aside), std::mem::take(&mut arrival.warnings));
        for exchange in std::mem::take(&mut arrival.before) {
            let turn = self.turn(exchange);
            self.report(turn).await;
        }
        let recorded = match (self.stopped_by, arrival.talk) {
            (None, Some(talk)) => self.tapes.answer(talk, &arrival.request, arrival.tries),
            _ => None,
        };
        match recorded {
            Some(answer) => {
                self.repeating = true;
                // The client may have hung up while its turn was recorded.
                let _ = arrival.answer.send(Gate::Answer(answer));
            }
            None => self.waiting.push_back(arrival),
        }
    }

    /// Lets calls that wait through, one after the other, as long as there is room for what they may take beside those
    /// on their way. Who is alone needs no room: only what was spent counts then. At a limit all are refused.
    async fn let_through(&mut self, gateway: &Gateway, arrivals: &mut mpsc::UnboundedReceiver<Arrival>) -> Verdict {
        loop {
            let owed = gateway.owed();
            self.put_aside(owed.aside, owed.warnings);
            // What these bring to be reported may be missing from what is owed, or is counted twice.
            let mut is_old = false;
            while let Ok(arrival) = arrivals.try_recv() {
                self.take(arrival).await;
                is_old = true;
            }
            self.waiting.retain(|arrival| !arrival.answer.is_closed());
            if self.is_stopping && !self.waiting.is_empty() {
                self.stopped_by = self.stopped_by.or(Some(STOPPED));
            }
            if let Some(reason) = self.stopped_by {
                for arrival in self.waiting.drain(..) {
                    let _ = arrival.answer.send(Gate::Refuse(reason.to_owned()));
                }
                return Verdict::Stop;
            }
            if is_old {
                continue;
            }
            let failing = gateway.failing().borrow().clone();
            // One that waits is one too many; where none does, the gateway has refused it already.
            let too_many = self.max_failed_calls.saturating_add(u32::from(self.waiting.is_empty()));
            if failing.calls >= too_many {
                self.end_loop(gateway, failing).await;
                continue;
            }
            let Some(next) = self.waiting.front() else { return Verdict::Go };
            if next.at_most.cost_usd.is_none() && !gateway.is_scripted() && self.turns.must_be_priced() {
                self.give_up(AgentError::Environment(price_unknown(&next.request.model)));
                continue;
            }
            let spent = self.aside.iter().map(Amount::of_side).fold(amount(owed.pending), |sum, call| sum + call);
            if spent != Amount::default() && !self.turns.allow(spent) {
                self.settle(gateway).await;
                continue;
            }
            let all = owed.reserved.map(|reserved| spent + amount(reserved) + amount(next.at_most));
            if all.is_some_and(|all| !self.turns.allow(all)) && !self.may_overtake {
                return Verdict::Go;
            }
            if let Some(next) = self.waiting.pop_front() {
                self.may_overtake = false;
                if failing.calls > 0 {
                    self.turns.wait(&format!("{}, retrying ({})", failing.words, failing.calls));
                }
                gateway.reserve(&next);
                let _ = next.answer.send(Gate::Forward);
            }
        }
    }

    /// The program asks again and again without an answer. It is ended, unless it has changed files all the same.
    async fn end_loop(&mut self, gateway: &Gateway, failing: Failing) {
        let before = self.turns.writes();
        self.account(gateway).await;
        let turn = self.beside();
        self.report(turn).await;
        if self.turns.writes() > before {
            return gateway.forgive();
        }
        let why = failing.why.unwrap_or_else(LlmError::cancelled);
        let calls = counted(u64::from(failing.calls), "call");
        let message = format!(
            "{calls} in a row had no complete answer (`agents.*.max_failed_calls`), the last one because \
                 {why}"
        );
        self.give_up(without_answer(why.class, message));
    }

    /// Reports what more than a few calls without a whole answer have cost and brought, at once: the next turn may be far. Whatever tools
    /// have written meanwhile belongs to another.
    async fn account(&mut self, gateway: &Gateway) {
        match gateway.failing().borrow().calls {
            0 => return self.turns.go_on(),
            1..=FEW => return,
            _ => {}
        }
        let broken = gateway.broken_off();
        let owed = gateway.owed();
        self.put_aside(owed.aside, owed.warnings);
        let turns: Vec<Turn> = broken.into_iter().map(|exchange| self.turn(exchange)).collect();
        let beside = (turns.is_empty() && !self.aside.is_empty()).then(|| self.beside());
        for turn in turns.into_iter().chain(beside) {
            self.report(Turn { writes: Some(Vec::new()), ..turn }).await;
        }
    }

    /// Ends the program, whose node fails for this reason.
    fn give_up(&mut self, why: AgentError) {
        self.given_up.get_or_insert(why);
        self.stopped_by = self.stopped_by.or(Some(GIVEN_UP));
    }

    /// Where what nobody was told of yet may have used the budget up, it is reported now, whatever still runs: whether one
    /// more call is made is not for the program to decide by ending its turns or not.
    async fn settle(&mut self, gateway: &Gateway) {
        let rest = gateway.settle();
        self.put_aside(rest.aside, rest.warnings);
        for exchange in rest.exchanges.into_iter().chain(rest.broken) {
            let turn = self.turn(exchange);
            self.report(turn).await;
        }
        if !self.aside.is_empty() {
            let turn = self.beside();
            self.report(turn).await;
        }
    }

    fn put_aside(&mut self, spent: Vec<SideCall>, warnings: Vec<Warning>) {
        self.aside.extend(spent);
        self.warnings.extend(warnings);
    }

    async fn report(&mut self, turn: Turn) {
        self.reported += 1;
        let turn = self.with_aside(turn);
        if self.turns.report(turn).await == Verdict::Stop {
            self.stopped_by = self.stopped_by.or(Some(STOPPED));
        }
    }

    /// The turn an exchange makes.
    fn turn(&mut self, exchange: Exchange) -> Turn {
        let Exchange { talk, opening, response, results, model, usage, cost_usd, estimated, broken_off } = exchange;
        self.answered |= broken_off.is_none();
        self.scripted |= broken_off.is_none() && !response.as_ref().is_some_and(is_beside_the_script);
        let mut answer = response.map(|response| response.message);
        if let (Some(answer), Some(why)) = (&mut answer, &broken_off) {
            answer.mark_broken_off(why);
        }
        let said = answer.as_ref().map(Message::text).unwrap_or_default();
        let whole = answer.as_ref().filter(|_| broken_off.is_none());
        let tool_calls = whole.map(|answer| calls(answer, &results)).unwrap_or_default();
        let intent = intent_of(&said, &tool_calls);
        if talk == 0 && broken_off.is_none() && !said.trim().is_empty() {
            said.trim().clone_into(&mut self.said);
        }
        let mut messages: Vec<Message> = opening.into_iter().chain(answer).chain(results).collect();
        messages.iter_mut().for_each(|message| message.set_talk(talk));
        // Once the record is used up, what the program wrote should be what it wrote then.
        let repeats = talk == 0 && self.repeating && self.tapes.is_over();
        if repeats {
            self.repeating = false;
        }
        Turn {
            messages,
            tool_calls,
            usage,
            cost_usd,
            estimated,
            model,
            provider: self.provider.to_owned(),
            intent,
            exact: true,
            repeats,
            state_ref: self.state.get(),
            ..Turn::default()
        }
    }

    /// A turn for what belongs to none: what was spent beside the conversations, or a program that never asked.
    fn remains(&self) -> Option<Turn> {
        let nothing = self.aside.is_empty() && self.warnings.is_empty();
        if self.reported > 0 && nothing {
            return None;
        }
        Some(self.beside())
    }

    /// A turn without words.
    fn beside(&self) -> Turn {
        Turn { provider: self.provider.to_owned(), exact: true, state_ref: self.state.get(), ..Turn::default() }
    }

    /// The turn with what was spent and noticed beside it.
    fn with_aside(&mut self, mut turn: Turn) -> Turn {
        turn.side_calls.append(&mut self.aside);
        turn.warnings.append(&mut self.warnings);
        turn
    }
}

fn amount(spent: Spent) -> Amount {
    Amount::of_call(spent.usage, spent.cost_usd)
}

/// The tools an answer asked for, and whether they failed.
fn calls(answer: &Message, results: &[Message]) -> Vec<ToolCall> {
    let failed = |wanted: &str| {
        results.iter().flat_map(|message| &message.content).any(
            |part| matches!(part, Part::ToolResult { id, is_error: true, .. } if id == wanted && !wanted.is_empty()),
        )
    };
    let call = |(id, name, arguments): (&str, &str, &Value)| ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.clone(),
        is_error: failed(id),
    };
    answer.tool_calls().map(call).collect()
}
