//! Making the files of a worktree equal to a tree.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::State;
use gix::index::entry::{Flags, Mode};
use rustix::fs::FileType;

use super::cache::CachedEntry;
use super::tree_paths::parents;
use super::{Worktree, head, index_file, relink, scan, setup_changes, spared_files};
use crate::git::error::{Error, IoContext as _, LibraryContext as _};
use crate::git::id::TreeId;
use crate::git::progress::{Counter, FileOperation, ProgressMeter};
use os::confined_fs::ConfinedDir;
use pleach_core::ids::{CommitId, RepoPath};

/// What was done to make the files equal to a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Files that were written again.
    pub written: Vec<RepoPath>,
    /// Files that were removed.
    pub removed: Vec<RepoPath>,
    /// Repositories inside the worktree, which are left where they are.
    pub nested: Vec<RepoPath>,
}

/// Makes the files equal to `tree`: changed ones are written again, new ones removed. Ignored files stay, unless
/// one is in the way of a file of the tree, and so does what the worktree was set up with. Save what is to be kept
/// first.
pub fn restore(worktree: &mut Worktree, tree: TreeId) -> Result<Restored, Error> {
    restore_sparing(worktree, tree, &BTreeSet::new())
}

/// As [`restore`], but for some files that are in no tree and stay as they are: see
/// [`untouched_files`](super::untouched_files).
pub(crate) fn restore_sparing(
    worktree: &mut Worktree,
    tree: TreeId,
    spared: &BTreeSet<RepoPath>,
) -> Result<Restored, Error> {
    relink::restore_link(worktree)?;
    worktree.accept(tree)?;
    let mut scan = scan::scan_all(worktree)?;
    spared_files::spare_files(worktree, &mut scan, spared);
    let mut done = Restored { nested: scan.nested.clone(), ..Restored::default() };
    let dir = ConfinedDir::at(&worktree.root).at("open", &worktree.root)?;
    let mut wanted: Vec<(BString, CachedEntry)> = Vec::new();
    let mut setup_files: Vec<(BString, CachedEntry)> = Vec::new();
    let mut removed: Vec<BString> = Vec::new();
    for path in &scan.candidates {
        match (setup_changes::setup_content(worktree, path.as_bstr()), worktree.cache.known(path.as_bstr())) {
            (Some(Some(content)), _) => setup_files.push((path.clone(), content)),
            (None, Some(known)) if known.mode != Mode::COMMIT && worktree.cache.is_skipped(path.as_bstr()) => {
                if worktree.exists(path.as_bstr()) {
                    removed.push(path.clone());
                }
            }
            (None, Some(known)) => wanted.push((path.clone(), known)),
            (Some(None), _) | (None, None) => removed.push(path.clone()),
        }
    }
    setup_changes::note_lost_setup(worktree, &removed)?;
    for path in &removed {
        remove_untracked(worktree, &dir, path.as_bstr())?;
    }
    done.removed = removed.into_iter().map(RepoPath::new).collect();
    // A directory that stood in the place of one of these is gone by now, if all in it was new.
    for path in setup_changes::undone_setup(worktree)? {
        let path = BStr::new(path.as_bytes());
        match setup_changes::setup_content(worktree, path) {
            Some(Some(content)) => setup_files.push((path.to_owned(), content)),
            Some(None) => remove_untracked(worktree, &dir, path)?,
            None => {}
        }
    }
    done.written = wanted.iter().map(|(path, _)| RepoPath::new(path.to_vec())).collect();
    for (path, known) in wanted.iter().chain(&setup_files) {
        clear_parents(worktree, &dir, path.as_bstr())?;
        let (inside, place) =
            (gix::path::from_bstr(path.as_bstr()).unwrap_or_default(), worktree.disk_path(path.as_bstr()));
        let is_directory = dir.kind(&inside).at("look at", &place)? == Some(FileType::Directory);
        // Whatever is there is removed, a directory with its ignored files.
        if known.mode != Mode::COMMIT || !is_directory {
            dir.remove(&inside).at("remove", &place)?;
        }
        if known.mode == Mode::COMMIT {
            // A submodule that is not checked out is an empty directory.
            dir.make_directory(&inside).at("create", &place)?;
        }
    }
    wanted.retain(|(_, known)| known.mode != Mode::COMMIT);
    let written = check_out(worktree, &wanted)?;
    worktree.cache.apply(written);
    // These are what the worktree begins with, and in no tree.
    check_out(worktree, &setup_files)?;
    worktree.cache.forget_stats(setup_files.iter().map(|(path, _)| path));
    Ok(done)
}

