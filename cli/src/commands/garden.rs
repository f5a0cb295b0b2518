//! `pleach garden`

use clap::Args;
use pleach_core::ids::TaskId;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::tree::{Tasks, TreeArgs, work};

/// Work one task of a tree: the next that is ready, or a chosen one.
///
/// The task is implemented, tested and reviewed on a branch of its own, as often as its budget of attempts allows, and
/// lands on the branch that is checked out. Every step is a commit; after an interruption, run the same command again
/// to continue.
#[derive(Debug, Args)]
pub struct GardenArgs {
    /// Work this task.
    #[arg(long, value_name = "ID")]
    task: Option<TaskId>,
    #[command(flatten)]
    tree: TreeArgs,
}

pub fn run(globals: &Globals, args: GardenArgs) -> Result<Exit, Failure> {
    work(globals, &args.tree, Tasks::One(args.task))
}
