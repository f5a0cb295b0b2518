//! Merges the work of parallel branches, one commit after another. This is the one place that decides how two sides become
//! one: a clean merge by git, or a conflict as data.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::event::{ConflictedPath, WorktreeMergeConflict};
use crate::git::merge::{Conflict, MergeError};
use crate::git::{self, CommitSpec, LossyMerge, MergeCheckError, Person, Repo, TreeId};
use crate::ids::CommitId;
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

/// Whether a text has the marks of an unresolved conflict.
pub(super) fn has_conflict_markers(text: &[u8]) -> bool {
    let is_marker = |line: &[u8]| line.starts_with(b"<<<<<<< ") || line.starts_with(b">>>>>>> ");
    text.split(|byte| *byte == b'\n').any(is_marker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_found_at_the_beginning_of_lines() {
        assert!(has_conflict_markers(b"a\n<<<<<<< ours\nb\n=======\nc\n>>>>>>> theirs\n"));
        assert!(has_conflict_markers(b"a\n>>>>>>> theirs"));
        assert!(!has_conflict_markers(b"Title\n=======\na <<<<<<< b\n"));
    }
}
