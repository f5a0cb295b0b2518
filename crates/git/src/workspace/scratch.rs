//! Directories for temporary files, in the system's own: names of sockets are short, and the state directory may be
//! deep. A note in the state directory names each and is locked while its owner lives: an orphan is known by a note
//! that is not locked.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::error::Error;
use super::lock::{host, is_same_file};
use crate::git::remove_directory;

/// How often another name is tried when one is taken.
const TRIES: u32 = 16;

/// What the names of the directories begin with.
const PREFIX: &str = "pleach-";

/// A directory for temporary files that is removed with all in it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    note: PathBuf,
    /// Locked until this is dropped, or its process ends.
    _held: File,
}

impl Scratch {
    /// Makes one, and notes it in the state directory.
    pub fn make(state_dir: &Path) -> Result<Self, Error> {
        let (notes, temporary) = (notes(state_dir), std::env::temp_dir());
        let noted =
            |source| Error::Io { doing: "note a directory for temporary files in", path: notes.clone(), source };
        let not_made =
            |source| Error::Io { doing: "make a directory for temporary files in", path: temporary.clone(), source };
        std::fs::create_dir_all(&notes).map_err(noted)?;
        let mut tries = TRIES;
        loop {
            let name: String = std::iter::repeat_with(fastrand::lowercase).take(8).collect();
            let (path, note) = (temporary.join(format!("{PREFIX}{name}")), notes.join(&name));
            tries -= 1;
            // The note is there before the directory, so that none is ever without one.
            let tried = match Self::note(&note, &path) {
                Ok(held) => match DirBuilder::new().mode(0o700).create(&path) {
                    Ok(()) => return Ok(Self { path, note, _held: held }),
                    Err(error) => {
                        std::fs::remove_file(&note).map_err(noted)?;
                        not_made(error)
                    }
                },
                Err(error) => noted(error),
            };
            match tried {
                Error::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists && tries > 0 => {}
                error => return Err(error),
            }
        }
    }

