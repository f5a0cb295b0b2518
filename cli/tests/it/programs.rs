//! Programs as agents: one run is one turn, also when it fails, and they are told what they cannot remember.

use crate::sessions::{Gate, graph};
use crate::support::TestEnv;

/// A world whose agent is this shell script.
fn agent(script: &str) -> TestEnv {
    let env = TestEnv::with_repo();
    let program = env.write_program("agent.sh", &format!("#!/bin/sh\n{script}\n"));
    env.configure(&format!("agent: \"command:{}\"\n", program.display()));
    env
}

#[test]
fn one_run_of_a_program_is_one_turn() {
    let env = agent("prompt=$(cat); echo \"$prompt\" > asked; echo 'Add what was asked.'");
    env.run(&graph("one", "code [prompt=\"Work on it\"] start -> code -> exit"), &[]).expect(0);
    let story = env.story();
    let turns = story.all("AgentTurn");
    assert_eq!(turns.len(), 1);
    assert_eq!((turns[0]["agent"].as_str(), turns[0]["model"].as_str()), (Some("command"), Some("agent.sh")));
    assert!(env.committed("asked").contains("Work on it"));
    assert_eq!(env.git(&["log", "-1", "--format=%s|%an", &env.branch()]), "Add what was asked|code (agent.sh)");
}

#[test]
fn the_end_of_programs_is_noticed_however_pleach_was_started() {
    for how in ["--block-signal=CHLD", "--ignore-signal=CHLD"] {
        let env = agent("cat > /dev/null; (sleep 0.05; echo late > late) & echo 'Done.'");
        let nodes = "code [prompt=\"Work on it\", timeout=\"20s\"] \
                     check [shape=parallelogram, tool_command=\"grep -q late late && exit 3\", timeout=\"20s\"] \
                     start -> code -> check -> exit";
        env.pipeline(&graph("one", nodes));
        let mut command = env.program("env", &env.repo_path());
        command.args([how, env!("CARGO_BIN_EXE_pleach"), "-y", "run", "../pipeline.dot"]);
        env.finish(command.output().expect("env can be started")).expect(1);
        let reason = env.story().node("check")["outcome"]["failure_reason"].as_str().unwrap().to_owned();
        assert!(reason.contains("exit 3"), "{how}: {reason}");
        env.assert_no_process_left();
    }
}

