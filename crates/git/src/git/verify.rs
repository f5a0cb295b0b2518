//! Verifying that objects match their ids. Whoever may write objects may overwrite existing ones, and neither git nor
//! its library notices when it reads one. So everything that is about to reach the user's files is read from disk once
//! more and hashed: what lands is what was tested and approved.
//!
//! Agents can only write loose objects, but git packs what it finds and reads the pack from then on. Of two copies the
//! one git reads is verified.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use gix::ObjectId;
use gix::bstr::BString;
use gix::objs::Kind;
use gix::objs::tree::EntryRef;
use gix::odb::find::Header;

use super::error::{Error, IoContext as _, explain};
use super::history;
use super::id::{TreeId, to_gix};
use super::inflate::Inflate;
use super::loose::loose_path;
use super::objects::{is_sound, overwritten};
use super::pack_index::Indices;
use super::repo::Repo;
use super::shared::RepoShared;
use os::confined_fs::ConfinedDir;
use pleach_core::ids::CommitId;

/// What is held in memory at most, in bytes. No commit or tree has more, and files are read piece by piece where they are
/// loose, as an agent has to leave them.
const LARGEST: u64 = 256 * 1024 * 1024;

/// Trees that are kept for the next comparison, in bytes: what one commit made of a directory the next begins with.
const KEPT: usize = 512 * 1024;

/// Looks at every object `to` has in its history and `from` has not, each once. Says whether one of the commits may
/// have no directory, or no link to another repository, where there was one.
pub(super) fn check_between(repo: &Repo, from: CommitId, to: CommitId) -> Result<bool, Error> {
    repo.on_demand(|| check_between_here(repo, from, to))
}

fn check_between_here(repo: &Repo, from: CommitId, to: CommitId) -> Result<bool, Error> {
    let (from, to) = (to_gix(from), to_gix(to));
    let shallow = history::shallow(&repo.local())?;
    let mut check = Check::new(repo)?;
    let sides = history::paint([(from, history::ONE), (to, history::TWO)], |id| {
        let commit = check.commit(id)?;
        let parents = if shallow.contains(&id) { Vec::new() } else { commit.parents.clone() };
        Ok((commit.seconds, parents))
    })?;
    let mut new = Vec::new();
    for (id, _) in sides.iter().filter(|(_, side)| **side == history::TWO) {
        new.push((check.commit(*id)?.seconds, *id));
    }
    // What is found is the same each time, and mostly what was made first.
    new.sort_unstable();
    for (_, id) in new {
        let commit = check.commit(id)?;
        // A shallow clone has not all of them.
        let is_there = |parent: &&ObjectId| !shallow.contains(&id) || check.library().has_object(**parent);
        let parent = commit.parents.first().filter(is_there).copied();
        let before = parent.map(|parent| check.commit(parent)).transpose()?.map(|parent| parent.tree);
        check.difference(before, commit.tree, CheckedSides::New)?;
    }
    // Whatever the commits between say, this is what is written to files.
    let (before, after) = (check.commit(from)?.tree, check.commit(to)?.tree);
    check.difference(Some(before), after, CheckedSides::New)?;
    Ok(check.drops)
}

/// Looks at all that a merge of trees reads.
pub(super) fn check_merge(repo: &Repo, base: TreeId, sides: [TreeId; 2]) -> Result<(), Error> {
    repo.on_demand(|| {
        let mut check = Check::new(repo)?;
        sides.into_iter().try_for_each(|side| check.difference(Some(base.to_gix()), side.to_gix(), CheckedSides::Both))
    })
}

/// Looks at all that a comparison of trees reads.
pub(super) fn check_difference(repo: &Repo, old: TreeId, new: TreeId) -> Result<(), Error> {
    repo.on_demand(|| Check::new(repo)?.difference(Some(old.to_gix()), new.to_gix(), CheckedSides::Both))
}

/// Which of these files this repository should have and cannot read. What is in a pack or in another repository counts as
/// readable, and what a partial clone lacks is fetched once it is needed.
pub(super) fn unreadable_blobs(repo: &Repo, ids: impl Iterator<Item = ObjectId>) -> Result<BTreeSet<ObjectId>, Error> {
    let check = Check::new(repo)?;
    let mut unreadable = BTreeSet::new();
    for id in ids.collect::<BTreeSet<_>>() {
        let read = check.find(id, Kind::Blob, None).and_then(|found| match found {
            ObjectLocation::Loose(file) => check.inflate(file, id, Kind::Blob, u64::MAX, None, |_| {}),
            ObjectLocation::Elsewhere(_) => Ok(()),
        });
        match read {
            Err(Error::Object { .. }) if repo.is_partial() => {}
            Err(Error::Object { .. } | Error::Overwritten { .. }) => drop(unreadable.insert(id)),
            read => read?,
        }
    }
    Ok(unreadable)
}

