//! The sessions of tasks under the commands made for sessions.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::json;

use super::{AGENT, TREE, pleach, world};
use crate::support::TestEnv;

/// A gardener whose agent hangs in the first task until `go` is there.
pub(super) fn hanging() -> (TestEnv, Child) {
    let agent =
        AGENT.replace("echo 1 > one.txt;", "echo 1 > one.txt; [ -f GATE/go ] || { touch GATE/began; sleep 60; };");
    let env = world(TREE, AGENT);
    // It leaves word outside.
    env.unbound();
    env.write_program("agent.sh", &agent.replace("GATE", env.root().to_str().unwrap()));
    let mut gardener = env.command(&["-y", "gardener"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(gardener.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("T001 Add one begins")));
    std::thread::spawn(move || said.for_each(drop));
    env.wait_for_file("began");
    (env, gardener)
}

#[test]
fn a_tasks_session_is_resumed_by_the_gardener() {
    let (env, mut gardener) = hanging();
    gardener.kill().unwrap();
    gardener.wait().unwrap();
    env.assert_no_process_left();
    let session = env.session();
    let ran = env.pleach(&["resume", &session]).expect(2);
    ran.fails_with("session-of-task")
        .naming("T001")
        .naming("`task-tree.json`")
        .naming("`pleach gardener --tree task-tree.json`")
        .naming("`main`");
    env.write("go", "");
    pleach(&env, 0, &["gardener"]);
    assert_eq!(env.pleach(&["--json", "inspect", "T001"]).expect(0).json()["session"], json!(session));
}

#[test]
fn a_tasks_session_is_cancelled_running_or_not() {
    let (env, mut gardener) = hanging();
    let session = env.session();
    env.pleach(&["cancel", &session, "--grace", "0"]).expect(0);
    assert_eq!(gardener.wait().unwrap().code(), Some(1));
    env.assert_no_process_left();
    env.write("go", "");
    pleach(&env, 0, &["gardener"]);
    assert_ne!(env.pleach(&["--json", "inspect", "T001"]).expect(0).json()["session"], json!(session), "begun anew");
}

#[test]
fn removing_the_session_of_a_task_leaves_what_others_need() {
    let env = world(TREE, AGENT);
    env.write("repo/one.txt", "mine");
    pleach(&env, 5, &["garden"]);
    let session = env.session();
    let ran = env.pleach(&["rm", &session]).expect(1);
    ran.fails_with("removal-refused").naming("`pleach/tasks/main/T001`").naming("`pleach gardener`");
    std::fs::remove_file(env.repo_path().join("one.txt")).unwrap();
    pleach(&env, 0, &["garden"]);
    let copies = env.git(&["worktree", "list", "--porcelain"]);
    assert!(copies.contains("/tasks/main/main"), "{copies}");
    let ran = env.pleach(&["rm", &session]).expect(0);
    assert!(!ran.stdout.contains("worktree"), "{ran}");
    assert_eq!(env.git(&["worktree", "list", "--porcelain"]), copies, "the working copy of all tasks stays");
    let state = env.pleach(&["--json", "inspect", "T001"]).expect(0).json();
    assert_eq!((&state["status"], &state["landed"]), (&json!("complete"), &json!(true)), "the commits say it all");
    pleach(&env, 0, &["gardener"]);
}

#[test]
fn a_failed_task_keeps_its_branch_by_default() {
    let env = world(TREE, "#!/bin/sh\ncase $(cat) in Review*) echo 'REJECTED: no' ;; *) date +%N >> one.txt ;; esac\n");
    pleach(&env, 1, &["gardener", "--max-retries", "1"]);
    let session = env.session();
    env.pleach(&["rm", &session]).expect(1);
    assert!(env.git(&["branch", "--list", "pleach/tasks/main/T001"]).contains("T001"));
    let ran = env.pleach(&["rm", "--force", &session]).expect(0);
    assert!(ran.stdout.contains("refs/pleach/keep/"), "{ran}");
    assert_eq!(env.git(&["branch", "--list", "pleach/tasks/main/T001"]), "");
    assert_eq!(env.pleach(&["--json", "inspect", "T001"]).expect(0).json()["status"], "failed");
}

#[test]
fn a_step_commit_shows_its_step_and_turns() {
    let env = world(TREE, AGENT);
    pleach(&env, 0, &["garden"]);
    let session = env.session();
    let commit = env.git(&["log", "-1", "--format=%H", "--grep=@T001@implement-pass"]);
    let ran = env.pleach(&["show", &commit]).expect(0);
    assert!(ran.stdout.starts_with("step     task(main@T001@implement-pass): "), "{ran}");
    assert!(ran.stdout.contains("task     T001 Add one (task-tree.json on main)"), "{ran}");
    assert!(ran.stdout.contains(&format!("look     pleach status {session}")), "{ran}");
    assert!(ran.stdout.contains("── main.1 implement") && ran.stdout.contains("one is there"), "{ran}");
    assert!(ran.stdout.contains("── diff") && ran.stdout.contains("+++ b/one.txt"), "{ran}");
    let document = env.pleach(&["--json", "show", &commit]).expect(0).json();
    assert_eq!((&document["session"], &document["step"]), (&json!(session), &json!("implement")));
    assert_eq!((&document["task"]["id"], &document["turns"][0]["turn"]), (&json!("T001"), &json!("main.1")));
    let review = env.git(&["log", "-1", "--format=%H", "--grep=@T001@review-approved"]);
    let document = env.pleach(&["--json", "show", &review]).expect(0).json();
    assert_eq!(document["turns"].as_array().map(Vec::len), Some(1), "only its own: {document}");
    // The start of a run belongs to no session.
    let start = env.git(&["log", "-1", "--format=%H", "--grep=@@run-start"]);
    let ran = env.pleach(&["show", &start]).expect(2);
    ran.fails_with("no-such-turn");
    // The commit tells what it can when its record is gone.
    env.git(&["update-ref", "-d", &format!("refs/pleach/sessions/{session}/main")]);
    let ran = env.pleach(&["show", &commit]).expect(0);
    assert!(ran.stdout.contains("(its record is not in this repository)"), "{ran}");
}
