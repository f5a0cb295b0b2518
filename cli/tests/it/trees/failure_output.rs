//! What failed steps say: in their commits, in their logs, and to the next attempt.

use super::garden::{APPROVES, Garden, StepCommit, Tree, WRITES};
use crate::sessions::Gate;

/// A pipeline of an agent and one command after it that is a step.
fn behind(step: &str, command: &str, more: &str) -> String {
    format!(
        "digraph own {{ start [shape=Mdiamond]; done [shape=Msquare]; implement [step=implement]\n\
         {step} [shape=parallelogram, step={step}, write=false, tool_command=\"{command}\"{more}]\n\
         start -> implement -> {step} -> done }}"
    )
}

/// A run over one task that fails once at such a command.
fn failed_once(step: &str, command: &str, more: &str) -> Garden {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent("test $n = 1 && echo 1 > one || echo 1 > T001.ok", APPROVES);
    garden.commit("own.dot", &behind(step, command, more));
    let ran = garden.gardener(&["--pipeline", "own.dot"]).expect(0);
    assert_eq!(garden.told("main").last().unwrap(), "T001 complete", "{ran}");
    garden
}

/// What the second attempt was told.
fn lessons(garden: &Garden) -> String {
    let asked = garden.asked("T001", "implement", 2);
    let (_, told) = asked.split_once("\nPrevious feedback from failed attempts:\n\n").expect("feedback");
    told.split("\nYou run in a sandbox: ").next().unwrap_or_default().trim_end().to_owned()
}

/// The file a step of this name left, as the newest commit of its branch has it.
fn log_of(garden: &Garden, step: &str) -> String {
    let all = garden.env.git(&["ls-tree", "-r", "--name-only", "main", "logs/"]);
    let path = all.lines().find(|path| path.contains(&format!("_{step}_"))).unwrap_or_else(|| panic!("{step}: {all}"));
    garden.file("main", path)
}

#[test]
fn a_silent_failing_command_reports_its_exit() {
    let garden = failed_once("lint", "test -f $task_id.ok", "");
    let red = garden.newest("main", "T001 lint-fail");
    assert_eq!(red.body, "Step (lint) stderr (last 1000 chars):\n[exit 1]");
    assert_eq!(lessons(&garden), "--- Previous lint failure ---\n=== stdout ===\n=== stderr ===\n[exit 1]");
    assert_eq!(log_of(&garden, "lint"), "=== stdout ===\n=== stderr ===\n[exit 1]");
    assert_eq!(garden.newest("main", "T001 lint-pass").body, "");

    let garden = failed_once("lint", "test -f $task_id.ok || { echo started; sleep 60; }", ", timeout=\"1s\"");
    let red = garden.newest("main", "T001 lint-fail");
    let how = "[timed out after 1s]";
    let body =
        format!("Step (lint) stderr (last 1000 chars):\n{how}\n\nStep (lint) stdout (last 1000 chars):\nstarted");
    assert_eq!(red.body, body);
    let said = format!("=== stdout ===\nstarted\n=== stderr ===\n{how}");
    assert_eq!(lessons(&garden), format!("--- Previous lint failure ---\n{said}"));
    assert_eq!(log_of(&garden, "lint"), said);
}

#[test]
fn a_failing_command_with_exit_0_says_why() {
    let word = r#"test -f $task_id.ok || echo '{\"outcome\": \"fail\", \"failure_reason\": \"too wide\"}' > $PLEACH_STATUS_FILE"#;
    let garden = failed_once("lint", word, "");
    assert_eq!(garden.newest("main", "T001 lint-fail").body, "Step (lint) stderr (last 1000 chars):\n[too wide]");
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("own.dot", &behind("format", "echo all fine", "").replace("write=false", "write=must"));
    garden.gardener(&["--pipeline", "own.dot", "--max-retries", "1"]).expect(1);
    let body = garden.newest("main", "T001 format-fail").body;
    let how = "Step (format) stderr (last 1000 chars):\n[the node must change files and changed none]\n\n";
    assert_eq!(body, format!("{how}Step (format) stdout (last 1000 chars):\nall fine"));
}

