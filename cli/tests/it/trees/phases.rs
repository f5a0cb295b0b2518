//! Phases with branches of their own, and the tests of phases.

use serde_json::{Value, json};

use super::garden::{APPROVES, Garden, Tree, WRITES};
use crate::sessions::Gate;

const PHASE: [&str; 2] = ["--isolation", "phase"];

fn parents(garden: &Garden, commit: &str) -> Vec<String> {
    let all = garden.env.git(&["log", "-1", "--format=%P", commit]);
    all.split(' ').map(str::to_owned).collect()
}

#[test]
fn a_phase_gathers_on_its_branch_and_merges_when_done() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]).phase("phase2", &["T003"]));
    garden.configure("tree: {delete_branches: false}\n");
    garden.garden(&PHASE).expect(0);
    assert_eq!(garden.told("main"), [""; 0], "one task of two is done");
    assert_eq!(garden.told("pleach/phase/main/phase1").len(), 3);
    let first = garden.steps("pleach/phase/main/phase1");
    assert!(first[1].subject.starts_with("task(main@T001@"), "the target stands in the subject: {}", first[1].subject);
    garden.garden(&PHASE).expect(0);
    assert_eq!(garden.merges(), ["merge: phase1 complete"]);
    assert_eq!(parents(&garden, "main").len(), 2);
    assert_eq!(parents(&garden, "main")[1], garden.env.git(&["rev-parse", "pleach/phase/main/phase1"]));
    assert_eq!(garden.completed(), ["T001", "T002"]);
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.merges(), ["merge: phase1 complete", "merge: phase2 complete"]);
    assert_eq!(garden.completed(), ["T001", "T002", "T003"]);
    assert_eq!(garden.env.git(&["log", "-1", "--format=%an <%ae>", "main"]), "pleach <pleach@local>");
    let ran = garden.gardener(&PHASE).expect(0);
    assert_eq!(ran.tasks_done(), (3, 3), "{ran}");
}

#[test]
fn a_phase_gate_runs_on_the_merged_tree() {
    let tree = Tree::default().phase("phase1", &["T001"]).tests("phase1", &["integration: ls | tee \"$HOME/saw\""]);
    let garden = Garden::new(&tree);
    garden.configure("tree: {delete_branches: false}\n");
    let gate = Gate::new(&garden.env, "agent");
    garden.agent(&format!("{WRITES}; {}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener", "--isolation", "phase"]);
    let held = gate.reached(&mut run);
    // The task lands on its phase's branch, so this is first met by the merge.
    garden.commit("mine", "by the user\n");
    gate.open(held);
    run.end().expect(0);
    garden.assert_in_order();
    let saw = garden.env.read("home/saw");
    assert!(saw.contains("T001.txt") && saw.contains("mine"), "{saw}");
    assert_eq!(garden.merges(), ["merge: phase1 complete"]);
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "mine", "task-tree.json"]);
    let step = garden.newest("main", "phase1 test-pass");
    assert_eq!(step.subject, "task(main@phase1@test-pass): tests pass for \"Phase phase1\"");
    let on_phase = garden.newest("pleach/phase/main/phase1", "phase1 test-pass");
    assert_eq!(on_phase.id, step.id, "its step is on the branch of the phase");
    let files = garden.files("pleach/phase/main/phase1");
    assert_eq!(files, ["README.md", "T001.txt", "task-tree.json"], "the step brings nothing of the target along");
}

