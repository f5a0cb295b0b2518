//! What a model costs, what is billed, and limits that hold.

use serde_json::{Value, json};

use crate::fake_agent;
use crate::providers::{answer_of, text, write};
use crate::server::{Play, Seen, Server};
use crate::sessions::graph;
use crate::support::{Ran, TestEnv};

/// A server whose model calls itself `model`, and writes one file after another.
fn server(model: &'static str) -> Server {
    Server::start(move |seen: &Seen, _| -> Play {
        let turns = seen.body["messages"].as_array().map_or(0, Vec::len) / 2;
        match turns {
            9.. => answer_of(model, &[text("Done.")]),
            turn => answer_of(model, &[text("I go on."), write(&format!("{turn}.txt"))]),
        }
    })
}

/// The built-in agent asks `model` of the server, under this budget, with further settings of the provider.
fn run(env: &TestEnv, server: &Server, model: &str, budget: &str, more: &str) -> Ran {
    env.configure(&format!(
        "agent: builtin\nbudget: {budget}\nproviders:\n  default: anthropic\n  anthropic:\n    models: {{worker: '{model}'}}\n    \
         settings: {{api_base: '{}', api_key_command: echo sk-ant-test}}\n{more}",
        server.url()
    ));
    env.run(&graph("work", "work [prompt=\"Work\"] start -> work -> exit"), &[])
}

#[test]
fn n02_an_unpriced_model_is_refused_under_a_dollar_limit() {
    let (env, server) = (TestEnv::with_repo(), server("mystery-1"));
    let ran = run(&env, &server, "mystery-1", "{usd: 1}", "").expect(2);
    assert!(ran.stderr.contains("the price of `mystery-1` is unknown"), "{ran}");
    ran.fails_with("price-unknown").naming("`budget.tokens`");
    assert!(ran.stderr.contains("`providers.NAME.prices.mystery-1`"), "{ran}");
    assert_eq!((server.seen().len(), env.sessions().len()), (0, 0), "nothing has begun");
    let priced = "    prices: {mystery-1: {input: 100, output: 0}}\n";
    run(&env, &server, "mystery-1", "{usd: 9}", priced).expect(0);
    run(&env, &server, "mystery-1", "{usd: 1, on_exceeded: warn}", "").expect(0);
    run(&env, &server, "mystery-1", "{tokens: 100000}", "").expect(0);
}

#[test]
fn n02_a_program_with_unpriced_model_is_stopped_first() {
    let (env, server) = (TestEnv::with_repo(), server("mystery-1"));
    let program = json!([fake_agent::path(), env.write("play", "converse anthropic\n")]);
    env.configure(&format!(
        "agents: {{worker: {{command: {program}, turns: gateway, provider: anthropic}}}}\nsandbox: {{mode: off}}\n\
         budget: {{usd: 1}}\nproviders: {{anthropic: {{settings: {{api_base: '{}', api_key_command: echo sk-ant-test}}}}}}\n",
        server.url()
    ));
    let ran = env.run(&graph("work", "work [prompt=\"Work\", agent=worker] start -> work -> exit"), &[]).expect(7);
    ran.fails_with("agent-unusable").naming("`fake`");
    assert_eq!(server.seen().len(), 0);
}

#[test]
fn n02_the_price_of_the_requested_name_counts() {
    let (env, server) = (TestEnv::with_repo(), server("Qwen/Qwen3-Coder-480B"));
    // A call is 1,100 tokens, so each costs a dollar and ten cents.
    let priced = "    prices: {qwen: {input: 1000, output: 1000}}\n";
    let ran = run(&env, &server, "qwen", "{usd: 2}", priced).expect(1);
    assert!(ran.stdout.contains("$2.20 of $2.00 (`budget.usd`)"), "{ran}");
    assert_eq!(server.seen().iter().filter(|seen| seen.body["model"] == "qwen").count(), 2);
}

#[test]
fn n02_an_unknown_version_costs_its_familys_highest_price() {
    let (env, server) = (TestEnv::with_repo(), server("claude-sonnet-99"));
    let ran = run(&env, &server, "claude-sonnet-99", "{usd: 0.01}", "").expect(1);
    ran.warns("price-estimated").naming("`claude-sonnet-99`");
    let turns = env.story().all("AgentTurn").into_iter().cloned().collect::<Vec<_>>();
    // 1,000 tokens of input at $3 and 100 of output at $15 for a million.
    assert_eq!(turns.len(), 3, "three calls of $0.0045 reach the limit");
    let cost = |turn: &Value| (turn["cost_usd"].as_f64().unwrap_or_default() * 1e6).round();
    assert!(turns.iter().all(|turn| turn["estimated"] == true && cost(turn) == 4500.0), "{turns:?}");
    let costs = env.pleach(&["cost"]).expect(0);
    assert!(costs.stdout.contains("~$0.01"), "{costs}");
}

