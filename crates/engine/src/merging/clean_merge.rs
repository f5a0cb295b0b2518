//! Merges a commit into another: by git, or by the tiers that need no agent. The result is checked; what does not merge is
//! a conflict as data.

use jiff::Timestamp;

use super::tiers::{TierOptions, TierResult, resolve_conflict};
use git::{CommitSpec, Conflict, LossyMerge, MergeCheckError, MergeError, Person, Repo, TreeId, workspace};
use pleach_core::config::DerivedRules;
use pleach_core::ids::CommitId;
use pleach_core::merge::{LossExemptions, MergeOrigin};
use pleach_core::trailer::CommitMessage;

/// One side of a merge: whose work it is, and how the merge commit reads.
#[derive(Debug, Clone)]
pub(crate) struct MergeSide {
    /// Its newest commit.
    pub commit: CommitId,
    /// What both sides started from, where their histories do not tell: a run that has gone back has merged before what it
    /// merges again.
    pub base: Option<CommitId>,
    /// The message of the merge commit.
    pub message: CommitMessage,
    /// The date of the merge commit.
    pub at: Timestamp,
}

impl MergeSide {
    /// Whether everything of it is there already.
    fn is_in(&self, repo: &Repo, ours: CommitId) -> Result<bool, git::Error> {
        match self.base {
            Some(base) => Ok(repo.tree_of(base)? == repo.tree_of(self.commit)?),
            None => repo.history().is_ancestor(self.commit, ours),
        }
    }
}

/// Merges two commits as git would, or by what they started from.
pub(crate) fn merge_from(
    repo: &Repo,
    base: Option<CommitId>,
    ours: CommitId,
    theirs: CommitId,
) -> Result<TreeId, MergeError> {
    match base {
        Some(base) => git::merge::merge_trees(repo, repo.tree_of(base)?, repo.tree_of(ours)?, repo.tree_of(theirs)?),
        None => git::merge::merge_commits(repo, ours, theirs),
    }
}

/// The files both sides started from.
pub(crate) fn base_tree(
    repo: &Repo,
    base: Option<CommitId>,
    ours: CommitId,
    theirs: CommitId,
) -> Result<Option<TreeId>, git::Error> {
    match base {
        Some(base) => repo.tree_of(base).map(Some),
        None => git::merge::merge_base_tree(repo, ours, theirs),
    }
}

/// What became of a merge.
#[derive(Debug)]
pub(crate) enum MergeResult {
    /// Everything is there already.
    UpToDate,
    /// This commit has both sides. It is on disk.
    Merged(CommitId),
    /// The sides conflict.
    Conflict(Conflict),
    /// They were merged, and not everything of both sides is in the result.
    Lossy(LossyMerge),
}

/// How far a merge has come.
#[derive(Debug)]
pub(crate) enum MergeProgress {
    /// To its end.
    Ended(MergeResult),
    /// Commands have to run in these files first.
    Derive(Box<TierResult>),
}

/// Merges a side into `ours`: always a merge commit of both, so that every commit of the side is in the history. What git
/// cannot merge is resolved as far as `tiers` allow; what remains then is a conflict as a whole.
pub(crate) fn merge_side(
    repo: &Repo,
    ours: CommitId,
    side: &MergeSide,
    tiers: Option<&TierOptions>,
) -> Result<MergeProgress, workspace::Error> {
    if side.is_in(repo, ours)? {
        return Ok(MergeProgress::Ended(MergeResult::UpToDate));
    }
    let conflict = match merge_from(repo, side.base, ours, side.commit) {
        Ok(tree) => {
            let merged = checked(repo, tree, ours, side, &LossExemptions::default())?;
            return Ok(MergeProgress::Ended(merged));
        }
        Err(MergeError::Conflict(conflict)) => conflict,
        Err(MergeError::Git(error)) => return Err(error.into()),
    };
    let base = base_tree(repo, side.base, ours, side.commit)?;
    let Some((tiers, base)) = tiers.zip(base) else {
        return Ok(MergeProgress::Ended(MergeResult::Conflict(conflict)));
    };
    let tried = resolve_conflict(repo, base, repo.tree_of(ours)?, repo.tree_of(side.commit)?, &conflict, tiers)?;
    if !tried.remaining.is_empty() {
        return Ok(MergeProgress::Ended(MergeResult::Conflict(conflict)));
    }
    if !tried.derived.is_empty() {
        return Ok(MergeProgress::Derive(Box::new(tried)));
    }
    let tree = tried.tree;
    Ok(MergeProgress::Ended(merge_resolved(repo, ours, side, tried, tree, DerivedRules::default())?))
}

/// Merges a side into `ours` with files of which something was resolved, and those of these rules made by commands.
pub(crate) fn merge_resolved(
    repo: &Repo,
    ours: CommitId,
    side: &MergeSide,
    tried: TierResult,
    tree: TreeId,
    derived: DerivedRules,
) -> Result<MergeResult, workspace::Error> {
    let origin = MergeOrigin { tier: tried.tier, resolved: tried.resolved };
    let mut side = side.clone();
    side.message.trailers.extend(origin.trailers());
    checked(
        repo,
        tree,
        ours,
        &side,
        &LossExemptions { resolved: origin.resolved, derived, ..LossExemptions::default() },
    )
}

/// The merge, unless it lacks something of a side.
fn checked(
    repo: &Repo,
    tree: TreeId,
    ours: CommitId,
    side: &MergeSide,
    exemptions: &LossExemptions,
) -> Result<MergeResult, workspace::Error> {
    let base = base_tree(repo, side.base, ours, side.commit)?;
    match check_from(repo, base, [ours, side.commit], tree, exemptions)? {
        Some(lossy) => Ok(MergeResult::Lossy(lossy)),
        None => Ok(MergeResult::Merged(merge_commit(repo, tree, ours, side)?)),
    }
}

/// Looks independently of what merged them whether a result has all of both sides.
pub(crate) fn check_merge(
    repo: &Repo,
    ours: CommitId,
    theirs: CommitId,
    merged: TreeId,
    exemptions: &LossExemptions,
) -> Result<Option<LossyMerge>, git::Error> {
    check_from(repo, base_tree(repo, None, ours, theirs)?, [ours, theirs], merged, exemptions)
}

fn check_from(
    repo: &Repo,
    base: Option<TreeId>,
    [ours, theirs]: [CommitId; 2],
    merged: TreeId,
    exemptions: &LossExemptions,
) -> Result<Option<LossyMerge>, git::Error> {
    let Some(base) = base else { return Ok(None) };
    match git::check_merge_result(repo, base, repo.tree_of(ours)?, repo.tree_of(theirs)?, merged, exemptions) {
        Ok(_) => Ok(None),
        Err(MergeCheckError::Loss(lossy)) => Ok(Some(lossy)),
        Err(MergeCheckError::Git(error)) => Err(error),
    }
}

/// The commit that joins both sides with these files. It is on disk.
pub(crate) fn merge_commit(
    repo: &Repo,
    tree: TreeId,
    ours: CommitId,
    side: &MergeSide,
) -> Result<CommitId, git::Error> {
    let mut writer = repo.writer();
    let commit = writer.commit(&merge_spec(tree, ours, side))?;
    writer.flush()?;
    Ok(commit)
}

/// The same, not yet made.
pub(crate) fn merge_spec(tree: TreeId, ours: CommitId, side: &MergeSide) -> CommitSpec {
    CommitSpec {
        tree,
        parents: vec![ours, side.commit],
        author: Person::pleach(),
        committer: Person::pleach(),
        message: side.message.write().into_bytes(),
        at: side.at,
    }
}
