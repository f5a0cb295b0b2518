//! Providers behind a server, against one on loopback that plays every part: all formats, refusals, silence, broken
//! connections. Nothing leaves the machine.

use std::borrow::Borrow;
use std::fs;
use std::path::Path;
use std::time::Duration;

use agents::agent::builtin::BuiltinLimits;
use agents::agent::{Agent, AgentError, Builtin, End, Job, Profile, Turn, TurnVerdict, Turns};
use agents::llm::wire::Format;
use agents::llm::{
    ErrorClass, LlmError, Message, ModelNames, NoProvider, Part, Provider, Providers, Remote, Request, Response, Role,
    Stop, Unusable,
};
use os::process::Cancel;
use pleach_core::config::{self, Config, Environment, ProviderName};
use pleach_core::event::Usage;
use pleach_core::ids::NodeId;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{Play, Seen, Server};
use crate::spawner::spawner;

const KEY: &str = "sk-test-0123456789";

const ALL: [(ProviderName, Format, &str, &str); 4] = [
    (ProviderName::ANTHROPIC, Format::Anthropic, "ANTHROPIC_API_KEY", "POST /v1/messages HTTP/1.1"),
    (ProviderName::OPENAI, Format::Responses, "OPENAI_API_KEY", "POST /v1/responses HTTP/1.1"),
    (
        ProviderName::GEMINI,
        Format::Gemini,
        "GEMINI_API_KEY",
        "POST /v1beta/models/m-worker:streamGenerateContent?alt=sse HTTP/1.1",
    ),
    (ProviderName::COMPATIBLE, Format::Chat, "COMPATIBLE_API_KEY", "POST /v1/chat/completions HTTP/1.1"),
];

fn settings(base: &str) -> config::ServerSettings {
    let mut provider = config::ServerSettings::default();
    provider.settings.api_base = Some(base.to_owned());
    provider.models.insert("worker".into(), "m-worker".into());
    provider.models.insert("smart".into(), "m-smart".into());
    provider.prices.insert("m-worker".into(), config::Price { input: 1.0, output: 2.0, ..Default::default() });
    provider
}

fn keys() -> Environment {
    Environment::from_pairs(ALL.map(|(_, _, key, _)| (key, KEY)))
}

fn remote(
    name: impl Borrow<ProviderName>,
    given: &config::ServerSettings,
    env: &Environment,
) -> Result<Remote, Unusable> {
    Remote::new(name.borrow(), given, env, &spawner(), Path::new("/"))
}

fn provider(server: &Server, name: impl Borrow<ProviderName>) -> Provider {
    Provider::Remote(remote(name, &settings(&server.url()), &keys()).unwrap())
}

fn anthropic(server: &Server) -> Provider {
    provider(server, ProviderName::ANTHROPIC)
}

fn task() -> Request {
    Request { system: "rules".into(), messages: vec![Message::user("task")], ..Request::default() }
}

async fn ask(provider: &Provider) -> Result<Response, LlmError> {
    provider.complete(&task(), &Cancel::never()).await.map(|answered| answered.response)
}

const USAGE: Usage =
    Usage { input: 100, cache_read: 50, cache_write: 0, output: 20, reasoning: 5, cache_write_1h: 0, web_searches: 0 };

/// An answer as a stream of this format, in pieces that fit nothing.
fn streamed(format: Format, content: Vec<Part>) -> Vec<String> {
    let calls = content.iter().any(|part| matches!(part, Part::ToolCall { .. }));
    let response = Response {
        message: Message::new(Role::Assistant, content),
        usage: USAGE,
        model: "m-worker".into(),
        stop: if calls { Stop::ToolCalls } else { Stop::End },
        extra: Default::default(),
    };
    let events = format.stream_reply(&format.encode_reply(&response));
    let text: String = events.iter().map(|event| event.to_text()).collect();
    assert!(text.is_ascii(), "so that it can be cut anywhere");
    text.as_bytes().chunks(37).map(|piece| String::from_utf8_lossy(piece).into_owned()).collect()
}

