//! Several tasks of a tree at once: each in a slot of its own, landed in a row, tested where they land.

use std::collections::BTreeSet;

use super::garden::{APPROVES, Garden, Tree};
use crate::sessions::Gate;
use crate::support::Random;

/// Waits until so many tasks are at work.
fn meets(count: usize) -> String {
    format!("touch $W/tmp/at-$task; until [ $(ls $W/tmp | grep -c '^at-') -ge {count} ]; do sleep 0.02; done")
}

fn on_main(garden: &Garden, file: &str) -> String {
    garden.env.git(&["show", &format!("main:{file}")])
}

fn set(tasks: &[&str]) -> BTreeSet<String> {
    tasks.iter().map(|task| (*task).to_owned()).collect()
}

fn completed(garden: &Garden) -> BTreeSet<String> {
    garden.completed().into_iter().collect()
}

#[test]
fn tasks_are_worked_at_once_and_land_in_a_row() {
    let tree = Tree::of(&["T001", "T002", "T003"]).tests("T002", &["unit: test -s T002.txt"]);
    let garden = Garden::new(&tree);
    garden.agent(&format!("{}; echo $task > $task.txt; pwd > where-$task.txt", meets(3)), APPROVES);
    garden.gardener(&["--jobs", "3"]).expect(0);
    assert_eq!(completed(&garden), set(&["T001", "T002", "T003"]));
    assert_eq!(garden.env.git(&["rev-list", "--merges", "--count", "main"]), "0", "the history is linear");
    let place = |task: &str| on_main(&garden, &format!("where-{task}.txt")).rsplit('/').next().unwrap().to_owned();
    assert_eq!(["T001", "T002", "T003"].map(place).into_iter().collect::<BTreeSet<_>>(), set(&["2", "3", "main"]));
    garden.env.assert_no_process_left();
    // Slots are re-used: the next run makes no further ones.
    assert_eq!(slots(&garden), ["2", "3", "main"]);
}

#[test]
fn dependencies_are_worked_after_what_they_need() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003: T001 T002"]));
    garden.agent(
        &format!("[ $task = T003 ] && cat T001.txt T002.txt > T003.txt || {{ {}; echo $task > $task.txt; }}", meets(2)),
        APPROVES,
    );
    garden.gardener(&["--jobs", "4"]).expect(0);
    assert_eq!(on_main(&garden, "T003.txt"), "T001\nT002");
}

#[test]
fn a_task_that_no_longer_fits_goes_back() {
    let tree = Tree::of(&["T001", "T002"]).tests("T001", &["unit: sh all.sh"]).tests("T002", &["unit: sh all.sh"]);
    let garden = Garden::new(&tree);
    // Both together are too much, until one of them knows.
    garden.env.write("repo/all.sh", "test $(cat n-*.txt | wc -l) -le 3 || { echo too much; exit 1; }\n");
    garden.env.git(&["add", "all.sh"]);
    garden.env.git(&["commit", "-qm", "test"]);
    let first = format!("{}; printf '1\\n2\\n' > n-$task.txt", meets(2));
    garden.agent(&format!("if grep -q 'too much' \"$prompt\"; then echo 1 > n-$task.txt; else {first}; fi"), APPROVES);
    garden.gardener(&["--jobs", "2"]).expect(0);
    assert_eq!(completed(&garden), set(&["T001", "T002"]));
    let lines = ["T001", "T002"].map(|task| on_main(&garden, &format!("n-{task}.txt")).lines().count());
    assert_eq!(lines.iter().sum::<usize>(), 3, "one of them was done again: {lines:?}");
}

#[test]
fn a_conflict_is_a_failed_attempt_begun_at_the_tip() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    let first = format!("{}; echo $task > same.txt", meets(2));
    garden.agent(&format!("if [ -e same.txt ]; then echo $task >> same.txt; else {first}; fi"), APPROVES);
    garden.gardener(&["--jobs", "2"]).expect(0);
    assert_eq!(completed(&garden), set(&["T001", "T002"]));
    let same = on_main(&garden, "same.txt");
    assert_eq!(same.lines().map(str::to_owned).collect::<BTreeSet<_>>(), set(&["T001", "T002"]), "{same}");
    assert!(!garden.env.git(&["for-each-ref", "refs/pleach/keep/"]).is_empty(), "the first try is kept");
    // Without another attempt it waits to land.
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.agent(&first, APPROVES);
    garden.gardener(&["--jobs", "2", "--max-retries", "1"]).expect(5);
    assert_eq!(garden.completed().len(), 1);
}

#[test]
fn a_failed_task_starts_nothing_new_and_others_land() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003"]));
    let work = format!("{}; [ $task = T001 ] && exit 1; echo $task > $task.txt", meets(2));
    garden.agent(&work, APPROVES);
    garden.gardener(&["--jobs", "2", "--max-retries", "1"]).expect(1);
    assert_eq!(completed(&garden), set(&["T002"]), "what runs finishes and lands");
}

