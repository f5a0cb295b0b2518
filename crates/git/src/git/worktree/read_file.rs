//! Reading a file of a worktree as git stores it.

use std::os::unix::ffi::OsStrExt as _;

use gix::bstr::BStr;
use gix::index::entry::{Mode, Stat};

use super::Worktree;
use super::cache::CachedEntry;
use super::filters::{FileContent, Filters};
use super::held_back::HoldReason;
use super::limits::CommitLimits;
use super::tree_paths::parents;
use crate::git::error::Error;
use crate::git::writer::Writer;

/// The state of a path.
pub(super) enum FileState {
    Gone,
    File(CachedEntry),
    /// The recorded entry stays as it is.
    Same,
    Held(HoldReason),
}

pub(super) fn read(
    worktree: &Worktree,
    path: &BStr,
    filters: &mut Filters,
    writer: &mut Writer,
    limits: &CommitLimits,
) -> Result<FileState, Error> {
    let (found, content) = content(worktree, path, filters, limits)?;
    if let FileState::File(file) = &found
        && worktree.cache.known(path).is_none_or(|known| known.id != file.id)
        && !content.write(&file.id, writer)?
    {
        return Ok(FileState::Held(HoldReason::Unreadable("it changed while it was read".to_owned())));
    }
    Ok(found)
}

/// The state of a path, with its content as git stores it.
pub(super) fn content(
    worktree: &Worktree,
    path: &BStr,
    filters: &mut Filters,
    limits: &CommitLimits,
) -> Result<(FileState, FileContent), Error> {
    let nothing = |found: FileState| Ok((found, FileContent::Bytes(Vec::new())));
    let recorded = worktree.cache.known(path);
    if !worktree.has_real_parents(path) {
        return nothing(absent(worktree, path));
    }
    let place = worktree.disk_path(path);
    // The stat is taken before the content: a write in between shows next time.
    let metadata = match gix::index::fs::Metadata::from_path_no_follow(&place) {
        Ok(metadata) => metadata,
        Err(error) if is_absent(&error) => return nothing(absent(worktree, path)),
        Err(error) => return nothing(FileState::Held(HoldReason::Unreadable(error.to_string()))),
    };
    let stat = Stat::from_fs(&metadata).unwrap_or_default();
    let recorded_mode = recorded.as_ref().map(|known| known.mode);
    if metadata.is_dir() {
        // A submodule is a directory; any other file that became one is gone, its files come by themselves.
        return nothing(if recorded_mode == Some(Mode::COMMIT) { FileState::Same } else { FileState::Gone });
    }
    let mut content = if metadata.is_symlink() {
        match std::fs::read_link(&place) {
            Ok(target) => FileContent::Bytes(target.as_os_str().as_bytes().to_vec()),
            Err(error) => return nothing(FileState::Held(HoldReason::Unreadable(error.to_string()))),
        }
    } else if metadata.is_file() {
        match filters.clean(worktree, path, metadata.len(), limits) {
            Ok(content) => content,
            Err(held) => return nothing(FileState::Held(held)),
        }
    } else {
        return nothing(FileState::Gone);
    };
    let mode = filters.mode(&metadata, recorded_mode);
    let id = match (content.id(worktree.handle.object_hash()), &content) {
        // It has become shorter.
        (Err(error), FileContent::Large(..)) => {
            return nothing(FileState::Held(HoldReason::Unreadable(error.to_string())));
        }
        (id, _) => id?,
    };
    Ok((FileState::File(CachedEntry { id, mode, stat }), content))
}

/// The state of a path where only a submodule can be. It is not read: files there are in no tree.
pub(super) fn found_there(worktree: &Worktree, path: &BStr) -> FileState {
    let found = worktree.disk_path(path).symlink_metadata().ok().filter(|_| worktree.has_real_parents(path));
    match found {
        Some(found) if found.is_file() || found.is_symlink() => FileState::Held(HoldReason::Submodule),
        Some(found) if found.is_dir() => FileState::Same,
        _ => absent(worktree, path),
    }
}

/// What it means that nothing is at a path. What is left out is gone only where something else has taken its place.
pub(super) fn absent(worktree: &Worktree, path: &BStr) -> FileState {
    let is_taken = |parent: &BStr| worktree.disk_path(parent).symlink_metadata().is_ok_and(|found| !found.is_dir());
    let stays = worktree.cache.is_skipped(path) && !parents(path).any(is_taken);
    if stays { FileState::Same } else { FileState::Gone }
}

pub(super) fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}
