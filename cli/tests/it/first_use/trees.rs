//! Task trees: verdicts, reasons, histories, branches that go.

use crate::trees::garden::{APPROVES, Garden, Tree, WRITES};

/// The sessions there are.
fn sessions(garden: &Garden) -> usize {
    garden.refs("refs/pleach/sessions").len()
}

#[test]
fn n19_branches_of_landed_tasks_are_deleted() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003"]));
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.refs("refs/heads"), ["refs/heads/main"]);
    // All that reads a task does without its branch.
    let session = garden.newest("main", "T002 complete").trailer("Pleach-Session").expect("its session").to_owned();
    for command in [&["inspect", "T002"][..], &["status", &session], &["diff", &session], &["logs", "T002"]] {
        garden.env.pleach(command).expect(0);
    }
    garden.env.pleach(&["reset", "T002"]).expect(0);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001", "T002", "T003", "T002"]);
    assert_eq!(garden.refs("refs/heads"), ["refs/heads/main"]);
}

#[test]
fn n19_a_merged_phase_leaves_no_branch() {
    let tree = Tree::of(&["T009"]).phase("phase1", &["T001", "T002: T001"]).tests("phase1", &["integration: true"]);
    let garden = Garden::new(&tree);
    garden.garden(&["--isolation", "phase", "--task", "T001"]).expect(0);
    // What is not on the target is on its branches.
    let gathered = ["refs/heads/main", "refs/heads/pleach/phase/main/phase1", "refs/heads/pleach/tasks/main/T001"];
    assert_eq!(garden.refs("refs/heads"), gathered);
    garden.gardener(&["--isolation", "phase"]).expect(0);
    assert_eq!(garden.refs("refs/heads"), ["refs/heads/main"]);
}

#[test]
fn n19_delete_branches_false_keeps_them() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.configure("tree: {delete_branches: false}\n");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.refs("refs/heads"), ["refs/heads/main", "refs/heads/pleach/tasks/main/T001"]);
    // The next run clears up what an earlier one left.
    garden.configure("");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.refs("refs/heads"), ["refs/heads/main"]);
}

#[test]
fn n19_rm_landed_clears_sessions_of_landed_tasks() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003"]).tests("T003", &["unit: false"]));
    garden.agent(WRITES, APPROVES);
    garden.gardener(&["--max-retries", "1"]).expect(1);
    assert_eq!(sessions(&garden), 3);
    let branches = garden.refs("refs/heads");
    assert_eq!(branches, ["refs/heads/main", "refs/heads/pleach/tasks/main/T003"], "the failed one has code there");
    let dry = garden.env.pleach(&["rm", "--landed", "--dry-run"]).expect(0);
    assert_eq!(dry.stdout.matches("would remove the record").count(), 2, "{dry}");
    assert_eq!(sessions(&garden), 3);
    let removed = garden.env.pleach(&["rm", "--landed"]).expect(0);
    assert_eq!(removed.stdout.matches(": removed the record").count(), 2, "{removed}");
    assert_eq!((sessions(&garden), garden.refs("refs/heads")), (1, branches));
    assert_eq!(garden.env.pleach(&["rm", "--landed"]).expect(0).stdout, "nothing to remove\n");
    garden.env.pleach(&["rm"]).expect(2);
    // What was done is in the commits.
    assert_eq!(garden.env.pleach(&["status"]).expect(0).tasks_done(), (2, 3));
}

/// A tree of one task that is tested by a command.
fn tested(command: &str) -> Garden {
    Garden::new(&Tree::of(&["T001"]).tests("T001", &[&format!("unit: {command}")]))
}

#[test]
fn n15_verdicts_count_as_reviewers_write_them() {
    let approvals = [
        "Verdict: APPROVED",
        "Approved",
        "✅ APPROVED",
        "# APPROVED",
        "APPROVED: all is there",
        "**APPROVED** — nice",
        "approved\nThough the names are short",
    ];
    let tasks: Vec<String> = (1..=approvals.len()).map(|number| format!("T00{number}")).collect();
    let garden = Garden::new(&Tree::of(&tasks.iter().map(String::as_str).collect::<Vec<_>>()));
    for (task, approval) in tasks.iter().zip(approvals) {
        garden.env.write(format!("asked/{task}.says"), approval);
    }
    garden.agent(WRITES, "echo 'It was looked at.'; echo; cat \"$W/asked/$task.says\"");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), tasks);
    assert!(tasks.iter().all(|task| garden.times_asked(task, "review") == 1), "nobody is asked twice");
}

