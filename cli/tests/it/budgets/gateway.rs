//! Programs behind the gateway are held to the same limits, over a kill and beside another process.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agents::llm::wire::Format;
use agents::llm::{Message, Response, Stop};
use pleach_core::event::Usage;
use serde_json::{Value, json};

use super::spent;
use crate::fake_agent;
use crate::providers::{answer_of, text};
use crate::server::{Play, Seen, Server};
use crate::sessions::{Gate, Story, graph};
use crate::support::TestEnv;

const MODEL: &str = "claude-sonnet-4-5";

/// What a call of [`command`] takes, and at the price of [`configure`] it is a dollar.
const TOKENS: u64 = 1100;

/// A call that lets the program run a command.
fn command(command: &str) -> Play {
    let input = json!({"command": command});
    answer_of(MODEL, &[text("I go on."), json!({"type": "tool_use", "id": "c", "name": "Bash", "input": input})])
}

/// How many answers the program has had before it asked this.
fn step(seen: &Seen) -> usize {
    seen.body["messages"].as_array().map_or(0, Vec::len) / 2
}

/// An agent program that talks to the server through the gateway, with this budget.
fn configure(env: &TestEnv, server: &Server, budget: &str) {
    let program = json!([fake_agent::path(), env.write("play", "converse anthropic\n")]);
    env.configure(&format!(
        "agents: {{worker: {{command: {program}, turns: gateway, provider: anthropic}}}}\nsandbox: {{mode: off}}\n\
         budget: {budget}\nproviders:\n  anthropic:\n    prices: {{{MODEL}: {{input: 1000, output: 0}}, fake: {{input: 1000, output: 0}}}}\n    \
         settings: {{api_base: '{}', api_key_command: echo sk-ant-test}}\n",
        server.url()
    ));
}

fn work(name: &str) -> String {
    graph(name, &format!(" work [prompt=\"Work as {name}\", agent=worker]\n start -> work -> exit"))
}

fn tokens(story: &Story) -> u64 {
    let of = |turn: &Value| ["input", "output"].map(|kind| turn["token_usage"][kind].as_u64().unwrap_or_default());
    story.all("AgentTurn").iter().flat_map(|turn| of(turn)).sum()
}

#[test]
fn killed_and_resumed_a_program_stops_within_one_call() {
    const LIMIT: u64 = 3 * TOKENS + 200;
    for in_call in [false, true] {
        let env = TestEnv::with_repo();
        let gate = Gate::new(&env, "third");
        let wait = gate.command();
        let hung = AtomicBool::new(false);
        let server = Server::start(move |seen, _| match step(seen) {
            2 if in_call && !hung.swap(true, Ordering::SeqCst) => Play::Hang,
            2 if !in_call => command(&wait),
            20.. => answer_of(MODEL, &[text("Done.")]),
            step => command(&format!("echo {step} > {step}.txt")),
        });
        configure(&env, &server, &format!("{{tokens: {LIMIT}}}"));
        let mut run = env.start(&work("one"), &[]);
        let held = if in_call {
            let deadline = Instant::now() + Duration::from_secs(30);
            while server.seen().len() < 3 {
                assert!(Instant::now() < deadline, "the third call did not come");
                std::thread::sleep(Duration::from_millis(5));
            }
            None
        } else {
            Some(gate.reached(&mut run))
        };
        run.kill(held);
        gate.stay_open();
        assert_eq!((server.seen().len(), tokens(&env.story())), (3, 2 * TOKENS), "in a call: {in_call}");
        let ran = env.resume(&[]).expect(1);
        assert!(ran.stdout.contains(&format!("{} of {LIMIT} tokens", 4 * TOKENS)), "{ran}");
        let story = env.story();
        assert_eq!(tokens(&story), 4 * TOKENS, "in a call: {in_call}");
        assert_eq!(server.seen().len(), 4 + 1, "only the call that was cut off is made again (in a call: {in_call})");
        assert_eq!(story.all("BudgetExceeded").len(), 1);
        env.resume(&[]).expect(1);
        assert_eq!(server.seen().len(), 5, "nothing is left to spend");
        env.assert_no_process_left();
    }
}

