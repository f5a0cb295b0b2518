//! Repairing a worktree that a kill or an agent has damaged. Files found in its place may be work, so they stay or are
//! moved aside, unless no agent has worked there yet.

use std::path::{Path, PathBuf};

use super::creation::{CreationMarker, is_free};
use super::git_dir::{
    claimed_root, git_dirs, has_head, is_complete, is_worktree_git_dir, leads_to, link_git_dir, linked_git_dir,
    own_git_dir, same_file,
};
use super::move_aside::{move_aside, sibling};
use super::registration::Registration;
use super::remove::{self, remove_git_dir, remove_half_made};
use super::{Worktree, create, open, sanitize};
use crate::git::disk::remove_directory;
use crate::git::error::{Error, IoContext as _};
use crate::git::repo::Repo;
use os::confined_fs::{self, ConfinedDir, FEW_LINES};
use pleach_core::ids::CommitId;

/// The worktree at `path`: opened, repaired where its git directory is broken or missing, or created as by
/// [`add_sparse`](super::add_sparse). Files the repository does not know are adopted when they `belong` to it, and moved
/// aside otherwise.
pub fn open_or_repair(
    repo: &Repo,
    path: &Path,
    commit: CommitId,
    rules: &[String],
    belongs: bool,
) -> Result<Worktree, Error> {
    if CreationMarker::exists(path) {
        if let Some(worktree) = create::finish(repo, path, commit, rules)? {
            return Ok(worktree);
        }
        remove_half_made(repo, path)?;
    }
    if CreationMarker::exists(path) || is_free(path) {
        // git may still remember a worktree whose files are gone.
        remove::remove(repo, path)?;
        return create::add_sparse(repo, path, commit, rules);
    }
    // A link may lead anywhere.
    let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let git_dir = match is_directory.then(|| own_git_dir(repo, path)).transpose() {
        Err(Error::NoSuchWorktree { .. } | Error::LinkReplaced { .. }) => None,
        found => found?,
    };
    // An unreadable one may still be complete.
    let unlocked = git_dir
        .iter()
        .filter(|git_dir| is_worktree_git_dir(repo, git_dir))
        .map(|git_dir| sanitize::remove_unexpected(git_dir));
    let unlocked: Vec<String> = unlocked.collect::<Result<Vec<_>, _>>()?.concat();
    match git_dir {
        Some(git_dir) if is_complete(&git_dir) || !is_worktree_git_dir(repo, &git_dir) => {
            let mut worktree = open::open(repo, path)?;
            note_registration(&mut worktree)?;
            worktree.cleared.get_mut().extend(unlocked);
            Ok(worktree)
        }
        Some(git_dir) => repair(repo, path, Some(&git_dir), commit, rules),
        // It may be in use by another repository with the same directory of worktrees.
        None if is_directory && belongs_to_another(path) => Err(Error::LinkReplaced { path: path.to_owned() }),
        None if belongs && is_directory => repair(repo, path, None, commit, rules),
        None => {
            let place = move_aside(path, path, "old")?;
            remove::remove(repo, path)?;
            let mut worktree = create::add_sparse(repo, path, commit, rules)?;
            worktree.put_aside.push(place);
            Ok(worktree)
        }
    }
}

/// Moves a worktree of pleach's own to `path` from elsewhere, where its path ends in the same `name`: its repository was
/// moved, or the settings changed. The old path comes from a note no agent can write.
/// Returns the path of one that stays, and why: it belongs to another copy of the repository, or cannot be moved.
pub fn relocate(repo: &Repo, path: &Path, name: &Path) -> Result<Option<(PathBuf, String)>, Error> {
    if CreationMarker::exists(path) || !is_free(path) {
        return Ok(None);
    }
    let common = repo.common_dir();
    let is_meant = |root: &Path| {
        let is_directory = root.symlink_metadata().is_ok_and(|found| found.is_dir());
        root != path && root.ends_with(name) && is_directory && !CreationMarker::exists(root)
    };
    let mut stays = None;
    for git_dir in git_dirs(common)? {
        let registration = Registration::of(common, &git_dir)?;
        let root =
            registration.as_ref().map(|registration| registration.root.clone()).or_else(|| claimed_root(&git_dir));
        let Some(from) = root.filter(|root| is_meant(root)) else { continue };
        let is_tied = linked_git_dir(&from).is_ok_and(|named| named.is_some_and(|named| same_file(&named, &git_dir)));
        let Some(mut registration) = registration.filter(|_| is_tied || !belongs_to_another(&from)) else {
            stays = Some((from, "it belongs to another copy of the repository".to_owned()));
            continue;
        };
        if let Some(above) = path.parent() {
            std::fs::create_dir_all(above).at("create", above)?;
        }
        if let Err(error) = std::fs::rename(&from, path) {
            return Ok(Some((from, format!("it cannot be moved to `{}`: {error}", path.display()))));
        }
        // Killed before this is noted, these are unknown files, which are repaired.
        registration.root = path.canonicalize().at("open the worktree", path)?;
        registration.write(common, &git_dir)?;
        return Ok(None);
    }
    Ok(stays)
}

/// Registers a worktree of pleach's whose registration was lost: it was moved, or restored from a backup.
fn note_registration(worktree: &mut Worktree) -> Result<(), Error> {
    let common = worktree.repo.common_dir();
    match &mut worktree.registration {
        Some(registration) if registration.root == worktree.root => return Ok(()),
        Some(registration) => {
            registration.root.clone_from(&worktree.root);
            registration.write(common, &worktree.git_dir)?;
        }
        None if worktree.is_agents => {
            Registration::register(common, &worktree.git_dir, &worktree.root)?;
            worktree.registration = Registration::of(common, &worktree.git_dir)?;
        }
        None => {}
    }
    Ok(())
}

/// Whether a worktree belongs to another repository that knows it.
fn belongs_to_another(path: &Path) -> bool {
    linked_git_dir(path).is_ok_and(|named| named.is_some_and(|named| leads_to(&named, path)))
}

/// Gives files a new git directory, taken from a worktree created for this: only git knows what belongs in one. The files
/// are not touched.
fn repair(
    repo: &Repo,
    path: &Path,
    broken: Option<&Path>,
    commit: CommitId,
    rules: &[String],
) -> Result<Worktree, Error> {
    let root = path.canonicalize().at("open the worktree", path)?;
    let other = sibling(&root, "new");
    remove::remove(repo, &other)?;
    let git_dir = create::add_sparse(repo, &other, commit, rules)?.git_dir;
    if let Some(broken) = broken.filter(|broken| has_head(broken)) {
        // It may be all that leads to an agent's own commit.
        let from = broken.join("HEAD");
        if let Some(head) = confined_fs::read(&from, FEW_LINES).at("read", &from)? {
            ConfinedDir::at(&git_dir).and_then(|dir| dir.write("HEAD", &head)).at("write", &git_dir)?;
        }
    }
    link_git_dir(repo, &root, &git_dir)?;
    Registration::register(repo.common_dir(), &git_dir, &root)?;
    if let Some(broken) = broken {
        remove_git_dir(repo, broken)?;
    }
    remove_directory(&other)?;
    open::open(repo, path)
}