    /// Notes the directory at `path`, and holds the note.
    fn note(note: &Path, path: &Path) -> io::Result<File> {
        let mut held = OpenOptions::new().write(true).create_new(true).open(note)?;
        // Who clears up may have taken it in this moment, and removed it: then another name is as good.
        let taken = || io::Error::from(io::ErrorKind::AlreadyExists);
        held.try_lock().map_err(|_| taken())?;
        if !is_same_file(&held, note)? {
            return Err(taken());
        }
        let text = [host().as_bytes(), b"\n", path.as_os_str().as_bytes()].concat();
        if let Err(error) = held.write_all(&text) {
            std::fs::remove_file(note)?;
            return Err(error);
        }
        Ok(held)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Those whose owner has ended without removing them.
    pub fn left(state_dir: &Path) -> Vec<OrphanScratch> {
        let entries = std::fs::read_dir(notes(state_dir)).into_iter().flatten().flatten();
        let mut left: Vec<OrphanScratch> =
            entries.filter_map(|entry| OrphanScratch::of(entry.path()).ok().flatten()).collect();
        left.sort_by(|one, other| one.path.cmp(&other.path));
        left
    }

    /// Removes those whose owner has ended, as far as it can be done. What stays is for [`Scratch::left`] to tell.
    pub fn clear_up(state_dir: &Path) {
        for left in Self::left(state_dir) {
            let _ = left.remove();
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed keeps its note, and is tried again.
        if remove_directory(&self.path).is_ok() {
            let _ = std::fs::remove_file(&self.note);
        }
    }
}

/// A directory for temporary files whose run has ended.
#[derive(Debug)]
pub struct OrphanScratch {
    /// Where it is; it may be gone.
    pub path: PathBuf,
    note: PathBuf,
    /// Locked, so that no other process removes it meanwhile.
    _held: File,
}

impl OrphanScratch {
    /// What a note tells of; none if its owner lives, is of another machine, or it is no note.
    fn of(note: PathBuf) -> io::Result<Option<Self>> {
        let mut held = OpenOptions::new().read(true).write(true).open(&note)?;
        match held.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if !is_same_file(&held, &note)? {
            return Ok(None);
        }
        let mut text = Vec::new();
        held.read_to_end(&mut text)?;
        let Some(end) = text.iter().position(|byte| *byte == b'\n') else {
            // Its owner has ended before the directory was made.
            std::fs::remove_file(&note)?;
            return Ok(None);
        };
        let path = PathBuf::from(std::ffi::OsString::from_vec(text[end + 1..].to_vec()));
        let named = note.file_name().is_some_and(|name| {
            let named = [PREFIX.as_bytes(), name.as_bytes()].concat();
            path.is_absolute() && path.file_name().is_some_and(|found| found.as_bytes() == named)
        });
        let here = text[..end] == *host().as_bytes();
        Ok((named && here).then_some(Self { path, note, _held: held }))
    }

    /// Removes it with all in it: a directory of this user's, and nothing else that may be in its place by now.
    pub fn remove(self) -> io::Result<()> {
        match self.path.symlink_metadata() {
            Ok(found) if found.is_dir() && found.uid() == rustix::process::getuid().as_raw() => {
                remove_directory(&self.path).map_err(io::Error::other)?;
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        std::fs::remove_file(&self.note)
    }
}

fn notes(state_dir: &Path) -> PathBuf {
    state_dir.join("scratch")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(state: &Path) -> usize {
        std::fs::read_dir(notes(state)).map_or(0, Iterator::count)
    }

    /// A directory as a killed process leaves it: its note exists and is not locked.
    fn killed(state: &Path, host: &str) -> PathBuf {
        let scratch = Scratch::make(state).unwrap();
        let (path, note) = (scratch.path.clone(), scratch.note.clone());
        drop(scratch);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("f"), "x").unwrap();
        std::fs::write(note, [host.as_bytes(), b"\n", path.as_os_str().as_bytes()].concat()).unwrap();
        path
    }

    #[test]
    fn a_scratch_directory_is_removed_with_read_only_files() {
        let state = tempfile::tempdir().unwrap();
        let scratch = Scratch::make(state.path()).unwrap();
        let path = scratch.path().to_owned();
        let deep = path.join("go/pkg");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("f"), "x").unwrap();
        let mut permissions = deep.metadata().unwrap().permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(&deep, permissions).unwrap();
        assert_eq!((Scratch::left(state.path()).len(), names(state.path())), (0, 1), "its owner lives");
        drop(scratch);
        assert!(!path.exists());
        assert_eq!(names(state.path()), 0);
    }

    #[test]
    fn the_place_that_cannot_be_written_to_is_named() {
        let state = tempfile::tempdir().unwrap();
        std::fs::write(notes(state.path()), "in the way").unwrap();
        let error = Scratch::make(state.path()).unwrap_err();
        let place = notes(state.path()).display().to_string();
        assert_eq!(error.to_string(), format!("cannot note a directory for temporary files in {place}"));
    }

    #[test]
    fn what_a_killed_run_has_left_is_found_and_removed() {
        let state = tempfile::tempdir().unwrap();
        let alive = Scratch::make(state.path()).unwrap();
        let dead = killed(state.path(), &host());
        let left: Vec<PathBuf> = Scratch::left(state.path()).into_iter().map(|left| left.path).collect();
        assert_eq!(left, std::slice::from_ref(&dead));
        Scratch::clear_up(state.path());
        assert!(!dead.exists() && alive.path().is_dir());
        assert_eq!(names(state.path()), 1);
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let state = tempfile::tempdir().unwrap();
        let elsewhere = killed(state.path(), "another-machine");
        let others = state.path().join("precious");
        std::fs::create_dir(&others).unwrap();
        let note = |name: &str, path: &Path| {
            let text = [host().as_bytes(), b"\n", path.as_os_str().as_bytes()].concat();
            std::fs::write(notes(state.path()).join(name), text).unwrap();
        };
        note("aaaaaaaa", &others);
        let link = state.path().join("pleach-bbbbbbbb");
        std::os::unix::fs::symlink(&others, &link).unwrap();
        note("bbbbbbbb", &link);
        std::fs::write(notes(state.path()).join("cccccccc"), "").unwrap();
        Scratch::clear_up(state.path());
        assert!(elsewhere.is_dir() && others.is_dir(), "a name that does not fit, a link, another machine");
        assert!(!notes(state.path()).join("cccccccc").exists(), "nothing was made yet");
        std::fs::remove_dir_all(elsewhere).unwrap();
    }
}