#[test]
fn a_program_that_fails_has_taken_its_turn() {
    let env = agent("cat > /dev/null; echo half > half; echo 'I could not.'; echo broken >&2; exit 3");
    env.run(&graph("one", "code [prompt=\"Work on it\"] start -> code -> exit"), &[]).expect(1);
    let story = env.story();
    let turn = story.last("AgentTurn");
    assert_eq!(turn["turn"], "main.1");
    let said = story.message(&env, turn["messages"]["last"].as_u64().unwrap()).to_string();
    assert!(said.contains("I could not.") && said.contains("exit 3"), "{said}");
    let asked = story.message(&env, turn["messages"]["first"].as_u64().unwrap()).to_string();
    assert!(asked.contains("Work on it"), "{asked}");
    assert_eq!(env.files(), ["README.md", "half"]);
    let reason = story.node("code")["outcome"]["failure_reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("exit 3") && reason.contains("broken"), "{reason}");
}

/// What the record has of what the agent of a node wrote to standard error, if anything.
fn stderr_of(env: &TestEnv, execution: &serde_json::Value) -> Option<String> {
    let message = env.story().message(env, execution["stderr"].as_u64()?);
    Some(message["content"][0]["text"].as_str().expect("text").to_owned())
}

#[test]
fn a_programs_stderr_is_kept_however_it_ends() {
    let complains = "cat > /dev/null; echo Said.; seq 1 900 >&2; echo 'key hunter42!' >&2";
    for (end, code) in [("exit 0", 0), ("exit 3", 1), ("kill -9 $$", 1), ("sleep 60", 1)] {
        for is_template in [false, true] {
            let env = agent(&format!("{complains}; {end}"));
            if is_template {
                let program = env.root().join("agent.sh");
                env.configure(&format!("agent: mine\nagents: {{mine: {{command: ['{}']}}}}\n", program.display()));
            }
            env.pipeline(&graph("one", "code [prompt=\"Work\", timeout=\"3s\"] start -> code -> exit"));
            let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
            let ran = env.finish(command.env("D_PASSWORD", "hunter42!").output().unwrap()).expect(code);
            let said = stderr_of(&env, &env.story().node("code")).unwrap_or_else(|| panic!("{end}: {ran}"));
            assert!(said.starts_with("1\n2\n3\n"), "{end}: {said}");
            assert!(said.ends_with("\n900\nkey [redacted:D_PASSWORD]"), "{end}: {said}");
            let shown = env.pleach(&["show", "-v", "1"]).expect(0).stdout;
            assert!(shown.contains("── stderr\n1\n2\n3\n"), "{end}: {shown}");
        }
    }
}

#[test]
fn each_attempt_keeps_its_own_stderr_outside_the_conversation() {
    let env = agent("cat > asked; if [ -e once ]; then echo done; else echo 1 > once; echo oh no >&2; exit 75; fi");
    let dot = "code [prompt=\"Work\", max_retries=2] more [prompt=\"More\"] start -> code -> more -> exit";
    env.run(&graph("one", dot), &[]).expect(0);
    let story = env.story();
    let said: Vec<Option<String>> = story
        .all("NodeExecution")
        .iter()
        .filter(|node| node["node_id"] == "code" || node["node_id"] == "more")
        .map(|node| stderr_of(&env, node))
        .collect();
    assert_eq!(said, [Some("oh no".to_owned()), None, None]);
    assert!(!env.committed("asked").contains("oh no"));
    // The messages after it have their own numbers.
    let turns = story.all("AgentTurn");
    let numbers: Vec<u64> = turns.iter().filter_map(|turn| turn["messages"]["first"].as_u64()).collect();
    assert_eq!(numbers, [1, 4, 6]);
    let last = env.pleach(&["show", "3"]).expect(0).stdout;
    assert!(last.contains("── assistant\ndone") && !last.contains("stderr"), "{last}");
}

#[test]
fn a_failing_program_is_retried_as_configured() {
    let env = agent("cat > /dev/null; if [ -e once ]; then echo done; else echo 1 > once; exit 75; fi");
    let dot = graph("one", "code [prompt=\"Work\", max_retries=2] start -> code -> exit");
    env.run(&dot, &[]).expect(0);
    let story = env.story();
    assert_eq!(story.all("AgentTurn").len(), 2);
    assert_eq!(story.all("RetryAt").len(), 1);
}

#[test]
fn a_program_that_cannot_be_started_pauses_the_run() {
    let env = TestEnv::with_repo();
    // Where it is looked for is the worktree, so that nobody can know beforehand.
    env.configure("agent: \"command:./agent-of-the-repository\"\n");
    let ran = env.run(&graph("one", "code [prompt=\"Work\"] start -> code -> exit"), &[]).expect(7);
    ran.fails_with("agent-unusable").naming("`code`").naming("/agent-of-the-repository");
    env.resume(&[]).expect(7);
}

#[test]
fn a_program_killed_in_its_run_starts_over() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "agent");
    let script =
        format!("#!/bin/sh\ncat > /dev/null; echo half > half; {}; rm half; echo whole > whole\n", gate.command());
    let program = env.write_program("agent.sh", &script);
    env.configure(&format!("agent: \"command:{}\"\n", program.display()));
    let mut run = env.start(&graph("one", "code [prompt=\"Work\"] start -> code -> exit"), &[]);
    let held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    env.resume(&[]).expect(0);
    assert_eq!(env.files(), ["README.md", "whole"]);
    assert_eq!(env.story().all("AgentTurn").len(), 1);
    let kept = env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/keep/"]);
    assert_eq!(env.git(&["show", &format!("{kept}:half")]), "half");
}

