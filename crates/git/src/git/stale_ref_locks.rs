//! The lock files that are left on the refs of a repository.

use std::io::ErrorKind;
use std::path::PathBuf;

use super::error::{Error, IoContext as _};
use super::ref_update::lock_path;
use super::repo::Repo;
use super::stale_lock::{STALE, age};
use super::worktree::git_dirs;

/// The locks of refs, of HEAD and of the packed refs that are nobody's, of all checkouts.
pub fn stale_ref_locks(repo: &Repo) -> Result<Vec<PathBuf>, Error> {
    let common = repo.common_dir();
    let mut locks = vec![lock_path(&common.join("packed-refs"))];
    let heads = git_dirs(common)?.into_iter().chain([common.to_owned()]);
    locks.extend(heads.map(|git_dir| lock_path(&git_dir.join("HEAD"))));
    let mut directories = vec![common.join("refs")];
    while let Some(directory) = directories.pop() {
        let entries = match std::fs::read_dir(&directory) {
            // It may have been removed as the last ref in it was.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            entries => entries.at("list", &directory)?,
        };
        for entry in entries {
            let entry = entry.at("list", &directory)?;
            let path = entry.path();
            if entry.file_type().at("look at", &path)?.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|end| end == "lock") {
                locks.push(path);
            }
        }
    }
    let mut stale = Vec::new();
    for lock in locks {
        stale.extend(age(&lock)?.filter(|age| *age >= STALE).map(|_| lock));
    }
    stale.sort();
    Ok(stale)
}
