//! Merges a commit into another: by git, or by the tiers that need no agent. The result is checked; what does not merge is
//! a conflict as data.

use jiff::Timestamp;

use super::tiers::{TierOptions, resolve_conflict};
use crate::git::{self, CommitSpec, Conflict, LossyMerge, MergeCheckError, MergeError, Person, Repo, TreeId};
use crate::ids::CommitId;
use crate::merge::{LossExemptions, MergeOrigin};
use crate::trailer::CommitMessage;
use crate::workspace;

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
    /// They were merged, and not everything of both sides is in the result.
    Lossy(LossyMerge),
}

/// Merges a side into `ours`: always a merge commit of both, so that every commit of the side is in the history. What git
/// cannot merge is resolved as far as `tiers` allow; what remains then is a conflict as a whole.
pub(in crate::engine) fn merge_side(
    repo: &Repo,
    ours: CommitId,
    side: &MergeSide,
    tiers: Option<&TierOptions>,
) -> Result<MergeResult, workspace::Error> {
    if repo.history().is_ancestor(side.commit, ours)? {
        return Ok(MergeResult::UpToDate);
    }
    let (tree, exemptions, side) = match (git::merge::merge_commits(repo, ours, side.commit), tiers) {
        (Ok(tree), _) => (tree, LossExemptions::default(), side.clone()),
        (Err(MergeError::Conflict(conflict)), None) => return Ok(MergeResult::Conflict(conflict)),
        (Err(MergeError::Conflict(conflict)), Some(tiers)) => match resolve(repo, ours, side, &conflict, tiers)? {
            Some(resolved) => resolved,
            None => return Ok(MergeResult::Conflict(conflict)),
        },
        (Err(MergeError::Git(error)), _) => return Err(error.into()),
    };
    match check_merge(repo, ours, side.commit, tree, &exemptions)? {
        Some(lossy) => Ok(MergeResult::Lossy(lossy)),
        None => Ok(MergeResult::Merged(merge_commit(repo, tree, ours, &side)?)),
    }
}

/// The merged files, what is named as resolved, and the side with a message that says so. None if something is left.
fn resolve(
    repo: &Repo,
    ours: CommitId,
    side: &MergeSide,
    conflict: &Conflict,
    tiers: &TierOptions,
) -> Result<Option<(TreeId, LossExemptions, MergeSide)>, workspace::Error> {
    let Some(base) = git::merge::merge_base_tree(repo, ours, side.commit)? else { return Ok(None) };
    let result = resolve_conflict(repo, base, repo.tree_of(ours)?, repo.tree_of(side.commit)?, conflict, tiers)?;
    if !result.remaining.is_empty() {
        return Ok(None);
    }
    let origin = MergeOrigin { tier: result.tier, resolved: result.resolved };
    let mut side = side.clone();
    side.message.trailers.extend(origin.trailers());
    let exemptions = LossExemptions { resolved: origin.resolved, ..LossExemptions::default() };
    Ok(Some((result.tree, exemptions, side)))
}

/// Looks independently of what merged them whether a result has all of both sides.
pub(in crate::engine) fn check_merge(
    repo: &Repo,
    ours: CommitId,
    theirs: CommitId,
    merged: TreeId,
    exemptions: &LossExemptions,
) -> Result<Option<LossyMerge>, git::Error> {
    let Some(base) = git::merge::merge_base_tree(repo, ours, theirs)? else { return Ok(None) };
    match git::check_merge_result(repo, base, repo.tree_of(ours)?, repo.tree_of(theirs)?, merged, exemptions) {
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