fn hello(format: Format) -> Play {
    Play::Stream(streamed(format, vec![Part::text("Hello.")]))
}

fn refusal(status: u16, text: &str) -> Play {
    refusal_in(Format::Anthropic, status, text)
}

/// A refusal in the words of this format's servers.
fn refusal_in(format: Format, status: u16, text: &str) -> Play {
    let body = match format {
        Format::Anthropic => json!({"type": "error", "error": {"type": "some_error", "message": text}}),
        Format::Responses | Format::Chat => {
            json!({"error": {"message": text, "type": "some_error", "param": null, "code": null}})
        }
        // This one puts the errors of streams into a list.
        Format::Gemini => json!([{"error": {"code": status, "message": text, "status": "SOME_ERROR"}}]),
    };
    Play::Answer(status, vec![("content-type", "application/json".into())], body.to_string())
}

/// An error in the middle of a stream, in the words of this format's servers.
fn stream_error(format: Format) -> String {
    match format {
        Format::Anthropic => "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n",
        Format::Responses => "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"busy\"}\n\n",
        Format::Chat => "data: {\"error\":{\"message\":\"busy\",\"type\":\"server_error\",\"code\":null}}\n\n",
        Format::Gemini => "data: {\"error\":{\"code\":503,\"message\":\"busy\",\"status\":\"UNAVAILABLE\"}}\n\n",
    }
    .to_owned()
}

#[tokio::test]
async fn every_wire_format_matches_its_server() {
    for (name, format, _, line) in ALL {
        let server = Server::start(move |_, _| hello(format));
        let provider = provider(&server, &name);
        let response = ask(&provider).await.unwrap();
        assert_eq!(response.message.text(), "Hello.", "{name}");
        assert_eq!((response.usage, response.model.as_str()), (USAGE, "m-worker"), "{name}");
        let cost = provider.cost(ModelNames::asked("m-worker"), &response.usage).unwrap();
        assert!((cost - 190e-6).abs() < 1e-12, "150 in, 20 out: {cost}");
        let seen = &server.seen()[0];
        assert_eq!(seen.line, line);
        let key = match format {
            Format::Anthropic => seen.headers["x-api-key"].clone(),
            Format::Gemini => seen.headers["x-goog-api-key"].clone(),
            Format::Responses | Format::Chat => seen.headers["authorization"].replace("Bearer ", ""),
        };
        assert_eq!(key, KEY);
        assert_eq!(seen.headers["accept-encoding"], "identity");
        assert!(seen.headers["user-agent"].starts_with("pleach/"));
        let limit = ["max_tokens", "max_output_tokens"].into_iter().find_map(|key| seen.body.get(key));
        let limit = limit.or(seen.body.pointer("/generationConfig/maxOutputTokens"));
        // What nobody knows the server knows, but for one that wants to be told.
        assert_eq!(limit, (format == Format::Anthropic).then_some(&json!(8192)), "{name}");
        if format != Format::Gemini {
            assert_eq!((&seen.body["model"], &seen.body["stream"]), (&json!("m-worker"), &json!(true)));
        }
    }
}

/// Runs the built-in agent on a task in a directory of its own.
async fn run(
    provider: Provider,
    profile: Profile,
    change: impl FnOnce(&mut Job),
) -> (Result<String, AgentError>, Vec<Turn>, TempDir) {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("work")).unwrap();
    let mut job =
        Job::new(NodeId::new("implement").unwrap(), "do the task", dir.path().join("work"), dir.path().join("s.json"));
    change(&mut job);
    let limits = BuiltinLimits { retry_pause: Duration::from_millis(1), ..BuiltinLimits::default() };
    let agent = Builtin::new(provider, spawner()).with_limits(limits).with_profile(profile);
    let (turns, mut inbox) = Turns::channel();
    let engine = tokio::spawn(async move {
        let mut seen = Vec::new();
        while let Some((turn, answer)) = inbox.recv().await {
            seen.push(turn);
            answer.send(TurnVerdict::Go).expect("the agent waits for its verdict");
        }
        seen
    });
    let result = agent.run(job, &turns, &Cancel::never()).await;
    drop(turns);
    let text = result.map(|reply| {
        assert_eq!(reply.end, End::Done);
        reply.text
    });
    (text, engine.await.unwrap(), dir)
}

