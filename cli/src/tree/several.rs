//! Runs over one tree in one repository or in several, one after another.

use std::collections::BTreeMap;

use engine::tree::{self, TreeEnded, TreeOutcome, TreePlan, TreeRun};
use pleach_core::event::Notification;
use pleach_core::ids::{CommitId, TaskId};
use pleach_core::schedule::NextAction;

use crate::failure::Failure;

/// The runs over a tree, in the order of their plans.
pub struct SeveralRuns<'p> {
    plan: &'p TreePlan,
    /// None while one is under way.
    runs: Vec<Option<TreeRun>>,
    ended: SeveralEnded,
    /// What each run started last with, and where all targets were then.
    tried: BTreeMap<usize, (NextAction, Vec<CommitId>)>,
    /// The task that was done, where one alone is.
    done: Option<(usize, TaskId)>,
}

/// How the runs ended, each end and error with the place of its plan.
#[derive(Debug, Default)]
pub struct SeveralEnded {
    pub ends: Vec<(usize, TreeEnded)>,
    pub errors: Vec<(usize, tree::Error)>,
}

impl<'p> SeveralRuns<'p> {
    pub fn new(plan: &'p TreePlan, runs: Vec<TreeRun>) -> Self {
        let runs = runs.into_iter().map(Some).collect();
        Self { plan, runs, ended: SeveralEnded::default(), tried: BTreeMap::new(), done: None }
    }

    /// Works them to their end. A run goes on until nothing more can start in its repository; then the one whose next
    /// task comes first in the tree does. `ask` asks for approval of what a run has come upon.
    pub async fn work(
        mut self,
        hear: &mut impl FnMut(&Notification),
        ask: impl AsyncFn(usize, &mut TreeRun) -> Result<(), Failure>,
    ) -> Result<SeveralEnded, Failure> {
        if self.plan.repos.is_none() {
            let outcome = self.work_one(0, hear, &ask).await?;
            let TreeOutcome { ends, errors } = outcome;
            self.ended.ends = ends.into_iter().map(|ended| (0, ended)).collect();
            self.ended.errors = errors.into_iter().map(|error| (0, error)).collect();
            return Ok(self.ended);
        }
        if self.begin_all() {
            while let Some(index) = self.next() {
                let outcome = self.work_one(index, hear, &ask).await?;
                if !self.take(index, outcome) {
                    self.look();
                    return Ok(self.ended);
                }
            }
            self.conclude();
        }
        Ok(self.ended)
    }

    /// Works one run until nothing more can start in it, and asks for approval of what it comes upon.
    async fn work_one(
        &mut self,
        index: usize,
        hear: &mut impl FnMut(&Notification),
        ask: &impl AsyncFn(usize, &mut TreeRun) -> Result<(), Failure>,
    ) -> Result<TreeOutcome, Failure> {
        let mut outcome = TreeOutcome::default();
        let mut run = self.runs[index].take().expect("a run is under way once");
        loop {
            let ended;
            (run, ended) = tree::spawn(run).follow(&mut *hear).await;
            ended.ends.into_iter().for_each(|ended| outcome.add(ended));
            outcome.errors.extend(ended.errors);
            if !outcome.take_unasked() || !outcome.errors.is_empty() {
                self.runs[index] = Some(run);
                return Ok(outcome);
            }
            ask(index, &mut run).await?;
        }
    }

    /// Has all runs of a tree that is restarted do so, and count together what they spend. False if one cannot.
    fn begin_all(&mut self) -> bool {
        let fresh = self.plan.fresh;
        let mut runs: Vec<TreeRun> = self.runs.iter_mut().filter_map(Option::take).collect();
        for (index, run) in runs.iter_mut().enumerate().filter(|_| fresh) {
            match run.begin() {
                Ok(None) => {}
                Ok(Some(ended)) => self.ended.ends.push((index, ended)),
                Err(error) => self.ended.errors.push((index, error)),
            }
        }
        if let Err(error) = tree::share_spending(&mut runs) {
            self.ended.errors.push((0, error));
        }
        self.runs = runs.into_iter().map(Some).collect();
        self.ended.ends.is_empty() && self.ended.errors.is_empty()
    }

