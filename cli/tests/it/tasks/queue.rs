//! Finished tasks come into their target through the merge queue.

use serde_json::json;

use super::{start, state, task, world};
use crate::trees::garden::{APPROVES, Garden};

/// A world with a test and settings of the queue.
fn with(merge: &str) -> Garden {
    let garden = world();
    garden.configure(&format!("tree: {{max_retries: 3, test_command: 'sh check.sh'}}\nmerge: {{{merge}}}\n"));
    garden.env.write("repo/check.sh", "test ! -e broken\n");
    garden.env.git(&["add", "-A"]);
    garden.env.git(&["commit", "-qm", "Check"]);
    garden
}

/// The entry of a task.
#[track_caller]
fn entry(garden: &Garden, id: &str) -> serde_json::Value {
    garden.env.pleach(&["merge", "why", id, "--json"]).expect(0).json()
}

#[test]
fn a_finished_task_lands_through_the_queue() {
    let garden = with("slots: 1");
    let id = task(&garden.env, "Fix it", &["--priority", "3"]);
    start(&garden, &[&id]).expect(0);
    let entry = entry(&garden, &id);
    assert_eq!((&entry["state"], &entry["task"], &entry["priority"]), (&json!("landed"), &json!(id), &json!(3)));
    assert_eq!(state(&garden.env, &id), "landed");
}

#[test]
fn without_auto_merge_a_task_waits_for_approval() {
    let garden = with("auto_merge_clean: false, slots: 1");
    let id = task(&garden.env, "Fix it", &[]);
    start(&garden, &[&id]).expect(4);
    assert_eq!(
        (state(&garden.env, &id), entry(&garden, &id)["state"].clone()),
        ("finished".into(), json!("candidate"))
    );
    start(&garden, &[&id]).expect(4);
    garden.env.pleach(&["merge", "approve", &id]).expect(0);
    garden.env.pleach(&["-y", "merge", "process"]).expect(0);
    assert_eq!(state(&garden.env, &id), "landed");
}

#[test]
fn task_merge() {
    let garden = with("enabled: false, slots: 1");
    let id = task(&garden.env, "Fix it", &[]);
    let early = garden.env.pleach(&["-y", "task", "merge", &id]).expect(2);
    early.fails_with("task-unfinished").naming(&id);
    let waits = start(&garden, &[&id]).expect(4);
    assert!(waits.stdout.contains("unapproved"), "{waits}");
    assert_eq!(state(&garden.env, &id), "finished");
    garden.env.git(&["branch", "release", "main"]);
    garden.env.pleach(&["-y", "task", "merge", &id, "--into", "release"]).expect(0);
    assert_eq!(garden.file("release", &format!("{id}.txt")), format!("{id} 1"));
    garden.env.pleach(&["-y", "task", "merge", &id]).expect(0);
    assert_eq!(
        (state(&garden.env, &id), garden.file("main", &format!("{id}.txt"))),
        ("landed".into(), format!("{id} 1"))
    );
    garden.env.pleach(&["-y", "task", "merge", &id]).expect(0);
}

/// A world in which one task has finished and waits, and another lands before it with this change.
fn overtaken(merge: &str, first: &str, then: &str) -> (Garden, String) {
    let garden = with(&format!("enabled: false, {merge}"));
    let late = task(&garden.env, "late", &[]);
    garden.agent(first, APPROVES);
    start(&garden, &[&late]).expect(4);
    garden.env.program("sh", &garden.env.repo_path()).args(["-c", then]).status().unwrap();
    garden.env.git(&["add", "-A"]);
    garden.env.git(&["commit", "-qm", "Meanwhile"]);
    (garden, late)
}

