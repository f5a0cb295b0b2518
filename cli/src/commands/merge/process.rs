//! `pleach merge process`

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use clap::Args;
use engine::landing::{MergeQueue, QueueOutcome, QueueRun, QueueSettings, delete_landed_branch, queue_to_trust};
use engine::tree::ad_hoc::TaskStore;
use engine::trust::TrustScope;
use git::Repo;
use git::workspace::branch_ref;
use pleach_core::budget::Amount;
use pleach_core::event::{Event, MergeResolution, Notification};
use pleach_core::ids::{BranchName, EntryId};
use pleach_core::queue::{EntryState, QueueEntry};
use pleach_core::text::{counted, listed};
use serde_json::json;

use super::ground::{MergeGround, entry_json, how_landed};
use crate::answers::Answers;
use crate::attribution_notes::BranchesBefore;
use crate::code::Code;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::globals::Globals;
use crate::joint_landing::land_queued;
use crate::lib_errors::{of_git, of_queue, of_store};
use crate::next_commands::about;
use crate::place::Place;
use crate::preflight::warn_of_red_target;
use crate::render::live::{Doing, Live};
use crate::render::stream::Stream;
use crate::render::style::{BAD, GOOD, head, paint};
use crate::render::{Out, duration};
use crate::runtime::block_on;
use crate::say;
use crate::session::{EngineHandle, build};
use crate::trust::TerminalTruster;
use git::record::read_entry;

/// Merge and test what is in the queue, and land what passes.
///
/// Ends when nothing in the queue can move. Exits with 0 if everything has landed, 4 if something waits for approval, 5 if
/// a person has to resolve a conflict or a checkout is in the way, 1 if tests fail and nobody works on that.
#[derive(Debug, Args)]
pub struct ProcessArgs {
    /// The target; by default `merge.target`, or the branch that is checked out.
    #[arg(long, value_name = "BRANCH")]
    pub into: Option<BranchName>,
    /// Look again every `merge.interval_secs` seconds, until stopped.
    #[arg(long)]
    pub watch: bool,
}

pub fn run(ground: &MergeGround<'_>, args: &ProcessArgs) -> Result<Exit, Failure> {
    let target = ground.target(args.into.as_ref())?;
    let joint = land_queued(ground, &target);
    let exit = run_alone(ground, args, target)?;
    Ok(if joint == Exit::Done { exit } else { joint })
}

/// Works the queue once and tells what became of one entry.
pub fn run_for(ground: &MergeGround<'_>, entry: &QueueEntry) -> Result<Exit, Failure> {
    let approved = require_trust(ground, &entry.target)?;
    let built = build(ground.globals, &ground.settings, &ground.settings.resolved.config, Answers::default())?;
    let mut shown = MergeProgress::new(ground);
    let begun = Instant::now();
    let work = process_once(ground, &entry.target, &built, &mut shown, &approved);
    let mut outcome = block_on(built.stopped_by(), work)?;
    outcome.landed.retain(|landed| landed.id == entry.id);
    outcome.open.retain(|open| open.id == entry.id);
    shown.end(&outcome, begun.elapsed())?;
    Ok(exit_of(&outcome))
}

fn run_alone(ground: &MergeGround<'_>, args: &ProcessArgs, target: BranchName) -> Result<Exit, Failure> {
    let approved = require_trust(ground, &target)?;
    let built = build(ground.globals, &ground.settings, &ground.settings.resolved.config, Answers::default())?;
    let stopped_by = built.stopped_by();
    block_on(stopped_by, work(ground, &target, &built, args.watch, approved))
}

/// Asks for approval of everything the queue would run. Gives the tests of its entries, which are approved then.
fn require_trust(ground: &MergeGround<'_>, target: &BranchName) -> Result<BTreeSet<String>, Failure> {
    let (repo, settings) = (&ground.place.repo, &ground.settings);
    let queue = MergeQueue::read(repo, target).map_err(|error| of_queue(&error))?;
    let scope = TrustScope {
        repo,
        resolved: &settings.resolved,
        environment: &settings.environment,
        state_dir: &settings.state_dir,
    };
    TerminalTruster::of(ground.globals, settings, repo.common_dir()).require(queue_to_trust(&scope, &queue))?;
    if queue.entries().iter().any(|entry| entry.state.is_workable()) {
        warn_of_red(ground, target)?;
    }
    let tests = queue.entries().into_iter().flat_map(|entry| entry.tests);
    Ok(tests.map(|test| test.command).collect())
}

