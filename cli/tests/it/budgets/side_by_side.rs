//! Programs that make many calls at once, or do not wait for what they asked, are held to their limits all the same.

use std::sync::Barrier;
use std::time::Duration;

use agents::llm::wire::Format;
use agents::llm::{Message, Response, Stop};
use pleach_core::event::Usage;
use serde_json::{Value, json};

use crate::fake_agent;
use crate::server::{Play, Seen, Server};
use crate::sessions::{Story, graph};
use crate::support::TestEnv;

/// What each call of the tests takes.
const TOKENS: u64 = 1000;

/// The price of a call, in the tests that have one.
const DOLLARS: f64 = 1.0;

/// A model that says what it took.
fn answers(seen: &Seen) -> Play {
    answer(seen, "An answer.", TOKENS)
}

fn answer(seen: &Seen, text: &str, tokens: u64) -> Play {
    let usage = Usage { input: tokens - 100, output: 100, ..Usage::default() };
    let message = Message::assistant(text);
    let reply = Response { message, usage, model: "fake".into(), stop: Stop::End, extra: Default::default() };
    let reply = Format::Chat.encode_reply(&reply);
    if seen.body["stream"] == true {
        Play::Stream(Format::Chat.stream_reply(&reply).iter().map(|event| event.to_text()).collect())
    } else {
        Play::Answer(200, vec![("content-type", "application/json".into())], reply.to_string())
    }
}

/// A model that takes its time.
fn slow() -> Server {
    Server::start(|seen, _| {
        std::thread::sleep(Duration::from_millis(250));
        answers(seen)
    })
}

/// A program that does these steps behind the gateway, with this budget.
fn program(server: &Server, steps: &str, budget: &str) -> TestEnv {
    program_with(server, steps, budget, "models: {}")
}

/// The same with one more setting of its provider.
fn program_with(server: &Server, steps: &str, budget: &str, more: &str) -> TestEnv {
    let env = TestEnv::with_repo();
    let program = json!([fake_agent::path(), env.write("play", steps)]);
    env.configure(&format!(
        "agents: {{worker: {{command: {program}, turns: gateway, provider: compatible}}}}\nsandbox: {{mode: off}}\n\
         budget: {budget}\nproviders:\n  default: compatible\n  compatible:\n    {more}\n    prices: {{fake: {{input: 1000, output: 1000}}}}\n    \
         settings: {{api_base: '{}', api_key_command: echo k}}\n",
        server.url()
    ));
    env
}

fn work() -> String {
    graph("work", " work [prompt=\"Work\", agent=worker]\n start -> work -> exit")
}

/// All tokens on record, those beside the turns included.
fn tokens(story: &Story) -> u64 {
    let of = |usage: &Value| usage["input"].as_u64().unwrap_or_default() + usage["output"].as_u64().unwrap_or_default();
    let aside = |turn: &Value| {
        turn["side_calls"].as_array().into_iter().flatten().map(|call| of(&call["token_usage"])).sum::<u64>()
    };
    story.all("AgentTurn").iter().map(|turn| of(&turn["token_usage"]) + aside(turn)).sum()
}

#[test]
fn abandoned_calls_are_counted() {
    let server = slow();
    let env = program(&server, "abandon chat 40 100\n", "{tokens: 1500}");
    let ran = env.run(&work(), &[]).expect(1);
    assert!(ran.stdout.contains("2000 of 1500 tokens (`budget.tokens`)"), "{ran}");
    assert_eq!((server.seen().len(), tokens(&env.story())), (2, 2 * TOKENS), "{ran}");
    env.assert_no_process_left();
}

#[test]
fn calls_in_flight_when_the_program_ends_count() {
    let server = slow();
    let env = program(&server, "abandon chat 1 100\n", "{tokens: 9000}");
    let ran = env.run(&work(), &[]).expect(0);
    assert_eq!((server.seen().len(), tokens(&env.story())), (1, TOKENS), "{ran}");
    assert!(env.story().warnings().is_empty(), "nothing had to be estimated: {ran}");
}

