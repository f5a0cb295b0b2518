//! Providers that fail, over the real programs: they break off, refuse the key, or speak one language of four. The
//! names start with what they show, as those with programs that play agents do.

use std::sync::{Arc, Condvar, Mutex};

use agents::llm::wire::Format;
use agents::llm::{Message, Part, Response, Role, Stop};
use pleach_core::event::Usage;
use serde_json::{Value, json};

use super::is_installed;
use crate::server::{Play, Seen, Server};
use crate::sessions::graph;
use crate::support::{Ran, TestEnv};

const KEY: &str = "sk-real-0123456789";

/// An agent with a provider it can speak to.
#[derive(Debug, Clone, Copy)]
struct Pair {
    agent: &'static str,
    provider: &'static str,
    key: &'static str,
    model: &'static str,
}

const fn pair(agent: &'static str, provider: &'static str, key: &'static str, model: &'static str) -> Pair {
    Pair { agent, provider, key, model }
}

const EACH: [Pair; 4] = [
    pair("claude", "anthropic", "ANTHROPIC_API_KEY", "claude-sonnet-4-5"),
    pair("codex", "openai", "OPENAI_API_KEY", "gpt-5.4"),
    pair("gemini", "gemini", "GEMINI_API_KEY", "gemini-2.5-pro"),
    pair("opencode", "openai", "OPENAI_API_KEY", "gpt-5.4"),
];

const OF_OPENCODE: [Pair; 4] = [
    pair("opencode", "anthropic", "ANTHROPIC_API_KEY", "claude-sonnet-4-5"),
    pair("opencode", "openai", "OPENAI_API_KEY", "gpt-5.4"),
    pair("opencode", "gemini", "GEMINI_API_KEY", "gemini-2.5-pro"),
    pair("opencode", "compatible", "COMPATIBLE_API_KEY", "mock-model"),
];

const CODEX_OVER_ACP: Pair = pair("acp:codex-acp", "openai", "OPENAI_API_KEY", "gpt-5.4");

/// Every agent with every provider it can speak to.
fn all() -> impl Iterator<Item = Pair> {
    EACH.into_iter().filter(|pair| pair.agent != "opencode").chain(OF_OPENCODE).chain([CODEX_OVER_ACP])
}

impl Pair {
    /// A world with this agent, whose provider is this server, if the program is installed.
    fn world(self, server: &Server, of_agent: &str) -> Option<TestEnv> {
        let env = TestEnv::with_repo();
        let Self { agent, provider, model, .. } = self;
        if !is_installed(&env, agent.trim_start_matches("acp:")) {
            return None;
        }
        // Codex cannot set bounds of its own below a directory for temporary files.
        let bounds = if agent == "codex" { "permission_mode: danger-full-access, " } else { "" };
        env.configure(&format!(
            "agent: worker\nagents: {{worker: {{runner: '{agent}', {bounds}{of_agent}}}}}\n\
             providers: {{{provider}: {{base_url: '{}', models: {{worker: {model}}}}}}}\n",
            server.url()
        ));
        let model = if agent.starts_with("acp:") { String::new() } else { format!(", llm_model=\"{model}\"") };
        env.pipeline(&graph("real", &format!("work [prompt=\"Write a file\"{model}] start -> work -> exit")));
        Some(env)
    }

    /// Runs its pipeline with its key.
    fn run(self, env: &TestEnv) -> Ran {
        self.pleach(env, &["-y", "run", "../pipeline.dot"])
    }

    fn pleach(self, env: &TestEnv, args: &[&str]) -> Ran {
        let mut command = env.command(args);
        env.finish(command.env(self.key, KEY).output().expect("pleach can be started"))
    }
}

/// The language of a call of a model; other requests have none.
fn language(seen: &Seen) -> Option<Format> {
    let path = seen.line.strip_prefix("POST ")?.split([' ', '?']).next()?;
    Some(match path {
        _ if path.ends_with("/messages") => Format::Anthropic,
        _ if path.ends_with("/responses") => Format::Responses,
        _ if path.ends_with("/chat/completions") => Format::Chat,
        _ if path.ends_with("enerateContent") => Format::Gemini,
        _ => return None,
    })
}

/// The calls of models so far.
fn calls(server: &Server) -> usize {
    server.seen().iter().filter(|seen| language(seen).is_some()).count()
}

/// What a call of the shell is for whoever sends these tools; nothing for one that sends none, such as for a title.
fn shell(seen: &Seen, command: &str) -> Option<Part> {
    let tools = seen.body["tools"].to_string();
    let has = |name: &str| tools.contains(&format!("\"name\":\"{name}\""));
    let described = json!({"command": command, "description": "Writes"});
    let plain = ["Bash", "bash", "run_shell_command"].into_iter().find(|name| has(name));
    let (name, arguments) = match plain {
        Some(name) => (name, described),
        None if has("exec_command") => ("exec_command", json!({"cmd": command})),
        None if has("shell_command") => ("shell_command", json!({"command": command})),
        None => return None,
    };
    Some(Part::tool_call("call-1", name, arguments))
}

