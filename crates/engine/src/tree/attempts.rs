//! The attempts at a task: a budget of passes through its pipeline, until it is complete or given up. They do not
//! depend on the run they are part of, so that attempts at several tasks can run in parallel.

use std::sync::Arc;

use super::Error;
use super::ended::TreeEnded;
use super::plan::TreePlan;
use crate::env::Engine;
use crate::session::{
    Pause, SessionEnded, TaskJob, TaskReport, TaskSession, code_of, in_the_record, run_attempt, task_is_out_of_budget,
};
use git::Repo;
use pleach_core::config::OnExceeded;
use pleach_core::event::{AttemptStarted, PauseReason};
use pleach_core::ids::{CommitId, NodeId, RepoPath};
use pleach_core::plan::pipeline::Pipeline;
use pleach_core::progress::StepCommit;
use pleach_core::schedule::{self, AfterFailure, AttemptFailure, GiveUpReason};
use pleach_core::step::report::{ReportJson, TaskResult};
use pleach_core::step::text::{self, Body};
use pleach_core::step::{AttemptNumber, Step, StepKind};
use pleach_core::{clock, route};

/// What the attempts at a task need to know.
#[derive(Debug)]
pub(super) struct Attempts {
    pub engine: Arc<Engine>,
    pub repo: Repo,
    pub plan: Arc<TreePlan>,
    pub job: Arc<TaskJob>,
    /// The steps of the attempt in progress when the session was opened.
    pub before: Vec<Arc<StepCommit>>,
}

impl Attempts {
    /// Runs attempts until the task is complete or given up. Returns a value only if the run stops before that.
    pub(super) async fn make(&self, session: &mut TaskSession) -> Result<Option<TreeEnded>, Error> {
        while !session.is_decided() {
            let ended = run_attempt(session).await?;
            match ended {
                SessionEnded::Paused(Pause { reason: PauseReason::OverBudget, why, .. })
                    if self.engine.budget.action() == OnExceeded::Stop =>
                {
                    return Ok(Some(TreeEnded::OutOfBudget { why: why.unwrap_or_default() }));
                }
                SessionEnded::Paused(pause) => {
                    session.check_branch()?;
                    return Ok(Some(TreeEnded::Paused(pause)));
                }
                SessionEnded::Cancelled => return Ok(Some(TreeEnded::Cancelled(self.job.task.id.clone()))),
                SessionEnded::Completed => match session.left_out()? {
                    files if files.is_empty() => self.complete(session)?,
                    files => {
                        let why = text::left_out("the task is not complete", &files);
                        self.end_attempt(session, Some(why))?;
                    }
                },
                SessionEnded::Failed { reason } => {
                    let outside = (!attempt_is_told(session)).then_some(reason);
                    self.end_attempt(session, outside)?;
                }
            }
        }
        Ok(None)
    }

    /// Ends a failed attempt. `outside` is the cause if it was not one of its steps.
    fn end_attempt(&self, session: &mut TaskSession, outside: Option<String>) -> Result<(), Error> {
        match outside {
            Some(why) if !attempt_has_result(session) => {
                session.fail_attempt(&why)?;
                self.next_or_fail(session, None)
            }
            // A step already failed and the pass continued. Another failed step would count as another attempt.
            outside => self.next_or_fail(session, outside),
        }
    }

    /// Starts another attempt after a failed one, or ends the task. Both get the part of the feedback that no step has.
    pub(super) fn next_or_fail(&self, session: &mut TaskSession, untold: Option<String>) -> Result<(), Error> {
        let over = task_is_out_of_budget(session)?;
        let given_up = match (over, self.after(session)) {
            (Some(why), _) => why,
            (None, AfterFailure::GiveUp(why)) => words(why),
            (None, AfterFailure::Again) => return self.begin_next(session, untold),
        };
        let body = text::failed(&given_up, untold.as_deref());
        self.fail(session, session.attempt_number(), body)
    }

    /// The decision after the session's attempts so far.
    fn after(&self, session: &TaskSession) -> AfterFailure {
        let Some(task) = &session.state().task else { return AfterFailure::GiveUp(GiveUpReason::OutOfAttempts) };
        let number = task.attempt.as_ref().map_or(0, |attempt| attempt.number);
        let ended: Vec<schedule::EndedAttempt> = task.failed.iter().map(ended).collect();
        schedule::after(number, &ended, &self.plan.limits)
    }

