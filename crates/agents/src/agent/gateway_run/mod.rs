//! Programs behind the gateway: every model call of theirs ends a turn before it is forwarded.
//!
//! ```text
//! program ──call n+1──▶ gateway ──HeldCall──▶ turn n is reported, recorded, committed, paid for
//!                          ◀── go: forwarded · stop: refused, and the program is ended ──┘
//! ```

mod tape;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::sleep;

use self::tape::{Play, Tape};
use super::intent::intent_of;
use super::{AgentError, Job, JobPast, Turn, TurnVerdict, Turns};
use crate::gateway::{
    CallCost, CallDecision, Exchange, FEW, Facts, FailedCalls, Gateway, HeldCall, Upstream, UsageMeter,
    answers_on_record, is_beside_the_script,
};
use crate::llm::wire::Format;
use crate::llm::{ErrorClass, LlmError, Message, Part, meta, price_unknown};
use os::deadline::{Deadline, within};
use os::process::Cancel;
use pleach_core::budget::Amount;
use pleach_core::event::{SideCall, ToolCall, Usage, Warning, WarningCode};
use pleach_core::text::counted;

/// The refusal for a program that is to end.
const STOPPED: &str = "pleach: this run was stopped; do not try again";

/// The refusal for a program whose calls cannot continue.
const GIVEN_UP: &str = "pleach: no more calls of this run are let through; do not try again";

/// The refusal for calls after the program's work.
const OVER: &str = "pleach: this program's work is over";

/// The refusal for requests nobody can read while recorded calls are repeated.
const REPEATED: &str = "pleach: the work up to here is repeated from its record; ask again after that";

/// The prompt that continues a program's conversation.
pub(super) const WAS_INTERRUPTED: &str = "You were interrupted while you worked on your task.";

/// The prompt that continues a task in a new conversation.
pub const TASK_WAS_INTERRUPTED: &str = "Your work on the task below was interrupted. The worktree holds what \
                                               has been done so far; go on until the task is done.";

/// What some versions of Claude Code insert before such a prompt, with a made-up answer.
const MADE_UP: &str = "Continue from where you left off.";

/// Messages with these are not tasks: they come from pleach, or from a resumed program.
const INTERRUPTIONS: [&str; 3] = [WAS_INTERRUPTED, TASK_WAS_INTERRUPTED, MADE_UP];

/// How long a program that is to end may finish its calls in flight, and how long those of one that has ended are
/// waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a call waits while the program leaves other answers unread: it may read on only when this one is answered.
const DEADLOCK: Duration = Duration::from_secs(20);

/// How many calls in a row may end without a complete answer, where the settings do not say.
const MAX_FAILED_CALLS: u32 = 10;

/// A program that is going to work behind a gateway.
#[derive(Debug)]
pub struct GatewayRun {
    gateway: Gateway,
    held_calls: mpsc::UnboundedReceiver<HeldCall>,
    tape: Tape,
    state: StateRef,
    max_failed_calls: u32,
}

/// What the program needs to resume after its newest turn, as far as that is known. Clones share it.
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
pub struct RunOutcome<T> {
    /// The program's result.
    pub ended: T,
    /// Its last turn, still to be reported now that no process of the program runs. None when every turn was reported.
    pub last: Option<Turn>,
    /// Whether it was stopped after a turn.
    pub stopped: bool,
    /// The model's last words in the agent's own conversation.
    pub said: String,
    /// Whether it asked its model for anything.
    pub asked: bool,
    /// Whether its model answered any of that.
    pub answered: bool,
    /// Why it was ended, where its calls could not continue.
    pub given_up: Option<AgentError>,
    /// Why its work has taken another course than on record, where it was to be repeated.
    pub diverged: Option<String>,
    /// Why its newest call in a conversation has no complete answer, where that is so.
    pub unanswered: Option<LlmError>,
    /// Whether there was a script for its work that was never asked.
    pub unscripted: bool,
}

