//! Why a step failed, in one line: what a person wants to know before anything else.

use super::verdict::{self, NO_VERDICT};
use super::{StepKind, TestKind, counts, report, text};
use crate::event::StepFinished;
use crate::text::shorten;

/// So much of a reason is shown, in characters.
const LONGEST: usize = 160;

/// Why a step failed, by the body of its commit and the tests that are known to have failed: a failing test or the last
/// line of the output, the reason of a reviewer, how a program ended and what it complained about last. None when nothing
/// tells.
pub fn reason(kind: &StepKind, body: &str, failing: &[String]) -> Option<String> {
    let sections = text::sections(body);
    let crash = sections.iter().find(|(heading, _)| text::is_of_crash(heading));
    let said = match (crash, kind) {
        (Some((_, said)), _) => of_crash(said),
        (None, StepKind::Test) if sections.is_empty() => of_own_words(body, failing),
        (None, StepKind::Test | StepKind::Custom(_)) => of_output(&sections, failing),
        (None, StepKind::Review) => of_review(sections.first()?.1),
        (None, _) => None,
    };
    said.map(|said| one_line(&said)).filter(|said| !said.is_empty())
}

/// Why a step failed that a session has just done; none when it went well or the reason is unknown.
pub fn reason_of(step: &StepFinished) -> Option<String> {
    let (kind, passed) = StepKind::from_status(&step.status)?;
    if passed { None } else { reason(&kind, &step.body, &step.failing) }
}

/// A step that failed, in words, with the reason.
pub fn failure(kind: &StepKind, body: &str, failing: &[String]) -> String {
    let is_crash = || text::sections(body).iter().any(|(heading, _)| text::is_of_crash(heading));
    let what = match kind {
        StepKind::Implement => "the agent failed".to_owned(),
        StepKind::Review if is_crash() => "the reviewer failed".to_owned(),
        StepKind::Test => "tests failed".to_owned(),
        StepKind::Review => "review rejected".to_owned(),
        other => format!("{} failed", other.as_str()),
    };
    match (reason(kind, body, failing), text::ended_outside(body)) {
        (Some(why), Some(_)) => format!("its last attempt ended: {why}"),
        // It says who it was.
        (Some(why), None) if *kind == StepKind::Implement => why,
        (Some(why), None) => format!("{what}: {why}"),
        (None, _) => what,
    }
}

/// How a program ended, and the last line of what it said.
fn of_crash(said: &str) -> Option<String> {
    let (first, last) = (text_lines(said).next()?, last_line(said)?);
    let how = first.split_once(": ").map_or(first.as_str(), |(how, _)| how);
    Some(if first == last { first } else { format!("{how}: {last}") })
}

/// The test that failed, or the last line of what the command that failed said.
fn of_output(sections: &[(&str, &str)], failing: &[String]) -> Option<String> {
    // It cleans up behind tests, whatever became of them.
    let is_test = |(heading, _): &&(&str, &str)| !heading.starts_with(&text::test_heading(TestKind::Teardown));
    let sections: Vec<(&str, &str)> = sections.iter().filter(is_test).copied().collect();
    let found = || sections.iter().flat_map(|(_, said)| counts::failing(said)).collect::<Vec<_>>();
    let failing = if failing.is_empty() { &found() } else { failing };
    if let [first, more @ ..] = failing {
        return Some(match more.len() {
            0 => first.clone(),
            more => format!("{first} and {more} more"),
        });
    }
    let setup = sections.iter().enumerate().rev();
    let mut setup = setup.filter_map(|(at, (heading, said))| Some((at, text::of_failed_setup(heading, said)?)));
    if let Some((at, said)) = setup.next() {
        return last_complaint("setup failed: ", said, own_output(&sections, at));
    }
    // Only what failed has complained.
    let complaint = sections.iter().rposition(|(heading, _)| heading.contains(" stderr "));
    match complaint {
        Some(at) => last_complaint("", sections[at].1, own_output(&sections, at)),
        None => last_complaint("", sections.last()?.1, ""),
    }
}