    /// The run that goes on; none if there is none, or if one of them cannot be looked at.
    fn next(&mut self) -> Option<usize> {
        self.look().then_some(())?;
        let runs = || self.runs.iter().flatten().enumerate();
        let targets: Vec<CommitId> = runs().map(|(_, run)| run.target_at()).collect();
        let is_allowed = |index: usize, run: &TreeRun, next: &NextAction| match (&self.done, &self.plan.limits.only) {
            // What else belongs to the task that was done are the tests of its phases.
            (Some((by, _)), _) => index != *by && matches!(next, NextAction::Gate(_)),
            (None, Some(only)) => run.works(only),
            (None, None) => true,
        };
        // What has come to nothing would again, as long as nothing has moved.
        let is_tried = |index: usize, next: &NextAction| {
            self.tried.get(&index).is_some_and(|(tried, at)| tried == next && *at == targets)
        };
        let starts = runs().filter_map(|(index, run)| {
            let (place, next) = run.to_start()?;
            (is_allowed(index, run, &next) && !is_tried(index, &next)).then_some((place, index, next))
        });
        let (_, index, next) = starts.min_by_key(|(place, index, _)| (*place, *index))?;
        self.tried.insert(index, (next, targets));
        Some(index)
    }

    /// Has all runs see what became of the others. False if one cannot.
    fn look(&mut self) -> bool {
        let done = self.done.as_ref().map(|(_, task)| task);
        for look in [TreeRun::write_marks, TreeRun::look_at_others] {
            for (index, run) in self.runs.iter_mut().flatten().enumerate() {
                done.into_iter().for_each(|task| run.restrict_to(task));
                if let Err(error) = look(run) {
                    self.ended.errors.push((index, error));
                    return false;
                }
            }
        }
        true
    }

    /// Takes in how a run ended. False if nothing more is to be worked.
    fn take(&mut self, index: usize, outcome: TreeOutcome) -> bool {
        let mut goes_on = outcome.errors.is_empty();
        self.ended.errors.extend(outcome.errors.into_iter().map(|error| (index, error)));
        for ended in outcome.ends {
            match ended {
                // Whether that is the end depends on the others.
                TreeEnded::Done | TreeEnded::Stalled(_) => {}
                TreeEnded::TaskDone(task) => self.done = self.done.take().or(Some((index, task))),
                ended => {
                    goes_on &= ended.lets_others_work(self.plan);
                    self.ended.ends.push((index, ended));
                }
            }
        }
        goes_on
    }

    /// Adds how the runs end in which nothing more can start.
    fn conclude(&mut self) {
        if !self.ended.errors.is_empty() {
            return;
        }
        if let Some((index, task)) = self.done.take() {
            if self.ended.ends.is_empty() {
                self.ended.ends.push((index, TreeEnded::TaskDone(task)));
            }
            return;
        }
        let mut done = None;
        for (index, run) in self.runs.iter_mut().enumerate() {
            let run = run.as_mut().expect("no run is under way");
            if self.plan.limits.only.as_ref().is_some_and(|only| !run.works(only)) {
                continue;
            }
            match run.conclude() {
                Ok(Some(ended @ (TreeEnded::Done | TreeEnded::TaskDone(_)))) => done = done.or(Some((index, ended))),
                Ok(Some(ended)) if self.ended.ends.iter().any(|(_, other)| other.repeats(&ended)) => {}
                Ok(Some(ended)) => self.ended.ends.push((index, ended)),
                // It has come to nothing, whatever the reason.
                Ok(None) => done = Some((index, TreeEnded::Stalled(Vec::new()))),
                Err(error) => self.ended.errors.push((index, error)),
            }
        }
        if self.ended.ends.is_empty() && self.ended.errors.is_empty() {
            self.ended.ends.extend(done);
        }
    }
}
