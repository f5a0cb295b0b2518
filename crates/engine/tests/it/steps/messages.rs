//! What a step commit says, written and read; git's own trailer parser has a say too.

use std::time::Duration;

use pleach_core::ids::{SessionId, StepName, TaskId};
use pleach_core::redact::Redactor;
use pleach_core::step::text::{self, Body};
use pleach_core::step::{
    AttemptNumber, Counts, FeedbackKind, RanTest, Step, StepKind, TestFacts, TestKind, shown_name,
};
use pleach_core::trailer::CommitMessage;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::world::World;
use crate::repository::read;

fn task(id: &str) -> Option<TaskId> {
    Some(TaskId::new(id).unwrap())
}

fn examples() -> Vec<CommitMessage> {
    read("crates/core/tests/golden/step-commits.txt").split("%%\n").map(CommitMessage::read).collect()
}

/// What of a step an example shows: task, word of the step, passed, retry, counts, runtime in ms, path.
type Shown<'a> = (&'a str, &'a str, bool, Option<u32>, Option<[u64; 3]>, u64, Option<&'a str>);

#[test]
fn the_documented_examples_are_read_right() {
    let report1 = "spec/reports/T001_run_20250216T143130.json";
    let report2 = "spec/reports/T123_run_20250216T143130.json";
    let log = "spec/logs/T001_test_20250216T143022.log";
    let review = "spec/logs/T001_review_20250216T143125.log";
    let log2 = "spec/logs/T123_test_20250216T143000.log";
    let expected: [Shown<'_>; 14] = [
        ("T001", "implement", true, Some(0), None, 0, None),
        ("T001", "implement", false, Some(1), None, 0, None),
        ("T001", "test", true, Some(0), Some([15, 0, 0]), 3200, None),
        ("T001", "test", false, Some(1), Some([14, 1, 0]), 3200, Some(log)),
        ("T001", "review", true, Some(0), None, 0, None),
        ("T001", "review", false, Some(1), None, 0, Some(review)),
        ("T001", "complete", true, None, None, 0, Some(report1)),
        ("T001", "complete", false, None, None, 0, None),
        ("T123", "implement", false, Some(0), None, 0, None),
        ("T123", "test", false, Some(0), Some([8, 1, 0]), 2100, Some(log2)),
        ("T123", "implement", true, Some(1), None, 0, None),
        ("T123", "test", true, Some(1), Some([10, 0, 0]), 2500, None),
        ("T123", "review", true, Some(1), None, 0, None),
        ("T123", "complete", true, None, None, 0, Some(report2)),
    ];
    let read: Vec<Step> = examples().iter().map(|message| Step::read_old(message).unwrap()).collect();
    let shown = |step: &Step| -> String {
        let test = step.test.as_ref();
        let counts = test.and_then(|test| test.counts).map(|c| [c.passed, c.failed, c.skipped]);
        let runtime = test.and_then(|test| test.runtime).map_or(0, |runtime| runtime.as_millis() as u64);
        let path = test.and_then(|test| test.log.as_deref()).or(step.review_log.as_deref()).or(step.report.as_deref());
        let task = step.task.as_ref().unwrap().as_str();
        format!("{:?}", (task, step.kind.as_str(), step.passed, step.retry, counts, runtime, path))
    };
    let expected: Vec<String> = expected.iter().map(|shown| format!("{shown:?}")).collect();
    assert_eq!(read.iter().map(shown).collect::<Vec<_>>(), expected);
    for step in &read {
        let name = if step.task == task("T001") { "Create database schema" } else { "Add user authentication" };
        assert_eq!(step.name.as_deref(), Some(name));
        assert!(step.extra.is_empty() && step.tree.is_none() && step.session.is_none());
        assert!(step.test.as_ref().is_none_or(|test| test.kind == TestKind::Unit));
    }
}

#[test]
fn bodies_of_failures_tell_the_next_attempt_what_went_wrong() {
    let told: Vec<(FeedbackKind, String)> = examples()
        .iter()
        .filter_map(|message| text::feedback(&Step::read_old(message)?, &message.body))
        .map(|feedback| (feedback.kind, feedback.text.lines().next().unwrap_or_default().to_owned()))
        .collect();
    let expected = [
        (FeedbackKind::RunnerError, "Runner output truncated..."),
        (FeedbackKind::TestFailure, "Test (unit) stderr (last 1000 chars):"),
        (FeedbackKind::Rejected, "The implementation is missing foreign key constraints. The users table"),
        (FeedbackKind::RunnerError, "Created auth.py with login function but missing password hashing."),
        (FeedbackKind::TestFailure, "FAILED test_password_hashing - Password should be hashed before storage"),
    ];
    assert_eq!(told, expected.map(|(kind, text)| (kind, text.to_owned())));
}

