//! Killed anywhere in a fan-out of three agents, a session is resumed to the same end: every branch at its own turn,
//! finished ones not run again, everything merged once.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fan;
use crate::support::{Checkout, TestEnv};

const SCRIPT: &str = r#"
model: m
scripts:
  - name: a
    when: {node: a}
    steps:
      - tools: [{write_file: {file_path: a.txt, content: "a\n"}}]
      - tools: [{shell: {command: "echo more >> a.txt"}}]
      - text: a is done
  - name: b
    when: {node: b}
    steps:
      - tools: [{write_file: {file_path: same.txt, content: "b\n"}}]
      - text: b is done
  - name: c
    when: {node: c}
    steps:
      - tools: [{write_file: {file_path: same.txt, content: "c\n"}}]
      - tools: [{write_file: {file_path: c.txt, content: "c\n"}}]
      - text: c is done
  - name: fix
    when: {node: fix}
    steps:
      - tools: [{write_file: {file_path: same.txt, content: "b and c\n"}}]
      - text: resolved
"#;

/// Three agents, two of which write the same file, and one that puts that right.
fn world() -> TestEnv {
    let env = TestEnv::with_script(SCRIPT);
    let body = " a [prompt=a]\n b [prompt=b]\n c [prompt=c]\n fix [prompt=fix]\n join -> fix -> exit\n";
    env.pipeline(&fan("three", "", &["a", "b", "c"], body));
    env.write("repo/notes.txt", "the user's own\n");
    env
}

const RUN: [&str; 3] = ["-y", "run", "../pipeline.dot"];

/// What a finished session comes to, as far as it must be the same however often it was killed.
#[derive(Debug, PartialEq)]
struct Result {
    tree: String,
    /// The turns of each context, with the trees of their commits.
    turns: BTreeMap<String, Vec<(String, Option<String>)>>,
    /// The nodes of the root that ended.
    path: Vec<String>,
    ended: Vec<String>,
    merges: Vec<String>,
    worktrees: usize,
}

fn result(env: &TestEnv) -> Result {
    let turns = |context: &str| -> Vec<(String, Option<String>)> {
        let events = env.events_in(context);
        let turns = events.iter().filter(|(kind, _)| kind == "AgentTurn");
        let tree = |commit: &str| env.git(&["rev-parse", &format!("{commit}^{{tree}}")]);
        let turn =
            |data: &Value| (data["turn"].as_str().unwrap().to_owned(), data["git_sha"]["repo"].as_str().map(tree));
        turns.map(|(_, data)| turn(data)).collect()
    };
    let mut ended: Vec<String> = env
        .all_in("main", "ParallelBranchCompleted")
        .iter()
        .map(|ended| format!("{} {}", ended["context"].as_str().unwrap(), ended["outcome"]["status"].as_str().unwrap()))
        .collect();
    ended.sort();
    let merges = env.git(&["log", "--merges", "--format=%s", &env.branch()]);
    Result {
        tree: env.git(&["rev-parse", &format!("{}^{{tree}}", env.branch())]),
        turns: ["main", "a", "b", "c"].iter().map(|context| ((*context).to_owned(), turns(context))).collect(),
        path: env.story().path(),
        ended,
        merges: merges.lines().map(str::to_owned).collect(),
        worktrees: super::linked(env).len(),
    }
}

fn expected() -> Result {
    let env = world();
    env.pleach(&RUN).expect(0);
    let expected = result(&env);
    assert_eq!(expected.merges, ["Merge branch c", "Merge branch b", "Merge branch a"]);
    assert_eq!(expected.turns["a"].len(), 3);
    expected
}

fn is_over(env: &TestEnv) -> bool {
    env.story().kinds().contains(&"PipelineCompleted")
}

/// Runs the pipeline, dying at a crash point, and continues. Returns whether it died.
fn crash_at(point: &str, expected: &Result) -> bool {
    let env = world();
    let before = Checkout::of(&env, &env.repo_path());
    let ran = env.command(&RUN).env("PLEACH_CRASH", point).output().expect("pleach starts");
    if ran.status.success() {
        return false;
    }
    for _ in 0..3 {
        env.assert_no_process_left();
        match env.sessions().as_slice() {
            [] => env.pleach(&RUN),
            [_] if is_over(&env) => break,
            [sid] => env.pleach(&["-y", "resume", sid]),
            many => panic!("more than one session: {many:?}"),
        }
        .expect(0);
    }
    assert_eq!(&result(&env), expected, "after dying at {point}");
    before.assert_unchanged(&env, &env.repo_path());
    env.assert_no_process_left();
    assert_eq!(env.git(&["fsck", "--strict", "--no-dangling"]), "", "after dying at {point}");
    true
}

#[test]
fn every_kind_of_crash_point_in_a_fan_out() {
    let expected = expected();
    let points = [("object-write", 60), ("ref-swap", 12), ("head-update", 4), ("index-update", 4)];
    for (kind, number) in points {
        for when in ["before", "after"] {
            let point = format!("{kind}:{when}:{number}");
            assert!(crash_at(&point, &expected), "the run never came to {point}");
        }
    }
}

#[test]
fn a_fan_out_resumes_in_another_clone() {
    let expected = expected();
    let env = world();
    let ran = env.command(&RUN).env("PLEACH_CRASH", "ref-swap:after:14").output().expect("pleach starts");
    assert!(!ran.status.success());
    env.assert_no_process_left();
    let sid = env.session();
    // Everything that is not in git is gone; the refs are fetched.
    let (there, here) = (env.root().join("there"), env.repo_path());
    std::fs::rename(&here, &there).unwrap();
    let _ = std::fs::remove_dir_all(env.root().join("state"));
    env.git_in(env.root(), &["clone", "--quiet", "there", "repo"]);
    env.git(&[
        "fetch",
        "--quiet",
        "origin",
        "+refs/pleach/*:refs/pleach/*",
        "+refs/heads/pleach/*:refs/heads/pleach/*",
    ]);
    env.pleach(&["-y", "resume", &sid]).expect(0);
    let (now, then) = (result(&env), expected);
    assert_eq!((now.tree, now.ended, now.merges, now.turns), (then.tree, then.ended, then.merges, then.turns));
}

/// Dies at every point of the run, one after another. Run by `cargo xtask crash-sweep parallel`.
#[test]
#[ignore = "takes minutes: every crash point of a run, one run and one resume each"]
fn sweep() {
    let expected = expected();
    let env = world();
    let trace = env.root().join("trace");
    let run = env.command(&RUN).env("PLEACH_CRASH_TRACE", &trace).output();
    assert!(run.expect("pleach starts").status.success());
    let total = env.read("trace").lines().count();
    let mut died = 0;
    for number in 1..=total {
        died += usize::from(crash_at(&format!("any:{number}"), &expected));
        if number % 25 == 0 {
            println!("{number} of {total} points");
        }
    }
    println!("survived {died} of {total} points");
    assert!(died > total * 9 / 10, "too few points were reached: {died} of {total}");
}
