//! A queue that this process works, and what it has to be able to say of its entries.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::archive::archive_old;
use super::edited_tests::warn_of_edited_tests;
use super::error::QueueError;
use super::landing::{tip_of, update};
use super::outcome::QueueOutcome;
use super::resolvers::{ResolverEnd, Resolvers};
use super::results::{ResultKey, TestResult};
use super::settings::QueueSettings;
use super::store::{MergeQueue, QueueChange, change_queue};
use super::suspects::Suspects;
use super::test_runs::{TestId, TestJob, TestRuns};
use super::test_slot::TestPlace;
use crate::env::Engine;
use git::Repo;
use git::workspace::{Lock, queue_lock};
use pleach_core::clock;
use pleach_core::event::{MergeComplete, MergeEscalated, WarningCode};
use pleach_core::ids::{BranchName, CommitId, EntryId, RepoName};
use pleach_core::queue::{BatchRecord, EntryState, EntryTest, QueueEntry, TestVerdict};

/// A queue that this process works.
#[derive(Debug)]
pub struct QueueRun {
    pub(super) place: TestPlace,
    pub(super) settings: QueueSettings,
    pub(super) runs: TestRuns,
    pub(super) resolvers: Resolvers,
    /// Entries whose tests are run again before they are blamed.
    pub(super) suspects: Suspects,
    pub(super) outcome: QueueOutcome,
    /// The warnings about entries that wait for a person.
    warned: BTreeSet<String>,
    /// How many entries were red, which decides the batch size.
    pub(super) record: BatchRecord,
    _lock: Lock,
}

/// A job of the queue that has ended.
#[derive(Debug)]
pub(super) enum EndedJob {
    /// A test, with its result; none if it was stopped.
    Test(TestJob, Option<TestResult>),
    /// The work of an agent on a conflict.
    Resolver(Box<ResolverEnd>),
}

impl QueueRun {
    /// Takes the queue of a target, or reports its holder.
    pub fn open(
        engine: Arc<Engine>,
        repo: Repo,
        repo_name: RepoName,
        target: BranchName,
        settings: QueueSettings,
    ) -> Result<Self, QueueError> {
        let what = format!("the merge queue of `{target}`");
        let lock = Lock::take(repo.common_dir(), &queue_lock(&target), &what)?;
        tip_of(&repo, &target)?;
        let redactor = &engine.redactor;
        let begins = |queue: &MergeQueue| {
            // A former pleach wrote entries unredacted.
            let clean = queue.entries().into_iter().filter_map(|entry| {
                let clean = entry.without_secrets(redactor);
                (clean != entry).then_some((clean, None))
            });
            Ok((QueueChange { begins: true, entries: clean.collect(), ..QueueChange::default() }, ()))
        };
        change_queue(&repo, &target, "pleach: work the merge queue", begins)?;
        let settings = settings.approving_without_secrets(redactor);
        archive_old(&repo, &target, clock::now())?;
        let place = TestPlace { engine, repo, repo_name, target };
        let (runs, record) = (TestRuns::new(place.clone()), BatchRecord::default());
        let (suspects, outcome) = (Suspects::default(), QueueOutcome::default());
        let resolvers = Resolvers::default();
        Ok(Self { place, settings, runs, resolvers, suspects, outcome, warned: BTreeSet::new(), record, _lock: lock })
    }

    /// Waits for the next job to end; none if nothing runs.
    pub(super) async fn next(&mut self) -> Result<Option<EndedJob>, QueueError> {
        while !self.runs.is_empty() || !self.resolvers.is_empty() {
            tokio::select! {
                ended = self.runs.next(), if !self.runs.is_empty() => {
                    if let Some((job, said)) = ended? {
                        return Ok(Some(EndedJob::Test(job, said)));
                    }
                }
                ended = self.resolvers.next(), if !self.resolvers.is_empty() => {
                    if let Some(ended) = ended {
                        return Ok(Some(EndedJob::Resolver(Box::new(ended))));
                    }
                }
            }
        }
        Ok(None)
    }

    pub(super) fn job(&self, id: TestId, commit: CommitId, tests: Vec<EntryTest>) -> Result<TestJob, QueueError> {
        let repo = &self.place.repo;
        let key = ResultKey::new(repo, repo.tree_of(commit)?, &tests, &self.settings)?;
        Ok(TestJob { id, commit, tests, key })
    }

