//! The real programs, driven by a script: through the gateway, and with a key or login of the user's own. No real key, no
//! network. They must be installed:
//! `npm install -g @anthropic-ai/claude-code@2.1.325 @openai/codex @google/gemini-cli opencode-ai` (or a newer Claude Code;
//! without the version, a node before 22 gets an older one that cannot run commands in a sandbox outside the gateway),
//! for those of the Agent Client Protocol `@zed-industries/claude-code-acp @zed-industries/codex-acp`, and then
//! `cargo test -p pleach-cli --test it real_agents:: -- --ignored --test-threads 1 --nocapture`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use agents::gateway::{CallDecision, Facts, Gateway, Upstream};
use agents::llm::Script;
use agents::llm::wire::Format;
use serde_json::{Value, json};

use crate::sessions::{Story, graph, tool};
use crate::support::TestEnv;

mod going_wrong;

const SCRIPT: &str = r#"
model: MODEL
scripts:
  - name: more
    when: {contains: Say a word more}
    steps:
      - {text: Write again., tools: [{write_file: {file_path: again.txt, content: "again\n"}}], usage: {input: 50, output: 5}}
      - {text: Said and done., usage: {input: 60, output: 6}}
  - name: hang
    when: {contains: Hang after one}
    steps:
      - {text: Write one., tools: [{write_file: {file_path: one.txt, content: "1\n"}}], usage: {input: 90, output: 9}}
      - hang: true
  - name: all
    steps:
      - {text: Write hello., tools: [{write_file: {file_path: hello.txt, content: "hello\n"}}], usage: {input: 100, output: 10}}
      - text: Edit it and write another one.
        tools:
          - edit_file: {file_path: hello.txt, old_string: hello, new_string: "hello again"}
          - write_file: {file_path: src/two.txt, content: "two\n"}
        usage: {input: 200, output: 20}
      - {text: All is done., usage: {input: 300, output: 30}}
"#;

/// Whether a program is there; it is said where it is not.
fn is_installed(env: &TestEnv, program: &str) -> bool {
    let look = env.program("sh", env.root()).args(["-c", &format!("command -v {program}")]).output();
    let is_there = look.is_ok_and(|look| look.status.success());
    if !is_there {
        let _ = writeln!(std::io::stderr(), "SKIPPED: `{program}` is not on PATH");
    }
    is_there
}

/// A world with this agent, if the program is installed.
fn world(agent: &str, model: &str) -> Option<TestEnv> {
    let env = TestEnv::with_repo();
    if !is_installed(&env, agent) {
        return None;
    }
    env.write("script.yaml", SCRIPT.replace("MODEL", model));
    // Codex cannot set bounds of its own below a directory for temporary files.
    let agents = "agents: {codex: {permission_mode: danger-full-access}}";
    env.configure(&format!("agent: {agent}\nproviders: {{script: {{file: script.yaml}}}}\n{agents}\n"));
    Some(env)
}

/// Sets what would lead the agents to other servers, settings and homes; gives the directory they would make.
fn mislead(env: &TestEnv, command: &mut Command) -> PathBuf {
    let elsewhere = env.root().join("elsewhere");
    let nobody = "http://127.0.0.1:1";
    let gemini = env.write("gemini.json", json!({"security": {"auth": {"selectedType": "vertex-ai"}}}).to_string());
    let options = json!({"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": nobody, "apiKey": "k"}});
    let opencode = env.write("opencode.json", json!({"provider": {"pleach": options}, "plugin": ["none"]}).to_string());
    for on in ["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "GOOGLE_GENAI_USE_VERTEXAI"] {
        command.env(on, "true");
    }
    for address in ["ANTHROPIC_BASE_URL", "ANTHROPIC_BEDROCK_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "OPENAI_BASE_URL"] {
        command.env(address, nobody);
    }
    for home in ["CLAUDE_CONFIG_DIR", "CODEX_HOME", "CODEX_SQLITE_HOME", "GEMINI_CLI_HOME", "OPENCODE_CONFIG_DIR"] {
        command.env(home, &elsewhere);
    }
    command.env("GEMINI_CLI_SYSTEM_SETTINGS_PATH", gemini).env("OPENCODE_CONFIG", opencode);
    elsewhere
}

