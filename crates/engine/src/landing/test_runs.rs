//! The tests that run at once, each in a slot of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinSet;

use super::error::QueueError;
use super::results::{self, ResultKey, TestResult};
use super::test_slot::{Derivation, TestPlace, TestSlot};
use os::process::Canceller;
use pleach_core::config::DerivedRules;
use pleach_core::ids::{CommitId, EntryId, RepoPath};
use pleach_core::queue::EntryTest;

/// What a test is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TestId {
    /// The first so many entries of the batch.
    Prefix(usize),
    /// A suspect's merge, once more.
    Again(EntryId),
    /// What the merge of an entry is built on.
    Without(EntryId),
    /// The branch of an entry, without the target.
    Alone(EntryId),
    /// The merge of an entry, without the content of a file.
    Emptied(EntryId, RepoPath),
    /// Files nobody merges, by the number of those that were asked for.
    Tree(usize),
}

/// A test that is to run.
#[derive(Debug, Clone)]
pub(super) struct TestJob {
    pub id: TestId,
    pub commit: CommitId,
    pub tests: Vec<EntryTest>,
    pub key: ResultKey,
}

/// A test that has ended: its number, its job, its slot and its result.
type EndedTest = (u64, TestJob, TestSlot, Result<Option<TestResult>, QueueError>);

/// The tests that run, and the slots that are free.
#[derive(Debug)]
pub(super) struct TestRuns {
    place: TestPlace,
    free: Vec<TestSlot>,
    /// The number of the last slot that was taken.
    last: u32,
    jobs: JoinSet<EndedTest>,
    /// The running tests that are still wanted, by number: the same prefix of another batch is another test.
    wanted: BTreeMap<u64, (TestId, Canceller)>,
    /// How many tests have run.
    pub count: usize,
}

impl TestRuns {
    pub(super) fn new(place: TestPlace) -> Self {
        Self { place, free: Vec::new(), last: 0, jobs: JoinSet::new(), wanted: BTreeMap::new(), count: 0 }
    }

    /// Starts a test.
    pub(super) fn start(&mut self, job: TestJob) -> Result<(), QueueError> {
        let mut slot = self.slot()?;
        let (canceller, cancel) = self.place.engine.cancel.child();
        let place = self.place.clone();
        self.count += 1;
        let number = self.count as u64;
        self.wanted.insert(number, (job.id.clone(), canceller));
        self.jobs.spawn(async move {
            let said = slot.test(&place, job.commit, &job.tests, &cancel).await;
            (number, job, slot, said)
        });
        Ok(())
    }

    /// Starts a test, unless it runs.
    pub(super) fn start_once(&mut self, job: TestJob) -> Result<(), QueueError> {
        if self.wanted.values().any(|(id, _)| *id == job.id) { Ok(()) } else { self.start(job) }
    }

    /// Runs commands that make files, in the files of a commit.
    pub(super) async fn derive(
        &mut self,
        commit: CommitId,
        commands: &[String],
        rules: &DerivedRules,
        limit: Duration,
    ) -> Result<Derivation, QueueError> {
        let mut slot = self.slot()?;
        let stop = self.place.engine.cancel.clone();
        let (canceller, cancel) = stop.child();
        let derivation = {
            let derive = slot.derive(&self.place, commit, commands, rules, limit, &cancel);
            tokio::pin!(derive);
            tokio::select! {
                derivation = &mut derive => derivation,
                () = stop.stopped() => {
                    canceller.kill();
                    derive.await
                }
            }
        };
        self.free.push(slot);
        derivation
    }

    /// Stops a test; its result no longer matters.
    pub(super) fn stop(&mut self, id: &TestId) {
        for (_, (_, canceller)) in self.wanted.extract_if(.., |_, (test, _)| test == id) {
            canceller.kill();
        }
    }

    /// How many tests other than those of a batch run.
    pub(super) fn beside(&self) -> usize {
        self.wanted.values().filter(|(id, _)| !matches!(id, TestId::Prefix(_))).count()
    }

    /// Waits for the next result; none once nothing runs. Those of stopped tests are left out.
    pub(super) async fn next(&mut self) -> Result<Option<(TestJob, Option<TestResult>)>, QueueError> {
        loop {
            let cancel = self.place.engine.cancel.clone();
            let ended = tokio::select! {
                ended = self.jobs.join_next() => ended,
                () = cancel.stopped(), if !self.wanted.is_empty() => {
                    // Tests change nothing: the next run repeats them.
                    self.stop_all();
                    continue;
                }
            };
            let (number, job, slot, said) = match ended {
                None => return Ok(None),
                Some(Ok(ended)) => ended,
                Some(Err(broken)) => std::panic::resume_unwind(broken.into_panic()),
            };
            self.free.push(slot);
            let is_wanted = self.wanted.remove(&number).is_some();
            let said = said?;
            if let Some(result) = &said {
                tokio::task::block_in_place(|| results::note(&self.place.repo, &self.place.target, &job.key, result))?;
            }
            if is_wanted || cancel.is_stopped() {
                return Ok(Some((job, said)));
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Stops everything.
    pub(super) fn stop_all(&mut self) {
        for (_, (_, canceller)) in std::mem::take(&mut self.wanted) {
            canceller.kill();
        }
    }

    /// A free slot. One where processes of a killed run remain is skipped.
    fn slot(&mut self) -> Result<TestSlot, QueueError> {
        if let Some(slot) = self.free.pop() {
            return Ok(slot);
        }
        loop {
            self.last += 1;
            if let Some(slot) = TestSlot::take(&self.place, self.last)? {
                return Ok(slot);
            }
        }
    }
}
