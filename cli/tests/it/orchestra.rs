//! Session branches, commits per turn, records, snapshots, resume at a node's end: the rows of the workspace tables,
//! each a test of its name.

use serde_json::{Value, json};

use crate::mirror::MirroredEnv;
use crate::sessions::{Gate, graph, tool};
use crate::support::{Checkout, TestEnv};

/// Reads, then writes three times, then says that it is done: five turns, three of them with a commit.
const SCRIPT: &str = r#"
model: scripted-1
scripts:
  - name: code
    when: {node: code}
    steps:
      - text: Look at what is there.
        tools: [{read_file: {file_path: README.md}}]
        usage: {input: 100, output: 10}
      - text: Add a greeting for the reader.
        tools: [{write_file: {file_path: hello.py, content: "print('hello')\n"}}]
        usage: {input: 200, output: 20}
      - text: Add a test of the greeting.
        tools: [{write_file: {file_path: test_hello.py, content: "import hello\n"}}]
        usage: {input: 300, output: 30}
      - text: Change the greeting, so that it greets the world.
        tools: [{edit_file: {file_path: hello.py, old_string: hello, new_string: hello world}}]
        usage: {input: 400, output: 40}
      - text: The greeting is there.
        usage: {input: 500, output: 50}
"#;

const PIPELINE: &str = r#"digraph test_git {
    graph [goal="Add a hello world file"]
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    code  [shape=box, label="Write Code", prompt="Create a file called hello.py with a hello world program"]
    start -> code -> exit
}
"#;

/// The run most rows speak of. CXDB has of it what git has, whatever a row is about.
#[track_caller]
fn coded() -> MirroredEnv {
    let env = MirroredEnv::of(TestEnv::with_script(SCRIPT));
    env.run(PIPELINE, &[]).expect(0);
    env.assert_mirrored("main");
    env
}

/// The turns of the only session.
fn turns(env: &TestEnv) -> Vec<Value> {
    env.story().all("AgentTurn").into_iter().cloned().collect()
}

/// A trailer of a commit, as git reads it.
#[track_caller]
fn trailer(env: &TestEnv, commit: &str, key: &str) -> String {
    let format = format!("--format=%(trailers:key={key},valueonly)");
    env.git(&["log", "-1", &format, commit]).trim().to_owned()
}

// ---- session branches

#[test]
fn branch_creation() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "work");
    let mut run = env.start(&graph("hello", &(tool("wait", &gate.command()) + "start -> wait -> exit")), &[]);
    let held = gate.reached(&mut run);
    // The branch is there from the start, before anything is committed.
    let branches = env.git(&["branch", "--list", "--format=%(refname:short) %(objectname)"]);
    let head = env.git(&["rev-parse", "main"]);
    assert_eq!(branches, format!("main {head}\npleach/hello/{} {head}", env.session()));
    assert_eq!(env.story().first("SessionBranchCreated")["branch"], env.branch());
    gate.open(held);
    run.end().expect(0);
}

#[test]
fn branch_naming() {
    let env = TestEnv::with_repo();
    env.run(&graph("My_Long_Name", "start -> exit"), &[]).expect(0);
    let session = env.session();
    assert!(session.len() == 8 && session.chars().all(|c| matches!(c, 'a'..='z' | '2'..='7')), "{session}");
    assert_eq!(env.branch(), format!("pleach/my-long-name/{session}"));
    env.git(&["rev-parse", "--verify", &format!("refs/heads/{}", env.branch())]);

    // With a prefix of the configuration, and a second session beside the first.
    env.configure("workspace: {repos: {app: {path: repo, branch_prefix: agents/of-}}}\n");
    env.run(&graph("My_Long_Name", "start -> exit"), &[]).expect(0);
    let sessions = env.sessions();
    let second = sessions.iter().find(|id| **id != session).expect("a second session");
    env.git(&["rev-parse", "--verify", &format!("refs/heads/agents/of-my-long-name/{second}")]);
    env.git(&["rev-parse", "--verify", &format!("refs/heads/pleach/my-long-name/{session}")]);
}

