//! One writer at a time. A lock is a `flock` on a file that is never removed; the text in it is only for the message
//! to the one who comes second. Correctness rests on compare-and-swap of the refs, not on these.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A held lock. Dropped, it is free again, unless a process it was handed to is still alive.
#[derive(Debug, Clone)]
pub struct Lock {
    file: Arc<File>,
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else has it.
    #[error("{what} is in use by {holder}")]
    Held {
        /// What the lock is for.
        what: String,
        /// Who has it, by their own words.
        holder: String,
    },
    /// The lock file cannot be used.
    #[error("cannot lock {}", .path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Lock {
    /// Takes the lock `name` below the common git directory, or says who has it.
    pub fn take(common_dir: &Path, name: &str, what: &str) -> Result<Self, LockError> {
        let path = common_dir.join("pleach/lock").join(name);
        let failed = |source| LockError::Io { path: path.clone(), source };
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).map_err(failed)?;
        }
        loop {
            let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
            let mut file = open.map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut holder = String::new();
                    file.read_to_string(&mut holder).map_err(failed)?;
                    let holder = if holder.is_empty() { "another process".to_owned() } else { holder };
                    return Err(LockError::Held { what: what.to_owned(), holder: holder.trim().to_owned() });
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            if !is_same_file(&file, &path).map_err(failed)? {
                // Somebody removed the file while we waited for it; a lock on it would exclude nobody.
                continue;
            }
            file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
            write!(file, "process {} on {} since {}", std::process::id(), host(), crate::clock::now())
                .map_err(failed)?;
            return Ok(Self { file: Arc::new(file) });
        }
    }

    /// Whether somebody holds the lock.
    pub fn is_held(common_dir: &Path, name: &str) -> bool {
        let path = common_dir.join("pleach/lock").join(name);
        File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// The open file, for a child process that is to hold the lock with us.
    pub fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }
}

fn is_same_file(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let ours = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(theirs) => Ok((ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let held = Lock::take(dir.path(), "session-x", "session x").unwrap();
        let error = Lock::take(dir.path(), "session-x", "session x").unwrap_err().to_string();
        assert!(error.starts_with(&format!("session x is in use by process {} on ", std::process::id())), "{error}");
        assert!(Lock::is_held(dir.path(), "session-x"));
        drop(held);
        assert!(!Lock::is_held(dir.path(), "session-x"));
        Lock::take(dir.path(), "session-x", "session x").unwrap();
    }

    #[test]
    fn a_removed_lock_file_lets_nobody_hold_a_ghost() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lock::take(dir.path(), "a", "a").unwrap();
        std::fs::remove_file(dir.path().join("pleach/lock/a")).unwrap();
        let second = Lock::take(dir.path(), "a", "a").unwrap();
        assert!(Lock::take(dir.path(), "a", "a").is_err());
        drop((first, second));
    }
}
