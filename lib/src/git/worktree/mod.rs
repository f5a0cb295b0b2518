//! A checkout an agent works in. Its files are compared with the last tree that was recorded, through a handle and a
//! cache of file stats that are held from before the agent starts: the agent may break its own index, or write
//! commands into git config, without any effect here.
//!
//! While a node runs, HEAD and index of the checkout stay where the node began, so the agent sees all its work as
//! uncommitted; [`Worktree::follow`] brings them up at its end.

mod add_failure;
mod admin;
mod agent_commits;
mod cache;
mod files;
mod filters;
mod head;
mod known_content;
mod listed;
mod metadata;
mod past;
mod registration;
mod repair;
mod restore;
mod rules;
mod sanitize;
mod scan;
mod seen;
mod set_up;
mod special_files;
mod submodule_changes;
mod submodule_commits;
mod submodules;
mod untracked;
mod walk;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::path::{Path, PathBuf};

use cache::{Cache, Known};
use files::Staged;
use gix::bstr::BString;
use gix::index::entry::{Mode, Stat};
use known_content::NewContent;
use registration::Origin;
use rules::Rules;

pub use add_failure::{AddCause, AddFailure};
pub(super) use admin::linked_git_dir;
pub use files::{Held, HeldBack, Limits, Written};
pub use listed::Listed;
pub(super) use listed::git_dirs;
pub use metadata::Notes;
pub use past::Past;
pub use restore::Restored;
pub(crate) use restore::remove_directory;
pub use scan::Scan;
pub use seen::Seen;
pub use submodule_changes::{Care, InSubmodules};
pub use submodule_commits::Unpublished;
pub use untracked::are_ignore_rules;

use super::diff::{self, Change, ChangeKind};
use super::error::Error;
use super::head::{Head, head_of};
use super::id::TreeId;
use super::object::EntryKind;
use super::repo::Repo;
use crate::ids::RepoPath;

/// A checkout with a detached HEAD, opened before the agent starts and held while it works.
pub struct Worktree {
    repo: Repo,
    /// Opened on the worktree's git directory; never opened again while an agent can write git config.
    handle: gix::Repository,
    root: PathBuf,
    git_dir: PathBuf,
    /// What pleach notes of it.
    notes: Notes,
    cache: Cache,
    /// The tree the cache describes: what the files were when they were last recorded.
    tree: TreeId,
    /// What [`Worktree::commit_tree`] found, until it is recorded.
    staged: Option<Staged>,
    /// What was held back of it, as it was looked at last.
    new_content: NewContent,
    /// Files that were copied in and are never committed.
    excluded: Vec<BString>,
    /// Which files of a tree are left out.
    rules: Rules,
    /// What the setup has made of the files before anybody worked here.
    begun: set_up::Begun,
    /// What it has made that git ignored.
    ignored: set_up::Ignored,
    /// Where things are now that stood in its way.
    put_aside: Vec<PathBuf>,
    /// It was made for agents, which can write to its git directory.
    is_agents: bool,
    /// What is known of it that no agent can change.
    origin: Option<Origin>,
    /// What had no place there.
    cleared: RefCell<Vec<String>>,
    /// Whether somebody may be writing there.
    access: Cell<sanitize::Access>,
    /// Where its HEAD was at the last look, if it names a commit and no ref, which others can move.
    stands: RefCell<Option<Head>>,
}

impl fmt::Debug for Worktree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worktree").field("root", &self.root).field("tree", &self.tree).finish()
    }
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

    /// What pleach notes of it, where no agent can write.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// The tree the files are compared with: the last one that was recorded.
    pub fn tree(&self) -> TreeId {
        self.tree
    }

    /// Names files, or directories with all in them, that are never committed unless they are tracked.
    pub fn exclude(&mut self, paths: &[RepoPath]) {
        self.excluded = paths.iter().map(|path| BString::from(path.as_bytes())).collect();
    }

    /// Puts back what ties the worktree to its repository, where an agent has removed it. What leads elsewhere is left.
    pub fn tie_again(&self) -> Result<(), Error> {
        self.clear_odd()?;
        if self.access.get() == sanitize::Access::Tied {
            return Ok(());
        }
        if !["commondir", "gitdir"].iter().all(|name| self.git_dir.join(name).exists()) {
            admin::tie(&self.repo, &self.root, &self.git_dir)?;
        }
        match self.root.join(".git").symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => self.put_link(),
            _ => Ok(()),
        }
    }

    /// Where things were put that stood in the worktree's way and may be somebody's work, since this was last asked.
    pub fn take_put_aside(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.put_aside)
    }

    /// Takes the commit HEAD stands at for what the files are compared with, if it has moved.
    pub fn renew(&mut self) -> Result<(), Error> {
        // One that stands at no commit is compared with what it stood at before.
        let Ok(head) = head_of(&self.handle) else { return Ok(()) };
        let tree = self.repo.tree_of(head.commit)?;
        if tree == self.tree { Ok(()) } else { self.load(tree) }
    }

    /// Takes `tree` as recorded: later scans compare with it. When it is the tree the last [`Worktree::commit_tree`]
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
    fn accept_work(&mut self, base: TreeId, tree: TreeId) -> Result<(), Error> {
        if tree != self.tree {
            self.accept(base)?;
            let changes = diff::changes(&self.repo, base, tree)?;
            self.cache.apply(changes.into_iter().map(without_stat).collect());
            self.tree = tree;
        }
        Ok(())
    }
}

/// What a change of trees says about a file. That it is on disk already is for a scan to find out.
fn without_stat(change: Change) -> (BString, Option<Known>) {
    let known = match change.kind {
        ChangeKind::Removed(..) => None,
        ChangeKind::Added(kind, id) | ChangeKind::Modified(_, (kind, id)) => {
            let mode = match kind {
                EntryKind::Executable => Mode::FILE_EXECUTABLE,
                EntryKind::Link => Mode::SYMLINK,
                EntryKind::Submodule => Mode::COMMIT,
                EntryKind::File | EntryKind::Directory => Mode::FILE,
            };
            Some(Known { id: id.to_gix(), mode, stat: Stat::default() })
        }
    };
    (BString::from(change.path.as_bytes()), known)
}