#[test]
fn a_red_gate_keeps_the_phase_from_the_target() {
    let tree =
        Tree::default().phase("phase1", &["T001"]).tests("phase1", &["e2e: echo broken; test -e \"$HOME/fixed\""]);
    let garden = Garden::new(&tree);
    let ran = garden.gardener(&PHASE).expect(1);
    assert_eq!(ran.ended(), ("gate_red", "phase1"), "{ran}");
    assert!(ran.stdout.contains("`pleach/phase/main/phase1`") && ran.stdout.contains(": broken (exit 1)\n"), "{ran}");
    assert!(ran.stderr.contains("the test result of phase1 is on pleach/phase/main/phase1"), "{ran}");
    assert_eq!(garden.merges(), [""; 0]);
    assert_eq!(garden.told("main"), [""; 0]);
    let red = garden.newest("pleach/phase/main/phase1", "phase1 test-fail");
    assert_eq!(red.trailer("Arborist-Retry"), Some("0"));
    assert_eq!(red.trailer("Arborist-Test-Type"), Some("e2e"));
    garden.env.write("home/fixed", "");
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.merges(), ["merge: phase1 complete"]);
    assert_eq!(garden.newest("main", "phase1 test-pass").trailer("Arborist-Retry"), Some("1"));
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

/// Where the target has moved on, what each task was tested with is not what is merged.
#[test]
fn a_phase_without_tests_is_not_merged_untested() {
    // Each half is fine by itself.
    let apart = "unit: echo tested >> \"$HOME/tested\"; test ! -e T002.txt -o ! -e T003.txt";
    let tree = Tree::default().phase("phase1", &["T001", "T002"]).phase("phase2", &["T003", "T004"]);
    let order = ["T001", "T003", "T002", "T004"];
    let tree = order.iter().fold(tree, |tree, task| tree.tests(task, &[apart])).order(&order);
    let garden = Garden::new(&tree);
    let ran = garden.gardener(&PHASE).expect(1);
    assert_eq!(ran.ended(), ("gate_red", "phase2"), "{ran}");
    assert!(ran.stdout.contains("`pleach/phase/main/phase2`") && ran.stdout.contains("T003 (exit 1)\n"), "{ran}");
    assert_eq!(garden.merges(), ["merge: phase1 complete"]);
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "T002.txt", "task-tree.json"]);
    let red = garden.newest("pleach/phase/main/phase2", "phase2 test-fail");
    assert_eq!(red.trailer("Arborist-Test-Type"), Some("unit"));
    let tested = garden.env.read("home/tested").lines().count();
    assert_eq!(tested, 4 + 1, "what tests both in the same way runs once for both");

    // It is tried again, also where the phase has all of the target, and merged once it is fixed.
    garden.gardener(&PHASE).expect(1);
    garden.env.git(&["switch", "--quiet", "pleach/phase/main/phase2"]);
    garden.env.git(&["merge", "--quiet", "-m", "Merge by hand", "main"]);
    garden.env.git(&["switch", "--quiet", "main"]);
    garden.gardener(&PHASE).expect(1);
    garden.env.git(&["switch", "--quiet", "pleach/phase/main/phase2"]);
    garden.env.git(&["rm", "--quiet", "T003.txt"]);
    garden.env.git(&["commit", "--quiet", "-m", "mend"]);
    garden.env.git(&["switch", "--quiet", "main"]);
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.merges(), ["merge: phase1 complete", "merge: phase2 complete"]);
    garden.newest("main", "phase2 test-pass");
}

