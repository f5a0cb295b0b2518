//! A conflict that a person resolves: a worktree on its commit, and what they have made of it.

use std::path::{Path, PathBuf};

use super::conflict::{OpenConflict, forget_conflict, keep_conflict, open_conflict, resolution};
use super::decide::change_entry;
use super::error::QueueError;
use super::landing::tip_of;
use super::settings::QueueSettings;
use crate::keep::{PrunedWork, WorktreeOwner, WorktreePlaces, WorktreeStays, own_worktrees, remove_conflict};
use crate::merging::{ConflictSides, unresolved};
use git::record::StoredEntry;
use git::record::entries::is_conflict_of;
use git::workspace::conflict_path;
use git::{CommitLimits, Repo};
use pleach_core::event::ConflictedPath;
use pleach_core::ids::CommitId;
use pleach_core::merge::Tier;
use pleach_core::queue::{EntryState, QueueEntry};
use pleach_core::redact::Redactor;

/// How many commits a person may make while resolving.
const MOST_COMMITS: usize = 1000;

/// Why the resolution of a conflict could not be ended.
#[derive(Debug, thiserror::Error)]
pub enum AbortError {
    /// There is none, or the queue cannot be read.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Its worktree cannot be removed.
    #[error("the worktree stays: {0}")]
    Stays(#[from] WorktreeStays),
}

/// A worktree on a conflict.
#[derive(Debug)]
pub struct ConflictWorktree {
    /// Its path.
    pub path: PathBuf,
    /// It existed already, with earlier work in it.
    pub is_old: bool,
    /// The files in conflict; none where only the tests fail.
    pub conflicts: Vec<ConflictedPath>,
}

/// Makes a worktree in which a person resolves what keeps an entry from landing.
pub fn begin_resolution(
    repo: &Repo,
    base: &Path,
    stored: &StoredEntry,
    settings: &QueueSettings,
) -> Result<ConflictWorktree, QueueError> {
    let entry = &stored.entry;
    let wrong = |why| QueueError::wrong_state(entry, why);
    if matches!(entry.state, EntryState::Landed | EntryState::Cancelled | EntryState::Landing | EntryState::Resolving) {
        return Err(wrong("there is nothing to resolve"));
    }
    let path = conflict_path(base, &entry.target, &entry.id);
    if path.exists() {
        return Ok(ConflictWorktree { path, is_old: true, conflicts: entry.conflicts.clone() });
    }
    let tip = tip_of(repo, &entry.target)?;
    let Some(OpenConflict { commit, paths, .. }) = open_conflict(repo, entry, tip, &settings.merge_options())? else {
        return Err(wrong("there is no conflict to resolve"));
    };
    // A person resumes from their earlier resolution that was refused.
    let before = entry.resolution.as_ref().filter(|before| before.tier == Tier::Person && before.onto == tip);
    let commit = keep_conflict(repo, entry, tip, repo.tree_of(before.map_or(commit, |before| before.commit))?)?;
    if let Some(parent) = path.parent() {
        let failed = |source| git::workspace::Error::Io { doing: "create", path: parent.to_owned(), source };
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    git::worktree::add(repo, &path, commit)?;
    Ok(ConflictWorktree { path, is_old: false, conflicts: paths })
}

/// The conflict commit a worktree was made from, and its target commit. None if it is about another commit of the
/// entry, or not found.
fn begun_from(repo: &Repo, path: &Path, entry: &QueueEntry) -> Result<Option<(CommitId, CommitId)>, QueueError> {
    let listed = git::worktree::list_linked(repo)?.into_iter().find(|listed| listed.path == path);
    let mut next = listed.and_then(|listed| listed.head);
    // The person may have committed.
    for _ in 0..MOST_COMMITS {
        let Some(at) = next else { break };
        let commit = repo.commit(at)?;
        if is_conflict_of(&commit.message, &entry.id) {
            return Ok(match commit.parents[..] {
                [onto, head] if head == entry.head => Some((at, onto)),
                _ => None,
            });
        }
        next = commit.parents.first().copied();
    }
    Ok(None)
}

/// Aborts a person's resolution: its worktree is removed, and work found only there is kept. The entry stays as it is.
pub fn abort_resolution(
    repo: &Repo,
    places: &WorktreePlaces,
    stored: &StoredEntry,
) -> Result<Option<PrunedWork>, AbortError> {
    let StoredEntry { entry, .. } = stored;
    let is_its = |owner: &WorktreeOwner| matches!(owner, WorktreeOwner::Conflict { entry: id, .. } if *id == entry.id);
    let worktrees = own_worktrees(repo, places).map_err(QueueError::from)?;
    let Some(worktree) = worktrees.iter().find(|worktree| is_its(&worktree.owner)) else {
        return Err(nobody_resolves(entry).into());
    };
    let kept = remove_conflict(repo, places, worktree)?;
    forget_conflict(repo, &entry.target, &entry.id)?;
    Ok(kept)
}

fn nobody_resolves(entry: &QueueEntry) -> QueueError {
    let begin = format!("nobody resolves it; begin with `pleach merge resolve {}`", entry.reference());
    QueueError::wrong_state(entry, begin)
}

/// Takes a person's resolution, queues the entry again, and removes the worktree.
pub fn finish_resolution(
    repo: &Repo,
    base: &Path,
    stored: &StoredEntry,
    settings: &QueueSettings,
    redactor: &Redactor,
) -> Result<QueueEntry, QueueError> {
    let entry = &stored.entry;
    let path = conflict_path(base, &entry.target, &entry.id);
    if !path.exists() {
        return Err(nobody_resolves(entry));
    }
    let wrong = |why| QueueError::wrong_state(entry, why);
    if entry.state.is_closed() {
        return Err(wrong("it is not in the queue any more; `pleach merge retry` queues it again"));
    }
    // A newer conflict may have been recorded meanwhile; the person has seen this one.
    let Some((commit, onto)) = begun_from(repo, &path, entry)? else {
        return Err(wrong(
            "its branch has moved since the worktree was made; keep what you need of it, remove it with `git worktree \
             remove --force`, and begin again",
        ));
    };
    let mut worktree = git::worktree::open(repo, &path)?;
    worktree.accept(repo.tree_of(commit)?)?;
    let scan = git::worktree::scan_all(&mut worktree)?;
    let mut writer = repo.writer();
    let written = git::worktree::commit_tree(&mut worktree, &scan, &mut writer, &CommitLimits::NONE)?;
    writer.flush()?;
    let paths = entry.conflicts.iter().map(|conflict| conflict.path.clone()).collect();
    let sides = ConflictSides { ours: onto, theirs: entry.head, paths };
    let left = unresolved(repo, &sides, written.tree)?;
    if !left.is_empty() {
        return Err(QueueError::Unresolved { paths: left, path });
    }
    let open = open_conflict(repo, entry, onto, &settings.merge_options())?;
    let (merged, left) = match open {
        Some(open) => (open.merged, open.left),
        None => (repo.tree_of(commit)?, None),
    };
    let conflict = OpenConflict { onto, commit, merged, sides: Some(sides), paths: entry.conflicts.clone(), left };
    let resolution = resolution(repo, entry, &conflict, written.tree, Tier::Person)?;
    let entry = change_entry(repo, stored, redactor, |entry| {
        entry.state = EntryState::Submitted;
        entry.resolution = Some(resolution.clone());
        entry.why = Some("a person has resolved it".to_owned());
        Ok(())
    })?;
    git::worktree::remove(repo, &path)?;
    forget_conflict(repo, &entry.target, &entry.id)?;
    Ok(entry)
}