fn write(id: &str, file: &str) -> Part {
    Part::tool_call(id, "write_file", json!({"file_path": file, "content": "x\n"}))
}

#[tokio::test]
async fn the_built_in_agent_works_with_every_format() {
    for (name, format, _, _) in ALL {
        let server = Server::start(move |_, before| {
            Play::Stream(streamed(
                format,
                match before {
                    0 => vec![Part::text("I will write both."), write("a", "one"), write("b", "two")],
                    1 => vec![write("c", "three")],
                    _ => vec![Part::text("All done.")],
                },
            ))
        });
        let (text, turns, dir) =
            run(provider(&server, &name), Profile::default(), |job| job.effort = Some("low".into())).await;
        assert_eq!(text.unwrap(), "All done.", "{name}");
        for file in ["one", "two", "three"] {
            assert_eq!(fs::read_to_string(dir.path().join("work").join(file)).unwrap(), "x\n", "{name}");
        }
        let shape: Vec<_> =
            turns.iter().map(|turn| (turn.tool_calls.len(), turn.usage, turn.provider.as_str())).collect();
        assert_eq!(shape, [(2, USAGE, name.as_str()), (1, USAGE, name.as_str()), (0, USAGE, name.as_str())]);
        assert!(turns.iter().all(|turn| turn.cost_usd.is_some() && turn.model == "m-worker"));
        let last = format.decode_request(server.seen()[2].body.clone()).unwrap();
        let roles: Vec<Role> = last.messages.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::Tool, Role::Assistant, Role::Tool], "{name}");
        assert_eq!(last.messages[2].content.len(), 2, "both answers in one message");
        assert_eq!(last.tools.len(), 6);
        assert!(last.messages[0].text().starts_with("This is step `implement` of the pipeline."), "{name}");
    }
}

#[tokio::test]
async fn a_model_is_chosen_by_node_then_agent_then_configuration() {
    let server = Server::start(|_, _| hello(Format::Anthropic));
    let profile = Profile {
        model: Some("smart".into()),
        tools: vec!["read_file".into()],
        layers: vec![("role", "You review.".into()), ("task", "Find bugs.".into())],
    };
    run(anthropic(&server), profile.clone(), |job| job.model = Some("own-model".into())).await.0.unwrap();
    run(anthropic(&server), profile, |_| {}).await.0.unwrap();
    run(anthropic(&server), Profile::default(), |_| {}).await.0.unwrap();
    run(anthropic(&server), Profile::default(), |job| job.model = Some("cheap".into())).await.0.unwrap();
    let seen = server.seen();
    let models: Vec<&Value> = seen.iter().map(|seen| &seen.body["model"]).collect();
    assert_eq!(models, ["own-model", "m-smart", "m-worker", "claude-haiku-5-5"]);
    assert_eq!(seen[1].body["tools"].as_array().unwrap().len(), 1);
    let system = seen[1].body["system"][1]["text"].as_str().unwrap();
    assert!(system.contains("\n# Role\nYou review.\n") && system.contains("\n# Task\nFind bugs.\n"), "{system}");
    let compatible = settings(&server.url());
    let compatible = config::ServerSettings { models: Default::default(), ..compatible };
    let compatible = Provider::Remote(remote(ProviderName::COMPATIBLE, &compatible, &keys()).unwrap());
    let error = ask(&compatible).await.unwrap_err();
    assert_eq!(error.message, "compatible has no model `worker`; set `providers.compatible.models.worker`");
    assert_eq!(server.seen().len(), 4, "nobody was asked");
}

