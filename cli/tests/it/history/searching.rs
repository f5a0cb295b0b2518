//! `pleach search` finds what was said, wherever it was said.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::sessions::graph;
use crate::support::TestEnv;

/// Words with all that JSON writes in another way, a text too long to stay in its message, and each word in one part alone.
fn script() -> String {
    let long = "padding padding\\n".repeat(700);
    format!(
        r#"
scripts:
  - name: code
    when: {{node: code}}
    steps:
      - thinking: "Der Ärger mit \"Anführung\" und C:\\pfad."
        text: I will look at the kettle.
        tools: [{{shell: {{command: "echo lantern; echo 'tab\there'"}}}}, {{write_file: {{file_path: notes.txt, content: "a quill"}}}}]
      - text: "{long}the anvil is at the end"
  - name: look
    when: {{node: look}}
    steps:
      - text: The KETTLE again, and nothing else.
"#
    )
}

const NODES: &str = r#"code [prompt="Find the lighthouse"]  look [prompt="Look once more"]
    tool [shape=parallelogram, tool_command="printf 'first line\nsecond marigold line\n'"]
    start -> code -> tool -> look -> exit"#;

/// A run in which every part of messages has its own words.
fn spoken() -> TestEnv {
    let env = TestEnv::with_script(&script());
    env.run(&graph("talk", NODES), &["-q"]).expect(0);
    env
}

fn found(env: &TestEnv, args: &[&str]) -> Vec<Value> {
    env.pleach(&[&["search", "--json"], args].concat()).expect(0).json_lines()
}

/// The turns something is found in.
fn turns(env: &TestEnv, args: &[&str]) -> Vec<String> {
    let of = |hit: &Value| hit["turn"].as_str().expect("a turn").to_owned();
    found(env, args).iter().map(of).collect()
}

#[test]
fn search_finds_what_turns_say() {
    let env = spoken();
    let sid = env.session();
    // Whatever `show` shows of a message is found in its turn, a line of each text at a time.
    let turns_json = env.pleach(&["turns", &sid, "--json"]).expect(0).json();
    let mut lines = 0;
    for turn in turns_json["turns"].as_array().expect("turns") {
        let turn = turn["turn"].as_str().expect("an id");
        let shown = env.pleach(&["show", &format!("{sid}/{turn}"), "--json"]).expect(0).json();
        for message in shown["messages"].as_array().expect("messages") {
            for part in message["content"].as_array().expect("parts") {
                let texts = ["text", "content"].map(|key| part[key].as_str().unwrap_or_default());
                let texts = texts.into_iter().chain(
                    part["arguments"]
                        .as_object()
                        .into_iter()
                        .flat_map(|given| given.values().filter_map(Value::as_str)),
                );
                for line in texts.filter_map(|text| text.lines().last().filter(|line| line.len() > 3)) {
                    lines += 1;
                    let hits = found(&env, &[line, "-n", "100"]);
                    let hit = hits.iter().find(|hit| hit["turn"] == turn);
                    let hit = hit.unwrap_or_else(|| panic!("{line:?} of {turn} is not found: {hits:?}"));
                    assert_eq!(hit["run"], sid.as_str());
                    assert!(hit["excerpt"].as_str().is_some_and(|excerpt| !excerpt.is_empty()), "{hit}");
                }
            }
        }
    }
    assert!(lines > 8, "{lines} lines were looked for");
    // Newest first, each message once, no case without capitals.
    let code = ["main.1", "main.1"];
    assert_eq!(turns(&env, &["kettle", "--in", "answer"]), ["main.4", "main.1"]);
    assert_eq!(turns(&env, &["KETTLE", "--in", "answer"]), ["main.4"]);
    assert_eq!(turns(&env, &["ärger mit \"anführung\" und c:\\", "--in", "answer"]), ["main.1"]);
    assert_eq!(turns(&env, &["-n", "1", "kettle", "--in", "answer"]), ["main.4"]);
    for (part, word, others) in [
        ("prompt", "lighthouse", ["answer", "tool", "output"]),
        ("tool", "a quill", ["prompt", "answer", "output"]),
        ("output", "tab\there", ["prompt", "answer", "prompt"]),
    ] {
        assert!(turns(&env, &[word, "--in", part]).contains(&"main.1".to_owned()), "{word} in {part}");
        for other in others {
            let there: BTreeSet<String> = turns(&env, &[word, "--in", other]).into_iter().collect();
            assert!(!there.contains(code[0]), "{word} in {other}: {there:?}");
        }
    }
    assert_eq!(turns(&env, &["--regex", "^SECOND mari|^second mari", "--in", "output"]), ["main.3"]);
    assert_eq!(turns(&env, &["the anvil is at the END", "--in", "answer"]), [""; 0]);
    assert_eq!(turns(&env, &["padding\nthe anvil", "--in", "answer"]), ["main.2"]);
    let hit = &found(&env, &["marigold", "--in", "output"])[0];
    assert_eq!(
        (&hit["excerpt"], &hit["node"], &hit["role"]),
        (&"second marigold line".into(), &"tool".into(), &"tool".into())
    );
    // Only where it is looked for.
    assert_eq!(turns(&env, &["kettle", "--task", "T001"]), [""; 0]);
    assert_eq!(turns(&env, &["kettle", "--since", "2999-01-01"]), [""; 0]);
    assert_eq!(turns(&env, &["kettle", "--session", &sid[..4], "--in", "answer"]), ["main.4", "main.1"]);
    env.pleach(&["search", "kettle", "--session", "zzzz"]).expect(2).fails_with("no-such-session");
    env.pleach(&["search", "--regex", "(kettle"]).expect(2).fails_with("regex-invalid");
    insta::assert_snapshot!(env.pleach(&["search", "marigold", "--in", "output"]), @r"
    exit: 0
    --- stdout
    [SID]/main.3  tool  output  [AT]
        second marigold line
    ");
}