#[test]
fn a_commands_review_is_reported_as_a_review() {
    let says = "test -f $task_id.ok && echo fine || { echo too short; echo line 3 >&2; exit 3; }";
    let garden = failed_once("review", says, "");
    let red = garden.newest("main", "T001 review-rejected");
    assert_eq!(red.body, "Review:\ntoo short\nline 3\n[exit 3]");
    assert_eq!(lessons(&garden), "--- Previous review (rejected) ---\ntoo short\nline 3\n[exit 3]");
    let green = garden.newest("main", "T001 review-approved");
    assert_eq!(green.body, "Review:\nfine");
    let log = |step: &StepCommit| garden.file("main", step.trailer("Arborist-Review-Log").unwrap());
    assert_eq!(log(&red), "=== stdout ===\ntoo short\n=== stderr ===\nline 3\n[exit 3]");
    assert_eq!(log(&green), "=== stdout ===\nfine\n=== stderr ===", "both verdicts have a log");
    // A verdict says enough.
    let garden = failed_once("review", "test -f $task_id.ok && echo APPROVED || echo REJECTED: too short", "");
    assert_eq!(garden.newest("main", "T001 review-rejected").body, "Review:\nREJECTED: too short");
}

#[test]
fn a_review_timeout_says_nothing_about_the_code() {
    let garden = failed_once("review", "test -f $task_id.ok || sleep 9", ", timeout=\"1s\"");
    assert_eq!(garden.newest("main", "T001 review-rejected").body, "Runner error:\n[timed out after 1s]");
    assert_eq!(lessons(&garden), "--- Previous runner error ---\n[timed out after 1s]");
}

#[test]
fn a_commands_implementation_is_reported_like_an_agents() {
    let dot = "digraph own { start [shape=Mdiamond]; done [shape=Msquare]\n\
               implement [shape=parallelogram, step=implement, tool_command=\"echo building; \
               ls tried && echo 1 > made || { echo 1 > tried; echo no luck >&2; exit 2; }\"]\n\
               start -> implement -> done }";
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("own.dot", dot);
    garden.gardener(&["--pipeline", "own.dot"]).expect(0);
    assert_eq!(garden.told("main"), ["T001 implement-fail", "T001 implement-pass", "T001 complete"]);
    let red = garden.newest("main", "T001 implement-fail").body;
    assert!(red.starts_with("Runner error:\nbuilding\n") && red.ends_with("\nno luck\n[exit 2]"), "{red}");
    let green = garden.newest("main", "T001 implement-pass").body;
    assert_eq!(green, "Runner output (truncated to 2000 chars):\nbuilding\ntried");
    let logs = garden.env.git(&["ls-tree", "-r", "--name-only", "main", "logs/"]);
    assert_eq!(logs.lines().count(), 2, "the log of implementing goes with its step: {logs}");
}

#[test]
fn the_record_also_says_how_a_command_ended() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("tree: {commit_logs: false}\n");
    garden.agent(WRITES, APPROVES);
    garden.commit("own.dot", &behind("review", "echo started; sleep 9", ", timeout=\"1s\""));
    garden.gardener(&["--pipeline", "own.dot", "--max-retries", "1"]).expect(1);
    let red = garden.newest("main", "T001 review-rejected");
    let shown = garden.env.pleach(&["logs", "--show", &red.id[..10]]).expect(0);
    assert_eq!(shown.stdout.trim_end(), "=== stdout ===\nstarted\n=== stderr ===\n[timed out after 1s]", "{shown}");
}

