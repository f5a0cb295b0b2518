//! Relays an answer from the provider to the client chunk by chunk, and reads it in passing.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime::Handle;

use super::estimate::{Length, taken};
use super::exchange::CallCost;
use super::failed_calls::NOT_FORWARDED;
use super::state::GatewayState;
use super::watch::{AnswerOutcome, BROKE_OFF, Watcher};
use crate::llm::{ErrorClass, HttpAnswer, HttpError, LlmError, ModelNames, Response, price_estimated};
use os::deadline::Deadline;
use pleach_core::event::Usage;

/// How long an answer is read after its client has gone: its cost comes at its end. Of one that takes longer, what has
/// come counts.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the token counts are waited for once the answer is complete.
const AFTERTHOUGHT: Duration = Duration::from_secs(2);

/// A call in flight. However it ends, its conversation is notified: at the latest when this is dropped.
#[derive(Debug)]
pub(super) struct Flight {
    shared: Arc<GatewayState>,
    /// Its number in its conversation; none for side calls.
    number: Option<u64>,
    /// The call while it is in flight; none for what costs nothing.
    call: Option<BilledCall>,
    /// The model that was asked.
    model: String,
    /// What was counted when the answer was whole.
    reported: Option<CallCost>,
    /// Whether it gave a conversation a complete answer.
    is_answer: bool,
    /// Why there is no answer, in short and in full.
    failure: Option<(String, LlmError)>,
    /// Its length; none before it goes to a provider, or where it costs nothing.
    length: Option<Length>,
    /// Until when it is read on, once its client has gone.
    unheard_until: Option<Deadline>,
    /// Whether it already counts as unanswered, whatever may still come.
    is_given_up: bool,
    over: bool,
}

/// A call that may cost something.
#[derive(Debug)]
pub(super) struct BilledCall {
    /// Its number.
    pub number: u64,
    /// How many tokens its answer may have.
    pub bound: u64,
    /// Set while its client has yet to read the next piece of the answer.
    pub is_unread: Arc<AtomicBool>,
}

impl Flight {
    pub(super) fn new(shared: Arc<GatewayState>, number: Option<u64>, call: Option<BilledCall>, model: String) -> Self {
        *shared.touched() = Instant::now();
        // What costs nothing is not waited for.
        shared.flights.send_modify(|flights| flights.all += usize::from(call.is_some()));
        Self {
            shared,
            number,
            call,
            model,
            reported: None,
            is_answer: false,
            failure: None,
            length: None,
            unheard_until: None,
            is_given_up: false,
            over: false,
        }
    }

    /// The call goes to a provider, with a request of so many bytes. `is_whole` says that its answer comes in one
    /// piece.
    pub(super) fn sends(&mut self, bytes: usize, is_whole: bool) {
        let unseen = self.call.as_ref().filter(|_| is_whole).map_or(0, |call| call.bound);
        self.length = Some(Length { sent: bytes as u64, received: 0, unseen });
    }

    /// Until all connections are to be closed.
    pub(super) fn closing(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut closing = self.shared.closing.clone();
        // No value is ever sent.
        async move { while closing.changed().await.is_ok() {} }
    }

    /// The client has gone, before its answer was whole or after. A call without an answer counts now, not when the
    /// rest has come: its client may retry at once. Returns until when the rest is read.
    pub(super) fn hang_up(&mut self, is_whole: bool) -> Deadline {
        if let Some(until) = self.unheard_until {
            return until;
        }
        let until = Deadline::after(PATIENCE);
        self.unheard_until = Some(until);
        self.shared.flights.send_modify(|flights| flights.abandoned += usize::from(self.call.is_some()));
        if !is_whole {
            self.count(false, self.number.is_some());
            self.is_given_up = true;
        }
        until
    }

    /// The provider reports what the call has taken so far.
    fn counted(&self, usage: Usage) {
        let Some(call) = &self.call else { return };
        let spent = |usage| self.shared.spent(ModelNames::asked(&self.model), usage);
        let at_most = Usage { output: usage.output.max(call.bound), ..usage };
        self.shared.conversations().reservations.counted(call.number, spent(usage), spent(at_most));
    }

    /// Whether the client has to read on.
    fn set_unread(&self, is_unread: bool) {
        if let Some(call) = &self.call {
            call.is_unread.store(is_unread, Ordering::Relaxed);
        }
    }

    /// Whether the provider has said what it took.
    fn is_counted(&self) -> bool {
        self.reported.is_some_and(|reported| reported.usage.total() > 0)
    }

    /// So many bytes of words have come back.
    fn received(&mut self, bytes: u64) {
        if let Some(length) = &mut self.length {
            length.received = bytes;
        }
    }

