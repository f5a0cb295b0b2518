//! The loop of a tree run: starts actions and handles their results. Long work runs in the background, each in its own
//! session; only the loop decides, records and moves what they share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tokio::task::JoinSet;

use super::attempts::Attempts;
use super::ended::{TreeEnded, TreeOutcome};
use super::land::{self, LandOutcome, LandingStep, LandingTests, WorkEnd};
use super::phase::{self, PhaseMerge};
use super::queue_landing::{self, QueueReturn};
use super::queue_plan::QueueLanding;
use super::resume::OpeningSession;
use super::run::TreeRun;
use super::{Error, begin, earlier_runs, ending, loop_guard, queue_work, queued_marks, spending, start, testing};
use crate::env::{self, SpawnedRun};
use crate::landing::QueueError;
use crate::push::wait_for_pushes;
use crate::session::{JointSlot, Pause, Retested, SessionEnded, TaskJob, TaskSession, cancel, run_session};
use pleach_core::event::WarningCode;
use pleach_core::ids::{CommitId, EntryId, TaskId};
use pleach_core::schedule::{GiveUpReason, NextAction};
use pleach_core::step::{AttemptNumber, StepKind, TreeName};

pub(super) struct TreePump<'a> {
    run: &'a mut TreeRun,
    /// Tasks in progress.
    active: BTreeMap<TaskId, Active>,
    /// Their background work.
    jobs: JoinSet<(TaskId, Back)>,
    /// The task that lands. Others wait: what lands is tested on exactly what is there, and so are phases.
    landing: Option<TaskId>,
    /// Tasks that the merge queue lands, by their entries in it.
    queued: BTreeMap<TaskId, EntryId>,
    /// Tests of a phase wait until nothing lands.
    is_gate_due: bool,
    /// Tasks that are decided and wait until they may land.
    to_land: VecDeque<(TaskId, Box<TaskSession>)>,
    /// Nothing more is started.
    is_ending: bool,
    /// How the run ends, once nothing is in progress.
    outcome: TreeOutcome,
}

/// A task in progress, or a phase whose tests run.
struct Active {
    attempts: Arc<Attempts>,
    purpose: Purpose,
    /// The steps that are its reason, if it must not be done again for the same ones.
    because: Option<Vec<CommitId>>,
    /// Its session was started by an earlier run.
    resumed: bool,
}

#[derive(Clone)]
enum Purpose {
    /// Work on the task until it is complete or given up, and land it.
    Work,
    /// Its budget of this many attempts is used up.
    GiveUp(u32, GiveUpReason),
    /// Run the tests of the phase.
    Tests,
}

/// The result of background work.
enum Back {
    /// A session is open, with its worktree.
    Opened(Box<Result<(TaskSession, Option<String>), env::Error>>),
    /// The task of a session is complete or given up, unless it was stopped before.
    Attempted(Box<TaskSession>, Result<Option<TreeEnded>, Error>),
    /// The tests of a phase have run.
    Tested(Box<TaskSession>, Result<SessionEnded, env::Error>),
    /// It is known what becomes of a task in the merge queue.
    Queued(Box<TaskSession>, Result<QueueReturn, QueueError>),
    /// The tests of a task have run on its landing.
    Retested(Box<LandingTests>, Result<Option<Retested>, env::Error>),
}

impl<'a> TreePump<'a> {
    pub(super) fn new(run: &'a mut TreeRun) -> Self {
        let (active, jobs, to_land) = (BTreeMap::new(), JoinSet::new(), VecDeque::new());
        let outcome = TreeOutcome::default();
        let queued = BTreeMap::new();
        Self { run, active, jobs, landing: None, queued, is_gate_due: false, to_land, is_ending: false, outcome }
    }

    /// Runs until the tree is done, or the single requested task is, or nothing more can be done.
    pub(super) async fn run(mut self) -> TreeOutcome {
        match start::begin_run(self.run) {
            Ok(None) => {}
            Ok(Some(ended)) => self.end(Ok(ended)),
            Err(error) => self.end(Err(error)),
        }
        loop {
            if let Err(error) = self.start_all() {
                self.end(Err(error));
            }
            // After the start: tests of a phase that are due come before further landings.
            if self.land_next() {
                continue;
            }
            let news = Arc::clone(&self.run.state.queue_news);
            let back = tokio::select! {
                back = self.jobs.join_next() => back,
                // What waited for a landing may start.
                () = news.notified() => continue,
            };
            match back {
                Some(Ok((task, back))) => self.come_back(&task, back),
                Some(Err(broken)) => std::panic::resume_unwind(broken.into_panic()),
                None if self.is_ending => {
                    self.finish_queue_work().await;
                    if let Err(error) = self.write_marks() {
                        self.outcome.errors.push(error);
                    }
                    return self.outcome;
                }
                // What it lands, others may wait for.
                None => self.finish_queue_work().await,
            }
        }
    }

