//! When a fan-out is over, what a failed branch means, and which branches a fan-in takes.

use serde_json::json;

use super::fan;
use crate::sessions::tool;
use crate::support::TestEnv;

/// How the branches of the only fan-out ended, in the order in which that was recorded.
fn ends(env: &TestEnv) -> Vec<String> {
    let ended = env.all_in("main", "ParallelBranchCompleted");
    let how = |ended: &serde_json::Value| {
        if ended["stopped"] == true {
            format!("{} stopped", ended["context"].as_str().unwrap())
        } else {
            format!("{} {}", ended["context"].as_str().unwrap(), ended["outcome"]["status"].as_str().unwrap())
        }
    };
    let mut ends: Vec<String> = ended.iter().map(how).collect();
    ends.sort();
    ends
}

/// The outcome of the fan-out.
fn outcome(env: &TestEnv) -> String {
    let ended = env.all_in("main", "NodeExecution").into_iter().find(|ended| ended["node_id"] == "fork");
    ended.expect("its end")["outcome"]["status"].as_str().unwrap().to_owned()
}

#[test]
fn wait_all_is_partial_when_a_branch_fails() {
    let env = TestEnv::with_repo();
    let body = tool("a", "echo a > a.txt") + &tool("b", "echo b > b.txt; false") + " join -> exit";
    env.run(&fan("all", "", &["a", "b"], &body), &[]).expect(0);
    assert_eq!((outcome(&env), ends(&env)), ("partial_success".into(), vec!["a success".into(), "b fail".into()]));
    assert_eq!(env.files(), ["README.md", "a.txt"], "what failed is not joined");
    assert_eq!(env.git(&["show", &format!("{}:b.txt", env.branch_of("b"))]), "b", "and is not lost");
    assert!(super::linked(&env).iter().all(|path| !path.ends_with("/a")), "what was joined is removed");
}

#[test]
fn every_branch_failed_means_the_fan_in_fails() {
    let env = TestEnv::with_repo();
    let body = tool("a", "false") + &tool("b", "exit 7") + " join -> exit";
    let ran = env.run(&fan("none", "", &["a", "b"], &body), &[]).expect(1);
    assert_eq!(outcome(&env), "partial_success");
    assert!(ran.stdout.contains("no branch succeeded"), "{ran}");
    // A failure edge of the fan-in is taken.
    let env = TestEnv::with_repo();
    let more = tool("rescue", "echo saved > saved.txt")
        + " join -> rescue [condition=\"outcome=fail\"]\n rescue -> exit\n"
        + &body.replace("join -> exit", "join -> exit [condition=\"outcome=success\"]");
    env.run(&fan("none", "", &["a", "b"], &more), &[]).expect(0);
    assert_eq!(env.committed("saved.txt"), "saved");
}

#[test]
fn first_success_stops_the_others_and_keeps_their_branches() {
    let env = TestEnv::with_repo();
    let body = tool("quick", "echo quick > quick.txt")
        + &tool("slow", "echo begun > slow.txt")
        + &tool("slower", "sleep 600")
        + " join -> exit";
    let dot = fan("race", ", join_policy=first_success", &["quick", "slow -> slower"], &body);
    // The quick one waits until the slow one is in the middle of its work.
    let dot = dot.replace("echo quick >", "until git show-ref | grep -q -- '--slow$' && git show $(git show-ref | grep -- '--slow$' | cut -d' ' -f2):slow.txt; do sleep 0.05; done; echo quick >");
    env.run(&dot, &[]).expect(0);
    assert_eq!(ends(&env), ["quick success", "slow stopped"]);
    assert_eq!(env.files(), ["README.md", "quick.txt"]);
    assert_eq!(env.git(&["show", &format!("{}:slow.txt", env.branch_of("slow"))]), "begun");
    assert_eq!(env.value("parallel.results")[1]["outcome"], "stopped");
    env.assert_no_process_left();
    assert!(env.events_in("slow").iter().any(|(kind, _)| kind == "PipelineCancelled"));
}

#[test]
fn counts_and_quorums_end_the_fan_out() {
    let body = tool("a", "true") + &tool("b", "true") + &tool("c", "sleep 600") + " join -> exit";
    for policy in ["join_policy=k_of_n, k=2", "join_policy=quorum", "join_policy=quorum, quorum_percent=60"] {
        let env = TestEnv::with_repo();
        env.run(&fan("some", &format!(", {policy}"), &["a", "b", "c"], &body), &[]).expect(0);
        assert_eq!(ends(&env), ["a success", "b success", "c stopped"], "{policy}");
    }
    // Out of reach is over, too.
    let env = TestEnv::with_repo();
    let fails = body.replace("\"true\"", "\"false\"");
    let ran = env.run(&fan("some", ", join_policy=k_of_n, k=2", &["a", "b", "c"], &fails), &[]).expect(1);
    assert_eq!(ends(&env), ["a fail", "b fail", "c stopped"]);
    assert!(ran.stdout.contains("0 of 3 branches succeeded, 2 needed"), "{ran}");
}

