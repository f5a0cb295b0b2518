//! Works a queue: merges the next entries, tests the result, lands what passes, while agents resolve what conflicts.
//! The holder of the queue's lock does this. Everything it knows is read from refs, so the next process resumes where a
//! killed one has stopped.

use std::collections::{BTreeMap, BTreeSet};

use super::batch::{BatchItem, LeftOut, MergeBatch};
use super::candidate::UnfitMerge;
use super::conflict::forget_conflict;
use super::error::QueueError;
use super::extent::extent_of;
use super::landing::{self, LandedPrefix, tip_of, update, update_built, update_if};
use super::learned::record_landed;
use super::outcome::QueueOutcome;
use super::resolver::abandon_resolvers;
use super::results::{self, TestResult};
use super::run::{EndedJob, QueueRun, verdict_of};
use super::store::{MergeQueue, QueueChange};
use super::test_runs::{TestId, TestJob};
use super::test_slot::TestPlace;
use crate::env::SpawnedRun;
use crate::merging::conflicted_paths;
use pleach_core::ids::{CommitId, EntryId};
use pleach_core::merge::Tier;
use pleach_core::queue::{self, EntryState, EntryTest, PrefixSearch, QueueEntry, TestVerdict};
use pleach_core::text::listed;

impl QueueRun {
    /// Works in the background.
    pub fn spawn(self) -> SpawnedRun<Result<QueueOutcome, QueueError>> {
        SpawnedRun::new(self.place.engine.events.subscribe(), self.process())
    }

    /// Works until nothing in the queue can move.
    pub async fn process(mut self) -> Result<QueueOutcome, QueueError> {
        tokio::task::block_in_place(|| abandon_resolvers(&self))?;
        let mut worked = self.work().await;
        self.runs.stop_all();
        self.resolvers.stop(&self.place.engine.supervisor, |_, _| worked.is_ok());
        let mut queue = MergeQueue::read(&self.place.repo, &self.place.target)?;
        loop {
            let taken = match self.next().await {
                Ok(None) => break,
                Ok(Some(EndedJob::Resolver(ended))) => {
                    tokio::task::block_in_place(|| self.take_answer(&mut queue, *ended))
                }
                Ok(Some(EndedJob::Test(..))) => Ok(()),
                Err(error) => Err(error),
            };
            worked = worked.and(taken);
        }
        tokio::task::block_in_place(|| abandon_resolvers(&self))?;
        worked?;
        self.outcome.tests = self.runs.count;
        let mut queue = MergeQueue::read(&self.place.repo, &self.place.target)?;
        let is_left = |entry: &QueueEntry| entry.state == EntryState::Testing;
        let left: Vec<EntryId> = queue.entries().into_iter().filter(is_left).map(|entry| entry.id).collect();
        update(&self.place.repo, &mut queue, &left, |entry| entry.state = EntryState::Submitted)?;
        self.outcome.open = queue.entries();
        self.outcome.is_unapproved = self.outcome.open.iter().any(|entry| self.is_unapproved(entry));
        Ok(self.outcome)
    }

    async fn work(&mut self) -> Result<(), QueueError> {
        loop {
            if self.place.engine.cancel.is_stopped() {
                self.outcome.is_stopped = true;
                return Ok(());
            }
            let (mut queue, tip) = tokio::task::block_in_place(|| self.look())?;
            let entries = queue.entries();
            let is_held = |entry: &&QueueEntry| entry.together.is_some() || !self.settings.may_test(entry);
            let (unapproved, free): (Vec<_>, Vec<_>) = entries.iter().partition(is_held);
            let suspected = free.into_iter().filter(|entry| self.suspects.has(&entry.id));
            let held: BTreeSet<EntryId> = suspected.chain(unapproved).map(|entry| entry.id.clone()).collect();
            let size = self.record.batch_size(self.settings.batch, self.settings.slots);
            let plan = queue::plan_without(&held, &entries, &queue.passed, size, self.settings.auto_merge_clean);
            let is_held = self.outcome.held.is_some();
            self.start_resolvers(&mut queue)?;
            if let Some(id) = plan.to_approve.first() {
                self.prepare(&mut queue, id, tip).await?;
            } else if !plan.batch.is_empty() && !is_held {
                let change = QueueChange { passed_over: plan.passed_over.clone(), ..QueueChange::default() };
                if !plan.passed_over.is_empty() && !queue.apply(&self.place.repo, change, "pleach: passed over")? {
                    continue;
                }
                self.work_batch(&mut queue, &plan.batch, tip).await?;
            } else {
                self.tell_waiting(&entries);
                if !self.hear_beside(&mut queue, tip).await? && !self.start_waiting(&mut queue)? {
                    return Ok(());
                }
            }
        }
    }