#[test]
fn n02_an_unpriced_cheap_model_writes_no_messages() {
    let (env, server) = (TestEnv::with_repo(), server("claude-sonnet-4-5"));
    env.configure(&format!(
        "agent: builtin\nbudget: {{usd: 9}}\nproviders:\n  default: anthropic\n  anthropic:\n    \
         models: {{worker: claude-sonnet-4-5, cheap: mystery-1}}\n    \
         settings: {{api_base: '{}', api_key_command: echo sk-ant-test}}\n",
        server.url()
    ));
    let ran = env.run(&graph("work", "work [prompt=\"Work\"] start -> work -> exit"), &[]).expect(0);
    assert!(server.seen().iter().all(|seen| seen.body["model"] == "claude-sonnet-4-5"), "{ran}");
    assert_eq!(ran.stderr.matches("the price of `mystery-1` is unknown").count(), 1, "{ran}");
}

#[test]
fn n02_an_unpriced_planner_is_refused_under_dollar_limits() {
    let (env, server) = (TestEnv::with_repo(), server("mystery-1"));
    env.configure(&format!(
        "agent: builtin\nbudget: {{usd: 5}}\nproviders:\n  default: anthropic\n  anthropic:\n    models: {{smart: mystery-1, \
         worker: mystery-1}}\n    settings: {{api_base: '{}', api_key_command: echo sk-ant-test}}\n",
        server.url()
    ));
    env.write("repo/spec/plan.md", "Plant a hedge.\n");
    let ran = env.pleach(&["-y", "build", "--spec-dir", "spec"]);
    assert_ne!(ran.code, 0, "{ran}");
    ran.fails_with("budget-reached").naming("`mystery-1`");
    assert_eq!(server.seen().len(), 0, "{ran}");
}

#[test]
fn n02_a_price_has_both_halves() {
    let (env, server) = (TestEnv::with_repo(), server("mystery-1"));
    let ran = run(&env, &server, "mystery-1", "{usd: 1}", "    prices: {mystery-1: {input: 3}}\n").expect(2);
    ran.fails_with("settings-invalid").naming("`input`").naming("`output`");
}