    /// Waits until the merge queue is worked, where that goes on behind the tasks.
    async fn finish_queue_work(&mut self) {
        let finished = queue_work::finish_queue_work(&self.run.state.queue_work).await;
        // Where the queue cannot be worked, tasks that waited for it have said so.
        let is_told = self.outcome.ends.iter().any(|end| matches!(end, TreeEnded::Refused(_)));
        if let Err(error) = finished
            && self.outcome.errors.is_empty()
            && !is_told
        {
            self.outcome.errors.push(error.into());
        }
    }

    /// Starts everything that can start now. An action that ends at once makes room for more.
    fn start_all(&mut self) -> Result<(), Error> {
        self.is_gate_due = false;
        while !self.is_ending {
            if self.run.engine.cancel.is_stopped() {
                if self.active.is_empty() {
                    self.end(Ok(TreeEnded::Paused(Pause::interrupted())));
                }
                return Ok(());
            }
            start::look_around(self.run)?;
            let in_conflict = queue_landing::look_at_moves(self.run, &self.queued)?;
            self.write_marks()?;
            self.take_landed()?;
            let waiting = &self.run.state.waiting;
            let running: BTreeSet<TaskId> = self.active.keys().chain(waiting).cloned().collect();
            let slots = if self.run.plan.one { 1 } else { self.run.plan.jobs };
            let held: BTreeSet<TaskId> = waiting.union(&in_conflict).cloned().collect();
            let starts = self.run.schedule.starts(&running, &held, slots + waiting.len());
            if starts.is_empty() {
                // All there is left waits for a person, or for a task that does.
                let is_queue_worked = queue_work::is_worked(&self.run.state.queue_work);
                self.is_ending |= self.active.is_empty() && !is_queue_worked;
                return Ok(());
            }
            // A landing moves what tests of a phase would run on, so they start after it.
            let is_landing = self.landing.is_some() || self.queued.keys().any(|task| !in_conflict.contains(task));
            let is_held = |next: &NextAction| is_landing && matches!(next, NextAction::Gate(_));
            self.is_gate_due = starts.iter().any(is_held);
            let starts: Vec<NextAction> = starts.into_iter().filter(|next| !is_held(next)).collect();
            if starts.is_empty() {
                return Ok(());
            }
            for next in starts {
                self.start(next)?;
            }
        }
        Ok(())
    }

    /// Writes what people have decided about tasks that nobody works on now.
    fn write_marks(&mut self) -> Result<(), Error> {
        let active: BTreeSet<TaskId> = self.active.keys().cloned().collect();
        tokio::task::block_in_place(|| queued_marks::write_marks(self.run, &active))
    }

    /// Goes on with tasks that waited for a person, once the queue has landed them.
    fn take_landed(&mut self) -> Result<(), Error> {
        let landed = queue_landing::landed_since(self.run)?;
        if landed.is_empty() {
            return Ok(());
        }
        for task in &landed {
            self.run.state.waiting.remove(task);
            self.outcome.forget_refusal(task);
        }
        self.run.read_again()
    }

    /// Starts the next action, or ends the run if there is none.
    fn start(&mut self, next: NextAction) -> Result<(), Error> {
        let run = &mut *self.run;
        let ended = match next {
            NextAction::Land(task) => {
                let started = self.land_waiting(&task);
                self.or_end(&task, started);
                return Ok(());
            }
            NextAction::Work { task, attempt, retry } => {
                let started = self.work(&task, attempt, retry);
                self.or_end(&task, started);
                return Ok(());
            }
            NextAction::GiveUp { task, reason } => {
                let started = self.give_up(&task, reason);
                self.or_end(&task, started);
                return Ok(());
            }
            NextAction::Gate(gate) => {
                let because = loop_guard::not_again(run, &gate, &run.plan.tree.leaves_below(&gate))?;
                return self.test(&gate, Some(because));
            }
            NextAction::MergePhase(phase) => match tokio::task::block_in_place(|| phase::merge_phase(run, &phase))? {
                PhaseMerge::Merged => return Ok(()),
                PhaseMerge::Test(gate) => return self.test(&gate, None),
                PhaseMerge::Refused(refusal) => TreeEnded::Refused(refusal),
            },
            end => match ending::ending(run, end)? {
                Some(ended) => ended,
                None => return Ok(()),
            },
        };
        self.end(Ok(ended));
        Ok(())
    }

