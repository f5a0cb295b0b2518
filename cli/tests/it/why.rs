//! `pleach why`: a line and the turn behind it.

use serde_json::Value;

use crate::sessions::graph;
use crate::support::TestEnv;
use crate::tree_commands::page::{greeting, shows_what_happens};

#[test]
fn the_page_about_why_shows_what_happens() {
    shows_what_happens(&greeting(), "docs/why.md", 7);
}

/// Three turns: one writes, one commits by itself, one asks from the worktree, whose HEAD has neither.
fn asked_in_its_worktree() -> TestEnv {
    let env = TestEnv::with_repo();
    let (pleach, asked) = (env!("CARGO_BIN_EXE_pleach"), env.root().join("asked.json"));
    let asked = asked.display();
    let script = format!(
        "scripts:\n  - name: more\n    when: {{node: more}}\n    steps:\n\
         \x20     - {{tools: [{{write_file: {{file_path: three.txt, content: \"three\n\"}}}}]}}\n\
         \x20     - text: Done.\n  - name: one\n    steps:\n\
         \x20     - {{text: The first word matters., tools: [{{write_file: {{file_path: sub/one.txt, content: \"one\\n\"}}}}]}}\n\
         \x20     - {{tools: [{{shell: {{command: \"echo two > two.txt; git add two.txt; git -c user.name=Ada -c \
         user.email=ada@example.org commit --quiet -m Own\"}}}}]}}\n\
         \x20     - {{tools: [{{shell: {{command: \"{pleach} why --json sub/one.txt > {asked}; true\"}}}}]}}\n\
         \x20     - text: Done.\n"
    );
    env.script(&script);
    env.unbound();
    env.run(
        &graph(
            "one",
            "code [prompt=\"Write the word.\"] more [prompt=\"Write another.\"] start -> code -> more -> exit",
        ),
        &[],
    )
    .expect(0);
    env
}

fn line(why: &Value) -> &Value {
    &why["lines"][0]
}

#[test]
fn a_line_leads_to_its_turn_from_everywhere() {
    let env = asked_in_its_worktree();
    let session = env.session();
    let turn = format!("{session}/main.1");
    let asked: Value = serde_json::from_str(&env.read("asked.json")).unwrap();
    assert_eq!((&line(&asked)["turn"], &asked["rev"]), (&Value::from(turn.as_str()), &Value::Null));
    // From the branch, from a directory below, and with a path that climbs.
    env.git(&["merge", "--quiet", &format!("pleach/one/{session}")]);
    let one = env.pleach(&["why", "--json", "sub/one.txt:1"]).expect(0).json();
    assert_eq!((&line(&one)["turn"], &line(&one)["origin"]), (&Value::from(turn.as_str()), &Value::from("turn")));
    let told = &one["turns"][&turn];
    assert_eq!((&told["prompt"], &told["reason_from"]), (&Value::from("Write the word."), &Value::from("words")));
    assert_eq!(told["reason"], "The first word matters.");
    for (dir, file) in [("sub", "one.txt"), ("sub", "../sub/./one.txt")] {
        let from = env.pleach(&["-C", dir, "why", "--json", file]).expect(0).json();
        assert_eq!(line(&from)["turn"], turn.as_str(), "{file}");
    }
    // What the agent has committed itself is the turn's that joined it; it said nothing there, so its last words count.
    let two = env.pleach(&["why", "--json", "two.txt:1"]).expect(0).json();
    assert_eq!(line(&two)["turn"], format!("{session}/main.2"));
    assert_eq!(two["turns"][format!("{session}/main.2")]["reason"], "The first word matters.");
    // What a node was asked comes without the story before it.
    let three = env.pleach(&["why", "--json", "three.txt:1"]).expect(0).json();
    assert_eq!(three["turns"][format!("{session}/main.5")]["prompt"], "Write another.");
    // A revision, a bare clone, and what is not committed.
    let gone = env.pleach(&["why", "--at", "HEAD~2", "two.txt"]);
    gone.expect(2).fails_with("no-such-file");
    env.git(&["clone", "--quiet", "--bare", ".", "../bare.git"]);
    let bare = env.pleach(&["-C", "../bare.git", "why", "--json", "sub/one.txt"]).expect(0).json();
    assert_eq!((&line(&bare)["turn"], &bare["rev"].is_string()), (&Value::from(turn.as_str()), &true));
    env.write("repo/sub/one.txt", "one more\n");
    let edited = env.pleach(&["why", "--json", "sub/one.txt:1"]).expect(0).json();
    assert_eq!(line(&edited)["origin"], "uncommitted");
    assert_eq!(line(&edited)["before"][0]["turn"], turn.as_str());
}

#[test]
fn what_is_no_line_is_refused_in_a_sentence() {
    let env = TestEnv::with_repo();
    env.write("repo/binary", [0, 1, 2]);
    std::os::unix::fs::symlink("README.md", env.root().join("repo/link")).unwrap();
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "More"]);
    env.write("repo/new", "1\n");
    let cases = [
        ("README.md:2", "no-such-line", "1 line"),
        ("README.md:2-1", "no-such-line", "1 line"),
        ("none.md", "no-such-file", "neither a file nor a commit"),
        ("new", "no-such-file", "in no commit yet"),
        ("link", "file-unfit", "a link"),
        (".", "file-unfit", "a directory"),
        ("binary", "file-unfit", "a binary file"),
    ];
    for (what, code, fact) in cases {
        env.pleach(&["why", what]).expect(2).fails_with(code).naming(fact);
    }
    let plain = env.pleach(&["why", "README.md"]).expect(0);
    assert!(plain.stdout.starts_with("no run of pleach wrote these lines; git says\n"), "{plain}");
    assert!(plain.stdout.contains("Ada Tester  2026-01-02  Begin"), "{plain}");
}
