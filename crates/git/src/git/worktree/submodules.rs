//! Submodules. A tree only has a link to a commit of another repository, and pleach never changes it. Its directory is
//! empty until somebody checks the submodule out; other files there belong to no tree.

use std::collections::BTreeSet;
use std::path::PathBuf;

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::entry::Mode;
use gix::status::plumbing::index_as_worktree::traits::SubmoduleStatus;

use super::special_files::{self, Listing, special_files_of};
use super::tree_paths::parents;
use super::{ScanResult, Worktree};
use crate::git::error::{Error, IoContext as _, LibraryContext as _};
use os::confined_fs::ConfinedDir;
use pleach_core::ids::RepoPath;

/// Notices submodules that moved, by their HEAD alone.
#[derive(Clone)]
pub(super) struct Submodules {
    pub root: PathBuf,
}

impl SubmoduleStatus for Submodules {
    type Output = ();

    fn status(&mut self, entry: &gix::index::Entry, path: &BStr) -> Result<Option<()>, gix::Error> {
        let place = self.root.join(gix::path::from_bstr(path)?);
        if place.join(".git").symlink_metadata().is_err() {
            return Ok(None);
        }
        if !special_files_of(&place.join(".git")).is_empty() {
            return Ok(Some(()));
        }
        let head = gix::open_opts(place, gix::open::Options::isolated());
        let head = head.ok().and_then(|repo| repo.head_id().ok().map(gix::Id::detach));
        Ok(head.filter(|head| *head != entry.id).map(|_| ()))
    }
}

/// The files and links that lie in the places of submodules that are not checked out, but for what is ignored.
pub(super) fn files_in_submodules(
    worktree: &Worktree,
    places: Vec<BString>,
    scan: &mut ScanResult,
) -> Result<BTreeSet<BString>, Error> {
    let mut found = BTreeSet::new();
    let is_filled = |place: &BString| {
        let place = place.as_bstr();
        worktree.has_real_parents(place)
            && !is_repository(worktree, place)
            && special_files::listing(worktree, place).is_none_or(|inside| !inside.is_empty())
    };
    let mut waiting: Vec<BString> = places.into_iter().filter(is_filled).collect();
    if waiting.is_empty() {
        return Ok(found);
    }
    let mut rules = worktree.ignore_rules()?;
    let mut is_ignored = |path: &BStr, mode| -> Result<bool, Error> {
        Ok(rules.at_entry(path, Some(mode)).doing("read ignore rules")?.is_excluded())
    };
    while let Some(directory) = waiting.pop() {
        let directory = directory.as_bstr();
        if special_files::is_too_deep(worktree, directory) {
            scan.deep.push(RepoPath::new(directory.to_vec()));
        } else if is_ignored(directory, Mode::DIR)? {
            continue;
        } else if let Some(Listing { special, below, files, git }) =
            special_files::unlocked_listing(worktree, directory, scan)?
        {
            special_files::remove_special_files(worktree, special, scan)?;
            if !git.is_empty() && is_repository(worktree, directory) {
                // A submodule that was unreadable until now is not a nested repository.
                let nested = (!worktree.cache.is_submodule(directory)).then(|| RepoPath::new(directory.to_vec()));
                scan.nested.extend(nested);
                continue;
            }
            waiting.extend(below);
            // What only some systems take for a repository is not one here.
            let (below, near) = git.into_iter().partition::<Vec<_>, _>(|(_, kind)| kind.is_dir());
            waiting.extend(below.into_iter().map(|(path, _)| path));
            for path in files.into_iter().chain(near.into_iter().map(|(path, _)| path)) {
                if !is_ignored(path.as_bstr(), Mode::FILE)? {
                    found.insert(path);
                }
            }
        }
    }
    Ok(found)
}

/// Whether a path is that of a submodule, lies below one, or has one below it, where no file can be then.
pub(super) fn belongs_to_submodule(worktree: &Worktree, path: &BStr) -> bool {
    let is_submodule = |path: &BStr| worktree.cache.is_submodule(path);
    match worktree.cache.known(path) {
        Some(known) => known.mode == Mode::COMMIT,
        None => {
            let mut below = worktree.cache.below(path).into_iter();
            parents(path).any(is_submodule) || below.any(|below| is_submodule(below.as_bstr()))
        }
    }
}

fn is_repository(worktree: &Worktree, directory: &BStr) -> bool {
    worktree.disk_path(directory).join(".git").symlink_metadata().is_ok()
}

/// Recreates directories of submodules where nothing is, or nothing that could be saved.
pub fn restore_submodule_dirs(worktree: &Worktree, gone: &[RepoPath]) -> Result<(), Error> {
    let is_taken = |parent: &BStr| worktree.disk_path(parent).symlink_metadata().is_ok_and(|found| !found.is_dir());
    for path in gone.iter().map(|path| path.as_bytes().as_bstr()).filter(|path| !parents(path).any(is_taken)) {
        let (inside, place) = (gix::path::from_bstr(path).unwrap_or_default(), worktree.disk_path(path));
        let dir = ConfinedDir::at(&worktree.root).at("open", &worktree.root)?;
        dir.remove(&inside).at("remove", &place)?;
        dir.make_directory(&inside).at("create", &place)?;
    }
    Ok(())
}
