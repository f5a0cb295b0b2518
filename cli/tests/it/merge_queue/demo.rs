//! The last part of `pleach demo`.

use serde_json::{Value, json};

use crate::support::TestEnv;

#[test]
fn the_demo_ends_with_three_branches_landed() {
    let env = TestEnv::new();
    let ran = env.pleach(&["demo", "shown"]).expect(0);
    let dir = env.root().join("shown");
    for part in ["landed 3 of 3 in", "├─ conflict in `lib.sh`", "pleach merge why page"] {
        assert!(ran.stdout.contains(part), "{part}: {ran}");
    }
    let why = |name: &str| -> Value { env.pleach(&["-C", "shown", "merge", "why", name, "--json"]).expect(0).json() };
    for (name, tier, attempts) in [("rename", "fast_forward", 0), ("shout", "agent", 1), ("page", "agent", 1)] {
        let entry = why(name);
        assert_eq!((&entry["state"], &entry["tier"]), (&json!("landed"), &json!(tier)), "{entry}");
        assert_eq!(entry["attempts"], attempts, "{entry}");
        let landed = entry["landing"]["to"].as_str().expect("a commit");
        let trailers = env.git_in(&dir, &["log", "-1", "--format=%(trailers:only)", landed]);
        assert_eq!(trailers.contains("Pleach-Tier: agent"), tier == "agent", "{trailers}");
        // What a commit comes to is tested where nothing else can help it.
        let copy = format!("../{name}");
        env.git_in(&dir, &["worktree", "add", "-q", "--detach", &copy, landed]);
        let checked = env.program("sh", &env.root().join(name)).arg("check.sh").output().unwrap();
        assert!(checked.status.success(), "{name}: {}", String::from_utf8_lossy(&checked.stderr));
    }
    assert_eq!(why("shout")["resolved"], json!(["lib.sh#1=agent"]));
    let page = why("page");
    let states = page["history"].as_array().expect("states").iter();
    let caught = states.filter(|state| state["state"] == "conflicted").map(|state| state["why"].to_string());
    let caught: Vec<String> = caught.collect();
    assert!(caught.len() == 1 && caught[0].contains("pass on the branch and on the target"), "{page}");
    assert!(page["log"].as_str().expect("a log").contains("about.page.sh does not greet Ada"), "{page}");
    let greets = env.program("sh", &dir).arg("about.page.sh").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&greets.stdout), "WELCOME, Ada and all of us!\n", "the checkout has all three");
    assert!(!env.root().join("state/pleach/trust.json").exists(), "what pleach brings along needs no approval");
    env.assert_no_process_left();
}

#[test]
fn the_demo_tells_programs_what_landed() {
    let env = TestEnv::new();
    let lines = env.pleach(&["--json", "demo", "shown"]).expect(0).json_lines();
    let last = lines.last().expect("a document");
    let mut landed = super::names(&last["landed"]);
    landed[1..].sort_unstable();
    assert_eq!(landed, ["rename", "page", "shout"], "two agents at once, whichever is done first");
    assert_eq!(last["open"], json!([]));
}