#[track_caller]
fn drive(agent: &str, model: &str) {
    let Some(env) = world(agent, model) else { return };
    let body = format!(
        "graph [default_fidelity=full] first [prompt=\"Write some files\", thread_id=\"t\", llm_model=\"{model}\"] \
         second [prompt=\"Say a word more\", thread_id=\"t\", llm_model=\"{model}\"] start -> first -> second -> exit"
    );
    env.pipeline(&graph("real", &body));
    let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
    let elsewhere = mislead(&env, &mut command);
    let ran = env.finish(command.output().expect("pleach can be started")).expect(0);
    // One of them makes a directory there already when it is asked for its version.
    for kept in ["projects", "sessions", "state_5.sqlite", ".gemini/tmp", "node_modules"] {
        assert!(!elsewhere.join(kept).exists(), "nothing is kept where the user's variables lead: {kept} {ran}");
    }
    let introduced = ran.stderr.lines().find(|line| line.starts_with("agent ")).unwrap_or_default();
    eprintln!("{introduced}");
    assert!(introduced.contains("(turns: gateway), answered by a script"), "{ran}");
    let changed: Vec<Vec<String>> = env.commits().iter().map(|commit| env.changed(commit)).collect();
    assert_eq!(changed, [vec!["hello.txt"], vec!["hello.txt", "src/two.txt"], vec!["again.txt"]], "{ran}");
    assert_eq!(env.committed("hello.txt"), "hello again");
    let story = env.story();
    let turns = story.all("AgentTurn");
    let of = |key: &str| turns.iter().map(|turn| turn["token_usage"][key].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!((of("input"), of("output")), (vec![100, 200, 300, 50, 60], vec![10, 20, 30, 5, 6]));
    assert!(turns.iter().all(|turn| turn["boundary"] == "exact" && turn["agent"] == agent), "{turns:?}");
    let sessions: Vec<&Value> = turns.iter().map(|turn| &turn["agent_state_ref"]["session"]).collect();
    let last = sessions.last().unwrap().as_str().expect("the agent's own conversation");
    // The second node continues with the conversation of the first.
    assert_eq!(sessions[2], last);
    assert_eq!(story.path(), ["start:success", "first:success", "second:success", "exit:success"]);
    env.assert_no_process_left();
}

#[track_caller]
fn kill_and_resume(agent: &str, model: &str) {
    let Some(env) = world(agent, model) else { return };
    let body = format!("code [prompt=\"Hang after one\", llm_model=\"{model}\"] start -> code -> exit");
    let mut run = env.start(&graph("real", &body), &[]);
    run.wait_for("main.1");
    run.signal("KILL");
    run.end();
    env.assert_no_process_left();
    // What an interrupted agent is told starts no new task for the script: it is given its next step.
    let answers = "{text: Go on., tools: [{write_file: {file_path: late.txt, content: \"late\\n\"}}]}\n      \
                   - {text: Now all is done., usage: {input: 80, output: 8}}";
    env.write("script.yaml", SCRIPT.replace("MODEL", model).replace("hang: true", answers));
    env.resume(&[]).expect(0);
    assert_eq!(env.files(), ["README.md", "late.txt", "one.txt"]);
    let story = env.story();
    let turns = story.all("AgentTurn");
    let session = |turn: &Value| turn["agent_state_ref"]["session"].clone();
    assert_eq!(session(turns[0]), session(turns[turns.len() - 1]), "the same conversation");
    assert_eq!(turns[turns.len() - 1]["token_usage"]["input"], json!(80));
}

/// Goes back to a turn, and replays from one: the program runs again, and nothing of what was said up to there is asked again.
#[track_caller]
fn go_back(agent: &str, model: &str) {
    let Some(env) = world(agent, model) else { return };
    let flag = env.root().join("fixed");
    let body = format!(
        "code [prompt=\"Write some files\", llm_model=\"{model}\"] {} start -> code -> check \
         check -> exit [condition=\"outcome=success\"]",
        tool("check", &format!("test -e {}", flag.display()))
    );
    env.run(&graph("real", &body), &[]).expect(1);
    env.write("fixed", "");
    // Who asked for the first turn once more would be told to write this.
    let wrong = "{text: Write hello., tools: [{write_file: {file_path: wrong.txt";
    let first = "{text: Write hello., tools: [{write_file: {file_path: hello.txt";
    env.write("script.yaml", SCRIPT.replace("MODEL", model).replace(first, wrong));
    let tree = |run: &str| env.git(&["rev-parse", &format!("{}{run}^{{tree}}", env.branch())]);
    let expected = tree("");
    let sent = |story: &Story| {
        let turns = story.all("AgentTurn").into_iter();
        turns.filter_map(|turn| turn["token_usage"]["input"].as_u64()).collect::<Vec<_>>()
    };
    let session = env.session();
    env.pleach(&["-y", "replay", &session, "--turn", "1"]).expect(0);
    let story = Story::in_context(&env, &env.repo_path(), &session, "r1");
    assert_eq!(
        (sent(&story), story.warnings()),
        (vec![200, 300], Vec::new()),
        "{agent}: the first was not asked again"
    );
    assert_eq!(tree("--r1"), expected, "{agent}");
    env.resume(&["--turn", "2"]).expect(0);
    assert_eq!(sent(&env.story()), [100, 200, 300, 300], "{agent}: nor were the first two");
    assert_eq!(tree(""), expected, "{agent}");
    env.assert_no_process_left();
}

/// The agent calls a configured tool, which its model knows as `tool`, and finds it on its PATH.
#[track_caller]
fn call_configured_tool(agent: &str, model: &str, tool: &str) {
    let Some(env) = world(agent, model) else { return };
    let calls = json!([{tool: {}}, {"shell": {"command": "run-tests twice"}}]);
    let steps = format!("[{{text: Run it., tools: {calls}}}, {{text: Done.}}]");
    env.write("script.yaml", format!("model: {model}\nscripts: [{{name: all, steps: {steps}}}]\n"));
    let before = env.read("pleach.yaml");
    env.configure(&format!("{before}tools: [{{name: run-tests, command: 'echo \"$# $PLEACH_NODE\" >> ran'}}]\n"));
    let body = format!("code [prompt=\"Work on it\", llm_model=\"{model}\"] start -> code -> exit");
    let ran = env.run(&graph("real", &body), &[]).expect(0);
    let mut lines: Vec<String> = env.committed("ran").lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["0 code", "1 code"], "{ran}");
}