    /// Lands a task finished by an earlier run. If its record is gone, its branch is used.
    fn land_waiting(&mut self, task: &TaskId) -> Result<(), Error> {
        let because = loop_guard::not_again(self.run, task, &[task])?;
        phase::bring_phase(self.run, task)?;
        let state = self.run.progress.task(task);
        let (number, retry) = (state.in_budget.max(1), state.attempts.saturating_sub(1));
        let attempt = AttemptNumber { number, of: self.run.plan.limits.max_retries };
        self.open(task, attempt, retry, Purpose::Work, Some(because))
    }

    /// Works on a task from an attempt on.
    fn work(&mut self, task: &TaskId, attempt: AttemptNumber, retry: u32) -> Result<(), Error> {
        let because = loop_guard::not_again(self.run, task, &[task])?;
        self.open(task, attempt, retry, Purpose::Work, Some(because))
    }

    /// Gives up a task whose budget an earlier run used up.
    fn give_up(&mut self, task: &TaskId, why: GiveUpReason) -> Result<(), Error> {
        let state = self.run.progress.task(task);
        let (number, retry) = (state.in_budget, state.attempts.saturating_sub(1));
        self.open(task, AttemptNumber { number, of: number }, retry, Purpose::GiveUp(number, why), None)
    }

    /// Opens a session on a task.
    fn open(
        &mut self,
        task: &TaskId,
        attempt: AttemptNumber,
        retry: u32,
        purpose: Purpose,
        because: Option<Vec<CommitId>>,
    ) -> Result<(), Error> {
        let job = testing::job(self.run, task);
        let opening = tokio::task::block_in_place(|| begin::open_session(self.run, &job, attempt, retry))?;
        self.set_up(job, opening, purpose, because);
        Ok(())
    }

    /// Runs the tests of a phase, in their own session.
    fn test(&mut self, gate: &TaskId, because: Option<Vec<CommitId>>) -> Result<(), Error> {
        let run = &mut *self.run;
        let job = testing::job(run, gate);
        // Interrupted tests say nothing about the current code.
        if let Some(cut_off) = run.state.unfinished.remove(gate) {
            cancel::abandon_session(&run.repo, &run.engine.redactor, &cut_off.id, run.state.slots.free())?;
            if !job.beside.is_empty() {
                let repos = job.repos(run.plan.repo_name.clone(), run.repo.clone());
                tokio::task::block_in_place(|| JointSlot::clear_up(&run.engine, &repos, &cut_off.id));
            }
        }
        let runs = run.progress.gate(gate, run.plan.tree.leaves_below(gate)).runs;
        let opening =
            tokio::task::block_in_place(|| begin::begin(run, &job, AttemptNumber { number: 1, of: 1 }, runs))?;
        self.set_up(job, opening, Purpose::Tests, because);
        Ok(())
    }

    fn set_up(&mut self, job: Arc<TaskJob>, opening: OpeningSession, purpose: Purpose, because: Option<Vec<CommitId>>) {
        let OpeningSession { session, resumed } = opening;
        let (run, task) = (&*self.run, job.task.id.clone());
        let attempts = Arc::new(Attempts {
            engine: Arc::clone(&run.engine),
            repo: run.repo.clone(),
            plan: Arc::clone(&run.plan),
            before: run.progress.task(&task).at_attempt().to_vec(),
            job,
        });
        self.active.insert(task.clone(), Active { attempts, purpose, because, resumed });
        self.jobs.spawn(async move { (task, Back::Opened(Box::new(session.await))) });
    }

    /// Handles the result of background work.
    fn come_back(&mut self, task: &TaskId, back: Back) {
        let done = tokio::task::block_in_place(|| self.go_on(task, back));
        self.or_end(task, done);
    }

