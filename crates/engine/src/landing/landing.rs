//! Moves the target to what was tested, and says so in the entries.

use super::batch::BatchItem;
use super::error::QueueError;
use super::store::{MergeQueue, QueueChange};
use git::workspace::branch_ref;
use git::{LandError, Repo};
use pleach_core::ids::{BranchName, CommitId, EntryId};
use pleach_core::merge::Tier;
use pleach_core::queue::{EntryLanding, EntryState, QueueEntry, TestVerdict};

/// Attempts at a change that loses races.
const TRIES: usize = 100;

/// The result of a landing.
#[derive(Debug)]
pub(super) enum LandedPrefix {
    /// These landed.
    Landed(Vec<QueueEntry>),
    /// Another process changed the target or an entry: read everything again.
    Moved,
    /// A checkout blocks the target, for this reason.
    Held(String),
}

/// The tip of a target.
pub(super) fn tip_of(repo: &Repo, target: &BranchName) -> Result<CommitId, QueueError> {
    repo.refs().find(&branch_ref(target))?.ok_or_else(|| QueueError::NoBranch(target.clone()))
}

/// Moves the target from `from` to the last of these merges. Blocks, up to ten seconds if it is blocked.
pub(super) fn land(
    repo: &Repo,
    queue: &mut MergeQueue,
    items: &[BatchItem],
    from: CommitId,
    verdict: &TestVerdict,
) -> Result<LandedPrefix, QueueError> {
    let Some(last) = items.last() else { return Ok(LandedPrefix::Landed(Vec::new())) };
    let (target, to) = (queue.target.clone(), last.built.commit);
    let item_of = |entry: &QueueEntry| items.iter().find(|item| item.entry.id == entry.id);
    let begin = |entry: &mut QueueEntry| {
        let BatchItem { built, why, .. } = item_of(entry).expect("only what lands is changed");
        entry.landing = Some(EntryLanding { from: built.onto, to: built.commit });
        built.show_in(entry);
        if entry.reimplemented && built.origin.tier <= Tier::Clean {
            entry.tier = Some(Tier::Reimplemented);
        }
        entry.verdict = Some(if built.is_unverified { TestVerdict::Unverified } else { verdict.clone() });
        entry.state = EntryState::Landing;
        entry.why.clone_from(why);
    };
    let end = |entry: &mut QueueEntry| {
        entry.state = EntryState::Landed;
        entry.conflicts.clear();
    };
    let is_as_built = |entry: &QueueEntry| item_of(entry).is_some_and(|item| item.is_of(entry));
    let ids: Vec<EntryId> = items.iter().map(|item| item.entry.id.clone()).collect();
    let landed = |queue: &MergeQueue| {
        let entry_of = |id: &EntryId| queue.entry(id).map(|stored| stored.entry.clone());
        let entries = ids.iter().filter_map(entry_of).map(|mut entry| {
            begin(&mut entry);
            end(&mut entry);
            entry
        });
        entries.collect::<Vec<_>>()
    };
    if !git::land::is_checked_out(repo, &target)? {
        let both = |entry: &mut QueueEntry| {
            begin(entry);
            end(entry);
        };
        let done = landed(queue);
        let moved = update_with(repo, queue, &ids, Some((from, to)), is_as_built, both)?;
        return Ok(if moved { LandedPrefix::Landed(done) } else { LandedPrefix::Moved });
    }
    if !update_with(repo, queue, &ids, None, is_as_built, begin)? {
        return Ok(LandedPrefix::Moved);
    }
    let back = |entry: &mut QueueEntry| {
        entry.state = EntryState::Submitted;
        entry.landing = None;
    };
    match git::land::fast_forward(repo, &target, from, to) {
        Ok(()) => {
            let done = landed(queue);
            update(repo, queue, &ids, end)?;
            Ok(LandedPrefix::Landed(done))
        }
        Err(LandError::Moved { .. }) => {
            update(repo, queue, &ids, back)?;
            Ok(LandedPrefix::Moved)
        }
        Err(error @ (LandError::Git(_) | LandError::NotForward { .. } | LandError::Overwritten { .. })) => {
            // This may fail too, on a full disk; the next run finds the interrupted landing.
            let _ = update(repo, queue, &ids, back);
            Err(error.into())
        }
        Err(held) => {
            update(repo, queue, &ids, back)?;
            Ok(LandedPrefix::Held(held.to_string()))
        }
    }
}