#[test]
#[ignore = "needs claude, gemini and opencode on PATH"]
fn real_agents_call_configured_tools() {
    call_configured_tool("claude", "claude-sonnet-4-5", "mcp__pleach__run-tests");
    call_configured_tool("gemini", "gemini-2.5-pro", "mcp_pleach_run-tests");
    call_configured_tool("opencode", "mock-model", "pleach_run-tests");
}

#[test]
#[ignore = "needs claude on PATH"]
fn claude_code_through_the_gateway() {
    drive("claude", "claude-sonnet-4-5");
    kill_and_resume("claude", "claude-sonnet-4-5");
    go_back("claude", "claude-sonnet-4-5");
}

#[test]
#[ignore = "needs codex on PATH"]
fn codex_through_the_gateway() {
    drive("codex", "gpt-5.4");
    kill_and_resume("codex", "gpt-5.4");
    go_back("codex", "gpt-5.4");
    // This one's tools are an item of the conversation, and one of them runs code.
    drive("codex", "gpt-6.1-sol");
}

#[test]
#[ignore = "needs gemini on PATH"]
fn gemini_cli_through_the_gateway() {
    drive("gemini", "gemini-2.5-pro");
    kill_and_resume("gemini", "gemini-2.5-pro");
    go_back("gemini", "gemini-2.5-pro");
}