    /// Returns an entry to its task, which is worked again; an entry without one is handed to a person.
    pub(super) fn give_back(
        &mut self,
        queue: &mut MergeQueue,
        id: &EntryId,
        why: &str,
        edit: impl Fn(&mut QueueEntry),
    ) -> Result<(), QueueError> {
        let is_of_task = queue.entry(id).is_some_and(|stored| stored.entry.is_repairable());
        if !is_of_task {
            return self.escalate(queue, id, why, edit);
        }
        let done = update(&self.place.repo, queue, std::slice::from_ref(id), |entry| {
            entry.state = EntryState::Repairing;
            entry.why = Some(why.to_owned());
            entry.resolution = None;
            edit(entry);
        });
        done.map(drop)
    }

    /// Hands an entry to a person.
    pub(super) fn escalate(
        &mut self,
        queue: &mut MergeQueue,
        id: &EntryId,
        why: &str,
        edit: impl Fn(&mut QueueEntry),
    ) -> Result<(), QueueError> {
        let done = update(&self.place.repo, queue, std::slice::from_ref(id), |entry| {
            entry.state = EntryState::Escalated;
            entry.why = Some(why.to_owned());
            edit(entry);
        })?;
        if let Some(stored) = queue.entry(id).filter(|_| done) {
            tell_escalated(&self.place.engine, &stored.entry);
        }
        Ok(())
    }

    /// Whether an entry waits because nobody has approved its tests.
    pub(super) fn is_unapproved(&self, entry: &QueueEntry) -> bool {
        entry.state.is_workable() && entry.together.is_none() && !self.settings.may_test(entry)
    }

    /// Warns early about entries that wait for a person: agents take long, and the run ends after them.
    pub(super) fn tell_waiting(&mut self, entries: &[QueueEntry]) {
        if self.resolvers.is_empty() {
            return;
        }
        let is_candidate = |entry: &QueueEntry| {
            entry.state == EntryState::Candidate && !entry.approved && !self.settings.auto_merge_clean
        };
        let why = |entry: &QueueEntry| match entry.name() {
            name if self.is_unapproved(entry) => {
                Some(format!("the tests of {name} are not approved; `pleach merge process` asks for that"))
            }
            name if is_candidate(entry) => {
                let given = entry.reference();
                Some(format!("{name} waits for approval; `pleach merge approve {given}` lets it land"))
            }
            _ => None,
        };
        let waits: Vec<String> = entries.iter().filter_map(why).chain(self.outcome.held.clone()).collect();
        for text in waits {
            if self.warned.insert(text.clone()) {
                self.place.engine.warn(WarningCode::QueueWaits.with(text));
            }
        }
    }

    /// Reports that an entry landed.
    pub(super) fn tell_landed(&mut self, entry: QueueEntry) {
        warn_of_edited_tests(&self.place.engine, &self.place.repo, &entry, &self.settings.tests);
        tell_landed(&self.place.engine, &entry);
        self.outcome.landed.push(entry);
    }
}

/// Reports that an entry landed.
pub(super) fn tell_landed(engine: &Engine, entry: &QueueEntry) {
    engine.tell(MergeComplete {
        // A revert is not the task's work.
        task: entry.task.clone().filter(|_| entry.is_repairable()),
        auto: !entry.approved,
        branch: entry.branch.clone(),
        target: entry.target.clone(),
        entry: entry.id.clone(),
        tier: entry.tier.map(|tier| tier.to_string()),
        why: entry.why.clone().filter(|_| entry.landing.is_some()),
        unverified: entry.is_unverified(),
        extra: Default::default(),
    });
}

/// Reports that a person has to decide on an entry.
pub(crate) fn tell_escalated(engine: &Engine, entry: &QueueEntry) {
    engine.tell(MergeEscalated {
        task: entry.task.clone().filter(|_| entry.is_repairable()),
        branch: entry.branch.clone(),
        target: entry.target.clone(),
        conflicts: entry.conflicts.len(),
        entry: entry.id.clone(),
        extra: Default::default(),
    });
}

pub(super) fn verdict_of(result: &TestResult) -> TestVerdict {
    let seconds = result.seconds;
    match (result.passed, result.flaky) {
        (true, false) => TestVerdict::Pass { seconds },
        (true, true) => TestVerdict::Flaky { seconds },
        (false, _) => TestVerdict::Fail { exit: result.exit.clone(), semantic: false },
    }
}