/// Finishes landings of a killed process, and closes entries the target has otherwise. Returns the entries that landed
/// thereby.
pub(super) fn settle(repo: &Repo, queue: &mut MergeQueue, tip: CommitId) -> Result<Vec<QueueEntry>, QueueError> {
    let (mut landed, mut cut_off) = (Vec::new(), Vec::new());
    for entry in queue.open.iter().map(|stored| &stored.entry).filter(|entry| entry.mark.is_none()) {
        let is_there = |commit| repo.history().is_ancestor(commit, tip);
        let to = entry.landing.map(|landing| landing.to);
        if is_there(entry.head)? || to.map(is_there).transpose()?.unwrap_or_default() {
            landed.push(entry.id.clone());
        } else if entry.state == EntryState::Landing && entry.together.is_none() {
            cut_off.push(entry.id.clone());
        }
    }
    update(repo, queue, &cut_off, |entry| {
        entry.state = EntryState::Submitted;
        entry.landing = None;
    })?;
    let close = |entry: &mut QueueEntry| {
        if entry.landing.is_none() {
            entry.why = Some(format!("`{}` has it already", entry.target));
        }
        entry.state = EntryState::Landed;
    };
    let mut closed: Vec<QueueEntry> = queue.entries().into_iter().filter(|entry| landed.contains(&entry.id)).collect();
    closed.iter_mut().for_each(close);
    update(repo, queue, &landed, close)?;
    Ok(closed)
}

/// Changes entries. False if one of them was closed by another process meanwhile.
pub(super) fn update(
    repo: &Repo,
    queue: &mut MergeQueue,
    ids: &[EntryId],
    edit: impl Fn(&mut QueueEntry),
) -> Result<bool, QueueError> {
    update_with(repo, queue, ids, None, |_| true, edit)
}

/// Changes an entry that is still as expected. False if it is not.
pub(super) fn update_if(
    repo: &Repo,
    queue: &mut MergeQueue,
    id: &EntryId,
    expected: impl Fn(&QueueEntry) -> bool,
    edit: impl Fn(&mut QueueEntry),
) -> Result<bool, QueueError> {
    update_with(repo, queue, std::slice::from_ref(id), None, expected, edit)
}

/// Changes entries that are as they were when they were merged. False if one of them is not, or was closed.
pub(super) fn update_built(
    repo: &Repo,
    queue: &mut MergeQueue,
    items: &[BatchItem],
    edit: impl Fn(&mut QueueEntry),
) -> Result<bool, QueueError> {
    let ids: Vec<EntryId> = items.iter().map(|item| item.entry.id.clone()).collect();
    let is_as_built = |entry: &QueueEntry| items.iter().any(|item| item.is_of(entry));
    update_with(repo, queue, &ids, None, is_as_built, edit)
}

fn update_with(
    repo: &Repo,
    queue: &mut MergeQueue,
    ids: &[EntryId],
    step: Option<(CommitId, CommitId)>,
    expected: impl Fn(&QueueEntry) -> bool,
    edit: impl Fn(&mut QueueEntry),
) -> Result<bool, QueueError> {
    if ids.is_empty() {
        return Ok(true);
    }
    for _ in 0..TRIES {
        let mut entries = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(stored) = queue.entry(id).filter(|stored| expected(&stored.entry)) else { return Ok(false) };
            let mut entry = stored.entry.clone();
            edit(&mut entry);
            entries.push((entry, None));
        }
        let change = QueueChange { entries, target: step, ..QueueChange::default() };
        if queue.apply(repo, change, "pleach: merge queue")? {
            return Ok(true);
        }
        *queue = MergeQueue::read(repo, &queue.target)?;
        if let Some((from, _)) = step
            && tip_of(repo, &queue.target)? != from
        {
            return Ok(false);
        }
    }
    Err(QueueError::Contended(queue.target.clone()))
}
