//! `task start`: tasks are worked as trees of their own, in order, and land.

use super::{shown, start, state, task, world};
use crate::sessions::Gate;
use crate::trees::garden::APPROVES;

#[test]
fn a_task_lands_as_a_tree_of_its_own() {
    let garden = world();
    garden.configure("tree: {test_command: 'test -s README.md'}\n");
    let id = task(&garden.env, "Fix the login\n\nIt says no.", &[]);
    start(&garden, &[&id]).expect(0);
    let steps = garden.steps("main");
    let told: Vec<String> = steps.iter().map(|step| step.status.clone()).collect();
    let expected = ["implement-pass", "test-pass", "review-approved", "complete"].map(|step| format!("{id} {step}"));
    assert_eq!(told, expected, "no start of a run is among them");
    assert!(steps.iter().all(|step| step.trailer("Pleach-Tree") == Some(&format!("task:{id}"))));
    assert!(garden.asked(&id, "implement", 1).contains("It says no."));
    assert_eq!(garden.file("main", &format!("{id}.txt")), format!("{id} 1"));
    assert_eq!(state(&garden.env, &id), "landed");
    // There is nothing left to do.
    start(&garden, &[]).expect(0);
    start(&garden, &[&id, &id]).expect(0);
    assert_eq!(garden.env.pleach(&["--json", "task", "start"]).expect(0).json()["ended"], "done");
    assert_eq!(garden.steps("main").len(), 4);
}

#[test]
fn new_and_start_in_one_command() {
    let garden = world();
    garden.env.pleach(&["-y", "task", "new", "Fix it", "--start"]).expect(0);
    assert_eq!(garden.completed().len(), 1);
}

#[test]
fn tasks_are_worked_by_priority_behind_what_they_need() {
    let garden = world();
    let env = &garden.env;
    let low = task(env, "low", &["--priority", "-1"]);
    let high = task(env, "high", &["--priority", "5", "--depends", &low]);
    let plain = task(env, "plain", &[]);
    start(&garden, &["--jobs", "1"]).expect(0);
    assert_eq!(garden.completed(), [plain, low, high]);
}

#[test]
fn a_blocked_task_is_started_with_what_it_needs() {
    let garden = world();
    let first = task(&garden.env, "first", &[]);
    let second = task(&garden.env, "second", &["--depends", &first]);
    let ran = start(&garden, &[&second]).expect(1);
    ran.fails_with("task-blocked").naming(&first).naming(format!("task start {first} {second}"));
    assert_eq!(garden.completed(), Vec::<String>::new());
    start(&garden, &[&second, &first]).expect(0);
    assert_eq!(garden.completed(), [first, second]);
}

#[test]
fn a_dependency_that_has_landed_is_met() {
    let garden = world();
    let first = task(&garden.env, "first", &[]);
    start(&garden, &[&first]).expect(0);
    let second = task(&garden.env, "second", &["--depends", &first]);
    garden.agent(&format!("cat {first}.txt > $task.txt"), APPROVES);
    start(&garden, &[&second]).expect(0);
    assert_eq!(garden.file("main", &format!("{second}.txt")), format!("{first} 1"));
}

#[test]
fn tasks_are_worked_at_once() {
    let garden = world();
    let tasks = ["one", "two", "three"].map(|text| task(&garden.env, text, &[]));
    let meets = "touch $W/tmp/at-$task; until [ $(ls $W/tmp | grep -c '^at-') -ge 3 ]; do sleep 0.02; done";
    garden.agent(&format!("{meets}; echo $task > $task.txt"), APPROVES);
    start(&garden, &["--jobs", "3"]).expect(0);
    let mut completed = garden.completed();
    completed.sort();
    let mut expected = tasks.to_vec();
    expected.sort();
    assert_eq!(completed, expected);
    assert_eq!(garden.env.git(&["rev-list", "--merges", "--count", "main"]), "0", "the history is linear");
}

#[test]
fn each_task_has_its_agent_and_pipeline() {
    let garden = world();
    let root = garden.env.root().display().to_string();
    let other = format!("#!/bin/sh\ncat > '{root}/tmp/other-$$'\necho other > other.txt\necho APPROVED\n");
    garden.env.write_program("other.sh", &other);
    garden.commit(
        "own.dot",
        "digraph own { start [shape=Mdiamond]; exit [shape=Msquare]; work [step=implement]; start -> work -> exit }\n",
    );
    let agent = format!("command:{root}/other.sh");
    let by_agent = task(&garden.env, "by another agent", &["--agent", &agent, "--model", "best"]);
    let by_pipeline = task(&garden.env, "by another pipeline", &["--pipeline", "own.dot"]);
    let plain = task(&garden.env, "plain", &[]);
    start(&garden, &[]).expect(0);
    let told = |id: &str| garden.told("main").into_iter().filter(|step| step.starts_with(id)).count();
    assert_eq!(
        [&by_agent, &by_pipeline, &plain].map(|id| told(id)),
        [3, 2, 3],
        "steps of each: {:?}",
        garden.told("main")
    );
    assert_eq!(garden.file("main", "other.txt"), "other");
    assert_eq!(garden.times_asked(&by_agent, "implement"), 0);
    assert_eq!((garden.times_asked(&by_pipeline, "work"), garden.times_asked(&plain, "implement")), (1, 1));
    // The file is read when the task starts.
    let missing = task(&garden.env, "x", &["--pipeline", "gone.dot"]);
    start(&garden, &[&missing]).expect(2).fails_with("pipeline-unreadable").naming("gone.dot");
}

