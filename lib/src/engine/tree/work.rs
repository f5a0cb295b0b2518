//! Working a task: a budget of attempts, until it is complete or given up.

use std::sync::Arc;

use super::Error;
use super::land::Tried;
use super::run::{TreeEnded, TreeRun, target_tip};
use crate::clock;
use crate::config::OnExceeded;
use crate::engine::task::{TaskJob, TaskReport, code_of, in_the_record};
use crate::engine::{Ended, Pause, Session};
use crate::event::{AttemptStarted, PauseReason, WarningCode};
use crate::ids::{BranchName, CommitId, NodeId, RepoPath, TaskId};
use crate::plan::pipeline::Pipeline;
use crate::progress::Found;
use crate::route;
use crate::schedule::{self, After, Failure, Reason};
use crate::step::report::{Report, TaskResult};
use crate::step::text::Body;
use crate::step::{Attempt, Step, StepKind, text};
use crate::workspace::{branch_ref, phase_branch, task_branch};

/// What came of one thing that was next.
#[derive(Debug)]
pub(super) enum Worked {
    /// Look what is next.
    GoOn,
    /// A task is complete and landed.
    Done(TaskId),
    /// The run is over.
    Ended(TreeEnded),
}

impl TreeRun<'_> {
    /// Works a task until it is complete or given up, and lands it.
    pub(super) async fn work(&mut self, task: &TaskId, attempt: Attempt, retry: u32) -> Result<Worked, Error> {
        let (session, job) = self.session(task, attempt, retry).await?;
        self.see_through(session, &job).await
    }

    /// The session a task is worked in, with what it has to know: the one an earlier run left, or a new one.
    async fn session(&mut self, task: &TaskId, attempt: Attempt, retry: u32) -> Result<(Session, Arc<TaskJob>), Error> {
        let job = self.job(task);
        let session = match self.take_up(task, &job).await? {
            Some(session) => session,
            None => self.begin(&job, attempt, retry).await?,
        };
        Ok((session, job))
    }

    /// Runs the tests of a phase and lands what they say.
    pub(super) async fn gate(&mut self, gate: &TaskId) -> Result<Worked, Error> {
        loop {
            if let Some(worked) = self.gate_at_tip(gate).await? {
                return Ok(worked);
            }
        }
    }

    /// Runs them once; none when somebody has moved the target meanwhile, so that they say nothing about what is there.
    async fn gate_at_tip(&mut self, gate: &TaskId) -> Result<Option<Worked>, Error> {
        let job = self.job(gate);
        // One that was cut off tells nothing about what is there now.
        if let Some(cut_off) = self.course.unfinished.remove(gate) {
            Session::put_aside(&self.repo, &self.engine.redactor, &cut_off.id, self.course.seat.as_ref())?;
        }
        let runs = self.progress.gate(gate, self.plan.tree.leaves_below(gate)).runs;
        let mut session = self.begin(&job, Attempt { number: 1, of: 1 }, runs).await?;
        let id = session.id().clone();
        let ended = session.run().await?;
        let cut_off = match ended {
            Ended::Paused(pause) => {
                session.check_branch()?;
                Some(TreeEnded::Paused(pause))
            }
            Ended::Cancelled => Some(TreeEnded::CalledOff(gate.clone())),
            Ended::Completed | Ended::Failed { .. } => None,
        };
        if let Some(cut_off) = cut_off {
            self.take_back(session);
            return Ok(Some(Worked::Ended(cut_off)));
        }
        let tested = self.begun_on(session.started())?;
        let tried = self.try_land(&mut session).await?;
        if matches!(tried, Tried::Moved) {
            self.engine.warn(
                WarningCode::TestsAgain
                    .with(format!("`{}` moved while the tests of {gate} ran; they run again", self.plan.target)),
            );
            self.take_back(session);
            Session::put_aside(&self.repo, &self.engine.redactor, &id, self.course.seat.as_ref())?;
            return Ok(None);
        }
        let worked = self.landed(session, tried);
        if let (Worked::GoOn, Some(tested)) = (&worked, tested) {
            self.course.gated.insert(gate.clone(), tested);
        }
        Ok(Some(worked))
    }

    /// Runs attempts until the task is complete or given up, and lands it.
    pub(super) async fn see_through(&mut self, mut session: Session, job: &Arc<TaskJob>) -> Result<Worked, Error> {
        loop {
            if !session.is_decided()
                && let Some(worked) = self.decide(&mut session, job).await?
            {
                self.take_back(session);
                return Ok(Worked::Ended(worked));
            }
            match self.try_land(&mut session).await? {
                Tried::Red(on) => {
                    self.next_or_fail(&mut session, None)?;
                    if !session.is_decided()
                        && let Err(unasked) = self.require_given(&job.task.id, on)
                    {
                        self.leave(session)?;
                        return Err(unasked);
                    }
                }
                Tried::Anew(begun) => return self.go_back(session, begun),
                tried => return Ok(self.landed(session, tried)),
            }
        }
    }

    /// Runs attempts until the task is complete or given up. Answers only when the run stops before that.
    async fn decide(&mut self, session: &mut Session, job: &TaskJob) -> Result<Option<TreeEnded>, Error> {
        while !session.is_decided() {
            let ended = session.run_attempt().await?;
            match ended {
                Ended::Paused(Pause { reason: PauseReason::OverBudget, why, .. })
                    if self.engine.budget.action() == OnExceeded::Stop =>
                {
                    return Ok(Some(TreeEnded::OutOfBudget { why: why.unwrap_or_default() }));
                }
                Ended::Paused(pause) => {
                    session.check_branch()?;
                    return Ok(Some(TreeEnded::Paused(pause)));
                }
                Ended::Cancelled => return Ok(Some(TreeEnded::CalledOff(job.task.id.clone()))),
                Ended::Completed => match session.left_out()? {
                    files if files.is_empty() => self.complete(session, job)?,
                    files => {
                        let why = text::left_out("the task is not complete", &files);
                        self.end_attempt(session, Some(why))?;
                    }
                },
                Ended::Failed { reason } => {
                    let outside = (!attempt_is_told(session)).then_some(reason);
                    self.end_attempt(session, outside)?;
                }
            }
        }
        Ok(None)
    }

    /// Ends an attempt that failed, with what ended it `outside` of its steps.
    fn end_attempt(&self, session: &mut Session, outside: Option<String>) -> Result<(), Error> {
        match outside {
            Some(why) if !attempt_has_result(session) => {
                session.fail_attempt(&why)?;
                self.next_or_fail(session, None)
            }
            // A step has failed before and the pass went on. Another one would count as another attempt.
            outside => self.next_or_fail(session, outside),
        }
    }

    /// What follows a failed attempt: another one, or the end of the task. Either is told what no step tells.
    fn next_or_fail(&self, session: &mut Session, untold: Option<String>) -> Result<(), Error> {
        let over = session.task_is_out_of_budget()?;
        let given_up = match (over, self.after(session)) {
            (Some(why), _) => why,
            (None, After::GiveUp(why)) => words(why),
            (None, After::Again) => return self.begin_next(session, untold),
        };
        let body = text::failed(&given_up, untold.as_deref());
        self.fail(session, session.attempt_number(), body)
    }

    /// What follows the attempts of a session so far.
    fn after(&self, session: &Session) -> After {
        let Some(task) = &session.state().task else { return After::GiveUp(Reason::OutOfAttempts) };
        let number = task.attempt.as_ref().map_or(0, |attempt| attempt.number);
        let ended: Vec<schedule::Ended> = task.failed.iter().map(ended).collect();
        schedule::after(number, &ended, &self.plan.limits)
    }

    fn begin_next(&self, session: &mut Session, untold: Option<String>) -> Result<(), Error> {
        let task = session.state().task.as_ref().expect("a session on a task");
        let last = task.attempt.as_ref().expect("an attempt was begun");
        let start = start_after(session.pipeline(), None).expect("a pipeline that ran has a start");
        let code = task.failed.last().map_or(last.code, |failed| failed.after);
        let attempt = AttemptStarted {
            retry: last.retry + 1,
            number: last.number + 1,
            of: self.plan.limits.max_retries,
            start,
            code,
            laid: None,
            feedback: untold.iter().map(|why| text::broke_off(why)).collect(),
            extra: Default::default(),
        };
        Ok(session.begin_attempt(attempt)?)
    }

    /// The last step of a task that is done, with its report.
    fn complete(&self, session: &mut Session, job: &TaskJob) -> Result<(), Error> {
        let tested = self.is_tested(session, job)?;
        let attempts = session.attempt_number();
        let report = Report {
            task_id: job.task.id.clone(),
            result: TaskResult::Pass,
            retries: attempts.saturating_sub(1),
            name: self.engine.redactor.text(&job.task.name).into_owned(),
            attempts,
            tested,
            tests: session.last_counts(),
            session: Some(session.id().clone()),
            finished: clock::now(),
        };
        let place = job.commit_logs.then(|| session.free_report(&job.reports, &report.file())).transpose()?;
        if let Some(Err(found)) = &place {
            self.engine.warn(in_the_record(&format!("the report of {}", job.task.id), found));
        }
        let (named, report) = match place {
            Some(Ok(path)) => {
                let file = RepoPath::from(path.as_str());
                (path, TaskReport::Committed(file, report.json()))
            }
            _ => (session.record_name(), TaskReport::Recorded(report.value())),
        };
        let facts = Step { report: Some(named.clone()), untested: !tested, ..session.facts(StepKind::Complete, true) };
        let body = text::complete(attempts, Some(&named));
        session.end_task(facts, body, None, Some(report))?;
        Ok(())
    }

    /// Whether a test has passed in the attempt a session is at that saw the code there is now: one of its own, or one behind
    /// which it was begun.
    fn is_tested(&self, session: &mut Session, job: &TaskJob) -> Result<bool, Error> {
        let Some(work) = &session.state().task else { return Ok(false) };
        let before = self.progress.task(&work.of.id).at_attempt();
        let behind = before.iter().rposition(|found| Some(found.step.status()) == work.of.status);
        let behind = behind.filter(|_| work.failed.is_empty()).map_or(&[][..], |last| &before[..=last]);
        let own = work.attempt.as_ref().filter(|attempt| attempt.tested);
        let is_own = own.is_some();
        let tested = own.map_or_else(|| self.tested_before(session, job, behind), |own| Ok(own.tested_code))?;
        match tested {
            Some(tested) => Ok(tested == session.code()?),
            // Older records do not tell which code it was.
            None => Ok(is_own),
        }
    }

    /// The code that the newest test among the steps before a session has passed on, as its commit has it.
    fn tested_before(
        &self,
        session: &Session,
        job: &TaskJob,
        before: &[Arc<Found>],
    ) -> Result<Option<CommitId>, Error> {
        let newest = before.iter().rfind(|found| found.step.kind == StepKind::Test);
        let Some(test) = newest.filter(|test| test.step.passed) else { return Ok(None) };
        let trees = (self.repo.tree_of(session.task().base)?, self.repo.tree_of(test.commit)?);
        Ok(Some(code_of(&self.repo, trees, job)?))
    }

    /// The last step of a task that is given up after so many attempts.
    fn fail(&self, session: &mut Session, attempts: u32, body: Body) -> Result<(), Error> {
        let facts = session.facts(StepKind::Complete, false);
        let attempt = Some(Attempt { number: attempts, of: self.plan.limits.max_retries });
        session.end_task(facts, body, attempt, None)?;
        Ok(())
    }

    /// Gives a task up whose budget was used up by a run before this one.
    pub(super) async fn give_up(&mut self, task: &TaskId, why: Reason) -> Result<Worked, Error> {
        let state = self.progress.task(task);
        let (number, retry) = (state.in_budget, state.attempts.saturating_sub(1));
        let (mut session, job) = self.session(task, Attempt { number, of: number }, retry).await?;
        // An attempt with a step that failed may go on behind it, as its pipeline says, and is the last of the budget.
        if !session.is_decided() && !attempt_has_result(&session) {
            self.fail(&mut session, number, text::failed(&words(why), None))?;
        }
        self.see_through(session, &job).await
    }

    /// The branch of a task.
    pub(super) fn branch_of(&self, task: &TaskId) -> Result<BranchName, Error> {
        Ok(task_branch(&self.plan.branch_prefix, &self.plan.target, task)?)
    }

    /// The branch a task lands on: the target, or its phase's. What the tests of a phase say stands where what they ran on
    /// is.
    pub(super) fn lands_on(&self, task: &TaskId) -> Result<BranchName, Error> {
        let phase = self.plan.tree.phase_of(task);
        let is_leaf = self.plan.tree.is_leaf(task);
        match if is_leaf { self.schedule.gathers(phase) } else { self.schedule.is_ahead(phase) } {
            true => Ok(phase_branch(&self.plan.branch_prefix, &self.plan.target, phase)?),
            false => Ok(self.plan.target.clone()),
        }
    }

    /// Where the branch stands a task lands on.
    pub(super) fn landing_tip(&self, task: &TaskId) -> Result<CommitId, Error> {
        self.tip_or_target(&self.lands_on(task)?)
    }

    /// Where a branch stands. A phase's begins at the target.
    pub(super) fn tip_or_target(&self, on: &BranchName) -> Result<CommitId, Error> {
        match self.repo.reference(&branch_ref(on))? {
            Some(tip) => Ok(tip),
            None => target_tip(&self.repo, &self.plan.target),
        }
    }
}

