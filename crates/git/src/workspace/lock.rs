//! One writer at a time. A lock is a `flock` on a file; its text only serves the message to whoever comes second. Only
//! the holder removes the file, and whoever takes the lock checks that the file is still the one on disk. Correctness
//! rests on compare-and-swap of refs, not on these locks.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::names::lock_path;
use super::stop_request::is_wish;
use os::deadline::Deadline;

/// How often somebody who only looks is waited for.
const LOOKS: u32 = 1_000;

/// How long at a time.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// How long to wait for a killed process's children to exit, and how long at a time.
const ORPHANS_END: Duration = Duration::from_secs(10);

const BETWEEN_ORPHANS: Duration = Duration::from_millis(20);

/// A held lock. Dropped, it is free again, unless a process it was handed to is still alive.
#[derive(Debug, Clone)]
pub struct Lock {
    file: Arc<File>,
    path: PathBuf,
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
    /// Takes the lock `name` below the common git directory, or says who has it. What a killed process had started is waited
    /// for.
    pub fn take(common_dir: &Path, name: &str, what: &str) -> Result<Self, LockError> {
        Self::take_and_say(common_dir, name, what, |_| {})
    }

    /// The same, saying who is waited for.
    fn take_and_say(
        common_dir: &Path,
        name: &str,
        what: &str,
        say: impl FnMut(&LockHolder),
    ) -> Result<Self, LockError> {
        Self::outwait(common_dir, name, say);
        Self::take_now(common_dir, name, what)
    }

    /// The same without waiting.
    pub fn take_now(common_dir: &Path, name: &str, what: &str) -> Result<Self, LockError> {
        let path = lock_path(common_dir, name);
        let failed = |source| LockError::Io { path: path.clone(), source };
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).map_err(failed)?;
        }
        let mut looks = 0;
        loop {
            let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
            let mut file = open.map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                // Somebody only looks whether it is held, which takes no time; an agent may look for ever.
                Err(TryLockError::WouldBlock) if file.try_lock_shared().is_ok() && looks < LOOKS => {
                    looks += 1;
                    std::thread::sleep(BETWEEN_LOOKS);
                    continue;
                }
                Err(TryLockError::WouldBlock) => {
                    let mut holder = String::new();
                    file.read_to_string(&mut holder).map_err(failed)?;
                    let mut holder = if holder.is_empty() { "another process".to_owned() } else { holder };
                    if LockHolder::read(&holder).is_gone(common_dir, name) {
                        holder = left_by(&holder, &file, &path).map_err(failed)?;
                    }
                    return Err(LockError::Held { what: what.to_owned(), holder: holder.trim().to_owned() });
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            if !is_same_file(&file, &path).map_err(failed)? {
                // Somebody removed the file while we waited for it; a lock on it would be useless.
                continue;
            }
            file.set_len(0).and_then(|()| file.rewind()).map_err(failed)?;
            write!(file, "process {} on {} since {}", std::process::id(), host(), pleach_core::clock::now())
                .map_err(failed)?;
            return Ok(Self { file: Arc::new(file), path });
        }
    }

    /// The names of all locks there are files of, held or not, in order.
    pub fn names(common_dir: &Path) -> Result<Vec<String>, LockError> {
        let path = common_dir.join("pleach/lock");
        let failed = |source| LockError::Io { path: path.clone(), source };
        let entries = match std::fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()));
        let mut names = names.collect::<io::Result<Vec<String>>>().map_err(failed)?;
        names.retain(|name| !is_wish(name));
        names.sort();
        Ok(names)
    }

    /// Whether somebody holds the lock.
    pub fn is_held(common_dir: &Path, name: &str) -> bool {
        let path = lock_path(common_dir, name);
        File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
    }

    /// Whether there is a lock of this name, held or not.
    pub fn exists(common_dir: &Path, name: &str) -> bool {
        lock_path(common_dir, name).exists()
    }

    /// The holder as it describes itself; none if the lock is free.
    pub fn holder(common_dir: &Path, name: &str) -> Option<LockHolder> {
        if !Self::is_held(common_dir, name) {
            return None;
        }
        let text = std::fs::read_to_string(lock_path(common_dir, name)).ok()?;
        Some(LockHolder::read(&text))
    }

    /// Waits up to ten seconds while a lock is held by what a process of this machine that is gone had started, which dies by
    /// itself. `say` is called with that process at each look.
    pub fn outwait(common_dir: &Path, name: &str, mut say: impl FnMut(&LockHolder)) {
        let deadline = Deadline::after(ORPHANS_END);
        while let Some(holder) = Self::holder(common_dir, name)
            && holder.is_gone(common_dir, name)
            && !deadline.is_over()
        {
            say(&holder);
            std::thread::sleep(BETWEEN_ORPHANS);
        }
    }

    /// Removes the file of a lock that is not needed again, and releases it. The file goes while the lock is held:
    /// who opened it before finds that it is not the one on disk any more, and takes a new one.
    pub fn remove(self) -> Result<(), LockError> {
        match is_same_file(&self.file, &self.path) {
            Ok(true) => std::fs::remove_file(&self.path),
            // It was removed by hand; the file there now belongs to another lock.
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        }
        .map_err(|source| LockError::Io { path: self.path.clone(), source })
    }

    /// The open file, for a child process that is to hold the lock with us.
    pub fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }
}

