//! The mark of a worktree that is being made.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lock::wait_for_lock;
use super::move_aside::sibling;
use crate::git::error::{Error, IoContext as _};

/// A file beside a worktree as long as it is being made. An agent cannot remove it, nor make one: it works only in a
/// worktree that is whole.
pub(super) struct CreationMarker {
    file: PathBuf,
    /// Held by whoever makes it, and by a git that outlives them.
    lock: Arc<File>,
}

impl CreationMarker {
    pub fn create(path: &Path) -> Result<Self, Error> {
        Self::resume(path)
    }

    /// Goes on with what somebody else has begun, who was killed, once nothing of it runs any more.
    pub fn resume(path: &Path) -> Result<Self, Error> {
        let file = Self::file(path);
        let lock = File::options().create(true).append(true).open(&file).at("create", &file)?;
        wait_for_lock(&lock, &file)?;
        Ok(Self { file, lock: Arc::new(lock) })
    }

    /// What a program keeps open that must not be overtaken.
    pub fn lock(&self) -> Arc<File> {
        self.lock.clone()
    }

    /// The worktree is whole. That is on disk before anybody works there: the file must not come back.
    pub fn finish(self) -> Result<(), Error> {
        std::fs::remove_file(&self.file).at("remove", &self.file)?;
        match self.file.parent() {
            Some(above) => File::open(above).and_then(|above| above.sync_all()).at("write", above),
            None => Ok(()),
        }
    }

    /// Whether somebody was killed who made a worktree here.
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

/// Whether nothing is there but, at most, an empty directory.
pub(super) fn is_free(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(found) => found.is_dir() && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()),
        Err(_) => true,
    }
}
