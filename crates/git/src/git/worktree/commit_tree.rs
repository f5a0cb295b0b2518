//! From files to a tree: each changed file goes through git's own filters and becomes a blob.

use std::collections::BTreeSet;

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::entry::Mode;

use super::cache::{CachedEntry, StagedTree};
use super::held_back::{HeldBack, HoldReason, SHOWN, in_words};
use super::known_content::{self, FileReader};
use super::limits::CommitLimits;
use super::read_file::{self, FileState};
use super::tree_paths::parents;
use super::{FileStamp, ScanResult, Worktree, submodules};
use crate::git::error::Error;
use crate::git::id::{BlobId, TreeId};
use crate::git::object::EntryKind;
use crate::git::writer::{TreeEdit, Writer};
use pleach_core::event::{Warning, WarningCode};
use pleach_core::ids::RepoPath;

/// The tree of the files as they are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltTree {
    /// The tree; equal to the recorded one when nothing changed.
    pub tree: TreeId,
    /// The paths that differ from the recorded tree, sorted.
    pub paths: Vec<RepoPath>,
    /// Files that changed but are not in the tree.
    pub held_back: Vec<HeldBack>,
    /// Deleted files that stay in the tree while others are held back.
    pub withheld: Vec<RepoPath>,
    /// Submodules whose directory is missing or replaced by something no tree can hold. Their recorded commit stays.
    pub gone: Vec<RepoPath>,
    /// What a person should know, one line each.
    pub warnings: Vec<Warning>,
}

impl BuiltTree {
    /// What is held back, in words.
    pub fn held_in_words(&self) -> Vec<String> {
        in_words(&self.held_back).map(|warning| warning.text).collect()
    }
}

/// Builds the tree of the files as `scan` found them, into `writer`. What it learned about the files counts only
/// after [`Worktree::accept`], so a transition that fails loses no change.
pub fn commit_tree(
    worktree: &mut Worktree,
    scan: &ScanResult,
    writer: &mut Writer,
    limits: &CommitLimits,
) -> Result<BuiltTree, Error> {
    let mut entries: Vec<(BString, Option<CachedEntry>)> = Vec::new();
    let (mut held_back, mut held) = (Vec::new(), Vec::new());
    let (mut gone, mut replaced) = (Vec::new(), Vec::new());
    let new: BTreeSet<&BString> =
        scan.candidates.iter().filter(|path| worktree.cache.known(path.as_bstr()).is_none()).collect();
    let mut reading = FileReader::new(limits, std::mem::take(&mut worktree.new_content));
    let too_many = known_content::too_many(worktree, &new, &mut reading)?;
    for path in &scan.candidates {
        let found = match &too_many {
            _ if !limits.in_submodules && submodules::belongs_to_submodule(worktree, path.as_bstr()) => {
                read_file::found_there(worktree, path.as_bstr())
            }
            Some(many) if many.contains(path) => FileState::Held(HoldReason::TooMany(many.len())),
            _ if !is_allowed(path.as_bstr()) => FileState::Held(HoldReason::Name),
            _ => known_content::read_within(worktree, path.as_bstr(), &mut reading, writer)?,
        };
        if worktree.cache.is_submodule(path.as_bstr()) {
            match found {
                FileState::Gone => {
                    gone.push(RepoPath::new(path.to_vec()));
                    continue;
                }
                FileState::Held(_) => replaced.push(RepoPath::new(path.to_vec())),
                FileState::File(_) | FileState::Same => {}
            }
        }
        match found {
            FileState::Gone if !new.contains(path) => entries.push((path.clone(), None)),
            // What is left out stays that until somebody makes something else of it.
            FileState::File(known) if worktree.cache.is_skipped(path.as_bstr()) && has(worktree, path, &known) => {}
            FileState::File(known) => entries.push((path.clone(), Some(known))),
            FileState::Held(reason) => {
                held.push(path);
                let seen = FileStamp::at(&worktree.disk_path(path.as_bstr()));
                held_back.push(HeldBack { path: RepoPath::new(path.to_vec()), reason, seen });
            }
            FileState::Gone | FileState::Same => {}
        }
    }
    let deep = scan.deep.iter().map(|path| HeldBack { path: path.clone(), reason: HoldReason::TooDeep, seen: None });
    held_back.extend(deep);
    entries.extend(scan.dropped.iter().map(|path| (path.clone(), None)));
    let in_the_way = in_the_way(worktree, &entries);
    entries.extend(in_the_way.into_iter().map(|path| (path, None)));
    let mut withheld = Vec::new();
    if !held_back.is_empty() && !limits.with_deletions {
        let gone = entries.extract_if(.., |(_, known)| known.is_none());
        withheld = gone.map(|(path, _)| RepoPath::new(path)).collect();
        for path in without_room(worktree, &mut entries) {
            let seen = FileStamp::at(&worktree.disk_path(path.as_bstr()));
            held_back.push(HeldBack { path: RepoPath::new(path), reason: HoldReason::NoRoom, seen });
        }
    }
    let edits: Vec<TreeEdit> =
        entries.iter().filter_map(|(path, known)| edit(worktree, path, known.as_ref())).collect();
    let tree = if edits.is_empty() { worktree.tree } else { writer.tree(Some(worktree.tree), &edits)? };
    let mut paths: Vec<RepoPath> = edits
        .into_iter()
        .map(|edit| match edit {
            TreeEdit::Put(path, ..) | TreeEdit::Remove(path) => path,
        })
        .collect();
    paths.sort();
    worktree.cache.forget_stats(held);
    worktree.staged = Some(StagedTree { tree, entries });
    let (new_content, unfiltered) = reading.end();
    worktree.new_content = new_content;
    let warnings = warnings(scan, &gone, &replaced, &held_back, &unfiltered);
    Ok(BuiltTree { tree, paths, warnings, held_back, withheld, gone })
}

