//! Files of pleach's own in a worktree.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::error::Error;
use super::working_copy::WorkingCopy;
use crate::git::TreeId;
use os::confined_fs::ConfinedDir;
use pleach_core::ids::RepoPath;

/// Writes a file of pleach's own, which is about to be committed.
pub fn write_file(copy: &mut WorkingCopy, path: &RepoPath, bytes: &[u8]) -> Result<(), Error> {
    let (root, inside) = (copy.worktree.root(), Path::new(OsStr::from_bytes(path.as_bytes())));
    let written = ConfinedDir::at(root).and_then(|root| root.put(inside, bytes));
    written.map_err(|source| Error::Io { doing: "write", path: root.join(inside), source })
}

/// Removes a file by the name of one of pleach's own, which is about to be left out of a commit.
pub fn remove_file(copy: &mut WorkingCopy, path: &RepoPath) -> Result<(), Error> {
    let (root, inside) = (copy.worktree.root(), Path::new(OsStr::from_bytes(path.as_bytes())));
    let removed = ConfinedDir::at(root).and_then(|root| root.remove(inside));
    removed.map_err(|source| Error::Io { doing: "remove", path: root.join(inside), source })
}

/// What is in the way of a directory of pleach's own, at its path or a parent, and is not a directory: in `tree`, or
/// only on disk, where git may ignore it or be unable to hold it.
pub fn non_directory_at(copy: &WorkingCopy, tree: TreeId, dir: &str) -> Result<Option<PathBuf>, Error> {
    if let Some(entry) = copy.repo.no_directory(tree, &RepoPath::from(dir))? {
        return Ok(Some(PathBuf::from(OsStr::from_bytes(entry.path.as_bytes()))));
    }
    let (root, mut above) = (copy.worktree.root(), Path::new(dir).ancestors().collect::<Vec<_>>());
    above.retain(|dir| !dir.as_os_str().is_empty());
    let found = ConfinedDir::at(root).and_then(|confined| {
        for dir in above.iter().rev() {
            match confined.kind(dir)? {
                Some(FileType::Directory) => {}
                other => return Ok(other.map(|_| root.join(dir))),
            }
        }
        Ok(None)
    });
    found.map_err(|source| Error::Io { doing: "look at", path: root.join(dir), source })
}
