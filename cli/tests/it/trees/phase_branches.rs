//! Phases that were started on a branch of their own, and trees and runs that change before they are merged.

use super::garden::{APPROVES, Garden, Tree, WRITES};
use crate::sessions::Gate;

const PHASE: [&str; 2] = ["--isolation", "phase"];

/// T001 has landed on the target, T002 of the same phase on the phase's branch.
fn half_gathered() -> Garden {
    let tree = Tree::default().phase("phase1", &["T001", "T002", "T004"]).phase("phase2", &["T003"]);
    let garden = Garden::new(&tree);
    garden.garden(&["--task", "T001"]).expect(0);
    garden.garden(&["--isolation", "phase", "--task", "T002"]).expect(0);
    garden
}

#[test]
fn a_phase_started_on_its_branch_ends_there() {
    // On the target, where the work of the phase is not, these tests pass.
    let gate = "e2e: test ! -e T002.txt || test -e \"$HOME/fixed\"";
    let tree = Tree::default().phase("phase1", &["T001", "T002: T001"]).phase("phase2", &["T003: phase1"]);
    let garden = Garden::new(&tree.tests("phase1", &[gate]));
    garden.garden(&PHASE).expect(0);
    assert_eq!(garden.told("main"), [""; 0]);
    let ran = garden.gardener(&[]).expect(1);
    ran.warns("phase-branch-continued").naming("`pleach/phase/main/phase1`");
    assert!(ran.landed().contains(&("T002", "pleach/phase/main/phase1")), "{ran}");
    assert_eq!(ran.ended(), ("gate_red", "phase1"), "{ran}");
    assert_eq!(garden.told("main"), [""; 0], "what its tests fail on is not on the target");
    garden.env.write("home/fixed", "");
    let ran = garden.gardener(&[]).expect(0);
    assert!(ran.landed().contains(&("T003", "main")), "{ran}");
    assert_eq!(garden.merges(), ["merge: phase1 complete"]);
    assert_eq!(garden.completed(), ["T001", "T002", "T003"]);
    assert_eq!(garden.newest("main", "phase1 test-pass").trailer("Arborist-Retry"), Some("1"));
}

#[test]
fn phase_work_is_not_forgotten_when_its_task_moves() {
    let trees = [
        ("another phase", Tree::default().phase("phase1", &["T001"]).phase("phase2", &["T003", "T002"])),
        ("none", Tree::default().phase("phase1", &["T001"]).phase("phase2", &["T003"])),
        (
            "no order",
            Tree::default().phase("phase1", &["T001", "T002"]).phase("phase2", &["T003"]).order(&["T001", "T003"]),
        ),
    ];
    for (place, tree) in trees {
        let garden = half_gathered();
        garden.plant(&tree);
        let ran = garden.gardener(&[]).expect(5);
        assert!(
            ran.stdout.contains("T002") && ran.stdout.contains("`git merge pleach/phase/main/phase1`"),
            "{place}: {ran}"
        );
        garden.env.git(&["merge", "--quiet", "-m", "Take it", "pleach/phase/main/phase1"]);
        garden.gardener(&[]).expect(0);
        assert_eq!(garden.file("main", "T002.txt"), "T002 1", "{place}");
        assert_eq!(garden.completed(), ["T001", "T002", "T003"], "{place}");
        assert_eq!(garden.merges(), ["Take it"], "{place}");
    }
}

#[test]
fn a_moved_task_lands_with_its_original_phase() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002", "T004"]).phase("phase2", &["T003"]));
    garden.garden(&PHASE).expect(0);
    garden.garden(&PHASE).expect(0);
    garden.plant(&Tree::default().phase("phase1", &["T001", "T004"]).phase("phase2", &["T003", "T002"]));
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.merges(), ["merge: phase1 complete"]);
    assert_eq!(garden.completed(), ["T001", "T002", "T004", "T003"]);
}