#[test]
fn custom_step_logs_are_listed_from_the_record() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("tree: {commit_logs: false}\n");
    garden.agent("test $n = 1 && echo 1 > one || echo 1 > T001.ok; echo done at $PLEACH_NODE", APPROVES);
    let dot = behind("lint", "test -f $task_id.ok || { echo too wide; exit 3; }", "");
    let dot = dot.replace("lint -> done }", "lint -> polish -> done; polish [step=polish] }");
    garden.commit("own.dot", &dot);
    garden.gardener(&["--pipeline", "own.dot"]).expect(0);
    let listed = garden.env.pleach(&["--json", "logs", "T001"]).expect(0).json();
    let listed = listed["logs"].as_array().expect("logs");
    let steps: Vec<&str> = listed.iter().filter_map(|log| log["step"].as_str()).collect();
    // A command that went well has no log, wherever logs go.
    assert_eq!(steps, ["implement-pass", "lint-fail", "implement-pass", "polish-pass"]);
    let record = format!("refs/pleach/sessions/{}/main", garden.env.session());
    assert!(listed.iter().all(|log| log["path"] == record.as_str()), "{listed:?}");
    let show = |step: &str| {
        let commit = garden.newest("main", &format!("T001 {step}")).id;
        garden.env.pleach(&["logs", "--show", &commit[..10]]).expect(0).stdout.trim_end().to_owned()
    };
    assert_eq!(show("lint-fail"), "=== stdout ===\ntoo wide\n=== stderr ===\n[exit 3]");
    assert_eq!(show("polish-pass"), "done at polish");
    let inspected = garden.env.pleach(&["inspect", "T001"]).expect(0);
    assert!(inspected.stdout.contains("lint-fail, in the record of"), "{inspected}");
    // Where they are committed, the record is not named beside the file.
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent("test $n = 1 && echo 1 > one || echo 1 > T001.ok; echo done at $PLEACH_NODE", APPROVES);
    garden.commit("own.dot", &dot);
    garden.gardener(&["--pipeline", "own.dot"]).expect(0);
    let listed = garden.env.pleach(&["--json", "logs", "T001"]).expect(0).json();
    let rows: Vec<(bool, bool)> = listed["logs"]
        .as_array()
        .expect("logs")
        .iter()
        .map(|log| (log["there"] == true, log["path"].as_str().is_some_and(|path| path.starts_with("logs/T001_"))))
        .collect();
    assert_eq!(rows, [(true, true); 4]);
}

#[test]
fn a_failed_agents_log_has_all_its_stderr() {
    let fails = "echo begun; seq 1 900 >&2; exit 3";
    let ended = "\n900\nagent ";
    for more in ["", "tree: {commit_logs: false}\n"] {
        let garden = Garden::new(&Tree::of(&["T001"]));
        garden.configure(more);
        let implement = format!("if test $n = 1; then {fails}; fi; echo a warning >&2; {WRITES}");
        garden.agent(&implement, "echo hm >&2; echo APPROVED");
        garden.gardener(&[]).expect(0);
        let show = |step: &str| {
            let commit = garden.newest("main", &format!("T001 {step}")).id;
            garden.env.pleach(&["logs", "--show", &commit[..10]]).expect(0).stdout.trim_end().to_owned()
        };
        let failed = show("implement-fail");
        assert!(failed.starts_with("=== stdout ===\nbegun\n=== stderr ===\n1\n2\n3\n"), "{more}: {failed}");
        assert!(failed.contains(ended) && failed.contains("ended with exit 3"), "{more}: {failed}");
        let asked = garden.asked("T001", "implement", 2);
        assert!(asked.contains(ended), "the next attempt is told the end of it: {asked}");
        assert_eq!(show("implement-pass"), "=== stdout ===\nWrote T001.txt.\n=== stderr ===\na warning", "{more}");
        assert_eq!(show("review-approved"), "=== stdout ===\nAPPROVED\n=== stderr ===\nhm", "{more}");
    }
}

