//! `pleach task`

mod branches;
mod cancel;
mod ground;
mod list;
mod merge;
mod new;
mod show;
mod start;
mod worktree;

pub use ground::{TaskGround, marked_task_json};
pub use list::table;
pub use show::show;

use clap::{Args, Subcommand};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;

/// Give a repository tasks, and have agents work on them.
///
/// A task is worked like a task of a tree: implemented, tested and reviewed on its own branch, and landed on its target
/// when it is complete. Several may be worked at once, by one process or by several.
#[derive(Debug, Args)]
pub struct TaskArgs {
    #[command(subcommand)]
    command: TaskCommand,
}

#[derive(Debug, Subcommand)]
enum TaskCommand {
    New(new::NewArgs),
    List(list::ListTasksArgs),
    Show(show::ShowTaskArgs),
    Start(start::StartArgs),
    Cancel(cancel::CancelTaskArgs),
    Worktree(worktree::TaskWorktreeArgs),
    Merge(merge::MergeTaskArgs),
    Branches(branches::BranchesArgs),
}

pub fn run(globals: &Globals, args: TaskArgs) -> Result<Exit, Failure> {
    match args.command {
        TaskCommand::New(args) => new::run(globals, args),
        TaskCommand::List(args) => list::run(globals, &args),
        TaskCommand::Show(args) => show::run(globals, &args),
        TaskCommand::Start(args) => start::run(globals, args),
        TaskCommand::Cancel(args) => cancel::run(globals, &args),
        TaskCommand::Worktree(args) => worktree::run(globals, &args),
        TaskCommand::Merge(args) => merge::run(globals, args),
        TaskCommand::Branches(args) => branches::run(globals, &args),
    }
}
