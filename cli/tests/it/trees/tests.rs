//! What tests a task: commands at three levels, counts, setup and teardown, timeouts.

use std::time::{Duration, Instant};

use serde_json::json;

use super::garden::{APPROVES, Garden, Tree, WRITES};
use crate::sessions::Gate;

fn counts(garden: &Garden, status: &str) -> [Option<String>; 3] {
    let step = garden.newest("main", status);
    ["Passed", "Failed", "Skipped"].map(|what| step.trailer(&format!("Arborist-Test-{what}")).map(str::to_owned))
}

#[test]
fn a_tasks_own_test_precedes_the_default() {
    let tree = Tree::of(&["T001", "T002"]).tests("T001", &["unit: echo own > ran; git add ran; echo own"]);
    let garden = Garden::new(&tree);
    garden.gardener(&["--test-command", "echo for-all"]).expect(0);
    assert!(garden.newest("main", "T001 test-pass").body.ends_with("\nown"));
    assert!(garden.newest("main", "T002 test-pass").body.ends_with("\nfor-all"));
}

#[test]
fn the_test_for_all_is_found_in_the_settings() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("test_command: 'echo for everything'\ntree: {test_command: 'echo configured'}\n");
    garden.gardener(&[]).expect(0);
    assert!(garden.newest("main", "T001 test-pass").body.ends_with("\nconfigured"));
}

#[test]
fn a_task_without_a_test_is_untested_and_says_so() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 review-approved", "T001 complete"]);
    let done = garden.newest("main", "T001 complete");
    assert_eq!(done.trailer("Pleach-Tested"), Some("none"));
    let report = garden.file("main", done.trailer("Arborist-Report").unwrap());
    assert!(report.contains("\"tested\": false"), "{report}");
}

#[test]
fn counts_of_pytest_are_in_the_trailers() {
    let output = "printf '==== 1 failed, 2 passed, 3 skipped in 0.12s ====\\n'; test -e mended";
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[&format!("unit: {output}")]));
    garden.agent("test $n = 1 && echo 1 > one || echo 1 > mended", APPROVES);
    garden.gardener(&[]).expect(0);
    assert_eq!(counts(&garden, "T001 test-fail"), [Some("2".into()), Some("1".into()), Some("3".into())]);
    let report = garden.newest("main", "T001 complete");
    let report = garden.file("main", report.trailer("Arborist-Report").unwrap());
    assert!(report.contains("\"passed\": 2"), "{report}");
}

#[test]
fn counts_of_cargo_are_summed_over_its_programs() {
    let line = |passed, ignored| {
        format!("echo 'test result: ok. {passed} passed; 0 failed; {ignored} ignored; 0 measured; 0 filtered out'")
    };
    let tests = [format!("unit: {}", line(4, 1)), format!("unit: {}", line(2, 0)), format!("e2e: {}", line(9, 9))];
    let tests: Vec<&str> = tests.iter().map(String::as_str).collect();
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &tests));
    garden.gardener(&[]).expect(0);
    assert_eq!(counts(&garden, "T001 test-pass"), [Some("6".into()), Some("0".into()), Some("1".into())]);
    assert_eq!(garden.newest("main", "T001 test-pass").trailer("Arborist-Test-Type"), Some("unit"));
}

/// nextest and jest sum up on standard error.
#[test]
fn counts_are_found_in_both_outputs() {
    let nextest = "unit: echo building; echo '     Summary [   0.1s] 4 tests run: 4 passed (1 slow), 2 skipped' >&2";
    let jest = "unit: echo bundling; echo 'Tests:       1 todo, 5 passed, 6 total' >&2";
    let garden = Garden::new(&Tree::of(&["T001", "T002"]).tests("T001", &[nextest]).tests("T002", &[jest]));
    garden.gardener(&[]).expect(0);
    assert_eq!(counts(&garden, "T001 test-pass"), ["4", "0", "2"].map(|count| Some(count.to_owned())));
    assert_eq!(counts(&garden, "T002 test-pass"), ["5", "0", "1"].map(|count| Some(count.to_owned())));
}

