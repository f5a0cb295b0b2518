//! Killed anywhere, a session is resumed to the same end: the same tree, the same turns, nothing twice, nothing lost,
//! the user's checkout untouched and no process left.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Child;

use serde_json::Value;

use crate::sessions::{Gate, graph, tool};
use crate::support::{Checkout, Random, TestEnv};
use crate::trees::garden::{APPROVES, Garden, Tree, WRITES};

const PIPELINE: &str = r#"
digraph six {
    graph [goal="grow a tree"]
    start [shape=Mdiamond]
    plan  [prompt="plan"]
    code  [prompt="code"]
    build [shape=parallelogram, tool_command="mkdir -p out; cat src/*.txt > out/all.txt; echo built"]
    check [shape=diamond]
    done  [shape=Msquare]
    start -> plan -> code -> build -> check
    check -> done [condition="outcome=success"]
    check -> code [condition="outcome=fail"]
}
"#;

const SCRIPT: &str = r#"
scripts:
  - name: plan
    when: {node: plan}
    steps:
      - {text: Write the plan., tools: [{write_file: {file_path: PLAN.md, content: "one\ntwo\n"}}], usage: {input: 9, output: 3}}
      - text: Planned.
  - name: code
    when: {node: code}
    steps:
      - text: Add both files.
        tools:
          - write_file: {file_path: src/a.txt, content: "a\n"}
          - write_file: {file_path: src/b.txt, content: "b\n"}
      - {text: Look around., tools: [{glob: {pattern: "**/*"}}]}
      - {text: Append by the shell., tools: [{shell: {command: "echo more >> src/a.txt; rm PLAN.md"}}]}
      - {text: Mend b., tools: [{edit_file: {file_path: src/b.txt, old_string: b, new_string: bb}}]}
      - text: Coded.
"#;

/// A world with the pipeline in it.
fn world() -> (TestEnv, PathBuf) {
    planted(TestEnv::new())
}

fn planted(env: TestEnv) -> (TestEnv, PathBuf) {
    let repo = env.repo();
    env.write("repo/six.dot", PIPELINE);
    env.write("repo/script.yaml", SCRIPT);
    env.write("repo/pleach.yaml", "agent: builtin\nproviders: {script: {file: script.yaml}}\n");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "pipeline"]);
    // Dirty and untracked files of the user must come through as well.
    env.write("repo/README.md", "changed by the user\n");
    env.write("repo/notes.txt", "the user's own\n");
    (env, repo)
}

/// What a finished session comes to, as far as it must be the same however often it was killed.
#[derive(Debug, PartialEq)]
struct Result {
    tree: String,
    turns: Vec<Turn>,
    outcomes: Vec<(String, u64, String)>,
    history: usize,
}

#[derive(Debug, PartialEq)]
struct Turn {
    id: String,
    node: String,
    visit: u64,
    tools: Vec<String>,
    files: Value,
    /// The tree of its commit; commit ids differ with the time.
    tree: Option<String>,
}

fn result(env: &TestEnv) -> Result {
    let sid = env.session();
    let branch = format!("pleach/six/{sid}");
    let mut turns = Vec::new();
    let mut outcomes = Vec::new();
    for event in events(env, &sid) {
        let data = &event["data"];
        let text = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap_or_default() {
            "dev.orchestra.AgentTurn" | "dev.orchestra.ToolExecution" => {
                let tools = data["tool_calls"].as_array().into_iter().flatten();
                let tools = tools.map(|call| call["name"].as_str().unwrap_or_default().to_owned()).collect();
                let commit = data["git_sha"]["repo"].as_str();
                let tree = commit.map(|id| env.git(&["rev-parse", &format!("{id}^{{tree}}")]));
                let visit = data["visit"].as_u64().unwrap_or_default();
                let (id, node, files) = (text("turn"), text("node_id"), data["files_written"].clone());
                turns.push(Turn { id, node, visit, tools, files, tree });
            }
            "dev.orchestra.NodeExecution" => {
                let status = data["outcome"]["status"].as_str().unwrap_or_default().to_owned();
                outcomes.push((text("node_id"), data["visit"].as_u64().unwrap_or_default(), status));
            }
            _ => {}
        }
    }
    Result {
        tree: env.git(&["rev-parse", &format!("{branch}^{{tree}}")]),
        turns,
        outcomes,
        history: env.git(&["rev-list", "--count", &format!("main..{branch}")]).parse().expect("a number"),
    }
}

