//! The work of a finished task, as the merge queue takes it.

use engine::landing::Submission;
use engine::tree::ad_hoc::{AdHocStatus, TaskStore, TaskView, view_tasks};
use pleach_core::ids::BranchName;
use pleach_core::queue::EntryTest;

use crate::code::Code;
use crate::failure::Failure;
use crate::lib_errors::{of_queue, of_store, of_tree};
use crate::place::Place;
use crate::settings::Settings;

/// The task somebody names by its id, the beginning of it, or its branch.
pub fn named_task(settings: &Settings, place: &Place, given: &str) -> Result<Option<TaskView>, Failure> {
    let (tasks, _) = TaskStore::new(&place.repo).all().map_err(|error| of_store(&error))?;
    let base = settings.resolved.config.tree.base_branch.as_ref();
    let views = view_tasks(&place.repo, tasks, &place.branch_prefix, base).map_err(|error| of_tree(&error))?;
    let is_branch = |view: &TaskView| view.branch.as_ref().is_some_and(|(branch, _)| branch.as_str() == given);
    Ok(views.into_iter().find(|view| view.task.id.as_str() == given || is_branch(view)))
}

/// What a finished task has to merge into a branch. Where that is its target, it lands as the task does; another one gets
/// the same work, and the task stays what it is.
pub fn task_submission(
    settings: &Settings,
    place: &Place,
    view: &TaskView,
    into: &BranchName,
) -> Result<Submission, Failure> {
    let task = &view.task;
    if !matches!(view.status, AdHocStatus::Finished | AdHocStatus::Landed) {
        let message = format!("{} is {}, and only a finished task can be merged", task.id, view.status);
        let hint = format!("`pleach task start {}` works on it", task.id);
        return Err(Failure::new(Code::TaskUnfinished, message).hint(hint));
    }
    let gone = || {
        let message = format!("{} has no branch any more", task.id);
        Failure::new(Code::NoSuchBranch, message).hint(format!("merge `{}`, which has its work", task.target))
    };
    let (branch, _) = view.branch.clone().filter(|(_, tip)| tip.is_some()).ok_or_else(gone)?;
    let submission = Submission::branch(&place.repo, place.name.clone(), branch, into.clone());
    let submission = submission.map_err(|error| of_queue(&error))?;
    let config = &settings.resolved.config;
    let command = config.test_of_work().map(str::to_owned);
    let tests = command.map(|command| EntryTest { command, timeout: config.tree.test_timeout });
    let of_branch = Submission {
        title: task.name.clone(),
        goal: Some(task.description.clone()).filter(|goal| !goal.trim().is_empty()),
        tests: tests.into_iter().collect(),
        session: view.session.clone(),
        priority: task.priority,
        ..submission
    };
    if *into != task.target {
        return Ok(of_branch);
    }
    let repo = &place.repo;
    let tip = repo.refs().find(&git::workspace::branch_ref(into)).map_err(|error| crate::lib_errors::of_git(&error))?;
    let base = tip.map(|tip| repo.history().merge_base(of_branch.head, tip)).transpose();
    let base = base.map_err(|error| crate::lib_errors::of_git(&error))?.flatten();
    Ok(Submission { task: Some(task.id.clone()), depends: task.depends.clone(), base, ..of_branch })
}