#[tokio::test]
async fn refusals_are_classified_and_never_show_the_key() {
    for (name, format, key, _) in ALL {
        for (status, class, says) in [
            (400, ErrorClass::Terminal, format!("{name} refuses the request (400): bad")),
            (401, ErrorClass::Auth, format!("{name} does not accept the key (401): bad")),
            (401, ErrorClass::Auth, format!("check {key}")),
            (403, ErrorClass::Auth, format!("{name} does not let this key use `m-worker` (403): bad")),
            (404, ErrorClass::Unavailable, format!("{name} knows no model `m-worker` at http://127.0.0.1:")),
            (413, ErrorClass::ContextLength, "too long for `m-worker`".into()),
            (429, ErrorClass::Transient, format!("{name} is asked too often (429): bad")),
            (500, ErrorClass::Transient, format!("{name} failed (500): bad")),
            (302, ErrorClass::Unavailable, "not followed".into()),
        ] {
            let server = Server::start(move |_, _| refusal_in(format, status, &format!("bad {KEY}")));
            let error = ask(&provider(&server, &name)).await.unwrap_err();
            assert_eq!(error.class, class, "{name}: {error}");
            assert!(error.message.contains(&says), "{error}");
            assert!(!error.message.contains(KEY), "{error}");
            assert_eq!(server.seen().len(), 1, "{name}: {status} is not tried again down here");
        }
        assert!(!format!("{:?}", provider(&Server::start(|_, _| Play::Drop), name)).contains(KEY));
    }
}

#[tokio::test]
async fn a_busy_server_is_given_the_time_it_asks_for() {
    for (name, format, _, _) in ALL {
        let server = Server::start(move |_, before| match before {
            0 => Play::Answer(429, vec![("retry-after", "0.3".into())], "{}".into()),
            1 => refusal_in(format, 529, "overloaded"),
            _ => hello(format),
        });
        let begun = std::time::Instant::now();
        let (text, turns, _) = run(provider(&server, &name), Profile::default(), |_| {}).await;
        assert_eq!((text.unwrap().as_str(), turns.len(), server.seen().len()), ("Hello.", 1, 3), "{name}");
        assert!(begun.elapsed() >= Duration::from_millis(300), "{name}: it asked for a third of a second");

        let patient = Server::start(|_, _| Play::Answer(429, vec![("retry-after", "61".into())], "{}".into()));
        let (text, _, _) = run(provider(&patient, &name), Profile::default(), |_| {}).await;
        let said = format!("{name} is asked too often (429)");
        assert!(matches!(&text, Err(AgentError::Unanswered(why)) if why.contains(&said)), "{text:?}");
        assert_eq!(patient.seen().len(), 1, "{name}: more than a minute is not waited for");
    }
}

#[tokio::test]
async fn the_built_in_agent_retries_only_transient_failures() {
    for (name, format, key, _) in ALL {
        for (status, says) in [
            (429, format!("{name} is asked too often (429): no")),
            (500, format!("{name} failed (500): no")),
            (503, format!("{name} failed (503): no")),
        ] {
            let down = Server::start(move |_, _| refusal_in(format, status, "no"));
            let (text, turns, _) = run(provider(&down, &name), Profile::default(), |_| {}).await;
            let Err(AgentError::Unanswered(why)) = text else { panic!("{name} {status}: {text:?}") };
            assert!(why.contains(&says) && why.contains("tried 3 times"), "{why}");
            assert_eq!((down.seen().len(), turns.len()), (3, 0), "{name} {status}");
        }
        for (status, says) in [
            (400, format!("{name} refuses the request (400): no")),
            (401, format!("{name} does not accept the key (401): no; check {key}")),
        ] {
            let closed = Server::start(move |_, _| refusal_in(format, status, "no"));
            let (text, turns, _) = run(provider(&closed, &name), Profile::default(), |_| {}).await;
            let Err(AgentError::Terminal(why) | AgentError::Environment(why)) = text else {
                panic!("{name} {status}: {text:?}")
            };
            assert!(why.contains(&says), "{why}");
            assert_eq!((closed.seen().len(), turns.len()), (1, 0), "{name} {status}");
        }
    }
}