/// Recorded paths that a new file replaces though no agent removed them: a setup did, or they are left out of the checkout.
fn in_the_way(worktree: &Worktree, entries: &[(BString, Option<CachedEntry>)]) -> BTreeSet<BString> {
    let mut found = BTreeSet::new();
    let put = entries.iter().filter(|(path, known)| known.is_some() && worktree.cache.known(path.as_bstr()).is_none());
    for (path, _) in put {
        let above = parents(path.as_bstr()).filter(|parent| worktree.cache.known(parent).is_some());
        found.extend(above.map(BStr::to_owned));
        found.extend(worktree.cache.below(path.as_bstr()));
    }
    for (path, _) in entries {
        found.remove(path);
    }
    found
}

/// The edit that puts what was found into the recorded tree; none if it is there already.
fn edit(worktree: &Worktree, path: &BString, found: Option<&CachedEntry>) -> Option<TreeEdit> {
    let place = RepoPath::new(path.to_vec());
    let Some(found) = found else { return Some(TreeEdit::Remove(place)) };
    let kind = match found.mode {
        Mode::FILE_EXECUTABLE => EntryKind::Executable,
        Mode::SYMLINK => EntryKind::Link,
        _ => EntryKind::File,
    };
    (!has(worktree, path, found)).then(|| TreeEdit::Put(place, kind, BlobId::from_gix(&found.id)))
}

/// Whether the recorded tree has this at a path.
fn has(worktree: &Worktree, path: &BString, found: &CachedEntry) -> bool {
    let recorded = worktree.cache.known(path.as_bstr());
    recorded.is_some_and(|known| known.id == found.id && known.mode == found.mode)
}

/// Takes the files out of what was found that need the place of what the recorded tree has. Returns those.
fn without_room(worktree: &Worktree, entries: &mut Vec<(BString, Option<CachedEntry>)>) -> Vec<BString> {
    let has_room = |path: &BStr| {
        worktree.cache.known(path).is_some()
            || parents(path).all(|parent| worktree.cache.known(parent).is_none())
                && worktree.cache.below(path).is_empty()
    };
    entries.extract_if(.., |(path, _)| !has_room(path.as_bstr())).map(|(path, _)| path).collect()
}

/// Whether git takes the path into a tree. A tree with another could not be checked out again.
fn is_allowed(path: &BStr) -> bool {
    let options =
        gix::validate::path::component::Options { protect_windows: false, protect_hfs: true, protect_ntfs: true };
    path.split(|byte| *byte == b'/').all(|part| gix::validate::path::component(part.as_bstr(), None, options).is_ok())
}

fn warnings(
    scan: &ScanResult,
    gone: &[RepoPath],
    replaced: &[RepoPath],
    held_back: &[HeldBack],
    unfiltered: &[(BString, BString)],
) -> Vec<Warning> {
    let nested = scan.nested.iter().map(|path| {
        WarningCode::NestedRepository.with(format!("`{path}` is a nested repository; it is not committed"))
    });
    let links = [(scan.submodules.as_slice(), "moved"), (gone, "is gone"), (replaced, "is replaced")];
    let links = links.into_iter().flat_map(|(paths, what)| {
        let text = move |path: &RepoPath| format!("submodule `{path}` {what}; its recorded commit does not change");
        paths.iter().map(move |path| WarningCode::SubmoduleChanged.with(text(path)))
    });
    let cleared = scan.cleared.iter().take(SHOWN);
    let cleared = cleared.map(|path| WarningCode::FileUnreadable.with(format!("removed `{path}`: git cannot read it")));
    let unlocked = scan.unlocked.iter().take(SHOWN);
    let unlocked = unlocked.map(|path| {
        WarningCode::PermissionsRestored.with(format!("`{path}` was unreadable; its permissions are restored"))
    });
    let raw = unfiltered.iter().take(SHOWN).map(|(path, filter)| {
        WarningCode::FilterMissing
            .with(format!("`{path}` is committed unfiltered: its git filter `{filter}` is not installed"))
    });
    nested.chain(links).chain(cleared).chain(unlocked).chain(in_words(held_back)).chain(raw).collect()
}
