//! Collects the sessions and commits a run needs approval for, and refuses all others.

use std::collections::BTreeSet;

use super::base::{self, is_open};
use super::pending_trust::{PendingTrust, TaskBase};
use super::run::{TreeRun, target_tip};
use super::unfinished::{OpenSession, Unfinished, state_of};
use super::{Error, phase, resume};
use git::TreeId;
use git::record::History;
use git::workspace::{branch_ref, phase_branch};
use pleach_core::ids::{BranchName, CommitId, TaskId};
use pleach_core::progress::TaskStatus;
use pleach_core::schedule::{NextAction, Schedule, ScheduleOptions};

/// What this run may currently work with. It uses nothing else, and ends with
/// [`TreeEnded::Unasked`](super::TreeEnded::Unasked) if it would need to.
pub fn pending_trust(run: &mut TreeRun) -> Result<PendingTrust, Error> {
    let reached = run.state.approved.reached.take();
    let built = run.state.approved.built.iter().map(|commit| run.repo.tree_of(*commit));
    let mut brought = PendingTrust { landed: built.collect::<Result<_, _>>()?, ..PendingTrust::default() };
    let target = target_tip(&run.repo, &run.plan.target)?;
    give_start(run, &mut brought, run.plan.target.clone(), target, None)?;
    // A run that starts now ignores earlier work.
    if run.begins_now() {
        return Ok(brought);
    }
    let mut wanted: BTreeSet<TaskId> = reached.iter().cloned().collect();
    if let Some(only) = scope(run) {
        wanted.extend(begun(run, only.as_ref()));
        // An unreadable branch is skipped here; the run reports it when it gets there.
        for (branch, tip) in gathered(run, only.as_ref(), target) {
            let _ = give_start(run, &mut brought, branch, tip, None);
        }
    }
    for task in wanted {
        let given = give(run, &mut brought, &task);
        if reached.as_ref() == Some(&task) {
            given.map_err(|error| error.at(&task, &run.repo))?;
        }
    }
    Ok(brought)
}

/// The only task of this run, if it has just one. The outer `None` means that the run ends before it works on any.
fn scope(run: &TreeRun) -> Option<Option<TaskId>> {
    let chosen = run.state.chosen.clone();
    match run.next() {
        NextAction::Work { task, .. } | NextAction::GiveUp { task, .. } | NextAction::Land(task) if run.plan.one => {
            Some(chosen.or(Some(task)))
        }
        // The task after tests and merges is not known yet.
        NextAction::Work { .. }
        | NextAction::GiveUp { .. }
        | NextAction::Land(_)
        | NextAction::Gate(_)
        | NextAction::MergePhase(_) => Some(chosen),
        NextAction::Stranded(_) | NextAction::OtherTree(_) | NextAction::Unreadable(_) | NextAction::Stalled(_) => None,
        NextAction::Done | NextAction::Failed(_) | NextAction::GateRed(_) => None,
    }
}

/// The started tasks that the run may reach.
fn begun(run: &TreeRun, only: Option<&TaskId>) -> Vec<TaskId> {
    let limits = ScheduleOptions { only: only.cloned(), ..run.plan.limits.clone() };
    let schedule = Schedule::new(&run.plan.tree, &run.progress, limits);
    let begun = run.progress.tasks().map(|(task, _)| task).chain(run.state.unfinished.keys());
    begun.filter(|task| schedule.may_come_to(task)).cloned().collect()
}

/// The phase branches that tasks start from, or that are merged before others start.
fn gathered(run: &TreeRun, only: Option<&TaskId>, target: CommitId) -> Vec<(BranchName, CommitId)> {
    let tree = &run.plan.tree;
    let is_wanted = |phase: &&TaskId| only.is_none_or(|only| tree.phase_of(only) == *phase);
    let stands = |phase: &TaskId| {
        let branch = phase_branch(&run.plan.branch_prefix, &run.plan.target, phase).ok()?;
        let tip = run.repo.refs().find(&branch_ref(&branch)).ok()??;
        phase::goes_on(run, phase, &branch, tip, target).ok()?.then_some((branch, tip))
    };
    // Most are merged, and no task starts there.
    let is_of_use = |phase: &&TaskId| {
        run.schedule.is_ahead(phase) || tree.leaves_below(phase).iter().any(|leaf| run.schedule.may_come_to(leaf))
    };
    let gathered = tree.roots().iter().filter(|phase| run.schedule.gathers(phase)).filter(is_wanted);
    gathered.filter(is_of_use).filter_map(stands).collect()
}

/// Adds what a task would resume: its unfinished session, or the commits on its branch.
fn give(run: &mut TreeRun, brought: &mut PendingTrust, task: &TaskId) -> Result<(), Error> {
    if let Some(left) = would_take_up(run, task)? {
        run.state.approved.commits.extend(&left.at);
        run.state.unfinished.entry(task.clone()).and_modify(|unfinished| unfinished.given = true);
        brought.left.push(left);
        return Ok(());
    }
    let branch = run.branch_of(task)?;
    let tip = run.repo.refs().find(&branch_ref(&branch))?;
    let state = run.progress.task(task);
    if let Some(tip) = tip.filter(|_| is_open(state)) {
        return give_start(run, brought, branch, tip, None);
    }
    let (is_failed, base) = (state.status == TaskStatus::Failed, phase::base_of(run, task)?);
    give_start(run, brought, run.lands_on(task)?, base, None)?;
    if is_failed {
        let is_ahead = tip.map(|tip| run.repo.history().is_ancestor(tip, base)).transpose()? == Some(false);
        let kept = tip.filter(|_| is_ahead).map(|tip| (tip, String::new()));
        if let Some((from, _)) = base::last_budget(run, task, base, kept.as_ref())?
            && let Some(files) = base::old_files(run, task, from, base)?
        {
            give_start(run, brought, branch, from, Some(files))?;
        }
    }
    Ok(())
}

/// The session a task would currently resume.
fn would_take_up(run: &TreeRun, task: &TaskId) -> Result<Option<OpenSession>, Error> {
    let Some(Unfinished { id, first, .. }) = run.state.unfinished.get(task) else { return Ok(None) };
    let Some(node) = run.plan.tree.node(task) else { return Ok(None) };
    let Ok(history) = History::newest(&run.repo, id) else { return Ok(None) };
    if history.first != *first {
        return Ok(None);
    }
    Ok(resume::resumable(run, node, &history, &state_of(&history)?)?.ok())
}

/// Adds a commit that agents may start from, or the files made from it on their branch.
fn give_start(
    run: &mut TreeRun,
    brought: &mut PendingTrust,
    branch: BranchName,
    commit: CommitId,
    files: Option<TreeId>,
) -> Result<(), Error> {
    let files = files.map_or_else(|| run.repo.tree_of(commit), Ok)?;
    if !brought.starts.iter().any(|start| start.files == files) {
        brought.starts.push(TaskBase { branch, files });
    }
    run.state.approved.commits.insert(commit);
    Ok(())
}