fn step(kind: StepKind, passed: bool) -> Step {
    Step { retry: Some(3), ..Step::new(task("T001"), kind, passed) }
}

fn lint() -> StepKind {
    StepKind::Custom(StepName::new("lint").unwrap())
}

#[test]
fn subjects_say_what_happened() {
    let attempt = Some(AttemptNumber { number: 1, of: 5 });
    let skipped = Step { skipped: true, ..step(StepKind::Complete, true) };
    let table = [
        (step(StepKind::Implement, true), "implement-pass", "implement \"N\""),
        (step(StepKind::Implement, false), "implement-fail", "implement \"N\" (failed, attempt 1/5)"),
        (step(StepKind::Test, true), "test-pass", "tests pass for \"N\""),
        (step(StepKind::Test, false), "test-fail", "tests fail for \"N\" (attempt 1/5)"),
        (step(StepKind::Review, true), "review-approved", "review approved for \"N\""),
        (step(StepKind::Review, false), "review-rejected", "review rejected for \"N\" (attempt 1/5)"),
        (step(StepKind::Complete, true), "complete", "complete \"N\""),
        (step(StepKind::Complete, false), "failed", "failed \"N\" after 1 retries"),
        (step(StepKind::Reset, true), "reset", "reset \"N\""),
        (skipped, "skipped", "skipped \"N\""),
        (step(lint(), true), "lint-pass", "lint passed for \"N\""),
        (step(lint(), false), "lint-fail", "lint failed for \"N\" (attempt 1/5)"),
    ];
    for (step, status, subject) in table {
        assert_eq!(step.status(), status);
        assert_eq!(step.subject("feature/x", "N", attempt), format!("task(feature/x@T001@{status}): {subject}"));
    }
    assert_eq!(Step::run_start("t.json").subject("main", "", None), "task(main@@run-start): run started");
    // A gate has no budget.
    assert_eq!(
        step(StepKind::Test, false).subject("main", "N", None),
        "task(main@T001@test-fail): tests fail for \"N\""
    );
}

#[test]
fn other_words_are_no_status() {
    for word in ["", "skipped", "test", "lint", "-fail", "Test-fail", "test-failed", "complete-pass", "complete-fail"] {
        assert_eq!(StepKind::from_status(word), None, "{word}");
    }
    for word in ["review-pass", "review-fail", "test-approved", "lint-rejected", "run-start-pass", "reset-fail"] {
        assert_eq!(StepKind::from_status(word), None, "{word}");
    }
}

#[test]
fn trailers_come_in_their_order() {
    let keys = |step: &Step| step.trailers().into_iter().map(|(key, _)| key).collect::<Vec<_>>().join(" ");
    let session = Some(SessionId::new("abcdefgh").unwrap());
    let with = |step: Step| Step { session: session.clone(), tree: Some("t.json".into()), ..step };
    let facts = TestFacts {
        kind: TestKind::E2e,
        counts: Some(Counts { passed: 1, failed: 2, skipped: 3 }),
        runtime: Some(Duration::from_micros(3_200_400)),
        log: Some("a.log".into()),
    };
    let test = Step { test: Some(facts), ..with(step(StepKind::Test, false)) };
    assert_eq!(
        keys(&test),
        "Arborist-Step Arborist-Test Arborist-Retry Arborist-Test-Log Arborist-Test-Type Arborist-Test-Runtime \
         Arborist-Test-Passed Arborist-Test-Failed Arborist-Test-Skipped Pleach-Session Pleach-Tree"
    );
    assert!(test.trailers().contains(&("Arborist-Test-Runtime".into(), "3.2".into())));
    assert_eq!(
        keys(&with(step(StepKind::Implement, true))),
        "Arborist-Step Arborist-Result Arborist-Retry Pleach-Session Pleach-Tree"
    );
    let review = Step { review_log: Some("r".into()), ..with(step(StepKind::Review, true)) };
    assert_eq!(
        keys(&review),
        "Arborist-Step Arborist-Review Arborist-Retry Arborist-Review-Log Pleach-Session Pleach-Tree"
    );
    let complete = Step { report: Some("r".into()), untested: true, ..with(step(StepKind::Complete, true)) };
    assert_eq!(
        keys(&complete),
        "Arborist-Step Arborist-Result Arborist-Report Pleach-Tested Pleach-Session Pleach-Tree"
    );
    assert_eq!(keys(&Step::run_start("t.json")), "Arborist-Step Pleach-Tree");
    assert_eq!(keys(&step(StepKind::Reset, true)), "Arborist-Step");
    let skipped = Step { skipped: true, ..step(StepKind::Complete, true) };
    assert_eq!(keys(&skipped), "Arborist-Step Arborist-Result Pleach-Skipped");
}