/// What is behind an object that cannot be read, if somebody has overwritten it.
pub fn diagnose_corruption(repo: &Repo, error: Error) -> Error {
    let Error::Object { kind, id, .. } = &error else { return error };
    let kind = match *kind {
        "commit" => Kind::Commit,
        "tree" => Kind::Tree,
        _ => Kind::Blob,
    };
    match Check::new(repo).and_then(|mut check| check.content(to_gix(*id), kind, None)) {
        Err(found @ Error::Overwritten { .. }) => found,
        _ => error,
    }
}

/// Which files of a difference are looked at.
#[derive(Clone, Copy, PartialEq)]
enum CheckedSides {
    New,
    Both,
}

struct Check {
    shared: Arc<RepoShared>,
    /// A handle without the memory others share, because what is on disk counts; made for the first object that is not
    /// loose.
    library: OnceCell<gix::Repository>,
    objects: ConfinedDir,
    packs: Arc<Indices>,
    commits: BTreeMap<ObjectId, Rc<CheckedCommit>>,
    /// Trees, as far as there is room, and how much they take.
    trees: BTreeMap<ObjectId, Rc<Vec<u8>>>,
    kept: usize,
    /// The files that were looked at.
    seen: BTreeSet<ObjectId>,
    /// The trees that were compared; a tree may be in many places.
    compared: BTreeSet<(Option<ObjectId>, ObjectId)>,
    /// Whether a tree had a directory or a link to another repository where the one after it has none.
    drops: bool,
}

/// What is known of a commit that was looked at.
struct CheckedCommit {
    seconds: i64,
    tree: ObjectId,
    parents: Vec<ObjectId>,
}

/// Where an object is.
enum ObjectLocation {
    /// Among the repository's own, by itself.
    Loose(File),
    /// In a pack, or in another repository: with what it says of its size, before it is held in memory.
    Elsewhere(u64),
}

impl Check {
    fn new(repo: &Repo) -> Result<Self, Error> {
        let store = &repo.shared.pool.handle.objects;
        let root = store.path();
        Ok(Self {
            objects: ConfinedDir::at(root).at("open", root)?,
            packs: repo.shared.packs.refresh(store)?,
            shared: Arc::clone(&repo.shared),
            library: OnceCell::new(),
            commits: BTreeMap::new(),
            trees: BTreeMap::new(),
            kept: 0,
            seen: BTreeSet::new(),
            compared: BTreeSet::new(),
            drops: false,
        })
    }

    fn library(&self) -> &gix::Repository {
        self.library.get_or_init(|| self.shared.pool.handle.to_thread_local())
    }

    /// What a commit says, read once.
    fn commit(&mut self, id: ObjectId) -> Result<Rc<CheckedCommit>, Error> {
        if let Some(commit) = self.commits.get(&id) {
            return Ok(Rc::clone(commit));
        }
        let bytes = self.content(id, Kind::Commit, None)?;
        let commit = gix::objs::CommitRef::from_bytes(&bytes, id.kind());
        let commit = commit.map_err(|error| Error::object("commit", &id, explain(&error)))?;
        let (seconds, tree, parents) = (history::time(&commit), commit.tree(), commit.parents().collect());
        let commit = Rc::new(CheckedCommit { seconds, tree, parents });
        self.commits.insert(id, Rc::clone(&commit));
        Ok(commit)
    }

