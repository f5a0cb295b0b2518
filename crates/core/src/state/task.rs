//! A session that works on a task of a tree: its attempts and steps.

use serde::{Deserialize, Serialize};

use super::{Phase, Position, State, Visit};
use crate::event::{AttemptStarted, Feedback, Landing, StepFinished, TaskOf};
use crate::ids::CommitId;
use crate::step::{StepKind, text};

/// The newest attempt at a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Counted from 0 over everything that was tried on the task.
    pub retry: u32,
    /// Counted from 1 in the session's budget.
    pub number: u32,
    /// The attempts of the budget.
    pub of: u32,
    /// The code it started with.
    pub code: CommitId,
    /// The commit whose files were laid over the worktree before it.
    #[serde(default)]
    pub laid: Option<CommitId>,
    /// It has failed, and a step says so.
    #[serde(default)]
    pub has_failed: bool,
    /// Nothing was started after the step that says so: that is how it ended.
    #[serde(default)]
    pub is_told: bool,
    /// Its newest test step has passed.
    #[serde(default)]
    pub tested: bool,
    /// The code that one saw.
    #[serde(default)]
    pub tested_code: Option<CommitId>,
}

/// How an attempt ended that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedAttempt {
    /// The status of the step that failed.
    pub status: String,
    /// It ended outside of its steps, and that one only says so.
    #[serde(default)]
    pub outside: bool,
    /// The code it started with.
    pub before: CommitId,
    /// The code it left.
    pub after: CommitId,
    /// The tests that failed.
    pub failing: Vec<String>,
}

impl FailedAttempt {
    /// The step that failed; none where its status is unknown.
    pub fn step(&self) -> Option<StepKind> {
        StepKind::from_status(&self.status).filter(|(_, passed)| !passed).map(|(step, _)| step)
    }
}

/// A session that works on a task of a tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskWork {
    /// The task.
    pub of: TaskOf,
    /// The newest attempt.
    pub attempt: Option<Attempt>,
    /// The newest step's commit; where there is none, the commit the session started at.
    pub step: CommitId,
    /// The status of the newest step.
    pub status: Option<String>,
    /// The facts of the newest test step.
    pub tested: Vec<(String, String)>,
    /// What went wrong so far, for the next attempt.
    pub feedback: Vec<Feedback>,
    /// The attempts of this session that failed.
    pub failed: Vec<FailedAttempt>,
    /// Moves that are pending or not yet confirmed: one branch for each repository.
    pub landing: Vec<Landing>,
    /// The commit the target moved to.
    pub landed: Option<CommitId>,
}

impl TaskWork {
    /// A task on which nothing was done yet, started at this commit.
    pub(super) fn new(task: &TaskOf, begun: Option<CommitId>) -> Self {
        Self {
            of: task.clone(),
            attempt: None,
            step: begun.unwrap_or(task.base),
            status: task.status.clone(),
            tested: Vec::new(),
            feedback: Vec::new(),
            failed: Vec::new(),
            landing: Vec::new(),
            landed: None,
        }
    }

    /// However many of its steps fail, an attempt fails once: of its tests where those did, else of the last of them.
    fn attempt_failed(&mut self, data: &StepFinished) {
        let failed = FailedAttempt {
            status: data.status.clone(),
            outside: text::ended_outside(&data.body).is_some(),
            before: self.attempt.as_ref().map_or(data.code, |attempt| attempt.code),
            after: data.code,
            failing: data.failing.clone(),
        };
        let has_failed = self.attempt.as_ref().is_some_and(|attempt| attempt.has_failed);
        let of_tests = |failed: &FailedAttempt| failed.step() == Some(StepKind::Test);
        match self.failed.last_mut().filter(|_| has_failed) {
            Some(before) if of_tests(before) && !of_tests(&failed) => before.after = failed.after,
            Some(before) => *before = failed,
            None => self.failed.push(failed),
        }
        self.attempt.iter_mut().for_each(|attempt| (attempt.has_failed, attempt.is_told) = (true, true));
    }

    /// The newest step, and whether it went well; none without one, or where its status is unknown.
    pub fn newest(&self) -> Option<(StepKind, bool)> {
        StepKind::from_status(self.status.as_deref()?)
    }

    /// Whether it is complete or given up, so that nothing is left but to land.
    pub fn is_decided(&self) -> bool {
        matches!(self.newest(), Some((StepKind::Complete, _)))
    }

    /// Whether it is complete.
    pub fn is_complete(&self) -> bool {
        self.newest() == Some((StepKind::Complete, true))
    }
}

impl State {
    pub(super) fn on_task(&mut self, change: impl FnOnce(&mut TaskWork)) -> Result<(), String> {
        self.must_have_begun()?;
        self.task.as_deref_mut().map(change).ok_or_else(|| "the session works on no task".to_owned())
    }

    /// An attempt is a pass of its own: it starts with the files of the one before and with nothing else of it.
    pub(super) fn attempt_started(&mut self, data: &AttemptStarted) -> Result<(), String> {
        match self.phase {
            Phase::Running if self.nodes.is_empty() => {}
            Phase::Completed | Phase::Failed { .. } => {}
            _ => return Err(format!("the session is {}", self.phase.word())),
        }
        self.on_task(|task| {
            let &AttemptStarted { retry, number, of, code, laid, .. } = data;
            let (has_failed, is_told, tested, tested_code) = (false, false, false, None);
            task.attempt = Some(Attempt { retry, number, of, code, laid, has_failed, is_told, tested, tested_code });
            task.feedback.extend(data.feedback.iter().cloned());
        })?;
        self.restart();
        self.nodes.clear();
        self.edges_taken.clear();
        self.reached_exit = false;
        self.phase = Phase::Running;
        let visit = Visit { node: data.start.clone(), visit: 1, attempt: 1, from: None };
        self.position = Position::Ready { visit, not_before: None };
        Ok(())
    }

    pub(super) fn step_finished(&mut self, data: &StepFinished) -> Result<(), String> {
        if self.phase == Phase::Cancelled {
            return Err("the session is cancelled".into());
        }
        self.messages = self.messages.max(data.log.unwrap_or(0));
        self.on_task(|task| {
            task.step = data.git_sha;
            task.status = Some(data.status.clone());
            task.feedback.extend(data.feedback.clone());
            if data.step == "test" {
                task.tested = data.trailers.clone();
                let tested = !data.failed_attempt();
                let newest = |attempt: &mut Attempt| (attempt.tested, attempt.tested_code) = (tested, Some(data.code));
                task.attempt.iter_mut().for_each(newest);
            }
            if data.failed_attempt() {
                task.attempt_failed(data);
            }
        })?;
        for commit in self.work.values_mut() {
            *commit = data.git_sha;
        }
        // The tests failed on what was to land: the pass that had reached its exit has not succeeded after all.
        if data.failed_attempt() && self.phase == Phase::Completed {
            self.phase = Phase::Failed { reason: data.subject_alone() };
        }
        Ok(())
    }
}
