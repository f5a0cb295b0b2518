//! Attempts: what the next one is told, when there is none, and what is left of a task that was given up.

use super::garden::{APPROVES, Garden, StepCommit, Tree, WRITES};
use crate::sessions::Gate;

/// What an agent does that changes something each time and never the right thing.
const TRIES: &str = "echo \"$n\" > \"try$n\"; echo \"try $n\"";

fn retries(steps: &[StepCommit]) -> Vec<&str> {
    steps.iter().filter_map(|step| step.trailer("Arborist-Retry")).collect()
}

#[test]
fn every_kind_of_failure_reaches_the_next_prompt() {
    let test = "unit: echo 'FAILED tests/a.py::test_name - assert 0'; test -e two";
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[test]));
    garden.agent(
        "case $n in 1) echo 'no model today' >&2; exit 1;; 2) echo 1 > one;; 3) echo 2 > two;; *) echo 3 > three;; esac",
        "test $n = 1 && { echo 'Too short.'; echo 'REJECTED: too short'; } || echo APPROVED",
    );
    garden.gardener(&[]).expect(0);
    assert!(!garden.asked("T001", "implement", 1).contains("Previous feedback"));
    let last = garden.asked("T001", "implement", 4);
    let told = last.split_once("Previous feedback from failed attempts:\n").expect("feedback").1;
    let places = [
        "--- Previous runner error ---",
        "no model today",
        "--- Previous test failure ---",
        "FAILED tests/a.py::test_name",
        "Tests that failed:\n- tests/a.py::test_name",
        "--- Previous review (rejected) ---\nToo short.\nREJECTED: too short",
    ]
    .map(|text| told.find(text));
    assert!(places[0].is_some() && places.is_sorted() && places[5].is_some(), "{told}");
}

#[test]
fn a_used_up_budget_fails_the_task_without_code() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]).tests("T001", &["unit: echo red; false"]));
    garden.agent(TRIES, APPROVES);
    let ran = garden.gardener(&["--max-retries", "2"]).expect(1);
    let why = "tests failed: red (exit 1)";
    assert_eq!(ran.failed(), ("T001", 2, why), "{ran}");
    assert!(ran.stdout.contains("--retry-failed"), "{ran}");
    let ran = garden.env.pleach(&["status"]).expect(0);
    assert!(ran.stdout.contains(&format!("({why})\n")), "{ran}");
    let told = ["T001 implement-pass", "T001 test-fail", "T001 implement-pass", "T001 test-fail", "T001 failed"]
        .map(String::from);
    assert_eq!(garden.told("main"), told);
    assert_eq!(garden.told("pleach/tasks/main/T001"), told);
    let failed = garden.newest("main", "T001 failed");
    assert_eq!(failed.subject, "task(main@T001@failed): failed \"Grow T001\" after 2 retries");
    assert_eq!(failed.trailers[..2], [("Arborist-Step", "complete"), ("Arborist-Result", "fail")].map(owned));
    assert_eq!(failed.body, "");
    assert_eq!(garden.files("main"), ["README.md", "task-tree.json"], "the code is not on the target");
    assert_eq!(garden.files("pleach/tasks/main/T001"), ["README.md", "task-tree.json", "try1", "try2"]);
    let log = garden.newest("main", "T001 test-fail").trailer("Arborist-Test-Log").unwrap().to_owned();
    assert!(garden.file("main", &log).contains("red"), "logs are");
    assert_eq!(garden.times_asked("T002", "implement"), 0, "nothing is worked after a failure");
    let dates = |branch| garden.env.git(&["log", "--format=%at", "--grep=Arborist-Step", branch]);
    assert_eq!(dates("main"), dates("pleach/tasks/main/T001"), "copies have the date of their step");
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

#[test]
fn a_failed_task_is_left_alone_until_requested() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]).tests("T001", &["unit: test -e mended"]));
    garden.agent(TRIES, APPROVES);
    garden.gardener(&["--max-retries", "1"]).expect(1);
    let ran = garden.gardener(&["--max-retries", "1"]).expect(1);
    assert_eq!(garden.completed(), ["T002"], "what does not depend on it is worked: {ran}");
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