#[test]
fn a_program_without_memory_gets_a_summary() {
    let env = agent("prompt=$(cat); echo \"$prompt\" > \"$PLEACH_NODE.txt\"; echo \"answer of $PLEACH_NODE\"");
    let body = "graph [goal=\"Grow\", default_fidelity=full] first [prompt=\"one\"] second [prompt=\"two\"] \
                start -> first -> second -> exit";
    env.run(&graph("told", body), &[]).expect(0);
    let told = env.committed("second.txt");
    for part in ["Goal: Grow", "answer of first", "two"] {
        assert!(told.contains(part), "{part} is not in: {told}");
    }
}

#[test]
fn ctrl_c_during_worktree_setup_pauses() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "setup");
    let command = serde_json::Value::from(format!("{}; echo ready > ready", gate.command()));
    env.configure(&format!("worktrees: {{setup: {command}}}\n"));
    let dot = graph("one", "work [shape=parallelogram, tool_command=\"cat ready > seen\"] start -> work -> exit");
    let mut run = env.start(&dot, &[]);
    let held = gate.reached(&mut run);
    run.stop();
    run.interrupt();
    let ran = run.end().expect(3);
    drop(held);
    assert!(ran.stderr.contains(&format!("pleach resume {}", env.session())), "{ran}");
    env.assert_no_process_left();
    let status = env.pleach(&["--json", "status"]).expect(0).json();
    assert_eq!(status["sessions"][0]["standing"]["is"], "paused", "{status}");
    gate.stay_open();
    env.resume(&[]).expect(0);
    assert_eq!(env.committed("seen"), "ready");
}

#[test]
fn a_session_cancelled_during_setup_says_so() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "setup");
    env.configure(&format!("worktrees: {{setup: {}}}\n", serde_json::Value::from(gate.command())));
    let mut run = env.start(&graph("one", "start -> exit"), &[]);
    let held = gate.reached(&mut run);
    let sid = env.session();
    env.pleach(&["cancel", &sid, "--grace", "0"]).expect(0);
    let ran = run.end().expect(1);
    drop(held);
    ran.fails_with("session-cancelled").naming(&sid);
    assert_eq!(env.story().kinds().last(), Some(&"PipelineCancelled"));
}

#[test]
fn an_answer_to_an_unknown_gate_is_refused() {
    let env = TestEnv::with_repo();
    let body = "ask [shape=hexagon] start -> ask ask -> exit [label=Yes]";
    let ran = env.run(&graph("gated", body), &["--answer", "aks=Yes"]).expect(2);
    ran.fails_with("no-such-gate").naming("`aks`");
    let ran = env.run(&graph("gated", body), &["--answer", "ask=Nope"]).expect(2);
    ran.fails_with("answer-unknown").naming("`Nope`").naming("`ask`");
    assert!(env.sessions().is_empty(), "{ran}");
}

#[test]
fn commands_find_the_goal_and_the_inputs_as_variables() {
    let env = TestEnv::with_repo();
    let body = "graph [goal=\"It's; rm -rf\"] work [shape=parallelogram, tool_command=\"echo \\\"$goal|$name\\\" > told\"] \
                start -> work -> exit";
    env.run(&graph("one", body), &["name=a b"]).expect(0);
    assert_eq!(env.committed("told"), "It's; rm -rf|a b");
}

#[test]
fn an_input_nothing_uses_is_pointed_out() {
    let env = TestEnv::with_repo();
    let dot = graph("one", "work [shape=parallelogram, tool_command=\"echo $name\"] start -> work -> exit");
    let ran = env.run(&dot, &["nmae=x"]).expect(0);
    ran.warns("unused-input").naming("`nmae`");
}

