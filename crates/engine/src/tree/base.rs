//! Which commit a new session on a task is based on, and which code of earlier attempts it starts with.

use std::sync::Arc;

use super::foreign_commits::{self, last_unverified_step};
use super::refusal_reasons::begins_anew;
use super::run::TreeRun;
use super::{Error, keep, phase, steps};
use git::workspace::branch_ref;
use git::{CommitSpec, MergeError, Person, TreeId};
use pleach_core::clock;
use pleach_core::event::WarningCode;
use pleach_core::ids::{BranchName, CommitId, TaskId};
use pleach_core::progress::{StepCommit, TaskState, TaskStatus};
use pleach_core::step::StepKind;

/// Where a session on a task starts.
pub(super) struct Beginning {
    pub(super) branch: BranchName,
    /// The commit the session is built on.
    pub(super) base: CommitId,
    /// The commit the task was built on before its first attempt.
    pub(super) task_base: CommitId,
    /// The step it continues after.
    pub(super) after: Option<StepKind>,
    /// The status of the newest step on the branch.
    pub(super) status: Option<String>,
    /// Files of an earlier budget, overlaid on the base.
    pub(super) laid: Option<CommitId>,
}

/// Where a new session on a task starts: at the tip of its branch, or at the tip it will land on.
pub(super) fn beginning(run: &TreeRun, task: &TaskId) -> Result<Beginning, Error> {
    let branch = run.branch_of(task)?;
    let name = branch_ref(&branch);
    let state = run.progress.task(task);
    let is_leaf = run.plan.tree.is_leaf(task);
    if is_leaf {
        phase::bring_phase(run, task)?;
    }
    let base = if is_leaf { run.landing_tip(task)? } else { phase::gate_base(run, task)? };
    let tip = run.repo.refs().find(&name)?;
    if let Some(tip) = tip.filter(|_| is_leaf && is_open(state)) {
        run.state.approved.require(task, tip)?;
        let task_base = own_base(run, task, tip, base)?.unwrap_or(base);
        let (behind, newest) = if foreign_commits::has_changed_since(run, state, tip, base)? {
            run.engine.warn(WarningCode::CodeNewerThanSteps.with(format!(
                "{task} has code on `{branch}` that is newer than its steps: its tests and its review are done again"
            )));
            (last_unverified_step(state), last_unverified_step(state))
        } else {
            (state.unfinished().last().map(Arc::as_ref), state.newest())
        };
        let after = behind.map(|found| found.step.kind.clone());
        let status = newest.map(|found| found.step.status());
        return Ok(Beginning { branch, base: tip, task_base, after, status, laid: None });
    }
    if is_leaf {
        run.state.approved.require(task, base)?;
    }
    // The branch belongs to ended work. It is recreated once the session is recorded; commits only it has are kept,
    // which tells the session that it may move the branch.
    let mut kept = None;
    if let Some(tip) = tip
        && !run.repo.history().is_ancestor(tip, base)?
    {
        // A checked-out branch cannot be moved, so the new work would be on no branch.
        if let Some(checkout) = git::checkouts_of(&run.repo, &branch)?.into_iter().next() {
            return Err(begins_anew(task, branch, &checkout));
        }
        kept = Some((tip, keep::keep(run, task, tip)?));
    }
    let laid = lay_last_budget(run, task, base, kept)?;
    Ok(Beginning { branch, base, task_base: base, after: None, status: None, laid })
}

/// The code with which a failed task starts another budget. Warns where it is kept, and where the other commits of the
/// task's branch are.
fn lay_last_budget(
    run: &TreeRun,
    task: &TaskId,
    base: CommitId,
    kept: Option<(CommitId, String)>,
) -> Result<Option<CommitId>, Error> {
    let last = last_budget(run, task, base, kept.as_ref())?;
    let laid = last.as_ref().map(|(tip, _)| old_code(run, task, *tip, base)).transpose()?.flatten();
    if let Some((tip, _)) = last.as_ref().filter(|_| laid.is_some()) {
        run.state.approved.require(task, *tip)?;
    }
    if let Some((tip, name)) = kept.filter(|kept| last.as_ref() != Some(kept))
        && !are_earlier_runs(run, task, tip, base)?
    {
        let branch = run.branch_of(task)?;
        run.engine.warn(
            WarningCode::TaskBranchRestarted.with(format!("`{branch}` is restarted; what it had is kept at {name}")),
        );
    }
    let Some((_, name)) = last else {
        let branch = run.branch_of(task)?;
        let is_gone = run.repo.refs().find(&branch_ref(&branch))?.is_none();
        let state = run.progress.task(task);
        if is_gone && state.status == TaskStatus::Failed && state.had_branch() {
            run.engine.warn(
                WarningCode::CodeMissing.with(format!(
                    "{task} starts clean: `{branch}`, which had the code of its last attempt, is missing"
                )),
            );
        }
        return Ok(None);
    };
    run.engine.warn(match laid {
        Some(_) => {
            let text = format!("{task} continues with the code of its last attempt ({name})");
            WarningCode::CodeContinued.with(text)
        }
        None => WarningCode::CodeConflicts.with(format!(
            "{task} starts clean: the code of its last attempt conflicts with `{}`; it is kept at {name}",
            run.plan.target
        )),
    });
    Ok(laid)
}