#[test]
fn counts_of_go_and_vitest_are_in_the_trailers() {
    let go = "unit: printf '%s\\n' '--- PASS: TestA (0.00s)' '--- SKIP: TestB (0.00s)' '--- PASS: TestC (0.00s)' PASS";
    let vitest = "unit: printf '%s\\n' ' Test Files  1 passed (1)' '      Tests  2 failed | 3 passed | 1 skipped (6)'";
    let garden = Garden::new(&Tree::of(&["T001", "T002"]).tests("T001", &[go]).tests("T002", &[vitest]));
    garden.gardener(&[]).expect(0);
    assert_eq!(counts(&garden, "T001 test-pass"), ["2", "0", "1"].map(|count| Some(count.to_owned())));
    assert_eq!(counts(&garden, "T002 test-pass"), ["3", "2", "1"].map(|count| Some(count.to_owned())));
    let reports = garden.env.pleach(&["reports", "T002"]).expect(0).stdout;
    assert!(reports.contains("3 passed, 2 failed"), "{reports}");
}

#[test]
fn only_the_named_frameworks_counts_are_read() {
    // Tests that run cargo themselves, whose summary would be believed first.
    let command = "echo 'test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'; \
                   echo 'Tests:       1 failed, 2 skipped, 3 passed, 6 total' >&2";
    let test = |framework| json!([{"type": "unit", "command": command, "framework": framework}]);
    let tree = Tree::of(&["T001", "T002"]).with("T001", "test_commands", test(json!("jest"))).with(
        "T002",
        "test_commands",
        test(json!(null)),
    );
    let garden = Garden::new(&tree);
    garden.gardener(&[]).expect(0);
    assert_eq!(counts(&garden, "T001 test-pass"), ["3", "1", "2"].map(|count| Some(count.to_owned())));
    assert_eq!(counts(&garden, "T002 test-pass"), ["7", "0", "0"].map(|count| Some(count.to_owned())));
}

#[test]
fn output_nobody_can_count_leaves_the_counts_out() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["integration: echo fine"]));
    garden.gardener(&[]).expect(0);
    assert_eq!(counts(&garden, "T001 test-pass"), [None, None, None]);
    assert_eq!(garden.newest("main", "T001 test-pass").trailer("Arborist-Test-Type"), Some("integration"));
}

#[test]
fn a_steps_runtime_covers_all_its_commands() {
    let tests = [
        "setup: sleep 0.2",
        "unit: sleep 0.2; test -e mended",
        "unit: sleep 0.2",
        "integration: sleep 0.2",
        "e2e: sleep 0.2",
        "teardown: sleep 0.2",
    ];
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &tests));
    garden.agent("test $n = 1 && echo 1 > one || echo 1 > mended", APPROVES);
    let begun = Instant::now();
    garden.gardener(&[]).expect(0);
    let whole = begun.elapsed().as_secs_f64();
    let runtime = |status| -> f64 {
        garden.newest("main", status).trailer("Arborist-Test-Runtime").unwrap().parse().expect("seconds")
    };
    let both = ["T001 test-fail", "T001 test-pass"].map(runtime);
    assert!(both.iter().all(|seconds| *seconds >= 1.2), "six commands of 0.2 seconds each: {both:?}");
    assert!(both.iter().sum::<f64>() <= whole, "{both:?} of {whole}");
    let steps = garden.env.pleach(&["--json", "inspect", "T001"]).expect(0).json();
    let told = steps["steps"].as_array().expect("steps").iter().filter_map(|step| step["test"]["runtime"].as_f64());
    let millis = |seconds: f64| (seconds * 1000.0).round();
    assert_eq!(told.map(millis).collect::<Vec<_>>(), both.map(millis));
}

