//! A conflict that a person resolves: a worktree on its commit, and what they have made of it.

use std::path::{Path, PathBuf};

use super::conflict::{OpenConflict, conflict_of, forget_conflict, keep_conflict, open_conflict};
use super::decide::change_entry;
use super::error::QueueError;
use super::landing::tip_of;
use super::resolver::resolution;
use super::settings::QueueSettings;
use super::store::StoredEntry;
use crate::engine::merging::{ConflictSides, unresolved};
use crate::event::ConflictedPath;
use crate::git::{self, CommitLimits, Repo};
use crate::merge::Tier;
use crate::queue::{EntryState, QueueEntry};
use crate::workspace::branch_key;

/// A worktree on a conflict.
#[derive(Debug)]
pub struct ConflictWorktree {
    /// Where it is.
    pub path: PathBuf,
    /// It was there already, with whatever was done in it.
    pub is_old: bool,
    /// The files in conflict; none where only the tests fail.
    pub conflicts: Vec<ConflictedPath>,
}

/// The worktree for the conflict of an entry, below the base of all worktrees.
fn place_of(base: &Path, entry: &QueueEntry) -> PathBuf {
    base.join("resolve").join(branch_key(&entry.target)).join(entry.id.as_str())
}

/// Makes a worktree in which a person resolves what keeps an entry from landing.
pub fn begin_resolution(
    repo: &Repo,
    base: &Path,
    stored: &StoredEntry,
    settings: &QueueSettings,
) -> Result<ConflictWorktree, QueueError> {
    let entry = &stored.entry;
    let wrong = |why| QueueError::WrongState { entry: entry.id.clone(), state: entry.state, why };
    if matches!(entry.state, EntryState::Landed | EntryState::Cancelled | EntryState::Landing | EntryState::Resolving) {
        return Err(wrong("there is nothing to resolve"));
    }
    let path = place_of(base, entry);
    if path.exists() {
        return Ok(ConflictWorktree { path, is_old: true, conflicts: entry.conflicts.clone() });
    }
    let tip = tip_of(repo, &entry.target)?;
    let Some(OpenConflict { commit, paths, .. }) = open_conflict(repo, entry, tip, &settings.merge_options())? else {
        return Err(wrong("there is nothing to resolve: it merges cleanly, so `pleach merge retry` is enough"));
    };
    let commit = keep_conflict(repo, entry, tip, repo.tree_of(commit)?)?;
    if let Some(parent) = path.parent() {
        let failed = |source| crate::workspace::Error::Io { doing: "create", path: parent.to_owned(), source };
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    git::worktree::add(repo, &path, commit)?;
    Ok(ConflictWorktree { path, is_old: false, conflicts: paths })
}

/// Takes what a person has made of a conflict, and queues the entry again. The worktree goes.
pub fn finish_resolution(
    repo: &Repo,
    base: &Path,
    stored: &StoredEntry,
    settings: &QueueSettings,
) -> Result<QueueEntry, QueueError> {
    let entry = &stored.entry;
    let path = place_of(base, entry);
    if !path.exists() {
        return Err(QueueError::WrongState {
            entry: entry.id.clone(),
            state: entry.state,
            why: "nobody resolves it; begin with `pleach merge resolve ID`",
        });
    }
    let Some((commit, onto)) = conflict_of(repo, entry)? else {
        return Err(QueueError::WrongState {
            entry: entry.id.clone(),
            state: entry.state,
            why: "its branch has moved since; remove the worktree and begin again",
        });
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
    let plain = QueueEntry { verdict: None, ..entry.clone() };
    let left = open_conflict(repo, &plain, onto, &settings.merge_options())?.and_then(|conflict| conflict.left);
    let conflict = OpenConflict { onto, commit, sides: Some(sides), paths: entry.conflicts.clone(), left };
    let resolution = resolution(repo, entry, &conflict, written.tree, Tier::Person)?;
    let entry = change_entry(repo, stored, |entry| {
        entry.state = EntryState::Submitted;
        entry.resolution = Some(resolution.clone());
        entry.why = Some("a person has resolved it".to_owned());
        Ok(())
    })?;
    git::worktree::remove(repo, &path)?;
    forget_conflict(repo, &entry.target, &entry.id)?;
    Ok(entry)
}
