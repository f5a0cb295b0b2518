//! HEAD and index of a worktree: where the agent put them, and bringing them to where they belong.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use gix::refs::Target;
use gix::refs::transaction::{Change, LogChange, PreviousValue, RefEdit, RefLog};

use super::Worktree;
use super::admin::{linked_git_dir, tie};
use super::cache::Cache;
use super::registration::Origin;
use super::repair::put_aside;
use super::sanitize::Access;
use crate::confined_fs::ConfinedDir;
use crate::git::connectivity;
use crate::git::crash::{self, Kind, When};
use crate::git::error::{Error, IoContext as _, LibraryContext as _, held_lock};
use crate::git::head::{Head, head_of};
use crate::git::id::{TreeId, to_gix};
use crate::git::ref_update::lock_path;
use crate::git::refs::{full_name, packed_lock, release_when_stale};
use crate::git::repo::Repo;
use crate::ids::CommitId;

/// What git leaves in a worktree's git directory while a merge, rebase, cherry-pick, revert or bisect is under way.
const STATE: [&str; 18] = [
    "AUTO_MERGE",
    "BISECT_ANCESTORS_OK",
    "BISECT_EXPECTED_REV",
    "BISECT_LOG",
    "BISECT_NAMES",
    "BISECT_RUN",
    "BISECT_START",
    "BISECT_TERMS",
    "CHERRY_PICK_HEAD",
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "MERGE_RR",
    "REBASE_HEAD",
    "REVERT_HEAD",
    "SQUASH_MSG",
    "ORIG_HEAD.lock",
    "MERGE_AUTOSTASH",
];

/// The same, as directories.
const STATE_DIRECTORIES: [&str; 5] = ["rebase-apply", "rebase-merge", "sequencer", "refs/bisect", "refs/rewritten"];

/// Where a HEAD is that an agent can write to; none if at no commit yet. An error means that it names no commit all of
/// which is there and can be read, and nothing that could come to be one; the user's own is taken to be whole.
pub(super) fn standing(repo: &Repo, handle: &gix::Repository, is_agents: bool) -> Result<Option<Head>, Error> {
    let head = match head_of(handle) {
        Err(Error::NoSuchRevision { .. }) => return Ok(None),
        head => head?,
    };
    let id = to_gix(head.commit);
    if is_agents && !connectivity::is_of_a_size(repo, head.commit) {
        return Err(Error::object("commit", &id, "it is too large"));
    }
    handle.find_commit(id).doing("read the commit of HEAD")?;
    if !is_agents || connectivity::is_whole(repo, head.commit)? {
        Ok(Some(head))
    } else {
        Err(Error::object("commit", &id, "what it names is not there, or too much"))
    }
}

/// How a HEAD is named that had to be put back.
pub(super) fn nonsense(head: &Path) -> String {
    format!("{} (it named no commit that is all there and not too large)", head.display())
}

impl Worktree {
    /// Where the agent's HEAD is, none if it names no commit (an orphan branch) or is gone. A branch means that the agent
    /// checked one out.
    pub fn agent_head(&self) -> Result<Option<Head>, Error> {
        self.clear_odd()?;
        if let Some(head) = &*self.stands.borrow() {
            return Ok(Some(head.clone()));
        }
        if !self.git_dir.join("HEAD").exists() {
            return Ok(None);
        }
        match standing(&self.repo, &self.handle, self.is_agents) {
            // Somebody is at it right now. The next look removes it, and names it.
            Err(_) if self.is_agents => Ok(None),
            head => head,
        }
    }

    /// Removes a HEAD that names nothing a HEAD can, and says which. It comes back with the next commit it belongs to.
    pub(super) fn clear_head(&self) -> Result<Option<String>, Error> {
        self.stands.take();
        let head = self.git_dir.join("HEAD");
        if !head.exists() {
            return Ok(None);
        }
        if let Ok(found) = standing(&self.repo, &self.handle, self.is_agents) {
            let is_detached = self.handle.head().is_ok_and(|head| head.is_detached());
            self.stands.replace(found.filter(|_| is_detached));
            return Ok(None);
        }
        ConfinedDir::at(&self.git_dir).and_then(|dir| dir.remove("HEAD")).at("remove", &head)?;
        Ok(Some(nonsense(&head)))
    }

    /// Brings HEAD and index to `commit`, at the end of a node. The files are not touched: they are the commit's.
    /// What a merge or rebase left half done is removed.
    pub fn follow(&mut self, commit: CommitId) -> Result<(), Error> {
        let tree = self.repo.tree_of(commit)?;
        self.restore_link()?;
        self.clear_locks()?;
        self.accept(tree)?;
        self.set_head(commit, "pleach: follow the session")?;
        self.write_index()?;
        self.clear_state()
    }

    /// Detaches HEAD from the branch an agent checked out, at the commit it is.
    pub fn detach(&mut self) -> Result<(), Error> {
        match self.agent_head()? {
            Some(Head { commit, branch: Some(_) }) => {
                self.clear_locks()?;
                self.set_head(commit, "pleach: detach")
            }
            _ => Ok(()),
        }
    }

