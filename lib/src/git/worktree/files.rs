//! From files to a tree: each changed file goes through git's own filters and becomes a blob.

use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::entry::{Mode, Stat};

use super::cache::Known;
use super::filters::Filters;
use super::known_content::Reading;
use super::scan::parents;
use super::{Past, Scan, Seen, Worktree};
use crate::event::{Warning, WarningCode};
use crate::git::error::{Error, LibraryContext as _};
use crate::git::id::{BlobId, TreeId};
use crate::git::object::EntryKind;
use crate::git::writer::{TreeEdit, Writer};
use crate::ids::RepoPath;
use crate::text::shorten;

/// What is too much to commit without a person looking at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The largest file, in bytes as git would store it.
    pub max_file: u64,
    /// The largest number of new files at once.
    pub max_new_paths: usize,
    /// Whether what lies in the place of a submodule takes the place of its link.
    pub in_submodules: bool,
    /// Whether deletions are in the tree though something is held back: what is held back may be what was deleted
    /// elsewhere.
    pub with_deletions: bool,
    /// Where content is found that is not new, beside the recorded tree.
    pub past: Option<Past>,
}

impl Default for Limits {
    fn default() -> Self {
        let (max_file, max_new_paths) = (50 * MIB, 5_000);
        Self { max_file, max_new_paths, in_submodules: false, with_deletions: false, past: None }
    }
}

impl Limits {
    /// No limits, for saving everything before it is removed.
    pub const NONE: Self =
        Self { max_file: u64::MAX, max_new_paths: usize::MAX, in_submodules: true, with_deletions: true, past: None };

    /// Other numbers, as the settings have them; 0 is no limit.
    pub fn new(max_file_mb: u64, max_new_files: u64) -> Self {
        let max_file = if max_file_mb == 0 { u64::MAX } else { max_file_mb.saturating_mul(MIB) };
        let max_new_paths =
            if max_new_files == 0 { usize::MAX } else { usize::try_from(max_new_files).unwrap_or(usize::MAX) };
        Self { max_file, max_new_paths, ..Self::default() }
    }
}

/// What the size limit is counted in.
const MIB: u64 = 1024 * 1024;

/// A file that was not committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBack {
    /// Which file.
    pub path: RepoPath,
    /// Why.
    pub reason: Held,
    /// What it looked like, unless it is gone by now.
    pub seen: Option<Seen>,
}

/// Why a file was not committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// It is larger than the limit.
    TooLarge(u64),
    /// It is one of this many new files, more than the limit.
    TooMany(usize),
    /// The tree has something else there or above it, whose deletion is not committed while something is held back.
    NoRoom,
    /// No path leads to it: it lies too deep.
    TooDeep,
    /// Git does not allow its name, because on some systems it would mean `.git`.
    Name,
    /// A submodule belongs there, and is not checked out.
    Submodule,
    /// It cannot be read.
    Unreadable(String),
    /// The filter that git's attributes ask for failed.
    Filter(String),
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(size) => {
                write!(f, "{} MiB is over the size limit (`commit.max_file_mb`)", size.div_ceil(MIB))
            }
            Self::TooMany(count) => write!(
                f,
                "one of {count} new files, more than the limit (`commit.max_new_files`); add what is generated to .gitignore"
            ),
            Self::NoRoom => f.write_str("it takes the place of files whose deletion is not committed either"),
            Self::TooDeep => f.write_str("it lies too deep for any path to lead there"),
            Self::Name => f.write_str("git does not allow its name"),
            Self::Submodule => f.write_str("it lies in the place of a submodule, whose link is left alone"),
            Self::Unreadable(detail) => write!(f, "cannot be read: {detail}"),
            Self::Filter(detail) => write!(f, "its git filter failed: {detail}"),
        }
    }
}

/// The tree of the files as they are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The tree; equal to the recorded one when nothing changed.
    pub tree: TreeId,
    /// The paths that differ from the recorded tree, sorted.
    pub paths: Vec<RepoPath>,
    /// Files that changed but are not in the tree.
    pub held_back: Vec<HeldBack>,
    /// Files that are gone but stay in the tree while others are held back.
    pub withheld: Vec<RepoPath>,
    /// Submodules in whose place is nothing, or nothing a tree can have. Their links are left alone.
    pub gone: Vec<RepoPath>,
    /// What a person should know, one line each.
    pub warnings: Vec<Warning>,
}

