//! `pleach merge approve`, `retry`, `drop` and `undo`

use clap::Args;
use pleach::engine::queue::{self, QueueError, StoredEntry};
use pleach::git::Repo;
use pleach::queue::QueueEntry;

use super::queue::short;
use super::{MergeGround, entry_json};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lib_errors::of_queue;
use crate::render::Out;

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
    decide(ground, &args.entry, queue::approve, "approved")
}

pub fn retry(ground: &MergeGround<'_>, args: &RetryArgs) -> Result<Exit, Failure> {
    decide(ground, &args.entry, queue::retry, "queued again")
}

pub fn drop_entry(ground: &MergeGround<'_>, args: &DropArgs) -> Result<Exit, Failure> {
    decide(ground, &args.entry, queue::drop_entry, "dropped")
}

pub fn undo(ground: &MergeGround<'_>, args: &UndoArgs) -> Result<Exit, Failure> {
    decide(ground, &args.entry, queue::undo, "queued")
}

fn decide(
    ground: &MergeGround<'_>,
    given: &str,
    decision: impl Fn(&Repo, &StoredEntry) -> Result<QueueEntry, QueueError>,
    word: &str,
) -> Result<Exit, Failure> {
    let stored = ground.entry(given)?;
    let entry = decision(&ground.place.repo, &stored).map_err(|error| of_queue(&error))?;
    let mut out = Out::new();
    match ground.globals.json {
        true => out.json(&entry_json(&entry))?,
        false => out.line(format!("{word}: {} ({})", entry.name(), short(&entry.id)))?,
    }
    Ok(Exit::Done)
}