/// Says that a target fails its test already, if that is known.
fn warn_of_red(ground: &MergeGround<'_>, target: &BranchName) -> Result<(), Failure> {
    let config = &ground.settings.resolved.config;
    let tip = ground.place.repo.refs().find(&branch_ref(target)).map_err(|error| of_git(&error))?;
    if let (Some(tip), Some(command)) = (tip, config.test_of_all_merges().or(config.test_of_other_merges())) {
        warn_of_red_target(&ground.settings, &ground.place, target, tip, command);
    }
    Ok(())
}

async fn work(
    ground: &MergeGround<'_>,
    target: &BranchName,
    built: &EngineHandle,
    watch: bool,
    mut approved: BTreeSet<String>,
) -> Result<Exit, Failure> {
    let interval = Duration::from_secs(ground.settings.resolved.config.merge.interval_secs.max(1));
    let mut shown = MergeProgress::new(ground);
    let mut hindered = String::new();
    loop {
        let begun = Instant::now();
        let outcome = match process_once(ground, target, built, &mut shown, &approved).await {
            // Whoever has the queue works it; this process goes on when they end.
            Err(failure) if watch && failure.code == Code::QueueLocked => {
                say_once(&mut hindered, &failure);
                tokio::select! {
                    () = tokio::time::sleep(interval) => continue,
                    () = built.engine.cancel.stopped() => return Ok(Exit::Done),
                }
            }
            outcome => outcome?,
        };
        let exit = exit_of(&outcome);
        if !watch || outcome.is_stopped {
            shown.end(&outcome, begun.elapsed())?;
            // Who watches is only ever stopped: what is left is worked the next time.
            return Ok(if watch && exit == Exit::Paused { Exit::Done } else { exit });
        }
        if let Some(held) = &outcome.held {
            say!("{held}");
        }
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = built.engine.cancel.stopped() => return Ok(exit),
        }
        // What has been queued meanwhile may bring commands nobody has seen.
        match tokio::task::block_in_place(|| require_trust(ground, target)) {
            Ok(more) => approved = more,
            // What was approved before is still worked.
            Err(failure) => say_once(&mut hindered, &failure),
        }
        tokio::task::block_in_place(|| land_queued(ground, target));
    }
}

/// Says what is in the way, unless that was said last.
fn say_once(said: &mut String, failure: &Failure) {
    if *said != failure.message {
        said.clone_from(&failure.message);
        say!("{}", failure.message);
    }
}

/// Works the queue once, until nothing in it can move.
pub async fn process_once(
    ground: &MergeGround<'_>,
    target: &BranchName,
    built: &EngineHandle,
    shown: &mut MergeProgress,
    approved: &BTreeSet<String>,
) -> Result<QueueOutcome, Failure> {
    let place = &ground.place;
    let settings = QueueSettings { approved_tests: approved.clone(), ..ground.queue_settings() };
    let opened = QueueRun::open(built.engine.clone(), place.repo.clone(), place.name.clone(), target.clone(), settings);
    let run = opened.map_err(|error| of_queue(&error))?;
    let before = BranchesBefore::look(&ground.settings.resolved.config, [place]);
    let outcome = run.spawn().follow(|notification| shown.event(notification)).await;
    shown.rest();
    let outcome = outcome.map_err(|error| of_queue(&error))?;
    before.write_notes(&place.repo);
    if ground.settings.resolved.config.worktrees.delete_branches {
        delete_branches(place, &outcome)?;
    }
    Ok(outcome)
}

/// Deletes the branches of tasks that have landed. Those of trees go with the next run over their tree.
fn delete_branches(place: &Place, outcome: &QueueOutcome) -> Result<(), Failure> {
    let store = TaskStore::new(&place.repo);
    for entry in &outcome.landed {
        let Some(task) = &entry.task else { continue };
        if store.get(task).map_err(|error| of_store(&error))?.is_some() {
            delete_landed_branch(&place.repo, entry).map_err(|error| of_queue(&error))?;
        }
    }
    Ok(())
}

/// What the outcome is for a script.
pub fn exit_of(outcome: &QueueOutcome) -> Exit {
    let has = |states: &[EntryState]| outcome.in_state(states).next().is_some();
    if outcome.held.is_some() || has(&[EntryState::Escalated, EntryState::Conflicted]) {
        Exit::LandingRefused
    } else if has(&[EntryState::Candidate]) || (outcome.is_unapproved && !outcome.is_stopped) {
        Exit::WaitsForPerson
    } else if outcome.is_stopped {
        Exit::Paused
    } else if has(&[EntryState::Red, EntryState::Repairing]) {
        Exit::WorkFailed
    } else if has(&[EntryState::Submitted]) {
        // Nothing is wrong with it, but what it depends on is not to land.
        Exit::WaitsForPerson
    } else {
        Exit::Done
    }
}

