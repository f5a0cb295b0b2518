//! How work on tasks ends early: killed, interrupted, cancelled.

use super::{listed, shown, start, state, task, world};
use crate::sessions::Gate;
use crate::trees::garden::{APPROVES, Garden};

/// A task whose agent waits at a gate.
fn held() -> (Garden, Gate, String) {
    let garden = world();
    let gate = Gate::new(&garden.env, "work");
    garden.agent(&format!("{}; echo $task > $task.txt", gate.command()), APPROVES);
    let id = task(&garden.env, "first", &[]);
    (garden, gate, id)
}

#[test]
fn a_killed_task_start_is_finished_by_the_next() {
    let (garden, gate, id) = held();
    let mut run = garden.env.spawn(&["-y", "task", "start"]);
    let waiting = gate.reached(&mut run);
    run.kill(waiting);
    assert_eq!(state(&garden.env, &id), "stopped");
    assert_eq!(listed(&garden.env, &["--ready"]), [&id[..]], "a start continues with it");
    gate.stay_open();
    let ran = start(&garden, &[]).expect(0);
    assert_eq!(ran.resumed(), [id.as_str()]);
    assert_eq!((state(&garden.env, &id), garden.completed()), ("landed".into(), vec![id]));
}

/// Dies at a crash point in the middle of everything, and is run again.
#[test]
fn every_kind_of_crash_point_in_tasks() {
    let world = || {
        let garden = world();
        garden.configure("tree: {test_command: 'ls *.txt'}\n");
        garden.agent("echo work > $(sed -n 's/.*file \\([a-z]*\\).*/\\1/p' $prompt | head -1).txt", APPROVES);
        let first = task(&garden.env, "Write file one", &[]);
        task(&garden.env, "Write file two", &["--depends", &first]);
        task(&garden.env, "Write file three", &[]);
        garden
    };
    let expected = ["one", "three", "two"].map(|name| format!("{name}.txt"));
    let run = ["-y", "task", "start", "--jobs", "2"];
    for point in
        ["object-write:before:40", "ref-swap:after:9", "head-update:before:3", "landing:before:2", "landing:after:2"]
    {
        let garden = world();
        let ran = garden.env.command(&run).env("PLEACH_CRASH", point).output().expect("pleach starts");
        assert!(!ran.status.success(), "the run never came to {point}");
        garden.env.assert_no_process_left();
        garden.env.pleach(&run).expect(0);
        let files = garden.files("main").into_iter().filter(|file| file.ends_with(".txt")).collect::<Vec<_>>();
        assert_eq!(files, expected, "after dying at {point}");
        assert_eq!(garden.completed().len(), 3, "nothing landed twice after dying at {point}");
        assert_eq!(garden.env.git(&["fsck", "--strict", "--no-dangling"]), "", "after dying at {point}");
    }
}

#[test]
fn an_interrupted_task_names_the_command_that_resumes_it() {
    let (garden, gate, id) = held();
    let mut run = garden.env.spawn(&["-y", "task", "new", "Another", "--start"]);
    let waiting = gate.reached(&mut run);
    run.stop();
    gate.open(waiting);
    let ran = run.end().expect(3);
    let other = listed(&garden.env, &[]).into_iter().find(|other| *other != id).expect("the other task");
    assert!(ran.stdout.contains(&format!("pleach task start {other}")), "not the one that makes a third: {ran}");
    start(&garden, &[&other]).expect(0);
    let session = shown(&garden.env, &other)["session"].as_str().expect("a session").to_owned();
    garden.env.pleach(&["resume", &session]).expect(2).fails_with("session-of-task").naming("task start");
}

#[test]
fn a_running_task_is_cancelled_and_others_go_on() {
    let (garden, gate, first) = held();
    let second = task(&garden.env, "second", &["--priority", "-1"]);
    let third = task(&garden.env, "third", &["--priority", "-2"]);
    garden.agent(&format!("[ $task = {first} ] && {{ {}; }}; echo $task > $task.txt", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "task", "start", "--jobs", "1"]);
    let waiting = gate.reached(&mut run);
    assert_eq!(state(&garden.env, &first), "running");
    let cancel = garden.env.pleach(&["--json", "task", "cancel", &first, "--grace", "0"]).expect(0).json();
    assert_eq!((&cancel["changed"], cancel["cancelled_session"].is_string()), (&true.into(), true));
    drop(waiting);
    run.end().expect(1);
    assert_eq!([&first, &second, &third].map(|id| state(&garden.env, id)), ["cancelled", "landed", "landed"]);
    assert!(garden.refs("refs/heads/pleach/tasks/").iter().any(|name| name.ends_with(&first)), "its branch is kept");
    start(&garden, &[&first]).expect(2).fails_with("task-cancelled").naming(&first);
    start(&garden, &[]).expect(0);
    assert_eq!(garden.completed(), [second, third]);
}

#[test]
fn a_task_that_has_landed_cannot_be_cancelled() {
    let garden = world();
    let id = task(&garden.env, "first", &[]);
    start(&garden, &[]).expect(0);
    garden.env.pleach(&["task", "cancel", &id]).expect(2).fails_with("task-landed").naming(&id);
    assert_eq!(shown(&garden.env, &id)["cancelled"], serde_json::Value::Null);
}

#[test]
fn a_cancelled_task_blocks_what_depends_on_it() {
    let garden = world();
    let first = task(&garden.env, "first", &[]);
    let second = task(&garden.env, "second", &["--depends", &first]);
    garden.env.pleach(&["task", "cancel", &first]).expect(0);
    garden.env.pleach(&["task", "cancel", &first]).expect(0);
    assert_eq!(shown(&garden.env, &second)["blocked_by"][0]["state"], "cancelled");
    start(&garden, &[]).expect(0);
    start(&garden, &[&second]).expect(1).fails_with("task-blocked").naming(&first);
}
