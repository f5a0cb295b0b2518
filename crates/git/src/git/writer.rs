//! Writing objects. They stay in memory until [`Writer::flush`], so that an abandoned transition leaves nothing behind,
//! and everything written is known and can be made durable.

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use gix::bstr::{BStr, ByteSlice as _};
use gix::objs::{Kind as ObjectKind, Write as _};
use jiff::Timestamp;

use super::durability::Durability;
use super::error::{Error, LibraryContext as _, explain};
use super::id::{BlobId, TreeId, from_gix, to_gix};
use super::loose;
use super::object::{EntryKind, Person};
use super::objects::{self, find_tree};
use super::repo_pool::PooledRepo;
use super::shared::RepoShared;
use pleach_core::ids::{CommitId, RepoPath};

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
    handle: PooledRepo,
    shared: Arc<RepoShared>,
    durability: Durability,
    /// Those too large for memory, in temporary files.
    large: Vec<loose::LargeBlob>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("objects", &self.handle.objects.num_objects_in_memory()).finish()
    }
}

impl Writer {
    pub(super) fn new(shared: &Arc<RepoShared>, durability: Durability) -> Self {
        let mut handle = shared.pool.take();
        handle.objects.enable_object_memory();
        Self { handle, shared: Arc::clone(shared), durability, large: Vec::new() }
    }

    /// A file's content.
    pub fn blob(&mut self, bytes: &[u8]) -> Result<BlobId, Error> {
        let id = self.handle.objects.write_buf(ObjectKind::Blob, bytes).doing("hash a blob")?;
        Ok(BlobId::from_gix(&id))
    }

    /// A file's content that is too large for memory. Returns whether it is still of this size and id.
    pub(super) fn large_blob(&mut self, id: &gix::oid, size: u64, from: &mut dyn Read) -> Result<bool, Error> {
        let written = loose::LargeBlob::write(self.root(), id, size, from)?;
        let is_same = written.is_some();
        self.large.extend(written);
        Ok(is_same)
    }

    fn root(&self) -> &Path {
        self.shared.pool.handle.objects.path()
    }