/// All events of a session, read with git alone.
fn events(env: &TestEnv, sid: &str) -> Vec<Value> {
    let chain = env.git(&["rev-list", "--first-parent", "--reverse", &format!("refs/pleach/sessions/{sid}/main")]);
    let mut events = Vec::new();
    for commit in chain.lines() {
        let subject = env.git(&["log", "-1", "--format=%(trailers:key=Pleach-Record,valueonly)", commit]);
        if subject.is_empty() {
            continue;
        }
        let text = env.git(&["show", &format!("{commit}:events.json")]);
        let list: Vec<Value> = serde_json::from_str(&text).expect("a record's events");
        events.extend(list);
    }
    events
}

/// Goes on with what a killed run left until the session is done, however often that takes.
fn go_on(env: &TestEnv) {
    env.assert_no_process_left();
    for _ in 0..5 {
        let ran = match env.sessions().as_slice() {
            [] => env.pleach(&["-y", "run", "six.dot"]),
            [sid] if is_over(env, sid) => return,
            [sid] => env.pleach(&["-y", "resume", sid]),
            many => panic!("more than one session: {many:?}"),
        };
        assert_eq!(ran.code, 0, "{ran}");
    }
}

fn is_over(env: &TestEnv, sid: &str) -> bool {
    events(env, sid).iter().any(|event| event["type"] == "dev.orchestra.PipelineCompleted")
}

/// The end every run must come to.
fn expected() -> Result {
    let (env, _) = world();
    env.pleach(&["-y", "run", "six.dot"]).expect(0);
    result(&env)
}

/// Runs the pipeline, dying at a crash point, and continues. Returns whether it died.
fn crash_at(point: &str, expected: &Result) -> bool {
    crash_in(world(), point, expected)
}

fn crash_in((env, repo): (TestEnv, PathBuf), point: &str, expected: &Result) -> bool {
    let before = Checkout::of(&env, &repo);
    let output = env.command(&["-y", "run", "six.dot"]).env("PLEACH_CRASH", point).output().expect("pleach starts");
    let died = !output.status.success();
    if !died {
        return false;
    }
    go_on(&env);
    assert_eq!(&result(&env), expected, "after dying at {point}");
    before.assert_unchanged(&env, &repo);
    env.assert_no_process_left();
    let fsck = env.git(&["fsck", "--strict", "--no-dangling"]);
    assert_eq!(fsck, "", "after dying at {point}");
    true
}

#[test]
fn every_kind_of_crash_point_is_survived() {
    let expected = expected();
    let kinds = ["object-write", "ref-swap", "head-update", "index-update"];
    for kind in kinds {
        for when in ["before", "after"] {
            // One in the middle of the run, where a turn is half recorded.
            let point = format!("{kind}:{when}:{}", if kind == "object-write" { 37 } else { 4 });
            assert!(crash_at(&point, &expected), "the run never came to {point}");
        }
    }
}

#[test]
fn a_crash_is_survived_on_a_disk() {
    let expected = expected();
    for point in ["object-write:after:37", "ref-swap:before:4"] {
        assert!(crash_in(planted(TestEnv::on_disk()), point, &expected), "the run never came to {point}");
    }
}

#[test]
fn no_commit_is_lost_by_a_crash_at_the_end() {
    // What is there after one swap is there before the next.
    for (command, code, when) in [("echo 1 > one", 0, "before"), ("echo 1 > one; exit 3", 1, "after")] {
        let dot = graph("one", &(tool("work", command) + "start -> work -> exit"));
        let mut died = 0;
        loop {
            let env = TestEnv::with_repo();
            env.write("one.dot", &dot);
            let point = format!("ref-swap:{when}:{}", died + 1);
            let mut run = env.command(&["-y", "run", "../one.dot"]);
            let ran = run.env("PLEACH_CRASH", &point).output().expect("pleach starts");
            if ran.status.code() == Some(code) {
                break;
            }
            died += 1;
            match env.sessions().as_slice() {
                [] => env.pleach(&["-y", "run", "../one.dot"]).expect(code),
                // One that has ended says so, and its branch has come up.
                [sid] => {
                    let ran = env.pleach(&["-y", "resume", sid]);
                    assert!(ran.code == code || ran.code == 2, "after dying at {point}: {ran}");
                    ran
                }
                many => panic!("more than one session: {many:?}"),
            };
            assert_eq!(env.committed("one"), "1", "after dying at {point}");
            env.assert_no_process_left();
        }
        assert!(died > 3, "{command}: {died} points");
    }
}

#[test]
fn a_crash_while_resuming_is_survived_too() {
    let expected = expected();
    let (env, _) = world();
    let first = env.command(&["-y", "run", "six.dot"]).env("PLEACH_CRASH", "ref-swap:after:9").output();
    assert!(!first.expect("pleach starts").status.success());
    for point in ["ref-swap:before:1", "ref-swap:after:1", "index-update:before:1", "ref-swap:after:2"] {
        env.assert_no_process_left();
        let sid = env.session();
        let output = env.command(&["-y", "resume", &sid]).env("PLEACH_CRASH", point).output().expect("pleach starts");
        assert!(!output.status.success(), "resume never came to {point}");
    }
    go_on(&env);
    assert_eq!(result(&env), expected);
}

