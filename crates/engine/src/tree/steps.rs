//! The step commits between two commits.

use super::run::TreeRun;
use super::step_scan::{self, Names};
use crate::landing::commits;
use pleach_core::ids::{CommitId, RepoPath};
use pleach_core::progress::{BranchNaming, StepCommit, StepPlace};
use pleach_core::step::report;

/// The commits of a branch since `base`, oldest first, along first parents.
pub(super) fn chain(run: &TreeRun, tip: CommitId, base: CommitId) -> Result<Vec<CommitId>, git::Error> {
    commits::commits_since(&run.repo, tip, base)
}

/// The steps among these commits.
pub(super) fn steps(run: &TreeRun, tip: CommitId, base: CommitId) -> Result<Vec<StepCommit>, git::Error> {
    chain(run, tip, base)?.into_iter().filter_map(|commit| found(run, commit).transpose()).collect()
}

/// The steps of a branch since its merge base with another, oldest first.
pub(super) fn steps_ahead(run: &TreeRun, tip: CommitId, other: CommitId) -> Result<Vec<StepCommit>, git::Error> {
    steps(run, tip, run.repo.history().merge_base(tip, other)?.unwrap_or(other))
}

/// The logs and reports that a branch has and its base lacks.
pub(super) fn logs_of(run: &TreeRun, base: CommitId, tip: CommitId) -> Result<Vec<RepoPath>, git::Error> {
    let changes = git::diff::changes(&run.repo, run.repo.tree_of(base)?, run.repo.tree_of(tip)?)?;
    let is_own = |path: &RepoPath| report::is_own(path, &run.plan.logs, &run.plan.reports);
    Ok(changes.into_iter().map(|change| change.path).filter(is_own).collect())
}

/// The step of a commit, as it will be read from the target. No step of a branch has the older form.
pub(super) fn found(run: &TreeRun, commit: CommitId) -> Result<Option<StepCommit>, git::Error> {
    let kept = run.repo.history().message_of(commit)?;
    let read = step_scan::read(commit, &kept, &StepPlace::Target, Names::branch(run.plan.target.as_str()));
    Ok(read.filter(|(_, form)| *form == BranchNaming::Branch).map(|(found, _)| found))
}
