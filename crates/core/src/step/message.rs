//! A step commit: its facts, and the subject and trailers that carry them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Counts, TestFacts, TestKind};
use crate::ids::{SessionId, StepName, TaskId};
use crate::trailer::CommitMessage;

/// Names in subjects are cut to this many characters.
const NAME: usize = 50;

/// Which step of a task a commit reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepKind {
    /// A run over a tree started.
    RunStart,
    /// The agent worked.
    Implement,
    /// The tests ran.
    Test,
    /// The reviewer looked.
    Review,
    /// The task ended, complete or failed.
    Complete,
    /// The task was taken back to its beginning.
    Reset,
    /// A step of the pipeline's own.
    Custom(StepName),
}

impl StepKind {
    /// The merge of a complete task into its target, which conflicted: nothing is wrong with its tests.
    pub fn merge() -> Self {
        Self::Custom(StepName::new("merge").expect("a name of a step"))
    }

    /// The word in `Arborist-Step`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::RunStart => "run-start",
            Self::Implement => "implement",
            Self::Test => "test",
            Self::Review => "review",
            Self::Complete => "complete",
            Self::Reset => "reset",
            Self::Custom(name) => name.as_str(),
        }
    }

    /// The kind a word of `Arborist-Step` names; none when it cannot be the name of a step.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::RunStart, Self::Implement, Self::Test, Self::Review, Self::Complete, Self::Reset]
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .or_else(|| StepName::new(word).ok().map(Self::Custom))
    }

    /// The word for what became of such a step: `implement-pass`, `review-rejected`, `complete`, `failed`, `lint-fail`, …
    pub fn status(&self, passed: bool) -> String {
        let word = self.as_str();
        match (self, passed) {
            (Self::Complete, false) => "failed".into(),
            (Self::Complete | Self::Reset | Self::RunStart, _) => word.into(),
            (Self::Review, true) => "review-approved".into(),
            (Self::Review, false) => "review-rejected".into(),
            (_, true) => format!("{word}-pass"),
            (_, false) => format!("{word}-fail"),
        }
    }

    /// The step such a word reports, and whether it went well; none for other words, and for a task that was skipped:
    /// no step of it was done.
    pub fn from_status(status: &str) -> Option<(Self, bool)> {
        let (word, passed) = match status {
            "failed" => ("complete", false),
            _ => match status.rsplit_once('-') {
                Some((word, "pass" | "approved")) => (word, true),
                Some((word, "fail" | "rejected")) => (word, false),
                _ => (status, true),
            },
        };
        let kind = Self::from_word(word)?;
        // Each has its own words for it.
        (kind.status(passed) == status).then_some((kind, passed))
    }
}

/// Which attempt of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptNumber {
    /// Counted from 1 within the budget.
    pub number: u32,
    /// How many the budget has.
    pub of: u32,
}

/// The facts of a step commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The task, or the phase whose gate ran; none only for the start of a run.
    pub task: Option<TaskId>,
    /// Which step.
    pub kind: StepKind,
    /// Whether it went well.
    pub passed: bool,
    /// The attempt, counted from 0 over the task's whole history.
    pub retry: Option<u32>,
    /// What the tests found.
    pub test: Option<TestFacts>,
    /// Where the reviewer's words are.
    pub review_log: Option<String>,
    /// Where the report is.
    pub report: Option<String>,
    /// The task was skipped by decision.
    pub skipped: bool,
    /// The task was completed without a test.
    pub untested: bool,
    /// The session whose work it is.
    pub session: Option<SessionId>,
    /// The tree the task is of, as [`super::TreeName`] reads it.
    pub tree: Option<String>,
    /// The task's name as the subject shows it.
    pub name: Option<String>,
    /// Other `Arborist-*` trailers.
    pub extra: Vec<(String, String)>,
}

