//! Conflicts in events, and as the next node sees them.

use serde_json::{Value, json};

use git::{Conflict, ConflictSide, ConflictedFile};
use pleach_core::event::{ConflictedPath, WorktreeMergeConflict};
use pleach_core::ids::CommitId;

/// A conflict's files, as events have them.
pub(crate) fn conflicted_paths(conflict: &Conflict) -> Vec<ConflictedPath> {
    conflict.files.iter().map(conflicted_path).collect()
}

fn conflicted_path(file: &ConflictedFile) -> ConflictedPath {
    let id = |side: Option<ConflictSide>| side.map(|side| CommitId::from_bytes(*side.id.as_bytes()));
    ConflictedPath {
        path: file.path.clone(),
        kind: file.kind,
        base: id(file.base),
        ours: id(file.ours),
        theirs: id(file.theirs),
    }
}

/// Conflicts as the next node sees them.
pub(crate) fn conflicts_value(conflicts: &[WorktreeMergeConflict]) -> Value {
    if conflicts.is_empty() {
        return Value::String(String::new());
    }
    let conflict = |conflict: &WorktreeMergeConflict| json!({ "repo": conflict.repo, "branch": conflict.context, "paths": conflict.paths });
    conflicts.iter().map(conflict).collect()
}