fn complete(subject: &str) -> CommitMessage {
    CommitMessage::read(&format!("{subject}\n\nArborist-Step: complete\nArborist-Result: pass\n"))
}

#[test]
fn a_step_is_read_by_the_branch_it_names_alone() {
    let who = |subject: &str, target: &str| {
        Step::read(&complete(subject), target).map(|step| step.task.map_or_else(String::new, |task| task.to_string()))
    };
    for target in ["main", "feature/x", "a@b", "x)", "main@T001", "a)@b(", "@a"] {
        let own = format!("task({target}@T001@complete): complete \"N\"");
        assert_eq!(who(&own, target).as_deref(), Some("T001"), "{own}");
        for other in ["main", "feature/x", "a@b", "a", "x)", "x", "main@T001", "a)@b(", "a)", "@a", ""] {
            assert!(other == target || who(&own, other).is_none(), "{own} is not of {other:?}");
        }
    }
    assert_eq!(who("task(main@T0010@complete): c", "main").as_deref(), Some("T0010"));
    for nothing in [
        "task(T001): complete",
        "task(main@@complete): nobody",
        "task(main@T001@complete):",
        "task(main@T001@comp lete): c",
        "task(main@T 1@complete): c",
        "task(main@T001): c",
        "Task(main@T001@complete): c",
        "x task(main@T001@complete): c",
    ] {
        assert_eq!(who(nothing, "main"), None, "{nothing}");
    }
}

#[test]
fn the_older_form_names_no_branch() {
    let who = |subject: &str| Step::read_old(&complete(subject)).map(|step| step.task.unwrap().to_string());
    assert_eq!(who("task(T001): complete \"N\"").as_deref(), Some("T001"));
    assert_eq!(who("task(T0010): complete \"N\"").as_deref(), Some("T0010"));
    for nothing in ["task(main@T001@complete): c", "task(): c", "task(a b): c", "task(T001) c", "task(T001)"] {
        assert_eq!(who(nothing), None, "{nothing}");
    }
}

#[test]
fn only_commits_with_a_step_count() {
    let without = CommitMessage::read("task(main@T001@complete): complete \"N\"\n\nArborist-Result: pass\n");
    assert_eq!(Step::read(&without, "main"), None);
    let in_body = "task(main@T001@test-fail): x\n\nArborist-Step: complete\nArborist-Result: pass\n\nmore words\n";
    assert_eq!(Step::read(&CommitMessage::read(in_body), "main"), None);
    let start = CommitMessage::read("task(main@@run-start): run started\n\nArborist-Step: run-start\n");
    assert_eq!(Step::read(&start, "main").map(|step| (step.kind, step.tree)), Some((StepKind::RunStart, None)));
}