impl Written {
    /// What is held back, in words.
    pub fn held_in_words(&self) -> Vec<String> {
        in_words(&self.held_back).map(|warning| warning.text).collect()
    }
}

/// How many files of a kind a warning names.
const SHOWN: usize = 5;

/// What becomes known about the files once the tree is recorded.
pub(super) struct Staged {
    pub tree: TreeId,
    pub entries: Vec<(BString, Option<Known>)>,
}

/// What stands at a path.
pub(super) enum Found {
    Gone,
    File(Known),
    /// The recorded entry stays as it is.
    Same,
    Held(Held),
}

impl Worktree {
    /// Builds the tree of the files as `scan` found them, into `writer`. What it learned about the files counts only
    /// after [`Worktree::accept`], so a transition that fails loses no change.
    pub fn commit_tree(&mut self, scan: &Scan, writer: &mut Writer, limits: &Limits) -> Result<Written, Error> {
        let mut entries: Vec<(BString, Option<Known>)> = Vec::new();
        let (mut held_back, mut held) = (Vec::new(), Vec::new());
        let (mut gone, mut replaced) = (Vec::new(), Vec::new());
        let new: BTreeSet<&BString> =
            scan.candidates.iter().filter(|path| self.cache.known(path.as_bstr()).is_none()).collect();
        let mut reading = Reading::new(limits, std::mem::take(&mut self.new_content));
        let too_many = self.too_many(&new, &mut reading)?;
        for path in &scan.candidates {
            let found = match &too_many {
                _ if !limits.in_submodules && self.belongs_to_submodule(path.as_bstr()) => {
                    self.found_there(path.as_bstr())
                }
                Some(many) if many.contains(path) => Found::Held(Held::TooMany(many.len())),
                _ if !is_allowed(path.as_bstr()) => Found::Held(Held::Name),
                _ => self.read_within(path.as_bstr(), &mut reading, writer)?,
            };
            if self.cache.is_submodule(path.as_bstr()) {
                match found {
                    Found::Gone => {
                        gone.push(RepoPath::new(path.to_vec()));
                        continue;
                    }
                    Found::Held(_) => replaced.push(RepoPath::new(path.to_vec())),
                    Found::File(_) | Found::Same => {}
                }
            }
            match found {
                Found::Gone if !new.contains(path) => entries.push((path.clone(), None)),
                // What is left out stays that until somebody makes something else of it.
                Found::File(known) if self.cache.is_skipped(path.as_bstr()) && self.has(path, &known) => {}
                Found::File(known) => entries.push((path.clone(), Some(known))),
                Found::Held(reason) => {
                    held.push(path);
                    let seen = Seen::at(&self.place(path.as_bstr()));
                    held_back.push(HeldBack { path: RepoPath::new(path.to_vec()), reason, seen });
                }
                Found::Gone | Found::Same => {}
            }
        }
        let deep = scan.deep.iter().map(|path| HeldBack { path: path.clone(), reason: Held::TooDeep, seen: None });
        held_back.extend(deep);
        entries.extend(scan.dropped.iter().map(|path| (path.clone(), None)));
        let in_the_way = self.in_the_way(&entries);
        entries.extend(in_the_way.into_iter().map(|path| (path, None)));
        let mut withheld = Vec::new();
        if !held_back.is_empty() && !limits.with_deletions {
            let gone = entries.extract_if(.., |(_, known)| known.is_none());
            withheld = gone.map(|(path, _)| RepoPath::new(path)).collect();
            for path in self.without_room(&mut entries) {
                let seen = Seen::at(&self.place(path.as_bstr()));
                held_back.push(HeldBack { path: RepoPath::new(path), reason: Held::NoRoom, seen });
            }
        }
        let edits: Vec<TreeEdit> = entries.iter().filter_map(|(path, known)| self.edit(path, known.as_ref())).collect();
        let tree = if edits.is_empty() { self.tree } else { writer.tree(Some(self.tree), &edits)? };
        let mut paths: Vec<RepoPath> = edits
            .into_iter()
            .map(|edit| match edit {
                TreeEdit::Put(path, ..) | TreeEdit::Remove(path) => path,
            })
            .collect();
        paths.sort();
        self.cache.forget_stats(held);
        self.staged = Some(Staged { tree, entries });
        let (new_content, unfiltered) = reading.end();
        self.new_content = new_content;
        let warnings = warnings(scan, (&gone, &replaced), &held_back, &unfiltered);
        Ok(Written { tree, paths, warnings, held_back, withheld, gone })
    }

