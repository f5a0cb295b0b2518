//! Merges a commit into another: a clean merge by git whose result is checked, or a conflict as data.

use jiff::Timestamp;

use crate::git::{self, CommitSpec, Conflict, LossyMerge, MergeCheckError, MergeError, Person, Repo, TreeId};
use crate::ids::CommitId;
use crate::merge::LossExemptions;
use crate::trailer::CommitMessage;

/// One side of a merge: whose work it is, and how the merge commit reads.
#[derive(Debug, Clone)]
pub(in crate::engine) struct MergeSide {
    /// Its newest commit.
    pub commit: CommitId,
    /// The message of the merge commit.
    pub message: CommitMessage,
    /// The date of the merge commit.
    pub at: Timestamp,
}

/// What became of a merge.
#[derive(Debug)]
pub(in crate::engine) enum MergeResult {
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
pub(in crate::engine) fn merge_side(repo: &Repo, ours: CommitId, side: &MergeSide) -> Result<MergeResult, git::Error> {
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
    match git::check_merge_result(repo, tree(base)?, tree(ours)?, tree(theirs)?, merged, &LossExemptions::default()) {
        Ok(_) => Ok(None),
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
pub(in crate::engine) fn merge_spec(tree: TreeId, ours: CommitId, side: &MergeSide) -> CommitSpec {
    CommitSpec {
        tree,
        parents: vec![ours, side.commit],
        author: Person::pleach(),
        committer: Person::pleach(),
        message: side.message.write().into_bytes(),
        at: side.at,
    }
}
