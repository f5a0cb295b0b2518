//! Untracked files, and whether they belong to the tree.

use std::collections::BTreeSet;

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::entry::Mode;
use rustix::fs::{Dir, FileType, Mode as Permissions, OFlags};
use rustix::io::Errno;

use super::rule_files::{are_ignore_rules, blocks_reading};
use super::walk::{UntrackedEntry, Walked};
use super::{ScanResult, Worktree, special_files};
use crate::git::error::{Error, LibraryContext as _};
use pleach_core::ids::RepoPath;

/// Of what the index does not know, the files and links that are not ignored. None if it takes the library to find
/// out: where there is another repository, and where names do not mean what they say.
pub(super) fn untracked(
    worktree: &Worktree,
    walked: &mut Walked,
    scan: &mut ScanResult,
) -> Result<Option<BTreeSet<BString>>, Error> {
    let files = worktree.handle.filesystem_options().doing("set up the scan")?;
    if walked.needs_library || files.ignore_case || files.precompose_unicode {
        return Ok(None);
    }
    let mut found = BTreeSet::new();
    let mut untracked_entries = std::mem::take(&mut walked.untracked_entries);
    if untracked_entries.is_empty() {
        return Ok(Some(found));
    }
    let is_sparse = worktree.cache.sparse_index().is_some();
    let mut rules = worktree.ignore_rules()?;
    while let Some(UntrackedEntry { path, is_directory }) = untracked_entries.pop() {
        if special_files::is_too_deep(worktree, path.as_bstr()) {
            scan.deep.push(RepoPath::new(path.to_vec()));
            continue;
        }
        let mode = if is_directory { Mode::DIR } else { Mode::FILE };
        if rules.at_entry(path.as_bstr(), Some(mode)).doing("read ignore rules")?.is_excluded() {
            scan.ignored.push(path);
            continue;
        }
        if is_directory {
            let mut special = Vec::new();
            let inside = inside(worktree, path.as_bstr(), &mut special);
            special_files::remove_special_files(worktree, special, scan)?;
            match inside {
                Some(inside) => untracked_entries.extend(inside),
                None => return Ok(None),
            }
        } else {
            if is_sparse {
                // It replaces a directory that is left out, whose files are deleted then.
                found.extend(worktree.cache.below(path.as_bstr()));
            }
            found.insert(path);
        }
    }
    Ok(Some(found))
}

/// Files with ignore rules, beside tracked ones, that ignore themselves. They belong to the tree all the same: what
/// they hide from now on would be missing in it, without a visible reason.
pub(super) fn hidden_rules(worktree: &Worktree, walked: &Walked) -> Result<Vec<BString>, Error> {
    let is_named = |stranger: &&UntrackedEntry| !stranger.is_directory && are_ignore_rules(&stranger.path);
    let mut hidden = Vec::new();
    let mut named = walked.untracked_entries.iter().filter(is_named).peekable();
    if named.peek().is_none() {
        return Ok(hidden);
    }
    let mut rules = worktree.ignore_rules()?;
    for UntrackedEntry { path, .. } in named {
        let platform = rules.at_entry(path.as_bstr(), Some(Mode::FILE)).doing("read ignore rules")?;
        let by = platform.matching_exclude_pattern().filter(|by| !by.pattern.is_negative());
        if by.is_some_and(|by| {
            by.source.is_some_and(|source| worktree.root.join(source) == worktree.disk_path(path.as_bstr()))
        }) {
            hidden.push(path.clone());
        }
    }
    Ok(hidden)
}

/// What lies directly in a directory none of which is in the index; none if it is a repository or cannot be read.
fn inside(worktree: &Worktree, path: &BStr, special: &mut Vec<BString>) -> Option<Vec<UntrackedEntry>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = match rustix::fs::open(worktree.disk_path(path), flags, Permissions::empty()).and_then(Dir::new) {
        Err(Errno::NOENT) => return Some(Vec::new()),
        dir => dir.ok()?,
    };
    let mut inside = Vec::new();
    while let Some(entry) = dir.read() {
        let entry = entry.ok()?;
        match (entry.file_name().to_bytes(), entry.file_type()) {
            (b"." | b"..", _) => {}
            (_, FileType::Unknown) => return None,
            (name, _) if name.eq_ignore_ascii_case(b".git") => return None,
            (name, kind) => {
                let path = BString::from([path.as_bytes(), b"/", name].concat());
                if blocks_reading(name, kind, || special_files::size(worktree, path.as_bstr())) {
                    special.push(path);
                } else if matches!(kind, FileType::Directory | FileType::RegularFile | FileType::Symlink) {
                    inside.push(UntrackedEntry { path, is_directory: kind.is_dir() });
                }
            }
        }
    }
    Some(inside)
}
