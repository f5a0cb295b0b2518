//! What a step commit says: subject, body, trailers, and the files beside it.

use regex::Regex;
use serde_json::Value;

use super::garden::{APPROVES, Garden, Tree, WRITES};
use crate::sessions::Gate;

/// Trailers without the session, which differs, and with it checked.
#[track_caller]
fn shown(garden: &Garden, step: &super::garden::StepCommit) -> String {
    let sessions = garden.env.sessions();
    let mut text = format!("{}\n\n{}\n", step.subject, step.body);
    for (key, value) in &step.trailers {
        let value = if sessions.contains(value) { "[SID]" } else { value };
        text.push_str(&format!("\n{key}: {value}"));
    }
    let stamp = Regex::new(r"\d{8}T\d{6}").unwrap();
    let runtime = Regex::new(r"Test-Runtime: \d+(\.\d{1,3})?").unwrap();
    let text = stamp.replace_all(&text, "[STAMP]").into_owned();
    runtime.replace_all(&text, "Test-Runtime: [S]").into_owned()
}

#[test]
fn a_task_is_five_commits() {
    let tree = Tree::of(&["T001"]).tests("T001", &["unit: echo '3 passed, 1 skipped in 0.01s'"]);
    let garden = Garden::new(&tree);
    garden.gardener(&[]).expect(0);
    let steps = garden.steps("main");
    let told: Vec<String> = steps.iter().map(|step| shown(&garden, step)).collect();
    assert_eq!(
        told,
        [
            "task(main@@run-start): run started\n\n\n\nArborist-Step: run-start\nPleach-Tree: task-tree.json",
            "task(main@T001@implement-pass): implement \"Grow T001\"\n\n\
             Runner output (truncated to 2000 chars):\nWrote T001.txt.\n\n\
             Arborist-Step: implement\nArborist-Result: pass\nArborist-Retry: 0\n\
             Pleach-Session: [SID]\nPleach-Tree: task-tree.json",
            "task(main@T001@test-pass): tests pass for \"Grow T001\"\n\n\
             Test (unit) stdout (last 1000 chars):\n3 passed, 1 skipped in 0.01s\n\n\
             Arborist-Step: test\nArborist-Test: pass\nArborist-Retry: 0\nArborist-Test-Type: unit\n\
             Arborist-Test-Runtime: [S]\nArborist-Test-Passed: 3\nArborist-Test-Failed: 0\nArborist-Test-Skipped: 1\n\
             Pleach-Session: [SID]\nPleach-Tree: task-tree.json",
            "task(main@T001@review-approved): review approved for \"Grow T001\"\n\n\
             Review:\nLooks right.\nAPPROVED\n\n\
             Arborist-Step: review\nArborist-Review: approved\nArborist-Retry: 0\n\
             Arborist-Review-Log: logs/T001_review_[STAMP].log\n\
             Pleach-Session: [SID]\nPleach-Tree: task-tree.json",
            "task(main@T001@complete): complete \"Grow T001\"\n\n\
             Completed after 1 attempt(s). Report: reports/T001_run_[STAMP].json\n\n\
             Arborist-Step: complete\nArborist-Result: pass\nArborist-Report: reports/T001_run_[STAMP].json\n\
             Pleach-Session: [SID]\nPleach-Tree: task-tree.json",
        ]
    );
    let author = garden.env.git(&["log", "-1", "--format=%an <%ae>|%cn <%ce>"]);
    assert_eq!(author, "pleach <pleach@local>|pleach <pleach@local>");
    let merges = garden.env.git(&["rev-list", "--merges", "main"]);
    assert_eq!(merges, "", "history is linear");
    assert_eq!(garden.file("main", "T001.txt"), "T001 1");
}

