//! Failed attempts on a phase branch that is no longer used: their steps are copied to the target, so that attempts and
//! feedback are read from there, whatever happens to the branch.

use super::run::TreeRun;
use super::{Error, bookkeeping, steps};
use crate::landing::commits;
use pleach_core::event::WarningCode;
use pleach_core::ids::{BranchName, CommitId, TaskId};
use pleach_core::merge::LandedBranch;
use pleach_core::progress::{StepPlace, TaskStatus};
use pleach_core::text::listed;

/// Number of tasks a message names.
const NAMED: usize = 10;

/// Copies the steps of failed tasks to the target, without their code, if their phase branch is no longer used: this
/// run gives phases no branches, and no completed work is on that one.
pub(super) fn bring_failed_attempts(run: &mut TreeRun) -> Result<(), Error> {
    for (phase, branch, tip) in left_phases(run) {
        let (tasks, steps) = failed_on(run, &phase);
        if steps.is_empty() {
            continue;
        }
        let make = |target: CommitId| -> Result<_, Error> {
            let base = run.repo.history().merge_base(tip, target)?.unwrap_or(target);
            let logs = steps::logs_of(run, base, tip)?;
            let mut writer = run.repo.writer();
            let built = commits::without_code(&run.repo, &mut writer, &steps, target, &logs)?;
            writer.flush()?;
            Ok(built.last().copied())
        };
        let target = run.target_of(run.plan.target.clone());
        let landed = tokio::task::block_in_place(|| bookkeeping::land(&run.repo, target, make))?;
        if let Some(LandedBranch { from, commit, .. }) = landed {
            run.state.approved.extend(from.as_slice(), commit);
            run.read_again()?;
            run.engine.warn(WarningCode::FailedAttemptsLanded.with(format!(
                "the failed attempts at {} on `{branch}` are on {} now ({})",
                listed(tasks, NAMED),
                run.plan.target,
                commit.short()
            )));
        }
    }
    Ok(())
}

/// The phases with a branch that is no longer used.
fn left_phases(run: &TreeRun) -> Vec<(TaskId, BranchName, CommitId)> {
    let open = run.progress.open.iter().filter_map(|branch| match &branch.place {
        StepPlace::Phase(phase) if !run.schedule.gathers(phase) => {
            Some((phase.clone(), branch.name.clone(), branch.tip))
        }
        _ => None,
    });
    open.collect()
}

/// The tasks whose last budget failed on the branch of a phase, and their steps there, oldest first.
fn failed_on(run: &TreeRun, phase: &TaskId) -> (Vec<TaskId>, Vec<CommitId>) {
    let place = StepPlace::Phase(phase.clone());
    let failed = run.progress.tasks().filter(|(_, state)| {
        state.status == TaskStatus::Failed && state.newest().is_some_and(|newest| newest.on == place)
    });
    let (mut tasks, mut steps) = (Vec::new(), Vec::new());
    for (task, state) in failed {
        tasks.push(task.clone());
        // Copied after a later decision on the target, older steps would count as newer than it.
        let on_branch = state.steps.iter().rev().take_while(|found| found.on == place);
        steps.extend(on_branch.map(|found| (found.at, found.commit)));
    }
    // The steps of each task are ordered by date, and within the same second as they were read.
    steps.reverse();
    steps.sort_by_key(|(at, _)| *at);
    (tasks, steps.into_iter().map(|(_, commit)| commit).collect())
}