impl<T> RunOutcome<T> {
    /// Why a program has not done its work, whatever it says: while its last call is unanswered, it cannot know that it
    /// has.
    pub fn why_unfinished(&self, program: &str) -> Option<AgentError> {
        let ended = format!("agent `{program}` ended, but");
        if let Some(why) = &self.unanswered {
            let what = if self.answered {
                "the last call of its model was not answered"
            } else {
                "no call of its model was answered"
            };
            return Some(unanswered_error(why.class, format!("{ended} {what}: {why}")));
        }
        if self.asked && !self.answered {
            return Some(AgentError::Transient(format!("{ended} no call of its model was answered")));
        }
        let why =
            "the script was not asked for anything: none of its calls brought tools, which is how its work is known";
        self.unscripted.then(|| AgentError::Terminal(format!("{ended} {why}")))
    }
}

/// Why a program failed: where its newest call has no answer for a reason outside of the job, that reason, whatever it
/// reports.
pub(crate) fn explain_failure(program: &str, error: AgentError, unanswered: Option<&LlmError>) -> AgentError {
    let Some(LlmError { class, message, .. }) = unanswered else { return error };
    let why = unanswered_error(*class, format!("agent `{program}` got no answer from its model: {message}"));
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

/// What a call without an answer means for a job, by the class of its error.
fn unanswered_error(class: ErrorClass, message: String) -> AgentError {
    match class {
        ErrorClass::Auth | ErrorClass::Unavailable => AgentError::Environment(message),
        ErrorClass::Transient | ErrorClass::Cut => AgentError::Unanswered(message),
        // It would be refused again.
        ErrorClass::Terminal | ErrorClass::ContextLength | ErrorClass::Malformed | ErrorClass::Cancelled => {
            AgentError::Terminal(message)
        }
    }
}

impl GatewayRun {
    /// Opens a gateway to `upstream` for a job.
    pub async fn open(upstream: Upstream, job: &Job) -> Result<Self, AgentError> {
        let metadata = [
            (meta::NODE, job.node.to_string()),
            (meta::VISIT, job.visit.to_string()),
            (meta::ATTEMPT, job.attempt.to_string()),
            (meta::STATUS_FILE, job.status_file.to_string_lossy().into_owned()),
        ];
        let metadata = metadata.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let answers = |said: &[Message]| {
            let whole: Vec<Message> = said.iter().filter(|message| !message.is_broken_off()).cloned().collect();
            answers_on_record(&whole, &INTERRUPTIONS)
        };
        let answered = match &job.past {
            JobPast::Told(said) => Some(answers(said)),
            JobPast::None | JobPast::Taped(_) => job.continues.then(|| answers(&job.history)),
        };
        let cwd = job.cwd.clone();
        let facts = Facts { metadata, cwd, has_tools: job.tools, interruptions: &INTERRUPTIONS, answered };
        let opened = Gateway::open(upstream, facts).await;
        let (gateway, held_calls) =
            opened.map_err(|error| AgentError::Transient(format!("cannot open a gateway for the agent: {error}")))?;
        let tape = match &job.past {
            JobPast::Taped(said) => Tape::new(said),
            JobPast::None | JobPast::Told(_) => Tape::default(),
        };
        Ok(Self { gateway, held_calls, tape, state: StateRef::default(), max_failed_calls: MAX_FAILED_CALLS })
    }

    /// The same with the most calls in a row that may end without a complete answer, if set.
    #[must_use]
    pub fn with_max_failed_calls(self, max_failed_calls: Option<u32>) -> Self {
        Self { max_failed_calls: max_failed_calls.unwrap_or(self.max_failed_calls), ..self }
    }

    /// The meter of its calls.
    pub fn meter(&self) -> UsageMeter {
        self.gateway.meter()
    }

    /// The base URL of the provider, for the program.
    pub fn base_url(&self, format: Format) -> String {
        self.gateway.base_url(format)
    }

    /// The same without the gateway's secret, for where everybody can read it.
    pub fn address(&self, format: Format) -> String {
        self.gateway.address(format)
    }

    /// The key, for the program.
    pub fn key(&self) -> &str {
        self.gateway.key()
    }

    /// The gateway's port, the only one the program needs to reach.
    pub fn port(&self) -> u16 {
        self.gateway.port()
    }

    /// Where the program's resume state is kept.
    pub fn state(&self) -> StateRef {
        self.state.clone()
    }

    /// Runs the program: `run` starts it and follows it to its end, or until its `Cancel` is raised. Each turn is
    /// reported before the next call of the program is forwarded; the last one is given back.
    pub async fn run<T, F: Future<Output = T>>(
        self,
        turns: &Turns,
        cancel: &Cancel,
        run: impl FnOnce(Cancel) -> F,
    ) -> RunOutcome<T> {
        let Self { gateway, mut held_calls, tape, state, max_failed_calls } = self;
        turns.set_meter(gateway.meter());
        let (canceller, inner) = Cancel::new();
        let provider = gateway.provider().to_owned();
        let mut log = TurnLog { provider, tape, state, max_failed_calls, ..TurnLog::new(turns) };
        let mut flights = gateway.flights();
        let mut failed = gateway.failed_calls();
        let running = run(inner);
        tokio::pin!(running);
        let mut killed = false;
        let mut ending = None;
        let ended = loop {
            tokio::select! {
                // A turn that is over is recorded before the program's end is looked at.
                biased;
                Some(held) = held_calls.recv() => {
                    log.take(held).await;
                }
                // One call less in flight may leave room for another.
                Ok(()) = flights.changed(), if !log.waiting.is_empty() => {}
                () = sleep(DEADLOCK), if !log.waiting.is_empty() => {
                    log.may_overtake = gateway.is_unread();
                }
                // Unanswered calls are paid for too, and may be all that comes for a while.
                Ok(()) = failed.changed() => log.report_failures(&gateway).await,
                () = cancel.stopped(), if !log.is_stopping => log.is_stopping = true,
                // Calls of its subagents in flight are paid for: cut off, they would not be counted.
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
            // Changes from here on are looked at again.
            flights.mark_unchanged();
            if log.is_stopping && gateway.failed_calls().borrow().calls > 0 && flights.borrow().awaited() == 0 {
                // Between two tries there is nothing to be finished.
                log.stopped_by = log.stopped_by.or(Some(STOPPED));
            }
            if log.release_calls(&gateway, &mut held_calls).await == TurnVerdict::Stop {
                gateway.refuse(STOPPED);
                ending.get_or_insert_with(|| Deadline::after(PATIENCE));
            }
        };
        gateway.refuse(OVER);
        log.stopped_by = log.stopped_by.or(Some(OVER));
        log.release_calls(&gateway, &mut held_calls).await;
        // A program that has ended need not be stopped.
        let stopped = log.stopped_by == Some(STOPPED);
        if !killed {
            // Calls it did not wait for are paid for as well.
            tokio::select! {
                // One that takes longer is cut off; its cost until then counts.
                _ = within(PATIENCE, gateway.idle()) => {}
                () = cancel.killed() => {}
            }
        }
        turns.stop_waiting();
        let is_script = gateway.is_scripted();
        let rest = gateway.close().await;
        log.add_side_calls(rest.side_calls, rest.warnings);
        let mut last = None;
        for exchange in log.live(rest.exchanges.into_iter().chain(rest.broken)) {
            if let Some(turn) = last.replace(log.turn(exchange)) {
                log.report(turn).await;
            }
        }
        if !log.tape.is_over() && !cancel.is_stopped() {
            log.diverged.get_or_insert_with(|| format!("the program has ended after {}", log.tape.words()));
        }
        if log.diverged.is_none() {
            log.end_tape().await;
        }
        let is_told = !log.tape.is_empty() && log.reported == 0 && log.side_calls.is_empty();
        let last = last.or_else(|| if is_told { None } else { log.final_turn() });
        let last = last.map(|turn| Turn { is_last: true, ..log.with_side_calls(turn) });
        let TurnLog { said, asked, answered, scripted, given_up, diverged, .. } = log;
        let (unscripted, unanswered) = (is_script && answered && !scripted, rest.unanswered);
        RunOutcome { ended, last, stopped, said, asked, answered, given_up, diverged, unanswered, unscripted }
    }
}

/// Waits until no client waits for a call in flight, at most until `end`.
async fn unattended_until(gateway: &Gateway, end: Option<Deadline>) {
    if let Some(end) = end {
        end.ready(gateway.unattended()).await;
    }
}

/// The turns of a program, as they come.
struct TurnLog<'a> {
    turns: &'a Turns,
    provider: String,
    tape: Tape,
    /// Calls that were answered from the tape and whose exchanges are yet to end, by conversation: they are on record.
    taped: BTreeMap<usize, usize>,
    /// Whether the files are as they were at the end of the tape.
    is_restored: bool,
    diverged: Option<String>,
    state: StateRef,
    side_calls: Vec<SideCall>,
    warnings: Vec<Warning>,
    reported: usize,
    said: String,
    asked: bool,
    answered: bool,
    /// Whether an answer came from the script.
    scripted: bool,
    stopped_by: Option<&'static str>,
    given_up: Option<AgentError>,
    /// It is to stop: the next call is refused.
    is_stopping: bool,
    /// How many calls in a row may end without a complete answer.
    max_failed_calls: u32,
    /// Calls that are held, oldest first.
    waiting: VecDeque<HeldCall>,
    /// Whether the oldest of them is let through although there is no room for it.
    may_overtake: bool,
}

impl<'a> TurnLog<'a> {
    fn new(turns: &'a Turns) -> Self {
        Self {
            turns,
            provider: String::new(),
            tape: Tape::default(),
            taped: BTreeMap::new(),
            is_restored: false,
            diverged: None,
            state: StateRef::default(),
            side_calls: Vec::new(),
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

    /// Takes in a call: reports what ended before it; then the call is answered from the record, or waits.
    async fn take(&mut self, mut held: HeldCall) {
        self.asked |= held.conversation.is_some();
        self.add_side_calls(std::mem::take(&mut held.side_calls), std::mem::take(&mut held.warnings));
        let before = self.live(std::mem::take(&mut held.before));
        for exchange in before {
            let turn = self.turn(exchange);
            self.report(turn).await;
        }
        if self.stopped_by.is_some() || self.is_stopping {
            return self.waiting.push_back(held);
        }
        let decision = match self.tape.play(held.conversation, &held.request, held.tries) {
            Play::Live => return self.waiting.push_back(held),
            Play::Diverged(why) => {
                self.diverged.get_or_insert(why);
                self.stopped_by = self.stopped_by.or(Some(GIVEN_UP));
                return self.waiting.push_back(held);
            }
            Play::Refuse => CallDecision::Refuse(REPEATED.to_owned()),
            Play::Answer(answer) => {
                self.turns.wait(&self.tape.words());
                let said = answer.message.text();
                if held.conversation == Some(0) && !said.trim().is_empty() {
                    said.trim().clone_into(&mut self.said);
                }
                self.answered = true;
                if let (Some(conversation), 1) = (held.conversation, held.tries) {
                    *self.taped.entry(conversation).or_default() += 1;
                }
                CallDecision::Answer(answer)
            }
            Play::Aside(answer) => CallDecision::Answer(answer),
        };
        // The client may have hung up while its turn was recorded.
        let _ = held.answer.send(decision);
    }

    /// Those of the exchanges that are not on record already.
    fn live(&mut self, exchanges: impl IntoIterator<Item = Exchange>) -> Vec<Exchange> {
        let mut is_taped = |exchange: &Exchange| match self.taped.get_mut(&exchange.conversation) {
            // What is beside the work mostly ends as a side call.
            _ if exchange.response.as_ref().is_some_and(|response| tape::is_aside(&response.message)) => true,
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        };
        exchanges.into_iter().filter(|exchange| !is_taped(exchange)).collect()
    }

    /// The tape is used up: before anything new is asked, the files are as they were then.
    async fn end_tape(&mut self) {
        if self.tape.is_empty() || !self.tape.is_over() || std::mem::replace(&mut self.is_restored, true) {
            return;
        }
        self.turns.stop_waiting();
        let tools: Vec<String> = self.tape.differing().map(|tool| format!("`{tool}`")).collect();
        let differs = (!tools.is_empty()).then(|| {
            WarningCode::ReplayDiffers.with(format!(
                "replayed from the record, these tools failed where they had not, or the other way round: {}",
                tools.join(", ")
            ))
        });
        let turn = Turn { repeats: true, warnings: differs.into_iter().collect(), ..Turn::default() };
        if self.turns.report(turn).await == TurnVerdict::Stop {
            self.stopped_by = self.stopped_by.or(Some(STOPPED));
        }
    }

    /// Forwards waiting calls one by one, as long as the budget has room for what they may take beside those in flight.
    /// A call that is alone needs no room: only what was spent counts. At a limit all are refused.
    async fn release_calls(
        &mut self,
        gateway: &Gateway,
        held_calls: &mut mpsc::UnboundedReceiver<HeldCall>,
    ) -> TurnVerdict {
        loop {
            let outstanding = gateway.outstanding();
            self.add_side_calls(outstanding.side_calls, outstanding.warnings);
            // `outstanding` was read before these calls: it may lack them, or count them twice.
            let mut is_old = false;
            while let Ok(held) = held_calls.try_recv() {
                self.take(held).await;
                is_old = true;
            }
            self.waiting.retain(|held| !held.answer.is_closed());
            if self.is_stopping && !self.waiting.is_empty() {
                self.stopped_by = self.stopped_by.or(Some(STOPPED));
            }
            if let Some(reason) = self.stopped_by {
                for held in self.waiting.drain(..) {
                    let _ = held.answer.send(CallDecision::Refuse(reason.to_owned()));
                }
                return TurnVerdict::Stop;
            }
            if is_old {
                continue;
            }
            if !self.waiting.is_empty() && !self.is_restored && !self.tape.is_empty() {
                self.end_tape().await;
                continue;
            }
            let failed = gateway.failed_calls().borrow().clone();
            // A call that waits beyond the limit is refused here; where none waits, the gateway has refused it itself.
            let too_many = self.max_failed_calls.saturating_add(u32::from(self.waiting.is_empty()));
            if failed.calls >= too_many {
                self.end_loop(gateway, failed).await;
                continue;
            }
            let Some(next) = self.waiting.front() else { return TurnVerdict::Go };
            if next.at_most.cost_usd.is_none() && !gateway.is_scripted() && self.turns.must_be_priced() {
                self.give_up(AgentError::Environment(price_unknown(&next.request.model)));
                continue;
            }
            let spent =
                self.side_calls.iter().map(Amount::of_side).fold(amount(outstanding.pending), |sum, call| sum + call);
            if spent != Amount::default() && !self.turns.allow(spent) {
                self.report_unreported(gateway).await;
                continue;
            }
            let all = outstanding.reserved.map(|reserved| spent + amount(reserved) + amount(next.at_most));
            if all.is_some_and(|all| !self.turns.allow(all)) && !self.may_overtake {
                return TurnVerdict::Go;
            }
            if let Some(next) = self.waiting.pop_front() {
                self.may_overtake = false;
                if failed.calls > 0 {
                    self.turns.wait(&format!("{}, retrying ({})", failed.words, failed.calls));
                }
                gateway.reserve(&next);
                let _ = next.answer.send(CallDecision::Forward);
            }
        }
    }

    /// The program asks again and again without an answer. It is ended, unless it has changed files meanwhile.
    async fn end_loop(&mut self, gateway: &Gateway, failed: FailedCalls) {
        let before = self.turns.writes();
        self.report_failures(gateway).await;
        let turn = self.turn_without_words();
        self.report(turn).await;
        if self.turns.writes() > before {
            return gateway.reset_failed_calls();
        }
        let why = failed.why.unwrap_or_else(LlmError::cancelled);
        let calls = counted(u64::from(failed.calls), "call");
        let message = format!(
            "{calls} in a row had no complete answer (`agents.*.max_failed_calls`), the last one \
             because {why}"
        );
        self.give_up(unanswered_error(why.class, message));
    }

    /// Reports at once what more than a few calls without a complete answer cost and said: the next turn may be far.
    /// Files that tools have written meanwhile belong to another turn.
    async fn report_failures(&mut self, gateway: &Gateway) {
        match gateway.failed_calls().borrow().calls {
            0 => return self.turns.stop_waiting(),
            1..=FEW => return,
            _ => {}
        }
        let broken = gateway.broken_off();
        let outstanding = gateway.outstanding();
        self.add_side_calls(outstanding.side_calls, outstanding.warnings);
        let turns: Vec<Turn> = self.live(broken).into_iter().map(|exchange| self.turn(exchange)).collect();
        let turn_without_words = (turns.is_empty() && !self.side_calls.is_empty()).then(|| self.turn_without_words());
        for turn in turns.into_iter().chain(turn_without_words) {
            self.report(Turn { writes: Some(Vec::new()), ..turn }).await;
        }
    }

    /// Ends the program, whose node fails for this reason.
    fn give_up(&mut self, why: AgentError) {
        self.given_up.get_or_insert(why);
        self.stopped_by = self.stopped_by.or(Some(GIVEN_UP));
    }

    /// Unreported spending that may have used up the budget is reported now, whatever still runs: a program cannot get
    /// one more call by leaving its turns open.
    async fn report_unreported(&mut self, gateway: &Gateway) {
        let rest = gateway.take_unreported();
        self.add_side_calls(rest.side_calls, rest.warnings);
        for exchange in self.live(rest.exchanges.into_iter().chain(rest.broken)) {
            let turn = self.turn(exchange);
            self.report(turn).await;
        }
        if !self.side_calls.is_empty() {
            let turn = self.turn_without_words();
            self.report(turn).await;
        }
    }

    fn add_side_calls(&mut self, spent: Vec<SideCall>, warnings: Vec<Warning>) {
        // What is answered here costs nothing.
        let is_paid = |call: &SideCall| call.token_usage != Usage::default() || self.tape.is_empty();
        self.side_calls.extend(spent.into_iter().filter(is_paid));
        self.warnings.extend(warnings);
    }

    async fn report(&mut self, turn: Turn) {
        self.reported += 1;
        let turn = self.with_side_calls(turn);
        if self.turns.report(turn).await == TurnVerdict::Stop {
            self.stopped_by = self.stopped_by.or(Some(STOPPED));
        }
    }

    /// The turn of an exchange.
    fn turn(&mut self, exchange: Exchange) -> Turn {
        let Exchange { conversation, opening, response, results, model, usage, cost_usd, estimated, broken_off } =
            exchange;
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
        if conversation == 0 && broken_off.is_none() && !said.trim().is_empty() {
            said.trim().clone_into(&mut self.said);
        }
        let mut messages: Vec<Message> = opening.into_iter().chain(answer).chain(results).collect();
        messages.iter_mut().for_each(|message| message.set_conversation(conversation));
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
            state_ref: self.state.get(),
            ..Turn::default()
        }
    }

    /// A turn for what belongs to none: spending on side calls, or a program that never asked.
    fn final_turn(&self) -> Option<Turn> {
        let nothing = self.side_calls.is_empty() && self.warnings.is_empty();
        if self.reported > 0 && nothing {
            return None;
        }
        Some(self.turn_without_words())
    }

    /// A turn without words.
    fn turn_without_words(&self) -> Turn {
        Turn { provider: self.provider.to_owned(), exact: true, state_ref: self.state.get(), ..Turn::default() }
    }

    /// The turn with its side calls and warnings.
    fn with_side_calls(&mut self, mut turn: Turn) -> Turn {
        turn.side_calls.append(&mut self.side_calls);
        turn.warnings.append(&mut self.warnings);
        turn
    }
}

fn amount(spent: CallCost) -> Amount {
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
