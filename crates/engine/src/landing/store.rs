//! The queue of a target as refs: a chain of states per entry, and the list of those that are open.
//!
//! Every change is one transaction that checks where all its refs were, so a process that loses a race reads the queue
//! again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::{QueueError, outrun};
use git::record::entries::{
    QUEUES, archived_entries, entry_ref, json, queue_ref, read_json, read_state, state_commit, write_state,
};
use git::record::{StoredEntry, read_entry};
use git::{EntryKind, RefUpdate, Repo, TreeEdit, Writer};
use pleach_core::ids::{BranchName, CommitId, EntryId};
use pleach_core::queue::QueueEntry;

const ORDER_FILE: &str = "order.json";

/// Attempts at a change that loses races.
const TRIES: usize = 100;

/// The queue of a target as it was read.
#[derive(Debug, Clone)]
pub struct MergeQueue {
    /// The branch everything is merged into.
    pub target: BranchName,
    /// Its open entries, oldest first.
    pub open: Vec<StoredEntry>,
    /// How often each was passed over.
    pub passed: BTreeMap<EntryId, u32>,
    order_at: Option<CommitId>,
    epoch: u64,
}

/// A change of the queue: entries as they are to be.
#[derive(Debug, Default)]
pub struct QueueChange {
    /// Entries in their new states, new ones included, each with a new log if it has one.
    pub entries: Vec<(QueueEntry, Option<String>)>,
    /// Those of them that are closed, as they were.
    pub closed: Vec<StoredEntry>,
    /// Entries that were passed over once more.
    pub passed_over: Vec<EntryId>,
    /// A process begins to work the queue.
    pub begins: bool,
    /// The target moves in the same transaction, from one commit to another.
    pub target: Option<(CommitId, CommitId)>,
    /// Other refs to move.
    pub with: Vec<RefUpdate>,
    /// What becomes reachable from the states, beside the work.
    pub keeps: Vec<(EntryId, CommitId)>,
}

/// The list of open entries.
#[derive(Debug, Default, Serialize, Deserialize)]
struct OrderFile {
    #[serde(default)]
    epoch: u64,
    open: Vec<OrderItem>,
}

/// An open entry in that list.
#[derive(Debug, Serialize, Deserialize)]
struct OrderItem {
    id: EntryId,
    priority: i32,
    #[serde(default, skip_serializing_if = "is_zero")]
    passed: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The targets that have a queue.
pub fn queue_targets(repo: &Repo) -> Result<Vec<BranchName>, QueueError> {
    let mut targets: Vec<BranchName> = Vec::new();
    for (name, _) in repo.refs().list_unpeeled(QUEUES)? {
        let key = name[QUEUES.len()..].split('/').next().unwrap_or_default();
        targets.extend(pleach_core::ids::branch_of_key(key));
    }
    targets.dedup();
    Ok(targets)
}

impl MergeQueue {
    /// Reads the queue of a target.
    pub fn read(repo: &Repo, target: &BranchName) -> Result<Self, QueueError> {
        // An entry may be closed after the list was read; then the list is read again.
        for _ in 0..TRIES {
            let name = queue_ref(target, "order");
            let order_at = repo.refs().find(&name)?;
            let order = match order_at {
                Some(at) => read_order(repo, &name, at)?,
                None => OrderFile::default(),
            };
            let mut open = Vec::with_capacity(order.open.len());
            for item in &order.open {
                let stored = read_entry(repo, target, &item.id)?;
                open.extend(stored.filter(|stored| !stored.entry.state.is_closed()));
            }
            if open.len() == order.open.len() || repo.refs().find(&name)? == order_at {
                let passed = order.open.into_iter().map(|item| (item.id, item.passed)).collect();
                return Ok(Self { target: target.clone(), open, passed, order_at, epoch: order.epoch });
            }
        }
        Err(QueueError::Contended(target.clone()))
    }

