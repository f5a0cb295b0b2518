//! Detects code on a task's branch that its steps do not cover. Anyone can commit to the branch: such commits are
//! tested and reviewed before they land.

use super::Error;
use super::run::TreeRun;
use super::unfinished::state_of;
use git::record::History;
use pleach_core::ids::CommitId;
use pleach_core::progress::{StepCommit, TaskState};
use pleach_core::step::{StepKind, report};

/// Whether the code on a task's branch differs from its newest step, if the task continues after that step or lands it,
/// or whether the branch has since merged more of `onto`.
pub(super) fn has_changed_since(
    run: &TreeRun,
    state: &TaskState,
    tip: CommitId,
    onto: CommitId,
) -> Result<bool, Error> {
    let newest = state.at_attempt().last();
    let Some(left) = newest.map(|newest| left_at(run, newest)).transpose()?.filter(|left| *left != tip) else {
        return Ok(false);
    };
    let changes = git::diff::changes(&run.repo, run.repo.tree_of(left)?, run.repo.tree_of(tip)?)?;
    let is_code = changes.iter().any(|change| !report::is_own(&change.path, &run.plan.logs, &run.plan.reports));
    // A merge can leave the files unchanged and still undo the work of the other side.
    Ok(is_code || run.repo.history().merge_base(left, onto)? != run.repo.history().merge_base(tip, onto)?)
}

/// The commit of a step as its session made it: a commit amended by hand still claims the same. If the record is gone
/// or describes another step, the commit as it is.
pub(super) fn left_at(run: &TreeRun, step: &StepCommit) -> Result<CommitId, Error> {
    let recorded = step.step.session.as_ref().and_then(|session| {
        let history = History::newest(&run.repo, session).ok()?;
        state_of(&history).ok()?.task
    });
    let same = recorded.filter(|work| work.status.as_deref() == Some(&step.step.status()));
    Ok(same.map_or(step.commit, |work| work.step))
}

/// The step after which a task with changed code continues: earlier test and review results no longer hold.
pub(super) fn last_unverified_step(state: &TaskState) -> Option<&StepCommit> {
    let steps = || state.at_attempt().iter().map(AsRef::as_ref);
    let is_look = |found: &&StepCommit| matches!(found.step.kind, StepKind::Test | StepKind::Review);
    let before_tests = || steps().take_while(|found| !is_look(found)).last();
    steps().find(|found| found.step.kind == StepKind::Implement).or_else(before_tests)
}
