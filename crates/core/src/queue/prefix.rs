//! Which part of a batch lands. The first n entries of a batch, merged one onto the other, are a prefix of it; several
//! are tested at once, the longest green one lands, and what makes the next one red is looked for between them.

use std::collections::{BTreeMap, BTreeSet};

/// What is known of the prefixes of a batch, each by its length.
#[derive(Debug, Clone, Default)]
pub struct PrefixSearch {
    /// How many entries the batch has.
    pub entries: usize,
    /// Which prefixes passed their tests.
    pub tested: BTreeMap<usize, bool>,
    /// Which are being tested.
    pub running: BTreeSet<usize>,
}

/// What to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixStep {
    /// The prefix that may land; none of it if 0.
    pub land: usize,
    /// The entry that makes its prefix red: the one without it is green.
    pub culprit: Option<usize>,
    /// The prefixes to test now.
    pub test: Vec<usize>,
    /// Those whose result is no longer of use.
    pub stop: Vec<usize>,
}

impl PrefixSearch {
    /// What to do next, with `slots` tests at once. Nothing, if all that is known can land.
    pub fn next(&self, slots: usize) -> PrefixStep {
        let green = self.tested.iter().rev().find(|(_, passed)| **passed).map_or(0, |(length, _)| *length);
        let red = self.tested.iter().find(|(length, passed)| **length > green && !**passed).map(|(length, _)| *length);
        let culprit = red.filter(|red| *red == green + 1).map(|red| red - 1);
        // A prefix longer than a red one has the culprit in it, and says nothing more.
        let is_of_use = |length: &usize| *length > green && red.is_none_or(|red| *length < red);
        let stop = self.running.iter().filter(|length| culprit.is_some() || !is_of_use(length)).copied().collect();
        let running: BTreeSet<usize> = self.running.iter().filter(|length| is_of_use(length)).copied().collect();
        let test = match culprit {
            Some(_) => Vec::new(),
            None => spread(green, red.unwrap_or(self.entries + 1), slots, &running),
        };
        PrefixStep { land: green, culprit, test, stop }
    }
}

/// Evenly spread lengths between two that are known, without those being tested. The longest matters most where nothing
/// is red: all of it may land at once.
fn spread(green: usize, end: usize, slots: usize, running: &BTreeSet<usize>) -> Vec<usize> {
    let open: Vec<usize> = (green + 1..end).filter(|length| !running.contains(length)).collect();
    let free = slots.saturating_sub(running.len()).min(open.len());
    (1..=free).map(|nth| open[(nth * open.len()).div_ceil(free) - 1]).collect()
}

/// How many entries have passed their tests, and how many made them fail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchRecord {
    /// They passed.
    pub green: usize,
    /// They failed.
    pub red: usize,
}

/// So few entries say nothing about how often one is red.
const FEW: usize = 8;

impl BatchRecord {
    /// How many entries the next batch has, of `most`: fewer where one in ten is red. Where one in five is, only as
    /// many as run at once, so that each prefix is tested.
    pub fn batch_size(&self, most: usize, slots: usize) -> usize {
        let seen = self.green + self.red;
        let size = match self.red * 100 / seen.max(1) {
            _ if seen < FEW => most,
            0..10 => most,
            10..20 => most.div_ceil(2),
            _ => slots.min(most),
        };
        size.max(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn search(entries: usize, tested: &[(usize, bool)], running: &[usize]) -> PrefixSearch {
        PrefixSearch { entries, tested: tested.iter().copied().collect(), running: running.iter().copied().collect() }
    }

    #[test]
    fn prefixes_are_spread_over_the_batch() {
        assert_eq!(search(16, &[], &[]).next(4).test, [4, 8, 12, 16]);
        assert_eq!(search(3, &[], &[]).next(4).test, [1, 2, 3]);
        assert_eq!(search(16, &[], &[4, 8]).next(4).test.len(), 2);
        assert!(search(16, &[], &[4, 8, 12, 16]).next(4).test.is_empty());
    }

    #[test]
    fn the_longest_green_prefix_lands_while_searching() {
        let step = search(16, &[(4, true), (8, false)], &[12, 16]).next(4);
        assert_eq!(step, PrefixStep { land: 4, culprit: None, test: vec![5, 6, 7], stop: vec![12, 16] });
        let step = search(16, &[(4, true), (8, false), (16, true)], &[]).next(4);
        assert_eq!((step.land, step.culprit, step.test), (16, None, vec![]), "the last one has what the others lack");
    }

    #[test]
    fn the_entry_between_green_and_red_is_the_culprit() {
        let step = search(16, &[(4, true), (5, true), (6, false)], &[7]).next(4);
        assert_eq!(step, PrefixStep { land: 5, culprit: Some(5), test: vec![], stop: vec![7] });
        assert_eq!(search(1, &[(1, false)], &[]).next(4).culprit, Some(0));
    }

    #[test]
    fn batches_shrink_where_many_are_red() {
        let size = |green, red| BatchRecord { green, red }.batch_size(16, 4);
        assert_eq!([size(0, 0), size(11, 1), size(3, 1)], [16, 16, 16], "one red one says little");
        assert_eq!([size(17, 3), size(9, 1), size(12, 3), size(0, 9)], [8, 8, 4, 4]);
        assert_eq!(BatchRecord { green: 0, red: 9 }.batch_size(1, 0), 1);
    }

    /// Works off a queue with bad entries in it; all tests take one tick. Gives the ticks and the tests.
    fn work_off(bad: &[bool], batch: usize, slots: usize) -> (usize, usize) {
        let (mut queue, mut ticks, mut tests): (Vec<bool>, _, _) = (bad.to_vec(), 0, 0);
        while !queue.is_empty() {
            let mut search = search(batch.min(queue.len()), &[], &[]);
            loop {
                let step = search.next(slots);
                if let Some(culprit) = step.culprit {
                    assert!(queue[culprit], "only a bad one is blamed");
                    queue.drain(..=culprit);
                    break;
                }
                if step.land == search.entries {
                    queue.drain(..step.land);
                    break;
                }
                assert!(!step.test.is_empty(), "there is something to find out");
                (ticks, tests) = (ticks + 1, tests + step.test.len());
                for length in step.test {
                    search.tested.insert(length, !queue[..length].contains(&true));
                }
            }
        }
        (ticks, tests)
    }

    proptest! {
        #[test]
        fn every_queue_is_worked_off(bad in proptest::collection::vec(any::<bool>(), 0..40), batch in 1..20usize, slots in 1..6usize) {
            work_off(&bad, batch, slots);
        }

        #[test]
        fn three_bad_of_64_cost_little(places in proptest::sample::subsequence((0..64).collect::<Vec<usize>>(), 3)) {
            let bad: Vec<bool> = (0..64).map(|at| places.contains(&at)).collect();
            let (ticks, tests) = work_off(&bad, 16, 4);
            prop_assert!(64 >= 6 * ticks, "{ticks} test durations");
            prop_assert!(tests * 4 <= 3 * 64, "{tests} tests");
        }
    }
}
