//! A conflict as a commit: the merged files with every conflict visible in them, on top of both sides. Whoever resolves it
//! starts there, and partial resolutions are kept there.

use super::candidate::{LeftConflict, MergeBuild, MergeOptions, build};
use super::error::QueueError;
use crate::merging::{ConflictSides, conflicted_paths, marked_tree, resolved_hunks};
use git::record::entries::{CONFLICT_TRAILER, queue_ref};
use git::{ChangeKind, CommitSpec, Person, Repo, TreeId};
use pleach_core::event::ConflictedPath;
use pleach_core::ids::{BranchName, CommitId, EntryId};
use pleach_core::merge::{ResolvedHunk, Tier};
use pleach_core::queue::{EntryResolution, QueueEntry, TestVerdict};
use pleach_core::trailer::CommitMessage;

/// A conflict to resolve.
#[derive(Debug)]
pub(super) struct OpenConflict {
    /// The commit of the target it is about.
    pub onto: CommitId,
    /// The commit to start from.
    pub commit: CommitId,
    /// The automatically merged files.
    pub merged: TreeId,
    /// Both sides; none where only the tests fail.
    pub sides: Option<ConflictSides>,
    /// The files in conflict.
    pub paths: Vec<ConflictedPath>,
    /// The conflict, and its resolved parts.
    pub left: Option<Box<LeftConflict>>,
}

/// What must be resolved before an entry can be merged onto a commit. None if nothing.
pub(super) fn open_conflict(
    repo: &Repo,
    entry: &QueueEntry,
    onto: CommitId,
    options: &MergeOptions,
) -> Result<Option<OpenConflict>, QueueError> {
    let plain = QueueEntry { resolution: None, ..entry.clone() };
    match build(repo, &plain, onto, options)? {
        MergeBuild::Conflict(left) => {
            let conflict = left.rest();
            let paths = conflicted_paths(&conflict);
            let sides = ConflictSides {
                ours: onto,
                theirs: entry.head,
                paths: paths.iter().map(|conflict| conflict.path.clone()).collect(),
            };
            let commit = match known_conflict(repo, entry, onto)? {
                Some(commit) => commit,
                None => keep_conflict(repo, entry, onto, marked_tree(repo, &sides, &conflict)?)?,
            };
            let merged = left.tried.tree;
            Ok(Some(OpenConflict { onto, commit, merged, sides: Some(sides), paths, left: Some(left) }))
        }
        MergeBuild::Built(built) if matches!(entry.verdict, Some(TestVerdict::Fail { .. })) => {
            let (commit, merged) = (built.commit, built.tree);
            Ok(Some(OpenConflict { onto, commit, merged, sides: None, paths: Vec::new(), left: None }))
        }
        _ => Ok(None),
    }
}

/// The stored conflict, if it is about the same commits.
fn known_conflict(repo: &Repo, entry: &QueueEntry, onto: CommitId) -> Result<Option<CommitId>, QueueError> {
    Ok(conflict_of(repo, entry)?.filter(|(_, on)| *on == onto).map(|(commit, _)| commit))
}

/// The commit of an entry's conflict, and the commit of the target it is about.
pub(super) fn conflict_of(repo: &Repo, entry: &QueueEntry) -> Result<Option<(CommitId, CommitId)>, QueueError> {
    let Some(commit) = repo.refs().find(&conflict_ref(&entry.target, &entry.id))? else { return Ok(None) };
    Ok(match repo.commit(commit)?.parents[..] {
        [onto, head] if head == entry.head => Some((commit, onto)),
        _ => None,
    })
}

/// Stores a conflict with its resolved parts for the next attempt.
pub(super) fn keep_conflict(
    repo: &Repo,
    entry: &QueueEntry,
    onto: CommitId,
    tree: TreeId,
) -> Result<CommitId, QueueError> {
    let name = conflict_ref(&entry.target, &entry.id);
    let message = CommitMessage {
        subject: format!("Conflict of {} with {}", entry.name(), entry.target),
        body: String::new(),
        trailers: vec![(CONFLICT_TRAILER.to_owned(), entry.id.to_string())],
    };
    let commit = commit_of_both(repo, entry, onto, tree, message.write())?;
    let old = repo.refs().find(&name)?;
    if old != Some(commit) {
        repo.refs().swap(&name, old, commit, "pleach: conflict")?;
    }
    Ok(commit)
}

/// Commits the files that resolve a conflict, and names what they resolve: its hunks, and all changed files if nothing
/// was in conflict, or if a person resolved it, who may change anything.
pub(super) fn resolution(
    repo: &Repo,
    entry: &QueueEntry,
    conflict: &OpenConflict,
    tree: TreeId,
    tier: Tier,
) -> Result<EntryResolution, QueueError> {
    let mut hunks = match &conflict.left {
        Some(left) => resolved_hunks(repo, &left.conflict, &left.tried, tree, tier)?,
        None => Vec::new(),
    };
    if conflict.left.is_none() || tier == Tier::Person {
        for change in git::diff::changes(repo, conflict.merged, tree)? {
            let path = change.path;
            let is_on = |commit| Ok::<_, git::Error>(repo.tree_entry(repo.tree_of(commit)?, &path)?.is_some());
            // A conflict's note is on neither side.
            let is_note =
                matches!(change.kind, ChangeKind::Removed(..)) && !is_on(conflict.onto)? && !is_on(entry.head)?;
            if !is_note && !hunks.iter().any(|hunk| hunk.path == path) {
                hunks.push(ResolvedHunk { path, hunk: 0, source: tier });
            }
        }
    }
    let hunks = hunks.iter().map(ResolvedHunk::to_value).collect();
    let kept = keep_resolution(repo, entry, conflict.onto, tree, tier, hunks)?;
    Ok(EntryResolution { repairs: conflict.left.is_none(), ..kept })
}

/// Commits the files that resolve an entry on its target.
pub(super) fn keep_resolution(
    repo: &Repo,
    entry: &QueueEntry,
    onto: CommitId,
    tree: TreeId,
    tier: Tier,
    hunks: Vec<String>,
) -> Result<EntryResolution, QueueError> {
    let commit = commit_of_both(repo, entry, onto, tree, format!("Resolution of {} ({tier})\n", entry.name()))?;
    Ok(EntryResolution { onto, commit, tier, repairs: false, hunks })
}

/// A commit whose parents are the target and the entry.
pub(super) fn commit_of_both(
    repo: &Repo,
    entry: &QueueEntry,
    onto: CommitId,
    tree: TreeId,
    message: String,
) -> Result<CommitId, QueueError> {
    let mut writer = repo.writer();
    let commit = writer.commit(&CommitSpec {
        tree,
        parents: vec![onto, entry.head],
        author: Person::pleach(),
        committer: Person::pleach(),
        message: message.into_bytes(),
        at: entry.completed_at,
    })?;
    writer.flush()?;
    Ok(commit)
}

/// Forgets the conflict of an entry that is resolved or closed.
pub(super) fn forget_conflict(repo: &Repo, target: &BranchName, id: &EntryId) -> Result<(), QueueError> {
    let name = conflict_ref(target, id);
    if let Some(old) = repo.refs().find(&name)? {
        repo.refs().delete(&name, old, "pleach: resolved")?;
    }
    Ok(())
}

fn conflict_ref(target: &BranchName, id: &EntryId) -> String {
    queue_ref(target, &format!("conflict/{id}"))
}
