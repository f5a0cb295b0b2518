//! Deletes the branches of tasks and phases whose commits are on the target. The records of their sessions keep the
//! originals of rebuilt commits.

use std::collections::BTreeSet;

use super::Error;
use super::run::{TreeRun, target_tip};
use git::SwapError;
use git::record::context_ref;
use git::workspace::{branch_ref, context_of_branch, phase_branches, task_branches};
use pleach_core::event::WarningCode;
use pleach_core::ids::{BranchName, CommitId, SessionId, TaskId};
use pleach_core::progress::{StepPlace, TaskStatus, print};

/// Deletes branches without commits that the target lacks, unless the settings keep them. A branch that cannot be
/// deleted stays, with a warning: its work has landed anyway.
pub(super) fn delete_landed_branches(run: &TreeRun) -> Result<(), Error> {
    if !run.plan.delete_branches {
        return Ok(());
    }
    tokio::task::block_in_place(|| {
        let target = target_tip(&run.repo, &run.plan.target)?;
        for (branch, tip) in landed_branches(run, target)? {
            // Under a checkout, HEAD would point to no branch.
            if !git::checkouts_of(&run.repo, &branch)?.is_empty() {
                continue;
            }
            let name = branch_ref(&branch);
            match run.repo.refs().delete(&name, tip, "pleach: landed") {
                Ok(()) => {}
                // Another process is using it.
                Err(SwapError::Stale { .. }) => {}
                Err(error) => run.engine.warn(
                    WarningCode::BranchNotDeleted.with(format!("`{branch}` has landed and is not deleted: {error}")),
                ),
            }
        }
        Ok(())
    })
}

/// The branches of this tree without commits that the target lacks, with their tips.
fn landed_branches(run: &TreeRun, target: CommitId) -> Result<Vec<(BranchName, CommitId)>, Error> {
    let mut landed = Vec::new();
    for (id, branch, tip) in branches_below(run, &task_branches(&run.plan.branch_prefix, &run.plan.target))? {
        if has_landed(run, &id) && (run.repo.history().is_ancestor(tip, target)? || is_copied(run, &id, tip)?) {
            landed.push((branch, tip));
        }
    }
    for (id, branch, tip) in branches_below(run, &phase_branches(&run.plan.branch_prefix, &run.plan.target))? {
        if run.plan.tree.node(&id).is_some() && run.repo.history().is_ancestor(tip, target)? {
            landed.push((branch, tip));
        }
    }
    landed.extend(parallel_branches(run)?);
    Ok(landed)
}

/// The branches of parallel contexts in the sessions of landed tasks, as far as the records of these contexts keep their
/// commits.
fn parallel_branches(run: &TreeRun) -> Result<Vec<(BranchName, CommitId)>, Error> {
    let all = run.repo.refs().list_unpeeled(&format!("refs/heads/{}", run.plan.branch_prefix))?.into_iter();
    let named = all.filter_map(|(name, tip)| {
        let branch = BranchName::new(name.strip_prefix("refs/heads/")?).ok()?;
        Some((context_of_branch(&branch)?, branch, tip?))
    });
    let mut named = named.peekable();
    if named.peek().is_none() {
        return Ok(Vec::new());
    }
    let tasks = run.progress.tasks().filter(|(id, _)| run.plan.tree.is_leaf(id) && has_landed(run, id));
    let sessions: BTreeSet<&SessionId> =
        tasks.flat_map(|(_, state)| state.steps.iter().filter_map(|found| found.step.session.as_ref())).collect();
    let mut landed = Vec::new();
    for ((session, context), branch, tip) in named.filter(|((session, _), ..)| sessions.contains(session)) {
        let record = run.repo.refs().find(&context_ref(&session, &context))?;
        // An unreadable branch stays, so that it can be repaired.
        if record.is_some_and(|record| run.repo.history().is_ancestor(tip, record).unwrap_or(false)) {
            landed.push((branch, tip));
        }
    }
    Ok(landed)
}

/// The readable branches below a prefix, each with the task or phase it is named after.
fn branches_below(run: &TreeRun, prefix: &str) -> Result<Vec<(TaskId, BranchName, CommitId)>, Error> {
    let all = run.repo.refs().list_unpeeled(&format!("refs/heads/{prefix}"))?.into_iter();
    Ok(all
        .filter_map(|(name, tip)| {
            let branch = BranchName::new(name.strip_prefix("refs/heads/")?).ok()?;
            let id = TaskId::new(branch.as_str().strip_prefix(prefix)?).ok()?;
            Some((id, branch, tip.filter(|tip| run.repo.commit(*tip).is_ok())?))
        })
        .collect())
}

/// Whether the target has the completed task, or the newest test result of the phase. The code of a task that was given
/// up is only on its branch.
fn has_landed(run: &TreeRun, id: &TaskId) -> bool {
    let state = run.progress.task(id);
    let is_there = state.newest().is_some_and(|newest| newest.on == StepPlace::Target);
    let is_under_way = run.state.unfinished.contains_key(id);
    is_there && !is_under_way && (state.status == TaskStatus::Complete || !run.plan.tree.is_leaf(id))
}

/// Whether the target has the completed task, as a rebuilt copy of the step that a commit is.
pub(super) fn has_copy(run: &TreeRun, id: &TaskId, step: CommitId) -> Result<bool, Error> {
    let state = run.progress.task(id);
    let is_there = state.newest().is_some_and(|newest| newest.on == StepPlace::Target);
    Ok(is_there && state.status == TaskStatus::Complete && is_copied(run, id, step)?)
}

/// Whether the target has a rebuilt copy of the step a branch ends with.
fn is_copied(run: &TreeRun, id: &TaskId, tip: CommitId) -> Result<bool, Error> {
    let newest = run.repo.history().message_of(tip)?;
    let tip = print(&newest.message, newest.seconds, newest.offset);
    Ok(run.progress.task(id).newest().is_some_and(|newest| newest.print == tip))
}