    fn begin_next(&self, session: &mut TaskSession, untold: Option<String>) -> Result<(), Error> {
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

    /// Gives the task up, unless a step of its last attempt already says so: an attempt with a failed step may continue
    /// if its pipeline says so, and is the last of the budget.
    pub(super) fn give_up(&self, session: &mut TaskSession, number: u32, why: GiveUpReason) -> Result<(), Error> {
        if session.is_decided() || attempt_has_result(session) {
            Ok(())
        } else {
            self.fail(session, number, text::failed(&words(why), None))
        }
    }

    /// The last step of a completed task, with its report.
    fn complete(&self, session: &mut TaskSession) -> Result<(), Error> {
        let (job, tested) = (&self.job, self.is_tested(session)?);
        let attempts = session.attempt_number();
        let report = ReportJson {
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
        let place = job.commit_reports.then(|| session.free_report(&job.reports, &report.file())).transpose()?;
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

    /// Whether a test of the current code has passed in the session's attempt: one of its own, or one before the step
    /// it continues after.
    fn is_tested(&self, session: &mut TaskSession) -> Result<bool, Error> {
        let Some(work) = &session.state().task else { return Ok(false) };
        let before = &self.before;
        let behind = before.iter().rposition(|found| Some(found.step.status()) == work.of.status);
        let behind = behind.filter(|_| work.failed.is_empty()).map_or(&[][..], |last| &before[..=last]);
        let own = work.attempt.as_ref().filter(|attempt| attempt.tested);
        let is_own = own.is_some();
        let tested = own.map_or_else(|| self.tested_before(session, behind), |own| Ok(own.tested_code))?;
        match tested {
            Some(tested) => Ok(tested == session.code()?),
            // Older records do not say which code it was.
            None => Ok(is_own),
        }
    }

    /// The code on which the newest test before the session passed, according to its commit.
    fn tested_before(&self, session: &TaskSession, before: &[Arc<StepCommit>]) -> Result<Option<CommitId>, Error> {
        let newest = before.iter().rfind(|found| found.step.kind == StepKind::Test);
        let Some(test) = newest.filter(|test| test.step.passed) else { return Ok(None) };
        let base = self.repo.tree_of(session.task().base)?;
        Ok(Some(code_of(&self.repo, base, self.repo.tree_of(test.commit)?, &self.job)?))
    }

    /// The last step of a task given up after this many attempts.
    fn fail(&self, session: &mut TaskSession, attempts: u32, body: Body) -> Result<(), Error> {
        let facts = session.facts(StepKind::Complete, false);
        let attempt = Some(AttemptNumber { number: attempts, of: self.plan.limits.max_retries });
        session.end_task(facts, body, attempt, None)?;
        Ok(())
    }
}

/// Why a task was given up, for its last step. Running out of attempts is already clear from the other steps.
fn words(why: GiveUpReason) -> String {
    if why == GiveUpReason::OutOfAttempts { String::new() } else { why.to_string() }
}

fn ended(failed: &pleach_core::state::FailedAttempt) -> schedule::EndedAttempt {
    let failure = match failed.step() {
        Some(StepKind::Test) => AttemptFailure::Tests(failed.failing.iter().cloned().collect()),
        _ if failed.outside => AttemptFailure::Outside,
        Some(StepKind::Implement) => AttemptFailure::Agent,
        _ => AttemptFailure::Other,
    };
    schedule::EndedAttempt { before: failed.before, after: failed.after, failure }
}

/// Whether the newest attempt has a failed step.
fn attempt_has_result(session: &TaskSession) -> bool {
    session.state().task.as_ref().and_then(|task| task.attempt.as_ref()).is_some_and(|attempt| attempt.has_failed)
}

/// Whether the newest attempt ended with a failed step.
fn attempt_is_told(session: &TaskSession) -> bool {
    session.state().task.as_ref().and_then(|task| task.attempt.as_ref()).is_some_and(|attempt| attempt.is_told)
}

/// The node a pass starts at: the start, or the one after a passed step.
pub(super) fn start_after(pipeline: &Pipeline, step: Option<&StepKind>) -> Option<NodeId> {
    let start = &pipeline.start()?.id;
    Some(step.and_then(|step| behind(pipeline, step)).unwrap_or(start).clone())
}

/// The node after a passed step, if the step alone determines it.
pub(super) fn behind<'p>(pipeline: &'p Pipeline, step: &StepKind) -> Option<&'p NodeId> {
    let mut named = pipeline.nodes().iter().filter(|node| node.step.as_deref() == Some(step.as_str()));
    match (named.next(), named.next()) {
        (Some(node), None) => route::entry_after(pipeline, node),
        _ => None,
    }
}
