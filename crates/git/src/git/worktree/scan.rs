//! Finding the files that differ from the recorded tree.

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

use super::filters::Filters;
use super::read_file::{self, FileState};
use super::rule_files::are_ignore_rules;
use super::scan_result::{ScanResult, Uncommitted};
use super::submodules::{self, Submodules};
use super::tree_paths::parents;
use super::walk::{SMALL, walk};
use super::{CommitLimits, Worktree, setup_changes, special_files, untracked};
use crate::git::error::{Error, LibraryContext as _};
use crate::git::progress::{FileOperation, ProgressMeter};
use pleach_core::ids::RepoPath;

/// Below so many files, starting threads costs more than they save.
const FILES_WORTH_THREADS: usize = 2_000;

/// Looks at all files. Ignored files are left out unless they are tracked.
pub fn scan_all(worktree: &mut Worktree) -> Result<ScanResult, Error> {
    let (seen, total) = (Arc::new(AtomicU64::new(0)), worktree.cache.index().entries().len() as u64);
    let count = seen.clone();
    let _meter =
        ProgressMeter::start(worktree.repo.listening(), FileOperation::Scan, move || (count.load(Relaxed), total));
    let mut walked = walk(worktree.cache.index(), &worktree.root, &seen);
    let mut met = ScanResult::default();
    special_files::remove_special_files(worktree, std::mem::take(&mut walked.special), &mut met)?;
    let hidden = untracked::hidden_rules(worktree, &walked)?;
    let mut untracked = untracked::untracked(worktree, &mut walked, &mut met)?;
    let mut places = std::mem::take(&mut walked.submodules);
    if untracked.is_none() {
        (met.deep, met.ignored) = Default::default();
        untracked = special_files::remove_all_special_files(worktree, &mut met)?;
        // The walk may not have come to all of them.
        places = worktree.cache.submodules();
    }
    let in_submodules = submodules::files_in_submodules(worktree, places, &mut met)?;
    let index = worktree.cache.index();
    let IndexComparison { mut scan, refreshed } = match walked.few(index).filter(|_| untracked.is_some()) {
        Some(few) => {
            let few = few.iter().map(|at| index.entries()[*at].path(index).to_owned()).collect();
            read_few(worktree, few)?
        }
        None => {
            walked.mark(index, untracked.is_none());
            let looked = look_at_rest(worktree, untracked.is_none());
            walked.unmark(worktree.cache.index());
            looked?
        }
    };
    if untracked.is_none() {
        drop_absent(worktree, &mut scan);
    }
    (scan.deep, scan.cleared, scan.unlocked) = (met.deep, met.cleared, met.unlocked);
    scan.ignored = met.ignored;
    scan.nested.extend(met.nested);
    scan.candidates.extend(untracked.unwrap_or_default());
    scan.candidates.extend(hidden);
    scan.candidates.extend(in_submodules);
    // The same content under another stat: known, it is not read again at the next scan.
    worktree.cache.refresh(&refreshed);
    scan.candidates.retain(|path| !worktree.is_excluded(path.as_bstr()));
    setup_changes::drop_setup_changes(worktree, &mut scan)?;
    scan.nested.sort();
    scan.submodules.sort();
    Ok(scan)
}

/// What of a user's checkout no commit has: what a scan finds, what is staged alone, and submodules that stand elsewhere
/// or have changes of their own.
pub fn uncommitted(worktree: &mut Worktree) -> Result<Uncommitted, Error> {
    let scan = scan_all(worktree)?;
    let mut paths: BTreeSet<RepoPath> = scan.paths().collect();
    paths.extend(worktree.cache.staged.iter().map(|path| RepoPath::new(path.to_vec())));
    let index = worktree.cache.index();
    let links = index.entries().iter().filter(|entry| entry.mode == Mode::COMMIT).map(|entry| entry.path(index));
    let links: Vec<BString> = links.map(BStr::to_owned).collect();
    let is_there = |link: &&BString| worktree.disk_path(link.as_bstr()).join(".git").symlink_metadata().is_ok();
    let links: Vec<&OsStr> = links.iter().filter(is_there).map(|link| OsStr::from_bytes(link)).collect();
    if !links.is_empty() {
        let args = ["--literal-pathspecs", "diff-files", "--name-only", "--ignore-submodules=none", "-z", "--"];
        let args = args.iter().map(OsStr::new).chain(links);
        let names = worktree.repo.shared.program.run(&worktree.root, args)?.success()?;
        paths.extend(names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(RepoPath::new));
    }
    Ok(Uncommitted { paths, nested: scan.nested })
}