#[test]
fn failures_name_their_attempt_and_log() {
    let tree = Tree::of(&["T001"]).tests("T001", &["unit: echo said; echo 'no good' >&2; test -e mended"]);
    let garden = Garden::new(&tree);
    garden.agent(
        "case $n in 1) echo half > half; echo 'no model' >&2; exit 3;; 2) echo bad > bad;; *) echo x > mended;; esac",
        "case $n in 1) echo 'The name is wrong.'; echo 'REJECTED: the name';; *) echo APPROVED;; esac",
    );
    garden.gardener(&[]).expect(0);
    let steps = garden.steps("main");
    let told: Vec<&str> = steps.iter().map(|step| step.subject.as_str()).collect();
    assert_eq!(
        told[1..],
        [
            "task(main@T001@implement-fail): implement \"Grow T001\" (failed, attempt 1/5)",
            "task(main@T001@implement-pass): implement \"Grow T001\"",
            "task(main@T001@test-fail): tests fail for \"Grow T001\" (attempt 2/5)",
            "task(main@T001@implement-pass): implement \"Grow T001\"",
            "task(main@T001@test-pass): tests pass for \"Grow T001\"",
            "task(main@T001@review-rejected): review rejected for \"Grow T001\" (attempt 3/5)",
            "task(main@T001@implement-pass): implement \"Grow T001\"",
            "task(main@T001@test-pass): tests pass for \"Grow T001\"",
            "task(main@T001@review-approved): review approved for \"Grow T001\"",
            "task(main@T001@complete): complete \"Grow T001\"",
        ]
    );
    let retries: Vec<Option<&str>> = steps.iter().map(|step| step.trailer("Arborist-Retry")).collect();
    let counted =
        [None, Some("0"), Some("1"), Some("1"), Some("2"), Some("2"), Some("2"), Some("3"), Some("3"), Some("3"), None];
    assert_eq!(retries, counted);
    assert!(steps[1].body.starts_with("Runner error:\n"), "{}", steps[1].body);
    assert!(steps[1].body.contains("no model"), "{}", steps[1].body);
    let red = &steps[3];
    assert_eq!(
        red.body,
        "Test (unit) stderr (last 1000 chars):\nno good\n[exit 1]\n\nTest (unit) stdout (last 1000 chars):\nsaid"
    );
    let order: Vec<&str> = red.trailers.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(
        order,
        [
            "Arborist-Step",
            "Arborist-Test",
            "Arborist-Retry",
            "Arborist-Test-Log",
            "Arborist-Test-Type",
            "Arborist-Test-Runtime",
            "Pleach-Session",
            "Pleach-Tree"
        ]
    );
    let log = red.trailer("Arborist-Test-Log").unwrap();
    assert!(Regex::new(r"^logs/T001_test_\d{8}T\d{6}\.log$").unwrap().is_match(log), "{log}");
    assert_eq!(garden.file(&red.id, log), "=== unit stdout ===\nsaid\n=== unit stderr ===\nno good\n[exit 1]");
    assert_eq!(steps[6].body, "Review:\nThe name is wrong.\nREJECTED: the name");
    let results = [(1, "Arborist-Result"), (3, "Arborist-Test"), (6, "Arborist-Review")];
    let results = results.map(|(step, key)| steps[step].trailer(key).unwrap_or_default());
    assert_eq!(results, ["fail", "fail", "rejected"]);
    let done = steps.last().unwrap();
    assert!(done.body.starts_with("Completed after 4 attempt(s). Report: reports/T001_run_"), "{}", done.body);
}

