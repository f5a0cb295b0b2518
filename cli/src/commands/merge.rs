//! `pleach merge`

mod abort;
mod decide;
mod diff;
mod enqueue;
mod estimate;
mod process;
mod queue;
mod resolve;
mod status;
mod why;

pub use queue::short;

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use pleach::git::Repo;
use pleach::ids::{BranchName, RepoName};
use pleach::landing::{MergeQueue, QueueOutcome, QueueSettings, entries_of_landing, find_entry, queue_targets};
use pleach::queue::{EntryState, EntryWait, QueueEntry};
use serde_json::{Value, json};

use crate::answers::Answers;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_queue;
use crate::place::Place;
use crate::queue_settings::queue_settings;
use crate::runtime::block_on;
use crate::session::build;
use crate::settings::{self, Settings};
use pleach::record::StoredEntry;

/// Bring branches into their target through the merge queue, tested.
///
/// Branches wait in the queue of the branch they go to, its target. `pleach merge process` merges them one onto the other,
/// tests what they come to, and moves the target to what passes. What tests a merge: `merge.test_command`, if that is set;
/// else the tests of the merged tasks; else `test_command`. Without a subcommand the queue is listed.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct MergeArgs {
    #[command(subcommand)]
    command: Option<MergeCommand>,
}

#[derive(Debug, Subcommand)]
enum MergeCommand {
    Queue(queue::QueueArgs),
    Status(status::MergeStatusArgs),
    Enqueue(enqueue::EnqueueArgs),
    Why(why::WhyArgs),
    Diff(diff::MergeDiffArgs),
    Approve(decide::ApproveArgs),
    Retry(decide::RetryArgs),
    Resolve(resolve::ResolveArgs),
    Abort(abort::AbortArgs),
    Drop(decide::DropArgs),
    Undo(decide::UndoArgs),
    Process(process::ProcessArgs),
}

pub fn run(globals: &Globals, args: MergeArgs) -> Result<Exit, Failure> {
    let command = args.command.unwrap_or(MergeCommand::Queue(queue::QueueArgs::default()));
    let settings = settings::load_for(globals, &globals.dir)?;
    let settings = settings.deepening(matches!(command, MergeCommand::Process(_)));
    let ground = MergeGround::with(globals, settings)?;
    match command {
        MergeCommand::Queue(args) => queue::run(&ground, &args),
        MergeCommand::Status(args) => status::run(&ground, &args),
        MergeCommand::Enqueue(args) => enqueue::run(&ground, &args),
        MergeCommand::Why(args) => why::run(&ground, &args),
        MergeCommand::Diff(args) => diff::run(&ground, &args),
        MergeCommand::Approve(args) => decide::approve(&ground, &args),
        MergeCommand::Retry(args) => decide::retry(&ground, &args),
        MergeCommand::Resolve(args) => resolve::run(&ground, &args),
        MergeCommand::Abort(args) => abort::run(&ground, &args),
        MergeCommand::Drop(args) => decide::drop_entry(&ground, &args),
        MergeCommand::Undo(args) => decide::undo(&ground, &args),
        MergeCommand::Process(args) => process::run(&ground, &args),
    }
}

/// Works the queue of a target, as `pleach merge process` does.
pub fn process_now(globals: &Globals, into: BranchName) -> Result<Exit, Failure> {
    let args = process::ProcessArgs { into: Some(into), watch: false };
    run(globals, MergeArgs { command: Some(MergeCommand::Process(args)) })
}

/// Works the queue of an entry's target, and tells what became of that entry.
pub fn process_entry(ground: &MergeGround<'_>, entry: &QueueEntry) -> Result<Exit, Failure> {
    process::run_for(ground, entry)
}

/// Works the queue of a target with commands that come with pleach, which need no approval.
pub fn process_trusted(ground: &MergeGround<'_>, target: &BranchName) -> Result<(QueueOutcome, Exit), Failure> {
    let built = build(ground.globals, &ground.settings, &ground.settings.resolved.config, Answers::default())?;
    let mut shown = process::MergeProgress::new(ground);
    let entries_tests = BTreeSet::new();
    let work = process::process_once(ground, target, &built, (&mut shown, &entries_tests));
    let outcome = block_on(built.stopped_by(), work)?;
    let exit = process::exit_of(&outcome);
    Ok((outcome, exit))
}

/// A queue of one of the repositories.
struct RepoQueue {
    repo: Repo,
    name: RepoName,
    /// Where it is, in words, where that is not the repository of the records.
    at: String,
    queue: MergeQueue,
}

/// What all these commands need: the repository and its settings.
pub struct MergeGround<'a> {
    pub globals: &'a Globals,
    pub settings: Settings,
    pub place: Place,
}

impl<'a> MergeGround<'a> {
    /// The repository around the directory pleach works in.
    pub fn find(globals: &'a Globals) -> Result<Self, Failure> {
        Self::with(globals, settings::load_for(globals, &globals.dir)?)
    }