#[test]
#[ignore = "needs opencode on PATH"]
fn opencode_through_the_gateway() {
    drive("opencode", "mock-model");
    kill_and_resume("opencode", "mock-model");
    go_back("opencode", "mock-model");
}

/// The same over the Agent Client Protocol, with the model the program chooses by itself.
#[track_caller]
fn drive_over_acp(command: &str, of_agent: &str, more: &str) {
    let program = command.split(' ').next().unwrap_or_default();
    let Some(env) = world(program, "any-model") else { return };
    env.configure(&format!(
        "agents: {{worker: {{runner: 'acp:{command}', {of_agent}}}}}\nproviders: {{script: {{file: script.yaml}}}}\n{more}"
    ));
    let body = "code [prompt=\"Write some files\", agent=worker] start -> code -> exit";
    let ran = env.run(&graph("real", body), &[]).expect(0);
    eprintln!("{}", ran.stderr.lines().find(|line| line.starts_with("agent ")).unwrap_or_default());
    let changed: Vec<Vec<String>> = env.commits().iter().map(|commit| env.changed(commit)).collect();
    assert_eq!(changed, [vec!["hello.txt"], vec!["hello.txt", "src/two.txt"]], "{ran}");
    let story = env.story();
    let turns = story.all("AgentTurn");
    let input: Vec<u64> = turns.iter().filter_map(|turn| turn["token_usage"]["input"].as_u64()).collect();
    assert_eq!(input, [100, 200, 300], "{ran}");
    assert!(turns.iter().all(|turn| turn["boundary"] == "exact" && turn["provider"] == "script"), "{turns:?}");
    let answer = story.message(&env, story.node("code")["response"].as_u64().expect("an answer"));
    assert_eq!(answer["content"][0]["text"], "All is done.");
    env.assert_no_process_left();
}

#[test]
#[ignore = "needs claude-code-acp on PATH"]
fn claude_code_over_acp_through_the_gateway() {
    drive_over_acp("claude-code-acp", "", "");
}

#[test]
#[ignore = "needs codex-acp on PATH"]
fn codex_over_acp_through_the_gateway() {
    drive_over_acp("codex-acp", "", "");
}

#[test]
#[ignore = "needs gemini on PATH"]
fn gemini_cli_over_acp_through_the_gateway() {
    drive_over_acp("gemini --acp", "", "");
}

#[test]
#[ignore = "needs opencode on PATH"]
fn opencode_over_acp_through_the_gateway() {
    // It talks to a server of its own as well.
    drive_over_acp("opencode acp", "model: mock-model, turns: gateway", "sandbox: {network: open}\n");
}

/// What agents are answered that reach their model by themselves: a command of the shell is one in every place.
const COMMANDS: &str = r#"
scripts:
  - name: all
    steps:
      - {text: Write hello., tools: [{shell: {command: "echo hello > hello.txt"}}], usage: {input: 100, output: 10}}
      - {text: All is done., usage: {input: 200, output: 20}}
"#;

/// A server that answers by a script in every language, as long as this is there.
struct Answers {
    gateway: Gateway,
    _runtime: tokio::runtime::Runtime,
}

impl Answers {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let script = Upstream::Script(Script::parse(COMMANDS).unwrap());
        let (gateway, mut arrivals) = runtime.block_on(Gateway::open(script, Facts::default())).unwrap();
        runtime.spawn(async move {
            while let Some(arrival) = arrivals.recv().await {
                let _ = arrival.answer.send(CallDecision::Forward);
            }
        });
        Self { gateway, _runtime: runtime }
    }

    fn at(&self, format: Format) -> String {
        self.gateway.base_url(format)
    }
}

