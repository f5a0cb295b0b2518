//! Agents that never stop: over a provider that fails, and without a sign of life.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fake_agent;
use crate::providers::{answer_of, text};
use crate::server::{Play, Seen, Server};
use crate::sessions::{Running, graph};
use crate::support::TestEnv;
use crate::terminal::Terminal;

/// The beginning of an answer that breaks off.
pub fn half(words: &str) -> Play {
    let Play::Stream(mut pieces) = answer_of("claude-sonnet-4-5", &[text(words)]) else { unreachable!("it streams") };
    pieces.truncate(3);
    Play::Cut(pieces)
}

/// Refuses a call.
pub fn refusal(status: u16, words: &str) -> Play {
    let body = json!({"type": "error", "error": {"type": "api_error", "message": words}});
    Play::Answer(status, vec![("content-type", "application/json".into())], body.to_string())
}

/// Whether a request is one of the agent's work: a title is asked for without tools.
pub fn brings_tools(seen: &Seen) -> bool {
    seen.body["tools"].as_array().is_some_and(|tools| !tools.is_empty())
}

/// What a proxy answers that wants a login.
pub fn page() -> Play {
    Play::Answer(200, vec![("content-type", "text/html".into())], "<html>please log in</html>".into())
}

/// A program behind the gateway that asks the server again and again until it is answered. `meanwhile` is what it does
/// after each failure.
fn looping(env: &TestEnv, server: &Server, meanwhile: &str, settings: &str) {
    let script = format!("prompt=$(cat); until printf %s \"$prompt\" | \"$@\"; do {meanwhile}; done");
    playing(env, server, &script, "converse anthropic", settings);
}

/// A program behind the gateway that plays the same again and again, whatever comes of it.
fn repeating(env: &TestEnv, server: &Server, play: &str, settings: &str) {
    playing(env, server, "while :; do \"$@\" < /dev/null 2> /dev/null; done", play, settings);
}

/// A shell script behind the gateway whose arguments play this.
fn playing(env: &TestEnv, server: &Server, script: &str, play: &str, settings: &str) {
    let program = json!(["sh", "-c", script, "sh", fake_agent::path(), env.write("play", format!("{play}\n"))]);
    env.configure(&format!(
        "agents: {{worker: {{command: {program}, turns: gateway, provider: anthropic{settings}}}}}\nsandbox: {{mode: off}}\n\
         providers: {{anthropic: {{settings: {{api_base: '{}', api_key_command: echo sk-ant-test}}}}}}\n",
        server.url()
    ));
}

fn work() -> String {
    graph("work", "work [prompt=\"Work\", agent=worker] start -> work -> exit")
}

#[test]
fn n01_a_loop_over_truncated_answers_ends_and_counts() {
    let env = TestEnv::with_repo();
    let server = Server::start(|_, _| half("I begin."));
    looping(&env, &server, ":", "");
    let ran = env.run(&work(), &[]).expect(7);
    let why = "10 calls in a row had no complete answer (`agents.*.max_failed_calls`), the last one because the \
        provider's answer broke off";
    assert!(ran.stderr.contains(why), "{ran}");
    assert_eq!(server.seen().len(), 10, "not one more");
    let turns = env.story().all("AgentTurn").into_iter().cloned().collect::<Vec<_>>();
    let spent = |turn: &Value| turn["token_usage"]["input"].as_u64().unwrap_or_default();
    assert_eq!(turns.iter().map(spent).sum::<u64>(), 10_000, "{turns:#?}");
    assert!(turns.len() >= 6, "all but a few are told as soon as they are known: {turns:#?}");
    let told = ran.stderr.matches("the provider's answers break off, retrying (1)").count();
    assert_eq!((told, ran.stderr.matches("retrying").count()), (1, 1), "one line, not one for each try: {ran}");
    assert!(env.pleach(&["cost"]).expect(0).stdout.contains("10"), "every call is in the costs");
    env.assert_no_process_left();
}

#[test]
fn n01_a_loop_over_refusals_ends_at_its_limit() {
    let env = TestEnv::with_repo();
    let server = Server::start(|_, _| refusal(500, "the server fell over"));
    looping(&env, &server, ":", ", max_failed_calls: 3");
    let ran = env.run(&work(), &[]).expect(7);
    ran.fails_with("agent-unusable").naming("3 calls");
    // In the provider's words.
    ran.fails_with("agent-unusable").naming("the server fell over");
    assert_eq!(ran.stderr.matches("provider answers 500, retrying (1)").count(), 1, "{ran}");
    assert_eq!(server.seen().len(), 3);
    env.configure(&env.read("pleach.yaml").replace("max_failed_calls: 3", "max_failed_calls: 0"));
    assert!(env.run(&work(), &[]).expect(2).stderr.contains("an agent needs at least one call"));
}