#[test]
fn base_sha_recorded() {
    let env = TestEnv::with_repo();
    env.git(&["commit", "--quiet", "--allow-empty", "-m", "Second"]);
    let head = env.git(&["rev-parse", "HEAD"]);
    env.run(&graph("base", "start -> exit"), &[]).expect(0);
    let story = env.story();
    assert_eq!(story.first("PipelineStarted")["base"], json!({"repo": head}));
    assert_eq!(story.first("PipelineStarted")["targets"], json!({"repo": "main"}));
    assert_eq!(story.first("SessionBranchCreated")["base"], head.as_str());
    // It is the very first thing in the record, and git keeps the commit with it.
    assert_eq!(story.kinds()[0], "PipelineStarted");
    assert_eq!(env.git(&["log", "-1", "--format=%P", &story.records[0].0]), head);
}

#[test]
fn branch_persists() {
    let env = coded();
    let tip = env.git(&["rev-parse", &env.branch()]);
    assert_eq!(env.story().last("PipelineCompleted")["workspace_snapshot"], json!({"repo": tip}));
    assert_eq!(env.git(&["rev-list", "--count", &format!("main..{}", env.branch())]), "3");

    // A failed run keeps its branch as well.
    let env = TestEnv::with_repo();
    let body = tool("write", "echo 1 > one") + &tool("fail", "exit 1") + "start -> write -> fail -> exit";
    env.run(&graph("fails", &body), &[]).expect(1);
    assert_eq!(env.committed("one"), "1");
}

// ---- commits per turn

#[test]
fn turn_with_writes_committed() {
    let env = coded();
    let turn = &turns(&env)[1];
    let commit = turn["git_sha"]["repo"].as_str().expect("a commit");
    assert_eq!(env.changed(commit), ["hello.py"]);
    assert_eq!(env.git(&["show", &format!("{commit}:hello.py")]), "print('hello')");
    assert_eq!(turn["files_written"], json!({"repo": ["hello.py"]}));
    let branch = format!("refs/heads/{}", env.branch());
    env.git(&["merge-base", "--is-ancestor", commit, &branch]);
}

#[test]
fn only_tracked_files_staged() {
    let env = TestEnv::with_script(
        r#"
scripts:
  - name: code
    steps:
      - text: Build once, then add a.py.
        tools:
          - shell: {command: "mkdir -p build && echo 1 > build/out.o && echo 2 > debug.log"}
          - write_file: {file_path: a.py, content: "a = 1\n"}
      - text: Done.
"#,
    );
    let repo = env.repo_path();
    env.write("repo/.gitignore", "build/\n*.log\n");
    env.write("repo/tracked.py", "old\n");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "More"]);
    // What the user is in the middle of: a change, a staged file and an untracked one.
    env.write("repo/tracked.py", "in the middle of something\n");
    env.write("repo/staged.py", "staged\n");
    env.git(&["add", "staged.py"]);
    env.write("repo/untracked.py", "untracked\n");
    let before = Checkout::of(&env, &repo);
    env.run(PIPELINE, &[]).expect(0);
    before.assert_unchanged(&env, &repo);
    let commits = env.commits();
    assert_eq!(commits.len(), 1);
    assert_eq!(env.changed(&commits[0]), ["a.py"]);
    assert_eq!(env.files(), [".gitignore", "README.md", "a.py", "tracked.py"]);
    assert_eq!(env.committed("tracked.py"), "old");
    assert_eq!(std::fs::read_to_string(env.worktree().join("build/out.o")).expect("build output stays"), "1\n");
}

#[test]
fn turn_without_writes_no_commit() {
    let env = TestEnv::with_script(
        r##"
scripts:
  - name: code
    steps:
      - text: Look around.
        tools: [{read_file: {file_path: README.md}}, {glob: {pattern: "*"}}, {grep: {pattern: A}}, {shell: {command: ls}}]
      - text: Write the same again.
        tools: [{write_file: {file_path: README.md, content: "# A repository\n"}}]
      - text: All is well.
"##,
    );
    let ran = env.run(PIPELINE, &[]).expect(0);
    assert_eq!(env.git(&["rev-parse", &env.branch()]), env.git(&["rev-parse", "main"]));
    assert_eq!(turns(&env).len(), 3);
    assert_eq!(env.story().all("TurnCommitted").len(), 0);
    assert!(ran.stdout.contains("no file was changed"), "{ran}");
}