/// Lets an agent work with a key or a login of the user's own in a sandbox, and nothing but that. `prepare` gives it
/// the address of its model in its own way.
#[track_caller]
fn by_itself(agent: &str, turns: &str, prepare: impl FnOnce(&TestEnv, &Answers, &mut Command)) {
    let program = agent.trim_start_matches("acp:").split(' ').next().unwrap_or_default();
    let Some(env) = world(program, "any-model") else { return };
    env.configure(&format!("agents: {{worker: {{runner: '{agent}', turns: {turns}}}}}\n"));
    env.pipeline(&graph("real", "code [prompt=\"Write a file\", agent=worker] start -> code -> exit"));
    let answers = Answers::new();
    let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
    prepare(&env, &answers, &mut command);
    let ran = env.finish(command.output().expect("pleach can be started")).expect(0);
    eprintln!("{}", ran.stderr.lines().find(|line| line.starts_with("agent ")).unwrap_or_default());
    assert!(ran.stderr.contains("sandbox: ") && ran.warnings().is_empty(), "{ran}");
    assert_eq!(env.committed("hello.txt"), "hello", "{ran}");
    env.assert_no_process_left();
}

/// Codex of a user who has logged in with a key, or has nothing but settings.
fn codex_at(env: &TestEnv, answers: &Answers, has_login: bool) {
    let address = answers.at(Format::Responses);
    let provider = "name = \"mine\"\nwire_api = \"responses\"\nrequires_openai_auth = true";
    let settings = format!(
        "model = \"gpt-5.4\"\nmodel_provider = \"mine\"\n[model_providers.mine]\n{provider}\nbase_url = \"{address}\"\n"
    );
    env.write("home/.codex/config.toml", settings);
    if has_login {
        env.write("home/.codex/auth.json", json!({"OPENAI_API_KEY": "sk-0123456789"}).to_string());
    }
}

#[test]
#[ignore = "needs claude on PATH"]
fn claude_code_with_the_user_s_key() {
    for turns in ["stream", "hooks", "node"] {
        by_itself("claude", turns, |_, answers, command| {
            command.env("ANTHROPIC_API_KEY", "sk-0123456789");
            command.env("ANTHROPIC_BASE_URL", answers.at(Format::Anthropic));
        });
    }
}

#[test]
#[ignore = "needs codex on PATH"]
fn codex_with_the_user_s_login_or_key() {
    by_itself("codex", "node", |env, answers, _| codex_at(env, answers, true));
    by_itself("codex", "node", |env, answers, command| {
        codex_at(env, answers, false);
        command.env("CODEX_API_KEY", "sk-0123456789");
    });
}

#[test]
#[ignore = "needs gemini on PATH"]
fn gemini_cli_with_the_user_s_key() {
    by_itself("gemini", "stream", |env, answers, command| {
        let settings = json!({"security": {"auth": {"selectedType": "gemini-api-key"}}});
        env.write("home/.gemini/settings.json", settings.to_string());
        command.env("GEMINI_API_KEY", "0123456789");
        command.env("GOOGLE_GEMINI_BASE_URL", answers.at(Format::Gemini));
    });
}

#[test]
#[ignore = "needs opencode on PATH"]
fn opencode_with_the_user_s_settings() {
    by_itself("opencode", "stream", |env, answers, _| {
        let options = json!({"baseURL": answers.at(Format::Chat), "apiKey": "k"});
        let provider = json!({"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {"name": "m"}}});
        let settings = json!({"model": "mine/m", "provider": {"mine": provider}});
        env.write("config/opencode/opencode.json", settings.to_string());
    });
}

#[test]
#[ignore = "needs codex-acp on PATH"]
fn codex_over_acp_with_the_user_s_login() {
    by_itself("acp:codex-acp", "stream", |env, answers, _| codex_at(env, answers, true));
}
