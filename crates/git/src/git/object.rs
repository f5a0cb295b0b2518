//! Commits, persons and tree entries as plain values.

use jiff::Timestamp;

use super::id::{BlobId, TreeId, from_gix};
use pleach_core::ids::{CommitId, RepoPath};

/// Who wrote something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// The name, which may hold anything but `<`, `>` and line breaks.
    pub name: String,
    /// The address.
    pub email: String,
}

impl Person {
    /// A person by name and address.
    pub fn new(name: impl Into<String>, email: impl Into<String>) -> Self {
        Self { name: name.into(), email: email.into() }
    }

    /// The author of pleach's own commits.
    pub fn pleach() -> Self {
        Self::new("pleach", "pleach@local")
    }
}

/// A commit that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its id.
    pub id: CommitId,
    /// The files it holds.
    pub tree: TreeId,
    /// The commits it was made on.
    pub parents: Vec<CommitId>,
    /// Who wrote the change.
    pub author: Person,
    /// Who made the commit.
    pub committer: Person,
    /// When the change was written (the author date).
    pub at: Timestamp,
    /// The whole message, byte for byte.
    pub message: Vec<u8>,
}

impl Commit {
    pub(super) fn read(id: &gix::oid, commit: &gix::objs::CommitRef<'_>) -> Result<Self, gix::Error> {
        let author = commit.author()?.trim();
        let committer = commit.committer()?.trim();
        Ok(Self {
            id: from_gix(id),
            tree: TreeId::from_gix(&commit.tree()),
            parents: commit.parents().map(|parent| from_gix(&parent)).collect(),
            at: Timestamp::from_second(author.seconds()).unwrap_or(Timestamp::UNIX_EPOCH),
            author: Person::new(author.name.to_string(), author.email.to_string()),
            committer: Person::new(committer.name.to_string(), committer.email.to_string()),
            message: commit.message.to_vec(),
        })
    }

    /// The message as text; bytes that are not UTF-8 become `\u{fffd}`.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.message).into_owned()
    }
}

/// What a tree has at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A plain file.
    File,
    /// A file that can be run.
    Executable,
    /// A symbolic link; its blob is where it points.
    Link,
    /// A directory.
    Directory,
    /// A commit of another repository.
    Submodule,
}

impl EntryKind {
    pub(super) fn from_gix(mode: gix::objs::tree::EntryMode) -> Self {
        use gix::objs::tree::EntryKind as Kind;
        match mode.kind() {
            Kind::Blob => Self::File,
            Kind::BlobExecutable => Self::Executable,
            Kind::Link => Self::Link,
            Kind::Tree => Self::Directory,
            Kind::Commit => Self::Submodule,
        }
    }

    pub(super) fn to_gix(self) -> gix::objs::tree::EntryKind {
        use gix::objs::tree::EntryKind as Kind;
        match self {
            Self::File => Kind::Blob,
            Self::Executable => Kind::BlobExecutable,
            Self::Link => Kind::Link,
            Self::Directory => Kind::Tree,
            Self::Submodule => Kind::Commit,
        }
    }
}

/// One entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Its path from the root of the tree that was asked.
    pub path: RepoPath,
    /// What it is.
    pub kind: EntryKind,
    /// The blob, for a file or link; for others the id of what they name.
    pub id: BlobId,
}