#[tokio::test]
async fn broken_connections_are_tried_again() {
    for (name, format, _, _) in ALL {
        let server = Server::start(move |_, before| match before {
            0 | 1 => Play::Drop,
            _ => hello(format),
        });
        let (text, turns, _) = run(provider(&server, &name), Profile::default(), |_| {}).await;
        assert_eq!((text.unwrap().as_str(), turns.len(), server.seen().len()), ("Hello.", 1, 3), "{name}");

        // Everything is there, only the end of the body is not.
        let server = Server::start(move |_, _| Play::Cut(streamed(format, vec![Part::text("Hello.")])));
        assert_eq!(ask(&provider(&server, &name)).await.unwrap().message.text(), "Hello.", "{name}");
        let nobody = settings("http://127.0.0.1:1");
        let nobody = Provider::Remote(remote(&name, &nobody, &keys()).unwrap());
        let error = ask(&nobody).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Transient);
        assert!(error.message.starts_with("cannot connect to http://127.0.0.1:1/v1"), "{error}");
    }
}

#[tokio::test]
async fn a_truncated_answer_is_an_error() {
    for (name, format, _, _) in ALL {
        let half = move || {
            let mut pieces = streamed(format, vec![Part::text("Half of it, and then"), write("a", "one")]);
            pieces.truncate(pieces.len() / 2);
            pieces
        };
        let cut = Server::start(move |_, _| Play::Cut(half()));
        let ended = Server::start(move |_, _| Play::Stream(half()));
        for server in [cut, ended] {
            let error = ask(&provider(&server, &name)).await.unwrap_err();
            // Whether they count before the end or not.
            assert!(error.charge.is_some(), "{name}: {error:?}");
            assert_eq!(error.class, ErrorClass::Cut, "{name}: {error}");
            assert!(error.message.contains("broke"), "{name}: {error}");
            let (text, turns, dir) = run(provider(&server, &name), Profile::default(), |_| {}).await;
            assert!(matches!(&text, Err(AgentError::Unanswered(why)) if why.contains("broke")), "{text:?}");
            assert!(turns.iter().all(|turn| !turn.messages.iter().any(Message::is_answer)), "{name}: {turns:?}");
            let paid: usize = turns.iter().map(|turn| turn.side_calls.len()).sum();
            assert_eq!(paid, 3, "{name}: what came of half an answer is paid for");
            assert_eq!(server.seen().len(), 4, "{name}: what was half answered is asked again twice");
            assert!(!dir.path().join("work/one").exists(), "{name}: a tool of half an answer is not run");
        }
    }
}