    /// The same with these settings.
    fn with(globals: &'a Globals, settings: Settings) -> Result<Self, Failure> {
        let place = Place::find(&globals.dir, None, &settings)?;
        Ok(Self { globals, settings, place })
    }

    /// The branch things are merged into: the given one, the configured one, or the one that is checked out.
    pub fn target(&self, given: Option<&BranchName>) -> Result<BranchName, Failure> {
        let configured = self.settings.resolved.config.merge.target.as_ref();
        match given.or(configured) {
            Some(target) => Ok(target.clone()),
            None => crate::tree::plan::target(&self.place),
        }
    }

    /// The queues somebody asks about: those of the given target, or all.
    fn queues(&self, given: Option<&BranchName>) -> Result<Vec<RepoQueue>, Failure> {
        let mut queues = Vec::new();
        for place in self.places() {
            let targets = match given {
                Some(target) => vec![target.clone()],
                None => queue_targets(&place.repo).map_err(|error| of_queue(&error))?,
            };
            for target in targets {
                let queue = MergeQueue::read(&place.repo, &target).map_err(|error| of_queue(&error))?;
                let at = if place.name == self.place.name { String::new() } else { format!(" in {}", place.name) };
                let (repo, name) = (place.repo.clone(), place.name.clone());
                queues.push(RepoQueue { repo, name, at, queue });
            }
        }
        Ok(queues)
    }

    /// The repositories of the workspace that are there, that of the records first.
    pub fn places(&self) -> Vec<Place> {
        let names = self.settings.resolved.config.workspace.repos.keys().filter(|name| **name != self.place.name);
        let others = names.filter_map(|name| Place::named(name, &self.settings).ok());
        std::iter::once(self.place.clone()).chain(others).collect()
    }

    /// The entry somebody means, and the repository in whose queue it is.
    fn entry(&self, given: &str) -> Result<(Place, StoredEntry), Failure> {
        let mut unknown = None;
        for place in self.places() {
            match find_entry(&place.repo, given) {
                Ok(stored) => return Ok((place, stored)),
                Err(error) => unknown = unknown.or(Some(error)),
            }
        }
        Err(of_queue(&unknown.expect("there is at least one repository")))
    }

    /// The entry somebody means, with those that land together with it.
    fn entries(&self, given: &str) -> Result<Vec<(Place, StoredEntry)>, Failure> {
        let found = self.entry(given)?;
        let Some(id) = found.1.entry.together.clone() else { return Ok(vec![found]) };
        let mut entries = Vec::new();
        for place in self.places() {
            let of = entries_of_landing(&place.repo, &id).map_err(|error| of_queue(&error))?;
            entries.extend(of.into_iter().map(|stored| (place.clone(), stored)));
        }
        Ok(entries)
    }

    /// The entry somebody means; of those that land together, one that a person has to decide about.
    fn conflicted(&self, given: &str) -> Result<(Place, StoredEntry), Failure> {
        let mut entries = self.entries(given)?;
        let waits = |(_, stored): &(Place, StoredEntry)| stored.entry.state == EntryState::Escalated;
        let index = entries.iter().position(waits).unwrap_or_default();
        Ok(entries.swap_remove(index))
    }

    /// How the queue works, by the settings.
    pub fn queue_settings(&self) -> QueueSettings {
        queue_settings(&self.settings, &self.place)
    }
}

/// What an entry waits for, in words.
fn wait_words(wait: &EntryWait) -> String {
    match wait {
        EntryWait::Turn(1) => "one is before it".to_owned(),
        EntryWait::Turn(before) => format!("{before} are before it"),
        EntryWait::Approval => "waits for `pleach merge approve`".to_owned(),
        EntryWait::Tasks(tasks) => format!("waits for {}", pleach::text::listed(tasks, 5)),
        EntryWait::Resolution => "its conflict is being resolved".to_owned(),
        EntryWait::Repair => "its task is worked again".to_owned(),
        EntryWait::Person => "a person has to decide".to_owned(),
        EntryWait::Change => "its tests fail".to_owned(),
        EntryWait::Tests => "its tests are run again, or not approved".to_owned(),
        EntryWait::Run => "the run that works on its tree writes it".to_owned(),
    }
}

/// What merged an entry, and whether nothing has tested that: in brackets, or nothing.
pub fn how_landed(tier: Option<impl ToString>, unverified: bool) -> String {
    let words: Vec<String> =
        tier.map(|tier| tier.to_string()).into_iter().chain(unverified.then(|| "unverified".to_owned())).collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

/// An entry for `--json`.
pub fn entry_json(entry: &QueueEntry) -> Value {
    let mut document = serde_json::to_value(entry).unwrap_or_default();
    document["name"] = json!(entry.name());
    document["unverified"] = json!(entry.is_unverified());
    document
}
