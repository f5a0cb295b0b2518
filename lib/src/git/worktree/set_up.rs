//! What a worktree begins with: what its setup has made of the files of the tree before anybody worked there. That is no
//! change of anybody's, until somebody changes it again. It is noted of the worktree, and goes with it.

use std::collections::{BTreeMap, BTreeSet};

use gix::bstr::{BStr, BString, ByteSlice as _};
use gix::index::entry::{Mode, Stat};

use super::cache::Known;
use super::files::Found;
use super::filters::Filters;
use super::sanitize::LONGEST;
use super::scan::parents;
use super::{Limits, Notes, Scan, Seen, Worktree};
use crate::git::error::Error;
use crate::ids::RepoPath;

/// The note that says a worktree is set up, and what that has changed.
const NOTE: &str = "set-up";

/// How its lines begin that name what git ignored. No other begins so.
const IGNORED: &[u8] = b"! ";

/// The line that says that something of that had to go since.
const LOST: &[u8] = b"!";

/// Files beyond these are not brought back once somebody has changed or removed them.
const MOST_FILES: usize = 5_000;

const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// The files a setup has changed.
pub(super) type Begun = BTreeMap<BString, Made>;

/// What a setup has made that git ignored then: no tree tells of it, and no scan. It may have to go where git ignores it no
/// more, and then only another setup brings it back.
#[derive(Debug, Default)]
pub(super) struct Ignored {
    /// Files, and directories with all in them.
    paths: BTreeSet<BString>,
    /// Something of it had to go.
    is_lost: bool,
}

impl Ignored {
    fn has(&self, path: &BStr) -> bool {
        self.paths.contains(path) || parents(path).any(|above| self.paths.contains(above))
    }
}

/// What a setup has made of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made {
    /// What the tree had.
    of: Option<Object>,
    /// What it is.
    is: Is,
    /// Its stat when it was last seen to be that.
    stat: Option<Stat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    Gone,
    File(Object),
    /// Too large for a commit, or nothing git can read. It is not brought back once somebody has changed or removed it.
    Unread(Seen),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Object {
    id: gix::ObjectId,
    mode: Mode,
}

impl From<Known> for Object {
    fn from(known: Known) -> Self {
        Self { id: known.id, mode: known.mode }
    }
}

impl Worktree {
    /// Whether the worktree is set up.
    pub fn is_set_up(&self) -> bool {
        self.notes.has(NOTE)
    }

    /// Whether something the setup had made had to go since, so that it has to run again.
    pub fn has_lost_setup(&self) -> bool {
        self.ignored.is_lost
    }

    /// Takes all that differs from the tree now for what the worktree begins with, and says that it is set up. Returns
    /// the paths, and whether each is a file of the tree.
    pub fn set_up(&mut self, is_changed: bool) -> Result<Vec<(RepoPath, bool)>, Error> {
        let now = if is_changed { self.scan()? } else { Scan::default() };
        if is_changed {
            self.note_submodules()?;
        }
        self.begin_with(now)
    }

    /// The same where it is set up once more. What differed before that is somebody's work.
    pub fn set_up_again(&mut self, before: &Scan) -> Result<Vec<(RepoPath, bool)>, Error> {
        let mut now = self.scan()?;
        now.candidates.retain(|path| !before.candidates.contains(path));
        now.ignored.retain(|path| !before.ignored.contains(path));
        self.begin_with(now)
    }

    fn begin_with(&mut self, scan: Scan) -> Result<Vec<(RepoPath, bool)>, Error> {
        let mut made = Vec::new();
        let mut room = if scan.candidates.len() <= MOST_FILES { MOST_BYTES } else { 0 };
        let mut kept = self.repo.writer();
        let mut filters = Filters::new(self)?;
        for path in &scan.candidates {
            let of = self.cache.known(path.as_bstr()).map(Object::from);
            let size = self.place(path.as_bstr()).symlink_metadata().map_or(0, |metadata| metadata.len());
            let mut passing = self.repo.writer();
            let writer = match room.checked_sub(size) {
                Some(rest) => {
                    room = rest;
                    &mut kept
                }
                None => &mut passing,
            };
            let (is, stat) = match self.read(path.as_bstr(), &mut filters, writer, &Limits::default())? {
                Found::File(known) => (Is::File(known.clone().into()), Some(known.stat)),
                Found::Gone => (Is::Gone, None),
                Found::Held(_) => match Seen::at(&self.place(path.as_bstr())) {
                    Some(seen) => (Is::Unread(seen), None),
                    None => continue,
                },
                Found::Same => continue,
            };
            if of.map_or(Is::Gone, Is::File) != is {
                self.begun.insert(path.clone(), Made { of, is, stat });
                made.push((RepoPath::new(path.to_vec()), of.is_some()));
            }
        }
        drop(filters);
        kept.flush()?;
        self.ignored.paths.extend(scan.ignored);
        self.ignored.is_lost = false;
        self.note_setup()?;
        Ok(made)
    }