#[tokio::test]
async fn a_failure_before_any_answer_is_retried() {
    for (name, format, _, _) in ALL {
        // What servers send before they have anything to say.
        let nothing = match format {
            Format::Anthropic => {
                "event: ping\ndata: {\"type\":\"ping\"}\n\nevent: message_start\ndata: {\"type\":\"message_start\",\"message\":\
                 {\"role\":\"assistant\",\"model\":\"m-worker\",\"content\":[],\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}\n\n"
            }
            Format::Responses => {
                "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"output\":[]}}\n\n\
                 event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"response\":{\"output\":[]}}\n\n\
                 event: keepalive\ndata: {\"type\":\"keepalive\"}\n\n"
            }
            Format::Chat => {
                ": ping\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n"
            }
            Format::Gemini => {
                "data: {\"candidates\":[{\"index\":0,\"content\":{\"role\":\"model\"}}],\"usageMetadata\":{\"promptTokenCount\":7}}\n\n"
            }
        };
        for how in ["reported", "cut", "ended"] {
            let server = Server::start(move |_, before| match (before, how) {
                (0, "reported") => Play::Stream(vec![nothing.to_owned(), stream_error(format)]),
                (0, "cut") => Play::Cut(vec![nothing.to_owned()]),
                (0, _) => Play::Stream(vec![nothing.to_owned()]),
                _ => hello(format),
            });
            let (text, turns, _) = run(provider(&server, &name), Profile::default(), |_| {}).await;
            assert_eq!((text.unwrap().as_str(), server.seen().len()), ("Hello.", 2), "{name} {how}");
            let tried = turns.iter().flat_map(|turn| &turn.side_calls).map(|call| call.token_usage.input).sum::<u64>();
            let charged = matches!(format, Format::Anthropic | Format::Gemini);
            assert_eq!(tried, if charged { 7 } else { 0 }, "{name} {how}: what was counted is paid for");
        }
    }
}

#[tokio::test]
async fn a_server_that_stops_talking_is_left() {
    let silent = |name, format, play: Play, class| async move {
        let server = Server::start(move |_, _| play.clone());
        let mut given = settings(&server.url());
        given.settings.timeout = 1;
        let provider = Provider::Remote(remote(&name, &given, &keys()).unwrap());
        let error = ask(&provider).await.unwrap_err();
        assert_eq!(error.class, class, "{format:?}: {error}");
        assert!(error.message.ends_with("sent nothing for 1 s"), "{format:?}: {error}");
        tokio::task::spawn_blocking(move || server.wait_for_leaving(1)).await.unwrap();
    };
    let mut waiting = tokio::task::JoinSet::new();
    for (name, format, _, _) in ALL {
        let mut begun = streamed(format, vec![Part::text("Half of it, and then"), write("a", "one")]);
        begun.truncate(begun.len() / 2);
        waiting.spawn(silent(name.clone(), format, Play::Hang, ErrorClass::Transient));
        waiting.spawn(silent(name, format, Play::Stall(begun), ErrorClass::Cut));
    }
    while let Some(ended) = waiting.join_next().await {
        ended.unwrap();
    }
}

#[tokio::test]
async fn a_kill_drops_the_call() {
    for (name, format, _, _) in ALL {
        let begun = streamed(format, vec![Part::text("x")])[..1].to_vec();
        let server = Server::start(move |_, _| Play::Stall(begun.clone()));
        let provider = provider(&server, &name);
        let (canceller, cancel) = Cancel::new();
        let call = tokio::spawn(async move { provider.complete(&task(), &cancel).await });
        while server.seen().is_empty() {
            tokio::task::yield_now().await;
        }
        canceller.stop();
        tokio::task::yield_now().await;
        assert!(!call.is_finished(), "{name}: a stop lets the call go on");
        canceller.kill();
        assert_eq!(call.await.unwrap().unwrap_err().class, ErrorClass::Cancelled, "{name}");
        tokio::task::spawn_blocking(move || server.wait_for_leaving(1)).await.unwrap();
    }
}