#[test]
fn phase_tests_run_once_its_tasks_have_landed() {
    let tree = Tree::default().phase("p1", &["T001", "T002"]).leaf("T003: p1", None);
    let both = "integration: test -e T001.txt && test -e T002.txt && ! test -e T003.txt";
    let garden = Garden::new(&tree.tests("p1", &[both]));
    garden.agent(&format!("[ $task = T003 ] || {{ {}; }}; echo $task > $task.txt", meets(2)), APPROVES);
    garden.gardener(&["--jobs", "3"]).expect(0);
    let steps = garden.told("main");
    let at = |step: &str| steps.iter().position(|told| told == step).unwrap_or_else(|| panic!("{step}: {steps:?}"));
    let tested = at("p1 test-pass");
    assert!(at("T001 complete").max(at("T002 complete")) < tested && tested < at("T003 implement-pass"), "{steps:?}");
    // Red, they keep those that need the phase, and end the run.
    let tree = Tree::default().phase("p1", &["T001", "T002"]).leaf("T003: p1", None);
    let garden = Garden::new(&tree.tests("p1", &["integration: false"]));
    let ran = garden.gardener(&["--jobs", "3"]).expect(1);
    assert_eq!(ran.ended().0, "gate_red", "{ran}");
    assert_eq!(completed(&garden), set(&["T001", "T002"]));
}

#[test]
fn phase_tests_run_once_while_other_tasks_finish() {
    let tree = Tree::default().phase("p1", &["T001"]).leaf("T002", None).leaf("T003", None).leaf("T004: p1", None);
    let garden = Garden::new(&tree);
    let gate = Gate::new(&garden.env, "tests");
    let runs = garden.env.root().join("tmp/runs");
    let tests = format!("integration: echo x >> '{}'; {}", runs.display(), gate.command());
    garden.plant(&tree.tests("p1", &[&tests]));
    let work = "[ $task = T001 ] || until [ -e $W/tmp/runs ]; do sleep 0.02; done; echo $task > $task.txt";
    garden.agent(work, APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener", "--jobs", "3"]);
    let held = gate.reached(&mut run);
    for _ in ["T001", "T002", "T003"] {
        run.wait_for(" complete (");
    }
    gate.open(held);
    let ran = run.end().expect(0);
    assert_eq!(garden.env.read("tmp/runs"), "x\n", "{ran}");
    let steps = garden.told("main");
    let at = |step: &str| steps.iter().position(|told| told == step).unwrap_or_else(|| panic!("{step}: {steps:?}"));
    assert!(at("p1 test-pass") < at("T002 complete").min(at("T003 complete")), "{steps:?}");
    garden.assert_in_order();
}

#[test]
fn jobs_need_branches_of_their_own() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    for isolation in ["none", "phase"] {
        let ran = garden.gardener(&["--jobs", "2", "--isolation", isolation]).expect(2);
        ran.fails_with("command-line");
    }
    garden.gardener(&["--isolation", "task"]).expect(0);
    assert_eq!(garden.completed(), ["T001"]);
}

#[test]
fn a_single_task_runs_in_a_slot_of_its_own() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.agent("pwd > where-$task.txt", APPROVES);
    garden.env.pleach(&["-y", "garden", "--isolation", "task", "--task", "T002"]).expect(0);
    assert_eq!(garden.completed(), ["T002"]);
    let place = on_main(&garden, "where-T002.txt");
    assert!(garden.env.git(&["worktree", "list", "--porcelain"]).contains(&format!("worktree {place}\n")), "{place}");
    assert_ne!(place, garden.env.repo_path().display().to_string());
    garden.gardener(&[]).expect(0);
    assert_eq!(completed(&garden), set(&["T001", "T002"]));
}

#[test]
fn a_killed_run_of_several_tasks_resumes_each() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003"]));
    garden.agent(&format!("echo $task >> $W/tmp/runs; {}; echo $task > $task.txt", meets(2)), APPROVES);
    let crash =
        garden.env.command(&["-y", "gardener", "--jobs", "2"]).env("PLEACH_CRASH", "ref-swap:after:12").output();
    assert!(!crash.expect("pleach starts").status.success());
    garden.env.assert_no_process_left();
    garden.gardener(&["--jobs", "2"]).expect(0);
    assert_eq!(completed(&garden), set(&["T001", "T002", "T003"]));
    for task in ["T001", "T002", "T003"] {
        assert_eq!(on_main(&garden, &format!("{task}.txt")), task);
        let landed = garden.env.git(&["log", "--format=%s", "main"]);
        let complete = format!("task(main@{task}@complete)");
        assert_eq!(landed.matches(&complete).count(), 1, "landed once: {landed}");
    }
}