/// The tests of a task that is done say nothing of what somebody puts on the branch after it, whatever lands on top.
#[test]
fn foreign_commits_between_phase_tasks_are_tested() {
    let tree = Tree::default().phase("phase1", &["T001", "T002"]).tests("T001", &["unit: test ! -e bad"]);
    let garden = Garden::new(&tree);
    garden.garden(&PHASE).expect(0);
    garden.env.git(&["switch", "--quiet", "pleach/phase/main/phase1"]);
    garden.commit("bad", "by hand\n");
    garden.env.git(&["switch", "--quiet", "main"]);
    garden.gardener(&PHASE).expect(1);
    assert_eq!(garden.merges(), [""; 0]);
    // It has no tests of its own, and yet it can be seen.
    let shown = garden.env.pleach(&["status"]).expect(0);
    assert!(shown.stdout.contains("2/2  tests fail: tests of T001 (exit 1)\n"), "{shown}");
    // They run again before anything is merged.
    assert_eq!(shown.next(), ("test", "phase1"), "{shown}");
    let dry = garden.gardener(&[&PHASE[..], &["--dry-run"]].concat()).expect(0);
    assert_eq!(dry.next(), ("test", "phase1"), "{dry}");
    let shown: Value = serde_json::from_str(&garden.env.pleach(&["status", "--json"]).expect(0).stdout).unwrap();
    assert_eq!(shown["trees"][0]["gates"], json!({"phase1": "fail"}));
    let next = &shown["trees"][0]["next"];
    assert_eq!((&next["is"], &next["task"]), (&json!("gate"), &json!("phase1")), "{next}");
    let inspected = garden.env.pleach(&["inspect", "phase1", "--json"]).expect(0);
    let inspected: Value = serde_json::from_str(&inspected.stdout).unwrap();
    assert_eq!((&inspected["status"], &inspected["tests"]), (&json!("failed"), &json!("fail")));

    garden.env.git(&["switch", "--quiet", "pleach/phase/main/phase1"]);
    garden.env.git(&["rm", "--quiet", "bad"]);
    garden.env.git(&["commit", "--quiet", "-m", "mend"]);
    garden.env.git(&["switch", "--quiet", "main"]);
    garden.gardener(&PHASE).expect(0);
    let shown = garden.env.pleach(&["status"]).expect(0);
    assert!(shown.stdout.contains("2/2\n"), "{shown}");
}

#[test]
fn task_named_tests_run_for_each_merged_task() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]));
    let test = ["--test-command", "test ! -e \"bad.$task_id\"", "--isolation", "phase"];
    garden.garden(&test).expect(0);
    garden.commit("bad.T002", "\n");
    // The task itself starts where its phase did, and knows nothing of it.
    let ran = garden.gardener(&test).expect(1);
    assert!(ran.ended() == ("gate_red", "phase1") && ran.stdout.contains("`pleach/phase/main/phase1`"), "{ran}");
    assert_eq!(garden.merges(), [""; 0]);
}

#[test]
fn tests_with_setup_fail_at_a_phase_merge_too() {
    let tests = ["setup: true", "unit: set -e\ntest ! -e bad\necho all is well", "teardown: true"];
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]).tests("T001", &tests));
    garden.garden(&PHASE).expect(0);
    garden.commit("bad", "\n");
    garden.gardener(&PHASE).expect(1);
    assert_eq!(garden.merges(), [""; 0]);
}

/// An agent cannot be asked to test what a merge gives.
#[test]
fn a_phase_an_agent_has_tested_is_not_merged_untested() {
    let dot = "digraph a { start [shape=Mdiamond]; done [shape=Msquare]; implement [step=implement]\n\
               test [step=test, write=false, prompt=\"Does it run?\"]; start -> implement -> test -> done }";
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]));
    garden.commit("agents.dot", dot);
    let given = ["--pipeline", "agents.dot", "--isolation", "phase"];
    garden.garden(&given).expect(0);
    garden.commit("bad", "\n");
    let ran = garden.gardener(&given).expect(5);
    let why = "T001 was tested by an agent, on other files than the merge has";
    assert!(ran.stdout.contains(why) && ran.stdout.contains("`git merge pleach/phase/main/phase1`"), "{ran}");
    assert_eq!(garden.merges(), [""; 0]);
    garden.env.git(&["merge", "--quiet", "-m", "Merge by hand", "pleach/phase/main/phase1"]);
    garden.gardener(&given).expect(0);
    assert_eq!(garden.completed(), ["T001", "T002"]);
}

