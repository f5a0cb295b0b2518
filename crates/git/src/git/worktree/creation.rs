//! The marker of a worktree that is being created.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lock::wait_for_lock;
use super::move_aside::sibling;
use crate::git::error::{Error, IoContext as _};

/// A file beside a worktree while it is being created. An agent can neither remove nor create it: agents only work in
/// complete worktrees.
pub(super) struct CreationMarker {
    file: PathBuf,
    /// Held by the creating process, and by a git that outlives it.
    lock: Arc<File>,
}

impl CreationMarker {
    pub fn create(path: &Path) -> Result<Self, Error> {
        Self::resume(path)
    }

    /// Takes over from a killed process, once nothing of it runs any more.
    pub fn resume(path: &Path) -> Result<Self, Error> {
        let file = Self::file(path);
        let lock = File::options().create(true).append(true).open(&file).at("create", &file)?;
        wait_for_lock(&lock, &file)?;
        Ok(Self { file, lock: Arc::new(lock) })
    }

    /// For a program that must finish before anybody else takes over.
    pub fn lock(&self) -> Arc<File> {
        self.lock.clone()
    }

    /// The worktree is complete. Durable before anybody works there: the file must not come back.
    pub fn finish(self) -> Result<(), Error> {
        std::fs::remove_file(&self.file).at("remove", &self.file)?;
        match self.file.parent() {
            Some(above) => File::open(above).and_then(|above| above.sync_all()).at("write", above),
            None => Ok(()),
        }
    }

    /// Whether a process was killed while it created a worktree here.
    pub fn exists(path: &Path) -> bool {
        Self::file(path).exists()
    }

    pub fn remove(path: &Path) -> Result<(), Error> {
        let file = Self::file(path);
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).at("remove", &file),
            _ => Ok(()),
        }
    }

    fn file(path: &Path) -> PathBuf {
        sibling(path, "making")
    }
}

/// Whether a path does not exist or is an empty directory.
pub(super) fn is_free(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(found) => found.is_dir() && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()),
        Err(_) => true,
    }
}

/// Where git makes a worktree that belongs at `path`. It names it after its directory, and one of many that are called
/// `main` says nothing to who sees it in `.git/worktrees`: this one has the name of the directory above in it.
pub(super) fn named_path(path: &Path) -> PathBuf {
    let above = path.parent().and_then(Path::file_name).unwrap_or_default();
    let mut name = above.to_owned();
    name.push("-");
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
}

/// Where a worktree belongs whose making was cut short, by where git has it; none if it is complete.
pub(super) fn half_made_at(path: &Path) -> Option<PathBuf> {
    if CreationMarker::exists(path) {
        return Some(path.to_owned());
    }
    let above = path.parent()?.file_name()?.to_str()?;
    let name = path.file_name()?.to_str()?.strip_prefix(above)?.strip_prefix('-')?;
    Some(path.with_file_name(name)).filter(|belongs| CreationMarker::exists(belongs))
}
