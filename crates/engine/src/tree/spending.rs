//! The spending of a tree run's sessions: the limits of the run and of a task count all of them.

use super::Error;
use super::run::TreeRun;
use crate::env::{RunLedger, Uncounted, spent_in};
use crate::session::TaskSession;
use git::record::{History, root_ref};

/// Has a session count the spending of the run's other sessions.
pub(super) fn tell_spent(run: &mut TreeRun, session: &mut TaskSession) -> Result<(), Error> {
    let spends = run.engine.agent_nodes(session.pipeline()).next().is_some();
    if !spends || !run.engine.budget.counts_runs() {
        return Ok(());
    }
    let ledger = match &run.spending {
        Some(ledger) => ledger.clone(),
        None => tokio::task::block_in_place(|| read_spending(run))?,
    };
    session.run_ledger = Some(ledger.clone());
    run.spending = Some(ledger);
    Ok(())
}

/// Has runs over one tree count what all of them spend.
pub fn share_spending(runs: &mut [TreeRun]) -> Result<(), Error> {
    if runs.len() < 2 || !runs[0].engine.budget.counts_runs() {
        return Ok(());
    }
    let shared = RunLedger::default();
    tokio::task::block_in_place(|| runs.iter().try_for_each(|run| add_spending(run, &shared)))?;
    runs.iter_mut().for_each(|run| run.spending = Some(shared.clone()));
    Ok(())
}

/// Takes the worktree back from a session, and stores its spending.
pub(super) fn take_back(run: &mut TreeRun, session: TaskSession) {
    if let Some(ledger) = &run.spending {
        ledger.set(&session.id().into(), Some(&session.task().id), session.spent());
    }
    run.state.slots.put_back(session.leave());
}

fn read_spending(run: &TreeRun) -> Result<RunLedger, Error> {
    let ledger = RunLedger::default();
    add_spending(run, &ledger)?;
    Ok(ledger)
}

fn add_spending(run: &TreeRun, ledger: &RunLedger) -> Result<(), Error> {
    for id in History::sessions(&run.repo)? {
        let read = || match History::task_summary(&run.repo, &id)? {
            Some(_) => History::newest(&run.repo, &id).map(Some),
            None => Ok(None),
        };
        let read = run.engine.budget.counted(&root_ref(&id), Uncounted::RUN, read())?;
        let Some(history) = read.flatten() else { continue };
        let Some(task) = &history.started.task else { continue };
        if run.plan.has_session_on(task) && was_begun_in_run(run, &history)? {
            ledger.set(&id.into(), Some(&task.id), spent_in(&history).total);
        }
    }
    Ok(())
}

/// Whether a session was started in the run that counts. Within the second of the run's start, only the commits can
/// tell.
fn was_begun_in_run(run: &TreeRun, history: &History) -> Result<bool, Error> {
    let Some(start) = run.progress.run_starts.iter().map(|start| start.at.as_second()).min() else {
        return Ok(true);
    };
    let begun = history.started_at.as_second();
    if begun != start {
        return Ok(begun > start);
    }
    match history.started.built_on() {
        Some(base) => run.is_of_run(base),
        None => Ok(false),
    }
}
