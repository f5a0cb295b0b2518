//! Prevents a run from doing the same work twice for the same reason, however its commits are read.

use super::Error;
use super::run::TreeRun;
use super::run_state::Completed;
use pleach_core::ids::{CommitId, TaskId};

/// The steps that are the reason for working on a task or running a gate. An error if this run has already done so for
/// the same steps: then its commits are misread, and doing it again would not help.
pub(super) fn not_again(run: &TreeRun, task: &TaskId, tasks: &[&TaskId]) -> Result<Vec<CommitId>, Error> {
    let newest = tasks.iter().filter_map(|task| run.progress.task(task).newest());
    let because: Vec<CommitId> = newest.map(|found| found.commit).collect();
    if let Some(did) = run.state.done.get(task).filter(|did| did.because == because)
        && (run.repo.history().is_ancestor(did.landed, run.landing_tip(task)?)?
            || run.repo.history().is_ancestor(did.landed, run.seen)?)
    {
        let status = run.progress.task(task).status.as_str();
        let (because, is_task) = (because.last().copied(), run.plan.tree.is_leaf(task));
        return Err(Error::StillOpen { task: task.clone(), status, because, is_task });
    }
    Ok(because)
}

/// Records that a task was done, or a gate was run, because of these steps.
pub(super) fn note_done(run: &mut TreeRun, task: &TaskId, because: Vec<CommitId>) -> Result<(), Error> {
    let landed = run.landing_tip(task)?;
    run.state.done.insert(task.clone(), Completed { because, landed });
    Ok(())
}
