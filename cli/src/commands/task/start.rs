//! `pleach task start`

use clap::Args;

use super::ground::TaskGround;
use crate::answers::AnswerArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::tree::{StartOptions, start_tasks};

/// Work tasks until each has landed or cannot: those that are named, or all that are ready.
///
/// Each is worked on its own branch in a worktree of its own, and lands on its target when it is complete. Tasks that are
/// created meanwhile follow, where none are named. Run the same command again after an interruption. Other processes may work on other tasks and on trees at the same time.
#[derive(Debug, Args)]
pub struct StartArgs {
    /// The tasks, or the beginnings of their ids.
    #[arg(value_name = "ID")]
    tasks: Vec<String>,
    /// Work so many at once; by default as `tree.jobs` says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Give tasks that failed another budget of attempts.
    #[arg(long)]
    retry_failed: bool,
    /// When a task fails, work what does not depend on it.
    #[arg(long)]
    keep_going: bool,
    #[command(flatten)]
    answers: AnswerArgs,
}

pub fn run(globals: &Globals, args: StartArgs) -> Result<Exit, Failure> {
    let ground = TaskGround::find(globals, None)?;
    let StartArgs { tasks, jobs, retry_failed, keep_going, answers } = args;
    let options = StartOptions { tasks, jobs, retry_failed, keep_going, answers, merges: false };
    start_tasks(globals, ground.dir, ground.settings, ground.place, &options)
}
