//! Several processes on one repository: each works its own tasks, in slots of its own, and all of them land.

use super::{start, state, task, world};
use crate::sessions::Gate;
use crate::trees::garden::APPROVES;

#[test]
fn two_starts_of_different_tasks_work_side_by_side() {
    let garden = world();
    let [first, second] = ["first", "second"].map(|text| task(&garden.env, text, &[]));
    let gate = Gate::new(&garden.env, "work");
    let work =
        format!("[ $task = {first} ] && {{ {}; }}; echo $task > $task.txt; pwd > where-$task.txt", gate.command());
    garden.agent(&work, APPROVES);
    let mut run = garden.env.spawn(&["-y", "task", "start", &first]);
    let waiting = gate.reached(&mut run);
    // Somebody works on it already.
    let ran = garden.env.pleach(&["-y", "task", "start", &first]).expect(6);
    ran.fails_with("tree-locked").naming(&first);
    // The other one lands meanwhile, from another slot; the first one is rebuilt on it then.
    garden.env.pleach(&["-y", "task", "start", &second]).expect(0);
    assert_eq!((state(&garden.env, &first), state(&garden.env, &second)), ("running".into(), "landed".into()));
    gate.open(waiting);
    run.end().expect(0);
    assert_eq!(garden.completed(), [second.clone(), first.clone()]);
    let slot =
        |id: &str| garden.file("main", &format!("where-{id}.txt")).rsplit('/').next().unwrap_or_default().to_owned();
    assert_eq!([slot(&first), slot(&second)], ["main", "2"]);
    assert_eq!(garden.env.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_start_without_ids_leaves_running_tasks_alone() {
    let garden = world();
    let [first, second] = ["first", "second"].map(|text| task(&garden.env, text, &[]));
    let gate = Gate::new(&garden.env, "work");
    garden.agent(&format!("[ $task = {first} ] && {{ {}; }}; echo $task > $task.txt", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "task", "start", &first]);
    let waiting = gate.reached(&mut run);
    let ran = garden.env.pleach(&["-y", "task", "start"]).expect(0);
    assert_eq!(ran.begun(), [second.as_str()]);
    gate.open(waiting);
    run.end().expect(0);
}

#[test]
fn a_task_is_worked_beside_a_tree() {
    let garden = world();
    let id = task(&garden.env, "first", &[]);
    let gate = Gate::new(&garden.env, "work");
    garden.agent(&format!("[ $task = T001 ] && {{ {}; }}; echo $task > $task.txt", gate.command()), APPROVES);
    let mut tree = garden.env.spawn(&["-y", "gardener"]);
    let waiting = gate.reached(&mut tree);
    garden.env.pleach(&["-y", "task", "start", &id]).expect(0);
    gate.open(waiting);
    tree.end().expect(0);
    assert_eq!(garden.completed(), [id.clone(), "T001".to_owned()]);
    // And the other way round.
    let second = task(&garden.env, "second", &[]);
    let gate = Gate::new(&garden.env, "other");
    garden.agent(&format!("[ $task = {second} ] && {{ {}; }}; echo $task again > $task.txt", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "task", "start", &second]);
    let waiting = gate.reached(&mut run);
    garden.env.pleach(&["reset", "T001"]).expect(0);
    garden.env.pleach(&["-y", "gardener"]).expect(0);
    gate.open(waiting);
    run.end().expect(0);
    assert_eq!(garden.completed(), [id, "T001".into(), "T001".into(), second]);
    let text = garden.env.pleach(&["--json", "status"]).expect(0).json();
    assert_eq!(text["trees"][0]["counts"]["complete"], 1, "the tree has no task but its own: {text}");
}

#[test]
fn many_processes_land_every_task_once() {
    let garden = world();
    garden.configure("tree: {test_command: 'true'}\n");
    garden.agent("echo $task > $task.txt", APPROVES);
    let mut tasks: Vec<String> = (0..8).map(|number| task(&garden.env, &number.to_string(), &[])).collect();
    let runs: Vec<_> = tasks
        .chunks(2)
        .map(|ids| garden.env.spawn(&["-y", "task", "start", "--jobs", "2", &ids[0], &ids[1]]))
        .collect();
    for run in runs {
        run.end().expect(0);
    }
    let mut completed = garden.completed();
    completed.sort();
    tasks.sort();
    assert_eq!(completed, tasks);
    assert_eq!(garden.env.git(&["status", "--porcelain"]), "", "the checkout has followed");
    garden.assert_in_order();
}

#[test]
fn a_conflict_between_tasks_is_another_attempt() {
    let garden = world();
    let [first, second] = ["first", "second"].map(|text| task(&garden.env, text, &[]));
    let meets = "touch $W/tmp/at-$task; until [ $(ls $W/tmp | grep -c '^at-') -ge 2 ]; do sleep 0.02; done";
    garden.agent(
        &format!("if [ -e same.txt ]; then echo $task >> same.txt; else {meets}; echo $task > same.txt; fi"),
        APPROVES,
    );
    start(&garden, &["--jobs", "2"]).expect(0);
    let same = garden.file("main", "same.txt");
    assert!(same.contains(&first) && same.contains(&second), "{same}");
}
