//! Fan-out and fan-in through the program: branches at once, joined by true merges; conflicts, policies, gates.

use serde_json::{Value, json};

use crate::sessions::{Story, graph, tool};
use crate::support::{Ran, TestEnv};

mod conflicts;
mod crash;
mod limits;
mod policies;
mod tiers;
mod worktrees;

/// A fan-out to `branches`, each a chain of nodes, joined at `join`.
pub fn fan(name: &str, attributes: &str, branches: &[&str], body: &str) -> String {
    let edges: String = branches.iter().map(|chain| format!(" fork -> {chain} -> join\n")).collect();
    graph(
        name,
        &format!(" fork [shape=component{attributes}]\n join [shape=tripleoctagon]\n{body} start -> fork\n{edges}"),
    )
}

impl TestEnv {
    /// What a context of the only session has recorded.
    pub fn story_of(&self, context: &str) -> Story {
        Story::in_context(self, &self.repo_path(), &self.session(), context)
    }

    /// The events of one context of the only session, with their types.
    pub fn events_in(&self, context: &str) -> Vec<(String, Value)> {
        self.story_of(context).events().map(|(kind, data)| (kind.to_owned(), data.clone())).collect()
    }

    /// The session branch, or that of one of its branches.
    pub fn branch_of(&self, context: &str) -> String {
        let story = self.story();
        let branch = story.first("PipelineStarted")["branches"]["repo"].as_str().expect("a branch").to_owned();
        if context == "main" { branch } else { format!("{branch}--{context}") }
    }

    /// The data of the events of a type in a context.
    pub fn all_in(&self, context: &str, kind: &str) -> Vec<Value> {
        self.events_in(context).into_iter().filter(|(found, _)| found == kind).map(|(_, data)| data).collect()
    }

    /// The final value of the root's context.
    pub fn value(&self, key: &str) -> Value {
        let checkpoints = self.all_in("main", "Checkpoint");
        checkpoints.last().expect("a checkpoint")["context"][key].clone()
    }
}

/// The paths of the linked worktrees.
pub fn linked(env: &TestEnv) -> Vec<String> {
    let listed = env.git(&["worktree", "list", "--porcelain"]);
    listed.lines().filter_map(|line| line.strip_prefix("worktree ")).skip(1).map(str::to_owned).collect()
}

fn two(env: &TestEnv) -> Ran {
    let body = tool("a", "echo a > a.txt") + &tool("b", "echo b > b.txt") + " join -> exit";
    env.run(&fan("both", "", &["a", "b"], &body), &[])
}

#[test]
fn fan_out_and_fan_in() {
    let env = TestEnv::with_repo();
    two(&env).expect(0);
    assert_eq!((env.committed("a.txt"), env.committed("b.txt")), ("a".into(), "b".into()));
    let kinds = |context: &str| env.events_in(context).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>();
    let of_main = kinds("main");
    for kind in ["ParallelStarted", "ParallelBranchCompleted", "ParallelCompleted", "WorktreeMerged", "ContextJoined"] {
        assert!(of_main.iter().any(|found| found == kind), "{kind}: {of_main:?}");
    }
    for kind in ["ContextForked", "ParallelBranchStarted", "WorktreeCreated", "TurnCommitted"] {
        assert!(kinds("a").iter().any(|found| found == kind), "{kind}: {:?}", kinds("a"));
    }
    let results = env.value("parallel.results");
    assert_eq!(results[0]["id"], "a");
    assert_eq!((&results[0]["outcome"], &results[1]["id"]), (&json!("success"), &json!("b")));
    assert_eq!(env.value("parallel.fan_in.best_id"), "a");
}

#[test]
fn a_fan_out_branch_of_more_than_one_node() {
    let env = TestEnv::with_repo();
    let body = tool("a1", "echo one > a.txt")
        + &tool("a2", "cat a.txt && echo two >> a.txt")
        + &tool("b", "echo b > b.txt")
        + " join -> exit";
    env.run(&fan("chain", "", &["a1 -> a2", "b"], &body), &[]).expect(0);
    assert_eq!(env.committed("a.txt"), "one\ntwo");
    let subjects = env.git(&["log", "--format=%s", &env.branch_of("a1")]);
    assert_eq!(subjects.lines().count(), 3, "{subjects}");
}

