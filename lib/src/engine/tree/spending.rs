//! The spending of a tree run's sessions: the limits of the run and of a task count all of them.

use super::Error;
use super::run::TreeRun;
use super::run_state::Spending;
use crate::engine::budget::{Earlier, Uncounted, spent_in};
use crate::engine::task::TaskSession;
use crate::record::{History, root_ref};

/// Passes the spending of the run's other sessions to a session.
pub(super) fn tell_spent(run: &mut TreeRun, session: &mut TaskSession) -> Result<(), Error> {
    let spends = run.engine.agent_nodes(session.pipeline()).next().is_some();
    if !spends || !run.engine.budget.counts_runs() {
        return Ok(());
    }
    let spending = match run.spending.take() {
        Some(spending) => spending,
        None => tokio::task::block_in_place(|| read_spending(run))?,
    };
    let (own, task) = (session.id(), &session.task().id);
    let others = spending.iter().filter(|(id, _)| *id != own).map(|(_, spent)| spent);
    let mut earlier = Earlier::default();
    for (of, amount) in others {
        earlier.run += *amount;
        if of == task {
            earlier.task += *amount;
        }
    }
    session.earlier = earlier;
    run.spending = Some(spending);
    Ok(())
}

/// Takes the worktree back from a session, and stores its spending.
pub(super) fn take_back(run: &mut TreeRun, session: TaskSession) {
    if let Some(spending) = &mut run.spending {
        let spent = (session.task().id.clone(), session.spent());
        spending.insert(session.id().clone(), spent);
    }
    run.state.worktree = Some(session.leave());
}

fn read_spending(run: &TreeRun) -> Result<Spending, Error> {
    let mut spending = Spending::new();
    for id in History::sessions(&run.repo)? {
        let read = || match History::task_summary(&run.repo, &id)? {
            Some(_) => History::newest(&run.repo, &id).map(Some),
            None => Ok(None),
        };
        let read = run.engine.budget.counted(&root_ref(&id), Uncounted::RUN, read())?;
        let Some(history) = read.flatten() else { continue };
        let Some(task) = &history.started.task else { continue };
        let is_of_tree = task.target == run.plan.target && task.tree == run.plan.path;
        if is_of_tree && was_begun_in_run(run, &history)? {
            spending.insert(id, (task.id.clone(), spent_in(&history).total));
        }
    }
    Ok(spending)
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
