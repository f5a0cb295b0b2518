//! What a queue never breaks, by the numbers of its design. Others that hold it have the number in their names as well.

use std::process::Stdio;

use serde_json::json;

use super::{Queue, names};

/// Waits in every test until it is let go, and notes what it tests.
const HELD: &str = "git rev-parse HEAD >> ../tested; touch ../began; while ! test -e ../go; do sleep 0.05; done";

/// An agent that resolves every conflict by writing these lines.
fn with_agent(script: &str) -> Queue {
    let queue = Queue::with("agent: 'command:sh agent.sh'\nmerge: {test_command: 'test -s lines.txt', slots: 1}\n");
    queue.env.write("repo/agent.sh", format!("cat > /dev/null\n{script}\n"));
    queue.env.git(&["add", "-A"]);
    queue.env.git(&["commit", "-qm", "Agent"]);
    queue
}

#[test]
fn i1_a_target_that_moved_during_tests_is_tested_again() {
    let queue = Queue::with(&format!(
        "merge: {{test_command: '{HELD}', slots: 1}}\nsandbox: {{mode: off}}\nworktrees: {{base: ../worktrees}}\n"
    ));
    queue.queued("one");
    let process = ["-y", "merge", "process"];
    let mut working = queue.env.command(&process).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    queue.env.wait_for_file("worktrees/merge/main/began");
    queue.env.write("repo/meanwhile.txt", "");
    queue.env.git(&["add", "-A"]);
    queue.env.git(&["commit", "-qm", "Meanwhile"]);
    let meanwhile = queue.tip();
    queue.env.write("worktrees/merge/main/go", "");
    assert!(working.wait().unwrap().success());
    let tested = queue.env.read("worktrees/merge/main/tested");
    let stale = tested.lines().next().expect("a first test").to_owned();
    assert_eq!(tested.lines().last(), Some(&*queue.tip()), "the target is the commit that was tested last: {tested}");
    assert_ne!(stale, queue.tip(), "what was tested first is not on what the target is now");
    assert_eq!(queue.env.git(&["rev-parse", "main^1"]).trim(), meanwhile, "it is built on what came meanwhile");
    assert_eq!(queue.why("one")["landing"], json!({"from": meanwhile, "to": queue.tip()}));
}

#[test]
fn i2_every_head_stays_reachable_without_its_branch() {
    let queue = Queue::tested("test ! -e red.txt");
    let mut heads = Vec::new();
    for name in ["landed", "dropped", "red", "moved"] {
        heads.push(queue.branch(name, &[(&format!("{name}.txt"), name)]));
        queue.enqueue(name);
    }
    queue.env.git(&["checkout", "-q", "moved"]);
    queue.env.git(&["commit", "-q", "--amend", "-m", "Another"]);
    heads.push(queue.env.git(&["rev-parse", "HEAD"]).trim().to_owned());
    queue.env.git(&["checkout", "-q", "main"]);
    queue.enqueue("moved");
    queue.env.pleach(&["merge", "drop", "dropped"]).expect(0);
    queue.process(1);
    queue.env.git(&["branch", "-qD", "landed", "dropped", "red", "moved"]);
    queue.env.git(&["reflog", "expire", "--expire=now", "--all"]);
    queue.env.git(&["gc", "-q", "--prune=now"]);
    for head in heads {
        let by = queue.env.git(&["for-each-ref", "--contains", &head, "refs/pleach/queue/main/entry/"]);
        assert!(!by.is_empty(), "{head} is not kept");
    }
}

#[test]
fn i3_entries_only_change_their_state() {
    let queue = Queue::tested("test ! -e red.txt");
    queue.queued("dropped");
    queue.queued("red");
    queue.line("upper", 5, "FIVE");
    queue.line("lower", 5, "five");
    queue.env.pleach(&["merge", "drop", "dropped"]).expect(0);
    let ends = || {
        let shown = queue.env.pleach(&["merge", "queue", "--all", "--json"]).expect(0).json();
        let entries = shown["queues"][0]["entries"].as_array().expect("entries").clone();
        let end = |entry: &serde_json::Value| (entry["name"].to_string(), entry["state"].to_string());
        let mut ends: Vec<(String, String)> = entries.iter().map(end).collect();
        ends.sort();
        ends
    };
    queue.process(5);
    let expected = [("dropped", "cancelled"), ("lower", "escalated"), ("red", "red"), ("upper", "landed")];
    let expected = expected.map(|(name, state)| (json!(name).to_string(), json!(state).to_string()));
    assert_eq!(ends(), expected);
    queue.process(5);
    assert_eq!(ends(), expected, "working the queue again takes nothing away");
    for (name, _) in expected {
        let history = queue.why(name.trim_matches('"'))["history"].clone();
        let first = history.as_array().and_then(|states| states.last()).expect("a first state");
        assert_eq!(first["state"], "submitted", "every state is kept: {history}");
    }
}

