//! How runs over several tasks end: with several failures, with questions, with what could still be worked.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::garden::{APPROVES, Garden, Tree};
use crate::sessions::Gate;

/// Waits until so many tasks are at work.
fn meets(count: usize) -> String {
    format!("touch $W/tmp/at-$task; until [ $(ls $W/tmp | grep -c '^at-') -ge {count} ]; do sleep 0.02; done")
}

fn completed(garden: &Garden) -> BTreeSet<String> {
    garden.completed().into_iter().collect()
}

fn set(tasks: &[&str]) -> BTreeSet<String> {
    tasks.iter().map(|task| (*task).to_owned()).collect()
}

const FAILS: &str = "case $task in F*) exit 1;; esac; echo $task > $task.txt";

#[test]
fn keep_going_works_what_does_not_depend_on_failures() {
    for jobs in ["1", "3"] {
        let garden = Garden::new(&Tree::of(&["F001", "F002", "T003: F001", "T004", "T005: T004"]));
        garden.agent(FAILS, APPROVES);
        let ran = garden.gardener(&["--keep-going", "--jobs", jobs, "--max-retries", "1"]).expect(1);
        assert_eq!(completed(&garden), set(&["T004", "T005"]), "{ran}");
        for line in ["F001 failed after 1 attempt", "F002 failed after 1 attempt", "T003 waits for F001 (failed)"] {
            assert_eq!(ran.stdout.matches(line).count(), 1, "{line}: {ran}");
        }
        // A failed task gets one more budget, not one after another.
        let ran = garden.gardener(&["--keep-going", "--jobs", jobs, "--max-retries", "1", "--retry-failed"]).expect(1);
        assert_eq!(ran.stdout.matches("F001 failed after 2 attempts").count(), 1, "{ran}");
        // Without it nothing is started after a failure.
        let garden = Garden::new(&Tree::of(&["F001", "T002"]));
        garden.agent(FAILS, APPROVES);
        garden.gardener(&["--max-retries", "1"]).expect(1);
        assert!(garden.completed().is_empty());
    }
}

#[test]
fn keep_going_passes_a_phase_whose_tests_fail() {
    let tree = Tree::default().phase("p1", &["T001"]).tests("p1", &["integration: false"]);
    let garden = Garden::new(&tree.phase("p2", &["T002"]).leaf("T003: p1", None));
    let ran = garden.gardener(&["--keep-going", "--json"]).expect(1);
    assert_eq!(completed(&garden), set(&["T001", "T002"]));
    let last = ran.json_lines().pop().expect("a line");
    let ended = |end: &Value| end["ended"].as_str().map(str::to_owned);
    assert_eq!(
        last["tasks"].as_array().map(|tasks| tasks.iter().filter_map(ended).collect::<Vec<_>>()),
        Some(vec!["gate_red".to_owned(), "stalled".to_owned()]),
        "{last}"
    );
}

#[test]
fn several_failures_at_once_are_all_told() {
    let garden = Garden::new(&Tree::of(&["F001", "F002"]));
    garden.agent(&format!("{}; exit 1", meets(2)), APPROVES);
    let ran = garden.gardener(&["--jobs", "2", "--max-retries", "1", "--json"]).expect(1);
    let last = ran.json_lines().pop().expect("a line");
    assert_eq!(last["ended"], "failed");
    let tasks: BTreeSet<&str> =
        last["tasks"].as_array().expect("tasks").iter().filter_map(|end| end["task"].as_str()).collect();
    assert_eq!(tasks, BTreeSet::from(["F001", "F002"]), "{last}");
    // One end is told as before.
    let garden = Garden::new(&Tree::of(&["F001"]));
    garden.agent("exit 1", APPROVES);
    let ran = garden.gardener(&["--jobs", "2", "--max-retries", "1", "--json"]).expect(1);
    let last = ran.json_lines().pop().expect("a line");
    assert_eq!((&last["ended"], &last["task"], &last["tasks"]), (&json!("failed"), &json!("F001"), &Value::Null));
}

const ASKS: &str = r#"digraph asks {
    start [shape=Mdiamond]
    done [shape=Msquare]
    implement [step=implement]
    gate [shape=hexagon, label="Keep it?"]
    start -> implement -> gate
    gate -> done [label="Yes"]
    gate -> done [label="No"]
}
"#;

