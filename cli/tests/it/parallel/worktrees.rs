//! The worktrees of branches: one each, apart from each other, gone when they are joined.

use super::{fan, linked};
use crate::sessions::{graph, tool};
use crate::support::TestEnv;

#[test]
fn worktree_created_for_parallel() {
    let env = TestEnv::with_repo();
    let seen = "git worktree list --porcelain | grep -c '^worktree '";
    let wait = "until [ $(git worktree list --porcelain | grep -c '^worktree ') = 4 ]; do sleep 0.05; done";
    let body = tool("a", &format!("{wait}; {seen} > a.txt"))
        + &tool("b", &format!("{wait}; {seen} > b.txt"))
        + " join -> exit";
    env.run(&fan("two", "", &["a", "b"], &body), &[]).expect(0);
    assert_eq!(env.committed("a.txt"), "4", "the user's, the session's and one for each branch");
    assert_eq!(linked(&env).len(), 1, "worktree cleanup on success");
}

#[test]
fn worktree_isolation() {
    let env = TestEnv::with_repo();
    let body = tool("a", "echo a > a.txt; echo a > both.log")
        + &tool("b", "until git show-ref | grep -q -- '--a$'; do sleep 0.05; done; ls > b.txt")
        + " join -> exit";
    env.run(&fan("apart", "", &["a", "b"], &body), &[]).expect(0);
    assert_eq!(env.committed("b.txt"), "README.md\nb.txt", "what the other writes is not seen");
}

#[test]
fn worktree_path() {
    let env = TestEnv::with_repo();
    env.write("repo/pleach.yaml", "worktrees: {base: .orchestra/worktrees}\n");
    env.git(&["add", "pleach.yaml"]);
    env.git(&["commit", "-qm", "settings"]);
    let body = tool("a", "pwd > a.txt") + " join -> exit";
    env.run(&fan("place", "", &["a"], &body), &[]).expect(0);
    let expected = format!("{}/.orchestra/worktrees/{}/a", env.repo_path().display(), env.session());
    assert_eq!(env.committed("a.txt"), expected);
}

#[test]
fn sequential_agents_no_worktree() {
    let env = TestEnv::with_repo();
    let body = tool("a", "true")
        + &tool("b", "true")
        + &tool("after", "git worktree list --porcelain | grep -c '^worktree ' > n.txt; pwd >> n.txt")
        + " join -> after -> exit";
    env.run(&fan("then", "", &["a", "b"], &body), &[]).expect(0);
    let said = env.committed("n.txt");
    assert!(said.starts_with("2\n") && said.ends_with("/main"), "{said}");
}

#[test]
fn read_only_branches_share_the_worktree() {
    let env = TestEnv::with_repo();
    let reads = |id: &str| {
        tool(id, "pwd > $PLEACH_STATUS_FILE.at; cat README.md; echo mess > mess.txt")
            .replace("shape=", "write=false, shape=")
    };
    let body = reads("a") + &reads("b") + &tool("c", "echo c > c.txt") + " join -> exit";
    env.run(&fan("read", "", &["a", "b", "c"], &body), &[]).expect(0);
    assert_eq!(env.files(), ["README.md", "c.txt"]);
    let forked = env.all_in("a", "ContextForked");
    assert_eq!(forked[0]["branches"], serde_json::json!({}));
    assert!(env.git(&["branch", "--list", "*--a"]).is_empty());
    let made: Vec<_> = env.events_in("a").into_iter().filter(|(kind, _)| kind == "WorktreeCreated").collect();
    assert!(made.is_empty(), "{made:?}");
    assert!(env.story().warns("read-only-undone").contains("mess.txt"), "what they wrote is kept and undone");
    assert!(!env.git(&["for-each-ref", "refs/pleach/keep/"]).is_empty());
}