#[test]
fn a_new_budget_continues_with_old_code_and_feedback() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: echo it-was-red; test -e mended"]));
    garden.agent(TRIES, APPROVES);
    garden.gardener(&["--max-retries", "2"]).expect(1);
    let old = garden.env.git(&["rev-parse", "pleach/tasks/main/T001"]);
    garden.agent("ls > seen; echo 1 > mended", APPROVES);
    let ran = garden.gardener(&["--max-retries", "2", "--retry-failed"]).expect(0);
    ran.warns("code-continued");
    let kept = garden.refs("refs/pleach/keep/");
    assert_eq!(kept, ["refs/pleach/keep/T001-1"]);
    assert_eq!(garden.env.git(&["rev-parse", &kept[0]]), old);
    let seen = garden.file("main", "seen");
    assert!(seen.contains("try1") && seen.contains("try2"), "{seen}");
    assert_eq!(garden.files("main"), ["README.md", "mended", "seen", "task-tree.json", "try1", "try2"]);
    assert!(garden.asked("T001", "implement", 3).contains("it-was-red"));
    assert_eq!(retries(&garden.steps("main")), ["0", "0", "1", "1", "2", "2", "2"]);
    let done = garden.newest("main", "T001 complete");
    assert!(done.body.starts_with("Completed after 1 attempt(s)."), "the budget counts: {}", done.body);
}

#[test]
fn old_code_is_laid_on_again_after_a_kill() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: test -e mended"]));
    garden.agent(TRIES, APPROVES);
    garden.gardener(&["--max-retries", "1"]).expect(1);
    let gate = Gate::new(&garden.env, "agent");
    garden.agent(&format!("echo half > half; {}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener", "--max-retries", "1", "--retry-failed"]);
    let held = gate.reached(&mut run);
    run.kill(held);
    let ran = garden.gardener(&["--max-retries", "1"]).expect(1);
    assert!(ran.stdout.contains(" refs/pleach/keep/T001-1\n"), "{ran}");
    garden.agent("echo 1 > mended", APPROVES);
    garden.gardener(&["--max-retries", "1", "--retry-failed"]).expect(0);
    assert_eq!(garden.files("main"), ["README.md", "mended", "task-tree.json", "try1"]);
}

/// What a session was started on came before it, though another machine's clock dated it later.
#[test]
fn a_session_after_future_dated_steps_resumes() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: true"]));
    garden.gardener(&[]).expect(0);
    garden.env.git(&["commit", "--quiet", "--amend", "--no-edit", "--allow-empty", "--date=2090-01-01T00:00:00Z"]);
    garden.env.pleach(&["reset", "T001"]).expect(0);
    let gate = Gate::new(&garden.env, "agent");
    garden.agent(&format!("echo half > half; {}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.kill(held);
    garden.agent("echo 1 > mended", APPROVES);
    let ran = garden.gardener(&[]).expect(0);
    assert!(ran.resumed().contains(&"T001"), "{ran}");
}

#[test]
fn conflicting_old_code_is_kept_and_left_out() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: test -e mended"]));
    garden.agent("echo agent > README.md", APPROVES);
    garden.gardener(&["--max-retries", "1"]).expect(1);
    garden.commit("README.md", "# By the user\n");
    garden.agent("cat README.md > seen; echo 1 > mended", APPROVES);
    let ran = garden.gardener(&["--max-retries", "1", "--retry-failed"]).expect(0);
    ran.warns("code-conflicts").naming("refs/pleach/keep/T001-1");
    assert_eq!(garden.file("main", "seen"), "# By the user");
    assert_eq!(garden.file("refs/pleach/keep/T001-1", "README.md"), "agent");
}

#[test]
fn two_attempts_that_change_nothing_end_the_task_early() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent("echo 'I would rather not.'", "echo 'REJECTED: nothing is there'");
    let ran = garden.gardener(&[]).expect(1);
    let why = "stopped early: two attempts in a row changed nothing; review rejected: nothing is there";
    assert_eq!(ran.failed(), ("T001", 2, why), "{ran}");
    let ran = garden.env.pleach(&["status"]).expect(0);
    assert!(ran.stdout.contains(&format!("({why})\n")), "{ran}");
    let ran = garden.env.pleach(&["status", "--json"]).expect(0);
    assert!(ran.stdout.contains(why), "{ran}");
    let ran = garden.gardener(&[]).expect(1);
    assert_eq!(ran.failed(), ("T001", 2, why), "also of an earlier run: {ran}");
    let failed = garden.newest("main", "T001 failed");
    assert_eq!(failed.subject, "task(main@T001@failed): failed \"Grow T001\" after 2 retries");
    assert!(failed.body.contains("two attempts in a row changed nothing"), "{}", failed.body);
    assert_eq!(garden.times_asked("T001", "implement"), 2);
}