#[tokio::test]
async fn an_unreadable_answer_is_reported_and_retried() {
    for (name, format, _, _) in ALL {
        let server = Server::start(move |_, before| match before {
            0 => Play::Answer(200, vec![("content-type", "text/html".into())], "<html>".into()),
            _ => hello(format),
        });
        let (text, _, _) = run(provider(&server, &name), Profile::default(), |_| {}).await;
        assert_eq!((text.unwrap().as_str(), server.seen().len()), ("Hello.", 2), "{name}");
        let nothing = match format {
            Format::Anthropic => "no `content`",
            Format::Responses => "no `output`",
            Format::Chat => "no `choices`",
            Format::Gemini => "no `candidates`",
        };
        let plays: [(Play, ErrorClass, &str); 4] = [
            (Play::Stream(vec!["data: {oops\n\n".into()]), ErrorClass::Malformed, "not JSON"),
            (
                Play::Answer(200, vec![("content-encoding", "gzip".into())], "\u{1f}".into()),
                ErrorClass::Terminal,
                "encoding `gzip`",
            ),
            (Play::Answer(200, vec![], "{}".into()), ErrorClass::Malformed, nothing),
            (Play::Stream(vec![stream_error(format)]), ErrorClass::Transient, "busy"),
        ];
        for (play, class, says) in plays {
            let server = Server::start(move |_, _| play.clone());
            let error = ask(&provider(&server, &name)).await.unwrap_err();
            assert!(error.class == class && error.message.contains(says), "{name}: {:?} {error}", error.class);
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood_too() {
    for (name, format, _, _) in ALL {
        let server = Server::start(move |_, _| {
            let response = Response {
                message: Message::assistant("Hello."),
                usage: USAGE,
                model: String::new(),
                stop: Stop::End,
                extra: Default::default(),
            };
            Play::Answer(
                200,
                vec![("content-type", "application/json".into())],
                format.encode_reply(&response).to_string(),
            )
        });
        let response = ask(&provider(&server, &name)).await.unwrap();
        assert_eq!((response.message.text().as_str(), response.model.as_str()), ("Hello.", "m-worker"), "{name}");
    }
}

#[tokio::test]
async fn connections_are_kept_and_made_again() {
    let server = Server::start(|_, before| match before {
        // It closes, and nothing in the answer says so.
        2 => Play::Close(String::from("{}")),
        _ => hello(Format::Anthropic),
    });
    let provider = anthropic(&server);
    let mut ends = Vec::new();
    for _ in 0..4 {
        ends.push(ask(&provider).await.is_ok());
    }
    let connections: Vec<usize> = server.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!((ends, connections), (vec![true, true, false, true], vec![0, 0, 0, 1]));
}

#[tokio::test]
async fn a_key_can_come_from_a_command() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("count");
    fs::write(&file, "").unwrap();
    let server = Server::start(|seen: &Seen, _| match seen.headers["x-api-key"].as_str() {
        "key-2" => hello(Format::Anthropic),
        _ => refusal(401, "expired"),
    });
    let mut given = settings(&server.url());
    let env = Environment::from_pairs([
        ("ANTHROPIC_API_KEY", "not this one"),
        ("VAULT_TOKEN", "key"),
        ("COUNT", file.to_str().unwrap()),
    ]);
    // The command is given the variables that other commands are not.
    given.settings.api_key_command =
        Some("echo >> \"$COUNT\"; echo \"$VAULT_TOKEN-$(wc -l < \"$COUNT\" | tr -d ' ')\"".into());
    let provider = Provider::Remote(remote(ProviderName::ANTHROPIC, &given, &env).unwrap());
    assert_eq!(ask(&provider).await.unwrap_err().class, ErrorClass::Auth, "a new key that is refused is refused");
    assert_eq!(ask(&provider).await.unwrap().message.text(), "Hello.", "a key that was good once is asked for again");
    assert_eq!(ask(&provider).await.unwrap().message.text(), "Hello.");
    let keys: Vec<String> = server.seen().iter().map(|seen| seen.headers["x-api-key"].clone()).collect();
    assert_eq!(keys, ["key-1", "key-1", "key-2", "key-2"]);
    given.settings.api_key_command = Some("echo nothing here >&2; exit 3".into());
    let provider = Provider::Remote(remote(ProviderName::ANTHROPIC, &given, &env).unwrap());
    let error = ask(&provider).await.unwrap_err();
    assert_eq!(error.message, "`api_key_command` gave no key: exit 3 nothing here");
}

#[tokio::test]
async fn a_configured_proxy_is_used_except_for_localhost() {
    let proxy = Server::start(|_, _| hello(Format::Anthropic));
    let server = Server::start(|_, _| hello(Format::Anthropic));
    let env = Environment::from_pairs([
        ("ANTHROPIC_API_KEY", KEY),
        ("HTTP_PROXY", &proxy.url()),
        ("http_proxy", &proxy.url()),
        ("ALL_PROXY", &proxy.url()),
    ]);
    let direct = Provider::Remote(remote(ProviderName::ANTHROPIC, &settings(&server.url()), &env).unwrap());
    ask(&direct).await.unwrap();
    assert_eq!((server.seen().len(), proxy.seen().len()), (1, 0));
    let mut given = settings("http://models.invalid");
    given.settings.proxy = Some(proxy.url().replace("http://", "http://me:pass@"));
    let through = Provider::Remote(remote(ProviderName::ANTHROPIC, &given, &env).unwrap());
    ask(&through).await.unwrap();
    let seen = &proxy.seen()[0];
    assert_eq!(seen.line, "POST http://models.invalid/v1/messages HTTP/1.1");
    assert_eq!(
        (seen.headers["host"].as_str(), seen.headers["proxy-authorization"].as_str()),
        ("models.invalid", "Basic bWU6cGFzcw==")
    );
    let mut given = settings("https://models.invalid");
    given.settings.proxy = Some(proxy.url());
    let through = Provider::Remote(remote(ProviderName::ANTHROPIC, &given, &env).unwrap());
    // This one is no proxy: it answers something else than 200, after which nothing is sent.
    let error = ask(&through).await.unwrap_err();
    assert_eq!(proxy.seen()[1].line, "CONNECT models.invalid:443 HTTP/1.1");
    assert!(!proxy.seen()[1].headers.contains_key("x-api-key"), "{error}");
}

#[test]
fn the_provider_is_the_named_or_first_with_key() {
    let pick = |config: &Config, env: &[(&str, &str)], name: Option<&str>| {
        let env = Environment::from_pairs(env.iter().copied());
        Providers::new(config, &env, &spawner(), None).get(name).map(|provider| provider.name().to_owned())
    };
    let plain = Config::default();
    assert_eq!(pick(&plain, &[], None), Err(NoProvider::None));
    assert_eq!(pick(&plain, &[("GOOGLE_API_KEY", "k"), ("OPENAI_API_KEY", "k")], None), Ok("openai".to_owned()));
    assert_eq!(
        pick(&plain, &[("OPENAI_API_KEY", "k"), ("GEMINI_API_KEY", "k")], Some("google")),
        Ok("gemini".to_owned())
    );
    let error = pick(&plain, &[], Some("anthropic")).unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no key for anthropic; set ANTHROPIC_API_KEY, or `providers.anthropic.settings.api_key_command`"
    );
    let error = pick(&plain, &[], Some("anthropc")).unwrap_err().to_string();
    assert!(error.starts_with("there is no provider `anthropc`, did you mean `anthropic`?"), "{error}");
    assert_eq!(
        pick(&plain, &[], Some("compatible")).unwrap_err().to_string(),
        "compatible has no address; set `providers.compatible.base_url`"
    );
    let mut local = Config::default();
    local.providers.servers.insert(ProviderName::COMPATIBLE, settings("http://localhost:1"));
    assert_eq!(pick(&local, &[], None), Ok("compatible".to_owned()), "a local server needs no key");
    local.providers.default = Some(ProviderName::GEMINI);
    assert!(pick(&local, &[("ANTHROPIC_API_KEY", "k")], None).unwrap_err().to_string().contains("GEMINI_API_KEY"));
    local.providers.servers.insert(ProviderName::COMPATIBLE, settings("http://me:secret@host"));
    assert!(!pick(&local, &[], Some("compatible")).unwrap_err().to_string().contains("secret"));
}