#[test]
fn context_values_of_branches_are_their_own() {
    let env = TestEnv::with_repo();
    let says = |value: &str| {
        format!("echo '{{\"outcome\":\"success\",\"context_updates\":{{\"who\":\"{value}\"}}}}' > $PLEACH_STATUS_FILE")
    };
    let body = tool("before", &says("start"))
        + &tool("a", &says("a"))
        + &tool("b", "echo b > b.txt")
        + &tool("after", "true")
        + " join -> after -> exit";
    let dot = fan("values", "", &["a", "b"], &body).replace("start -> fork", "start -> before -> fork");
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.value("who"), "start", "what a branch sets is not merged back");
    let of_a = env.all_in("a", "Checkpoint").last().unwrap()["context"]["who"].clone();
    let of_b = env.all_in("b", "Checkpoint").last().unwrap()["context"]["who"].clone();
    assert_eq!((of_a, of_b), (json!("a"), json!("start")));
}

#[test]
fn fan_outs_nest() {
    let env = TestEnv::with_repo();
    let body = " inner [shape=component]\n meet [shape=tripleoctagon]\n".to_owned()
        + &tool("x", "echo x > x.txt")
        + &tool("y", "echo y > y.txt")
        + &tool("b", "echo b > b.txt")
        + " inner -> y -> meet\n join -> exit";
    env.run(&fan("nested", "", &["inner -> x -> meet", "b"], &body), &[]).expect(0);
    for file in ["x", "y", "b"] {
        assert_eq!(env.committed(&format!("{file}.txt")), file);
    }
    let contexts = env.git(&["for-each-ref", "--format=%(refname:lstrip=4)", "refs/pleach/sessions/"]);
    assert_eq!(contexts, "b\ninner\ninner-x\ninner-y\nmain");
}

#[test]
fn loops_and_retries_stay_inside_a_branch() {
    let env = TestEnv::with_repo();
    let body = tool("a", "echo round >> a.txt")
        + &tool("check", "test $(wc -l < a.txt) -ge 3")
        + &tool("b", "echo try >> b.txt && test $(wc -l < b.txt) -ge 2")
            .replace("tool_command", "max_retries=3, tool_command")
        + " check -> a [condition=\"outcome=fail\"]\n join -> exit";
    let dot = fan("loops", "", &["a -> check", "b"], &body)
        .replace("check -> join", "check -> join [condition=\"outcome=success\"]");
    let dot = dot.replace(
        "fork -> a -> check -> join [condition=\"outcome=success\"]",
        "fork -> a -> check\n check -> join [condition=\"outcome=success\"]",
    );
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.committed("a.txt"), "round\nround\nround");
    assert_eq!(env.committed("b.txt"), "try\ntry");
}

#[test]
fn a_fan_out_in_a_loop_numbers_its_branches() {
    let env = TestEnv::with_repo();
    let body = tool("a", "echo a >> a.txt")
        + &tool("b", "echo b >> b.txt")
        + &tool("again", "test $(wc -l < a.txt) -ge 2")
        + " join -> again\n again -> fork [condition=\"outcome=fail\"]\n again -> exit [condition=\"outcome=success\"]";
    env.run(&fan("rounds", "", &["a", "b"], &body), &[]).expect(0);
    assert_eq!(env.committed("a.txt"), "a\na");
    let contexts = env.git(&["for-each-ref", "--format=%(refname:lstrip=4)", "refs/pleach/sessions/"]);
    assert_eq!(contexts, "a\na-2\nb\nb-2\nmain");
}

#[test]
fn a_branch_must_not_lead_back_to_its_fan_out() {
    let body = tool("a", "true") + &tool("b", "false") + " b -> fork [condition=\"outcome=fail\"]\n join -> exit";
    let gate = body.replace(" b -> fork [condition=\"outcome=fail\"]\n", "").replace(
        "shape=parallelogram, tool_command=\"false\"",
        "goal_gate=true, retry_target=fork, shape=parallelogram, tool_command=\"false\"",
    );
    for body in [body, gate] {
        let env = TestEnv::with_repo();
        env.run(&fan("back", "", &["a", "b"], &body), &[]).expect(2).fails_with("pipeline-invalid");
        assert!(env.sessions().is_empty());
        let found = env.pleach(&["validate", "--json", "../pipeline.dot"]).expect(2).json();
        let found = found["files"][0]["diagnostics"].as_array().expect("findings").clone();
        let error = found.iter().find(|found| found["rule"] == "branch_leads_back").expect("the error");
        assert_eq!(error["severity"], "error");
        assert!(error["message"].as_str().is_some_and(|message| message.ends_with("fork → b → fork")), "{error}");
    }
}

