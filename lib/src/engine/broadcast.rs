//! Telling what happens to whoever listens. Nobody is waited for: each subscription keeps what it has not read yet.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, watch};

use crate::event::Notification;

/// Tells events to all subscriptions, in the order in which they happened. What is recorded is told once it is on disk.
#[derive(Debug, Clone, Default)]
pub struct Broadcast {
    listeners: Arc<Mutex<Vec<Subscriber>>>,
    /// Somebody wants to hear what agents say in turns that are not over.
    pub(super) words: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Subscriber {
    sender: mpsc::UnboundedSender<Notification>,
    /// How many events were sent.
    sent: u64,
    /// How many of them were dealt with.
    read: watch::Receiver<u64>,
}

/// What one listener has not read yet.
#[derive(Debug)]
pub struct Subscription {
    receiver: mpsc::UnboundedReceiver<Notification>,
    read: watch::Sender<u64>,
    /// An event was given out, and is dealt with when the next one is asked for.
    is_reading: bool,
}

impl Broadcast {
    /// Hears everything that is told from now on.
    pub fn subscribe(&self) -> Subscription {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (read, seen) = watch::channel(0);
        self.with(|listeners| listeners.push(Subscriber { sender, sent: 0, read: seen }));
        Subscription { receiver, read, is_reading: false }
    }

    /// Has it told what agents say in turns that are not over, too. Most do not want that, and it is costly to take secrets out
    /// of it twice.
    pub fn with_words(self) -> Self {
        self.words.store(true, Ordering::Relaxed);
        self
    }

    /// Tells something. A listener that is gone is forgotten.
    pub fn send(&self, told: Notification) {
        self.with(|listeners| {
            listeners.retain_mut(|listener| {
                listener.sent += 1;
                listener.sender.send(told.clone()).is_ok()
            });
        });
    }

    /// Waits until everybody who listens has dealt with all that was told so far: for whoever is about to speak to a person
    /// who should have seen it.
    pub async fn is_heard(&self) {
        let waited: Vec<(u64, watch::Receiver<u64>)> =
            self.with(|listeners| listeners.iter().map(|listener| (listener.sent, listener.read.clone())).collect());
        for (sent, mut read) in waited {
            // One that is gone is not waited for.
            let _ = read.wait_for(|read| *read >= sent).await;
        }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Vec<Subscriber>) -> T) -> T {
        look(&mut self.listeners.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Subscription {
    /// The next event. None when nobody is left who could tell one.
    pub async fn next(&mut self) -> Option<Notification> {
        self.dealt_with();
        let told = self.receiver.recv().await;
        self.is_reading = told.is_some();
        told
    }

    /// The next event, if there is one already.
    pub fn next_now(&mut self) -> Option<Notification> {
        self.dealt_with();
        let told = self.receiver.try_recv().ok();
        self.is_reading = told.is_some();
        told
    }

    fn dealt_with(&mut self) {
        if std::mem::take(&mut self.is_reading) {
            self.read.send_modify(|read| *read += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Recorded;
    use crate::event::WarningCode;

    fn told(text: &str) -> Notification {
        let event = WarningCode::Simulation.with(text.to_owned()).into();
        Notification { by: None, recorded: Arc::new(Recorded { at: jiff::Timestamp::UNIX_EPOCH, event }) }
    }

    #[tokio::test]
    async fn everybody_hears_everything_in_order_and_nobody_is_waited_for() {
        let broadcast = Broadcast::default();
        let (mut first, mut second) = (broadcast.subscribe(), broadcast.subscribe());
        let all: Vec<Notification> = (0..1000).map(|number| told(&number.to_string())).collect();
        all.iter().cloned().for_each(|one| broadcast.send(one));
        for one in &all {
            assert_eq!(first.next().await.as_ref(), Some(one));
        }
        drop(first);
        broadcast.send(told("last"));
        assert_eq!(std::iter::from_fn(|| second.next_now()).count(), 1001);
        drop(broadcast);
        assert_eq!(second.next().await, None);
    }

    #[tokio::test]
    async fn an_event_counts_as_heard_at_the_next_request() {
        let broadcast = Broadcast::default();
        let mut listener = broadcast.subscribe();
        broadcast.is_heard().await;
        broadcast.send(told("one"));
        let heard = broadcast.clone();
        let waits = tokio::spawn(async move { heard.is_heard().await });
        assert!(listener.next_now().is_some());
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        assert_eq!(listener.next_now(), None);
        waits.await.expect("it is heard");
        broadcast.send(told("two"));
        drop(listener);
        broadcast.is_heard().await;
    }
}
