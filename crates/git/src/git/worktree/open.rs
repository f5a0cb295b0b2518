//! Opening an existing worktree.

use std::path::Path;

use super::cache::Cache;
use super::git_dir::{is_worktree_git_dir, link_git_dir, own_git_dir, same_file};
use super::metadata::Notes;
use super::new_content::NewContent;
use super::registration::Registration;
use super::sparse_rules::SparseRules;
use super::valid_head::{invalid_head, read_valid_head, restore_head, write_head};
use super::{Worktree, sanitize, setup_snapshot};
use crate::git::error::{Error, IoContext as _, LibraryContext as _};
use crate::git::open::open_with;
use crate::git::repo::Repo;

/// Opens an existing worktree. Its files are compared with the commit of its HEAD until another tree is
/// [accepted](Worktree::accept).
pub fn open(repo: &Repo, path: &Path) -> Result<Worktree, Error> {
    let root = match path.canonicalize() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::NoSuchWorktree { path: path.to_owned() });
        }
        found => found.at("open the worktree", path)?,
    };
    let git_dir = own_git_dir(repo, &root)?;
    let git_dir = match git_dir.canonicalize() {
        // The repository was recreated, or its git directory of this worktree was removed.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Error::LinkReplaced { path: root });
        }
        found => found.at("open the git directory", &git_dir)?,
    };
    let is_agents = is_worktree_git_dir(repo, &git_dir) && !repo.workdir().is_some_and(|own| same_file(own, &root));
    let mut cleared = if is_agents { sanitize::remove_unexpected(&git_dir)? } else { Vec::new() };
    if is_agents {
        cleared.extend(sanitize::unlock(&root)?);
    }
    let registration = if is_agents { Registration::of(repo.common_dir(), &git_dir)? } else { None };
    if let Some(registration) = &registration {
        cleared.extend(registration.restore_settings(&git_dir)?);
    }
    link_git_dir(repo, &root, &git_dir)?;
    restore_head(repo, &git_dir)?;
    let handle = open_with(&git_dir, repo.shared.config.clone())?;
    let mut handle = handle.to_thread_local();
    repo.shared.pool.recent.serve(&mut handle);
    if handle.workdir().is_none() {
        // Its git directory lies elsewhere and does not tell.
        handle.set_workdir(root.clone()).doing("open the worktree")?;
    }
    if same_file(handle.common_dir(), repo.common_dir()) {
        let mut replaced_heads = Vec::new();
        let head = match read_valid_head(repo, &handle, is_agents) {
            Ok(Some(head)) => head,
            // An agent was about to begin a history of its own.
            Ok(None) => repo.head()?,
            Err(_) if is_agents => {
                replaced_heads.push(invalid_head(&git_dir.join("HEAD")));
                write_head(repo, &git_dir)?
            }
            Err(error) => return Err(error),
        };
        let notes = Notes::of(repo.common_dir(), &git_dir);
        let (setup_files, ignored) = setup_snapshot::read_begun(&notes)?;
        let mut worktree = Worktree {
            repo: repo.clone(),
            cache: Cache::empty(&handle),
            tree: repo.tree_of(head.commit)?,
            handle,
            root,
            setup_files,
            ignored,
            git_dir,
            notes,
            staged: None,
            new_content: NewContent::default(),
            excluded: Vec::new(),
            put_aside: Vec::new(),
            rules: SparseRules::default(),
            is_pristine: false,
            is_agents,
            registration,
            cleared: cleared.into(),
            replaced_heads: replaced_heads.into(),
            access: std::cell::Cell::default(),
            last_head: std::cell::RefCell::default(),
        };
        worktree.load(worktree.tree)?;
        Ok(worktree)
    } else {
        Err(Error::LinkReplaced { path: root })
    }
}