#[test]
fn logs_and_reports_lie_beside_the_tree_and_say_everything() {
    let tree = Tree::of(&["T001"]).tests("T001", &["unit: true"]);
    let garden = Garden::new(&Tree::of(&["X"]));
    garden.commit("spec/task-tree.json", &tree.json());
    garden.gardener(&["--tree", "spec/task-tree.json"]).expect(0);
    let all = garden.env.git(&["ls-tree", "-r", "--name-only", "main", "spec/"]);
    let stamp = Regex::new(r"\d{8}T\d{6}").unwrap();
    let names = stamp.replace_all(&all, "[STAMP]").into_owned();
    assert_eq!(
        names.lines().collect::<Vec<_>>(),
        [
            "spec/logs/T001_implement_[STAMP].log",
            "spec/logs/T001_review_[STAMP].log",
            "spec/reports/T001_run_[STAMP].json",
            "spec/task-tree.json"
        ],
        "no log of tests that pass"
    );
    let log = garden.newest("main", "T001 review-approved").trailer("Arborist-Review-Log").unwrap().to_owned();
    assert_eq!(garden.file("main", &log), "=== stdout ===\nLooks right.\nAPPROVED\n=== stderr ===");
    let implement = all.lines().find(|path| path.contains("_implement_")).unwrap();
    assert_eq!(garden.file("main", implement), "=== stdout ===\nWrote T001.txt.\n=== stderr ===");
    let first = garden.newest("main", "T001 implement-pass").id;
    let with_first = garden.env.git(&["ls-tree", "-r", "--name-only", &first, "spec/logs/"]);
    assert_eq!(with_first, implement, "the log goes with its step");
    let report = all.lines().find(|path| path.contains("_run_")).unwrap();
    let report: Value = serde_json::from_str(&garden.file("main", report)).unwrap();
    assert_eq!(report["task_id"], "T001");
    assert_eq!(report["result"], "pass");
    assert_eq!(report["retries"], 0);
    assert_eq!(report["tested"], true);
}

#[test]
fn a_log_has_every_answer_and_its_stderr() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let reviews = "echo looking >&2; test $n = 1 && echo Hm. || echo APPROVED";
    garden.agent("echo a warning >&2; echo 1 > $task; echo Did it.", reviews);
    garden.gardener(&[]).expect(0);
    let review = garden.newest("main", "T001 review-approved").trailer("Arborist-Review-Log").unwrap().to_owned();
    let said =
        ["=== stdout ===\nHm.", "=== stderr ===\nlooking", "=== stdout ===\nAPPROVED", "=== stderr ===\nlooking"];
    assert_eq!(garden.file("main", &review), said.join("\n"));
    let logs = garden.env.git(&["ls-tree", "-r", "--name-only", "main", "logs/"]);
    let implement = logs.lines().find(|path| path.contains("_implement_")).unwrap();
    assert_eq!(garden.file("main", implement), "=== stdout ===\nDid it.\n=== stderr ===\na warning");
}

#[test]
fn directories_of_logs_and_reports_can_be_chosen() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.gardener(&["--log-dir", "said", "--report-dir", "out/done"]).expect(0);
    let done = garden.newest("main", "T001 complete");
    let report = done.trailer("Arborist-Report").unwrap();
    assert!(report.starts_with("out/done/T001_run_"), "{report}");
    garden.file("main", report);
    let review = garden.newest("main", "T001 review-approved");
    assert!(review.trailer("Arborist-Review-Log").unwrap().starts_with("said/T001_review_"));
}

/// Nobody reviews them, and they land also where a task is given up.
#[test]
fn only_pleach_writes_logs_and_reports() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    let forges = "for file in logs/T001_implement* reports/T001_*; do echo forged > $file; done; rm logs/T001_review*; \
                  echo any > logs/any_20200101T000000.log; echo any > logs/notes.txt";
    garden.agent(
        &format!("{WRITES}; test $task = T001 || {{ {forges}; }}"),
        "test $task = T001 && echo APPROVED || echo REJECTED",
    );
    garden.garden(&[]).expect(0);
    let own = |commit: &str| {
        let all = garden.env.git(&["ls-tree", "-r", commit, "logs", "reports"]);
        all.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    let before = own("main");
    let ran = garden.gardener(&["--max-retries", "1"]).expect(1);
    ran.warns("own-logs-restored");
    let after = own("main");
    assert!(before.is_subset(&after), "{before:#?}\n{after:#?}");
    assert!(after.difference(&before).all(|file| file.contains("/T002_")), "{after:#?}");
    // What is beside them is code like any other.
    let code = garden.env.git(&["ls-tree", "-r", "--name-only", "pleach/tasks/main/T002", "logs"]);
    assert!(code.contains("logs/notes.txt") && !code.contains("any_"), "{code}");
}

