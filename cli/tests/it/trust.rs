//! `pleach trust`

use crate::support::TestEnv;

fn agreed(env: &TestEnv) {
    let entry = |key: char, repo: &str, text: &str| {
        serde_json::json!({"key": key.to_string().repeat(40), "repo": repo, "kind": "command", "where_from": "pleach.yaml:1",
            "text": text, "at": "2026-01-02T03:04:05Z"})
    };
    let file = serde_json::json!({"version": 1, "trusted": [
        entry('1', "/a/.git", "make test"), entry('2', "/a/.git", "npm ci\nrm x"), entry('3', "/b/.git", "make test"),
    ]});
    env.write("state/pleach/trust.json", file.to_string());
}

#[test]
fn agreements_are_listed() {
    let env = TestEnv::new();
    insta::assert_snapshot!(env.pleach(&["trust"]).expect(0), @r#"
    exit: 0
    --- stdout
    You have agreed to nothing yet.
    "#);
    agreed(&env);
    insta::assert_snapshot!(env.pleach(&["trust"]).expect(0), @r#"
    exit: 0
    --- stdout
    key         repository  kind     from           text
    [SHA]  /a/.git     command  pleach.yaml:1  make test
    [SHA]  /a/.git     command  pleach.yaml:1  npm ci …
    [SHA]  /b/.git     command  pleach.yaml:1  make test
    "#);
    assert_eq!(env.pleach(&["trust", "--json"]).expect(0).json()["trusted"].as_array().unwrap().len(), 3);
}

#[test]
fn agreements_can_be_taken_back() {
    let env = TestEnv::new();
    agreed(&env);
    insta::assert_snapshot!(env.pleach(&["trust", "--revoke", "11", "333"]).expect(0), @r#"
    exit: 0
    --- stdout
    Taken back: [SHA] make test
    Taken back: [SHA] make test
    "#);
    let left = env.pleach(&["trust", "--json"]).expect(0).json();
    assert_eq!(left["trusted"][0]["text"], "npm ci\nrm x");
    assert_eq!(left["trusted"].as_array().unwrap().len(), 1);
    insta::assert_snapshot!(env.pleach(&["trust", "--revoke", "9"]).expect(2), @r#"
    exit: 2
    --- stderr
    error: no agreement begins with `9`
    hint: `pleach trust` lists them
    "#);
    insta::assert_snapshot!(env.pleach(&["trust", "--revoke"]).expect(2), @r#"
    exit: 2
    --- stderr
    error: say which agreements to take back
    hint: `pleach trust --revoke KEY`, or `pleach trust --revoke --all`
    "#);
    env.pleach(&["trust", "--revoke", "2", "--all"]).expect(2);
    env.pleach(&["trust", "--all"]).expect(2);
    env.pleach(&["trust", "--revoke", "--all"]).expect(0);
    assert_eq!(env.pleach(&["trust", "--json"]).expect(0).json()["trusted"], serde_json::json!([]));
}

const PIPELINE: &str = r#"digraph g {
    start [shape=Mdiamond] exit [shape=Msquare]
    work [shape=parallelogram, tool_command="printf done > made"]
    start -> work -> exit
}"#;

#[test]
fn what_a_repository_supplies_is_asked_about_once() {
    let env = TestEnv::new();
    let repo = env.repo();
    env.write("repo/g.dot", PIPELINE);
    env.write("repo/pleach.yaml", "agent: builtin\nworktrees: {setup: printf setup > set}\n");
    let ran = env.pleach(&["run", "g.dot"]).expect(4);
    insta::assert_snapshot!(ran, @r#"
    exit: 4
    --- stderr
    This repository ([TEMP]/repo/.git) supplies:

      command (worktrees.setup, [TEMP]/repo/pleach.yaml:2)
        printf setup > set

      command (tool_command of `work`, g.dot)
        printf done > made

    error: this repository supplies 2 things you have not agreed to
    hint: read what is shown above; then run the command again with -y, or in a terminal to be asked
    "#);
    assert_eq!(env.git_in(&repo, &["for-each-ref", "refs/pleach", "refs/heads/pleach"]), "", "nothing was begun");
    env.pleach(&["-y", "run", "g.dot"]).expect(0);
    env.pleach(&["run", "g.dot"]).expect(0);
    env.write("repo/g.dot", PIPELINE.replace("done", "other"));
    let asked = env.pleach(&["run", "g.dot"]).expect(4).stderr;
    assert!(asked.contains("printf other") && !asked.contains("printf setup"), "{asked}");
}

#[test]
fn a_dotenv_file_steers_nothing_before_it_is_trusted() {
    let env = TestEnv::new();
    env.repo();
    env.write("repo/g.dot", PIPELINE);
    env.write("repo/pleach.yaml", "agent: builtin\n");
    let trace = env.root().join("trace");
    env.write("repo/.env", format!("GIT_TRACE={}\n", trace.display()));
    let asked = env.pleach(&["run", "g.dot"]).expect(4).stderr;
    assert!(asked.contains("variable (GIT_TRACE"), "{asked}");
    assert!(!trace.exists(), "git of pleach's own was run with the repository's variables");
    env.pleach(&["-y", "run", "g.dot"]).expect(0);
    assert!(!trace.exists(), "git of pleach's own is never run with them");
}