    /// Reads the queue and its target's tip, and finishes what a killed process has left.
    fn look(&mut self) -> Result<(MergeQueue, CommitId), QueueError> {
        let TestPlace { repo, target, .. } = &self.place;
        let mut queue = MergeQueue::read(repo, target)?;
        let tip = tip_of(repo, target)?;
        for entry in landing::settle(repo, &mut queue, tip)? {
            self.tell_landed(entry);
        }
        Ok((queue, tip))
    }

    /// Merges and tests an entry that needs approval.
    async fn prepare(&mut self, queue: &mut MergeQueue, id: &EntryId, tip: CommitId) -> Result<(), QueueError> {
        let Some(batch) = self.gather(queue, std::slice::from_ref(id), tip).await? else { return Ok(()) };
        let item = &batch.items[0];
        if !self.vet(queue, item).await? {
            return Ok(());
        }
        let tests = self.settings.tests.of([&item.entry]);
        let verdict = match self.result_of(TestId::Prefix(1), item.built.commit, tests.clone()).await? {
            Some(verdict) => verdict,
            None => return Ok(()),
        };
        match verdict {
            (verdict, Some(result)) if !verdict.is_green() => self.suspect(item, tests, &result),
            (verdict, _) => update_built(&self.place.repo, queue, std::slice::from_ref(item), |entry| {
                item.built.show_in(entry);
                entry.verdict = Some(verdict.clone());
                entry.state = EntryState::Candidate;
                entry.why = Some("it waits for approval".to_owned());
            })
            .map(drop),
        }
    }

    /// Gets the result of tests, known or by running them. None if stopped.
    pub(super) async fn result_of(
        &mut self,
        id: TestId,
        commit: CommitId,
        tests: Vec<EntryTest>,
    ) -> Result<Option<(TestVerdict, Option<TestResult>)>, QueueError> {
        if tests.is_empty() {
            return Ok(Some((TestVerdict::Unverified, None)));
        }
        let job = self.job(id.clone(), commit, tests)?;
        if let Some(known) = results::known(&self.place.repo, &self.place.target, &job.key)? {
            return Ok(Some((verdict_of(&known), Some(known))));
        }
        Ok(self.run_alone(job).await?.map(|result| (verdict_of(&result), Some(result))))
    }

    /// Runs a test and waits for its result, handling other jobs. None if stopped.
    pub(super) async fn run_alone(&mut self, job: TestJob) -> Result<Option<TestResult>, QueueError> {
        let id = job.id.clone();
        self.runs.start(job)?;
        while let Some(ended) = self.next().await? {
            match ended {
                EndedJob::Test(job, said) if job.id == id => return Ok(said),
                beside => {
                    let mut queue = MergeQueue::read(&self.place.repo, &self.place.target)?;
                    self.hear(&mut queue, beside)?;
                }
            }
        }
        Ok(None)
    }

    /// Merges entries on top of each other, and records why others are left out. None if there is nothing to test.
    async fn gather(
        &mut self,
        queue: &mut MergeQueue,
        ids: &[EntryId],
        tip: CommitId,
    ) -> Result<Option<MergeBatch>, QueueError> {
        let entries: Vec<QueueEntry> = ids.iter().filter_map(|id| Some(queue.entry(id)?.entry.clone())).collect();
        let options = self.settings.merge_options();
        let mut batch = tokio::task::block_in_place(|| MergeBatch::gather(&self.place.repo, entries, tip, &options))?;
        for (id, left_out) in std::mem::take(&mut batch.left_out) {
            match left_out {
                LeftOut::Derive(tried) => self.derive(queue, &id, tip, *tried).await?,
                other => self.leave_out(queue, &id, tip, other)?,
            }
        }
        self.start_resolvers(queue)?;
        Ok((!batch.items.is_empty()).then_some(batch))
    }

