//! The bodies of step commits: the end of a step's output, and the feedback read back from it.

use super::verdict::NO_VERDICT;
use super::{Feedback, FeedbackKind, RanTest, Step, StepKind, TestKind};
use crate::redact::Redactor;
use crate::text::{counted, tail};

/// How much of an agent's or a reviewer's words a body keeps.
const WORDS: usize = 2000;

/// How much of each stream of a test command a body keeps.
const STREAM: usize = 1000;

/// How much of what went wrong is kept for the next attempt, in characters.
pub const FEEDBACK: usize = 8_000;

/// What is above text that was cut.
const CUT: &str = "[...truncated]";

const RUNNER_OUTPUT: &str = "Runner output (truncated to 2000 chars):";
const RUNNER_ERROR: &str = "Runner error:";
const ENDED: &str = "The attempt ended:";
const REVIEW: &str = "Review:";

/// How the words about a setup that failed start and end.
const THE_SETUP: &str = "the setup `";
const NOT_RUN: &str = "; the tests were not run";

/// What the body of a step commit is made of: words of pleach's own, some of which it reads back, and what others said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Body(Vec<Paragraph>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Paragraph {
    /// Its first line.
    own: Option<String>,
    /// What is below, and how much of it is kept.
    said: Option<(String, usize)>,
}

impl Body {
    fn below(heading: impl Into<String>, said: &str, keep: usize) -> Self {
        Self(vec![Paragraph { own: Some(heading.into()), said: Some((said.to_owned(), keep)) }])
    }

    fn joined(bodies: impl IntoIterator<Item = Self>) -> Self {
        Self(bodies.into_iter().flat_map(|body| body.0).collect())
    }

    /// The text of it, without secrets in what others said. Secrets are removed before the cut: half of one would not
    /// be recognized.
    pub fn write(&self, redactor: &Redactor) -> String {
        let written = self.0.iter().map(|Paragraph { own, said }| {
            let said = said.as_ref().map(|(text, keep)| cut(&redactor.text(text), *keep));
            own.iter().cloned().chain(said).collect::<Vec<_>>().join("\n")
        });
        written.collect::<Vec<_>>().join("\n\n")
    }
}

/// The last characters of a text, below a line that says so when there were more.
pub fn cut(text: &str, max_chars: usize) -> String {
    match tail(text, max_chars) {
        whole if whole.len() == text.len() => text.to_owned(),
        end => format!("{CUT}\n{end}"),
    }
}

/// The body of an implement step that went well.
pub fn implement(output: &str) -> Body {
    Body::below(RUNNER_OUTPUT, output, WORDS)
}

/// Whether the body of a step that went well reports an agent: that of a command starts otherwise.
pub fn is_of_agent(body: &str) -> bool {
    body.trim_start().starts_with(RUNNER_OUTPUT)
}

/// The body of an implement step that failed.
pub fn runner_error(error: &str) -> Body {
    Body::below(RUNNER_ERROR, error, WORDS)
}

/// The body of an implement step that stands for an attempt which ended outside of its steps.
pub fn outside(reason: &str) -> Body {
    Body::below(ENDED, reason, WORDS)
}

/// What ended the attempt outside of its steps that a body reports.
pub fn ended_outside(body: &str) -> Option<&str> {
    body.strip_prefix(ENDED).filter(|why| why.starts_with('\n')).map(str::trim)
}

/// The body of a review step.
pub fn review(reply: &str) -> Body {
    Body::below(REVIEW, reply, WORDS)
}

/// The body of a review step without a verdict.
pub fn no_verdict(reply: &str) -> Body {
    Body::joined([review(reply), own(NO_VERDICT)])
}

/// The body of a test step: the output of each command, complaints only of those that failed.
pub fn tests(ran: &[RanTest]) -> Body {
    let body = |test: &RanTest| {
        let what = test_heading(test.kind);
        streams(&what, if test.passed { "" } else { &test.stderr }, &test.stdout)
    };
    Body::joined(ran.iter().map(body))
}

/// What the headings of a test command's output start with.
pub(crate) fn test_heading(kind: TestKind) -> String {
    format!("Test ({kind})")
}

/// The body of a step of the pipeline's own.
pub fn custom(step: &str, passed: bool, stdout: &str, stderr: &str) -> Body {
    streams(&format!("Step ({step})"), if passed { "" } else { stderr }, stdout)
}