    /// Whether its refs are where they were when it was read; no files are read again.
    pub(super) fn is_current(&self, repo: &Repo) -> Result<bool, QueueError> {
        let entries = self.open.iter().map(|stored| (entry_ref(&self.target, &stored.entry.id), Some(stored.at)));
        for (name, at) in entries.chain([(queue_ref(&self.target, "order"), self.order_at)]) {
            if repo.refs().find(&name)? != at {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// All entries, open and closed, oldest first.
    pub fn read_all(repo: &Repo, target: &BranchName) -> Result<Vec<StoredEntry>, QueueError> {
        let mut all = Vec::new();
        for (name, at) in repo.refs().list(&queue_ref(target, "entry/"))? {
            all.push(read_state(repo, &name, at)?);
        }
        // One that was opened again has a ref of its own.
        let is_known = |old: &StoredEntry| all.iter().any(|stored: &StoredEntry| stored.entry.id == old.entry.id);
        let mut old = archived_entries(repo, target)?;
        old.retain(|old| !is_known(old));
        old.append(&mut all);
        Ok(old)
    }

    /// The open entry of an id.
    pub fn entry(&self, id: &EntryId) -> Option<&StoredEntry> {
        self.open.iter().find(|stored| stored.entry.id == *id)
    }

    /// The entries alone.
    pub fn entries(&self) -> Vec<QueueEntry> {
        self.open.iter().map(|stored| stored.entry.clone()).collect()
    }

    /// Applies a change, or nothing if another process was first: then the queue has to be read again.
    pub(super) fn apply(&mut self, repo: &Repo, change: QueueChange, why: &str) -> Result<bool, QueueError> {
        let epoch = if change.begins { self.epoch + 1 } else { self.epoch };
        let mut writer = repo.writer();
        let (mut moves, mut open, mut passed) = (change.with, self.open.clone(), self.passed.clone());
        for (mut entry, log) in change.entries {
            entry.epoch = epoch;
            let old = self.open.iter().chain(&change.closed).find(|stored| stored.entry.id == entry.id);
            let log = match log {
                Some(text) => Some(writer.blob(text.as_bytes())?),
                None => old.and_then(|old| old.log),
            };
            let kept = change.keeps.iter().filter(|(id, _)| *id == entry.id).map(|(_, commit)| *commit);
            let at = write_state(&mut writer, &entry, old.map(|old| old.at), log, kept)?;
            moves.push(RefUpdate {
                name: entry_ref(&self.target, &entry.id),
                old: old.filter(|old| !old.is_archived).map(|old| old.at),
                new: Some(at),
            });
            open.retain(|stored| stored.entry.id != entry.id);
            open.push(StoredEntry { entry, at, log, is_archived: false });
        }
        open.retain(|stored| !stored.entry.state.is_closed());
        open.sort_by(|one, other| one.entry.id.cmp(&other.entry.id));
        passed.retain(|id, _| open.iter().any(|stored| stored.entry.id == *id));
        for id in change.passed_over {
            *passed.entry(id).or_default() += 1;
        }
        let order = order_file(&open, &passed, epoch);
        let mut order_at = self.order_at;
        if order != order_file(&self.open, &self.passed, self.epoch) || self.order_at.is_none() {
            let at = write_order(&mut writer, &order, self.order_at)?;
            moves.push(RefUpdate { name: queue_ref(&self.target, "order"), old: self.order_at, new: Some(at) });
            order_at = Some(at);
        }
        writer.flush()?;
        if moves.is_empty() {
            return Ok(true);
        }
        let moved = match change.target {
            Some((from, to)) => git::land::swap_with(repo, &self.target, from, to, &moves, why)?,
            None => match repo.refs().swap_all(&moves, why) {
                Ok(()) => true,
                Err(error) => return outrun(error).map(|()| false),
            },
        };
        if moved {
            (self.open, self.passed, self.order_at, self.epoch) = (open, passed, order_at, epoch);
        }
        Ok(moved)
    }
}

/// Changes the queue of a target: reads it, applies the change that `make` returns, and retries if another process was
/// first. Returns the last value of `make`.
pub(super) fn change_queue<T>(
    repo: &Repo,
    target: &BranchName,
    why: &str,
    mut make: impl FnMut(&MergeQueue) -> Result<(QueueChange, T), QueueError>,
) -> Result<T, QueueError> {
    for _ in 0..TRIES {
        let mut queue = MergeQueue::read(repo, target)?;
        let (change, value) = make(&queue)?;
        if queue.apply(repo, change, why)? {
            return Ok(value);
        }
    }
    Err(QueueError::Contended(target.clone()))
}

fn read_order(repo: &Repo, name: &str, at: CommitId) -> Result<OrderFile, QueueError> {
    Ok(read_json(repo, name, repo.tree_of(at)?, &ORDER_FILE.into())?)
}

fn order_file(open: &[StoredEntry], passed: &BTreeMap<EntryId, u32>, epoch: u64) -> Vec<u8> {
    let item = |stored: &StoredEntry| OrderItem {
        id: stored.entry.id.clone(),
        priority: stored.entry.priority,
        passed: passed.get(&stored.entry.id).copied().unwrap_or_default(),
    };
    json(&OrderFile { epoch, open: open.iter().map(item).collect() })
}

fn write_order(writer: &mut Writer, order: &[u8], before: Option<CommitId>) -> Result<CommitId, QueueError> {
    let file = writer.blob(order)?;
    let tree = writer.tree(None, &[TreeEdit::Put(ORDER_FILE.into(), EntryKind::File, file)])?;
    let parents = before.into_iter().collect();
    Ok(state_commit(writer, tree, parents, "Order of the merge queue".to_owned(), Vec::new())?)
}
