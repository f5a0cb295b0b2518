//! Entries an agent can create that would block or break a scan: pipes and sockets in place of files git reads by name,
//! huge such files, and directories too deep for a path. The first are removed, the last are held back.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::entry::Mode;
use rustix::fs::{Dir, FileType, Mode as Permissions, OFlags};

use super::rule_files::{LONGEST, RULES, blocks_reading, is_endless};
use super::tree_paths::parents;
use super::{ScanResult, Worktree};
use crate::git::error::{Error, IoContext as _, LibraryContext as _};
use os::confined_fs::{self, ConfinedDir, FEW_LINES};
use pleach_core::ids::RepoPath;

/// The files read to recognise a repository and its HEAD.
const REPOSITORY: [&str; 7] =
    ["HEAD", "commondir", "config", "config.worktree", "objects/info/alternates", "packed-refs", "shallow"];

/// The longest path the system takes, with the end of it.
const PATH_MAX: usize = 4096;

/// Room for the name of a file git looks for in a directory.
const ROOM: usize = 24;

/// What lies directly in a directory.
#[derive(Default)]
pub(super) struct Listing {
    pub special: Vec<BString>,
    pub below: Vec<BString>,
    pub files: Vec<BString>,
    /// What makes a repository of it, or would on some systems.
    pub git: Vec<(BString, FileType)>,
}

impl Listing {
    pub fn is_empty(&self) -> bool {
        self.special.is_empty() && self.below.is_empty() && self.files.is_empty() && self.git.is_empty()
    }
}

/// Whether a path is too long for the system to look at what lies there.
pub(super) fn is_too_deep(worktree: &Worktree, path: &BStr) -> bool {
    worktree.root.as_os_str().len() + path.len() + ROOM > PATH_MAX
}

/// Removes what cannot be read.
pub(super) fn remove_special_files(
    worktree: &Worktree,
    paths: Vec<BString>,
    scan: &mut ScanResult,
) -> Result<(), Error> {
    let Some(first) = paths.first() else { return Ok(()) };
    // In the user's own checkout it is the user's.
    if !worktree.is_agents {
        let detail = "it is not a regular file, or far too large; move it away".into();
        return Err(Error::Library { doing: format!("read `{first}`"), detail });
    }
    let dir = ConfinedDir::at(&worktree.root).at("open", &worktree.root)?;
    for path in paths {
        let place = worktree.disk_path(path.as_bstr());
        dir.remove(gix::path::from_bstr(path.as_bstr()).unwrap_or_default()).at("remove", &place)?;
        scan.cleared.push(RepoPath::new(path.to_vec()));
    }
    Ok(())
}

/// The same for what is read on the way to some paths.
pub(super) fn remove_special_files_above(
    worktree: &Worktree,
    paths: &BTreeSet<BString>,
    scan: &mut ScanResult,
) -> Result<(), Error> {
    let mut directories: BTreeSet<&BStr> = paths.iter().flat_map(|path| parents(path.as_bstr())).collect();
    directories.insert(b"".as_bstr());
    let dir = ConfinedDir::at(&worktree.root).at("open", &worktree.root)?;
    let mut special = Vec::new();
    for directory in directories.into_iter().filter(|directory| !is_too_deep(worktree, directory)) {
        for name in RULES {
            let path = inside(directory, name);
            let found = dir.look(gix::path::from_bstr(path.as_bstr()).unwrap_or_default());
            let found = found.at("look at", &worktree.disk_path(path.as_bstr()))?;
            if found.is_some_and(|(kind, size)| is_endless(kind, || size)) {
                special.push(path);
            }
        }
    }
    remove_special_files(worktree, special, scan)
}

/// The same for all the library looks at when it walks the worktree by itself. Where something is too deep for it,
/// this walk is taken instead: it gives the new files then, and repositories inside.
pub(super) fn remove_all_special_files(
    worktree: &Worktree,
    scan: &mut ScanResult,
) -> Result<Option<BTreeSet<BString>>, Error> {
    let mut rules = worktree.ignore_rules()?;
    let mut is_ignored = |path: &BStr, mode| -> Result<bool, Error> {
        Ok(rules.at_entry(path, Some(mode)).doing("read ignore rules")?.is_excluded())
    };
    let mut files = Vec::new();
    let mut waiting = vec![BString::from("")];
    while let Some(directory) = waiting.pop() {
        let directory = directory.as_bstr();
        if is_too_deep(worktree, directory) {
            scan.deep.push(RepoPath::new(directory.to_vec()));
            continue;
        }
        if !directory.is_empty() && is_ignored(directory, Mode::DIR)? {
            scan.ignored.push(directory.to_owned());
            continue;
        }
        let listing = unlocked_listing(worktree, directory, scan)?;
        let Some(Listing { special, mut below, files: mut found, git }) = listing else { continue };
        remove_special_files(worktree, special, scan)?;
        // What lies in their places is looked at by itself.
        if worktree.cache.is_submodule(directory) {
            continue;
        }
        if !git.is_empty() && worktree.cache.below(directory).is_empty() {
            scan.nested.push(RepoPath::new(directory.to_vec()));
            continue;
        }
        waiting.append(&mut below);
        files.append(&mut found);
    }
    if scan.deep.is_empty() {
        scan.nested.clear();
        return Ok(None);
    }
    let mut new = BTreeSet::new();
    for path in files {
        if worktree.cache.known(path.as_bstr()).is_none() && !is_ignored(path.as_bstr(), Mode::FILE)? {
            new.insert(path);
        }
    }
    Ok(Some(new))
}