#[test]
fn red_in_the_queue_is_the_next_attempt() {
    let check = "echo 'test ! -e old || test ! -e new' > check.sh; touch new";
    let (garden, late) = overtaken("max_conflict_retries: 0, slots: 1", "touch old; echo wrote", check);
    garden.agent("rm -f old; echo $n > better; echo wrote", APPROVES);
    garden.env.pleach(&["-y", "task", "merge", &late]).expect(0);
    let told: Vec<String> = garden.steps("main").iter().map(|step| step.status.clone()).collect();
    assert!(told.contains(&format!("{late} test-fail")), "{told:?}");
    let asked = garden.asked(&late, "implement", 2);
    assert!(asked.contains("the tests fail on both together"), "{asked}");
    assert_eq!(garden.env.git(&["ls-tree", "--name-only", "main", "old", "better"]), "better");
    assert_eq!(entry(&garden, &late)["state"], "landed");
}

#[test]
fn a_conflict_nobody_resolves_is_implemented_again() {
    let (garden, late) =
        overtaken("max_conflict_retries: 0, slots: 1", "echo late > shared; echo wrote", "echo other > shared");
    garden.agent("cat shared > seen; echo both > shared; echo wrote", APPROVES);
    garden.env.pleach(&["-y", "task", "merge", &late]).expect(0);
    assert_eq!((garden.file("main", "shared"), garden.file("main", "seen")), ("both".into(), "other".into()));
    let entry = entry(&garden, &late);
    assert_eq!((&entry["state"], &entry["tier"]), (&json!("landed"), &json!("reimplemented")));
}

#[test]
fn undo_of_a_task_has_it_done_again() {
    let garden = with("slots: 1");
    let id = task(&garden.env, "Fix it", &[]);
    start(&garden, &[&id]).expect(0);
    garden.env.pleach(&["merge", "undo", &id]).expect(0);
    let told = garden.env.pleach(&["-y", "merge", "process", "--json"]).expect(0).json_lines();
    let merged = told.iter().find(|event| event["type"] == "dev.orchestra.MergeComplete").expect("it is told");
    assert_eq!(merged["data"]["task"], json!(null), "the task is not what has landed");
    assert_eq!(garden.env.git(&["ls-tree", "--name-only", "main", &format!("{id}.txt")]), "");
    assert_eq!(state(&garden.env, &id), "ready");
    start(&garden, &[&id]).expect(0);
    assert_eq!(state(&garden.env, &id), "landed");
}

#[test]
fn several_finished_tasks_are_tested_together() {
    let garden = with("enabled: false, slots: 1");
    let ids: Vec<String> = (0..4).map(|nth| task(&garden.env, &format!("task {nth}"), &[])).collect();
    start(&garden, &["--jobs", "4"]).expect(4);
    let branches: Vec<String> = ids.iter().map(|id| format!("pleach/tasks/main/{id}")).collect();
    let enqueue = ["-q", "merge", "enqueue"].into_iter().chain(branches.iter().map(String::as_str));
    garden.env.pleach(&enqueue.collect::<Vec<_>>()).expect(0);
    let done = garden.env.pleach(&["-y", "merge", "process", "--json"]).expect(0).json_lines().pop().unwrap();
    assert_eq!(done["landed"].as_array().unwrap().len(), 4, "{done}");
    assert!(ids.iter().all(|id| state(&garden.env, id) == "landed"));
}

#[test]
fn a_repaired_task_takes_nothing_back() {
    let check = "echo 'test ! -e old || test ! -e new' > check.sh; touch new; echo more >> README.md";
    let (garden, late) = overtaken("max_conflict_retries: 0, slots: 1", "touch old; echo wrote", check);
    // An agent that adds to what it finds, and leaves everything else alone.
    garden.agent("if [ -e old ]; then rm old; fi; echo $n > better; echo wrote", APPROVES);
    garden.env.pleach(&["-y", "task", "merge", &late]).expect(0);
    assert_eq!(garden.env.git(&["ls-tree", "--name-only", "main", "new", "old", "better"]), "better\nnew");
    assert!(garden.file("main", "README.md").ends_with("more"), "what others have landed stays");
}

#[test]
fn a_cancelled_task_does_not_land() {
    let garden = with("auto_merge_clean: false, slots: 1");
    let id = task(&garden.env, "Fix it", &[]);
    start(&garden, &[&id]).expect(4);
    garden.env.pleach(&["task", "cancel", &id]).expect(0);
    garden.env.pleach(&["-y", "merge", "process"]).expect(0);
    assert_eq!(
        (state(&garden.env, &id), entry(&garden, &id)["state"].clone()),
        ("cancelled".into(), json!("cancelled"))
    );
}

