//! Finds out whether an entry is to blame for failing tests: the same files are tested once more, then what they are
//! without it, and its branch alone, beside the other work of the queue.

use std::time::Duration;

use super::batch::BatchItem;
use super::error::QueueError;
use super::landing::{tip_of, update};
use super::results::{self, TestResult};
use super::run::{EndedJob, QueueRun, tell_escalated, verdict_of};
use super::store::{MergeQueue, QueueChange};
use super::suspects::Suspect;
use super::test_runs::{TestId, TestJob};
use pleach_core::ids::{CommitId, EntryId};
use pleach_core::merge::Tier;
use pleach_core::queue::{EntryState, EntryTest, TestVerdict};

/// How often to check whether the queue has changed.
const POLL: Duration = Duration::from_millis(100);

impl QueueRun {
    /// Tests the files of a failed entry again, and its branch without the target.
    pub(super) fn suspect(
        &mut self,
        item: &BatchItem,
        tests: Vec<EntryTest>,
        result: &TestResult,
    ) -> Result<(), QueueError> {
        let entry = &item.entry;
        let of_target = self.settings.tests.of_target(&tests);
        let again = self.job(TestId::Again(entry.id.clone()), item.built.commit, tests.clone())?;
        let alone = self.job(TestId::Alone(entry.id.clone()), entry.head, tests)?;
        let known = results::known(&self.place.repo, &self.place.target, &alone.key)?;
        let passes_alone = if entry.tested { Some(true) } else { known.map(|known| known.passed) };
        let passes_without = of_target.is_empty().then_some(true);
        let suspect = Suspect {
            head: entry.head,
            onto: item.built.onto,
            of_target,
            result: result.clone(),
            is_red_again: false,
            passes_without,
            passes_alone,
        };
        self.suspects.insert(entry.id.clone(), suspect);
        self.runs.start(again)?;
        if passes_alone.is_none() {
            self.runs.start(alone)?;
        }
        Ok(())
    }

    /// Waits until a job beside the batches ends, or the queue or its target changes. False if nothing runs.
    pub(super) async fn hear_beside(&mut self, queue: &mut MergeQueue, tip: CommitId) -> Result<bool, QueueError> {
        loop {
            tokio::select! {
                ended = self.next() => {
                    let Some(ended) = ended? else { return Ok(false) };
                    self.hear(queue, ended)?;
                    return Ok(true);
                }
                () = tokio::time::sleep(POLL) => {}
            }
            let is_current = tokio::task::block_in_place(|| queue.is_current(&self.place.repo))?;
            if !is_current || tip_of(&self.place.repo, &self.place.target)? != tip {
                return Ok(true);
            }
        }
    }

    /// Handles the end of a job beside the batches, then starts agents on conflicts.
    pub(super) fn hear(&mut self, queue: &mut MergeQueue, ended: EndedJob) -> Result<(), QueueError> {
        match ended {
            EndedJob::Test(job, said) => self.hear_test(queue, job, said)?,
            EndedJob::Resolver(ended) => tokio::task::block_in_place(|| self.take_answer(queue, *ended))?,
        }
        self.start_resolvers(queue)
    }

    /// Handles the result of a test beside the batches.
    fn hear_test(&mut self, queue: &mut MergeQueue, job: TestJob, said: Option<TestResult>) -> Result<(), QueueError> {
        let Some(result) = said else { return Ok(()) };
        match job.id.clone() {
            TestId::Prefix(_) | TestId::Emptied(..) | TestId::Tree(_) => Ok(()),
            TestId::Again(id) if result.passed => self.is_flaky(queue, &id, &job, result),
            TestId::Again(id) => {
                self.suspects.note(&id, |suspect| (suspect.is_red_again, suspect.result) = (true, result.clone()));
                self.conclude(queue, &id)
            }
            TestId::Without(id) => {
                self.suspects.note(&id, |suspect| suspect.passes_without = Some(result.passed));
                self.conclude(queue, &id)
            }
            TestId::Alone(id) => {
                self.suspects.note(&id, |suspect| suspect.passes_alone = Some(result.passed));
                self.conclude(queue, &id)
            }
        }
    }

    /// The same files failed and passed: the entry is not to blame.
    fn is_flaky(
        &mut self,
        queue: &mut MergeQueue,
        id: &EntryId,
        job: &TestJob,
        result: TestResult,
    ) -> Result<(), QueueError> {
        let (repo, target) = (self.place.repo.clone(), self.place.target.clone());
        let flaky = TestResult { flaky: true, ..result };
        results::note(&repo, &target, &job.key, &flaky)?;
        self.suspects.remove(id);
        self.runs.stop(&TestId::Alone(id.clone()));
        let done = update(&repo, queue, std::slice::from_ref(id), |entry| {
            entry.state = EntryState::Submitted;
            entry.verdict = Some(verdict_of(&flaky));
            entry.why = Some("its tests failed once and passed when they were run again".to_owned());
        });
        done.map(drop)
    }

    /// Decides about a suspect, once it is known whether the files without it pass, and its branch alone.
    fn conclude(&mut self, queue: &mut MergeQueue, id: &EntryId) -> Result<(), QueueError> {
        let Some(suspect) = self.suspects.get(id).filter(|suspect| suspect.is_red_again) else { return Ok(()) };
        let passes_without = match suspect.passes_without {
            Some(passes) => passes,
            None => {
                let without = self.job(TestId::Without(id.clone()), suspect.onto, suspect.of_target.clone())?;
                match results::known(&self.place.repo, &self.place.target, &without.key)? {
                    Some(known) => known.passed,
                    None => return self.runs.start_once(without),
                }
            }
        };
        if passes_without && suspect.passes_alone.is_none() {
            return Ok(());
        }
        let Some(suspect) = self.suspects.remove(id) else { return Ok(()) };
        if passes_without {
            return self.blame(queue, id, &suspect);
        }
        self.runs.stop(&TestId::Alone(id.clone()));
        if queue.entry(id).is_none_or(|stored| stored.entry.head != suspect.head) {
            return Ok(());
        }
        let (target, exit) = (&self.place.target, suspect.result.exit);
        let why = format!(
            "the tests fail on `{target}` without it as well ({exit}), so nothing can land before `{target}` passes them; \
             then `pleach merge retry` tries again"
        );
        let done = update(&self.place.repo, queue, std::slice::from_ref(id), |entry| {
            entry.state = EntryState::Red;
            entry.why = Some(why.clone());
            entry.verdict = Some(TestVerdict::TargetFails { exit: exit.clone() });
        });
        done.map(drop)
    }

    /// Records that an entry fails the tests.
    fn blame(&mut self, queue: &mut MergeQueue, id: &EntryId, suspect: &Suspect) -> Result<(), QueueError> {
        let (result, semantic) = (&suspect.result, suspect.passes_alone == Some(true));
        loop {
            // Another commit may have been queued meanwhile, which is untested.
            let Some(stored) = queue.entry(id).filter(|stored| stored.entry.head == suspect.head) else {
                return Ok(());
            };
            let mut entry = stored.entry.clone();
            let is_of_person = entry.resolution.as_ref().is_some_and(|resolution| resolution.tier == Tier::Person);
            let is_resolved = entry.resolution.is_some();
            // A person goes on from the resolution they made; any other is dropped.
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
            let sides = if suspect.of_target.is_empty() { "the branch alone" } else { "the branch and on the target" };
            entry.why = Some(if semantic {
                format!("the tests fail on the merge ({}), and pass on {sides}", result.exit)
            } else {
                format!("the tests fail ({})", result.exit)
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
