//! `pleach merge enqueue`

use clap::Args;
use engine::landing::{QueueError, Submission, enqueue, find_entry};
use engine::view::{Summary, resolve_session};
use git::Repo;
use git::workspace::branch_ref;
use pleach_core::ids::BranchName;
use pleach_core::queue::{EntryState, QueueEntry};
use serde_json::json;

use super::ground::{MergeGround, entry_json};
use super::queue::short;
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::joint_landing::enqueue_all;
use crate::lib_errors::{of_git, of_queue};
use crate::place::Places;
use crate::render::Out;
use crate::task_submission::{named_task, task_submission};

/// Put branches and finished tasks into the merge queue.
///
/// The newest commit of each is what is merged; put it in again when it has moved on. They are only queued: `pleach merge
/// process` merges them. With several nothing is queued where one of them cannot be.
#[derive(Debug, Args)]
pub struct EnqueueArgs {
    /// Tasks, branches, or sessions, whose branches are meant.
    #[arg(value_name = "TASK|BRANCH|SESSION", required = true)]
    branches: Vec<String>,
    /// The branch they go to; by default that of the task, `merge.target`, or the one that is checked out.
    #[arg(long, value_name = "BRANCH")]
    into: Option<BranchName>,
    /// Higher goes first; 0 unless it is in the queue with another.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
}

pub fn run(ground: &MergeGround<'_>, args: &EnqueueArgs) -> Result<Exit, Failure> {
    let redactor = ground.settings.redactor();
    if let [only] = args.branches.as_slice()
        && let Some(summary) = of_several(ground, only)
    {
        let places = Places::of_session(ground.place.clone(), &summary.started, &ground.settings)?;
        return enqueue_all(ground.globals, &redactor, &places, &summary, args.into.as_ref());
    }
    let submissions =
        args.branches.iter().map(|given| submission(ground, args, given)).collect::<Result<Vec<_>, _>>()?;
    let mut entries = Vec::new();
    for submission in submissions {
        entries.push(enqueue(&ground.place.repo, submission, &redactor).map_err(|error| of_queue(&error))?);
    }
    let mut out = Out::new();
    match (ground.globals.json, entries.as_slice()) {
        (true, [entry]) => out.json(&entry_json(entry))?,
        (true, entries) => out.json(&json!({"entries": entries.iter().map(entry_json).collect::<Vec<_>>()}))?,
        (false, entries) => entries.iter().try_for_each(|entry| report(ground, &mut out, entry))?,
    }
    Ok(Exit::Done)
}

/// What is to be queued of a task, a branch or a session.
fn submission(ground: &MergeGround<'_>, args: &EnqueueArgs, given: &str) -> Result<Submission, Failure> {
    let place = &ground.place;
    if of_several(ground, given).is_some() {
        let message = format!("session {given} lands in several repositories at once");
        return Err(Failure::new(Code::OptionConflict, message).hint("queue it by itself"));
    }
    let submission = match named_task(&ground.settings, place, given)? {
        Some(view) => {
            let target = args.into.as_ref().unwrap_or(&view.task.target);
            task_submission(&ground.settings, place, &view, target)?
        }
        None => {
            let target = ground.target(args.into.as_ref())?;
            let (branch, session) = named_branch(ground, given)?;
            let submission = Submission::branch(&place.repo, place.name.clone(), branch, target);
            Submission { session, ..submission.map_err(|error| of_queue(&error))? }
        }
    };
    require_branch(&place.repo, &submission.target)?;
    let known = find_entry(&place.repo, given).ok().map(|stored| stored.entry);
    let known = known.filter(|known| !known.state.is_closed() && known.target == submission.target);
    let priority = args.priority.or(known.map(|known| known.priority)).unwrap_or(submission.priority);
    Ok(Submission { priority, ..submission })
}

/// Says what became of a submission: with -q only that it waits for a person.
fn report(ground: &MergeGround<'_>, out: &mut Out, entry: &QueueEntry) -> Result<(), Failure> {
    let (name, at) = (entry.name(), short(&entry.id));
    let is_quiet = ground.globals.verbosity < 0;
    match entry.state {
        EntryState::Red | EntryState::Escalated | EntryState::Repairing => {
            out.line(format!("{name} is in the queue and {} ({at})", entry.state))?;
            if !is_quiet {
                out.line(format!("next:    {}", ground.command(&format!("merge retry {}", entry.reference()))))?;
            }
        }
        _ if is_quiet => {}
        _ => out.line(format!("queued: {name} into `{}` ({at})", entry.target))?,
    }
    Ok(())
}

/// The session over several repositories that is meant, which lands in all of them together.
fn of_several(ground: &MergeGround<'_>, given: &str) -> Option<Summary> {
    let id = resolve_session(&ground.place.repo, given).ok()?;
    Summary::newest(&ground.place.repo, &id).ok().filter(|summary| summary.started.has_several_repos())
}

/// Nothing can be merged into a branch that is not there.
fn require_branch(repo: &Repo, target: &BranchName) -> Result<(), Failure> {
    match repo.refs().find(&branch_ref(target)).map_err(|error| of_git(&error))? {
        Some(_) => Ok(()),
        None => Err(of_queue(&QueueError::NoBranch(target.clone()))),
    }
}

/// The branch somebody names, or the branch of a session they name.
fn named_branch(
    ground: &MergeGround<'_>,
    given: &str,
) -> Result<(BranchName, Option<pleach_core::ids::SessionId>), Failure> {
    let repo = &ground.place.repo;
    let branch = given.parse::<BranchName>().ok();
    let is_there = |branch: &BranchName| repo.refs().find(&branch_ref(branch)).ok().flatten().is_some();
    if let Some(branch) = branch.filter(is_there) {
        return Ok((branch, None));
    }
    let unknown = || {
        Failure::new(Code::NoSuchBranch, format!("there is no task, branch or session `{given}`"))
            .hint("`pleach task list` lists tasks, `git branch` branches, `pleach status` sessions")
    };
    let session = resolve_session(repo, given).map_err(|_| unknown())?;
    let view = Summary::newest(repo, &session).map_err(|_| unknown())?;
    let (_, branch) = view.branch().ok_or_else(unknown)?;
    Ok((branch.clone(), Some(session)))
}
