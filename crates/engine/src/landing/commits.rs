//! Builds the commits of a landing: a task's steps rebuilt on the target's current tip, with or without their code, and
//! the merge of a phase. This only creates commits; no ref moves.
//!
//! A step is identified by its message and author date, so a copy keeps both: readers recognise it as the same step.

use jiff::Timestamp;

use git::{CommitSpec, Conflict, EntryKind, MergeError, Person, Repo, TreeEdit, TreeId, Writer};
use pleach_core::ids::{CommitId, RepoPath, TaskId};

/// Why steps could not be rebuilt on another commit.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// The step's changes conflict with the new tip.
    #[error("step {} cannot be built on the new tip: {conflict}", step.short())]
    Conflict {
        /// The step.
        step: CommitId,
        /// The conflict.
        conflict: Conflict,
    },
    /// A git operation failed.
    #[error(transparent)]
    Git(#[from] git::Error),
}

/// The commits of a branch since `base`, oldest first, along first parents.
pub fn commits_since(repo: &Repo, tip: CommitId, base: CommitId) -> Result<Vec<CommitId>, git::Error> {
    let mut chain = Vec::new();
    let mut next = Some(tip);
    let mut merged = false;
    while let Some(commit) = next.filter(|commit| *commit != base) {
        // If the base was merged into the branch, it is beside the branch, not below it.
        if merged && repo.history().is_ancestor(commit, base)? {
            break;
        }
        chain.push(commit);
        let parents = repo.commit(commit)?.parents;
        merged |= parents.len() > 1;
        next = parents.first().copied();
    }
    chain.reverse();
    Ok(chain)
}

/// Rebuilds a task's steps, oldest first, as a chain on `new_tip` instead of `old_base`. Each copy holds the branch's
/// changes between `old_base` and the step; changes that the tip already has are no-ops. Flushes `writer` first; the
/// new commits stay pending in it.
pub fn rebuild(
    repo: &Repo,
    writer: &mut Writer,
    steps: &[CommitId],
    old_base: CommitId,
    new_tip: CommitId,
) -> Result<Vec<CommitId>, RebuildError> {
    writer.flush()?;
    let (base, tip) = (repo.tree_of(old_base)?, repo.tree_of(new_tip)?);
    let mut copies = Vec::with_capacity(steps.len());
    let mut parent = new_tip;
    // Most steps change no file, so the merge result of the previous step applies to them as well.
    let mut last = (base, tip);
    for step in steps {
        let tree = repo.tree_of(*step)?;
        if tree != last.0 {
            let merged = git::merge::merge_trees(repo, base, tip, tree).map_err(|error| match error {
                MergeError::Conflict(conflict) => RebuildError::Conflict { step: *step, conflict },
                MergeError::Git(error) => error.into(),
            })?;
            last = (tree, merged);
        }
        parent = writer.commit_again(*step, last.1, &[parent])?;
        copies.push(parent);
    }
    Ok(copies)
}

/// Rebuilds the steps of a failed task, oldest first, on `tip` without their code: the tree stays that of the tip, plus
/// the step's `logs`. A log that is not a file, or whose directory is a file in the tip, is left out. The new commits
/// stay pending in `writer`.
pub fn without_code(
    repo: &Repo,
    writer: &mut Writer,
    steps: &[CommitId],
    tip: CommitId,
    logs: &[RepoPath],
) -> Result<Vec<CommitId>, git::Error> {
    let files = repo.tree_of(tip)?;
    let mut copies = Vec::with_capacity(steps.len());
    let mut parent = tip;
    for step in steps {
        let edits = kept(repo, repo.tree_of(*step)?, files, logs)?;
        let tree = if edits.is_empty() { files } else { writer.tree(Some(files), &edits)? };
        parent = writer.commit_again(*step, tree, &[parent])?;
        copies.push(parent);
    }
    Ok(copies)
}

/// The edits that copy the logs of a step into another tree.
fn kept(repo: &Repo, step: TreeId, into: TreeId, logs: &[RepoPath]) -> Result<Vec<TreeEdit>, git::Error> {
    let mut edits = Vec::new();
    for path in logs {
        let Some(log) = repo.tree_entry(step, path)? else { continue };
        let is_file = matches!(log.kind, EntryKind::File | EntryKind::Executable);
        if is_file && has_room(repo, into, path)? {
            edits.push(TreeEdit::Put(log.path, log.kind, log.id));
        }
    }
    Ok(edits)
}

/// Whether a file can be added at a path without replacing another: all its ancestors are directories, and it is not
/// one.
fn has_room(repo: &Repo, tree: TreeId, path: &RepoPath) -> Result<bool, git::Error> {
    let above = path.as_bytes().iter().rposition(|byte| *byte == b'/');
    if let Some(end) = above
        && repo.no_directory(tree, &RepoPath::new(&path.as_bytes()[..end]))?.is_some()
    {
        return Ok(false);
    }
    Ok(repo.tree_entry(tree, path)?.is_none_or(|entry| entry.kind != EntryKind::Directory))
}

/// The commit that merges a finished phase into its target. It is always a merge of both tips, even if a fast-forward
/// is possible. The same inputs give the same id. It stays pending in `writer`.
pub fn merge_phase(
    repo: &Repo,
    writer: &mut Writer,
    phase: &TaskId,
    target_tip: CommitId,
    phase_tip: CommitId,
    at: Timestamp,
) -> Result<CommitId, MergeError> {
    writer.flush()?;
    let tree = git::merge::merge_commits(repo, target_tip, phase_tip)?;
    Ok(writer.commit(&CommitSpec {
        tree,
        parents: vec![target_tip, phase_tip],
        author: Person::pleach(),
        committer: Person::pleach(),
        message: format!("merge: {phase} complete\n").into_bytes(),
        at,
    })?)
}
