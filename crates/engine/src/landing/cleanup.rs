//! What is in nobody's way any more, and goes: the worktree and the branch of an agent that has resolved a conflict, and the
//! branches of tasks that have landed. The records of their sessions keep their commits.

use super::error::QueueError;
use super::test_slot::TestPlace;
use crate::keep::{WorktreeOwner, WorktreePlaces, own_worktrees, prune_worktree};
use git::workspace::branch_ref;
use git::{Repo, SwapError};
use pleach_core::ids::{BranchName, CommitId, SessionId};
use pleach_core::queue::QueueEntry;

/// Removes what a resolver's session has left. What cannot be removed stays, and `pleach worktree list` shows it.
pub(super) fn remove_session_files(
    place: &TestPlace,
    session: &SessionId,
    branch: Option<&BranchName>,
) -> Result<(), QueueError> {
    let TestPlace { engine, repo, repo_name, .. } = place;
    let places = WorktreePlaces::of(engine, repo, repo_name);
    let is_its = |owner: &WorktreeOwner| matches!(owner, WorktreeOwner::Session { session: id, .. } if id == session);
    for worktree in own_worktrees(repo, &places)?.iter().filter(|worktree| is_its(&worktree.owner)) {
        let _ = prune_worktree(repo, &places, worktree, false);
    }
    let tip = branch.map(|branch| repo.refs().find(&branch_ref(branch))).transpose()?.flatten();
    match (branch, tip) {
        (Some(branch), Some(tip)) => delete_branch(repo, branch, tip),
        _ => Ok(()),
    }
}

/// Deletes the branch of a task that has landed, unless it has moved on or is checked out.
pub fn delete_landed_branch(repo: &Repo, entry: &QueueEntry) -> Result<(), QueueError> {
    match &entry.branch {
        Some(branch) if entry.is_repairable() => delete_branch(repo, branch, entry.head),
        _ => Ok(()),
    }
}

fn delete_branch(repo: &Repo, branch: &BranchName, tip: CommitId) -> Result<(), QueueError> {
    if !git::checkouts_of(repo, branch)?.is_empty() {
        return Ok(());
    }
    match repo.refs().delete(&branch_ref(branch), tip, "pleach: landed") {
        // It has moved on, or is gone.
        Ok(()) | Err(SwapError::Stale { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
