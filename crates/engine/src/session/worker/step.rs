//! The report of a node that is a step of a task.

use super::collected::Collected;
use super::report::output_message;
use super::{Effect, Worker};
use crate::session::task::StepReport;
use pleach_core::event::{FailureClass, Outcome, Status};
use pleach_core::step::verdict::{self, NO_VERDICT, Verdict};
use pleach_core::step::{report, text};

/// The output of a command.
#[derive(Default)]
pub(super) struct Said {
    pub stdout: String,
    pub stderr: String,
    /// How it ended, if not with exit code 0.
    pub how: Option<String>,
    /// Whether it did not end by itself.
    pub broke_off: bool,
}

/// Whether this is a review and the answer holds no verdict.
pub(super) fn verdict_is_missing(worker: &Worker, answer: &str) -> bool {
    is_review(worker) && verdict::read(answer).is_none()
}

/// Whether the output of this node is a verdict.
fn is_review(worker: &Worker) -> bool {
    worker.node.verdict || worker.job.is_some() && worker.node.step.as_deref() == Some("review")
}

/// The outcome of a command. A review whose output rejects has rejected, whatever its exit code.
pub(super) fn judged(worker: &Worker, outcome: Outcome, stdout: &str) -> Outcome {
    if is_rejected(worker, stdout) { rejected(outcome, &why_rejected(stdout)) } else { outcome }
}

fn is_rejected(worker: &Worker, stdout: &str) -> bool {
    is_review(worker) && verdict::read(stdout) == Some(Verdict::Rejected)
}

/// Reports a step that is a command, once its outcome is known.
pub(super) fn command_step(worker: &Worker, outcome: &Outcome, said: Said, end: &mut Collected) {
    let (Some(_), Some(step)) = (&worker.job, worker.node.step.as_deref()) else { return };
    let redact = |text: &str| worker.engine.redactor.text(text).into_owned();
    let (stdout, mut stderr) = (redact(&said.stdout), redact(&said.stderr));
    let (failed, is_rejected) = (!outcome.status.is_success(), is_rejected(worker, &said.stdout));
    let why = || outcome.failure_reason.clone().or_else(|| outcome.own_word()).filter(|_| failed && !is_rejected);
    if let Some(how) = said.how.or_else(why) {
        text::add_end(&mut stderr, &redact(&how));
    }
    // A reviewer killed in the middle has said nothing about the code.
    let broke_off = is_review(worker) && said.broke_off && !is_rejected;
    let answer = if failed { joined(&stdout, &stderr) } else { stdout.trim_end().to_owned() };
    let body = match step {
        "implement" if failed => text::runner_error(&answer),
        "implement" => text::implement(&answer),
        "review" if broke_off => text::runner_error(&answer),
        "review" => text::review(&answer),
        name => text::custom(name, !failed, &stdout, &stderr),
    };
    let log = report::log([("stdout", stdout.as_str()), ("stderr", stderr.as_str())]);
    if let Effect::Tool(tool) = &mut end.effect {
        tool.output = output_message(&log);
    }
    let is_logged = failed || matches!(step, "implement" | "review");
    let said = if is_review(worker) { answer } else { log.clone() };
    end.step = Some(StepReport { body, said, log: is_logged.then_some(log), broke_off, ..StepReport::default() });
}

/// The outcome and report of an agent's step or verdict. Without an answer, the agent's last message counts.
pub(super) fn agent_step(
    worker: &Worker,
    outcome: Outcome,
    crashed: bool,
    last_words: String,
    end: &mut Collected,
) -> Outcome {
    let is_step = worker.job.is_some() && worker.node.step.is_some();
    if !is_step && !is_review(worker) {
        return outcome;
    }
    let (outcome, report) = agent_report(worker, outcome, crashed, last_words, end);
    end.step = is_step.then_some(report);
    outcome
}

fn agent_report(
    worker: &Worker,
    outcome: Outcome,
    crashed: bool,
    last_words: String,
    end: &Collected,
) -> (Outcome, StepReport) {
    let answer = end.response.clone().unwrap_or(last_words);
    // Read from the unredacted text: a word of the verdict may equal a secret.
    let verdict = verdict::read(&answer);
    let answer = worker.engine.redactor.text(&answer).into_owned();
    let failure = outcome.failure_reason.clone().or_else(|| outcome.own_word()).unwrap_or_default();
    // Redacted before it is truncated.
    let failure = worker.engine.redactor.text(&failure).into_owned();
    let ended = outcome.status.is_success();
    let log = log_of(end, &answer, if ended { "" } else { &failure });
    if !is_review(worker) {
        let body = if ended { text::implement(&answer) } else { text::runner_error(&failure) };
        return (outcome, StepReport { body, said: log.clone(), log: Some(log), ..StepReport::default() });
    }
    let broke_off = matches!(outcome.status, Status::Fail | Status::Retry);
    let outcome = match verdict {
        Some(Verdict::Rejected) if !broke_off || crashed => rejected(outcome, &why_rejected(&answer)),
        // A reviewer that broke off has not approved, whatever it said before.
        _ if broke_off => {
            let body = text::runner_error(&failure);
            let said = if answer.is_empty() { failure } else { format!("{answer}\n\n{failure}") };
            let report = StepReport { body, said, log: Some(log), broke_off: true, ..StepReport::default() };
            // It has not rejected either, so it is asked again.
            let failure_class = if crashed { FailureClass::Transient } else { outcome.failure_class };
            return (Outcome { failure_class, ..outcome }, report);
        }
        // Status and verdict say the same.
        Some(Verdict::Approved) if outcome.status.as_str() == "approved" => {
            Outcome { status: Status::Success, ..outcome }
        }
        Some(_) => outcome,
        None => rejected(outcome, NO_VERDICT),
    };
    let (body, said) = match verdict {
        Some(_) => (text::review(&answer), answer),
        None => (text::no_verdict(&answer), format!("{}\n\n{NO_VERDICT}", answer.trim_end())),
    };
    (outcome, StepReport { body, said, log: Some(log), ..StepReport::default() })
}

/// The reason of a rejection.
fn why_rejected(answer: &str) -> String {
    verdict::why(answer).map_or_else(|| "the review rejected it".to_owned(), |why| format!("rejected: {why}"))
}

fn joined(stdout: &str, stderr: &str) -> String {
    [stdout.trim_end(), stderr.trim_end()].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The log of an agent's step: its answer to each prompt, and why it ended if it did not succeed.
fn log_of(end: &Collected, answer: &str, complaint: &str) -> String {
    let last = match (end.stderr.trim_end(), complaint) {
        (stderr, "") => stderr.to_owned(),
        ("", complaint) => complaint.to_owned(),
        (stderr, complaint) => format!("{stderr}\n{complaint}"),
    };
    let before = end.asked_again.iter().map(|(answer, stderr)| (answer.as_str(), stderr.trim_end()));
    report::log(before.chain([(answer, last.as_str())]).flat_map(|(out, err)| [("stdout", out), ("stderr", err)]))
}

/// A rejection is an answer, not a crash: it is not retried within the attempt.
fn rejected(outcome: Outcome, why: &str) -> Outcome {
    let updates = outcome.context_updates;
    Outcome { context_updates: updates, ..Outcome::final_failure(why) }
}
