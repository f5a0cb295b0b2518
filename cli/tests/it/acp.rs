//! Agents of the Agent Client Protocol, played by a program that speaks it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::fake_agent::built;
use crate::going_wrong::runaway::{page, refusal};
use crate::providers::answer_of;
use crate::server::{Play, Server};
use crate::sessions::{Gate, graph};
use crate::support::{Ran, TestEnv};

pub const ONE: &str = "code [prompt=\"Work on it\"] start -> code -> exit";

pub fn program() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built("fake-acp"))
}

/// A world whose agent plays this script.
pub fn agent(script: &str) -> TestEnv {
    let env = TestEnv::with_repo();
    env.write("script", script);
    // The one place outside that the agent may write to, also in a sandbox.
    std::fs::create_dir(env.root().join("heard")).expect("a directory of the test's own");
    let (program, root) = (program().display(), env.root().display());
    let sandbox = format!("sandbox: {{rw: ['{root}/heard']}}\n");
    env.configure(&format!("agent: 'acp:{program} {root}/script {root}/heard/log'\n{sandbox}"));
    env
}

/// What the agent was told, oldest first.
fn told(env: &TestEnv) -> Vec<Value> {
    env.read("heard/log").lines().map(|line| serde_json::from_str(line).expect("a message")).collect()
}

pub fn methods(env: &TestEnv) -> Vec<String> {
    told(env).iter().filter_map(|message| message["method"].as_str().map(str::to_owned)).collect()
}