/// What the last step of a task says about why it was given up; that all attempts failed is told by the others.
fn words(why: Reason) -> String {
    if why == Reason::OutOfAttempts { String::new() } else { why.to_string() }
}

fn ended(failed: &crate::state::FailedAttempt) -> schedule::Ended {
    let failure = match failed.step() {
        Some(StepKind::Test) => Failure::Tests(failed.failing.iter().cloned().collect()),
        _ if failed.outside => Failure::Outside,
        Some(StepKind::Implement) => Failure::Agent,
        _ => Failure::Other,
    };
    schedule::Ended { before: failed.before, after: failed.after, failure }
}

/// Whether the newest attempt failed with a step that says so.
fn attempt_has_result(session: &Session) -> bool {
    session.state().task.as_ref().and_then(|task| task.attempt.as_ref()).is_some_and(|attempt| attempt.has_failed)
}

/// Whether the newest attempt ended with such a step.
fn attempt_is_told(session: &Session) -> bool {
    session.state().task.as_ref().and_then(|task| task.attempt.as_ref()).is_some_and(|attempt| attempt.is_told)
}

/// The node a pass begins at: the start, or the one behind the node of a step that went well.
pub(super) fn start_after(pipeline: &Pipeline, step: Option<&StepKind>) -> Option<NodeId> {
    let start = &pipeline.start()?.id;
    Some(step.and_then(|step| behind(pipeline, step)).unwrap_or(start).clone())
}

/// The node behind that of a step that went well, where the step alone tells which that is.
pub(super) fn behind<'p>(pipeline: &'p Pipeline, step: &StepKind) -> Option<&'p NodeId> {
    let mut named = pipeline.nodes().iter().filter(|node| node.step.as_deref() == Some(step.as_str()));
    match (named.next(), named.next()) {
        (Some(node), None) => route::behind(pipeline, node),
        _ => None,
    }
}
