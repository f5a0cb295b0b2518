//! `pleach reset`

use clap::Args;
use pleach::engine::tree::Mark;

use crate::commands::skip::{MarkArgs, mark};
use crate::exit::{Exit, Failure};
use crate::globals::Globals;

/// Have a task done again, whatever has become of it.
///
/// It is pending then, with a budget of attempts of its own, and begins on what the branch has now. When the tests of its
/// phase failed, their output is what the next attempt is told. The decision is a commit on the branch that is checked
/// out, which changes no file; what only the task's own branch had is kept under refs/pleach/keep/ when it begins.
#[derive(Debug, Args)]
pub struct ResetArgs {
    #[command(flatten)]
    task: MarkArgs,
}

pub fn run(globals: &Globals, args: ResetArgs) -> Result<Exit, Failure> {
    mark(globals, &args.task, Mark::Reset)
}