    pub(super) fn set_head(&self, commit: CommitId, why: &str) -> Result<(), Error> {
        self.clear_odd()?;
        self.stands.take();
        crash::point(Kind::HeadUpdate, When::Before);
        let edit = RefEdit {
            change: Change::Update {
                log: LogChange { mode: RefLog::AndReference, force_create_reflog: false, message: why.into() },
                expected: PreviousValue::Any,
                new: Target::Object(to_gix(commit)),
            },
            name: full_name("HEAD")?,
            deref: false,
        };
        let mut time = gix::date::parse::TimeBuf::default();
        let signature = gix::actor::Signature {
            name: "pleach".into(),
            email: "pleach@local".into(),
            time: gix::date::Time::new(crate::clock::now().as_second(), 0),
        };
        let moved = self.handle.edit_references_as([edit], Some(signature.to_ref(&mut time)));
        moved.map_err(|error| {
            let locks = [lock_path(&self.git_dir.join("HEAD")), packed_lock(&self.handle)];
            match held_lock(&error, locks) {
                Some(lock) => Error::Locked { lock },
                None => Error::library("move HEAD of a worktree", error),
            }
        })?;
        crash::point(Kind::HeadUpdate, When::After);
        self.repo.shared.whole.add(commit);
        if self.is_agents {
            self.stands.replace(Some(Head { commit, branch: None }));
        }
        Ok(())
    }

    /// Writes the cache as the worktree's index. Its stats count from now.
    pub(super) fn write_index(&mut self) -> Result<(), Error> {
        let path = self.git_dir.join("index");
        crash::point(Kind::IndexUpdate, When::Before);
        let index = self.cache.index();
        index.remove_tree();
        index.set_path(&path);
        index.write(self.repo.index_options()).doing("write the index of a worktree")?;
        crash::point(Kind::IndexUpdate, When::After);
        let metadata = path.metadata().at("read", &path)?;
        index.set_timestamp(filetime::FileTime::from_last_modification_time(&metadata));
        self.notes.wrote_index(&metadata)?;
        self.staged = None;
        Ok(())
    }

    /// Writes the index of another tree than the files are at, with the stats of files that are the same.
    pub(super) fn write_index_of(&mut self, tree: TreeId) -> Result<(), Error> {
        let path = self.git_dir.join("index");
        crash::point(Kind::IndexUpdate, When::Before);
        let mut other = Cache::build(&self.handle, tree, self.cache.index(), &self.rules)?;
        let index = other.index();
        index.set_path(&path);
        index.write(self.repo.index_options()).doing("write the index of a worktree")?;
        crash::point(Kind::IndexUpdate, When::After);
        self.notes.wrote_index(&path.metadata().at("read", &path)?)
    }

    /// Removes what git left of an operation that was not finished.
    pub(super) fn clear_state(&self) -> Result<(), Error> {
        let beneath = ConfinedDir::at(&self.git_dir).at("open", &self.git_dir)?;
        let there = beneath.names().at("list", &self.git_dir)?;
        for name in STATE.iter().chain(&STATE_DIRECTORIES).map(Path::new) {
            if name.iter().next().is_some_and(|first| there.contains(first)) {
                beneath.remove(name).at("remove", &self.git_dir.join(name))?;
            }
        }
        Ok(())
    }

    /// Removes lock files a killed git left behind. No agent runs now, so nobody should be at work there.
    pub(super) fn clear_locks(&self) -> Result<(), Error> {
        self.clear_odd()?;
        for name in ["HEAD", "index"] {
            release_when_stale(&lock_path(&self.git_dir.join(name)))?;
        }
        Ok(())
    }

    /// Puts the `.git` file back that an agent may have deleted, and what ties the worktree's git directory to it. A
    /// repository the agent made in its place is put aside.
    pub fn restore_link(&mut self) -> Result<(), Error> {
        self.clear_odd()?;
        if self.access.get() == Access::Tied {
            return Ok(());
        }
        self.put_ties()?;
        if self.access.get() == Access::Cleared {
            self.access.set(Access::Tied);
        }
        Ok(())
    }

    fn put_ties(&mut self) -> Result<(), Error> {
        tie(&self.repo, &self.root, &self.git_dir)?;
        if let Some(origin) = &self.origin
            && Origin::of(self.repo.common_dir(), &self.git_dir)?.is_none()
        {
            // An agent without bounds has removed the directory, and this is another.
            origin.write(self.repo.common_dir(), &self.git_dir)?;
        }
        let link = self.root.join(".git");
        if link == self.git_dir {
            return Ok(());
        }
        if link.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            self.put_aside.push(put_aside(&link, &self.root, "git")?);
        }
        match linked_git_dir(&self.root) {
            Ok(Some(named)) if named == self.git_dir => Ok(()),
            Ok(Some(named)) if named.canonicalize().is_ok_and(|named| named == self.git_dir) => Ok(()),
            _ => self.put_link(),
        }
    }

    /// Writes the file by which git finds the repository, whatever file or link is there.
    pub(super) fn put_link(&self) -> Result<(), Error> {
        let link = self.root.join(".git");
        let content = [b"gitdir: ", self.git_dir.as_os_str().as_bytes(), b"\n"].concat();
        ConfinedDir::at(&self.root).and_then(|root| root.put(".git", &content)).at("write", &link)
    }
}