/// The body of an answer in the language of the request, and the events of its stream if it asks for one.
fn reply(seen: &Seen, content: Vec<Part>) -> Option<(Value, Option<Vec<String>>)> {
    let format = language(seen)?;
    let stop = match content.last() {
        Some(Part::ToolCall { .. }) => Stop::ToolCalls,
        _ => Stop::End,
    };
    let usage = Usage { input: 1000, output: 10, ..Usage::default() };
    let model = seen.body["model"].as_str().unwrap_or("gemini-2.5-pro").to_owned();
    let message = Message::new(Role::Assistant, content);
    let mut body = format.encode_reply(&Response { message, usage, model, stop, extra: Default::default() });
    // Some programs pass over what has no id.
    body["id"] = "answer-1".into();
    for time in ["created", "created_at"] {
        body[time] = 1_700_000_000.into();
    }
    for (index, item) in body["output"].as_array_mut().into_iter().flatten().enumerate() {
        item["id"] = format!("item-{index}").into();
        item["status"] = "completed".into();
    }
    let is_streamed = seen.body["stream"] == true || seen.line.contains("streamGenerateContent");
    let events = is_streamed.then(|| format.stream_reply(&body).iter().map(|event| event.to_text()).collect());
    Some((body, events))
}

fn refusal(status: u16, words: &str) -> Play {
    let body = json!({"type": "error", "error": {"type": "e", "code": status, "message": words}});
    Play::Answer(status, vec![("content-type", "application/json".into())], body.to_string())
}

/// Answers as a provider does where all is well.
fn whole(seen: &Seen, content: Vec<Part>) -> Play {
    match reply(seen, content) {
        Some((_, Some(events))) => Play::Stream(events),
        Some((body, None)) => Play::Answer(200, vec![("content-type", "application/json".into())], body.to_string()),
        None => refusal(404, "nothing is here"),
    }
}

const HALF: &str = "It is nearly";

/// Ends its stream in order, but after the first words and without an end mark.
fn half(seen: &Seen) -> Play {
    match reply(seen, vec![Part::text(HALF)]) {
        Some((_, Some(mut events))) => {
            let words = events.iter().position(|event| event.contains(HALF)).expect("the words come in one event");
            events.truncate(words + 1);
            Play::Stream(events)
        }
        Some((_, None)) => Play::Drop,
        None => refusal(404, "nothing is here"),
    }
}

const FIRST: &str = "I write this file.";

/// Has a file written, and continues as `after` says once that is done.
fn writes_and(after: impl Fn(&Seen) -> Play + Send + Sync + 'static) -> Server {
    Server::start(move |seen, _| {
        // Not every language gives calls an id, but all repeat what was said.
        let is_done = seen.body.to_string().contains(FIRST);
        match shell(seen, "echo hello > hello.txt").filter(|_| !is_done) {
            Some(call) => whole(seen, vec![Part::text(FIRST), call]),
            // Titles and the like are well.
            None if !is_done => whole(seen, vec![Part::text("A file")]),
            None => after(seen),
        }
    })
}

fn done(seen: &Seen) -> Play {
    whole(seen, vec![Part::text("All is done.")])
}

#[test]
#[ignore = "needs the agents on PATH"]
fn n01_an_agent_retrying_a_broken_provider_is_ended() {
    for pair in all() {
        let server = Server::start(|seen, _| half(seen));
        let Some(env) = pair.world(&server, "max_failed_calls: 2") else { continue };
        let ran = pair.run(&env).expect(7);
        eprintln!("{} with {}: {} calls", pair.agent, pair.provider, calls(&server));
        let why = "2 calls in a row had no complete answer (`agents.*.max_failed_calls`), the last one because the \
                   provider's answer broke off";
        assert!(ran.stderr.contains(why), "{pair:?}: {ran}");
        assert!(ran.stderr.contains("the provider's answers break off, retrying (1)"), "{pair:?}: {ran}");
        assert_eq!(calls(&server), 2, "{pair:?}: not one more");
        let story = env.story();
        let turns = story.all("AgentTurn");
        let spent = |turn: &&Value| {
            let beside = turn["side_calls"].as_array().into_iter().flatten();
            let all = beside.map(|call| &call["token_usage"]).chain([&turn["token_usage"]]);
            all.filter_map(|usage| usage["output"].as_u64()).sum::<u64>()
        };
        assert!(turns.iter().map(spent).sum::<u64>() > 0, "{pair:?}: what came is paid for: {turns:#?}");
        env.assert_no_process_left();
    }
}

