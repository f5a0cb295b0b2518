//! Which files differ from the recorded tree.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::dir::entry::{Kind as DiskKind, Status};
use gix::index::entry::{Mode, Stat};
use gix::status::plumbing::index_as_worktree::traits::{CompareBlobs, HashEq, ReadData};
use gix::status::plumbing::index_as_worktree::{Change, EntryStatus};
use gix::status::plumbing::index_as_worktree_with_renames::{Entry, VisitEntry};

use super::files::Found as Content;
use super::filters::Filters;
use super::submodules::Submodules;
use super::untracked::are_ignore_rules;
use super::walk::{SMALL, walk};
use super::{Limits, Worktree};
use crate::git::error::{Error, LibraryContext as _};
use crate::git::progress::{Doing, Meter};
use crate::ids::RepoPath;

/// Below so many files, starting threads costs more than they save.
const FILES_WORTH_THREADS: usize = 2_000;

/// What a look at the files found.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// Paths that may differ: tracked files that changed or are gone, and files that are new.
    pub(super) candidates: BTreeSet<BString>,
    /// Tracked files that are no more to be tracked, though they are there.
    pub(super) dropped: BTreeSet<BString>,
    /// Repositories inside the worktree that are no submodules. They are not committed.
    pub nested: Vec<RepoPath>,
    /// Submodules that stand at another commit than the tree says. Their links are left alone.
    pub submodules: Vec<RepoPath>,
    /// What git ignores, a directory for all in it; not all of it where another repository or the file system is odd.
    pub(super) ignored: Vec<BString>,
    /// Directories and files that lie too deep for any path. They are not committed.
    pub(super) deep: Vec<RepoPath>,
    /// Pipes and sockets that stood where git reads files, and were removed.
    pub(super) cleared: Vec<RepoPath>,
    /// Directories that nobody could look into, until they were given their permissions back.
    pub(super) unlocked: Vec<RepoPath>,
}

impl Scan {
    /// Whether nothing may have changed.
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty() && self.dropped.is_empty()
    }

    /// The paths that may have changed.
    pub fn paths(&self) -> impl Iterator<Item = RepoPath> {
        self.candidates.union(&self.dropped).map(|path| RepoPath::new(path.to_vec()))
    }
}

impl Worktree {
    /// Looks at all files. Ignored files are left out unless they are tracked.
    pub fn scan(&mut self) -> Result<Scan, Error> {
        let (seen, of) = (Arc::new(AtomicU64::new(0)), self.cache.index().entries().len() as u64);
        let count = seen.clone();
        let _meter = Meter::start(self.repo.listening(), Doing::Scan, move || (count.load(Relaxed), of));
        let mut walked = walk(self.cache.index(), &self.root, &seen);
        let mut met = Scan::default();
        self.clear_waits(std::mem::take(&mut walked.waits), &mut met)?;
        let hidden = self.hidden_rules(&walked)?;
        let mut untracked = self.untracked(&mut walked, &mut met)?;
        let mut places = std::mem::take(&mut walked.submodules);
        if untracked.is_none() {
            (met.deep, met.ignored) = Default::default();
            untracked = self.clear_waits_everywhere(&mut met)?;
            // The walk may not have come to all of them.
            places = self.cache.submodules();
        }
        let in_submodules = self.in_submodules(places, &mut met)?;
        let index = self.cache.index();
        let Found { mut scan, refreshed } = match walked.few(index).filter(|_| untracked.is_some()) {
            Some(few) => {
                let few = few.iter().map(|at| index.entries()[*at].path(index).to_owned()).collect();
                self.read_few(few)?
            }
            None => {
                walked.mark(index, untracked.is_none());
                let looked = self.look_at_rest(untracked.is_none());
                walked.unmark(self.cache.index());
                looked?
            }
        };
        if untracked.is_none() {
            self.leave_absent(&mut scan);
        }
        (scan.deep, scan.cleared, scan.unlocked) = (met.deep, met.cleared, met.unlocked);
        scan.ignored = met.ignored;
        scan.nested.extend(met.nested);
        scan.candidates.extend(untracked.unwrap_or_default());
        scan.candidates.extend(hidden);
        scan.candidates.extend(in_submodules);
        // The same content under another stat: known, it is not read again at the next scan.
        self.cache.refresh(&refreshed);
        scan.candidates.retain(|path| !self.is_excluded(path.as_bstr()));
        self.leave_begun(&mut scan)?;
        scan.nested.sort();
        scan.submodules.sort();
        Ok(scan)
    }

