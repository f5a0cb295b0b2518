//! Retries, outcomes, loops, resuming what failed.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sessions::{Gate, graph, tool};
use crate::support::TestEnv;

/// Fails twice, then succeeds, each time with a word of its own.
const FLAKY: &str = "test $PLEACH_ATTEMPT -ge 3 || { echo boom $PLEACH_ATTEMPT >&2; exit 3; }";

fn flaky(attributes: &str, graph_attributes: &str) -> String {
    let node = format!("flaky [shape=parallelogram, {attributes}tool_command=\"{FLAKY}\"]");
    graph("flaky", &format!("{graph_attributes}\n{node}\nstart -> flaky -> exit"))
}

#[test]
fn n07_written_max_retries_retry_a_failed_command() {
    let env = TestEnv::with_repo();
    let ran = env.run(&flaky("max_retries=2, ", ""), &[]).expect(0);
    let story = env.story();
    assert_eq!((story.all("ToolExecution").len(), story.all("RetryAt").len()), (3, 2));
    assert!(ran.stderr.contains(": exit 3: boom 1 ↺ attempt 2"), "{ran}");
    assert!(ran.stderr.contains(": exit 3: boom 2 ↺ attempt 3"), "{ran}");
}

#[test]
fn n07_a_failure_edge_is_taken_after_the_last_attempt() {
    let env = TestEnv::with_repo();
    let dot = format!(
        "{} {} start -> red; red -> mend [condition=\"outcome=fail\"]; red -> exit; mend -> exit",
        tool("red", "exit 4").replace("shape=", "max_retries=1, shape="),
        tool("mend", "true"),
    );
    env.run(&graph("mend", &dot), &[]).expect(0);
    assert_eq!(env.story().path(), ["start:success", "red:fail", "red:fail", "mend:success", "exit:success"]);
}

#[test]
fn n07_inherited_max_retries_leave_a_failed_command_alone() {
    let env = TestEnv::with_repo();
    let ran = env.run(&flaky("", "default_max_retries=2"), &[]).expect(1);
    assert_eq!(env.story().all("RetryAt").len(), 0);
    assert!(ran.stdout.contains(": exit 3: boom 1"), "{ran}");
}

#[test]
fn n07_written_max_retries_retry_a_failed_agent() {
    let env = TestEnv::with_repo();
    let script = "#!/bin/sh\ncat > /dev/null\ntest $PLEACH_ATTEMPT -ge 2 || { echo no idea >&2; exit 1; }\necho done\n";
    let agent = env.write_program("agent.sh", script);
    env.configure(&format!("agent: \"command:{}\"\n", agent.display()));
    let dot = "code [prompt=Work, max_retries=1] start -> code -> exit";
    let ran = env.run(&graph("agent", dot), &[]).expect(0);
    assert!(ran.stderr.contains("no idea ↺ attempt 2"), "{ran}");
}

#[test]
fn n07_every_retry_and_failure_reason_is_shown() {
    let env = TestEnv::with_repo();
    let dot = flaky("max_retries=1, ", "");
    let ran = env.run(&dot, &[]).expect(1);
    assert!(ran.stdout.contains(": exit 3: boom 2"), "{ran}");
    let sid = env.session();
    for args in [&["status", &sid][..], &["turns", &sid]] {
        let shown = env.pleach(args).expect(0).stdout;
        assert!(shown.contains("exit 3: boom 1; retried\n"), "{args:?}: {shown}");
        assert!(shown.contains("exit 3: boom 2\n"), "{args:?}: {shown}");
        let json = env.pleach(&[&["--json"], args].concat()).expect(0).json();
        let told = |failures: &Value| -> Vec<Value> {
            failures
                .as_array()
                .unwrap()
                .iter()
                .map(|one| json!([one["attempt"], one["reason"], one["retried"]]))
                .collect()
        };
        let all = [json!([1, "exit 3: boom 1", true]), json!([2, "exit 3: boom 2", false])];
        assert_eq!(told(&json["failures"]), all, "{args:?}");
        let of_turns = json["turns"].as_array().unwrap().iter().map(|turn| turn["failure"].clone()).collect();
        assert_eq!(told(&Value::Array(of_turns)), all, "{args:?}");
    }
    for (turn, failed) in [("1", "exit 3: boom 1; retried"), ("2", "exit 3: boom 2")] {
        let shown = env.pleach(&["show", turn]).expect(0).stdout;
        assert!(shown.lines().any(|line| line.starts_with("failed") && line.ends_with(failed)), "{shown}");
        let json = env.pleach(&["--json", "show", turn]).expect(0).json();
        assert!(failed.starts_with(json["failure"]["reason"].as_str().unwrap()), "{json}");
    }
    let other = TestEnv::with_repo();
    let lines = other.run(&dot, &["--json"]).expect(1).json_lines();
    let reasons = |line: &Value| line["data"]["outcome"]["failure_reason"].as_str().map(str::to_owned);
    let reasons: Vec<String> = lines.iter().filter_map(reasons).collect();
    assert_eq!(reasons, ["exit 3: boom 1", "exit 3: boom 2"]);
}

