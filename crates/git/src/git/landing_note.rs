//! A landing that git is at work on in a checkout, noted in its git directory. Where git breaks off or is killed, the note
//! tells what it has left: files that hold the beginning of what was to land, and its locks. They are undone before anything
//! else lands there, so that whoever runs the same command again need not.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use super::error::{Error, IoContext as _};
use super::interrupted_merge::{LAG, was_touched};
use super::landing_conflicts::{obstructing_paths, place, staged};
use super::object::{EntryKind, TreeEntry};
use super::ref_update::lock_path;
use super::repo::Repo;
use super::{diff, stale_lock};
use os::confined_fs::ConfinedDir;
use pleach_core::ids::{CommitId, RepoPath};

/// git locks the index as soon as it is called; a lock made later is somebody else's.
const LOCKED_WITHIN: SignedDuration = SignedDuration::from_secs(10);

/// A landing that was begun in a checkout.
#[derive(Debug)]
pub(super) struct LandingNote {
    path: PathBuf,
    /// What the checkout had.
    pub from: CommitId,
    to: CommitId,
    /// When git was called.
    begun: Timestamp,
}

impl LandingNote {
    /// Notes a landing in the git directory of its checkout.
    pub(super) fn write(git_dir: &Path, from: CommitId, to: CommitId, begun: Timestamp) -> Result<Self, Error> {
        let path = note_path(git_dir);
        let dir = path.parent().expect("it is in a directory of its own");
        fs::create_dir_all(dir).at("create", dir)?;
        fs::write(&path, format!("{from} {to} {begun}\n")).at("write", &path)?;
        Ok(Self { path, from, to, begun })
    }

    /// The landing that was begun last and has not ended; none where it cannot be read.
    pub(super) fn read(git_dir: &Path) -> Option<Self> {
        let path = note_path(git_dir);
        let text = fs::read_to_string(&path).ok()?;
        let mut words = text.split_whitespace();
        let (from, to, begun) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self { path, from, to, begun })
    }

    /// The landing has ended, and git has left nothing.
    pub(super) fn remove(self) {
        // A note that stays names commits the checkout does not have any more.
        let _ = fs::remove_file(&self.path);
    }

    /// Removes the locks of the git that was killed. The caller holds the turn to land, so it is not running.
    pub(super) fn release_locks(&self, common_dir: &Path, git_dir: &Path) -> Result<(), Error> {
        for name in ["index", "HEAD", "ORIG_HEAD"] {
            let lock = lock_path(&git_dir.join(name));
            let Ok(found) = lock.symlink_metadata() else { continue };
            let modified = found.modified().ok().and_then(|modified| Timestamp::try_from(modified).ok());
            let is_ours = modified.is_some_and(|modified| {
                modified >= self.begun - LAG
                    && (name != "index" || found.len() == 0 && modified <= self.begun + LOCKED_WITHIN)
            });
            if is_ours {
                stale_lock::release(common_dir, &lock)?;
            }
        }
        Ok(())
    }

    /// What git has written of the landing: files that hold all of what was to land or its beginning, and were not there
    /// before it was called. Who writes the same gets it back when it lands.
    pub(super) fn written(&self, repo: &Repo, checkout: &Path) -> Result<Vec<RepoPath>, Error> {
        let after = repo.tree_of(self.to)?;
        let changes = diff::changes(repo, repo.tree_of(self.from)?, after)?;
        let staged = staged(repo, checkout, self.from)?;
        let root = ConfinedDir::at(checkout).at("open", checkout)?;
        let mut written = Vec::new();
        for path in obstructing_paths(repo, checkout, self.from, &changes)? {
            if !staged.contains_key(&path)
                && was_touched(&place(checkout, &path), self.begun)
                && let Some(entry) = repo.tree_entry(after, &path)?
                && has_beginning(repo, &root, checkout, &entry)?
            {
                written.push(path);
            }
        }
        Ok(written)
    }

    /// Puts what git has written back to what the checkout had.
    pub(super) fn undo(&self, repo: &Repo, checkout: &Path) -> Result<(), Error> {
        let before = repo.tree_of(self.from)?;
        let root = ConfinedDir::at(checkout).at("open", checkout)?;
        let mut restored = Vec::new();
        for path in self.written(repo, checkout)? {
            match repo.tree_entry(before, &path)? {
                Some(entry) if entry.kind != EntryKind::Directory => {
                    restored.extend([path.as_bytes(), b"\0"].concat());
                }
                _ => root.remove(inside(&path)).at("remove", &place(checkout, &path))?,
            }
        }
        if !restored.is_empty() {
            let args = ["checkout-index", "--force", "-u", "-z", "--stdin"];
            repo.shared.program.run_with_stdin(checkout, args, &restored)?.success()?;
        }
        Ok(())
    }
}

/// Whether a checkout has the beginning of a file where a tree has that file, or the very link.
fn has_beginning(repo: &Repo, root: &ConfinedDir, checkout: &Path, entry: &TreeEntry) -> Result<bool, Error> {
    if entry.kind == EntryKind::Link {
        let to = fs::read_link(place(checkout, &entry.path));
        return Ok(to.is_ok_and(|to| repo.blob(entry.id).is_ok_and(|blob| blob == to.as_os_str().as_bytes())));
    }
    if !matches!(entry.kind, EntryKind::File | EntryKind::Executable) {
        return Ok(false);
    }
    let blob = repo.blob(entry.id)?;
    // What is longer, or no file, is none.
    let found = root.read(inside(&entry.path), blob.len() as u64).ok().flatten();
    Ok(found.is_some_and(|found| blob.starts_with(&found)))
}

fn inside(path: &RepoPath) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()))
}

fn note_path(git_dir: &Path) -> PathBuf {
    git_dir.join("pleach/landing-of-checkout")
}