#[test]
fn a_task_that_waits_for_a_person_keeps_no_other() {
    let tree = Tree::of(&["T001", "T002", "T003", "T004: T003"]);
    let garden =
        Garden::new(&tree.with("T001", "pipeline", json!("asks.dot")).with("T002", "pipeline", json!("asks.dot")));
    garden.commit("asks.dot", ASKS);
    let ran = garden.gardener(&["--jobs", "2"]).expect(4);
    assert_eq!(completed(&garden), set(&["T003", "T004"]), "{ran}");
    for task in ["T001", "T002"] {
        assert!(ran.stdout.contains(&format!("paused: {task} waits for an answer at `{task}/gate`")), "{ran}");
        assert!(ran.stdout.contains(&format!("--answer {task}/gate=CHOICE")), "{ran}");
    }
    // An answer is for the task it names.
    let ran = garden.gardener(&["--jobs", "2", "--answer", "T002/gate=Yes", "--json"]).expect(4);
    assert_eq!(completed(&garden), set(&["T002", "T003", "T004"]));
    let last = ran.json_lines().pop().expect("a line");
    assert_eq!((&last["task"], &last["gate"]), (&json!("T001"), &json!("T001/gate")), "{last}");
    garden.gardener(&["--jobs", "2", "--answer", "gate=Yes"]).expect(0);
    assert_eq!(garden.completed().len(), 4);
}

#[test]
fn the_gravest_end_gives_the_exit_code() {
    let garden = Garden::new(&Tree::of(&["F001", "T002"]).with("T002", "pipeline", json!("asks.dot")));
    garden.commit("asks.dot", ASKS);
    garden.agent(&format!("{}; [ $task != F001 ] || exit 1; echo x > x", meets(2)), APPROVES);
    let ran = garden.gardener(&["--jobs", "2", "--max-retries", "1", "--json"]).expect(4);
    let last = ran.json_lines().pop().expect("a line");
    assert_eq!(
        (&last["ended"], &last["tasks"][0]["ended"], &last["tasks"][1]["ended"]),
        (&json!("paused"), &json!("paused"), &json!("failed")),
        "{last}"
    );
}

#[test]
fn tasks_that_touch_the_same_files_wait_for_each_other() {
    let tree = Tree::of(&["T001", "T002", "T003"]);
    let tree = tree.with("T001", "touches", json!(["src/"])).with("T002", "touches", json!(["src/**/*.rs"]));
    let garden = Garden::new(&tree);
    // T001 and T003 meet; T002 starts when one of them has ended.
    garden.agent(
        &format!("[ $task = T002 ] && ls $W/tmp > $W/tmp/seen || {{ {}; }}; echo $task > $task.txt", meets(2)),
        APPROVES,
    );
    garden.gardener(&["--jobs", "2"]).expect(0);
    let seen = garden.env.read("tmp/seen");
    assert!(seen.contains("at-T001") && seen.contains("at-T003"), "{seen}");
    let wrong = Garden::new(&Tree::of(&["T001"]).with("T001", "touches", json!(["../up", 7])));
    let ran = wrong.env.pleach(&["gardener"]).expect(2);
    ran.fails_with("tree-invalid").naming("nodes.T001.touches[0]: leads").naming("nodes.T001.touches[1]: must");
}

#[test]
fn status_has_a_line_for_every_running_task() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003: T001"]));
    let (first, second) = (Gate::new(&garden.env, "first"), Gate::new(&garden.env, "second"));
    let work =
        format!("case $task in T001) {};; T002) {};; esac; echo $task > $task.txt", first.command(), second.command());
    garden.agent(&work, APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener", "--jobs", "2"]);
    let held = (first.reached(&mut run), second.reached(&mut run));
    let status = garden.env.pleach(&["status"]).expect(0);
    let document = garden.env.pleach(&["status", "--json"]).expect(0).json();
    let inspected = garden.env.pleach(&["inspect", "T002", "--json"]).expect(0).json();
    first.open(held.0);
    second.open(held.1);
    run.end().expect(0);
    for task in ["T001", "T002"] {
        let line = format!("    {task} Grow {task}: implementing, attempt 1 of 5, session ");
        assert_eq!(status.stdout.matches(&line).count(), 1, "{status}");
    }
    assert!(status.stdout.contains("    1 pending\n") && !status.stdout.contains("next:"), "{status}");
    let tasks = document["trees"][0]["tasks"].as_array().expect("tasks");
    let nodes: Vec<&Value> = tasks.iter().map(|task| &task["running"]["node"]).collect();
    assert_eq!(nodes, [&json!("implement"), &json!("implement"), &Value::Null]);
    assert_eq!(inspected["running"]["node"], "implement");
}

#[test]
fn nothing_starts_beside_a_landing_refused_before() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003", "T004"]));
    garden.agent("[ $task = T002 ] && echo more >> README.md; echo $task > $task.txt", APPROVES);
    garden.env.write("repo/README.md", "Not committed.\n");
    garden.gardener(&[]).expect(5);
    assert_eq!(garden.completed(), ["T001"]);
    for _ in 0..2 {
        let ran = garden.gardener(&["--jobs", "3"]).expect(5);
        assert_eq!(ran.ended().0, "refused", "{ran}");
        assert_eq!(["T003", "T004"].map(|task| garden.times_asked(task, "implement")), [0, 0], "{ran}");
    }
    garden.env.git(&["restore", "README.md"]);
    garden.gardener(&["--jobs", "3"]).expect(0);
    assert_eq!(completed(&garden), set(&["T001", "T002", "T003", "T004"]));
    assert_eq!(garden.times_asked("T002", "implement"), 1);
}
