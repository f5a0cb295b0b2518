//! Sessions and trees that run in the background while the caller follows their events.

use tokio::task::JoinHandle;

use super::Subscription;
use pleach_core::event::Notification;

/// A background run and its events.
#[derive(Debug)]
pub struct SpawnedRun<T> {
    events: Subscription,
    work: JoinHandle<T>,
}

impl<T> SpawnedRun<T> {
    /// Spawns the work.
    pub(crate) fn new(events: Subscription, work: impl Future<Output = T> + Send + 'static) -> Self
    where
        T: Send + 'static,
    {
        Self { events, work: tokio::spawn(work) }
    }

    /// Calls `hear` for each event until the run has ended. A slow callback does not slow the run down.
    pub async fn follow(self, mut hear: impl FnMut(&Notification)) -> T {
        let Self { mut events, mut work } = self;
        let ended = loop {
            tokio::select! {
                biased;
                Some(notification) = events.next() => hear(&notification),
                ended = &mut work => break ended,
            }
        };
        while let Some(notification) = events.next_now() {
            hear(&notification);
        }
        match ended {
            Ok(ended) => ended,
            Err(broken) => std::panic::resume_unwind(broken.into_panic()),
        }
    }
}
