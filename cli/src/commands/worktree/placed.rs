//! A worktree in its repository, and what is said of it.

use engine::keep::{OwnWorktree, WorktreeOwner, WorktreePlaces};
use serde_json::{Value, json};

use crate::commands::merge::short;
use crate::place::Place;

/// A worktree, its repository, and where the worktrees of that are.
pub(super) struct PlacedWorktree<'a> {
    pub(super) place: &'a Place,
    pub(super) places: WorktreePlaces,
    pub(super) worktree: OwnWorktree,
}

/// `SESSION/CONTEXT` (`/REPO` where there are several), or `tasks on BRANCH`, the second one of which is `tasks on BRANCH (2)`; likewise those of the queue.
pub(super) fn owner(worktree: &OwnWorktree) -> String {
    match &worktree.owner {
        WorktreeOwner::Session { session, context, repo: None } => format!("{session}/{context}"),
        WorktreeOwner::Session { session, context, repo: Some(repo) } => format!("{session}/{context}/{repo}"),
        WorktreeOwner::Tasks { target, slot: 1 } => format!("tasks on {target}"),
        WorktreeOwner::Tasks { target, slot } => format!("tasks on {target} ({slot})"),
        WorktreeOwner::Queue { target, slot: 1 } => format!("merge queue of {target}"),
        WorktreeOwner::Queue { target, slot } => format!("merge queue of {target} ({slot})"),
        WorktreeOwner::Conflict { target, entry } => format!("conflict of {} with {target}", short(entry)),
    }
}

/// A worktree for `--json`.
pub(super) fn document(worktree: &OwnWorktree, place: &Place) -> Value {
    let (session, context, task) = match &worktree.owner {
        WorktreeOwner::Session { session, context, .. } => (Some(session), Some(context), None),
        WorktreeOwner::Tasks { target, .. } => (None, None, Some(target)),
        WorktreeOwner::Queue { .. } | WorktreeOwner::Conflict { .. } => (None, None, None),
    };
    json!({
        "owner": owner(worktree), "session": session, "context": context, "task": task, "repo": place.name,
        "path": worktree.path.display().to_string(), "branch": worktree.branch, "created": worktree.created,
        "state": worktree.word(),
    })
}
