//! What failed on the branch of a phase that is not gathered any more: its steps go to the target, so that attempts and
//! their feedback are read from there, whatever becomes of the branch.

use super::run::TreeRun;
use super::{Error, bookkeeping, steps};
use crate::engine::landing;
use crate::event::WarningCode;
use crate::ids::{BranchName, CommitId, TaskId};
use crate::merge::LandedBranch;
use crate::progress::{StepPlace, TaskStatus};
use crate::text::listed;

/// How many tasks a message names.
const NAMED: usize = 10;

/// Puts the steps of failed tasks onto the target, without their code, where the phase on whose branch they are does not
/// end there: this run gathers no phases, and nothing is done on that one.
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
            let built = landing::without_code(&run.repo, &mut writer, &steps, target, &logs)?;
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

/// The phases with a branch of their own that do not end there.
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
        // Behind what was decided on the target, older steps would be newer than that.
        let on_branch = state.steps.iter().rev().take_while(|found| found.on == place);
        steps.extend(on_branch.map(|found| (found.at, found.commit)));
    }
    // Each task's are put in order by when they were done, and where that is the same second, as they were read.
    steps.reverse();
    steps.sort_by_key(|(at, _)| *at);
    (tasks, steps.into_iter().map(|(_, commit)| commit).collect())
}
