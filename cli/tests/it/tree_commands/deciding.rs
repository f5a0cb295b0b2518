//! `skip` and `reset`: commits of their own, and what follows from them.

use serde_json::json;

use super::sessions::hanging;
use super::{AGENT, TREE, pleach, world};
use crate::support::TestEnv;

fn status(env: &TestEnv, task: &str) -> String {
    env.pleach(&["--json", "inspect", task]).expect(0).json()["status"].as_str().unwrap().to_owned()
}

#[test]
fn steps_of_unknown_tasks_start_no_run() {
    let env = world(TREE, AGENT);
    let says = |task: &str| {
        let step =
            format!("task(main@{task}@complete): complete \"N\"\n\nArborist-Step: complete\nArborist-Result: pass\n");
        env.git(&["commit", "--quiet", "--allow-empty", "-m", &step]);
        let dry = env.pleach(&["--json", "skip", "T002", "--dry-run"]).expect(0).json();
        let status = env.pleach(&["--json", "status"]).expect(0).json();
        (status["trees"][0]["begun"].clone(), dry["run_start"].is_null())
    };
    assert_eq!(says("X1"), (json!(false), false));
    assert_eq!(says("T001"), (json!(true), true));
}

#[test]
fn a_skipped_task_counts_as_complete() {
    let env = world(TREE, AGENT);
    let before = env.git(&["rev-parse", "HEAD^{tree}"]);
    let ran = env.pleach(&["skip", "T001", "--dry-run"]).expect(0);
    assert!(ran.stdout.contains("task(main@T001@skipped): skipped \"Add one\""), "{ran}");
    assert_eq!(env.git(&["log", "--oneline"]).lines().count(), 2, "a dry run writes nothing");
    let dry = env.pleach(&["--json", "skip", "T001", "--dry-run"]).expect(0).json();
    env.pleach(&["skip", "T001"]).expect(0);
    for (key, commit) in [("run_start", "HEAD~"), ("message", "HEAD")] {
        let message = env.git(&["log", "-1", "--format=%B", commit]);
        assert!(ran.stdout.contains(message.trim_end()), "it shows both: {ran}");
        assert_eq!(dry[key].as_str().unwrap().trim_end(), message.trim_end());
    }
    let dry = env.pleach(&["--json", "skip", "T002", "--dry-run"]).expect(0).json();
    assert_eq!(dry["run_start"], json!(null), "the run is begun: {dry}");
    let message = env.git(&["log", "-1", "--format=%B"]);
    assert_eq!(
        message.trim_end(),
        "task(main@T001@skipped): skipped \"Add one\"\n\nArborist-Step: complete\nArborist-Result: pass\n\
         Pleach-Skipped: true\nPleach-Tree: task-tree.json"
    );
    assert_eq!(env.git(&["log", "-1", "--skip=1", "--format=%s"]), "task(main@@run-start): run started");
    assert_eq!(env.git(&["rev-parse", "HEAD^{tree}"]), before, "no file changes");
    assert_eq!(env.git(&["log", "-1", "--format=%an <%ae>"]), "pleach <pleach@local>");
    assert!(env.pleach(&["skip", "T001"]).expect(0).stdout.contains("T001 is complete already"));
    pleach(&env, 0, &["gardener"]);
    assert!(!env.repo_path().join("one.txt").exists(), "nobody did it");
    assert!(env.repo_path().join("two.txt").exists(), "what waited for it was done");
    let ran = env.pleach(&["status"]).expect(0);
    assert_eq!(ran.tasks_done(), (3, 3), "{ran}");
}

#[test]
fn what_was_decided_last_counts_however_soon_it_follows() {
    let env = world(TREE, AGENT);
    for _ in 0..3 {
        env.pleach(&["skip", "T001"]).expect(0);
        assert_eq!(status(&env, "T001"), "complete");
        env.pleach(&["reset", "T001"]).expect(0);
        assert_eq!(status(&env, "T001"), "pending");
    }
}

#[test]
fn a_reset_task_is_redone_with_its_phases_feedback() {
    // The phase's tests want a word the first try does not know.
    let tree = TREE.replace("test -f three.txt", "grep better three.txt || { echo 'make it better' >&2; exit 1; }");
    let agent = AGENT.replace(
        "echo 3 > three.txt;",
        "case $prompt in *'make it better'*) echo better ;; *) echo 3 ;; esac > three.txt;",
    );
    let env = world(&tree, &agent);
    let ran = pleach(&env, 1, &["gardener"]);
    assert_eq!(ran.ended(), ("gate_red", "phase2"), "{ran}");
    assert!(ran.stdout.contains("`main`: make it better (exit 1)\n"), "{ran}");
    assert!(env.pleach(&["inspect", "phase2"]).expect(0).stdout.contains("1 of 1 task done, its tests fail"));
    pleach(&env, 1, &["gardener"]);
    let ran = env.pleach(&["reset", "T003"]).expect(0);
    assert!(ran.stdout.starts_with("reset: T003 on `main` ("), "{ran}");
    let message = env.git(&["log", "-1", "--format=%B"]);
    assert!(message.starts_with("task(main@T003@reset): reset \"Add three\"\n\n"), "{message}");
    assert!(message.contains("make it better"), "the gate's output goes along: {message}");
    assert!(message.trim_end().ends_with("Arborist-Step: reset\nPleach-Tree: task-tree.json"), "{message}");
    assert_eq!(status(&env, "T003"), "pending");
    let told = "tests failed:\n    === integration stdout ===\n    === integration stderr ===\n    make it better\n";
    assert!(env.pleach(&["inspect", "T003"]).expect(0).stdout.contains(told));
    assert!(env.pleach(&["reset", "T003"]).expect(0).stdout.contains("T003 is pending already"));
    pleach(&env, 0, &["gardener"]);
    assert_eq!(env.read("repo/three.txt"), "better\n");
    assert_eq!(env.pleach(&["--json", "inspect", "T003"]).expect(0).json()["attempts"], 2);
}