/// The holder of a lock. Its text is only used for messages; see [`LockHolder::is_here`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockHolder {
    /// All they wrote.
    pub text: String,
    /// The process.
    pub process: Option<i32>,
    /// The machine it runs on.
    pub host: Option<String>,
}

impl LockHolder {
    /// Reads what a holder wrote: `process 42 on host since …`
    pub fn read(text: &str) -> Self {
        let mut words = text.strip_prefix("process ").unwrap_or_default().split(" on ");
        let process = words.next().and_then(|word| word.parse().ok()).filter(|process| *process > 1);
        let host = words.next().and_then(|rest| rest.split(" since ").next()).map(str::to_owned);
        Self { text: text.trim().to_owned(), process, host }
    }

    /// Whether the holder is a process of this machine that has the lock's file open: a process of that number may
    /// have ended, and the number may be another one's by now. Where the system does not tell, the number counts.
    pub fn is_here(&self, common_dir: &Path, name: &str) -> bool {
        let (Some(process), Some(on)) = (self.process, &self.host) else { return false };
        if *on != host() {
            return false;
        }
        let Ok(lock) = std::fs::metadata(lock_path(common_dir, name)) else { return false };
        let open = match std::fs::read_dir(format!("/proc/{process}/fd")) {
            Ok(open) => open,
            // A process that holds keys does not let others look.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return true,
            Err(_) => return !Path::new("/proc/self").exists(),
        };
        // Looked at, never opened: what a foreign process has open may block its reader.
        open.flatten().filter_map(|entry| std::fs::metadata(entry.path()).ok()).any(|file| is_same(&file, &lock))
    }
}

impl LockHolder {
    /// Whether the holder was a process of this machine and has let go, or ended: what holds the lock then is what it had
    /// started.
    fn is_gone(&self, common_dir: &Path, name: &str) -> bool {
        self.process.is_some() && self.host.as_deref() == Some(&*host()) && !self.is_here(common_dir, name)
    }
}

