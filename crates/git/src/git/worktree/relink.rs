//! Restoring the files that tie a worktree to its repository, where an agent removed or replaced them.

use std::os::unix::ffi::OsStrExt as _;

use super::git_dir::{link_git_dir, linked_git_dir};
use super::move_aside::move_aside;
use super::registration::Registration;
use super::worktree::Access;
use super::{Worktree, sanitize};
use crate::git::error::{Error, IoContext as _};
use os::confined_fs::ConfinedDir;

/// Puts back what ties the worktree to its repository, where an agent has removed it. What leads elsewhere is left.
pub(crate) fn restore_missing_link(worktree: &Worktree) -> Result<(), Error> {
    sanitize::sanitize_git_dir(worktree)?;
    if worktree.access.get() == Access::Tied {
        return Ok(());
    }
    if !["commondir", "gitdir"].iter().all(|name| worktree.git_dir.join(name).exists()) {
        link_git_dir(&worktree.repo, &worktree.root, &worktree.git_dir)?;
    }
    match worktree.root.join(".git").symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => write_link(worktree),
        _ => Ok(()),
    }
}

/// Puts the `.git` file back that an agent may have deleted, and what ties the worktree's git directory to it. A
/// repository the agent made in its place is moved aside.
pub fn restore_link(worktree: &mut Worktree) -> Result<(), Error> {
    sanitize::sanitize_git_dir(worktree)?;
    if worktree.access.get() == Access::Tied {
        return Ok(());
    }
    restore_ties(worktree)?;
    if worktree.access.get() == Access::Cleared {
        worktree.access.set(Access::Tied);
    }
    Ok(())
}

pub(super) fn restore_ties(worktree: &mut Worktree) -> Result<(), Error> {
    link_git_dir(&worktree.repo, &worktree.root, &worktree.git_dir)?;
    if let Some(registration) = &worktree.registration
        && Registration::of(worktree.repo.common_dir(), &worktree.git_dir)?.is_none()
    {
        // An agent without bounds has removed the directory, and this is another.
        registration.write(worktree.repo.common_dir(), &worktree.git_dir)?;
    }
    let link = worktree.root.join(".git");
    if link == worktree.git_dir {
        return Ok(());
    }
    if link.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        worktree.put_aside.push(move_aside(&link, &worktree.root, "git")?);
    }
    match linked_git_dir(&worktree.root) {
        Ok(Some(named)) if named == worktree.git_dir => Ok(()),
        Ok(Some(named)) if named.canonicalize().is_ok_and(|named| named == worktree.git_dir) => Ok(()),
        _ => write_link(worktree),
    }
}

/// Writes the file by which git finds the repository, whatever file or link is there.
pub(super) fn write_link(worktree: &Worktree) -> Result<(), Error> {
    let link = worktree.root.join(".git");
    let content = [b"gitdir: ", worktree.git_dir.as_os_str().as_bytes(), b"\n"].concat();
    ConfinedDir::at(&worktree.root).and_then(|root| root.put(".git", &content)).at("write", &link)
}
