//! Who is tested together in a queue, and how long it takes until an entry has landed.

use std::collections::BTreeMap;
use std::time::Duration;

use git::record::StoredEntry;
use pleach_core::ids::{CommitId, EntryId};
use pleach_core::queue::{EntryState, QueueEntry, TestVerdict};

/// How many tests the estimate is made from: the last ones.
const SAMPLES: usize = 20;

/// How long a queue takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueEstimate {
    /// How long its tests usually take.
    pub test: Duration,
    /// How long the batch is being tested that is tested now.
    pub elapsed: Duration,
    /// How many entries are tested together.
    pub batch: usize,
}

impl QueueEstimate {
    /// When the entry at a position, counted from 1, will have landed if all tests pass.
    pub fn lands_in(&self, position: usize) -> Duration {
        let batches = position.div_ceil(self.batch.max(1)).max(1);
        self.test * u32::try_from(batches).unwrap_or(u32::MAX) - self.elapsed.min(self.test)
    }
}

/// How long tests usually take: the median of the last that passed. None if none has, or there are no tests.
pub fn usual_test(entries: &[StoredEntry]) -> Option<Duration> {
    let seconds = |stored: &StoredEntry| match stored.entry.verdict {
        Some(TestVerdict::Pass { seconds } | TestVerdict::Flaky { seconds }) => Some(seconds),
        _ => None,
    };
    let mut seconds: Vec<u64> = entries.iter().rev().filter_map(seconds).take(SAMPLES).collect();
    seconds.sort_unstable();
    // Less than a second is recorded as none.
    seconds.get(seconds.len() / 2).map(|seconds| Duration::from_secs((*seconds).max(1)))
}

/// The names of those an entry is tested with: whose merges are built one onto the other.
pub fn batch_mates(entries: &[QueueEntry]) -> BTreeMap<EntryId, Vec<String>> {
    let is_tested = |entry: &&QueueEntry| matches!(entry.state, EntryState::Testing | EntryState::Landing);
    let built: BTreeMap<CommitId, (CommitId, &QueueEntry)> = entries
        .iter()
        .filter(is_tested)
        .filter_map(|entry| {
            let candidate = entry.candidate.as_ref()?;
            Some((candidate.base, (candidate.commit, entry)))
        })
        .collect();
    let is_onto = |base: &CommitId| built.values().any(|(commit, _)| commit == base);
    let mut mates = BTreeMap::new();
    for first in built.keys().filter(|base| !is_onto(base)) {
        let (mut batch, mut next) = (Vec::new(), *first);
        // No merge is built onto itself, but what refs say is not taken on trust.
        while let Some((commit, entry)) = built.get(&next).filter(|_| batch.len() < built.len()) {
            batch.push(*entry);
            next = *commit;
        }
        for entry in &batch {
            let others = batch.iter().filter(|other| other.id != entry.id).map(|other| other.name());
            mates.insert(entry.id.clone(), others.collect());
        }
    }
    mates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_lands_with_its_batch() {
        let [test, elapsed] = [60, 20].map(Duration::from_secs);
        let estimate = QueueEstimate { test, elapsed, batch: 4 };
        let seconds = [1, 4, 5, 8, 9].map(|position| estimate.lands_in(position).as_secs());
        assert_eq!(seconds, [40, 40, 100, 100, 160]);
        let late = QueueEstimate { elapsed: Duration::from_secs(600), ..estimate };
        assert_eq!((late.lands_in(1), late.lands_in(5)), (Duration::ZERO, test));
    }
}