#[test]
fn n15_rejections_count_and_negations_are_no_approval() {
    for (reply, reason, asked) in [
        ("Verdict: Rejected: too short", "too short", 1),
        ("❌ **REJECTED** — too short", "too short", 1),
        ("Problems:\n- too short\n\n## Verdict\n\n**REJECTED**\n\n---", "too short", 1),
        ("Verdict: NOT APPROVED", "no verdict in the review; end with VERDICT: APPROVED or VERDICT: REJECTED", 2),
        ("APPROVED\nREJECTED", "no verdict in the review; end with VERDICT: APPROVED or VERDICT: REJECTED", 2),
    ] {
        let garden = Garden::new(&Tree::of(&["T001"]));
        garden.agent(WRITES, &format!("printf '%s\\n' '{}'", reply.replace('\n', "' '")));
        let ran = garden.gardener(&["--max-retries", "1"]).expect(1);
        assert_eq!(garden.times_asked("T001", "review"), asked, "{reply}");
        let rejected = garden.newest("main", "T001 review-rejected");
        let line = ran.stderr.lines().find(|line| line.starts_with("  T001 review-rejected (")).expect("its line");
        assert!(line.ends_with(&format!("): {reason}")), "{reply}: {ran}");
        assert_eq!(ran.failed(), ("T001", 1, &*format!("review rejected: {reason}")), "{ran}");
        assert!(rejected.body.contains(reason), "{}", rejected.body);
    }
}

#[test]
fn n15_a_rejections_reason_precedes_its_heading() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent(WRITES, r"printf 'Problems:\n- too short\n\n## Verdict\n\n**REJECTED**\n\n---\n'");
    let ran = garden.gardener(&["--max-retries", "1"]).expect(1);
    assert_eq!(garden.times_asked("T001", "review"), 1, "{ran}");
    assert_eq!(ran.failed(), ("T001", 1, "review rejected: too short"), "{ran}");
}

#[test]
fn n15_a_revoked_approval_does_not_land() {
    let replies = [
        "Approved: \u{274c}",
        "APPROVED \u{2717}",
        "Verdict: Approved / Rejected",
        "Approved, no wait, rejected",
        "APPROVED\nNOT APPROVED",
        "Review: not yet approved.\nAPPROVED: nothing",
        "Verdict: APPROVED (with the condition that tests are added)",
        "Rejected: no tests\n{\"verdict\":\"approved\"}",
    ];
    let garden = Garden::new(&Tree::of(&["T001"]));
    for (at, reply) in replies.iter().enumerate() {
        garden.env.write(format!("asked/{}.says", at + 1), reply);
    }
    // Each is asked for once more.
    garden.agent("echo $n > T001.txt", "cat \"$W/asked/$(((n + 1) / 2)).says\"");
    let attempts = replies.len().to_string();
    let ran = garden.gardener(&["--max-retries", &attempts]).expect(1);
    assert_eq!((garden.completed(), garden.times_asked("T001", "review")), (Vec::new(), 2 * replies.len()), "{ran}");
    let why = format!("T001 failed after {attempts} attempts: review rejected: no verdict in the review");
    assert!(ran.stdout.contains(&why), "{ran}");
}

#[test]
fn n15_a_missing_verdict_is_asked_for_and_fed_back() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent(WRITES, "test $n -gt 2 && echo APPROVED || echo 'I like it.'");
    let ran = garden.gardener(&[]).expect(0);
    ran.warns("verdict-missing");
    let said = "no verdict in the review; end with VERDICT: APPROVED or VERDICT: REJECTED";
    assert!(ran.stderr.contains(&format!("): {said}\n")), "{ran}");
    assert!(garden.newest("main", "T001 review-rejected").body.ends_with(&format!("I like it.\n\n{said}")));
    let told = garden.asked("T001", "implement", 2);
    assert!(told.contains("--- Previous review (rejected) ---") && told.contains(said), "{told}");
}

/// The reasons of the test steps that failed, in a tree of one task with these tests.
fn red(tests: &[&str]) -> Vec<String> {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", tests));
    let ran = garden.gardener(&["--max-retries", "1"]).expect(1);
    let lines = ran.stderr.lines().filter(|line| line.starts_with("  T001 test-fail ("));
    lines.filter_map(|line| Some(line.split_once("): ")?.1.to_owned())).collect()
}

#[test]
fn n16_a_teardown_does_not_hide_the_test_that_failed() {
    let tests = ["unit: true", "e2e: echo e2e red; exit 3", "teardown: echo tearing >&2; exit 4"];
    assert_eq!(red(&tests), ["e2e red (exit 3)"]);
}

#[test]
fn n16_a_failing_setup_says_why() {
    let why = ["setup failed: no docker (exit 9)"];
    assert_eq!(red(&["setup: echo no docker >&2; exit 9", "unit: true"]), why);
    assert_eq!(red(&["setup: echo no docker; exit 9", "unit: true", "teardown: echo x >&2; exit 1"]), why);
}