#[test]
fn n01_a_loop_over_unreadable_answers_is_ended() {
    let env = TestEnv::with_repo();
    let server = Server::start(|_, _| page());
    looping(&env, &server, ":", ", max_failed_calls: 4");
    let ran = env.run(&work(), &[]).expect(7);
    ran.fails_with("agent-unusable").naming("4 calls").naming("the provider's answer cannot be read");
    // In the words of whoever answers.
    ran.fails_with("agent-unusable").naming("<html>please log in</html>");
    assert_eq!(server.seen().len(), 4);
    env.assert_no_process_left();
}

#[test]
fn n01_answered_titles_do_not_offset_truncated_answers() {
    let env = TestEnv::with_repo();
    let server = Server::start(|seen, _| {
        if brings_tools(seen) { half("I begin.") } else { answer_of("claude-sonnet-4-5", &[text("A title")]) }
    });
    let title = env.write("title", "say anthropic Title\n");
    looping(&env, &server, &format!("\"$1\" {}", title.display()), ", max_failed_calls: 4");
    let ran = env.run(&work(), &[]).expect(7);
    let (main, titles): (Vec<_>, Vec<_>) = server.seen().into_iter().partition(brings_tools);
    assert_eq!(main.len(), 4, "{ran}");
    assert!(titles.len() >= 3, "{ran}");
    assert_eq!(ran.stderr.matches("retrying").count(), 1, "one line, not one for each try: {ran}");
}

#[test]
fn n01_a_loop_over_what_the_gateway_refuses_is_ended() {
    let cases = [
        ("say anthropic Hi \"{\\\"stream\\\": \\\"yes\\\"}\"", "`stream` must be true or false"),
        ("post anthropic /v1/complete", "the gateway forwards model calls, not POST /v1/complete"),
    ];
    for (play, why) in cases {
        let env = TestEnv::with_repo();
        let server = Server::start(|_, _| answer_of("claude-sonnet-4-5", &[text("Done.")]));
        repeating(&env, &server, play, "");
        let ran = env.run(&work(), &[]).expect(1);
        assert!(ran.stdout.contains("11 calls in a row had no complete answer") && ran.stdout.contains(why), "{ran}");
        assert!(server.seen().is_empty(), "{ran}");

        repeating(&env, &server, play, ", max_failed_calls: 1000000");
        let mut run = env.start(&work(), &[]);
        run.wait_for("▸ work");
        run.signal("INT");
        run.end_soon().expect(3);
        env.assert_no_process_left();
    }
}

