//! Walks the directories of a worktree once. It finds unchanged files by their stat data, and untracked entries; the
//! rest is left to the library, which decides what a difference means.

use std::cmp::Ordering;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::entry::stat::Time;
use gix::index::entry::{Flags, Mode, Stat};
use gix::index::{Entry, File};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode as Permissions, OFlags};
use rustix::io::Errno;

use super::rule_files::blocks_reading;
use super::sparse_rules::LEFT_OUT;

/// Files per thread: for fewer, starting a thread takes longer than checking them.
const FILES_PER_THREAD: usize = 2_000;

/// The maximum number of threads, which all contend for the same kernel table.
const MOST_THREADS: usize = 4;

/// File timestamps advance in steps, up to this long. A file recorded within the step it was written in may have been
/// written again in the same step, which its timestamp would not show.
const STEP: Duration = Duration::from_millis(20);

/// Up to this many possibly changed files are read by the scan itself, each up to this size: reading few and small ones
/// is faster than preparing the library. That costs as much as the repository is large, so there it may be one in so many.
const FEW: usize = 16;

const FEW_OF: usize = 200;

pub(super) const SMALL: u64 = 256 * 1024;

/// The result of a walk.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// Index positions of files whose stat data is exactly as recorded.
    unchanged: Vec<usize>,
    /// Files excluded from the checkout: how many are absent, and the index positions of those that exist.
    absent: usize,
    outside: Vec<usize>,
    /// Index positions of small files and links whose stat data is inconclusive.
    unsure: Vec<usize>,
    /// Entries in directories of the index that are not in the index.
    pub untracked_entries: Vec<UntrackedEntry>,
    /// Whether the walk found something it does not judge: another repository, a directory in place of a file, an
    /// unreadable directory.
    pub needs_library: bool,
    /// Files git would block on.
    pub special: Vec<BString>,
    /// Directories of submodules.
    pub submodules: Vec<BString>,
}

/// A file, link or directory that is not in the index.
#[derive(Debug)]
pub(super) struct UntrackedEntry {
    pub path: BString,
    pub is_directory: bool,
}

impl Walked {
    /// The index positions of files that need a closer check, if they are few and nothing else needs one. If a
    /// `.gitattributes` file may be gone, the library decides: it uses the rules in the index.
    pub fn few(&self, index: &File) -> Option<&[usize]> {
        let is_all = self.unchanged.len() + self.absent + self.unsure.len() == index.entries().len();
        let are_rules = |at: &usize| index.entries()[*at].path(index).ends_with(b".gitattributes");
        let most = FEW.max(index.entries().len() / FEW_OF);
        (is_all && self.unsure.len() <= most && !self.unsure.iter().any(are_rules)).then_some(&self.unsure)
    }

    /// Marks the entries that need no further check. An excluded file that exists needs one. For a check of the
    /// `whole`, no entry counts as excluded, because directories with nothing else would be skipped.
    pub fn mark(&mut self, index: &mut File, whole: bool) {
        let entries = index.entries_mut();
        self.unchanged.iter().for_each(|at| entries[*at].flags.insert(Flags::UPTODATE));
        if whole {
            let is_left_out = |at: &usize| entries[*at].flags.contains(Flags::SKIP_WORKTREE);
            self.outside = (0..entries.len()).filter(is_left_out).collect();
        }
        self.outside.iter().for_each(|at| entries[*at].flags.remove(LEFT_OUT));
    }

    /// Removes the marks, which are valid for one scan.
    pub fn unmark(&self, index: &mut File) {
        let entries = index.entries_mut();
        self.unchanged.iter().for_each(|at| entries[*at].flags.remove(Flags::UPTODATE));
        self.outside.iter().for_each(|at| entries[*at].flags.insert(LEFT_OUT));
    }

    fn add(&mut self, other: Self) {
        self.unchanged.extend(other.unchanged);
        self.absent += other.absent;
        self.outside.extend(other.outside);
        self.unsure.extend(other.unsure);
        self.untracked_entries.extend(other.untracked_entries);
        self.needs_library |= other.needs_library;
        self.special.extend(other.special);
        self.submodules.extend(other.submodules);
    }
}