#[test]
fn a_phase_with_turn_commits_lands_as_it_was() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]));
    garden.configure("commits: turns\n");
    garden.garden(&["--test-command", "echo tested >> \"$HOME/tested\"", "--isolation", "phase"]).expect(0);
    // Nobody has put anything there, so nothing has to be tested again.
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.merges(), ["merge: phase1 complete"]);
    assert_eq!(garden.env.read("home/tested").lines().count(), 1);
}

#[test]
fn a_phase_without_its_tests_is_not_merged_untested() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]));
    let given = ["--test-command", "test ! -e bad", "--isolation", "phase"];
    garden.garden(&given).expect(0);
    garden.commit("bad", "\n");
    let ran = garden.gardener(&PHASE).expect(5);
    assert!(ran.refused().0 == "untestable" && ran.stdout.contains("T001"), "{ran}");
    assert_eq!(garden.merges(), [""; 0]);
    garden.gardener(&given).expect(1);
    garden.env.git(&["rm", "--quiet", "bad"]);
    garden.env.git(&["commit", "--quiet", "--message", "good"]);
    garden.gardener(&given).expect(0);
}

#[test]
fn a_red_gate_is_fixed_on_its_phase_branch() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001"]).tests("phase1", &["e2e: test -e mended"]));
    garden.gardener(&PHASE).expect(1);
    garden.env.git(&["switch", "--quiet", "pleach/phase/main/phase1"]);
    garden.commit("mended", "by hand\n");
    garden.env.git(&["switch", "--quiet", "main"]);
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.merges(), ["merge: phase1 complete"]);
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "mended", "task-tree.json"]);
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

#[test]
fn phase_tests_passed_on_another_merge_run_again() {
    let tree = Tree::default().phase("phase1", &["T001"]).tests("phase1", &["integration: test ! -e bad"]);
    let garden = Garden::new(&tree);
    garden.env.write("repo/T001.txt", "mine\n");
    garden.gardener(&PHASE).expect(5);
    std::fs::remove_file(garden.env.repo_path().join("T001.txt")).unwrap();
    let says = |tests: &str, next: &str| {
        let shown = garden.env.pleach(&["status"]).expect(0);
        assert!(shown.stdout.contains(&format!("1/1  tests {tests}\n")), "{shown}");
        assert!(shown.stdout.contains(&format!("\n  next: {next}\n")), "{shown}");
        let dry = garden.gardener(&["--dry-run", "--isolation", "phase"]).expect(0);
        assert!(dry.stdout.contains(&format!("\nnext: {next}\n")), "{dry}");
        let inspected = garden.env.pleach(&["inspect", "phase1"]).expect(0);
        assert!(inspected.stdout.contains(&format!("1 of 1 task done, its tests {tests}\n")), "{inspected}");
    };
    says("pass", "merge phase1");
    // A commit that changes no file changes nothing of what the merge gives.
    garden.env.git(&["commit", "--quiet", "--allow-empty", "--message", "nothing"]);
    says("pass", "merge phase1");
    garden.commit("bad", "\n");
    let objects = garden.env.git(&["count-objects"]);
    says("must run again", "run the tests of phase1");
    assert_eq!(garden.env.git(&["count-objects"]), objects, "nothing is written to tell it");
    garden.gardener(&PHASE).expect(1);
    let shown = garden.env.pleach(&["status"]).expect(0);
    assert!(shown.stdout.contains("1/1  tests fail: exit 1\n"), "{shown}");
    garden.env.git(&["rm", "--quiet", "bad"]);
    garden.env.git(&["commit", "--quiet", "--message", "good"]);
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.merges(), ["merge: phase1 complete"]);
    let shown = garden.env.pleach(&["status"]).expect(0);
    assert!(shown.stdout.contains("1/1  tests pass\n"), "{shown}");
}