/// What pleach says itself of a test of what landed meanwhile, with what failed where the log of the tests is below.
fn of_own_words(body: &str, failing: &[String]) -> Option<String> {
    let (words, log) = body.split_once("\n\n$ ").unwrap_or((body, ""));
    let words = text_lines(words).next()?;
    let streams = report::streams(log);
    let printed = |name: &str| streams.iter().find(|(heading, _)| heading.contains(name)).map_or("", |(_, said)| said);
    // Whose tests they are is said there as well.
    let mut complaint: Vec<String> =
        text_lines(printed("stderr")).filter(|line| !line.starts_with("tests of ")).collect();
    let end = complaint.pop().map(|exit| {
        complaint.push(format!("[{exit}]"));
        last_complaint("", &complaint.join("\n"), printed("stdout"))
    });
    let found = || failing.first().cloned().or_else(|| counts::failing(log).into_iter().next());
    let why = found().or(end.flatten());
    Some(why.map_or(words.clone(), |why| format!("{}: {why}", words.trim_end_matches('.'))))
}

/// What the command printed that has complained in a section.
fn own_output<'t>(sections: &[(&str, &'t str)], at: usize) -> &'t str {
    let own = sections[at].0.replacen(" stderr ", " stdout ", 1);
    sections.get(at + 1).filter(|(heading, _)| *heading == own).map_or("", |(_, said)| said)
}

/// Behind `what`, the last line of what a command complained about, else of what it printed, and how it ended: the complaint
/// says it last.
fn last_complaint(what: &str, said: &str, printed: &str) -> Option<String> {
    let how = last_line(said).and_then(|last| Some(last.strip_prefix('[')?.strip_suffix(']')?.to_owned()));
    let before = said.trim_end().rsplit_once('\n').map_or("", |(before, _)| before);
    let said = if how.is_some() { before } else { said };
    match (last_line(said).or_else(|| last_line(printed)), how) {
        (Some(last), Some(how)) => {
            // How it ended is not cut off.
            let room = LONGEST.saturating_sub(what.len() + how.chars().count() + " () …".chars().count());
            Some(format!("{what}{} ({how})", shorten(&last, room)))
        }
        (Some(only), None) | (None, Some(only)) => Some(format!("{what}{only}")),
        (None, None) => None,
    }
}

fn of_review(said: &str) -> Option<String> {
    if said.ends_with(NO_VERDICT) {
        return Some(NO_VERDICT.to_owned());
    }
    // A command rejects by its exit code alone.
    verdict::why(said).or_else(|| last_line(said).filter(|line| verdict::read(line).is_none()))
}

