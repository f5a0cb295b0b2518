//! `pleach task merge`

use clap::Args;
use pleach::engine::ad_hoc::AdHocStatus;
use pleach::engine::queue::{Submission, approve, enqueue, find_entry};
use pleach::ids::BranchName;

use super::TaskGround;
use crate::code::Code;
use crate::commands::merge::process_now;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_queue;
use crate::tree::{StartOptions, start_tasks};

/// Merge a finished task, whatever `merge.enabled` and `merge.auto_merge_clean` say.
///
/// It goes through the merge queue, tested like everything else. A task that lands by itself needs no command.
#[derive(Debug, Args)]
pub struct MergeTaskArgs {
    /// The task, or the beginning of its id.
    #[arg(value_name = "ID")]
    task: String,
    /// Another branch than the one it was made for. The task itself stays open.
    #[arg(long, value_name = "BRANCH")]
    into: Option<BranchName>,
}

pub fn run(globals: &Globals, args: MergeTaskArgs) -> Result<Exit, Failure> {
    let ground = TaskGround::find(globals, None)?;
    let view = ground.view(&args.task)?;
    let (id, target) = (view.task.id.clone(), view.task.target.clone());
    if let AdHocStatus::Landed = view.status
        && args.into.as_ref().is_none_or(|into| *into == target)
    {
        say!("{id} has landed on `{target}` already");
        return Ok(Exit::Done);
    }
    if !matches!(view.status, AdHocStatus::Finished | AdHocStatus::Landed) {
        let message = format!("{id} is {}, and only a finished task can be merged", view.status);
        return Err(Failure::new(Code::TaskUnfinished, message).hint(format!("`pleach task start {id}` works on it")));
    }
    match args.into.filter(|into| *into != target) {
        Some(into) => merge_elsewhere(globals, &ground, view.branch.map(|(branch, _)| branch), into),
        None => {
            let options = StartOptions { tasks: vec![id.to_string()], merges: true, ..StartOptions::default() };
            start_tasks(globals, (ground.dir, ground.settings, ground.place), &options)
        }
    }
}

/// Merges the branch of a task into another branch than its target.
fn merge_elsewhere(
    globals: &Globals,
    ground: &TaskGround,
    branch: Option<BranchName>,
    into: BranchName,
) -> Result<Exit, Failure> {
    let (repo, name) = (&ground.place.repo, ground.place.name.clone());
    let gone = || Failure::new(Code::NoSuchBranch, "the task has no branch any more").hint("merge its target instead");
    let branch = branch.ok_or_else(gone)?;
    let submission = Submission::branch(repo, name, branch, into.clone()).map_err(|error| of_queue(&error))?;
    let entry = enqueue(repo, submission).map_err(|error| of_queue(&error))?;
    let stored = find_entry(repo, entry.id.as_str()).map_err(|error| of_queue(&error))?;
    approve(repo, &stored).map_err(|error| of_queue(&error))?;
    process_now(globals, into)
}
