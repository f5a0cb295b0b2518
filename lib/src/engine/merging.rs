//! Merges the work of parallel branches, one commit after another. This is the one place that decides how two sides become
//! one: a clean merge by git, or a conflict as data.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::event::{ConflictedPath, WorktreeMergeConflict};
use crate::git::diff::ChangeKind;
use crate::git::merge::{Conflict, ConflictedFile, MergeError};
use crate::git::{self, CommitSpec, EntryKind, LossyMerge, MergeCheckError, Person, Repo, TreeEdit, TreeId};
use crate::ids::{CommitId, RepoPath};
use crate::text::named;
use crate::trailer::CommitMessage;

/// One side of a merge: whose work it is, and how the merge commit reads.
#[derive(Debug, Clone)]
pub(super) struct MergeSide {
    /// Its newest commit.
    pub commit: CommitId,
    /// The message of the merge commit.
    pub message: CommitMessage,
    /// The date of the merge commit.
    pub at: Timestamp,
}

/// What became of a merge.
#[derive(Debug)]
pub(super) enum MergeResult {
    /// Everything is there already.
    UpToDate,
    /// This commit has both sides. It is on disk.
    Merged(CommitId),
    /// The sides conflict.
    Conflict(Conflict),
    /// git merged them, and not everything of both sides is in the result.
    Lossy(LossyMerge),
}

/// Merges a side into `ours`: always a merge commit of both, so that every commit of the side is in the history.
pub(super) fn merge_side(repo: &Repo, ours: CommitId, side: &MergeSide) -> Result<MergeResult, git::Error> {
    if repo.history().is_ancestor(side.commit, ours)? {
        return Ok(MergeResult::UpToDate);
    }
    match git::merge::merge_commits(repo, ours, side.commit) {
        Ok(tree) => match check(repo, ours, side.commit, tree)? {
            Some(lossy) => Ok(MergeResult::Lossy(lossy)),
            None => Ok(MergeResult::Merged(merge_commit(repo, tree, ours, side)?)),
        },
        Err(MergeError::Conflict(conflict)) => Ok(MergeResult::Conflict(conflict)),
        Err(MergeError::Git(error)) => Err(error),
    }
}

/// Looks independently of git's merge whether a result has all of both sides.
fn check(repo: &Repo, ours: CommitId, theirs: CommitId, merged: TreeId) -> Result<Option<LossyMerge>, git::Error> {
    let Some(base) = repo.history().merge_base(ours, theirs)? else { return Ok(None) };
    let tree = |commit| repo.tree_of(commit);
    match git::check_merge_result(repo, tree(base)?, tree(ours)?, tree(theirs)?, merged) {
        Ok(()) => Ok(None),
        Err(MergeCheckError::Loss(lossy)) => Ok(Some(lossy)),
        Err(MergeCheckError::Git(error)) => Err(error),
    }
}

/// The commit that joins both sides with these files.
fn merge_commit(repo: &Repo, tree: TreeId, ours: CommitId, side: &MergeSide) -> Result<CommitId, git::Error> {
    let mut writer = repo.writer();
    let commit = writer.commit(&merge_spec(tree, ours, side))?;
    writer.flush()?;
    Ok(commit)
}

/// The same, not yet made.
pub(super) fn merge_spec(tree: TreeId, ours: CommitId, side: &MergeSide) -> CommitSpec {
    CommitSpec {
        tree,
        parents: vec![ours, side.commit],
        author: Person::pleach(),
        committer: Person::pleach(),
        message: side.message.write().into_bytes(),
        at: side.at,
    }
}

/// A conflict's files, as events have them.
pub(super) fn conflicted_paths(conflict: &Conflict) -> Vec<ConflictedPath> {
    let path = |file: &git::merge::ConflictedFile| {
        let [base, ours, theirs] = file.sides;
        ConflictedPath { path: file.path.clone(), kind: file.kind.clone(), base, ours, theirs }
    };
    conflict.files.iter().map(path).collect()
}

/// Conflicts as the next node sees them.
pub(super) fn conflicts_value(conflicts: &[WorktreeMergeConflict]) -> Value {
    if conflicts.is_empty() {
        return Value::String(String::new());
    }
    let conflict = |conflict: &WorktreeMergeConflict| json!({ "repo": conflict.repo, "branch": conflict.context, "paths": conflict.paths });
    conflicts.iter().map(conflict).collect()
}

/// Both sides of a merge that left conflicts, and the files in conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConflictSides {
    /// The commit it was merged into.
    pub ours: CommitId,
    /// The commit that was merged.
    pub theirs: CommitId,
    /// The files.
    pub paths: Vec<RepoPath>,
}