#[test]
fn phase_tests_run_on_the_target_once_complete() {
    // Where the work of T001 is, which was taken back, they would fail.
    let tree = Tree::default().phase("phase1", &["T001", "T002"]).tests("phase1", &["e2e: test ! -e T001.txt"]);
    let garden = Garden::new(&tree);
    garden.garden(&PHASE).expect(0);
    for decided in [["reset", "T001"], ["skip", "T001"], ["skip", "T002"]] {
        garden.env.pleach(&decided).expect(0);
    }
    let ran = garden.gardener(&PHASE).expect(0);
    assert!(ran.stderr.contains("the test result of phase1 is on main"), "{ran}");
    assert_eq!(garden.told("main").last().unwrap(), "phase1 test-pass");
    garden.gardener(&[]).expect(0);
}

#[test]
fn leftovers_of_a_failed_task_gather_nothing() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001"]).phase("phase2", &["T002"]));
    garden.agent("test $task != T001 || exit 1; echo 1 > $task.txt", APPROVES);
    garden.gardener(&["--isolation", "phase", "--max-retries", "1"]).expect(1);
    garden.env.pleach(&["skip", "T001"]).expect(0);
    garden.gardener(&PHASE).expect(0);
    let tree = Tree::default().phase("phase1", &["T001", "T004: T002"]).phase("phase2", &["T002"]);
    garden.plant(&tree.tests("T004", &["unit: test -e T002.txt"]));
    let ran = garden.gardener(&[]).expect(0);
    assert!(ran.landed().contains(&("T004", "main")), "{ran}");
}

#[test]
fn a_waiting_task_lands_on_the_targets_phase() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001"]).phase("phase2", &["T002"]));
    garden.gardener(&PHASE).expect(0);
    let tree = Tree::default().phase("phase1", &["T001", "T004: T002"]).phase("phase2", &["T002"]);
    garden.plant(&tree.tests("T004", &["unit: test -e T002.txt"]));
    garden.env.write("repo/T004.txt", "mine\n");
    garden.gardener(&[]).expect(5);
    std::fs::remove_file(garden.env.root().join("repo/T004.txt")).unwrap();
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.times_asked("T004", "implement"), 1);
    assert_eq!(garden.file("main", "T004.txt"), "T004 1");
}

#[test]
fn phase_tests_rerun_when_the_target_moved() {
    let tree = Tree::default().phase("phase1", &["T001"]).phase("phase2", &["T002: phase1"]);
    let garden = Garden::new(&tree);
    let gate = Gate::new(&garden.env, "tests");
    let test = format!("e2e: test ! -e bad || exit 1; {}", gate.command());
    let tree = Tree::default().phase("phase1", &["T001"]).phase("phase2", &["T002: phase1"]);
    garden.plant(&tree.tests("phase1", &[&test]));
    garden.agent(WRITES, APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    garden.commit("bad", "");
    gate.open(held);
    let ran = run.end().expect(1);
    assert_eq!(ran.ended(), ("gate_red", "phase1"), "{ran}");
    assert_eq!(garden.told("main")[2..], ["T001 complete", "phase1 test-fail"], "no word of what is not there");
    assert_eq!(garden.times_asked("T002", "implement"), 0);
    assert_eq!(standings(&garden, "phase1"), ["cancelled"], "what they said first is no work that waits");
}

/// How the sessions of a task or phase are that have not landed.
fn standings(garden: &Garden, id: &str) -> Vec<String> {
    let status = garden.env.pleach(&["--json", "status"]).expect(0).json();
    let sessions = status["sessions"].as_array().expect("a list of sessions").iter();
    let own = sessions.filter(|session| session["task"]["id"] == id);
    own.map(|session| session["standing"]["is"].as_str().expect("a word").to_owned()).collect()
}

#[test]
fn interrupted_phase_tests_are_no_waiting_work() {
    let tree = || Tree::default().phase("phase1", &["T001"]);
    let garden = Garden::new(&tree());
    let gate = Gate::new(&garden.env, "tests");
    garden.plant(&tree().tests("phase1", &[&format!("e2e: {}", gate.command())]));
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.stop();
    run.interrupt();
    run.end().expect(3);
    drop(held);
    assert_eq!(standings(&garden, "phase1"), ["paused"]);
    gate.stay_open();
    garden.gardener(&[]).expect(0);
    assert_eq!(standings(&garden, "phase1"), ["cancelled"]);
}

#[test]
fn a_task_removed_while_worked_is_still_completed() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let gate = Gate::new(&garden.env, "agent");
    garden.agent(&format!("{WRITES}; {}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "garden"]);
    let held = gate.reached(&mut run);
    garden.env.write("repo/task-tree.json", Tree::of(&["T007"]).json());
    gate.open(held);
    let ran = run.end().expect(0);
    assert!(ran.stdout.contains("done: T001"), "{ran}");
}

#[test]
fn a_decision_survives_merging_earlier_work() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]).phase("phase2", &["T003"]));
    garden.agent("test $task != T001 || exit 1; echo 1 > $task.txt", APPROVES);
    garden.gardener(&["--isolation", "phase", "--max-retries", "1"]).expect(1);
    garden.env.pleach(&["skip", "T001"]).expect(0);
    let ran = garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.merges(), ["merge: phase1 complete", "merge: phase2 complete"], "{ran}");
    let status = garden.env.pleach(&["status"]).expect(0);
    assert_eq!(status.tasks_done(), (3, 3), "{status}");
    // Also where nothing is known from before.
    std::fs::remove_dir_all(garden.env.root().join("repo/.git/pleach/cache")).ok();
    assert_eq!(garden.env.pleach(&["status"]).expect(0).tasks_done(), (3, 3));
}

