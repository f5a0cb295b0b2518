//! Going on in another clone, with what was fetched from the one where a run was begun.

use std::path::{Path, PathBuf};

use super::garden::{APPROVES, Garden, Tree, WRITES};
use crate::sessions::Gate;
use crate::support::Ran;

const BRANCH: &str = "pleach/tasks/main/T001";
const RECORDS: &str = "refs/pleach/*:refs/pleach/*";
const BRANCHES: &str = "refs/heads/pleach/*:refs/heads/pleach/*";

/// A clone that has fetched more than git does by itself.
fn clone(garden: &Garden, fetched: &[&str]) -> PathBuf {
    let place = garden.env.root().join("clone");
    garden.env.git(&["clone", "--quiet", ".", place.to_str().unwrap()]);
    garden.env.git_in(&place, &[&["fetch", "--quiet", "origin"], fetched].concat());
    place
}

#[track_caller]
fn gardener(garden: &Garden, place: &Path, more: &[&str]) -> Ran {
    let ran = garden.env.pleach(&[&["-y", "-C", place.to_str().unwrap(), "gardener"], more].concat());
    garden.env.assert_no_process_left();
    ran
}

/// A garden whose first task waits to land.
fn waiting() -> Garden {
    let garden = Garden::new(&Tree::of(&["T001", "T002: T001"]));
    garden.env.write("repo/T001.txt", "mine\n");
    garden.gardener(&[]).expect(5);
    garden
}

#[test]
fn work_that_waits_lands_in_another_clone() {
    for fetched in [&[RECORDS][..], &[RECORDS, BRANCHES]] {
        let garden = waiting();
        let place = clone(&garden, fetched);
        let ran = gardener(&garden, &place, &[]).expect(0);
        assert_eq!(garden.times_asked("T001", "implement"), 1, "{ran}");
        assert_eq!(garden.times_asked("T001", "review"), 1, "{ran}");
        assert_eq!(garden.env.git_in(&place, &["show", "main:T001.txt"]), "T001 1");
        assert_eq!(garden.env.git_in(&place, &["show", "main:T002.txt"]), "T002 1");
    }
}

#[test]
fn what_was_interrupted_goes_on_in_another_clone() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: true"]));
    let gate = Gate::new(&garden.env, "review");
    garden.agent(WRITES, &format!("{}; echo APPROVED", gate.command()));
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.kill(held);
    garden.agent(WRITES, APPROVES);
    let place = clone(&garden, &[RECORDS]);
    let ran = gardener(&garden, &place, &[]).expect(0);
    assert!(ran.stderr.contains("T001 Grow T001 goes on (session"), "{ran}");
    assert_eq!(garden.times_asked("T001", "implement"), 1, "{ran}");
    assert_eq!(garden.times_asked("T001", "review"), 2, "{ran}");
}

#[test]
fn a_phase_goes_on_in_another_clone() {
    let phase = ["--isolation", "phase"];
    let garden = Garden::new(&Tree::default().phase("phase1", &["T001", "T002"]));
    garden.garden(&phase).expect(0);
    let place = clone(&garden, &[RECORDS, BRANCHES]);
    let ran = gardener(&garden, &place, &phase).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 1, "{ran}");
    assert_eq!(garden.env.git_in(&place, &["log", "-1", "--format=%s", "main"]), "merge: phase1 complete");
}

#[test]
fn a_branch_that_is_removed_where_its_task_was_worked_on_has_it_done_again() {
    let garden = waiting();
    let tip = garden.env.git(&["rev-parse", "--short=7", BRANCH]);
    garden.env.git(&["branch", "--quiet", "-D", BRANCH]);
    std::fs::remove_file(garden.env.repo_path().join("T001.txt")).unwrap();
    let ran = garden.gardener(&[]).expect(0);
    let session = &garden.env.sessions()[0];
    assert!(
        ran.stderr.contains(&format!("T001 does not go on with session {session}: `{BRANCH}` was removed")),
        "{ran}"
    );
    assert!(ran.stderr.contains(&tip), "{ran}");
    assert_eq!(garden.times_asked("T001", "implement"), 2);

    // In another clone the branch is made, and it is that clone's from then on.
    let garden = waiting();
    let place = clone(&garden, &[RECORDS]);
    garden.env.write("clone/T001.txt", "mine\n");
    gardener(&garden, &place, &[]).expect(5);
    garden.env.git_in(&place, &["branch", "--quiet", "-D", BRANCH]);
    std::fs::remove_file(place.join("T001.txt")).unwrap();
    gardener(&garden, &place, &[]).expect(0);
    assert_eq!(garden.times_asked("T001", "implement"), 2);
}

#[test]
fn what_two_clones_did_each_by_itself_counts_in_both() {
    let garden = Garden::new(&Tree::of(&["T001", "T002", "T003"]));
    let place = clone(&garden, &[]);
    let name = place.to_str().unwrap();
    garden.env.pleach(&["-C", name, "skip", "T003"]).expect(0);
    garden.env.pleach(&["-y", "-C", name, "garden", "--task", "T002"]).expect(0);
    garden.garden(&["--task", "T001"]).expect(0);
    garden.env.git(&["pull", "--quiet", "--no-rebase", "--no-edit", name, "main"]);
    let status = garden.env.pleach(&["status"]).expect(0);
    assert!(status.stdout.contains("3 of 3 tasks done, 1 skipped"), "{status}");
    garden.gardener(&[]).expect(0);
    let asked = ["T001", "T002", "T003"].map(|task| garden.times_asked(task, "implement"));
    assert_eq!(asked, [1, 1, 0]);
    // Who begins again means all of it.
    garden.gardener(&["--fresh"]).expect(0);
    let asked = ["T001", "T002", "T003"].map(|task| garden.times_asked(task, "implement"));
    assert_eq!(asked, [2, 2, 1]);
}