#[test]
fn n16_a_red_test_says_why_in_one_line() {
    let garden = tested("echo 'FAILED tests/a.py::test_sum - assert 1 == 2'; echo '1 failed in 0.1s'; exit 1");
    let ran = garden.gardener(&["--max-retries", "2"]).expect(1);
    let lines: Vec<&str> = ran.stderr.lines().filter(|line| line.contains(" test-fail")).collect();
    let [first, second] = lines[..] else { panic!("a line for each attempt: {ran}") };
    assert!(first.starts_with("  T001 test-fail (") && first.ends_with("): tests/a.py::test_sum"), "{first}");
    assert!(
        second.starts_with("  T001 test-fail, attempt 2 (") && second.ends_with("): tests/a.py::test_sum"),
        "{second}"
    );
    assert!(ran.stdout.contains("tests failed: tests/a.py::test_sum\n"), "{ran}");
    assert_eq!(ran.stderr.matches(" test-fail").count(), 2, "each step is said once: {ran}");
    // What names no test is told by the last line of its output.
    let garden = tested("echo building; echo 'no such table: users' >&2; exit 3");
    let ran = garden.gardener(&["--max-retries", "1"]).expect(1);
    assert_eq!(ran.failed(), ("T001", 1, "tests failed: no such table: users (exit 3)"), "{ran}");
    let json = garden.env.pleach(&["-y", "--json", "gardener"]).expect(1);
    assert!(json.stdout.contains(r#""reason":"tests failed: no such table: users (exit 3)""#), "{json}");
    let status = garden.env.pleach(&["status"]).expect(0);
    assert!(status.stdout.contains("(tests failed: no such table: users (exit 3))"), "{status}");
}

#[test]
fn n16_a_red_gate_and_a_crashed_runner_say_why() {
    let tree =
        Tree::default().phase("phase1", &["T001"]).tests("phase1", &["integration: echo 'port 80 is taken'; exit 4"]);
    let garden = Garden::new(&tree);
    let ran = garden.gardener(&[]).expect(1);
    assert!(
        ran.stderr.contains("  phase1 test-fail (") && ran.stderr.contains("): port 80 is taken (exit 4)\n"),
        "{ran}"
    );
    assert_eq!(ran.ended(), ("gate_red", "phase1"), "{ran}");
    assert!(ran.stdout.contains("`main`: port 80 is taken (exit 4)\n"), "{ran}");
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent("echo trying >&2; echo 'no credit left' >&2; exit 7", APPROVES);
    let ran = garden.gardener(&["--max-retries", "1"]).expect(1);
    let line = ran.stderr.lines().find(|line| line.starts_with("  T001 implement-fail (")).expect("its line");
    assert!(line.contains("exit 7: ") && line.ends_with("no credit left"), "{line}");
    assert!(ran.stdout.lines().next().is_some_and(|line| line.ends_with("no credit left")), "{ran}");
}

/// Commits steps as the newest Arborist writes them, which calls a branch by its short id.
fn arborist(garden: &Garden, branch: &str, task: &str, statuses: &[&str]) {
    for status in statuses {
        let trailers = match *status {
            "implement-pass" => "Arborist-Step: implement\nArborist-Result: pass\nArborist-Retry: 0",
            "test-fail" => "Arborist-Step: test\nArborist-Test: fail\nArborist-Retry: 0",
            "complete" => "Arborist-Step: complete\nArborist-Result: pass",
            other => panic!("no step {other}"),
        };
        let message = format!("task({branch}@{task}@{status}): some \"Grow {task}\"\n\nIT SAYS\n\n{trailers}\n");
        garden.env.git(&["commit", "--quiet", "--allow-empty", "-m", &message]);
    }
}

#[test]
fn n17_histories_named_by_a_short_id_are_read() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003"]));
    // Of another branch with the same ticket, before this one was started.
    arborist(&garden, "os-47", "T003", &["complete"]);
    garden.switch_to_new("feature/os-47-slug--v3");
    arborist(&garden, "os-47", "T001", &["implement-pass", "complete"]);
    arborist(&garden, "os-47", "T002", &["implement-pass", "test-fail"]);
    arborist(&garden, "os-4", "T003", &["complete"]);
    let said = "4 steps of Arborist named by the short id `os-47` count for `feature/os-47-slug--v3`";
    let status = garden.env.pleach(&["status"]).expect(0);
    assert!(status.tasks_done() == (1, 3) && status.stdout.contains(said), "{status}");
    let ran = garden.gardener(&[]).expect(0);
    assert_eq!(ran.stderr.matches(said).count(), 1, "{ran}");
    assert_eq!(garden.times_asked("T001", "implement"), 0);
    assert!(garden.asked("T002", "implement", 1).contains("IT SAYS"), "it is told what went wrong before");
    assert_eq!(garden.newest("HEAD", "T002 complete").trailer("Arborist-Step"), Some("complete"));
    // The steps that name the branch in full do not make the others count less.
    assert!(garden.env.pleach(&["status"]).expect(0).tasks_done() == (3, 3));
}

#[test]
fn n17_a_branch_with_own_steps_reads_no_short_id() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.switch_to_new("feature/plain");
    arborist(&garden, "feature/plain", "T001", &["complete"]);
    arborist(&garden, "plain", "T002", &["complete"]);
    let status = garden.env.pleach(&["status"]).expect(0);
    assert!(status.tasks_done() == (1, 2) && !status.stdout.contains("short id"), "{status}");
}

