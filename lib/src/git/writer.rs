//! Objects on their way into the repository. They are kept in memory until [`Writer::flush`], so that a transition
//! that is given up leaves nothing behind, and so that what is written is known and can be made durable.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use gix::bstr::BStr;
use gix::objs::{Kind as ObjectKind, Write as _};
use jiff::Timestamp;

use super::crash::{self, Kind, When};
use super::error::{Error, IoContext as _, LibraryContext as _, explain};
use super::id::{BlobId, TreeId, from_gix, to_gix};
use super::object::{EntryKind, Person};
use super::open::Durability;
use super::repo::{Repo, find_tree};
use crate::ids::{CommitId, RepoPath};

/// A commit to be made. The same values give the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitSpec {
    /// The files.
    pub tree: TreeId,
    /// The commits it is made on, in order.
    pub parents: Vec<CommitId>,
    /// Who wrote the change.
    pub author: Person,
    /// Who makes the commit.
    pub committer: Person,
    /// The whole message.
    pub message: Vec<u8>,
    /// When; both dates are this, to the second, in UTC.
    pub at: Timestamp,
}

/// One path of a tree that becomes something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeEdit {
    /// The path holds this from now on, whatever was there.
    Put(RepoPath, EntryKind, BlobId),
    /// The path is gone, with all below it.
    Remove(RepoPath),
}

/// Collects the objects of one transition; nothing is on disk before [`Writer::flush`].
pub struct Writer {
    memory: gix::Repository,
    store: gix::Repository,
    durability: Durability,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("objects", &self.memory.objects.num_objects_in_memory()).finish()
    }
}

impl Repo {
    /// A writer for the objects of one or more transitions. It may be kept and used again after each flush.
    pub fn writer(&self) -> Writer {
        let mut store = self.local();
        store.object_cache_size_if_unset(4 * 1024 * 1024);
        Writer { memory: store.clone().with_object_memory(), store, durability: self.durability }
    }
}

impl Writer {
    /// A file's content.
    pub fn blob(&mut self, bytes: &[u8]) -> Result<BlobId, Error> {
        let id = self.memory.objects.write_buf(ObjectKind::Blob, bytes).doing("hash a blob")?;
        Ok(BlobId::from_gix(&id))
    }

    /// A tree that differs from `base` (none: the empty tree) in some paths. Only directories on these paths are read
    /// and written. Removals happen first, so a file may take the place of a directory and the other way round.
    pub fn tree(&mut self, base: Option<TreeId>, edits: &[TreeEdit]) -> Result<TreeId, Error> {
        let doing = "build a tree";
        let base = match base {
            Some(base) => find_tree(&self.memory, base)?,
            None => self.memory.empty_tree(),
        };
        // The plain editor, because the one with all checks leaves out trees that exist: also those cut off by a crash.
        let mut editor = base.edit().doing(doing)?.detach();
        for edit in edits {
            if let TreeEdit::Remove(path) = edit {
                editor.remove(components(path)?).doing(doing)?;
            }
        }
        for edit in edits {
            if let TreeEdit::Put(path, kind, id) = edit {
                editor.upsert(components(path)?, kind.to_gix(), id.to_gix()).doing(doing)?;
            }
        }
        let id = editor.write(|tree| self.memory.objects.write(tree)).doing(doing)?;
        Ok(TreeId::from_gix(&id))
    }

    /// A commit. No hook runs, nothing is signed, no identity of the user is needed.
    pub fn commit(&mut self, spec: &CommitSpec) -> Result<CommitId, Error> {
        let time = gix::date::Time::new(spec.at.as_second(), 0);
        let signature = |person: &Person| gix::actor::Signature {
            name: header_text(&person.name).into(),
            email: header_text(&person.email).into(),
            time,
        };
        let commit = gix::objs::Commit {
            tree: spec.tree.to_gix(),
            parents: spec.parents.iter().map(|parent| to_gix(*parent)).collect(),
            author: signature(&spec.author),
            committer: signature(&spec.committer),
            encoding: None,
            message: spec.message.clone().into(),
            extra_headers: Vec::new(),
        };
        let id = self.memory.objects.write(&commit).doing("build a commit")?;
        Ok(from_gix(&id))
    }

    /// The content of a blob that may not be flushed yet.
    pub fn read_blob(&self, id: BlobId) -> Result<Vec<u8>, Error> {
        let id = id.to_gix();
        let mut blob = self.memory.find_blob(id).map_err(|error| Error::object("blob", &id, explain(&error)))?;
        Ok(blob.take_data())
    }

    /// How many objects wait to be written.
    pub fn pending(&self) -> usize {
        self.memory.objects.num_objects_in_memory()
    }

    /// Writes everything collected so far; durable once it returns. An object that is there already is compared and,
    /// when a crash has left it empty or cut off, written again.
    pub fn flush(&mut self) -> Result<(), Error> {
        let Some(storage) = self.memory.objects.reset_object_memory() else { return Ok(()) };
        let written = self.write_all(&storage);
        if written.is_err() {
            // Whoever mends the cause may flush again.
            self.memory.objects.set_object_memory(storage);
        }
        written
    }