#[test]
fn resume_waits_for_what_a_killed_run_left_running() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "stubborn");
    let stay = tool("stay", &format!("trap '' TERM; {}", gate.command()));
    let mut run = env.start(&graph("stubborn", &format!("{stay} start -> stay -> exit")), &[]);
    let held = gate.reached(&mut run);
    run.signal("KILL");
    run.end().expect(137);
    gate.stay_open();
    // What does not listen to a polite word is alive for a moment, and holds the worktree.
    env.resume(&[]).expect(0);
    drop(held);
}

#[test]
fn a_tree_run_waits_for_processes_of_a_killed_one() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    let gate = Gate::new(&garden.env, "stubborn");
    garden.agent(&format!("trap '' TERM; {}; {WRITES}", gate.command()), APPROVES);
    let mut run = garden.env.spawn(&["-y", "gardener"]);
    let held = gate.reached(&mut run);
    run.signal("KILL");
    run.end().expect(137);
    gate.stay_open();
    garden.gardener(&[]).expect(0);
    drop(held);
    assert_eq!(garden.completed(), ["T001"]);
}

/// One of a run and one of what continues with it; the sweep has more.
#[test]
fn random_kills_are_survived() {
    survive_kills(2);
}

fn survive_kills(kills: usize) {
    let expected = expected();
    let mut random = Random(0x5eed);
    let (mut env, mut repo) = world();
    let mut before = Checkout::of(&env, &repo);
    for _ in 0..kills {
        let mut child = match env.sessions().as_slice() {
            [sid] if is_over(&env, sid) => {
                assert_eq!(result(&env), expected);
                before.assert_unchanged(&env, &repo);
                (env, repo) = world();
                before = Checkout::of(&env, &repo);
                spawn(&env, &["-y", "run", "six.dot"])
            }
            [] => spawn(&env, &["-y", "run", "six.dot"]),
            [sid] => spawn(&env, &["-y", "resume", sid]),
            many => panic!("more than one session: {many:?}"),
        };
        kill_after_records(&env, &mut child, usize::try_from(random.below(8)).expect("below eight"));
        env.assert_no_process_left();
    }
    go_on(&env);
    assert_eq!(result(&env), expected);
    before.assert_unchanged(&env, &repo);
}

fn spawn(env: &TestEnv, args: &[&str]) -> Child {
    let mut command = env.command(args);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command.spawn().expect("pleach starts")
}

/// Kills a run once it has written so many more records, or lets it end. Counting facts instead of time makes the
/// kills fall all over the run on a fast machine and on a slow one.
fn kill_after_records(env: &TestEnv, child: &mut Child, records: usize) {
    let count = |env: &TestEnv| match env.sessions().as_slice() {
        [] => 0,
        [sid, ..] => env
            .git(&["rev-list", "--first-parent", "--count", &format!("refs/pleach/sessions/{sid}/main")])
            .parse()
            .unwrap_or(0),
    };
    let begun = count(env);
    while child.try_wait().expect("a child").is_none() {
        if count(env) >= begun + records {
            child.kill().expect("a child that can be killed");
        }
    }
    child.wait().expect("a child");
}

/// Dies at every point of the run, one after another, and twenty times anywhere. Run by `cargo xtask crash-sweep`.
#[test]
#[ignore = "takes minutes: every crash point of a run, one run and one resume each"]
fn sweep() {
    let expected = expected();
    let (env, _) = world();
    let trace = env.root().join("trace");
    let run = env.command(&["-y", "run", "six.dot"]).env("PLEACH_CRASH_TRACE", &trace).output();
    assert!(run.expect("pleach starts").status.success());
    let points = env.read("trace");
    let mut by_kind: BTreeMap<String, usize> = BTreeMap::new();
    let total = points.lines().count();
    for (index, line) in points.lines().enumerate() {
        let kind = line.split(' ').nth(1).and_then(|point| point.rsplit_once(':')).expect("a traced point").0;
        if crash_at(&format!("any:{}", index + 1), &expected) {
            *by_kind.entry(kind.to_owned()).or_default() += 1;
        }
        if (index + 1) % 25 == 0 {
            println!("{} of {total} points", index + 1);
        }
    }
    println!("survived {} of {total} points: {by_kind:?}", by_kind.values().sum::<usize>());
    assert!(by_kind.values().sum::<usize>() > total * 9 / 10, "too few points were reached: {by_kind:?}");
    survive_kills(20);
}
