//! Runs of a session side by side: several by one command, compared, and one of them landed.

use std::sync::{LazyLock, Mutex};

use serde_json::Value;

use crate::sessions::{graph, tool};
use crate::support::{Ran, TestEnv};

mod page;

/// One agent writes what passes `sh sum.sh`, another what does not, a third nothing.
const SCRIPT: &str = r#"
scripts:
  - name: right
    when: {model: right}
    steps:
      - {text: Write., tools: [{write_file: {file_path: sum.sh, content: "exit 0\n"}}], usage: {input: 1000}}
      - {text: Done., usage: {input: 100}}
  - name: wrong
    when: {model: wrong}
    steps:
      - {text: Write., tools: [{write_file: {file_path: sum.sh, content: "exit 3\n"}}], usage: {input: 1000}}
      - {text: Done., usage: {input: 100}}
  - name: nothing
    steps:
      - {text: Nothing to do., usage: {input: 100}}
"#;

fn work() -> String {
    graph("work", " implement [prompt=\"Work\"]\n start -> implement -> exit")
}

/// Runs of three models by one command, and what it said: made once.
fn three() -> (TestEnv, String, String) {
    static THREE: LazyLock<Mutex<(TestEnv, Ran)>> = LazyLock::new(|| {
        let env = TestEnv::with_script(SCRIPT);
        let ran = env.run(&work(), &["--model", "wrong", "--model", "right", "--model", "idle"]).expect(0);
        Mutex::new((env, ran))
    });
    let made = THREE.lock().expect("nobody has failed with it");
    (made.0.copy(), made.1.stdout.clone(), made.1.stderr.clone())
}

/// The rows of a comparison, each with what is asked of it.
fn rows(comparison: &Value, of: &[&str]) -> Vec<Vec<Value>> {
    let runs = comparison["runs"].as_array().expect("runs").iter();
    runs.map(|run| of.iter().map(|path| run.pointer(path).cloned().unwrap_or_default()).collect()).collect()
}

fn run_of(env: &TestEnv, root: &str) -> String {
    if root == "main" { env.session() } else { format!("{}/{root}", env.session()) }
}

#[test]
fn best_of_three_agents_is_one_command() {
    let env = TestEnv::with_repo();
    for (agent, work) in [("a", "echo a > a.txt"), ("b", "exit 1"), ("c", "echo c > c.txt")] {
        env.write_program(format!("bin/{agent}"), &format!("#!/bin/sh\n{work}\n"));
    }
    let agents = ["--agent", "command:a", "--agent", "command:b", "--agent", "command:c"];
    let ran = env.run(&work(), &[&agents[..], &["--json"]].concat()).expect(1);
    let lines = ran.json_lines();
    let last = lines.last().expect("lines");
    assert_eq!((last["type"].as_str(), last["seq"].as_u64()), (Some("Comparison"), Some(lines.len() as u64)), "{ran}");
    let seen = rows(&last["data"], &["/run", "/from", "/agent", "/outcome", "/files"]);
    let (main, r1, r2) = (run_of(&env, "main"), run_of(&env, "r1"), run_of(&env, "r2"));
    let expected = serde_json::json!([
        [main, null, "command:a", "done", 1],
        [r2, main, "command:c", "done", 1],
        [r1, main, "command:b", "failed", 0],
    ]);
    assert_eq!(serde_json::json!(seen), expected, "{ran}");
    assert_eq!(last["data"]["best"], Value::Null);
    // Each has a branch of its own, begun at the same commit, and every event was told once.
    let begun = env.git(&["rev-parse", "main"]);
    let branches = env.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads/pleach"]);
    assert_eq!(branches.lines().count(), 3, "{branches}");
    for branch in branches.lines() {
        assert_eq!(env.git(&["merge-base", branch, "main"]), begun);
    }
    let started = |context: &str| {
        let is_start = |line: &&Value| line["type"] == "dev.orchestra.NodeStarted" && line["context"] == context;
        lines.iter().filter(is_start).count()
    };
    assert_eq!(["main", "r1", "r2"].map(started), [3, 2, 3], "{ran}");
}

#[test]
fn several_runs_are_told_apart() {
    let (env, stdout, stderr) = three();
    let begun = format!("run {} from the start with model right", run_of(&env, "r1"));
    for begin in ["main │ ✓ implement", "r1 │ ✓ implement", "r2 │ ✓ implement", "r1 │   r1.1 ", &begun] {
        assert_eq!(stderr.lines().filter(|line| line.starts_with(begin)).count(), 1, "{begin}: {stderr}");
    }
    let table: Vec<&str> = stdout.lines().collect();
    let head = ["run", "from", "by", "outcome", "turns", "tokens", "time", "+/-", "#"];
    assert!(table[0].split_whitespace().eq(head), "{stdout}");
    assert!(
        table.iter().any(|line| line.starts_with(&run_of(&env, "r1")) && line.contains("start  right")),
        "{stdout}"
    );
    assert_eq!(table.last(), Some(&format!("next:    pleach land {}", env.session()).as_str()), "{stdout}");
}

