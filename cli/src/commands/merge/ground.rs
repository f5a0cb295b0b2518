//! What the commands of the merge queue have in common: where they work, and the words for an entry.

use engine::landing::{MergeQueue, QueueSettings, entries_of_landing, find_entry, queue_targets};
use git::Repo;
use pleach_core::ids::{BranchName, RepoName};
use pleach_core::merge::Tier;
use pleach_core::queue::{EntryState, EntryWait, QueueEntry};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::globals::Globals;
use crate::lib_errors::of_queue;
use crate::next_commands::about;
use crate::place::Place;
use crate::queue_settings::queue_settings;
use crate::settings::{self, Settings};
use git::record::StoredEntry;

/// A queue of one of the repositories.
pub(super) struct RepoQueue {
    pub(super) repo: Repo,
    pub(super) name: RepoName,
    /// Where it is, in words, where that is not the repository of the records.
    pub(super) at: String,
    pub(super) queue: MergeQueue,
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
    pub(super) fn with(globals: &'a Globals, settings: Settings) -> Result<Self, Failure> {
        let place = Place::find(&globals.dir, None, &settings)?;
        Ok(Self { globals, settings, place })
    }

    /// The branch things are merged into: the given one, the configured one, or the one that is checked out.
    pub fn target(&self, given: Option<&BranchName>) -> Result<BranchName, Failure> {
        let configured = self.settings.resolved.config.merge.target.as_ref();
        match given.or(configured) {
            Some(target) => Ok(target.clone()),
            None => crate::place::target(&self.place),
        }
    }

    /// The queues somebody asks about: those of the given target, or all.
    pub(super) fn queues(&self, given: Option<&BranchName>) -> Result<Vec<RepoQueue>, Failure> {
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
    pub(super) fn entry(&self, given: &str) -> Result<(Place, StoredEntry), Failure> {
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
    pub(super) fn entries(&self, given: &str) -> Result<Vec<(Place, StoredEntry)>, Failure> {
        let found = self.entry(given)?;
        let Some(id) = found.1.entry.together.clone() else { return Ok(vec![found]) };
        let mut entries = Vec::new();
        for place in self.places() {
            let joint_entries = entries_of_landing(&place.repo, &id).map_err(|error| of_queue(&error))?;
            entries.extend(joint_entries.into_iter().map(|stored| (place.clone(), stored)));
        }
        Ok(entries)
    }

    /// The entry somebody means; of those that land together, one that a person has to decide about.
    pub(super) fn conflicted(&self, given: &str) -> Result<(Place, StoredEntry), Failure> {
        let mut entries = self.entries(given)?;
        let waits = |(_, stored): &(Place, StoredEntry)| stored.entry.state == EntryState::Escalated;
        let index = entries.iter().position(waits).unwrap_or_default();
        Ok(entries.swap_remove(index))
    }

    /// Another command, as it works where this one was typed.
    pub fn command(&self, command: &str) -> String {
        about(self.globals, &self.globals.dir, command, None)
    }

    /// How the queue works, by the settings.
    pub fn queue_settings(&self) -> QueueSettings {
        queue_settings(&self.settings, &self.place)
    }
}

/// What an entry waits for, in words.
pub(super) fn wait_words(wait: &EntryWait) -> String {
    match wait {
        EntryWait::Turn(1) => "one is before it".to_owned(),
        EntryWait::Turn(before) => format!("{before} are before it"),
        EntryWait::Approval => "waits for `pleach merge approve`".to_owned(),
        EntryWait::Tasks(tasks) => format!("waits for {}", pleach_core::text::listed(tasks, 5)),
        EntryWait::Resolution => "its conflict is being resolved".to_owned(),
        EntryWait::Repair => "its task is worked again".to_owned(),
        EntryWait::Person => "a person has to decide".to_owned(),
        EntryWait::Change => "its tests fail".to_owned(),
        EntryWait::Tests => "its tests are run again, or not approved".to_owned(),
        EntryWait::Run => "the run that works on its tree writes it".to_owned(),
    }
}

/// What merged an entry, and whether nothing has tested that: in brackets, or nothing.
pub fn how_landed(tier: Option<Tier>, unverified: bool) -> String {
    let words: Vec<&str> = tier.map(Tier::words).into_iter().chain(unverified.then_some("unverified")).collect();
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

/// An entry for `--json`.
pub fn entry_json(entry: &QueueEntry) -> Value {
    let mut document = serde_json::to_value(entry).unwrap_or_default();
    document["name"] = json!(entry.name());
    document["unverified"] = json!(entry.is_unverified());
    document
}