#[test]
fn a_conflict_at_a_phase_merge_leaves_its_branch() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001"]).phase("phase2", &["T002"]));
    let gate = Gate::new(&garden.env, "agent");
    garden.agent(&format!("echo agent > README.md; {}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener", "--isolation", "phase"]);
    let held = gate.reached(&mut run);
    garden.commit("README.md", "user\n");
    gate.open(held);
    let ran = run.end().expect(5);
    garden.assert_in_order();
    assert!(ran.stdout.contains("README.md") && ran.stdout.contains("pleach/phase/main/phase1"), "{ran}");
    assert_eq!(garden.file("main", "README.md"), "user");
    assert_eq!(garden.file("pleach/phase/main/phase1", "README.md"), "agent");
    let by_hand =
        "(`git switch pleach/phase/main/phase1`, `git merge main`), go back with `git switch main`, and run again";
    assert!(ran.stdout.contains(by_hand), "{ran}");
    garden.env.git(&["switch", "--quiet", "pleach/phase/main/phase1"]);
    garden.env.git(&["merge", "--quiet", "-s", "ours", "-m", "Merge by hand", "main"]);
    garden.agent(WRITES, APPROVES);
    let ran = garden.gardener(&PHASE).expect(2);
    ran.fails_with("own-branch").naming("`git switch main`");
    assert!(ran.stderr.contains("pleach/phase/main/phase1"), "{ran}");
    garden.env.git(&["switch", "--quiet", "main"]);
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.file("main", "README.md"), "agent");
    assert_eq!(garden.completed(), ["T001", "T002"]);
}

#[test]
fn a_merged_phase_continues_from_the_target() {
    let tree = Tree::default().phase("phase1", &["T001"]).phase("phase2", &["T002"]);
    let garden = Garden::new(&tree);
    garden.gardener(&PHASE).expect(0);
    garden.plant(&Tree::default().phase("phase1", &["T001", "T003: T002"]).phase("phase2", &["T002"]));
    garden.agent("ls > saw; echo 1 > $task", APPROVES);
    garden.gardener(&PHASE).expect(0);
    assert!(garden.file("main", "saw").contains("T002.txt"), "what it depends on is there");
    assert_eq!(garden.completed(), ["T001", "T002", "T003"]);
    assert_eq!(garden.merges().last().unwrap(), "merge: phase1 complete");
}

#[test]
fn a_fresh_run_ignores_earlier_phase_work() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]));
    garden.garden(&PHASE).expect(0);
    let old = garden.env.git(&["rev-parse", "pleach/phase/main/phase1"]);
    let ran = garden.gardener(&["--isolation", "phase", "--fresh"]).expect(0);
    ran.warns("phase-branch-restarted").naming("refs/pleach/keep/phase1-1");
    assert_eq!(garden.env.git(&["rev-parse", "refs/pleach/keep/phase1-1"]), old);
    assert_eq!(garden.completed(), ["T001", "T002"]);
    assert_eq!(garden.times_asked("T001", "implement"), 2);
}

#[test]
fn a_phase_taken_out_of_the_tree_is_not_forgotten() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]).phase("phase2", &["T003"]));
    garden.garden(&PHASE).expect(0);
    garden.plant(&Tree::default().phase("phase2", &["T003"]));
    let ran = garden.gardener(&PHASE).expect(5);
    assert_eq!(ran.refused(), ("stray", "phase1"), "{ran}");
    assert!(ran.stdout.contains("`git branch -D pleach/phase/main/phase1 pleach/tasks/main/T001`"), "{ran}");
    let phase = garden.env.git(&["rev-parse", "pleach/phase/main/phase1"]);
    garden.env.git(&["branch", "--quiet", "-D", "pleach/phase/main/phase1"]);
    let ran = garden.gardener(&PHASE).expect(5);
    let session = garden.env.session();
    assert!(ran.stdout.contains(&format!("`pleach rm --force {session}`")), "its task is still there: {ran}");
    garden.env.git(&["merge", "--quiet", "-m", "Take it", &phase]);
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.completed(), ["T001", "T003"]);
}

