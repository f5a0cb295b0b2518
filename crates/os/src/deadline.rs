//! The deadlines of time limits.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the time is looked at to notice a stop.
const TICK: Duration = Duration::from_millis(100);

/// A longer time without a look was a stop: no more than this of it counts.
const GAP: Duration = Duration::from_millis(500);

/// The end of a time limit. It is measured in time in which this process runs: none passes while it is stopped, as by
/// Ctrl-Z, or its machine sleeps, or everything would be over its limit as soon as it continues.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    begun: Instant,
    /// What the process had been stopped for by then.
    stopped: Duration,
    limit: Duration,
}

impl Deadline {
    /// That of a limit which begins now.
    pub fn after(limit: Duration) -> Self {
        Self { begun: Instant::now(), stopped: stopped(), limit }
    }

    /// What is left of the limit.
    pub fn left(&self) -> Duration {
        // In this order: a stop between the two makes the time that passed less, never more.
        let elapsed = self.begun.elapsed();
        self.limit.saturating_sub(elapsed.saturating_sub(self.stopped()))
    }

    /// Whether it has come.
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// Waits for it.
    pub async fn reached(&self) {
        loop {
            match self.left() {
                Duration::ZERO => return,
                left => tokio::time::sleep(left).await,
            }
        }
    }

    /// The result of a future that is ready before it.
    pub fn ready<T>(self, future: impl Future<Output = T>) -> impl Future<Output = Option<T>> {
        // Those of whole conversations are large, and each future around one would hold it twice.
        let mut future = Box::pin(future);
        async move {
            tokio::select! {
                biased;
                result = &mut future => Some(result),
                () = self.reached() => None,
            }
        }
    }

    /// How long the process was stopped since the limit began.
    pub fn stopped(&self) -> Duration {
        stopped().saturating_sub(self.stopped)
    }
}

/// Waits for a deadline, for ever where there is none.
pub async fn reached(deadline: Option<Deadline>) {
    match deadline {
        Some(deadline) => deadline.reached().await,
        None => std::future::pending().await,
    }
}

/// The result of a future that is ready within a limit.
pub fn within<T>(limit: Duration, future: impl Future<Output = T>) -> impl Future<Output = Option<T>> {
    Deadline::after(limit).ready(future)
}

/// How long this process has been stopped, as far as anybody has asked.
fn stopped() -> Duration {
    static LOOKS: Mutex<Option<Looks>> = Mutex::new(None);
    let look = || {
        let mut looks = LOOKS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(looks) = looks.as_mut() {
            looks.look(Instant::now());
        }
    };
    let mut looks = LOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    let looks = looks.get_or_insert_with(|| {
        let looking = move || {
            loop {
                std::thread::sleep(TICK);
                look();
            }
        };
        let begun = Instant::now();
        // Without a thread no stop is noticed, and all time counts.
        let is_looked = std::thread::Builder::new().name("clock".into()).spawn(looking).is_ok();
        Looks { last: is_looked.then_some(begun), stopped: Duration::ZERO }
    });
    looks.stopped_at(Instant::now())
}

/// When the time was last looked at, and how much of it was stops until then.
#[derive(Debug)]
struct Looks {
    /// None if nobody looks.
    last: Option<Instant>,
    stopped: Duration,
}

impl Looks {
    fn look(&mut self, now: Instant) {
        self.stopped = self.stopped_at(now);
        self.last = self.last.map(|_| now);
    }

    /// What has been stops until now: of a stop that nobody has looked at yet as well.
    fn stopped_at(&self, now: Instant) -> Duration {
        let since = self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        self.stopped + since.saturating_sub(GAP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_gap_between_looks_is_a_stop() {
        let begun = Instant::now();
        let at = |millis| begun + Duration::from_millis(millis);
        let mut looks = Looks { last: Some(begun), stopped: Duration::ZERO };
        for (now, stopped) in [(100, 0), (550, 0), (10_550, 9_500), (10_650, 9_500), (11_000, 9_500)] {
            assert_eq!(looks.stopped_at(at(now)), Duration::from_millis(stopped), "{now}");
            looks.look(at(now));
        }
        // Whoever asks before the next look has the same answer as after it.
        assert_eq!(looks.stopped_at(at(31_000)), Duration::from_millis(29_000));
        let unseen = Looks { last: None, stopped: Duration::ZERO };
        assert_eq!(unseen.stopped_at(at(31_000)), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_limit_is_reached_and_not_before() {
        let long = Deadline::after(Duration::from_secs(60));
        assert!(!long.is_over() && long.left() > Duration::from_secs(30));
        assert_eq!(within(Duration::from_millis(20), std::future::pending::<()>()).await, None);
        let short = Deadline::after(Duration::from_millis(20));
        short.reached().await;
        assert!(short.is_over() && short.begun.elapsed() >= Duration::from_millis(20));
        reached(Some(short)).await;
        assert_eq!(within(Duration::ZERO, async { 7 }).await, Some(7), "what is ready is in time");
    }
}