/// `Arborist-*` trailers that are fields of a step.
const KNOWN: [&str; 13] = [
    "Arborist-Step",
    "Arborist-Result",
    "Arborist-Test",
    "Arborist-Review",
    "Arborist-Retry",
    "Arborist-Report",
    "Arborist-Test-Log",
    "Arborist-Review-Log",
    "Arborist-Test-Type",
    "Arborist-Test-Runtime",
    "Arborist-Test-Passed",
    "Arborist-Test-Failed",
    "Arborist-Test-Skipped",
];

impl Step {
    /// A step with nothing but what every step has.
    pub fn new(task: Option<TaskId>, kind: StepKind, passed: bool) -> Self {
        Self {
            task,
            kind,
            passed,
            retry: None,
            test: None,
            review_log: None,
            report: None,
            skipped: false,
            untested: false,
            session: None,
            tree: None,
            name: None,
            extra: Vec::new(),
        }
    }

    /// The start of a run over a tree.
    pub fn run_start(tree: impl Into<String>) -> Self {
        Self { tree: Some(tree.into()), ..Self::new(None, StepKind::RunStart, true) }
    }

    /// The word in the subject: that of its kind, or `skipped`.
    pub fn status(&self) -> String {
        if self.skipped && self.kind == StepKind::Complete && self.passed {
            "skipped".into()
        } else {
            self.kind.status(self.passed)
        }
    }

    /// The subject of the commit. `attempt` is after what failed; in a failed task it is the last one.
    pub fn subject(&self, target: &str, name: &str, attempt: Option<AttemptNumber>) -> String {
        let task = self.task.as_ref().map_or("", TaskId::as_str);
        let name = shown_name(name);
        let tried =
            attempt.map_or_else(String::new, |AttemptNumber { number, of }| format!(" (attempt {number}/{of})"));
        let what = match (&self.kind, self.passed) {
            (StepKind::RunStart, _) => "run started".to_owned(),
            (StepKind::Implement, true) => format!("implement \"{name}\""),
            (StepKind::Implement, false) => match attempt {
                Some(AttemptNumber { number, of }) => format!("implement \"{name}\" (failed, attempt {number}/{of})"),
                None => format!("implement \"{name}\" (failed)"),
            },
            (StepKind::Test, true) => format!("tests pass for \"{name}\""),
            (StepKind::Test, false) => format!("tests fail for \"{name}\"{tried}"),
            (StepKind::Review, true) => format!("review approved for \"{name}\""),
            (StepKind::Review, false) => format!("review rejected for \"{name}\"{tried}"),
            (StepKind::Complete, true) if self.skipped => format!("skipped \"{name}\""),
            (StepKind::Complete, true) => format!("complete \"{name}\""),
            (StepKind::Complete, false) => match attempt {
                Some(AttemptNumber { number, .. }) => format!("failed \"{name}\" after {number} retries"),
                None => format!("failed \"{name}\""),
            },
            (StepKind::Reset, _) => format!("reset \"{name}\""),
            (StepKind::Custom(step), true) => format!("{step} passed for \"{name}\""),
            (StepKind::Custom(step), false) => format!("{step} failed for \"{name}\"{tried}"),
        };
        format!("task({target}@{task}@{}): {what}", self.status())
    }