#[test]
fn a_decision_ends_the_session_that_was_in_the_middle() {
    let (env, mut gardener) = hanging();
    for command in ["skip", "reset"] {
        let ran = env.pleach(&["--json", command, "T001"]).expect(0);
        assert!(ran.json()["queued"].is_string(), "{ran}");
        env.pleach(&[command, "T001", "--dry-run"]).expect(0);
    }
    let ran = pleach(&env, 6, &["gardener"]);
    assert!(ran.stderr.contains(&format!("`kill {}`", gardener.id())), "{ran}");
    gardener.kill().unwrap();
    gardener.wait().unwrap();
    env.assert_no_process_left();
    let session = env.session();
    assert_eq!(
        env.pleach(&["--json", "status", &session]).expect(0).json()["go_on"],
        "pleach gardener --tree task-tree.json"
    );
    let ran = env.pleach(&["--json", "skip", "T001"]).expect(0);
    assert_eq!(ran.json()["cancelled_session"], json!(session));
    env.pleach(&["reset", "T001"]).expect(0);
    env.write("go", "");
    pleach(&env, 0, &["gardener"]);
    assert_eq!(status(&env, "T001"), "complete");
    assert_ne!(env.pleach(&["--json", "inspect", "T001"]).expect(0).json()["session"], json!(session));
}

#[test]
fn a_waiting_task_restarts_when_reset() {
    let env = world(TREE, AGENT);
    // Work that is not committed is in the way of landing.
    env.write("repo/one.txt", "mine");
    let ran = pleach(&env, 5, &["garden"]);
    assert!(ran.refused() == ("held", "T001") && ran.stdout.contains("`pleach/tasks/main/T001`"), "{ran}");
    let ran = env.pleach(&["status"]).expect(0);
    assert!(ran.stdout.contains("T001 Add one: complete, waiting to land"), "{ran}");
    assert_eq!(ran.next(), ("land", "T001"), "{ran}");
    let first = env.session();
    env.pleach(&["reset", "T001"]).expect(0);
    std::fs::remove_file(env.repo_path().join("one.txt")).unwrap();
    pleach(&env, 0, &["garden"]);
    let document = env.pleach(&["--json", "inspect", "T001"]).expect(0).json();
    assert_eq!((&document["status"], &document["landed"]), (&json!("complete"), &json!(true)));
    assert_ne!(document["session"], json!(first), "the session from before the reset is not gone on with");
    assert!(env.git(&["for-each-ref", "refs/pleach/keep/"]).contains("T001-1"), "what it had is kept");
}

#[test]
fn only_tasks_are_decided_about() {
    let env = world(TREE, AGENT);
    let ran = env.pleach(&["skip", "phase1"]).expect(2);
    ran.fails_with("task-is-group");
    env.git(&["switch", "--quiet", "--detach"]);
    env.pleach(&["skip", "T001"]).expect(2);
}

#[test]
fn a_decision_during_a_run_is_written_by_the_run() {
    let (env, mut gardener) = hanging();
    let queued = env.pleach(&["--json", "skip", "T002"]).expect(0).json();
    assert!(queued["queued"].is_string() && queued["changed"] == false, "{queued}");
    env.pleach(&["reset", "T002"]).expect(0);
    env.pleach(&["skip", "T002"]).expect(0);
    let waiting = env.pleach(&["merge", "--json"]).expect(0).json();
    let names: Vec<_> =
        waiting["queues"][0]["entries"].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["skip of T002"], "the later decision counts");
    gardener.kill().unwrap();
    gardener.wait().unwrap();
    env.assert_no_process_left();
    env.write("go", "");
    // The next run writes what the killed one could not.
    pleach(&env, 0, &["gardener"]);
    let skipped = env.git(&["log", "--format=%s", "main"]);
    assert!(skipped.contains("task(main@T002@skipped)") && !skipped.contains("T002@implement"), "{skipped}");
    assert!(!env.repo_path().join("two.txt").exists());
    let open = env.pleach(&["merge", "--json"]).expect(0).json();
    assert_eq!(open["queues"][0]["entries"], json!([]));
}
