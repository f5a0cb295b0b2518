//! Tasks that wait in the merge queue, and what runs and people do meanwhile.

use std::process::{Child, Stdio};

use serde_json::json;

use super::garden::{APPROVES, Garden};
use super::jobs_queue::{all_landed, entries, states, tested};

/// Has a run put tasks into the queue that an untracked file keeps there.
fn held_up(garden: &Garden, tasks: &[&str], flags: &[&str]) {
    let in_the_way: Vec<_> =
        tasks.iter().map(|task| garden.env.write(format!("repo/{task}.txt"), "in the way\n")).collect();
    garden.gardener(flags).expect(5);
    in_the_way.iter().for_each(|path| std::fs::remove_file(path).expect("it was written"));
}

/// A run that goes on while others are asked.
fn begun(garden: &Garden) -> Child {
    let mut run = garden.env.command(&["-y", "gardener", "--jobs", "2"]);
    run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pleach starts")
}

#[test]
fn a_queued_task_lands_once_though_another_run_lands_it() {
    let garden = tested(&["T001", "T002"], "true\n", "slots: 1");
    held_up(&garden, &["T001", "T002"], &["--jobs", "2"]);
    garden.gardener(&[]).expect(0);
    assert_eq!(states(&garden), all_landed(&["T001", "T002"]));
    garden.env.git(&["rm", "--quiet", "T002.txt"]);
    garden.env.git(&["commit", "--quiet", "-m", "Remove it again"]);
    garden.env.pleach(&["-y", "merge", "process"]).expect(0);
    assert!(!garden.files("main").contains(&"T002.txt".into()), "what the user has removed stays away");
    let mut completed = garden.completed();
    completed.sort();
    assert_eq!(completed, ["T001", "T002"], "each once, whichever was done first");
}

#[test]
fn no_run_lands_what_waits_for_approval() {
    let garden = tested(&["T001"], "true\n", "auto_merge_clean: false, slots: 1");
    garden.gardener(&["--jobs", "2"]).expect(4);
    garden.gardener(&[]).expect(4);
    garden.gardener(&["--isolation", "phase"]).expect(4);
    assert_eq!(garden.completed(), Vec::<String>::new());
    garden.env.pleach(&["merge", "approve", "T001"]).expect(0);
    garden.gardener(&[]).expect(0);
    assert_eq!((garden.completed(), states(&garden)), (vec!["T001".to_owned()], all_landed(&["T001"])));
}

#[test]
fn an_edited_test_replaces_the_one_that_is_queued() {
    let garden = tested(&["T001", "T002: T001"], "true\n", "slots: 1");
    held_up(&garden, &["T001"], &["--jobs", "2"]);
    garden.configure("tree: {test_command: 'sh check.sh -v'}\nmerge: {slots: 1}\n");
    garden.gardener(&["--jobs", "2"]).expect(0);
    assert_eq!(states(&garden), all_landed(&["T001", "T002"]));
}

#[test]
fn tests_that_never_ran_have_not_passed() {
    let garden = tested(&["T001"], "true\n", "slots: 1");
    held_up(&garden, &["T001"], &[]);
    garden.configure("tree: {test_command: 'sh check.sh; false'}\nmerge: {slots: 1}\n");
    garden.gardener(&["--jobs", "2", "--max-retries", "1"]).expect(5);
    assert_eq!(garden.completed(), Vec::<String>::new());
    assert_eq!(entries(&garden)["T001"]["verdict"]["is"], "fail");
}

/// Skips a task while a run waits, lets the run go on, and checks that its work does not land.
fn is_skipped(garden: &Garden, when: &str) {
    let run = begun(garden);
    garden.env.wait_for_file(when);
    garden.env.pleach(&["skip", "T001"]).expect(0);
    garden.env.write("tmp/go", "");
    let ran = garden.env.finish(run.wait_with_output().expect("it ends")).expect(0);
    ran.warns("decision-written").naming("T001");
    assert!(!garden.files("main").contains(&"T001.txt".into()), "its work is not wanted: {ran}");
}

#[test]
fn a_queued_task_is_skipped_while_the_run_goes_on() {
    let garden = tested(&["T001"], "true\n", "slots: 1");
    let tmp = garden.env.root().join("tmp").display().to_string();
    let waits = format!("touch {tmp}/tested; until [ -e {tmp}/go ]; do sleep 0.02; done");
    garden.configure(&format!("merge: {{slots: 1, test_command: '{waits}'}}\n"));
    is_skipped(&garden, "tmp/tested");
}

#[test]
fn a_task_skipped_while_it_is_worked_does_not_land() {
    let garden = tested(&["T001"], "true\n", "slots: 1");
    let waits = "touch $W/tmp/works; until [ -e $W/tmp/go ]; do sleep 0.02; done; echo $task > $task.txt";
    garden.agent(waits, APPROVES);
    is_skipped(&garden, "tmp/works");
}

#[test]
fn a_removed_session_leaves_the_queue() {
    let garden = tested(&["T001"], "true\n", "slots: 1");
    held_up(&garden, &["T001"], &["--jobs", "2"]);
    garden.env.pleach(&["rm", "--force", &garden.env.session()]).expect(0);
    garden.env.pleach(&["-y", "merge", "process"]).expect(0);
    assert_eq!(
        (entries(&garden)["T001"]["state"].clone(), garden.files("main").contains(&"T001.txt".into())),
        (json!("cancelled"), false)
    );
}

#[test]
fn an_approval_during_a_run_is_noticed() {
    let garden = tested(&["T001", "T002", "T003: T001"], "true\n", "auto_merge_clean: false, slots: 1");
    let waits = "[ $task != T002 ] || until [ -e $W/tmp/go ]; do sleep 0.02; done; echo $task > $task.txt";
    garden.agent(waits, APPROVES);
    let mut run = begun(&garden);
    while states(&garden) != [("T001".to_owned(), "candidate".to_owned())] {
        assert!(run.try_wait().expect("it was started").is_none(), "it waits for T002");
    }
    garden.env.pleach(&["merge", "approve", "T001"]).expect(0);
    garden.env.write("tmp/go", "");
    let ran = garden.env.finish(run.wait_with_output().expect("it ends")).expect(4);
    assert_eq!((garden.completed(), garden.times_asked("T003", "implement")), (vec!["T001".to_owned()], 1), "{ran}");
    assert!(!ran.stdout.contains("approve T001"), "it has landed: {ran}");
}

#[test]
fn a_session_whose_entry_has_landed_waits_no_longer() {
    let garden = tested(&["T001", "T002"], "true\n", "auto_merge_clean: false, slots: 1");
    garden.gardener(&["--jobs", "2"]).expect(4);
    for task in ["T001", "T002"] {
        garden.env.pleach(&["merge", "approve", task]).expect(0);
    }
    garden.env.pleach(&["-y", "merge", "process"]).expect(0);
    assert_eq!(states(&garden), all_landed(&["T001", "T002"]));
    let status = garden.env.pleach(&["status"]).expect(0);
    assert!(!status.stdout.contains("waits to land"), "{status}");
}