#[test]
fn logs_from_the_target_are_left_alone() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let gate = Gate::new(&garden.env, "agent");
    let merges = "git add -A; git commit -qm mine; git merge -q -m theirs main >&2 || exit 1";
    let forges = "echo forged > logs/T008_implement_20200101T000000.log";
    garden.agent(&format!("{WRITES}; {}; {merges}; {forges}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    let landed = ["logs/T009_implement_20200101T000000.log", "reports/T009_run_20200101T000000.json"];
    for path in landed {
        garden.commit(path, "of another task\n");
    }
    gate.open(held);
    let ran = run.end().expect(0);
    let step = garden.newest("main", "T001 implement-pass").id;
    for path in landed {
        assert_eq!(garden.file(&step, path), "of another task", "{ran}");
        assert_eq!(garden.file("main", path), "of another task", "{ran}");
        assert!(!ran.stderr.contains(&format!("`{path}`")), "{ran}");
    }
    // What comes from nowhere is undone all the same, and is the only one.
    let undone = "`logs/T008_implement_20200101T000000.log` was undone: by its name it is a log or a report";
    assert!(ran.stderr.contains(undone), "{ran}");
}

#[test]
fn logs_that_are_not_committed_are_named_by_their_record() {
    let tree = Tree::of(&["T001"]).tests("T001", &["unit: echo the-output; test -e mended"]);
    let garden = Garden::new(&tree);
    garden.configure("tree: {commit_logs: false}\n");
    garden.agent("test $n = 1 && echo 1 > one || { echo 1 > mended; echo Mended it.; }", APPROVES);
    garden.gardener(&[]).expect(0);
    let record = format!("refs/pleach/sessions/{}/main", garden.env.session());
    for (status, key) in [
        ("T001 test-fail", "Arborist-Test-Log"),
        ("T001 review-approved", "Arborist-Review-Log"),
        ("T001 complete", "Arborist-Report"),
    ] {
        assert_eq!(garden.newest("main", status).trailer(key), Some(record.as_str()), "{status}");
    }
    let files = garden.env.git(&["ls-tree", "-r", "--name-only", "main"]);
    assert_eq!(files.lines().collect::<Vec<_>>(), ["README.md", "mended", "one", "task-tree.json"]);
    assert!(garden.env.story().whole_text(&garden.env).contains("the-output"));
    // They are shown from there: the newest of the record, or that of a step's commit.
    let logs = garden.env.pleach(&["logs", "T001"]).expect(0);
    assert!(logs.stdout.contains(&record), "{logs}");
    assert_eq!(garden.env.pleach(&["logs", "--show", &record]).expect(0).stdout.trim(), "Looks right.\nAPPROVED");
    let red = garden.newest("main", "T001 test-fail");
    let shown = garden.env.pleach(&["logs", "--show", &red.id[..10]]).expect(0);
    assert_eq!(shown.stdout.trim_end(), "=== unit stdout ===\nthe-output\n=== unit stderr ===\n[exit 1]", "{shown}");
    assert_eq!(logs.stdout.matches("T001  implement-pass").count(), 2, "{logs}");
    let written = garden.newest("main", "T001 implement-pass");
    let shown = garden.env.pleach(&["logs", "--show", &written.id[..10]]).expect(0);
    assert_eq!(shown.stdout.trim(), "Mended it.", "{shown}");
    // What is listed for a task is what can be asked for.
    let inspected = garden.env.pleach(&["inspect", "T001"]).expect(0).stdout;
    let (_, listed) = inspected.split_once("--show FILE` prints them:\n").expect("a list");
    let session = garden.env.session();
    let rows: Vec<(&str, &str)> = listed.lines().filter_map(|line| line.trim().split_once("  ")).collect();
    let steps: Vec<String> = ["implement-pass", "test-fail", "implement-pass", "review-approved"]
        .map(|step| format!("{step}, in the record of {session}"))
        .into();
    assert_eq!(rows.iter().map(|(_, what)| *what).collect::<Vec<_>>(), steps, "{inspected}");
    let said: Vec<String> =
        rows.iter().map(|(name, _)| garden.env.pleach(&["logs", "T001", "--show", name]).expect(0).stdout).collect();
    assert!(said[1].contains("the-output") && said[2].trim() == "Mended it.", "{said:?}");
    let several = garden.env.pleach(&["logs", "--show", "main"]).expect(2);
    several.fails_with("log-ambiguous").naming("`main`");
    assert!(several.stderr.contains(rows[1].0), "{several}");
    let reports = garden.env.pleach(&["reports"]).expect(0);
    assert!(reports.stdout.contains("T001  pass           2"), "{reports}");
    let reports = garden.env.pleach(&["reports", "--json"]).expect(0);
    let reports: serde_json::Value = serde_json::from_str(&reports.stdout).expect("JSON");
    let report = &reports["reports"][0];
    assert_eq!((report["path"].as_str(), report["report"]["attempts"].as_u64()), (Some(record.as_str()), Some(2)));
    assert_eq!((&report["report"]["result"], &report["report"]["task_id"]), (&"pass".into(), &"T001".into()));
    garden.env.git(&["update-ref", "-d", &record]);
    let gone = garden.env.pleach(&["logs", "--show", &record]).expect(2);
    gone.fails_with("no-such-log");
}

#[test]
fn logs_are_committed_where_their_directory_is_tracked() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.configure("tree: {commit_logs: auto}\n");
    let files = || garden.env.git(&["ls-tree", "-r", "--name-only", "main"]);
    garden.garden(&[]).expect(0);
    assert_eq!(files(), "README.md\nT001.txt\ntask-tree.json");
    let record = format!("refs/pleach/sessions/{}/main", garden.env.session());
    assert_eq!(garden.newest("main", "T001 complete").trailer("Arborist-Report"), Some(record.as_str()));
    let reports = garden.env.pleach(&["--json", "reports", "T001"]).expect(0).json();
    assert_eq!(reports["reports"][0]["report"]["result"], "pass");
    assert!(garden.env.pleach(&["logs", "T001"]).expect(0).stdout.contains(&record));
    let exported = garden.env.pleach(&["export", "--format", "md", "-"]).expect(0).stdout;
    assert!(exported.contains("Looks right."), "{exported}");
    garden.commit("logs/.gitkeep", "");
    garden.garden(&[]).expect(0);
    let logs = files().lines().filter(|path| path.starts_with("logs/T002_")).count();
    assert_eq!((logs, files().contains("reports/")), (2, false), "each for itself: {}", files());
    assert!(garden.newest("main", "T002 review-approved").trailer("Arborist-Review-Log").unwrap().starts_with("logs/"));
}

