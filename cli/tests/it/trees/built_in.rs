//! The built-in agent in a tree: turns on the record, steps on the branch.

use std::collections::BTreeSet;

use super::garden::{Garden, Tree};
use crate::providers::{answer_of, text, write};
use crate::server::Server;
use crate::sessions::Story;

const SCRIPT: &str = r#"
scripts:
  - name: implement
    when: {node: implement}
    steps:
      - text: Write the first half.
        tools:
          - write_file: {file_path: one, content: "1\n"}
      - text: Write the second half.
        tools:
          - write_file: {file_path: two, content: "2\n"}
      - text: Both halves are there.
  - name: review
    when: {node: review}
    steps:
      - text: "Fine.\nAPPROVED"
"#;

#[test]
fn turn_commits_are_reachable_only_from_the_record() {
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.script(SCRIPT);
    garden.gardener(&[]).expect(0);
    assert_eq!(garden.told("main"), ["T001 implement-pass", "T001 review-approved", "T001 complete"]);
    assert_eq!(garden.files("main"), ["README.md", "one", "task-tree.json", "two"]);
    let session = garden.env.session();
    let story = Story::of(&garden.env, &garden.env.repo_path(), &session);
    let turns: Vec<String> = story
        .all("AgentTurn")
        .iter()
        .filter_map(|turn| turn["git_sha"].as_object()?.values().next()?.as_str().map(str::to_owned))
        .collect();
    assert_eq!(turns.len(), 2, "{turns:?}");
    let record = format!("refs/pleach/sessions/{session}/main");
    let of_record = garden.env.git(&["rev-list", &record]);
    let of_branches = garden.env.git(&["rev-list", "--branches"]);
    for turn in &turns {
        assert!(of_record.contains(turn.as_str()), "{turn}");
        assert!(!of_branches.contains(turn.as_str()), "{turn}");
    }
    let implement = garden.newest("main", "T001 implement-pass");
    let changed = garden.env.changed(&implement.id);
    assert!(changed.contains(&"one".to_owned()) && changed.contains(&"two".to_owned()), "the whole diff: {changed:?}");
    assert_eq!(implement.body, "Runner output (truncated to 2000 chars):\nBoth halves are there.");
    assert_eq!(implement.trailer("Pleach-Session"), Some(session.as_str()));
}

/// A provider that does every task and likes everything.
fn provider() -> Server {
    Server::start(|seen, _| {
        let asked = String::from_utf8_lossy(&seen.raw);
        let begins = seen.body["messages"].as_array().is_some_and(|messages| messages.len() == 1);
        let said = if begins && asked.contains("Implement task") {
            vec![text("Write it."), write("one.txt")]
        } else {
            vec![text("Done.\nAPPROVED")]
        };
        answer_of("claude-sonnet-4-5", &said)
    })
}

/// The models that were asked to implement, and those that were asked to review, since the first `past` calls.
fn models(server: &Server, past: usize) -> [BTreeSet<String>; 2] {
    ["Implement task", "Review the changes"].map(|request| {
        let is_asked = |raw: &[u8]| String::from_utf8_lossy(raw).contains(&format!("\"{request}"));
        let calls = server.seen().into_iter().skip(past).filter(|seen| is_asked(&seen.raw));
        calls.map(|seen| seen.body["model"].as_str().unwrap_or_default().to_owned()).collect()
    })
}

#[test]
fn the_model_of_a_step_reaches_its_provider() {
    let server = provider();
    let garden = Garden::new(&Tree::of(&["T001"]));
    garden.env.write(".env", "ANTHROPIC_API_KEY=sk-ant-test-0123456789abcdef\n");
    let settings = |more: &str| {
        let provider =
            format!("{{models: {{worker: usual, big: biggest}}, settings: {{api_base: '{}'}}}}", server.url());
        garden
            .env
            .configure(&format!("agent: builtin\nproviders: {{default: anthropic, anthropic: {provider}}}\n{more}"));
    };
    let asked = |command: &str, more: &[&str]| {
        let past = server.seen().len();
        let words = [&["--fresh"], more].concat();
        match command {
            "garden" => garden.garden(&words).expect(0),
            _ => garden.gardener(&words).expect(0),
        };
        models(&server, past).map(|models| models.into_iter().collect::<Vec<_>>().join(" "))
    };
    settings("");
    assert_eq!(asked("gardener", &[]), ["usual", "usual"]);
    assert_eq!(asked("garden", &["--model", "mine"]), ["mine", "mine"]);
    assert_eq!(asked("gardener", &["--model", "big"]), ["biggest", "biggest"], "a name the settings know");
    garden.env.write("repo/.arborist/config.json", r#"{"defaults": {"model": "original"}}"#);
    assert_eq!(asked("gardener", &[]), ["original", "original"]);
    std::fs::remove_file(garden.env.repo_path().join(".arborist/config.json")).unwrap();
    settings("tree: {steps: {implement: {model: quick}}}\n");
    assert_eq!(asked("gardener", &[]), ["quick", "usual"]);
    settings("tree: {steps: {implement: {model: quick}, review: {model: careful}}}\n");
    assert_eq!(asked("garden", &[]), ["quick", "careful"]);
    assert_eq!(asked("gardener", &["--model", "mine"]), ["mine", "mine"], "what is given goes above what is set");
}