    /// What the recorded tree has where a new file takes the place of a directory or needs one, and nobody has removed: a
    /// setup has, or it is left out of the checkout.
    fn in_the_way(&self, entries: &[(BString, Option<Known>)]) -> BTreeSet<BString> {
        let mut found = BTreeSet::new();
        let put = entries.iter().filter(|(path, known)| known.is_some() && self.cache.known(path.as_bstr()).is_none());
        for (path, _) in put {
            let above = parents(path.as_bstr()).filter(|parent| self.cache.known(parent).is_some());
            found.extend(above.map(BStr::to_owned));
            found.extend(self.cache.below(path.as_bstr()));
        }
        for (path, _) in entries {
            found.remove(path);
        }
        found
    }

    /// The edit that brings the recorded tree to what was found, none if it has it already.
    fn edit(&self, path: &BString, found: Option<&Known>) -> Option<TreeEdit> {
        let place = RepoPath::new(path.to_vec());
        let Some(found) = found else { return Some(TreeEdit::Remove(place)) };
        let kind = match found.mode {
            Mode::FILE_EXECUTABLE => EntryKind::Executable,
            Mode::SYMLINK => EntryKind::Link,
            _ => EntryKind::File,
        };
        (!self.has(path, found)).then(|| TreeEdit::Put(place, kind, BlobId::from_gix(&found.id)))
    }

    /// Whether the recorded tree has this at a path.
    fn has(&self, path: &BString, found: &Known) -> bool {
        let recorded = self.cache.known(path.as_bstr());
        recorded.is_some_and(|known| known.id == found.id && known.mode == found.mode)
    }

    /// Takes the files out of what was found that need the place of what the recorded tree has. Returns those.
    fn without_room(&self, entries: &mut Vec<(BString, Option<Known>)>) -> Vec<BString> {
        let has_room = |path: &BStr| {
            self.cache.known(path).is_some()
                || parents(path).all(|parent| self.cache.known(parent).is_none()) && self.cache.below(path).is_empty()
        };
        entries.extract_if(.., |(path, _)| !has_room(path.as_bstr())).map(|(path, _)| path).collect()
    }

    pub(super) fn read(
        &self,
        path: &BStr,
        filters: &mut Filters,
        writer: &mut Writer,
        limits: &Limits,
    ) -> Result<Found, Error> {
        let (found, bytes) = self.content(path, filters, limits)?;
        if let Found::File(file) = &found
            && self.cache.known(path).is_none_or(|known| known.id != file.id)
        {
            writer.blob(&bytes)?;
        }
        Ok(found)
    }

    /// What stands at a path, with its content as git stores it.
    pub(super) fn content(
        &self,
        path: &BStr,
        filters: &mut Filters,
        limits: &Limits,
    ) -> Result<(Found, Vec<u8>), Error> {
        let nothing = |found: Found| Ok((found, Vec::new()));
        let recorded = self.cache.known(path);
        if !self.leads_to(path) {
            return nothing(self.absent(path));
        }
        let place = self.place(path);
        // The stat is taken before the content: a write in between shows next time.
        let metadata = match gix::index::fs::Metadata::from_path_no_follow(&place) {
            Ok(metadata) => metadata,
            Err(error) if is_absent(&error) => return nothing(self.absent(path)),
            Err(error) => return nothing(Found::Held(Held::Unreadable(error.to_string()))),
        };
        let stat = Stat::from_fs(&metadata).unwrap_or_default();
        let recorded_mode = recorded.as_ref().map(|known| known.mode);
        if metadata.is_dir() {
            // A submodule is a directory; any other file that became one is gone, its files come by themselves.
            return nothing(if recorded_mode == Some(Mode::COMMIT) { Found::Same } else { Found::Gone });
        }
        let bytes = if metadata.is_symlink() {
            match std::fs::read_link(&place) {
                Ok(target) => target.as_os_str().as_bytes().to_vec(),
                Err(error) => return nothing(Found::Held(Held::Unreadable(error.to_string()))),
            }
        } else if metadata.is_file() {
            match filters.clean(self, path, metadata.len(), limits) {
                Ok(bytes) => bytes,
                Err(held) => return nothing(Found::Held(held)),
            }
        } else {
            return nothing(Found::Gone);
        };
        let mode = filters.mode(&metadata, recorded_mode);
        let id =
            gix::objs::compute_hash(self.handle.object_hash(), gix::objs::Kind::Blob, &bytes).doing("hash a file")?;
        Ok((Found::File(Known { id, mode, stat }), bytes))
    }

