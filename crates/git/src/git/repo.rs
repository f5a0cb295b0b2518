//! An open repository: where it is, and reading its objects.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use gix::bstr::ByteSlice as _;
use gix::objs::Kind;

use super::durability::Durability;
use super::error::{Error, explain};
use super::head::{Head, head_of};
use super::history::CommitHistory;
use super::id::{BlobId, TreeId, from_gix, to_gix};
use super::object::{Commit, EntryKind, TreeEntry};
use super::objects::{self, find_tree};
use super::own_landings::SeenLandings;
use super::program::parse_version;
use super::progress::{FileProgress, ProgressListener};
use super::refs::Refs;
use super::remote::RemoteUrl;
use super::repo_pool::PooledRepo;
use super::shared::{ConfigTimes, RepoShared};
use super::writer::Writer;
use pleach_core::ids::{CommitId, RepoPath};

/// A repository, opened once and held. Cheap to clone, usable from any thread.
#[derive(Clone)]
pub struct Repo {
    pub(super) shared: Arc<RepoShared>,
    pub(super) durability: Durability,
}

impl fmt::Debug for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repo").field("git_dir", &self.git_dir()).field("durability", &self.durability).finish()
    }
}

impl Repo {
    /// The same repository with another durability.
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Holds up landings of this process, to look at what they move.
    pub(crate) fn own_landings(&self) -> SeenLandings<'_> {
        self.shared.own_landings.look()
    }

    /// What `git --version` printed.
    pub fn git_version(&self) -> &str {
        &self.shared.version
    }

    /// How indexes of worktrees are written. Their checksum takes as long as everything else, and newer gits do without.
    pub(super) fn index_options(&self) -> gix::index::write::Options {
        let skip_hash = parse_version(&self.shared.version).is_some_and(|version| version >= UNHASHED_INDEX);
        gix::index::write::Options { skip_hash, ..Default::default() }
    }

    /// The git directory of the checkout that was opened; in a linked worktree its own.
    pub fn git_dir(&self) -> &Path {
        self.shared.pool.handle.git_dir()
    }

    /// The git directory all worktrees share.
    pub fn common_dir(&self) -> &Path {
        &self.shared.common_dir
    }

    /// Whether the git directory was deleted since it was opened.
    pub fn is_gone(&self) -> bool {
        let common = self.common_dir();
        !common.join("HEAD").exists() || !common.join("objects").is_dir()
    }

    /// Checks that git accepts the common directory, whoever owns it. Cached: every task asks.
    pub fn check_trusted(&self) -> Result<(), Error> {
        if self.shared.is_trusted.get().is_some() {
            return Ok(());
        }
        let dir = self.common_dir();
        let found = self.shared.program.run(dir, ["rev-parse", "--git-dir"])?;
        match found.code {
            Some(0) => {
                let _ = self.shared.is_trusted.set(());
                Ok(())
            }
            _ => Err(Error::Refused { path: dir.to_owned(), detail: found.stderr }),
        }
    }

    /// The directory of the files, none in a bare repository.
    pub fn workdir(&self) -> Option<&Path> {
        self.shared.pool.handle.work_dir()
    }

    /// Whether there are no files beside the git directory.
    pub fn is_bare(&self) -> bool {
        self.workdir().is_none()
    }

    /// A handle for this thread, as long as it is held.
    pub(super) fn local(&self) -> PooledRepo {
        self.shared.pool.take()
    }

    /// The name of the user, as git's configuration has it.
    pub fn user_name(&self) -> Option<String> {
        let name = self.local().config_snapshot().string("user.name")?.to_string();
        Some(name.trim().to_owned()).filter(|name| !name.is_empty())
    }

    /// HEAD of the checkout that was opened.
    pub fn head(&self) -> Result<Head, Error> {
        head_of(&self.local())
    }

    /// The commit a revision names: a branch, a tag, an id or its beginning, `HEAD~2`, …
    pub fn resolve(&self, spec: &str) -> Result<CommitId, Error> {
        let missing = |_| Error::NoSuchRevision { spec: spec.to_owned() };
        let repo = self.local();
        let id = repo.rev_parse_single(format!("{spec}^{{commit}}").as_str()).map_err(missing)?;
        Ok(from_gix(&id))
    }

    /// A commit with its message.
    pub fn commit(&self, id: CommitId) -> Result<Commit, Error> {
        let id = to_gix(id);
        let repo = self.local();
        let commit = repo.find_commit(id).map_err(|error| Error::object("commit", &id, explain(&error)))?;
        objects::check(id, Kind::Commit, &commit.data)?;
        commit
            .decode()
            .and_then(|commit| Commit::read(&id, &commit))
            .map_err(|error| Error::object("commit", &id, explain(&error)))
    }

    /// A commit, byte for byte.
    pub fn commit_object(&self, id: CommitId) -> Result<Vec<u8>, Error> {
        let id = to_gix(id);
        let repo = self.local();
        let mut commit = repo.find_commit(id).map_err(|error| Error::object("commit", &id, explain(&error)))?;
        objects::check(id, Kind::Commit, &commit.data)?;
        Ok(commit.take_data())
    }

    /// The tree of a commit.
    pub fn tree_of(&self, commit: CommitId) -> Result<TreeId, Error> {
        let id = to_gix(commit);
        let repo = self.local();
        let commit = repo.find_commit(id).map_err(|error| Error::object("commit", &id, explain(&error)))?;
        objects::check(id, Kind::Commit, &commit.data)?;
        let tree = commit.tree_id().map_err(|error| Error::object("commit", &id, explain(&error)))?;
        Ok(TreeId::from_gix(&tree))
    }

    /// The tree a commit was made on, that of its first parent. None where it was made on nothing, and where a shallow clone
    /// has left that behind.
    pub fn tree_before(&self, commit: &Commit) -> Result<Option<TreeId>, Error> {
        let Some(parent) = commit.parents.first() else { return Ok(None) };
        match self.tree_of(*parent) {
            Err(error) if error.is_damage() && self.history().is_shallow_at(commit.id)? => Ok(None),
            tree => tree.map(Some),
        }
    }

    /// The content of a blob.
    pub fn blob(&self, id: BlobId) -> Result<Vec<u8>, Error> {
        self.on_demand(|| self.blob_here(id))
    }

    /// The size of a blob, in bytes.
    pub fn blob_size(&self, id: BlobId) -> Result<u64, Error> {
        self.on_demand(|| {
            let id = id.to_gix();
            let found = self.local().find_header(id).map(|header| header.size());
            found.map_err(|error| Error::object("blob", &id, explain(&error)))
        })
    }

    /// The content of a blob for a first look: nobody has checked that it is what its id says, which takes a fifth of the
    /// time. What is found there counts once [`Repo::blob`] has it, too.
    pub fn blob_at_a_glance(&self, id: BlobId) -> Result<Vec<u8>, Error> {
        self.on_demand(|| {
            let id = id.to_gix();
            let found = self.local().find_blob(id).map(|mut blob| blob.take_data());
            found.map_err(|error| Error::object("blob", &id, explain(&error)))
        })
    }

    fn blob_here(&self, id: BlobId) -> Result<Vec<u8>, Error> {
        let id = id.to_gix();
        let repo = self.local();
        let mut blob = repo.find_blob(id).map_err(|error| Error::object("blob", &id, explain(&error)))?;
        objects::check(id, Kind::Blob, &blob.data)?;
        Ok(blob.take_data())
    }

    /// The content of the file or link at a path of a tree; none if there is no such file.
    pub fn tree_file(&self, tree: TreeId, path: &RepoPath) -> Result<Option<Vec<u8>>, Error> {
        match self.tree_entry(tree, path)? {
            Some(TreeEntry { kind: EntryKind::File | EntryKind::Executable | EntryKind::Link, id, .. }) => {
                self.blob(id).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The entry of a tree at a path. Paths within a submodule have none.
    pub fn tree_entry(&self, tree: TreeId, path: &RepoPath) -> Result<Option<TreeEntry>, Error> {
        self.on_demand(|| self.tree_entry_here(tree, path))
    }

    fn tree_entry_here(&self, tree: TreeId, path: &RepoPath) -> Result<Option<TreeEntry>, Error> {
        let repo = self.local();
        let mut dir = find_tree(&repo, tree)?;
        let mut parts = path.as_bytes().split_str("/").peekable();
        while let Some(part) = parts.next() {
            let Some((mode, id)) = dir.find_entry(part).map(|entry| (entry.mode(), entry.object_id())) else { break };
            if parts.peek().is_none() {
                let (kind, id) = (EntryKind::from_gix(mode), BlobId::from_gix(&id));
                return Ok(Some(TreeEntry { path: path.clone(), kind, id }));
            }
            if !mode.is_tree() {
                break;
            }
            dir = find_tree(&repo, TreeId::from_gix(&id))?;
        }
        Ok(None)
    }

    /// The entry that is in the way of a directory in a tree: at its path or a parent, and not a directory.
    pub fn no_directory(&self, tree: TreeId, dir: &RepoPath) -> Result<Option<TreeEntry>, Error> {
        let bytes = dir.as_bytes();
        let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in slashes.chain([bytes.len()]) {
            match self.tree_entry(tree, &RepoPath::new(&bytes[..end]))? {
                Some(TreeEntry { kind: EntryKind::Directory, .. }) => {}
                other => return Ok(other),
            }
        }
        Ok(None)
    }

    /// The entries directly in a tree, in git's order.
    pub fn tree_entries(&self, tree: TreeId) -> Result<Vec<TreeEntry>, Error> {
        self.on_demand(|| self.tree_entries_here(tree))
    }

    fn tree_entries_here(&self, tree: TreeId) -> Result<Vec<TreeEntry>, Error> {
        let repo = self.local();
        let root = find_tree(&repo, tree)?;
        root.iter()
            .map(|entry| {
                let entry = entry.map_err(|error| Error::object("tree", &tree.to_gix(), explain(&error)))?;
                Ok(TreeEntry {
                    path: RepoPath::new(entry.filename().to_vec()),
                    kind: EntryKind::from_gix(entry.mode()),
                    id: BlobId::from_gix(&entry.object_id()),
                })
            })
            .collect()
    }

    /// Reads every file of a tree once, to see that it can be read.
    pub fn read_files(&self, tree: TreeId) -> Result<(), Error> {
        for entry in self.tree_entries(tree)? {
            match entry.kind {
                EntryKind::Directory => self.read_files(TreeId::from_gix(&entry.id.to_gix()))?,
                EntryKind::Submodule => {}
                _ => drop(self.blob(entry.id)?),
            }
        }
        Ok(())
    }

    /// Lets a shallow clone fetch the history it lacks once it is needed. The first remote that is named counts.
    pub fn deepen_from(&self, remote: RemoteUrl) {
        self.shared.deepening.get_or_init(|| remote);
    }

    /// Lets somebody know how far work in this repository has come that takes longer than `patience`.
    pub fn on_progress(&self, patience: Duration, listener: impl Fn(FileProgress) + Send + Sync + 'static) {
        let listening = ProgressListener { patience, listener: Arc::new(listener) };
        *self.shared.listening.lock().unwrap_or_else(PoisonError::into_inner) = Some(listening);
    }

    /// Whether the repository is bare, as git sees it. What it said holds until somebody writes settings.
    pub(super) fn is_bare_by_git(&self) -> Result<bool, Error> {
        let common = self.common_dir();
        let changed = |name: &str| common.join(name).metadata().and_then(|data| data.modified()).ok();
        // Looked at before git is asked: what changes meanwhile is noticed the next time.
        let now: ConfigTimes = ["config", "config.worktree"].map(changed);
        let mut known = self.shared.is_bare.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, is_bare)) = known.as_ref().filter(|(settings, _)| *settings == now) {
            return Ok(*is_bare);
        }
        let said = self.shared.program.run(common, ["rev-parse", "--is-bare-repository"])?.success()?;
        let is_bare = said.trim_ascii() == b"true";
        *known = Some((now, is_bare));
        Ok(is_bare)
    }

    /// Whether objects may be missing that git can fetch.
    pub fn is_partial(&self) -> bool {
        self.shared.promisor.is_some()
    }

    /// Does something that reads objects; in a partial clone, one that is missing is fetched.
    pub(super) fn on_demand<T>(&self, read: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        match &self.shared.promisor {
            Some(promisor) => promisor.on_demand(read),
            None => read(),
        }
    }

    /// Fetches those of some objects that are missing, all at once.
    pub(super) fn fetch_missing(&self, ids: impl IntoIterator<Item = gix::ObjectId>) -> Result<(), Error> {
        self.shared.promisor.as_ref().map_or(Ok(()), |promisor| promisor.fetch_missing(ids))
    }

    /// Fetches the directories of a tree that are missing.
    pub(super) fn fetch_trees(&self, tree: TreeId) -> Result<(), Error> {
        self.shared.promisor.as_ref().map_or(Ok(()), |promisor| promisor.fetch_trees(tree))
    }

    /// The refs.
    pub fn refs(&self) -> Refs<'_> {
        Refs::new(&self.shared, self.durability)
    }

    /// The history of commits.
    pub fn history(&self) -> CommitHistory<'_> {
        CommitHistory::new(&self.shared)
    }

    /// Who wants to know how far long work has come.
    pub(super) fn listening(&self) -> Option<ProgressListener> {
        self.shared.listening.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A writer for the objects of one or more transitions. It may be kept and used again after each flush.
    pub fn writer(&self) -> Writer {
        Writer::new(&self.shared, self.durability)
    }
}

/// The first git whose check of a repository takes an index without a checksum for a whole one.
const UNHASHED_INDEX: (u32, u32) = (2, 40);