fn streams(what: &str, stderr: &str, stdout: &str) -> Body {
    let all = [("stderr", stderr), ("stdout", stdout)].into_iter().filter(|(_, text)| !text.trim().is_empty());
    let body = |(stream, text): (&str, &str)| {
        Body::below(format!("{what} {stream} (last {STREAM} chars):"), text.trim_end(), STREAM)
    };
    Body::joined(all.map(body))
}

/// Adds a line that says how a command ended.
pub fn add_end(stderr: &mut String, how: &str) {
    let end = if stderr.is_empty() || stderr.ends_with('\n') { "" } else { "\n" };
    stderr.push_str(&format!("{end}[{how}]\n"));
}

/// Adds that nothing ran after a failed setup, and returns the message for a person.
pub fn add_failed_setup(stderr: &mut String, setup: &str, how: &str) -> String {
    let why = format!("{THE_SETUP}{setup}` failed ({how}){NOT_RUN}");
    add_end(stderr, &why);
    why
}

/// What a setup that failed complained about, without what [`add_failed_setup`] put below.
pub(crate) fn of_failed_setup<'t>(heading: &str, said: &'t str) -> Option<&'t str> {
    let said = said.trim_end().strip_suffix(']')?.strip_suffix(NOT_RUN)?;
    let is_setup = heading.starts_with(&test_heading(TestKind::Setup));
    is_setup.then(|| said.rsplit_once(&format!("[{THE_SETUP}")).map_or("", |(said, _)| said))
}

/// What is said of an attempt that leaves files out of its commits, before `what`.
pub fn left_out(what: &str, files: &[String]) -> String {
    let mut lines = vec![format!("{what}: files would be missing where the task lands")];
    lines.extend(files.iter().cloned());
    lines.push("Remove them or make them smaller or fewer; add what can be made again to .gitignore.".to_owned());
    lines.join("\n")
}

/// Why a node is no success whose files are not all committed.
pub fn held_back(count: usize, files: &[String]) -> String {
    let are = if count == 1 { "is" } else { "are" };
    let mut lines = vec![format!("{} {are} held back, and no deletion is committed with that", counted(count, "file"))];
    lines.extend(files.iter().cloned());
    lines.push(
        "Remove them, add what can be made again to .gitignore, or raise `commit.max_file_mb` and `commit.max_new_files`."
            .to_owned(),
    );
    lines.join("\n")
}

/// The body of a completed task.
pub fn complete(attempts: u32, report: Option<&str>) -> Body {
    let report = report.map_or_else(String::new, |path| format!(" Report: {path}"));
    own(format!("Completed after {attempts} attempt(s).{report}"))
}

/// A body in pleach's own words.
pub fn own(words: impl Into<String>) -> Body {
    Body(vec![Paragraph { own: Some(words.into()), said: None }])
}

/// The body of a task that was given up: why, and how its last attempt ended where no step of it tells that.
pub fn failed(why: &str, untold: Option<&str>) -> Body {
    let why = Some(why).filter(|why| !why.is_empty());
    let why = why.map(|why| Body(vec![Paragraph { own: None, said: Some((why.to_owned(), usize::MAX)) }]));
    Body::joined(why.into_iter().chain(untold.map(runner_error)))
}

/// What is reported an attempt that ended outside of its steps.
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

/// The feedback of a step's body; none when the step went well.
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

/// What a body holds: each heading with what is below it. Words of pleach's own have none.
pub(super) fn sections(body: &str) -> Vec<(&str, &str)> {
    let mut sections: Vec<(&str, usize, usize)> = Vec::new();
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        let end = at + line.len();
        match (is_heading(line.trim_end()), sections.last_mut()) {
            (true, _) => sections.push((line.trim_end(), end, end)),
            (false, Some(section)) => section.2 = end,
            (false, None) => {}
        }
        at = end;
    }
    sections.into_iter().map(|(heading, from, to)| (heading, body[from..to].trim())).collect()
}

/// Whether a heading is that of a crash.
pub(super) fn is_of_crash(heading: &str) -> bool {
    [RUNNER_ERROR, ENDED].contains(&heading)
}

fn is_heading(line: &str) -> bool {
    let stream = |line: &str| line.starts_with("Test (") || line.starts_with("Step (");
    [RUNNER_OUTPUT, RUNNER_ERROR, ENDED, REVIEW].contains(&line) || stream(line) && line.ends_with(" chars):")
}
