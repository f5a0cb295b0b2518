//! Which files are as they were recorded, by their stats alone. Most files of most scans are; told so beforehand, the
//! library looks only at the rest, and only it decides what a difference means.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::entry::stat::Time;
use gix::index::entry::{Flags, Mode, Stat};
use gix::index::{Entry, File, PathStorageRef};
use rustix::fs::{AtFlags, FileType, Mode as Permissions, OFlags};

/// So many files for a thread: fewer are looked at sooner than one is started.
const FILES_PER_THREAD: usize = 2_000;

/// At most so many threads: what they wait for is the same table of the system.
const MOST_THREADS: usize = 4;

/// Time stamps of files advance in steps, up to this long. A file that was recorded within the step it was written in may
/// have been written again in it, which its stamp would not show.
const STEP: Duration = Duration::from_millis(20);

/// Marks the entries whose files have exactly the stat they were recorded with.
pub(super) fn mark(index: &mut File, root: &Path) {
    let recorded = instant(index.timestamp().unix_seconds(), index.timestamp().nanoseconds());
    let (entries, paths) = index.entries_mut_and_pathbacking();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let threads = threads.min(entries.len() / FILES_PER_THREAD).max(1);
    let (first, others) = entries.split_at_mut(entries.len().div_ceil(threads));
    std::thread::scope(|scope| {
        for part in others.chunks_mut(first.len().max(1)) {
            scope.spawn(move || mark_part(part, paths, root, recorded));
        }
        mark_part(first, paths, root, recorded);
    });
}

/// Takes the marks off again: they hold for one scan.
pub(super) fn unmark(index: &mut File) {
    for entry in index.entries_mut() {
        entry.flags.remove(Flags::UPTODATE);
    }
}

fn mark_part(entries: &mut [Entry], paths: &PathStorageRef, root: &Path, recorded: Duration) {
    let Some(mut directories) = Directories::open(root) else { return };
    for entry in entries {
        let path = entry.path_in(paths);
        if entry.flags.is_empty() && directories.stat(path).is_some_and(|found| is_same(entry, &found, recorded)) {
            entry.flags.insert(Flags::UPTODATE);
        }
    }
}

fn is_same(entry: &Entry, found: &rustix::fs::Stat, recorded: Duration) -> bool {
    let kind = FileType::from_raw_mode(found.st_mode);
    let is_kind = match entry.mode {
        Mode::FILE => kind.is_file() && found.st_mode & 0o100 == 0,
        Mode::FILE_EXECUTABLE => kind.is_file() && found.st_mode & 0o100 != 0,
        Mode::SYMLINK => kind.is_symlink(),
        _ => false,
    };
    // An empty file is how git marks what it has to look at.
    is_kind && entry.stat.size != 0 && entry.stat == stat(found) && !is_recent(entry.stat.mtime, recorded)
}

/// Whether a file was written so shortly before its stat was recorded that a later write may not show.
fn is_recent(written: Time, recorded: Duration) -> bool {
    let step = if written.nsecs == 0 { Duration::from_secs(1) } else { STEP };
    Duration::new(written.secs.into(), written.nsecs) + step >= recorded
}

fn instant(seconds: i64, nanoseconds: u32) -> Duration {
    Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds)
}

/// A stat as the index has it, cut to what it has room for.
#[expect(clippy::cast_possible_truncation, reason = "the index keeps 32 bits, and so does git")]
fn stat(found: &rustix::fs::Stat) -> Stat {
    let time = |seconds: i64, nanoseconds: u64| Time { secs: seconds as u32, nsecs: nanoseconds as u32 };
    Stat {
        mtime: time(found.st_mtime, found.st_mtime_nsec),
        ctime: time(found.st_ctime, found.st_ctime_nsec),
        dev: found.st_dev as u32,
        ino: found.st_ino as u32,
        uid: found.st_uid,
        gid: found.st_gid,
        size: found.st_size as u32,
    }
}

/// The directories on the way to the file that was looked at last, open: the next one is mostly in the same. None of them
/// is a link, since what lies behind one is not part of the tree.
struct Directories {
    root: OwnedFd,
    /// Below each other, with their path up to and including its slash.
    open: Vec<(BString, OwnedFd)>,
}

impl Directories {
    fn open(root: &Path) -> Option<Self> {
        let root = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Permissions::empty());
        root.ok().map(|root| Self { root, open: Vec::new() })
    }

    /// The stat of a file; none when it cannot be reached.
    fn stat(&mut self, path: &BStr) -> Option<rustix::fs::Stat> {
        while self.open.last().is_some_and(|(above, _)| !path.starts_with(above)) {
            self.open.pop();
        }
        loop {
            let (known, above) = match self.open.last() {
                Some((path, directory)) => (path.len(), directory),
                None => (0, &self.root),
            };
            let rest = &path[known..];
            let Some(end) = rest.find_byte(b'/') else {
                return rustix::fs::statat(above, rest.as_bytes(), AtFlags::SYMLINK_NOFOLLOW).ok();
            };
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let next = rustix::fs::openat(above, rest[..end].as_bytes(), flags, Permissions::empty()).ok()?;
            self.open.push((path[..=known + end].as_bstr().to_owned(), next));
        }
    }
}