/// The merged files with every conflict visible in them: as markers, and where git has none for it, as a note beside the
/// file that has to be deleted.
pub(super) fn marked_tree(repo: &Repo, sides: &ConflictSides, conflict: &Conflict) -> Result<TreeId, git::Error> {
    let mut writer = repo.writer();
    let mut notes = Vec::new();
    for file in &conflict.files {
        if let Some(note) = note_path(repo, sides, &file.path)?
            && !is_marked(repo, conflict.marked, &file.path)?
        {
            notes.push(TreeEdit::Put(note, EntryKind::File, writer.blob(note_text(file).as_bytes())?));
        }
    }
    if notes.is_empty() {
        return Ok(conflict.marked);
    }
    let tree = writer.tree(Some(conflict.marked), &notes)?;
    writer.flush()?;
    Ok(tree)
}

/// The files that still hold markers which neither side has there, in a result that was to resolve a merge. Of files that
/// were in no conflict only those count that may have been one: another is gone.
pub(super) fn unresolved(repo: &Repo, sides: &ConflictSides, result: TreeId) -> Result<Vec<RepoPath>, git::Error> {
    let mut listed: BTreeSet<RepoPath> = sides.paths.iter().cloned().collect();
    for path in &sides.paths {
        listed.extend(note_path(repo, sides, path)?);
    }
    let mut is_moved = false;
    for path in &sides.paths {
        is_moved |= repo.tree_entry(result, path)?.is_none();
    }
    let theirs = repo.tree_of(sides.theirs)?;
    let mut left = Vec::new();
    for change in git::diff::changes(repo, repo.tree_of(sides.ours)?, result)? {
        let (ChangeKind::Added(kind, blob) | ChangeKind::Modified(_, (kind, blob))) = change.kind else { continue };
        let is_file = matches!(kind, EntryKind::File | EntryKind::Executable);
        if is_file
            && (is_moved || listed.contains(&change.path))
            && has_conflict_markers(&repo.blob(blob)?)
            && repo.tree_entry(theirs, &change.path)?.is_none_or(|entry| entry.id != blob)
        {
            left.push(change.path);
        }
    }
    Ok(left)
}

/// Which files are still in conflict, in words.
pub(super) fn left_words(left: &[RepoPath]) -> String {
    format!("conflict markers are left in {}", named(left))
}

fn is_marked(repo: &Repo, tree: TreeId, path: &RepoPath) -> Result<bool, git::Error> {
    let Some(entry) = repo.tree_entry(tree, path)? else { return Ok(false) };
    let is_file = matches!(entry.kind, EntryKind::File | EntryKind::Executable);
    Ok(is_file && has_conflict_markers(&repo.blob(entry.id)?))
}

/// Where the note about a file is: beside it, under a name neither side has. None where both names are taken.
fn note_path(repo: &Repo, sides: &ConflictSides, path: &RepoPath) -> Result<Option<RepoPath>, git::Error> {
    let trees = [repo.tree_of(sides.ours)?, repo.tree_of(sides.theirs)?];
    for ending in [".conflict", ".pleach-conflict"] {
        let note = RepoPath::new([path.as_bytes(), ending.as_bytes()].concat());
        let mut is_taken = false;
        for tree in trees {
            is_taken |= repo.tree_entry(tree, &note)?.is_some();
        }
        if !is_taken {
            return Ok(Some(note));
        }
    }
    Ok(None)
}

fn note_text(file: &ConflictedFile) -> String {
    let [base, ours, theirs] = file.sides.map(|side| match side {
        Some(blob) => format!("git cat-file blob {blob}"),
        None => "not there".to_owned(),
    });
    format!(
        "Both sides of a merge changed `{}` ({}), and git cannot mark that in the file.\n\
         Settle it, then delete this note.\n\
         <<<<<<< ours: {ours}\n||||||| before: {base}\n=======\n>>>>>>> theirs: {theirs}\n",
        file.path, file.kind
    )
}

/// Whether a text has the markers of an unresolved conflict. Those of a conflict within another are longer.
fn has_conflict_markers(text: &[u8]) -> bool {
    const LENGTH: usize = 7;
    let is_marker = |line: &[u8]| {
        let Some(mark) = line.first().filter(|mark| matches!(mark, b'<' | b'>')) else { return false };
        let length = line.iter().take_while(|byte| *byte == mark).count();
        length >= LENGTH && line.get(length) == Some(&b' ')
    };
    text.split(|byte| *byte == b'\n').any(is_marker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_found_at_the_beginning_of_lines() {
        assert!(has_conflict_markers(b"a\n<<<<<<< ours\nb\n=======\nc\n>>>>>>> theirs\n"));
        assert!(has_conflict_markers(b"a\n>>>>>>> theirs"));
        assert!(has_conflict_markers(b"<<<<<<<< ours:g.txt\n"));
        assert!(!has_conflict_markers(b"Title\n=======\na <<<<<<< b\n"));
    }
}