#[test]
fn n01_refused_side_calls_end_nothing() {
    let env = TestEnv::with_repo();
    let probe = env.write("probe", "post anthropic /api/event_logging/batch\n");
    let command = format!("for n in 1 2 3 4 5 6; do {} {} || :; done", fake_agent::path().display(), probe.display());
    let call = json!({"type": "tool_use", "id": "c-1", "name": "Bash", "input": {"command": command}});
    let server = Server::start(move |_, before| match before {
        0 => answer_of("claude-sonnet-4-5", std::slice::from_ref(&call)),
        _ => answer_of("claude-sonnet-4-5", &[text("Done.")]),
    });
    looping(&env, &server, ":", ", max_failed_calls: 2");
    env.run(&work(), &[]).expect(0);
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn n01_an_agent_changing_files_between_failures_continues() {
    let env = TestEnv::with_repo();
    let server = Server::start(|_, before| match before {
        0..9 => refusal(500, "the server fell over"),
        _ => answer_of("claude-sonnet-4-5", &[text("Done.")]),
    });
    looping(&env, &server, "echo more >> progress.txt", ", max_failed_calls: 2");
    env.run(&work(), &[]).expect(0);
    assert_eq!(server.seen().len(), 10);
    assert_eq!(env.committed("progress.txt").lines().count(), 9);
}

/// Waits until the server was asked so often. Calls that are hung up on at once may be told of together.
fn asked(server: &Server, run: &mut Running<'_>, times: usize) {
    run.wait_for(", retrying (");
    while server.seen().len() < times {
        std::thread::yield_now();
    }
}

#[test]
fn n01_after_a_stop_the_next_call_is_refused() {
    for how in ["INT", "TERM", "pause"] {
        let env = TestEnv::with_repo();
        let server = Server::start(|_, _| half("I begin."));
        looping(&env, &server, "sleep 0.2", ", max_failed_calls: 1000000");
        let mut run = env.start(&work(), &[]);
        asked(&server, &mut run, 9);
        let status = env.pleach(&["status", &env.session(), "--json"]).expect(0).json();
        assert!(status.to_string().contains("input"), "{status:#}");
        let turns = env.story().all("AgentTurn").len();
        assert!(turns >= 2, "calls without an answer count while it goes on: {turns}");
        match how {
            "pause" => drop(env.pleach(&["pause", &env.session()]).expect(0)),
            signal => run.signal(signal),
        }
        let before = server.seen().len();
        let ran = run.end().expect(3);
        let seen = server.seen().len();
        assert!(seen <= before + 3, "{how}: {seen} calls, {before} of them before it, {ran}");
        let spent: u64 =
            env.story().all("AgentTurn").iter().filter_map(|turn| turn["token_usage"]["input"].as_u64()).sum();
        assert_eq!(spent, seen as u64 * 1000, "{how}: every call is on record");
        env.assert_no_process_left();
    }
}

/// Starts an answer, counts what was sent, and says nothing more.
fn stall() -> Play {
    let usage = json!({"input_tokens": 50_000, "output_tokens": 1});
    let message = json!({"type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage});
    let begun = json!({"type": "message_start", "message": message});
    Play::Stall(vec![format!("event: message_start\ndata: {begun}\n\n")])
}

/// What all turns took of input, with what was spent beside them.
fn input(env: &TestEnv) -> u64 {
    let of = |call: &Value| call["token_usage"]["input"].as_u64().unwrap_or_default();
    let side = |turn: &Value| turn["side_calls"].as_array().map_or(0, |calls| calls.iter().map(of).sum());
    env.story().all("AgentTurn").into_iter().map(|turn| of(turn) + side(turn)).sum()
}

#[test]
fn n01_a_loop_of_aborted_calls_is_ended() {
    for (how, counted) in [(stall(), 500_000), (Play::Hang, 1)] {
        let env = TestEnv::with_repo();
        let server = Server::start(move |_, _| how.clone());
        playing(&env, &server, "\"$@\"", "abandon anthropic 40 200", "");
        let ran = env.run(&work(), &[]).expect(7);
        ran.fails_with("agent-unusable")
            .naming("calls in a row had no complete answer")
            .naming("the agent hung up before the answer was whole");
        assert!(server.seen().len() <= 11, "{} calls, {ran}", server.seen().len());
        assert!(input(&env) >= counted, "{}, {ran}", input(&env));
        env.assert_no_process_left();
    }
}

#[test]
fn n01_a_stop_does_not_wait_for_aborted_calls() {
    let env = TestEnv::with_repo();
    let server = Server::start(|_, _| stall());
    repeating(&env, &server, "abandon anthropic 1 200", ", max_failed_calls: 1000000");
    let mut run = env.start(&work(), &[]);
    asked(&server, &mut run, 5);
    let begun = Instant::now();
    run.signal("TERM");
    let ran = run.end_soon().expect(3);
    assert!(begun.elapsed() < Duration::from_secs(15), "{ran}");
    assert_eq!(input(&env), server.seen().len() as u64 * 50_000, "every call is on record: {ran}");
}

#[test]
fn n01_provider_counts_hold_the_next_call_at_limits() {
    let env = TestEnv::with_repo();
    let server = Server::start(|_, _| stall());
    playing(&env, &server, "\"$@\"", "abandon anthropic 40 200", "");
    env.configure(&format!("{}budget: {{tokens: 300000}}\n", env.read("pleach.yaml")));
    let ran = env.run(&work(), &[]).expect(7);
    // Each may take 64,000 tokens more than the 50,000 that its provider has counted.
    assert!(server.seen().len() <= 3, "{} calls, {ran}", server.seen().len());
    assert!(input(&env) >= 100_000, "{ran}");
}

#[test]
fn n01_the_live_line_shows_provider_failures() {
    let env = TestEnv::with_repo();
    let server = Server::start(|_, _| refusal(500, "the server fell over"));
    looping(&env, &server, "sleep 0.3", ", max_failed_calls: 1000");
    env.pipeline(&work());
    let Some(mut terminal) = Terminal::open(&env, "-y run ../pipeline.dot") else { return };
    terminal.wait_for("provider answers 500, retrying (3)");
    terminal.press("\u{3}");
    let (code, shown) = terminal.end();
    assert_eq!(code, 3, "{shown}");
}

/// A program that is silent on its streams.
fn silent(env: &TestEnv, script: &str, settings: &str) {
    let program = json!(["sh", "-c", script]);
    env.configure(&format!("agents: {{worker: {{command: {program}{settings}}}}}\nsandbox: {{mode: off}}\n"));
}

#[test]
fn n01_a_program_without_a_sign_of_life_is_ended() {
    let env = TestEnv::with_repo();
    silent(&env, "sleep 1000", ", idle_timeout: 1");
    let ran = env.run(&work(), &[]).expect(1);
    assert!(ran.stdout.contains("timed out after 1s without a sign of life"), "{ran}");
    env.assert_no_process_left();
}

#[test]
fn n01_changed_files_and_calls_are_signs_of_life() {
    let env = TestEnv::with_repo();
    silent(&env, "for n in 1 2 3 4 5 6 7; do sleep 1; mkdir -p deep; echo $n > deep/file; done", ", idle_timeout: 5");
    env.run(&work(), &[]).expect(0);
    assert_eq!(env.committed("deep/file"), "7");
    let server = Server::start(|_, before| match before {
        7.. => answer_of("claude-sonnet-4-5", &[text("Done.")]),
        turn => {
            let call =
                json!({"type": "tool_use", "id": format!("c-{turn}"), "name": "Bash", "input": {"command": "sleep 1"}});
            answer_of("claude-sonnet-4-5", &[call])
        }
    });
    let env = TestEnv::with_repo();
    looping(&env, &server, ":", ", idle_timeout: 5");
    env.run(&work(), &[]).expect(0);
}