#[test]
fn merge_enqueue_takes_a_task_or_its_branch() {
    let garden = with("enabled: false, slots: 1");
    garden.configure("merge: {enabled: false, slots: 1}\nworktrees: {delete_branches: true}\n");
    let id = task(&garden.env, "Fix it", &["--priority", "2"]);
    start(&garden, &[&id]).expect(4);
    let by_id = garden.env.pleach(&["merge", "enqueue", &id, "--json"]).expect(0).json();
    assert_eq!((&by_id["task"], &by_id["priority"]), (&json!(id), &json!(2)));
    let branch = by_id["branch"].as_str().unwrap().to_owned();
    let by_branch = garden.env.pleach(&["merge", "enqueue", &branch, "--json"]).expect(0).json();
    assert_eq!(by_id["id"], by_branch["id"], "the same work is queued once");
    garden.env.pleach(&["-y", "merge", "process"]).expect(0);
    assert_eq!(state(&garden.env, &id), "landed");
    assert_eq!(garden.env.git(&["branch", "--list", &branch]), "", "as `worktrees.delete_branches` says");
}

#[test]
fn a_dropped_task_lands_only_when_asked_for() {
    let garden = with("auto_merge_clean: false, slots: 1");
    let id = task(&garden.env, "Fix it", &[]);
    start(&garden, &[&id]).expect(4);
    garden.env.pleach(&["merge", "drop", &id]).expect(0);
    start(&garden, &[]).expect(4);
    assert_eq!(
        (state(&garden.env, &id), entry(&garden, &id)["state"].clone()),
        ("finished".into(), json!("cancelled"))
    );
    garden.env.pleach(&["-y", "task", "merge", &id]).expect(0);
    assert_eq!(state(&garden.env, &id), "landed");
}

#[test]
fn task_merge_elsewhere_is_tested_as_well() {
    let garden = with("enabled: false, slots: 1, max_conflict_retries: 0");
    let id = task(&garden.env, "Fix it", &[]);
    start(&garden, &[&id]).expect(4);
    garden.env.git(&["checkout", "-q", "-b", "release"]);
    garden.env.write("repo/check.sh", format!("test ! -e {id}.txt\n"));
    garden.env.git(&["commit", "-qam", "Refuse it"]);
    garden.env.git(&["checkout", "-q", "main"]);
    garden.env.pleach(&["-y", "task", "merge", &id, "--into", "release"]).expect(1);
    assert_eq!(garden.env.git(&["ls-tree", "--name-only", "release", &format!("{id}.txt")]), "");
}

#[test]
fn work_that_is_mostly_in_conflict_is_done_again() {
    let lines = |word: &str| format!("for i in 1 2 3 4 5 6; do echo {word}$i; seq 9; done > shared");
    let garden = with("enabled: false, slots: 1");
    garden.env.program("sh", &garden.env.repo_path()).args(["-c", &lines("x")]).status().unwrap();
    garden.env.git(&["add", "-A"]);
    garden.env.git(&["commit", "-qm", "Lines"]);
    let late = task(&garden.env, "late", &[]);
    garden.agent(&format!("{}; echo wrote", lines("late")), APPROVES);
    start(&garden, &[&late]).expect(4);
    garden.env.program("sh", &garden.env.repo_path()).args(["-c", &lines("other")]).status().unwrap();
    garden.env.git(&["commit", "-qam", "Meanwhile"]);
    garden.agent("sed -i s/other/both/ shared; echo wrote", APPROVES);
    garden.env.pleach(&["-y", "task", "merge", &late]).expect(0);
    let entry = entry(&garden, &late);
    assert_eq!((&entry["tier"], &entry["attempts"]), (&json!("reimplemented"), &json!(0)), "no agent has merged it");
    assert!(garden.file("main", "shared").starts_with("both1"));
}
