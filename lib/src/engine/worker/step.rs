//! Nodes that stand for a step of a task: what their end tells of it.

use super::{Ending, Worker};
use crate::engine::task::StepReport;
use crate::event::{FailureClass, Outcome};
use crate::step::verdict;
use crate::step::{report, text};

impl Worker {
    /// Whether this is a review and the answer holds no verdict.
    pub(super) fn verdict_is_missing(&self, answer: &str) -> bool {
        self.is_review() && verdict::read(answer).is_none()
    }

    fn is_review(&self) -> bool {
        self.job.is_some() && self.node.step.as_deref() == Some("review")
    }

    /// What is told of a step that is a command.
    pub(super) fn command_step(&self, outcome: &Outcome, (stdout, stderr): (&str, &str), end: &mut Ending) {
        if self.job.is_none() || self.node.step.is_none() {
            return;
        }
        let redact = |text: &str| self.engine.redactor.text(text).into_owned();
        let (stdout, stderr) = (redact(stdout), redact(stderr));
        let failed = !outcome.status.is_success();
        let body = text::command(&stdout, if failed { &stderr } else { "" });
        let log = failed.then(|| report::agent_log(&stdout, &stderr));
        end.step = Some(StepReport { body, log, test: None });
    }

    /// The outcome of an agent's step, and what is told of it.
    pub(super) fn agent_step(&self, outcome: Outcome, end: &mut Ending) -> Outcome {
        if self.job.is_none() || self.node.step.is_none() {
            return outcome;
        }
        let answer = end.response.clone().unwrap_or_default();
        let answer = self.engine.redactor.text(&answer).into_owned();
        let failure = outcome.failure_reason.clone().unwrap_or_default();
        if !self.is_review() {
            let passed = outcome.status.is_success();
            let body = if passed { text::implement(&answer) } else { text::runner_error(&failure) };
            let log = Some(report::agent_log(&answer, if passed { "" } else { &failure }));
            end.step = Some(StepReport { body, log, test: None });
            return outcome;
        }
        let outcome = match verdict::read(&answer) {
            // A reviewer that broke off has not approved, whatever it said before.
            _ if !outcome.status.is_success() => outcome,
            Some(verdict) if verdict.approved => outcome,
            Some(_) => rejected(outcome, "the review rejected it"),
            None => rejected(outcome, "the review gave no verdict, also when asked once more"),
        };
        let said = if answer.is_empty() { failure.as_str() } else { answer.as_str() };
        end.step =
            Some(StepReport { body: text::review(said), log: Some(report::agent_log(said, &failure)), test: None });
        outcome
    }
}

/// A rejection is an answer, not a crash: nothing is tried again within the attempt.
fn rejected(outcome: Outcome, why: &str) -> Outcome {
    let updates = outcome.context_updates;
    Outcome { context_updates: updates, failure_class: FailureClass::Terminal, ..Outcome::fail(why) }
}