#[test]
fn a_comparison_tests_what_a_landing_would() {
    let (env, ..) = three();
    let sid = env.session();
    env.pleach(&["compare", &sid, "--test"]).expect(2).fails_with("command-line");
    env.configure("test_command: 'test -f sum.sh && sh sum.sh'\n");
    for cached in [false, true] {
        let compared = env.pleach(&["-y", "compare", &sid, "--test", "--json"]).expect(0).json();
        let seen = rows(&compared, &["/run", "/test/passed", "/test/exit", "/test/cached", "/rank"]);
        let expected = serde_json::json!([
            [run_of(&env, "r1"), true, "exit 0", cached, 1],
            [run_of(&env, "main"), false, "exit 3", cached, 2],
            [run_of(&env, "r2"), false, "exit 1", cached, 2],
        ]);
        assert_eq!(serde_json::json!(seen), expected);
        assert_eq!(compared["best"], run_of(&env, "r1").as_str());
    }
    let shown = env.pleach(&["-y", "compare", &sid, "--test"]).expect(0).stdout;
    assert!(shown.lines().next().is_some_and(|line| line.contains("test")), "{shown}");
    assert!(shown.ends_with(&format!("next:    pleach land {}\n", run_of(&env, "r1"))), "{shown}");
    env.pleach(&["-y", "compare", &sid, &run_of(&env, "r2"), "--test", "false"]).expect(1).fails_with("none-green");
    env.assert_no_process_left();
}

#[test]
fn two_points_differ_by_their_code() {
    let (env, ..) = three();
    let (main, r1) = (run_of(&env, "main"), run_of(&env, "r1"));
    let patch = "-exit 3\n+exit 0\n";
    let told = env.pleach(&["diff", &main, &r1]).expect(0).stdout;
    assert!(told.contains(patch) && told.lines().nth(1).is_some_and(|line| line.contains("wrong")), "{told}");
    let sid = env.session();
    for (a, b) in [("main.1", "r1.2"), ("main", "r1"), ("main.2", "r1.1")] {
        let (a, b) = (format!("{sid}/{a}"), format!("{sid}/{b}"));
        let json = env.pleach(&["diff", &a, &b, "--json", "--", "sum.sh"]).expect(0).json();
        assert!(json["repos"][0]["patch"].as_str().is_some_and(|text| text.ends_with(patch)), "{json}");
        assert_eq!(json.pointer("/repos/0/files/0/added"), Some(&Value::from(1)), "{json}");
    }
    let json = env.pleach(&["diff", &format!("{sid}/main.1"), &r1, "--stat", "--json"]).expect(0).json();
    assert_eq!((&json["a"]["turns"], &json["b"]["turns"]), (&Value::from(1), &Value::from(2)), "{json}");
    assert_eq!((&json["a"]["tokens"]["input"], &json["repos"][0]["patch"]), (&Value::from(1000), &Value::Null));
    let nothing = env.pleach(&["diff", &main, &r1, "--", "./README.md"]).expect(0).stdout;
    assert!(nothing.ends_with(&format!("{main} and {r1} do not differ in `README.md`\n")), "{nothing}");
    for points in [vec![&main, &r1], vec![&main]] {
        let named: Vec<&str> = points.into_iter().map(String::as_str).collect();
        env.pleach(&[&["diff"], &named[..], &["--", "none.md"]].concat()).expect(2).fails_with("no-such-file");
    }
    // One point is compared with the session's start, whichever run it is in.
    let alone = env.pleach(&["diff", &r1]).expect(0).stdout;
    assert!(alone.contains("+exit 0\n") && !alone.contains("exit 3"), "{alone}");
    env.pleach(&["diff", &main, &format!("{sid}/r7")]).expect(2).fails_with("no-such-branch");
    env.pleach(&["diff", &main, &format!("{sid}/main.9")]).expect(2).fails_with("no-such-turn");
}

#[test]
fn points_of_two_sessions_differ_too() {
    let (env, ..) = three();
    let first = env.session();
    env.run(&work(), &["--model", "right"]).expect(0);
    let second = env.sessions().into_iter().find(|sid| *sid != first).expect("a second session");
    let json = env.pleach(&["diff", &first, &second, "--json"]).expect(0).json();
    assert!(json["repos"][0]["patch"].as_str().is_some_and(|text| text.ends_with("-exit 3\n+exit 0\n")), "{json}");
    let compared = env.pleach(&["compare", &first, &second, "--json"]).expect(0).json();
    assert_eq!(compared["runs"].as_array().map(Vec::len), Some(2), "{compared}");
}

