//! Finds out whether an entry is to blame for failing tests: the same files are tested once more, then what they are
//! without it, and its branch alone, beside whatever the queue does meanwhile.

use super::batch::BatchItem;
use super::error::QueueError;
use super::landing::update;
use super::results::{self, TestResult};
use super::run::{QueueRun, tell_escalated, verdict_of};
use super::store::{MergeQueue, QueueChange};
use super::suspects::Suspect;
use super::test_runs::{TestId, TestJob};
use crate::ids::{CommitId, EntryId};
use crate::merge::Tier;
use crate::queue::{EntryState, EntryTest, TestVerdict};

impl QueueRun {
    /// Has the files tested again that an entry has made fail.
    pub(super) fn suspect(
        &mut self,
        item: &BatchItem,
        tests: Vec<EntryTest>,
        result: &TestResult,
    ) -> Result<(), QueueError> {
        let entry = &item.entry;
        let job = self.job(TestId::Again(entry.id.clone()), item.built.commit, tests.clone())?;
        let (head, onto) = (entry.head, item.built.onto);
        let suspect = Suspect { head, onto, tested: entry.tested, tests, result: result.clone() };
        self.suspects.insert(entry.id.clone(), suspect);
        self.runs.start(job)
    }

    /// Waits for a test that runs beside the batches. False if there is none.
    pub(super) async fn hear_beside(&mut self, queue: &mut MergeQueue) -> Result<bool, QueueError> {
        let Some((job, said)) = self.runs.next().await? else { return Ok(false) };
        self.hear(queue, job, said)?;
        Ok(true)
    }

    /// Takes the result of a test that ran beside the batches.
    pub(super) fn hear(
        &mut self,
        queue: &mut MergeQueue,
        job: TestJob,
        said: Option<TestResult>,
    ) -> Result<(), QueueError> {
        let Some(result) = said else { return Ok(()) };
        match job.id.clone() {
            TestId::Prefix(_) | TestId::Emptied(..) => Ok(()),
            TestId::Again(id) => self.tested_again(queue, &id, &job, result),
            TestId::Without(id) => self.tested_without(queue, &id, &result),
            TestId::Alone(id) => {
                let Some(suspect) = self.suspects.remove(&id) else { return Ok(()) };
                self.blame(queue, (&id, suspect.head), &suspect.result, result.passed)
            }
        }
    }

    fn tested_again(
        &mut self,
        queue: &mut MergeQueue,
        id: &EntryId,
        job: &TestJob,
        result: TestResult,
    ) -> Result<(), QueueError> {
        let (repo, target) = (self.place.repo.clone(), self.place.target.clone());
        if result.passed {
            // The same files fail and pass: that says nothing about the entry.
            let flaky = TestResult { flaky: true, ..result };
            results::note(&repo, &target, &job.key, &flaky)?;
            self.suspects.remove(id);
            update(&repo, queue, std::slice::from_ref(id), |entry| {
                entry.state = EntryState::Submitted;
                entry.verdict = Some(verdict_of(&flaky));
                entry.why = Some("its tests failed once and passed when they were run again".to_owned());
            })?;
            return Ok(());
        }
        let Some(suspect) = self.suspects.get_mut(id) else { return Ok(()) };
        suspect.result = result;
        // Tests that an entry brings need not be on the target.
        let Some(test) = self.settings.test.clone() else { return self.test_alone(queue, id) };
        let onto = suspect.onto;
        let without = self.job(TestId::Without(id.clone()), onto, vec![test])?;
        match results::known(&repo, &target, &without.key)? {
            Some(known) => self.tested_without(queue, id, &known),
            None => self.runs.start(without),
        }
    }

    /// Takes what the tests say of the files without an entry. Where they fail, it is not to blame.
    fn tested_without(&mut self, queue: &mut MergeQueue, id: &EntryId, result: &TestResult) -> Result<(), QueueError> {
        if result.passed {
            return self.test_alone(queue, id);
        }
        let Some(suspect) = self.suspects.remove(id) else { return Ok(()) };
        if queue.entry(id).is_none_or(|stored| stored.entry.head != suspect.head) {
            return Ok(());
        }
        let target = &self.place.target;
        let why = format!(
            "the tests fail on `{target}` without it as well ({}), so nothing can land before `{target}` passes them; then \
             `pleach merge retry` tries again",
            result.exit
        );
        self.escalate(queue, id, &why, |entry| entry.verdict = None)
    }

    /// Has the branch of an entry tested without the target, unless that is known.
    fn test_alone(&mut self, queue: &mut MergeQueue, id: &EntryId) -> Result<(), QueueError> {
        let (repo, target) = (self.place.repo.clone(), self.place.target.clone());
        let Some(suspect) = self.suspects.get_mut(id) else { return Ok(()) };
        if suspect.tested {
            let suspect = self.suspects.remove(id).expect("it was just found");
            return self.blame(queue, (id, suspect.head), &suspect.result, true);
        }
        let (head, tests) = (suspect.head, suspect.tests.clone());
        let alone = self.job(TestId::Alone(id.clone()), head, tests)?;
        match results::known(&repo, &target, &alone.key)? {
            Some(known) => {
                let suspect = self.suspects.remove(id).expect("it was just found");
                self.blame(queue, (id, suspect.head), &suspect.result, known.passed)
            }
            None => self.runs.start(alone),
        }
    }

    /// Notes that an entry makes the tests fail; `semantic` if its branch passes them without the target.
    pub(super) fn blame(
        &mut self,
        queue: &mut MergeQueue,
        (id, head): (&EntryId, CommitId),
        result: &TestResult,
        semantic: bool,
    ) -> Result<(), QueueError> {
        loop {
            // Somebody may have queued another commit meanwhile, of which nothing is known.
            let Some(stored) = queue.entry(id).filter(|stored| stored.entry.head == head) else { return Ok(()) };
            let mut entry = stored.entry.clone();
            let is_of_person = entry.resolution.as_ref().is_some_and(|made| made.tier == Tier::Person);
            let is_resolved = entry.resolution.is_some();
            // What a person has made is where they go on.
            entry.resolution = entry.resolution.take_if(|_| is_of_person);
            let may_try = self.settings.resolver.as_ref().is_some_and(|resolver| entry.attempts < resolver.attempts);
            entry.state = match (semantic || is_resolved, may_try) {
                _ if is_of_person => EntryState::Escalated,
                (true, true) => EntryState::Conflicted,
                _ if entry.is_repairable() => EntryState::Repairing,
                (true, false) if is_resolved => EntryState::Escalated,
                _ => EntryState::Red,
            };
            entry.verdict = Some(TestVerdict::Fail { exit: result.exit.clone(), semantic });
            let sides = if self.settings.test.is_some() { "the branch and on the target" } else { "the branch alone" };
            entry.why = Some(match semantic {
                true => format!("the tests fail on the merge ({}), and pass on {sides}", result.exit),
                false => format!("the tests fail ({})", result.exit),
            });
            let entries = vec![(entry.clone(), Some(result.log.clone()))];
            let change = QueueChange { entries, ..QueueChange::default() };
            if queue.apply(&self.place.repo, change, "pleach: tests fail")? {
                if entry.state == EntryState::Escalated {
                    tell_escalated(&self.place.engine, &entry);
                }
                return Ok(());
            }
            *queue = MergeQueue::read(&self.place.repo, &self.place.target)?;
        }
    }
}
