//! `pleach gardener`

use clap::Args;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::tree::{Tasks, TreeArgs, work};

/// Work a tree until all tasks are complete, or one has failed.
///
/// Tasks are worked in the order their dependencies allow, one after another or with `--jobs` several at once; each lands
/// on the branch that is checked out when it is complete. Progress is read from the commits of that branch, so the
/// command can be interrupted at any time and run again.
#[derive(Debug, Args)]
pub struct GardenerArgs {
    #[command(flatten)]
    tree: TreeArgs,
    /// When a task or the tests of a phase fail, work what does not depend on them.
    #[arg(long)]
    keep_going: bool,
}

pub fn run(globals: &Globals, args: GardenerArgs) -> Result<Exit, Failure> {
    work(globals, &args.tree, Tasks::All { keep_going: args.keep_going })
}
