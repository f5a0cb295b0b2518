//! Asks running work to end, in two steps.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::watch;

/// How urgent the request to end is. It only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CancelLevel {
    Running,
    Stop,
    Kill,
}

#[derive(Debug, Clone, Copy)]
struct CancelRequest {
    level: CancelLevel,
    cancelled: bool,
}

/// Asks everything that holds the matching [`Cancel`] to end.
#[derive(Debug, Clone)]
pub struct Canceller(watch::Sender<CancelRequest>);

impl Canceller {
    /// Asks to start nothing new and to finish writing; running commands continue.
    pub fn stop(&self) {
        self.raise(CancelLevel::Stop);
    }

    /// Asks for the same, and for no later resume either.
    pub fn cancel(&self) {
        self.0.send_modify(|request| request.cancelled = true);
        self.stop();
    }

    /// Asks to end running commands as well.
    pub fn kill(&self) {
        self.raise(CancelLevel::Kill);
    }

    fn raise(&self, to: CancelLevel) {
        self.0.send_if_modified(|request| {
            let higher = to > request.level;
            request.level = to.max(request.level);
            higher
        });
    }
}

/// Whether work should end; cheap to clone. Without a living [`Canceller`] it never changes.
#[derive(Debug, Clone)]
pub struct Cancel {
    own: watch::Receiver<CancelRequest>,
    /// The parent it ends with.
    above: Option<Arc<Cancel>>,
}

impl Cancel {
    /// A connected pair of sender and receiver.
    pub fn new() -> (Canceller, Self) {
        Self::within(None)
    }

    /// A pair for a part of the work, which also ends with its parent.
    pub fn child(&self) -> (Canceller, Self) {
        Self::within(Some(Arc::new(self.clone())))
    }

    fn within(above: Option<Arc<Self>>) -> (Canceller, Self) {
        let (sender, own) = watch::channel(CancelRequest { level: CancelLevel::Running, cancelled: false });
        (Canceller(sender), Self { own, above })
    }

    /// A `Cancel` that is never raised.
    pub fn never() -> Self {
        Self::new().1
    }

    /// Whether a stop or more was requested.
    pub fn is_stopped(&self) -> bool {
        self.is(|request| request.level >= CancelLevel::Stop)
    }

    /// Whether a kill was requested.
    pub fn is_killed(&self) -> bool {
        self.is(|request| request.level >= CancelLevel::Kill)
    }

    /// Whether stopped work must not be resumed.
    pub fn is_cancelled(&self) -> bool {
        self.is(|request| request.cancelled)
    }

    fn is(&self, asked: fn(&CancelRequest) -> bool) -> bool {
        asked(&self.own.borrow()) || self.above.as_ref().is_some_and(|above| above.is(asked))
    }

    /// Waits until a stop or more is requested.
    pub async fn stopped(&self) {
        self.reached(CancelLevel::Stop).await;
    }

    /// Waits until a kill is requested.
    pub async fn killed(&self) {
        self.reached(CancelLevel::Kill).await;
    }

    fn reached(&self, wanted: CancelLevel) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let mut own = self.own.clone();
            let own = async move {
                if own.wait_for(|request| request.level >= wanted).await.is_err() {
                    // No sender is left.
                    std::future::pending::<()>().await;
                }
            };
            match &self.above {
                None => own.await,
                Some(above) => tokio::select! {
                    () = own => {}
                    () = above.reached(wanted) => {}
                },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stop_is_not_a_kill() {
        let (canceller, cancel) = Cancel::new();
        assert!(!cancel.is_stopped());
        canceller.stop();
        cancel.stopped().await;
        assert!(cancel.is_stopped() && !cancel.is_killed() && !cancel.is_cancelled());
    }

    #[tokio::test]
    async fn a_cancel_stops_and_does_not_kill() {
        let (canceller, cancel) = Cancel::new();
        canceller.stop();
        canceller.cancel();
        cancel.stopped().await;
        assert!(cancel.is_cancelled() && !cancel.is_killed());
    }

    #[tokio::test]
    async fn the_level_only_grows() {
        let (canceller, cancel) = Cancel::new();
        canceller.kill();
        canceller.stop();
        cancel.stopped().await;
        cancel.killed().await;
        assert!(cancel.is_killed());
    }

    #[tokio::test]
    async fn a_waiter_wakes_and_one_without_canceller_does_not() {
        let (canceller, cancel) = Cancel::new();
        let waiter = tokio::spawn({
            let cancel = cancel.clone();
            async move { cancel.killed().await }
        });
        canceller.clone().kill();
        waiter.await.expect("the waiter ends");

        let never = Cancel::never();
        tokio::select! {
            biased;
            () = never.stopped() => panic!("nobody asked"),
            () = tokio::task::yield_now() => {}
        }
    }

    #[tokio::test]
    async fn a_part_ends_with_the_whole_and_alone() {
        let (whole, cancel) = Cancel::new();
        let ((one, first), (_other, second)) = (cancel.child(), cancel.child());
        one.cancel();
        first.stopped().await;
        assert!(first.is_cancelled() && !second.is_stopped() && !cancel.is_stopped());
        whole.kill();
        second.killed().await;
        assert!(first.is_killed() && !second.is_cancelled());
    }
}
