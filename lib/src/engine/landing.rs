//! The commits a landing brings: a task's steps again on the tip the target has now, with their code or without it,
//! and the merge of a phase. Only commits are made here; nothing moves.
//!
//! A step is its message and its author date, so a copy keeps both: readers know it for the same step.

use jiff::Timestamp;

use crate::git::{self, CommitSpec, Conflict, EntryKind, MergeError, Person, Repo, TreeEdit, TreeId, Writer};
use crate::ids::{CommitId, RepoPath, TaskId};

/// Why steps could not be built on another commit.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// What the step changed does not fit to what the target has become.
    #[error("step {} cannot be built on the new tip: {conflict}", step.short())]
    Conflict {
        /// The step.
        step: CommitId,
        /// What is in conflict.
        conflict: Conflict,
    },
    /// git failed.
    #[error(transparent)]
    Git(#[from] git::Error),
}

/// Builds a task's steps, oldest first, on `new_tip` instead of `old_base`, one on another. Each brings there what the
/// branch had changed since `old_base` when it was made; what the tip has already makes no change. All that waits in
/// `writer` is flushed first; the new commits wait in it then.
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
    // Most steps change no file: what was merged for the one before holds for them as well.
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

/// Builds the steps of a failed task, oldest first, on `tip` without their code: the files stay those of the tip, but
/// for the `logs` a step has. A log that is no file, or lies where the tip has a file for a directory, is left out.
/// The new commits wait in `writer`.
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

/// What brings the logs of a step into another tree.
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

/// Whether a file can be put at a path without taking away another: all above it are directories, and so is not it.
fn has_room(repo: &Repo, tree: TreeId, path: &RepoPath) -> Result<bool, git::Error> {
    let above = path.as_bytes().iter().rposition(|byte| *byte == b'/');
    if let Some(end) = above
        && repo.no_directory(tree, &RepoPath::new(&path.as_bytes()[..end]))?.is_some()
    {
        return Ok(false);
    }
    Ok(repo.tree_entry(tree, path)?.is_none_or(|entry| entry.kind != EntryKind::Directory))
}

/// The commit that brings a finished phase into its target: always a merge of both tips, also where the target could
/// simply move forward. The same values give the same id. It waits in `writer`.
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