#[test]
fn failing_tests_are_named_anywhere_in_the_output() {
    let prints = "echo '--- FAIL: TestFoo (0.00s)'; seq 1 4000; echo '--- FAIL: TestBar (0.00s)'; test -e T001.ok";
    let tests = serde_json::json!([{"type": "unit", "command": prints, "framework": "go"}]);
    let garden = Garden::new(&Tree::of(&["T001"]).with("T001", "test_commands", tests));
    garden.agent("test $n = 1 && echo 1 > one || echo 1 > T001.ok", APPROVES);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.newest("main", "T001 test-fail").trailer("Arborist-Test-Failed"), Some("2"));
    let told = lessons(&garden);
    let begin = "--- Previous test failure ---\n=== unit stdout ===\n--- FAIL: TestFoo (0.00s)\n1\n2\n";
    let end = "--- FAIL: TestBar (0.00s)\n=== unit stderr ===\n[exit 1]\n\nThe whole output is in ";
    assert!(told.starts_with(begin) && told.contains(end) && told.contains(" lines left out …]"), "{told}");
    assert!(told.ends_with("\n\nTests that failed:\n- TestFoo\n- TestBar"), "{told}");
    assert!(told.chars().count() < 8_100, "{}", told.len());
    let story = garden.env.story();
    let red = story.all("StepFinished").into_iter().find(|step| step["status"] == "test-fail").expect("the step");
    assert_eq!(red["failing"], serde_json::json!(["TestFoo", "TestBar"]));
}

#[test]
fn landing_test_output_is_kept_in_full() {
    let test = "unit: echo the-beginning; seq 1 4000; test ! -e mine || test -e mended";
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[test]));
    garden.configure("tree: {commit_logs: false}\n");
    let (first, second) = (Gate::new(&garden.env, "first"), Gate::new(&garden.env, "second"));
    let implement = |second: &str| {
        format!(
            "case $n in 1) echo 1 > one; {};; 2) {second};; *) echo 1 > mended; echo Mended.; esac",
            first.command()
        )
    };
    garden.agent(&implement(&second.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = first.reached(&mut run);
    garden.commit("mine", "by the user\n");
    first.open(held);
    let held = second.reached(&mut run);
    run.kill(held);
    garden.gardener(&[]).expect(0);
    let red = garden.newest("main", "T001 test-fail");
    assert!(red.trailer("Arborist-Test-Log").unwrap().starts_with("refs/pleach/sessions/"), "{red:?}");
    let show = |step: &StepCommit| garden.env.pleach(&["logs", "--show", &step.id[..10]]).expect(0).stdout;
    let shown = show(&red);
    assert!(shown.starts_with("=== unit stdout ===\nthe-beginning\n1\n2\n"), "{}", &shown[..200]);
    assert!(shown.trim_end().ends_with("\n4000\n=== unit stderr ===\n[exit 1]"), "{}", shown.len());
    // What came after it, in a run that has read the record, is found as well.
    assert_eq!(show(&garden.newest("main", "T001 implement-pass")).trim_end(), "Mended.");
    assert_eq!(show(&garden.newest("main", "T001 review-approved")).trim_end(), "Looks right.\nAPPROVED");
}

/// Tests that print more than a commit keeps, with names at both ends, and what of them an attempt is told.
const LONG: &str = "echo '--- FAIL: TestFoo (0.00s)'; seq 1 4000; echo '--- FAIL: TestBar (0.00s)'; echo of-$task_id; \
                    test -e mended";
const NAMED: &str = "\n\nTests that failed:\n- TestFoo\n- TestBar\n";
const FROM_COMMIT: &str = "(last 1000 chars):\n[...truncated]\n";

/// A task that has used up a budget of one attempt with them.
fn given_up() -> Garden {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[&format!("unit: {LONG}")]));
    garden.gardener(&["--max-retries", "1"]).expect(1);
    garden.agent("echo 1 > mended", APPROVES);
    garden
}

#[test]
fn a_new_budget_gets_feedback_from_the_last_record() {
    let garden = given_up();
    let inspected = garden.env.pleach(&["inspect", "T001", "--json"]).expect(0).json();
    garden.gardener(&["--max-retries", "1", "--retry-failed"]).expect(0);
    let asked = garden.asked("T001", "implement", 2);
    assert!(asked.contains(NAMED) && asked.contains("\n2500\n") && !asked.contains(FROM_COMMIT), "{asked}");
    assert!((8_000..9_000).contains(&asked.chars().count()), "{}", asked.len());
    let told = inspected["feedback"][0]["text"].as_str().expect("what is told");
    assert!(told.ends_with(NAMED) && asked.contains(told.trim_start_matches("[...truncated]\n").trim()), "{told}");
}

