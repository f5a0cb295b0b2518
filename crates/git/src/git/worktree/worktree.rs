//! A checkout an agent works in. Its files are compared with the last tree that was recorded, through a handle and a
//! cache of file stats that are held from before the agent starts: the agent may break its own index, or write
//! commands into git config, without any effect here.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::{Path, PathBuf};

use gix::bstr::{BStr, BString};
use gix::index::entry::{Mode, Stat};

use super::cache::{Cache, CachedEntry, StagedTree};
use super::metadata::Notes;
use super::new_content::NewContent;
use super::registration::Registration;
use super::setup_snapshot::{IgnoredBySetup, SetupFiles};
use super::sparse_rules::SparseRules;
use super::tree_paths::parents;
use crate::git::diff::{self, ChangeKind, TreeChange};
use crate::git::error::{Error, LibraryContext as _};
use crate::git::head::{Head, head_of};
use crate::git::id::TreeId;
use crate::git::object::EntryKind;
use crate::git::repo::Repo;
use pleach_core::ids::RepoPath;

/// A checkout with a detached HEAD, opened before the agent starts and held while it works.
pub struct Worktree {
    pub(super) repo: Repo,
    /// Opened on the worktree's git directory; never opened again while an agent can write git config.
    pub(super) handle: gix::Repository,
    pub(super) root: PathBuf,
    pub(super) git_dir: PathBuf,
    /// Notes about it that no agent can write.
    pub(super) notes: Notes,
    pub(super) cache: Cache,
    /// The tree the cache describes: what the files were when they were last recorded.
    pub(super) tree: TreeId,
    /// What [`commit_tree`](super::commit_tree) found, until it is recorded.
    pub(super) staged: Option<StagedTree>,
    /// What was held back of it, as it was looked at last.
    pub(super) new_content: NewContent,
    /// Files that were copied in and are never committed.
    pub(super) excluded: Vec<BString>,
    /// Which files of a tree are left out.
    pub(super) rules: SparseRules,
    /// What the setup made of the files.
    pub(super) setup_files: SetupFiles,
    /// What it has made that git ignored.
    pub(super) ignored: IgnoredBySetup,
    /// Where things in its way were moved to.
    pub(super) put_aside: Vec<PathBuf>,
    /// It was just created, and its files are those of its commit.
    pub(super) is_pristine: bool,
    /// It was made for agents, which can write to its git directory.
    pub(super) is_agents: bool,
    /// Its registration, which no agent can change.
    pub(super) registration: Option<Registration>,
    /// Unexpected entries that were removed.
    pub(super) cleared: RefCell<Vec<String>>,
    /// HEADs that were replaced.
    pub(super) replaced_heads: RefCell<Vec<String>>,
    /// Who may be writing there.
    pub(super) access: Cell<Access>,
    /// Where its HEAD was at the last look, if it names a commit and no ref, which others can move.
    pub(super) last_head: RefCell<Option<Head>>,
}

impl fmt::Debug for Worktree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worktree").field("root", &self.root).field("tree", &self.tree).finish()
    }
}

/// Who can write to a worktree's git directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Access {
    /// Others, at any time.
    #[default]
    Lent,
    /// Only pleach; the git directory is not checked yet.
    Back,
    /// Only pleach; unexpected entries are removed.
    Cleared,
    /// Only pleach; and the links to the repository are restored.
    Tied,
}

impl Worktree {
    /// The directory of the files.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The worktree's own git directory.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// Notes about it that no agent can write.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// The tree the files are compared with: the last one that was recorded.
    pub fn tree(&self) -> TreeId {
        self.tree
    }

    /// Whether it was just created, with all files as its commit has them. Asked once, before anybody works in it.
    pub fn take_pristine(&mut self) -> bool {
        std::mem::take(&mut self.is_pristine)
    }

    /// Names files, or directories with all in them, that are never committed unless they are tracked.
    pub fn exclude(&mut self, paths: &[RepoPath]) {
        self.excluded = paths.iter().map(|path| BString::from(path.as_bytes())).collect();
    }

