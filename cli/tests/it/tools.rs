//! Commands of the configuration as tools of agents: where they run, what holds them, and who is asked first.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::escape::skip;
use crate::merge_queue::Queue;
use crate::sessions::{graph, tool};
use crate::support::{Ran, TestEnv};

const ONE: &str = "code [prompt=\"Work on it\"] start -> code -> exit";

/// A repository with the name `api` and a tool of its own.
const TOOLS: &str = r#"
tools: [{name: run-tests, command: 'pwd > where; echo "$0 $# $*"', description: Runs all tests.}]
workspace:
  repos: {api: {path: repo}}
  tools: {api: {lint: {command: 'echo linted > linted; echo "for $PLEACH_NODE"; exit 3'}}}
"#;

/// Lets an agent work on one node.
fn run(env: &TestEnv) -> Ran {
    env.run(&graph("one", ONE), &[])
}

/// Lets the built-in agent call these tools, beside what else is configured.
fn call(env: &TestEnv, tools: &str, calls: &str) -> Ran {
    let steps = format!("    steps:\n      - {{text: Try., tools: {calls}}}\n      - text: Done.\n");
    env.write("script.yaml", format!("model: m\nscripts:\n  - name: code\n{steps}"));
    env.configure(&format!("agent: builtin\nproviders: {{script: {{file: script.yaml}}}}\n{tools}"));
    run(env)
}

/// Lets a program be the agent. It keeps its task in a worktree: it cannot write beside several of them.
fn program(env: &TestEnv, tools: &str, script: &str) -> Ran {
    let program = env.write_program(
        "agent.sh",
        &format!("#!/bin/sh\nasked=asked; [ -d web ] && asked=web/asked; cat > $asked\n{script}\n"),
    );
    env.configure(&format!("agent: \"command:{}\"\n{tools}", program.display()));
    run(env)
}

/// Lets a program that is called Claude be the agent, which keeps its arguments and can ask the server of its tools.
fn claude(env: &TestEnv, (settings, tools): (&str, &str), script: &str) -> Ran {
    let opening = r#"#!/bin/sh
case "$1" in --version) echo "9.8.7 (fake)"; exit;; esac
cat > asked
printf '%s\n' "$@" > args
server() {
  program=$(sed -n 's/.*"command":"\([^"]*\)".*/\1/p' args)
  file=$(sed -n 's/.*"__tools","\([^"]*\)".*/\1/p' args)
  mkfifo "$TMPDIR/in" "$TMPDIR/out"
  "$program" __tools "$file" < "$TMPDIR/in" > "$TMPDIR/out" &
  exec 3> "$TMPDIR/in" 4< "$TMPDIR/out"
}
ask() { printf '%s\n' "$1" >&3; read -r answer <&4; printf '%s\n' "$answer" >> answers; }
"#;
    let ending = "echo '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"Done.\"}'\n";
    env.write_program("bin/claude", &format!("{opening}{script}\n{ending}"));
    env.log_in();
    env.configure(&format!("agent: claude\nagents: {{claude: {{turns: node{settings}}}}}\n{tools}"));
    run(env)
}

#[test]
fn the_built_in_agent_runs_configured_tools() {
    let env = TestEnv::with_repo();
    call(&env, TOOLS, "[{run-tests: {}}, {api:lint: {}}, {web:lint: {}}]").expect(0);
    let said = env.story().whole_text(&env);
    assert!(said.contains("[stdout]\\nfor code\\n[exit 3]") && said.contains("no tool `web:lint`"), "{said}");
    assert_eq!(env.files(), ["README.md", "linted", "where"]);
    assert_eq!(env.committed("where"), env.worktree().to_str().unwrap());
    let calls = env.story().all("AgentTurn")[0]["tool_calls"].clone();
    let names: Vec<&str> = calls.as_array().unwrap().iter().filter_map(|call| call["name"].as_str()).collect();
    assert_eq!(names, ["run-tests", "api:lint", "web:lint"]);
}