/// Walks the directories of an index below `root`, and counts the files checked.
pub(super) fn walk(index: &File, root: &Path, seen: &AtomicU64) -> Walked {
    let entries = index.entries();
    let walk = Walk {
        index,
        root,
        recorded: instant(index.timestamp().unix_seconds(), index.timestamp().nanoseconds()),
        queue: Mutex::new(Queue { waiting: vec![Directory::root(entries.len())], busy: 0, idle: 0 }),
        changed: Condvar::new(),
        seen,
    };
    let threads = parallelism().min(MOST_THREADS).min(entries.len() / FILES_PER_THREAD).max(1);
    std::thread::scope(|scope| {
        // Where the system gives no more threads, fewer do the work.
        let helper = |_| std::thread::Builder::new().spawn_scoped(scope, || walk.work()).ok();
        let others: Vec<_> = (1..threads).map_while(helper).collect();
        let mut walked = walk.work();
        for other in others {
            walked.add(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        walked
    })
}

/// The number of threads the system runs at once. Cached, because the system computes it from several files.
fn parallelism() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// A directory in the index.
struct Directory {
    /// Its open parent; `None` for the root.
    above: Option<Arc<Dir>>,
    /// Where its name starts in the paths of its entries, and where theirs start.
    name: usize,
    rest: usize,
    /// Its entries in the index, including everything below it.
    entries: Range<usize>,
}

impl Directory {
    fn root(entries: usize) -> Self {
        Self { above: None, name: 0, rest: 0, entries: 0..entries }
    }
}

/// Directories still to read, and the number being read, which may add more.
struct Queue {
    waiting: Vec<Directory>,
    busy: usize,
    /// Number of threads waiting for a change: a wake-up without a waiter still costs a system call.
    idle: usize,
}

struct Walk<'a> {
    index: &'a File,
    root: &'a Path,
    /// When the stat data was recorded.
    recorded: Duration,
    queue: Mutex<Queue>,
    changed: Condvar,
    seen: &'a AtomicU64,
}

/// An entry of the index directly in a directory.
struct Child<'a> {
    name: &'a [u8],
    /// A file's position in the index; `None` for a directory.
    file: Option<usize>,
}

impl Walk<'_> {
    fn work(&self) -> Walked {
        let mut walked = Walked::default();
        while let Some(directory) = self.next() {
            let below = self.look_into(&directory, &mut walked);
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.waiting.extend(below);
            queue.busy -= 1;
            let is_awaited = queue.idle > 0;
            drop(queue);
            if is_awaited {
                self.changed.notify_all();
            }
        }
        walked
    }

    /// The next directory; `None` when all have been walked.
    fn next(&self) -> Option<Directory> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(directory) = queue.waiting.pop() {
                queue.busy += 1;
                return Some(directory);
            }
            if queue.busy == 0 {
                return None;
            }
            queue.idle += 1;
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    /// Checks the entries directly in a directory; returns its subdirectories.
    fn look_into(&self, directory: &Directory, walked: &mut Walked) -> Vec<Directory> {
        let opened = self.open(directory);
        let mut dir = match opened {
            Ok(dir) => dir,
            // Its files are gone; whatever replaced it is found from its parent.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if directory.above.is_some() => {
                let entries = &self.index.entries()[directory.entries.clone()];
                walked.absent += entries.iter().filter(|entry| entry.flags.contains(Flags::SKIP_WORKTREE)).count();
                return Vec::new();
            }
            Err(_) => {
                walked.needs_library = true;
                return Vec::new();
            }
        };
        let (children, mut below) = self.children(directory);
        let files = children.iter().filter(|child| child.file.is_some()).count();
        self.seen.fetch_add(files as u64, Relaxed);
        while let Some(entry) = dir.read() {
            match entry {
                Ok(entry) => self.meet(directory, &dir, &entry, &children, walked),
                Err(_) => walked.needs_library = true,
            }
        }
        let dir = Arc::new(dir);
        for child in &children {
            let Some(at) = child.file else { continue };
            let entry = &self.index.entries()[at];
            let found = |dir: &Dir| rustix::fs::statat(dir.fd()?, child.name, AtFlags::SYMLINK_NOFOLLOW);
            let is_left_out = entry.flags.contains(Flags::SKIP_WORKTREE);
            match found(&dir) {
                Ok(found) if is_same(entry, &found, self.recorded) && (entry.flags - LEFT_OUT).is_empty() => {
                    walked.unchanged.push(at);
                }
                Err(Errno::NOENT) if is_left_out => walked.absent += 1,
                _ if is_left_out => walked.outside.push(at),
                found => {
                    let is_small = match found {
                        Ok(found) => u64::try_from(found.st_size).is_ok_and(|size| size <= SMALL),
                        Err(errno) => errno == Errno::NOENT,
                    };
                    let is_file = matches!(entry.mode, Mode::FILE | Mode::FILE_EXECUTABLE | Mode::SYMLINK);
                    walked.unsure.extend((is_small && is_file && entry.flags.is_empty()).then_some(at));
                }
            }
        }
        below.iter_mut().for_each(|below| below.above = Some(Arc::clone(&dir)));
        below
    }

    /// Never follows links: the target of a link is not part of the tree.
    fn open(&self, directory: &Directory) -> Result<Dir, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = match &directory.above {
            None => rustix::fs::openat(CWD, self.root, flags, Permissions::empty()),
            Some(above) => {
                let name = &self.path(directory.entries.start)[directory.name..directory.rest - 1];
                rustix::fs::openat(above.fd()?, name.as_bytes(), flags | OFlags::NOFOLLOW, Permissions::empty())
            }
        };
        Dir::new(opened?)
    }

    fn path(&self, at: usize) -> &BStr {
        self.index.entries()[at].path(self.index)
    }

    /// The entries of the index directly in a directory, in its order, and the directories among them.
    fn children(&self, directory: &Directory) -> (Vec<Child<'_>>, Vec<Directory>) {
        let (mut children, mut below) = (Vec::new(), Vec::new());
        let Range { start: mut at, end } = directory.entries;
        while at < end {
            let path = self.path(at);
            let rest = &path[directory.rest..];
            let Some(length) = rest.find_byte(b'/') else {
                children.push(Child { name: rest, file: Some(at) });
                at += 1;
                continue;
            };
            let begin = &path[..=directory.rest + length];
            let others = &self.index.entries()[at..end];
            let count = others.partition_point(|entry| entry.path(self.index).starts_with(begin));
            children.push(Child { name: &rest[..length], file: None });
            below.push(Directory { above: None, name: directory.rest, rest: begin.len(), entries: at..at + count });
            at += count;
        }
        (children, below)
    }

    /// Records an entry of a directory that the index does not have there.
    fn meet(
        &self,
        directory: &Directory,
        dir: &Dir,
        entry: &rustix::fs::DirEntry,
        children: &[Child<'_>],
        walked: &mut Walked,
    ) {
        let name = entry.file_name().to_bytes();
        let is_root = directory.rest == 0;
        if name == b"." || name == b".." || is_root && name == b".git" {
            return;
        }
        let look = || dir.fd().and_then(|dir| rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW));
        let kind = match entry.file_type() {
            FileType::Unknown => look().map_or(FileType::Unknown, |found| FileType::from_raw_mode(found.st_mode)),
            kind => kind,
        };
        let is_directory = kind.is_dir();
        let path = || {
            let above = if is_root { &b""[..] } else { &self.path(directory.entries.start)[..directory.rest] };
            BString::from([above, name].concat())
        };
        if blocks_reading(name, kind, || look().map_or(0, |found| found.st_size as u64)) {
            walked.special.push(path());
        }
        let known = |is_directory: bool| {
            let place = |child: &Child<'_>| order((child.name, child.file.is_none()), (name, is_directory));
            children.binary_search_by(place).ok().map(|at| &children[at])
        };
        if known(is_directory).is_some() {
            return;
        }
        if name.eq_ignore_ascii_case(b".git") {
            walked.needs_library = true;
        } else if is_directory && let Some(Child { file: Some(at), .. }) = known(false) {
            // A submodule is a directory with one index entry; otherwise a directory has replaced a file.
            match self.index.entries()[*at].mode {
                Mode::COMMIT => walked.submodules.push(path()),
                _ => walked.needs_library = true,
            }
        } else if is_directory || kind.is_file() || kind.is_symlink() {
            walked.untracked_entries.push(UntrackedEntry { path: path(), is_directory });
        }
    }
}