fn text_lines(said: &str) -> impl Iterator<Item = String> {
    counts::lines(said).map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

fn last_line(said: &str) -> Option<String> {
    text_lines(said).last()
}

/// Words without line breaks, and no more of them than are shown.
fn one_line(said: &str) -> String {
    let words = said.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    shorten(&words.collect::<Vec<_>>().join(" "), LONGEST)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::redact::Redactor;
    use crate::step::RanTest;

    fn redactor() -> Redactor {
        Redactor::new(Vec::<(String, String)>::new())
    }

    fn ran(stdout: &str, stderr: &str) -> RanTest {
        RanTest {
            kind: TestKind::Unit,
            command: String::new(),
            exit: String::new(),
            passed: false,
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
            counts: None,
            failing: Vec::new(),
            runtime: Duration::ZERO,
        }
    }

    fn tests(stdout: &str, stderr: &str) -> String {
        text::tests(&[ran(stdout, stderr)]).write(&redactor())
    }

    #[test]
    fn a_failing_test_is_named_or_its_last_line() {
        let why = |stdout: &str, stderr: &str| reason(&StepKind::Test, &tests(stdout, stderr), &[]);
        let pytest =
            "FAILED tests/a.py::test_one - assert 1 == 2\nFAILED tests/a.py::test_two - no\n2 failed in 0.1s\n";
        assert_eq!(why(pytest, "[exit 1]\n").as_deref(), Some("tests/a.py::test_one and 1 more"));
        assert_eq!(why("red\n", "[exit 1]\n").as_deref(), Some("red (exit 1)"));
        assert_eq!(why("ok\n", "no\u{1b}[31m database\u{1b}[0m\n[exit 2]\n").as_deref(), Some("no database (exit 2)"));
        assert_eq!(why("", "[exit 7]\n").as_deref(), Some("exit 7"));
        assert_eq!(why("", ""), None);
        let known = ["a::b".to_owned()];
        assert_eq!(reason(&StepKind::Test, &tests("red", "[exit 1]"), &known).as_deref(), Some("a::b"));
        let long = why(&"x".repeat(500), "[exit 1]").expect("a reason");
        assert!(why("x", &format!("[{}]", "y".repeat(500))).is_some(), "whatever it says of its end");
        assert!(long.chars().count() <= LONGEST && long.ends_with("(exit 1)"), "{long}");
    }

    #[test]
    fn the_failure_is_reported_without_its_surroundings() {
        let ran = |kind, passed, stdout: &str, stderr: &str| RanTest {
            kind,
            passed,
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
            ..ran("", "")
        };
        let all = [
            ran(TestKind::Unit, true, "", ""),
            ran(TestKind::E2e, false, "e2e red\n", "[exit 3]\n"),
            ran(TestKind::Teardown, false, "", "tearing\n[exit 4]\n"),
        ];
        let body = text::tests(&all).write(&redactor());
        assert_eq!(reason(&StepKind::Test, &body, &[]).as_deref(), Some("e2e red (exit 3)"));
        let mut stderr = "no docker\n[exit 9]\n".to_owned();
        text::add_failed_setup(&mut stderr, "docker up &&\nmake", "exit 9");
        let body = text::tests(&[ran(TestKind::Setup, false, "", &stderr)]).write(&redactor());
        assert_eq!(reason(&StepKind::Test, &body, &[]).as_deref(), Some("setup failed: no docker (exit 9)"));
        let silent = [ran(TestKind::Unit, false, "", "[exit 1]\n"), ran(TestKind::E2e, true, "fine\n", "")];
        let body = text::tests(&silent).write(&redactor());
        assert_eq!(reason(&StepKind::Test, &body, &[]).as_deref(), Some("exit 1"), "no words of another test");
    }

    #[test]
    fn a_test_of_merged_work_has_its_reason() {
        let why = |words: &str| {
            let body = text::own(words).write(&redactor());
            reason(&StepKind::Test, &body, &[]).expect("a reason")
        };
        let red = "Other work landed first, and the tests fail on both together.\n\n$ sh check.sh\n=== stdout ===\n";
        let expected = "Other work landed first, and the tests fail on both together: too much (exit 1)";
        assert_eq!(why(&format!("{red}too much\n=== stderr ===\ntests of T1\nexit 1\n")), expected);
        let expected = "Other work landed first, and the tests fail on both together: exit 1";
        assert_eq!(why(&format!("{red}=== stderr ===\nexit 1\n")), expected);
        let conflict = "Other work landed first, and this attempt's changes conflict with it: conflict in a.txt.";
        assert_eq!(why(conflict), conflict);
    }

    #[test]
    fn a_crash_is_described_by_exit_and_last_words() {
        let body = text::runner_error("agent `sh` ended with exit 3: Traceback\n  at line 1\nKeyError: 'x'\n");
        let body = body.write(&redactor());
        let why = "agent `sh` ended with exit 3: KeyError: 'x'";
        assert_eq!(reason(&StepKind::Implement, &body, &[]).as_deref(), Some(why));
        assert_eq!(failure(&StepKind::Review, &body, &[]), format!("the reviewer failed: {why}"));
        let body = text::outside("`look` failed: exit 2: no").write(&redactor());
        assert_eq!(failure(&StepKind::Implement, &body, &[]), "its last attempt ended: `look` failed: exit 2: no");
    }

    #[test]
    fn a_rejection_is_described_by_its_reason() {
        let why = |reply: &str| failure(&StepKind::Review, &text::review(reply).write(&redactor()), &[]);
        assert_eq!(why("Much is good.\n\nREJECTED: missing tests"), "review rejected: missing tests");
        assert_eq!(why("REJECTED"), "review rejected");
        let none = text::no_verdict("I like it.").write(&redactor());
        assert_eq!(none, format!("Review:\nI like it.\n\n{NO_VERDICT}"));
        assert_eq!(reason(&StepKind::Review, &none, &[]).as_deref(), Some(NO_VERDICT));
    }
}