#[test]
fn an_agent_failing_twice_did_not_change_nothing() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent("echo 'no such option' >&2; exit 3", APPROVES);
    let ran = garden.gardener(&[]).expect(1);
    let why = "stopped early: in two attempts in a row the agent failed and left nothing";
    assert!(matches!(ran.failed(), ("T001", 2, reason) if reason.starts_with(why)), "{ran}");
    assert_eq!(garden.times_asked("T001", "implement"), 2);
}

#[test]
fn the_same_test_failures_twice_end_the_task_early() {
    let test = "unit: echo 'FAILED a.py::test_a - no'; false";
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[test]));
    garden.agent("echo same > same", APPROVES);
    garden.gardener(&[]).expect(1);
    let failed = garden.newest("main", "T001 failed");
    assert!(failed.body.contains("failed the same tests on the same files"), "{}", failed.body);
    assert_eq!(garden.times_asked("T001", "implement"), 2);
}

#[test]
fn early_stops_can_be_turned_off() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("tree: {early_stop: false, max_retries: 4}\n");
    garden.agent("true", "echo 'REJECTED: nothing is there'");
    garden.gardener(&[]).expect(1);
    assert_eq!(garden.times_asked("T001", "implement"), 4);
    let failed = garden.newest("main", "T001 failed");
    assert_eq!((failed.subject.contains("after 4 retries"), failed.body.as_str()), (true, ""));
}

#[test]
fn three_crashes_in_a_row_end_the_attempt() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent("test $n -le 3 && kill -9 $$; echo 1 > one", APPROVES);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 4);
    let told = ["T001 implement-fail", "T001 implement-pass", "T001 review-approved", "T001 complete"];
    assert_eq!(garden.told("main"), told);
    let body = garden.newest("main", "T001 implement-fail").body;
    assert!(body.contains("signal 9"), "{body}");
}

#[test]
fn a_reviewer_that_crashes_is_asked_again() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent(WRITES, "test $n -le 2 && kill -9 $$; echo APPROVED");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 review-approved", "T001 complete"]);
    assert_eq!((garden.times_asked("T001", "implement"), garden.times_asked("T001", "review")), (1, 3));
}

/// A pipeline that says nothing about retries.
const PLAIN: &str = r#"digraph plain {
    start [shape=Mdiamond]
    done [shape=Msquare]
    implement [step=implement]
    review [step=review]
    start -> implement -> review -> done
}
"#;

#[test]
fn a_reviewer_that_ends_without_a_verdict_has_crashed() {
    let approved = ["T001 implement-pass", "T001 review-approved", "T001 complete"];
    for (crash, more) in
        [("exit 9", &[][..]), ("exit 9", &["--pipeline", "plain.dot"]), ("kill -9 $$", &["--pipeline", "plain.dot"])]
    {
        let garden = Garden::new(&Tree::of(&["T001"]));
        garden.commit("plain.dot", PLAIN);
        garden.agent(WRITES, &format!("test $n -le 2 && {{ echo looking; {crash}; }}; echo APPROVED"));
        garden.gardener(more).expect(0);
        assert_eq!(garden.told("main"), approved, "{crash} {more:?}");
        assert_eq!(garden.times_asked("T001", "review"), 3);
    }
}

