//! What calls in flight may take: it counts as spent until what they took is known, so that no limit is passed by many
//! at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::gateway::exchange::CallCost;
use pleach_core::event::Usage;

/// A call in flight.
#[derive(Debug)]
struct Reservation {
    /// What it may take; none as long as it is held.
    reserved: Option<CallCost>,
    /// What its provider says that it has taken already.
    counted: CallCost,
    /// Whether its client has yet to read the next piece.
    is_unread: Arc<AtomicBool>,
}

/// The calls in flight, with what they may take.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Reservations {
    /// How many calls there were.
    calls: u64,
    /// Those in flight, by their numbers.
    under_way: BTreeMap<u64, Reservation>,
    /// The most that a request and an answer had up to now.
    most: Usage,
}

impl Reservations {
    /// A number for a call.
    pub(in crate::gateway) fn number(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    /// The most that a request and an answer had up to now.
    pub(in crate::gateway) fn most(&self) -> Usage {
        self.most
    }

    /// A provider has said what a call took.
    pub(in crate::gateway) fn learn(&mut self, usage: Usage) {
        self.most.input = self.most.input.max(usage.total().saturating_sub(usage.output));
        self.most.output = self.most.output.max(usage.output);
    }

    /// A call is held. Returns the flag its relay sets while a piece is unread.
    pub(in crate::gateway) fn hold(&mut self, call: u64) -> Arc<AtomicBool> {
        let is_unread = Arc::new(AtomicBool::new(false));
        self.under_way.insert(
            call,
            Reservation { reserved: None, counted: CallCost::default(), is_unread: Arc::clone(&is_unread) },
        );
        is_unread
    }

    /// A call is forwarded, and may take this. One that is over already takes nothing.
    pub(in crate::gateway) fn reserve(&mut self, call: u64, spent: CallCost) {
        if let Some(known) = self.under_way.get_mut(&call) {
            known.reserved = Some(spent);
        }
    }

    /// A provider has said what a call has taken up to now, and with that what it may take at most.
    pub(in crate::gateway) fn counted(&mut self, call: u64, spent: CallCost, at_most: CallCost) {
        if let Some(known) = self.under_way.get_mut(&call) {
            known.counted = spent;
            known.reserved = known.reserved.and(Some(at_most));
        }
    }

    /// What the calls in flight have taken up to now, as far as that is known.
    pub(super) fn counted_so_far(&self) -> CallCost {
        self.under_way.values().fold(CallCost::default(), |mut sum, call| {
            sum += call.counted;
            sum
        })
    }

    /// What a call took is known.
    pub(in crate::gateway) fn release(&mut self, call: u64) {
        self.under_way.remove(&call);
    }

    /// What the forwarded calls may take; none when there are no such calls.
    pub(in crate::gateway) fn reserved(&self) -> Option<CallCost> {
        self.under_way.values().filter_map(|call| call.reserved).reduce(|mut sum, call| {
            sum += call;
            sum
        })
    }

    /// Whether every forwarded call waits for its client to read.
    pub(in crate::gateway) fn is_unread(&self) -> bool {
        let mut through = self.under_way.values().filter(|call| call.reserved.is_some());
        through.all(|call| call.is_unread.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(output: u64) -> CallCost {
        CallCost { usage: Usage { output, ..Usage::default() }, cost_usd: Some(0.5), estimated: false }
    }

    #[test]
    fn reservations_last_until_calls_are_over() {
        let mut reservations = Reservations::default();
        let (one, two) = (reservations.number(), reservations.number());
        let reads = [one, two].map(|call| reservations.hold(call));
        assert_eq!(reservations.reserved(), None, "nothing is let through");
        reservations.reserve(one, spent(10));
        reservations.reserve(two, spent(5));
        let both = reservations.reserved().unwrap();
        assert_eq!((both.usage.output, both.cost_usd), (15, Some(1.0)));
        reads[0].store(true, Ordering::Relaxed);
        assert!(!reservations.is_unread(), "the other goes on");
        reservations.release(two);
        assert!(reservations.is_unread() && reservations.reserved() == Some(spent(10)));
        reservations.reserve(two, spent(5));
        assert_eq!(reservations.reserved(), Some(spent(10)), "its client has gone before it was let through");
    }
}
