//! Work that would be lost with a worktree, and its removal once that is kept.

use std::path::{Path, PathBuf};

use super::remove_error::{Obstacle, RemoveError};
use crate::view::Summary;
use git::record::{SESSIONS, root_ref};
use git::workspace::{self, KeepOwner};
use git::{CheckDepth, CommitLimits, RefUpdate, Repo, TreeId, Writer};
use os::confined_fs;
use pleach_core::ids::{CommitId, RepoPath, RunId, SessionId};

/// The reason given in the commit of the kept work, if only a worktree was removed.
pub(crate) const WORKTREE_REASON: &str = "the worktree was removed";

/// The directory beside a session's worktree in which its nodes leave their status files, which are useless once a node
/// has ended, and where agents find the answers and output of earlier nodes.
pub(crate) const RUN_DIR: &str = "run";

/// Refs of records with their tips; `None` if the ref points to no commit.
pub(crate) type RecordRefs = Vec<(String, Option<CommitId>)>;

/// Work to keep.
#[derive(Debug)]
pub(crate) struct KeptWork {
    pub writer: Writer,
    pub tree: TreeId,
    pub parents: Vec<CommitId>,
    pub unmerged: bool,
    pub uncommitted: Vec<RepoPath>,
}

impl KeptWork {
    /// Keeps the work, unless an interrupted removal has already done so.
    pub fn save(mut self, repo: &Repo, owner: KeepOwner<'_>, reason: &str) -> Result<String, RemoveError> {
        self.writer.flush()?;
        for (name, at) in repo.refs().list(&owner.prefix())? {
            let kept = repo.commit(at)?;
            let has_all = self.parents.iter().all(|parent| kept.parents.contains(parent));
            if has_all && (kept.tree == self.tree || self.uncommitted.is_empty()) {
                return Ok(name);
            }
        }
        Ok(workspace::keep(repo, self.writer, owner, self.tree, &self.parents, reason)?)
    }
}

/// The changes in a worktree since the session's newest commit, and what the repository has lost of that.
pub(crate) fn uncommitted(
    repo: &Repo,
    tip: Option<CommitId>,
    copied_in: &[RepoPath],
    path: &Path,
    obstacles: &mut Vec<Obstacle>,
) -> Result<Option<KeptWork>, RemoveError> {
    let Some(tip) = tip else { return Ok(None) };
    let tree = repo.tree_of(tip)?;
    let mut worktree = git::worktree::open(repo, path)?;
    worktree.exclude(copied_in);
    worktree.accept(tree)?;
    let mut writer = repo.writer();
    let seen = git::worktree::scan_all(&mut worktree).and_then(|scan| {
        let written = git::worktree::commit_tree(&mut worktree, &scan, &mut writer, &CommitLimits::NONE)?;
        // The worktree may have the only copy of what is committed.
        let content = git::worktree::collect_lost_content(&mut worktree, &mut writer)?;
        Ok((scan, written, content, git::worktree::unpublished_work(&mut worktree, CheckDepth::Thorough)?))
    });
    let (scan, written, content, in_submodules) = match seen {
        Ok(seen) => seen,
        // A user who insists can still have it removed.
        Err(error) => {
            obstacles.push(Obstacle::Unsaved { path: path.to_owned(), why: error.to_string() });
            return Ok(None);
        }
    };
    let place = |inside: &RepoPath| {
        use std::os::unix::ffi::OsStrExt as _;
        path.join(std::ffi::OsStr::from_bytes(inside.as_bytes()))
    };
    let mut lost = |inside: &RepoPath, why: &str| {
        obstacles.push(Obstacle::Unsaved { path: place(inside), why: why.to_owned() });
    };
    scan.nested.iter().for_each(|inside| lost(inside, "it is a repository of its own"));
    scan.submodules.iter().for_each(|inside| lost(inside, "it is a submodule that was changed"));
    in_submodules.files.iter().for_each(|inside| lost(inside, "no commit of its submodule has it"));
    for (inside, work) in &in_submodules.commits {
        lost(inside, &format!("{work} of this submodule on no remote"));
    }
    written.held_back.iter().for_each(|held| lost(&held.path, &held.reason.to_string()));
    let head = git::worktree::agent_head(&worktree)?.map(|head| head.commit);
    let own_head = match head {
        Some(head) if !repo.history().is_ancestor(head, tip)? && read_work(repo, head, Some(tip)).is_ok() => Some(head),
        _ => None,
    };
    if written.tree == tree && own_head.is_none() && content.found.is_empty() {
        return Ok(None);
    }
    let parents = std::iter::once(tip).chain(own_head).collect();
    let uncommitted = [written.paths, content.found].concat();
    Ok(Some(KeptWork { writer, tree: written.tree, parents, unmerged: false, uncommitted }))
}

