//! Whether objects are what their ids say. Whoever may write objects may write into those that are there, and neither git
//! nor its library looks at that when it reads one. So whatever is about to reach files people work with is read from disk
//! once more, and hashed: what lands is what was tested and approved.
//!
//! Agents write loose objects alone, but git packs what it finds, and reads that rather than a loose copy from then on: of
//! two copies the one that is read is looked at.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};

use gix::ObjectId;
use gix::bstr::BString;
use gix::objs::Kind;
use gix::objs::tree::EntryRef;
use gix::zlib::{Decompress, FlushDecompress, Status};

use super::error::{Error, IoContext as _, explain};
use super::id::{TreeId, from_gix, to_gix};
use super::repo::Repo;
use crate::beneath::Beneath;
use crate::ids::{CommitId, RepoPath};

/// What is held in memory at most, in bytes. No commit or tree has more, and larger files are read piece by piece where
/// they are loose, as an agent has to leave them.
const LARGEST: u64 = 256 * 1024 * 1024;

/// What is inflated at once.
const PIECE: usize = 64 * 1024;

impl Repo {
    /// Looks at every object `to` has in its history and `from` has not, each once.
    pub(super) fn check_between(&self, from: CommitId, to: CommitId) -> Result<(), Error> {
        let [_, new] = self.apart(from, to, (&|_| false, &|_| false))?;
        let mut check = Check::new(self)?;
        for commit in &new {
            let (tree, parent) = check.commit(to_gix(commit.id))?;
            // A shallow clone has not all of them.
            let parent = parent.filter(|parent| check.repo.has_object(*parent));
            let before = parent.map(|parent| check.commit(parent)).transpose()?.map(|(tree, _)| tree);
            check.difference(before, tree, Sides::New)?;
        }
        // Whatever the commits between say, this is what is written to files.
        let (before, after) = (check.commit(to_gix(from))?.0, check.commit(to_gix(to))?.0);
        check.difference(Some(before), after, Sides::New)
    }

    /// Looks at all that a merge of trees reads.
    pub(super) fn check_merge(&self, base: TreeId, sides: [TreeId; 2]) -> Result<(), Error> {
        let mut check = Check::new(self)?;
        sides.into_iter().try_for_each(|side| check.difference(Some(base.to_gix()), side.to_gix(), Sides::Both))
    }
}

/// Which files of a difference are looked at.
#[derive(Clone, Copy, PartialEq)]
enum Sides {
    New,
    Both,
}

struct Check {
    /// Without the memory others share: what is on disk counts.
    repo: gix::Repository,
    objects: Beneath,
    /// The commits and files that were looked at.
    seen: BTreeSet<ObjectId>,
    /// The trees that were compared; a tree may be in many places.
    compared: BTreeSet<(Option<ObjectId>, ObjectId)>,
}

impl Check {
    fn new(repo: &Repo) -> Result<Self, Error> {
        let repo = repo.shared.handle.to_thread_local();
        let root = repo.objects.store_ref().path();
        let objects = Beneath::at(root).at("open", root)?;
        // What is not found has the library look for packs that are new.
        repo.has_object(ObjectId::null(repo.object_hash()));
        Ok(Self { objects, repo, seen: BTreeSet::new(), compared: BTreeSet::new() })
    }

    /// The tree of a commit, and the first one it was made on.
    fn commit(&self, id: ObjectId) -> Result<(ObjectId, Option<ObjectId>), Error> {
        let bytes = self.content(id, Kind::Commit, None)?;
        let mut parts = gix::objs::CommitRefIter::from_bytes(&bytes, id.kind());
        let tree = parts.tree_id().map_err(|error| Error::object("commit", &id, error))?;
        Ok((tree, gix::objs::CommitRefIter::from_bytes(&bytes, id.kind()).parent_ids().next()))
    }

    /// Looks at all that sets a tree apart from the one before it.
    fn difference(&mut self, before: Option<ObjectId>, after: ObjectId, sides: Sides) -> Result<(), Error> {
        let mut open = vec![(before, after, BString::default())];
        while let Some((before, after, place)) = open.pop() {
            if before == Some(after) || !self.compared.insert((before, after)) {
                continue;
            }
            let old = before.map(|before| self.tree(before, &place)).transpose()?.unwrap_or_default();
            let new = self.tree(after, &place)?;
            let mut old = entries(before.unwrap_or(after), &old)?.into_iter().peekable();
            for entry in entries(after, &new)? {
                // Both have the same order. In one that has another, more than what differs is looked at.
                while old.next_if(|was| *was < entry).is_some() {}
                let was = old.next_if(|was| was.cmp(&entry).is_eq());
                let id = entry.oid.to_owned();
                if was.is_some_and(|was| was.oid == entry.oid && was.mode == entry.mode) {
                    continue;
                }
                let mut path = place.clone();
                path.extend_from_slice(if place.is_empty() { b"" } else { b"/" });
                path.extend_from_slice(entry.filename);
                if entry.mode.is_tree() {
                    open.push((was.filter(|was| was.mode.is_tree()).map(|was| was.oid.to_owned()), id, path));
                    continue;
                }
                let was = was.filter(|was| was.mode.is_blob_or_symlink()).map(|was| was.oid.to_owned());
                if entry.mode.is_blob_or_symlink() && was != Some(id) {
                    self.file(id, &path)?;
                    was.filter(|_| sides == Sides::Both).map(|was| self.file(was, &path)).transpose()?;
                }
            }
        }
        Ok(())
    }

