//! Sessions and trees that go on by themselves, while somebody hears what is told of them.

use tokio::task::JoinHandle;

use super::tree::{self, TreeEnded, TreeRun};
use super::{Ended, Error, Session, Subscription};
use crate::event::Notification;

/// Something that goes on by itself, and what is told of it.
#[derive(Debug)]
pub struct SpawnedRun<T> {
    events: Subscription,
    work: JoinHandle<T>,
}

impl<T> SpawnedRun<T> {
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

impl Session {
    /// Runs by itself until the pipeline ends or pauses.
    pub fn spawn(mut self) -> SpawnedRun<(Self, Result<Ended, Error>)> {
        let events = self.events();
        let work = tokio::spawn(async move {
            let ended = self.run().await;
            (self, ended)
        });
        SpawnedRun { events, work }
    }
}

impl TreeRun {
    /// Runs by itself until the tree is done or nothing more can be done.
    pub fn spawn(mut self) -> SpawnedRun<(Self, Result<TreeEnded, tree::Error>)> {
        let events = self.events();
        let work = tokio::spawn(async move {
            let ended = self.run().await;
            (self, ended)
        });
        SpawnedRun { events, work }
    }
}
