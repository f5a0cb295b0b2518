//! Who is next in the queue.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// How often later entries may go first.
const PASSES: u32 = 2;

/// What decides an entry's place in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueItem<I> {
    /// Its id.
    pub id: I,
    /// Higher goes first.
    pub priority: i32,
    /// When its work was complete.
    pub completed_at: Timestamp,
    /// What must land before it.
    pub depends: Vec<I>,
    /// In how many batches later entries went first.
    pub passed: u32,
}

/// The entries in the order they are merged: by priority, then by completion. One that was passed over twice goes
/// first, after its dependencies. Left out are those that wait for an entry that is not among them, and cycles.
pub fn ordered<I: Ord + Clone>(items: &[QueueItem<I>]) -> Vec<I> {
    let by_id: BTreeMap<&I, &QueueItem<I>> = items.iter().map(|item| (&item.id, item)).collect();
    let mut wanted: Vec<&QueueItem<I>> = items.iter().collect();
    wanted.sort_by(|one, other| rank(one).cmp(&rank(other)));
    let mut seen = BTreeMap::new();
    let mut order = Vec::with_capacity(items.len());
    for item in wanted {
        place(&item.id, &by_id, &mut seen, &mut order);
    }
    order
}

fn rank<I: Ord>(item: &QueueItem<I>) -> (bool, i64, Timestamp, &I) {
    let is_due = item.passed >= PASSES;
    let priority = if is_due { 0 } else { -i64::from(item.priority) };
    (!is_due, priority, item.completed_at, &item.id)
}

/// Puts an entry behind its dependencies; false where it cannot be.
fn place<'i, I: Ord + Clone>(
    id: &'i I,
    items: &BTreeMap<&'i I, &'i QueueItem<I>>,
    seen: &mut BTreeMap<&'i I, bool>,
    order: &mut Vec<I>,
) -> bool {
    if let Some(placed) = seen.get(id) {
        return *placed;
    }
    let Some(item) = items.get(id) else { return false };
    // Until it is known: an entry in a cycle cannot be placed.
    seen.insert(id, false);
    if !item.depends.iter().all(|needed| place(needed, items, seen, order)) {
        return false;
    }
    seen.insert(id, true);
    order.push(id.clone());
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item(id: u32, priority: i32, depends: &[u32], passed: u32) -> QueueItem<u32> {
        let completed_at = Timestamp::from_second(i64::from(id)).unwrap();
        QueueItem { id, priority, completed_at, depends: depends.to_vec(), passed }
    }

    #[test]
    fn priority_then_completion_decides() {
        let items = [item(1, 0, &[], 0), item(2, 5, &[], 0), item(3, 0, &[], 0), item(4, -1, &[], 0)];
        assert_eq!(ordered(&items), [2, 1, 3, 4]);
    }

    #[test]
    fn dependencies_come_first_and_missing_ones_keep_away() {
        let items =
            [item(1, 0, &[], 0), item(2, 9, &[3], 0), item(3, 0, &[], 0), item(4, 0, &[7], 0), item(5, 0, &[4], 0)];
        assert_eq!(ordered(&items), [3, 2, 1]);
        assert!(ordered(&[item(1, 0, &[2], 0), item(2, 0, &[1], 0)]).is_empty());
    }

    #[test]
    fn nobody_is_passed_over_more_than_twice() {
        let items = [item(1, -5, &[], 2), item(2, 5, &[], 0), item(3, -9, &[], 3)];
        assert_eq!(ordered(&items), [1, 3, 2]);
    }

    proptest! {
        #[test]
        fn nothing_comes_before_what_it_needs(edges in proptest::collection::vec((0..8u32, 0..8u32, -3..3i32, 0..4u32), 0..12)) {
            let items: Vec<_> = edges.iter().enumerate()
                .map(|(id, (one, other, priority, passed))| item(u32::try_from(id).unwrap(), *priority, &[*one, *other], *passed))
                .collect();
            let order = ordered(&items);
            for (at, id) in order.iter().enumerate() {
                let needs = &items[*id as usize].depends;
                prop_assert!(needs.iter().all(|needed| order[..at].contains(needed)));
            }
        }
    }
}
