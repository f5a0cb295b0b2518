//! Nodes that become others, and work that is moved or set back while it is on the branch of a phase.

use super::garden::{APPROVES, Garden, Tree, WRITES};
use crate::sessions::Gate;

const PHASE: [&str; 2] = ["--isolation", "phase"];

fn phase1(tasks: &[&str]) -> Tree {
    Tree::default().phase("phase1", tasks)
}

/// Works one task on the branch of its phase.
fn gather(garden: &Garden, task: &str) {
    garden.garden(&[&PHASE[..], &["--task", task]].concat()).expect(0);
}

/// Has a task wait to land on the branch of its phase, where a file of somebody else's is in the way.
fn have_wait(garden: &Garden, task: &str) {
    let beside = garden.env.root().join("beside").display().to_string();
    garden.env.git(&["worktree", "add", "--quiet", &beside, "pleach/phase/main/phase1"]);
    garden.env.write(format!("beside/{task}.txt"), "mine\n");
    garden.garden(&[&PHASE[..], &["--task", task]].concat()).expect(5);
    garden.env.git(&["worktree", "remove", "--force", &beside]);
}

/// Kills a run over a task, on the branch of its phase, while the task is reviewed.
fn kill_in_review(garden: &Garden, task: &str) {
    let gate = Gate::new(&garden.env, "review");
    garden.agent(WRITES, &format!("{}; {APPROVES}", gate.command()));
    let mut run = garden.env.spawn(&["-y", "garden", "--isolation", "phase", "--task", task]);
    let held = gate.reached(&mut run);
    run.kill(held);
    garden.agent(WRITES, APPROVES);
}

#[test]
fn a_phase_keeps_its_work_after_a_foreign_merge() {
    let garden = Garden::new(&phase1(&["T001", "T009"]).phase("phase2", &["T002", "T008"]));
    gather(&garden, "T002");
    gather(&garden, "T001");
    garden.env.git(&["switch", "--quiet", "pleach/phase/main/phase2"]);
    garden.env.git(&["merge", "--quiet", "-m", "Mix", "pleach/phase/main/phase1"]);
    garden.env.git(&["switch", "--quiet", "main"]);
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.times_asked("T002", "implement"), 1);
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

#[test]
fn a_phase_that_becomes_a_task_is_worked_as_one() {
    let garden = Garden::new(&phase1(&["T001"]));
    let gate = Gate::new(&garden.env, "tests");
    garden.plant(&phase1(&["T001"]).tests("phase1", &[&format!("e2e: {}", gate.command())]));
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.kill(held);
    garden.plant(&Tree::of(&["T001", "phase1"]).tests("phase1", &["unit: true"]));
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.times_asked("phase1", "implement"), 1);
    assert_eq!(garden.times_asked("phase1", "review"), 1);
    assert_eq!(garden.file("main", "phase1.txt"), "phase1 1");
}

#[test]
fn tests_of_a_phase_are_no_attempts_of_a_task() {
    let garden = Garden::new(&phase1(&["T001"]).tests("phase1", &["e2e: false"]));
    for _ in 0..3 {
        garden.gardener(&[]).expect(1);
    }
    garden.plant(&Tree::of(&["T001", "phase1"]));
    garden.agent("test $task$n != phase11 || exit 1; touch $task.txt", APPROVES);
    let ran = garden.gardener(&["--max-retries", "2"]).expect(0);
    assert!(ran.stderr.contains(", attempt 1 of 2)"), "{ran}");
    assert_eq!(garden.newest("main", "phase1 implement-pass").trailer("Arborist-Retry"), Some("1"));
}

#[test]
fn task_tests_say_nothing_about_a_later_phase() {
    let garden = Garden::new(&Tree::of(&["T002", "T001: T002"]).tests("T001", &["unit: true"]));
    garden.gardener(&[]).expect(0);
    garden.plant(&Tree::default().phase("T001", &["T002"]).tests("T001", &["integration: false"]));
    let ran = garden.gardener(&[]).expect(1);
    assert_eq!(ran.ended(), ("gate_red", "T001"), "{ran}");
}

#[test]
fn a_task_moved_into_a_phase_blocks_its_dependents() {
    let garden = Garden::new(&phase1(&["T001", "T004"]).phase("phase2", &["T002"]));
    gather(&garden, "T001");
    garden.garden(&["--task", "T002"]).expect(0);
    let tree = phase1(&["T001", "T004", "T002", "T003: T002"]).phase("phase2", &["T005"]);
    garden.plant(&tree.tests("T003", &["unit: test -e T002.txt"]));
    let ran = garden.gardener(&[]).expect(5);
    assert!(ran.refused() == ("lacking", "T003") && ran.stdout.contains("T002"), "{ran}");
    garden.env.git(&["switch", "--quiet", "pleach/phase/main/phase1"]);
    garden.env.git(&["merge", "--quiet", "-m", "Bring it", "main"]);
    garden.env.git(&["switch", "--quiet", "main"]);
    garden.gardener(&[]).expect(0);
}