    /// Lands the first that waits for that and may, if there is one.
    fn land_next(&mut self) -> bool {
        let first = self.to_land.iter().position(|(task, _)| self.may_land(task));
        let Some((task, session)) = first.and_then(|first| self.to_land.remove(first)) else { return false };
        let done = tokio::task::block_in_place(|| self.land(&task, *session));
        self.or_end(&task, done);
        true
    }

    /// Whether something may land now. While tests of a phase run, what they run on stays as it is, or they would have to
    /// run again for each task that lands; their own results change no code. Tests that are due come first, too.
    fn may_land(&self, task: &TaskId) -> bool {
        let is_tests = |active: &Active| matches!(active.purpose, Purpose::Tests);
        let is_kept = || self.is_gate_due || self.active.values().any(is_tests);
        self.landing.is_none() && (is_tests(self.active_at(task)) || !is_kept())
    }

    fn go_on(&mut self, task: &TaskId, back: Back) -> Result<(), Error> {
        match back {
            Back::Opened(opened) => {
                let Active { attempts, purpose, resumed, .. } = self.active_at(task);
                let (attempts, purpose, resumed) = (Arc::clone(attempts), purpose.clone(), *resumed);
                let (session, kept) = (*opened)?;
                let mut session = begin::opened(self.run, session, kept, &attempts.job, resumed)?;
                match purpose {
                    Purpose::Work => {}
                    Purpose::GiveUp(number, why) => attempts.give_up(&mut session, number, why)?,
                    Purpose::Tests => {
                        self.run_tests(task, session);
                        return Ok(());
                    }
                }
                self.attempt(task, session)
            }
            Back::Attempted(session, stopped) => match stopped? {
                Some(ended) => {
                    spending::take_back(self.run, *session);
                    self.finish(task, WorkEnd::Ended(ended))
                }
                None => self.land(task, *session),
            },
            Back::Tested(session, ended) => {
                let cut_off = match ended? {
                    SessionEnded::Paused(pause) => {
                        session.check_branch()?;
                        TreeEnded::Paused(pause)
                    }
                    SessionEnded::Cancelled => TreeEnded::Cancelled(task.clone()),
                    SessionEnded::Completed | SessionEnded::Failed { .. } => return self.land(task, *session),
                };
                spending::take_back(self.run, *session);
                self.finish(task, WorkEnd::Ended(cut_off))
            }
            Back::Queued(mut session, answer) => {
                self.queued.remove(task);
                if queue_landing::is_withdrawn(&answer) && queued_marks::is_marked(self.run, task)? {
                    return self.leave_to_mark(task, *session);
                }
                let tried = queue_landing::returned(self.run, &mut session, answer)?;
                self.task_landed(task, *session, tried)
            }
            Back::Retested(tests, said) => {
                let step = land::retested(self.run, *tests, said?)?;
                self.follow_landing(task, step)
            }
        }
    }

    /// Makes attempts at a task until it is complete or given up; a decided task lands.
    fn attempt(&mut self, task: &TaskId, mut session: TaskSession) -> Result<(), Error> {
        if session.is_decided() {
            return self.land(task, session);
        }
        let (task, attempts) = (task.clone(), Arc::clone(&self.active_at(task).attempts));
        self.jobs.spawn(async move {
            let stopped = attempts.make(&mut session).await;
            (task, Back::Attempted(Box::new(session), stopped))
        });
        Ok(())
    }

    fn run_tests(&mut self, gate: &TaskId, mut session: TaskSession) {
        let gate = gate.clone();
        self.jobs.spawn(async move {
            let ended = run_session(&mut session).await;
            (gate, Back::Tested(Box::new(session), ended))
        });
    }

    fn land(&mut self, task: &TaskId, mut session: TaskSession) -> Result<(), Error> {
        if !self.may_land(task) {
            // It may have to wait for long, and whoever is killed meanwhile has lost nothing.
            session.write_end_of_task()?;
            self.to_land.push_back((task.clone(), Box::new(session)));
            return Ok(());
        }
        if self.run.plan.tree.is_leaf(task) && queued_marks::is_marked(self.run, task)? {
            session.write_end_of_task()?;
            return self.leave_to_mark(task, session);
        }
        if let Some(landing) = queue_landing::landing_of(self.run, task)? {
            let job = Arc::clone(&self.active_at(task).attempts.job);
            let is_complete = session.newest_step() == Some((StepKind::Complete, true));
            if is_complete && queue_landing::can_queue(self.run, &mut session, &landing, &job)? {
                return self.queue_up(task, session, &landing, &job);
            }
            if is_complete && let Some(refusal) = queue_landing::unapproved(self.run, task, &landing)? {
                session.write_end_of_task()?;
                return self.task_landed(task, session, LandOutcome::Refused(refusal));
            }
            queue_landing::withdraw(self.run, task)?;
        }
        self.landing = Some(task.clone());
        let step = land::land(self.run, session)?;
        self.follow_landing(task, step)
    }

