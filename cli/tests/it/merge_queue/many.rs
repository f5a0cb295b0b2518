//! Open branches, looked at before they are done.

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
