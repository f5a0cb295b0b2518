//! Moving a ref that has a file of its own, the common case for records and task branches. The library would lock the
//! packed refs each time, though nothing in them changes; git itself only takes the lock of the ref, and so does this.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use gix::lock::acquire::Fail;

use super::crash::{self, CrashKind, CrashSide};
use super::durability::Durability;
use super::error::{Error, IoContext as _};
use super::id::from_gix;
use super::ref_update::{EMAIL, NAME, PATIENCE, RefUpdate, SwapError, lock_path};
use pleach_core::ids::CommitId;

/// Moves a ref below the git directory `common`; false, with nothing done, where it is not one of these. `why` goes to its
/// log, if it has one.
pub(super) fn swap(common: &Path, step: &RefUpdate, why: &str, durability: Durability) -> Result<bool, SwapError> {
    let (Some(old), Some(new)) = (step.old, step.new) else { return Ok(false) };
    let (path, log) = (common.join(&step.name), common.join("logs").join(&step.name));
    // What stands in the place of a log and is none is the library's affair.
    if !path.is_file() || log.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return Ok(false);
    }
    let patience = Fail::AfterDurationWithBackoff(PATIENCE);
    let mut lock = match gix::lock::File::acquire_to_update_resource(&path, patience, None, 0) {
        Ok(lock) => lock,
        Err(error) if error.is_retryable() => {
            return Err(SwapError::Locked { name: step.name.clone(), lock: lock_path(&path) });
        }
        // Packed a moment ago, and its directory removed.
        Err(error) if error.is_not_found() => return Ok(false),
        Err(error) => return Err(SwapError::Other(Error::library("lock a ref", error))),
    };
    // Only now nobody else moves it.
    match read(&path)? {
        Some(actual) if actual == old => {}
        Some(actual) => return Err(SwapError::Stale { name: step.name.clone(), actual: Some(actual) }),
        // Packed a moment ago, or no plain ref.
        None => return Ok(false),
    }
    let permissions = path.metadata().at("look at", &path)?.permissions();
    lock.with_mut(|file| {
        file.write_all(format!("{new}\n").as_bytes())?;
        // Those who share the repository go on sharing it.
        if file.metadata()?.permissions() != permissions {
            file.set_permissions(permissions)?;
        }
        if durability == Durability::Fsync { file.sync_all() } else { Ok(()) }
    })
    .at("write", &path)?;
    crash::point(CrashKind::RefSwap, CrashSide::Before);
    // As git does it: a log may tell of a move that was not made, but none is made that it does not tell of.
    tell(&log, old, new, why)?;
    lock.commit().map_err(|error| error.error).at("move", &path)?;
    crash::point(CrashKind::RefSwap, CrashSide::After);
    Ok(true)
}

/// Adds a line to the log of a ref, where there is one.
fn tell(path: &Path, old: CommitId, new: CommitId, why: &str) -> Result<(), Error> {
    let mut log = match OpenOptions::new().append(true).open(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
        log => log.at("open", path)?,
    };
    let (seconds, why) = (pleach_core::clock::now().as_second(), why.lines().next().unwrap_or_default());
    log.write_all(format!("{old} {new} {NAME} <{EMAIL}> {seconds} +0000\t{why}\n").as_bytes()).at("write", path)
}

/// The commit a ref's file names; none if it is gone, or names something else.
fn read(path: &Path) -> Result<Option<CommitId>, Error> {
    match std::fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        content => {
            let content = content.at("read", path)?;
            Ok(gix::ObjectId::from_hex(content.trim_ascii_end()).ok().map(|id| from_gix(&id)))
        }
    }
}
