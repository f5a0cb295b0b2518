//! The start of a run: its opening commit, the sessions of earlier runs, and a check for changes by others.

use std::sync::Arc;

use super::ended::TreeEnded;
use super::run::{TreeRun, target_tip};
use super::tree_edits::was_edited;
use super::{Error, bookkeeping, delete_branches, failed_attempts, refusal_reasons};
use crate::landing::{MergeQueue, QueueError, QueueRun, close_landed, withdraw_task};
use git::workspace::{LockError, phase_branch};
use git::{CommitSpec, Person, Repo, Writer};
use pleach_core::clock;
use pleach_core::config::Isolation;
use pleach_core::event::{RunStarted, Warning, WarningCode};
use pleach_core::ids::{BranchName, CommitId, TaskId};
use pleach_core::merge::LandedBranch;
use pleach_core::plan::tree::TaskNode;
use pleach_core::progress::{Progress, TaskState};
use pleach_core::queue::QueueEntry;
use pleach_core::schedule::{self, NextAction};
use pleach_core::step::Step;
use pleach_core::trailer::CommitMessage;

/// Writes the opening commit if needed, and cleans up after earlier runs. Returns a value if the run cannot start.
pub(super) fn begin_run(run: &mut TreeRun) -> Result<Option<TreeEnded>, Error> {
    if !run.greeted {
        settle_queue(run)?;
    }
    if run.begins_now() {
        match schedule::next(&run.plan.tree, &run.progress.anew(), &run.plan.limits) {
            NextAction::OtherTree(taken) => return Ok(Some(TreeEnded::Refused(refusal_reasons::taken(run, taken)?))),
            NextAction::Unreadable(unread) => {
                return Ok(Some(TreeEnded::Refused(refusal_reasons::unread(run, unread))));
            }
            _ => {}
        }
        restart_warnings(&run.progress).into_iter().for_each(|warning| run.engine.warn(warning));
        if run.plan.fresh {
            withdraw_earlier(run)?;
        }
        start(run)?;
    }
    if !std::mem::replace(&mut run.greeted, true) {
        gathered_before(run).into_iter().for_each(|warning| run.engine.warn(warning));
        failed_attempts::bring_failed_attempts(run)?;
        // An earlier run may have been killed before doing this.
        delete_branches::delete_landed_branches(run)?;
    }
    Ok(None)
}

/// Closes entries of the merge queue whose tasks have landed, where an earlier run was killed before doing this.
fn settle_queue(run: &TreeRun) -> Result<(), Error> {
    let (Some(landing), target) = (&run.plan.queue, &run.plan.target) else { return Ok(()) };
    let is_own = |entry: &QueueEntry| {
        entry.is_repairable() && entry.task.as_ref().is_some_and(|task| run.plan.tree.is_leaf(task))
    };
    if !MergeQueue::read(&run.repo, target)?.entries().iter().any(is_own) {
        return Ok(());
    }
    let (engine, repo, name) = (Arc::clone(&run.engine), run.repo.clone(), run.plan.repo_name.clone());
    match QueueRun::open(engine, repo, name, target.clone(), landing.settings.clone()) {
        Ok(queue) => tokio::task::block_in_place(|| queue.settle())?,
        // Whoever has it does the same.
        Err(QueueError::Lock(LockError::Held { .. })) => {}
        Err(error) => return Err(error.into()),
    }
    close_copied(run)
}

/// Closes entries whose work a run has landed itself, as a copy: the queue would merge it once more, also after somebody
/// has taken it back.
fn close_copied(run: &TreeRun) -> Result<(), Error> {
    for stored in MergeQueue::read(&run.repo, &run.plan.target)?.open {
        let Some(task) = stored.entry.task.as_ref().filter(|_| stored.entry.is_repairable()) else { continue };
        if run.plan.tree.is_leaf(task) && delete_branches::has_copy(run, task, stored.entry.head)? {
            close_landed(&run.repo, &stored, &run.engine.redactor)?;
        }
    }
    Ok(())
}