#[test]
fn landing_one_run_names_the_others() {
    let env = TestEnv::with_script(SCRIPT);
    env.run(&work(), &["--model", "wrong", "--model", "right", "--model", "idle"]).expect(0);
    let landed = env.pleach(&["-y", "land", &run_of(&env, "r1")]).expect(0);
    let sid = env.session();
    let rm = format!("rm --force {sid}/main {sid}/r2");
    assert!(landed.stdout.contains(&format!("next:    pleach {rm}\n")), "{landed}");
    let again = env.pleach(&["-y", "land", &sid]);
    let landed = format!("run {sid}/r1 of the same session has landed on `main` already");
    assert!(again.stderr.lines().any(|line| line.starts_with(&landed)), "{again}");
    env.pleach(&rm.split(' ').collect::<Vec<_>>()).expect(0);
    let left = env.pleach(&["status", &format!("{sid}/r1"), "--json"]).expect(0).json();
    assert_eq!(left["runs"].as_array().map(Vec::len), Some(1), "{left}");
}

#[test]
fn runs_share_a_budget() {
    let env = TestEnv::with_script(SCRIPT);
    env.configure("agent: builtin\nproviders: {script: {file: script.yaml}}\nbudget: {tokens: 1500}\n");
    let ran = env.run(&work(), &["--model", "right", "--count", "3", "--at-once", "1", "--json"]).expect(1);
    let lines = ran.json_lines();
    let compared = &lines.last().expect("lines")["data"];
    let expected = serde_json::json!([
        [run_of(&env, "main"), "done", 2],
        [run_of(&env, "r1"), "failed", 1],
        [run_of(&env, "r2"), "failed", 0],
    ]);
    assert_eq!(serde_json::json!(rows(compared, &["/run", "/outcome", "/turns"])), expected, "{ran}");
    // By itself it has a budget of its own.
    env.pleach(&["-y", "resume", &run_of(&env, "r2")]).expect(0);
}

#[test]
fn a_day_counts_all_runs_of_a_session() {
    let env = TestEnv::with_script(SCRIPT);
    env.configure("agent: builtin\nproviders: {script: {file: script.yaml}}\nbudget: {per_day_tokens: 1500}\n");
    env.run(&work(), &["--model", "right"]).expect(0);
    let again = env.pleach(&["-y", "replay", &env.session(), "--checkpoint", "start", "--count", "2"]).expect(1);
    assert_eq!(again.stdout.matches("of 1500 tokens").count(), 4, "{again}");
    // What it costs is said once, before they begin.
    let cost = "in the original `implement` took 2 turns, 1.1k tokens from there on";
    let said: Vec<&str> =
        again.stderr.lines().filter(|line| line.starts_with("2 replays of ") || *line == cost).collect();
    assert_eq!(said.len(), 2, "{again}");
}

#[test]
fn a_point_is_replayed_several_times_at_once() {
    let (env, ..) = three();
    let sid = env.session();
    let ran = env.pleach(&[
        "-y", "replay", &sid, "--turn", "1", "--model", "right", "--model", "wrong", "--count", "2", "--json",
    ]);
    let lines = ran.expect(0).json_lines();
    let compared = &lines.last().expect("lines")["data"];
    let mut seen = rows(compared, &["/run", "/from_turn", "/outcome", "/turns"]);
    seen.sort_by_key(|row| row[0].to_string());
    let row = |root: &str| serde_json::json!([run_of(&env, root), "main.1", "done", 1]);
    assert_eq!(serde_json::json!(seen), serde_json::json!([row("r3"), row("r4"), row("r5"), row("r6")]));
}

#[test]
fn several_of_both_kinds_are_refused() {
    let env = TestEnv::with_script(SCRIPT);
    let both = ["--agent", "builtin", "--agent", "claude", "--model", "a", "--model", "b"];
    env.run(&work(), &both).expect(2).fails_with("option-conflict");
    assert_eq!(env.sessions().len(), 0);
    let simulated = ["--agent", "builtin", "--agent", "simulation"];
    env.run(&work(), &simulated).expect(2).fails_with("option-conflict");
    assert_eq!(env.sessions().len(), 0, "nothing was begun");
}

#[test]
fn an_interrupt_begins_no_more_runs() {
    let env = TestEnv::with_script(SCRIPT);
    let dot = graph("work", &format!("{} start -> wait -> exit", tool("wait", "sleep 60")));
    let mut running = env.start(&dot, &["--count", "3", "--at-once", "1"]);
    running.wait_for("main │ ▸ wait");
    running.stop();
    running.interrupt();
    let ran = running.end().expect(3);
    assert!(ran.stderr.lines().any(|line| line == "2 runs were not begun"), "{ran}");
    assert_eq!(ran.stdout.matches("resume:  pleach resume").count(), 1, "{ran}");
    env.assert_no_process_left();
}

#[test]
fn every_run_is_given_the_answers() {
    let env = TestEnv::with_script(SCRIPT);
    let gate = " ask [shape=hexagon]\n implement [prompt=\"Work\"]\n start -> ask\n ask -> exit [label=Yes]\n \
                ask -> implement [label=No]\n implement -> exit";
    env.run(&graph("work", gate), &["--count", "3", "--answer", "ask=Yes"]).expect(0);
    let waiting = env.run(&graph("work", gate), &["--count", "2"]).expect(4);
    assert_eq!(waiting.stdout.matches("answer:  pleach resume").count(), 2, "{waiting}");
}
