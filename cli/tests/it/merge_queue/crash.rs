//! Killed anywhere while it works, a queue comes to the same end: nothing is lost, nothing lands twice, the target is always
//! a commit that was tested, and its files are the same in the end.

use std::collections::BTreeMap;

use super::Queue;
use crate::support::TestEnv;

/// How the branches of a queue end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It merges and passes.
    Clean,
    /// It conflicts with one before it, and an agent resolves that.
    Conflict,
    /// Its tests fail.
    Red,
    /// Its tests hang.
    Hangs,
}

/// What the branches of a queue are, by their numbers.
fn kind(number: usize) -> Kind {
    match number {
        4 => Kind::Hangs,
        number if number % 10 == 7 => Kind::Conflict,
        number if number % 10 == 9 => Kind::Red,
        _ => Kind::Clean,
    }
}

/// Resolves every conflict in the same way: all numbers, in order.
const AGENT: &str =
    "cat > /dev/null; grep -v '^[<|=>]' shared.txt | sort -un > s && cat s > shared.txt && rm s; echo done";

/// A queue of so many branches.
fn queue(branches: usize) -> Queue {
    let test = "test ! -e red.txt && { test ! -e hangs.txt || sleep 1000; } && ! grep -q '<<<' shared.txt && test -s shared.txt";
    let settings = format!(
        "agent: 'command:sh agent.sh'\nmerge: {{test_command: \"{test}\", test_timeout: 3, batch: 8, slots: 2}}\n"
    );
    let queue = Queue::with(&settings);
    queue.env.write("repo/agent.sh", AGENT);
    queue.env.write("repo/shared.txt", "0\n");
    queue.env.git(&["add", "-A"]);
    queue.env.git(&["commit", "-qm", "Base"]);
    for number in 0..branches {
        let name = format!("b{number:02}");
        let own = format!("{name}.txt");
        let shared = format!("0\n{number}\n");
        let more: &[(&str, &str)] = match kind(number) {
            Kind::Clean if number % 10 == 6 => &[("shared.txt", &shared)],
            Kind::Clean => &[],
            Kind::Conflict => &[("shared.txt", &shared)],
            Kind::Red => &[("red.txt", "1")],
            Kind::Hangs => &[("hangs.txt", "1")],
        };
        queue.branch(&name, &[&[(own.as_str(), "1")], more].concat());
        queue.enqueue(&name);
    }
    queue
}

const PROCESS: [&str; 3] = ["-y", "merge", "process"];

/// What a queue comes to.
#[derive(Debug, PartialEq)]
struct End {
    tree: String,
    states: BTreeMap<String, String>,
    /// How often each branch is merged into the target.
    merged: BTreeMap<String, usize>,
}

fn end(queue: &Queue) -> End {
    let all = queue.env.pleach(&["merge", "queue", "--all", "--json"]).expect(0).json();
    let entries = all["queues"][0]["entries"].as_array().expect("a list").iter();
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    let states = entries.map(|entry| (text(&entry["name"]), text(&entry["state"]))).collect();
    let mut merged = BTreeMap::new();
    for line in queue.env.git(&["log", "--format=%s", "main"]).lines() {
        if let Some(branch) = line.strip_prefix("merge: ").or_else(|| line.strip_prefix("Work of b00").map(|_| "b00")) {
            *merged.entry(branch.to_owned()).or_default() += 1;
        }
    }
    End { tree: queue.env.git(&["rev-parse", "main^{tree}"]), states, merged }
}

fn expected(queue: &Queue, branches: usize) -> End {
    let queue = copy(queue);
    queue.env.pleach(&PROCESS).expect(1);
    let end = end(&queue);
    for number in 0..branches {
        let state = &end.states[&format!("b{number:02}")];
        let meant = if matches!(kind(number), Kind::Red | Kind::Hangs) { "red" } else { "landed" };
        assert_eq!(state, meant, "b{number:02}");
    }
    assert!(end.merged.values().all(|count| *count == 1), "{end:?}");
    end
}

/// The same queue in a world of its own.
fn copy(queue: &Queue) -> Queue {
    Queue { env: queue.env.copy() }
}

/// Works a queue, dying at a crash point, then again until it is through. Returns whether it died.
fn crash_at(point: &str, queue: &Queue, expected: &End) -> bool {
    let queue = copy(queue);
    let ran = queue.env.command(&PROCESS).env("PLEACH_CRASH", point).output().expect("pleach starts");
    if ran.status.code() == Some(1) {
        return false;
    }
    queue.env.assert_no_process_left();
    assert_tested(&queue.env, point);
    queue.env.pleach(&PROCESS).expect(1);
    assert_eq!(&end(&queue), expected, "after dying at {point}");
    assert_eq!(queue.env.git(&["status", "--short"]), "", "after dying at {point}");
    true
}

/// The target is what it was, or something the tests have passed on: nothing red and no marker.
#[track_caller]
fn assert_tested(env: &TestEnv, point: &str) {
    let files = env.git(&["ls-tree", "--name-only", "main"]);
    assert!(!files.lines().any(|name| matches!(name, "red.txt" | "hangs.txt")), "after dying at {point}: {files}");
    assert!(!env.git(&["show", "main:shared.txt"]).contains("<<<"), "after dying at {point}");
}

#[test]
fn every_kind_of_crash_point_of_a_queue() {
    let queue = queue(11);
    let expected = expected(&queue, 11);
    let points =
        ["object-write:before:40", "ref-swap:after:6", "landing:before:2", "landing:after:1", "index-update:after:2"];
    for point in points {
        assert!(crash_at(point, &queue, &expected), "the queue never came to {point}");
    }
}

/// Dies at every point, one after another. Run by `cargo xtask crash-sweep queue`.
#[test]
#[ignore = "takes hours: every crash point of a queue of fifty branches, or one in so many"]
#[expect(clippy::disallowed_methods, reason = "the sweep is told how much of it to do")]
fn sweep() {
    let every =
        std::env::var("SWEEP_EVERY").expect("the sweep says how many points it tries").parse().expect("a number");
    let queue = queue(50);
    let expected = expected(&queue, 50);
    let traced = copy(&queue);
    let trace = traced.env.root().join("trace");
    traced.env.command(&PROCESS).env("PLEACH_CRASH_TRACE", &trace).output().expect("pleach starts");
    let total = traced.env.read("trace").lines().count();
    let (mut died, mut tried) = (0, 0);
    for number in (1..=total).step_by(every) {
        tried += 1;
        died += usize::from(crash_at(&format!("any:{number}"), &queue, &expected));
        if tried % 25 == 0 {
            println!("{number} of {total} points");
        }
    }
    println!("survived {died} of {tried} tried, of {total} points");
    assert!(died > tried * 8 / 10, "too few points were reached: {died} of {tried}");
}
