//! Trees that share a branch, and have tasks or phases with the same ids.

use super::garden::{APPROVES, Garden, Tree, WRITES};
use crate::sessions::Gate;

const A: [&str; 2] = ["--tree", "a/task-tree.json"];
const B: [&str; 2] = ["--tree", "b/task-tree.json"];
const BRANCH: &str = "pleach/tasks/main/T001";

/// Two trees with a task T001 each, and the second with one before it.
fn two() -> Garden {
    let garden = Garden::new(&Tree::of(&["T009"]));
    garden.commit("a/task-tree.json", &Tree::of(&["T001"]).json());
    garden.commit("b/task-tree.json", &Tree::of(&["T000", "T001"]).json());
    garden
}

/// Two trees with a task T001 each, of which that of the first waits to land.
fn waiting() -> (Garden, String) {
    let garden = two();
    garden.agent("echo a > T001.txt", APPROVES);
    garden.env.write("repo/T001.txt", "mine\n");
    garden.gardener(&A).expect(5);
    let session = garden.env.session();
    garden.agent(WRITES, APPROVES);
    (garden, session)
}

fn clear(garden: &Garden) {
    std::fs::remove_file(garden.env.repo_path().join("T001.txt")).unwrap();
}

#[test]
fn waiting_work_lands_before_another_tree_gets_the_branch() {
    let (garden, session) = waiting();
    let before = garden.env.git(&["rev-parse", "main"]);
    for more in [&[][..], &["--fresh"][..], &["--retry-failed"][..]] {
        let ran = garden.gardener(&[&B[..], more].concat()).expect(5);
        assert!(ran.refused() == ("taken", "T001") && ran.stdout.contains(&format!("`{BRANCH}`")), "{ran}");
        assert!(ran.stdout.contains("T001 of `a/task-tree.json`"), "{ran}");
        assert!(ran.stdout.contains(&format!("`pleach rm --force {session}`")), "{ran}");
        assert!(ran.stdout.contains("first:   pleach gardener --tree a/task-tree.json\n"), "{ran}");
    }
    assert_eq!(garden.env.git(&["rev-parse", "main"]), before, "no run is begun");
    assert_eq!(garden.times_asked("T000", "implement"), 0, "no other task either");
    let status = garden.env.pleach(&[&["status"], &B[..]].concat()).expect(0);
    let words = format!("next: nothing until the work of `a/task-tree.json` on `{BRANCH}` is landed or dropped");
    assert!(status.stdout.contains(&words), "{status}");
    let dry = garden.env.pleach(&[&["gardener", "--fresh", "--dry-run"], &B[..]].concat()).expect(0);
    assert!(dry.stdout.contains(&words), "{dry}");

    clear(&garden);
    garden.gardener(&A).expect(0);
    assert_eq!(garden.file("main", "T001.txt"), "a");
    assert_eq!(garden.times_asked("T001", "implement"), 1, "it was not done again");
    garden.gardener(&B).expect(0);
    assert_eq!(garden.completed(), ["T001", "T000", "T001"]);
}

#[test]
fn what_another_tree_has_on_a_branch_can_be_dropped() {
    let (garden, session) = waiting();
    clear(&garden);
    garden.env.pleach(&["rm", "--force", &session]).expect(0);
    garden.gardener(&B).expect(0);
    assert_eq!(garden.completed(), ["T000", "T001"]);

    // Reset, it is nothing its tree would continue with, and kept when its branch restarts.
    let (garden, _) = waiting();
    clear(&garden);
    let tip = garden.env.git(&["rev-parse", BRANCH]);
    garden.env.pleach(&[&["reset", "T001"], &A[..]].concat()).expect(0);
    let ran = garden.gardener(&B).expect(0);
    ran.warns("task-branch-restarted").naming(format!("`{BRANCH}`")).naming("refs/pleach/keep/T001-1");
    assert_eq!(garden.env.git(&["rev-parse", "refs/pleach/keep/T001-1"]), tip);
}

#[test]
fn a_moved_tree_is_restored_or_its_work_dropped() {
    let (garden, _) = waiting();
    clear(&garden);
    garden.env.git(&["mv", "a/task-tree.json", "a/moved.json"]);
    garden.env.git(&["commit", "--quiet", "-m", "Move it"]);
    let ran = garden.gardener(&["--tree", "a/moved.json"]).expect(5);
    assert!(ran.refused().0 == "taken" && ran.stdout.contains("`a/task-tree.json`"), "{ran}");
    assert!(!ran.stdout.contains("first: "), "{ran}");
}

#[test]
fn interrupted_work_resumes_before_another_tree_gets_the_branch() {
    let garden = two();
    let gate = Gate::new(&garden.env, "review");
    garden.agent("echo a > T001.txt", &format!("{}; echo APPROVED", gate.command()));
    let mut run = garden.env.spawn(&[&["-y", "gardener"], &A[..]].concat());
    let held = gate.reached(&mut run);
    run.kill(held);
    garden.agent(WRITES, APPROVES);
    let ran = garden.gardener(&B).expect(5);
    assert!(ran.refused() == ("taken", "T001") && ran.stdout.contains("T001 of `a/task-tree.json`"), "{ran}");
    garden.gardener(&A).expect(0);
    assert_eq!(garden.file("main", "T001.txt"), "a");
    assert_eq!(garden.times_asked("T001", "implement"), 1);
    garden.gardener(&B).expect(0);
}