#[test]
fn three_reviewer_crashes_end_the_attempt_without_rejection() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("plain.dot", PLAIN);
    garden.agent(WRITES, "test $n -le 3 && { echo 'no key' >&2; exit 9; }; echo APPROVED");
    garden.gardener(&["--pipeline", "plain.dot"]).expect(0);
    assert_eq!(garden.times_asked("T001", "review"), 4);
    let told = ["T001 implement-pass", "T001 review-rejected", "T001 implement-pass", "T001 review-approved"];
    assert_eq!(garden.told("main")[..4], told);
    let body = garden.newest("main", "T001 review-rejected").body;
    assert!(body.starts_with("Runner error:\n") && body.contains("exit 9: no key"), "{body}");
    let second = garden.asked("T001", "implement", 2);
    assert!(second.contains("--- Previous runner error ---") && !second.contains("(rejected)"), "{second}");
}

#[test]
fn three_crashes_end_the_attempt_in_any_pipeline() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("plain.dot", PLAIN);
    garden.agent("test $n -le 2 && kill -9 $$; echo 1 > one", APPROVES);
    garden.gardener(&["--pipeline", "plain.dot"]).expect(0);
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 review-approved", "T001 complete"]);
    // Who says how often is taken at their word.
    garden.plant(&Tree::of(&["T002"]));
    garden.commit("once.dot", &PLAIN.replace("[step=implement]", "[step=implement, max_retries=0]"));
    garden.agent("test $n = 1 && kill -9 $$; echo 1 > one", APPROVES);
    garden.gardener(&["--pipeline", "once.dot"]).expect(0);
    assert_eq!(garden.told("main")[3..5], ["T002 implement-fail", "T002 implement-pass"]);
}

#[test]
fn a_reviewer_that_rejects_and_breaks_off_has_rejected() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent(WRITES, "test $n = 1 && { echo 'REJECTED: too short'; exit 1; }; echo APPROVED");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.told("main")[..2], ["T001 implement-pass", "T001 review-rejected"]);
    assert!(garden.asked("T001", "implement", 2).contains("REJECTED: too short"));
    assert_eq!(garden.times_asked("T001", "review"), 2);
}

#[test]
fn an_unreadable_verdict_is_requested_once_more() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent(WRITES, "test $n = 1 && echo 'I think it is fine' || echo APPROVED");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 review-approved", "T001 complete"]);
    let again = garden.asked("T001", "review", 2);
    assert!(again.contains("I think it is fine") && again.contains("does not end with a verdict"), "{again}");
}

#[test]
fn an_unreadable_verdict_twice_is_a_rejection() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent(WRITES, "test $n -le 2 && echo 'NOT APPROVED' || echo APPROVED");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.told("main")[1], "T001 review-rejected");
    assert_eq!(
        garden.newest("main", "T001 review-rejected").body,
        "Review:\nNOT APPROVED\n\nno verdict in the review; end with VERDICT: APPROVED or VERDICT: REJECTED"
    );
    assert_eq!(garden.times_asked("T001", "review"), 3);
}

#[test]
fn a_killed_run_skips_done_tasks_and_continues() {
    let garden = Garden::new(&Tree::of(&["T003: T002", "T002: T001", "T001"]));
    let gate = Gate::new(&garden.env, "second");
    garden.agent(&format!("{WRITES}; test $task != T002 || {{ {}; }}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.kill(held);
    assert_eq!(garden.completed(), ["T001"]);
    let done = garden.env.git(&["rev-parse", "main"]);
    gate.stay_open();
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(ran.tasks_done(), (1, 3), "what is complete is found in history: {ran}");
    assert_eq!(garden.completed(), ["T001", "T002", "T003"]);
    assert_eq!(garden.times_asked("T001", "implement"), 1, "and not worked again");
    garden.env.git(&["merge-base", "--is-ancestor", &done, "main"]);
}

#[test]
fn attempts_are_counted_on_after_a_kill() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: test -e mended"]));
    let gate = Gate::new(&garden.env, "agent");
    garden.agent(&format!("test $n = 1 && echo 1 > one || {{ echo 2 > half; {}; }}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    garden.agent("ls > \"$W/tmp/seen\"; echo 1 > mended", APPROVES);
    garden.gardener(&[]).expect(0);
    let told = garden.told("main");
    assert_eq!(told[..3], ["T001 implement-pass", "T001 test-fail", "T001 implement-pass"]);
    assert_eq!(retries(&garden.steps("main")), ["0", "0", "1", "1", "1"]);
    assert!(garden.newest("main", "T001 complete").body.starts_with("Completed after 2 attempt(s)."));
    let kept = garden.refs("refs/pleach/keep/");
    assert_eq!(garden.file(&kept[0], "half"), "2", "work of the killed attempt is kept");
    assert!(garden.env.read("tmp/seen").contains("one"), "the attempt begins with what the last one left");
    assert!(garden.asked("T001", "implement", 3).contains("Previous test failure"));
}

#[test]
fn a_killed_run_resumes_after_its_newest_step() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let gate = Gate::new(&garden.env, "review");
    garden.agent(WRITES, &format!("{}; echo APPROVED", gate.command()));
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 1);
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 review-approved", "T001 complete"]);
}

