//! Explains why work waits for a person, and how to continue.

use std::collections::BTreeSet;
use std::path::Path;

use super::refusal::{First, Refusal, RefusalCode};
use super::run::TreeRun;
use super::{Error, steps};
use git::record::History;
use git::workspace::branch_ref;
use pleach_core::ids::{BranchName, SessionId, TaskId};
use pleach_core::progress::{OpenBranch, OtherTreeState, OtherTreeWork, StepPlace, StrandedWork, UnreadableBranch};
use pleach_core::step::TreeName;
use pleach_core::text::shell_word;

/// The refusal for work that no task or phase of the tree lands: without one, nothing can test it.
pub(super) fn unsettled(run: &TreeRun, stray: StrandedWork) -> Result<Refusal, Error> {
    let StrandedWork { id, lacks, branch: OpenBranch { name: branch, place, .. }, tasks } = stray;
    let of_task = matches!(place, StepPlace::Task(_));
    let drop = dropped(run, &branch, run.progress.task(&id).session.clone().filter(|_| of_task), &tasks)?;
    let why = format!(
        "{id} {lacks}; merge it with `git merge {}`, or drop it with `{drop}`, and run again",
        shell_word(&branch)
    );
    Ok(Refusal::new(id, true, branch, RefusalCode::Stray, why))
}

/// The refusal for a branch that another tree uses: its work is for that tree to finish.
pub(super) fn taken(run: &TreeRun, taken: OtherTreeWork) -> Result<Refusal, Error> {
    let OtherTreeWork { branch: OpenBranch { name: branch, place, .. }, id: task, tree, stands, session, tasks } =
        taken;
    let has = match (&place, stands) {
        (StepPlace::Phase(_), _) => format!("has tasks of {tree} that are not merged"),
        (_, OtherTreeState::Waiting) => format!("has {task} of {tree}, which is finished and waits to land"),
        _ => format!("has {task} of {tree}, which is under way"),
    };
    let place_of = |path: &str| run.repo.workdir().map(|root| root.join(path)).filter(|file| file.is_file());
    let file = tree.file().and_then(place_of);
    let first = match (&tree, &file) {
        (TreeName::Tasks, _) => format!("resume it with `pleach task start {task}` first"),
        (_, Some(_)) => format!("resume {tree} first"),
        (_, None) => format!("restore {tree}, which is missing, and resume it first"),
    };
    let drop = dropped(run, &branch, session, &tasks)?;
    let why = format!("that branch {has}; {first}, or drop it with `{drop}`, and run again");
    let gathers = matches!(place, StepPlace::Phase(_));
    let first = file.map(|file| First { file, gathers });
    Ok(Refusal { first, ..Refusal::new(task, false, branch, RefusalCode::Taken, why) })
}

/// The refusal for an unreadable branch: a person decides whether its work is done again.
pub(super) fn unread(run: &TreeRun, unread: UnreadableBranch) -> Refusal {
    let why = format!("{}; then {}", unread.why, run.progress.remedy(&unread, &run.plan.tree));
    Refusal::new(unread.id, false, unread.branch.name, RefusalCode::Unreadable, why)
}

/// The command that drops the work on a branch, with its session if there is one. Tasks on a phase's branch are on
/// their own branches too, and would land from there.
fn dropped(run: &TreeRun, branch: &BranchName, session: Option<SessionId>, tasks: &[TaskId]) -> Result<String, Error> {
    if let Some(id) = session.filter(|id| History::newest(&run.repo, id).is_ok()) {
        return Ok(format!("pleach rm --force {id}"));
    }
    let mut command = format!("git branch -D {}", shell_word(branch));
    let Some(at) = run.repo.refs().find(&branch_ref(branch))? else { return Ok(command) };
    let there: BTreeSet<u64> = steps::steps_ahead(run, at, run.seen)?.iter().map(|found| found.print).collect();
    for own in tasks.iter().map(|task| run.branch_of(task)) {
        let own = own?;
        let Some(tip) = run.repo.refs().find(&branch_ref(&own))?.filter(|_| own != *branch) else { continue };
        // Another task of the same name may use the branch by now.
        let newest = steps::found(run, tip)?;
        if newest.is_some_and(|newest| there.contains(&newest.print)) {
            command.push_str(&format!(" {}", shell_word(own)));
        }
    }
    Ok(command)
}

/// How to merge a branch by hand into one of pleach's own. Nothing can run on that branch, so the commands switch back.
pub(super) fn merged_by_hand(run: &TreeRun, from: &BranchName, into: &BranchName) -> String {
    let [there, what, back] = [into, from, &run.plan.target].map(shell_word);
    format!(
        "merge `{from}` into `{into}` by hand (`git switch {there}`, `git merge {what}`), go back with `git switch {back}`, and run again"
    )
}

/// The error for a branch that has to move but is checked out.
pub(super) fn begins_anew(task: &TaskId, branch: BranchName, checkout: &Path) -> Error {
    let why = format!(
        "it has to be restarted, and `{}` has it checked out; switch to another branch there and run again",
        checkout.display()
    );
    Error::Refused(Refusal::new(task.clone(), false, branch, RefusalCode::CheckedOut, why))
}
