//! Sessions and trees that go on by themselves, while somebody hears what is told of them.

use tokio::task::JoinHandle;

use super::Subscription;
use crate::event::Notification;

/// Something that goes on by itself, and what is told of it.
#[derive(Debug)]
pub struct SpawnedRun<T> {
    events: Subscription,
    work: JoinHandle<T>,
}

impl<T> SpawnedRun<T> {
    /// Lets work go on by itself.
    pub(super) fn new(events: Subscription, work: impl Future<Output = T> + Send + 'static) -> Self
    where
        T: Send + 'static,
    {
        Self { events, work: tokio::spawn(work) }
    }

    /// Hears what is told until it has ended. However slowly that is shown, the work goes on.
    pub async fn follow(self, mut hear: impl FnMut(&Notification)) -> T {
        let Self { mut events, mut work } = self;
        let ended = loop {
            tokio::select! {
                biased;
                Some(told) = events.next() => hear(&told),
                ended = &mut work => break ended,
            }
        };
        while let Some(told) = events.next_now() {
            hear(&told);
        }
        match ended {
            Ok(ended) => ended,
            Err(broken) => std::panic::resume_unwind(broken.into_panic()),
        }
    }
}