/// Restores the permissions of a directory; whether they had been removed.
fn unlock(worktree: &Worktree, directory: &BStr) -> Result<bool, Error> {
    let unlocked = ConfinedDir::at(&worktree.root)
        .and_then(|root| root.unlock(gix::path::from_bstr(directory).map_err(std::io::Error::other)?));
    unlocked.map(|(_, was_locked)| was_locked).at("open", &worktree.disk_path(directory))
}

/// As [`listing`]; a directory of an agent's is made readable where it is not.
pub(super) fn unlocked_listing(
    worktree: &Worktree,
    directory: &BStr,
    scan: &mut ScanResult,
) -> Result<Option<Listing>, Error> {
    let found = listing(worktree, directory);
    if found.is_some() || !worktree.is_agents || !unlock(worktree, directory)? {
        return Ok(found);
    }
    scan.unlocked.push(RepoPath::new(directory.to_vec()));
    Ok(listing(worktree, directory))
}

/// What lies directly in a directory; none where it cannot be read, which the library tells of.
pub(super) fn listing(worktree: &Worktree, directory: &BStr) -> Option<Listing> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(worktree.disk_path(directory), flags, Permissions::empty());
    let mut listing = Listing::default();
    for entry in opened.and_then(Dir::new).ok()?.flatten() {
        let name = entry.file_name().to_bytes();
        let kind = match entry.file_type() {
            FileType::Unknown => kind(worktree, inside(directory, name).as_bstr()),
            kind => kind,
        };
        match (name, kind) {
            (b"." | b"..", _) => {}
            (b".git", _) if directory.is_empty() => {}
            (name, kind) if name.eq_ignore_ascii_case(b".git") => {
                listing.special.extend(special_files_in_git_dir(worktree, inside(directory, name), kind));
                listing.git.push((inside(directory, name), kind));
            }
            (name, FileType::Directory) => listing.below.push(inside(directory, name)),
            (name, kind) if blocks_reading(name, kind, || size(worktree, inside(directory, name).as_bstr())) => {
                listing.special.push(inside(directory, name));
            }
            (name, FileType::RegularFile | FileType::Symlink) => listing.files.push(inside(directory, name)),
            _ => {}
        }
    }
    Some(listing)
}

/// The type of an entry, where its directory does not say.
fn kind(worktree: &Worktree, path: &BStr) -> FileType {
    let found = worktree.disk_path(path).symlink_metadata();
    found.map_or(FileType::Unknown, |found| FileType::from_raw_mode(found.mode()))
}

/// The size of a file, 0 if it does not exist.
pub(super) fn size(worktree: &Worktree, path: &BStr) -> u64 {
    worktree.disk_path(path).symlink_metadata().map_or(0, |found| found.len())
}

/// What keeps a look at the repository of a nested checkout from coming to an end: files of it, or all it is known by.
fn special_files_in_git_dir(worktree: &Worktree, git: BString, kind: FileType) -> Vec<BString> {
    let found = special_files_of(&worktree.disk_path(git.as_bstr()));
    match kind {
        FileType::Directory => {
            let names = found.iter().filter_map(|place| place.strip_prefix(&worktree.root).ok());
            names.map(|name| BString::from(name.as_os_str().as_bytes())).collect()
        }
        _ if found.is_empty() => Vec::new(),
        _ => vec![git],
    }
}

/// The files that would be waited for, or take all memory, when a repository is looked at by its `.git`.
pub(super) fn special_files_of(git: &Path) -> Vec<PathBuf> {
    let is_special = |place: &Path| {
        place.metadata().is_ok_and(|found| !found.is_dir() && (!found.is_file() || found.len() > LONGEST))
    };
    if is_special(git) {
        return vec![git.to_owned()];
    }
    let dir = if git.is_dir() {
        git.to_owned()
    } else {
        let line =
            git.canonicalize().and_then(|git| confined_fs::read(&git, FEW_LINES)).ok().flatten().unwrap_or_default();
        let Some(target) = line.strip_prefix(b"gitdir:") else { return Vec::new() };
        git.with_file_name(std::ffi::OsStr::from_bytes(target.trim_ascii()))
    };
    let mut found: Vec<PathBuf> =
        REPOSITORY.iter().map(|name| dir.join(name)).filter(|file| is_special(file)).collect();
    // HEAD may name a file of its own.
    let head = confined_fs::read(&dir.join("HEAD"), FEW_LINES).ok().flatten().unwrap_or_default();
    let named = head.strip_prefix(b"ref:").map(|name| dir.join(std::ffi::OsStr::from_bytes(name.trim_ascii())));
    found.extend(named.filter(|file| is_special(file)));
    found
}

/// Whether something below a directory would be waited for, or cannot be looked at.
pub(super) fn has_special_files_below(directory: &Path) -> bool {
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else { return true };
        for entry in entries {
            let Ok((entry, found)) = entry.and_then(|entry| entry.metadata().map(|found| (entry, found))) else {
                return true;
            };
            let (name, kind) = (entry.file_name(), FileType::from_raw_mode(found.mode()));
            match name.as_bytes() {
                b".git" => {}
                name if blocks_reading(name, kind, || found.len()) => return true,
                _ if kind.is_dir() => waiting.push(entry.path()),
                _ => {}
            }
        }
    }
    false
}

/// A path in a directory, which is empty for the root.
fn inside(directory: &BStr, name: &[u8]) -> BString {
    if directory.is_empty() { name.into() } else { [directory.as_bytes(), b"/", name].concat().into() }
}
