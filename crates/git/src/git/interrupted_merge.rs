//! What a failed git has left in a checkout, as it is reported.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};

use super::diff::{self, ChangeKind};
use super::error::Error;
use super::landing_conflicts::{self, place};
use super::repo::Repo;
use pleach_core::ids::{BranchName, CommitId};
use pleach_core::merge::interrupted::{BrokenOff, FoundPath, WrittenFiles};

/// Time stamps of files lag behind the clock by up to this.
pub(super) const LAG: SignedDuration = SignedDuration::from_millis(100);

/// The failure of a git that should have moved the checkout of a branch, with what it left there since `begun`, and where
/// the work is.
pub(super) fn merge_interrupted(
    repo: &Repo,
    failure: Error,
    target: &BranchName,
    checkout: &Path,
    from: CommitId,
    to: CommitId,
    begun: Timestamp,
) -> Error {
    let Error::Program { exit, stderr, .. } = failure else { return failure };
    // The failure is reported even if this cannot be found out.
    let left = written(repo, checkout, from, to, begun).ok();
    let is_same = repo.tree_of(from).ok() == repo.tree_of(to).ok();
    let work = (!is_same).then(|| {
        let branches = repo.refs().list("refs/heads/").unwrap_or_default();
        let branch = branches.into_iter().find(|(_, tip)| *tip == to).map(|(name, _)| name);
        let branch = branch.as_deref().and_then(|name| name.strip_prefix("refs/heads/")).map(str::to_owned);
        branch.unwrap_or_else(|| to.to_string())
    });
    let (target, checkout, end) = (target.clone(), checkout.to_owned(), format!("{exit}: {stderr}"));
    Box::new(BrokenOff { target, checkout, end, work, from, to, left }).into()
}

/// Which changes of `to` are on disk, except those made before `begun`.
fn written(
    repo: &Repo,
    checkout: &Path,
    from: CommitId,
    to: CommitId,
    begun: Timestamp,
) -> Result<WrittenFiles, Error> {
    let commit = from.to_string();
    let args = ["diff-index", "--name-only", "--no-renames", "-z", &commit, "--"];
    let names = repo.shared.program.run(checkout, args)?.success()?;
    let differing: BTreeSet<&[u8]> = names.split(|byte| *byte == 0).collect();
    let changes = diff::changes(repo, repo.tree_of(from)?, repo.tree_of(to)?)?;
    let unstaged = landing_conflicts::staged(repo, checkout, to)?;
    let index_is_done = changes.iter().all(|change| !unstaged.contains_key(&change.path));
    let found = changes.into_iter().map(|change| {
        let place = place(checkout, &change.path);
        FoundPath {
            is_new: matches!(change.kind, ChangeKind::Added(..)),
            exists: place.symlink_metadata().is_ok(),
            differs: differing.contains(change.path.as_bytes()),
            touched: was_touched(&place, begun),
            path: change.path,
        }
    });
    Ok(WrittenFiles::of(index_is_done, found.collect()))
}

/// Whether a place was written to since then. What is gone shows where it was.
pub(super) fn was_touched(place: &Path, begun: Timestamp) -> bool {
    let nearest = place.ancestors().find_map(|place| place.symlink_metadata().ok());
    nearest.is_some_and(|data| {
        let nanoseconds = i32::try_from(data.ctime_nsec()).unwrap_or_default();
        Timestamp::new(data.ctime(), nanoseconds).is_ok_and(|at| at >= begun - LAG)
    })
}