    /// Does not land a task that somebody has decided about, which is written next.
    fn leave_to_mark(&mut self, task: &TaskId, session: TaskSession) -> Result<(), Error> {
        spending::take_back(self.run, session);
        self.finish(task, WorkEnd::GoOn)
    }

    /// Has the merge queue land a complete task.
    fn queue_up(
        &mut self,
        task: &TaskId,
        mut session: TaskSession,
        landing: &QueueLanding,
        job: &TaskJob,
    ) -> Result<(), Error> {
        let is_tested_here = !self.active_at(task).resumed;
        let queued = queue_landing::queue_up(self.run, &mut session, landing, job, is_tested_here)?;
        let Some((queue, entry)) = queued else {
            let refusal = queue_landing::not_queued(self.run, task.clone())?;
            return self.task_landed(task, session, LandOutcome::Refused(refusal));
        };
        let task = task.clone();
        self.queued.insert(task.clone(), entry.clone());
        self.jobs.spawn(async move {
            let answer = queue.settle(entry).await;
            (task, Back::Queued(Box::new(session), answer))
        });
        Ok(())
    }

    /// Runs the tests a landing asks for, or handles its end.
    fn follow_landing(&mut self, task: &TaskId, step: LandingStep) -> Result<(), Error> {
        match step {
            LandingStep::Tests(mut tests) => {
                let task = task.clone();
                self.jobs.spawn(async move {
                    let said = tests.landing.session.tests_at(tests.commit).await;
                    (task, Back::Retested(tests, said))
                });
                Ok(())
            }
            LandingStep::End(session, tried) => {
                self.landing = None;
                match self.active_at(task).purpose {
                    Purpose::Tests => self.tests_landed(task, *session, tried),
                    Purpose::Work | Purpose::GiveUp(..) => self.task_landed(task, *session, tried),
                }
            }
        }
    }

    fn task_landed(&mut self, task: &TaskId, mut session: TaskSession, tried: LandOutcome) -> Result<(), Error> {
        match tried {
            LandOutcome::Red(on) => {
                self.active_at(task).attempts.next_or_fail(&mut session, None)?;
                // One that an earlier run has left no longer waits to land, which others wait for.
                if self.run.schedule.waits_to_land(task) {
                    self.run.read_again()?;
                }
                if !session.is_decided()
                    && let Err(unasked) = self.run.state.approved.require(task, on)
                {
                    earlier_runs::leave(self.run, session)?;
                    return Err(unasked);
                }
                self.attempt(task, session)
            }
            LandOutcome::Rebuilt(begun) => {
                let stopped = stopped(&session, task);
                let worked = land::go_back(self.run, session, begun)?;
                self.finish(task, worked)?;
                stopped.into_iter().for_each(|stopped| self.end(Ok(stopped)));
                Ok(())
            }
            tried => {
                // A landed task can no longer be cancelled.
                let is_stopped = session.is_stopped();
                let worked = land::landed(self.run, session, tried);
                self.finish(task, worked)?;
                if is_stopped {
                    self.end(Ok(TreeEnded::Paused(Pause::interrupted())));
                }
                Ok(())
            }
        }
    }

    fn tests_landed(&mut self, gate: &TaskId, session: TaskSession, tried: LandOutcome) -> Result<(), Error> {
        let (run, stopped) = (&mut *self.run, stopped(&session, gate));
        if matches!(tried, LandOutcome::Moved) {
            let again = format!("`{}` moved while the tests of {gate} ran; they run again", run.plan.target);
            run.engine.warn(WarningCode::TestsAgain.with(again));
            let id = session.id().clone();
            spending::take_back(run, session);
            cancel::abandon_session(&run.repo, &run.engine.redactor, &id, run.state.slots.free())?;
            let because = self.active.remove(gate).and_then(|active| active.because);
            return match stopped {
                Some(stopped) => {
                    self.end(Ok(stopped));
                    Ok(())
                }
                None => self.test(gate, because),
            };
        }
        let tested = testing::begun_on(run, session.started())?;
        let worked = land::landed(run, session, tried);
        if let (WorkEnd::GoOn, Some(tested)) = (&worked, tested) {
            run.state.gated.insert(gate.clone(), tested);
        }
        self.finish(gate, worked)?;
        if stopped.is_some() {
            self.end(Ok(TreeEnded::Paused(Pause::interrupted())));
        }
        Ok(())
    }