#[test]
fn the_agent_command_of_a_task_needs_approval() {
    let garden = world();
    let plain = task(&garden.env, "first", &[]);
    start(&garden, &[&plain]).expect(0);
    let again = task(&garden.env, "again", &[]);
    garden.env.pleach(&["task", "start", &again]).expect(0);
    // It may have been fetched with its task.
    let id = task(&garden.env, "planted", &["--agent", "command:./planted.sh"]);
    garden.env.pleach(&["task", "start", &id]).expect(4).fails_with("trust-missing");
    assert_eq!(state(&garden.env, &id), "ready", "nothing was run");
}

#[test]
fn a_task_lands_on_the_branch_it_was_made_on() {
    let garden = world();
    garden.env.git(&["branch", "release"]);
    garden.switch_to_new("release2");
    let id = task(&garden.env, "first", &[]);
    garden.env.git(&["switch", "--quiet", "main"]);
    let before = garden.env.git(&["rev-parse", "main"]);
    start(&garden, &[&id]).expect(0);
    assert_eq!(garden.env.git(&["rev-parse", "main"]), before);
    assert_eq!(garden.file("release2", &format!("{id}.txt")), format!("{id} 1"));
    assert_eq!(shown(&garden.env, &id)["state"], "landed");
}

#[test]
fn branches_of_landed_tasks_go_as_the_settings_say() {
    let garden = world();
    let kept = task(&garden.env, "first", &[]);
    start(&garden, &[&kept]).expect(0);
    assert_eq!(garden.refs("refs/heads/pleach/tasks/"), [format!("refs/heads/pleach/tasks/main/{kept}")]);
    garden.configure("worktrees: {delete_branches: true}\n");
    let gone = task(&garden.env, "second", &[]);
    start(&garden, &[&gone]).expect(0);
    assert_eq!(garden.refs("refs/heads/pleach/tasks/"), [format!("refs/heads/pleach/tasks/main/{kept}")]);
    assert_eq!(garden.completed(), [kept, gone]);
}

#[test]
fn a_failed_task_gets_another_budget_when_asked() {
    let garden = world();
    garden.configure("tree: {max_retries: 1, test_command: 'test -e ok.txt'}\n");
    let id = task(&garden.env, "first", &[]);
    let ran = start(&garden, &[&id]).expect(1);
    assert!(ran.stdout.contains(&format!("pleach task start {id} --retry-failed")), "{ran}");
    assert_eq!(state(&garden.env, &id), "failed");
    start(&garden, &[]).expect(0);
    assert_eq!(state(&garden.env, &id), "failed", "nobody asked for it");
    garden.agent("touch ok.txt", APPROVES);
    start(&garden, &["--retry-failed"]).expect(0);
    assert_eq!((state(&garden.env, &id), garden.completed()), ("landed".into(), vec![id]));
}

#[test]
fn others_are_worked_when_one_fails_if_asked() {
    let garden = world();
    garden.configure("tree: {max_retries: 1}\n");
    let bad = task(&garden.env, "bad", &["--priority", "1"]);
    let good = task(&garden.env, "good", &[]);
    garden.agent(&format!("[ $task = {bad} ] && exit 1; echo $task > $task.txt"), APPROVES);
    start(&garden, &["--jobs", "1", "--keep-going"]).expect(1);
    assert_eq!([&bad, &good].map(|id| state(&garden.env, id)), ["failed", "landed"]);
}

#[test]
fn a_reset_task_is_done_again() {
    let garden = world();
    let id = task(&garden.env, "first", &[]);
    start(&garden, &[&id]).expect(0);
    garden.env.pleach(&["reset", &id]).expect(0);
    assert_eq!(state(&garden.env, &id), "ready");
    start(&garden, &[]).expect(0);
    assert_eq!(garden.completed().len(), 2);
    assert!(garden.steps("main").iter().all(|step| step.trailer("Pleach-Tree") == Some(&format!("task:{id}"))));
}

#[test]
fn a_skipped_task_counts_as_landed() {
    let garden = world();
    let first = task(&garden.env, "first", &[]);
    let second = task(&garden.env, "second", &["--depends", &first]);
    garden.env.pleach(&["skip", &first]).expect(0);
    start(&garden, &[&second]).expect(0);
    assert_eq!([&first, &second].map(|id| state(&garden.env, id)), ["landed", "landed"]);
}

#[test]
fn a_task_created_meanwhile_is_started_too() {
    let garden = world();
    let gate = Gate::new(&garden.env, "first");
    let first = task(&garden.env, "first", &[]);
    garden.agent(&format!("{}; echo 1 > $task.txt", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "task", "start"]);
    let held = gate.reached(&mut run);
    let second = task(&garden.env, "second", &[]);
    gate.open(held);
    run.end().expect(0);
    assert_eq!(garden.completed(), [first, second]);
}

#[test]
fn named_tasks_are_all_that_is_started() {
    let garden = world();
    let gate = Gate::new(&garden.env, "first");
    let first = task(&garden.env, "first", &[]);
    garden.agent(&format!("{}; echo 1 > $task.txt", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "task", "start", &first]);
    let held = gate.reached(&mut run);
    let second = task(&garden.env, "second", &[]);
    gate.open(held);
    run.end().expect(0);
    assert_eq!((garden.completed(), state(&garden.env, &second)), (vec![first], "ready".to_owned()));
}

#[test]
fn tasks_without_an_agent_are_refused_as_tasks() {
    let garden = world();
    task(&garden.env, "first", &[]);
    garden.env.configure("");
    let ran = garden.env.pleach(&["-y", "task", "start"]).expect(2);
    ran.fails_with("no-agent").naming("tasks cannot use the simulation agent").naming("`pleach task new --agent`");
}