    /// The trailers, in the order they are written.
    pub fn trailers(&self) -> Vec<(String, String)> {
        let mut all = vec![("Arborist-Step".to_owned(), self.kind.as_str().to_owned())];
        let mut put = |key: &str, value: Option<String>| all.extend(value.map(|value| (key.to_owned(), value)));
        let result = Some(if self.passed { "pass" } else { "fail" }.to_owned());
        let retry = self.retry.map(|retry| retry.to_string());
        match &self.kind {
            StepKind::RunStart | StepKind::Reset => {}
            StepKind::Implement | StepKind::Custom(_) => {
                put("Arborist-Result", result);
                put("Arborist-Retry", retry);
            }
            StepKind::Test => {
                put("Arborist-Test", result);
                put("Arborist-Retry", retry);
                if let Some(test) = &self.test {
                    put("Arborist-Test-Log", test.log.clone());
                    put("Arborist-Test-Type", Some(test.kind.as_str().into()));
                    put("Arborist-Test-Runtime", test.runtime.map(seconds));
                    put("Arborist-Test-Passed", test.counts.map(|counts| counts.passed.to_string()));
                    put("Arborist-Test-Failed", test.counts.map(|counts| counts.failed.to_string()));
                    put("Arborist-Test-Skipped", test.counts.map(|counts| counts.skipped.to_string()));
                }
            }
            StepKind::Review => {
                put("Arborist-Review", Some(if self.passed { "approved" } else { "rejected" }.into()));
                put("Arborist-Retry", retry);
                put("Arborist-Review-Log", self.review_log.clone());
            }
            StepKind::Complete => {
                put("Arborist-Result", result);
                put("Arborist-Report", self.report.clone());
            }
        }
        for (key, value) in &self.extra {
            put(key, Some(value.clone()));
        }
        put("Pleach-Skipped", self.skipped.then(|| "true".into()));
        put("Pleach-Tested", self.untested.then(|| "none".into()));
        put("Pleach-Session", self.session.as_ref().map(ToString::to_string));
        put("Pleach-Tree", self.tree.clone());
        all
    }

    /// The whole message of the commit.
    pub fn message(&self, target: &str, name: &str, attempt: Option<AttemptNumber>, body: &str) -> CommitMessage {
        CommitMessage { subject: self.subject(target, name, attempt), body: body.to_owned(), trailers: self.trailers() }
    }

    /// The facts of a step commit made for `target`; none when the message is not one.
    pub fn read(message: &CommitMessage, target: &str) -> Option<Self> {
        let rest = message.subject.strip_prefix("task(")?.strip_prefix(target)?.strip_prefix('@')?;
        let (task, rest) = rest.split_once('@')?;
        let (status, what) = rest.split_once("): ")?;
        // A branch whose name continues where this one ends has its own ids there, and more `@` after them.
        StepName::new(status).ok()?;
        let task = if task.is_empty() { None } else { Some(TaskId::new(task).ok()?) };
        let step = Self::from_trailers(message, task, what)?;
        (step.task.is_none() == (step.kind == StepKind::RunStart)).then_some(step)
    }

    /// The facts of a commit of the older form, which names no branch: `task(T001): …`.
    pub fn read_old(message: &CommitMessage) -> Option<Self> {
        let (task, what) = message.subject.strip_prefix("task(")?.split_once("): ")?;
        let step = Self::from_trailers(message, Some(TaskId::new(task).ok()?), what)?;
        (step.kind != StepKind::RunStart).then_some(step)
    }

    /// The facts of a step commit of either form, for whichever branch it was made.
    pub fn read_of_any_branch(message: &CommitMessage) -> Option<Self> {
        let (facts, what) = message.subject.strip_prefix("task(")?.split_once("): ")?;
        let mut from_the_end = facts.rsplitn(3, '@');
        let task = match (from_the_end.next(), from_the_end.next(), from_the_end.next()) {
            (Some(_), Some(""), Some(_)) => None,
            (Some(_), Some(task), Some(_)) | (Some(task), None, None) => Some(TaskId::new(task).ok()?),
            _ => return None,
        };
        Self::from_trailers(message, task, what)
    }