    /// A tree that differs from `base` (none: the empty tree) in some paths. Only directories on these paths are read
    /// and written. Removals happen first, so a file may take the place of a directory and the other way round.
    pub fn tree(&mut self, base: Option<TreeId>, edits: &[TreeEdit]) -> Result<TreeId, Error> {
        let doing = "build a tree";
        let base = match base {
            Some(base) => find_tree(&self.handle, base)?,
            None => self.handle.empty_tree(),
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
        let id = editor.write(|tree| self.handle.objects.write(tree)).doing(doing)?;
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
        let id = self.handle.objects.write(&commit).doing("build a commit")?;
        Ok(from_gix(&id))
    }

    /// A commit that was made before, byte for byte.
    pub fn commit_object(&mut self, bytes: &[u8]) -> Result<CommitId, Error> {
        let id = self.handle.objects.write_buf(ObjectKind::Commit, bytes).doing("build a commit")?;
        Ok(from_gix(&id))
    }

    /// A commit again, on other parents and with another tree. Everything else stays byte for byte: message, author,
    /// committer and both dates. A signature is left out, because it would no longer be true.
    pub fn commit_again(&mut self, original: CommitId, tree: TreeId, parents: &[CommitId]) -> Result<CommitId, Error> {
        let id = to_gix(original);
        let found = self.handle.find_commit(id).map_err(|error| Error::object("commit", &id, explain(&error)))?;
        objects::check(id, ObjectKind::Commit, &found.data)?;
        let bytes = transplant(&found.data, tree, parents);
        let copy = self.handle.objects.write_buf(ObjectKind::Commit, &bytes).doing("build a commit")?;
        Ok(from_gix(&copy))
    }

    /// The content of a blob that may not be flushed yet.
    pub fn read_blob(&self, id: BlobId) -> Result<Vec<u8>, Error> {
        let id = id.to_gix();
        let mut blob = self.handle.find_blob(id).map_err(|error| Error::object("blob", &id, explain(&error)))?;
        Ok(blob.take_data())
    }

    /// Writes everything collected so far; durable once it returns. An object that is there already is compared and,
    /// when a crash has left it empty or cut off, written again.
    pub fn flush(&mut self) -> Result<(), Error> {
        let root = self.root().to_owned();
        while let Some(large) = self.large.last_mut() {
            large.name(&root, self.durability)?;
            self.large.pop();
        }
        let Some(storage) = self.handle.objects.reset_object_memory() else { return Ok(()) };
        let written = self.write_all(&storage);
        if written.is_err() {
            // The caller may fix the cause and flush again.
            self.handle.objects.set_object_memory(storage);
        }
        written
    }

    fn write_all(&self, storage: &gix::odb::memory::Storage) -> Result<(), Error> {
        let mut objects: Vec<loose::NewObject<'_>> =
            storage.iter().map(|(id, (kind, bytes))| (id, *kind, bytes.as_slice())).collect();
        objects.sort_unstable_by_key(|(id, ..)| *id);
        let new = loose::write(&self.shared.pool.handle.objects, &self.shared.packs, &objects, self.durability)?;
        self.shared.unpacked.add(objects.iter().filter(|(id, ..)| new.contains(*id)).copied());
        self.shared.pool.recent.keep(objects.into_iter());
        Ok(())
    }
}

/// The parts of a path, none of which may be one that git keeps for itself.
fn components(path: &RepoPath) -> Result<Vec<&BStr>, Error> {
    let parts: Vec<&BStr> = path.as_bytes().split(|byte| *byte == b'/').map(BStr::new).collect();
    let is_bad = |part: &&BStr| part.is_empty() || *part == "." || *part == ".." || part.eq_ignore_ascii_case(b".git");
    if parts.iter().any(is_bad) { Err(Error::Path { path: path.clone() }) } else { Ok(parts) }
}

/// The bytes of a commit with other parents and another tree. Worked on as bytes, because what is read and written
/// again by parts may come out differently: odd time zones, unknown headers.
fn transplant(commit: &[u8], tree: TreeId, parents: &[CommitId]) -> Vec<u8> {
    const REPLACED: [&[u8]; 2] = [b"tree", b"parent"];
    // What speaks of the old parents or of the whole old commit.
    const LEFT_OUT: [&[u8]; 3] = [b"gpgsig", b"gpgsig-sha256", b"mergetag"];
    let mut copy = format!("tree {tree}\n").into_bytes();
    parents.iter().for_each(|parent| copy.extend(format!("parent {parent}\n").bytes()));
    let header_end = commit.find(b"\n\n").map_or(commit.len(), |end| end + 1);
    let mut is_kept = true;
    for line in commit[..header_end].split_inclusive(|byte| *byte == b'\n') {
        // A line that begins with a space goes on with the header before it.
        if !line.starts_with(b" ") {
            let key = line.split(|byte| *byte == b' ').next().unwrap_or(line);
            is_kept = !REPLACED.contains(&key) && !LEFT_OUT.contains(&key);
        }
        if is_kept {
            copy.extend_from_slice(line);
        }
    }
    copy.extend_from_slice(&commit[header_end..]);
    copy
}

/// A header line ends at a line break and an address at an angle bracket, so these cannot be part of a name.
fn header_text(text: &str) -> String {
    text.chars().map(|c| if matches!(c, '<' | '>' | '\n' | '\0') { ' ' } else { c }).collect::<String>().trim().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_made_again_differs_in_tree_and_parents_alone() {
        let (tree, parent) = ([1; 20], [2; 20]);
        let (tree_id, parent_id) = (TreeId::from_bytes(tree), CommitId::from_bytes(parent));
        let original = b"tree 0\nparent 0\nparent 1\nauthor A <a@b> 1700000000 +0545\ncommitter C <c@d> 1700000009 -051800\n\
            gpgsig -----BEGIN\n \n x\n -----END\nencoding latin1\nodd header\n more\n\ntree 9\n\nparent \xe4\n gpgsig\n";
        let expected = [
            format!("tree {tree_id}\nparent {parent_id}\n").as_bytes(),
            b"author A <a@b> 1700000000 +0545\ncommitter C <c@d> 1700000009 -051800\nencoding latin1\nodd header\n more\n",
            b"\ntree 9\n\nparent \xe4\n gpgsig\n",
        ]
        .concat();
        assert_eq!(transplant(original, tree_id, &[parent_id]), expected);
        let bare = transplant(b"tree 0\nauthor A <a@b> 1 +0000\n\n", tree_id, &[]);
        assert_eq!(bare, format!("tree {tree_id}\nauthor A <a@b> 1 +0000\n\n").as_bytes());
    }
}
