//! What an agent is asked: to implement a task, to review what was done, to give a verdict that can be read.

use super::{Feedback, FeedbackKind, report, text};
use crate::plan::tree::{TaskNode, TestCommand};
use crate::text::excerpt;

/// How much feedback of earlier attempts the next one gets, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedbackLimits {
    /// Of one feedback; its end is kept.
    pub each: usize,
    /// Of all of them; the newest are kept.
    pub all: usize,
}

impl Default for FeedbackLimits {
    fn default() -> Self {
        Self { each: text::FEEDBACK, all: 5 * text::FEEDBACK }
    }
}

/// How much of a diff a reviewer is shown.
const DIFF: usize = 8_000;

/// How much of the list of changed files a reviewer is shown.
const STAT: usize = 4_000;

/// How many failing tests a feedback names.
const NAMES: usize = 50;

/// How many characters their names may have together, so that something of the output stays beside them.
const ROOM_FOR_NAMES: usize = text::FEEDBACK / 2;

/// Asks an agent to do a task. `tests` are the commands its work will be checked with, `feedback` is what came of the
/// attempts so far, oldest first.
pub fn implement(task: &TaskNode, feedback: &[Feedback], tests: &[TestCommand], bounds: FeedbackLimits) -> String {
    let mut prompt = opening("Implement task", task);
    prompt.push_str("\nWork in the current directory. Make all necessary file changes.\n");
    let mut checks = tests.iter().filter(|test| test.kind.is_test()).peekable();
    if checks.peek().is_some() {
        prompt.push_str("\nThe work is checked with:\n");
        for test in checks {
            prompt.push_str(&format!("- {}: {}\n", test.kind.as_str(), test.command.trim()));
        }
    }
    prompt.push_str(&lessons(feedback, bounds));
    prompt
}

/// What earlier attempts failed of, oldest first. Where that is too much, the newest is worth the most.
pub fn lessons(feedback: &[Feedback], bounds: FeedbackLimits) -> String {
    let mut blocks = Vec::new();
    let mut room = bounds.all;
    for one in feedback.iter().rev() {
        let words = text::cut(one.text.trim(), bounds.each);
        let length = words.chars().count();
        if length > room && !blocks.is_empty() {
            break;
        }
        room = room.saturating_sub(length);
        blocks.push(format!("\n{}\n{words}\n", heading(one)));
    }
    if blocks.is_empty() {
        return String::new();
    }
    let older = match feedback.len() - blocks.len() {
        0 => String::new(),
        older => format!("\n[...{older} older left out]\n"),
    };
    blocks.reverse();
    format!("\nPrevious feedback from failed attempts:\n{older}{}", blocks.concat())
}

fn heading(feedback: &Feedback) -> String {
    let what = match (feedback.kind, &feedback.step) {
        (FeedbackKind::Rejected, _) => "review (rejected)",
        (FeedbackKind::TestFailure, Some(step)) => &format!("{step} failure"),
        (FeedbackKind::TestFailure, None) => "test failure",
        (FeedbackKind::RunnerError, _) => "runner error",
    };
    format!("--- Previous {what} ---")
}

/// The feedback from failed commands: their output, the `log` with the rest, and the failed tests. The names come last,
/// where cutting the text never takes them away.
pub fn test_failure(output: &str, failing: &[String], log: Option<&str>) -> Feedback {
    let log = log.filter(|_| output.chars().count() + ROOM_FOR_NAMES > text::FEEDBACK);
    let mut below = log.map(|log| format!("\n\nThe whole output is in {log}\n")).unwrap_or_default();
    if !failing.is_empty() {
        let fits = |room: &mut usize, name: &'_ String| {
            *room = room.checked_sub(name.chars().count())?;
            Some(format!("- {name}\n"))
        };
        let named: Vec<String> = failing.iter().take(NAMES).scan(ROOM_FOR_NAMES, fits).collect();
        let gap = if below.is_empty() { "\n\n" } else { "\n" };
        below.push_str(&format!("{gap}Tests that failed:\n{}", named.concat()));
        if failing.len() > named.len() {
            below.push_str(&format!("and {} more\n", failing.len() - named.len()));
        }
    }
    let room = text::FEEDBACK.saturating_sub(below.chars().count());
    Feedback::new(FeedbackKind::TestFailure, format!("{}{below}", streams(output.trim_end(), room).trim_end()))
}

/// A log in at most about so many characters, each of its streams with its beginning and its end.
fn streams(log: &str, chars: usize) -> String {
    if log.chars().count() <= chars {
        return log.to_owned();
    }
    let mut parts: Vec<(&str, &str)> = report::streams(log);
    parts.retain(|(_, text)| !text.trim().is_empty());
    // For the marks of what is left out.
    let headings: usize = parts.iter().map(|(heading, _)| heading.chars().count() + 40).sum();
    let texts: Vec<&str> = parts.iter().map(|(_, text)| *text).collect();
    let shown = excerpt::of_each(&texts, chars.saturating_sub(headings));
    parts.iter().zip(shown).map(|((heading, _), text)| format!("{heading}{}\n", text.trim_end())).collect()
}