/// The order of an index, in which directory names end with a slash.
fn order((one, one_is_dir): (&[u8], bool), (two, two_is_dir): (&[u8], bool)) -> Ordering {
    let common = one.len().min(two.len());
    let next = |name: &[u8], is_dir: bool| name.get(common).copied().or(is_dir.then_some(b'/'));
    one[..common].cmp(&two[..common]).then_with(|| next(one, one_is_dir).cmp(&next(two, two_is_dir)))
}

fn is_same(entry: &Entry, found: &rustix::fs::Stat, recorded: Duration) -> bool {
    let kind = FileType::from_raw_mode(found.st_mode);
    let is_kind = match entry.mode {
        Mode::FILE => kind.is_file() && found.st_mode & 0o100 == 0,
        Mode::FILE_EXECUTABLE => kind.is_file() && found.st_mode & 0o100 != 0,
        Mode::SYMLINK => kind.is_symlink(),
        _ => false,
    };
    // git marks entries that need a check with size zero.
    let is_settled = entry.stat.size != 0 && !is_recent(entry.stat.mtime, recorded) || entry.id.is_empty_blob();
    is_kind && is_settled && entry.stat == stat(found)
}

/// Whether a file was written so shortly before its stat data was recorded that a later write may not show.
fn is_recent(written: Time, recorded: Duration) -> bool {
    let step = if written.nsecs == 0 { Duration::from_secs(1) } else { STEP };
    Duration::new(written.secs.into(), written.nsecs) + step >= recorded
}

fn instant(seconds: i64, nanoseconds: u32) -> Duration {
    Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds)
}

/// Stat data truncated to the fields of the index.
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