    fn tree(&self, id: ObjectId, place: &BString) -> Result<Vec<u8>, Error> {
        self.content(id, Kind::Tree, Some(place))
    }

    fn file(&mut self, id: ObjectId, path: &BString) -> Result<(), Error> {
        if !self.seen.insert(id) {
            return Ok(());
        }
        if self.size(id, Kind::Blob)? <= LARGEST {
            return self.content(id, Kind::Blob, Some(path)).map(drop);
        }
        match self.loose(id)? {
            Some(file) => inflate(file, id).ok_or_else(|| overwritten(id, Kind::Blob, Some(path))),
            None => Ok(()),
        }
    }

    /// What everybody gets who reads an object, which is what its id says: of a copy in a pack and a loose one, that in
    /// the pack.
    fn content(&self, id: ObjectId, kind: Kind, place: Option<&BString>) -> Result<Vec<u8>, Error> {
        if self.size(id, kind)? > LARGEST {
            return Err(overwritten(id, kind, place));
        }
        let found = self.repo.find_object(id).map_err(|error| missing(id, kind, &error))?;
        if is_sound(id, kind, &found.data) { Ok(found.detach().data) } else { Err(overwritten(id, kind, place)) }
    }

    /// What an object says of its size, before it is held in memory.
    fn size(&self, id: ObjectId, kind: Kind) -> Result<u64, Error> {
        Ok(self.repo.find_header(id).map_err(|error| missing(id, kind, &error))?.size())
    }

    /// The file of an object, none if it is not loose.
    fn loose(&self, id: ObjectId) -> Result<Option<File>, Error> {
        let hex = id.to_hex().to_string();
        let path = format!("{}/{}", &hex[..2], &hex[2..]);
        self.objects.open(&path).at("open", &self.repo.objects.store_ref().path().join(&path))
    }
}

/// The entries of a tree, as they are there.
fn entries(id: ObjectId, tree: &[u8]) -> Result<Vec<EntryRef<'_>>, Error> {
    let entries = gix::objs::TreeRefIter::from_bytes(tree, id.kind());
    entries.collect::<Result<_, _>>().map_err(|error| Error::object("tree", &id, error))
}

/// Refuses content that was read for an object and is not what its id says. pleach goes by its records: nobody may put
/// words into them.
pub(super) fn check(id: ObjectId, kind: Kind, content: &[u8]) -> Result<(), Error> {
    if is_sound(id, kind, content) { Ok(()) } else { Err(overwritten(id, kind, None)) }
}

fn is_sound(id: ObjectId, kind: Kind, content: &[u8]) -> bool {
    gix::objs::compute_hash(id.kind(), kind, content).is_ok_and(|hash| hash == id)
}

fn missing(id: ObjectId, kind: Kind, error: &gix::Error) -> Error {
    let name = match kind {
        Kind::Commit => "commit",
        Kind::Tree => "tree",
        _ => "blob",
    };
    Error::object(name, &id, explain(error))
}

fn overwritten(id: ObjectId, kind: Kind, path: Option<&BString>) -> Error {
    let place = match (kind, path) {
        (Kind::Blob, Some(path)) => format!("the file `{}`", RepoPath::new(path.to_vec())),
        (Kind::Tree, Some(path)) if !path.is_empty() => format!("the directory `{}`", RepoPath::new(path.to_vec())),
        (Kind::Tree, _) => "the list of files".to_owned(),
        (Kind::Blob, None) => "a file".to_owned(),
        _ => "a commit".to_owned(),
    };
    Error::Overwritten { id: from_gix(&id), place }
}

/// Reads a loose file of any size to its end. None if it is not the one of this id.
fn inflate(file: File, id: ObjectId) -> Option<()> {
    let (mut input, mut state, mut piece) = (BufReader::new(file), Decompress::new(), vec![0; PIECE]);
    let mut hasher = gix::hash::hasher(id.kind());
    let mut left: Option<u64> = None;
    loop {
        let (given, out) = (state.total_in(), state.total_out());
        let ended = {
            let bytes = input.fill_buf().ok()?;
            let flush = if bytes.is_empty() { FlushDecompress::Finish } else { FlushDecompress::None };
            state.decompress(bytes, &mut piece, flush).ok()? == Status::StreamEnd
        };
        let taken = usize::try_from(state.total_in() - given).ok()?;
        input.consume(taken);
        let written = &piece[..usize::try_from(state.total_out() - out).ok()?];
        if taken == 0 && written.is_empty() && !ended {
            return None;
        }
        hasher.update(written);
        let mut content = written;
        if left.is_none() && !written.is_empty() {
            let (found, size, header) = gix::objs::decode::loose_header(written).ok()?;
            if found != Kind::Blob {
                return None;
            }
            (left, content) = (Some(size), &written[header..]);
        }
        // One that says less than it has would go on for as long as somebody wants.
        if let Some(left) = &mut left {
            *left = left.checked_sub(content.len() as u64)?;
        }
        if ended {
            let hash = hasher.try_finalize().ok()?;
            return (left == Some(0) && hash == id).then_some(());
        }
    }
}