#[test]
fn a_reset_task_is_redone_after_its_phase_merged() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002", "T004"]).phase("phase2", &["T003"]));
    garden.garden(&["--isolation", "phase", "--task", "T001"]).expect(0);
    garden.garden(&["--isolation", "phase", "--task", "T002"]).expect(0);
    garden.env.pleach(&["reset", "T001"]).expect(0);
    garden.plant(&Tree::default().phase("phase1", &["T002", "T004"]).phase("phase2", &["T003", "T001: T004"]));
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 2);
}

#[test]
fn work_merged_into_a_phase_keeps_its_date() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002", "T004"]));
    garden.agent("test $task != T002 || exit 1; echo 1 > $task.txt", APPROVES);
    garden.gardener(&["--isolation", "phase", "--max-retries", "1"]).expect(1);
    garden.env.pleach(&["skip", "T002"]).expect(0);
    garden.env.git(&["switch", "--quiet", "pleach/phase/main/phase1"]);
    garden.env.git(&["merge", "--quiet", "-m", "Merge by hand", "main"]);
    garden.env.git(&["switch", "--quiet", "main"]);
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.merges(), ["merge: phase1 complete"]);
    assert_eq!(garden.times_asked("T002", "implement"), 1);
}

#[test]
fn tests_that_passed_with_what_was_dropped_run_again() {
    let tree = |gated: bool| {
        let tree =
            Tree::default().phase("phase1", &["G1", "T003", "T005"]).with("G1", "children", ["T001"].as_slice().into());
        let tree = tree.leaf("T001", Some("G1"));
        if gated { tree.tests("G1", &["e2e: test -e T003.txt"]) } else { tree }
    };
    let garden = Garden::new(&tree(false));
    garden.agent("test $task != T005 || exit 1; echo 1 > $task.txt", APPROVES);
    garden.garden(&["--task", "T001"]).expect(0);
    garden.garden(&["--isolation", "phase", "--task", "T003"]).expect(0);
    garden.plant(&tree(true));
    garden.gardener(&["--isolation", "phase", "--max-retries", "1"]).expect(1);
    for decided in [["reset", "T003"], ["skip", "T003"], ["skip", "T005"]] {
        garden.env.pleach(&decided).expect(0);
    }
    let ran = garden.gardener(&PHASE).expect(1);
    assert!(ran.ended() == ("gate_red", "G1") && ran.stdout.contains("`main`"), "{ran}");
}

#[test]
fn a_task_waits_for_a_phase_lacking_its_needs() {
    let tree = |more: &[&str]| Tree::default().phase("phase1", &[&["T001", "T005"], more].concat()).leaf("T002", None);
    let garden = Garden::new(&tree(&[]));
    garden.garden(&["--isolation", "phase", "--task", "T001"]).expect(0);
    garden.garden(&["--task", "T002"]).expect(0);
    garden.plant(&tree(&["T004: T002"]).tests("T004", &["unit: test -e T002.txt"]));
    let ran = garden.gardener(&[]).expect(5);
    assert!(ran.refused() == ("lacking", "T004") && ran.stdout.contains("T002"), "{ran}");
    garden.env.git(&["switch", "--quiet", "pleach/phase/main/phase1"]);
    garden.env.git(&["merge", "--quiet", "-m", "Merge by hand", "main"]);
    garden.env.git(&["switch", "--quiet", "main"]);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.times_asked("T004", "implement"), 1);
}

