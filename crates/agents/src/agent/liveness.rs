//! Whether a program that is an agent still lives: by its output, by its model's calls, and by the files it changes.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::gateway::UsageMeter;
use os::process::Signs;
use pleach_core::clock;

/// How long a program may go without a sign of life where the settings do not say. A model may think for long, and so
/// may tests.
pub(super) const IDLE: Duration = Duration::from_secs(1800);

/// The signs of a program that works below `root`, and whose model's calls are counted where it is behind the gateway.
pub(super) fn signs_of_life(root: &Path, meter: Option<UsageMeter>) -> Signs {
    let root = root.to_owned();
    Signs::new(move |limit| {
        let called = meter.as_ref().map(UsageMeter::silence).filter(|ago| *ago < limit);
        called.or_else(|| changed_within(root.clone(), limit))
    })
}

/// How long ago something below a directory was changed, if something was in the last `limit`. What is git's own does
/// not count, and no link is followed.
fn changed_within(root: PathBuf, limit: Duration) -> Option<Duration> {
    let now = i128::from(clock::now().as_millisecond());
    let age = |found: &Metadata| {
        let changed = i128::from(found.ctime()) * 1000 + i128::from(found.ctime_nsec()) / 1_000_000;
        Duration::from_millis(u64::try_from(now - changed).unwrap_or_default())
    };
    let mut directories = vec![root];
    while let Some(directory) = directories.pop() {
        // What is gone or closed by now says nothing.
        for entry in fs::read_dir(directory).into_iter().flatten().flatten().filter(|entry| entry.file_name() != ".git")
        {
            let Ok(found) = entry.path().symlink_metadata() else { continue };
            if age(&found) < limit {
                return Some(age(&found));
            }
            if found.is_dir() {
                directories.push(entry.path());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_files_outside_git_are_signs_of_life() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(".git/objects")).unwrap();
        let hour = Duration::from_secs(3600);
        assert_eq!(changed_within(dir.path().to_owned(), hour), None);
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("a/b/c"), "").unwrap();
        assert!(changed_within(dir.path().to_owned(), hour).is_some());
        assert_eq!(changed_within(dir.path().to_owned(), Duration::ZERO), None, "it is not that new");
    }
}