    fn note_setup(&self) -> Result<(), Error> {
        self.notes.write(NOTE, &write(&self.begun, &self.ignored))
    }

    /// Takes note of files that are about to be removed where they are the setup's.
    pub(super) fn lose_setup(&mut self, removed: &[BString]) -> Result<(), Error> {
        if !self.ignored.is_lost && removed.iter().any(|path| self.ignored.has(path.as_bstr())) {
            self.ignored.is_lost = true;
            self.note_setup()?;
        }
        Ok(())
    }

    /// What a worktree has begun with; nothing where it was not set up, or so long ago that it was not noted.
    pub(super) fn read_begun(notes: &Notes) -> Result<(Begun, Ignored), Error> {
        Ok(notes.read(NOTE, LONGEST)?.map(|text| read(&text)).unwrap_or_default())
    }

    /// Takes out of a scan what is still as the setup has made it.
    pub(super) fn leave_begun(&mut self, scan: &mut Scan) -> Result<(), Error> {
        if self.begun.is_empty() {
            return Ok(());
        }
        let mut filters = None;
        let mut seen = Vec::new();
        for path in &scan.candidates {
            let Some(made) = self.begun_at(path.as_bstr()) else { continue };
            if let Is::Unread(look) = made.is {
                if self.leads_to(path.as_bstr()) && Seen::at(&self.place(path.as_bstr())) == Some(look) {
                    seen.push((path.clone(), None));
                }
                continue;
            }
            let metadata = gix::index::fs::Metadata::from_path_no_follow(&self.place(path.as_bstr())).ok();
            let stat = metadata.as_ref().and_then(|metadata| Stat::from_fs(metadata).ok());
            if made.is != Is::Gone && stat.is_some() && made.stat == stat {
                seen.push((path.clone(), made.stat));
                continue;
            }
            let filters = match &mut filters {
                Some(filters) => filters,
                None => filters.insert(Filters::new(self)?),
            };
            let mut passing = self.repo.writer();
            match self.read(path.as_bstr(), filters, &mut passing, &Limits::default())? {
                Found::File(known) if made.is == Is::File(known.clone().into()) => {
                    seen.push((path.clone(), Some(known.stat)));
                }
                Found::Gone if made.is == Is::Gone => seen.push((path.clone(), None)),
                _ => {}
            }
        }
        drop(filters);
        self.cache.forget_stats(seen.iter().map(|(path, _)| path));
        for (path, stat) in seen {
            scan.candidates.remove(&path);
            if let Some(made) = self.begun.get_mut(&path) {
                made.stat = stat;
            }
        }
        Ok(())
    }

    /// What the setup has made of a path, where the tree has there what it had then, and has nothing in its way that the
    /// setup has not removed.
    fn begun_at(&self, path: &BStr) -> Option<Made> {
        let made = self.made_of_tree(path)?;
        let is_taken = |parent: &&BStr| self.cache.known(parent).is_some() && !self.cache.is_submodule(parent);
        let is_free = parents(path).filter(is_taken).all(|at| self.is_removed(at))
            && self.cache.below(path).iter().all(|at| self.is_removed(at.as_bstr()));
        is_free.then_some(made)
    }

    fn made_of_tree(&self, path: &BStr) -> Option<Made> {
        let made = self.begun.get(path.as_bytes().as_bstr())?;
        (made.of == self.cache.known(path).map(Object::from)).then_some(*made)
    }

    fn is_removed(&self, path: &BStr) -> bool {
        self.made_of_tree(path).is_some_and(|made| made.is == Is::Gone)
    }

    /// What the setup has made of a file, where the tree still is as it was then and the content is still there. Within
    /// it, none stands for a file it removed.
    pub(super) fn begun_with(&self, path: &BStr) -> Option<Option<Known>> {
        match self.begun_at(path)?.is {
            Is::Gone => Some(None),
            Is::Unread(_) => None,
            Is::File(Object { id, mode }) => {
                self.handle.has_object(id).then_some(Some(Known { id, mode, stat: Stat::default() }))
            }
        }
    }