#[test]
fn budgets_hold_over_parallel_tasks() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003"]));
    let call = "      - {tools: [{shell: {command: 'true'}}], usage: {input: 10, output: 5}}\n".repeat(20);
    garden
        .env
        .write("script.yaml", format!("model: m\nscripts:\n  - name: all\n    steps:\n{call}      - text: done\n"));
    garden.env.configure(
        "agent: builtin\nproviders: {script: {file: script.yaml}}\nbudget: {tokens: 100, on_exceeded: pause}\n",
    );
    garden.gardener(&["--jobs", "3"]).expect(3);
    let tokens = |session: &String| -> u64 {
        let shown = garden.env.pleach(&["status", session, "--json"]).expect(0).json();
        ["input", "output"].iter().filter_map(|kind| shown["tokens"][kind].as_u64()).sum()
    };
    let spent: u64 = garden.env.sessions().iter().map(tokens).sum();
    assert!((100..=100 + 3 * 15).contains(&spent), "one call each past the limit at most: {spent}");
}

#[test]
fn what_lands_meanwhile_is_not_named() {
    let garden = Garden::new(&Tree::of(&["T001", "T002"]));
    garden.env.unbound();
    // The second one works until the first has landed.
    let waits = "until git show main:T001.txt; do sleep 0.05; done";
    let work = format!("{}; [ $task = T001 ] || {waits}; echo $task > $task.txt", meets(2));
    garden.agent(&work, APPROVES);
    garden.gardener(&["--jobs", "2"]).expect(0);
    assert_eq!(completed(&garden), set(&["T001", "T002"]));
    for session in garden.env.sessions() {
        let story = crate::sessions::Story::of(&garden.env, &garden.env.repo_path(), &session);
        assert_eq!(story.warnings(), [], "{session}");
    }
}

/// The files of the target without pleach's own logs and reports.
fn files(garden: &Garden) -> String {
    let all = garden.env.git(&["ls-tree", "-r", "main"]);
    all.lines().filter(|line| !line.contains("\tlogs/") && !line.contains("\treports/")).collect::<Vec<_>>().join("\n")
}

#[test]
fn random_trees_end_the_same_with_any_jobs() {
    let mut random = Random(0x5eed);
    for _ in 0..3 {
        let count = 3 + random.below(4);
        let task = |random: &mut Random, number: u64| {
            let needs = (1..number).filter(|_| random.below(3) == 0).map(|need| format!(" T{need:03}"));
            format!("T{number:03}:{}", needs.collect::<String>())
        };
        let tasks: Vec<String> = (1..=count).map(|number| task(&mut random, number)).collect();
        let ends = ["1", "4"].map(|jobs| {
            let garden = Garden::new(&Tree::of(&tasks.iter().map(String::as_str).collect::<Vec<_>>()));
            // Half of them are rejected once.
            let review =
                "case $task in *[13579]) [ $n = 2 ] || { echo 'REJECTED: not yet'; exit; } ;; esac; echo APPROVED";
            garden.agent("echo \"$task\" > \"$task.txt\"; echo $n >> \"$task.txt\"", review);
            garden.gardener(&["--jobs", jobs]).expect(0);
            (files(&garden), completed(&garden))
        });
        assert_eq!(ends[0], ends[1], "{tasks:?}");
    }
}

/// The slots that are there, by the last part of their paths.
fn slots(garden: &Garden) -> Vec<String> {
    let listed = garden.env.git(&["worktree", "list", "--porcelain"]);
    let places =
        listed.lines().filter_map(|line| line.strip_prefix("worktree ")).filter(|path| path.contains("/tasks/"));
    places.map(|path| path.rsplit('/').next().unwrap().to_owned()).collect::<BTreeSet<_>>().into_iter().collect()
}

#[test]
fn idle_slots_beyond_the_pool_are_removed() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003"]));
    garden.configure("worktrees: {pool: 2}\n");
    garden.agent(&format!("{}; echo $task > $task.txt", meets(3)), APPROVES);
    garden.gardener(&["--jobs", "3"]).expect(0);
    assert_eq!(completed(&garden), set(&["T001", "T002", "T003"]));
    assert_eq!(slots(&garden), ["2", "main"], "those with the lowest numbers stay");
    assert_eq!(garden.refs("refs/pleach/keep/"), Vec::<String>::new());
}

#[test]
fn a_slot_with_something_unsaved_stays() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003"]));
    garden.configure("worktrees: {pool: 0}\n");
    let inside = "case $PWD in */3) git init -q inside; echo mine > inside/f;; esac";
    garden.agent(&format!("{}; echo $task > $task.txt; {inside}", meets(3)), APPROVES);
    garden.gardener(&["--jobs", "3"]).expect(0);
    assert_eq!(slots(&garden), ["3"], "a repository in it would be lost");
    garden.env.assert_no_process_left();
}
