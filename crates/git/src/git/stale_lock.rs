//! Lock files that killed processes left on refs. git writes nothing into one that tells its owner; but a ref is locked for
//! a moment only, so a lock that stays is nobody's.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use super::error::{Error, IoContext as _};

/// A lock of a ref that is as old as this is nobody's.
pub(super) const STALE: Duration = Duration::from_secs(1);

/// How often a younger one is looked at.
const POLL: Duration = Duration::from_millis(50);

/// Removes a lock file that is nobody's; false if there is none, or one that may be somebody's.
pub(super) fn release(common_dir: &Path, lock: &Path) -> Result<bool, Error> {
    if age(lock)?.is_none_or(|age| age < STALE) {
        return Ok(false);
    }
    // One process at a time: the lock that another one takes once it has removed this one is not removed here.
    let (dir, name) = (common_dir.join("pleach/lock"), "stale-ref-locks");
    std::fs::create_dir_all(&dir).at("create", &dir)?;
    let path = dir.join(name);
    let turn = File::create(&path).at("open", &path)?;
    turn.lock().at("lock", &path)?;
    if age(lock)?.is_none_or(|age| age < STALE) { Ok(false) } else { remove(lock) }
}

/// Waits until a lock file is gone or nobody's, and removes it then. Only where no other process takes it.
pub(super) fn release_in_time(lock: &Path) -> Result<bool, Error> {
    while let Some(age) = age(lock)? {
        match STALE.checked_sub(age).filter(|rest| !rest.is_zero()) {
            Some(rest) => std::thread::sleep(rest.min(POLL)),
            None => return remove(lock),
        }
    }
    Ok(false)
}

/// How long a lock has been there; none if there is none. A time in the future says nothing: such a lock is as old as any.
pub(super) fn age(lock: &Path) -> Result<Option<Duration>, Error> {
    let is_gone = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory);
    match lock.symlink_metadata() {
        Err(error) if is_gone(error.kind()) => Ok(None),
        found => {
            let elapsed = |found: Metadata| found.modified().ok()?.elapsed().ok();
            found.at("look at", lock).map(|found| Some(elapsed(found).unwrap_or(STALE)))
        }
    }
}

fn remove(lock: &Path) -> Result<bool, Error> {
    match std::fs::remove_file(lock) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        removed => removed.at("remove", lock).map(|()| true),
    }
}