#[test]
fn every_turn_of_an_agent_is_a_commit() {
    let env = agent(
        "say First I write a.\nask a 1\nusage 50\nsay Then I write b and c.\nask src/b 2\nask c 3\n\
         noise not JSON at all\nsay Both are there.\ncost 0.25",
    );
    env.run(&graph("one", ONE), &[]).expect(0);
    let story = env.story();
    let turns = story.all("AgentTurn");
    let of = |key: &str| turns.iter().map(|turn| turn[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("agent"), ["acp"; 3]);
    assert_eq!(of("model"), ["fake-acp"; 3]);
    assert_eq!(of("boundary"), ["inferred", "inferred", "exact"]);
    assert_eq!(of("cost_usd"), [Value::Null, Value::Null, json!(0.25)]);
    let input: Vec<u64> = turns.iter().filter_map(|turn| turn["token_usage"]["input"].as_u64()).collect();
    assert_eq!(input, [50, 0, 50], "the agent says 100 for all of it");
    let calls: Vec<usize> = turns.iter().map(|turn| turn["tool_calls"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(calls, [1, 2, 0]);
    let commits = env.commits();
    assert_eq!(commits.len(), 2, "a turn without changes makes no commit");
    assert_eq!(env.changed(&commits[1]), ["c", "src/b"]);
    let message = env.git(&["log", "-1", "--format=%s%n%(trailers:key=Orchestra-Boundary)", &commits[1]]);
    assert!(message.starts_with("Write b and c\n"), "{message}");
    assert!(message.contains("inferred"), "{message}");
    assert_eq!(story.node("code")["outcome"]["status"], "success");
    assert_eq!(methods(&env), ["initialize", "session/new", "session/prompt"]);
    let prompt = told(&env)[2]["params"]["prompt"][0]["text"].as_str().expect("a task").to_owned();
    assert!(prompt.contains("Work on it"), "{prompt}");
    env.assert_no_process_left();
}

#[test]
fn what_an_agent_writes_to_standard_error_is_kept() {
    for (script, code) in [("complain oh no\nsay Done.", 0), ("say Half.\ncomplain oh no\nexit 3", 1)] {
        let env = agent(script);
        env.run(&graph("one", ONE), &[]).expect(code);
        let story = env.story();
        let number = story.node("code")["stderr"].as_u64().expect("the number of a message");
        assert_eq!(story.message(&env, number)["content"][0]["text"], "oh no");
    }
}

#[test]
fn billing_of_a_known_agent_is_reported() {
    let env = agent("say Done.");
    env.write_program("bin/claude-agent-acp", &format!("#!/bin/sh\nexec '{}' \"$@\"\n", program().display()));
    let config = env.read("pleach.yaml").replace(&program().display().to_string(), "claude-agent-acp");
    env.configure(&config);
    env.pipeline(&graph("one", ONE));
    let mut command = env.command(&["-y", "run", "../pipeline.dot", "--dry-run"]);
    let planned = env.finish(command.env("ANTHROPIC_API_KEY", "k-123456789").output().unwrap()).expect(0);
    let said = "agent acp:claude-agent-acp, billed to ANTHROPIC_API_KEY through the gateway\n";
    assert!(planned.stdout.contains(said), "{planned}");
    env.configure(&format!("{config}agents: {{acp: {{turns: stream}}}}\n"));
    let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
    let ran = env.finish(command.env("ANTHROPIC_API_KEY", "k-123456789").output().unwrap()).expect(0);
    let said = "agent acp:claude-agent-acp, billed to ANTHROPIC_API_KEY of your environment\n";
    assert!(ran.stderr.contains(said), "{ran}");
}

#[test]
fn an_asking_agent_may_write_only_in_its_worktree() {
    let env = agent("ask inside 1\nask /dev/shm/pleach-never-written 2\nwant fs/read_text_file\nsay Done.");
    env.run(&graph("one", ONE), &[]).expect(0);
    assert_eq!(env.files(), ["README.md", "inside"]);
    assert!(!Path::new("/dev/shm/pleach-never-written").exists());
    let told = told(&env);
    let chosen: Vec<&Value> = told.iter().filter_map(|message| message.pointer("/result/outcome/optionId")).collect();
    assert_eq!(chosen, ["once", "no"]);
    let refused = told.iter().find_map(|message| message.pointer("/error/code")).expect("a refusal");
    assert_eq!(*refused, json!(-32601));
    let offered = &told[0]["params"]["clientCapabilities"];
    assert_eq!(offered["fs"], json!({"readTextFile": false, "writeTextFile": false}));
    let calls = env.story().all("AgentTurn")[0]["tool_calls"].clone();
    let failed: Vec<bool> = calls.as_array().unwrap().iter().map(|call| call["is_error"] == true).collect();
    assert_eq!(failed, [false, true]);
}

#[test]
fn an_agent_is_logged_in_to_when_it_says_so() {
    let env = agent("login api-key\nsay In.");
    env.run(&graph("one", ONE), &[]).expect(0);
    assert_eq!(methods(&env), ["initialize", "session/new", "authenticate", "session/new", "session/prompt"]);
}

#[test]
fn ctrl_c_finishes_the_turn_and_cancels_the_rest() {
    let env = agent("");
    let gate = Gate::new(&env, "agent");
    env.write("script", format!("say One.\nwrite a 1\nshell {}\nsay Two.\nhang", gate.command()));
    let mut run = env.start(&graph("one", ONE), &[]);
    let held = gate.reached(&mut run);
    run.stop();
    gate.open(held);
    run.end().expect(3);
    assert_eq!(methods(&env).last().map(String::as_str), Some("session/cancel"));
    let story = env.story();
    assert_eq!(story.all("AgentTurn").len(), 2, "the turn in flight, and what was begun after it");
    assert_eq!(env.files(), ["README.md", "a"]);
    assert_eq!(story.kinds().last(), Some(&"PipelinePaused"));
    env.assert_no_process_left();
}

#[test]
fn a_killed_agent_leaves_its_work_as_a_turn() {
    let env = agent("");
    let gate = Gate::new(&env, "agent");
    env.write("script", format!("stay\nsay One.\nwrite half 1\nshell {}\nsay Never.", gate.command()));
    let mut run = env.start(&graph("one", ONE), &[]);
    let held = gate.reached(&mut run);
    run.stop();
    run.interrupt();
    run.end().expect(3);
    env.assert_no_process_left();
    drop(held);
    let story = env.story();
    assert_eq!(story.all("AgentTurn").len(), 1);
    assert_eq!(env.files(), ["README.md", "half"]);
    assert_eq!(story.kinds().last(), Some(&"PipelinePaused"));
}

#[test]
fn an_interrupted_agent_takes_its_session_up_again() {
    let env = agent("");
    let gate = Gate::new(&env, "agent");
    // Who is allowed to write c has had its first turn recorded.
    let steps = format!("say One.\nask a 1\nsay Two.\nask c 1\nshell {}\nhang", gate.command());
    env.write("script", format!("load\n{steps}\nloaded\nask b 2\nsay Done."));
    let mut run = env.start(&graph("one", ONE), &[]);
    let held = gate.reached(&mut run);
    run.kill(held);
    assert_eq!(env.story().all("AgentTurn").len(), 1);
    env.resume(&[]).expect(0);
    assert_eq!(methods(&env)[3..], ["initialize", "session/load", "session/prompt"]);
    let told = told(&env);
    let load = told.iter().find(|message| message["method"] == "session/load").expect("a session to load");
    assert_eq!(load["params"]["sessionId"], "session-1");
    let prompt = told.iter().rfind(|message| message["method"] == "session/prompt").expect("a task").to_string();
    assert!(prompt.contains("was interrupted") && prompt.contains("Work on it"), "{prompt}");
    assert_eq!(env.files(), ["README.md", "a", "b"]);
    let story = env.story();
    assert!(!story.whole_text(&env).contains("from the past"), "what is told again is no news");
    let kept = env.git(&["for-each-ref", "--format=%(refname)", "refs/pleach/keep/"]);
    assert_eq!(env.git(&["show", &format!("{kept}:c")]), "1");
}

#[test]
fn an_interrupted_agent_without_a_memory_is_told() {
    let env = agent("");
    let gate = Gate::new(&env, "agent");
    env.write("script", format!("say One.\nask a 1\nsay Two.\nask b 1\nshell {}\nsay Done.", gate.command()));
    let mut run = env.start(&graph("one", ONE), &[]);
    let held = gate.reached(&mut run);
    run.kill(held);
    gate.stay_open();
    env.resume(&[]).expect(0);
    assert_eq!(methods(&env)[3..], ["initialize", "session/new", "session/prompt"]);
    assert_eq!(env.files(), ["README.md", "a", "b"]);
    let told = told(&env);
    let prompt = told.iter().rfind(|message| message["method"] == "session/prompt").expect("a task").to_string();
    assert!(prompt.contains("was interrupted") && prompt.contains("What was done so far, in 1 turn:"), "{prompt}");
    assert!(env.story().all("NodeStarted").iter().all(|node| node["starts_over"].is_null()));
}

#[test]
fn an_agent_that_stays_after_its_work_is_ended() {
    let env = agent("stay\nwrite a 1\nsay Done.");
    env.run(&graph("one", ONE), &[]).expect(0);
    assert_eq!(env.files(), ["README.md", "a"]);
    env.assert_no_process_left();
}

/// Runs an agent that fails and gives the reason.
#[track_caller]
fn failure(env: &TestEnv) -> String {
    env.run(&graph("one", ONE), &[]).expect(1);
    env.assert_no_process_left();
    let outcome = env.story().node("code")["outcome"].clone();
    outcome["failure_reason"].as_str().unwrap_or_else(|| panic!("no reason in {outcome}")).to_owned()
}

#[test]
fn an_agent_of_another_protocol_is_named() {
    let reason = failure(&agent("version 7"));
    assert!(reason.contains("version 7 of the Agent Client Protocol, pleach speaks 1"), "{reason}");
}

#[test]
fn a_program_that_is_no_such_agent_is_named() {
    let env = TestEnv::with_repo();
    env.configure("agent: 'acp:sh -c \"echo hello; echo no idea >&2; exit 4\"'\n");
    let reason = failure(&env);
    assert!(reason.contains("exit 4") && reason.contains("no idea"), "{reason}");
    assert!(reason.contains("does it speak the Agent Client Protocol?"), "{reason}");
}

#[test]
fn an_agent_that_dies_at_work_has_taken_its_turn() {
    let env = agent("say One.\nwrite half 1\ncomplain out of memory\nexit 3");
    let reason = failure(&env);
    assert!(reason.contains("ended with exit 3 before its answer: out of memory"), "{reason}");
    assert_eq!(env.files(), ["README.md", "half"]);
    assert_eq!(env.story().all("AgentTurn").len(), 1);
}

#[test]
fn an_agent_that_gives_up_says_why() {
    let env = agent("write half 1\nfail -32602 the model is gone");
    let reason = failure(&env);
    assert!(reason.contains("the model is gone (code -32602)"), "{reason}");
    assert_eq!(env.files(), ["README.md", "half"]);
    let limit = failure(&agent("say Too long.\nstop max_tokens"));
    assert!(limit.contains("token limit"), "{limit}");
}

#[test]
fn an_agent_that_never_answers_is_ended_by_the_clock() {
    let reason = failure_of("silent initialize", "code [prompt=\"Work\", timeout=\"1s\"] start -> code -> exit");
    assert!(reason.contains("` timed out after 1s"), "{reason}");
}

#[test]
fn the_settings_of_an_agent_are_kept() {
    let env = agent("shell test \"$GREETING\" = hello\nask a 1\nhang");
    let settings = "agents: {acp: {idle_timeout: 1, env: {GREETING: hello}}}\n";
    env.configure(&format!("{}{settings}", env.read("pleach.yaml")));
    let reason = failure(&env);
    assert!(reason.contains("timed out after 1s without a sign of life"), "{reason}");
    assert_eq!(env.files(), ["README.md", "a"], "what was done until then is kept");
    let calls = env.story().all("AgentTurn")[0]["tool_calls"].clone();
    assert_eq!((&calls[0]["name"], &calls[0]["is_error"]), (&json!("execute"), &json!(false)));
    let mode = "agents: {acp: {permission_mode: yolo}}\n";
    let env = agent("say Never.");
    env.configure(&format!("{}{mode}", env.read("pleach.yaml")));
    let reason = failure(&env);
    assert!(reason.contains("no permission mode to choose, so it cannot use `yolo`"), "{reason}");
}

#[test]
fn a_missing_agent_is_found_before_a_session_starts() {
    let env = TestEnv::with_repo();
    env.configure("agent: 'acp:nowhere-to-be-found --acp'\n");
    let ran = env.run(&graph("one", ONE), &[]).expect(7);
    ran.fails_with("agent-missing").naming("`nowhere-to-be-found`");
    assert!(env.sessions().is_empty());
}

#[track_caller]
fn failure_of(script: &str, body: &str) -> String {
    let env = agent(script);
    env.run(&graph("one", body), &[]).expect(1);
    env.assert_no_process_left();
    env.story().node("code")["outcome"]["failure_reason"].as_str().expect("a reason").to_owned()
}

#[test]
fn a_repository_may_not_bring_its_own_agent_unasked() {
    let env = agent("say Hello.");
    env.pipeline(&graph("one", ONE));
    let ran = env.pleach(&["run", "../pipeline.dot"]).expect(4);
    assert!(ran.stderr.contains("fake-acp"), "{ran}");
    assert!(env.sessions().is_empty());
}

/// Three turns of which the first two write.
const THREE_TURNS: &str = r#"
scripts:
  - name: work
    steps:
      - {text: I write hello., tools: [{write_file: {file_path: hello.txt, content: "one\n"}}], usage: {input: 100, output: 10}}
      - {text: I edit it., tools: [{shell: {command: "echo two > hello.txt; echo more > more.txt"}}], usage: {input: 200}}
      - {text: Both are there., usage: {input: 300}}
"#;

/// A world whose agent is a program of this name that talks to a model, which answers from a script through the gateway.
fn behind_gateway(name: &str, opening: &str, more: &str) -> TestEnv {
    let env = agent("");
    let root = env.root().display().to_string();
    env.write("script", format!("{opening}shell env > {root}/heard/env\nconverse anthropic"));
    env.write("script.yaml", THREE_TURNS);
    env.write_program(format!("bin/{name}"), &format!("#!/bin/sh\nexec '{}' \"$@\"\n", program().display()));
    env.configure(&format!(
        "agents: {{worker: {{runner: 'acp:{name} {root}/script {root}/heard/log', {more}}}}}\n\
         providers: {{default: script, script: {{file: script.yaml}}}}\nsandbox: {{rw: ['{root}/heard']}}\n"
    ));
    env
}

fn by_worker() -> String {
    graph("one", "code [prompt=\"Work on it\", agent=worker] start -> code -> exit")
}

#[test]
fn a_known_agent_behind_the_gateway_has_exact_turns() {
    // A known one goes there by itself, any other where the settings say so.
    for (name, more) in [("claude-code-acp", ""), ("my-acp", "turns: gateway")] {
        let env = behind_gateway(name, "", more);
        env.pipeline(&by_worker());
        let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
        let ran = env.finish(command.env("ANTHROPIC_API_KEY", "k-123456789").output().unwrap()).expect(0);
        assert!(ran.stderr.contains(&format!("agent acp:{name}, answered by a script\n")), "{ran}");
        let story = env.story();
        let turns = story.all("AgentTurn");
        let of = |key: &str| turns.iter().map(|turn| turn[key].clone()).collect::<Vec<_>>();
        assert_eq!((of("agent"), of("provider")), (vec![json!("acp"); 3], vec![json!("script"); 3]));
        assert_eq!(of("boundary"), ["exact"; 3], "{name}");
        let input: Vec<u64> = turns.iter().filter_map(|turn| turn["token_usage"]["input"].as_u64()).collect();
        assert_eq!(input, [100, 200, 300], "as the model has it, whatever the agent says");
        let commits = env.commits();
        assert_eq!(commits.len(), 2, "{ran}");
        assert_eq!(env.changed(&commits[0]), ["hello.txt"]);
        assert_eq!(env.changed(&commits[1]), ["hello.txt", "more.txt"]);
        let answer = story.message(&env, story.node("code")["response"].as_u64().expect("an answer"));
        assert_eq!(answer["content"][0]["text"], "Both are there.");
        let seen = env.read("heard/env");
        let value = |name: &str| seen.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).unwrap_or("");
        let base = value("ANTHROPIC_BASE_URL");
        assert!(base.starts_with("http://127.0.0.1:"), "{seen}");
        assert_eq!(value("ANTHROPIC_API_KEY"), base.rsplit('/').next().unwrap(), "the real key stays with pleach");
        assert_ne!(value("HOME"), env.root().join("home").to_str().unwrap(), "a home of its own");
        env.assert_no_process_left();
    }
}

#[test]
fn an_agent_over_budget_is_refused_its_next_call() {
    for (action, exit) in [("stop", 1), ("pause", 3)] {
        let env = behind_gateway("claude-code-acp", "", "");
        env.configure(&format!("{}budget: {{tokens: 105, on_exceeded: {action}}}\n", env.read("pleach.yaml")));
        let ran = env.run(&by_worker(), &[]).expect(exit);
        assert!(ran.stdout.contains("110 of 105 tokens"), "{ran}");
        assert_eq!(env.story().all("AgentTurn").len(), 1, "within one call");
        assert_eq!(env.files(), ["README.md", "hello.txt"]);
        env.assert_no_process_left();
    }
}

#[test]
fn an_agent_behind_the_gateway_resumes_after_kill() {
    // One that can load its session continues with it; one that cannot is answered from the record.
    for opening in ["load\n", ""] {
        let env = behind_gateway("my-acp", opening, "turns: gateway");
        let gate = Gate::new(&env, "agent");
        env.write("script.yaml", THREE_TURNS.replace("echo two > hello.txt", &gate.command()));
        let mut run = env.start(&by_worker(), &[]);
        let held = gate.reached(&mut run);
        run.kill(held);
        gate.stay_open();
        if !opening.is_empty() {
            env.write("script", format!("{}\nloaded\nwrite resumed yes\nsay Gone on.", env.read("script")));
        }
        env.resume(&[]).expect(0);
        let methods = methods(&env);
        assert_eq!(methods.contains(&"session/load".to_owned()), !opening.is_empty(), "{methods:?}");
        let files = env.files();
        let last = if opening.is_empty() { "more.txt" } else { "resumed" };
        assert_eq!(files, ["README.md", "hello.txt", last], "{methods:?}");
        env.assert_no_process_left();
    }
}

/// A world whose agent's model is at this server.
fn asks_server(server: &Server) -> TestEnv {
    let env = behind_gateway("my-acp", "", "turns: gateway, provider: anthropic");
    let settings = env.read("pleach.yaml");
    let (before, after) = settings.split_once("providers:").expect("providers");
    let after = after.split_once('\n').expect("a line of its own").1;
    let base = server.url();
    env.configure(&format!("{before}providers: {{anthropic: {{settings: {{api_base: '{base}'}}}}}}\n{after}"));
    env
}

/// Runs the agent with these steps.
fn run_steps(env: &TestEnv, steps: &str) -> Ran {
    env.write("script", steps);
    env.pipeline(&by_worker());
    let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
    env.finish(command.env("ANTHROPIC_API_KEY", "k-123456789").output().unwrap())
}

#[test]
fn n04_over_acp_an_unanswered_last_call_is_no_success() {
    for (fault, why) in [(refusal(500, "the server fell over"), "the server fell over"), (page(), "please log in")] {
        let server = Server::start(move |seen, _| match seen.body["messages"].as_array().map_or(0, Vec::len) {
            1 => {
                let input = json!({"file_path": "one.txt", "content": "one"});
                let call = json!({"type": "tool_use", "id": "c-1", "name": "Write", "input": input});
                answer_of("claude-sonnet-4-5", &[call])
            }
            _ => fault.clone(),
        });
        let env = asks_server(&server);
        let ran = run_steps(&env, "attempt anthropic\nsay All is well.").expect(7);
        ran.fails_with("agent-unusable").naming("the last call of its model was not answered");
        assert!(ran.stderr.contains(why), "{ran}");
    }
}

#[test]
fn an_agent_whose_model_never_answers_has_not_worked() {
    let server = Server::start(|_, _| Play::Drop);
    let env = asks_server(&server);
    for (steps, code, says) in [
        ("attempt anthropic\nattempt anthropic", 7, "no call of its model was answered: "),
        ("attempt anthropic\nsay The model is busy.", 7, "no call of its model was answered: "),
        ("complain nothing", 1, "asked no model and said nothing"),
    ] {
        let ran = run_steps(&env, steps).expect(code);
        assert!(ran.to_string().contains(says), "{steps}: {ran}");
        assert!(!ran.to_string().contains("1 turn"), "{steps}: nothing was said, so there was no turn: {ran}");
    }
}

#[test]
fn the_protocol_knows_two_kinds_of_turns() {
    let env = behind_gateway("my-acp", "", "turns: hooks");
    let ran = env.run(&by_worker(), &[]);
    let said = "`agents.worker.turns` cannot be `hooks`: the protocol has no such turns\n\
                hint: it can be stream, gateway";
    assert!(ran.code == 7 && ran.stderr.contains(said), "{ran}");
}