/// Takes what earlier runs have queued out of the merge queue: it is done again.
fn withdraw_earlier(run: &TreeRun) -> Result<(), Error> {
    let target = &run.plan.target;
    for stored in MergeQueue::read(&run.repo, target)?.open {
        if let Some(task) = stored.entry.task.filter(|task| run.plan.tree.is_leaf(task)) {
            withdraw_task(&run.repo, target, &task, &run.engine.redactor)?;
        }
    }
    Ok(())
}

/// Warnings about phases that end on their own branch although this run gives phases none.
fn gathered_before(run: &TreeRun) -> Vec<Warning> {
    let warning = |phase: &TaskNode| {
        let branch = phase_branch(&run.plan.branch_prefix, &run.plan.target, &phase.id).ok()?;
        let text = format!("{} ends on `{branch}`, where it started", phase.id);
        Some(WarningCode::PhaseBranchContinued.with(text))
    };
    let in_phases = run.plan.limits.isolation == Isolation::Phase;
    run.plan.tree.nodes().filter(|node| !in_phases && run.schedule.gathers(&node.id)).filter_map(warning).collect()
}

/// Starts the run with one commit on the target that changes no file.
pub(super) fn start(run: &mut TreeRun) -> Result<(), Error> {
    let Some(path) = run.plan.name.file() else { return Ok(()) };
    let target = run.target_of(run.plan.target.clone());
    let make = |tip: CommitId| -> Result<_, Error> {
        let mut writer = run.repo.writer();
        let commit = run_start(&run.repo, &mut writer, &run.plan.target, path, tip)?;
        writer.flush()?;
        Ok(Some(commit))
    };
    let landed = tokio::task::block_in_place(|| bookkeeping::land(&run.repo, target, make))?;
    run.state.opened = true;
    if let Some(LandedBranch { from, commit, .. }) = landed {
        run.state.approved.extend(from.as_slice(), commit);
        run.engine.tell(RunStarted {
            tree: path.to_owned(),
            repo: run.plan.repo_name.clone(),
            target: run.plan.target.clone(),
            commit,
            extra: Default::default(),
        });
    }
    run.read_again()
}

/// Warnings about the work that a restarted tree leaves behind.
pub fn restart_warnings(progress: &Progress) -> Vec<Warning> {
    let words = |(task, state): (&TaskId, &TaskState)| {
        let stands = if state.status.is_over() { "is finished and waits to land" } else { "is under way" };
        let text = format!("{task} {stands}, and is done again; what its branch has is kept");
        WarningCode::TaskRestarted.with(text)
    };
    progress.not_landed().map(words).collect()
}

/// The commit that starts a run, on top of another. It changes no file.
pub(super) fn run_start(
    repo: &Repo,
    writer: &mut Writer,
    target: &BranchName,
    tree: &str,
    on: CommitId,
) -> Result<CommitId, git::Error> {
    writer.commit(&CommitSpec {
        tree: repo.tree_of(on)?,
        parents: vec![on],
        author: Person::pleach(),
        committer: Person::pleach(),
        at: clock::now(),
        message: start_message(target, tree).write().into_bytes(),
    })
}

/// The message of the commit that starts a run.
pub(super) fn start_message(target: &BranchName, tree: &str) -> CommitMessage {
    Step::run_start(tree).message(target.as_str(), "", None, "")
}

/// Checks for changes by others: on the target, and to the tree's file.
pub(super) fn look_around(run: &mut TreeRun) -> Result<(), Error> {
    look_again(run)?;
    if was_edited(&run.repo, &run.plan, &mut run.stamp) {
        let edited = format!("{} was edited; the change applies from the next run", run.plan.name);
        run.engine.warn(WarningCode::TreeEditedMeanwhile.with(edited));
    }
    Ok(())
}

/// Reads the progress again if another process moved the target.
fn look_again(run: &mut TreeRun) -> Result<(), Error> {
    if target_tip(&run.repo, &run.plan.target)? != run.seen { run.read_again() } else { Ok(()) }
}
