//! Files of a worktree that are not committed though they are new or changed: too large, too many, or not storable
//! by git. They stay in place from node to node, and so do deletions, which are not committed either meanwhile: a held
//! file may be one that was moved. Their stamps are noted, to tell later changes by a node from what it found.

use std::collections::{BTreeMap, BTreeSet};

use super::error::Error;
use crate::git::{FileStamp, HeldBack, Notes};
use pleach_core::ids::{RepoPath, SessionId};

/// The note that has them.
const NOTE: &str = "held-back";

/// What it says of a file that is gone.
const GONE: &str = "-";

/// What it has at most.
const LONGEST: u64 = 64 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct HeldFiles {
    notes: Notes,
    files: StampByPath,
}

/// What was seen of each; none of those that are gone.
type StampByPath = BTreeMap<RepoPath, Option<FileStamp>>;

impl HeldFiles {
    /// What is held back of a session's work. Files of another session are forgotten: they need not be preserved.
    pub fn read(notes: &Notes, session: &SessionId) -> Result<Self, Error> {
        let text = notes.read(NOTE, LONGEST)?.unwrap_or_default();
        let files = text.strip_prefix(head(session).as_slice()).map(read).unwrap_or_default();
        Ok(Self { notes: notes.clone(), files })
    }

    /// All of them, also what is gone.
    pub fn all(&self) -> &StampByPath {
        &self.files
    }

    /// Those that are there.
    pub fn files(&self) -> impl Iterator<Item = &RepoPath> {
        self.files.iter().filter(|(_, seen)| seen.is_some()).map(|(path, _)| path)
    }

    pub fn is_empty(&self) -> bool {
        self.files().next().is_none()
    }

    /// Takes what a turn has held back and what is gone with it, which is all if `whole`.
    pub fn extend(
        &mut self,
        session: &SessionId,
        held: Vec<HeldBack>,
        gone: Vec<RepoPath>,
        whole: bool,
    ) -> Result<(), Error> {
        let mut files = if whole { BTreeMap::new() } else { self.files.clone() };
        files.extend(gone.into_iter().map(|path| (path, None)));
        files.extend(held.into_iter().filter_map(|held| Some((held.path, Some(held.seen?)))));
        self.set(session, files)
    }

    /// Forgets all but these.
    pub fn retain(&mut self, session: &SessionId, left: &BTreeSet<RepoPath>) -> Result<(), Error> {
        let files = self.files.iter().filter(|(path, _)| left.contains(*path));
        let files = files.map(|(path, seen)| (path.clone(), *seen)).collect();
        self.set(session, files)
    }

    fn set(&mut self, session: &SessionId, files: StampByPath) -> Result<(), Error> {
        if files == self.files {
            return Ok(());
        }
        let seen = |seen: &Option<FileStamp>| seen.map_or(GONE.to_owned(), |seen| seen.to_string());
        let lines = files
            .iter()
            .flat_map(|(path, file)| [format!("{} ", seen(file)).as_bytes(), path.as_bytes(), b"\0"].concat());
        let text: Vec<u8> = head(session).into_iter().chain(lines).collect();
        self.notes.write(NOTE, &text)?;
        self.files = files;
        Ok(())
    }
}

fn head(session: &SessionId) -> Vec<u8> {
    format!("{session}\0").into_bytes()
}

fn read(text: &[u8]) -> StampByPath {
    let line = |line: &[u8]| {
        let end = line.iter().position(|byte| *byte == b' ')?;
        let seen = match std::str::from_utf8(&line[..end]).ok()? {
            GONE => None,
            seen => Some(FileStamp::read(seen)?),
        };
        Some((RepoPath::new(line[end + 1..].to_vec()), seen))
    };
    text.split(|byte| *byte == 0).filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_files_belong_to_their_session_only() {
        let dir = tempfile::tempdir().unwrap();
        let notes = Notes::of(dir.path(), std::path::Path::new("main"));
        let [own, other] = ["aaaaaaaa", "bbbbbbbb"].map(|id| SessionId::new(id).unwrap());
        let held = |path: &[u8]| HeldBack {
            path: RepoPath::new(path),
            reason: crate::git::HoldReason::TooLarge(1),
            seen: FileStamp::read("100644:1:2:3:4"),
        };
        let mut files = HeldFiles::read(&notes, &own).unwrap();
        let gone = || vec![RepoPath::new(&b"- gone"[..])];
        assert!(files.is_empty());
        files.extend(&own, vec![held(b"a b\nc"), held(b"\xff")], gone(), true).unwrap();
        files.extend(&own, vec![held(b"more")], Vec::new(), false).unwrap();
        assert_eq!(HeldFiles::read(&notes, &own).unwrap().all(), files.all());
        assert_eq!((files.files().count(), files.all().len()), (3, 4));
        assert!(HeldFiles::read(&notes, &other).unwrap().all().is_empty());
        files.retain(&own, &BTreeSet::from([RepoPath::new(&b"more"[..])])).unwrap();
        assert_eq!(HeldFiles::read(&notes, &own).unwrap().all().len(), 1);
        files.extend(&own, Vec::new(), gone(), true).unwrap();
        assert!(HeldFiles::read(&notes, &own).unwrap().is_empty());
    }
}
