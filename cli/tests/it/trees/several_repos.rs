//! Trees whose tasks are in several repositories: each worked, landed and decided about where it belongs, phases tested
//! with the files of all.

use std::process::Stdio;

use serde_json::json;

use super::garden::{APPROVES, Garden, Tree, WRITES};

/// The settings of a workspace of two: `app`, which has the tree, and `web`.
const TWO: &str = "workspace: {repos: {app: {path: repo}, web: {path: web, branch_prefix: orchestra/}}}\n";

/// Tasks of `app` and `web` that need each other in turn.
fn tree() -> Tree {
    Tree::default().phase("P1", &["A1", "W1: A1", "A2: W1"]).with("W1", "repo", json!("web"))
}

fn garden(tree: &Tree) -> Garden {
    let garden = Garden::new(tree);
    garden.env.repo_at("web");
    garden.configure(TWO);
    garden
}

impl Garden {
    /// What the steps of the second repository say, oldest first.
    #[track_caller]
    fn told_in_web(&self) -> Vec<String> {
        let log =
            self.env.git_in(&self.env.web(), &["log", "--reverse", "--format=%s", "--grep=^Arborist-Step", "main"]);
        let inside = |line: &str| Some(line.split_once("): ")?.0.strip_prefix("task(main@")?.replace('@', " "));
        log.lines().filter_map(inside).map(|status| status.trim_start().to_owned()).collect()
    }

    #[track_caller]
    fn files_in_web(&self) -> String {
        self.env.git_in(&self.env.web(), &["ls-tree", "-r", "--name-only", "main"]).replace('\n', " ")
    }
}