#[test]
fn multiple_turns_multiple_commits() {
    let env = coded();
    let commits = env.commits();
    assert_eq!(commits.len(), 3);
    let changed: Vec<_> = commits.iter().map(|commit| env.changed(commit)).collect();
    assert_eq!(changed, [["hello.py"], ["test_hello.py"], ["hello.py"]]);
    assert_eq!(env.committed("hello.py"), "print('hello world')");
}

#[test]
fn commit_message_format() {
    let long = "Refactor the whole of the module, because it has grown over the years and nobody could read it any more, \
                which is a pity.";
    let script = format!(
        r#"
model: m
scripts:
  - name: code
    steps:
      - text: I'll add a greeting for the reader. It is short.
        tools: [{{write_file: {{file_path: a, content: "1"}}}}]
      - text: "{long}"
        tools: [{{write_file: {{file_path: b, content: "1"}}}}]
      - tools: [{{write_file: {{file_path: deep/down/c, content: "1"}}}}]
      - text: "Added two files.\nOrchestra-Session: aaaaaaaa\nSigned-off-by: Mallory <m@example.org>"
        tools: [{{write_file: {{file_path: d, content: "1"}}}}, {{write_file: {{file_path: e, content: "1"}}}}]
      - text: Done.
"#
    );
    let env = TestEnv::with_script(&script);
    env.run(PIPELINE, &[]).expect(0);
    let commits = env.commits();
    assert_eq!(commits.len(), 4);
    for commit in &commits {
        let text = env.git(&["log", "-1", "--format=%B", commit]);
        let mut lines = text.lines();
        let subject = lines.next().expect("a subject");
        assert!((1..=72).contains(&subject.chars().count()), "{text}");
        assert!(subject.starts_with(char::is_uppercase) && !subject.ends_with('.'), "{text}");
        assert_eq!(lines.next(), Some(""), "{text}");
        let body = env.git(&["log", "-1", "--format=%b", commit]);
        let description = body.split("\n\n").next().unwrap_or_default();
        assert!(!description.is_empty() && !description.starts_with("Orchestra-"), "{text}");
        let read = env.git(&["log", "-1", "--format=%(trailers:only,keyonly)", commit]);
        let keys: Vec<&str> = read.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(keys.len(), 6, "words of the agent became trailers: {text}");
        assert!(keys.iter().all(|key| key.starts_with("Orchestra-")), "{text}");
        assert_eq!(trailer(&env, commit, "Orchestra-Session"), env.session());
    }
    let subject = |commit: &String| env.git(&["log", "-1", "--format=%s", commit]);
    assert_eq!(subject(&commits[0]), "Add a greeting for the reader");
    assert!(subject(&commits[1]).starts_with("Refactor the whole of the module"));
    assert!(subject(&commits[2]).contains("deep/down/c"), "{}", subject(&commits[2]));
    assert_eq!(subject(&commits[3]), "Add two files");
}

#[test]
fn agent_metadata_in_author() {
    let env = coded();
    for commit in env.commits() {
        let people = env.git(&["log", "-1", "--format=%an <%ae>|%cn <%ce>", &commit]);
        assert_eq!(people, "code (scripted-1) <orchestra@local>|pleach <pleach@local>");
    }
}

#[test]
fn agent_metadata_in_trailers() {
    let env = coded();
    let session = env.session();
    for (commit, turn) in env.commits().iter().zip(["main.2", "main.3", "main.4"]) {
        let text = env.git(&["log", "-1", "--format=%(trailers:only)", commit]);
        let expected = format!(
            "Orchestra-Model: scripted-1\nOrchestra-Provider: script\nOrchestra-Node: code\n\
             Orchestra-Pipeline: test-git\nOrchestra-Session: {session}\nOrchestra-Turn: {turn}"
        );
        assert_eq!(text.trim(), expected);
    }
    // A tool's commit says that no model wrote it.
    let env = TestEnv::with_repo();
    env.run(&graph("tools", &(tool("make", "echo 1 > one") + "start -> make -> exit")), &[]).expect(0);
    let commit = &env.commits()[0];
    assert_eq!(env.git(&["log", "-1", "--format=%an <%ae>", commit]), "make (tool) <orchestra@local>");
    assert_eq!(trailer(&env, commit, "Orchestra-Model"), "tool");
    assert_eq!(trailer(&env, commit, "Orchestra-Provider"), "local");
    assert_eq!(trailer(&env, commit, "Orchestra-Turn"), "main.1");
}

