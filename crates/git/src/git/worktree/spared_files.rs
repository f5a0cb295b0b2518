//! Files that stay as they are when a worktree is restored.

use std::collections::{BTreeMap, BTreeSet};

use gix::bstr::{BStr, BString, ByteSlice as _};

use super::file_stamp::FileStamp;
use super::tree_paths::parents;
use super::{ScanResult, Worktree};
use pleach_core::ids::RepoPath;

/// Of files that were seen once, or seen to be gone, those that are still what they were. One where the tree has a
/// directory, or below a file of it, has to make room, unless that is to stay gone or only submodules are in it.
pub fn untouched_files(worktree: &Worktree, files: &BTreeMap<RepoPath, Option<FileStamp>>) -> BTreeSet<RepoPath> {
    let is_same = |path: &BStr, seen: Option<FileStamp>| file_at(worktree, path) == seen;
    let stays_gone = |path: &BStr| {
        files.get(&RepoPath::new(path.to_vec())).is_some_and(|seen| seen.is_none() && is_same(path, None))
    };
    let makes_room = |path: &BStr| worktree.cache.is_submodule(path) || stays_gone(path);
    let is_free = |path: &BStr| {
        parents(path).all(|parent| worktree.cache.known(parent).is_none() || makes_room(parent))
            && worktree.cache.below(path).iter().all(|below| makes_room(below.as_bstr()))
    };
    let untouched = files.iter().filter(|(path, seen)| {
        let path = path.as_bytes().as_bstr();
        is_same(path, **seen) && (seen.is_none() || is_free(path))
    });
    untouched.map(|(path, _)| path.clone()).collect()
}

/// What a file shows; none where no file is, but a directory perhaps.
fn file_at(worktree: &Worktree, path: &BStr) -> Option<FileStamp> {
    FileStamp::at(&worktree.disk_path(path)).filter(|seen| !seen.is_directory() && worktree.has_real_parents(path))
}

/// Takes files out of a scan that are to stay as they are, in no commit, or to stay gone; and submodules that they
/// leave no room for.
pub(crate) fn spare_files(worktree: &mut Worktree, scan: &mut ScanResult, files: &BTreeSet<RepoPath>) {
    let files = files.iter().map(|path| BString::from(path.as_bytes()));
    let mut spared: BTreeSet<BString> = files.filter(|path| scan.candidates.remove(path)).collect();
    worktree.cache.forget_stats(&spared);
    spared.retain(|path| file_at(worktree, path.as_bstr()).is_some());
    let is_in_the_way = |path: &BStr| parents(path).any(|parent| spared.contains(parent));
    scan.candidates.retain(|path| spared.is_empty() || !is_in_the_way(path.as_bstr()));
}