#[test]
fn a_waiting_task_lands_after_what_it_builds_on() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002: T001", "T009"]));
    garden.garden(&[&PHASE[..], &["--task", "T001"]].concat()).expect(0);
    let beside = garden.env.root().join("beside");
    let branch = "pleach/phase/main/phase1";
    garden.env.git(&["worktree", "add", "--quiet", &beside.display().to_string(), branch]);
    garden.env.write("beside/T002.txt", "mine\n");
    garden.garden(&[&PHASE[..], &["--task", "T002"]].concat()).expect(5);
    garden.env.git(&["worktree", "remove", "--force", &beside.display().to_string()]);
    garden.agent("test $task != T009 || exit 1", APPROVES);
    garden.plant(&Tree::default().phase("phase1", &["T001", "T009"]).leaf("T002: T001", None));
    garden.gardener(&["--max-retries", "1"]).expect(1);
    let ran = garden.gardener(&[]).expect(1);
    assert_eq!(ran.waits("T002"), ("T001", "not_merged"), "{ran}");
    assert_eq!(garden.told("main"), [""; 0], "T009 is on the branch of its phase");
    let ran = garden.garden(&["--task", "T002"]).expect(1);
    assert_eq!(ran.waits("T002"), ("T001", "not_merged"), "{ran}");
    garden.env.pleach(&["skip", "T009"]).expect(0);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.times_asked("T002", "implement"), 1);
    assert_eq!(garden.file("main", "T002.txt"), "T002 1");
    assert_eq!(garden.told("main").last().unwrap(), "T002 complete");
}

#[test]
fn a_moved_task_satisfies_its_original_phase() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002", "T004"]).phase("phase2", &["T003"]));
    garden.garden(&PHASE).expect(0);
    garden.garden(&PHASE).expect(0);
    let tree = Tree::default().phase("phase1", &["T001", "T004: T002"]).phase("phase2", &["T003: T002", "T002"]);
    garden.plant(&tree.tests("T004", &["unit: test -e T002.txt"]));
    let ran = garden.garden(&["--task", "T003"]).expect(1);
    assert_eq!(ran.waits("T003"), ("T002", "elsewhere"), "{ran}");
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.merges(), ["merge: phase1 complete"]);
    assert_eq!(garden.completed(), ["T001", "T002", "T004", "T003"]);
}

#[test]
fn a_moved_task_lands_with_the_rest_of_its_phase() {
    for isolation in [&PHASE[..], &[]] {
        let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]).phase("phase2", &["T003"]));
        garden.garden(&PHASE).expect(0);
        // Nothing that is still part of the phase is on its branch.
        let tree = Tree::default().phase("phase1", &["T002: T001"]).phase("phase2", &["T003", "T001"]);
        garden.plant(&tree.tests("T002", &["unit: test -e T001.txt"]));
        let ran = garden.gardener(isolation).expect(0);
        assert_eq!(garden.merges()[0], "merge: phase1 complete", "{ran}");
        assert_eq!(garden.file("main", "T001.txt"), "T001 1");
        for task in ["T001", "T002", "T003"] {
            assert_eq!(garden.times_asked(task, "implement"), 1, "{ran}");
        }
    }
    // Its tests say nothing of what the target has got since, whichever phase it is part of.
    let gates = [Vec::new(), vec!["integration: true"]];
    for of_phase in gates {
        let test = ["unit: test ! -e bad"];
        let tree = Tree::default().phase("phase1", &["T001", "T002"]).phase("phase2", &["T003"]).tests("T001", &test);
        let garden = Garden::new(&tree);
        garden.garden(&PHASE).expect(0);
        let tree = Tree::default().phase("phase1", &["T002"]).phase("phase2", &["T003", "T001"]).tests("T001", &test);
        garden.plant(&tree.tests("phase1", &of_phase));
        garden.commit("bad", "\n");
        let ran = garden.gardener(&PHASE).expect(1);
        assert!(ran.ended() == ("gate_red", "phase1") && ran.stdout.contains("`pleach/phase/main/phase1`"), "{ran}");
        assert_eq!(garden.merges(), [""; 0]);
    }
    // Without a rest of it, nothing brings the task along.
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]).phase("phase2", &["T003"]));
    garden.garden(&PHASE).expect(0);
    garden.env.pleach(&["skip", "T002"]).expect(0);
    garden.plant(&Tree::default().phase("phase1", &["T002"]).phase("phase2", &["T003", "T001"]));
    let ran = garden.gardener(&PHASE).expect(5);
    assert!(ran.refused().0 == "stray" && ran.stdout.contains("T001"), "{ran}");
    garden.env.git(&["merge", "--quiet", "-m", "Take it", "pleach/phase/main/phase1"]);
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 1);
}

