//! Notes for other tools: `git notes` shows them, and they say what `why` says.

use serde_json::{Value, json};

use crate::sessions::{Story, graph, tool};
use crate::support::TestEnv;
use crate::tree_commands::page::greeting;

const SCRIPT: &str = r#"scripts:
  - name: any
    steps:
      - {text: One., tools: [{write_file: {file_path: "a b.txt", content: "one\ntwo\n"}}]}
      - {text: Two., tools: [{write_file: {file_path: "a b.txt", content: "one\nmore\ntwo\n"}}, {write_file: {file_path: c.txt, content: "c\n"}}]}
      - {text: Own., tools: [{shell: {command: "echo own > own.txt; git add own.txt; git -c user.name=A -c user.email=a@b.c commit --quiet -m Own"}}]}
      - {text: Done.}
"#;

const NOTES: &str = "refs/notes/ai";

/// Has notes written, as the user's own setting.
fn noting(env: &TestEnv) {
    env.write("config/pleach/config.yaml", "attribution_notes: git-ai\nsandbox: {mode: off}\n");
}

/// A note as it was written.
type Note = (String, Vec<(String, String)>, Value);

/// The commits that have a note, with what it says of lines and what is below them.
fn notes(env: &TestEnv) -> Vec<Note> {
    let listed = env.git(&["notes", "--ref", NOTES, "list"]);
    let of = |line: &str| {
        let commit = line.split(' ').nth(1).expect("a commit").to_owned();
        let note = env.git(&["notes", "--ref", NOTES, "show", &commit]);
        let (lines, keys) = note.split_once("\n---\n").expect("two parts");
        let (mut found, mut file) = (Vec::new(), "");
        for line in lines.lines() {
            match line.strip_prefix("  ") {
                None => file = line.trim_matches('"'),
                Some(of_turn) => {
                    let (key, ranges) = of_turn.split_once(' ').expect("a key and lines");
                    assert!(key.len() == 34 && key.starts_with("s_") && key[16..].starts_with("::t_"), "{key}");
                    found.push((file.to_owned(), ranges.to_owned()));
                }
            }
        }
        found.sort();
        (commit, found, serde_json::from_str(keys).expect("JSON"))
    };
    listed.lines().map(of).collect()
}

/// The lines of turns in a commit, as `why` has them.
fn lines_of_turns(env: &TestEnv, commit: &str) -> Vec<(String, String)> {
    let why = env.pleach(&["why", "--json", commit]).expect(0).json();
    let of_turns = why["lines"].as_array().expect("lines").iter().filter(|lines| lines["turn"].is_string());
    let text = |range: &Value| match (&range[0], &range[1]) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    };
    let ranges =
        |lines: &Value| lines["ranges"].as_array().expect("ranges").iter().map(text).collect::<Vec<_>>().join(",");
    let mut lines: Vec<_> = of_turns.map(|lines| (lines["file"].as_str().unwrap().to_owned(), ranges(lines))).collect();
    lines.sort();
    lines
}

#[test]
fn notes_written_read_back() {
    let env = TestEnv::with_script(SCRIPT);
    noting(&env);
    let body = format!("code [prompt=\"Write\"] {} start -> code -> log -> exit", tool("log", "cat c.txt > log.txt"));
    env.run(&graph("p", &body), &[]).expect(0);
    let session = env.session();
    let all = notes(&env);
    let mut files: Vec<_> = all.iter().flat_map(|(_, lines, _)| lines.clone()).collect();
    files.sort();
    let expected = [("a b.txt", "1-2"), ("a b.txt", "2"), ("c.txt", "1"), ("own.txt", "1")];
    assert_eq!(
        files,
        expected.map(|(file, lines)| (file.to_owned(), lines.to_owned())),
        "none of what a command wrote"
    );
    for (commit, lines, keys) in &all {
        let agent = json!({"agent_id": {"tool": "pleach", "id": format!("{session}/main"), "model": "script"}});
        assert_eq!(keys["sessions"].as_object().unwrap().values().collect::<Vec<_>>(), [&agent]);
        assert_eq!((&keys["base_commit_sha"], &keys["schema_version"]), (&json!(commit), &json!("authorship/3.0.0")));
        assert_eq!((&keys["prompts"], &keys["humans"]), (&json!({}), &json!({})));
        // The commit that the agent made itself does not know what has joined it.
        if lines[0].0 != "own.txt" {
            assert_eq!(*lines, lines_of_turns(&env, commit), "{commit}");
        }
    }
    // What somebody else has noted stays, and what is written while a session runs is no agent's doing.
    let first = &all[0].0;
    env.git(&["notes", "--ref", NOTES, "add", "-f", "-m", "mine", first]);
    let body = tool("log", "git notes --ref=ai add -f -m theirs main");
    env.run(&graph("q", &format!("{body} start -> log -> exit")), &[]).expect(0);
    let ran = Story::of(&env, &env.repo_path(), &env.sessions()[1]);
    assert!(ran.warnings().iter().all(|(code, _)| code != "changed-outside"), "{:?}", ran.warnings());
    env.pleach(&["-y", "replay", &session, "--turn", "1"]).expect(0);
    assert_eq!(env.git(&["notes", "--ref", NOTES, "show", first]), "mine");
    let written = notes_of_branch(&env, &format!("pleach/p/{session}--r1"));
    assert_eq!(written, 3, "the replay's two, and the one of the turn it goes on from");
    // What cannot be written is told, and nothing has failed.
    env.write("repo/.git/refs/notes/ai.lock", "");
    let told = env.pleach(&["-y", "replay", &session, "--turn", "1"]).expect(0);
    told.warns("notes-not-written");
}

/// How many commits of a branch have a note.
fn notes_of_branch(env: &TestEnv, branch: &str) -> usize {
    let noted = env.git(&["notes", "--ref", NOTES, "list"]);
    let commits = env.git(&["rev-list", &format!("main..{branch}")]);
    commits.lines().filter(|commit| noted.contains(*commit)).count()
}

#[test]
fn notes_of_what_landed_have_the_lines_of_the_copy() {
    let env = greeting();
    noting(&env);
    env.pleach(&["build", "--spec-dir", "spec", "--no-ai", "-o", "task-tree.json"]).expect(0);
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Plan"]);
    env.pleach(&["-y", "gardener"]).expect(0);
    let on_main = env.git(&["rev-list", "HEAD"]);
    let all = notes(&env);
    let landed: Vec<_> = all.iter().filter(|(commit, ..)| on_main.contains(commit.as_str())).collect();
    assert!(landed.len() >= 3, "{all:?}");
    for commit in on_main.lines() {
        let noted = landed.iter().find(|(noted, ..)| noted == commit).map(|(_, lines, _)| lines.clone());
        assert_eq!(noted.unwrap_or_default(), lines_of_turns(&env, commit), "{commit}");
    }
    // A session that lands, and nothing where nobody asks for it.
    env.git(&["update-ref", "-d", NOTES]);
    env.write("config/pleach/config.yaml", "sandbox: {mode: off}\n");
    env.write("work.dot", graph("work", "implement [prompt=\"Implement task T001\"] start -> implement -> exit"));
    env.pleach(&["-y", "run", "../work.dot"]).expect(0);
    assert_eq!(env.git(&["for-each-ref", "refs/notes"]), "");
    noting(&env);
    env.git(&["commit", "--quiet", "--allow-empty", "-m", "Meanwhile"]);
    env.pleach(&["-y", "land"]).expect(0);
    assert!(!notes(&env).is_empty(), "those of what the landing brought");
}
