//! Bringing a worktree back of which a kill or an agent has left only a part. What lies in its place may be work, so it
//! stays or is put aside, unless it is known that nobody has worked there yet.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::admin::{
    has_head, hold, is_admin, leads_to, linked_git_dir, named_place, own_git_dir, remove_admin, same_file, tie,
};
use super::listed::{claimed, git_dirs};
use super::registration::Origin;
use super::restore::remove_directory;
use super::{Worktree, sanitize};
use crate::confined_fs::{self, ConfinedDir, FEW_LINES};
use crate::git::error::{Error, IoContext as _};
use crate::git::repo::Repo;
use crate::ids::CommitId;

impl Worktree {
    /// The worktree at `path`: as it was left, mended where its git directory is broken or gone, or a new one like
    /// [`Worktree::add_sparse`] makes. Files the repository knows nothing of are mended when they `belong` to it, and
    /// else put aside.
    pub fn bring(repo: &Repo, path: &Path, commit: CommitId, rules: &[String], belongs: bool) -> Result<Self, Error> {
        if Making::is_under_way(path) {
            if let Some(worktree) = Self::finish(repo, path, commit, rules)? {
                return Ok(worktree);
            }
            Self::remove(repo, &named_place(path))?;
        }
        if Making::is_under_way(path) || is_free(path) {
            // git may still remember a worktree whose files are gone.
            Self::remove(repo, path)?;
            return Self::add_sparse(repo, path, commit, rules);
        }
        // A link may lead to anybody's files.
        let is_directory = path.symlink_metadata().is_ok_and(|found| found.is_dir());
        let git_dir = match is_directory.then(|| own_git_dir(repo, path)).transpose() {
            Err(Error::NotARepository { .. } | Error::LinkReplaced { .. }) => None,
            found => found?,
        };
        // One that nobody may look into is whole all the same.
        let unlocked = git_dir.iter().filter(|git_dir| is_admin(repo, git_dir)).map(|git_dir| sanitize::clear(git_dir));
        let unlocked: Vec<String> = unlocked.collect::<Result<Vec<_>, _>>()?.concat();
        match git_dir {
            Some(git_dir) if is_whole(&git_dir) || !is_admin(repo, &git_dir) => {
                let mut worktree = Self::open(repo, path)?;
                worktree.note_origin()?;
                worktree.cleared.get_mut().extend(unlocked);
                Ok(worktree)
            }
            Some(git_dir) => mend(repo, path, Some(&git_dir), commit, rules),
            // Somebody may be at work there, for a repository that uses the same place.
            None if is_directory && is_another_s(path) => Err(Error::LinkReplaced { path: path.to_owned() }),
            None if belongs && is_directory => mend(repo, path, None, commit, rules),
            None => {
                let place = put_aside(path, path, "old")?;
                Self::remove(repo, path)?;
                let mut worktree = Self::add_sparse(repo, path, commit, rules)?;
                worktree.put_aside.push(place);
                Ok(worktree)
            }
        }
    }
}

impl Worktree {
    /// Moves a worktree of pleach's own to `path` where it lies elsewhere, its path ending in the same `name`: the place for it
    /// is another since its repository was moved or its settings were changed. Where it lies is known by a note no agent can
    /// write.
    /// Returns where one stays, and why: the repository is a copy and has only the word of the worktree's own git directory
    /// for it, or another one has it by now, or it cannot be moved.
    pub fn take_along(repo: &Repo, path: &Path, name: &Path) -> Result<Option<(PathBuf, String)>, Error> {
        if Making::is_under_way(path) || !is_free(path) {
            return Ok(None);
        }
        let common = repo.common_dir();
        let is_meant = |root: &Path| {
            let is_directory = root.symlink_metadata().is_ok_and(|found| found.is_dir());
            root != path && root.ends_with(name) && is_directory && !Making::is_under_way(root)
        };
        let mut stays = None;
        for git_dir in git_dirs(common)? {
            let origin = Origin::of(common, &git_dir)?;
            let root = origin.as_ref().map(|origin| origin.root.clone()).or_else(|| claimed(&git_dir));
            let Some(from) = root.filter(|root| is_meant(root)) else { continue };
            let is_tied =
                linked_git_dir(&from).is_ok_and(|named| named.is_some_and(|named| same_file(&named, &git_dir)));
            let Some(mut origin) = origin.filter(|_| is_tied || !is_another_s(&from)) else {
                stays = Some((from, "it is that of another copy of the repository".to_owned()));
                continue;
            };
            if let Some(above) = path.parent() {
                std::fs::create_dir_all(above).at("create", above)?;
            }
            if let Err(error) = std::fs::rename(&from, path) {
                return Ok(Some((from, format!("it cannot be moved to `{}`: {error}", path.display()))));
            }
            // Killed before this is noted, it is files nobody knows, which are mended.
            origin.root = path.canonicalize().at("open the worktree", path)?;
            origin.write(common, &git_dir)?;
            return Ok(None);
        }
        Ok(stays)
    }

