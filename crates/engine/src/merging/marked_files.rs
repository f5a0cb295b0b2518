//! Files that show a conflict to whoever resolves it, and whether it is resolved in them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use git::diff::ChangeKind;
use git::{Conflict, ConflictSide, ConflictedFile, EntryKind, Repo, TreeEdit, TreeId};
use pleach_core::ids::{CommitId, RepoPath};
use pleach_core::merge::has_conflict_markers;
use pleach_core::text::named;

/// Both sides of a merge that left conflicts, and the files in conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConflictSides {
    /// The commit it was merged into.
    pub ours: CommitId,
    /// The commit that was merged.
    pub theirs: CommitId,
    /// The files.
    pub paths: Vec<RepoPath>,
}

/// The merged files with every conflict visible in them: as markers, and where git has none for it, as a note beside the
/// file that has to be deleted.
pub(crate) fn marked_tree(repo: &Repo, sides: &ConflictSides, conflict: &Conflict) -> Result<TreeId, git::Error> {
    let mut writer = repo.writer();
    let mut notes = Vec::new();
    for file in &conflict.files {
        if let Some(note) = note_path(repo, sides, &file.path)?
            && !is_marked(repo, conflict.marked, &file.path)?
        {
            notes.push(TreeEdit::Put(note, EntryKind::File, writer.blob(note_text(file).as_bytes())?));
        }
    }
    if notes.is_empty() {
        return Ok(conflict.marked);
    }
    let tree = writer.tree(Some(conflict.marked), &notes)?;
    writer.flush()?;
    Ok(tree)
}

/// The files that still hold markers which neither side has there, in a result that was to resolve a merge. Of files that
/// were in no conflict only those count that may have been one: another is gone.
pub(crate) fn unresolved(repo: &Repo, sides: &ConflictSides, result: TreeId) -> Result<Vec<RepoPath>, git::Error> {
    let mut listed: BTreeSet<RepoPath> = sides.paths.iter().cloned().collect();
    for path in &sides.paths {
        listed.extend(note_path(repo, sides, path)?);
    }
    let mut is_moved = false;
    for path in &sides.paths {
        is_moved |= repo.tree_entry(result, path)?.is_none();
    }
    let theirs = repo.tree_of(sides.theirs)?;
    let mut left = Vec::new();
    for change in git::diff::changes(repo, repo.tree_of(sides.ours)?, result)? {
        let (ChangeKind::Added(kind, blob) | ChangeKind::Modified(_, (kind, blob))) = change.kind else { continue };
        let is_file = matches!(kind, EntryKind::File | EntryKind::Executable);
        if is_file
            && (is_moved || listed.contains(&change.path))
            && has_conflict_markers(&repo.blob(blob)?)
            && repo.tree_entry(theirs, &change.path)?.is_none_or(|entry| entry.id != blob)
        {
            left.push(change.path);
        }
    }
    Ok(left)
}

/// Which files are still in conflict, in words.
pub(crate) fn left_words(left: &[RepoPath]) -> String {
    format!("conflict markers are left in {}", named(left))
}

fn is_marked(repo: &Repo, tree: TreeId, path: &RepoPath) -> Result<bool, git::Error> {
    let Some(entry) = repo.tree_entry(tree, path)? else { return Ok(false) };
    let is_file = matches!(entry.kind, EntryKind::File | EntryKind::Executable);
    Ok(is_file && has_conflict_markers(&repo.blob(entry.id)?))
}

/// Where the note about a file is: beside it, under a name neither side has. None where both names are taken.
fn note_path(repo: &Repo, sides: &ConflictSides, path: &RepoPath) -> Result<Option<RepoPath>, git::Error> {
    let trees = [repo.tree_of(sides.ours)?, repo.tree_of(sides.theirs)?];
    for ending in [".conflict", ".pleach-conflict"] {
        let note = RepoPath::new([path.as_bytes(), ending.as_bytes()].concat());
        let mut is_taken = false;
        for tree in trees {
            is_taken |= repo.tree_entry(tree, &note)?.is_some();
        }
        if !is_taken {
            return Ok(Some(note));
        }
    }
    Ok(None)
}

fn note_text(file: &ConflictedFile) -> String {
    let [base, ours, theirs] = [file.base, file.ours, file.theirs].map(|side| match side {
        Some(ConflictSide { mode: EntryKind::Submodule, id }) => format!("commit {id} of the submodule"),
        Some(ConflictSide { id, .. }) => format!("git cat-file blob {id}"),
        None => "not there".to_owned(),
    });
    format!(
        "Both sides of a merge changed `{}` ({}), and git cannot mark that in the file.\n\
         Settle it, then delete this note.\n\
         <<<<<<< ours: {ours}\n||||||| before: {base}\n=======\n>>>>>>> theirs: {theirs}\n",
        file.path, file.kind
    )
}