#[test]
fn foreign_code_after_the_tests_is_tested_and_reviewed() {
    let test = "unit: echo run >> \"$HOME/tests\"; test ! -e broken";
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[test]));
    let gate = Gate::new(&garden.env, "review");
    garden.agent(&format!("rm -f broken; {WRITES}"), &format!("{}; echo APPROVED", gate.command()));
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    assert_eq!(garden.told("pleach/tasks/main/T001"), ["T001 implement-pass", "T001 test-pass"]);
    let copy = garden.env.root().join("by-hand");
    let copy = copy.to_str().expect("a UTF-8 path");
    garden.env.git(&["worktree", "add", "--quiet", "--force", copy, "pleach/tasks/main/T001"]);
    garden.env.write("by-hand/broken", "1");
    garden.env.git(&["-C", copy, "add", "broken"]);
    garden.env.git(&["-C", copy, "commit", "--quiet", "-m", "By hand"]);
    garden.env.git(&["worktree", "remove", "--force", copy]);
    let ran = garden.gardener(&[]).expect(0);
    ran.warns("code-newer-than-steps");
    assert_eq!(
        garden.told("main"),
        [
            "T001 implement-pass",
            "T001 test-pass",
            "T001 test-fail",
            "T001 implement-pass",
            "T001 test-pass",
            "T001 review-approved",
            "T001 complete"
        ]
    );
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "task-tree.json"]);
}

#[test]
fn a_task_without_its_record_continues_from_its_branch() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: test -e mended"]));
    let gate = Gate::new(&garden.env, "agent");
    garden.agent(&format!("test $n = 1 && echo 1 > one || {}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    for name in garden.refs("refs/pleach/") {
        garden.env.git(&["update-ref", "-d", &name]);
    }
    garden.agent("echo 1 > mended", APPROVES);
    garden.gardener(&[]).expect(0);
    assert_eq!(retries(&garden.steps("main")), ["0", "0", "1", "1", "1"]);
    assert_eq!(garden.files("main"), ["README.md", "mended", "one", "task-tree.json"]);
    assert!(garden.asked("T001", "implement", 3).contains("Previous test failure"));
}

/// Lets a run fail two attempts and kills it in the third.
fn killed_in_the_third(garden: &Garden) {
    let gate = Gate::new(&garden.env, "agent");
    garden.agent(&format!("echo $n > try$n; test $n -le 2 || {}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.kill(held);
    garden.agent(TRIES, APPROVES);
}

#[test]
fn a_budget_goes_over_restarts() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: echo red; false"]));
    killed_in_the_third(&garden);
    garden.gardener(&["--max-retries", "4"]).expect(1);
    let steps = garden.steps("main");
    assert_eq!(retries(&steps), ["0", "0", "1", "1", "2", "2", "3", "3"]);
    let red: Vec<&str> =
        steps.iter().filter(|step| step.status == "T001 test-fail").map(|step| &*step.subject).collect();
    assert!(red[2].contains("(attempt 3/") && red[3].ends_with("(attempt 4/4)"), "{red:?}");
    assert!(steps.last().unwrap().subject.ends_with("after 4 retries"));
}

#[test]
fn a_budget_that_became_smaller_is_used_up_at_once() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: echo red; false"]));
    killed_in_the_third(&garden);
    garden.gardener(&["--max-retries", "2"]).expect(1);
    assert_eq!(garden.told("main").last().unwrap(), "T001 failed");
    assert!(garden.newest("main", "T001 failed").subject.ends_with("after 2 retries"));
    assert_eq!(garden.times_asked("T001", "implement"), 3, "two and the one that was killed");
    assert_eq!(garden.files("main"), ["README.md", "task-tree.json"]);
}