/// Shows the work of a queue.
#[derive(Debug)]
pub struct MergeProgress {
    json: Option<Stream>,
    quiet: bool,
    globals: Globals,
    repo: Repo,
    /// The conflicts that agents resolve now.
    resolving: BTreeSet<EntryId>,
    /// What they do, as long as there are any.
    live: Option<Live>,
}

impl MergeProgress {
    pub fn new(ground: &MergeGround<'_>) -> Self {
        let globals = ground.globals;
        let quiet = globals.json || globals.verbosity < 0;
        let (resolving, live) = (BTreeSet::new(), None);
        let (json, repo) = (globals.json.then(Stream::default), ground.place.repo.clone());
        Self { json, quiet, globals: globals.clone(), repo, resolving, live }
    }

    /// What people call an entry; its id, if it cannot be read.
    fn name(&self, target: &BranchName, id: &EntryId) -> String {
        let stored = read_entry(&self.repo, target, id).ok().flatten();
        stored.map_or_else(|| id.to_string(), |stored| stored.entry.name())
    }

    fn event(&mut self, notification: &Notification) {
        self.json.iter_mut().for_each(|stream| stream.print(notification));
        match &notification.recorded.event {
            Event::MergeComplete(merged) if !self.quiet => {
                let what = self.name(&merged.target, &merged.entry);
                let tier = merged.tier.as_ref().and_then(|tier| tier.parse().ok());
                let how = how_landed(tier, merged.unverified);
                let why = merged.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
                say!("{} {what} on `{}`{how}{why}", paint(GOOD, "landed"), merged.target);
            }
            Event::MergeResolution(resolution) if !self.quiet => self.resolution(resolution),
            Event::MergeEscalated(merged) if !self.quiet => {
                let what = self.name(&merged.target, &merged.entry);
                say!("{} {what}", paint(BAD, "escalated"));
            }
            Event::Warning(warning) => say::warn(warning),
            _ => {}
        }
    }

    /// An agent resolves the conflict of an entry, which is seen as long as it does, or has come to an end with it.
    fn resolution(&mut self, resolution: &MergeResolution) {
        let what = self.name(&resolution.target, &resolution.entry);
        let is_terminal = std::io::stderr().is_terminal();
        let live = self.live.get_or_insert_with(|| Live::new(is_terminal, Amount::default()));
        match resolution.resolved {
            None => {
                self.resolving.insert(resolution.entry.clone());
                let doing = Doing { id: what.clone(), step: resolution.text.clone(), attempt: 1 };
                live.set(|now| now.start(&what, doing));
            }
            Some(_) => {
                self.resolving.remove(&resolution.entry);
                live.set(|now| now.end(&what));
            }
        }
        if self.resolving.is_empty() {
            self.rest();
        }
        if !is_terminal || resolution.resolved.is_some() {
            say!("{what} · {}", resolution.text);
        }
    }

    /// Takes the live line away.
    fn rest(&mut self) {
        self.live.take().into_iter().for_each(|mut live| live.finish());
    }

    fn end(&self, outcome: &QueueOutcome, took: Duration) -> Result<(), Failure> {
        let mut out = Out::new();
        if self.json.is_some() {
            let entries = |entries: &[QueueEntry]| entries.iter().map(entry_json).collect::<Vec<_>>();
            return out.json(&json!({
                "landed": entries(&outcome.landed), "open": entries(&outcome.open), "held": outcome.held,
                "tests": outcome.tests, "stopped": outcome.is_stopped,
            }));
        }
        let all = outcome.landed.len() + outcome.open.len();
        let tests = counted(outcome.tests as u64, "test run");
        out.line(head(&format!("landed {} of {all} in {}, {tests}", outcome.landed.len(), duration(took))))?;
        let unverified: Vec<String> =
            outcome.landed.iter().filter(|entry| entry.is_unverified()).map(QueueEntry::name).collect();
        if !unverified.is_empty() {
            let what = listed(&unverified, 10);
            out.line(format!("unverified: nothing tests {what}; `test_command` in pleach.yaml says what does"))?;
        }
        for entry in &outcome.open {
            let why = entry.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            out.line(format!("  {} is {}{why}", entry.name(), entry.state))?;
        }
        if let Some(held) = &outcome.held {
            out.line(held)?;
        }
        let states = [EntryState::Escalated, EntryState::Red, EntryState::Candidate, EntryState::Repairing];
        if let Some(entry) = outcome.in_state(&states).next() {
            let next = match entry.state {
                EntryState::Candidate => format!("merge approve {}", entry.reference()),
                EntryState::Repairing => format!("task start {}", entry.reference()),
                _ => format!("merge why {}", entry.reference()),
            };
            out.line(format!("next:    {}", about(&self.globals, &self.globals.dir, &next, None)))?;
        }
        Ok(())
    }
}