/// Reads tracked files whose stat tells nothing, as they are read for a tree.
fn read_few(worktree: &Worktree, paths: Vec<BString>) -> Result<IndexComparison, Error> {
    let mut found = IndexComparison::default();
    if paths.is_empty() {
        return Ok(found);
    }
    // What they hold is written once it is known that it is to be.
    let (mut filters, mut passing) = (Filters::new(worktree)?, worktree.repo.writer());
    // A running agent may have made one larger meanwhile.
    let limits = CommitLimits { max_file: SMALL, ..CommitLimits::NONE };
    for path in paths {
        let recorded = worktree.cache.known(path.as_bstr());
        match read_file::read(worktree, path.as_bstr(), &mut filters, &mut passing, &limits)? {
            FileState::File(file) if recorded.is_some_and(|known| (known.id, known.mode) == (file.id, file.mode)) => {
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
fn look_at_rest(worktree: &mut Worktree, whole: bool) -> Result<IndexComparison, Error> {
    look_at_index(&worktree.handle, worktree.cache.index(), &worktree.root, whole)
}

/// Looks at the named files only, absolute or relative to the worktree, at a cost that follows their number. Only
/// right when nothing else changed: a full scan must come before the node ends. A change of ignore rules, a
/// directory, a path in a submodule or outside the worktree leads to a full scan.
pub fn scan_paths(worktree: &mut Worktree, paths: &[PathBuf]) -> Result<ScanResult, Error> {
    let Some(paths) = paths.iter().map(|path| relative(worktree, path)).collect::<Option<BTreeSet<_>>>() else {
        return scan_all(worktree);
    };
    let mut scan = ScanResult::default();
    special_files::remove_special_files_above(worktree, &paths, &mut scan)?;
    let mut ignored = None;
    for path in &paths {
        if are_ignore_rules(path) || !look_at(worktree, path.as_bstr(), &mut ignored, &mut scan)? {
            return scan_all(worktree);
        }
    }
    scan.candidates.retain(|path| !worktree.is_excluded(path.as_bstr()));
    setup_changes::drop_setup_changes(worktree, &mut scan)?;
    Ok(scan)
}

/// Adds what happened at one path; false if only a full scan can tell. `ignored` has the ignore rules once they
/// were needed.
fn look_at<'a>(
    worktree: &'a Worktree,
    path: &BStr,
    ignored: &mut Option<gix::AttributeStack<'a>>,
    scan: &mut ScanResult,
) -> Result<bool, Error> {
    if path.split(|byte| *byte == b'/').any(|part| part.eq_ignore_ascii_case(b".git")) {
        return Ok(true);
    }
    // No directory on the way to what is tracked is a file in the tree, which need not be searched for it then.
    let is_known = worktree.cache.known(path).is_some();
    // A directory on the way may have been a file, or may be a link or a repository now.
    for parent in parents(path) {
        match worktree.cache.known(parent).filter(|_| !is_known) {
            Some(known) if known.mode == Mode::COMMIT => return Ok(false),
            Some(_) => {
                scan.candidates.insert(parent.to_owned());
            }
            None => {}
        }
        let place = worktree.disk_path(parent);
        match place.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => {
                if place.join(".git").symlink_metadata().is_ok() && worktree.cache.below(parent).is_empty() {
                    scan.nested.push(RepoPath::new(parent.to_vec()));
                    return Ok(true);
                }
            }
            Ok(_) => return Ok(false),
            Err(_) => break,
        }
    }
    let metadata = worktree.disk_path(path).symlink_metadata();
    if metadata.as_ref().is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(false);
    }
    if metadata.is_ok() && !is_known {
        let below = worktree.cache.below(path);
        scan.candidates.extend(below.iter().filter(|path| !worktree.cache.is_skipped(path.as_bstr())).cloned());
        let rules = match ignored {
            Some(rules) => rules,
            None => ignored.insert(worktree.ignore_rules()?),
        };
        if rules.at_entry(path, Some(Mode::FILE)).doing("read ignore rules")?.is_excluded() {
            return Ok(true);
        }
        scan.candidates.extend(below);
    }
    scan.candidates.insert(path.to_owned());
    Ok(true)
}

/// The path from the root of the worktree, none if it does not lie in it.
fn relative(worktree: &Worktree, path: &Path) -> Option<BString> {
    let inside = if path.is_absolute() { path.strip_prefix(&worktree.root).ok()? } else { path };
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
fn drop_absent(worktree: &Worktree, scan: &mut ScanResult) {
    let is_absent = |path: &&BString| worktree.cache.is_skipped(path.as_bstr()) && !worktree.exists(path.as_bstr());
    let has_room = |path: &&BString| parents(path.as_bstr()).all(|parent| !scan.candidates.contains(parent));
    let absent: Vec<BString> = scan.candidates.iter().filter(is_absent).filter(has_room).cloned().collect();
    absent.iter().for_each(|path| {
        scan.candidates.remove(path);
    });
}

/// Has the library compare files with an index, and look for what the index does not know if `whole`.
pub(super) fn look_at_index(
    handle: &gix::Repository,
    index: &gix::index::File,
    root: &Path,
    whole: bool,
) -> Result<IndexComparison, Error> {
    let mut options = handle.dirwalk_options().doing("set up the scan")?;
    options.set_emit_untracked(gix::dir::walk::EmissionMode::Matching);
    let mut found = IndexComparison::default();
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

/// Collects what the library reports.
#[derive(Default)]
pub(super) struct IndexComparison {
    pub scan: ScanResult,
    /// Files whose content is the same but whose stat is not.
    refreshed: Vec<(BString, Stat)>,
}

impl<'a> VisitEntry<'a> for IndexComparison {
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