#[test]
fn programs_find_configured_tools_on_path() {
    let env = TestEnv::with_repo();
    let script = "mkdir sub; cd sub; run-tests one 'two three' > ../said; api__lint > ../lint; echo $? >> ../lint\n\
                  (echo gone > \"$(command -v run-tests)\" ); exit 0";
    let ran = program(&env, TOOLS, script).expect(0);
    assert_eq!(env.committed("said"), "run-tests 2 one two three", "{ran}");
    assert_eq!(env.committed("lint"), "for code\n3");
    assert_eq!(env.committed("where"), env.worktree().to_str().unwrap(), "wherever it is called");
    let asked = env.committed("asked");
    assert!(asked.contains("\n- `run-tests`: Runs all tests.\n- `api__lint`: Runs `echo linted"), "{asked}");
    let bin = asked.lines().find_map(|line| line.strip_prefix("Commands of this project for you, on PATH and in `"));
    let bin = bin.and_then(|line| line.strip_suffix("`:")).unwrap_or_else(|| panic!("{asked}"));
    if !skip("that agents cannot change their commands", 3) {
        let launcher = fs::read_to_string(format!("{bin}/run-tests")).unwrap();
        assert!(launcher.starts_with("#!/bin/sh\n"), "{launcher}");
    }
    env.pleach(&["rm", "--force", &env.session()]).expect(0);
    assert!(!std::path::Path::new(bin).exists(), "they go with the session");
}

#[test]
fn a_node_without_tools_has_no_commands() {
    let env = TestEnv::with_repo();
    let program = env.write_program("agent.sh", "#!/bin/sh\ncat > asked\ncommand -v run-tests > found\nexit 0\n");
    env.configure(&format!("agent: \"command:{}\"\n{TOOLS}", program.display()));
    env.run(&graph("one", &ONE.replace("]", ", tools=false]")), &[]).expect(0);
    assert_eq!(env.committed("found"), "");
    assert!(!env.committed("asked").contains("run-tests"));
}