/// Asks for a review of a task's whole diff. `stat` lists the changed files.
pub fn review(task: &TaskNode, stat: &str, diff: &str) -> String {
    let mut prompt = opening("Review the changes for task", task);
    if !stat.trim().is_empty() {
        prompt.push_str(&format!("\nChanged files:\n{}\n", head(stat.trim_end(), STAT)));
    }
    let diff = if diff.trim().is_empty() { "(nothing was changed)" } else { diff.trim_end() };
    prompt.push_str(&format!("\nDiff:\n{}\n", head(diff, DIFF)));
    prompt.push_str("\nReply APPROVED if the code is correct, or REJECTED with reasons.\n");
    prompt.push_str(LAST_LINE);
    prompt
}

/// Asks for a verdict below a prompt that says what it is about.
pub const LAST_LINE: &str =
    "End with the verdict on a last line of its own: `VERDICT: APPROVED` or `VERDICT: REJECTED`.\n";

/// Asks a reviewer once more whose reply held no verdict.
pub fn review_again() -> String {
    format!("Your reply does not end with a verdict that can be read.\n{LAST_LINE}")
}

/// Whose task it is and what it is about.
fn opening(request: &str, task: &TaskNode) -> String {
    let name = task.name.split_whitespace().collect::<Vec<_>>().join(" ");
    let description = match task.description.trim() {
        "" => String::new(),
        description => format!("\nDescription: {description}\n"),
    };
    format!("{request} {}: {name}\n{description}", task.id)
}