    fn leave_out(
        &mut self,
        queue: &mut MergeQueue,
        id: &EntryId,
        tip: CommitId,
        left_out: LeftOut,
    ) -> Result<(), QueueError> {
        let is_outdated = |entry: &QueueEntry| {
            entry.resolution.as_ref().is_some_and(|resolution| resolution.tier == Tier::Agent && resolution.onto != tip)
        };
        let is_late = matches!(left_out, LeftOut::Conflict(_) | LeftOut::Unfit(UnfitMerge { question: None, .. }))
            && queue.entry(id).is_some_and(|stored| is_outdated(&stored.entry));
        if is_late && self.may_resolve(queue, id) {
            // Others have landed in the same places meanwhile.
            let done = update_if(&self.place.repo, queue, id, is_outdated, |entry| {
                entry.state = EntryState::Submitted;
                entry.resolution = None;
                entry.why = Some(format!("`{}` has moved where its conflict was resolved", entry.target));
            });
            return done.map(drop);
        }
        let mut asked = None;
        let (conflicts, why, is_worked_again) = match left_out {
            // The next round looks at it again, on what has landed until then.
            LeftOut::Present | LeftOut::Crowded | LeftOut::Derive(_) => return Ok(()),
            LeftOut::Conflict(left) => {
                let entry = queue.entry(id).map(|stored| &stored.entry).filter(|entry| entry.is_repairable());
                let extent = entry.map(|entry| extent_of(&self.place.repo, entry, tip, &left)).transpose()?;
                let is_worked_again = extent.is_some_and(|extent| extent.is_worked_again());
                (conflicted_paths(&left.rest()), left.rest().to_string(), is_worked_again)
            }
            LeftOut::Unfit(UnfitMerge { why, question }) => {
                asked = question;
                (Vec::new(), why, false)
            }
        };
        let why = if is_late {
            format!("`{}` has moved where agents resolved its conflict, as often as they may; {why}", self.place.target)
        } else {
            why
        };
        let edit = |entry: &mut QueueEntry| {
            // The former merge was on another commit of the target.
            (entry.candidate, entry.tier) = (None, None);
            entry.resolved.clear();
            entry.conflicts.clone_from(&conflicts);
            entry.question = asked;
        };
        if conflicts.is_empty() || is_worked_again || !self.may_resolve(queue, id) {
            return self.give_back(queue, id, &why, edit);
        }
        let done = update(&self.place.repo, queue, std::slice::from_ref(id), |entry| {
            entry.state = EntryState::Conflicted;
            entry.why = Some(why.clone());
            entry.accepted.clear();
            edit(entry);
        });
        done.map(drop)
    }

    /// Tests the prefixes of a batch and lands the longest that passes, until all of it has landed or one of its
    /// entries makes the tests fail.
    async fn work_batch(&mut self, queue: &mut MergeQueue, ids: &[EntryId], tip: CommitId) -> Result<(), QueueError> {
        let Some(mut batch) = self.gather(queue, ids, tip).await? else { return Ok(()) };
        for item in &batch.items {
            if !self.vet(queue, item).await? {
                return Ok(());
            }
        }
        let mut search = PrefixSearch { entries: batch.items.len(), ..PrefixSearch::default() };
        let mut verdicts: BTreeMap<usize, (TestVerdict, Option<TestResult>)> = BTreeMap::new();
        let (mut landed, mut from) = (0, tip);
        if !self.mark_testing(queue, &batch)? {
            return Ok(());
        }
        loop {
            let step = search.next(self.settings.slots.saturating_sub(self.runs.beside()));
            for length in &step.stop {
                self.runs.stop(&TestId::Prefix(*length));
                search.running.remove(length);
            }
            if step.land > landed {
                let verdict = verdicts.get(&step.land).map_or(TestVerdict::Unverified, |(verdict, _)| verdict.clone());
                for nth in landed..step.land {
                    batch.items[nth].why = self.passed_with(&batch, nth, step.land)?;
                }
                let items = &batch.items[landed..step.land];
                if !self.land(queue, items, from, &verdict)? {
                    self.stop_prefixes(&search);
                    return Ok(());
                }
                self.record.green += items.len();
                (landed, from) = (step.land, items[items.len() - 1].built.commit);
            }
            if let Some(culprit) = step.culprit {
                self.stop_prefixes(&search);
                let item = &batch.items[culprit];
                let (_, result) = verdicts.remove(&(culprit + 1)).expect("the red prefix was tested");
                let tests = batch.tests(culprit + 1, &self.settings.tests);
                self.suspect(item, tests, &result.expect("what failed has a result"))?;
                self.record.red += 1;
                return Ok(());
            }
            if landed == batch.items.len() {
                return Ok(());
            }
            if self.start_tests(&batch, &step.test, &mut search, &mut verdicts)? {
                continue;
            }
            match self.next().await? {
                Some(EndedJob::Test(TestJob { id: TestId::Prefix(length), .. }, Some(result))) => {
                    search.running.remove(&length);
                    search.tested.insert(length, result.passed);
                    verdicts.insert(length, (verdict_of(&result), Some(result)));
                }
                // The run is being stopped.
                None | Some(EndedJob::Test(TestJob { id: TestId::Prefix(_), .. }, None)) => return Ok(()),
                Some(beside) => self.hear(queue, beside)?,
            }
        }
    }

