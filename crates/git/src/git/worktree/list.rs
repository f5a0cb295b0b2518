//! All worktrees of a repository. Read here and not by git, which trusts whatever an agent writes into the git
//! directory of its worktree.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::creation::half_made_at;
use super::git_dir::{claimed_root, git_dirs, linked_git_dir, same_file};
use super::registration::Registration;
use crate::git::error::Error;
use crate::git::id::from_gix;
use crate::git::repo::Repo;
use os::confined_fs::{self, FEW_LINES};
use pleach_core::ids::CommitId;

/// A worktree of the repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedWorktree {
    /// Where its files are, or were.
    pub path: PathBuf,
    /// Where git keeps what belongs to it alone.
    pub git_dir: PathBuf,
    /// The commit its HEAD is at.
    pub head: Option<CommitId>,
    /// The full name of the branch its HEAD names.
    pub branch: Option<String>,
    /// Why it is locked, if it is.
    pub locked: Option<String>,
    /// It was made by pleach for agents. They can write all that is said of it here but for its path.
    pub is_own: bool,
}

impl ListedWorktree {
    /// Whether its files and the repository say of each other that they belong together.
    pub fn is_tied(&self) -> bool {
        let named = linked_git_dir(&self.path).ok().flatten();
        named.is_some_and(|named| same_file(&named, &self.git_dir))
    }

    /// Where it belongs if its making was cut short.
    pub fn half_made_at(&self) -> Option<PathBuf> {
        half_made_at(&self.path)
    }

    /// When it was made, as far as the file system knows.
    pub fn created(&self) -> Option<SystemTime> {
        let of_directory = self.git_dir.symlink_metadata().and_then(|found| found.created());
        // git writes this file once.
        let of_file = || self.git_dir.join("commondir").symlink_metadata().and_then(|found| found.modified());
        of_directory.or_else(|_| of_file()).ok()
    }
}

/// All worktrees, the main one first.
pub fn list(repo: &Repo) -> Result<Vec<ListedWorktree>, Error> {
    let mut all = vec![main(repo)?];
    all.extend(list_linked(repo)?);
    Ok(all)
}

/// All but the main one, by the names the repository has for them.
pub fn list_linked(repo: &Repo) -> Result<Vec<ListedWorktree>, Error> {
    let all = git_dirs(repo.common_dir())?.into_iter();
    all.filter_map(|git_dir| linked_at(repo, git_dir).transpose()).collect()
}

/// Those of which this is the branch their HEAD names.
pub(in crate::git) fn list_on_branch(repo: &Repo, branch: &str) -> Result<Vec<ListedWorktree>, Error> {
    let is_on = |git_dir: &Path| HeadTarget::of(git_dir).is_some_and(|at| at == HeadTarget::On(branch.to_owned()));
    let common = repo.common_dir();
    // Mostly none does, and nothing else is looked at.
    let mut all = if is_on(common) { vec![main(repo)?] } else { Vec::new() };
    let linked = git_dirs(common)?.into_iter().filter(|git_dir| is_on(git_dir));
    for found in linked.map(|git_dir| linked_at(repo, git_dir)) {
        all.extend(found?);
    }
    Ok(all)
}

/// Whether a worktree's git directory is of one that was made by pleach for agents.
pub(in crate::git) fn is_registered(repo: &Repo, git_dir: &Path) -> Result<bool, Error> {
    Ok(Registration::of(repo.common_dir(), git_dir)?.is_some())
}

/// One linked worktree; none if its git directory names no files.
fn linked_at(repo: &Repo, git_dir: PathBuf) -> Result<Option<ListedWorktree>, Error> {
    let (path, is_own) = match Registration::of(repo.common_dir(), &git_dir)? {
        Some(registration) => (registration.root, true),
        None => match claimed_root(&git_dir) {
            Some(path) => (path, false),
            None => return Ok(None),
        },
    };
    let (head, branch) = read_head(repo, &git_dir);
    let reason = confined_fs::read(&git_dir.join("locked"), FEW_LINES).ok().flatten();
    let locked = reason.map(|reason| String::from_utf8_lossy(&reason).trim_end().to_owned());
    Ok(Some(ListedWorktree { path, git_dir, head, branch, locked, is_own }))
}

/// A bare repository has no files, and so no branch is checked out.
fn main(repo: &Repo) -> Result<ListedWorktree, Error> {
    let common = repo.common_dir();
    let above = common.parent().filter(|_| common.ends_with(".git"));
    let (head, branch) = read_head(repo, common);
    let branch = match branch {
        Some(branch) if !repo.is_bare_by_git()? => Some(branch),
        _ => None,
    };
    let path = above.unwrap_or(common).to_owned();
    Ok(ListedWorktree { path, git_dir: common.to_owned(), head, branch, locked: None, is_own: false })
}

fn read_head(repo: &Repo, git_dir: &Path) -> (Option<CommitId>, Option<String>) {
    match HeadTarget::of(git_dir) {
        Some(HeadTarget::On(branch)) => (repo.refs().find(&branch).ok().flatten(), Some(branch)),
        Some(HeadTarget::At(commit)) => (Some(commit), None),
        None => (None, None),
    }
}

/// Whether the HEAD of a worktree is detached at a commit.
pub(super) fn stands_at(git_dir: &Path, commit: CommitId) -> bool {
    HeadTarget::of(git_dir).is_some_and(|at| at == HeadTarget::At(commit))
}

/// What a HEAD says.
#[derive(PartialEq)]
enum HeadTarget {
    On(String),
    At(CommitId),
}

impl HeadTarget {
    fn of(git_dir: &Path) -> Option<Self> {
        let head = git_dir.join("HEAD");
        // In its oldest form it is a link to the branch.
        if let Ok(target) = std::fs::read_link(&head) {
            return Some(Self::On(target.to_string_lossy().into_owned()));
        }
        let text = confined_fs::read(&head, FEW_LINES).ok().flatten()?;
        match text.strip_prefix(b"ref:") {
            Some(name) => Some(Self::On(String::from_utf8_lossy(name.trim_ascii()).into_owned())),
            None => gix::ObjectId::from_hex(text.trim_ascii_end()).ok().map(|id| Self::At(from_gix(&id))),
        }
    }
}
