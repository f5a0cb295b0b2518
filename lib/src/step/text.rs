//! The bodies of step commits: the end of what a step said, and what of it the next attempt is told.

use super::{Feedback, FeedbackKind, RanTest, Step, StepKind};
use crate::text::tail;

/// How much of an agent's or a reviewer's words a body keeps.
const WORDS: usize = 2000;

/// How much of each stream of a test command a body keeps.
const STREAM: usize = 1000;

/// How much of what went wrong is kept for the next attempt, in characters.
pub const FEEDBACK: usize = 8_000;

/// What stands above text that was cut.
const CUT: &str = "[...truncated]";

const RUNNER_OUTPUT: &str = "Runner output (truncated to 2000 chars):";
const RUNNER_ERROR: &str = "Runner error:";
const ENDED: &str = "The attempt ended:";
const REVIEW: &str = "Review:";

/// The last characters of a text, below a line that says so when there were more.
pub fn cut(text: &str, max_chars: usize) -> String {
    match tail(text, max_chars) {
        whole if whole.len() == text.len() => text.to_owned(),
        end => format!("{CUT}\n{end}"),
    }
}

/// The body of an implement step that went well.
pub fn implement(output: &str) -> String {
    format!("{RUNNER_OUTPUT}\n{}", cut(output, WORDS))
}

/// Whether the body of a step that went well tells of an agent: that of a command begins otherwise.
pub fn is_of_agent(body: &str) -> bool {
    body.trim_start().starts_with(RUNNER_OUTPUT)
}

/// The body of an implement step that failed.
pub fn runner_error(error: &str) -> String {
    format!("{RUNNER_ERROR}\n{}", cut(error, WORDS))
}

/// The body of an implement step that stands for an attempt which ended outside of its steps.
pub fn outside(reason: &str) -> String {
    format!("{ENDED}\n{}", cut(reason, WORDS))
}

/// What ended the attempt outside of its steps that a body tells of.
pub fn ended_outside(body: &str) -> Option<&str> {
    body.strip_prefix(ENDED).filter(|why| why.starts_with('\n')).map(str::trim)
}

/// The body of a review step.
pub fn review(reply: &str) -> String {
    format!("{REVIEW}\n{}", cut(reply, WORDS))
}

/// The body of a test step: the output of each command, complaints only of those that failed.
pub fn tests(ran: &[RanTest]) -> String {
    let of = |test: &RanTest| {
        let what = format!("Test ({})", test.kind);
        streams(&what, if test.passed { "" } else { &test.stderr }, &test.stdout)
    };
    ran.iter().map(of).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// The body of a step of the pipeline's own.
pub fn custom(step: &str, passed: bool, stdout: &str, stderr: &str) -> String {
    streams(&format!("Step ({step})"), if passed { "" } else { stderr }, stdout)
}

fn streams(what: &str, stderr: &str, stdout: &str) -> String {
    [("stderr", stderr), ("stdout", stdout)]
        .into_iter()
        .filter(|(_, text)| !text.trim().is_empty())
        .map(|(stream, text)| format!("{what} {stream} (last {STREAM} chars):\n{}", cut(text.trim_end(), STREAM)))
        .collect::<Vec<_>>()
        .join("\n\n")
}

/// Puts a line below what a command complained about that says how it ended: nothing else tells.
pub fn add_end(stderr: &mut String, how: &str) {
    let end = if stderr.is_empty() || stderr.ends_with('\n') { "" } else { "\n" };
    stderr.push_str(&format!("{end}[{how}]\n"));
}

/// What is said of an attempt that leaves files out of its commits, before `what`.
pub fn left_out(what: &str, files: &[String]) -> String {
    let mut lines = vec![format!("{what}: files would be missing where the task lands")];
    lines.extend(files.iter().cloned());
    lines.push("Remove them or make them smaller or fewer; add what can be made again to .gitignore.".to_owned());
    lines.join("\n")
}

/// The body of a completed task.
pub fn complete(attempts: u32, report: Option<&str>) -> String {
    let report = report.map_or_else(String::new, |path| format!(" Report: {path}"));
    format!("Completed after {attempts} attempt(s).{report}")
}

/// The body of a task that was given up: why, and how its last attempt ended where no step of it tells that.
pub fn failed(why: &str, untold: Option<&str>) -> String {
    let parts = [why.to_owned(), untold.map(runner_error).unwrap_or_default()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// What is told of an attempt that ended outside of its steps.
pub fn broke_off(reason: &str) -> Feedback {
    Feedback::new(FeedbackKind::RunnerError, cut(reason, FEEDBACK))
}

/// The two parts of such a body.
pub fn why_given_up(body: &str) -> (&str, Option<&str>) {
    match body.find(RUNNER_ERROR) {
        Some(from) if from == 0 || body[..from].ends_with('\n') => {
            (body[..from].trim(), Some(body[from + RUNNER_ERROR.len()..].trim()))
        }
        _ => (body, None),
    }
}

/// What a step's body tells the next attempt; none when the step went well.
pub fn feedback(step: &Step, body: &str) -> Option<Feedback> {
    let kind = match step.kind {
        StepKind::Implement if !step.passed => FeedbackKind::RunnerError,
        StepKind::Test | StepKind::Custom(_) if !step.passed => FeedbackKind::TestFailure,
        // A reviewer that broke off has said nothing about the code.
        StepKind::Review if !step.passed && body.trim_start().starts_with(RUNNER_ERROR) => FeedbackKind::RunnerError,
        StepKind::Review if !step.passed => FeedbackKind::Rejected,
        StepKind::Complete if !step.passed => return why_given_up(body).1.map(broke_off),
        // Whoever reopens a task says why.
        StepKind::Reset => FeedbackKind::TestFailure,
        _ => return None,
    };
    let text = without_heading(body.trim());
    let step = match &step.kind {
        StepKind::Custom(name) => Some(name.clone()),
        _ => None,
    };
    (!text.is_empty()).then(|| Feedback { kind, step, text: text.to_owned() })
}

/// A body without its heading, if it has one and no other: two streams keep theirs apart.
fn without_heading(body: &str) -> &str {
    let Some((first, rest)) = body.split_once('\n') else { return if is_heading(body) { "" } else { body } };
    if is_heading(first) && !rest.lines().any(is_heading) { rest.trim() } else { body }
}

fn is_heading(line: &str) -> bool {
    let stream = |line: &str| line.starts_with("Test (") || line.starts_with("Step (");
    [RUNNER_OUTPUT, RUNNER_ERROR, ENDED, REVIEW].contains(&line) || stream(line) && line.ends_with(" chars):")
}