/// A Codex that says what it used.
fn codex(env: &TestEnv, config: &str) -> Ran {
    let used = json!({"type": "turn.completed", "usage": {"input_tokens": 9_000_000, "cached_input_tokens": 0, "output_tokens": 10}});
    let said = json!({"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "Done."}});
    let begun = json!({"type": "thread.started", "thread_id": "t"});
    env.write_program(
        "bin/codex",
        &format!("#!/bin/sh\n[ \"$1\" != --version ] || exec echo codex-cli 0.166.0\ncat > /dev/null\necho '{begun}'\necho '{{\"type\":\"turn.started\"}}'\necho '{said}'\necho '{used}'\n"),
    );
    env.configure(&format!(
        "agent: codex\nsandbox: {{mode: off}}\nbudget: {{usd: 1}}\nagents: {{codex: {{turns: node{config}}}}}\n"
    ));
    env.pipeline(&graph("work", "one [prompt=\"Work\"] two [prompt=\"Work\"] start -> one -> two -> exit"));
    let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
    env.finish(command.env("OPENAI_API_KEY", "sk-never-shown").output().expect("pleach can be started"))
}

#[test]
fn n02_a_program_outside_the_gateway_obeys_dollar_limits() {
    let env = TestEnv::with_repo();
    let named = codex(&env, ", model: mystery-9").expect(2);
    named.fails_with("price-unknown").naming("`mystery-9`");
    assert!(env.sessions().is_empty());
    // Which model it is shows only when it has worked.
    let unnamed = codex(&env, "");
    assert_ne!(unnamed.code, 0, "{unnamed}");
    assert_eq!(env.story().all("AgentTurn").len(), 1, "the second node does not begin: {unnamed}");
}

mod who_pays {
    //! Keys, logins, and nobody.

    use serde_json::json;

    use crate::fake_agent;
    use crate::server::{Play, Server};
    use crate::sessions::graph;
    use crate::support::{Ran, TestEnv};

    /// A Claude Code that says this at its end.
    fn claude(env: &TestEnv, end: &str) {
        env.write_program(
            "bin/claude",
            &format!("#!/bin/sh\n[ \"$1\" != --version ] || exec echo 2.9.9\ncat > /dev/null\necho '{end}'\n"),
        );
        env.configure("agent: claude\nsandbox: {mode: off}\n");
        env.pipeline(&graph("work", "work [prompt=\"Work\"] start -> work -> exit"));
    }

    fn done() -> String {
        json!({"type": "result", "subtype": "success", "is_error": false, "result": "Nothing to do.", "session_id": "s",
            "total_cost_usd": 0.5, "usage": {"input_tokens": 1000, "output_tokens": 10}})
        .to_string()
    }

    fn refused() -> String {
        json!({"type": "result", "subtype": "success", "is_error": true, "api_error_status": 401, "session_id": "s",
            "result": "Failed to authenticate. API Error: 401 invalid x-api-key"})
        .to_string()
    }

    fn run(env: &TestEnv, key: Option<&str>, more: &[&str]) -> Ran {
        let mut args = vec!["-y", "run", "../pipeline.dot"];
        args.extend(more);
        let mut command = env.command(&args);
        command.envs(key.map(|key| (key, "sk-ant-never-shown")));
        env.finish(command.output().expect("pleach can be started"))
    }

    #[test]
    fn n03_without_key_and_login_nothing_starts() {
        let env = TestEnv::with_repo();
        claude(&env, &done());
        for more in [&[][..], &["--dry-run"]] {
            let ran = run(&env, None, more).expect(7);
            ran.fails_with("agent-unpaid").naming("Claude Code has no key and no login");
            let how = "run `claude` once and log in, or set ANTHROPIC_API_KEY";
            assert!(ran.stderr.contains(how), "{ran}");
        }
        assert!(env.sessions().is_empty());
        // What its user has set up there may be another way.
        env.write("home/.claude/settings.json", "{}");
        assert!(run(&env, None, &[]).expect(0).stderr.contains("no login or key was found"));
    }

    #[test]
    fn n03_a_login_with_hooks_is_used_without_billing() {
        let env = TestEnv::with_repo();
        claude(&env, &done());
        env.log_in();
        let planned = run(&env, None, &["--dry-run"]).expect(0);
        let told = "agent claude (turns: hooks), on the login in your home, not billed by the token; set \
                    ANTHROPIC_API_KEY to use a key";
        assert!(planned.stdout.contains(told), "{planned}");
        let ran = run(&env, None, &[]).expect(0);
        assert!(ran.stderr.contains("(turns: hooks), on the login in your home, not billed by the token"), "{ran}");
        assert!(ran.stdout.contains("tokens, not billed"), "{ran}");
        assert_eq!(env.story().first("AgentTurn")["unbilled"], true);
        let session = env.session();
        for args in [&["cost"][..], &["status"], &["status", &session], &["show", &format!("{session}/1")]] {
            let shown = env.pleach(args).expect(0);
            assert!(shown.stdout.contains("not billed") && !shown.stdout.contains("$0.50"), "{shown}");
        }
        let costs = env.pleach(&["cost", "--json"]).expect(0).json();
        assert_eq!(costs["total"]["unbilled_turns"], 1, "{costs:#}");
    }

    #[test]
    fn n03_a_key_overrides_a_login_with_a_message() {
        let env = TestEnv::with_repo();
        claude(&env, &done());
        env.log_in();
        let planned = run(&env, Some("ANTHROPIC_API_KEY"), &["--dry-run"]).expect(0);
        let told = "agent claude (turns: gateway), billed to ANTHROPIC_API_KEY through the gateway; unset \
                    ANTHROPIC_API_KEY to use the login in your home";
        assert!(planned.stdout.contains(told), "{planned}");
        let json = run(&env, Some("ANTHROPIC_API_KEY"), &["--dry-run", "--json"]).expect(0).json();
        let nodes = json["nodes"].as_array().unwrap();
        let billed = nodes.iter().find(|node| node["id"] == "work").unwrap()["billed"].clone();
        assert_eq!(billed, "billed to ANTHROPIC_API_KEY through the gateway", "{json:#}");
    }

    #[test]
    fn n03_a_key_or_login_that_is_refused_is_named() {
        let env = TestEnv::with_repo();
        claude(&env, &refused());
        env.configure("agent: claude\nagents: {claude: {turns: node}}\nsandbox: {mode: off}\n");
        let ran = run(&env, Some("ANTHROPIC_API_KEY"), &[]).expect(7);
        ran.fails_with("agent-unusable").naming("401 invalid").naming("ANTHROPIC_API_KEY").naming("`claude`");
        let env = TestEnv::with_repo();
        claude(&env, &refused());
        env.log_in();
        let ran = run(&env, None, &[]).expect(7);
        ran.fails_with("agent-unusable").naming("`claude`");
    }

    #[test]
    fn n03_a_refused_key_behind_the_gateway_is_named() {
        let env = TestEnv::with_repo();
        let server = Server::start(|_, _| {
            let body =
                json!({"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}});
            Play::Answer(401, vec![("content-type", "application/json".into())], body.to_string())
        });
        let play = env.write("play", "converse anthropic\n");
        let (agent, end) = (fake_agent::path().display(), env.write("end", refused()));
        env.write_program(
            "bin/claude",
            &format!(
                "#!/bin/sh\n[ \"$1\" != --version ] || exec echo 2.9.9\n'{agent}' '{}' >&2\ncat '{}'\n",
                play.display(),
                end.display()
            ),
        );
        env.configure(&format!(
            "agent: claude\nsandbox: {{mode: off}}\nproviders: {{anthropic: {{base_url: '{}'}}}}\n",
            server.url()
        ));
        env.pipeline(&graph("work", "work [prompt=\"Work\"] start -> work -> exit"));
        let ran = run(&env, Some("ANTHROPIC_API_KEY"), &[]).expect(7);
        ran.fails_with("agent-unusable").naming("401").naming("ANTHROPIC_API_KEY");
    }
}