    /// The answer is complete. The client may ask its next question from now on, or leave, so this is reported at once;
    /// and again when what comes after it says more about its cost.
    fn answered(&mut self, response: Response) {
        let Some(number) = self.number else { return };
        let spent = self.spent(&response);
        let before = self.reported.replace(spent);
        if before == Some(spent) {
            return;
        }
        let mut conversations = self.shared.conversations();
        match before {
            None => self.is_answer = conversations.answered(number, response, spent),
            Some(_) => {
                conversations.finish_call(number, AnswerOutcome::Whole(Box::new(response)), spent, before);
            }
        }
        if self.is_counted() {
            self.call.iter().for_each(|call| conversations.reservations.release(call.number));
            drop(conversations);
            // Somebody may wait for this.
            self.shared.flights.send_modify(|_| {});
        }
    }

    /// The provider refuses, or does not answer, for this reason. `words` say it in short.
    pub(super) fn unanswered(&mut self, words: String, why: LlmError) {
        if let Some(number) = self.number.filter(|_| self.reported.is_none()) {
            self.shared.conversations().failed(number, why.clone());
        }
        self.failure = Some((words, why));
    }

    /// The call cannot be forwarded, for this reason.
    pub(super) fn not_forwarded(&mut self, why: &str) {
        self.unanswered(NOT_FORWARDED.to_owned(), LlmError::new(ErrorClass::Terminal, why));
    }

    /// The call is refused, for this reason. That says nothing of the model.
    pub(super) fn refused(&mut self, why: &str) {
        let why = || (NOT_FORWARDED.to_owned(), LlmError::new(ErrorClass::Terminal, why));
        self.failure.get_or_insert_with(why);
    }

    /// The provider's answer ends before it is whole; this is what arrived of it.
    fn broke_off(&mut self, arrived: Option<Response>, why: &str) {
        if let Some((number, arrived)) = self.number.filter(|_| self.reported.is_none()).zip(arrived) {
            self.shared.conversations().broke_off(number, arrived, why);
        }
        let why = match why {
            BROKE_OFF => "the provider's answer broke off".to_owned(),
            why => format!("the provider's answer broke off: {why}"),
        };
        self.unanswered("the provider's answers break off".to_owned(), LlmError::new(ErrorClass::Cut, why));
    }

    /// The answer cannot be read.
    pub(super) fn unreadable(&mut self, why: &str) {
        let why = LlmError::new(ErrorClass::Cut, format!("the provider's answer cannot be read: {why}"));
        self.unanswered("the provider's answers cannot be read".to_owned(), why);
    }

    /// Counts the calls that have no complete answer. `in_conversation` says that a conversation waited for this one.
    fn count(&mut self, is_whole: bool, in_conversation: bool) {
        let failure = self.failure.take();
        // What costs nothing is no call of a model.
        if self.call.is_none() || self.is_given_up {
            return;
        }
        self.shared.failed_calls.send_if_modified(|failed_calls| {
            if is_whole {
                return failed_calls.succeed(in_conversation);
            }
            let hung_up = || {
                let why = "the agent hung up before the answer was whole";
                ("the agent hangs up".to_owned(), LlmError::new(ErrorClass::Cut, why))
            };
            let (words, why) = failure.unwrap_or_else(hung_up);
            failed_calls.fail(in_conversation, words, why);
            true
        });
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self, outcome: AnswerOutcome) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let is_whole = matches!(outcome, AnswerOutcome::Whole(_) | AnswerOutcome::Counted(..));
        let answered = match &outcome {
            AnswerOutcome::Whole(response) => response.model.clone(),
            _ => String::new(),
        };
        let (usage, estimated) = taken(&outcome, self.length);
        let named = ModelNames { asked: &self.model, answered: &answered };
        let mut spent = match outcome {
            AnswerOutcome::Refused(..) => CallCost::default(),
            _ => self.shared.spent(named, usage),
        };
        let model = if answered.is_empty() { self.model.clone() } else { answered };
        let mut conversations = self.shared.conversations();
        if spent.estimated {
            conversations.spending.warn(price_estimated(&model));
        }
        spent.estimated |= estimated;
        if estimated {
            conversations.spending.estimated(&model)
        } else {
            conversations.reservations.learn(usage)
        }
        self.call.iter().for_each(|call| conversations.reservations.release(call.number));
        let is_awaited = match self.number {
            Some(number) => conversations.finish_call(number, outcome, spent, self.reported),
            None => {
                conversations.finish_side_call(&model, spent);
                false
            }
        };
        drop(conversations);
        *self.shared.touched() = Instant::now();
        self.count(is_whole, is_awaited || self.is_answer);
        let (one, abandoned) = (usize::from(self.call.is_some()), self.unheard_until.is_some());
        self.shared.flights.send_modify(|flights| {
            flights.all -= one;
            flights.abandoned -= if abandoned { one } else { 0 };
        });
    }

    fn spent(&self, response: &Response) -> CallCost {
        self.shared.spent(ModelNames { asked: &self.model, answered: &response.model }, response.usage)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.finish(AnswerOutcome::Cut(Usage::default(), "the client hung up".into()));
    }
}