#[test]
fn a_reviewer_that_always_crashes_has_not_approved() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent(WRITES, "test $n -le 3 && kill -9 $$; echo APPROVED");
    garden.gardener(&[]).expect(0);
    let told = garden.told("main");
    assert_eq!(told[..3], ["T001 implement-pass", "T001 review-rejected", "T001 implement-pass"]);
    assert!(garden.newest("main", "T001 review-rejected").body.contains("signal 9"));
}

#[test]
fn an_agent_that_takes_too_long_ends_its_attempt() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit(".arborist/config.json", r#"{"timeouts": {"runner_timeout": 5}}"#);
    garden.agent("echo half > half; echo begun; test $n = 1 && sleep 600; echo 1 > whole", APPROVES);
    garden.gardener(&[]).expect(0);
    let told = ["T001 implement-fail", "T001 implement-pass", "T001 review-approved", "T001 complete"];
    assert_eq!(garden.told("main"), told);
    let body = garden.newest("main", "T001 implement-fail").body;
    assert!(body.contains("5s"), "{body}");
    let asked = garden.asked("T001", "implement", 2);
    assert!(asked.contains("--- Previous runner error ---"), "{asked}");
    let log = implement_log(&garden, "timed out");
    for text in [&asked, &log] {
        assert!(text.contains("=== stdout ===\nbegun\n=== stderr ===\n"), "{text}");
        assert!(text.contains("timed out after 5s"), "{text}");
    }
}

/// The log of the implement step that has landed and says this.
fn implement_log(garden: &Garden, saying: &str) -> String {
    let all = garden.env.git(&["ls-tree", "-r", "--name-only", "main", "logs/"]);
    let mut logs = all.lines().filter(|path| path.contains("_implement_")).map(|path| garden.file("main", path));
    logs.find(|log| log.contains(saying)).expect("a log that says it")
}

#[test]
fn an_agents_output_before_failing_is_in_its_log() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent("echo \"said $n\"; test $n = 1 && { echo 'no model' >&2; exit 3; }; echo 1 > one", APPROVES);
    garden.gardener(&[]).expect(0);
    let log = implement_log(&garden, "said 1");
    assert!(log.starts_with("=== stdout ===\nsaid 1\n=== stderr ===\n") && log.contains("exit 3: no model"), "{log}");
    assert!(garden.asked("T001", "implement", 2).contains("said 1"));
    assert!(garden.newest("main", "T001 implement-fail").body.starts_with("Runner error:\nagent"));
}

#[test]
fn no_part_of_a_secret_survives_a_cut() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    // The end of what it says is kept, and that starts in the middle of the key.
    let says = "printf 'key sk-quite-secret-value-0123456789 ' >&2; printf '%1985d' 1 | tr ' ' x >&2";
    garden.agent(&format!("test $n = 1 && {{ {says}; exit 3; }}; echo 1 > one"), APPROVES);
    let mut command = garden.env.command(&["-y", "gardener"]);
    let ran = garden.env.finish(command.env("DEMO_API_KEY", "sk-quite-secret-value-0123456789").output().unwrap());
    ran.expect(0);
    let log = implement_log(&garden, "exit 3");
    assert!(log.contains("xxx1") && !log.contains("789"), "{log}");
}

#[test]
fn why_an_attempt_does_not_count_is_shown() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let plant = "ln -s /dev/null \"$(git rev-parse --git-dir)/MERGE_HEAD\"";
    garden.agent(&format!("{WRITES}; {plant}; echo all is well"), APPROVES);
    garden.gardener(&["--max-retries", "1"]).expect(1);
    let why = "the repository's own settings were changed";
    let branch = garden.refs("refs/heads/pleach").pop().unwrap();
    let body = garden.env.git(&["log", "-1", "--format=%B", "--grep=implement-fail", &branch]);
    assert!(body.contains(why) && body.contains("MERGE_HEAD"), "{body}");
    let shown = garden.env.pleach(&["inspect", "T001"]).expect(0);
    assert!(shown.stdout.contains(why), "{shown}");
}