    /// Looks at all that sets a tree apart from the one before it.
    fn difference(&mut self, before: Option<ObjectId>, after: ObjectId, sides: CheckedSides) -> Result<(), Error> {
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
                while let Some(gone) = old.next_if(|was| *was < entry) {
                    self.drops |= holds_more(&gone);
                }
                let was = old.next_if(|was| was.cmp(&entry).is_eq());
                self.drops |= was.is_some_and(|was| was.mode.is_commit() && !entry.mode.is_commit());
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
                    was.filter(|_| sides == CheckedSides::Both).map(|was| self.file(was, &path)).transpose()?;
                }
            }
            self.drops |= old.any(|gone| holds_more(&gone));
        }
        Ok(())
    }

    fn tree(&mut self, id: ObjectId, place: &BString) -> Result<Rc<Vec<u8>>, Error> {
        if let Some(tree) = self.trees.get(&id) {
            return Ok(Rc::clone(tree));
        }
        let tree = Rc::new(self.content(id, Kind::Tree, Some(place))?);
        if self.kept + tree.len() <= KEPT {
            self.kept += tree.len();
            self.trees.insert(id, Rc::clone(&tree));
        }
        Ok(tree)
    }

    fn file(&mut self, id: ObjectId, path: &BString) -> Result<(), Error> {
        if !self.seen.insert(id) {
            return Ok(());
        }
        let file = match self.find(id, Kind::Blob, Some(path))? {
            ObjectLocation::Loose(file) => file,
            ObjectLocation::Elsewhere(size) if size > LARGEST => return Ok(()),
            ObjectLocation::Elsewhere(_) => return self.read(id, Kind::Blob, Some(path)).map(drop),
        };
        self.inflate(file, id, Kind::Blob, u64::MAX, Some(path), |_| {})
    }

    /// What everybody gets who reads an object, which is what its id says.
    fn content(&mut self, id: ObjectId, kind: Kind, place: Option<&BString>) -> Result<Vec<u8>, Error> {
        match self.find(id, kind, place)? {
            ObjectLocation::Elsewhere(size) if size > LARGEST => Err(overwritten(id, kind, place)),
            ObjectLocation::Elsewhere(_) => self.read(id, kind, place),
            ObjectLocation::Loose(file) => {
                let mut content = Vec::new();
                self.inflate(file, id, kind, LARGEST, place, |piece| content.extend_from_slice(piece))?;
                Ok(content)
            }
        }
    }

    /// Finds an object: of a copy in a pack and a loose one, that in the pack.
    fn find(&self, id: ObjectId, kind: Kind, place: Option<&BString>) -> Result<ObjectLocation, Error> {
        if self.packs.have(&id)
            && let Some(size) = self.packed_size(id)
        {
            return Ok(ObjectLocation::Elsewhere(size));
        }
        if let Some(file) = self.loose(id)? {
            return Ok(ObjectLocation::Loose(file));
        }
        let header = self.library().find_header(id).map_err(|error| missing(id, kind, place, &error))?;
        Ok(ObjectLocation::Elsewhere(header.size()))
    }

    /// What a pack says of the size of an object, none if the library finds no pack that it can read it from.
    fn packed_size(&self, id: ObjectId) -> Option<u64> {
        let repo = self.library();
        let size = || match repo.find_header(id) {
            Ok(header @ Header::Packed(_)) => Some(header.size()),
            _ => None,
        };
        size().or_else(|| {
            // What is not found has the library look for packs that are new.
            repo.has_object(ObjectId::null(repo.object_hash()));
            size()
        })
    }

    /// An object as git's library reads it.
    fn read(&self, id: ObjectId, kind: Kind, place: Option<&BString>) -> Result<Vec<u8>, Error> {
        let found = self.library().find_object(id).map_err(|error| missing(id, kind, place, &error))?;
        if is_sound(id, kind, &found.data) { Ok(found.detach().data) } else { Err(overwritten(id, kind, place)) }
    }

    /// Reads a loose object, whole as git wants it.
    fn inflate(
        &self,
        file: File,
        id: ObjectId,
        kind: Kind,
        largest: u64,
        place: Option<&BString>,
        take: impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        thread_local! {
            // What it takes to begin is more than most objects.
            static INFLATE: RefCell<Inflate> = RefCell::new(Inflate::new());
        }
        let is_sound = INFLATE.with_borrow_mut(|inflate| inflate.read(file, id, kind, largest, take));
        if is_sound.at("read", &loose_path(self.root(), &id))? { Ok(()) } else { Err(overwritten(id, kind, place)) }
    }

    /// The file of an object, none if it is not loose.
    fn loose(&self, id: ObjectId) -> Result<Option<File>, Error> {
        let path = loose_path(Path::new(""), &id);
        self.objects.open(&path).at("open", &self.root().join(&path))
    }

    fn root(&self) -> &Path {
        self.shared.pool.handle.objects.path()
    }
}

/// The entries of a tree, as they are there.
fn entries(id: ObjectId, tree: &[u8]) -> Result<Vec<EntryRef<'_>>, Error> {
    let entries = gix::objs::TreeRefIter::from_bytes(tree, id.kind());
    entries.collect::<Result<_, _>>().map_err(|error| Error::object("tree", &id, error))
}

/// Whether there may be files at an entry of a tree that it does not name itself.
fn holds_more(entry: &EntryRef<'_>) -> bool {
    entry.mode.is_tree() || entry.mode.is_commit()
}

/// An object that is nowhere, or that git's library cannot read where it is.
fn missing(id: ObjectId, kind: Kind, place: Option<&BString>, error: &gix::Error) -> Error {
    let name = match kind {
        Kind::Commit => "commit",
        Kind::Tree => "tree",
        _ => "blob",
    };
    if error.is_corrupted() { overwritten(id, kind, place) } else { Error::object(name, &id, explain(error)) }
}