#[test]
fn a_branch_that_comes_back_to_its_fan_out_fails() {
    let env = TestEnv::with_repo();
    // An edge for failures is a way of the fan-out itself, but a branch if a failure led there.
    let body = tool("before", "false")
        + &tool("a", "echo a > a.txt")
        + &tool("fix", "echo fixed > fix.txt")
        + " start -> before\n before -> fork [condition=\"outcome=fail\"]\n"
        + " fork -> fix [condition=\"outcome=fail\"]\n fix -> fork\n fix -> join [condition=\"context.never=1\"]\n"
        + " join -> exit";
    let ran = env.run(&fan("back", "", &["a"], &body).replace(" start -> fork\n", ""), &[]).expect(0);
    let ended = env.all_in("main", "ParallelBranchCompleted");
    let fix = ended.iter().find(|ended| ended["context"] == "fix").expect("its end");
    let why = fix["outcome"]["failure_reason"].as_str().unwrap_or_default();
    assert_eq!(why, "branch `fix` came back to `fork`, which it is a branch of", "{ran}");
    let contexts = env.git(&["for-each-ref", "--format=%(refname:lstrip=4)", "refs/pleach/sessions/"]);
    assert_eq!(contexts, "a\nfix\nmain");
}

#[test]
fn a_node_without_a_fan_in_joins_by_merge_first() {
    let env = TestEnv::with_repo();
    let body = " fork [shape=component]\n".to_owned()
        + &tool("a", "echo a > a.txt")
        + &tool("b", "echo b > b.txt")
        + &tool("review", "cat a.txt b.txt > both.txt")
        + " start -> fork\n fork -> a -> review\n fork -> b -> review\n review -> exit";
    env.run(&graph("shared", &body), &[]).expect(0);
    assert_eq!(env.committed("both.txt"), "a\nb");
}

#[test]
fn without_any_common_node_the_exit_joins() {
    let env = TestEnv::with_repo();
    let body = " fork [shape=component]\n".to_owned()
        + &tool("a", "echo a > a.txt")
        + &tool("b", "echo b > b.txt")
        + " start -> fork\n fork -> a -> exit\n fork -> b -> exit";
    env.run(&graph("open", &body), &[]).expect(0);
    assert_eq!((env.committed("a.txt"), env.committed("b.txt")), ("a".into(), "b".into()));
}

#[test]
fn conditions_choose_the_branches() {
    let env = TestEnv::with_repo();
    let body = tool("a", "echo a > a.txt") + &tool("b", "echo b > b.txt") + " join -> exit";
    let dot = fan("some", "", &["a", "b"], &body)
        .replace("fork -> b -> join", "fork -> b [condition=\"context.wanted=yes\"]\n b -> join");
    env.run(&dot, &[]).expect(0);
    assert_eq!(env.all_in("main", "ParallelStarted")[0]["branches"], json!([{"context": "a", "node_id": "a"}]));
    let none = dot.replace("fork -> a -> join", "fork -> a [condition=\"context.wanted=yes\"]\n a -> join");
    let env = TestEnv::with_repo();
    let ran = env.run(&none, &[]).expect(1);
    assert!(ran.stdout.contains("no edge leads to a branch"), "{ran}");
}

#[test]
fn a_fan_in_without_a_fan_out_fails() {
    let env = TestEnv::with_repo();
    let body = tool("a", "true") + " join [shape=tripleoctagon]\n start -> a -> join -> exit";
    let ran = env.run(&graph("lonely", &body), &[]).expect(1);
    assert!(ran.stdout.contains("no fan-out led here"), "{ran}");
}

#[test]
fn a_gate_in_a_branch_stops_only_that_branch() {
    let env = TestEnv::with_repo();
    let body = " ask [shape=hexagon, label=\"Go?\"]\n".to_owned()
        + &tool("a", "echo a > a.txt")
        + &tool("b1", "echo one > b.txt")
        + &tool("b2", "echo two >> b.txt")
        + " ask -> a [label=Yes]\n join -> exit";
    let dot = fan("asks", ", max_parallel=1", &["ask", "b1 -> b2"], &body)
        .replace("fork -> ask -> join", "fork -> ask\n a -> join");
    let ran = env.run(&dot, &[]).expect(4);
    assert!(ran.stdout.contains("`ask/ask` asks: Go?"), "{ran}");
    assert_eq!(env.git(&["show", &format!("{}:b.txt", env.branch_of("b1"))]), "one\ntwo", "the other one went on");
    let shown = env.pleach(&["status", &env.session(), "--json"]).expect(0).json();
    assert_eq!((&shown["question"]["node"], &shown["question"]["context"]), (&json!("ask"), &json!("ask")));
    env.resume(&["--answer", "ask/ask=Yes"]).expect(0);
    assert_eq!((env.committed("a.txt"), env.committed("b.txt")), ("a".into(), "one\ntwo".into()));
}