#[test]
fn phases_follow_the_dependencies_of_their_tasks() {
    let tree = Tree::default().phase("late", &["A1", "A2: B1"]).phase("early", &["B1"]);
    let garden = Garden::new(&tree);
    garden.agent("ls > \"$task.saw\"", APPROVES);
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.merges(), ["merge: early complete", "merge: late complete"]);
    assert!(garden.file("main", "A1.saw").contains("B1.saw"), "a phase begins on the target that has what it needs");
}

#[test]
fn a_task_can_wait_for_a_whole_phase() {
    let tree = Tree::default()
        .phase("phase2", &["B1: phase1"])
        .phase("phase1", &["A1", "A2"])
        .tests("phase1", &["integration: echo gated >> \"$HOME/order\""]);
    let garden = Garden::new(&tree);
    garden.agent("echo $task >> \"$HOME/order\"; echo 1 > $task", APPROVES);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.env.read("home/order").lines().collect::<Vec<_>>(), ["A1", "A2", "gated", "B1"]);
}

#[test]
fn phases_that_wait_for_each_other_are_refused() {
    let garden = Garden::new(&Tree::default().phase("one", &["A1", "A2: B1"]).phase("two", &["B1: A1"]));
    let ran = garden.gardener(&PHASE).expect(2);
    ran.fails_with("phase-cycle");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["A1", "B1", "A2"]);
}

#[test]
fn a_task_without_a_phase_lands_on_the_target() {
    let garden = Garden::new(&Tree::of(&["T001"]).phase("phase1", &["T002"]));
    garden.configure("tree: {delete_branches: false}\n");
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.merges(), ["merge: phase1 complete"]);
    assert_eq!(garden.completed(), ["T001", "T002"]);
    assert_eq!(garden.refs("refs/heads/pleach/phase/"), ["refs/heads/pleach/phase/main/phase1"]);
}

#[test]
fn a_failed_task_in_a_phase_can_be_retried() {
    let tree = Tree::default().phase("phase1", &["T001", "T002"]).tests("T002", &["unit: test -e mended"]);
    let garden = Garden::new(&tree);
    garden.configure("tree: {max_retries: 1}\n");
    garden.gardener(&PHASE).expect(1);
    assert_eq!(garden.told("pleach/phase/main/phase1").last().unwrap(), "T002 failed");
    assert!(!garden.files("pleach/phase/main/phase1").contains(&"T002.txt".to_owned()));
    garden.gardener(&PHASE).expect(1);
    garden.agent("echo 1 > mended", APPROVES);
    garden.gardener(&["--isolation", "phase", "--retry-failed"]).expect(0);
    assert_eq!(garden.merges(), ["merge: phase1 complete"]);
    assert_eq!(garden.files("main"), ["README.md", "T001.txt", "T002.txt", "mended", "task-tree.json"]);
}

#[test]
fn a_gate_runs_once_its_last_task_landed() {
    let tree = Tree::default()
        .phase("phase1", &["T001", "T002"])
        .tests("phase1", &["integration: ls T001.txt T002.txt", "e2e: echo e2e"])
        .phase("phase2", &["T003"]);
    let garden = Garden::new(&tree);
    garden.gardener(&[]).expect(0);
    let told = garden.told("main");
    let gate = told.iter().position(|status| status == "phase1 test-pass").expect("the gate's step");
    assert_eq!(told[gate - 1], "T002 complete");
    assert_eq!(told[gate + 1], "T003 implement-pass");
    let step = garden.newest("main", "phase1 test-pass");
    assert_eq!(step.trailer("Arborist-Test-Type"), Some("integration"));
    assert_eq!(step.trailer("Arborist-Retry"), Some("0"));
    let times = told.iter().filter(|status| status.starts_with("phase1")).count();
    assert_eq!(times, 1);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.told("main").len(), told.len(), "what is green stays green");
}