/// The command a message names to drop what is on a branch.
fn drop_command(words: &str) -> Vec<String> {
    let (_, rest) = words.split_once("drop it with `").expect("a way to drop it");
    rest.split('`').next().unwrap_or(rest).split(' ').map(str::to_owned).collect()
}

#[test]
fn dropped_phase_work_is_redone_or_gone() {
    let phase = |tasks: &[&str]| Tree::default().phase("phase1", tasks);
    let trees = [
        (phase(&["T002"]).leaf("T001", None), "T001 is no longer part of that phase", 2),
        (phase(&["T002"]), "T001 is no longer in the tree", 1),
        (Tree::of(&["phase1", "T001"]), "phase1 is no longer a phase of its own", 2),
        (phase(&["T002"]).phase("T001", &["T003"]), "T001 is now a group of tasks", 1),
        (Tree::default().phase("all", &["T002"]).phase("phase2", &["T001"]), "phase1 is no longer in the tree", 2),
    ];
    for (tree, why, asked) in trees {
        let garden = Garden::new(&phase(&["T001", "T002"]));
        garden.garden(&PHASE).expect(0);
        garden.plant(&tree);
        let ran = garden.gardener(&[]).expect(5);
        assert!(ran.stdout.contains(why), "{why}: {ran}");
        let drop = drop_command(&ran.stdout);
        assert_eq!(drop[..3], ["git", "branch", "-D"]);
        garden.env.git(&drop[1..].iter().map(String::as_str).collect::<Vec<_>>());
        garden.gardener(&[]).expect(0);
        assert_eq!(garden.times_asked("T001", "implement"), asked, "{why}");
    }
}

#[test]
fn dropped_phase_work_is_not_found_below_its_tests() {
    let tree = |needs: &str| Tree::default().phase("phase1", &[&format!("T001{needs}")]).leaf("T002", None);
    let garden = Garden::new(&tree("").order(&["T001", "T002"]).tests("phase1", &["e2e: true"]));
    garden.env.write("repo/T001.txt", "mine\n");
    garden.gardener(&PHASE).expect(5);
    std::fs::remove_file(garden.env.root().join("repo/T001.txt")).unwrap();
    for branch in ["pleach/phase/main/phase1", "pleach/tasks/main/T001"] {
        garden.env.git(&["branch", "--quiet", "-D", branch]);
    }
    garden.plant(&tree(": T002").tests("T001", &["unit: test -e T002.txt"]));
    garden.gardener(&PHASE).expect(0);
    assert_eq!(garden.completed(), ["T002", "T001"]);
}

#[test]
fn a_task_become_group_has_its_waiting_work_named() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.write("repo/T001.txt", "mine\n");
    garden.gardener(&[]).expect(5);
    garden.plant(&Tree::default().phase("T001", &["T002"]));
    let ran = garden.gardener(&[]).expect(5);
    assert_eq!(ran.refused(), ("stray", "T001"), "{ran}");
}

#[test]
fn another_trees_phase_work_is_dropped_with_its_tasks() {
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]));
    garden.garden(&PHASE).expect(0);
    garden.commit("other.json", &Tree::default().phase("phase1", &["T001"]).json());
    let other = ["--isolation", "phase", "--tree", "other.json"];
    let ran = garden.gardener(&other).expect(5);
    let drop = drop_command(&ran.stdout);
    garden.env.git(&drop[1..].iter().map(String::as_str).collect::<Vec<_>>());
    garden.gardener(&other).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 2);
}