    /// What of a user's checkout no commit has: what a scan finds, what is staged alone, and submodules that stand elsewhere
    /// or have changes of their own.
    pub fn uncommitted(&mut self) -> Result<BTreeSet<RepoPath>, Error> {
        let scan = self.scan()?;
        let mut paths: BTreeSet<RepoPath> = scan.paths().collect();
        paths.extend(self.cache.staged.iter().map(|path| RepoPath::new(path.to_vec())));
        let index = self.cache.index();
        let links = index.entries().iter().filter(|entry| entry.mode == Mode::COMMIT).map(|entry| entry.path(index));
        let links: Vec<BString> = links.map(BStr::to_owned).collect();
        let is_there = |link: &&BString| self.place(link.as_bstr()).join(".git").symlink_metadata().is_ok();
        let links: Vec<&OsStr> = links.iter().filter(is_there).map(|link| OsStr::from_bytes(link)).collect();
        if !links.is_empty() {
            let args = ["--literal-pathspecs", "diff-files", "--name-only", "--ignore-submodules=none", "-z", "--"];
            let args = args.iter().map(OsStr::new).chain(links);
            let names = self.repo.shared.program.run(&self.root, args)?.success()?;
            paths.extend(names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(RepoPath::new));
        }
        Ok(paths)
    }

    /// Reads tracked files whose stat tells nothing, as they are read for a tree.
    fn read_few(&self, paths: Vec<BString>) -> Result<Found, Error> {
        let mut found = Found::default();
        if paths.is_empty() {
            return Ok(found);
        }
        // What they hold is written once it is known that it is to be.
        let (mut filters, mut passing) = (Filters::new(self)?, self.repo.writer());
        // Whoever is at work there may have made one larger since it was looked at.
        let limits = Limits { max_file: SMALL, ..Limits::NONE };
        for path in paths {
            let recorded = self.cache.known(path.as_bstr());
            match self.read(path.as_bstr(), &mut filters, &mut passing, &limits)? {
                Content::File(file) if recorded.is_some_and(|known| (known.id, known.mode) == (file.id, file.mode)) => {
                    found.refreshed.push((path, file.stat));
                }
                _ => {
                    found.scan.candidates.insert(path);
                }
            }
        }
        Ok(found)
    }

    /// Has the library look at what is not marked as unchanged, and at everything for what the index does not know if
    /// `whole`.
    fn look_at_rest(&mut self, whole: bool) -> Result<Found, Error> {
        look_at_index(&self.handle, self.cache.index(), &self.root, whole)
    }

    /// Looks at the named files only, absolute or relative to the worktree, at a cost that follows their number. Only
    /// right when nothing else changed: a full scan must come before the node ends. A change of ignore rules, a
    /// directory, a path in a submodule or outside the worktree leads to a full scan.
    pub fn scan_paths(&mut self, paths: &[PathBuf]) -> Result<Scan, Error> {
        let Some(paths) = paths.iter().map(|path| self.relative(path)).collect::<Option<BTreeSet<_>>>() else {
            return self.scan();
        };
        let mut scan = Scan::default();
        self.clear_waits_above(&paths, &mut scan)?;
        let mut ignored = None;
        for path in &paths {
            if are_ignore_rules(path) || !self.look_at(path.as_bstr(), &mut ignored, &mut scan)? {
                return self.scan();
            }
        }
        scan.candidates.retain(|path| !self.is_excluded(path.as_bstr()));
        self.leave_begun(&mut scan)?;
        Ok(scan)
    }