#[test]
fn i4_a_resolution_that_takes_a_file_away_never_lands() {
    let queue = with_agent("rm upper.txt; { seq 4; echo 'FIVE and five'; seq 6 20; } > lines.txt");
    let lines = |fifth: &str| -> String {
        (1..=20).map(|line| if line == 5 { format!("{fifth}\n") } else { format!("{line}\n") }).collect()
    };
    queue.branch("upper", &[("lines.txt", &lines("FIVE")), ("upper.txt", "of the target alone")]);
    queue.branch("lower", &[("lines.txt", &lines("five"))]);
    queue.enqueue("upper");
    queue.enqueue("lower");
    queue.process(5);
    let why = queue.why("lower");
    assert_eq!(why["state"], "escalated", "{why}");
    assert!(why["why"].as_str().expect("a reason").contains("upper.txt"), "{why}");
    assert_eq!(queue.landed("upper.txt").as_deref(), Some("of the target alone"));
}

/// Branches that change line 5, the first of which changes line 15 as well.
fn fifth_and_fifteenth(queue: &Queue) {
    let lines = |fifth: &str, fifteenth: &str| -> String {
        let line = |line: usize| match line {
            5 => format!("{fifth}\n"),
            15 => format!("{fifteenth}\n"),
            line => format!("{line}\n"),
        };
        (1..=20).map(line).collect()
    };
    queue.branch("upper", &[("lines.txt", &lines("FIVE", "FIFTEEN"))]);
    queue.branch("lower", &[("lines.txt", &lines("five", "15"))]);
    queue.enqueue("upper");
    queue.enqueue("lower");
}

#[test]
fn i4_what_is_beside_a_conflict_is_not_taken_back() {
    let queue = with_agent("{ seq 4; echo 'FIVE and five'; seq 6 20; } > lines.txt");
    fifth_and_fifteenth(&queue);
    queue.process(5);
    let why = queue.why("lower");
    assert_eq!((&why["state"], &why["attempts"]), (&json!("escalated"), &json!(2)), "{why}");
    assert!(why["why"].as_str().expect("a reason").contains("lines.txt"), "{why}");
    assert!(queue.landed("lines.txt").expect("the file").contains("FIFTEEN"));
}

#[test]
fn i4_lines_may_be_added_beside_a_conflict() {
    let script = "{ echo import; seq 4; echo 'FIVE and five'; seq 6 14; echo FIFTEEN; seq 16 20; } > lines.txt";
    let queue = with_agent(script);
    fifth_and_fifteenth(&queue);
    assert_eq!(names(&queue.process(0)["landed"]), ["upper", "lower"]);
    assert!(queue.landed("lines.txt").expect("the file").starts_with("import"));
}

#[test]
fn i5_markers_an_agent_leaves_never_land() {
    let queue = with_agent("sed -i 's/^<<<<<<<.*/<<<<<<< mine/' lines.txt");
    queue.line("upper", 5, "FIVE");
    queue.line("lower", 5, "five");
    queue.process(5);
    assert_eq!(queue.state("lower"), "escalated");
    assert!(!queue.landed("lines.txt").expect("the file").contains("<<<<"));
}

#[test]
fn i6_without_a_test_words_are_not_merged() {
    let queue = Queue::with("merge: {slots: 1}\n");
    queue.line("base", 5, "alpha beta gamma");
    queue.process(0);
    queue.line("first", 5, "ALPHA beta gamma");
    queue.line("last", 5, "alpha beta GAMMA");
    let done = queue.process(5);
    assert_eq!(
        (names(&done["landed"]), done["landed"][0]["verdict"].clone()),
        (vec!["first"], json!({"is": "unverified"}))
    );
    let why = queue.why("last");
    assert_eq!(why["state"], "escalated", "{why}");
    assert!(why["why"].as_str().expect("a reason").contains("set `test_command`"), "{why}");
    assert_eq!(queue.landed("lines.txt").expect("the file").lines().nth(4), Some("ALPHA beta gamma"));
}