/// Whether a branch has nothing but results of earlier runs of a phase's tests, which landed or were dropped.
fn are_earlier_runs(run: &TreeRun, gate: &TaskId, tip: CommitId, base: CommitId) -> Result<bool, Error> {
    if run.plan.tree.is_leaf(gate) {
        return Ok(false);
    }
    let Some(shared) = run.repo.history().merge_base(tip, base)? else { return Ok(false) };
    for commit in steps::chain(run, tip, shared)? {
        let is_run = |found: StepCommit| found.step.task.as_ref() == Some(gate);
        // They may have run on a merge that was never made.
        if run.repo.commit(commit)?.parents.len() < 2 && !steps::found(run, commit)?.is_some_and(is_run) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Where the code of a failed task is kept: the former content of its branch, unless that belongs to another tree by
/// now. If the user removed the branch, the task starts without it.
pub(super) fn last_budget(
    run: &TreeRun,
    task: &TaskId,
    base: CommitId,
    kept: Option<&(CommitId, String)>,
) -> Result<Option<(CommitId, String)>, Error> {
    let state = run.progress.task(task);
    let Some(newest) = state.newest().filter(|_| state.status == TaskStatus::Failed) else { return Ok(None) };
    if let Some(kept) = kept
        && has_no_step_of_others(run, kept.0, base)?
    {
        return Ok(Some(kept.clone()));
    }
    let left = foreign_commits::left_at(run, newest)?;
    Ok(keep::kept_at(run, task, left)?.map(|name| (left, name)))
}

/// The commit that the work on a task's branch is built on: the last step of another task below it, or the merge base
/// with the branch it would land on. The work may have started on the branch of a phase that the task no longer belongs
/// to.
fn own_base(run: &TreeRun, task: &TaskId, tip: CommitId, onto: CommitId) -> Result<Option<CommitId>, Error> {
    let Some(shared) = run.repo.history().merge_base(tip, onto)? else { return Ok(None) };
    let steps = steps::steps_ahead(run, tip, onto)?;
    let of_another = steps.iter().rev().find(|found| found.step.task.as_ref() != Some(task));
    Ok(Some(of_another.map_or(shared, |found| found.commit)))
}

/// Whether the newest step of a branch does not belong to another tree.
fn has_no_step_of_others(run: &TreeRun, tip: CommitId, base: CommitId) -> Result<bool, Error> {
    let steps = steps::steps_ahead(run, tip, base)?;
    Ok(steps.last().is_none_or(|newest| newest.step.tree.is_none() || run.plan.name.has_step(&newest.step)))
}

/// The files of an earlier budget on another base; `None` if they conflict.
pub(super) fn old_files(run: &TreeRun, task: &TaskId, tip: CommitId, base: CommitId) -> Result<Option<TreeId>, Error> {
    let Some(old_base) = own_base(run, task, tip, base)? else { return Ok(None) };
    let tree = |commit| run.repo.tree_of(commit);
    match git::merge::merge_trees(&run.repo, tree(old_base)?, tree(base)?, tree(tip)?) {
        Ok(merged) => Ok(Some(merged)),
        Err(MergeError::Conflict(_) | MergeError::Git(git::Error::Overwritten { .. })) => Ok(None),
        Err(MergeError::Git(error)) => Err(error.into()),
    }
}

/// A commit with these files.
fn old_code(run: &TreeRun, task: &TaskId, tip: CommitId, base: CommitId) -> Result<Option<CommitId>, Error> {
    let Some(merged) = old_files(run, task, tip, base)? else { return Ok(None) };
    // Only the session's record refers to it, so that it exists when the session resumes after a crash.
    let mut writer = run.repo.writer();
    let laid = writer.commit(&CommitSpec {
        tree: merged,
        parents: vec![base],
        author: Person::pleach(),
        committer: Person::pleach(),
        at: clock::now(),
        message: format!("Lay the code of the budget before under {task}\n").into_bytes(),
    })?;
    writer.flush()?;
    Ok(Some(laid))
}

/// Whether the newest step of a task is on its branch.
pub(super) fn is_open(state: &TaskState) -> bool {
    !state.landed && !state.steps.is_empty()
}