/// Who holds a lock whose holder has ended: what it had started, or anybody who has opened the file and locked it as well.
fn left_by(gone: &str, file: &File, path: &Path) -> io::Result<String> {
    use std::os::unix::fs::MetadataExt;
    let inode = format!(":{}", file.metadata()?.ino());
    // `1: FLOCK ADVISORY WRITE PROCESS MAJOR:MINOR:INODE 0 EOF`
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let holder = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find_map(|words| {
        let is_this = words.get(1) == Some(&"FLOCK") && words.get(5).is_some_and(|place| place.ends_with(&inode));
        words.get(4).filter(|_| is_this)?.parse::<u32>().ok()
    });
    let who = holder.map_or_else(|| "a process".to_owned(), |process| format!("process {process} on {}", host()));
    Ok(format!("{who}, which still holds `{}`; {} has ended", path.display(), gone.trim()))
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

pub(super) fn is_same_file(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(theirs) => Ok(is_same(&ours, &theirs)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn host() -> String {
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
        // A child that another test has just started has the file until it runs its program.
        let is_free = |_| {
            std::thread::sleep(Duration::from_millis(1));
            !Lock::is_held(dir.path(), "session-x")
        };
        assert!((0..1_000).any(is_free));
        Lock::take(dir.path(), "session-x", "session x").unwrap();
    }

    #[test]
    fn who_has_ended_is_not_said_to_have_it() {
        let dir = tempfile::tempdir().unwrap();
        drop(Lock::take(dir.path(), "a", "a").unwrap());
        let path = dir.path().join("pleach/lock/a");
        // No process has a number that large.
        std::fs::write(&path, format!("process 2147483646 on {} since yesterday", host())).unwrap();
        let locked = File::open(&path).unwrap();
        locked.lock().unwrap();
        let error = Lock::take_now(dir.path(), "a", "it").unwrap_err().to_string();
        assert!(error.starts_with(&format!("it is in use by process {} on ", std::process::id())), "{error}");
        assert!(error.contains("pleach/lock/a`; process 2147483646 on ") && error.ends_with("has ended"), "{error}");
    }

    #[test]
    fn what_a_killed_holder_had_started_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        drop(Lock::take(dir.path(), "a", "a").unwrap());
        let path = dir.path().join("pleach/lock/a");
        std::fs::write(&path, format!("process 2147483646 on {} since yesterday", host())).unwrap();
        let mut locked = Some(File::open(&path).unwrap());
        locked.as_ref().unwrap().lock().unwrap();
        let taken = Lock::take_and_say(dir.path(), "a", "it", |holder| {
            assert_eq!(holder.process, Some(2_147_483_646));
            locked.take();
        });
        taken.unwrap();
    }

    #[test]
    fn who_looks_is_not_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        drop(Lock::take(dir.path(), "a", "a").unwrap());
        let looking = File::open(dir.path().join("pleach/lock/a")).unwrap();
        looking.try_lock_shared().unwrap();
        let waiting = std::thread::spawn({
            let dir = dir.path().to_owned();
            move || Lock::take(&dir, "a", "a").map(drop)
        });
        drop(looking);
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn the_holder_is_recognised_by_pid_and_open_file() {
        let dir = tempfile::tempdir().unwrap();
        let held = Lock::take(dir.path(), "a", "a").unwrap();
        let holder = Lock::holder(dir.path(), "a").unwrap();
        assert_eq!(holder.process, Some(std::process::id().try_into().unwrap()));
        assert!(holder.is_here(dir.path(), "a"));
        let elsewhere = LockHolder { host: Some("elsewhere".into()), ..holder.clone() };
        assert!(!elsewhere.is_here(dir.path(), "a"));
        drop(held);
        assert_eq!(Lock::holder(dir.path(), "a"), None);
        assert!(!holder.is_here(dir.path(), "a"), "the process lives, but has let go");
        assert_eq!(LockHolder::read("another process").process, None);
    }

    #[test]
    fn a_removed_lock_file_lets_nobody_hold_a_ghost() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lock::take(dir.path(), "a", "a").unwrap();
        std::fs::remove_file(dir.path().join("pleach/lock/a")).unwrap();
        let second = Lock::take(dir.path(), "a", "a").unwrap();
        assert!(Lock::take(dir.path(), "a", "a").is_err());
        first.remove().unwrap();
        assert!(Lock::is_held(dir.path(), "a"), "the file of the second one stays");
        second.remove().unwrap();
        assert!(!dir.path().join("pleach/lock/a").exists());
    }

    #[test]
    fn a_removed_lock_is_never_shared_by_its_waiters() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let dir = tempfile::tempdir().unwrap();
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut taken = 0;
                    while taken < 50 {
                        let Ok(lock) = Lock::take(dir.path(), "a", "a") else {
                            std::thread::yield_now();
                            continue;
                        };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold it");
                        taken += 1;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        lock.remove().unwrap();
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(dir.path().join("pleach/lock")).unwrap().count(), 0);
    }
}
