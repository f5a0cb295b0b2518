//! Recording what a setup command made of a new worktree. These changes belong to no agent until one changes them
//! further. They are noted with the worktree and removed with it.

use gix::bstr::ByteSlice as _;

use super::filters::Filters;
use super::read_file::{self, FileState};
use super::setup_snapshot::{SetupChange, SetupObject, SetupState};
use super::{CommitLimits, FileStamp, ScanResult, Worktree, scan, setup_changes, submodule_changes};
use crate::git::error::Error;
use pleach_core::ids::RepoPath;

/// Files beyond these limits are not restored once they were changed or removed.
const MOST_FILES: usize = 5_000;

const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// Takes all that differs from the tree now for what the worktree begins with, and says that it is set up. Returns
/// the paths, and whether each is a file of the tree.
pub fn snapshot_setup(worktree: &mut Worktree, is_changed: bool) -> Result<Vec<(RepoPath, bool)>, Error> {
    let now = if is_changed { scan::scan_all(worktree)? } else { ScanResult::default() };
    if is_changed {
        submodule_changes::note_setup_submodules(worktree)?;
    }
    record_snapshot(worktree, now)
}

/// The same where it is set up once more. What differed before that is somebody's work.
pub fn snapshot_setup_again(worktree: &mut Worktree, before: &ScanResult) -> Result<Vec<(RepoPath, bool)>, Error> {
    let mut now = scan::scan_all(worktree)?;
    now.candidates.retain(|path| !before.candidates.contains(path));
    now.ignored.retain(|path| !before.ignored.contains(path));
    record_snapshot(worktree, now)
}

fn record_snapshot(worktree: &mut Worktree, scan: ScanResult) -> Result<Vec<(RepoPath, bool)>, Error> {
    let mut changed = Vec::new();
    let mut room = if scan.candidates.len() <= MOST_FILES { MOST_BYTES } else { 0 };
    let mut kept = worktree.repo.writer();
    let mut filters = Filters::new(worktree)?;
    for path in &scan.candidates {
        let in_tree = worktree.cache.known(path.as_bstr()).map(SetupObject::from);
        let size = worktree.disk_path(path.as_bstr()).symlink_metadata().map_or(0, |metadata| metadata.len());
        let mut passing = worktree.repo.writer();
        let writer = match room.checked_sub(size) {
            Some(rest) => {
                room = rest;
                &mut kept
            }
            None => &mut passing,
        };
        let (is, stat) =
            match read_file::read(worktree, path.as_bstr(), &mut filters, writer, &CommitLimits::default())? {
                FileState::File(known) => (SetupState::File(known.clone().into()), Some(known.stat)),
                FileState::Gone => (SetupState::Gone, None),
                FileState::Held(_) => match FileStamp::at(&worktree.disk_path(path.as_bstr())) {
                    Some(seen) => (SetupState::Unread(seen), None),
                    None => continue,
                },
                FileState::Same => continue,
            };
        if in_tree.map_or(SetupState::Gone, SetupState::File) != is {
            worktree.setup_files.insert(path.clone(), SetupChange { in_tree, is, stat });
            changed.push((RepoPath::new(path.to_vec()), in_tree.is_some()));
        }
    }
    drop(filters);
    kept.flush()?;
    worktree.ignored.paths.extend(scan.ignored);
    worktree.ignored.is_lost = false;
    setup_changes::write_setup_note(worktree)?;
    Ok(changed)
}
