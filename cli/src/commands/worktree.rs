//! `pleach worktree`

mod list;
mod placed;
mod prune;

use clap::{Args, Subcommand};
use engine::keep::own_worktrees;

use self::placed::PlacedWorktree;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_engine;
use crate::place::Places;
use crate::settings;
use crate::survey::orphans;

/// List the worktrees pleach made, or remove those nobody needs.
///
/// Your own worktrees are not shown and never touched.
#[derive(Debug, Args)]
pub struct WorktreeArgs {
    #[command(subcommand)]
    command: WorktreeCommand,
}

#[derive(Debug, Subcommand)]
enum WorktreeCommand {
    List(list::ListArgs),
    Prune(prune::PruneArgs),
}

pub fn run(globals: &Globals, args: WorktreeArgs) -> Result<Exit, Failure> {
    let settings = settings::load_for(globals, &globals.dir)?;
    let workspace = Places::find(&globals.dir, None, &settings)?;
    let mut all = Vec::new();
    for place in workspace.all() {
        let places = orphans::places_of(place, &workspace, &settings);
        let found = own_worktrees(&place.repo, &places).map_err(|error| of_engine(&error))?;
        all.extend(found.into_iter().map(|worktree| PlacedWorktree { place, places: places.clone(), worktree }));
    }
    match args.command {
        WorktreeCommand::List(args) => list::run(globals, &args, &all),
        WorktreeCommand::Prune(args) => prune::run(globals, &args, &all),
    }
}