    /// Adds what happened at one path; false if only a full scan can tell. `ignored` has the ignore rules once they
    /// were needed.
    fn look_at<'a>(
        &'a self,
        path: &BStr,
        ignored: &mut Option<gix::AttributeStack<'a>>,
        scan: &mut Scan,
    ) -> Result<bool, Error> {
        if path.split(|byte| *byte == b'/').any(|part| part.eq_ignore_ascii_case(b".git")) {
            return Ok(true);
        }
        // No directory on the way to what is tracked is a file in the tree, which need not be searched for it then.
        let is_known = self.cache.known(path).is_some();
        // A directory on the way may have been a file, or may be a link or a repository now.
        for parent in parents(path) {
            match self.cache.known(parent).filter(|_| !is_known) {
                Some(known) if known.mode == Mode::COMMIT => return Ok(false),
                Some(_) => {
                    scan.candidates.insert(parent.to_owned());
                }
                None => {}
            }
            let place = self.place(parent);
            match place.symlink_metadata() {
                Ok(metadata) if metadata.is_dir() => {
                    if place.join(".git").symlink_metadata().is_ok() && self.cache.below(parent).is_empty() {
                        scan.nested.push(RepoPath::new(parent.to_vec()));
                        return Ok(true);
                    }
                }
                Ok(_) => return Ok(false),
                Err(_) => break,
            }
        }
        let metadata = self.place(path).symlink_metadata();
        if metadata.as_ref().is_ok_and(|metadata| metadata.is_dir()) {
            return Ok(false);
        }
        if metadata.is_ok() && !is_known {
            let below = self.cache.below(path);
            scan.candidates.extend(below.iter().filter(|path| !self.cache.is_skipped(path.as_bstr())).cloned());
            let rules = match ignored {
                Some(rules) => rules,
                None => ignored.insert(self.ignore_rules()?),
            };
            if rules.at_entry(path, Some(Mode::FILE)).doing("read ignore rules")?.is_excluded() {
                return Ok(true);
            }
            scan.candidates.extend(below);
        }
        scan.candidates.insert(path.to_owned());
        Ok(true)
    }

    pub(super) fn ignore_rules(&self) -> Result<gix::AttributeStack<'_>, Error> {
        let none = gix::index::State::new(self.handle.object_hash());
        // Files with rules count also where they are left out.
        let index = self.cache.sparse_index().unwrap_or(&none);
        let source = gix::worktree::stack::state::ignore::Source::WorktreeThenIdMappingIfNotSkipped;
        self.handle.excludes(index, None, source).doing("read ignore rules")
    }

    /// Files that were copied in are not committed, except where the repository tracks them.
    pub(super) fn is_excluded(&self, path: &BStr) -> bool {
        let covers = |excluded: &BString| {
            path.strip_prefix(excluded.as_slice()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        self.excluded.iter().any(covers) && self.cache.known(path).is_none()
    }

    /// The path from the root of the worktree, none if it does not lie in it.
    fn relative(&self, path: &Path) -> Option<BString> {
        let inside = if path.is_absolute() { path.strip_prefix(&self.root).ok()? } else { path };
        let mut parts = Vec::new();
        for component in inside.components() {
            match component {
                Component::Normal(part) => parts.push(part),
                Component::CurDir => {}
                _ => return None,
            }
        }
        let path: PathBuf = parts.iter().collect();
        (!parts.is_empty()).then(|| gix::path::into_bstr(path).ok().map(|path| path.into_owned())).flatten()
    }

    /// Takes out of a scan what is left out and not there, but for what had to make room.
    fn leave_absent(&self, scan: &mut Scan) {
        let is_absent = |path: &&BString| self.cache.is_skipped(path.as_bstr()) && !self.is_there(path.as_bstr());
        let has_room = |path: &&BString| parents(path.as_bstr()).all(|parent| !scan.candidates.contains(parent));
        let absent: Vec<BString> = scan.candidates.iter().filter(is_absent).filter(has_room).cloned().collect();
        absent.iter().for_each(|path| {
            scan.candidates.remove(path);
        });
    }

    /// Whether anything is at a path of the tree: what lies behind a link is not part of it.
    pub(super) fn is_there(&self, path: &BStr) -> bool {
        self.leads_to(path) && self.place(path).symlink_metadata().is_ok()
    }

    /// Where a path of the tree lies on disk.
    pub(super) fn place(&self, path: &BStr) -> PathBuf {
        self.root.join(gix::path::from_bstr(path).unwrap_or_default())
    }
}

/// Has the library compare files with an index, and look for what the index does not know if `whole`.
pub(super) fn look_at_index(
    handle: &gix::Repository,
    index: &gix::index::File,
    root: &Path,
    whole: bool,
) -> Result<Found, Error> {
    let mut options = handle.dirwalk_options().doing("set up the scan")?;
    options.set_emit_untracked(gix::dir::walk::EmissionMode::Matching);
    let mut found = Found::default();
    let thread_limit = (index.entries().len() < FILES_WORTH_THREADS).then_some(1);
    handle
        .index_worktree_status(
            index,
            None::<BString>,
            &mut found,
            Compare,
            Submodules { root: root.to_owned() },
            &mut gix::progress::Discard,
            &AtomicBool::new(false),
            gix::status::index_worktree::Options {
                sorting: None,
                dirwalk_options: whole.then_some(options),
                rewrites: None,
                thread_limit,
            },
        )
        .doing("scan the worktree")?;
    Ok(found)
}

/// The directories above a path, from the outermost.
pub(super) fn parents(path: &BStr) -> impl Iterator<Item = &BStr> {
    path.find_iter(b"/").map(|end| path[..end].as_bstr())
}

/// Collects what the library reports.
#[derive(Default)]
pub(super) struct Found {
    pub scan: Scan,
    /// Files whose content is the same but whose stat is not.
    refreshed: Vec<(BString, Stat)>,
}

impl<'a> VisitEntry<'a> for Found {
    type ContentChange = ();
    type SubmoduleStatus = ();

    fn visit_entry(&mut self, entry: Entry<'a, (), ()>) {
        match entry {
            Entry::Modification { rela_path, status, .. } => match status {
                EntryStatus::NeedsUpdate(stat) => self.refreshed.push((rela_path.to_owned(), stat)),
                EntryStatus::Change(Change::SubmoduleModification(())) => {
                    self.scan.submodules.push(RepoPath::new(rela_path.to_vec()));
                }
                _ => {
                    self.scan.candidates.insert(rela_path.to_owned());
                }
            },
            Entry::DirectoryContents { entry, .. } if entry.status == Status::Untracked => match entry.disk_kind {
                Some(DiskKind::File | DiskKind::Symlink) => {
                    self.scan.candidates.insert(entry.rela_path);
                }
                Some(DiskKind::Repository) => self.scan.nested.push(RepoPath::new(entry.rela_path.to_vec())),
                _ => {}
            },
            _ => {}
        }
    }
}

/// Compares by hash. A file that cannot be read or filtered counts as changed: reading it again says why.
#[derive(Clone)]
struct Compare;

impl CompareBlobs for Compare {
    type Output = ();

    fn compare_blobs<'a, 'b>(
        &mut self,
        entry: &gix::index::Entry,
        size: u64,
        data: impl ReadData<'a>,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<()>, gix::Error> {
        Ok(match HashEq.compare_blobs(entry, size, data, buffer) {
            Ok(change) => change.map(|_| ()),
            Err(_) => Some(()),
        })
    }
}
