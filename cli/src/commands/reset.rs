//! `pleach reset`

use clap::Args;
use engine::tree::Mark;

use crate::commands::skip::{MarkArgs, mark};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;

/// Have a task done again, whatever its status.
///
/// It is pending then, with a new budget of attempts, and starts from what the branch has now. When the tests of its
/// phase failed, their output is the feedback for the next attempt. The decision is a commit on the branch that is
/// checked out, which changes no file; what only the task's own branch had is kept under refs/pleach/keep/ when it
/// starts.
#[derive(Debug, Args)]
pub struct ResetArgs {
    #[command(flatten)]
    task: MarkArgs,
}

pub fn run(globals: &Globals, args: ResetArgs) -> Result<Exit, Failure> {
    mark(globals, &args.task, Mark::Reset)
}