    /// What of the setup is no more, and no scan tells of: new files of it that are removed, and files of the tree that
    /// are again as the tree has them.
    pub fn undone_setup(&self) -> Result<BTreeSet<RepoPath>, Error> {
        let mut undone = BTreeSet::new();
        let mut filters = None;
        for path in self.begun.keys() {
            let Some(made) = self.begun_at(path.as_bstr()) else { continue };
            let stat = gix::index::fs::Metadata::from_path_no_follow(&self.place(path.as_bstr())).ok();
            let stat = stat.as_ref().and_then(|metadata| Stat::from_fs(metadata).ok());
            if made.is != Is::Gone && stat.is_some() && made.stat == stat && self.leads_to(path.as_bstr()) {
                continue;
            }
            let filters = match &mut filters {
                Some(filters) => filters,
                None => filters.insert(Filters::new(self)?),
            };
            let is = match self.read(path.as_bstr(), filters, &mut self.repo.writer(), &Limits::default())? {
                Found::File(known) => Is::File(known.into()),
                Found::Gone | Found::Same => Is::Gone,
                Found::Held(_) => continue,
            };
            let left_out = self.cache.is_skipped(path.as_bstr());
            let of_tree = made.of.filter(|_| !left_out).map_or(Is::Gone, Is::File);
            if is != made.is && is == of_tree {
                undone.insert(RepoPath::new(path.to_vec()));
            }
        }
        Ok(undone)
    }
}

fn write(begun: &Begun, ignored: &Ignored) -> Vec<u8> {
    let object = |is: Is| match is {
        Is::File(Object { id, mode }) => format!("{:o}:{id}", mode.bits()),
        Is::Unread(seen) => format!("?{seen}"),
        Is::Gone => "-".to_owned(),
    };
    let line = |(path, made): (&BString, &Made)| {
        [
            format!("{} {} ", object(made.of.map_or(Is::Gone, Is::File)), object(made.is)).as_bytes(),
            path.as_slice(),
            b"\0",
        ]
        .concat()
    };
    let paths = ignored.paths.iter().flat_map(|path| [IGNORED, path.as_slice(), b"\0"].concat());
    let lost = ignored.is_lost.then(|| [LOST, b"\0"].concat());
    begun.iter().flat_map(line).chain(paths).chain(lost.into_iter().flatten()).collect()
}

fn read(text: &[u8]) -> (Begun, Ignored) {
    let lines = || text.split(|byte| *byte == 0);
    let paths = lines().filter_map(|line| line.strip_prefix(IGNORED)).map(BString::from).collect();
    (lines().filter_map(line).collect(), Ignored { paths, is_lost: lines().any(|line| line == LOST) })
}

fn line(line: &[u8]) -> Option<(BString, Made)> {
    let mut parts = line.splitn(3, |byte| *byte == b' ');
    let mut object = || -> Option<Is> {
        let text = std::str::from_utf8(parts.next()?).ok()?;
        if text == "-" {
            return Some(Is::Gone);
        }
        if let Some(seen) = text.strip_prefix('?') {
            return Seen::read(seen).map(Is::Unread);
        }
        let (mode, id) = text.split_once(':')?;
        let mode = Mode::from_bits(u32::from_str_radix(mode, 8).ok()?)?;
        Some(Is::File(Object { id: gix::ObjectId::from_hex(id.as_bytes()).ok()?, mode }))
    };
    let of = match object()? {
        Is::File(object) => Some(object),
        Is::Gone => None,
        Is::Unread(_) => return None,
    };
    let is = object()?;
    let path = BString::from(parts.next()?);
    Some((path, Made { of, is, stat: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_with_is_read_as_it_was_written() {
        let id = gix::ObjectId::from_hex(b"0123456789012345678901234567890123456789").unwrap();
        let file = Object { id, mode: Mode::FILE };
        let program = Object { id, mode: Mode::FILE_EXECUTABLE };
        let seen = Seen::read("100644:1:2:3:4").unwrap();
        let made = |of, is| Made { of, is, stat: None };
        let begun: Begun = [
            (BString::from("a b\nc"), made(None, Is::File(file))),
            (BString::from(&b"\xff"[..]), made(Some(file), Is::File(program))),
            (BString::from("gone"), made(Some(file), Is::Gone)),
            (BString::from("large"), made(None, Is::Unread(seen))),
        ]
        .into();
        let paths = BTreeSet::from([BString::from("node_modules"), BString::from("! x")]);
        let ignored = Ignored { paths: paths.clone(), is_lost: true };
        let (again, ignored) = read(&write(&begun, &ignored));
        assert_eq!((again.len(), ignored.paths, ignored.is_lost), (4, paths, true));
        assert!(!read(&write(&begun, &Ignored::default())).1.is_lost);
        for (path, made) in &begun {
            assert_eq!((again[path].of, again[path].is), (made.of, made.is), "{path}");
        }
        assert!(read(b"").0.is_empty() && read(b"torn 1").0.is_empty());
    }
}