    /// Where things in the worktree's way were moved to, since this was last asked.
    pub fn take_moved_aside(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.put_aside)
    }

    /// Compares the files with the commit of HEAD from now on, if it has moved.
    pub fn reload_head(&mut self) -> Result<(), Error> {
        // Without a commit, the comparison stays as it was.
        let Ok(head) = head_of(&self.handle) else { return Ok(()) };
        let tree = self.repo.tree_of(head.commit)?;
        if tree == self.tree { Ok(()) } else { self.load(tree) }
    }

    /// Takes `tree` as recorded: later scans compare with it. When it is the tree the last [`commit_tree`](super::commit_tree)
    /// gave, their stats are known; of any other tree the files that differ are looked at by the next scan.
    pub fn accept(&mut self, tree: TreeId) -> Result<(), Error> {
        match self.staged.take() {
            Some(staged) if staged.tree == tree => {
                self.cache.apply(staged.entries);
                self.tree = tree;
            }
            _ if tree == self.tree => {}
            _ => {
                let changes = diff::changes(&self.repo, self.tree, tree)?;
                self.cache.turn_to(changes.into_iter().map(without_stat).collect(), &self.rules)?;
                self.tree = tree;
            }
        }
        Ok(())
    }

    /// The same for a tree that was made here out of `base`: nothing of what was made is left out.
    pub(super) fn accept_work(&mut self, base: TreeId, tree: TreeId) -> Result<(), Error> {
        if tree != self.tree {
            self.accept(base)?;
            let changes = diff::changes(&self.repo, base, tree)?;
            self.cache.apply(changes.into_iter().map(without_stat).collect());
            self.tree = tree;
        }
        Ok(())
    }

    /// Reads the stats of the worktree's own index for the files of `tree`.
    pub(super) fn load(&mut self, tree: TreeId) -> Result<(), Error> {
        let (index, notes) = (self.git_dir.join("index"), self.is_agents.then_some(&self.notes));
        self.rules = SparseRules::read(&self.repo, &self.git_dir, notes, self.ignores_case()?)?;
        let trusted = notes.is_none_or(|notes| notes.is_noted_index(&index));
        self.repo.fetch_trees(tree)?;
        self.cache = Cache::read(&self.handle, tree, &index, trusted, &self.rules)?;
        // What says of other files how they are read is read itself, also where it is left out of the checkout.
        self.repo.fetch_missing(self.cache.rule_files())?;
        self.tree = tree;
        self.staged = None;
        Ok(())
    }

    pub(super) fn ignores_case(&self) -> Result<bool, Error> {
        Ok(self.handle.filesystem_options().doing("read git settings")?.ignore_case)
    }

    pub(super) fn ignore_rules(&self) -> Result<gix::AttributeStack<'_>, Error> {
        let none = gix::index::State::new(self.handle.object_hash());
        // Files with rules count also where they are left out.
        let index = self.cache.sparse_index().unwrap_or(&none);
        let source = gix::worktree::stack::state::ignore::Source::WorktreeThenIdMappingIfNotSkipped;
        self.handle.excludes(index, None, source).doing("read ignore rules")
    }

    /// Files that were copied in are not committed, except where the repository tracks them.
    pub(super) fn is_excluded(&self, path: &BStr) -> bool {
        let covers = |excluded: &BString| {
            path.strip_prefix(excluded.as_slice()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        self.excluded.iter().any(covers) && self.cache.known(path).is_none()
    }

    /// Whether anything is at a path of the tree: what lies behind a link is not part of it.
    pub(super) fn exists(&self, path: &BStr) -> bool {
        self.has_real_parents(path) && self.disk_path(path).symlink_metadata().is_ok()
    }

    /// Where a path of the tree lies on disk.
    pub(super) fn disk_path(&self, path: &BStr) -> PathBuf {
        self.root.join(gix::path::from_bstr(path).unwrap_or_default())
    }

    /// Whether all directories above the path are real ones: what lies behind a link is not part of the tree.
    pub(super) fn has_real_parents(&self, path: &BStr) -> bool {
        parents(path).all(|parent| self.disk_path(parent).symlink_metadata().is_ok_and(|metadata| metadata.is_dir()))
    }

    /// Lets others write there from now on: the git directory is checked before each use.
    pub fn release(&self) {
        self.access.set(Access::Lent);
        self.last_head.take();
    }

    /// Only pleach writes there from now on: one check is enough.
    pub fn acquire(&self) {
        self.access.set(Access::Back);
        self.last_head.take();
    }

    /// Unexpected entries that were removed from the git directory, since this was last asked.
    pub fn take_cleared(&self) -> Vec<String> {
        self.cleared.take()
    }

    /// HEADs that named no complete commit and were replaced, since this was last asked.
    pub fn take_replaced_heads(&self) -> Vec<String> {
        self.replaced_heads.take()
    }
}

/// What a change of trees says about a file. That it is on disk already is for a scan to find out.
fn without_stat(change: TreeChange) -> (BString, Option<CachedEntry>) {
    let known = match change.kind {
        ChangeKind::Removed(..) => None,
        ChangeKind::Added(kind, id) | ChangeKind::Modified(_, (kind, id)) => {
            let mode = match kind {
                EntryKind::Executable => Mode::FILE_EXECUTABLE,
                EntryKind::Link => Mode::SYMLINK,
                EntryKind::Submodule => Mode::COMMIT,
                EntryKind::File | EntryKind::Directory => Mode::FILE,
            };
            Some(CachedEntry { id: id.to_gix(), mode, stat: Stat::default() })
        }
    };
    (BString::from(change.path.as_bytes()), known)
}