/// A client of the server of tools.
struct Client {
    server: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Client {
    fn say(&mut self, line: &Value) {
        writeln!(self.server.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn ask(&mut self, id: u64, method: &str, params: &Value) -> Value {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answer = self.heard();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn heard(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

#[test]
fn an_mcp_client_calls_configured_tools() {
    let env = TestEnv::with_repo();
    let asks = r#"server; ask '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run-tests"}}'"#;
    let tools = TOOLS.replace("tools: [", "tools: [{name: wait, command: sleep 600}, ");
    let ran = claude(&env, ("", &tools), asks).expect(0);
    let answers = env.committed("answers");
    assert!(answers.contains("[exit 0]"), "{answers} {ran}");
    let args = env.committed("args");
    let mut args = args.lines().skip_while(|arg| *arg != "--mcp-config").skip(1);
    let config: Value = serde_json::from_str(args.next().unwrap()).unwrap();
    assert_eq!(args.collect::<Vec<_>>(), ["--allowedTools", "mcp__pleach"]);
    let server = &config["mcpServers"]["pleach"];
    let words: Vec<&str> = server["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let mut command = env.program(server["command"].as_str().unwrap(), env.root());
    let mut server = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let answers = BufReader::new(server.stdout.take().unwrap());
    let mut client = Client { server, answers };

    let hello = client.ask(1, "initialize", &json!({"protocolVersion": "2025-06-18", "capabilities": {}}));
    assert_eq!(
        (&hello["result"]["protocolVersion"], &hello["result"]["capabilities"]),
        (&json!("2025-06-18"), &json!({"tools": {}}))
    );
    client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    assert_eq!(client.ask(2, "ping", &json!({}))["result"], json!({}));
    let listed = client.ask(3, "tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert_eq!((&tools[1]["name"], &tools[1]["description"]), (&json!("run-tests"), &json!("Runs all tests.")));
    assert_eq!((&tools[2]["name"], &tools[2]["inputSchema"]["type"]), (&json!("api__lint"), &json!("object")));
    let failed = client.ask(4, "tools/call", &json!({"name": "api__lint", "arguments": {}}));
    assert_eq!(failed["result"]["isError"], true);
    assert_eq!(failed["result"]["content"], json!([{"type": "text", "text": "[stdout]\nfor code\n[exit 3]"}]));
    assert_eq!(client.ask(5, "tools/call", &json!({"name": "none"}))["error"]["message"], "Unknown tool: none");
    assert_eq!(client.ask(6, "resources/list", &json!({}))["error"]["code"], -32601);
    client.say(&json!("no message"));
    assert_eq!(client.heard()["error"]["code"], -32700);
    // One call is cancelled, and one is under way when the input ends.
    let wait = |id: u64| json!({"id": id, "method": "tools/call", "params": {"name": "wait"}});
    client.say(&wait(7));
    client.say(&json!({"method": "notifications/cancelled", "params": {"requestId": 7}}));
    assert_eq!(client.ask(8, "ping", &json!({}))["result"], json!({}));
    client.say(&wait(9));
    drop(client.server.stdin.take());
    assert!(client.server.wait().unwrap().success());
    env.assert_no_process_left();
    assert_eq!(fs::read_to_string(env.worktree().join("linted")).unwrap(), "linted\n", "in the worktree");
}

#[test]
fn claude_is_limited_to_some_configured_tools() {
    let env = TestEnv::with_repo();
    claude(&env, (", tools: [read_file, 'api:lint']", TOOLS), "server; ask '{\"id\":1,\"method\":\"tools/list\"}'")
        .expect(0);
    let args = env.committed("args").replace('\n', " ");
    assert!(args.contains("--tools Read --strict-mcp-config --mcp-config {"), "{args}");
    let listed = env.committed("answers");
    assert!(listed.contains("api__lint") && !listed.contains("run-tests"), "{listed}");
}

#[test]
fn an_acp_agent_is_given_the_server_of_its_tools() {
    let env = crate::acp::agent("shell run-tests\nsay Done.\n");
    let before = env.read("pleach.yaml");
    env.configure(&format!("{before}{TOOLS}"));
    run(&env).expect(0);
    let opened = env
        .read("heard/log")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|message| message["method"] == "session/new");
    let servers = opened.unwrap()["params"]["mcpServers"].clone();
    assert_eq!(
        (&servers[0]["name"], &servers[0]["args"][0], &servers[0]["env"]),
        (&json!("pleach"), &json!("__tools"), &json!([]))
    );
    assert_eq!(env.files(), ["README.md", "where"], "it is a command as well");
}

#[test]
fn the_sandbox_holds_configured_tools() {
    if skip("the_sandbox_holds_configured_tools", 3) {
        return;
    }
    let asks = r#"server; ask '{"id":1,"method":"tools/call","params":{"name":"leak"}}'"#;
    type Way = dyn Fn(&TestEnv, &str) -> Ran;
    let ways: [&Way; 3] = [
        &|env, tools| call(env, tools, "[{leak: {}}]"),
        &|env, tools| program(env, tools, "leak; exit 0"),
        &|env, tools| claude(env, ("", tools), asks),
    ];
    for way in ways {
        let env = TestEnv::with_repo();
        let out = env.root().join("home/out");
        let tools = format!("tools: [{{name: leak, command: 'echo in > in; echo out > {}'}}]\n", out.display());
        let ran = way(&env, &tools).expect(0);
        assert_eq!((env.committed("in").as_str(), out.exists()), ("in", false), "{ran}");
    }
}

#[test]
fn programs_find_their_repositories_in_a_variable() {
    let env = TestEnv::with_repo();
    let program = env.write_program("agent.sh", "#!/bin/sh\ncat > /dev/null\nprintf '%s' \"$PLEACH_REPOS\" > agent\n");
    let setup = "worktrees: {setup: 'printf %s \"$PLEACH_REPOS\" > .git-setup; echo .git-setup > .gitignore'}";
    env.configure(&format!("agent: \"command:{}\"\n{setup}\n{TOOLS}", program.display()));
    let nodes = tool("first", "cp .git-setup setup; printf '%s' \"$PLEACH_REPOS\" > tool");
    env.run(&graph("one", &format!("{nodes} code [prompt=\"Work\"] start -> first -> code -> exit")), &[]).expect(0);
    let base = env.git(&["rev-parse", "main"]);
    let commits = env.commits();
    for (file, commit) in [("setup", &base), ("tool", &base), ("agent", &commits[0])] {
        let repos: Value = serde_json::from_str(&env.committed(file)).unwrap();
        let expected =
            json!([{"name": "api", "path": env.worktree(), "branch": env.branch(), "commit": commit, "dirty": false}]);
        assert_eq!(repos, expected, "{file}");
    }
}

#[test]
fn tests_of_the_merge_queue_find_their_repository() {
    let test =
        "echo \"$PLEACH_REPOS\" | grep -q '^\\[{\"name\":\"repo\",\"path\":\"'\"$(pwd)\"'\",\"branch\":\"main\"'";
    let queue = Queue::tested(test);
    queue.queued("work");
    queue.env.pleach(&["-y", "merge", "process"]).expect(0);
    assert_eq!(queue.env.git(&["show", "main:work.txt"]), "work");
}

/// A workspace of two repositories, each with a tool of the same name.
const TWO: &str = "
workspace:
  repos: {api: {path: repo}, web: {path: web}}
  tools: {api: {where: {command: pwd > at}}, web: {where: {command: pwd > at; cat at}}}
";

fn two_repos() -> TestEnv {
    let env = TestEnv::with_repo();
    env.repo_at("web");
    env.write("web/AGENTS.md", "Rules of web.\n");
    let web = env.root().join("web");
    env.git_in(&web, &["add", "."]);
    env.git_in(&web, &["-c", "user.name=me", "-c", "user.email=me@here", "commit", "--quiet", "-m", "rules"]);
    env
}

/// The branch of the session in the repository `web`, and a file of it.
fn in_web(env: &TestEnv, path: &str) -> String {
    let branches = env.story().first("PipelineStarted")["branches"].clone();
    let file = format!("{}:{path}", branches["web"].as_str().unwrap());
    env.git_in(&env.root().join("web"), &["show", &file])
}

#[test]
fn each_repository_of_a_workspace_has_its_tools() {
    let env = two_repos();
    env.write(
        "script.yaml",
        "model: m
scripts:
  - name: other
    when: {node: other}
    steps:
      - {text: Try., tools: [{web:edit_file: {file_path: b.txt, old_string: web, new_string: edited}},
          {write_file: {file_path: c.txt, content: here}}, {api:read_file: {file_path: a.txt}}, {api:write_file: {file_path: d.txt, content: no}}]}
      - text: Done.
  - name: code
    steps:
      - {text: Write., tools: [{api:write_file: {file_path: a.txt, content: in api}}, {web:write_file: {file_path: b.txt, content: in web}}]}
      - {text: Run., tools: [{api:where: {}}, {web:where: {}}]}
      - text: Done.
",
    );
    env.configure(&format!("agent: builtin\nproviders: {{script: {{file: script.yaml}}}}\n{TWO}"));
    let nodes = "code [prompt=\"Work on it\"] other [prompt=\"And on\", repo=\"web\"] start -> code -> other -> exit";
    let ran = env.run(&graph("two", nodes), &[]).expect(0);
    assert_eq!((env.committed("a.txt").as_str(), in_web(&env, "b.txt").as_str()), ("in api", "in edited"), "{ran}");
    assert!(env.committed("at").ends_with("/main/api") && in_web(&env, "at").ends_with("/main/web"), "{ran}");
    assert_eq!(in_web(&env, "c.txt"), "here", "a node with `repo` works there");
    let story = env.story();
    let written = story.all("AgentTurn")[0]["files_written"].clone();
    assert_eq!(written, json!({"api": ["a.txt"], "web": ["b.txt"]}));
    let all = story.whole_text(&env);
    assert!(all.contains("  1 | in api") && all.contains("no tool `api:write_file`"), "{all}");
    assert!(all.contains("Tools with the name of a repository before a colon work in that one"), "{all}");
}

#[test]
fn programs_are_told_every_repository_of_the_workspace() {
    let env = two_repos();
    program(&env, TWO, "printf %s \"$PLEACH_REPOS\" > web/repos; web__where; api__where").expect(0);
    let asked = in_web(&env, "asked");
    let repos: Vec<Value> = serde_json::from_str(&in_web(&env, "repos")).unwrap();
    let (at_api, at_web) = (env.committed("at"), in_web(&env, "at"));
    for (repo, (name, at)) in repos.iter().zip([("api", &at_api), ("web", &at_web)]) {
        assert_eq!((&repo["name"], &repo["path"], &repo["dirty"]), (&json!(name), &json!(at), &json!(false)));
        let line = format!("- `{name}` in `{at}` (branch `{}`)\n", repo["branch"].as_str().unwrap());
        assert!(asked.contains(&line), "{line}: {asked}");
    }
    assert!(asked.contains("- `api__where`: ") && asked.contains("- `web__where`: "), "{asked}");
}

#[test]
fn a_tool_that_hides_a_program_is_pointed_out() {
    let env = TestEnv::with_repo();
    env.write_program("bin/deploy", "#!/bin/sh\n");
    let tools = "tools: [{name: deploy, command: 'deploy && echo mine > mine'}]\n";
    let ran = program(&env, tools, "deploy").expect(0);
    ran.warns("tool-hides-program").naming("bin/deploy`");
    assert_eq!(env.committed("mine"), "mine", "the tool itself finds the program");
    env.configure(&tools.replace("deploy, ", "git, "));
    let refused = env.pleach(&["run", "../pipeline.dot"]).expect(2).stderr;
    assert!(refused.contains("the tool `git` would hide a program that agents need"), "{refused}");
}

#[test]
fn configured_tools_of_a_repository_need_approval() {
    let env = TestEnv::new();
    env.repo();
    env.write("script.yaml", "model: m\nscripts:\n  - {name: code, steps: [{text: Done.}]}\n");
    env.write("config/pleach/config.yaml", "agent: builtin\n");
    let supply = |command: &str| {
        let own = format!("tools: [{{name: run-tests, command: {command}}}]\n");
        let of_repo = "workspace: {repos: {api: {path: .}}, tools: {api: {lint: {command: lint-it}}}}\n";
        env.write("repo/pleach.yaml", format!("{own}{of_repo}providers: {{script: {{file: ../script.yaml}}}}\n"));
    };
    supply("test-it");
    let gate = "gate [shape=hexagon, label=\"Go on?\"] start -> gate gate -> code [label=\"[Y] Yes\"] code [prompt=\"Work\"] code -> exit";
    env.write("repo/g.dot", graph("g", gate));
    let asked = env.pleach(&["run", "g.dot"]).expect(4).stderr;
    assert!(asked.contains("command (tools[0].command,") && asked.contains("    test-it\n"), "{asked}");
    assert!(asked.contains("command (workspace.tools.api.lint.command,") && asked.contains("    lint-it\n"), "{asked}");
    assert!(env.sessions().is_empty());
    env.pleach(&["-y", "run", "g.dot"]).expect(4);
    env.pleach(&["run", "g.dot", "--dry-run"]).expect(0);
    supply("other");
    let asked = env.pleach(&["run", "g.dot"]).expect(4).stderr;
    assert!(asked.contains("    other\n") && !asked.contains("lint-it"), "a changed text is asked about: {asked}");
    // The session has the tools it was started with.
    env.pleach(&["trust", "--revoke", "--all"]).expect(0);
    let asked = env.pleach(&["resume", &env.session(), "--auto-approve"]).expect(4).stderr;
    assert!(asked.contains("    test-it\n") && !asked.contains("    other\n"), "{asked}");
    env.pleach(&["-y", "resume", &env.session(), "--auto-approve"]).expect(0);
}