#[test]
fn n17_failed_phase_attempts_land_when_isolation_changes() {
    let tree = Tree::default().phase("phase1", &["T001", "T002"]).tests("T001", &["unit: echo IT SAYS; test -e fixed"]);
    let garden = Garden::new(&tree);
    garden.gardener(&["--isolation", "phase", "--max-retries", "1"]).expect(1);
    assert_eq!(garden.told("main"), Vec::<String>::new(), "it failed on the branch of its phase");
    garden.agent("echo ok > fixed; echo 1 > $task.txt", APPROVES);
    let ran = garden.gardener(&["--retry-failed"]).expect(0);
    let said = "the failed attempts at T001 on `pleach/phase/main/phase1` are on main now (";
    assert!(ran.stderr.contains(said), "{ran}");
    let told = garden.told("main");
    assert_eq!(told[..3], ["T001 implement-pass", "T001 test-fail", "T001 failed"], "{told:?}");
    assert_eq!(garden.newest("main", "T001 test-fail").trailer("Arborist-Retry"), Some("0"));
    assert_eq!(garden.newest("main", "T001 test-pass").trailer("Arborist-Retry"), Some("1"), "attempts go on counting");
    assert_eq!(told.iter().filter(|status| *status == "T001 failed").count(), 1, "{told:?}");
    assert!(garden.asked("T001", "implement", 2).contains("IT SAYS"));
}

#[test]
fn n17_a_phase_started_with_a_branch_ends_so() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002: T001"]));
    garden.garden(&["--isolation", "phase", "--task", "T001"]).expect(0);
    let ran = garden.gardener(&[]).expect(0);
    ran.warns("phase-branch-continued").naming("`pleach/phase/main/phase1`");
    assert_eq!(garden.merges(), ["merge: phase1 complete"]);
}

#[test]
fn n18_build_points_out_headings_that_are_not_read() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.write("repo/spec/tasks.md", "## Phase One: Setup\n- [ ] T001 Do it\n\n### Dependencies\n");
    garden.env.write("repo/plans/.keep", "");
    let ran = garden.env.pleach(&["build", "--spec-dir", "spec", "--no-ai", "-o", "plans"]).expect(0);
    assert_eq!(ran.warnings().len(), 2, "{ran}");
    let told = ran.warns("spec-unclear").naming("spec/tasks.md:1: `## Phase One: Setup`").naming("`## Phase N: Title`");
    told.naming("spec/tasks.md:4: `### Dependencies`").naming("`## Dependencies`");
    assert!(ran.stdout.contains("plans/task-tree.json"), "{ran}");
    assert!(garden.env.read("repo/plans/task-tree.json").contains("T001"));
    garden.env.pleach(&["build", "--spec-dir", "spec", "--no-ai", "-o", "plans/"]).expect(2);
}

#[test]
fn n18_unittest_counts_are_read() {
    let output = "printf '%s\\n' 'Ran 15 tests in 0.003s' '' 'OK (skipped=2)' >&2";
    let garden = tested(output);
    garden.gardener(&[]).expect(0);
    let passed = garden.newest("main", "T001 test-pass");
    let counts = ["Passed", "Failed", "Skipped"].map(|what| passed.trailer(&format!("Arborist-Test-{what}")));
    assert_eq!(counts, [Some("13"), Some("0"), Some("2")]);
}

#[test]
fn n18_arborist_containers_and_hooks_are_named_in_a_warning() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let settings = r#"{"defaults": {"container_mode": "enabled"}, "hooks": {"enabled": true}}"#;
    garden.commit(".arborist/config.json", settings);
    let ran = garden.gardener(&["--dry-run"]).expect(0);
    let told = ran.warns_once("setting-ignored").naming(".arborist/config.json:1");
    told.naming("`defaults.container_mode`").naming("`hooks.enabled`");
    garden.commit(".arborist/config.json", r#"{"defaults": {"container_mode": "auto"}, "hooks": {"enabled": false}}"#);
    assert!(!garden.gardener(&["--dry-run"]).expect(0).stderr.contains("ignored"));
}
