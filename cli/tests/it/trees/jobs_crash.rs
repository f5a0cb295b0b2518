//! Killed anywhere and run again, several tasks at once come to the same end: the same files, every task complete and
//! landed once, nothing lost.

use std::collections::BTreeSet;

use super::garden::{APPROVES, Garden, Tree};

/// Twelve tasks: one fails its test at first, two write the same file, some need others.
const TASKS: [&str; 12] = [
    "T001",
    "T002",
    "T003",
    "T004: T001",
    "T005",
    "T006",
    "T007: T002 T003",
    "T008",
    "T009: T008",
    "T010",
    "T011",
    "T012: T010 T011",
];

const RUN: [&str; 4] = ["-y", "gardener", "--jobs", "3"];

fn world() -> Garden {
    let tree =
        Tree::of(&TASKS).tests("T003", &["unit: grep -q fixed T003.txt"]).tests("T008", &["unit: test -s T008.txt"]);
    let garden = Garden::new(&tree);
    // What it does depends on nothing but what it is asked and the files it finds.
    let work = "case $task in
        T003) if grep -q 'Previous test failure' \"$prompt\"; then echo fixed > T003.txt; else echo broken > T003.txt; fi ;;
        T005|T006) echo $task >> same.txt ;;
        *) echo $task > $task.txt ;;
        esac";
    garden.agent(work, APPROVES);
    garden.env.write("repo/notes.txt", "the user's own\n");
    garden
}

#[derive(Debug, PartialEq)]
struct Result {
    files: BTreeSet<String>,
    same: BTreeSet<String>,
    complete: BTreeSet<String>,
}

fn result(garden: &Garden) -> Result {
    let shown = garden.env.git(&["ls-tree", "-r", "main"]);
    let is_work = |line: &&str| !["\tlogs/", "\treports/", "\tsame.txt"].iter().any(|part| line.contains(part));
    let subjects = garden.env.git(&["log", "--format=%s", "main"]);
    let is_complete = |subject: &&str| subject.contains("@complete)");
    // One that was turned away at its landing has been complete twice.
    let complete = subjects.lines().filter(is_complete).map(str::to_owned).collect();
    Result {
        files: shown.lines().filter(is_work).map(str::to_owned).collect(),
        same: garden.env.git(&["show", "main:same.txt"]).lines().map(str::to_owned).collect(),
        complete,
    }
}

fn expected() -> Result {
    let garden = world();
    garden.env.pleach(&RUN).expect(0);
    let expected = result(&garden);
    assert_eq!(expected.complete.len(), TASKS.len(), "{expected:#?}");
    assert_eq!(expected.same.len(), 2);
    expected
}

/// Runs the tree, dying at a crash point, and runs it again until it is done. Returns whether it died.
fn crash_at(point: &str, expected: &Result) -> bool {
    let garden = world();
    let before = garden.env.git(&["status", "--porcelain"]);
    let ran = garden.env.command(&RUN).env("PLEACH_CRASH", point).output().expect("pleach starts");
    if ran.status.success() {
        return false;
    }
    garden.env.assert_no_process_left();
    garden.env.pleach(&RUN).expect(0);
    assert_eq!(&result(&garden), expected, "after dying at {point}");
    let queues = garden.env.pleach(&["merge", "queue", "--json"]).expect(0).json();
    let is_over = |queue: &serde_json::Value| queue["entries"].as_array().is_some_and(Vec::is_empty);
    assert!(queues["queues"].as_array().unwrap().iter().all(is_over), "after dying at {point}: {queues}");
    assert_eq!(garden.env.git(&["status", "--porcelain"]), before, "after dying at {point}");
    garden.env.assert_no_process_left();
    assert_eq!(garden.env.git(&["fsck", "--strict", "--no-dangling"]), "", "after dying at {point}");
    true
}

#[test]
fn every_kind_of_crash_point_with_jobs() {
    let expected = expected();
    let points = [
        "object-write:before:150",
        "ref-swap:after:31",
        "head-update:before:7",
        "index-update:after:9",
        "landing:after:4",
        // Tasks may land together: three at most, and the start of the run alone.
        "landing:before:5",
    ];
    for point in points {
        assert!(crash_at(point, &expected), "the run never came to {point}");
    }
}

/// Dies at one in so many points of the run. Run by `cargo xtask crash-sweep jobs`.
#[test]
#[ignore = "takes minutes: many crash points of a run, two runs each"]
#[expect(clippy::disallowed_methods, reason = "whoever sweeps says how thoroughly")]
fn sweep() {
    let every: usize = std::env::var("SWEEP_EVERY").ok().and_then(|every| every.parse().ok()).unwrap_or(1);
    let expected = expected();
    let garden = world();
    let trace = garden.env.root().join("trace");
    let run = garden.env.command(&RUN).env("PLEACH_CRASH_TRACE", &trace).output();
    assert!(run.expect("pleach starts").status.success());
    let total = garden.env.read("trace").lines().count();
    let mut died = 0;
    for number in (1..=total).step_by(every) {
        died += usize::from(crash_at(&format!("any:{number}"), &expected));
        println!("{number} of {total} points");
    }
    println!("survived {died} points, one in {every} of {total}");
    assert!(died > total / every * 8 / 10, "too few points were reached: {died}");
}
