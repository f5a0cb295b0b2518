//! Which checkouts have a branch. The user's alone count: a worktree that was made for agents has none, whatever they have
//! made of it.

use std::path::{Path, PathBuf};

use super::error::Error;
use super::land::full_name;
use super::open::Settings;
use super::repo::Repo;
use super::worktree::{Listed, Worktree};
use crate::ids::BranchName;

impl Repo {
    /// The checkouts that have a branch checked out: the main one, linked worktrees. Those that were deleted without
    /// telling git are left out, and so are those git itself would not find from their files.
    pub fn checkouts_of(&self, branch: &BranchName) -> Result<Vec<PathBuf>, Error> {
        let name = full_name(branch);
        let is_main = |one: &Listed| one.git_dir == self.common_dir();
        let all = Worktree::list_on(self, &name)?.into_iter().filter(|one| one.branch.as_ref() == Some(&name));
        let checkouts = all.filter(|one| is_main(one) || is_checkout(one));
        Ok(checkouts.map(|one| if is_main(&one) { self.main_checkout(one.path) } else { one.path }).collect())
    }

    /// The place of the git directory is that of the files, but not in a submodule.
    fn main_checkout(&self, listed: PathBuf) -> PathBuf {
        let is_own = self.git_dir().canonicalize().is_ok_and(|own| own == self.common_dir());
        self.workdir().filter(|_| is_own).map_or(listed, Path::to_owned)
    }

    /// Whether the repository is bare, as git sees it. What it said holds until somebody writes settings.
    pub(super) fn has_no_files(&self) -> Result<bool, Error> {
        let common = self.common_dir();
        let changed = |name: &str| common.join(name).metadata().and_then(|data| data.modified()).ok();
        // Looked at before git is asked: what changes meanwhile is noticed the next time.
        let now: Settings = ["config", "config.worktree"].map(changed);
        let mut known = self.shared.is_bare.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, is_bare)) = known.as_ref().filter(|(settings, _)| *settings == now) {
            return Ok(*is_bare);
        }
        let said = self.shared.program.run(common, ["rev-parse", "--is-bare-repository"])?.success()?;
        let is_bare = said.trim_ascii() == b"true";
        *known = Some((now, is_bare));
        Ok(is_bare)
    }
}

/// Whether a linked worktree is a checkout of somebody's. One that is locked may be on a disk that is not there now.
fn is_checkout(listed: &Listed) -> bool {
    !listed.is_own && (listed.is_tied() || listed.locked.is_some() && listed.path.symlink_metadata().is_err())
}