// ---- recording of turns

#[test]
fn agent_turn_recorded_per_turn() {
    let env = coded();
    let turns = turns(&env);
    let ids: Vec<_> =
        turns.iter().map(|turn| (turn["turn"].as_str().unwrap(), turn["turn_number"].as_u64().unwrap())).collect();
    assert_eq!(ids, [("main.1", 1), ("main.2", 2), ("main.3", 3), ("main.4", 4), ("main.5", 5)]);
    assert!(turns.iter().all(|turn| turn["node_id"] == "code" && turn["visit"] == 1 && turn["attempt"] == 1));
    // One record each, written as soon as the turn ended.
    let story = env.story();
    let with_turn =
        |(_, events): &&(String, Vec<Value>)| events.iter().any(|event| event["type"] == "dev.orchestra.AgentTurn");
    let records: Vec<_> = story.records.iter().filter(with_turn).collect();
    assert_eq!(records.len(), 5);
    for (number, (commit, _)) in records.iter().enumerate() {
        let subject = env.git(&["log", "-1", "--format=%s", commit]);
        assert!(subject.starts_with(&format!("turn main.{}: code", number + 1)), "{subject}");
    }
    assert_eq!(turns[3]["token_usage"]["input"], 400);
    assert_eq!(turns[3]["token_usage"]["output"], 40);
}

#[test]
fn agent_turn_with_writes_has_sha() {
    let env = coded();
    let turns = turns(&env);
    let recorded: Vec<_> = turns.iter().filter_map(|turn| turn["git_sha"]["repo"].as_str()).collect();
    assert_eq!(recorded, env.commits());
    for turn in &turns[1..4] {
        assert_eq!(turn["commit_message"].as_str().unwrap().trim_end(), {
            let commit = turn["git_sha"]["repo"].as_str().unwrap();
            let text = env.git(&["log", "-1", "--format=%B", commit]);
            text.split("\n\nOrchestra-Model:").next().unwrap().to_owned()
        });
    }
}

#[test]
fn agent_turn_without_writes_null_sha() {
    let env = coded();
    for turn in [&turns(&env)[0], &turns(&env)[4]] {
        assert!(turn.get("git_sha").is_some_and(Value::is_null), "{turn}");
        assert!(turn["commit_message"].is_null(), "{turn}");
        assert_eq!(turn["files_written"], json!({}));
    }
}

#[test]
fn agent_turn_contains_messages() {
    let env = coded();
    let story = env.story();
    let turns = turns(&env);
    let mut next = 1;
    for turn in &turns {
        let (first, last) = (turn["messages"]["first"].as_u64().unwrap(), turn["messages"]["last"].as_u64().unwrap());
        assert_eq!(first, next, "messages are numbered on");
        next = last + 1;
    }
    let message = |number| story.message(&env, number);
    // The first turn: what was asked, what the model said, what the tool gave.
    assert_eq!(message(1)["role"], "user");
    assert!(message(1).to_string().contains("Create a file called hello.py"));
    assert_eq!(message(2)["role"], "assistant");
    assert!(message(2).to_string().contains("Look at what is there."));
    assert_eq!(message(3)["role"], "tool");
    assert!(message(3).to_string().contains("A repository"));
    let last = message(next - 1);
    assert_eq!(last["role"], "assistant");
    assert!(last.to_string().contains("The greeting is there."));
    // The node names its prompt and its answer.
    assert_eq!(story.node("code")["prompt"], 1);
    assert_eq!(story.node("code")["response"], next - 1);
}