#[test]
fn n07_what_is_final_is_not_retried() {
    let env = TestEnv::with_script("scripts: [{name: all, steps: [{error: {status: 401, message: no}}]}]");
    let ran = env.run(&graph("key", "code [prompt=Work, max_retries=3] start -> code -> exit"), &[]).expect(7);
    assert_eq!(env.story().all("RetryAt").len(), 0, "{ran}");
}

/// A command that leaves this outcome.
fn says(outcome: &str) -> String {
    format!("echo '{{\\\"outcome\\\": \\\"{outcome}\\\", \\\"notes\\\": \\\"too wide\\\"}}' > $PLEACH_STATUS_FILE")
}

fn judge(outcome: &str, edges: &str) -> String {
    let node = format!("judge [shape=parallelogram, tool_command=\"{}\"]", says(outcome));
    graph("judge", &format!("{node} {} start -> judge {edges}", tool("mend", "true")))
}

#[test]
fn n08_an_unknown_outcome_is_a_failure_with_that_reason() {
    for word in ["failure", "rejected", "done"] {
        let env = TestEnv::with_repo();
        let ran = env.run(&judge(word, "judge -> mend -> exit"), &[]).expect(1);
        let reason = format!("`judge` failed: unknown outcome `{word}`: too wide; use success, ");
        assert!(ran.stdout.contains(&reason), "{ran}");
    }
    let env = TestEnv::with_repo();
    env.run(&judge("rejected", "judge -> mend [condition=\"outcome=fail\"]; judge -> exit; mend -> exit"), &[])
        .expect(0);
    assert_eq!(env.story().path(), ["start:success", "judge:fail", "mend:success", "exit:success"]);
}

#[test]
fn n08_an_outcome_an_edge_names_is_followed() {
    let edges = "judge -> mend [condition=\"outcome=rejected\"]; judge -> exit; mend -> exit";
    let env = TestEnv::with_repo();
    env.run(&judge("rejected", edges), &[]).expect(0);
    assert_eq!(env.story().path()[1..3], ["judge:rejected", "mend:success"]);
}

#[test]
fn n08_an_unknown_outcome_in_an_answer_is_a_failure() {
    let env = TestEnv::with_repo();
    let says = r#"echo '{"type": "result", "status": "done", "text": "It is there."}'"#;
    let agent = env.write_program("agent.sh", &format!("#!/bin/sh\ncat > /dev/null; echo x > x; {says}\n"));
    env.configure(&format!(
        "agent: mine\nagents: {{mine: {{command: ['{}'], parser: jsonl, turns: node}}}}\n",
        agent.display()
    ));
    let ran = env.run(&graph("answer", "code [prompt=Work] start -> code -> exit"), &[]).expect(1);
    assert!(ran.stdout.contains("unknown outcome `done`: It is there."), "{ran}");
}

