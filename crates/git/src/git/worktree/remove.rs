//! Removing worktrees.

use std::path::Path;

use super::creation::{CreationMarker, named_path};
use super::git_dir::find_git_dir;
use super::lock::lock_worktrees;
use super::metadata::Notes;
use super::sanitize;
use crate::git::disk::remove_directory;
use crate::git::error::Error;
use crate::git::repo::Repo;

/// Removes a worktree with all its files, whatever state it is in. Save what is in it first.
pub fn remove(repo: &Repo, path: &Path) -> Result<(), Error> {
    let mut admin = find_git_dir(repo, path)?;
    if path.symlink_metadata().is_ok() {
        remove_directory(path)?;
    }
    while let Some(found) = admin {
        remove_git_dir(repo, &found)?;
        admin = find_git_dir(repo, path)?;
    }
    CreationMarker::remove(path)
}

/// Removes what there is of a worktree that belongs at `path` and whose making was cut short.
pub fn remove_half_made(repo: &Repo, path: &Path) -> Result<(), Error> {
    remove(repo, &named_path(path))?;
    remove(repo, path)
}

/// Lets git forget worktrees whose files are gone.
pub fn prune(repo: &Repo) -> Result<(), Error> {
    // One that is being registered has its files elsewhere for a moment.
    let _alone = lock_worktrees(repo.common_dir())?;
    sanitize::remove_blocking_files(repo.common_dir())?;
    repo.shared.program.run(repo.common_dir(), ["worktree", "prune"])?.success().map(drop)
}

/// Removes the git directory of a worktree with what is noted of it. The next worktree may get its name at once.
pub(super) fn remove_git_dir(repo: &Repo, admin: &Path) -> Result<(), Error> {
    let _alone = lock_worktrees(repo.common_dir())?;
    remove_directory(admin)?;
    Notes::of(repo.common_dir(), admin).forget()
}
