//! Asking another process to pause or cancel its session: a word in a file beside the session's lock. A signal tells
//! the holder of the lock to look; it says nothing by itself, since a process may run many sessions.

use std::io;
use std::path::{Path, PathBuf};

use super::names::lock_path;

/// A request to stop. It only grows stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopRequest {
    /// Pause after the turn in flight.
    Pause,
    /// Pause, and cut the turn short.
    PauseNow,
    /// End for good after the turn in flight.
    Cancel,
    /// End for good, and cut the turn short.
    CancelNow,
}

/// How each is written.
const WORDS: [(StopRequest, &str); 4] = [
    (StopRequest::Pause, "pause"),
    (StopRequest::PauseNow, "pause now"),
    (StopRequest::Cancel, "cancel"),
    (StopRequest::CancelNow, "cancel now"),
];

/// What the name of the file ends with, behind that of the lock.
const SUFFIX: &str = ".wish";

/// Whether a file beside locks is a request, or one that is being written.
pub(super) fn is_wish(name: &str) -> bool {
    name.contains(SUFFIX)
}

impl StopRequest {
    /// Writes it for the holder of the lock `name` below the common git directory, atomically.
    pub fn leave(self, common_dir: &Path, name: &str) -> io::Result<()> {
        let word = WORDS.iter().find(|(wish, _)| *wish == self).map_or("", |(_, word)| word);
        let path = place(common_dir, name);
        let beside = lock_path(common_dir, &format!("{name}{SUFFIX}-{}", std::process::id()));
        std::fs::write(&beside, word)?;
        std::fs::rename(&beside, &path)
    }

    /// The request to the holder of the lock.
    pub fn read(common_dir: &Path, name: &str) -> Option<Self> {
        let text = std::fs::read_to_string(place(common_dir, name)).ok()?;
        WORDS.iter().find(|(_, word)| *word == text.trim()).map(|(wish, _)| *wish)
    }

    /// Removes the request: it was granted, or is obsolete.
    pub fn forget(common_dir: &Path, name: &str) {
        // Without a signal it is never read.
        let _ = std::fs::remove_file(place(common_dir, name));
    }
}

fn place(common_dir: &Path, name: &str) -> PathBuf {
    lock_path(common_dir, &format!("{name}{SUFFIX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_wish_counts_until_it_is_forgotten() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(dir.path().join("pleach/lock")).expect("a place for locks");
        assert_eq!(StopRequest::read(dir.path(), "session-a"), None);
        for (wish, _) in WORDS {
            wish.leave(dir.path(), "session-a").expect("it is left");
            assert_eq!(StopRequest::read(dir.path(), "session-a"), Some(wish));
            assert_eq!(StopRequest::read(dir.path(), "session-b"), None);
        }
        StopRequest::forget(dir.path(), "session-a");
        assert_eq!(StopRequest::read(dir.path(), "session-a"), None);
        assert_eq!(std::fs::read_dir(dir.path().join("pleach/lock")).expect("it is there").count(), 0);
    }
}
