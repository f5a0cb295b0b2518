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