#[test]
fn a_dry_run_says_which_agent_would_work() {
    let env = TestEnv::with_repo();
    let body = "code [prompt=\"Write it\"] check [prompt=\"Check it\", agent=checker] \
                test [shape=parallelogram, tool_command=\"make test\"] start -> code -> check -> test -> exit";
    let dot = graph("one", body);
    env.configure("agents: {checker: {runner: 'command:sh check.sh'}}\n");
    insta::assert_snapshot!(env.run(&dot, &["--dry-run"]), @"
    exit: 0
    --- stdout
    would run `one` on `repo` at [SHA]
    branch pleach/one/SESSION
    start (start)
      → code
    exit (exit)
    code (agent SIMULATION) Write it
      → check
    check (agent command:sh check.sh) Check it
      → test
    test (command) make test
      → exit
    --- stderr
    warning[simulation]: SIMULATION: agent nodes are simulated, commands run for real
    ");
    env.configure("agents: {checker: {runner: 'command:sh check.sh'}}\nagent: 'command:true'\n");
    let sure = env.run(&dot, &["--dry-run", "--json"]).expect(0);
    sure.does_not_warn("simulation");
    let agents: Vec<_> = sure.json()["nodes"].as_array().unwrap().iter().map(|node| node["agent"].clone()).collect();
    let agents: Vec<_> = agents.iter().map(|agent| agent.as_str().unwrap_or("-")).collect();
    assert_eq!(agents, ["-", "-", "command:true", "command:sh check.sh", "-"]);
    env.configure("agent: builtin\n");
    let refused = env.run(&dot, &["--dry-run"]).expect(7);
    assert!(refused.stderr.contains("`code` cannot run: no model is configured\nhint: set a key such as"), "{refused}");
    assert!(env.sessions().is_empty());
}

#[test]
fn a_long_command_is_not_wrapped_in_its_commit() {
    let env = TestEnv::with_repo();
    let command = format!("printf '%s' {} > told", "word ".repeat(40).trim());
    let body = format!("work [shape=parallelogram, tool_command=\"{command}\"] start -> work -> exit");
    env.run(&graph("one", &body), &[]).expect(0);
    let message = env.git(&["log", "-1", "--format=%B", &format!("pleach/one/{}", env.session())]);
    let lines: Vec<&str> = message.lines().collect();
    assert!(lines[0].starts_with("Run ") && lines[0].chars().count() <= 72, "{message}");
    assert_eq!(lines[2], format!("    {command}"));
    assert_eq!(lines[4], "Changes told.");
    assert!(lines[6].starts_with("Orchestra-Model: tool"), "{message}");
}

#[test]
fn an_unusable_agent_is_found_before_a_session_starts() {
    let env = TestEnv::with_repo();
    // A name nobody has, since the real one may be installed here.
    env.configure("agent: claude\nagents: {claude: {command: [no-such-claude]}}\n");
    let dot = graph("one", "code [prompt=\"Write it\"] start -> code -> exit");
    insta::assert_snapshot!(env.run(&dot, &[]), @"
    exit: 7
    --- stderr
    error[agent-missing]: `code` cannot run: Claude Code is not installed: there is no program `no-such-claude` on PATH
    hint: install it with `npm install -g @anthropic-ai/claude-code`
    ");
    env.configure("agent: 'command:/nonexistent/agent --fast'\n");
    insta::assert_snapshot!(env.run(&dot, &[]), @"
    exit: 7
    --- stderr
    error[agent-missing]: `code` cannot run: The agent is not installed: there is no program `/nonexistent/agent`
    hint: install it, or correct the command
    ");
    assert!(env.sessions().is_empty());
}

#[test]
fn a_wrong_pipeline_path_lists_existing_pipelines() {
    let env = TestEnv::with_repo();
    let hint = |path: &str| {
        let ran = env.pleach(&["run", path]).expect(2);
        ran.stderr.lines().nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(hint("work.dot"), "hint: give the path of a pipeline, a text file in the DOT language");
    env.write("repo/pipes/one.dot", graph("one", "start -> exit"));
    env.write("repo/pipes/two.dot", b"\xff\xfe");
    assert_eq!(hint("pipes/one"), "hint: did you mean `pipes/one.dot`?");
    assert_eq!(hint("pipes"), "hint: give the path of a pipeline; there is `pipes/one.dot`, `pipes/two.dot`");
    assert_eq!(hint("pipes/on.dot"), "hint: give the path of a pipeline; there is `pipes/one.dot`, `pipes/two.dot`");
    assert_eq!(hint("pipes/two.dot"), "hint: give the path of a pipeline, a text file in the DOT language");
}