    /// Starts tests of prefixes. True if some needed none, because their result is known.
    fn start_tests(
        &mut self,
        batch: &MergeBatch,
        lengths: &[usize],
        search: &mut PrefixSearch,
        verdicts: &mut BTreeMap<usize, (TestVerdict, Option<TestResult>)>,
    ) -> Result<bool, QueueError> {
        let mut is_known = false;
        for length in lengths.iter().copied() {
            let tests = batch.tests(length, &self.settings.tests);
            let known = if tests.is_empty() {
                Some((TestVerdict::Unverified, None))
            } else {
                let job = self.job(TestId::Prefix(length), batch.items[length - 1].built.commit, tests)?;
                match results::known(&self.place.repo, &self.place.target, &job.key)? {
                    Some(known) => Some((verdict_of(&known), Some(known))),
                    None => {
                        search.running.insert(length);
                        self.runs.start(job)?;
                        None
                    }
                }
            };
            if let Some((verdict, result)) = known {
                is_known = true;
                search.tested.insert(length, verdict.is_green() || verdict == TestVerdict::Unverified);
                verdicts.insert(length, (verdict, result));
            }
        }
        Ok(is_known)
    }

    /// False if an entry has changed.
    fn mark_testing(&self, queue: &mut MergeQueue, batch: &MergeBatch) -> Result<bool, QueueError> {
        let untested = batch.tests(batch.items.len(), &self.settings.tests).is_empty();
        if untested {
            return Ok(true);
        }
        update_built(&self.place.repo, queue, &batch.items, |entry| {
            let item = batch.items.iter().find(|item| item.entry.id == entry.id);
            item.into_iter().for_each(|item| item.built.show_in(entry));
            entry.state = EntryState::Testing;
            entry.why = None;
        })
    }

    /// Lands merges that have passed. False if nothing more can be done with the batch.
    fn land(
        &mut self,
        queue: &mut MergeQueue,
        items: &[BatchItem],
        from: CommitId,
        verdict: &TestVerdict,
    ) -> Result<bool, QueueError> {
        let repo = &self.place.repo;
        let landed = tokio::task::block_in_place(|| landing::land(repo, queue, items, from, verdict))?;
        match landed {
            LandedPrefix::Landed(entries) => {
                let options = self.settings.merge_options();
                for entry in entries {
                    tokio::task::block_in_place(|| {
                        record_landed(&self.place.repo, &entry, &options)?;
                        forget_conflict(&self.place.repo, &entry.target, &entry.id)
                    })?;
                    self.tell_landed(entry);
                }
                Ok(true)
            }
            LandedPrefix::Moved => Ok(false),
            LandedPrefix::Held(why) => {
                self.outcome.held = Some(why);
                Ok(false)
            }
        }
    }

    fn stop_prefixes(&mut self, search: &PrefixSearch) {
        search.running.iter().for_each(|length| self.runs.stop(&TestId::Prefix(*length)));
    }

    /// A remark if an entry's tests are known to fail without the entries merged after it.
    fn passed_with(&self, batch: &MergeBatch, nth: usize, land: usize) -> Result<Option<String>, QueueError> {
        let (behind, tests) = (&batch.items[nth + 1..land], batch.tests(nth + 1, &self.settings.tests));
        if behind.is_empty() || tests.is_empty() {
            return Ok(None);
        }
        let job = self.job(TestId::Prefix(nth + 1), batch.items[nth].built.commit, tests)?;
        let known = results::known(&self.place.repo, &self.place.target, &job.key)?;
        Ok(known.filter(|result| !result.passed).map(|result| {
            let with = listed(behind.iter().map(|item| item.entry.name()), 3);
            format!("passed together with {with}; without that its tests fail ({})", result.exit)
        }))
    }
}
