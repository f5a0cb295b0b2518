//! Moving what is in the way of a worktree to a sibling path: it may be somebody's work.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::git::error::{Error, IoContext as _};

/// Moves something beside a worktree, under a name nothing has yet. Returns where it is.
pub(super) fn move_aside(found: &Path, worktree: &Path, what: &str) -> Result<PathBuf, Error> {
    let mut number = 1;
    loop {
        let place = sibling(worktree, &format!("{what}-{number}"));
        if place.symlink_metadata().is_err() {
            std::fs::rename(found, &place).at("move aside", found)?;
            return Ok(place);
        }
        number += 1;
    }
}

pub(super) fn sibling(worktree: &Path, what: &str) -> PathBuf {
    let mut name = OsString::from(worktree.file_name().unwrap_or_default());
    name.push(".");
    name.push(what);
    worktree.with_file_name(name)
}
