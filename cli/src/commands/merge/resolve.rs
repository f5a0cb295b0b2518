//! `pleach merge resolve`

use clap::Args;
use engine::landing::{ConflictWorktree, begin_resolution, finish_resolution};
use git::workspace::default_worktree_base;
use serde_json::json;

use super::ground::{MergeGround, entry_json};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lib_errors::of_queue;
use crate::queue_settings::queue_settings;
use crate::render::Out;

/// Resolve a conflict by hand: makes a worktree with the merged files, in which both versions are marked.
///
/// Edit the files there, then run the same with `--done`: the result is tested and lands like any other.
#[derive(Debug, Args)]
pub struct ResolveArgs {
    /// The entry, its task or its branch.
    #[arg(value_name = "ID")]
    entry: String,
    /// Take the files as they are in the worktree, and continue.
    #[arg(long)]
    done: bool,
}

pub fn run(ground: &MergeGround<'_>, args: &ResolveArgs) -> Result<Exit, Failure> {
    let settings = &ground.settings;
    let (place, stored) = ground.conflicted(&args.entry)?;
    let (repo, of_queue_here) = (&place.repo, queue_settings(settings, &place));
    let base = settings.resolved.config.worktrees.base.clone();
    let base = base.unwrap_or_else(|| default_worktree_base(&settings.state_dir, repo.common_dir(), &place.name));
    let mut out = Out::new();
    if args.done {
        let entry = finish_resolution(repo, &base, &stored, &of_queue_here, &settings.redactor());
        let entry = entry.map_err(|error| of_queue(&error))?;
        if ground.globals.json {
            out.json(&entry_json(&entry))?
        } else {
            out.line(format!("resolved: {}", entry.name()))?;
            out.line(format!("next:    {}", ground.command("merge process")))?;
        }
        return Ok(Exit::Done);
    }
    let begun = begin_resolution(repo, &base, &stored, &of_queue_here).map_err(|error| of_queue(&error))?;
    let ConflictWorktree { path, is_old, conflicts } = begun;
    if ground.globals.json {
        let conflicts: Vec<_> = conflicts.iter().map(|conflict| json!(conflict)).collect();
        out.json(&json!({"entry": stored.entry.id, "path": path, "old": is_old, "conflicts": conflicts}))?;
        return Ok(Exit::Done);
    }
    out.line(path.display())?;
    conflicts.iter().try_for_each(|conflict| out.line(format!("  {} ({})", conflict.path, conflict.kind)))?;
    out.line(format!(
        "next:    edit the files there, then `{}`",
        ground.command(&format!("merge resolve {} --done", stored.entry.reference()))
    ))?;
    Ok(Exit::Done)
}