#[test]
fn fail_fast_stops_the_others() {
    let env = TestEnv::with_repo();
    let body = tool("a", "sleep 600") + &tool("b", "false") + " join -> exit";
    let ran = env.run(&fan("fast", ", error_policy=fail_fast", &["a", "b"], &body), &[]).expect(1);
    assert_eq!(ends(&env), ["a stopped", "b fail"]);
    assert!(ran.stdout.contains("branch `b` failed"), "{ran}");
    // The run can be resumed at the fan-out, which starts its branches again under new names.
    env.assert_no_process_left();
}

#[test]
fn branches_that_wait_for_a_person_are_stopped() {
    for (policy, end, code, expected) in [
        ("error_policy=fail_fast", "exit 1", 1, ["a fail", "ask stopped"]),
        ("join_policy=first_success", "echo a > a.txt", 0, ["a success", "ask stopped"]),
    ] {
        let env = TestEnv::with_repo();
        let waits = "until git log --all --format=%s | grep -q '^start ask'; do sleep 0.05; done";
        let body = " ask [shape=hexagon]\n ask -> join [label=Yes]\n".to_owned()
            + &tool("a", &format!("{waits}; {end}"))
            + " join -> exit";
        let dot =
            fan("waits", &format!(", {policy}"), &["a", "ask"], &body).replace("fork -> ask -> join", "fork -> ask");
        let ran = env.run(&dot, &[]).expect(code);
        assert_eq!(ends(&env), expected, "{ran}");
        assert!(env.events_in("ask").iter().any(|(kind, _)| kind == "PipelineCancelled"), "{ran}");
    }
}

#[test]
fn branches_that_succeed_at_once_end_the_fan_out() {
    let env = TestEnv::with_repo();
    env.unbound();
    // Each of them ends when the last one has begun.
    let dir = env.root().join("begun");
    std::fs::create_dir(&dir).unwrap();
    let dir = dir.display();
    let ids = ["a", "b", "c", "d", "e", "f"];
    let work = |id: &str| {
        let begun = format!("touch {dir}/{id}; until test $(ls {dir} | wc -l) = 6; do sleep 0.01; done");
        tool(id, &begun).replace("shape=", "write=false, shape=")
    };
    let body: String = ids.map(work).concat() + " join -> exit";
    env.run(&fan("same", ", join_policy=first_success, max_parallel=6", &ids, &body), &[]).expect(0);
    assert_eq!(ends(&env).len(), 6);
}

#[test]
fn ignored_failures_do_not_count() {
    let env = TestEnv::with_repo();
    let body = tool("a", "echo a > a.txt") + &tool("b", "false") + " join -> exit";
    env.run(&fan("ignore", ", error_policy=ignore", &["a", "b"], &body), &[]).expect(0);
    assert_eq!(outcome(&env), "success");
}

#[test]
fn max_parallel_bounds_how_many_run_at_once() {
    let env = TestEnv::with_repo();
    let count = env.root().join("count");
    std::fs::create_dir(&count).unwrap();
    let dir = count.display();
    let work = |id: &str| {
        tool(id, &format!("touch {dir}/{id}; ls {dir} | wc -l >> {dir}.seen; sleep 0.2; rm {dir}/{id}"))
            .replace("shape=", "sandbox=off, shape=")
    };
    let body: String = ["a", "b", "c", "d", "e"].map(work).concat() + " join -> exit";
    env.unbound();
    env.run(&fan("few", ", max_parallel=2", &["a", "b", "c", "d", "e"], &body), &[]).expect(0);
    let most = env.read("count.seen").lines().map(|line| line.trim().parse::<u32>().unwrap()).max();
    assert!(most.is_some_and(|most| most <= 2), "{most:?}");
    assert_eq!(ends(&env).len(), 5);
}

/// A command that writes a file and says its score.
fn scored(id: &str, score: &str) -> String {
    tool(
        id,
        &format!(
            "echo {id} > {id}.txt; echo '{{\"outcome\":\"success\",\"context_updates\":{{\"score\":{score}}}}}' > $PLEACH_STATUS_FILE"
        ),
    )
}

#[test]
fn only_finite_scores_count() {
    let env = TestEnv::with_repo();
    let body = scored("a", "\"NaN\"") + &scored("b", "\"inf\"") + &scored("c", "5") + " join -> exit";
    let dot = fan("pick", "", &["a", "b", "c"], &body)
        .replace("shape=tripleoctagon", "shape=tripleoctagon, fan_in.policy=pick");
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.files(), ["README.md", "c.txt"]);
    let results = env.value("parallel.results");
    assert_eq!(
        [&results[0]["score"], &results[1]["score"], &results[2]["score"]],
        [&json!(null), &json!(null), &json!(5.0)]
    );
}

#[test]
fn pick_takes_the_best_branch_alone() {
    let env = TestEnv::with_repo();
    let body = scored("a", "1") + &scored("b", "2") + " join -> exit";
    let dot =
        fan("pick", "", &["a", "b"], &body).replace("shape=tripleoctagon", "shape=tripleoctagon, fan_in.policy=pick");
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.files(), ["README.md", "b.txt"]);
    assert_eq!(
        (env.value("parallel.fan_in.best_id"), env.value("parallel.fan_in.best_outcome")),
        (json!("b"), json!("success"))
    );
    assert_eq!(env.all_in("main", "ContextJoined")[0]["contexts"], json!(["b"]));
}