#[test]
fn ignored_logs_are_committed_all_the_same() {
    let tree = Tree::of(&["T001"]).tests("T001", &["unit: echo noise > build.log; test -e mended"]);
    let garden = Garden::new(&tree);
    garden.commit(".gitignore", "*.log\n*.json\n");
    garden.agent("test $n = 1 && echo 1 > one || echo 1 > mended", APPROVES);
    garden.gardener(&[]).expect(0);
    let red = garden.newest("main", "T001 test-fail");
    assert!(garden.file("main", red.trailer("Arborist-Test-Log").unwrap()).starts_with("=== unit stdout ==="));
    let done = garden.newest("main", "T001 complete");
    assert!(garden.file("main", done.trailer("Arborist-Report").unwrap()).contains("\"task_id\": \"T001\""));
    assert!(!garden.env.git(&["ls-tree", "-r", "--name-only", "main"]).contains("build.log"));
    let kept = garden.refs("refs/pleach/keep/");
    assert!(kept.is_empty(), "what is ignored is no change of a test: {kept:?}");
}

#[test]
fn quotes_and_newlines_in_names_fit_one_line() {
    let name = "Say \"hello\"\nto everybody who has ever been to the old harbour town";
    let tree = Tree::of(&["T001"]).with("T001", "name", name.into());
    let garden = Garden::new(&tree);
    garden.gardener(&[]).expect(0);
    let shown = "\"Say \"hello\" to everybody who has ever been to t...\"";
    assert_eq!(garden.newest("main", "T001 complete").subject, format!("task(main@T001@complete): complete {shown}"));
    assert_eq!(garden.completed(), ["T001"]);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001"], "it is known to be complete");
    let prompt = garden.asked("T001", "implement", 1);
    assert!(prompt.starts_with(&format!("Implement task T001: {}\n", name.replace('\n', " "))), "{prompt}");
}