/// What a test waits for, or lets go.
#[derive(Debug, Clone, Default)]
struct Flag(Arc<(Mutex<bool>, Condvar)>);

impl Flag {
    fn raise(&self) {
        *self.0.0.lock().expect("nobody has panicked") = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let raised = self.0.0.lock().expect("nobody has panicked");
        drop(self.0.1.wait_while(raised, |raised| !*raised).expect("nobody has panicked"));
    }
}

#[test]
#[ignore = "needs the agents on PATH"]
fn n01_after_a_stop_no_call_is_made() {
    for pair in EACH {
        for signal in ["INT", "TERM"] {
            let (arrived, let_go) = (Flag::default(), Flag::default());
            let (tells, waits, works) = (arrived.clone(), let_go.clone(), Mutex::new(0));
            let server = Server::start(move |seen, _| {
                if shell(seen, "").is_some() {
                    let mut works = works.lock().expect("one after the other");
                    *works += 1;
                    // The second try is on its way while somebody wants all to stop.
                    if *works == 2 {
                        tells.raise();
                        waits.wait();
                    }
                }
                half(seen)
            });
            let Some(env) = pair.world(&server, "max_failed_calls: 1000") else { continue };
            let config = env.read("pleach.yaml").replace("models:", "settings: {api_key_command: echo k}, models:");
            env.configure(&config);
            let mut run = env.spawn(&["-y", "run", "../pipeline.dot"]);
            arrived.wait();
            run.signal(signal);
            run.wait_for("stopping after the turn in flight");
            let before = calls(&server);
            let_go.raise();
            let ran = run.end_soon().expect(3);
            assert_eq!(calls(&server), before, "{pair:?} {signal}: {ran}");
            assert_eq!(env.story().path(), ["start:success"], "{pair:?} {signal}");
            env.assert_no_process_left();
        }
    }
}

#[test]
#[ignore = "needs the agents on PATH"]
fn n03_without_key_and_login_nothing_starts() {
    for (pair, said) in EACH.iter().zip(["Claude Code has", "Codex has", "Gemini CLI has"]) {
        let server = Server::start(|seen, _| done(seen));
        let Some(env) = pair.world(&server, "") else { continue };
        for more in [&[][..], &["--dry-run"]] {
            let ran = env.pleach(&[&["-y", "run", "../pipeline.dot"], more].concat()).expect(7);
            ran.fails_with("agent-unpaid").naming(said);
            assert!(ran.stderr.contains("hint: run `") && ran.stderr.contains("or set "), "{ran}");
        }
        assert_eq!((server.seen().len(), env.sessions().len()), (0, 0), "{pair:?}");
    }
}

#[test]
#[ignore = "needs the agents on PATH"]
fn n03_a_key_that_is_refused_is_named() {
    for pair in all() {
        let server = Server::start(|_, _| refusal(401, "this key is not ours"));
        let Some(env) = pair.world(&server, "") else { continue };
        let ran = pair.run(&env).expect(7);
        eprintln!("{} with {}: {} calls", pair.agent, pair.provider, calls(&server));
        let Pair { provider, key, .. } = pair;
        assert!(
            ran.stderr.contains(&format!("{provider} does not accept the key (401): this key is not ours")),
            "{ran}"
        );
        assert!(ran.stderr.contains(&format!("hint: check {key};")), "{ran}");
        assert!(!ran.stderr.contains("127.0.0.1"), "the gateway's address is nobody's business: {ran}");
        env.assert_no_process_left();
    }
}

#[test]
#[ignore = "needs the agents on PATH"]
fn n03_a_refused_key_outside_the_gateway_is_named() {
    for (pair, turns) in EACH.into_iter().zip(["hooks", "node", "stream"]) {
        let server = Server::start(|_, _| refusal(401, "this key is not ours"));
        let Some(env) = pair.world(&server, &format!("turns: {turns}")) else { continue };
        let (url, model) = (server.url(), pair.model);
        let codex = format!(
            "model = \"{model}\"\nmodel_provider = \"mine\"\n[model_providers.mine]\nname = \"mine\"\n\
             wire_api = \"responses\"\nrequires_openai_auth = true\nbase_url = \"{url}/v1\"\n"
        );
        env.write("home/.codex/config.toml", codex);
        let gemini = json!({"security": {"auth": {"selectedType": "gemini-api-key"}}});
        env.write("home/.gemini/settings.json", gemini.to_string());
        let key = if pair.agent == "codex" { "CODEX_API_KEY" } else { pair.key };
        let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
        command.env("ANTHROPIC_BASE_URL", &url).env("GOOGLE_GEMINI_BASE_URL", &url).env(key, KEY);
        let ran = env.finish(command.output().expect("pleach can be started")).expect(7);
        eprintln!("{} with {}: {} calls", pair.agent, pair.provider, calls(&server));
        assert!(ran.stderr.contains("this key is not ours"), "{ran}");
        ran.fails_with("agent-unusable").naming(key);
        env.assert_no_process_left();
    }
}