#[test]
fn n10_polling_with_a_wait_continues_until_done() {
    let env = TestEnv::with_repo();
    let dot = format!(
        "{} rest [shape=insulator, duration=\"1ms\"] start -> poll; poll -> exit [condition=\"outcome=success\"]
         poll -> rest [condition=\"outcome=fail\"]; rest -> poll",
        tool("poll", "test $PLEACH_VISIT -ge 6")
    );
    env.run(&graph("poll", &dot), &[]).expect(0);
    assert_eq!(env.story().all("ToolExecution").len(), 6);
}

#[test]
fn n10_a_quoted_duration_is_waited_out() {
    let env = TestEnv::with_repo();
    let begun = Instant::now();
    env.run(&graph("rest", "rest [shape=insulator, duration=\"600ms\"] start -> rest -> exit"), &[]).expect(0);
    assert!(begun.elapsed() >= Duration::from_millis(600));
}

#[test]
fn n10_a_limit_holds_for_all_nodes_of_its_cycle() {
    let env = TestEnv::with_repo();
    let dot = format!(
        "{} rest [shape=insulator, duration=1ms] start -> poll; poll -> exit [condition=\"outcome=success\"]
         poll -> rest [condition=\"outcome=fail\"]; rest -> poll",
        tool("poll", "test $PLEACH_VISIT -ge 28").replace("shape=", "max_visits=30, shape=")
    );
    env.run(&graph("poll", &dot), &[]).expect(0);
    assert_eq!(env.story().all("ToolExecution").len(), 28);
}

#[test]
fn n10_an_own_visit_limit_is_not_undercut() {
    let env = TestEnv::with_repo();
    let dot = format!(
        "{} start -> count; count -> exit [condition=\"outcome=success\"]; count -> count [condition=\"outcome=fail\"]",
        tool("count", "exit 1").replace("shape=", "max_visits=5, shape=")
    );
    let ran = env.run(&graph("count", &dot), &[]).expect(1);
    assert_eq!(env.story().all("ToolExecution").len(), 5);
    assert!(ran.stdout.contains("`count` reached its visit limit of 5: count → count"), "{ran}");
}

fn round(command: &str, leaves: &str) -> String {
    let edges =
        format!("check -> exit [condition=\"{leaves}\", weight=1]; check -> check [condition=\"outcome=fail\"]");
    graph("round", &format!("{} start -> check; {edges}", tool("check", command)))
}

#[test]
fn n10_only_the_same_output_is_going_in_circles() {
    let env = TestEnv::with_repo();
    let ran = env.run(&round("echo same; exit 1", "outcome=success"), &[]).expect(1);
    assert_eq!(env.story().all("ToolExecution").len(), 3);
    assert!(ran.stdout.contains("the run is looping: check → check"), "{ran}");
    let env = TestEnv::with_repo();
    let changing = "echo $PLEACH_VISIT of 5 >&2; echo working >&2; test $PLEACH_VISIT -ge 5";
    env.run(&round(changing, "outcome=success"), &[]).expect(0);
    assert_eq!(env.story().all("ToolExecution").len(), 5);
}

#[test]
fn n10_conditions_read_the_visit_count() {
    let env = TestEnv::with_repo();
    env.run(&round("echo $PLEACH_VISIT; exit 1", "context.internal.node_visit_count>=4"), &[]).expect(0);
    assert_eq!(env.story().all("ToolExecution").len(), 4);
    let context = env.story().last("Checkpoint")["context"].clone();
    assert_eq!(context["internal.node_visit_count.check"], 4, "{context}");
}

/// A pipeline whose second node fails until a file is there that its user makes.
fn broken(env: &TestEnv) -> String {
    let fixed = env.root().join("fixed");
    let check =
        format!("echo $PLEACH_VISIT >> checks; test -e '{}' || {{ echo not there >&2; exit 1; }}", fixed.display());
    graph(
        "broken",
        &format!("{} {} start -> make -> check -> exit", tool("make", "echo 1 >> made"), tool("check", &check)),
    )
}

#[test]
fn n13_a_failed_session_resumes_at_its_failed_node() {
    let env = TestEnv::with_repo();
    let ran = env.run(&broken(&env), &[]).expect(1);
    let sid = env.session();
    assert!(ran.stdout.contains(&format!("pleach resume {sid}\n")) && ran.stdout.contains("`check`"), "{ran}");
    let status = env.pleach(&["status", &sid]).expect(0).stdout;
    assert!(status.contains(&format!("pleach resume {sid}")), "{status}");
    let before = env.git(&["rev-parse", &format!("refs/pleach/sessions/{sid}/main")]);
    env.resume(&[]).expect(1);
    env.write("fixed", "");
    let ran = env.resume(&[]).expect(0);
    assert!(ran.stderr.contains("resumed at `check`"), "{ran}");
    assert_eq!((env.committed("made"), env.committed("checks")), ("1".into(), "1\n2\n3".into()));
    assert_eq!(env.story().last("Resumed")["from"], "check");
    env.git(&["merge-base", "--is-ancestor", &before, &format!("refs/pleach/sessions/{sid}/main")]);
    env.resume(&[]).expect(2);
}

#[test]
fn n13_a_run_that_failed_at_a_gate_resumes_there() {
    let env = TestEnv::with_repo();
    let there = env.root().join("fixed");
    let dot = format!(
        "{} {} start -> check; check -> mend [condition=\"outcome=fail\"]; check -> exit; mend -> exit",
        tool("check", &format!("test -e '{}'", there.display())).replace("shape=", "goal_gate=true, shape="),
        tool("mend", "echo 1 > mended"),
    );
    let ran = env.run(&graph("gate", &dot), &[]).expect(1);
    assert!(ran.stdout.contains("resume: ") && ran.stdout.contains("`check`"), "{ran}");
    assert_eq!(env.story().last("PipelineFailed")["node_id"], "check");
    env.write("fixed", "");
    env.resume(&[]).expect(0);
}

#[test]
fn n13_a_corrected_pipeline_warns_that_the_recorded_runs() {
    let env = TestEnv::with_repo();
    let dot = graph("typo", &(tool("test", "exit 3") + "start -> test -> exit"));
    env.write("repo/flow.dot", &dot);
    env.pleach(&["-y", "run", "flow.dot"]).expect(1);
    let same = env.resume(&[]).expect(1);
    assert!(!same.stderr.contains("flow.dot"), "{same}");
    env.write("repo/flow.dot", dot.replace("exit 3", "true"));
    let ran = env.resume(&[]).expect(1);
    let told = format!("`flow.dot` has changed: session {} continues with the pipeline it started with", env.session());
    ran.warns("pipeline-changed").naming("`pleach run flow.dot`");
    assert!(ran.stderr.contains(&told), "{ran}");
}

#[test]
fn n13_from_picks_another_node_that_was_visited() {
    let env = TestEnv::with_repo();
    env.run(&broken(&env), &[]).expect(1);
    env.write("fixed", "");
    for (from, why) in [("exit", "has not reached node `exit`"), ("nowhere", "the pipeline has no node `nowhere`")] {
        let ran = env.resume(&["--from", from]).expect(2);
        assert!(ran.stderr.contains(why), "{ran}");
    }
    assert_eq!(env.story().all("Resumed").len(), 0, "nothing was recorded");
    env.resume(&["--from", "make"]).expect(0);
    assert_eq!((env.committed("made"), env.committed("checks")), ("1\n1".into(), "1\n2".into()));
}

#[test]
fn n13_pause_from_another_terminal() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "work");
    let dot =
        format!("{} {} start -> work -> more -> exit", tool("work", &gate.command()), tool("more", "echo 1 > more"));
    let mut run = env.start(&graph("long", &dot), &[]);
    let held = gate.reached(&mut run);
    let sid = env.session();
    let second = env.resume(&[]).expect(6);
    second.fails_with("session-locked").naming(&sid);
    assert!(!second.stderr.contains("cancel"), "{second}");
    let mut pausing = env.spawn(&["pause", &sid]);
    pausing.wait_for("pausing after the turn in flight");
    run.wait_for("paused with `pleach pause`");
    gate.open(held);
    let paused = pausing.end().expect(0);
    assert!(paused.stdout.starts_with("paused: ") && paused.stdout.contains("`more`"), "{paused}");
    run.end().expect(3);
    let again = env.pleach(&["--json", "pause", &sid]).expect(0).json();
    assert_eq!((&again["standing"]["is"], &again["interrupted"]), (&json!("paused"), &json!(false)));
    env.resume(&[]).expect(0);
    let over = env.pleach(&["pause", &sid]).expect(2);
    over.fails_with("session-not-running");
}