#[test]
fn a_done_task_no_longer_needs_its_branch() {
    let garden = two();
    garden.commit("b/task-tree.json", &Tree::of(&["T001", "T002"]).json());
    garden.garden(&B).expect(0);
    garden.agent("echo a > other.txt", APPROVES);
    garden.env.write("repo/other.txt", "mine\n");
    garden.gardener(&A).expect(5);
    garden.agent(WRITES, APPROVES);
    garden.gardener(&B).expect(0);
    assert_eq!(garden.completed(), ["T001", "T002"]);
    std::fs::remove_file(garden.env.repo_path().join("other.txt")).unwrap();
    garden.gardener(&A).expect(0);
    assert_eq!(garden.file("main", "other.txt"), "a");
}

#[test]
fn a_failed_task_regains_its_code_after_another_tree() {
    for delete in [false, true] {
        let garden = two();
        garden.configure(&format!("tree: {{delete_branches: {delete}}}\n"));
        garden.commit("a/task-tree.json", &Tree::of(&["T001"]).tests("T001", &["unit: test -e mended"]).json());
        garden.agent("echo half > half", APPROVES);
        garden.gardener(&[&A[..], &["--max-retries", "1"]].concat()).expect(1);
        let failed = garden.env.git(&["rev-parse", BRANCH]);
        garden.agent(WRITES, APPROVES);
        let ran = garden.gardener(&B).expect(0);
        let kept = "refs/pleach/keep/T001-1";
        ran.warns("task-branch-restarted").naming(format!("`{BRANCH}`")).naming(kept);
        assert_eq!(garden.env.git(&["rev-parse", kept]), failed);
        garden.agent("ls; test -e half && echo ok > mended", APPROVES);
        let ran = garden.gardener(&[&A[..], &["--retry-failed"]].concat()).expect(0);
        ran.warns("code-continued").naming("T001").naming(kept);
        assert_eq!(garden.file("main", "half"), "half");
        assert_eq!(garden.file("main", "mended"), "ok");
    }
}

#[test]
fn a_chosen_task_ignores_unrelated_trees() {
    let (garden, _) = waiting();
    garden.commit("b/task-tree.json", &Tree::of(&["T001", "T002"]).json());
    let dry = |task: &str| garden.env.pleach(&[&["garden"], &B[..], &["--task", task, "--dry-run"]].concat()).expect(0);
    assert!(!dry("T001").stdout.contains("next: work"), "{}", dry("T001"));
    assert_eq!(dry("T002").next(), ("work", "T002"), "{}", dry("T002"));
}

#[test]
fn a_fresh_run_says_what_it_does_again() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.write("repo/T001.txt", "mine\n");
    garden.gardener(&[]).expect(5);
    let tip = garden.env.git(&["rev-parse", BRANCH]);
    clear(&garden);
    let said = "T001 is finished and waits to land, and is done again";
    let dry = garden.env.pleach(&["gardener", "--fresh", "--dry-run"]).expect(0);
    assert!(dry.stderr.contains(said), "{dry}");
    let ran = garden.gardener(&["--fresh"]).expect(0);
    assert!(ran.stderr.contains(said), "{ran}");
    ran.warns("task-branch-restarted").naming("refs/pleach/keep/T001-1");
    assert_eq!(garden.env.git(&["rev-parse", "refs/pleach/keep/T001-1"]), tip);
}

const PHASE: [&str; 2] = ["--isolation", "phase"];

/// Two trees with a phase of the same name, of which the first has a gate that is red.
fn phases(delete_branches: bool) -> Garden {
    let garden = Garden::new(&Tree::of(&["T009"]));
    garden.configure(&format!("tree: {{delete_branches: {delete_branches}}}\n"));
    let a = Tree::default().phase("phase1", &["T001", "T002"]).tests("phase1", &["e2e: false"]);
    garden.commit("a/task-tree.json", &a.json());
    garden.commit("b/task-tree.json", &Tree::default().phase("phase1", &["B1", "B2"]).json());
    garden
}

#[test]
fn phases_of_two_trees_are_not_gathered_together() {
    for delete in [false, true] {
        let garden = phases(delete);
        garden.garden(&[B, PHASE].concat()).expect(0);
        let ran = garden.gardener(&[A, PHASE].concat()).expect(5);
        assert!(ran.refused() == ("taken", "phase1") && ran.stdout.contains("`pleach/phase/main/phase1`"), "{ran}");
        assert!(ran.stdout.contains("`b/task-tree.json`"), "{ran}");
        assert!(ran.stdout.contains("first:   pleach gardener --isolation phase --tree b/task-tree.json\n"), "{ran}");
        assert_eq!(garden.times_asked("T001", "implement"), 0);
        garden.gardener(&[B, PHASE].concat()).expect(0);
        assert_eq!(garden.completed(), ["B1", "B2"]);
        garden.gardener(&[A, PHASE].concat()).expect(1);
        assert_eq!(garden.completed(), ["B1", "B2"], "nothing lands past its gate");
        // Whose tasks are merged has no need of the branch.
        garden.gardener(&[B, PHASE].concat()).expect(0);
    }
}

#[test]
fn leftovers_on_a_phase_go_with_no_other_tree() {
    let garden = phases(false);
    garden.commit("b/task-tree.json", &Tree::of(&["B0"]).phase("phase1", &["B1"]).json());
    // Both are started before a task of the first is on the branch, which its next run does not count.
    garden.garden(&[&B[..], &PHASE, &["--task", "B0"]].concat()).expect(0);
    garden.garden(&[A, PHASE].concat()).expect(0);
    garden.garden(&[&A[..], &["--fresh", "--task", "T002"]].concat()).expect(0);
    let ran = garden.gardener(&[B, PHASE].concat()).expect(0);
    ran.warns("phase-branch-restarted").naming("`pleach/phase/main/phase1`");
    assert!(!garden.files("main").contains(&"T001.txt".to_owned()), "{ran}");
    assert!(garden.files("main").contains(&"B1.txt".to_owned()), "{ran}");
}