#[test]
fn unknown_trailers_are_kept_and_odd_values_do_no_harm() {
    let text = "task(main@T1@test-pass): t\r\n\r\nArborist-Step: test\r\nArborist-Test: pass\r\nArborist-Retry: many\r\n\
                Arborist-Weather: sunny\r\nArborist-Test-Runtime: -3\r\nArborist-Test-Type: smoke\r\nPleach-Session: ?\r\n\
                arborist-cost: 3 EUR\r\n";
    let step = Step::read(&CommitMessage::read(text), "main").unwrap();
    let extra = [("Arborist-Weather", "sunny"), ("arborist-cost", "3 EUR")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!((step.extra.clone(), step.retry, step.session.clone()), (extra.to_vec(), None, None));
    let facts = step.test.clone().unwrap();
    assert_eq!((facts.kind, facts.counts, facts.runtime), (TestKind::Unit, None, None));
    let again = Step::read(&CommitMessage::read(&step.message("main", "t", None, "").write()), "main").unwrap();
    assert_eq!(again.extra, extra);
}

#[test]
fn names_are_shown_on_one_line_and_cut() {
    assert_eq!(shown_name("Say \"hi\"\nand\r\nleave"), "Say \"hi\" and leave");
    let fifty = "\u{e4}".repeat(50);
    assert_eq!(shown_name(&fifty), fifty);
    assert_eq!(shown_name(&format!("{fifty}x")), format!("{}...", "\u{e4}".repeat(47)));
    let step = step(StepKind::Implement, false);
    let message = step.message("main", "Say \"hi\"\n\"there\"", Some(AttemptNumber { number: 2, of: 5 }), "");
    let read = Step::read(&CommitMessage::read(&message.write()), "main").unwrap();
    assert_eq!(read.name.as_deref(), Some("Say \"hi\" \"there\""));
}

#[test]
fn bodies_keep_the_end_of_output() {
    assert_eq!(text::cut("abc", 3), "abc");
    assert_eq!(text::cut("abcd", 3), "[...truncated]\nbcd");
    assert_eq!(text::cut("\u{e4}\u{f6}\u{fc}", 1), "[...truncated]\n\u{fc}");
    assert_eq!(text::cut("a", 0), "[...truncated]\n");
    assert_eq!(text::implement("done").write(&none()), "Runner output (truncated to 2000 chars):\ndone");
    let megabyte = "0123456789".repeat(100_000);
    assert_eq!(text::runner_error(&megabyte).write(&none()).len(), "Runner error:\n[...truncated]\n".len() + 2000);
    assert_eq!(text::review("APPROVED").write(&none()), "Review:\nAPPROVED");
    assert_eq!(text::complete(2, Some("r.json")).write(&none()), "Completed after 2 attempt(s). Report: r.json");
    assert_eq!(text::complete(1, None).write(&none()), "Completed after 1 attempt(s).");
    let run = |kind, passed| RanTest {
        kind,
        command: "make test".into(),
        counts: None,
        failing: Vec::new(),
        exit: "exit 0".into(),
        passed,
        stdout: "out\n".into(),
        stderr: "err\n".into(),
        runtime: Duration::ZERO,
    };
    assert_eq!(
        text::tests(&[run(TestKind::Unit, true), run(TestKind::E2e, false)]).write(&none()),
        "Test (unit) stdout (last 1000 chars):\nout\n\nTest (e2e) stderr (last 1000 chars):\nerr\n\n\
         Test (e2e) stdout (last 1000 chars):\nout"
    );
    assert_eq!(text::custom("lint", false, "", "bad").write(&none()), "Step (lint) stderr (last 1000 chars):\nbad");
}

#[test]
fn output_that_is_not_utf8_becomes_a_message() {
    let output = String::from_utf8_lossy(b"caf\xe9 --- \xff\xfe").into_owned();
    let message = step(StepKind::Test, false).message("main", "N", None, &text::runner_error(&output).write(&none()));
    let back = CommitMessage::read(&message.write());
    assert_eq!(Step::read(&back, "main").map(|step| step.passed), Some(false));
    assert!(back.body.ends_with(&output), "{}", back.body);
}

/// Nothing is secret but what looks like it.
fn none() -> Redactor {
    Redactor::new([("", ""); 0])
}

#[test]
fn bodies_are_read_back_whatever_word_is_a_secret() {
    for word in ["output", "Runner", "truncated", "attempt", "Review", "stdout"] {
        let redactor = Redactor::new([("D_PASSWORD", word)]);
        let said = format!("It was {word}.");
        let clean = "It was [redacted:D_PASSWORD].";
        let body = |body: Body| {
            let text = body.write(&redactor);
            assert!(text.ends_with(clean), "{word}: {text}");
            text
        };
        assert!(text::is_of_agent(&body(text::implement(&said))), "{word}");
        assert_eq!(text::ended_outside(&body(text::outside(&said))), Some(clean), "{word}");
        let given_up = body(text::failed(&said, Some(&said)));
        assert_eq!(text::why_given_up(&given_up), (clean, Some(clean)), "{word}");
        let rejected = text::feedback(&step(StepKind::Review, false), &body(text::review(&said)));
        assert_eq!(rejected.map(|feedback| feedback.text).as_deref(), Some(clean), "{word}");
        assert!(body(text::custom("lint", true, &said, "")).starts_with("Step (lint) stdout ("), "{word}");
    }
    // What is cut is known as a secret before.
    let redactor = Redactor::new([("D_PASSWORD", "hunter42!")]);
    let long = format!("hunter42!{}", "x".repeat(1995));
    let body = text::runner_error(&long).write(&redactor);
    assert!(!body.contains("er42!"), "{body}");
}

fn any_kind() -> impl Strategy<Value = StepKind> {
    prop_oneof![
        Just(StepKind::Implement),
        Just(StepKind::Test),
        Just(StepKind::Review),
        Just(StepKind::Complete),
        Just(StepKind::Reset),
        "[a-z][a-z0-9-]{0,8}".prop_map(|name| StepKind::from_word(&name).unwrap()),
    ]
}

fn any_facts() -> impl Strategy<Value = TestFacts> {
    let kind = prop_oneof![Just(TestKind::Unit), Just(TestKind::Integration), Just(TestKind::E2e)];
    let counts = option::of((0u64..99, 0u64..99, 0u64..99).prop_map(|(passed, failed, skipped)| Counts {
        passed,
        failed,
        skipped,
    }));
    let millis = option::of(0u64..99_999);
    (kind, counts, millis, option::of("[a-z/ ]{0,4}[a-z]\\.log")).prop_map(|(kind, counts, millis, log)| {
        let log = log.map(|log| log.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "));
        TestFacts { kind, counts, runtime: millis.map(Duration::from_millis), log }
    })
}

/// A step as it can be written: what its kind does not show is left out.
fn any_step() -> impl Strategy<Value = Step> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let paths = (option::of("[a-z/]{1,9}"), option::of("[a-z/]{1,9}"), option::of("[a-z/]{1,9}\\.json"));
    let extra = vec(("Arborist-X[a-z]{0,5}", "[a-zA-Z0-9:]{1,9}"), 0..3);
    (any_kind(), flags, option::of(0u32..99), any_facts(), paths, option::of("[a-z2-7]{8}"), extra).prop_map(
        |(kind, (passed, skipped, untested), retry, facts, (review_log, report, tree), session, extra)| {
            let is = |wanted: &StepKind| kind == *wanted;
            let numbered = !matches!(kind, StepKind::Complete | StepKind::Reset | StepKind::RunStart);
            let ends = is(&StepKind::Complete);
            let task = if is(&StepKind::RunStart) { None } else { task("T001") };
            Step {
                retry: retry.filter(|_| numbered),
                test: is(&StepKind::Test).then_some(facts),
                review_log: review_log.filter(|_| is(&StepKind::Review)),
                report: report.filter(|_| ends),
                skipped: skipped && ends && passed,
                untested: untested && ends,
                session: session.map(|session| SessionId::new(session).unwrap()),
                tree,
                extra,
                ..Step::new(task, kind.clone(), passed || matches!(kind, StepKind::Reset | StepKind::RunStart))
            }
        },
    )
}

fn any_body() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        "[ -~]{0,30}",
        "-{0,5}[a-z ]{0,5}",
        "[A-Z][a-z-]{0,9}: [a-z]{0,9}",
        Just("Arborist-Step: complete".to_owned()),
        Just(String::new()),
        "\\PC{0,12}",
        Just("\r".to_owned()),
    ];
    vec(line, 0..8).prop_map(|lines| lines.join("\n"))
}