#[test]
fn agent_turn_contains_tool_calls() {
    let env = coded();
    let turns = turns(&env);
    let call = &turns[1]["tool_calls"][0];
    assert_eq!(call["name"], "write_file");
    assert_eq!(call["arguments"], json!({"file_path": "hello.py", "content": "print('hello')\n"}));
    assert_eq!(call["is_error"], false);
    assert_eq!(turns[0]["tool_calls"][0]["name"], "read_file");
    assert_eq!(turns[4]["tool_calls"], json!([]));
}

#[test]
fn agent_turn_contains_model_metadata() {
    let env = coded();
    for turn in turns(&env) {
        assert_eq!(
            (&turn["model"], &turn["provider"], &turn["agent"]),
            (&json!("scripted-1"), &json!("script"), &json!("builtin"))
        );
        assert_eq!(turn["boundary"], "exact");
    }
}

#[test]
fn agent_turn_contains_agent_state() {
    let env = coded();
    let turns = turns(&env);
    for turn in &turns {
        // All the built-in agent needs to continue after a turn is the conversation up to there.
        assert_eq!(turn["agent_state_ref"]["messages"]["first"], turns[0]["messages"]["first"], "{turn}");
        assert_eq!(turn["agent_state_ref"]["messages"]["last"], turn["messages"]["last"], "{turn}");
    }
}

#[test]
fn checkpoint_includes_workspace_snapshot() {
    let env = coded();
    let story = env.story();
    let checkpoints = story.all("Checkpoint");
    let of_code = checkpoints.iter().find(|checkpoint| checkpoint["current_node"] == "code").expect("a checkpoint");
    let tip = env.git(&["rev-parse", &env.branch()]);
    assert_eq!(of_code["workspace_snapshot"], json!({"repo": tip}));
    assert_eq!(of_code["completed_nodes"], json!(["start", "code"]));
    assert_eq!(of_code["next_node"], "exit");
    assert_eq!(story.all("SnapshotRecorded"), [&json!({"workspace_snapshot": {"repo": tip}})]);
}

#[test]
fn checkpoint_snapshot_only_on_change() {
    let env = MirroredEnv::of(TestEnv::with_repo());
    let body = tool("look", "ls")
        + &tool("write", "echo 1 > one")
        + &tool("again", "cat one")
        + "start -> look -> write -> again -> exit";
    env.run(&graph("snapshots", &body), &[]).expect(0);
    env.assert_mirrored("main");
    let story = env.story();
    let has = |node: &str| {
        let all = story.all("Checkpoint");
        let found =
            all.iter().find(|checkpoint| checkpoint["current_node"] == node).expect("every node has a checkpoint");
        found.get("workspace_snapshot").is_some_and(|snapshot| !snapshot.is_null())
    };
    assert_eq!(["start", "look", "write", "again", "exit"].map(has), [false, false, true, false, false]);
}

// ---- resume at a node's end

/// One node after another, the second of which waits until the test lets it go.
fn three_steps(gate: &Gate) -> String {
    let second = format!("{}; cat one > two", gate.command());
    graph(
        "steps",
        &(tool("first", "echo 1 > one")
            + &tool("second", &second)
            + &tool("third", "cat one two > three")
            + "start -> first -> second -> third -> exit"),
    )
}

#[test]
fn resume_at_node_boundary() {
    let env = MirroredEnv::of(TestEnv::with_repo());
    let gate = Gate::new(&env, "second");
    let mut run = env.start(&three_steps(&gate), &[]);
    let held = gate.reached(&mut run);
    run.stop();
    gate.open(held);
    let ran = run.end().expect(3);
    assert!(ran.stdout.contains(&format!("pleach resume {}", env.session())), "{ran}");

    let story = env.story();
    assert_eq!(story.path(), ["start:success", "first:success", "second:success"]);
    assert_eq!(story.last("PipelinePaused")["reason"], "interrupted");
    let snapshot = story.last("Checkpoint")["workspace_snapshot"]["repo"].as_str().expect("a commit").to_owned();
    assert_eq!(env.git(&["rev-parse", &env.branch()]), snapshot);

    // Somebody leaves something behind in the worktree: the resumed run starts from the checkpoint all the same.
    std::fs::write(env.worktree().join("one"), "spoilt\n").unwrap();
    std::fs::write(env.worktree().join("stray"), "stray\n").unwrap();
    env.resume(&[]).expect(0);
    let story = env.story();
    let started = story.all("NodeStarted").into_iter().find(|node| node["node_id"] == "third").expect("the third node");
    assert_eq!(started["base"], json!({"repo": snapshot}));
    assert_eq!(env.committed("three"), "1\n1");
    assert_eq!(env.files(), ["README.md", "one", "three", "two"]);
    env.assert_mirrored("main");
}

