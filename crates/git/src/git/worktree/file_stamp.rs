//! The stamp of a file that was not read: any later write changes it.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::FileType;

/// What a file shows without being read. One that was written since shows something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    mode: u32,
    size: u64,
    inode: u64,
    /// When it was written, in seconds and nanoseconds.
    written: (i64, i64),
}

impl FileStamp {
    /// What is at a place; none if nothing is.
    pub(super) fn at(place: &Path) -> Option<Self> {
        let found = place.symlink_metadata().ok()?;
        let written = (found.mtime(), found.mtime_nsec());
        Some(Self { mode: found.mode(), size: found.size(), inode: found.ino(), written })
    }

    pub(super) fn is_directory(&self) -> bool {
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

impl fmt::Display for FileStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, size, inode, written: (seconds, nanoseconds) } = self;
        write!(f, "{mode:o}:{size}:{inode}:{seconds}:{nanoseconds}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_read_as_it_was_written() {
        let seen = FileStamp { mode: 0o100_644, size: 1 << 40, inode: 7, written: (-3, 999_999_999) };
        assert_eq!(FileStamp::read(&seen.to_string()), Some(seen));
        for torn in ["", "100644:1:7", "100644:1:7:3:4:5", "x:1:7:3:4"] {
            assert_eq!(FileStamp::read(torn), None, "{torn}");
        }
    }
}