/// What becomes of a task whose branch is removed while its agent works is what the hint says.
#[test]
fn a_branch_removed_meanwhile_costs_only_its_steps() {
    let hint = "a task without steps continues, one with steps restarts unless you restore its branch first";
    for (has_steps, put_back, told) in [(false, false, "resumes"), (true, false, "begins"), (true, true, "resumes")] {
        let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: test -e mended"]));
        let gate = Gate::new(&garden.env, "agent");
        let first = if has_steps { "test $n = 1 && echo 1 > one ||" } else { "" };
        garden.agent(&format!("{first} {{ {}; echo 1 > mended; }}", gate.command()), APPROVES);
        let mut run = garden.env.spawn(&["-y", "gardener"]);
        let held = gate.reached(&mut run);
        let branch = "pleach/tasks/main/T001";
        garden.env.git(&["update-ref", "-d", &format!("refs/heads/{branch}")]);
        gate.open(held);
        let ran = run.end().expect(5);
        assert!(ran.stderr.contains(hint), "{ran}");
        if put_back {
            let tip = ran.stderr.split(&format!("git branch {branch} ")).nth(1).unwrap().split_whitespace().next();
            garden.env.git(&["branch", branch, tip.unwrap()]);
        }
        let ran = garden.gardener(&[]).expect(0);
        assert!(ran.stderr.contains(&format!("T001 Grow T001 {told} (session")), "{has_steps} {put_back}: {ran}");
        let is_kept = garden.told("main").contains(&"T001 test-fail".to_owned());
        assert_eq!(is_kept, put_back, "{:?}", garden.told("main"));
    }
}

/// A script that leaves a word of its own for the pipeline.
fn with_word(word: &str, then: &str) -> String {
    format!("echo '{{\"outcome\": \"{word}\", \"notes\": \"no key\"}}' > \"$PLEACH_STATUS_FILE\"; {then}")
}

#[test]
fn a_review_with_a_custom_outcome_follows_its_verdict() {
    let rejects = "echo 'REJECTED: it deletes the database'";
    for word in ["rejected", "skipped", "needs-work"] {
        let garden = Garden::new(&Tree::of(&["T001"]));
        let review = format!("if test $n = 1; then {}; else {APPROVES}; fi", with_word(word, rejects));
        garden.agent(WRITES, &review);
        let ran = garden.gardener(&[]).expect(0);
        let once = ["T001 implement-pass", "T001 review-rejected"];
        let twice = ["T001 implement-pass", "T001 review-approved", "T001 complete"];
        assert_eq!(garden.told("main"), [&once[..], &twice].concat(), "{word}: {ran}");
        assert!(garden.asked("T001", "implement", 2).contains("it deletes the database"), "{word}");
    }
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent(WRITES, &with_word("approved", APPROVES));
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 review-approved", "T001 complete"]);
    // Who approves and says something else beside it has not approved.
    garden.plant(&Tree::of(&["T001", "T002"]));
    garden.agent(WRITES, &with_word("blocked", APPROVES));
    let ran = garden.gardener(&["--max-retries", "1"]).expect(1);
    assert_eq!(garden.told("main")[3..], ["T002 implement-pass", "T002 review-rejected", "T002 failed"], "{ran}");
    assert!(!garden.files("main").contains(&"T002.txt".to_owned()));
}

#[test]
fn an_agent_with_a_custom_outcome_has_not_finished() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent(&format!("if test $n = 1; then {}; else {WRITES}; fi", with_word("blocked", "true")), APPROVES);
    garden.gardener(&[]).expect(0);
    let twice = ["T001 implement-fail", "T001 implement-pass", "T001 review-approved", "T001 complete"];
    assert_eq!(garden.told("main"), twice);
    let failed = garden.newest("main", "T001 implement-fail");
    assert_eq!(failed.body, "Runner error:\nit ended with `blocked`: no key");
    assert!(garden.asked("T001", "implement", 2).contains("it ended with `blocked`: no key"));
}

#[test]
fn a_verdict_counts_also_where_its_word_is_a_secret() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.write(".env", "DEFAULT_STATUS=APPROVED\n");
    garden.gardener(&[]).expect(0);
    let review = garden.newest("main", "T001 review-approved").body;
    assert!(review.ends_with("[redacted:DEFAULT_STATUS]"), "{review}");
}
