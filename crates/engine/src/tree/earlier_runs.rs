//! Sessions of earlier runs on the tasks of a tree.

use std::sync::Arc;

use super::run::TreeRun;
use super::unfinished::{Before, Unfinished, is_gate, newest_of_each, state_of};
use super::{Error, spending};
use crate::session::TaskSession;
use git::record::History;
use pleach_core::event::TaskOf;
use pleach_core::ids::{CommitId, SessionId, TaskId};
use pleach_core::merge;
use pleach_core::progress::StepCommit;
use pleach_core::state::Phase;

/// Finds the unfinished sessions of this tree's tasks that count in this run, and those of landed tasks without a step
/// in the progress.
pub(super) fn find_left(run: &mut TreeRun) -> Result<(), Error> {
    let Before { open, landed } = Before::of(&run.repo, &run.plan.target, |_| true)?;
    let found =
        newest_of_each(open, |history, task| Ok(run.plan.has_session_on(task) && is_unfinished(run, history, task)?))?;
    let known = |history: History| Unfinished { id: history.session, first: history.first, given: false };
    run.state.unfinished = found.into_iter().map(|(task, history)| (task, known(history))).collect();
    for (task, id) in landed {
        let is_its = |found: &Arc<StepCommit>| found.step.session.as_ref() == Some(&id);
        if !run.progress.task(&task).steps.iter().any(is_its) {
            run.state.lost.entry(task).or_default().push(id);
        }
    }
    Ok(())
}

/// Leaves a session that resumes once its content is approved.
pub(super) fn leave(run: &mut TreeRun, session: TaskSession) -> Result<(), Error> {
    let (task, id) = (session.task().id.clone(), session.id().clone());
    spending::take_back(run, session);
    let history = History::newest(&run.repo, &id)?;
    run.state.unfinished.insert(task, Unfinished { id, first: history.first, given: false });
    Ok(())
}

/// The newest session in which a task landed that must be done again, because its branch was removed or reset, or is
/// not in this clone; with the landed commit.
pub(super) fn lost(run: &TreeRun, task: &TaskId) -> Result<Option<(SessionId, CommitId)>, Error> {
    let newest = run.progress.task(task).newest();
    let mut lost: Option<(History, CommitId)> = None;
    for id in run.state.lost.get(task).into_iter().flatten() {
        // An unreadable session says nothing.
        let Ok(history) = History::newest(&run.repo, id) else { continue };
        let Ok(state) = state_of(&history) else { continue };
        let Some(work) = &state.task else { continue };
        let Some(landed) = work.landed else { continue };
        let is_of_task = run.plan.has_session_on(&work.of) && !is_gate(&history.started);
        let is_newest = !newest.map_or(Ok(false), |newest| is_since(run, newest, &history))?
            && lost.as_ref().is_none_or(|(other, _)| other.started_at < history.started_at);
        if is_of_task
            && is_newest
            && run.is_of_run(history.started.built_on().unwrap_or(work.of.base))?
            && !run.is_on_target(task, landed)?
        {
            lost = Some((history, landed));
        }
    }
    Ok(lost.map(|(history, landed)| (history.session, landed)))
}

/// Whether a step was made after a session started, so that its decision counts. Commit dates have whole seconds:
/// within the second of the start, only the session's base can tell.
fn is_since(run: &TreeRun, step: &StepCommit, history: &History) -> Result<bool, Error> {
    let (committed, started) = (step.at.as_second(), history.started_at.as_second());
    match history.started.built_on().filter(|_| committed == started) {
        Some(base) => Ok(!run.repo.history().is_ancestor(step.commit, base)?),
        None => Ok(committed > started),
    }
}

/// Whether a session counts in this run. If its task landed but its process ended before recording that, it is recorded
/// now.
fn is_unfinished(run: &TreeRun, history: &History, task: &TaskOf) -> Result<bool, Error> {
    let Ok(state) = state_of(history) else { return Ok(false) };
    let Some(work) = state.task.as_ref().filter(|work| work.landed.is_none()) else { return Ok(false) };
    if let Some(worktree) = run.state.slots.free()
        && merge::has_landed(&work.landing, |landing| run.is_on_target(&task.id, landing.to))?
    {
        TaskSession::close_landed(run.engine.clone(), run.repo.clone(), &history.session, worktree)?;
        return Ok(false);
    }
    // Sessions started before the run that counts do not belong to this run.
    let base = history.started.built_on().unwrap_or(task.base);
    let is_of_run = run.is_of_run(base)?;
    Ok(is_of_run && !run.plan.fresh && state.phase != Phase::Cancelled)
}
