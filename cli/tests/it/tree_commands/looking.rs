//! `status`, `inspect`, `logs` and `reports`: what a tree and its tasks look like, before, in the middle and after.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use super::{AGENT, TREE, pleach, world};
use crate::support::TestEnv;

/// The tree of a status as JSON.
fn tree(env: &TestEnv) -> Value {
    env.pleach(&["--json", "status"]).expect(0).json()["trees"][0].clone()
}

#[test]
fn a_tree_is_shown_from_its_beginning_to_its_end() {
    let env = world(TREE, AGENT);
    let ran = env.pleach(&["status"]).expect(0);
    insta::assert_snapshot!(ran, @r"
    exit: 0
    --- stdout
    task-tree.json on main: 0 of 3 tasks done
      phase1 Ground  [░░░░░░░░░░░░░░░░░░░░] 0/2
        2 pending
      phase2 Walls   [░░░░░░░░░░░░░░░░░░░░] 0/1  tests have not run
        1 pending
      next: work T001, attempt 1 of 5
    ");
    pleach(&env, 0, &["garden"]);
    pleach(&env, 0, &["garden"]);
    let ran = env.pleach(&["status"]).expect(0);
    insta::assert_snapshot!(ran, @r"
    exit: 0
    --- stdout
    task-tree.json on main: 2 of 3 tasks done, 1 untested
      phase1 Ground  [████████████████████] 2/2
        T002 Add two: complete, untested
      phase2 Walls   [░░░░░░░░░░░░░░░░░░░░] 0/1  tests have not run
        1 pending
      next: work T003, attempt 1 of 5

    2 sessions of tasks that have ended; -v lists them
    ");
    let ran = env.pleach(&["-v", "status", "--tree", "task-tree.json"]).expect(0);
    assert!(ran.stdout.contains("    T001 Add one: complete\n"), "{ran}");
    assert!(ran.stdout.contains("  T001 Add one  landed"), "with -v the sessions of landed tasks are listed: {ran}");
    pleach(&env, 0, &["gardener"]);
    let ran = env.pleach(&["status"]).expect(0);
    insta::assert_snapshot!(ran, @r"
    exit: 0
    --- stdout
    task-tree.json on main: 3 of 3 tasks done, 2 untested
      phase1 Ground  [████████████████████] 2/2
      phase2 Walls   [████████████████████] 1/1  tests pass

    4 sessions of tasks that have ended; -v lists them
    ");
}

#[test]
fn a_status_for_programs_is_one_document() {
    let env = world(TREE, AGENT);
    pleach(&env, 0, &["garden"]);
    let document = env.pleach(&["--json", "status"]).expect(0).json();
    assert_eq!((&document["target"], &document["worked_by"]), (&json!("main"), &Value::Null));
    assert_eq!((&document["landed_sessions"], &document["sessions"]), (&json!(1), &json!([])));
    let tree = &document["trees"][0];
    assert_eq!(tree["counts"]["complete"], 1);
    assert_eq!((&tree["next"]["is"], &tree["next"]["task"]), (&json!("work"), &json!("T002")));
    let statuses: Vec<&str> =
        tree["tasks"].as_array().unwrap().iter().filter_map(|task| task["status"].as_str()).collect();
    assert_eq!(statuses, ["complete", "pending", "pending"]);
    assert_eq!(tree["gates"], json!({"phase2": "have not run"}));
    assert_eq!(tree["phases"][0]["counts"]["pending"], 1);
}

#[test]
fn an_id_picks_a_task_or_a_session() {
    let env = world(TREE, AGENT);
    pleach(&env, 0, &["garden"]);
    let session = env.session();
    let ran = env.pleach(&["status", &session]).expect(0);
    assert!(ran.stdout.contains("T001 Add one (task-tree.json on main)"), "{ran}");
    assert!(!ran.stdout.contains("git merge") && !ran.stdout.contains("resume"), "it has landed: {ran}");
    assert_eq!(env.pleach(&["status", "T001"]).expect(0).stdout, env.pleach(&["inspect", "T001"]).expect(0).stdout);
    let ran = env.pleach(&["status", "T009"]).expect(2);
    ran.fails_with("no-such-session").naming("`T009`");
}

#[test]
fn what_blocks_a_tree_is_reported() {
    let env = world(TREE, "#!/bin/sh\ncase $(cat) in Review*) echo 'REJECTED: no' ;; *) date +%N >> one.txt ;; esac\n");
    pleach(&env, 1, &["gardener", "--max-retries", "2"]);
    let ran = env.pleach(&["status"]).expect(0);
    assert!(ran.stdout.contains("T001 Add one: failed ") && ran.waits("T002") == ("T001", "failed"), "{ran}");
    let next = &tree(&env)["next"];
    assert_eq!((&next["is"], &next["blocked"][0]["waits_for"][0]["on"]), (&json!("stalled"), &json!("T001")));
    let ran = env.pleach(&["inspect", "T001"]).expect(0);
    assert!(ran.stdout.contains("Feedback for the next attempt:\n  a review rejected it:\n    REJECTED: no"), "{ran}");
    assert_eq!(ran.stdout.lines().filter(|line| line.starts_with("review-rejected")).count(), 2, "{ran}");
    assert!(ran.stdout.contains("(review rejected: no)"), "{ran}");
}

#[test]
fn a_head_without_trees_says_why() {
    let env = world(TREE, AGENT);
    env.git(&["switch", "--quiet", "--detach"]);
    insta::assert_snapshot!(env.pleach(&["status"]), @r#"
    exit: 0
    --- stdout
    HEAD is detached, so no tree is shown; `git switch BRANCH` first to see those of a branch.

    There is no session in this repository yet; `pleach run "Fix the failing test"` starts one.
    "#);
    insta::assert_snapshot!(env.pleach(&["status", "T001"]), @"
    exit: 2
    --- stderr
    error[no-such-session]: there is no session `T001` in this repository
    hint: HEAD is detached, so no task is known; `git switch BRANCH` first; `pleach status` lists the sessions
    ");
    assert_eq!(env.pleach(&["--json", "status"]).expect(0).json()["target"], Value::Null);
    env.git(&["switch", "--quiet", "main"]);
    let ran = env.pleach(&["status"]).expect(0);
    assert!(!ran.stdout.contains("detached"), "{ran}");
    env.git(&["switch", "--quiet", "--create", "pleach/phase/main/phase1"]);
    let ran = env.pleach(&["status"]).expect(0);
    let why = "`pleach/phase/main/phase1` gathers work for `main`, so no tree is shown; `git switch main` first";
    assert!(ran.stdout.starts_with(why), "{ran}");
}

#[test]
fn the_trees_of_a_branch_are_found_wherever_they_are() {
    let env = world(TREE, AGENT);
    env.git(&["mv", "task-tree.json", "elsewhere.json"]);
    env.write("repo/specs/a/task-tree.json", r#"{"nodes": {"A1": {"id": "A1", "name": "First"}}}"#);
    env.write("repo/specs/b/task-tree.json", r#"{"nodes": {"A1": {"id": "A1"}}}"#);
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Move"]);
    let paths = || -> Vec<String> {
        let document = env.pleach(&["--json", "status"]).expect(2).json();
        let trees = document["trees"].as_array().unwrap().iter();
        trees.map(|tree| tree["tree"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(paths(), ["specs/a/task-tree.json", "specs/b/task-tree.json"]);
    let ran = env.pleach(&["status"]).expect(2);
    assert!(ran.stdout.contains("specs/b/task-tree.json` "), "a broken one is told: {ran}");
    pleach(&env, 0, &["garden", "--tree", "elsewhere.json"]);
    assert_eq!(paths(), ["specs/a/task-tree.json", "elsewhere.json", "specs/b/task-tree.json"]);
    assert!(env.pleach(&["inspect", "T001"]).expect(0).stdout.contains("elsewhere.json "));
    env.git(&["switch", "--quiet", "--detach"]);
    let ran = env.pleach(&["status"]).expect(0);
    assert!(!ran.stdout.contains("specs/"), "a detached HEAD has no tasks, and its sessions are still shown: {ran}");
    let ran = env.pleach(&["status", "--tree", "elsewhere.json"]).expect(2);
    ran.fails_with("detached-head").naming("HEAD is detached, so there is no branch to land on");
    env.pleach(&["inspect", "T001"]).expect(2).fails_with("detached-head");
}

#[test]
fn a_tree_is_reported_gone_only_when_necessary() {
    let env = world(TREE, AGENT);
    std::fs::create_dir_all(env.repo_path().join("plans")).unwrap();
    env.git(&["mv", "task-tree.json", "plans/its.json"]);
    env.git(&["commit", "--quiet", "-m", "Move"]);
    env.write("out/mine.json", TREE);
    pleach(&env, 0, &["garden", "--tree", "../out/mine.json"]);
    let ran = env.pleach(&["status"]).expect(0);
    let outside = "mine.json: it was worked here, and it is outside the repository or gone; name it with --tree\n";
    assert!(ran.stdout.contains(outside), "{ran}");
    let named = env.pleach(&["status", "--tree", "../out/mine.json"]).expect(0);
    assert!(named.tasks_done() == (1, 3) && named.stdout.contains("mine.json "), "{named}");
    pleach(&env, 0, &["garden", "--tree", "plans/its.json"]);
    env.git(&["rm", "--quiet", "plans/its.json"]);
    let ran = env.pleach(&["status"]).expect(0);
    assert!(ran.stdout.contains("plans/its.json: "), "{ran}");
}

#[test]
fn a_task_is_shown_with_its_steps_logs_and_report() {
    // The first try forgets the file, and the test says so.
    let agent = AGENT.replace(
        "echo 1 > one.txt",
        "case $prompt in *'Previous test failure'*) echo 1 > one.txt ;; esac; echo x >> log.txt",
    );
    let tree = TREE.replace(
        "test -f one.txt",
        "test -f one.txt || { echo 'no one' >&2; echo '==== 1 failed, 2 passed in 0.01s ===='; exit 1; }",
    );
    let env = world(&tree, &agent);
    env.write("config/pleach/config.yaml", "tree: {commit_logs: true}\n");
    pleach(&env, 0, &["garden"]);
    let ran = env.pleach(&["inspect", "T001"]).expect(0);
    for part in ["T001 Add one", "complete", "implement-pass", "test-fail", "2 passed, 1 failed in", "review-approved"]
    {
        assert!(ran.stdout.contains(part), "{part}: {ran}");
    }
    assert!(!ran.stdout.contains("will be told"), "it is complete: {ran}");
    let document = env.pleach(&["--json", "inspect", "T001"]).expect(0).json();
    let statuses: Vec<&str> =
        document["steps"].as_array().unwrap().iter().filter_map(|s| s["status"].as_str()).collect();
    assert_eq!(statuses, ["implement-pass", "test-fail", "implement-pass", "test-pass", "review-approved", "complete"]);
    assert_eq!(document["steps"][1]["test"]["counts"], json!({"passed": 2, "failed": 1, "skipped": 0}));
    assert_eq!(document["attempts"], 2);

    let listed = env.pleach(&["--json", "logs"]).expect(0).json();
    let logs = listed["logs"].as_array().unwrap();
    let steps: Vec<&str> = logs.iter().filter_map(|log| log["step"].as_str()).collect();
    assert_eq!(steps, ["implement-pass", "test-fail", "implement-pass", "review-approved"]);
    let red = logs[1]["path"].as_str().unwrap();
    let shown = env.pleach(&["logs", "T001", "--show", red]).expect(0);
    assert!(shown.stdout.contains("=== unit stderr ===\nno one\n"), "{shown}");
    let name = red.rsplit('/').next().unwrap();
    assert_eq!(env.pleach(&["logs", "--show", name]).expect(0).stdout, shown.stdout);
    env.pleach(&["logs", "--show", "none.log"]).expect(2).fails_with("no-such-log");
    assert_eq!(env.pleach(&["--json", "logs", "T002"]).expect(0).json()["logs"], json!([]));

    let reports = env.pleach(&["--json", "reports", "T001"]).expect(0).json();
    assert_eq!(
        (&reports["reports"][0]["report"]["result"], &reports["reports"][0]["report"]["retries"]),
        (&json!("pass"), &json!(1))
    );
    let ran = env.pleach(&["reports"]).expect(0);
    assert!(ran.stdout.contains("T001  pass           2"), "{ran}");
}

/// The tasks and steps whose logs are listed.
fn logs(env: &TestEnv, code: i32, more: &[&str]) -> Vec<String> {
    let listed = env.pleach(&[&["--json", "logs"], more].concat()).expect(code).json();
    let word = |log: &Value| format!("{} {}", log["task"].as_str().unwrap(), log["step"].as_str().unwrap());
    listed["logs"].as_array().unwrap().iter().map(word).collect()
}

#[test]
fn logs_and_reports_are_there_without_the_tree() {
    let env = world(TREE, AGENT);
    env.write("config/pleach/config.yaml", "tree: {commit_logs: true}\n");
    pleach(&env, 0, &["garden"]);
    let all = ["T001 implement-pass", "T001 review-approved"];
    assert_eq!(logs(&env, 0, &[]), all);
    let reports = env.pleach(&["reports"]).expect(0).stdout;

    env.write("repo/task-tree.json", "{");
    assert_eq!(logs(&env, 2, &[]), all);
    let ran = env.pleach(&["logs"]).expect(2);
    assert!(ran.stdout.contains("T001  review-approved"), "{ran}");
    ran.warns("tree-unusable").naming("task-tree.json");
    let ran = env.pleach(&["reports"]).expect(2);
    assert_eq!(ran.stdout, reports);
    ran.warns("tree-unusable");
    env.pleach(&["logs", "--tree", "task-tree.json"]).expect(2).fails_with("tree-invalid");
    let ran = env.pleach(&["status", "T001"]).expect(2);
    ran.fails_with("no-such-session").naming("`T001`").naming("hint: `task-tree.json` ");

    std::fs::remove_file(env.repo_path().join("task-tree.json")).unwrap();
    assert_eq!(logs(&env, 0, &[]), all);
    assert_eq!(logs(&env, 0, &["T001"]), all);
    assert_eq!(env.pleach(&["reports", "T001"]).expect(0).stdout, reports);
    let path = env.pleach(&["--json", "logs"]).expect(0).json()["logs"][0]["path"].as_str().unwrap().to_owned();
    assert!(env.pleach(&["logs", "--show", &path]).expect(0).stdout.contains("one is there"));
    let ran = env.pleach(&["logs", "T002"]).expect(2);
    ran.fails_with("no-tree").naming("`T002`");
    let ran = env.pleach(&["status", "T001"]).expect(2);
    ran.fails_with("no-such-session").naming("hint: `task-tree.json` ");
}

#[test]
fn logs_of_a_tree_outside_are_there_without_naming_it() {
    let env = world(TREE, AGENT);
    env.write("out/plan.json", TREE);
    env.git(&["rm", "--quiet", "task-tree.json"]);
    env.git(&["commit", "--quiet", "-m", "Keep it elsewhere"]);
    pleach(&env, 0, &["garden", "--tree", "../out/plan.json"]);
    let all = ["T001 implement-pass", "T001 review-approved"];
    assert_eq!(logs(&env, 0, &[]), all);
    assert_eq!(logs(&env, 0, &["--tree", "../out/plan.json"]), all);
    // A tree of another name that has the same task has none of its logs.
    env.write("repo/specs/a/task-tree.json", TREE);
    assert_eq!(logs(&env, 0, &[]), all);
    assert_eq!(logs(&env, 0, &["--tree", "specs/a/task-tree.json"]), [""; 0]);
    env.write("repo/specs/b/task-tree.json", "{");
    assert_eq!(logs(&env, 2, &[]), all);
    assert_eq!(logs(&env, 0, &["T001"]), all, "nothing of it is in the broken one");
}

#[test]
fn logs_of_another_program_need_no_tree() {
    let env = world(TREE, AGENT);
    env.git(&["rm", "--quiet", "task-tree.json"]);
    env.write("repo/logs/red.log", "no one\n");
    env.git(&["add", "."]);
    let facts = "Arborist-Step: test\nArborist-Test: fail\nArborist-Retry: 0\nArborist-Test-Type: unit\n\
                 Arborist-Test-Log: logs/red.log";
    env.git(&["commit", "--quiet", "-m", &format!("task(main@T001@test-fail): tests fail\n\n{facts}\n")]);
    assert_eq!(logs(&env, 0, &[]), ["T001 test-fail"]);
    assert_eq!(env.pleach(&["logs", "T001", "--show", "red.log"]).expect(0).stdout, "no one\n");
    for tree in ["repo/specs/a/task-tree.json", "repo/specs/b/task-tree.json"] {
        env.write(tree, TREE);
    }
    assert_eq!(logs(&env, 0, &[]), ["T001 test-fail"], "what counts for both is one");
}

#[test]
fn a_log_name_of_two_trees_is_ambiguous() {
    let env = world(TREE, AGENT);
    for name in ["a", "b"] {
        env.write(format!("repo/specs/{name}/task-tree.json"), TREE);
        let log = format!("specs/{name}/logs/red.log");
        env.write(format!("repo/{log}"), format!("{name} is red\n"));
        env.git(&["add", "."]);
        let facts = format!(
            "Arborist-Step: test\nArborist-Test: fail\nArborist-Retry: 0\nArborist-Test-Type: unit\n\
             Arborist-Test-Log: {log}\nPleach-Tree: specs/{name}/task-tree.json"
        );
        env.git(&["commit", "--quiet", "-m", &format!("task(main@T001@test-fail): tests fail\n\n{facts}\n")]);
    }
    let ran = env.pleach(&["logs", "--show", "red.log"]).expect(2);
    ran.fails_with("log-ambiguous").naming("`red.log`");
    for name in ["a", "b"] {
        let path = format!("specs/{name}/logs/red.log");
        ran.fails_with("log-ambiguous").naming(format!("`{path}`"));
        assert_eq!(env.pleach(&["logs", "--show", &path]).expect(0).stdout, format!("{name} is red\n"));
        let tree = format!("specs/{name}/task-tree.json");
        let one = env.pleach(&["logs", "--tree", &tree, "--show", "red.log"]).expect(0);
        assert_eq!(one.stdout, format!("{name} is red\n"));
    }
}

#[test]
fn a_phase_shows_its_current_test_results() {
    let env = world(&TREE.replace("test -f three.txt", "test -f mended || { echo no-mended; exit 1; }"), AGENT);
    let phase = || env.pleach(&["--json", "inspect", "phase2"]).expect(0).json();
    let facts = |seen: &Value| (seen["status"].clone(), seen["tests"].clone(), seen["attempts"].clone());
    assert_eq!(facts(&phase()), (json!("pending"), json!("have not run"), json!(0)));
    pleach(&env, 1, &["gardener"]);
    let red = phase();
    assert_eq!(facts(&red), (json!("failed"), json!("fail"), json!(1)));
    assert!(red["feedback"][0]["text"].as_str().unwrap().contains("no-mended"), "{red}");
    let ran = env.pleach(&["inspect", "phase2"]).expect(0);
    assert!(ran.stdout.contains("Feedback for a task of it that is reset:\n  tests failed:\n"), "{ran}");
    env.write("repo/mended", "");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Mend it"]);
    pleach(&env, 0, &["gardener"]);
    let green = phase();
    assert_eq!(facts(&green), (json!("complete"), json!("pass"), json!(2)));
    assert_eq!((&green["in_budget"], &green["feedback"]), (&json!(2), &json!([])));
    let ran = env.pleach(&["inspect", "phase2"]).expect(0);
    assert!(!ran.stdout.contains("will be told"), "{ran}");
    let without_tests = env.pleach(&["--json", "inspect", "phase1"]).expect(0).json();
    assert_eq!(facts(&without_tests), (json!("complete"), Value::Null, json!(0)));
}

#[test]
fn a_branch_is_shown_for_the_tree_of_its_steps() {
    let env = world(TREE, AGENT);
    let settings = env.read("repo/pleach.yaml") + "tree: {delete_branches: false}\n";
    env.write("repo/pleach.yaml", settings);
    env.write("repo/openspec/changes/a/task-tree.json", TREE);
    pleach(&env, 0, &["garden"]);
    let branch = |more: &[&str]| {
        let seen = env.pleach(&[&["--json", "inspect", "T001"], more].concat()).expect(0).json();
        seen["branch"]["name"].clone()
    };
    let other = ["--tree", "openspec/changes/a/task-tree.json"];
    assert_eq!(branch(&["--tree", "task-tree.json"]), "pleach/tasks/main/T001");
    assert_eq!(branch(&other), Value::Null);
    let ran = env.pleach(&[&["inspect", "T001"], &other[..]].concat()).expect(0);
    assert!(!ran.stdout.contains("pleach/tasks"), "{ran}");
}

#[test]
fn a_branch_is_shown_before_its_first_step() {
    let (env, mut gardener) = super::sessions::hanging();
    let seen = env.pleach(&["--json", "inspect", "T001"]).expect(0).json();
    assert_eq!((&seen["branch"]["name"], &seen["steps"]), (&json!("pleach/tasks/main/T001"), &json!([])));
    env.write("repo/specs/a/task-tree.json", TREE);
    let other = env.pleach(&["--json", "inspect", "T001", "--tree", "specs/a/task-tree.json"]).expect(0).json();
    assert_eq!(other["branch"], Value::Null);
    gardener.kill().unwrap();
    gardener.wait().unwrap();
    env.assert_no_process_left();
}

#[test]
fn unknown_tasks_are_a_mistake_with_a_guess() {
    let env = world(TREE, AGENT);
    for command in ["inspect", "logs", "reports", "skip", "reset"] {
        let ran = env.pleach(&[command, "T0001"]).expect(2);
        ran.fails_with("no-such-task").naming("`T0001`").naming("`task-tree.json`").naming("`T001`");
        env.pleach(&[command, "T/1"]).expect(2);
    }
}

#[test]
fn a_watched_status_follows_a_run_to_its_end() {
    let gate = "#!/bin/sh\nprompt=$(cat)\nuntil [ -f ../go ] || [ -f GATE/go ]; do sleep 0.05; done\n";
    let env = world(TREE, AGENT);
    let gate = gate.replace("GATE", env.root().to_str().unwrap());
    let agent = AGENT.replace("#!/bin/sh\nprompt=$(cat)\n", &gate);
    env.write_program("agent.sh", &agent);
    let mut gardener = env.command(&["-y", "gardener"]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(gardener.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("T001 Add one begins")), "the first task is begun");
    let mut watched = env.command(&["--json", "status", "--watch"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut documents = BufReader::new(watched.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&documents.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["worked_by"]["process"], gardener.id());
    assert_eq!(first["trees"][0]["counts"]["complete"], 0);
    env.write("go", "");
    let last = documents.last().unwrap().unwrap();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!((&last["trees"][0]["counts"]["complete"], &last["worked_by"]), (&json!(3), &Value::Null));
    assert!(watched.wait().unwrap().success());
    said.for_each(drop);
    assert!(gardener.wait().unwrap().success());
}

#[test]
fn a_watched_status_ends_with_ctrl_c_as_done() {
    let env = world(TREE, AGENT);
    let mut watched = env.command(&["status", "--watch"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watched.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("task-tree.json on main: 0 of 3 tasks done"));
    env.git(&["commit", "--quiet", "--allow-empty", "-m", "x"]);
    env.program("kill", env.root()).args(["-INT", &watched.id().to_string()]).status().unwrap();
    assert_eq!(watched.wait().unwrap().code(), Some(0));
}

#[test]
fn a_task_not_in_one_tree_is_refused_alike() {
    let env = world(TREE, AGENT);
    env.git(&["rm", "--quiet", "task-tree.json"]);
    for tree in ["a", "b"] {
        env.write(format!("repo/specs/{tree}/task-tree.json"), TREE);
    }
    for command in ["logs", "inspect", "skip"] {
        let ran = env.pleach(&[command, "T001"]).expect(2);
        let both = "several trees have a task `T001`: `specs/a/task-tree.json`, `specs/b/task-tree.json`\n";
        ran.fails_with("task-ambiguous").naming("--tree");
        assert!(ran.stderr.contains(both), "{ran}");
        let ran = env.pleach(&[command, "T0001"]).expect(2);
        let none = "there is no task `T0001` in `specs/a/task-tree.json`, `specs/b/task-tree.json`\n";
        ran.fails_with("no-such-task").naming("`T001`");
        assert!(ran.stderr.contains(none), "{ran}");
    }
    std::fs::remove_dir_all(env.repo_path().join("specs")).unwrap();
    for command in ["logs", "inspect", "skip"] {
        let ran = env.pleach(&[command, "T001"]).expect(2);
        ran.fails_with("no-tree").naming("`T001`");
    }
}