/// The first characters of a text, with a line that says so when there are more.
fn head(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => {
            let rest = text[end..].chars().count();
            format!("{}\n[...truncated: {rest} more characters, to be read in the files themselves]", &text[..end])
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ids::{StepName, TaskId};
    use crate::plan::tree::{TaskTree, TestKind};
    use crate::step::{RanTest, counts, verdict};

    fn task(description: &str, tests: &str) -> TaskNode {
        let json = format!(
            r#"{{"nodes": {{"T001": {{"id": "T001", "name": "Create\nschema", "description": {description:?},
                "test_commands": {tests}}}}}}}"#
        );
        let tree = TaskTree::read(&json).unwrap();
        tree.node(&TaskId::new("T001").unwrap()).unwrap().clone()
    }

    fn feedback(kind: FeedbackKind, text: &str) -> Feedback {
        Feedback::new(kind, text)
    }

    #[test]
    fn the_first_attempt_gets_the_task_and_its_tests() {
        let tests = r#"[{"type": "setup", "command": "make db"}, {"type": "unit", "command": "pytest -x"}]"#;
        let task = task("Tables for users and posts.", tests);
        let expected = "Implement task T001: Create schema\n\
                        \n\
                        Description: Tables for users and posts.\n\
                        \n\
                        Work in the current directory. Make all necessary file changes.\n\
                        \n\
                        The work is checked with:\n\
                        - unit: pytest -x\n";
        assert_eq!(implement(&task, &[], &task.test_commands, FeedbackLimits::default()), expected);
    }

    #[test]
    fn a_later_attempt_gets_earlier_failures_as_feedback() {
        let feedback = [
            feedback(FeedbackKind::RunnerError, "no model\n"),
            feedback(FeedbackKind::TestFailure, "FAILED test_user"),
            feedback(FeedbackKind::Rejected, "No foreign keys."),
            Feedback { step: StepName::new("lint").ok(), ..feedback(FeedbackKind::TestFailure, "[exit 1]") },
        ];
        let expected = "Implement task T001: Create schema\n\
                        \n\
                        Work in the current directory. Make all necessary file changes.\n\
                        \n\
                        Previous feedback from failed attempts:\n\
                        \n\
                        --- Previous runner error ---\n\
                        no model\n\
                        \n\
                        --- Previous test failure ---\n\
                        FAILED test_user\n\
                        \n\
                        --- Previous review (rejected) ---\n\
                        No foreign keys.\n\
                        \n\
                        --- Previous lint failure ---\n\
                        [exit 1]\n";
        assert_eq!(implement(&task("", "[]"), &feedback, &[], FeedbackLimits::default()), expected);
    }

    #[test]
    fn feedback_is_cut_to_its_end_and_to_the_newest() {
        let long = "x".repeat(100) + "the end";
        let feedback: Vec<_> = (0..5).map(|n| feedback(FeedbackKind::Rejected, &format!("{n} {long}"))).collect();
        let prompt = implement(&task("", "[]"), &feedback, &[], FeedbackLimits { each: 10, all: 60 });
        assert_eq!(prompt.matches("[...truncated]\nxxxthe end\n").count(), 2, "{prompt}");
        assert!(prompt.contains("[...3 older left out]"), "{prompt}");
        let tiny = implement(&task("", "[]"), &feedback, &[], FeedbackLimits { each: 10, all: 1 });
        assert_eq!(tiny.matches("the end").count(), 1, "the newest is always told: {tiny}");
        let output = "FAILED t.py::test_x - no\n".to_owned() + &"noise\n".repeat(9_000);
        let names = test_failure(&output, &counts::failing(&output), None);
        assert!(names.text.chars().count() <= 8_000, "{}", names.text.len());
        let prompt = implement(&task("", "[]"), &[names], &[], FeedbackLimits::default());
        assert!(prompt.ends_with("noise\n\nTests that failed:\n- t.py::test_x\n"), "names survive the cut");
    }

    fn ran(kind: TestKind) -> RanTest {
        let (command, exit) = ("make test".to_owned(), "exit 1".to_owned());
        let (stdout, stderr) = (String::new(), String::new());
        RanTest {
            kind,
            command,
            exit,
            passed: false,
            stdout,
            stderr,
            counts: None,
            failing: Vec::new(),
            runtime: Duration::ZERO,
        }
    }

    #[test]
    fn no_stream_of_a_test_crowds_out_another() {
        let noise = "   Compiling a dependency\n".repeat(500);
        let test =
            RanTest { stdout: "===== FAILURES =====\nleft == right\n".into(), stderr: noise, ..ran(TestKind::Unit) };
        let output = report::test_log(&[test, ran(TestKind::E2e)]);
        let feedback = test_failure(&output, &["t".to_owned()], Some("logs/T001_test.log"));
        let begin = "=== unit stdout ===\n===== FAILURES =====\nleft == right\n=== unit stderr ===\n   Compiling";
        assert!(feedback.text.starts_with(begin), "{}", feedback.text);
        let end = "\n\nThe whole output is in logs/T001_test.log\n\nTests that failed:\n- t\n";
        assert!(feedback.text.ends_with(end) && feedback.text.contains(" lines left out …]"), "{}", feedback.text);
        assert!((7_000..=8_000).contains(&feedback.text.chars().count()), "{}", feedback.text.len());
    }

    #[test]
    fn names_leave_room_for_the_output() {
        let prompt_with = |names: &[String]| {
            let prompt =
                implement(&task("", "[]"), &[test_failure("the output", names, None)], &[], FeedbackLimits::default());
            (prompt.matches("\n- ").count(), prompt)
        };
        let names = |length: usize| (0..60).map(|n| format!("{n:0length$}")).collect::<Vec<_>>();
        let (named, prompt) = prompt_with(&names(10));
        assert_eq!(named, 50);
        assert!(prompt.ends_with("\nand 10 more\n"), "{prompt}");
        let (named, prompt) = prompt_with(&names(200));
        assert_eq!(named, 20);
        assert!(prompt.contains("\nthe output\n") && prompt.ends_with("\nand 40 more\n"), "{prompt}");
    }

    #[test]
    fn a_reviewer_sees_the_diff_and_gives_a_verdict() {
        let prompt = review(&task("Tables.", "[]"), " a.sql | 2 ++\n", "diff --git a/a.sql b/a.sql\n+x\n");
        let expected = "Review the changes for task T001: Create schema\n\
                        \n\
                        Description: Tables.\n\
                        \n\
                        Changed files:\n a.sql | 2 ++\n\
                        \n\
                        Diff:\ndiff --git a/a.sql b/a.sql\n+x\n\
                        \n\
                        Reply APPROVED if the code is correct, or REJECTED with reasons.\n\
                        End with the verdict on a last line of its own: `VERDICT: APPROVED` or `VERDICT: REJECTED`.\n";
        assert_eq!(prompt, expected);
        assert_eq!(verdict::read(&prompt), None, "a reviewer that repeats the question says nothing");
        assert_eq!(verdict::read(&review_again()), None);
    }

    #[test]
    fn a_long_diff_is_cut_with_a_mark() {
        let prompt = review(&task("", "[]"), "", &"\u{e4}".repeat(8_005));
        assert!(prompt.contains(&("\u{e4}".repeat(8_000) + "\n[...truncated: 5 more characters")), "{prompt}");
        assert!(!prompt.contains(&"\u{e4}".repeat(8_001)));
        let whole = review(&task("", "[]"), "", &"y".repeat(8_000));
        assert!(!whole.contains("truncated"), "{whole}");
        assert!(review(&task("", "[]"), "", "").contains("Diff:\n(nothing was changed)\n"));
    }
}