#[test]
fn parallel_helpers_overstep_a_limit_by_one_call_each() {
    // In the first case there is room for one helper at a time; in the second both are on their way when the limit is
    // reached, as their calls take more than their length says.
    for (limit, most, at_once) in [(TOKENS + 1, 2, false), (6 * TOKENS, 7, true)] {
        let env = TestEnv::with_repo();
        let both = Barrier::new(2);
        let server = Server::start(move |seen, before| {
            let asked = seen.body["messages"][0].to_string();
            let helper = ["one", "two"].into_iter().find(|name| asked.contains(&format!("Help with {name}")));
            let tool = |name: &str, input: Value| {
                let id = format!("c-{before}");
                answer_of(
                    MODEL,
                    &[text("I go on."), json!({"type": "tool_use", "id": id, "name": name, "input": input})],
                )
            };
            match (helper, step(seen)) {
                (None, 0) => tool("Task", json!({"prompts": ["Help with one", "Help with two"]})),
                (None, _) | (Some(_), 20..) => answer_of(MODEL, &[text("Done.")]),
                (Some(name), step) => {
                    if step == 0 && at_once {
                        // Neither is answered before both have asked.
                        both.wait();
                    }
                    tool("Bash", json!({"command": format!("echo {step} > {name}-{step}.txt")}))
                }
            }
        });
        configure(&env, &server, &format!("{{tokens: {limit}}}"));
        let ran = env.run(&work("one"), &[]).expect(1);
        let calls = server.seen().len() as u64;
        let least = limit.div_ceil(TOKENS);
        assert!((least..=most).contains(&calls), "{calls} calls with a limit of {limit}: {ran}");
        let story = env.story();
        assert_eq!(tokens(&story), calls * TOKENS, "every call is recorded: {ran}");
        assert_eq!(story.all("BudgetExceeded").len(), 1);
        assert!(ran.stdout.contains(&format!("of {limit} tokens (`budget.tokens`)")), "{ran}");
        env.assert_no_process_left();
    }
}

#[test]
fn two_processes_share_the_limit_of_a_day_by_program() {
    const LIMIT: usize = 9;
    let env = TestEnv::with_repo();
    let gates = ["one", "two"].map(|name| Gate::new(&env, name));
    let waits = [("as one", gates[0].command()), ("as two", gates[1].command())];
    let server = Server::start(move |seen, _| {
        let asked = seen.body["messages"].to_string();
        match step(seen) {
            0 => command(&waits.iter().find(|(name, _)| asked.contains(name)).expect("one of the two").1),
            30.. => answer_of(MODEL, &[text("Done.")]),
            step => command(&format!("echo {step} > {step}.txt")),
        }
    });
    configure(&env, &server, &format!("{{per_day_usd: {LIMIT}}}"));
    let mut runs = ["one", "two"].map(|name| {
        env.write(format!("{name}.dot"), work(name));
        env.spawn(&["-y", "run", &format!("../{name}.dot")])
    });
    // Both have made a call before either continues.
    let held: Vec<_> = runs.iter_mut().zip(&gates).map(|(run, gate)| gate.reached(run)).collect();
    for (gate, held) in gates.iter().zip(held) {
        gate.open(held);
    }
    for run in runs {
        let ran = run.end().expect(1);
        assert!(
            ran.stdout.contains("of this day (UTC)") && ran.stdout.contains("of $9.00"),
            "{ran} (or it is midnight)"
        );
    }
    let costs: Vec<f64> = env.sessions().iter().map(|sid| spent(&Story::of(&env, &env.repo_path(), sid))).collect();
    let calls = server.seen().len();
    assert!(costs.len() == 2 && costs.iter().all(|cost| *cost >= 1.0), "{costs:?}");
    assert!((LIMIT..=LIMIT + 2).contains(&calls), "at most one call each beyond the limit: {calls}, {costs:?}");
    assert_eq!(format!("{:.2}", costs.iter().sum::<f64>()), format!("{calls}.00"), "every call is recorded: {costs:?}");
    let third = env.pleach(&["-y", "run", "../one.dot"]).expect(1);
    assert!(third.stdout.contains("of this day (UTC)"), "{third}");
    assert_eq!(server.seen().len(), calls, "the day is over for everybody");
    env.assert_no_process_left();
}

/// How a model of the tests ends its streamed answers.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ending {
    /// It says what they took, if it is asked to.
    Told,
    /// It never says what they took.
    Untold,
    /// It continues forever after its last word.
    Open,
}

