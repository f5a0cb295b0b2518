//! Removing unexpected entries from the git directory of a worktree, which an agent can write to. git only creates
//! files and directories there; a link would lead a writer elsewhere, and a pipe would block a reader for ever.

use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::registration::Registration;
use super::worktree::Access;
use super::{Worktree, valid_head};
use crate::git::error::{Error, IoContext as _};
use os::confined_fs::{self, ConfinedDir, FEW_LINES, describe_kind};

/// What is a file if it is there.
const FILES: [&str; 8] =
    ["HEAD", "HEAD.lock", "commondir", "config.worktree", "gitdir", "index", "index.lock", "logs/HEAD"];

/// What is a directory if it is there.
const DIRECTORIES: [&str; 3] = ["info", "logs", "refs"];

/// The repositories of submodules: large, and nothing is read or written there.
const MODULES: [&str; 1] = ["modules"];

/// Restores the permissions of a directory; names it if they had been removed.
pub(super) fn unlock(place: &Path) -> Result<Option<String>, Error> {
    Ok(confined_fs::unlock(place).at("open", place)?.then(|| unlocked(place)))
}

/// Removes unexpected entries from the worktree's git directory and restores what was changed, before anything is read or
/// written there. What it removed is kept for [`Worktree::take_cleared`].
pub(super) fn sanitize_git_dir(worktree: &Worktree) -> Result<(), Error> {
    if worktree.is_agents && matches!(worktree.access.get(), Access::Lent | Access::Back) {
        let mut cleared = worktree.cleared.borrow_mut();
        cleared.extend(unlock(&worktree.root)?);
        cleared.extend(remove_unexpected(&worktree.git_dir)?);
        worktree.replaced_heads.borrow_mut().extend(valid_head::remove_invalid_head(worktree)?);
        if let Some(registration) = &worktree.registration {
            cleared.extend(registration.restore_settings(&worktree.git_dir)?);
        }
        if worktree.access.get() == Access::Back {
            worktree.access.set(Access::Cleared);
        }
    }
    Ok(())
}

fn unlocked(place: &Path) -> String {
    format!("{} (it was unreadable; its permissions are restored)", place.display())
}

/// Removes unexpected entries from a worktree's git directory, and names them.
pub(super) fn remove_unexpected(git_dir: &Path) -> Result<Vec<String>, Error> {
    let mut named = Vec::from_iter(unlock(git_dir)?);
    let dir = match ConfinedDir::at(git_dir) {
        // It is recreated later.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        dir => dir.at("open", git_dir)?,
    };
    let mut misplaced = Vec::new();
    // Directories first: what is in them can be looked at only then.
    for (names, wrong) in [(&DIRECTORIES[..], FileType::RegularFile), (&FILES[..], FileType::Directory)] {
        for name in names {
            let place = git_dir.join(name);
            let (kind, was_locked) = dir.unlock(name).at("open", &place)?;
            named.extend(was_locked.then(|| unlocked(&place)));
            misplaced.extend((kind == Some(wrong)).then(|| (PathBuf::from(name), wrong)));
        }
    }
    let mut odd = dir.list(&MODULES).at("list", git_dir)?;
    odd.retain(|(_, kind)| *kind != FileType::RegularFile);
    odd.extend(misplaced);
    for (path, kind) in odd {
        let place = git_dir.join(&path);
        dir.remove(&path).at("remove", &place)?;
        named.push(format!("{} ({})", place.display(), describe_kind(kind)));
    }
    Ok(named)
}

/// Removes what would block git for ever or make it fail when it lists worktrees, the user's own included.
pub(super) fn remove_blocking_files(common: &Path) -> Result<(), Error> {
    let all = common.join("worktrees");
    let entries = match std::fs::read_dir(&all) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.at("list", &all)?,
    };
    for entry in entries {
        let admin = entry.at("list", &all)?.path();
        if Registration::of(common, &admin)?.is_some() {
            unlock(&admin)?;
        }
        // It is being removed.
        let Ok(dir) = ConfinedDir::at(&admin) else { continue };
        for (path, kind) in dir.list(&MODULES).unwrap_or_default() {
            let place = admin.join(&path);
            let special = match kind {
                FileType::Symlink => place.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()),
                kind => !matches!(kind, FileType::RegularFile | FileType::Directory),
            };
            if special {
                dir.remove(&path).at("remove", &place)?;
            }
        }
        // git does without it, but not with one it cannot read, or that says nothing. The user's are the user's.
        let is_read = match dir.read("commondir", FEW_LINES) {
            Ok(said) => said.is_none_or(|said| !said.is_empty()),
            Err(_) => false,
        };
        if !is_read && Registration::of(common, &admin)?.is_some() {
            dir.remove("commondir").at("remove", &admin)?;
        }
    }
    Ok(())
}
