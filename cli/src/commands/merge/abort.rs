//! `pleach merge abort`

use clap::Args;
use engine::keep::{OwnWorktree, WorktreeOwner, own_worktrees};
use engine::landing::{AbortError, QueueError, abort_resolution, find_entry};
use git::record::StoredEntry;
use pleach_core::ids::{BranchName, TaskId};
use serde_json::json;

use super::ground::MergeGround;
use crate::commands::rm::stays_failure;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lib_errors::{of_engine, of_queue};
use crate::place::Place;
use crate::render::Out;
use crate::survey::orphans::places;

/// End a resolution by hand: its worktree goes, and the entry waits as before.
///
/// What was edited there is kept under refs/pleach/keep/.
#[derive(Debug, Args)]
pub struct AbortArgs {
    /// The entry, its task or its branch.
    #[arg(value_name = "ID")]
    entry: String,
}

pub fn run(ground: &MergeGround<'_>, args: &AbortArgs) -> Result<Exit, Failure> {
    let (place, stored) = being_resolved(ground, &args.entry)?;
    let places = places(&place.repo, &ground.settings);
    let kept = abort_resolution(&place.repo, &places, &stored).map_err(|error| match error {
        AbortError::Queue(error) => of_queue(&error),
        AbortError::Stays(why) => stays_failure(&why),
    })?;
    let reference = kept.and_then(|kept| kept.reference);
    let mut out = Out::new();
    if ground.globals.json {
        out.json(&json!({"entry": stored.entry.id, "kept": reference}))?;
        return Ok(Exit::Done);
    }
    out.line(format!("ended: nobody resolves {} by hand", stored.entry.name()))?;
    reference.into_iter().try_for_each(|name| out.line(format!("kept:    {name}")))?;
    out.line(format!("next:    {}", ground.command(&format!("merge retry {}", stored.entry.reference()))))?;
    Ok(Exit::Done)
}

/// The entry somebody means of those that are resolved by hand. Entries of several repositories may have one name, and
/// those of a session land together; by its id only one is meant.
fn being_resolved(ground: &MergeGround<'_>, given: &str) -> Result<(Place, StoredEntry), Failure> {
    let first = ground.entry(given)?;
    let entry = &first.1.entry;
    let is_given = |name: Option<&str>| name == Some(given);
    if !is_given(entry.task.as_ref().map(TaskId::as_str)) && !is_given(entry.branch.as_ref().map(BranchName::as_str)) {
        return Ok(first);
    }
    let mut found = ground.entries(given)?;
    for place in ground.places() {
        match find_entry(&place.repo, given) {
            Ok(stored) if found.iter().all(|(_, known)| known.entry.id != stored.entry.id) => {
                found.push((place, stored));
            }
            _ => {}
        }
    }
    let mut resolved = Vec::new();
    for (place, stored) in found {
        let worktrees = own_worktrees(&place.repo, &places(&place.repo, &ground.settings));
        let is_its = |found: &OwnWorktree| matches!(&found.owner, WorktreeOwner::Conflict { entry, .. } if *entry == stored.entry.id);
        if worktrees.map_err(|error| of_engine(&error))?.iter().any(is_its) {
            resolved.push((place, stored));
        }
    }
    if let [_, _, ..] = resolved.as_slice() {
        let name = |(place, stored): &(Place, StoredEntry)| format!("{} in {}", stored.entry.id, place.name);
        let fitting = resolved.iter().map(name).collect();
        return Err(of_queue(&QueueError::Ambiguous { given: given.to_owned(), fitting }));
    }
    Ok(resolved.pop().unwrap_or(first))
}
