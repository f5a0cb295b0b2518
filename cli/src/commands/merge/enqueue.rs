//! `pleach merge enqueue`

use clap::Args;
use pleach::engine::queue::{Submission, enqueue};
use pleach::engine::{Summary, resolve_session};
use pleach::ids::BranchName;

use super::queue::short;
use super::{MergeGround, entry_json};
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lib_errors::of_queue;
use crate::render::Out;

/// Put a branch into the merge queue.
///
/// Its newest commit is what is merged; put it in again when it has moved on. It is only queued: `pleach merge process`
/// merges it.
#[derive(Debug, Args)]
pub struct EnqueueArgs {
    /// A branch, or a session, whose branch is meant.
    #[arg(value_name = "BRANCH|SESSION")]
    branch: String,
    /// The branch it goes to; by default `merge.target`, or the one that is checked out.
    #[arg(long, value_name = "BRANCH")]
    into: Option<BranchName>,
    /// Higher goes first.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
}

pub fn run(ground: &MergeGround<'_>, args: &EnqueueArgs) -> Result<Exit, Failure> {
    let place = &ground.place;
    let target = ground.target(args.into.as_ref())?;
    let (branch, session) = named_branch(ground, &args.branch)?;
    let submission = Submission::branch(&place.repo, place.name.clone(), branch, target.clone());
    let submission = submission.map_err(|error| of_queue(&error))?;
    let submission = Submission { priority: args.priority, session, ..submission };
    let entry = enqueue(&place.repo, submission).map_err(|error| of_queue(&error))?;
    let mut out = Out::new();
    match ground.globals.json {
        true => out.json(&entry_json(&entry))?,
        false => out.line(format!("queued: {} into `{target}` ({})", entry.name(), short(&entry.id)))?,
    }
    Ok(Exit::Done)
}

/// The branch somebody names, or the branch of a session they name.
fn named_branch(
    ground: &MergeGround<'_>,
    given: &str,
) -> Result<(BranchName, Option<pleach::ids::SessionId>), Failure> {
    let repo = &ground.place.repo;
    let branch = given.parse::<BranchName>().ok();
    let is_there =
        |branch: &BranchName| repo.refs().find(&pleach::workspace::branch_ref(branch)).ok().flatten().is_some();
    if let Some(branch) = branch.filter(is_there) {
        return Ok((branch, None));
    }
    let unknown = || {
        Failure::new(Code::NoSuchBranch, format!("there is no branch and no session `{given}`"))
            .hint("`git branch` lists branches, `pleach status` sessions")
    };
    let session = resolve_session(repo, given).map_err(|_| unknown())?;
    let view = Summary::newest(repo, &session).map_err(|_| unknown())?;
    let (_, branch) = view.branch().ok_or_else(unknown)?;
    Ok((branch.clone(), Some(session)))
}