#[test]
fn unit_tests_of_a_phase_never_run_and_warn() {
    let tree = Tree::default()
        .phase("phase1", &["T001"])
        .phase("phase2", &["T002"])
        .tests("phase1", &["unit: false"])
        .tests("phase2", &["unit: false", "e2e: true"]);
    let garden = Garden::new(&tree);
    let ran = garden.gardener(&[]).expect(0);
    let said = "its `unit` tests never do: phase1, phase2";
    assert_eq!(ran.stderr.matches(said).count(), 1, "{ran}");
    let told = garden.told("main");
    assert!(!told.iter().any(|step| step.contains("phase1")), "{told:?}");
    assert_eq!(garden.newest("main", "phase2 test-pass").trailer("Arborist-Test-Type"), Some("e2e"));
}

#[test]
fn a_red_gate_ends_the_run_and_runs_first_later() {
    let tree = Tree::default()
        .phase("phase1", &["T001"])
        .tests("phase1", &["integration: echo the-gate-said; test -e \"$HOME/fixed\""])
        .phase("phase2", &["T002"]);
    let garden = Garden::new(&tree);
    let ran = garden.gardener(&[]).expect(1);
    assert_eq!(ran.ended(), ("gate_red", "phase1"), "{ran}");
    assert_eq!(garden.times_asked("T002", "implement"), 0);
    let red = garden.newest("main", "phase1 test-fail");
    assert_eq!(red.subject, "task(main@phase1@test-fail): tests fail for \"Phase phase1\"");
    let log = red.trailer("Arborist-Test-Log").expect("a log");
    assert!(garden.file("main", log).contains("the-gate-said"));
    garden.gardener(&[]).expect(1);
    assert_eq!(garden.newest("main", "phase1 test-fail").trailer("Arborist-Retry"), Some("1"));
    assert_eq!(garden.times_asked("T002", "implement"), 0, "the gate comes first");
    garden.env.write("home/fixed", "");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.completed(), ["T001", "T002"]);
}

#[test]
fn a_reset_task_gets_the_gates_output() {
    let tree = Tree::default()
        .phase("phase1", &["T001"])
        .tests("phase1", &["integration: echo the-gate-said; test -e mended"]);
    let garden = Garden::new(&tree);
    garden.gardener(&[]).expect(1);
    let said = garden.newest("main", "phase1 test-fail").body;
    let message = format!(
        "task(main@T001@reset): reset \"Grow T001\"\n\n{said}\n\nArborist-Step: reset\nPleach-Tree: task-tree.json\n"
    );
    let message = garden.env.write("tmp/reset", message);
    garden.env.git(&["commit", "--quiet", "--allow-empty", "-F", message.to_str().unwrap()]);
    garden.agent("echo 1 > mended", APPROVES);
    garden.gardener(&[]).expect(0);
    let asked = garden.asked("T001", "implement", 2);
    assert!(asked.contains("the-gate-said"), "{asked}");
    let told = garden.told("main");
    let after = told.iter().position(|status| status == "T001 reset").expect("the reset");
    assert_eq!(told[after + 1..], ["T001 implement-pass", "T001 review-approved", "T001 complete", "phase1 test-pass"]);
    assert_eq!(garden.newest("main", "T001 implement-pass").trailer("Arborist-Retry"), Some("1"));
    assert_eq!(garden.newest("main", "phase1 test-pass").trailer("Arborist-Retry"), Some("1"));
}