/// A program without tools that continues for eight calls, each with a long question, and a model that answers it.
fn talkative(ending: Ending, step: &str, limit: u64) -> (TestEnv, Server) {
    let server = Server::start(move |seen, _| {
        let message = Message::assistant("An answer.");
        let usage = Usage { input: 1000, output: 100, ..Usage::default() };
        let reply = Response { message, usage, model: "m-1".into(), stop: Stop::End, extra: Default::default() };
        let events = Format::Chat.stream_reply(&Format::Chat.encode_reply(&reply));
        let told = ending == Ending::Told && seen.body["stream_options"]["include_usage"] == true;
        let pieces = events.iter().map(|event| event.to_text());
        let pieces: Vec<String> =
            if told { pieces.collect() } else { pieces.filter(|piece| !piece.contains("prompt_tokens")).collect() };
        match ending {
            Ending::Open => Play::Stall(pieces.into_iter().filter(|piece| !piece.contains("[DONE]")).collect()),
            Ending::Told | Ending::Untold => Play::Stream(pieces),
        }
    });
    let env = TestEnv::with_repo();
    let question = "word ".repeat(800);
    let ask = |number: usize| step.replace("TEXT", &format!("\"{number}: {question}\"")) + "\n";
    let program = json!([fake_agent::path(), env.write("play", (1..=8).map(ask).collect::<String>())]);
    env.configure(&format!(
        "agents: {{worker: {{command: {program}, turns: gateway, provider: compatible}}}}\nsandbox: {{mode: off}}\n\
         budget: {{tokens: {limit}}}\nproviders:\n  compatible:\n    settings: {{api_base: '{}', api_key_command: echo k}}\n",
        server.url()
    ));
    (env, server)
}

#[test]
fn a_program_cannot_keep_to_itself_what_its_calls_take() {
    for options in [json!({"include_usage": false}), json!({"include_usage": 0}), json!([]), json!(null)] {
        let more = json!({"stream_options": options}).to_string().replace('"', "\\\"");
        let (env, server) = talkative(Ending::Told, &format!("say chat TEXT \"{more}\""), 2000);
        let ran = env.run(&work("one"), &[]).expect(1);
        assert!(ran.stdout.contains("2200 of 2000 tokens"), "{options}: {ran}");
        assert_eq!(server.seen().len(), 2, "{options}");
        let story = env.story();
        assert_eq!(tokens(&story), 2200, "{options}: exactly as told");
        assert!(story.all("AgentTurn").iter().all(|turn| turn.get("estimated").is_none()), "{options}");
    }
}

#[test]
fn uncounted_calls_count_by_length() {
    for (ending, step) in [(Ending::Untold, "say chat TEXT"), (Ending::Open, "leave chat TEXT")] {
        let (env, server) = talkative(ending, step, 2500);
        let ran = env.run(&work("one"), &[]).expect(1);
        assert!(ran.stdout.contains("of 2500 tokens (`budget.tokens`)"), "{ending:?}: {ran}");
        // The end of a call that is hung up on may be noticed only after the next one has come.
        let most = if ending == Ending::Open { 3 } else { 2 };
        let calls = server.seen().len();
        assert!((2..=most).contains(&calls), "{ending:?}: {calls} calls: {ran}");
        let story = env.story();
        let turns = story.all("AgentTurn");
        let marked = |turn: &&&Value| turn["estimated"] == true || turn["side_calls"][0]["estimated"] == true;
        assert!(turns.iter().any(|turn| marked(&turn)), "{ending:?}: {turns:?}");
        let warnings = story.warnings();
        let told = warnings.iter().filter(|(code, _)| code == "usage-estimated").count();
        assert_eq!(told, 1, "{ending:?}: {warnings:?}");
    }
}

#[test]
fn what_cannot_be_counted_is_refused() {
    for (language, more, word) in [
        ("chat", json!({"stream": 1}), "`stream` must be true or false"),
        ("chat", json!({"stream": "true"}), "`stream` must be true or false"),
        ("responses", json!({"background": true}), "`background`"),
        ("responses", json!({"background": 1}), "`background` must be true or false"),
    ] {
        let more = more.to_string().replace('"', "\\\"");
        let (env, server) = talkative(Ending::Told, &format!("say {language} TEXT \"{more}\""), 2000);
        env.run(&work("one"), &[]).expect(1);
        assert_eq!(server.seen().len(), 0, "{more}");
        let reason = env.story().node("work")["outcome"]["failure_reason"].as_str().unwrap().to_owned();
        assert!(reason.contains("400") && reason.contains(word), "{more}: {reason}");
    }
}