    fn write_all(&self, storage: &gix::odb::memory::Storage) -> Result<(), Error> {
        let mut objects: Vec<_> = storage.iter().collect();
        objects.sort_by_key(|(id, _)| **id);
        let root = self.store.objects.store_ref().path().to_owned();
        let mut directories = BTreeSet::new();
        for (id, (kind, bytes)) in objects {
            let path = loose_path(&root, id);
            match self.existing(&path, id, *kind, bytes)? {
                Existing::Packed => continue,
                Existing::Loose => self.sync(&path)?,
                Existing::None => {
                    crash::point(Kind::ObjectWrite, When::Before);
                    if self.write_loose(&root, &path, *kind, bytes)? {
                        directories.insert(root.clone());
                    }
                    crash::point(Kind::ObjectWrite, When::After);
                }
            }
            directories.extend(path.parent().map(Path::to_owned));
        }
        for directory in &directories {
            self.sync(directory)?;
        }
        Ok(())
    }

    fn sync(&self, path: &Path) -> Result<(), Error> {
        match self.durability {
            Durability::Fsync => File::open(path).and_then(|file| file.sync_all()).at("sync", path),
            Durability::None => Ok(()),
        }
    }

    /// Whether the repository has the object already, whole. A loose file is looked at itself: the library takes
    /// any file of the right name for the object.
    fn existing(&self, path: &Path, id: &gix::ObjectId, kind: ObjectKind, bytes: &[u8]) -> Result<Existing, Error> {
        match std::fs::read(path) {
            Ok(file) if is_whole(&file, kind, bytes) => Ok(Existing::Loose),
            Ok(_) => Ok(Existing::None),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).at("read", path),
            Err(_) if self.store.objects.exists_without_refresh(id) => Ok(Existing::Packed),
            Err(_) => Ok(Existing::None),
        }
    }

    /// Writes one object beside its place and moves it there. True if its directory is new.
    fn write_loose(&self, root: &Path, path: &Path, kind: ObjectKind, bytes: &[u8]) -> Result<bool, Error> {
        let directory = path.parent().unwrap_or(root);
        let is_new = match std::fs::create_dir(directory) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error).at("create", directory),
        };
        let temporary = directory.join(format!("tmp_obj_{:016x}", fastrand::u64(..)));
        let written = self.write_file(&temporary, kind, bytes);
        written.and_then(|()| std::fs::rename(&temporary, path)).at("write", path).inspect_err(|_| {
            // What is left of it is of no use to anyone.
            let _ = std::fs::remove_file(&temporary);
        })?;
        Ok(is_new)
    }

    fn write_file(&self, path: &Path, kind: ObjectKind, bytes: &[u8]) -> std::io::Result<()> {
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o444).open(path)?;
        let header = gix::objs::encode::loose_header(kind, bytes.len() as u64);
        let level = gix::zlib::Compression::BEST_SPEED;
        let mut deflate = gix::zlib::stream::deflate::Write::new(Vec::with_capacity(bytes.len() / 2 + 64), level);
        deflate.write_all(&header)?;
        deflate.write_all(bytes)?;
        deflate.flush()?;
        let mut file = file;
        file.write_all(&deflate.into_inner())?;
        if self.durability == Durability::Fsync {
            file.sync_all()?;
        }
        Ok(())
    }
}

enum Existing {
    None,
    Loose,
    Packed,
}

/// Whether a loose file holds exactly this object, to the last byte of its checksum.
fn is_whole(file: &[u8], kind: ObjectKind, bytes: &[u8]) -> bool {
    let expected = [&gix::objs::encode::loose_header(kind, bytes.len() as u64), bytes].concat();
    let mut found = vec![0; expected.len() + 1];
    match gix::zlib::Inflate::default().once(file, &mut found) {
        Ok((gix::zlib::Status::StreamEnd, _, length)) => found[..length] == expected,
        _ => false,
    }
}

fn loose_path(root: &Path, id: &gix::ObjectId) -> PathBuf {
    let hex = id.to_hex().to_string();
    root.join(&hex[..2]).join(&hex[2..])
}

/// The parts of a path, none of which may be one that git keeps for itself.
fn components(path: &RepoPath) -> Result<Vec<&BStr>, Error> {
    let parts: Vec<&BStr> = path.as_bytes().split(|byte| *byte == b'/').map(BStr::new).collect();
    let is_bad = |part: &&BStr| part.is_empty() || *part == "." || *part == ".." || part.eq_ignore_ascii_case(b".git");
    match parts.iter().any(is_bad) {
        true => Err(Error::Path { path: path.clone() }),
        false => Ok(parts),
    }
}

/// A header line ends at a line break and an address at an angle bracket, so these cannot be part of a name.
fn header_text(text: &str) -> String {
    text.chars().map(|c| if matches!(c, '<' | '>' | '\n' | '\0') { ' ' } else { c }).collect::<String>().trim().into()
}