#[test]
fn gates_of_inner_groups_run_from_the_inside_out() {
    let tree = Tree::default()
        .phase("group1", &["T001"])
        .tests("group1", &["integration: echo group1 >> \"$HOME/order\""])
        .phase("phase1", &["group1", "T002"])
        .tests("phase1", &["e2e: echo phase1 >> \"$HOME/order\""])
        .with("group1", "children", serde_json::json!(["T001"]))
        .with("group1", "name", "Group".into())
        .tests("group1", &["integration: echo group1 >> \"$HOME/order\""]);
    let garden = Garden::new(&tree);
    garden.agent("echo $task >> \"$HOME/order\"; echo 1 > $task", APPROVES);
    for isolation in ["none", "phase"] {
        let _ = std::fs::remove_file(garden.env.root().join("home/order"));
        let ran = garden.gardener(&["--isolation", isolation, "--fresh"]).expect(0);
        ran.does_not_warn("phase-branch-restarted");
        let order = garden.env.read("home/order");
        let order: Vec<&str> = order.lines().collect();
        assert_eq!(order[..4], ["T001", "group1", "T002", "phase1"], "{isolation}: {order:?}");
    }
}

/// Dates the newest commit of the checkout otherwise, as a machine with another clock would have.
fn redate(garden: &Garden, seconds: i64) {
    let date = format!("--date=@{seconds} +0000");
    garden.env.git(&["commit", "--quiet", "--amend", "--no-edit", "--allow-empty", &date]);
}

#[test]
fn a_task_reset_by_a_fast_clock_is_redone_once() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]));
    garden.garden(&PHASE).expect(0);
    garden.env.pleach(&["reset", "T001"]).expect(0);
    let now: i64 = garden.env.git(&["log", "-1", "--format=%at", "main"]).parse().expect("a date");
    redate(&garden, now + 300);
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 2);
    assert_eq!(garden.completed(), ["T001", "T001", "T002"]);
    // What is decided about another task after that counts too, though this clock says that it was before.
    garden.env.pleach(&["reset", "T002"]).expect(0);
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.times_asked("T002", "implement"), 2);
    assert_eq!(garden.times_asked("T001", "implement"), 2);
}

#[test]
fn a_landed_task_reading_as_open_is_not_redone() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]));
    garden.garden(&PHASE).expect(0);
    garden.env.pleach(&["reset", "T001"]).expect(0);
    // No date is later than this one.
    redate(&garden, jiff::Timestamp::MAX.as_second());
    let reset = garden.env.git(&["rev-parse", "--short=10", "main"]);
    let ran = garden.gardener(&PHASE).expect(7);
    ran.fails_with("task-still-open").naming("T001");
    assert!(ran.stderr.contains(&reset), "{ran}");
    assert_eq!(garden.times_asked("T001", "implement"), 2);
    garden.env.pleach(&["skip", "T001"]).expect(0);
}

#[test]
fn a_finished_gate_reading_as_due_is_not_rerun() {
    let tree = Tree::default().phase("phase1", &["T001", "T002"]).tests("phase1", &["e2e: echo ran >> \"$HOME/gate\""]);
    let garden = Garden::new(&tree);
    garden.garden(&PHASE).expect(0);
    garden.env.pleach(&["skip", "T002"]).expect(0);
    // Later than any run of the gate.
    redate(&garden, jiff::Timestamp::MAX.as_second());
    let ran = garden.gardener(&PHASE).expect(7);
    ran.fails_with("task-still-open").naming("phase1");
    assert_eq!(garden.env.read("home/gate"), "ran\n");
}

#[test]
fn a_phase_pipeline_is_ignored_with_one_warning() {
    let tree = Tree::default().phase("phase1", &["T001"]).phase("phase2", &["T002"]);
    let garden =
        Garden::new(&tree.with("phase1", "pipeline", "gone.dot".into()).with("phase2", "pipeline", "own.dot".into()));
    // Neither what it would run nor what is wrong with it concerns anybody.
    garden.commit(
        "own.dot",
        "digraph g { start [shape=Mdiamond] done [shape=Msquare] a [tool_command=\"never\"] a -> a }",
    );
    garden.env.pleach(&["-y", "garden"]).expect(0);
    let ran = garden.env.pleach(&["gardener"]).expect(0);
    ran.warns_once("idle-pipeline").naming("phase1, phase2");
    assert_eq!(garden.completed(), ["T001", "T002"]);
}