#[test]
fn a_burst_of_calls_oversteps_a_limit_by_one_call() {
    let in_dollars = format!("{{usd: {}}}", 1.5 * DOLLARS);
    for (budget, more, word) in [
        ("{tokens: 1500}", "", "2000 of 1500 tokens"),
        ("{tokens: 1500}", r#" "{\"max_tokens\": 64000}""#, "2000 of 1500 tokens"),
        (in_dollars.as_str(), "", "$2.00 of $1.50"),
        ("{per_day_tokens: 1500}", "", "2000 of 1500 tokens"),
    ] {
        let server = slow();
        let env = program(&server, &format!("burst chat 60{more}\n"), budget);
        let ran = env.run(&work(), &[]).expect(1);
        assert!(ran.stdout.contains(word), "{budget}: {ran}");
        let story = env.story();
        assert_eq!((server.seen().len(), tokens(&story)), (2, 2 * TOKENS), "{budget}: {ran}");
        assert_eq!(story.all("BudgetExceeded").len(), 1, "{budget}");
        env.assert_no_process_left();
    }
}

#[test]
fn parallel_calls_within_a_limit_are_made_at_once() {
    const CALLS: usize = 12;
    // The second case says how much it may be answered, and fits for that.
    for (budget, more) in [("{tokens: 1000000}", ""), ("{tokens: 14000}", r#" "{\"max_tokens\": 1000}""#)] {
        let all = Barrier::new(CALLS);
        let server = Server::start(move |seen, _| {
            // None is answered before all have asked.
            all.wait();
            answers(seen)
        });
        let env = program(&server, &format!("burst chat {CALLS}{more}\n"), budget);
        let ran = env.run(&work(), &[]).expect(0);
        assert_eq!(tokens(&env.story()), CALLS as u64 * TOKENS, "{budget}: {ran}");
        assert!(!ran.stdout.contains("budget"), "{ran}");
    }
}

#[test]
fn a_finished_run_reports_overspending() {
    for (budget, word) in [("{tokens: 600}", "1000 of 600 tokens"), ("{per_day_usd: 0.5}", "$1.00 of $0.50")] {
        let server = Server::start(|seen, _| answers(seen));
        let env = program(&server, "say chat Hello\n", budget);
        let ran = env.run(&work(), &[]).expect(0);
        assert!(ran.stdout.contains("done: session ") && ran.stdout.contains(word), "{ran}");
        let two = " one [prompt=a, agent=worker]\n two [prompt=b, agent=worker]\n start -> one -> two -> exit";
        let next = env.run(&graph("next", two), &[]).expect(1);
        assert!(next.stdout.contains("failed: ") && next.stdout.contains(word), "nothing is left for another: {next}");
    }
}

#[test]
fn a_commit_message_uses_only_what_uncounted_calls_leave() {
    const MESSAGE: u64 = 300;
    let served = |limit: u64| {
        let server = Server::start(|seen, _| {
            // One that cannot be used.
            if seen.body["model"] == "cheap" { answer(seen, "auto-commit", MESSAGE) } else { answers(seen) }
        });
        // Conversations that start side by side are turns only when the program has ended.
        let steps = r#"write made.txt 1
            burst chat 3 "{\"max_tokens\": 100}"
            "#;
        let more = "models: {cheap: cheap}";
        let env = program_with(&server, steps, &format!("{{tokens: {limit}}}"), more);
        (server, env)
    };
    for (limit, messages) in [(3 * TOKENS, 0), (3 * TOKENS + 1, 1), (3 * TOKENS + MESSAGE + 1, 2)] {
        let (server, env) = served(limit);
        let ran = env.run(&work(), &[]);
        let asked = server.seen().iter().filter(|seen| seen.body["model"] == "cheap").count();
        assert_eq!((server.seen().len() - asked, asked), (3, messages), "{limit}: {ran}");
        assert_eq!(env.committed("made.txt"), "1", "{ran}");
    }
}