#[test]
fn setup_comes_first_and_teardown_last_whatever_happens() {
    let note = |what: &str| format!("echo {what} >> \"$HOME/order\"");
    let tests = [
        format!("teardown: {}; false", note("teardown")),
        format!("unit: {}; test -e mended", note("unit")),
        format!("e2e: {}", note("e2e")),
        format!("setup: {}", note("setup")),
    ];
    let tests: Vec<&str> = tests.iter().map(String::as_str).collect();
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &tests));
    garden.agent("test $n = 1 && echo 1 > one || echo 1 > mended", APPROVES);
    let ran = garden.gardener(&[]).expect(0);
    let order = garden.env.read("home/order");
    let once = ["setup", "unit", "e2e", "teardown"];
    assert_eq!(order.lines().collect::<Vec<_>>(), [once, once].concat());
    assert_eq!(garden.told("main")[1], "T001 test-fail");
    ran.warns("teardown-failed").naming("(exit 1)");
    let red = garden.newest("main", "T001 test-fail");
    let log = garden.file("main", red.trailer("Arborist-Test-Log").unwrap());
    let places = ["setup stdout", "unit stdout", "e2e stdout", "teardown stdout"].map(|title| log.find(title));
    assert!(places.is_sorted() && places[0].is_some(), "{log}");
}

#[test]
fn time_pleach_was_stopped_does_not_count_for_tests() {
    // Nobody reads what it prints meanwhile, so that it waits.
    let test =
        "unit: touch \"$HOME/begun\"; sleep 0.5; head -c 1000000 /dev/zero | tr '\\0' x; touch \"$HOME/printed\"";
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[test]));
    garden.configure("tree: {test_timeout: 4}\n");
    let run = garden.env.spawn(&["-y", "gardener"]);
    garden.env.wait_for_file("home/begun");
    run.signal("STOP");
    std::thread::sleep(Duration::from_secs(6));
    let printed = garden.env.root().join("home/printed").exists();
    run.signal("CONT");
    assert!(!printed, "there was more than a pipe holds");
    run.end().expect(0);
    assert_eq!(garden.completed(), ["T001"]);
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

#[test]
fn setup_processes_end_and_killed_tests_are_torn_down() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let gate = Gate::new(&garden.env, "test");
    let unit = format!("unit: {}", gate.command());
    let swept = "teardown: echo swept >> \"$HOME/swept\"";
    let tests = ["setup: sleep 600 & echo ready", &unit, swept, "teardown: sleep 700", swept];
    garden.plant(&Tree::of(&["T001"]).tests("T001", &tests));
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    let left: Vec<_> = garden.env.processes().into_iter().filter(|(_, line)| line.contains("sleep 600")).collect();
    assert!(left.is_empty(), "{left:?}");
    run.stop();
    run.interrupt();
    // Nobody opens the gate: the test is killed. A teardown that hangs is so in a while, and nothing starts after it.
    let begun = Instant::now();
    run.end().expect(3);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    garden.env.assert_no_process_left();
    drop(held);
    assert_eq!(garden.env.read("home/swept"), "swept\n");
}

#[test]
fn a_failed_setup_fails_the_step_and_nothing_is_tested() {
    let tests = [
        "setup: echo no database >&2; test -e mended || exit 3",
        "unit: echo ran >> \"$HOME/ran\"",
        "teardown: echo swept >> \"$HOME/swept\"",
    ];
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &tests));
    garden.agent("test $n = 1 && echo 1 > one || echo 1 > mended", APPROVES);
    let ran = garden.gardener(&[]).expect(0);
    let red = garden.newest("main", "T001 test-fail");
    assert!(red.body.contains("Test (setup) stderr (last 1000 chars):\nno database"), "{}", red.body);
    let log = garden.file("main", red.trailer("Arborist-Test-Log").unwrap());
    let said = "the setup `echo no database >&2; test -e mended || exit 3` failed (exit 3); the tests were not run";
    for (place, text) in
        [("body", &red.body), ("log", &log), ("prompt", &garden.asked("T001", "implement", 2)), ("stderr", &ran.stderr)]
    {
        assert!(text.contains(said), "{place}: {text}");
    }
    assert_eq!(garden.env.read("home/ran"), "ran\n", "only once the setup worked");
    assert_eq!(garden.env.read("home/swept"), "swept\nswept\n");
    assert!(garden.asked("T001", "implement", 2).contains("no database"));
}

