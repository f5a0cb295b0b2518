//! Publishes events to subscribers. Publishing never blocks: each subscription queues its unread events.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, watch};

use pleach_core::event::Notification;

/// Sends events to all subscriptions in order. A recorded event is sent once it is on disk.
#[derive(Debug, Clone, Default)]
pub struct Broadcast {
    listeners: Arc<Mutex<Vec<Subscriber>>>,
    /// Some subscriber wants the messages of unfinished agent turns.
    pub(super) words: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Subscriber {
    sender: mpsc::UnboundedSender<Notification>,
    /// Number of events sent.
    sent: u64,
    /// Number of events the subscriber has handled.
    read: watch::Receiver<u64>,
}

/// The unread events of one subscriber.
#[derive(Debug)]
pub struct Subscription {
    receiver: mpsc::UnboundedReceiver<Notification>,
    read: watch::Sender<u64>,
    /// The last event was handed out; it counts as handled when the next one is requested.
    is_reading: bool,
}

impl Broadcast {
    /// Subscribes to all events sent from now on.
    pub fn subscribe(&self) -> Subscription {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (read, seen) = watch::channel(0);
        self.with(|listeners| listeners.push(Subscriber { sender, sent: 0, read: seen }));
        Subscription { receiver, read, is_reading: false }
    }

    /// Also publishes the messages of unfinished agent turns. This is off by default: few subscribers want it, and
    /// redacting secrets twice is expensive.
    pub fn with_words(self) -> Self {
        self.words.store(true, Ordering::Relaxed);
        self
    }

    /// Whether anybody has subscribed.
    pub(crate) fn is_followed(&self) -> bool {
        self.with(|listeners| !listeners.is_empty())
    }

    /// Sends an event. Closed subscriptions are dropped.
    pub fn send(&self, notification: Notification) {
        self.with(|listeners| {
            listeners.retain_mut(|listener| {
                listener.sent += 1;
                listener.sender.send(notification.clone()).is_ok()
            });
        });
    }

    /// Waits until every subscriber has handled all events sent so far. Callers use this before they prompt a person
    /// who should have seen those events.
    pub async fn is_heard(&self) {
        let waited: Vec<(u64, watch::Receiver<u64>)> =
            self.with(|listeners| listeners.iter().map(|listener| (listener.sent, listener.read.clone())).collect());
        for (sent, mut read) in waited {
            // A closed subscription is not waited for.
            let _ = read.wait_for(|read| *read >= sent).await;
        }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Vec<Subscriber>) -> T) -> T {
        look(&mut self.listeners.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Subscription {
    /// The next event, or `None` once every sender is gone.
    pub async fn next(&mut self) -> Option<Notification> {
        self.dealt_with();
        let notification = self.receiver.recv().await;
        self.is_reading = notification.is_some();
        notification
    }

    /// The next event if one is already queued.
    pub fn next_now(&mut self) -> Option<Notification> {
        self.dealt_with();
        let notification = self.receiver.try_recv().ok();
        self.is_reading = notification.is_some();
        notification
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
    use pleach_core::event::{Recorded, WarningCode};

    fn notification(text: &str) -> Notification {
        let event = WarningCode::Simulation.with(text.to_owned()).into();
        Notification { by: None, recorded: Arc::new(Recorded { at: jiff::Timestamp::UNIX_EPOCH, event }) }
    }

    #[tokio::test]
    async fn everybody_hears_everything_in_order_and_nobody_is_waited_for() {
        let broadcast = Broadcast::default();
        let (mut first, mut second) = (broadcast.subscribe(), broadcast.subscribe());
        let all: Vec<Notification> = (0..1000).map(|number| notification(&number.to_string())).collect();
        all.iter().cloned().for_each(|one| broadcast.send(one));
        for one in &all {
            assert_eq!(first.next().await.as_ref(), Some(one));
        }
        drop(first);
        broadcast.send(notification("last"));
        assert_eq!(std::iter::from_fn(|| second.next_now()).count(), 1001);
        drop(broadcast);
        assert_eq!(second.next().await, None);
    }

    #[tokio::test]
    async fn an_event_counts_as_heard_at_the_next_request() {
        let broadcast = Broadcast::default();
        let mut listener = broadcast.subscribe();
        broadcast.is_heard().await;
        broadcast.send(notification("one"));
        let heard = broadcast.clone();
        let waits = tokio::spawn(async move { heard.is_heard().await });
        assert!(listener.next_now().is_some());
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        assert_eq!(listener.next_now(), None);
        waits.await.expect("it is heard");
        broadcast.send(notification("two"));
        drop(listener);
        broadcast.is_heard().await;
    }
}