#[test]
fn a_skipped_task_blocks_nothing() {
    let garden = Garden::new(&phase1(&["T001", "T002", "T003: T002"]));
    gather(&garden, "T001");
    garden.env.pleach(&["skip", "T002"]).expect(0);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001", "T003"]);
}

#[test]
fn reset_work_is_not_missed_on_its_branch() {
    let garden = Garden::new(&phase1(&["T001", "T002: T001", "T003"]));
    gather(&garden, "T001");
    have_wait(&garden, "T002");
    garden.env.pleach(&["reset", "T001"]).expect(0);
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 2);
    assert_eq!(garden.times_asked("T002", "implement"), 1);
}

#[test]
fn what_waits_is_held_by_what_was_set_back_elsewhere() {
    let tree = phase1(&["T001", "T002: T001", "T003"]);
    let garden = Garden::new(&tree.tests("T002", &["unit: test -e T001.txt"]));
    gather(&garden, "T001");
    have_wait(&garden, "T002");
    garden.env.pleach(&["reset", "T001"]).expect(0);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001", "T002", "T003"]);
    assert_eq!(garden.times_asked("T002", "implement"), 1);
}

#[test]
fn a_task_that_was_a_phase_stays_done() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.gardener(&[]).expect(0);
    garden.plant(&Tree::default().phase("T001", &["T002"]).tests("T001", &["e2e: false"]));
    garden.gardener(&[]).expect(1);
    garden.plant(&Tree::of(&["T001", "T002"]));
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

#[test]
fn a_task_keeps_its_work_after_merging_its_phase() {
    let garden = Garden::new(&phase1(&["T001", "T002", "T003"]));
    gather(&garden, "T001");
    kill_in_review(&garden, "T002");
    gather(&garden, "T003");
    garden.env.git(&["switch", "--quiet", "pleach/tasks/main/T002"]);
    garden.env.git(&["merge", "--quiet", "-m", "Mix", "pleach/phase/main/phase1"]);
    garden.env.git(&["switch", "--quiet", "main"]);
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.times_asked("T002", "implement"), 1);
}

#[test]
fn task_tests_count_even_as_the_only_step() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: echo $RANDOM; false"]));
    let gate = Gate::new(&garden.env, "agent");
    garden.commit(
        "bare.dot",
        "digraph bare { start [shape=Mdiamond]; done [shape=Msquare]; work; \
         test [shape=parallelogram, step=test]; start -> work -> test -> done }",
    );
    let third = format!("echo try >> T001.txt; test $(wc -l < T001.txt) != 3 || {}", gate.command());
    garden.agent(&third, APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener", "--pipeline", "bare.dot", "--max-retries", "4"]);
    let held = gate.reached(&mut run);
    run.kill(held);
    let status = garden.env.pleach(&["status"]).expect(0);
    assert!(status.next() == ("work", "T001") && status.stdout.contains("3 of 5"), "{status}");
}

#[test]
fn reset_work_done_elsewhere_does_not_return() {
    let garden = Garden::new(&phase1(&["T001", "T002"]));
    garden.agent(&format!("{WRITES}; test $task$n != T0011 || touch bad.txt"), APPROVES);
    gather(&garden, "T001");
    garden.env.pleach(&["reset", "T001"]).expect(0);
    garden.gardener(&[]).expect(0);
    garden.plant(&phase1(&["T001", "T002", "T003: T001"]));
    let ran = garden.gardener(&PHASE).expect(0);
    ran.warns("phase-branch-restarted").naming("`pleach/phase/main/phase1`");
    assert!(!garden.files("main").contains(&"bad.txt".to_owned()));
    assert_eq!(garden.file("main", "T003.txt"), "T003 1");
}

#[test]
fn a_phase_that_cannot_restart_keeps_nothing() {
    let garden = Garden::new(&phase1(&["T001", "T002"]));
    gather(&garden, "T001");
    garden.env.pleach(&["reset", "T001"]).expect(0);
    garden.gardener(&[]).expect(0);
    garden.plant(&phase1(&["T001", "T002", "T003: T001"]));
    let beside = garden.env.root().join("beside");
    let beside = beside.to_str().unwrap();
    garden.env.git(&["worktree", "add", "--quiet", beside, "pleach/phase/main/phase1"]);
    let ran = garden.gardener(&PHASE).expect(5);
    assert!(ran.refused().0 == "checked-out" && ran.stdout.contains(&format!("`{beside}`")), "{ran}");
    ran.does_not_warn("phase-branch-restarted");
    assert_eq!(garden.refs("refs/pleach/keep/phase1-"), [""; 0]);
    garden.env.git(&["worktree", "remove", beside]);
    let ran = garden.gardener(&PHASE).expect(0);
    ran.warns("phase-branch-restarted").naming("refs/pleach/keep/phase1-1");
}

