//! Messages, the live line, ids that can be left out, JSON.

use serde_json::Value;

use crate::sessions::{Gate, graph, tool};
use crate::support::{Ran, TestEnv};
use crate::terminal::{Terminal, screen};
use crate::trees::garden::{APPROVES, Garden, Tree, WRITES};

/// Agent, command, condition and person.
fn all_kinds() -> String {
    let body = tool("test", "echo broken; exit 3")
        + "code [prompt=\"Work\"]  ask [shape=hexagon, label=\"Go?\"]  pick [shape=diamond]
           start -> code -> pick -> ask  ask -> test [label=\"Yes\"]  test -> exit";
    graph("kinds", &body)
}

/// Two agents, of which the first says something and uses a tool.
const SCRIPT: &str = "
scripts:
  - name: all
    steps:
      - text: I add the file.
        tools: [{shell: {command: echo one > one.txt}}]
        usage: {input: 1200, output: 34}
      - text: The file is there.
";

/// A session that waits for a person, and then one that is done.
fn paused_and_done(env: &TestEnv) -> (String, String) {
    let gate = "gate [shape=hexagon, label=\"Go?\"]  start -> gate  gate -> exit [label=\"Yes\"]";
    env.run(&graph("asks", gate), &[]).expect(4);
    let paused = env.session();
    env.run(&graph("works", &(tool("work", "echo 1 > one.txt") + "start -> work -> exit")), &[]).expect(0);
    let done = env.sessions().into_iter().find(|session| *session != paused).expect("a second session");
    (paused, done)
}

#[track_caller]
fn assert_once(ran: &Ran, text: &str) {
    let all = format!("{}{}", ran.stdout, ran.stderr);
    assert_eq!(all.matches(text).count(), 1, "`{text}`: {ran}");
}

#[test]
fn n21_nodes_are_named_in_words_and_a_failure_once() {
    let env = TestEnv::with_repo();
    env.configure("agent: 'command:true'\n");
    let ran = env.run(&all_kinds(), &["--answer", "ask=Yes"]).expect(1);
    for line in ["▸ code (agent true)", "▸ ask (person)", "▸ test (command)"] {
        assert!(ran.stderr.lines().any(|said| said == line), "`{line}`: {ran}");
    }
    assert!(!ran.stderr.contains("codergen") && !ran.stderr.contains("wait.human"), "{ran}");
    assert_once(&ran, "exit 3: broken");
    assert_once(&ran, "`test` failed");
    let drawn = env.run(&all_kinds(), &["--dry-run"]).expect(0).stdout;
    assert!(drawn.contains("pick (condition)") && drawn.contains("test (command) echo broken"), "{drawn}");
}

#[test]
fn n21_warnings_about_one_cause_are_one_warning() {
    let env = TestEnv::with_repo();
    env.run(&graph("one", "code [prompt=\"$goal\"] start -> code -> exit"), &["a=1", "b=2"]).expect(0);
    let ran = env.run(&graph("one", "code [prompt=\"Work\"] start -> code -> exit"), &["aa=1", "bb=2"]).expect(0);
    ran.warns_once("simulation");
    ran.warns_once("unused-input").naming("`aa`, `bb`");
}

#[test]
fn n24_colours_follow_the_flag_and_no_color() {
    let env = TestEnv::with_repo();
    let dot = graph("one", &(tool("work", "true") + "start -> work -> exit"));
    let plain = env.run(&dot, &[]).expect(0);
    assert!(!plain.stderr.contains('\u{1b}') && !plain.stdout.contains('\u{1b}'), "NO_COLOR: {plain}");
    let ran = env.pleach(&["-y", "--color", "always", "run", "../pipeline.dot"]).expect(0);
    assert!(ran.stderr.contains("\u{1b}[32m✓") && ran.stdout.starts_with("\u{1b}[32mdone:"), "{ran}");
    let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
    let ran = env.finish(command.env_remove("NO_COLOR").output().expect("pleach can be started")).expect(0);
    assert!(!ran.stderr.contains('\u{1b}'), "no terminal: {ran}");
    env.pleach(&["--color", "sometimes", "status"]).expect(2);
}

#[test]
fn n24_the_live_line_shows_node_attempt_and_tokens() {
    let env = TestEnv::with_script(SCRIPT);
    let gate = Gate::new(&env, "work");
    let body = tool("work", &gate.command()) + "code [prompt=\"Work\"] start -> code -> work -> exit";
    env.pipeline(&graph("waits", &body));
    let Some(mut terminal) = Terminal::open(&env, "-y run ../pipeline.dot") else { return };
    terminal.wait_for("code · agent builtin");
    let held = terminal.wait_at(&gate);
    terminal.wait_for("work · command · 1.2k tokens");
    gate.open(held);
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    let seen = screen(&shown);
    assert!(!seen.iter().any(|line| line.contains(" · ")), "no live line is left: {seen:#?}");
}

#[test]
fn n24_a_trees_live_line_shows_task_and_step() {
    let garden = Garden::new(&Tree::of(&["T001"]).tests("T001", &["unit: test -e second"]));
    let gate = Gate::new(&garden.env, "second");
    let root = garden.env.root().display();
    garden.configure(&format!("sandbox: {{rw: ['{root}']}}\n"));
    garden.agent(&format!("{WRITES}; test $n = 1 || {{ ({}); echo 1 > second; }}", gate.command()), APPROVES);
    let Some(mut terminal) = Terminal::open(&garden.env, "-y gardener") else { return };
    let held = terminal.wait_at(&gate);
    terminal.wait_for("T001 · implement · attempt 2");
    gate.open(held);
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
}

#[test]
fn n24_verbose_shows_what_agents_say_and_call() {
    let env = TestEnv::with_script(SCRIPT);
    let dot = graph("one", "code [prompt=\"Work\"] start -> code -> exit");
    let ran = env.run(&dot, &["-v"]).expect(0);
    let said = ran.stderr.find("  │ I add the file.\n  │ → shell echo one > one.txt\n");
    let committed = ran.stderr.find("[one.txt]").expect("a turn with a commit");
    assert!(said.is_some_and(|said| said < committed), "before the turn is recorded: {ran}");
    assert!(ran.stderr.contains("  │ The file is there."), "{ran}");
    let ran = env.run(&dot, &[]).expect(0);
    assert!(!ran.stderr.contains('│'), "{ran}");
}

#[test]
fn n24_verbose_hides_secrets_in_what_agents_say() {
    let env = TestEnv::with_script(&SCRIPT.replace("I add the file", "I use Zq8xT4vB1nM6kkPw2"));
    env.pipeline(&graph("one", "code [prompt=\"Work\"] start -> code -> exit"));
    let mut command = env.command(&["-y", "-v", "run", "../pipeline.dot"]);
    let ran = env.finish(command.env("MY_API_KEY", "Zq8xT4vB1nM6kkPw2").output().expect("pleach")).expect(0);
    assert!(ran.stderr.contains("│ I use ") && !ran.stderr.contains("Zq8xT4vB1nM6kkPw2"), "{ran}");
}

#[test]
fn n24_quiet_says_only_errors_and_the_result() {
    let env = TestEnv::with_repo();
    env.write("repo/README.md", "not committed\n");
    let ran = env.run(&all_kinds(), &["-q", "--answer", "ask=Yes"]).expect(1);
    assert_eq!(ran.stderr, "", "{ran}");
    assert!(ran.stdout.starts_with("failed: session ") && ran.stdout.contains("exit 3: broken"), "{ran}");
    let ran = env.pleach(&["-q", "run", "nowhere.dot"]).expect(2);
    ran.fails_with("pipeline-unreadable");
}

#[test]
fn n25_commands_without_an_id_take_the_newest_session() {
    let env = TestEnv::with_repo();
    for command in [&["resume"][..], &["turns"], &["diff"], &["cancel"], &["export", "../out"]] {
        let ran = env.pleach(command).expect(2);
        ran.fails_with("no-such-session").naming("`pleach ");
    }
    let (paused, done) = paused_and_done(&env);
    for command in [&["turns"][..], &["diff"], &["export", "../out"]] {
        let ran = env.pleach(command).expect(0);
        assert!(ran.stderr.starts_with(&format!("using session {done} (works, done, ")), "{ran}");
    }
    assert!(env.root().join("out/manifest.json").is_file());
    assert_eq!(env.pleach(&["--json", "diff"]).expect(0).json()["session"], done.as_str());
    let ran = env.pleach(&["-q", "turns"]).expect(0);
    assert_eq!(ran.stderr, "", "{ran}");
    let ran = env.pleach(&["-y", "resume", "--answer", "gate=Yes"]).expect(0);
    assert!(ran.stderr.contains(&format!("using session {paused} (asks, paused, ")), "{ran}");
}

#[test]
fn n25_cancel_without_an_id_asks() {
    let env = TestEnv::with_repo();
    let gate = Gate::new(&env, "work");
    let mut running = env.start(&graph("runs", &(tool("work", &gate.command()) + "start -> work -> exit")), &[]);
    let held = gate.reached(&mut running);
    let first = env.session();
    let asks = "gate [shape=hexagon, label=\"Go?\"]  start -> gate  gate -> exit [label=\"Yes\"]";
    env.run(&graph("asks", asks), &[]).expect(4);
    let ran = env.pleach(&["cancel", "--grace", "0"]).expect(2);
    ran.fails_with("command-line")
        .naming(format!("`pleach cancel {first}` cancels the newest: {first} (runs, running, "));
    if let Some(mut terminal) = Terminal::open(&env, "cancel") {
        terminal.wait_for(&format!("Cancel session {first} (runs, running, "));
        terminal.wait_for(" permanently? [y/N] ");
        terminal.enter("n");
        let (code, shown) = terminal.end();
        assert!(code == 4 && shown.contains("nothing was cancelled"), "{shown}");
    }
    let ran = env.pleach(&["-y", "cancel", "--grace", "0"]).expect(0);
    assert!(ran.stderr.starts_with(&format!("using session {first} (runs, running, ")), "{ran}");
    drop(held);
    running.end().expect(1);
    if let Some(mut terminal) = Terminal::open(&env, "cancel") {
        terminal.wait_for("(asks, paused, ");
        terminal.enter("y");
        let (code, shown) = terminal.end();
        assert!(code == 0 && shown.contains("cancelled: session "), "{shown}");
    } else {
        env.pleach(&["-y", "cancel"]).expect(0);
    }
    env.pleach(&["cancel"]).expect(2).fails_with("no-such-session");
}

#[test]
fn n25_completions_offer_ids_of_sessions_and_tasks() {
    let garden = Garden::new(&Tree::of(&["T001", "T002: T001"]));
    let env = &garden.env;
    let (paused, done) = paused_and_done(env);
    let offered = |line: &[&str]| {
        let ran = env.pleach(&[&["__complete", "--"], line].concat()).expect(0);
        ran.stdout.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(offered(&["diff"]), [done.as_str(), paused.as_str()]);
    assert_eq!(offered(&["resume"]), [paused.as_str()]);
    assert_eq!(offered(&["garden", "--task"]), ["T001", "T002"]);
    assert_eq!(offered(&["status"]).len(), 4);
    // As the shell asks, with the beginning of a word.
    let pleach = env!("CARGO_BIN_EXE_pleach");
    let ask = format!(
        "source <('{pleach}' completions bash); COMP_WORDS=('{pleach}' inspect T0); COMP_CWORD=2; \
         _pleach_with_ids pleach T0 inspect; echo ${{COMPREPLY[*]}}"
    );
    let output = env.program("bash", &env.repo_path()).args(["-c", &ask]).output().expect("bash can be started");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "T001 T002\n", "{output:?}");
}

#[test]
fn n25_run_takes_agent_and_model() {
    let env = TestEnv::with_repo();
    env.write("script.yaml", SCRIPT);
    env.configure("providers: {script: {file: script.yaml}}\n");
    let dot =
        graph("two", "code [prompt=\"Work\"]  own [prompt=\"Work\", llm_model=mine] start -> code -> own -> exit");
    let ran = env.run(&dot, &["--agent", "builtin", "--model", "big"]).expect(0);
    assert!(!ran.stdout.contains("SIMULATION"), "{ran}");
    let story = env.story();
    let models: Vec<&Value> = story.all("AgentTurn").into_iter().map(|turn| &turn["model"]).collect();
    assert_eq!(models, ["big", "big", "mine", "mine"]);
    assert_eq!(story.first("PipelineStarted")["config"]["model"], "big", "a resume asks for the same");
    let ran = env.run(&dot, &["--agent", "cluade"]).expect(2);
    ran.fails_with("settings-invalid").naming("`claude`");
}

#[test]
fn n26_unknown_variables_warn_once() {
    let env = TestEnv::with_repo();
    env.pipeline(&graph("one", &(tool("work", "true") + "start -> work -> exit")));
    let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
    command.env("PLEACH_BUDGET__TOKEN", "5").env("PLEACH_TREE_MAX_RETRIES", "2").env("PLEACH_WORKSPACE", "/ws");
    let ran = env.finish(command.output().expect("pleach can be started")).expect(0);
    assert_once(&ran, "PLEACH_BUDGET__TOKENS?");
    assert_once(&ran, "PLEACH_TREE__MAX_RETRIES?");
    assert_once(&ran, "PLEACH_WORKSPACE: `workspace`");
    assert_eq!(ran.warnings().iter().filter(|(code, _)| *code == "setting-ignored").count(), 3, "{ran}");
    // A value that a known setting cannot have is still an error.
    let mut command = env.command(&["status"]);
    let ran = env.finish(command.env("PLEACH_TREE__MAX_RETRIES", "many").output().expect("pleach")).expect(2);
    ran.fails_with("settings-invalid").naming("PLEACH_TREE__MAX_RETRIES");
}

#[test]
fn n26_json_gives_diagnostics_and_usage_errors() {
    let env = TestEnv::with_repo();
    let wrong = graph("wrong", "code [prmpt=\"Work\"] start -> code -> nowhere");
    let ran = env.run(&wrong, &["--json"]).expect(2);
    let error = &ran.json()["error"];
    let found = error["diagnostics"].as_array().expect("diagnostics");
    let rules: Vec<&str> = found.iter().filter_map(|found| found["rule"].as_str()).collect();
    assert!(rules.contains(&"edge_target_exists") && rules.contains(&"attribute_spelling"), "{ran}");
    assert!(found.iter().all(|found| found["file"] == "../pipeline.dot" && found["line"].is_u64()), "{ran}");
    assert!(!ran.stderr.contains("-->"), "no drawing beside it: {ran}");

    let warned = graph("warned", "code [prmpt=\"Work\", label=\"Do it\"] start -> code -> exit");
    let lines = env.run(&warned, &["--json"]).expect(0).json_lines();
    let found = lines.iter().find(|line| line["type"] == "Diagnostic").expect("a diagnostic");
    assert_eq!((&found["data"]["severity"], &found["data"]["line"]), (&"warning".into(), &4.into()));
    let planned = env.run(&warned, &["--json", "--dry-run"]).expect(0);
    assert_eq!(planned.json()["diagnostics"][0]["rule"], "attribute_spelling");

    env.configure("agnet: claude\n");
    let ran = env.pleach(&["--json", "status"]).expect(2);
    let found = ran.json()["error"]["diagnostics"][0].clone();
    assert_eq!((&found["line"], &found["fix"]), (&1.into(), &"Did you mean `agent`?".into()), "{ran}");

    let usage = |args: &[&str]| env.pleach(args).expect(2).json()["error"].clone();
    assert_eq!(usage(&["--json"])["message"], "no command is given");
    let error = usage(&["--json", "run"]);
    let message = "the following required arguments were not provided: <";
    assert!(error["message"].as_str().is_some_and(|text| text.starts_with(message)), "{error}");
    let error = usage(&["statsu", "--json"]);
    assert_eq!(error["hint"], "a similar subcommand exists: 'status'");
}

#[test]
fn simulations_of_earlier_versions_can_be_resumed() {
    let env = TestEnv::with_repo();
    let body =
        "ask [shape=hexagon, label=\"Go?\"] code [prompt=Work] start -> ask  ask -> code [label=Yes]  code -> exit";
    env.run(&graph("pretends", body), &[]).expect(4);
    // They did not record who worked then.
    env.rewrite_record(&env.repo_path(), &env.session(), "s/\"agent\": *\"simulation\",\\?//");
    assert!(env.story().first("PipelineStarted")["config"]["agent"].is_null());
    std::fs::remove_file(env.root().join("config/pleach/config.yaml")).expect("the user's settings");
    env.resume(&["--auto-approve"]).expect(0).warns("simulation");
}

#[test]
fn n26_simulated_sessions_are_marked_and_commands_run() {
    let env = TestEnv::with_repo();
    let body = tool("work", "echo 1 > one.txt") + "code [prompt=\"Work\"] start -> code -> work -> exit";
    let ran = env.run(&graph("pretends", &body), &[]).expect(0);
    assert!(ran.stderr.contains("▸ code (agent, simulated)\n"), "{ran}");
    ran.warns("simulation");
    assert_eq!(env.committed("one.txt"), "1");
    let list = env.pleach(&["status"]).expect(0);
    assert!(list.stdout.contains("  pretends (simulated)  ready to land"), "{list}");
    assert_eq!(env.pleach(&["--json", "status"]).json()["sessions"][0]["simulated"], true);
    for page in ["README.md", "docs/agents.md", "examples/README.md"] {
        let text = std::fs::read_to_string(format!("{}/../{page}", env!("CARGO_MANIFEST_DIR"))).expect(page);
        let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("agent nodes are simulated, commands run for real"), "{page}");
    }
}
