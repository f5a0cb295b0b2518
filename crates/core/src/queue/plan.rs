//! What the queue does next, and what every entry that is not in it waits for.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::{EntryState, QueueEntry};
use super::order::{QueueItem, ordered};
use crate::ids::{EntryId, TaskId};

/// What happens next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueuePlan {
    /// The entries that are merged and tested together, in order.
    pub batch: Vec<EntryId>,
    /// Entries that are merged and tested one by one, for approval.
    pub to_approve: Vec<EntryId>,
    /// Entries that came before one of the batch and are not in it.
    pub passed_over: Vec<EntryId>,
    /// What the others wait for.
    pub waits: BTreeMap<EntryId, EntryWait>,
}

/// What an entry waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryWait {
    /// Its turn: this many go first.
    Turn(usize),
    /// Approval by a person.
    Approval,
    /// Tasks that have not landed.
    Tasks(Vec<TaskId>),
    /// The agent that resolves its conflict.
    Resolution,
    /// The agent that repairs its task.
    Repair,
    /// A person, who has to resolve its conflict or decide.
    Person,
    /// A change: its tests fail.
    Change,
    /// The run that works on its tree.
    Run,
    /// Its tests: they are run again, or nobody has approved them.
    Tests,
}

/// Plans what the open entries of a target do next. `passed` says how often an entry was passed over; `auto` whether
/// entries land without approval.
pub fn plan(entries: &[QueueEntry], passed: &BTreeMap<EntryId, u32>, most: usize, auto: bool) -> QueuePlan {
    plan_without(&BTreeSet::new(), entries, passed, most, auto)
}

/// The same, but nothing is done with these entries, nor with what depends on them.
pub fn plan_without(
    held: &BTreeSet<EntryId>,
    entries: &[QueueEntry],
    passed: &BTreeMap<EntryId, u32>,
    most: usize,
    auto: bool,
) -> QueuePlan {
    let open: Vec<&QueueEntry> = entries.iter().filter(|entry| !entry.state.is_closed()).collect();
    let queued: BTreeMap<&TaskId, &QueueEntry> = open
        .iter()
        .filter(|entry| entry.is_repairable())
        .filter_map(|entry| Some((entry.task.as_ref()?, *entry)))
        .collect();
    let (mut items, mut plan) = (Vec::new(), QueuePlan::default());
    for entry in &open {
        let may_land = auto || entry.approved;
        let is_held = held.contains(&entry.id);
        match wait_of(entry).or_else(|| is_held.then_some(EntryWait::Tests)) {
            None if may_land => items.push(item(entry, &queued, passed)),
            None if entry.candidate.is_none() || entry.state != EntryState::Candidate => {
                plan.to_approve.push(entry.id.clone());
            }
            None => drop(plan.waits.insert(entry.id.clone(), EntryWait::Approval)),
            Some(wait) => drop(plan.waits.insert(entry.id.clone(), wait)),
        }
    }
    let order = ordered(&items);
    let batch: BTreeSet<&EntryId> = order.iter().take(most).collect();
    let placed: BTreeSet<&EntryId> = order.iter().collect();
    for item in items.iter().filter(|item| !placed.contains(&item.id)) {
        let is_open = |task: &&TaskId| queued.get(*task).is_some_and(|needed| needed.id != item.id);
        let entry = open.iter().find(|entry| entry.id == item.id).expect("items are made of open entries");
        let tasks = entry.depends.iter().filter(is_open).cloned().collect();
        plan.waits.insert(item.id.clone(), EntryWait::Tasks(tasks));
    }
    for (before, id) in order.iter().enumerate().skip(most) {
        plan.waits.insert(id.clone(), EntryWait::Turn(before));
    }
    // Those completed in the same second came in the order of their ids.
    let came = |item: &QueueItem<EntryId>| (item.completed_at, item.id.clone());
    let newest = items.iter().filter(|item| batch.contains(&item.id)).map(came).max();
    let is_older = |item: &&QueueItem<EntryId>| newest.as_ref().is_some_and(|newest| came(item) < *newest);
    let left = items.iter().filter(|item| placed.contains(&item.id) && !batch.contains(&item.id));
    plan.passed_over = left.filter(is_older).map(|item| item.id.clone()).collect();
    plan.batch = order.into_iter().take(most).collect();
    plan
}