/// An answer on its way to its client. It is read to the end even if the client has gone.
#[derive(Debug)]
pub(super) struct Relay(Option<AnswerListener>);

/// An answer as it comes.
#[derive(Debug)]
struct AnswerListener {
    answer: HttpAnswer,
    watcher: Option<Watcher>,
    flight: Flight,
}

impl Relay {
    pub(super) fn new(answer: HttpAnswer, watcher: Watcher, flight: Flight) -> Self {
        Self(Some(AnswerListener { answer, watcher: Some(watcher), flight }))
    }

    /// The next piece; none at the end.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, HttpError>>> {
        let Some(listening) = &mut self.0 else { return Poll::Ready(None) };
        let polled = listening.poll(context);
        listening.flight.set_unread(polled.is_ready());
        polled
    }
}

impl Drop for Relay {
    /// The answer is paid for even if the client goes before its end.
    fn drop(&mut self) {
        let Some(mut listening) = self.0.take().filter(AnswerListener::awaits_usage) else { return };
        listening.flight.set_unread(false);
        listening.flight.hang_up(listening.watcher.as_ref().is_some_and(Watcher::is_done));
        // Without a runtime everything ends, and what has come until then counts.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { listening.read_to_end().await });
        }
    }
}

impl AnswerListener {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, HttpError>>> {
        self.answer.poll_chunk(context).map(|piece| match piece {
            Ok(Some(piece)) => {
                self.read(&piece);
                Some(Ok(piece))
            }
            Ok(None) => {
                self.finish(true);
                None
            }
            Err(error) => {
                self.finish(false);
                Some(Err(error))
            }
        })
    }

    fn read(&mut self, piece: &[u8]) {
        let Some(watcher) = &mut self.watcher else { return };
        watcher.push(piece);
        watcher.newly_counted().into_iter().for_each(|usage| self.flight.counted(usage));
        if watcher.is_complete() {
            self.finish(true);
        } else if watcher.is_done() {
            watcher.answer().into_iter().for_each(|response| self.flight.answered(response));
        }
    }

    /// Whether the cost of the call is still to come.
    fn awaits_usage(&self) -> bool {
        let Some(watcher) = self.watcher.as_ref().filter(|_| self.flight.length.is_some()) else { return false };
        !(watcher.is_refusal() || watcher.is_done() && self.flight.is_counted())
    }

    /// Reads on to the end without a client, for the cost of the call.
    async fn read_to_end(&mut self) {
        let closing = self.flight.closing();
        tokio::pin!(closing);
        let mut until = self.flight.hang_up(false);
        while self.awaits_usage() {
            if self.watcher.as_ref().is_some_and(Watcher::is_done) && until.left() > AFTERTHOUGHT {
                until = Deadline::after(AFTERTHOUGHT);
            }
            let piece = tokio::select! {
                biased;
                () = &mut closing => return,
                () = until.reached() => return,
                piece = poll_fn(|context| self.poll(context)) => piece,
            };
            if !matches!(piece, Some(Ok(_))) {
                return;
            }
        }
    }

    /// Nothing more comes from the provider. `ended` says that it said so.
    fn finish(&mut self, ended: bool) {
        self.conclude(ended, true);
    }

    /// Nothing more is read. `by_provider` says that the provider ended it.
    fn conclude(&mut self, ended: bool, by_provider: bool) {
        let Some(watcher) = self.watcher.take() else { return };
        self.flight.received(watcher.received());
        let arrived = watcher.arrived();
        let outcome = watcher.finish(ended);
        match &outcome {
            AnswerOutcome::Refused(status, text) => {
                let why = self.flight.shared.upstream.refusal(&self.flight.model, *status, text);
                self.flight.unanswered(status_words(*status), why);
            }
            AnswerOutcome::Cut(_, why) if by_provider => self.flight.broke_off(arrived, why),
            AnswerOutcome::Unreadable(_, why) => self.flight.unreadable(why),
            AnswerOutcome::Whole(_) | AnswerOutcome::Counted(..) | AnswerOutcome::Cut(..) => {}
        }
        self.flight.finish(outcome);
    }
}

/// What a provider does that says no.
pub(super) fn status_words(status: u16) -> String {
    format!("provider answers {status}")
}

impl Drop for AnswerListener {
    /// Reading ends here; what it has cost by then counts.
    fn drop(&mut self) {
        self.conclude(false, false);
    }
}