#[test]
fn a_slow_test_is_killed_with_its_children() {
    let test = json!([{"type": "unit", "timeout": 1,
        "command": "echo before; test -e mended && exit 0; (sleep 600; echo never) & echo $! > \"$HOME/pid\"; wait"}]);
    let garden = Garden::new(&Tree::of(&["T001"]).with("T001", "test_commands", test));
    let gate = Gate::new(&garden.env, "agent");
    garden.agent(&format!("test $n = 1 && echo 1 > one || {{ {}; echo 1 > mended; }}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    // While pleach goes on, which would end all of it at its own end anyway.
    let started = garden.env.read("home/pid");
    assert!(started.trim().parse::<u32>().is_ok(), "{started}");
    let deadline = Instant::now() + Duration::from_secs(30);
    let left = || garden.env.processes().into_iter().filter(|(_, line)| line.contains("sleep 600")).collect::<Vec<_>>();
    while !left().is_empty() {
        assert!(Instant::now() < deadline, "outlives the test that started it: {:?}", left());
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(held);
    run.end().expect(0);
    garden.assert_in_order();
    let red = garden.newest("main", "T001 test-fail");
    assert!(red.body.contains("before"), "output up to the kill is kept: {}", red.body);
    let log = garden.file("main", red.trailer("Arborist-Test-Log").unwrap());
    assert!(log.contains("before") && !log.contains("never"), "{log}");
    let feedback = garden.asked("T001", "implement", 2);
    assert!(feedback.contains("timed out after 1s"), "the next attempt is told why: {feedback}");
}

#[test]
fn a_test_command_that_is_not_there_fails_the_step() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: no-such-program-at-all"]));
    garden.agent("test $n = 1 && echo 1 > one || echo 2 > two; true", APPROVES);
    garden.gardener(&["--max-retries", "1"]).expect(1);
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 test-fail", "T001 failed"]);
    assert!(garden.newest("main", "T001 test-fail").body.contains("no-such-program-at-all"));
}

#[test]
fn tests_run_on_task_files_never_in_the_checkout() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: pwd; cat T001.txt"]));
    garden.agent(WRITES, APPROVES);
    garden.gardener(&[]).expect(0);
    let body = garden.newest("main", "T001 test-pass").body;
    assert!(body.contains("T001 1"), "{body}");
    assert!(!body.contains(&format!("{}\n", garden.env.repo_path().display())), "{body}");
}

#[test]
fn uncommitted_files_are_not_tested() {
    for (made, why) in [
        ("truncate -s 51M model.bin", "`model.bin` is not committed: 51 MiB is over the size limit"),
        ("mkdir gen; seq -f gen/%g 5001 | xargs touch model.bin", "one of 5003 new files, more than the limit"),
    ] {
        let garden = Garden::new(&Tree::of(&["T001", "T002"]));
        garden.agent(
            &format!("echo $task > $task; test $task.$n != T001.1 || {{ {made}; }}; test $n = 1 || {{ rm -r gen *.bin; echo > model.bin; }}"),
            APPROVES,
        );
        let ran = garden.gardener(&["--test-command", "echo tested; test -f model.bin"]).expect(0);
        let told = ["T001 implement-fail", "T001 implement-pass", "T001 test-pass"];
        assert_eq!(garden.told("main")[..3], told, "{ran}");
        for text in [&garden.newest("main", "T001 implement-fail").body, &garden.asked("T001", "implement", 2)] {
            assert!(text.contains("held back") && text.contains(why) && text.contains(".gitignore"), "{text}");
        }
        assert_eq!(garden.file("main", "model.bin"), "", "what was tested is there");
    }
}

#[test]
fn a_task_with_uncommitted_files_is_not_complete() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.agent("echo $task > $task; test $task = T002 || truncate -s 51M model.bin", APPROVES);
    garden.gardener(&["--max-retries", "1"]).expect(1);
    assert_eq!(garden.told("main"), ["T001 implement-fail", "T001 failed"]);
    let body = garden.newest("main", "T001 implement-fail").body;
    assert!(body.contains("1 file is held back") && body.contains("`model.bin` is not committed"), "{body}");
    assert!(!garden.files("main").contains(&"T001".to_owned()));
}

