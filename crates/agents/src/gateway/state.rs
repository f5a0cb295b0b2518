//! What all connections of a gateway share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::sync::watch::{Receiver, Sender};

use super::conversations::Conversations;
use super::exchange::{CallCost, HeldCall};
use super::failed_calls::{FailedCalls, NOT_FORWARDED};
use super::intake::BodyMemory;
use super::scripted::Facts;
use super::upstream::Upstream;
use crate::llm::{ErrorClass, LlmError, ModelNames, Pricing};
use pleach_core::event::Usage;

/// The calls in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flights {
    /// All of them.
    pub(super) all: usize,
    /// Those whose client has gone: they are only read for their cost.
    pub(super) abandoned: usize,
}

impl Flights {
    /// How many a client waits for.
    pub fn awaited(self) -> usize {
        self.all.saturating_sub(self.abandoned)
    }
}

/// What all calls through a gateway have cost, also when it is closed.
#[derive(Debug, Clone)]
pub struct UsageMeter(pub(super) Arc<GatewayState>);

impl UsageMeter {
    /// What was spent up to now.
    pub fn total(&self) -> CallCost {
        self.0.conversations().total()
    }

    /// How long no call has begun or ended; zero while a client waits for one.
    pub fn silence(&self) -> Duration {
        match self.0.flights.borrow().awaited() {
            0 => self.0.touched().elapsed(),
            _ => Duration::ZERO,
        }
    }
}

/// What all connections of a gateway share.
#[derive(Debug)]
pub(super) struct GatewayState {
    pub(super) secret: String,
    pub(super) upstream: Upstream,
    pub(super) facts: Facts,
    pub(super) arrivals: mpsc::UnboundedSender<HeldCall>,
    pub(super) conversations: Mutex<Conversations>,
    /// Where requests are held.
    pub(super) memory: BodyMemory,
    /// The calls in flight.
    pub(super) flights: Sender<Flights>,
    /// The calls that ended without a complete answer.
    pub(super) failed_calls: Sender<FailedCalls>,
    /// When a call last began or ended, or the gateway opened.
    pub(super) touched: Mutex<Instant>,
    /// Closed when all connections are to be closed.
    pub(super) closing: Receiver<()>,
    /// Why no more calls are forwarded.
    pub(super) closed: Mutex<Option<String>>,
}

impl GatewayState {
    pub(super) fn conversations(&self) -> MutexGuard<'_, Conversations> {
        self.conversations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn touched(&self) -> MutexGuard<'_, Instant> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn closed(&self) -> Option<String> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Refuses a model call, for this reason.
    pub(super) fn refuse_request(&self, why: LlmError) {
        self.conversations().refuse_request(why.clone());
        self.failed_calls.send_modify(|failed_calls| failed_calls.fail(true, NOT_FORWARDED.to_owned(), why));
    }

    /// A request that is not forwarded. Programs make such requests beside their work; one without any work in progress
    /// is failing.
    pub(super) fn refuse_unknown(&self, why: &str) {
        if self.conversations().is_at_work() || self.flights.borrow().awaited() > 0 {
            return;
        }
        let why = LlmError::new(ErrorClass::Terminal, why);
        self.failed_calls.send_modify(|failed_calls| failed_calls.fail(false, NOT_FORWARDED.to_owned(), why));
    }

    pub(super) fn spent(&self, model: ModelNames<'_>, usage: Usage) -> CallCost {
        let estimated = self.upstream.pricing(model) == Pricing::Estimated;
        CallCost { usage, cost_usd: self.upstream.cost(model, &usage), estimated }
    }
}