#[test]
fn prompts_state_the_task_and_its_checks() {
    let tree = Tree::of(&["T001"]).tests("T001", &["setup: true", "unit: test -e T001.txt"]);
    let garden = Garden::new(&tree);
    garden.agent(WRITES, APPROVES);
    garden.gardener(&[]).expect(0);
    let asked = garden.asked("T001", "implement", 1);
    let bounds = asked.strip_prefix(
        "Implement task T001: Grow T001\n\nDescription: Make T001 grow.\n\n\
         Work in the current directory. Make all necessary file changes.\n\n\
         The work is checked with:\n- unit: test -e T001.txt\n",
    );
    let bounds = bounds.unwrap_or_else(|| panic!("{asked}"));
    assert!(bounds.is_empty() || bounds.starts_with("\nYou run in a sandbox: "), "{asked}");
    let review = garden.asked("T001", "review", 1);
    assert!(review.starts_with("Review the changes for task T001: Grow T001\n"), "{review}");
    assert!(review.contains("Diff:\ndiff --git a/T001.txt b/T001.txt\n"), "{review}");
    assert!(review.contains("+T001 1\n"), "{review}");
    assert!(!review.contains("_implement_"), "pleach's own files are nobody's work: {review}");
    assert!(review.contains("Reply APPROVED if the code is correct, or REJECTED with reasons."), "{review}");
}

#[test]
fn a_review_sees_the_whole_diff_up_to_a_limit() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent(
        "echo $n > part$n; test $n = 2 && for i in $(seq 2000); do echo line $i; done > long; true",
        "test $n = 1 && echo 'REJECTED: more' || echo APPROVED",
    );
    garden.gardener(&[]).expect(0);
    let second = garden.asked("T001", "review", 2);
    assert!(second.contains(" part1 ") && second.contains(" part2 ") && second.contains(" long "), "{second}");
    let (_, diff) = second.split_once("\nDiff:\n").expect("a diff");
    let (shown, _) = diff.split_once("\n[...truncated: ").unwrap_or_else(|| panic!("{second}"));
    assert_eq!(shown.chars().count(), 8_000);
    assert!(second.chars().count() < 12_000, "{}", second.len());
}

/// Commits files as a step, onto the target itself, as Arborist does.
fn step_of_arborist(garden: &Garden, files: &[(&str, &str)], status: &str, facts: &str) {
    for (path, content) in files {
        garden.env.write(garden.env.repo_path().join(path), content);
        garden.env.git(&["add", path]);
    }
    // Two of one message in one second would count as one.
    let names: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
    let message = format!("task(main@{status}): a step {}\n\n{facts}\n", names.join(" "));
    garden.env.git(&["commit", "--quiet", "--allow-empty", "-m", &message]);
}

const IMPLEMENTED: &str = "Arborist-Step: implement\nArborist-Result: pass\nArborist-Retry: 0";

#[test]
fn a_review_sees_another_programs_work_on_the_target() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    let lines = |first: &str, last: &str| format!("{first}\n{}{last}\n", "between\n".repeat(9));
    garden.commit("shared", &lines("first", "last"));
    let done = "Arborist-Step: complete\nArborist-Result: pass";
    step_of_arborist(&garden, &[("early", "1\n")], "T001@implement-pass", IMPLEMENTED);
    step_of_arborist(&garden, &[], "T001@reset", "Arborist-Step: reset\nArborist-Result: pass");
    step_of_arborist(&garden, &[("a", "1\n"), ("shared", &lines("mine", "last"))], "T001@implement-pass", IMPLEMENTED);
    step_of_arborist(&garden, &[("other", "1\n"), ("shared", &lines("mine", "theirs"))], "T002@complete", done);
    garden.commit("by-hand", "1\n");
    let rejected = "Arborist-Step: review\nArborist-Review: rejected\nArborist-Retry: 0";
    step_of_arborist(&garden, &[], "T001@review-rejected", rejected);
    garden.garden(&[]).expect(0);
    let asked = garden.asked("T001", "review", 1);
    for shown in ["+++ b/a\n", " a ", "+++ b/T001.txt\n", "-first\n+mine\n"] {
        assert!(asked.contains(shown), "{shown}: {asked}");
    }
    for other in ["other", "by-hand", "theirs", "early"] {
        assert!(!asked.contains(other), "{other}: {asked}");
    }
}