#[test]
fn only_what_has_passed_a_test_is_tested() {
    const BARE: &str = "digraph bare { start [shape=Mdiamond]; done [shape=Msquare]; implement [step=implement]
        review [step=review]; start -> implement -> review -> done }";
    const OWN: &str = "digraph own { start [shape=Mdiamond]; done [shape=Msquare]; implement [step=implement]
        test [shape=parallelogram, step=test, tool_command=\"echo '4 passed'\"]; start -> implement -> test -> done }";
    let plain = || Tree::of(&["T001"]);
    let no_test = || plain().tests("T001", &["setup: echo ready", "teardown: echo swept"]);
    for (tree, more, is_tested, why) in [
        (plain(), &["--test-command", "exit 1", "--pipeline", "bare.dot"][..], false, "no step tests"),
        (plain(), &["--pipeline", "own.dot"], true, "the pipeline has a test of its own"),
        (no_test(), &[], false, "a setup is no test"),
        (no_test(), &["--test-command", "echo for-all"], true, "a setup does not stand for the test for all"),
    ] {
        let garden = Garden::new(&tree);
        garden.commit("bare.dot", BARE);
        garden.commit("own.dot", OWN);
        garden.gardener(more).expect(0);
        let tests = garden.told("main").iter().filter(|told| *told == "T001 test-pass").count();
        assert_eq!(tests, usize::from(is_tested), "{why}");
        let done = garden.newest("main", "T001 complete");
        assert_eq!(done.trailer("Pleach-Tested"), (!is_tested).then_some("none"), "{why}");
        let report = garden.file("main", done.trailer("Arborist-Report").unwrap());
        assert!(report.contains(&format!("\"tested\": {is_tested}")), "{why}: {report}");
        let status = garden.env.pleach(&["status"]).expect(0);
        assert_eq!(status.stdout.contains("untested"), !is_tested, "{why}: {status}");
    }
}

#[test]
fn a_test_that_passed_before_a_kill_counts() {
    for loses_record in [false, true] {
        let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: true"]));
        let gate = Gate::new(&garden.env, "review");
        garden.agent(WRITES, &format!("{}; echo APPROVED", gate.command()));
        let mut run = garden.env.spawn(&["-y", "gardener"]);
        let held = gate.reached(&mut run);
        run.kill(held);
        gate.stay_open();
        for name in garden.refs("refs/pleach/").iter().filter(|_| loses_record) {
            garden.env.git(&["update-ref", "-d", name]);
        }
        garden.gardener(&[]).expect(0);
        let told = ["T001 implement-pass", "T001 test-pass", "T001 review-approved", "T001 complete"];
        assert_eq!(garden.told("main"), told);
        assert_eq!(garden.newest("main", "T001 complete").trailer("Pleach-Tested"), None, "{loses_record}");
    }
}

#[test]
fn files_written_after_a_test_are_untested() {
    for (polish, tests, is_tested) in
        [("echo more > more", &["unit: true"][..], false), ("true", &["unit: true"], true), ("true", &[], false)]
    {
        let dot = format!(
            "digraph g {{ start [shape=Mdiamond]; done [shape=Msquare]; implement [step=implement]; review [step=review]
            test [shape=parallelogram, step=test]; polish [shape=parallelogram, step=polish, tool_command=\"{polish}\"]
            start -> implement -> test -> polish -> review -> done }}"
        );
        for loses_record in [false, true] {
            let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", tests));
            garden.commit("own.dot", &dot);
            let gate = Gate::new(&garden.env, "review");
            garden.agent(WRITES, &format!("{}; echo APPROVED", gate.command()));
            let mut run = garden.env.spawn(&["-y", "gardener", "--pipeline", "own.dot"]);
            let held = gate.reached(&mut run);
            run.kill(held);
            gate.stay_open();
            for name in garden.refs("refs/pleach/").iter().filter(|_| loses_record) {
                garden.env.git(&["update-ref", "-d", name]);
            }
            garden.gardener(&["--pipeline", "own.dot"]).expect(0);
            let steps = garden.told("main");
            assert_eq!(steps.iter().filter(|step| *step == "T001 polish-pass").count(), 1, "it was not done again");
            let said = garden.newest("main", "T001 complete");
            let told = (!is_tested).then_some("none");
            assert_eq!(said.trailer("Pleach-Tested"), told, "{polish} {tests:?} {loses_record}");
        }
    }
}

