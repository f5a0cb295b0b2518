//! `pleach worktree list`

use clap::Args;
use git::workspace::disk_usage;
use pleach_core::clock;
use serde_json::json;

use super::placed::{PlacedWorktree, document, owner};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::render::session::age;
use crate::render::{Out, Table, bytes};

/// List the worktrees of sessions and tasks with their branches, oldest first.
///
/// A worktree is used (a process works in it), idle, orphaned (its session's record is gone, or its making was cut short),
/// missing (git knows it, but its directory is gone) or locked (with `git worktree lock`).
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Also show how much of the disk each takes, which means reading all of its directories.
    #[arg(long)]
    sizes: bool,
}

pub(super) fn run(globals: &Globals, args: &ListArgs, all: &[PlacedWorktree<'_>]) -> Result<Exit, Failure> {
    let mut out = Out::new();
    if globals.json {
        let all = all.iter().map(|PlacedWorktree { place, worktree, .. }| {
            let mut document = document(worktree, place);
            if args.sizes {
                document["size"] = disk_usage(&worktree.path).into();
            }
            document
        });
        out.json(&json!({"worktrees": all.collect::<Vec<_>>()}))?;
        return Ok(Exit::Done);
    }
    if all.is_empty() {
        out.line("There is no worktree of pleach's in this repository.")?;
        return Ok(Exit::Done);
    }
    let now = clock::now();
    let (mut plain, mut with_sizes) = (
        Table::new(["owner", "state", "branch", "age", "path"]).text(2).path(4).less([3]),
        Table::new(["owner", "state", "branch", "age", "size", "path"]).right(4).text(2).path(5).less([3]),
    );
    for PlacedWorktree { worktree, .. } in all {
        let branch = worktree.branch.as_ref().map(ToString::to_string).unwrap_or_default();
        let since = worktree.created.map(|at| age(at, now)).unwrap_or_default();
        let (state, path) = (worktree.word().to_owned(), worktree.path.display().to_string());
        if args.sizes {
            with_sizes.row([owner(worktree), state, branch, since, bytes(disk_usage(&worktree.path)), path])
        } else {
            plain.row([owner(worktree), state, branch, since, path])
        }
    }
    out.line(if args.sizes { with_sizes.shown() } else { plain.shown() })?;
    Ok(Exit::Done)
}