    fn from_trailers(message: &CommitMessage, task: Option<TaskId>, what: &str) -> Option<Self> {
        let text = |key: &str| message.trailer(key).map(str::to_owned);
        let says = |key: &str, word: &str| message.trailer(key).is_some_and(|value| value.eq_ignore_ascii_case(word));
        let kind = StepKind::from_word(message.trailer("Arborist-Step")?)?;
        let passed = match kind {
            StepKind::Test => says("Arborist-Test", "pass"),
            StepKind::Review => says("Arborist-Review", "approved"),
            _ => !says("Arborist-Result", "fail"),
        };
        let test = (kind == StepKind::Test).then(|| test_facts(message));
        let known = |key: &str| KNOWN.iter().any(|known| known.eq_ignore_ascii_case(key));
        let foreign = |key: &str| key.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("Arborist-"));
        let extra = message.trailers.iter().filter(|(key, _)| foreign(key) && !known(key)).cloned();
        Some(Self {
            passed,
            test,
            retry: text("Arborist-Retry").and_then(|retry| retry.parse().ok()),
            review_log: text("Arborist-Review-Log"),
            report: text("Arborist-Report"),
            skipped: kind == StepKind::Complete && says("Pleach-Skipped", "true"),
            untested: says("Pleach-Tested", "none"),
            session: text("Pleach-Session").and_then(|session| session.parse().ok()),
            tree: text("Pleach-Tree"),
            name: quoted(what),
            extra: extra.collect(),
            ..Self::new(task, kind, passed)
        })
    }
}

fn test_facts(message: &CommitMessage) -> TestFacts {
    let number = |key: &str| message.trailer(key).and_then(|value| value.parse::<u64>().ok());
    let counts = ["Arborist-Test-Passed", "Arborist-Test-Failed", "Arborist-Test-Skipped"].map(number);
    let [passed, failed, skipped] = counts.map(Option::unwrap_or_default);
    let runtime = message.trailer("Arborist-Test-Runtime").and_then(|value| value.parse().ok());
    TestFacts {
        kind: message
            .trailer("Arborist-Test-Type")
            .and_then(|word| word.to_ascii_lowercase().parse().ok())
            .unwrap_or(TestKind::Unit),
        counts: counts.iter().any(Option::is_some).then_some(Counts { passed, failed, skipped }),
        runtime: runtime.and_then(|value| Duration::try_from_secs_f64(value).ok()),
        log: message.trailer("Arborist-Test-Log").map(str::to_owned),
    }
}

/// What the newest Arborist calls a branch in its subjects: the last part of its name without a version (`--v3`), and
/// of one that starts with the id of a ticket (`os-47-slug`) that id. None where that is the branch's own name.
pub fn short_id(branch: &str) -> Option<&str> {
    let last = branch.rsplit('/').next()?;
    let is_version = |tail: &str| tail.strip_prefix('v').is_some_and(is_number);
    let name = match last.rsplit_once("--") {
        Some((name, tail)) if is_version(tail) && !name.is_empty() => name,
        _ => last,
    };
    let mut parts = name.splitn(3, '-');
    let ticket = match (parts.next(), parts.next()) {
        (Some(letters), Some(digits)) if is_letters(letters) && is_number(digits) => {
            &name[..letters.len() + 1 + digits.len()]
        }
        _ => name,
    };
    (ticket != branch && !ticket.is_empty()).then_some(ticket)
}

fn is_letters(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A name on one line.
pub fn name_line(name: &str) -> String {
    let breaks = |c: char| c == ' ' || c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    name.split(breaks).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A name as subjects show it: on one line, and cut.
pub fn shown_name(name: &str) -> String {
    let line = name_line(name);
    if line.chars().count() <= NAME {
        return line;
    }
    line.chars().take(NAME - 3).chain("...".chars()).collect()
}

/// What is between the first and the last quote.
fn quoted(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('"')?;
    rest.rsplit_once('"').map(|(name, _)| name.to_owned())
}

/// Seconds with up to three decimals.
fn seconds(time: Duration) -> String {
    let text = format!("{:.3}", time.as_secs_f64());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_has_a_short_id_unless_that_is_itself() {
        let cases = [
            ("feature/os-47-slug--v3", Some("os-47")),
            ("feature/os-47", Some("os-47")),
            ("os-47-slug", Some("os-47")),
            ("feature/plain", Some("plain")),
            ("feature/plain--v12", Some("plain")),
            ("a/b/two-words", Some("two-words")),
            ("x/--v3", Some("--v3")),
            ("os-47", None),
            ("main", None),
        ];
        for (branch, expected) in cases {
            assert_eq!(short_id(branch), expected, "{branch}");
        }
    }
}
