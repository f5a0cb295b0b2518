//! pleach's notes about a worktree. An agent can write to the git directory of its worktree, so notes live in the git
//! directory all worktrees share, under the name git gave the worktree, and are removed with it.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::git::disk::remove_directory;
use crate::git::error::{Error, IoContext as _};
use os::confined_fs::{self, ConfinedDir};

/// What a file of a worktree's git directory has at most: lists of files are the longest.
pub(super) const LONGEST: u64 = 256 * 1024 * 1024;

/// Where they lie in the git directory all worktrees share.
const PLACE: &str = "pleach/worktrees";

/// The note about the index that pleach wrote last.
const INDEX: &str = "index";

/// The notes about one worktree.
#[derive(Debug, Clone)]
pub struct Notes {
    dir: PathBuf,
}

impl Notes {
    /// The notes about the worktree with this git directory.
    pub fn of(common: &Path, git_dir: &Path) -> Self {
        Self { dir: common.join(PLACE).join(git_dir.file_name().unwrap_or(OsStr::new("main"))) }
    }

    /// Whether there is such a note.
    pub fn has(&self, name: &str) -> bool {
        self.dir.join(name).exists()
    }

    /// A note of at most `limit` bytes, if it exists.
    pub fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        let place = self.dir.join(name);
        confined_fs::read(&place, limit).at("read", &place)
    }

    /// Writes a note, replacing the one of this name.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        std::fs::create_dir_all(&self.dir).at("create", &self.dir)?;
        ConfinedDir::at(&self.dir).and_then(|dir| dir.write(name, bytes)).at("write", &self.dir.join(name))
    }

    /// The same, so that it outlives a crash of the system.
    pub(super) fn write_durably(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.write(name, bytes)?;
        let place = self.dir.join(name);
        std::fs::File::open(&place).and_then(|file| file.sync_all()).at("write", &place)
    }

    /// Removes a note.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        remove_directory(&self.dir.join(name))
    }

    /// Removes all notes: the worktree is gone, or new.
    pub(super) fn forget(&self) -> Result<(), Error> {
        remove_directory(&self.dir)
    }

    /// Removes notes of worktrees that git does not know any more.
    pub(super) fn sweep(common: &Path) -> Result<(), Error> {
        let all = common.join(PLACE);
        let entries = match std::fs::read_dir(&all) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            entries => entries.at("list", &all)?,
        };
        for entry in entries {
            let entry = entry.at("list", &all)?;
            if !common.join("worktrees").join(entry.file_name()).exists() {
                remove_directory(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Notes that pleach has just written the index.
    pub(super) fn note_index(&self, index: &Metadata) -> Result<(), Error> {
        self.write(INDEX, print(index).as_bytes())
    }

    /// Whether an index is the one pleach wrote last, unchanged since.
    pub(super) fn is_noted_index(&self, index: &Path) -> bool {
        let noted = self.read(INDEX, confined_fs::FEW_LINES).ok().flatten();
        index.symlink_metadata().is_ok_and(|now| noted == Some(print(&now).into_bytes()))
    }
}

/// What tells a file from any that somebody writes later, also in its place: the time of its last change cannot be set.
/// Its content would have to be read for more, and is without a checksum where git can do without.
fn print(file: &Metadata) -> String {
    let changed = (file.ctime(), file.ctime_nsec());
    format!("{}:{} {} {}.{:09}", file.dev(), file.ino(), file.size(), changed.0, changed.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_index_that_was_noted_is_believed() {
        let dir = tempfile::tempdir().unwrap();
        let (common, index) = (dir.path().join("common"), dir.path().join("index"));
        let notes = Notes::of(&common, &common.join("worktrees/main"));
        std::fs::write(&index, "one").unwrap();
        assert!(!notes.is_noted_index(&index), "nothing is noted");
        notes.note_index(&index.metadata().unwrap()).unwrap();
        assert!(notes.is_noted_index(&index));
        let before = index.metadata().unwrap();
        // Time goes on by steps.
        while index.metadata().unwrap().ctime_nsec() == before.ctime_nsec() {
            std::fs::write(&index, "two").unwrap();
        }
        filetime::set_file_mtime(&index, filetime::FileTime::from_last_modification_time(&before)).unwrap();
        assert!(!notes.is_noted_index(&index), "the same size and time, but written since");
        std::fs::remove_file(&index).unwrap();
        assert!(!notes.is_noted_index(&index));
        Notes::sweep(&common).unwrap();
        assert!(!notes.has(INDEX), "git knows of no such worktree");
    }
}