    /// Takes note of a worktree that is pleach's own where that was lost: it was moved, or brought back from a copy.
    fn note_origin(&mut self) -> Result<(), Error> {
        let common = self.repo.common_dir();
        match &mut self.origin {
            Some(origin) if origin.root == self.root => return Ok(()),
            Some(origin) => {
                origin.root.clone_from(&self.root);
                origin.write(common, &self.git_dir)?;
            }
            None if self.is_agents => {
                Origin::take(common, &self.git_dir, &self.root)?;
                self.origin = Origin::of(common, &self.git_dir)?;
            }
            None => {}
        }
        Ok(())
    }
}

/// Whether a worktree belongs to a repository that says so itself.
fn is_another_s(path: &Path) -> bool {
    linked_git_dir(path).is_ok_and(|named| named.is_some_and(|named| leads_to(&named, path)))
}

/// Whether a git directory has what tells the files of its worktree apart.
pub(super) fn is_whole(git_dir: &Path) -> bool {
    has_head(git_dir) && git_dir.join("index").exists()
}

/// Gives files a git directory: that of a worktree made for this, because git alone knows all that belongs in one. The
/// files are not touched.
fn mend(
    repo: &Repo,
    path: &Path,
    broken: Option<&Path>,
    commit: CommitId,
    rules: &[String],
) -> Result<Worktree, Error> {
    let root = path.canonicalize().at("open the worktree", path)?;
    let other = beside(&root, "new");
    Worktree::remove(repo, &other)?;
    let git_dir = Worktree::add_sparse(repo, &other, commit, rules)?.git_dir;
    if let Some(broken) = broken.filter(|broken| has_head(broken)) {
        // It may be all that leads to an agent's own commit.
        let from = broken.join("HEAD");
        if let Some(head) = confined_fs::read(&from, FEW_LINES).at("read", &from)? {
            ConfinedDir::at(&git_dir).and_then(|dir| dir.write("HEAD", &head)).at("write", &git_dir)?;
        }
    }
    tie(repo, &root, &git_dir)?;
    Origin::take(repo.common_dir(), &git_dir, &root)?;
    if let Some(broken) = broken {
        remove_admin(repo, broken)?;
    }
    remove_directory(&other)?;
    Worktree::open(repo, path)
}

/// Moves something beside a worktree, under a name nothing has yet. Returns where it is.
pub(super) fn put_aside(found: &Path, worktree: &Path, what: &str) -> Result<PathBuf, Error> {
    let mut number = 1;
    loop {
        let place = beside(worktree, &format!("{what}-{number}"));
        if place.symlink_metadata().is_err() {
            std::fs::rename(found, &place).at("put aside", found)?;
            return Ok(place);
        }
        number += 1;
    }
}

fn beside(worktree: &Path, what: &str) -> PathBuf {
    let mut name = OsString::from(worktree.file_name().unwrap_or_default());
    name.push(".");
    name.push(what);
    worktree.with_file_name(name)
}

/// Whether nothing is there but, at most, an empty directory.
pub(super) fn is_free(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(found) => found.is_dir() && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()),
        Err(_) => true,
    }
}

/// A file beside a worktree as long as it is being made. An agent cannot remove it, nor make one: it works only in a
/// worktree that is whole.
pub(super) struct Making {
    file: PathBuf,
    /// Held by whoever makes it, and by a git that outlives them.
    lock: Arc<File>,
}

impl Making {
    pub fn begin(path: &Path) -> Result<Self, Error> {
        Self::take_up(path)
    }

    /// Goes on with what somebody else has begun, who was killed, once nothing of it runs any more.
    pub fn take_up(path: &Path) -> Result<Self, Error> {
        let file = Self::file(path);
        let lock = File::options().create(true).append(true).open(&file).at("create", &file)?;
        hold(&lock, &file)?;
        Ok(Self { file, lock: Arc::new(lock) })
    }

    /// What a program keeps open that must not be overtaken.
    pub fn lock(&self) -> Arc<File> {
        self.lock.clone()
    }

    /// The worktree is whole. That is on disk before anybody works there: the file must not come back.
    pub fn end(self) -> Result<(), Error> {
        std::fs::remove_file(&self.file).at("remove", &self.file)?;
        match self.file.parent() {
            Some(above) => File::open(above).and_then(|above| above.sync_all()).at("write", above),
            None => Ok(()),
        }
    }

    /// Whether somebody was killed who made a worktree here.
    pub fn is_under_way(path: &Path) -> bool {
        Self::file(path).exists()
    }

    pub fn forget(path: &Path) -> Result<(), Error> {
        let file = Self::file(path);
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).at("remove", &file),
            _ => Ok(()),
        }
    }

    fn file(path: &Path) -> PathBuf {
        beside(path, "making")
    }
}
