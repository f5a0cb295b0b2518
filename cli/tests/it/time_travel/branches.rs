//! Fan-outs that are gone back into, or forked from in their middle.

use serde_json::json;

use crate::sessions::{Story, graph};
use crate::support::TestEnv;

const SCRIPT: &str = r#"
scripts:
  - name: a
    when: {node: a}
    steps:
      - {text: Write a1., tools: [{write_file: {file_path: a1.txt, content: "a1\n"}}]}
      - {text: Write a2., tools: [{write_file: {file_path: a2.txt, content: "a2\n"}}]}
      - {text: Done.}
  - name: b
    when: {node: b}
    steps:
      - {text: Write b1., tools: [{write_file: {file_path: b1.txt, content: "b1\n"}}]}
      - {text: Done.}
"#;

const BODY: &str = "before [shape=parallelogram, tool_command=\"echo 0 > zero.txt\"] fork [shape=component] a [prompt=\"A\"] \
                    b [prompt=\"B\"] join [shape=tripleoctagon] check [shape=parallelogram, tool_command=\"CHECK\"] \
                    start -> before -> fork fork -> a -> join fork -> b -> join join -> check \
                    check -> exit [condition=\"outcome=success\"]";

/// A session whose fan-out is over, and that has failed behind it; it does not from now on.
pub fn failed() -> TestEnv {
    let env = TestEnv::with_script(SCRIPT);
    let flag = env.root().join("fixed");
    env.run(&graph("p", &BODY.replace("CHECK", &format!("test -e {}", flag.display()))), &[]).expect(1);
    env.write("fixed", "");
    env
}

#[test]
fn branches_stand_where_they_stood() {
    let env = failed();
    let ran = env.replay(&["--turn", "a.1"]).expect(0);
    assert!(ran.stderr.lines().any(|line| line.ends_with(" from a.1, at `a`")), "{ran}");
    let shown = env.replay(&["--checkpoint", "a", "--dry-run"]).expect(0).stdout;
    assert!(shown.contains(" from after `a`, at "), "{shown}");
    let whole = env.replay(&["--from", "fork", "--dry-run"]).expect(0).stdout;
    assert!(whole.contains("in the original `a`, `b` took 5 turns, "), "{whole}");
    let files = env.git(&["ls-tree", "--name-only", &format!("{}--r1", env.branch())]);
    assert_eq!(files, "README.md\na1.txt\na2.txt\nb1.txt\nzero.txt");
    assert_eq!(env.turns_of("r1-a"), ["r1-a.2", "r1-a.3"], "its turns are numbered on");
    let story = Story::in_context(&env, &env.repo_path(), &env.session(), "r1");
    let ended: Vec<_> = story.all("ParallelBranchCompleted").iter().map(|ended| ended["context"].clone()).collect();
    // Where `b` had ended before `a.1`, its end is the original's.
    assert!(ended.contains(&json!("r1-a")), "{ended:?}");
    assert!(ended.iter().all(|context| [json!("r1-a"), json!("r1-b")].contains(context)), "{ended:?}");
    env.replay(&["--checkpoint", "before"]).expect(0);
    assert_eq!(env.turns_of("r2-a"), ["r2-a.1", "r2-a.2", "r2-a.3"], "a fan-out of its own");
    let status = env.pleach(&["status", "--json", &format!("{}/r2", env.session())]).expect(0).json();
    assert_eq!(status["turns"].as_array().map(Vec::len), Some(7), "one of them inherited");
    assert_eq!(status["runs"][2]["turns"], 6, "those of its branches, too");
    env.assert_no_process_left();
}

#[test]
fn contexts_are_never_named_twice() {
    let env = failed();
    env.resume(&["--turn", "1"]).expect(0);
    let refs = env.own_refs();
    let session = env.session();
    let has = |context: &str| refs.contains_key(&format!("refs/pleach/sessions/{session}/{context}"));
    assert!(["a", "b", "a-2", "b-2"].into_iter().all(has), "{refs:?}");
    assert_eq!(env.files(), ["README.md", "a1.txt", "a2.txt", "b1.txt", "zero.txt"]);
    // What a turn is marked with, its failure and its checkpoint are.
    let shown = env.pleach(&["-v", "status", &session]).expect(0).stdout;
    for (what, marked) in [("failed ", 1), ("checkpoint ", 5)] {
        let rows = shown.lines().filter(|line| line.starts_with(what) && line.contains("  left: "));
        assert_eq!(rows.count(), marked, "{shown}");
    }
    let status = env.pleach(&["turns", "--json", &session]).expect(0).json();
    assert_eq!(status["failures"][0]["left"], true);
    let left = status["turns"].as_array().unwrap().iter().filter(|turn| turn["left"] == true);
    let mut left: Vec<&str> = left.map(|turn| turn["turn"].as_str().unwrap()).collect();
    left.sort_unstable();
    assert_eq!(left, ["a.1", "a.2", "a.3", "b.1", "b.2", "main.2"]);
}

#[test]
fn a_branch_goes_back_with_its_run() {
    let env = failed();
    env.resume(&["--turn", "a.1"]).expect(0);
    assert_eq!(env.turns_of("a"), ["a.1", "a.2", "a.3", "a.4", "a.5"], "numbered on behind what was left");
    assert_eq!(env.files(), ["README.md", "a1.txt", "a2.txt", "b1.txt", "zero.txt"]);
    let story = Story::in_context(&env, &env.repo_path(), &env.session(), "a");
    let back: Vec<_> = story.all("Resumed").iter().filter_map(|resumed| resumed["turn"].as_str()).collect();
    assert_eq!(back, ["a.1"]);
    let subjects = env.git(&["log", "--format=%s", &format!("{}--a", env.branch())]);
    assert!(subjects.contains("Return to a.1"), "{subjects}");
}

#[test]
fn returns_of_returns() {
    let env = failed();
    let flag = env.root().join("fixed");
    std::fs::remove_file(&flag).expect("it is there");
    env.resume(&["--turn", "1"]).expect(1);
    env.resume(&["--turn", "a-2.2"]).expect(1);
    // A turn that was left can be returned to.
    env.resume(&["--turn", "b.1"]).expect(1);
    env.write("fixed", "");
    env.resume(&["--turn", "a.2"]).expect(0);
    assert_eq!(env.files(), ["README.md", "a1.txt", "a2.txt", "b1.txt", "zero.txt"]);
    let story = env.story();
    let back: Vec<_> = story.all("Resumed").iter().filter_map(|resumed| resumed["turn"].as_str()).collect();
    assert_eq!(back, ["main.1", "a-2.2", "b.1", "a.2"]);
    let turns = env.pleach(&["turns", "--json", &env.session()]).expect(0).json();
    let status = env.pleach(&["status", "--json", &env.session()]).expect(0).json();
    assert_eq!(status["turns"].as_array().map(Vec::len), turns["turns"].as_array().map(Vec::len));
}
