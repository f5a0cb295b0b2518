//! The recorded result of a setup, and the format of its note.

use std::collections::{BTreeMap, BTreeSet};

use gix::bstr::{BStr, BString};
use gix::index::entry::{Mode, Stat};

use super::cache::CachedEntry;
use super::metadata::LONGEST;
use super::tree_paths::parents;
use super::{FileStamp, Notes};
use crate::git::error::Error;

/// The note that says a worktree is set up, and what that has changed.
pub(super) const NOTE: &str = "set-up";

/// How its lines begin that name what git ignored. No other begins so.
const IGNORED: &[u8] = b"! ";

/// The line that says that something of that had to go since.
const LOST: &[u8] = b"!";

/// The files a setup has changed.
pub(super) type SetupFiles = BTreeMap<BString, SetupChange>;

/// What a setup has made that git ignored then: no tree tells of it, and no scan. It may have to go where git ignores it no
/// more, and then only another setup brings it back.
#[derive(Debug, Default)]
pub(super) struct IgnoredBySetup {
    /// Files, and directories with all in them.
    pub(super) paths: BTreeSet<BString>,
    /// Something of it had to go.
    pub(super) is_lost: bool,
}

impl IgnoredBySetup {
    pub fn has(&self, path: &BStr) -> bool {
        self.paths.contains(path) || parents(path).any(|above| self.paths.contains(above))
    }
}

/// What a setup has made of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct SetupChange {
    /// What the tree had.
    pub(super) in_tree: Option<SetupObject>,
    /// What it is.
    pub(super) is: SetupState,
    /// Its stat when it was last seen to be that.
    pub(super) stat: Option<Stat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetupState {
    Gone,
    File(SetupObject),
    /// Too large for a commit, or nothing git can read. It is not restored once it was changed or removed.
    Unread(FileStamp),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SetupObject {
    pub id: gix::ObjectId,
    pub mode: Mode,
}

impl From<CachedEntry> for SetupObject {
    fn from(known: CachedEntry) -> Self {
        Self { id: known.id, mode: known.mode }
    }
}

pub(super) fn write(setup_files: &SetupFiles, ignored: &IgnoredBySetup) -> Vec<u8> {
    let object = |is: SetupState| match is {
        SetupState::File(SetupObject { id, mode }) => format!("{:o}:{id}", mode.bits()),
        SetupState::Unread(seen) => format!("?{seen}"),
        SetupState::Gone => "-".to_owned(),
    };
    let line = |(path, change): (&BString, &SetupChange)| {
        [
            format!("{} {} ", object(change.in_tree.map_or(SetupState::Gone, SetupState::File)), object(change.is))
                .as_bytes(),
            path.as_slice(),
            b"\0",
        ]
        .concat()
    };
    let paths = ignored.paths.iter().flat_map(|path| [IGNORED, path.as_slice(), b"\0"].concat());
    let lost = ignored.is_lost.then(|| [LOST, b"\0"].concat());
    setup_files.iter().flat_map(line).chain(paths).chain(lost.into_iter().flatten()).collect()
}

fn read(text: &[u8]) -> (SetupFiles, IgnoredBySetup) {
    let lines = || text.split(|byte| *byte == 0);
    let paths = lines().filter_map(|line| line.strip_prefix(IGNORED)).map(BString::from).collect();
    (lines().filter_map(line).collect(), IgnoredBySetup { paths, is_lost: lines().any(|line| line == LOST) })
}

fn line(line: &[u8]) -> Option<(BString, SetupChange)> {
    let mut parts = line.splitn(3, |byte| *byte == b' ');
    let mut object = || -> Option<SetupState> {
        let text = std::str::from_utf8(parts.next()?).ok()?;
        if text == "-" {
            return Some(SetupState::Gone);
        }
        if let Some(seen) = text.strip_prefix('?') {
            return FileStamp::read(seen).map(SetupState::Unread);
        }
        let (mode, id) = text.split_once(':')?;
        let mode = Mode::from_bits(u32::from_str_radix(mode, 8).ok()?)?;
        Some(SetupState::File(SetupObject { id: gix::ObjectId::from_hex(id.as_bytes()).ok()?, mode }))
    };
    let in_tree = match object()? {
        SetupState::File(object) => Some(object),
        SetupState::Gone => None,
        SetupState::Unread(_) => return None,
    };
    let is = object()?;
    let path = BString::from(parts.next()?);
    Some((path, SetupChange { in_tree, is, stat: None }))
}

/// The recorded setup of a worktree; empty where it was not set up, or before this was recorded.
pub(super) fn read_begun(notes: &Notes) -> Result<(SetupFiles, IgnoredBySetup), Error> {
    Ok(notes.read(NOTE, LONGEST)?.map(|text| read(&text)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_with_is_read_as_it_was_written() {
        let id = gix::ObjectId::from_hex(b"0123456789012345678901234567890123456789").unwrap();
        let file = SetupObject { id, mode: Mode::FILE };
        let program = SetupObject { id, mode: Mode::FILE_EXECUTABLE };
        let seen = FileStamp::read("100644:1:2:3:4").unwrap();
        let change = |in_tree, is| SetupChange { in_tree, is, stat: None };
        let setup_files: SetupFiles = [
            (BString::from("a b\nc"), change(None, SetupState::File(file))),
            (BString::from(&b"\xff"[..]), change(Some(file), SetupState::File(program))),
            (BString::from("gone"), change(Some(file), SetupState::Gone)),
            (BString::from("large"), change(None, SetupState::Unread(seen))),
        ]
        .into();
        let paths = BTreeSet::from([BString::from("node_modules"), BString::from("! x")]);
        let ignored = IgnoredBySetup { paths: paths.clone(), is_lost: true };
        let (again, ignored) = read(&write(&setup_files, &ignored));
        assert_eq!((again.len(), ignored.paths, ignored.is_lost), (4, paths, true));
        assert!(!read(&write(&setup_files, &IgnoredBySetup::default())).1.is_lost);
        for (path, expected) in &setup_files {
            assert_eq!((again[path].in_tree, again[path].is), (expected.in_tree, expected.is), "{path}");
        }
        assert!(read(b"").0.is_empty() && read(b"torn 1").0.is_empty());
    }
}