/// As [`restore`], with HEAD and index at `base`: what an agent sees that goes on in the middle of a
/// node, with its work so far as uncommitted changes.
pub fn reset_to(worktree: &mut Worktree, base: CommitId, tree: TreeId) -> Result<Restored, Error> {
    reset_sparing(worktree, base, tree, &BTreeSet::new())
}

/// As [`reset_to`], but for some files that stay as they are.
pub fn reset_sparing(
    worktree: &mut Worktree,
    base: CommitId,
    tree: TreeId,
    spared: &BTreeSet<RepoPath>,
) -> Result<Restored, Error> {
    relink::restore_link(worktree)?;
    head::clear_locks(worktree)?;
    let base_tree = worktree.repo.tree_of(base)?;
    worktree.accept_work(base_tree, tree)?;
    let done = restore_sparing(worktree, tree, spared)?;
    head::set_head(worktree, base, "pleach: go back to the node's base")?;
    if base_tree == tree {
        index_file::write_index(worktree)?;
    } else {
        index_file::write_index_of(worktree, base_tree)?;
    }
    head::clear_state(worktree)?;
    Ok(done)
}

/// Removes a file that is in no tree, and the directories it leaves empty but for that of a submodule.
pub(super) fn remove_untracked(worktree: &Worktree, dir: &ConfinedDir, path: &BStr) -> Result<(), Error> {
    let inside = gix::path::from_bstr(path).unwrap_or_default();
    dir.remove(&inside).at("remove", &worktree.disk_path(path))?;
    for parent in inside.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
        let is_submodule = gix::path::into_bstr(parent).is_ok_and(|at| worktree.cache.is_submodule(at.as_ref()));
        if is_submodule || !dir.remove_empty(parent).at("remove", &worktree.root.join(parent))? {
            break;
        }
    }
    Ok(())
}

/// Removes files and links in place of the parent directories of `path`.
fn clear_parents(worktree: &Worktree, dir: &ConfinedDir, path: &BStr) -> Result<(), Error> {
    for parent in parents(path) {
        let (inside, place) = (gix::path::from_bstr(parent).unwrap_or_default(), worktree.disk_path(parent));
        if dir.kind(&inside).at("look at", &place)?.is_some_and(|kind| kind != FileType::Directory) {
            dir.remove(&inside).at("remove", &place)?;
        }
    }
    Ok(())
}

/// Writes files out of the object store, through git's filters, where nothing stands in their way. Returns them with
/// their stats.
fn check_out(
    worktree: &Worktree,
    wanted: &[(BString, CachedEntry)],
) -> Result<Vec<(BString, Option<CachedEntry>)>, Error> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    worktree.repo.fetch_missing(wanted.iter().map(|(_, known)| known.id))?;
    let mut index = State::new(worktree.handle.object_hash());
    for (path, known) in wanted {
        let stat = Default::default();
        index.dangerously_push_entry(stat, known.id, Flags::empty(), known.mode, path.as_bstr());
    }
    index.sort_entries();
    let source = gix::worktree::stack::state::attributes::Source::IdMappingThenWorktree;
    let mut options = worktree.handle.checkout_options(source).doing("set up the checkout")?;
    options.overwrite_existing = true;
    let objects = worktree.handle.objects.clone().into_arc().at("open", worktree.handle.git_dir())?;
    let (counter, total) = (Counter(Arc::default()), wanted.len() as u64);
    let done = counter.0.clone();
    let _meter = ProgressMeter::start(worktree.repo.listening(), FileOperation::Restore, move || {
        (done.load(Relaxed) as u64, total)
    });
    let outcome = gix::worktree::state::checkout(
        &mut index,
        &worktree.root,
        objects,
        &counter,
        &gix::progress::Discard,
        &AtomicBool::new(false),
        options,
    )
    .doing("write files")?;
    if let Some(failed) = outcome.errors.first() {
        let doing = format!("write `{}`", failed.path);
        return Err(Error::Library { doing, detail: crate::git::error::explain(&failed.error) });
    }
    if let Some(path) = outcome.delayed_paths_unprocessed.first() {
        return Err(Error::Library { doing: format!("write `{path}`"), detail: "its filter gave no answer".into() });
    }
    let entries = index.entries().iter().map(|entry| {
        let known = CachedEntry { id: entry.id, mode: entry.mode, stat: entry.stat };
        (entry.path(&index).to_owned(), Some(known))
    });
    Ok(entries.collect())
}