#[test]
fn tasks_work_and_land_in_their_repositories() {
    let garden = garden(&Tree::default());
    let seen = garden.env.root().join("asked/seen");
    let look = format!("e2e: ls -d */*.txt > {0}; echo \"$PLEACH_REPOS\" >> {0}", seen.display());
    garden.plant(&tree().tests("P1", &[&look]));
    let shown = garden.env.pleach(&["gardener", "--dry-run"]).expect(0);
    assert!(shown.stdout.contains("next: work A1") && shown.stdout.contains("W1 Grow W1 (web)"), "{shown}");

    let ran = garden.env.pleach(&["-y", "--json", "gardener"]).expect(0);
    let events = ran.json_lines();
    let repos = |kind: &str| -> Vec<String> {
        let of = events.iter().filter(|event| event["type"] == format!("dev.orchestra.{kind}"));
        of.map(|event| format!("{} {}", event["data"]["task"], event["data"]["repo"]).replace('"', "")).collect()
    };
    assert_eq!(repos("TaskStarted"), ["A1 app", "W1 web", "A2 app", "P1 app"], "{ran}");
    assert_eq!(repos("TaskLanded"), repos("TaskStarted"));
    let web = garden.told_in_web();
    assert_eq!(web.first().map(String::as_str), Some("run-start"), "{web:?}");
    assert!(web.iter().skip(1).all(|step| step.starts_with("W1 ")) && web.last().unwrap() == "W1 complete", "{web:?}");
    assert_eq!(garden.completed(), ["A1", "A2"]);
    assert!(!garden.told("main").iter().any(|step| step.starts_with("W1")));
    assert_eq!(garden.files("main"), ["A1.txt", "A2.txt", "README.md", "task-tree.json"]);
    assert!(garden.files_in_web().starts_with("README.md W1.txt spec/logs/"), "{}", garden.files_in_web());
    // The tests of the phase see both, side by side.
    let seen = garden.env.read("asked/seen");
    let (files, repos) = seen.split_once("\n[").expect("files, then repositories");
    assert_eq!(files, "app/A1.txt\napp/A2.txt\nweb/W1.txt");
    let repos: serde_json::Value = serde_json::from_str(&format!("[{repos}")).unwrap();
    assert_eq!(
        (&repos[0]["name"], &repos[1]["name"], &repos[1]["branch"]),
        (&json!("app"), &json!("web"), &json!("main"))
    );
    assert_eq!(repos[1]["commit"], garden.env.web_at("main"));
    for repo in [garden.env.repo_path(), garden.env.web()] {
        let trees = garden.env.git_in(&repo, &["worktree", "list"]);
        assert!(!trees.contains("landing"), "{trees}");
    }
    garden.assert_in_order();

    // All commands find the task where it is.
    let status = garden.env.pleach(&["--json", "status"]).expect(0).json();
    let tasks = status["trees"][0]["tasks"].as_array().unwrap().iter();
    let tasks: Vec<_> = tasks.map(|task| format!("{} {} {}", task["id"], task["repo"], task["status"])).collect();
    assert_eq!(tasks, [r#""A1" "app" "complete""#, r#""W1" "web" "complete""#, r#""A2" "app" "complete""#]);
    assert_eq!(
        (&status["trees"][0]["gates"]["P1"], &status["trees"][0]["next"]["is"]),
        (&json!("pass"), &json!("done"))
    );
    let inspected = garden.env.pleach(&["--json", "inspect", "W1"]).expect(0).json();
    assert_eq!((&inspected["repo"], &inspected["status"]), (&json!("web"), &json!("complete")));
    let reports = garden.env.pleach(&["--json", "reports"]).expect(0).json();
    let reports: Vec<_> = reports["reports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|report| format!("{} {} {}", report["task"], report["repo"], report["report"]["result"]))
        .collect();
    assert!(reports.contains(&r#""W1" "web" "pass""#.to_owned()) && reports.len() == 3, "{reports:?}");
    let logs = garden.env.pleach(&["--json", "logs", "W1"]).expect(0).json();
    assert_eq!(logs["logs"][0]["repo"], "web");
    garden.env.pleach(&["logs", "W1", "--show", logs["logs"][0]["path"].as_str().unwrap()]).expect(0);

    let heads = [garden.env.git(&["rev-parse", "main"]), garden.env.web_at("main")];
    garden.gardener(&[]).expect(0);
    assert_eq!([garden.env.git(&["rev-parse", "main"]), garden.env.web_at("main")], heads);
}

#[test]
fn a_red_gate_over_repositories_is_green_after_a_reset() {
    let garden = garden(&tree().tests("P1", &["integration: grep -q 2 web/W1.txt"]));
    let ran = garden.gardener(&[]).expect(1);
    assert!(ran.stdout.contains("the tests of P1 fail on `main`"), "{ran}");
    assert_eq!(garden.told("main").last().unwrap(), "P1 test-fail");
    let reset = garden.env.pleach(&["--json", "reset", "W1"]).expect(0).json();
    assert_eq!((&reset["changed"], &reset["repo"]), (&json!(true), &json!("web")));
    assert_eq!(garden.told_in_web().last().unwrap(), "W1 reset");
    let status = garden.env.pleach(&["status"]).expect(0).stdout;
    assert!(status.contains("main of app, main of web") && status.contains("next: work W1"), "{status}");
    garden.gardener(&["--jobs", "2"]).expect(0);
    assert_eq!(garden.env.git_in(&garden.env.web(), &["show", "main:W1.txt"]), "W1 2");
    assert_eq!(garden.told("main").last().unwrap(), "P1 test-pass");
    assert_eq!(garden.completed(), ["A1", "A2"], "what was done in the other stays done");
}

#[test]
fn one_task_or_a_skip_in_another_repository() {
    let garden = garden(&tree().tests("P1", &["integration: test -f app/A2.txt"]));
    let stalled = garden.garden(&["--task", "W1"]).expect(1);
    assert!(stalled.stdout.contains("W1 waits for A1 (not done)"), "{stalled}");
    garden.garden(&[]).expect(0);
    assert_eq!((garden.completed(), garden.told_in_web()), (vec!["A1".to_owned()], Vec::new()));
    let skipped = garden.env.pleach(&["skip", "W1"]).expect(0);
    assert!(skipped.stdout.starts_with("skipped: W1 on `main` of web ("), "{skipped}");
    assert_eq!(garden.told_in_web(), ["run-start", "W1 skipped"]);
    assert_eq!(garden.env.pleach(&["--json", "skip", "W1"]).expect(0).json()["changed"], json!(false));
    let ran = garden.garden(&["--task", "A2"]).expect(0);
    assert!(ran.stdout.contains("done: A2"), "{ran}");
    assert_eq!(garden.told("main").last().unwrap(), "P1 test-pass");
    assert_eq!(garden.times_asked("W1", "implement"), 0);
    // Started again, nothing of before counts in either of them.
    garden.gardener(&["--fresh"]).expect(0);
    assert_eq!(garden.times_asked("W1", "implement"), 1);
    assert_eq!(garden.times_asked("A1", "implement"), 2);
}

#[test]
fn a_run_over_repositories_continues_after_a_kill() {
    // Before and after W1 lands, which is the fourth landing with the two starts of the run, and around its tests.
    for point in ["landing:before:4", "landing:after:4", "ref-swap:after:34", "object-write:before:60"] {
        let garden = garden(&tree().tests("P1", &["integration: test -f web/W1.txt"]));
        let ran = garden.env.command(&["-y", "gardener"]).env("PLEACH_CRASH", point).output().expect("pleach starts");
        assert!(!ran.status.success(), "the run never came to {point}: {ran:?}");
        garden.env.assert_no_process_left();
        garden.gardener(&[]).expect(0);
        assert_eq!(garden.completed(), ["A1", "A2"], "after dying at {point}");
        let done = garden.told_in_web().iter().filter(|step| *step == "W1 complete").count();
        assert_eq!(done, 1, "after dying at {point}");
        assert_eq!(garden.told("main").last().unwrap(), "P1 test-pass", "after dying at {point}");
    }
}

#[test]
fn nothing_is_left_of_tests_that_were_killed() {
    let garden = garden(&Tree::default());
    let root = garden.env.root().display().to_string();
    let once =
        format!("integration: test -f {root}/asked/in || {{ touch {root}/asked/in; sleep 60; }}; test -f web/W1.txt");
    garden.plant(&tree().tests("P1", &[&once]));
    let mut run = garden.env.command(&["-y", "-q", "gardener"]);
    let mut run = run.stderr(Stdio::null()).spawn().expect("pleach starts");
    garden.env.wait_for_file(garden.env.root().join("asked/in"));
    run.kill().and_then(|()| run.wait()).expect("it can be killed");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.told("main").last().unwrap(), "P1 test-pass");
    for repo in [garden.env.repo_path(), garden.env.web()] {
        let trees = garden.env.git_in(&repo, &["worktree", "list"]);
        assert!(!trees.contains("landing"), "{trees}");
    }
}

#[test]
fn a_failure_in_one_repository_leaves_others_waiting() {
    let garden = garden(&tree().leaf("A3", None).tests("W1", &["unit: false"]));
    garden.agent(WRITES, APPROVES);
    let ran = garden.gardener(&["--max-retries", "1", "--keep-going"]).expect(1);
    assert!(ran.stdout.contains("W1 failed after 1 attempt"), "{ran}");
    assert!(ran.stdout.contains("A2 waits for W1 (failed)"), "{ran}");
    assert_eq!(garden.completed(), ["A1", "A3"]);
    assert_eq!(garden.told_in_web().last().unwrap(), "W1 failed");
    let again = garden.gardener(&["--max-retries", "1"]).expect(1);
    assert!(again.stdout.contains("A2 waits for W1 (failed)"), "{again}");
}

#[test]
fn what_no_tree_over_repositories_can_be() {
    let garden = garden(&tree());
    let phase = garden.env.pleach(&["-y", "gardener", "--isolation", "phase"]).expect(2);
    phase.fails_with("phase-over-repos").naming("P1 has tasks in several repositories");
    garden.plant(&tree().with("W1", "repo", json!("api")));
    let unknown = garden.env.pleach(&["-y", "gardener"]).expect(2);
    unknown.fails_with("no-such-repo").naming("W1 is of the repository `api`, which the workspace does not have");
    // A tree that names its own repository alone is as one that names none.
    garden.plant(&Tree::of(&["A1"]).with("A1", "repo", json!("app")));
    garden.gardener(&[]).expect(0);
    let status = garden.env.pleach(&["--json", "status"]).expect(0).json();
    assert!(status["trees"][0]["tasks"][0].get("repo").is_none(), "{status}");
}