/// An attempt of Arborist's that was tested and turned down.
fn rejected_by_arborist(garden: &Garden, retry: usize) {
    let at = |facts: &str| format!("{facts}\nArborist-Retry: {retry}");
    let implemented = at("Arborist-Step: implement\nArborist-Result: pass");
    step_of_arborist(garden, &[("code.txt", &format!("{retry}\n"))], "T001@implement-pass", &implemented);
    let tested = at("Arborist-Step: test\nArborist-Test: pass\nArborist-Test-Type: unit");
    step_of_arborist(garden, &[], "T001@test-pass", &tested);
    step_of_arborist(garden, &[], "T001@review-rejected", &at("Arborist-Step: review\nArborist-Review: rejected"));
}

#[test]
fn a_review_sees_another_programs_work_before_giving_up() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    (0..2).for_each(|retry| rejected_by_arborist(&garden, retry));
    step_of_arborist(&garden, &[], "T001@failed", "Arborist-Step: complete\nArborist-Result: fail");
    let ran = garden.gardener(&["--retry-failed"]).expect(0);
    let asked = garden.asked("T001", "review", 1);
    assert!(asked.contains("+++ b/code.txt\n") && asked.contains("+++ b/T001.txt\n"), "{asked}");
    // What was done is on the target.
    ran.does_not_warn("code-conflicts");
    ran.does_not_warn("code-missing");
}

#[test]
fn a_review_sees_another_programs_work_after_pleach_gave_up() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    rejected_by_arborist(&garden, 0);
    garden.gardener(&["--max-retries", "1"]).expect(1);
    assert_eq!(garden.times_asked("T001", "implement"), 0, "its budget was used up");
    garden.env.git(&["branch", "-D", "pleach/tasks/main/T001"]);
    let ran = garden.gardener(&["--retry-failed"]).expect(0);
    let asked = garden.asked("T001", "review", 1);
    assert!(asked.contains("+++ b/code.txt\n") && asked.contains("+++ b/T001.txt\n"), "{asked}");
    // What was done is on the target.
    ran.does_not_warn("code-conflicts");
    ran.does_not_warn("code-missing");
}

#[test]
fn a_review_sees_another_programs_work_with_nothing_left() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.agent("echo 'All done.'", APPROVES);
    step_of_arborist(&garden, &[("a", "1\n")], "T001@implement-pass", IMPLEMENTED);
    let tested = "Arborist-Step: test\nArborist-Test: pass\nArborist-Retry: 0\nArborist-Test-Type: unit";
    step_of_arborist(&garden, &[], "T001@test-pass", tested);
    garden.garden(&[]).expect(0);
    let asked = garden.asked("T001", "review", 1);
    assert!(asked.contains("+++ b/a\n"), "{asked}");
}

#[test]
fn missing_test_facts_are_not_invented() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let tested = "Arborist-Step: test\nArborist-Test: fail\nArborist-Retry: 0\nArborist-Test-Type: unit";
    step_of_arborist(&garden, &[("a", "1\n")], "T001@test-fail", tested);
    let counted = format!("{tested}\nArborist-Test-Passed: 2\nArborist-Test-Failed: 1");
    step_of_arborist(&garden, &[("b", "1\n")], "T001@test-fail", &counted);
    // Once as it is read, once as it is kept.
    for _ in 0..2 {
        let steps = garden.env.pleach(&["--json", "inspect", "T001"]).expect(0).json()["steps"].clone();
        for step in [&steps[0], &steps[1]] {
            assert_eq!(
                (&step["test"]["type"], &step["test"]["runtime"]),
                (&"unit".into(), &serde_json::Value::Null),
                "{step}"
            );
        }
        let ran = garden.env.pleach(&["inspect", "T001"]).expect(0);
        assert!(ran.stdout.contains("2 passed, 1 failed") && !ran.stdout.contains("0ms"), "{ran}");
    }
}