#[test]
fn resume_at_node_boundary_end_to_end() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "plan");
    env.script(&format!(
        r#"
model: scripted-1
scripts:
  - name: plan
    when: {{node: plan}}
    steps:
      - text: Write the plan.
        tools: [{{write_file: {{file_path: PLAN.md, content: "plan\n"}}}}]
      - text: Wait for the others.
        tools: [{{shell: {{command: "{}", timeout_ms: 60000}}}}]
      - text: The plan is written.
  - name: code
    when: {{node: code}}
    steps:
      - text: Add the code of the plan.
        tools: [{{shell: {{command: "cat PLAN.md > code.txt"}}}}]
      - text: The code is there.
"#,
        gate.command()
    ));
    let dot = graph("two_agents", "plan [prompt=\"Plan it\"] code [prompt=\"Do it\"] start -> plan -> code -> exit");
    let mut run = env.start(&dot, &[]);
    let held = gate.reached(&mut run);
    run.stop();
    gate.open(held);
    run.end().expect(3);
    let before = env.story();
    // The turn in flight was finished and recorded; nothing after it was started.
    assert_eq!(before.all("AgentTurn").len(), 2, "{:?}", before.kinds());
    env.resume(&[]).expect(0);
    let story = env.story();
    assert_eq!(story.path(), ["start:success", "plan:success", "code:success", "exit:success"]);
    let numbers: Vec<_> = story.all("AgentTurn").iter().map(|turn| turn["turn"].as_str().unwrap().to_owned()).collect();
    assert_eq!(numbers, ["main.1", "main.2", "main.3", "main.4", "main.5"]);
    assert_eq!(env.committed("code.txt"), "plan");
    assert_eq!(env.commits().len(), 2);
    env.assert_no_process_left();
}

// ---- end to end

#[test]
fn full_workspace_lifecycle() {
    let env = MirroredEnv::of(TestEnv::with_script(SCRIPT));
    let repo = env.repo_path();
    let main = env.git(&["rev-parse", "main"]);
    let before = Checkout::of(&env, &repo);
    let ran = env.run(PIPELINE, &[]).expect(0);
    before.assert_unchanged(&env, &repo);

    let story = env.story();
    let expected = [
        "PipelineStarted",
        "SessionBranchCreated",
        "WorktreeCreated",
        "NodeStarted",
        "NodeExecution",
        "Checkpoint",
        "NodeStarted",
        "AgentTurn",
        "AgentTurn",
        "TurnCommitted",
        "AgentTurn",
        "TurnCommitted",
        "AgentTurn",
        "TurnCommitted",
        "AgentTurn",
        "NodeExecution",
        "SnapshotRecorded",
        "Checkpoint",
        "NodeStarted",
        "NodeExecution",
        "Checkpoint",
        "PipelineCompleted",
    ];
    assert_eq!(story.kinds(), expected);
    env.assert_mirrored("main");
    let branch = env.branch();
    let tip = env.git(&["rev-parse", &branch]);
    assert_eq!(story.last("PipelineCompleted")["workspace_snapshot"], json!({"repo": tip}));
    let checkpoint = story.all("Checkpoint").into_iter().find(|checkpoint| checkpoint["current_node"] == "code");
    assert_eq!(checkpoint.expect("a checkpoint")["workspace_snapshot"], json!({"repo": tip}));
    assert_eq!(env.files(), ["README.md", "hello.py", "test_hello.py"]);

    // The user is told how to get it, and that way works.
    assert!(ran.stdout.contains(&format!("git switch main && git merge {branch}")), "{ran}");
    env.git(&["merge", "--quiet", "--ff-only", &branch]);
    assert_eq!(env.read("repo/hello.py"), "print('hello world')\n");
    assert_eq!(env.git(&["rev-list", "--count", &format!("{main}..main")]), "3");
    assert_eq!(env.git(&["fsck", "--strict", "--no-dangling"]), "");
    env.assert_no_process_left();
}