#[test]
fn a_failed_test_says_how_it_ended_whatever_it_printed() {
    let tests =
        ["unit: echo fine", "integration: echo output; echo complaint >&2; test -e mended || exit 4", "e2e: echo fine"];
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &tests));
    garden.agent("test $n = 1 && echo 1 > one || echo 1 > mended", APPROVES);
    garden.gardener(&[]).expect(0);
    let red = garden.newest("main", "T001 test-fail");
    let said = "Test (integration) stderr (last 1000 chars):\ncomplaint\n[exit 4]\n\nTest (integration) stdout";
    assert!(red.body.contains(said), "{}", red.body);
    let log = garden.file("main", red.trailer("Arborist-Test-Log").unwrap());
    for text in [&log, &garden.asked("T001", "implement", 2)] {
        assert!(text.contains("=== integration stderr ===\ncomplaint\n[exit 4]\n=== e2e stdout ==="), "{text}");
        assert_eq!(text.matches("[exit").count(), 1, "{text}");
    }
}

#[test]
fn output_before_a_test_timeout_is_kept() {
    const SLOW: &str = r#"digraph slow { start [shape=Mdiamond]; done [shape=Msquare]; implement [step=implement]
        test [shape=parallelogram, step=test, timeout="2s", tool_command="echo begun; test -e mended || sleep 600"]
        start -> implement -> test -> done }"#;
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("slow.dot", SLOW);
    garden.agent("test $n = 1 && echo 1 > one || echo 1 > mended", APPROVES);
    garden.gardener(&["--pipeline", "slow.dot"]).expect(0);
    let told = ["T001 implement-pass", "T001 test-fail", "T001 implement-pass", "T001 test-pass", "T001 complete"];
    assert_eq!(garden.told("main"), told);
    let body = garden.newest("main", "T001 test-fail").body;
    assert!(body.contains("begun") && body.contains("[timed out after 2s]"), "{body}");
}

/// The time of the node runs out while what the first command left running is ended.
#[test]
fn tests_that_did_not_get_their_turn_have_not_passed() {
    for [first, second] in [["unit", "unit"], ["setup", "unit"]] {
        let first = format!("{first}: (trap '' TERM; exec sleep 60) & echo fine");
        let second = format!("{second}: exit 1");
        let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &[&first, &second]));
        let nodes = "implement [step=implement]\n\
                     test [shape=parallelogram, step=test, timeout=\"1s\"]\n\
                     review [step=review]\n";
        let dot = format!(
            "digraph mine {{\nstart [shape=Mdiamond]\ndone [shape=Msquare]\n{nodes}start -> implement -> test -> review -> done\n}}\n"
        );
        garden.commit("mine.dot", &dot);
        let ran = garden.gardener(&["--pipeline", "mine.dot", "--max-retries", "1"]).expect(1);
        assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 test-fail", "T001 failed"], "{ran}");
    }
}

/// What the machine cannot do says nothing of what is tested.
#[test]
fn a_test_that_cannot_be_started_counts_no_attempt() {
    let long = format!("unit: : {}", "x".repeat(200_000));
    for tests in ["T001", "phase1"] {
        let test = if tests == "T001" { long.clone() } else { long.replace("unit:", "e2e:") };
        let garden = Garden::new(&Tree::default().phase("phase1", &["T001"]).tests(tests, &[&test]));
        let ran = garden.gardener(&[]).expect(7);
        ran.fails_with("agent-unusable").naming("Argument list too long").naming("no attempt was counted");
        assert!(!garden.told("main").iter().any(|told| told.contains("test-fail")), "{ran}");
        let shown = garden.env.pleach(&["status"]).expect(0);
        assert!(!shown.stdout.contains("failed"), "{shown}");
    }
}