#[test]
fn a_review_sees_all_changes_of_a_shared_file() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.commit("shared", "first\n");
    step_of_arborist(&garden, &[("shared", "mine\n"), ("a", "1\n")], "T001@implement-pass", IMPLEMENTED);
    garden.commit("shared", "theirs\n");
    garden.garden(&[]).expect(0);
    let asked = garden.asked("T001", "review", 1);
    assert!(asked.contains("-first\n+theirs\n") && asked.contains("+++ b/a\n"), "{asked}");
}

#[test]
fn a_second_attempt_tells_the_tasks_whole_history() {
    let test = "unit: test -e mended && echo '10 passed in 2.5s' || { echo '1 failed, 8 passed in 2.1s'; exit 1; }";
    let garden = Garden::new(&Tree::of(&["T123"]).tests("T123", &[test]));
    garden.agent("test $n = 1 && echo 1 > one || echo 1 > mended", APPROVES);
    garden.gardener(&[]).expect(0);
    let steps = garden.steps("main");
    let facts = |at: usize, keys: &[&str]| -> Vec<String> {
        keys.iter().filter_map(|key| steps[at].trailer(&format!("Arborist-{key}")).map(str::to_owned)).collect()
    };
    let tested = ["Test", "Retry", "Test-Passed", "Test-Failed", "Test-Skipped"];
    assert_eq!(facts(1, &["Step", "Result", "Retry"]), ["implement", "pass", "0"]);
    assert_eq!(facts(2, &tested), ["fail", "0", "8", "1", "0"]);
    assert!(steps[2].trailer("Arborist-Test-Log").is_some_and(|log| log.starts_with("logs/T123_test_")));
    assert_eq!(facts(3, &["Step", "Result", "Retry"]), ["implement", "pass", "1"]);
    assert_eq!(facts(4, &tested), ["pass", "1", "10", "0", "0"]);
    assert_eq!(facts(5, &["Step", "Review", "Retry"]), ["review", "approved", "1"]);
    assert_eq!(facts(6, &["Step", "Result"]), ["complete", "pass"]);
    assert!(steps[6].body.starts_with("Completed after 2 attempt(s). Report: reports/T123_run_"), "{}", steps[6].body);
    assert_eq!(steps.len(), 7);
}

#[test]
fn git_finds_the_steps_of_tasks_and_branches() {
    let garden = Garden::new(&Tree::of(&["T001", "T0010"]));
    garden.gardener(&[]).expect(0);
    garden.switch_to_new("feature/my-branch");
    garden.gardener(&[]).expect(0);
    let found = |text: &str| {
        let all = garden.env.git(&["log", "--fixed-strings", "--format=%s", &format!("--grep={text}")]);
        all.lines().count()
    };
    assert_eq!(found("task(feature/my-branch@T001@"), 3);
    assert_eq!(found("task(feature/my-branch@"), 7, "six steps and the start of the run");
    assert_eq!(found("task(main@"), 7);
}

#[test]
fn files_of_the_project_beside_logs_and_reports_are_code() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: false"]));
    garden.commit("reports/weekly.py", "1\n");
    garden.commit("logs/old.log", "1\n");
    garden.agent("echo $n > reports/weekly.py; echo $n > logs/mine.log", APPROVES);
    garden.gardener(&["--max-retries", "3"]).expect(1);
    assert!(
        garden.newest("main", "T001 failed").subject.ends_with("after 3 retries"),
        "each attempt changed something"
    );
    assert_eq!(garden.file("main", "reports/weekly.py"), "1", "code of a failed task is not on the target");
    let logs = garden.env.git(&["ls-tree", "--name-only", "main", "logs/"]);
    assert!(!logs.contains("mine.log") && logs.contains("T001_test_"), "{logs}");
    garden.agent("echo good > reports/weekly.py", APPROVES);
    garden.plant(&Tree::of(&["T001"]));
    garden.gardener(&["--retry-failed"]).expect(0);
    let asked = garden.asked("T001", "review", 1);
    assert!(asked.contains("reports/weekly.py") && !asked.contains("T001_implement_"), "{asked}");
}