#[test]
fn a_judge_may_choose_another_branch_than_the_first() {
    let env = TestEnv::with_repo();
    env.script("model: m\nscripts:\n  - name: join\n    when: {node: join}\n    steps: [{text: \"b is better.\\n\\nBEST: b\"}]\n");
    let body = tool("a", "echo a > a.txt") + &tool("b", "echo b > b.txt") + " join -> exit";
    let dot = fan("judge", "", &["a", "b"], &body)
        .replace("shape=tripleoctagon", "shape=tripleoctagon, prompt=\"Which one is better?\"");
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.files(), ["README.md", "b.txt"]);
    assert_eq!(env.value("parallel.fan_in.best_id"), "b");
    // One that names no branch fails the fan-in.
    let env = TestEnv::with_repo();
    env.script("model: m\nscripts:\n  - name: join\n    when: {node: join}\n    steps: [{text: Both are fine.}]\n");
    let ran = env.run(&dot, &[]).expect(1);
    assert!(ran.stdout.contains("expected one of `a`, `b`"), "{ran}");
}

#[test]
fn a_red_gate_fails_the_fan_in_and_moves_nothing() {
    let env = TestEnv::with_repo();
    let body = tool("a", "echo a > a.txt") + &tool("b", "echo b > b.txt") + " join -> exit";
    let gated = |gate: &str| {
        fan("gated", "", &["a", "b"], &body)
            .replace("shape=tripleoctagon", &format!("shape=tripleoctagon, gate=\"{gate}\""))
    };
    let ran = env.run(&gated("cat a.txt b.txt; echo made > made.txt; echo too bad >&2; exit 3"), &[]).expect(1);
    assert!(ran.stdout.contains("the gate failed") && ran.stdout.contains("exit 3"), "{ran}");
    assert_eq!(env.files(), ["README.md"], "the session branch stays");
    let kept = super::linked(&env);
    assert!(["/a", "/b", "/main"].iter().all(|name| kept.iter().any(|path| path.ends_with(name))), "{kept:?}");
    // A green one sees the merged files.
    let env = TestEnv::with_repo();
    env.run(&gated("test $(cat a.txt b.txt | wc -l) = 2 && git diff --quiet HEAD && echo made > made.txt"), &[])
        .expect(0);
    assert_eq!(env.files(), ["README.md", "a.txt", "b.txt"], "what a gate writes is no part of it");
}

#[test]
fn a_failed_fan_out_is_retried_under_new_names() {
    let env = TestEnv::with_repo();
    let count = env.root().join("tries");
    let body = tool("a", &format!("echo x >> {0}; test $(wc -l < {0}) -ge 2 && echo a > a.txt", count.display()))
        + " join -> exit";
    env.unbound();
    let dot = fan("again", ", join_policy=first_success, max_retries=2", &["a"], &body);
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.committed("a.txt"), "a");
    let contexts = env.git(&["for-each-ref", "--format=%(refname:lstrip=4)", "refs/pleach/sessions/"]);
    assert_eq!(contexts, "a\na-2\nmain");
}

#[test]
fn a_goal_gate_counts_once_its_branch_is_joined() {
    let env = TestEnv::with_repo();
    let body =
        tool("a", "echo a > a.txt") + &tool("b", "false").replace("shape=", "goal_gate=true, shape=") + " join -> exit";
    // The branch with the unsatisfied gate failed and is not joined.
    env.run(&fan("gates", "", &["a", "b"], &body), &[]).expect(0);
    // Joined, it counts.
    let env = TestEnv::with_repo();
    let body = body + &tool("after", "true") + " b -> after [condition=\"outcome=fail\"]\n after -> join";
    let ran = env
        .run(&fan("gates", "", &["a"], &body).replace(" start -> fork\n", " start -> fork\n fork -> b\n"), &[])
        .expect(1);
    assert!(ran.stdout.contains("goal gate `b`"), "{ran}");
}

#[test]
fn a_failed_branch_says_why_when_the_run_succeeds() {
    let env = TestEnv::with_repo();
    let body = tool("a", "echo a > a.txt") + &tool("b", "echo no luck >&2; exit 3") + " join -> exit";
    let ran = env.run(&fan("both", "", &["a", "b"], &body), &[]).expect(0);
    let line = ran.stderr.lines().find(|line| line.contains("✗ b fail")).expect("the end of b");
    assert!(line.starts_with("b │ ") && line.contains(": "), "{ran}");
    assert_eq!(ran.stderr.matches("✗").count(), 1, "once is enough: {ran}");
    assert!(ran.stdout.lines().any(|line| line == "1 branch failed"), "{ran}");
    let env = TestEnv::with_repo();
    let body = tool("a", "true") + &tool("b", "true") + " join -> exit";
    let ran = env.run(&fan("both", "", &["a", "b"], &body), &[]).expect(0);
    assert!(!ran.stdout.contains("failed"), "{ran}");
}
