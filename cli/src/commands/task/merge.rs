//! `pleach task merge`

use clap::Args;
use engine::landing::{Submission, allow, enqueue, find_entry};
use engine::tree::ad_hoc::AdHocStatus;
use pleach_core::ids::BranchName;

use super::ground::TaskGround;
use crate::commands::merge::process_now;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_queue;
use crate::task_submission::task_submission;
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
    let submission = task_submission(&ground.settings, &ground.place, &view, args.into.as_ref().unwrap_or(&target))?;
    match args.into.filter(|into| *into != target) {
        Some(into) => merge_elsewhere(globals, &ground, submission, into),
        None => {
            let options = StartOptions { tasks: vec![id.to_string()], merges: true, ..StartOptions::default() };
            start_tasks(globals, ground.dir, ground.settings, ground.place, &options)
        }
    }
}

/// Merges the branch of a task into another branch than its target.
fn merge_elsewhere(
    globals: &Globals,
    ground: &TaskGround,
    submission: Submission,
    into: BranchName,
) -> Result<Exit, Failure> {
    let repo = &ground.place.repo;
    let redactor = ground.settings.redactor();
    let entry = enqueue(repo, submission, &redactor).map_err(|error| of_queue(&error))?;
    let stored = find_entry(repo, entry.id.as_str()).map_err(|error| of_queue(&error))?;
    allow(repo, &stored, &redactor).map_err(|error| of_queue(&error))?;
    process_now(globals, into)
}