    /// Finishes an action in progress.
    fn finish(&mut self, task: &TaskId, worked: WorkEnd) -> Result<(), Error> {
        let active = self.active.remove(task);
        let because = active.and_then(|Active { because, purpose, .. }| match (&worked, purpose) {
            (WorkEnd::Done(_), _) | (WorkEnd::GoOn, Purpose::Tests) => because,
            _ => None,
        });
        if let Some(because) = because {
            loop_guard::note_done(self.run, task, because)?;
        }
        match worked {
            WorkEnd::GoOn => {}
            WorkEnd::Done(task) => self.run.choose(task),
            WorkEnd::Ended(ended) if ended.is_of_one_task() && self.run.plan.limits.keep_going => {
                self.outcome.add(ended);
            }
            // Nobody wants that ad-hoc task any more, which says nothing about the others.
            WorkEnd::Ended(ended @ (TreeEnded::Cancelled(_) | TreeEnded::Refused(_)))
                if self.run.plan.name == TreeName::Tasks =>
            {
                self.run.state.waiting.insert(task.clone());
                self.outcome.add(ended);
            }
            WorkEnd::Ended(ended) if ended.waits_for_person() && self.works_others() => {
                self.run.state.waiting.insert(task.clone());
                self.outcome.add(ended);
            }
            WorkEnd::Ended(ended) => self.end(Ok(ended)),
        }
        Ok(())
    }

    /// Whether other tasks may be worked while one waits.
    fn works_others(&self) -> bool {
        self.run.plan.jobs > 1 && !self.run.plan.one
    }

    fn active_at(&self, task: &TaskId) -> &Active {
        self.active.get(task).expect("what comes back was under way")
    }

    /// Ends the run if an action failed.
    fn or_end(&mut self, task: &TaskId, done: Result<(), Error>) {
        if let Err(error) = done {
            self.active.remove(task);
            self.landing.take_if(|landing| landing == task);
            self.queued.remove(task);
            let is_task = self.run.plan.tree.is_leaf(task);
            self.end(Err(if is_task { error.at(task, &self.run.repo) } else { error }));
        }
    }

    /// Ends the run once nothing is in progress; nothing more is started.
    fn end(&mut self, ended: Result<TreeEnded, Error>) {
        self.is_ending = true;
        match ended {
            Ok(ended) => self.outcome.add(ended),
            Err(Error::Refused(refusal)) => self.outcome.add(TreeEnded::Refused(refusal)),
            Err(Error::Unasked(task)) => {
                self.run.state.approved.reached = Some(task);
                self.outcome.add(TreeEnded::Unasked);
            }
            // Interrupted while the worktree was set up.
            Err(Error::Session(env::Error::Interrupted { .. })) => {
                self.outcome.add(TreeEnded::Paused(Pause::interrupted()));
            }
            Err(error) => self.outcome.errors.push(error),
        }
    }
}

/// The end of a run whose session was asked to stop too late for the session itself.
fn stopped(session: &TaskSession, task: &TaskId) -> Option<TreeEnded> {
    session.is_stopped().then(|| {
        if session.is_cancelled() {
            TreeEnded::Cancelled(task.clone())
        } else {
            TreeEnded::Paused(Pause::interrupted())
        }
    })
}

/// Runs until the tree is done, or the single requested task is, or nothing more can be done.
pub async fn run_tree(run: &mut TreeRun) -> TreeOutcome {
    let ended = TreePump::new(run).run().await;
    wait_for_pushes(&run.engine, run.engine.supervisor.take_pushes()).await;
    tokio::task::block_in_place(|| git::pack::pack_remaining(&run.repo));
    ended
}

/// Runs in the background until the tree is done or nothing more can be done.
pub fn spawn(mut run: TreeRun) -> SpawnedRun<(TreeRun, TreeOutcome)> {
    SpawnedRun::new(run.events(), async move {
        let ended = run_tree(&mut run).await;
        (run, ended)
    })
}
