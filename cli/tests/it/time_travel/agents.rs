//! Programs at a turn: answered from the record, or told what they did.

use agents::llm::wire::Format;
use agents::llm::{Message, Part, Response, Role, Stop};
use pleach_core::event::Usage;
use serde_json::{Value, json};

use crate::fake_agent;
use crate::server::{Play, Server};
use crate::sessions::{Story, graph};
use crate::support::TestEnv;

const KEY: &str = "sk-test-0123456789abcdef";

const ONE: &str = "code [prompt=\"Work\", agent=worker] start -> code -> exit";

/// The languages of model servers, as in the tests of the gateway.
const LANGUAGES: [(&str, &str, Format); 4] = [
    ("anthropic", "anthropic", Format::Anthropic),
    ("responses", "openai", Format::Responses),
    ("chat", "compatible", Format::Chat),
    ("gemini", "gemini", Format::Gemini),
];

/// A model that has three files written, one after the other, and a program that asks it.
fn world(language: &str, provider: &str, format: Format) -> (TestEnv, Server) {
    let server = Server::start(move |seen, _| {
        let text = seen.body.to_string();
        let number = (1..=3).find(|number| !text.contains(&format!("call-{number}"))).unwrap_or(4);
        let content = if seen.body.get("tools").is_none() {
            vec![Part::text("A title.")]
        } else if number < 4 {
            let command = format!("echo {number} >> n{number}.txt; date +%s%N > when.txt");
            vec![
                Part::text(format!("Write {number}.")),
                Part::tool_call(format!("call-{number}"), "Bash", json!({"command": command})),
            ]
        } else {
            vec![Part::text("All there.")]
        };
        let asks = content.iter().any(|part| matches!(part, Part::ToolCall { .. }));
        let stop = if asks { Stop::ToolCalls } else { Stop::End };
        let usage = Usage { input: 1, ..Usage::default() };
        let message = Message::new(Role::Assistant, content);
        let reply = Response { message, usage, model: "m-1".into(), stop, extra: Default::default() };
        let events = format.stream_reply(&format.encode_reply(&reply));
        Play::Stream(events.iter().map(|event| event.to_text()).collect())
    });
    let env = TestEnv::with_repo();
    let program = json!([fake_agent::path(), env.write("play", format!("converse {language}\n"))]);
    env.configure(&format!(
        "agents: {{worker: {{command: {program}, turns: gateway, provider: {provider}}}}}\nsandbox: {{mode: off}}\n\
         providers: {{{provider}: {{settings: {{api_base: '{}', api_key_command: echo {KEY}}}}}}}\n",
        server.url()
    ));
    (env, server)
}

/// The warnings of a context.
fn warnings(env: &TestEnv, context: &str) -> Vec<(String, String)> {
    Story::in_context(env, &env.repo_path(), &env.session(), context).warnings()
}

#[test]
fn no_call_before_t() {
    for (language, provider, format) in LANGUAGES {
        let (env, server) = world(language, provider, format);
        // Some ask for a title first, in the words of their task.
        env.write("play", format!("say {language} \"A title\"\nconverse {language}\n"));
        env.run(&graph("p", ONE), &[]).expect(0);
        assert_eq!(server.seen().len(), 5, "{language}");
        let when = env.git(&["show", &format!("{}~1:when.txt", env.branch())]);
        env.replay(&["--turn", "2", "--via", "redrive"]).expect(0);
        assert_eq!(server.seen().len(), 7, "{language}: two calls are live");
        assert_eq!(env.turns_of("r1"), ["r1.3", "r1.4"], "{language}: what is repeated is not recorded again");
        let fork = Story::in_context(&env, &env.repo_path(), &env.session(), "r1").last("ContextForked");
        let base = fork["base"].as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned();
        assert_eq!(
            env.git(&["show", &format!("{base}:when.txt")]),
            when,
            "{language}: the tree at the turn is the turn's"
        );
        assert_eq!((env.on("--r1", "n1.txt").as_str(), env.on("--r1", "n3.txt").as_str()), ("1", "3"));
        let differs: Vec<_> = warnings(&env, "r1").into_iter().filter(|(code, _)| code == "replay-differs").collect();
        assert!(differs.len() == 1 && differs[0].1.contains("refs/pleach/keep/"), "{language}: {differs:?}");
        env.assert_no_process_left();
    }
}

#[test]
fn without_a_closed_network_tools_do_not_run_again() {
    let (env, server) = world("chat", "compatible", Format::Chat);
    env.run(&graph("p", ONE), &[]).expect(0);
    env.replay(&["--turn", "2"]).expect(0);
    let told = warnings(&env, "r1");
    assert!(told.iter().any(|(code, text)| code == "replay-retold" && text.contains("--via redrive")), "{told:?}");
    let first: Value = server.seen()[4].body.clone();
    let asked = first.to_string();
    assert!(asked.contains("was interrupted") && asked.contains("Write 2."), "{asked}");
    assert_eq!(env.on("--r1", "n3.txt"), "3");
    env.replay(&["--turn", "2", "--via", "summary"]).expect(0);
    assert!(warnings(&env, "r2").iter().all(|(code, _)| code != "replay-retold"), "it was asked for");
}

#[test]
fn each_divergence_goes_on_retold() {
    let (env, server) = world("chat", "compatible", Format::Chat);
    env.run(&graph("p", ONE), &[]).expect(0);
    // What the program does instead, and what is said of it.
    let table = [
        ("print done\n", "has ended after replaying call 0 of 2"),
        ("begin chat \"Another task\"\nbegin chat \"And another\"\nconverse chat\n", "call"),
    ];
    for (number, (play, why)) in (1..).zip(table) {
        env.write("play", format!("if prompt interrupted\nconverse chat\nelse\n{play}end\n"));
        let before = server.seen().len();
        env.replay(&["--turn", "2", "--via", "redrive"]).expect(0);
        let root = format!("r{number}");
        let told = warnings(&env, &root);
        let text = told.iter().find(|(code, _)| code == "replay-diverged").map(|(_, text)| text.as_str());
        assert!(text.is_some_and(|text| text.contains(why)), "{play}: {told:?}");
        assert!(
            server.seen()[before].body.to_string().contains("was interrupted"),
            "{play}: nothing else was asked live"
        );
        assert_eq!(env.on(&format!("--{root}"), "n3.txt"), "3", "{play}");
    }
}

#[test]
fn redacted_tapes_are_not_played() {
    let (env, _server) = world("chat", "compatible", Format::Chat);
    env.write("play", "converse chat\n");
    let secret = "SECRET_NUMBER=echo";
    env.pipeline(&graph("p", ONE));
    let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
    let (name, value) = secret.split_once('=').unwrap();
    command.env(format!("{name}_TOKEN"), format!("{value} 1 >> n1.txt; date"));
    env.finish(command.output().expect("pleach can be started")).expect(0);
    env.replay(&["--turn", "2", "--via", "redrive"]).expect(0);
    let told = warnings(&env, "r1");
    assert!(
        told.iter().any(|(code, text)| code == "replay-retold" && text.contains("leaves a secret out")),
        "{told:?}"
    );
}

#[test]
fn another_agent_in_the_middle_is_told() {
    let (env, server) = world("chat", "compatible", Format::Chat);
    env.run(&graph("p", "code [prompt=\"Work\"] start -> code -> exit"), &["--agent", "worker"]).expect(0);
    let asked = server.seen().len();
    env.replay(&["--turn", "1", "--agent", "simulation"]).expect(0);
    assert_eq!(server.seen().len(), asked, "the simulation asks no model");
    assert_eq!(env.on("--r1", "n1.txt"), "1");
}