/// Reads a commit, its tree, and its history since `base`, because git packs nothing that leads to an unreadable
/// object.
pub(crate) fn read_work(repo: &Repo, commit: CommitId, base: Option<CommitId>) -> Result<(), git::Error> {
    repo.tree_entries(repo.commit(commit)?.tree)?;
    if let Some(base) = base {
        repo.history().symmetric_difference(base, commit, (&|_| false, &|_| false))?;
    }
    Ok(())
}

/// Deletes refs that no other process writes while this one holds the session.
pub(crate) fn delete(repo: &Repo, refs: RecordRefs) -> Result<(), git::Error> {
    let all = refs.into_iter().map(|(name, old)| RefUpdate { name, old, new: None });
    let all: Vec<RefUpdate> = all.collect();
    Ok(repo.refs().swap_all(&all, "pleach: rm")?)
}

pub(crate) fn remove_directory(path: &Path) -> Result<(), workspace::Error> {
    confined_fs::remove_all(path).map_err(|source| workspace::Error::Io {
        doing: "remove",
        path: path.to_owned(),
        source,
    })
}

/// Removes the worktree of a parallel branch, after keeping its uncommitted files. One with files that cannot be kept stays.
pub(crate) fn remove_branch_worktree(
    repo: &Repo,
    session: &SessionId,
    work: Option<CommitId>,
    copied_in: &[RepoPath],
    path: &Path,
) -> Result<(), RemoveError> {
    let mut obstacles = Vec::new();
    let keep = uncommitted(repo, work, copied_in, path, &mut obstacles)?;
    if !obstacles.is_empty() {
        return Ok(());
    }
    if let Some(keep) = keep {
        keep.save(repo, session.into(), WORKTREE_REASON)?;
    }
    Ok(git::worktree::remove(repo, path)?)
}

/// Removes the run directory beside the worktrees of a context, and the directories of the context and of the session if
/// they are empty.
pub(crate) fn remove_run_directory(root: &Path) -> Result<(), workspace::Error> {
    remove_directory(&run_directory(root))?;
    let _ = std::fs::remove_dir(root);
    if let Some(parent) = root.parent() {
        let _ = std::fs::remove_dir(parent);
    }
    Ok(())
}

pub(crate) fn run_directory(root: &Path) -> PathBuf {
    root.with_file_name(RUN_DIR)
}

/// The refs of all records of a run with their tips, readable or not, that of its root last.
pub(crate) fn records(repo: &Repo, run: &RunId) -> Result<RecordRefs, git::Error> {
    let prefix = format!("{SESSIONS}{}/", run.session);
    let mut records = repo.refs().list_unpeeled(&prefix)?;
    let context = |name: &str| name.strip_prefix(&prefix)?.parse().ok();
    records.retain(|(name, _)| context(name).is_none_or(|context| run.has(&context)));
    let root = root_ref(run);
    records.sort_by_key(|(name, _)| *name == root);
    Ok(records)
}

/// The files copied into the worktrees of a session from the user's checkout.
pub(crate) fn copied_in(summary: &Summary) -> Vec<RepoPath> {
    let paths = summary.started.config.pointer("/worktrees/include_ignored").and_then(|value| value.as_array());
    paths.into_iter().flatten().filter_map(|path| path.as_str()).map(RepoPath::from).collect()
}
