//! `pleach merge approve`, `retry`, `drop` and `undo`

use clap::Args;
use engine::landing::{self, QueueError};
use git::Repo;
use pleach_core::queue::QueueEntry;
use pleach_core::redact::Redactor;
use serde_json::json;

use super::ground::{MergeGround, entry_json};
use super::queue::short;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lib_errors::of_queue;
use crate::place::Place;
use crate::render::Out;
use git::record::StoredEntry;

/// Let an entry land that waits for approval.
#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// The entry, its task or its branch.
    #[arg(value_name = "ID")]
    entry: String,
}

/// Merge an entry again, with what its branch is now.
#[derive(Debug, Args)]
pub struct RetryArgs {
    /// The entry, its task or its branch.
    #[arg(value_name = "ID")]
    entry: String,
}

/// Take an entry out of the queue. Its branch stays.
#[derive(Debug, Args)]
pub struct DropArgs {
    /// The entry, its task or its branch.
    #[arg(value_name = "ID")]
    entry: String,
}

/// Revert what has landed, through the queue: the revert is merged and tested like any other change.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// The entry, its task or its branch.
    #[arg(value_name = "ID")]
    entry: String,
}

pub fn approve(ground: &MergeGround<'_>, args: &ApproveArgs) -> Result<Exit, Failure> {
    decide(ground, &args.entry, landing::approve, "approved")
}

pub fn retry(ground: &MergeGround<'_>, args: &RetryArgs) -> Result<Exit, Failure> {
    decide(ground, &args.entry, landing::retry, "queued again")
}

pub fn drop_entry(ground: &MergeGround<'_>, args: &DropArgs) -> Result<Exit, Failure> {
    decide(ground, &args.entry, landing::drop_entry, "dropped")
}

pub fn undo(ground: &MergeGround<'_>, args: &UndoArgs) -> Result<Exit, Failure> {
    decide(ground, &args.entry, landing::undo, "queued")
}

fn decide(
    ground: &MergeGround<'_>,
    given: &str,
    decision: impl Fn(&Repo, &StoredEntry, &Redactor) -> Result<QueueEntry, QueueError>,
    word: &str,
) -> Result<Exit, Failure> {
    let mut found = ground.entries(given)?;
    // What lands together is decided together, but for what is closed of it.
    let is_open = |(_, stored): &(Place, StoredEntry)| !stored.entry.state.is_closed();
    if found.iter().any(is_open) {
        found.retain(is_open);
    }
    let (mut decided, redactor) = (Vec::new(), ground.settings.redactor());
    for (place, stored) in &found {
        decided.push(decision(&place.repo, stored, &redactor).map_err(|error| of_queue(&error))?);
    }
    let mut out = Out::new();
    match (ground.globals.json, decided.as_slice()) {
        (true, [entry]) if entry.together.is_none() => out.json(&entry_json(entry))?,
        (true, entries) => out.json(&json!({"entries": entries.iter().map(entry_json).collect::<Vec<_>>()}))?,
        (false, entries) => entries.iter().try_for_each(|entry| {
            let at = entry.together.as_ref().map(|_| format!(" in {}", entry.repo)).unwrap_or_default();
            out.line(format!("{word}: {}{at} ({})", entry.name(), short(&entry.id)))
        })?,
    }
    Ok(Exit::Done)
}