#[test]
fn what_a_gate_in_a_branch_judges_is_shown() {
    let env = TestEnv::with_repo();
    let body = " ask [shape=hexagon, label=\"Go?\"]\n".to_owned()
        + &tool("a", "echo from a > a.txt")
        + &tool("b", "echo from b > b.txt")
        + " join -> exit";
    let dot = fan("asks", "", &["a -> ask", "b"], &body).replace("ask -> join", "ask\n ask -> join [label=Yes]");
    for unknown in ["x/ask=Yes", "b/a/ask=Yes"] {
        env.run(&dot, &["--answer", unknown]).expect(2).fails_with("no-such-gate").naming("no branch `");
    }
    let ran = env.run(&dot, &[]).expect(4);
    let sid = env.session();
    let look = format!("look:    pleach diff {sid}/a");
    assert!(ran.stdout.lines().any(|line| line == look), "{look}: {ran}");
    let changed = |session: &str| env.pleach(&["diff", session, "--json"]).expect(0).json()["files"].clone();
    let one = |path: &str| json!([{"path": path, "added": 1, "removed": 0}]);
    assert_eq!(changed(&sid), json!([]), "nothing is joined yet");
    assert_eq!(changed(&format!("{sid}/a")), one("a.txt"));
    assert_eq!(changed(&format!("{sid}/b")), one("b.txt"), "it has ended");
    assert_eq!(changed(&format!("{sid}/main")), json!([]));
    for unknown in ["c", "", "a/b"] {
        let ran = env.pleach(&["diff", &format!("{sid}/{unknown}")]).expect(2);
        ran.fails_with("no-such-branch").naming(format!("`{unknown}`"));
    }
    env.pleach(&["-y", "resume", &sid, "--answer", "x/ask=Yes"]).expect(2).fails_with("no-such-gate");
    env.resume(&["--answer", "a/ask=Yes"]).expect(0);
    assert_eq!(env.committed("a.txt"), "from a");
}

#[test]
fn every_line_of_a_branch_names_it() {
    let env = TestEnv::with_repo();
    let ran = two(&env).expect(0);
    let lines: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("▸ a ") || line.contains("✓ a ")).collect();
    assert!(lines.len() == 2 && lines.iter().all(|line| line.starts_with("a │ ")), "{ran}");
}

#[test]
fn rm_removes_the_branches_of_a_fan_out() {
    let env = TestEnv::with_repo();
    two(&env).expect(0);
    env.git(&["merge", "--quiet", "--no-edit", &env.branch()]);
    let sid = env.session();
    env.pleach(&["-y", "rm", &sid]).expect(0);
    assert_eq!(env.git(&["for-each-ref", "refs/heads/pleach/", "refs/pleach/sessions/"]), "");
    assert_eq!(env.git(&["for-each-ref", "refs/pleach/keep/"]), "", "everything was merged");
    // What only a branch has is kept.
    let env = TestEnv::with_repo();
    let body = tool("a", "echo a > a2.txt") + &tool("b", "echo b > b2.txt; false") + " join -> exit";
    env.run(&fan("both", "", &["a", "b"], &body), &[]).expect(0);
    env.git(&["merge", "--quiet", "--no-edit", &env.branch()]);
    let sid = env.session();
    env.pleach(&["-y", "rm", &sid]).expect(1).fails_with("removal-refused");
    env.pleach(&["-y", "rm", "--force", &sid]).expect(0);
    let kept = env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/keep/"]);
    assert_eq!(env.git(&["show", &format!("{}:b2.txt", kept.lines().next().expect("what b made"))]), "b");
}

#[test]
fn the_result_counts_turns_and_tokens_of_every_branch() {
    let env = TestEnv::with_repo();
    let step =
        "tools: [{write_file: {file_path: \"{{node}}.txt\", content: x}}]\n        usage: {input: 100, output: 10}";
    env.script(&format!(
        "scripts:\n  - name: all\n    steps:\n      - {step}\n      - {{text: done, usage: {{input: 5}}}}\n"
    ));
    let body = " a [prompt=A]\n b [prompt=B]\n c [prompt=C]\n look [shape=hexagon]\n".to_owned()
        + " join -> look\n look -> c [label=Yes]\n c -> exit";
    let paused = env.run(&fan("counted", "", &["a", "b"], &body), &[]).expect(4);
    assert!(paused.stdout.contains("(4 turns, 230 tokens, "), "{paused}");
    // Branches that ended before a resume count as well.
    let done = env.resume(&["--answer", "look=Yes"]).expect(0);
    assert!(done.stdout.contains("(6 turns, 345 tokens, "), "{done}");
}

#[test]
fn where_no_branch_succeeded_the_fan_out_runs_again() {
    let env = TestEnv::with_repo();
    let body = tool("a", "test -e tried; r=$?; touch tried; exit $r") + &tool("b", "exit 1") + " join -> exit";
    let ran = env.run(&fan("all", "", &["a", "b"], &body), &[]).expect(1);
    assert!(ran.stdout.contains("starts again at `fork`"), "{ran}");
}
