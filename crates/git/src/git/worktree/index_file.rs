//! Writing the index of a worktree.

use super::Worktree;
use super::cache::Cache;
use crate::git::crash::{self, CrashKind, CrashSide};
use crate::git::error::{Error, IoContext as _, LibraryContext as _};
use crate::git::id::TreeId;

/// Writes the cache as the worktree's index. Its stats count from now.
pub(super) fn write_index(worktree: &mut Worktree) -> Result<(), Error> {
    let path = worktree.git_dir.join("index");
    crash::point(CrashKind::IndexUpdate, CrashSide::Before);
    let index = worktree.cache.index();
    index.remove_tree();
    index.set_path(&path);
    index.write(worktree.repo.index_options()).doing("write the index of a worktree")?;
    crash::point(CrashKind::IndexUpdate, CrashSide::After);
    let metadata = path.metadata().at("read", &path)?;
    index.set_timestamp(filetime::FileTime::from_last_modification_time(&metadata));
    worktree.notes.note_index(&metadata)?;
    worktree.staged = None;
    Ok(())
}

/// Writes the index of another tree than the files are at, with the stats of files that are the same.
pub(super) fn write_index_of(worktree: &mut Worktree, tree: TreeId) -> Result<(), Error> {
    let path = worktree.git_dir.join("index");
    crash::point(CrashKind::IndexUpdate, CrashSide::Before);
    let mut other = Cache::build(&worktree.handle, tree, worktree.cache.index(), &worktree.rules)?;
    let index = other.index();
    index.set_path(&path);
    index.write(worktree.repo.index_options()).doing("write the index of a worktree")?;
    crash::point(CrashKind::IndexUpdate, CrashSide::After);
    worktree.notes.note_index(&path.metadata().at("read", &path)?)
}
