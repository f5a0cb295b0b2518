//! `pleach merge queue`

use clap::Args;
use pleach::clock;
use pleach::engine::queue::{MergeQueue, queue_lock};
use pleach::ids::{BranchName, EntryId};
use pleach::queue::{EntryState, QueueEntry, plan};
use pleach::workspace::Lock;
use serde_json::{Value, json};

use super::{MergeGround, entry_json, wait_words};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lib_errors::of_queue;
use crate::render::session::age;
use crate::render::{Out, Table};

/// List what waits to be merged, in the order it will be.
#[derive(Debug, Default, Args)]
pub struct QueueArgs {
    /// Only the queue of this target.
    #[arg(long, value_name = "BRANCH")]
    into: Option<BranchName>,
    /// Also what has landed or was dropped.
    #[arg(long)]
    all: bool,
}

pub fn run(ground: &MergeGround<'_>, args: &QueueArgs) -> Result<Exit, Failure> {
    let mut out = Out::new();
    let queues = ground.queues(args.into.as_ref())?;
    if ground.globals.json {
        let queues = queues.iter().map(|queue| document(ground, queue, args.all));
        out.json(&json!({"queues": queues.collect::<Result<Vec<_>, _>>()?}))?;
        return Ok(Exit::Done);
    }
    let mut is_empty = true;
    for queue in &queues {
        let rows = rows(ground, queue, args.all)?;
        if rows.is_empty() {
            continue;
        }
        is_empty = false;
        let worked = Lock::holder(ground.place.repo.common_dir(), &queue_lock(&queue.target));
        let worked = worked.map(|holder| format!(", worked by {}", holder.text)).unwrap_or_default();
        out.line(format!("into `{}`{worked}", queue.target))?;
        let mut table = Table::new(["#", "id", "what", "state", "tier", "tries", "age", "why"]).right(0).right(5);
        rows.into_iter().for_each(|row| table.row(row));
        out.line(table)?;
    }
    if is_empty {
        out.line("The merge queue is empty; `pleach merge enqueue BRANCH` puts a branch into it.")?;
    }
    Ok(Exit::Done)
}

/// The entries of a queue in the order they are merged, with their positions, and why each waits.
pub fn positions(ground: &MergeGround<'_>, queue: &MergeQueue) -> Vec<(QueueEntry, Option<usize>, Option<String>)> {
    let settings = ground.queue_settings();
    let entries = queue.entries();
    let plan = plan(&entries, &queue.passed, usize::MAX, settings.auto_merge_clean);
    let waits = |id: &EntryId| plan.waits.get(id).map(wait_words);
    let position = |id: &EntryId| plan.batch.iter().position(|placed| placed == id).map(|at| at + 1);
    let mut all: Vec<_> = entries
        .into_iter()
        .map(|entry| {
            let why = entry.why.clone().or_else(|| waits(&entry.id));
            let at = position(&entry.id);
            (entry, at, why)
        })
        .collect();
    all.sort_by_key(|(entry, at, _)| (at.unwrap_or(usize::MAX), entry.id.clone()));
    all
}

fn rows(ground: &MergeGround<'_>, queue: &MergeQueue, all: bool) -> Result<Vec<[String; 8]>, Failure> {
    let now = clock::now();
    let row = |(entry, at, why): (QueueEntry, Option<usize>, Option<String>)| {
        [
            at.map(|at| at.to_string()).unwrap_or_default(),
            short(&entry.id),
            entry.name(),
            entry.state.to_string(),
            entry.tier.map(|tier| tier.to_string()).unwrap_or_default(),
            if entry.attempts == 0 { String::new() } else { entry.attempts.to_string() },
            age(entry.completed_at, now),
            why.unwrap_or_default(),
        ]
    };
    let mut rows: Vec<[String; 8]> = positions(ground, queue).into_iter().map(row).collect();
    if all {
        let stored = MergeQueue::read_all(&ground.place.repo, &queue.target).map_err(|error| of_queue(&error))?;
        let closed = stored.into_iter().map(|stored| stored.entry).filter(|entry| entry.state.is_closed());
        rows.extend(closed.map(|entry| {
            let why = entry.why.clone();
            row((entry, None, why))
        }));
    }
    Ok(rows)
}

fn document(ground: &MergeGround<'_>, queue: &MergeQueue, all: bool) -> Result<Value, Failure> {
    let mut entries: Vec<Value> = positions(ground, queue)
        .into_iter()
        .map(|(entry, at, why)| {
            let mut document = entry_json(&entry);
            (document["position"], document["why"]) = (json!(at), json!(why));
            document
        })
        .collect();
    if all {
        let stored = MergeQueue::read_all(&ground.place.repo, &queue.target).map_err(|error| of_queue(&error))?;
        let is_closed = |state: EntryState| state.is_closed();
        entries.extend(
            stored.iter().filter(|stored| is_closed(stored.entry.state)).map(|stored| entry_json(&stored.entry)),
        );
    }
    let worked = Lock::is_held(ground.place.repo.common_dir(), &queue_lock(&queue.target));
    Ok(json!({"target": queue.target, "worked": worked, "entries": entries}))
}

/// The end of an id, which tells entries of the same time apart.
pub fn short(id: &EntryId) -> String {
    id.as_str()[id.as_str().len() - 6..].to_owned()
}
