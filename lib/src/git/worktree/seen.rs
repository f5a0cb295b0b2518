//! By what a file that was not read is known again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use gix::bstr::{BStr, BString, ByteSlice as _};
use rustix::fs::FileType;

use super::scan::parents;
use super::{Scan, Worktree};
use crate::ids::RepoPath;

/// What a file shows without being read. One that was written since shows something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    mode: u32,
    size: u64,
    inode: u64,
    /// When it was written, in seconds and nanoseconds.
    written: (i64, i64),
}

impl Seen {
    /// What is at a place; none if nothing is.
    pub(super) fn at(place: &Path) -> Option<Self> {
        let found = place.symlink_metadata().ok()?;
        let written = (found.mtime(), found.mtime_nsec());
        Some(Self { mode: found.mode(), size: found.size(), inode: found.ino(), written })
    }

    fn is_directory(&self) -> bool {
        FileType::from_raw_mode(self.mode) == FileType::Directory
    }

    /// Reads what was written by [`fmt::Display`].
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let mut next = || parts.next();
        let mode = u32::from_str_radix(next()?, 8).ok()?;
        let (size, inode) = (next()?.parse().ok()?, next()?.parse().ok()?);
        let written = (next()?.parse().ok()?, next()?.parse().ok()?);
        next().is_none().then_some(Self { mode, size, inode, written })
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, size, inode, written: (seconds, nanoseconds) } = self;
        write!(f, "{mode:o}:{size}:{inode}:{seconds}:{nanoseconds}")
    }
}

impl Worktree {
    /// Of files that were seen once, or seen to be gone, those that are still what they were. One where the tree has a
    /// directory, or below a file of it, has to make room, unless that is to stay gone or only submodules are in it.
    pub fn untouched(&self, files: &BTreeMap<RepoPath, Option<Seen>>) -> BTreeSet<RepoPath> {
        let is_same = |path: &BStr, seen: Option<Seen>| self.file_at(path) == seen;
        let stays_gone = |path: &BStr| {
            files.get(&RepoPath::new(path.to_vec())).is_some_and(|seen| seen.is_none() && is_same(path, None))
        };
        let makes_room = |path: &BStr| self.cache.is_submodule(path) || stays_gone(path);
        let is_free = |path: &BStr| {
            parents(path).all(|parent| self.cache.known(parent).is_none() || makes_room(parent))
                && self.cache.below(path).iter().all(|below| makes_room(below.as_bstr()))
        };
        let untouched = files.iter().filter(|(path, seen)| {
            let path = path.as_bytes().as_bstr();
            is_same(path, **seen) && (seen.is_none() || is_free(path))
        });
        untouched.map(|(path, _)| path.clone()).collect()
    }

    /// What a file shows; none where no file is, but a directory perhaps.
    fn file_at(&self, path: &BStr) -> Option<Seen> {
        Seen::at(&self.place(path)).filter(|seen| !seen.is_directory() && self.leads_to(path))
    }

    /// Takes files out of a scan that are to stay as they are, in no commit, or to stay gone; and submodules that they
    /// leave no room for.
    pub fn spare(&mut self, scan: &mut Scan, files: &BTreeSet<RepoPath>) {
        let files = files.iter().map(|path| BString::from(path.as_bytes()));
        let mut spared: BTreeSet<BString> = files.filter(|path| scan.candidates.remove(path)).collect();
        self.cache.forget_stats(&spared);
        spared.retain(|path| self.file_at(path.as_bstr()).is_some());
        let is_in_the_way = |path: &BStr| parents(path).any(|parent| spared.contains(parent));
        scan.candidates.retain(|path| spared.is_empty() || !is_in_the_way(path.as_bstr()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_read_as_it_was_written() {
        let seen = Seen { mode: 0o100_644, size: 1 << 40, inode: 7, written: (-3, 999_999_999) };
        assert_eq!(Seen::read(&seen.to_string()), Some(seen));
        for torn in ["", "100644:1:7", "100644:1:7:3:4:5", "x:1:7:3:4"] {
            assert_eq!(Seen::read(torn), None, "{torn}");
        }
    }
}
