//! How much of a task's work is in conflict. Where that is a good part of it, the task is worked again on what the target
//! is now: an agent that merges would have to invent the rest.

use super::candidate::LeftConflict;
use super::error::QueueError;
use super::sides::EntrySides;
use git::{ConflictedFile, Repo};
use pleach_core::event::ConflictKind;
use pleach_core::ids::CommitId;
use pleach_core::merge::TextMerge;
use pleach_core::queue::{ConflictExtent, QueueEntry};

/// Measures the conflict of an entry with a commit.
pub(super) fn extent_of(
    repo: &Repo,
    entry: &QueueEntry,
    onto: CommitId,
    left: &LeftConflict,
) -> Result<ConflictExtent, QueueError> {
    let Some(sides) = EntrySides::find(repo, entry, onto)? else { return Ok(ConflictExtent::default()) };
    let [base, _, head] = sides.trees(repo)?;
    let patch = git::diff::patch(repo, base, head, &[])?;
    let mut extent = ConflictExtent {
        hunks: patch.lines().filter(|line| line.starts_with("@@ ")).count(),
        ..ConflictExtent::default()
    };
    for file in &left.tried.remaining {
        extent.in_conflict += hunks_of(repo, file)?;
        let is_removed = file.kind == ConflictKind::ModifyDelete && file.ours.is_none();
        if is_removed {
            let own = git::diff::patch(repo, base, head, std::slice::from_ref(&file.path))?;
            extent.main_file_removed |= own.len() * 2 > patch.len();
        }
    }
    Ok(extent)
}

fn hunks_of(repo: &Repo, file: &ConflictedFile) -> Result<usize, git::Error> {
    let (Some(ours), Some(theirs), true) = (file.ours, file.theirs, file.kind.is_of_lines()) else { return Ok(1) };
    let base = file.base.map(|base| repo.blob(base.id)).transpose()?.unwrap_or_default();
    Ok(TextMerge::lines(&base, &repo.blob(ours.id)?, &repo.blob(theirs.id)?).conflicts().count())
}