#[test]
fn parallel_with_worktrees() {
    let env = TestEnv::with_repo();
    env.script("model: m\nscripts:\n  - name: a\n    when: {node: a}\n    steps:\n      - tools: [{write_file: {file_path: a1.txt, content: \"1\\n\"}}]\n      - tools: [{write_file: {file_path: a2.txt, content: \"2\\n\"}}]\n      - text: done\n  - name: b\n    when: {node: b}\n    steps:\n      - tools: [{write_file: {file_path: b1.txt, content: \"1\\n\"}}]\n      - text: done\n",
    );
    let body = " a [prompt=\"Do a\"]\n b [prompt=\"Do b\"]\n join -> exit";
    env.run(&fan("agents", "", &["a", "b"], body), &[]).expect(0);
    let authors = env.git(&["log", "--no-merges", "--format=%an", &format!("main..{}", env.branch())]);
    let mut authors: Vec<&str> = authors.lines().collect();
    authors.sort();
    assert_eq!(authors.len(), 3, "every commit of both agents is on the session branch: {authors:?}");
    let turns = env.git(&[
        "log",
        "--no-merges",
        "--format=%(trailers:key=Orchestra-Turn,valueonly,separator=)",
        &format!("main..{}", env.branch()),
    ]);
    let mut turns: Vec<&str> = turns.lines().collect();
    turns.sort();
    assert_eq!(turns, ["a.1", "a.2", "b.1"]);
    assert_eq!(env.files(), ["README.md", "a1.txt", "a2.txt", "b1.txt"]);
}

#[test]
fn a_stopped_branch_leaves_no_worktrees_of_its_own_branches() {
    let env = TestEnv::with_repo();
    let works = |id: &str| tool(id, &format!("echo {id} > {id}.txt; sleep 600"));
    let at_work =
        "until [ $(git worktree list --porcelain | grep -c '^worktree .*/inner-[xy]$') = 2 ]; do sleep 0.05; done";
    let body = " inner [shape=component]\n meet [shape=tripleoctagon]\n".to_owned()
        + &tool("before", "echo before > before.txt")
        + &works("x")
        + &tool("y", "echo y > y.txt")
        + &tool("z", "sleep 600")
        + &tool("quick", &format!("{at_work}; echo quick > quick.txt"))
        + " inner -> y -> z -> meet\n join -> exit";
    let dot = fan("race", ", join_policy=first_success", &["inner -> x -> meet", "quick"], &body);
    let dot = dot.replace("start -> fork", "start -> before -> fork");
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.files(), ["README.md", "before.txt", "quick.txt"]);
    assert_eq!(linked(&env).len(), 1, "{:?}", linked(&env));
    env.assert_no_process_left();
    assert!(!env.git(&["branch", "--list", "*--inner-x"]).is_empty(), "what they committed stays");
}

#[test]
fn what_read_only_branches_wrote_is_undone_after_failures() {
    let writes = "echo x > evil.txt; echo more >> README.md";
    let read_only =
        |id: &str, command: &str| format!("{id} [shape=parallelogram, write=false, tool_command=\"{command}\"]\n");
    let after = tool("rescue", "ls > seen.log");
    // The fan-out fails, and so does the fan-in.
    for (policy, failing, from) in [("fail_fast", "false", "fork"), ("continue", "exit 1", "join")] {
        let env = TestEnv::with_repo();
        let a = read_only("a", &format!("{writes}; {}", if from == "join" { "exit 1" } else { "true" }));
        let body = format!(
            "fork [shape=component, max_parallel=1, error_policy={policy}]\n join [shape=tripleoctagon]\n {a}{}{after}
             start -> fork\n fork -> a -> join\n fork -> b -> join\n join -> exit [condition=\"outcome=success\"]
             {from} -> rescue [condition=\"outcome=fail\"]\n rescue -> exit",
            read_only("b", failing)
        );
        let ran = env.run(&graph("failing", &body), &[]).expect(0);
        assert_eq!(env.files(), ["README.md", "seen.log"], "{ran}");
        assert!(!env.committed("seen.log").contains("evil") && !env.committed("README.md").contains("more"), "{ran}");
        ran.warns("read-only-undone");
    }
}
