//! `pleach merge`

mod abort;
mod decide;
mod diff;
mod enqueue;
mod estimate;
pub mod ground;
mod process;
mod queue;
mod resolve;
mod status;
mod why;

pub use diff::EntryChange;
pub use queue::short;

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use engine::landing::QueueOutcome;
use pleach_core::ids::BranchName;
use pleach_core::queue::QueueEntry;

use self::ground::MergeGround;
use crate::answers::Answers;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::runtime::block_on;
use crate::session::build;
use crate::settings;

/// Bring branches into their target through the merge queue, tested.
///
/// Branches wait in the queue of the branch they go to, its target. `pleach merge process` merges them one onto the other,
/// tests what they come to, and moves the target to what passes. What tests a merge: `merge.test_command`, if that is set;
/// else the tests of the merged tasks; else `test_command`. Without a subcommand the queue is listed.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct MergeArgs {
    #[command(subcommand)]
    command: Option<MergeCommand>,
}

#[derive(Debug, Subcommand)]
enum MergeCommand {
    Queue(queue::QueueArgs),
    Status(status::MergeStatusArgs),
    Enqueue(enqueue::EnqueueArgs),
    Why(why::WhyArgs),
    Diff(diff::MergeDiffArgs),
    Approve(decide::ApproveArgs),
    Retry(decide::RetryArgs),
    Resolve(resolve::ResolveArgs),
    Abort(abort::AbortArgs),
    Drop(decide::DropArgs),
    Undo(decide::UndoArgs),
    Process(process::ProcessArgs),
}

pub fn run(globals: &Globals, args: MergeArgs) -> Result<Exit, Failure> {
    let command = args.command.unwrap_or(MergeCommand::Queue(queue::QueueArgs::default()));
    let settings = settings::load_for(globals, &globals.dir)?;
    let settings = settings.deepening(matches!(command, MergeCommand::Process(_)));
    let ground = MergeGround::with(globals, settings)?;
    match command {
        MergeCommand::Queue(args) => queue::run(&ground, &args),
        MergeCommand::Status(args) => status::run(&ground, &args),
        MergeCommand::Enqueue(args) => enqueue::run(&ground, &args),
        MergeCommand::Why(args) => why::run(&ground, &args),
        MergeCommand::Diff(args) => diff::run(&ground, &args),
        MergeCommand::Approve(args) => decide::approve(&ground, &args),
        MergeCommand::Retry(args) => decide::retry(&ground, &args),
        MergeCommand::Resolve(args) => resolve::run(&ground, &args),
        MergeCommand::Abort(args) => abort::run(&ground, &args),
        MergeCommand::Drop(args) => decide::drop_entry(&ground, &args),
        MergeCommand::Undo(args) => decide::undo(&ground, &args),
        MergeCommand::Process(args) => process::run(&ground, &args),
    }
}

/// Works the queue of a target, as `pleach merge process` does.
pub fn process_now(globals: &Globals, into: BranchName) -> Result<Exit, Failure> {
    let args = process::ProcessArgs { into: Some(into), watch: false };
    run(globals, MergeArgs { command: Some(MergeCommand::Process(args)) })
}

/// Works the queue of an entry's target, and tells what became of that entry.
pub fn process_entry(ground: &MergeGround<'_>, entry: &QueueEntry) -> Result<Exit, Failure> {
    process::run_for(ground, entry)
}

/// Works the queue of a target with commands that come with pleach, which need no approval.
pub fn process_trusted(ground: &MergeGround<'_>, target: &BranchName) -> Result<(QueueOutcome, Exit), Failure> {
    let built = build(ground.globals, &ground.settings, &ground.settings.resolved.config, Answers::default())?;
    let mut shown = process::MergeProgress::new(ground);
    let entries_tests = BTreeSet::new();
    let work = process::process_once(ground, target, &built, &mut shown, &entries_tests);
    let outcome = block_on(built.stopped_by(), work)?;
    let exit = process::exit_of(&outcome);
    Ok((outcome, exit))
}