fn any_target() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("main"), Just("feature/x"), Just("a@b"), Just("x)"), Just("@)@(")]
}

proptest! {
    #[test]
    fn a_step_reads_back_as_it_was_written(
        step in any_step(), target in any_target(), name in "[\\PC\n\"]{0,70}", body in any_body(),
        attempt in option::of((1u32..9, 1u32..9)),
    ) {
        let attempt = attempt.map(|(number, of)| AttemptNumber { number, of });
        let message = step.message(target, &name, attempt, &body);
        let read = Step::read(&CommitMessage::read(&message.write()), target);
        let name = (step.kind != StepKind::RunStart).then(|| shown_name(&name));
        prop_assert_eq!(read, Some(Step { name, ..step }));
    }

    #[test]
    fn a_status_is_of_one_step(kind in any_kind(), passed: bool) {
        let status = kind.status(passed);
        let passed = passed || matches!(kind, StepKind::RunStart | StepKind::Reset);
        prop_assert_eq!(StepKind::from_status(&status), Some((kind, passed)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn git_finds_the_same_trailers_in_every_step_commit(
        step in any_step(), name in "[\\PC\n\"]{0,70}", body in any_body(),
    ) {
        let text = step.message("main", &name, None, &body).write();
        prop_assert_eq!(World::trailers_by_git(&text), CommitMessage::read(&text).trailers);
    }
}
