//! `pleach merge queue`

use std::time::Duration;

use clap::Args;
use engine::landing::MergeQueue;
use git::workspace::{Lock, queue_lock};
use pleach_core::clock;
use pleach_core::ids::{BranchName, EntryId};
use pleach_core::queue::{EntryState, QueueEntry, plan};
use pleach_core::text::listed;
use serde_json::{Value, json};

use super::estimate::{QueueEstimate, batch_mates, usual_test};
use super::ground::{MergeGround, RepoQueue, entry_json, wait_words};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::lib_errors::{of_git, of_queue};
use crate::render::session::age;
use crate::render::{Out, Table, duration};
use git::record::StoredEntry;

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
        let listed = entries(ground, queue, args.all)?;
        if listed.is_empty() {
            continue;
        }
        is_empty = false;
        let worked = Lock::holder(queue.repo.common_dir(), &queue_lock(&queue.queue.target));
        let worked = worked.map(|holder| format!(", worked by {}", holder.text)).unwrap_or_default();
        out.line(format!("into `{}`{}{worked}", queue.queue.target, queue.at))?;
        let headings = ["#", "id", "what", "state", "tier", "tries", "age", "lands in", "why"];
        let mut table = Table::new(headings).right(0).right(5).text(2).text(8).less([5, 4, 6, 7]);
        listed.into_iter().for_each(|entry| table.row(entry.row()));
        out.line(table.shown())?;
    }
    if is_empty {
        out.line("The merge queue is empty; `pleach merge enqueue BRANCH` puts a branch into it.")?;
    }
    Ok(Exit::Done)
}

/// An entry as it is listed.
struct ListedEntry {
    entry: QueueEntry,
    /// Its place in the order, from 1; none if it waits for something else than its turn.
    position: Option<usize>,
    why: Option<String>,
    /// Those it is tested with now.
    with: Vec<String>,
    /// How long it takes until it has landed, if all tests pass.
    lands_in: Option<Duration>,
    /// Nothing tests what it comes to, or nothing did.
    unverified: bool,
}

impl ListedEntry {
    fn closed(entry: QueueEntry) -> Self {
        let (why, unverified) = (entry.why.clone(), entry.is_unverified());
        Self { entry, position: None, why, with: Vec::new(), lands_in: None, unverified }
    }

    fn row(self) -> [String; 9] {
        let Self { entry, position, why, with, lands_in, unverified } = self;
        let unverified = unverified.then(|| "unverified: nothing tests it".to_owned());
        let with = (!with.is_empty()).then(|| format!("tested with {}", listed(&with, 3)));
        let why = [unverified, with, why].into_iter().flatten().collect::<Vec<_>>().join("; ");
        [
            position.map(|at| at.to_string()).unwrap_or_default(),
            short(&entry.id),
            entry.name(),
            entry.state.to_string(),
            entry.tier.map(|tier| tier.to_string()).unwrap_or_default(),
            if entry.attempts == 0 { String::new() } else { entry.attempts.to_string() },
            age(entry.completed_at, clock::now()),
            lands_in.map(duration).unwrap_or_default(),
            why,
        ]
    }

    fn json(self) -> Value {
        let mut document = entry_json(&self.entry);
        document["position"] = json!(self.position);
        document["why"] = json!(self.why);
        document["unverified"] = json!(self.unverified);
        document["tested_with"] = json!(self.with);
        document["lands_in_secs"] = json!(self.lands_in.map(|length| length.as_secs()));
        document
    }
}

/// The entries of a queue in the order they are merged; behind them, if all are asked for, those that are closed.
fn entries(ground: &MergeGround<'_>, repo_queue: &RepoQueue, all: bool) -> Result<Vec<ListedEntry>, Failure> {
    let queue = &repo_queue.queue;
    let settings = ground.queue_settings();
    let open = queue.entries();
    let plan = plan(&open, &queue.passed, usize::MAX, settings.auto_merge_clean);
    let waits = |id: &EntryId| plan.waits.get(id).map(wait_words);
    let position = |id: &EntryId| plan.batch.iter().position(|placed| placed == id).map(|at| at + 1);
    let stored = if open.is_empty() && !all {
        Vec::new()
    } else {
        MergeQueue::read_all(&repo_queue.repo, &queue.target).map_err(|error| of_queue(&error))?
    };
    let estimate = match usual_test(&stored) {
        Some(test) => Some(QueueEstimate { test, elapsed: elapsed(repo_queue)?, batch: settings.batch }),
        None => None,
    };
    let mut mates = batch_mates(&open);
    let mut entries: Vec<ListedEntry> = open
        .into_iter()
        .map(|entry| {
            let why = entry.why.clone().or_else(|| waits(&entry.id));
            let (position, with) = (position(&entry.id), mates.remove(&entry.id).unwrap_or_default());
            let lands_in = estimate.zip(position).map(|(estimate, position)| estimate.lands_in(position));
            let unverified = settings.tests_of(&entry).is_empty() && entry.mark.is_none();
            ListedEntry { entry, position, why, with, lands_in, unverified }
        })
        .collect();
    entries.sort_by_key(|listed| (listed.position.unwrap_or(usize::MAX), listed.entry.id.clone()));
    if all {
        let closed = stored.into_iter().map(|stored| stored.entry).filter(|entry| entry.state.is_closed());
        entries.extend(closed.map(ListedEntry::closed));
    }
    Ok(entries)
}

/// How long the batch is being tested that is tested now.
fn elapsed(RepoQueue { repo, queue, .. }: &RepoQueue) -> Result<Duration, Failure> {
    let is_tested = |stored: &&StoredEntry| stored.entry.state == EntryState::Testing;
    let Some(tested) = queue.open.iter().find(is_tested) else { return Ok(Duration::ZERO) };
    let since = repo.commit(tested.at).map_err(|error| of_git(&error))?.at;
    Ok(Duration::try_from(clock::now().duration_since(since)).unwrap_or_default())
}

fn document(ground: &MergeGround<'_>, queue: &RepoQueue, all: bool) -> Result<Value, Failure> {
    let entries: Vec<Value> = entries(ground, queue, all)?.into_iter().map(ListedEntry::json).collect();
    let RepoQueue { repo, name, queue, .. } = queue;
    let worked = Lock::is_held(repo.common_dir(), &queue_lock(&queue.target));
    Ok(json!({"target": queue.target, "repo": name, "worked": worked, "entries": entries}))
}

/// The end of an id, which tells entries of the same time apart.
pub fn short(id: &EntryId) -> String {
    id.as_str()[id.as_str().len() - 6..].to_owned()
}
