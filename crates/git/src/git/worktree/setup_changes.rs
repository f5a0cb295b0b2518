//! What became of the files a setup made: those it left as they are count as no change.

use std::collections::BTreeSet;

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::entry::Stat;

use super::cache::CachedEntry;
use super::filters::Filters;
use super::read_file::{self, FileState};
use super::setup_snapshot::{NOTE, SetupChange, SetupObject, SetupState, write};
use super::tree_paths::parents;
use super::{CommitLimits, FileStamp, ScanResult, Worktree};
use crate::git::error::Error;
use pleach_core::ids::RepoPath;

/// Whether the worktree is set up.
pub fn is_set_up(worktree: &Worktree) -> bool {
    worktree.notes.has(NOTE)
}

/// Whether something the setup had made had to go since, so that it has to run again.
pub fn has_lost_setup(worktree: &Worktree) -> bool {
    worktree.ignored.is_lost
}

pub(super) fn write_setup_note(worktree: &Worktree) -> Result<(), Error> {
    worktree.notes.write(NOTE, &write(&worktree.setup_files, &worktree.ignored))
}

/// Takes note of files that are about to be removed where they are the setup's.
pub(super) fn note_lost_setup(worktree: &mut Worktree, removed: &[BString]) -> Result<(), Error> {
    if !worktree.ignored.is_lost && removed.iter().any(|path| worktree.ignored.has(path.as_bstr())) {
        worktree.ignored.is_lost = true;
        write_setup_note(worktree)?;
    }
    Ok(())
}

/// Takes out of a scan what is still as the setup has made it.
pub(super) fn drop_setup_changes(worktree: &mut Worktree, scan: &mut ScanResult) -> Result<(), Error> {
    if worktree.setup_files.is_empty() {
        return Ok(());
    }
    let mut filters = None;
    let mut seen = Vec::new();
    for path in &scan.candidates {
        let Some(change) = setup_at(worktree, path.as_bstr()) else { continue };
        if let SetupState::Unread(look) = change.is {
            if worktree.has_real_parents(path.as_bstr())
                && FileStamp::at(&worktree.disk_path(path.as_bstr())) == Some(look)
            {
                seen.push((path.clone(), None));
            }
            continue;
        }
        let metadata = gix::index::fs::Metadata::from_path_no_follow(&worktree.disk_path(path.as_bstr())).ok();
        let stat = metadata.as_ref().and_then(|metadata| Stat::from_fs(metadata).ok());
        if change.is != SetupState::Gone && stat.is_some() && change.stat == stat {
            seen.push((path.clone(), change.stat));
            continue;
        }
        let filters = match &mut filters {
            Some(filters) => filters,
            None => filters.insert(Filters::new(worktree)?),
        };
        let mut passing = worktree.repo.writer();
        match read_file::read(worktree, path.as_bstr(), filters, &mut passing, &CommitLimits::default())? {
            FileState::File(known) if change.is == SetupState::File(known.clone().into()) => {
                seen.push((path.clone(), Some(known.stat)));
            }
            FileState::Gone if change.is == SetupState::Gone => seen.push((path.clone(), None)),
            _ => {}
        }
    }
    drop(filters);
    worktree.cache.forget_stats(seen.iter().map(|(path, _)| path));
    for (path, stat) in seen {
        scan.candidates.remove(&path);
        if let Some(change) = worktree.setup_files.get_mut(&path) {
            change.stat = stat;
        }
    }
    Ok(())
}

/// What the setup has made of a path, where the tree has there what it had then, and has nothing in its way that the
/// setup has not removed.
pub(super) fn setup_at(worktree: &Worktree, path: &BStr) -> Option<SetupChange> {
    let change = made_of_tree(worktree, path)?;
    let is_taken = |parent: &&BStr| worktree.cache.known(parent).is_some() && !worktree.cache.is_submodule(parent);
    let is_free = parents(path).filter(is_taken).all(|at| is_removed(worktree, at))
        && worktree.cache.below(path).iter().all(|at| is_removed(worktree, at.as_bstr()));
    is_free.then_some(change)
}

pub(super) fn made_of_tree(worktree: &Worktree, path: &BStr) -> Option<SetupChange> {
    let change = worktree.setup_files.get(path.as_bytes().as_bstr())?;
    (change.in_tree == worktree.cache.known(path).map(SetupObject::from)).then_some(*change)
}

pub(super) fn is_removed(worktree: &Worktree, path: &BStr) -> bool {
    made_of_tree(worktree, path).is_some_and(|change| change.is == SetupState::Gone)
}

/// What the setup has made of a file, where the tree still is as it was then and the content is still there. Within
/// it, none stands for a file it removed.
pub(super) fn setup_content(worktree: &Worktree, path: &BStr) -> Option<Option<CachedEntry>> {
    match setup_at(worktree, path)?.is {
        SetupState::Gone => Some(None),
        SetupState::Unread(_) => None,
        SetupState::File(SetupObject { id, mode }) => {
            worktree.handle.has_object(id).then_some(Some(CachedEntry { id, mode, stat: Stat::default() }))
        }
    }
}

/// What of the setup is no more, and no scan tells of: new files of it that are removed, and files of the tree that
/// are again as the tree has them.
pub fn undone_setup(worktree: &Worktree) -> Result<BTreeSet<RepoPath>, Error> {
    let mut undone = BTreeSet::new();
    let mut filters = None;
    for path in worktree.setup_files.keys() {
        let Some(change) = setup_at(worktree, path.as_bstr()) else { continue };
        let stat = gix::index::fs::Metadata::from_path_no_follow(&worktree.disk_path(path.as_bstr())).ok();
        let stat = stat.as_ref().and_then(|metadata| Stat::from_fs(metadata).ok());
        if change.is != SetupState::Gone
            && stat.is_some()
            && change.stat == stat
            && worktree.has_real_parents(path.as_bstr())
        {
            continue;
        }
        let filters = match &mut filters {
            Some(filters) => filters,
            None => filters.insert(Filters::new(worktree)?),
        };
        let is = match read_file::read(
            worktree,
            path.as_bstr(),
            filters,
            &mut worktree.repo.writer(),
            &CommitLimits::default(),
        )? {
            FileState::File(known) => SetupState::File(known.into()),
            FileState::Gone | FileState::Same => SetupState::Gone,
            FileState::Held(_) => continue,
        };
        let left_out = worktree.cache.is_skipped(path.as_bstr());
        let of_tree = change.in_tree.filter(|_| !left_out).map_or(SetupState::Gone, SetupState::File);
        if is != change.is && is == of_tree {
            undone.insert(RepoPath::new(path.to_vec()));
        }
    }
    Ok(undone)
}