#[test]
#[ignore = "needs the agents on PATH"]
fn n04_a_truncated_answer_fails_and_resumes_later() {
    for pair in all() {
        let is_well = Arc::new(Mutex::new(false));
        let well = Arc::clone(&is_well);
        let server =
            writes_and(move |seen| if *well.lock().expect("nobody has panicked") { done(seen) } else { half(seen) });
        let Some(env) = pair.world(&server, "max_failed_calls: 3") else { continue };
        let ran = pair.run(&env).expect(7);
        eprintln!("{} with {}: {} calls", pair.agent, pair.provider, calls(&server));
        // One of them asks without a stream at last, and is hung up on.
        assert!(ran.stderr.contains("the provider's answer broke off") || ran.stderr.contains("/v1 broke: "), "{ran}");
        assert_eq!(env.committed("hello.txt"), "hello", "{pair:?}: what was done before stays");
        let story = env.story();
        assert_eq!(story.path(), ["start:success"], "{pair:?}: {ran}");
        let last = story.last("AgentTurn")["turn"].as_str().expect("a turn").to_owned();
        let shown = env.pleach(&["show", &last]).expect(0);
        assert!(shown.stdout.contains(HALF), "{pair:?}: what arrived is shown: {shown}");
        let before = calls(&server);
        *is_well.lock().expect("nobody has panicked") = true;
        pair.pleach(&env, &["-y", "resume", &env.session()]).expect(0);
        assert!(calls(&server) > before, "{pair:?}");
        assert_eq!(env.story().path(), ["start:success", "work:success", "exit:success"], "{pair:?}");
        env.assert_no_process_left();
    }
}

#[test]
#[ignore = "needs opencode and codex-acp on PATH"]
fn n09_opencode_and_codex_over_acp_use_any_provider() {
    for pair in OF_OPENCODE.into_iter().chain([CODEX_OVER_ACP]) {
        let server = writes_and(done);
        let Some(env) = pair.world(&server, "") else { continue };
        let ran = pair.run(&env).expect(0);
        eprintln!("{} with {}: {} calls", pair.agent, pair.provider, calls(&server));
        assert_eq!(env.committed("hello.txt"), "hello", "{pair:?}: {ran}");
        let Pair { provider, key, model, .. } = pair;
        assert!(ran.stderr.contains(&format!("billed to {key} through the gateway")), "{pair:?}: {ran}");
        for seen in server.seen() {
            let sent =
                ["x-api-key", "x-goog-api-key", "authorization"].into_iter().find_map(|name| seen.headers.get(name));
            assert!(sent.is_some_and(|sent| sent.ends_with(KEY)), "{pair:?}: {}", seen.line);
            assert_ne!(seen.body["model"], "worker", "{pair:?}");
            if pair.agent == "opencode" {
                assert!(seen.body["model"] == model || seen.line.contains(model), "{pair:?}: {}", seen.line);
            }
        }
        let story = env.story();
        let turns = story.all("AgentTurn");
        assert!(turns.iter().all(|turn| turn["provider"] == provider && turn["boundary"] == "exact"), "{turns:#?}");
        let input: Vec<u64> = turns.iter().filter_map(|turn| turn["token_usage"]["input"].as_u64()).collect();
        assert_eq!(input, [1000, 1000], "{pair:?}: {turns:#?}");
        env.assert_no_process_left();
    }
}

#[test]
#[ignore = "needs opencode and claude on PATH"]
fn n09_what_cannot_work_is_refused_before_the_run() {
    let server = Server::start(|seen, _| done(seen));
    let [claude, .., opencode] = EACH;
    for (pair, key, provider, said) in [
        (opencode, "OPENROUTER_API_KEY", "openrouter", "openrouter has no model `worker`"),
        (
            claude,
            "GEMINI_API_KEY",
            "gemini",
            "Claude Code uses the Anthropic Messages API; provider `gemini` does not offer it",
        ),
    ] {
        let Some(env) = pair.world(&server, "") else { continue };
        let (agent, url) = (pair.agent, server.url());
        env.configure(&format!(
            "agent: worker\nagents: {{worker: {{runner: {agent}, provider: {provider}}}}}\n\
             providers: {{{provider}: {{base_url: '{url}'}}}}\n"
        ));
        env.pipeline(&graph("real", "work [prompt=\"Write a file\"] start -> work -> exit"));
        let ran = Pair { key, ..pair }.run(&env).expect(7);
        assert!(ran.stderr.contains(said), "{ran}");
        assert_eq!((server.seen().len(), env.sessions().len()), (0, 0), "{ran}");
    }
}