#[test]
fn waiting_work_is_blocked_by_finished_phase_parts() {
    let garden = Garden::new(&phase1(&["T001", "T002: T001", "T008"]));
    gather(&garden, "T001");
    have_wait(&garden, "T002");
    garden.plant(&phase1(&["T001", "T009"]).leaf("T002: phase1", None));
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.told("main").last().unwrap(), "T002 complete");
    assert_eq!(garden.times_asked("T002", "implement"), 1);
}

#[test]
fn a_task_leaving_a_phase_takes_only_itself() {
    let tree = |test: &str| {
        let tests = format!("unit: {test}");
        (phase1(&["T001", "T009"]).tests("phase1", &["e2e: false"]), tests)
    };
    // Given up and tried again.
    let garden = Garden::new(&phase1(&["T001", "T002", "T009"]).tests("T002", &["unit: false"]));
    gather(&garden, "T001");
    garden.garden(&["--isolation", "phase", "--task", "T002", "--max-retries", "1"]).expect(1);
    let (rest, test) = tree("true");
    garden.plant(&rest.leaf("T002", None).tests("T002", &[&test]));
    garden.garden(&["--task", "T002", "--retry-failed"]).expect(0);
    assert!(garden.files("main").contains(&"T002.txt".to_owned()));
    assert!(!garden.files("main").contains(&"T001.txt".to_owned()));
    // Cut off, and resumed by hand.
    let garden = Garden::new(&phase1(&["T001", "T002", "T009"]));
    gather(&garden, "T001");
    kill_in_review(&garden, "T002");
    let beside = garden.env.root().join("beside").display().to_string();
    garden.env.git(&["worktree", "add", "--quiet", "--force", &beside, "pleach/tasks/main/T002"]);
    garden.env.write("beside/more.txt", "more\n");
    garden.env.git(&["-C", &beside, "add", "more.txt"]);
    garden.env.git(&["-C", &beside, "commit", "--quiet", "-m", "More"]);
    garden.env.git(&["worktree", "remove", "--force", &beside]);
    let (rest, test) = tree("true");
    garden.plant(&rest.leaf("T002", None).tests("T002", &[&test]));
    garden.garden(&["--task", "T002"]).expect(0);
    assert_eq!(garden.completed(), ["T002"], "T001 is not on main");
    assert!(garden.files("main").contains(&"more.txt".to_owned()));
    assert!(!garden.files("main").contains(&"T001.txt".to_owned()));
}

#[test]
fn stranded_work_is_not_another_trees_work() {
    let garden = Garden::new(&phase1(&["T001", "T002"]));
    gather(&garden, "T001");
    garden.commit("other.json", &Tree::of(&["T001", "T007"]).json());
    garden.env.write("repo/T001.txt", "mine\n");
    garden.garden(&["--tree", "other.json", "--task", "T001"]).expect(5);
    garden.plant(&Tree::of(&["T008"]));
    let ran = garden.gardener(&["--tree", "task-tree.json"]).expect(5);
    assert!(ran.stdout.contains("`git branch -D pleach/phase/main/phase1`"), "{ran}");
}

#[test]
fn a_finished_task_become_earlier_phase_satisfies_its_original() {
    let garden = Garden::new(&phase1(&["T001", "T002", "T003"]));
    gather(&garden, "T001");
    gather(&garden, "T002");
    let tree = Tree::default().phase("phase0", &["T002"]).phase("phase1", &["T001", "T003"]);
    garden.plant(&tree.with("phase1", "depends_on", serde_json::json!(["phase0"])));
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.completed(), ["T001", "T002", "T003"]);
}

#[test]
fn needs_of_a_finished_task_block_nothing() {
    let garden = Garden::new(&phase1(&["T001", "T002"]).phase("phase2", &["T003"]));
    gather(&garden, "T001");
    garden.plant(&phase1(&["T001: T003", "T002"]).phase("phase2", &["T003: T002"]));
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001", "T002", "T003"]);
}

#[test]
fn finished_work_that_lacks_something_is_called_finished() {
    let garden = Garden::new(&phase1(&["T001", "T004", "T009"]).phase("phase2", &["T002"]));
    gather(&garden, "T001");
    garden.garden(&["--task", "T002"]).expect(0);
    have_wait(&garden, "T004");
    garden.plant(&phase1(&["T001", "T004: T002", "T009"]).phase("phase2", &["T002"]));
    let ran = garden.gardener(&[]).expect(5);
    assert!(ran.refused() == ("lacking", "T004") && ran.stdout.contains("`pleach/tasks/main/T004`"), "{ran}");
    assert!(ran.stdout.contains("T002") && ran.stdout.contains("`pleach/phase/main/phase1`"), "{ran}");
}
