//! Measured times.

use std::time::{Duration, Instant};

/// Times of one contender.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<Duration>);

impl Samples {
    /// Runs `work` and keeps how long it took.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        self.0.push(begun.elapsed());
        done
    }

    /// Keeps a time.
    pub fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// The times in nanoseconds, in the order they were taken.
    pub fn nanoseconds(&self) -> Vec<u64> {
        self.0.iter().map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)).collect()
    }

    /// Times in nanoseconds.
    pub fn of_nanoseconds(times: &[u64]) -> Self {
        Self(times.iter().copied().map(Duration::from_nanos).collect())
    }

    /// The time in milliseconds that this share of the samples does not exceed.
    pub fn percentile(&self, share: f64) -> f64 {
        let mut times = self.0.clone();
        times.sort_unstable();
        let at = ((times.len() as f64 * share).ceil() as usize).clamp(1, times.len().max(1)) - 1;
        times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    }

    /// The median in milliseconds.
    pub fn median(&self) -> f64 {
        median(self.0.iter().map(|time| time.as_secs_f64() * 1e3).collect())
    }

    /// The shortest in milliseconds, which a busy machine spoils least.
    pub fn best(&self) -> f64 {
        self.0.iter().min().map_or(0.0, |time| time.as_secs_f64() * 1e3)
    }

    /// The mean in milliseconds of the samples in a range.
    pub fn mean(&self, range: std::ops::Range<usize>) -> f64 {
        let part = &self.0[range];
        part.iter().map(Duration::as_secs_f64).sum::<f64>() * 1e3 / part.len() as f64
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// The median of some numbers, 0 of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
