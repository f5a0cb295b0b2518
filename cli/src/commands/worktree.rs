//! `pleach worktree`

mod list;
mod prune;

use clap::{Args, Subcommand};
use pleach::keep::{OwnWorktree, WorktreeOwner, WorktreePlaces, own_worktrees};
use serde_json::{Value, json};

use crate::commands::merge::short;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_engine;
use crate::place::{Place, Places};
use crate::settings;
use crate::survey::orphans;

/// List the worktrees pleach made in this repository, or remove those nobody needs.
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

/// A worktree, its repository, and where the worktrees of that are.
struct PlacedWorktree<'a> {
    place: &'a Place,
    places: WorktreePlaces,
    worktree: OwnWorktree,
}

/// `SESSION/CONTEXT` (`/REPO` where there are several), or `tasks on BRANCH`, the second one of which is `tasks on BRANCH (2)`; likewise those of the queue.
fn owner(worktree: &OwnWorktree) -> String {
    match &worktree.owner {
        WorktreeOwner::Session { session, context, repo: None } => format!("{session}/{context}"),
        WorktreeOwner::Session { session, context, repo: Some(repo) } => format!("{session}/{context}/{repo}"),
        WorktreeOwner::Tasks { target, slot: 1 } => format!("tasks on {target}"),
        WorktreeOwner::Tasks { target, slot } => format!("tasks on {target} ({slot})"),
        WorktreeOwner::Queue { target, slot: 1 } => format!("merge queue of {target}"),
        WorktreeOwner::Queue { target, slot } => format!("merge queue of {target} ({slot})"),
        WorktreeOwner::Conflict { target, entry } => format!("conflict of {} with {target}", short(entry)),
    }
}

/// A worktree for `--json`.
fn document(worktree: &OwnWorktree, place: &Place) -> Value {
    let (session, context, task) = match &worktree.owner {
        WorktreeOwner::Session { session, context, .. } => (Some(session), Some(context), None),
        WorktreeOwner::Tasks { target, .. } => (None, None, Some(target)),
        WorktreeOwner::Queue { .. } | WorktreeOwner::Conflict { .. } => (None, None, None),
    };
    json!({
        "owner": owner(worktree), "session": session, "context": context, "task": task, "repo": place.name,
        "path": worktree.path.display().to_string(), "branch": worktree.branch, "created": worktree.created,
        "state": worktree.word(),
    })
}