#[test]
fn per_turn_commit_chain() {
    let env = coded();
    let log = env.git(&[
        "log",
        "--reverse",
        "--format=%H|%P|%an|%(trailers:key=Orchestra-Turn,valueonly,separator=)",
        &format!("main..{}", env.branch()),
    ]);
    let lines: Vec<Vec<&str>> = log.lines().map(|line| line.split('|').collect()).collect();
    assert_eq!(lines.len(), 3);
    let mut parent = env.git(&["rev-parse", "main"]);
    for (line, turn) in lines.iter().zip(&turns(&env)[1..4]) {
        assert_eq!(line[1], parent, "each commit stands on the one before");
        assert_eq!(line[2], "code (scripted-1)");
        assert_eq!(line[3], turn["turn"].as_str().unwrap());
        assert_eq!(line[0], turn["git_sha"]["repo"].as_str().unwrap());
        parent = line[0].to_owned();
    }
    let committed: Vec<_> =
        env.story().all("TurnCommitted").iter().map(|event| event["git_sha"].as_str().unwrap().to_owned()).collect();
    assert_eq!(committed, env.commits());
}

#[test]
fn bidirectional_correlation() {
    let env = coded();
    let session = env.session();
    // From a turn to its code.
    let turn = turns(&env)[2].clone();
    let commit = turn["git_sha"]["repo"].as_str().expect("a commit");
    let there = env.root().join("there");
    env.git(&["worktree", "add", "--quiet", "--detach", there.to_str().unwrap(), commit]);
    assert_eq!(env.read("there/hello.py"), "print('hello')\n");
    assert_eq!(env.read("there/test_hello.py"), "import hello\n");
    // From a commit to session, node and turn, by git alone.
    assert_eq!(trailer(&env, commit, "Orchestra-Session"), session);
    assert_eq!(trailer(&env, commit, "Orchestra-Node"), "code");
    let id = trailer(&env, commit, "Orchestra-Turn");
    let found = turns(&env).into_iter().find(|turn| turn["turn"] == id.as_str()).expect("the turn of the commit");
    assert_eq!(found, turn);
    let shown = env.pleach(&["show", commit, "--json"]).expect(0).json();
    assert_eq!(shown["turn"], id.as_str(), "{shown}");
    // And git keeps both together: the record has the commit as a parent.
    let story = env.story();
    let speaks_of_it =
        |(_, events): &&(String, Vec<Value>)| events.iter().any(|event| event["data"]["turn"] == id.as_str());
    let (record, _) = story.records.iter().find(speaks_of_it).expect("a record of the turn");
    let parents = env.git(&["log", "-1", "--format=%P", record]);
    assert_eq!(parents.split(' ').nth(1), Some(commit));
}

// ---- what a person would try by hand

