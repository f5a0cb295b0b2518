//! Open branches, looked at before they are done.

use std::process::Stdio;

use serde_json::json;

use super::Queue;

#[test]
fn forecast() {
    let queue = Queue::with("merge: {slots: 1}\n");
    assert_eq!(queue.env.pleach(&["forecast", "--json"]).expect(0).json()["pairs"], json!([]));
    queue.line("upper", 5, "FIVE");
    queue.line("lower", 5, "five");
    queue.line("apart", 15, "fifteen");
    queue.queued("alone");
    let forecast = queue.env.pleach(&["forecast", "--json"]).expect(0).json();
    assert_eq!(forecast["branches"], json!(["alone", "apart", "lower", "upper"]));
    let pairs = forecast["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 3, "{forecast}");
    assert_eq!(
        pairs[0],
        json!({"one": "lower", "other": "upper", "overlap": ["lines.txt"], "conflicts": ["lines.txt"]})
    );
    assert!(pairs[1..].iter().all(|pair| pair["conflicts"] == json!([]) && pair["overlap"] == json!(["lines.txt"])));
    queue.process(5);
    let after = queue.env.pleach(&["forecast", "--json"]).expect(0).json();
    assert_eq!((&after["branches"], &after["pairs"][0]["other"]), (&json!(["lower"]), &json!("main")));
    std::fs::remove_dir_all(queue.env.repo_path().join(".git/pleach/cache")).unwrap();
    assert_eq!(queue.env.pleach(&["forecast", "--json"]).expect(0).json(), after, "the cache may be lost");
}

#[test]
fn the_queue_tells_who_is_tested_together_and_how_long() {
    let test = "test -e ../go || { touch ../began; while ! test -e ../go; do sleep 0.05; done; }";
    let queue = Queue::with(&format!(
        "merge: {{test_command: '{test}', slots: 1, batch: 2}}\nsandbox: {{mode: off}}\nworktrees: {{base: ../worktrees}}\n"
    ));
    let entries = || queue.env.pleach(&["merge", "--json"]).expect(0).json()["queues"][0]["entries"].clone();
    let work = || {
        let mut command = queue.env.command(&["-y", "merge", "process"]);
        let working = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        queue.env.wait_for_file("worktrees/merge/main/began");
        working
    };
    let go = |mut working: std::process::Child| {
        queue.env.write("worktrees/merge/main/go", "");
        assert!(working.wait().unwrap().success());
    };
    queue.queued("zero");
    let working = work();
    assert_eq!((&entries()[0]["tested_with"], &entries()[0]["lands_in_secs"]), (&json!([]), &json!(null)));
    go(working);
    for file in ["go", "began"] {
        std::fs::remove_file(queue.env.root().join("worktrees/merge/main").join(file)).unwrap();
    }
    for name in ["one", "two", "three"] {
        queue.queued(name);
    }
    let working = work();
    let listed = entries();
    let with = [0, 1, 2].map(|nth| listed[nth]["tested_with"].clone());
    assert_eq!(with, [json!(["two"]), json!(["one"]), json!([])], "{listed}");
    let secs = [0, 1, 2].map(|nth| listed[nth]["lands_in_secs"].as_u64().expect("an estimate"));
    assert!(secs[0] == secs[1] && secs[2] > secs[0], "the third is in the next batch: {secs:?}");
    assert!(queue.env.pleach(&["merge"]).expect(0).stdout.contains("tested with two"));
    go(working);
    assert_eq!(queue.names(), Vec::<String>::new());
}