fn wait_of(entry: &QueueEntry) -> Option<EntryWait> {
    match entry.state {
        _ if entry.mark.is_some() => Some(EntryWait::Run),
        EntryState::Conflicted | EntryState::Resolving => Some(EntryWait::Resolution),
        EntryState::Repairing => Some(EntryWait::Repair),
        EntryState::Red => Some(EntryWait::Change),
        EntryState::Escalated => Some(EntryWait::Person),
        _ => None,
    }
}

fn item(
    entry: &QueueEntry,
    queued: &BTreeMap<&TaskId, &QueueEntry>,
    passed: &BTreeMap<EntryId, u32>,
) -> QueueItem<EntryId> {
    // A task without an entry has landed, or its dependents would not have started.
    let depends = entry.depends.iter().filter_map(|task| Some(queued.get(task)?.id.clone()));
    QueueItem {
        id: entry.id.clone(),
        priority: entry.priority,
        completed_at: entry.completed_at,
        depends: depends.collect(),
        passed: passed.get(&entry.id).copied().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::entry::{Candidate, entry};

    fn planned(entries: &[QueueEntry], most: usize) -> QueuePlan {
        plan(entries, &BTreeMap::new(), most, true)
    }

    #[test]
    fn a_batch_has_the_first_in_order() {
        let mut entries: Vec<_> = (1..=4).map(|number| entry(number, EntryState::Submitted)).collect();
        entries[3].priority = 1;
        let plan = planned(&entries, 2);
        assert_eq!(plan.batch, [entries[3].id.clone(), entries[0].id.clone()]);
        assert_eq!(plan.waits[&entries[2].id], EntryWait::Turn(3));
        assert_eq!(plan.passed_over, [entries[1].id.clone(), entries[2].id.clone()], "the fourth came last");
    }

    #[test]
    fn who_was_passed_over_twice_is_next() {
        let mut entries: Vec<_> = (1..=3).map(|number| entry(number, EntryState::Submitted)).collect();
        (entries[1].priority, entries[2].priority) = (5, 5);
        let passed = BTreeMap::from([(entries[0].id.clone(), 2)]);
        assert_eq!(plan(&entries, &passed, 1, true).batch, [entries[0].id.clone()]);
    }

    #[test]
    fn nothing_lands_before_what_it_depends_on() {
        let [mut one, mut two] = [1, 2].map(|number| entry(number, EntryState::Submitted));
        one.task = Some(TaskId::new("A").unwrap());
        two.depends = vec![TaskId::new("A").unwrap(), TaskId::new("gone").unwrap()];
        two.priority = 9;
        assert_eq!(planned(&[one.clone(), two.clone()], 8).batch, [one.id.clone(), two.id.clone()]);
        let held = BTreeSet::from([one.id.clone()]);
        let behind = plan_without(&held, &[one.clone(), two.clone()], &BTreeMap::new(), 8, true);
        assert_eq!((behind.batch, &behind.waits[&one.id]), (vec![], &EntryWait::Tests));
        one.state = EntryState::Escalated;
        let stuck = planned(&[one.clone(), two.clone()], 8);
        assert_eq!((stuck.batch, &stuck.waits[&two.id]), (vec![], &EntryWait::Tasks(vec![TaskId::new("A").unwrap()])));
        assert_eq!(stuck.waits[&one.id], EntryWait::Person);
    }

    #[test]
    fn without_approval_an_entry_stays_a_candidate() {
        let [mut one, mut two] = [1, 2].map(|number| entry(number, EntryState::Submitted));
        two.approved = true;
        let first = plan(&[one.clone(), two.clone()], &BTreeMap::new(), 8, false);
        assert_eq!((first.to_approve, first.batch), (vec![one.id.clone()], vec![two.id]));
        one.state = EntryState::Candidate;
        one.candidate = Some(Candidate { commit: one.head, tree: one.head, base: one.head });
        let second = plan(std::slice::from_ref(&one), &BTreeMap::new(), 8, false);
        assert_eq!((second.batch, &second.waits[&one.id]), (vec![], &EntryWait::Approval));
    }
}