#[test]
fn manual_session_branches() {
    let env = TestEnv::new();
    let repo = env.repo_at("test-repo");
    let main = env.git_in(&repo, &["rev-parse", "main"]);
    env.write("script.yaml", SCRIPT);
    env.write(
        "orchestra.yaml",
        "agent: builtin\nproviders: {script: {file: script.yaml}}\n\
         workspace:\n  repos:\n    project:\n      path: ./test-repo\n      branch_prefix: orchestra/\n",
    );
    env.write("test-git.dot", PIPELINE);
    // Started beside the repository, as the guide does.
    let ran = env.pleach(&["run", "test-git.dot"]).expect(0);
    let branches = env.git_in(&repo, &["branch", "--format=%(refname:short)"]);
    let branch = branches.lines().find(|branch| branch.starts_with("orchestra/test-git/")).expect("a session branch");
    assert!(ran.stdout.contains(branch), "{ran}");
    let log = env.git_in(&repo, &["log", "--format=%an <%ae>|%s|%(trailers:only)", &format!("main..{branch}")]);
    assert_eq!(log.matches("code (scripted-1) <orchestra@local>|").count(), 3, "{log}");
    for key in ["Orchestra-Model:", "Orchestra-Node:", "Orchestra-Session:", "Orchestra-Turn:"] {
        assert_eq!(log.matches(key).count(), 3, "{log}");
    }
    assert!(log.contains("|Add a greeting for the reader|"), "{log}");
    assert_eq!(env.git_in(&repo, &["rev-parse", "main"]), main);
    assert_eq!(env.git_in(&repo, &["status", "--porcelain"]), "");
    let session = branch.rsplit('/').next().unwrap();
    let story = crate::sessions::Story::of(&env, &repo, session);
    let recorded: Vec<_> =
        story.all("AgentTurn").into_iter().filter_map(|turn| turn["git_sha"]["project"].as_str()).collect();
    let commits = env.git_in(&repo, &["rev-list", "--reverse", &format!("main..{branch}")]);
    assert_eq!(recorded, commits.lines().collect::<Vec<_>>());
}

#[test]
fn manual_resume_at_node_boundary() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "second");
    let mut run = env.start(&three_steps(&gate), &[]);
    let held = gate.reached(&mut run);
    run.stop();
    gate.open(held);
    run.end().expect(3);
    // Meanwhile the user continues working: another branch, a commit, a change that is not committed.
    env.git(&["checkout", "--quiet", "-b", "other"]);
    env.write("repo/one", "the user's own\n");
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Work of the user"]);
    env.write("repo/README.md", "# Changed\n");
    let before = Checkout::of(&env, &env.repo_path());
    env.resume(&[]).expect(0);
    before.assert_unchanged(&env, &env.repo_path());
    assert_eq!(
        env.story().path(),
        ["start:success", "first:success", "second:success", "third:success", "exit:success"]
    );
    assert_eq!(env.committed("three"), "1\n1");
    assert_eq!(env.committed("README.md"), "# A repository");
}

#[test]
fn commands_one_after_another_are_a_record_each() {
    let env = TestEnv::with_repo();
    let body = tool("first", "echo 1 > one") + &tool("second", "echo 2 > two") + "start -> first -> second -> exit";
    env.run(&graph("chain", &body), &[]).expect(0);
    let record = format!("refs/pleach/sessions/{}/main", env.session());
    let subjects = env.git(&["log", "--first-parent", "--reverse", "--format=%s", &format!("main..{record}")]);
    let subjects: Vec<&str> = subjects.lines().collect();
    let expected = [
        "start start (visit 1, attempt 1); start success: to first; start first (visit 1, attempt 1)",
        "first success: to second; start second (visit 1, attempt 1)",
        // The end of all is recorded when the branch has what was made.
        "second success: to exit",
        "start exit (visit 1, attempt 1); exit success: the end",
    ];
    assert!(subjects.ends_with(&expected), "{subjects:#?}");
}

#[test]
fn a_command_killed_at_start_reruns_on_original_files() {
    let env = TestEnv::with_repo();
    let body =
        tool("first", "echo 1 > one") + &tool("second", "cat one one > two") + "start -> first -> second -> exit";
    env.pipeline(&graph("chain", &body));
    // Dies with the end of `first` and the start of `second` recorded, before branch, HEAD and index follow.
    let died = env.command(&["-y", "run", "../pipeline.dot"]).env("PLEACH_CRASH", "ref-swap:after:6").output();
    assert!(!died.expect("pleach starts").status.success());
    let sid = env.session();
    let record = format!("refs/pleach/sessions/{sid}/main");
    let subject = env.git(&["log", "-1", "--format=%s", &record]);
    assert_eq!(subject, "first success: to second; start second (visit 1, attempt 1)");
    env.pleach(&["-y", "resume", &sid]).expect(0);
    let branch = format!("pleach/chain/{sid}");
    assert_eq!(env.git(&["show", &format!("{branch}:two")]), "1\n1");
    assert_eq!(env.git(&["rev-list", "--count", &format!("main..{branch}")]), "2");
}