    /// What stands where only a submodule can, which is not read: files there are in no tree.
    fn found_there(&self, path: &BStr) -> Found {
        let found = self.place(path).symlink_metadata().ok().filter(|_| self.leads_to(path));
        match found {
            Some(found) if found.is_file() || found.is_symlink() => Found::Held(Held::Submodule),
            Some(found) if found.is_dir() => Found::Same,
            _ => self.absent(path),
        }
    }

    /// What it means that nothing is at a path. What is left out is gone only where something else has taken its place.
    fn absent(&self, path: &BStr) -> Found {
        let is_taken = |parent: &BStr| self.place(parent).symlink_metadata().is_ok_and(|found| !found.is_dir());
        let stays = self.cache.is_skipped(path) && !parents(path).any(is_taken);
        if stays { Found::Same } else { Found::Gone }
    }

    /// Whether all directories above the path are real ones: what lies behind a link is not part of the tree.
    pub(super) fn leads_to(&self, path: &BStr) -> bool {
        parents(path).all(|parent| self.place(parent).symlink_metadata().is_ok_and(|metadata| metadata.is_dir()))
    }
}

/// Whether git takes the path into a tree. A tree with another could not be checked out again.
fn is_allowed(path: &BStr) -> bool {
    let options =
        gix::validate::path::component::Options { protect_windows: false, protect_hfs: true, protect_ntfs: true };
    path.split(|byte| *byte == b'/').all(|part| gix::validate::path::component(part.as_bstr(), None, options).is_ok())
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

fn warnings(
    scan: &Scan,
    (gone, replaced): (&[RepoPath], &[RepoPath]),
    held_back: &[HeldBack],
    unfiltered: &[(BString, BString)],
) -> Vec<Warning> {
    let nested = scan.nested.iter().map(|path| {
        WarningCode::NestedRepository.with(format!("`{path}` is a repository of its own and is not committed"))
    });
    let links = [(scan.submodules.as_slice(), "moved"), (gone, "is gone"), (replaced, "is replaced")];
    let links = links.into_iter().flat_map(|(paths, what)| {
        let text = move |path: &RepoPath| format!("submodule `{path}` {what}; its link is left alone");
        paths.iter().map(move |path| WarningCode::SubmoduleChanged.with(text(path)))
    });
    let cleared = scan.cleared.iter().take(SHOWN);
    let cleared = cleared.map(|path| {
        WarningCode::FileUnreadable.with(format!("`{path}` was no file git could have read; it is removed"))
    });
    let unlocked = scan.unlocked.iter().take(SHOWN);
    let unlocked = unlocked.map(|path| {
        WarningCode::PermissionsRestored.with(format!("nobody could look into `{path}`; its permissions are put back"))
    });
    let raw = unfiltered.iter().take(SHOWN).map(|(path, filter)| {
        WarningCode::FilterMissing.with(format!(
            "`{path}` is committed as it is: git's filter `{filter}`, which it asks for, is not installed"
        ))
    });
    nested.chain(links).chain(cleared).chain(unlocked).chain(in_words(held_back)).chain(raw).collect()
}

/// Which files are held back and why, one line each, and how many more.
fn in_words(held_back: &[HeldBack]) -> impl Iterator<Item = Warning> {
    const LONGEST_NAME: usize = 160;
    let name = |path: &RepoPath| shorten(&path.to_string(), LONGEST_NAME);
    let held = held_back.iter().take(SHOWN);
    let held = held.map(move |held| format!("`{}` is not committed: {}", name(&held.path), held.reason));
    let rest = held_back.len().saturating_sub(SHOWN);
    let held = held.chain((rest > 0).then(|| format!("{rest} more files are not committed")));
    held.map(|text| WarningCode::FileHeldBack.with(text))
}
