//! What holds over all branches: budgets, and the guard around what is not theirs.

use super::fan;
use crate::sessions::tool;
use crate::support::TestEnv;

/// All tokens of the only session.
fn tokens(env: &TestEnv) -> u64 {
    let tokens = env.pleach(&["status", &env.session(), "--json"]).expect(0).json()["tokens"].clone();
    ["input", "output"].iter().filter_map(|kind| tokens[kind].as_u64()).sum()
}

#[test]
fn budgets_hold_over_parallel_branches() {
    let call = "      - {tools: [{shell: {command: 'true'}}], usage: {input: 10, output: 5}}\n".repeat(20);
    let script =
        |node: &str| format!("  - name: {node}\n    when: {{node: {node}}}\n    steps:\n{call}      - text: done\n");
    let env = TestEnv::with_script(&format!("model: m\nscripts:\n{}", ["a", "b", "c"].map(script).concat()));
    env.configure(
        "agent: builtin\nproviders: {script: {file: script.yaml}}\nbudget: {tokens: 100, on_exceeded: pause}\n",
    );
    let body = " a [prompt=a]\n b [prompt=b]\n c [prompt=c]\n join -> exit";
    env.run(&fan("spend", "", &["a", "b", "c"], body), &[]).expect(3);
    let spent = tokens(&env);
    assert!((100..=100 + 3 * 15).contains(&spent), "one call each past the limit at most: {spent}");
    // Raised, the branches go on where they were, and what they had spent still counts.
    env.configure(
        "agent: builtin\nproviders: {script: {file: script.yaml}}\nbudget: {tokens: 200, on_exceeded: pause}\n",
    );
    env.resume(&[]).expect(3);
    let spent = tokens(&env);
    assert!((200..=200 + 3 * 15).contains(&spent), "{spent}");
}

#[test]
fn what_branches_do_is_not_named_to_each_other() {
    let env = TestEnv::with_repo();
    // Nothing keeps them in their worktrees, so everything outside is watched.
    env.unbound();
    let seen = |other: &str| format!("until git show-ref | grep -q -- '--{other}$'; do sleep 0.05; done");
    let body = tool("a", &format!("{}; echo a > a.txt", seen("b")))
        + &tool("a2", "echo more >> a.txt")
        + &tool(
            "b",
            &format!(
                "{}; until git log --format=%s --all | grep -q -x 'Run a2'; do sleep 0.05; done; echo b > b.txt",
                seen("a")
            ),
        )
        + " join -> exit";
    let ran = env.run(&fan("watch", "", &["a -> a2", "b"], &body), &[]).expect(0);
    for context in ["main", "a", "b"] {
        assert_eq!(env.story_of(context).warnings(), [], "{context}: {ran}");
    }
}
