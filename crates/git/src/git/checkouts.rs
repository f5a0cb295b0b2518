//! Which of the user's checkouts have a branch checked out. Worktrees made for agents do not count, whatever agents do
//! to their HEAD.

use std::path::{Path, PathBuf};

use super::error::Error;
use super::ref_update::full_name;
use super::repo::Repo;
use super::worktree::{self, ListedWorktree};
use pleach_core::ids::BranchName;

/// The checkouts that have a branch checked out: the main one, linked worktrees. Those that were deleted without
/// telling git are left out, and so are those git itself would not find from their files.
pub fn checkouts_of(repo: &Repo, branch: &BranchName) -> Result<Vec<PathBuf>, Error> {
    let name = full_name(branch);
    let is_main = |one: &ListedWorktree| one.git_dir == repo.common_dir();
    let all = worktree::list_on_branch(repo, &name)?.into_iter().filter(|one| one.branch.as_ref() == Some(&name));
    let checkouts = all.filter(|one| is_main(one) || is_checkout(one));
    Ok(checkouts.map(|one| if is_main(&one) { main_checkout(repo, one.path) } else { one.path }).collect())
}

/// The place of the git directory is that of the files, but not in a submodule.
fn main_checkout(repo: &Repo, listed: PathBuf) -> PathBuf {
    let is_own = repo.git_dir().canonicalize().is_ok_and(|own| own == repo.common_dir());
    repo.workdir().filter(|_| is_own).map_or(listed, Path::to_owned)
}

/// Whether a linked worktree is a checkout of somebody's. One that is locked may be on a disk that is not there now.
fn is_checkout(listed: &ListedWorktree) -> bool {
    !listed.is_own && (listed.is_tied() || listed.locked.is_some() && listed.path.symlink_metadata().is_err())
}
