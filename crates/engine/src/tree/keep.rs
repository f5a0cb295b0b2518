//! Keeps the commits of a branch that is about to move.

use super::Error;
use super::run::TreeRun;
use git::workspace::KEEP;
use pleach_core::ids::{CommitId, TaskId};

/// Keeps a commit that only a branch about to move refers to.
pub(super) fn keep(run: &TreeRun, task: &TaskId, commit: CommitId) -> Result<String, Error> {
    if let Some(name) = kept_at(run, task, commit)? {
        return Ok(name);
    }
    let prefix = format!("{KEEP}{task}-");
    let taken = run.repo.refs().list(&prefix)?;
    let used = taken.iter().filter_map(|(name, _)| name.strip_prefix(&prefix)?.parse::<u32>().ok());
    let name = format!("{prefix}{}", used.max().unwrap_or(0) + 1);
    run.repo.refs().swap(&name, None, commit, "pleach: keep").map_err(git::Error::from)?;
    Ok(name)
}

/// The ref under which a commit of a task is kept.
pub(super) fn kept_at(run: &TreeRun, task: &TaskId, commit: CommitId) -> Result<Option<String>, Error> {
    let all = run.repo.refs().list(&format!("{KEEP}{task}-"))?;
    Ok(all.into_iter().find(|(_, kept)| *kept == commit).map(|(name, _)| name))
}