#[test]
fn what_ended_an_attempt_reaches_the_next_budget() {
    let dot = "digraph own { start [shape=Mdiamond]; done [shape=Msquare]; implement [step=implement]\n\
               lint [shape=parallelogram, step=lint, tool_command=\"exit 1\"]\n\
               build [shape=parallelogram, tool_command=\"echo built-$(ls | grep -c try); exit 2\"]\n\
               start -> implement -> lint; lint -> build [condition=\"outcome=fail\"]; lint -> done; build -> done }";
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent("echo 1 > try$n", APPROVES);
    garden.commit("own.dot", dot);
    let run = ["--pipeline", "own.dot", "--max-retries", "2"];
    garden.gardener(&run).expect(1);
    garden.gardener(&[&run[..], &["--retry-failed"]].concat()).expect(1);
    let asked = garden.asked("T001", "implement", 3);
    let told: Vec<&str> = asked.lines().filter(|line| line.starts_with("--- ") || line.contains("built-")).collect();
    let (lint, error) = ("--- Previous lint failure ---", "--- Previous runner error ---");
    let built = |n: u32| format!("`build` failed: exit 2: built-{n}");
    assert_eq!(told, [lint, error, &built(1), lint, error, &built(2)], "{asked}");
}

#[test]
fn a_missing_record_leaves_feedback_from_commits() {
    for damage in ["gone", "damaged"] {
        let garden = given_up();
        let record = format!("refs/pleach/sessions/{}/main", garden.env.session());
        if damage == "gone" {
            garden.env.git(&["update-ref", "-d", &record]);
        } else {
            let events = garden.env.git(&["rev-parse", &format!("{record}~2:events.json")]);
            let object = garden.env.repo_path().join(".git/objects").join(&events[..2]).join(&events[2..]);
            std::fs::remove_file(object).expect("an object of its own");
        }
        garden.env.pleach(&["inspect", "T001"]).expect(0);
        garden.gardener(&["--max-retries", "1", "--retry-failed"]).expect(0);
        let asked = garden.asked("T001", "implement", 2);
        assert!(asked.contains(FROM_COMMIT) && asked.contains("of-T001"), "{damage}: {asked}");
        assert!(!asked.contains("Tests that failed"), "{damage}: {asked}");
    }
}

#[test]
fn a_newly_known_secret_is_not_repeated_from_records() {
    let secret = "correct-horse-battery-staple";
    let test = format!("unit: echo token {secret}; seq 1 1000; test -e mended");
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[&test]));
    garden.gardener(&["--max-retries", "1"]).expect(1);
    garden.env.write(".env", format!("OPENAI_API_KEY={secret}\n"));
    garden.agent("echo 1 > mended", APPROVES);
    garden.gardener(&["--max-retries", "1", "--retry-failed"]).expect(0);
    let asked = garden.asked("T001", "implement", 2);
    let (_, told) = asked.split_once("Previous feedback").expect("feedback");
    assert!(told.contains("\ntoken [") && !told.contains(secret), "{told}");
}

#[test]
fn a_reset_task_gets_its_gates_full_output() {
    let tree = Tree::default().phase("phase1", &["T001"]).tests("phase1", &[&format!("integration: {LONG}")]);
    let garden = Garden::new(&tree);
    garden.gardener(&[]).expect(1);
    garden.gardener(&[]).expect(1);
    let inspected = garden.env.pleach(&["inspect", "phase1", "--json"]).expect(0).json();
    let told = inspected["feedback"][0]["text"].as_str().expect("what is told");
    assert!(told.ends_with(NAMED), "{told}");
    garden.env.pleach(&["reset", "T001"]).expect(0);
    assert!(garden.newest("main", "T001 reset").body.contains(FROM_COMMIT), "the commit keeps its bounds");
    garden.agent("echo 1 > mended", APPROVES);
    garden.gardener(&[]).expect(0);
    let asked = garden.asked("T001", "implement", 2);
    assert!(asked.contains(NAMED) && asked.contains("\n2500\n") && asked.contains("of-phase1"), "{asked}");
    assert_eq!(asked.matches("--- Previous ").count(), 1, "{asked}");
}
