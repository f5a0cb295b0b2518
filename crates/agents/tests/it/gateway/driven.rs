//! Programs behind the gateway: exact turns, whatever they do.

use std::sync::{Arc, Barrier, Mutex};

use agents::agent::{GatewayRun, Job, JobPast, RunOutcome, Turn, TurnVerdict, Turns};
use agents::gateway::Upstream;
use agents::llm::wire::Format;
use agents::llm::{Message, Request, Role};
use os::process::Cancel;
use pleach_core::budget::Allowance;
use pleach_core::config::ProviderName;
use pleach_core::event::Usage;
use pleach_core::ids::NodeId;
use serde_json::json;

use super::client::{Client, post};
use super::{ALL, USAGE, body, events, read, remote, request, response, result, says, stream, writes};
use crate::server::{Play, Seen as Asked, Server};

fn job() -> Job {
    Job::new(NodeId::new("work").unwrap(), "task", "/w", "/s/status.json")
}

/// What was reported and asked, in the order it happened.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Runs `agent` behind a gateway; `verdict` judges its turns.
async fn drive<F: Future<Output = ()>>(
    upstream: Upstream,
    job: Job,
    verdict: impl Fn(usize) -> TurnVerdict + Send + 'static,
    log: &Log,
    agent: impl FnOnce(Base, Cancel) -> F,
) -> (RunOutcome<()>, Vec<Turn>) {
    let driven = GatewayRun::open(upstream, &job).await.unwrap();
    let base = Base([Format::Anthropic, Format::Responses, Format::Gemini].map(|format| driven.base_url(format)));
    let (turns, mut inbox) = Turns::channel();
    let engine = tokio::spawn({
        let log = log.clone();
        async move {
            let mut all = Vec::new();
            while let Some((turn, answer)) = inbox.recv().await {
                // Slow enough for anything to overtake it that can.
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                log.add(format!("turn: {}", turn.intent));
                all.push(turn);
                let _ = answer.send(verdict(all.len()));
            }
            all
        }
    });
    let seen = driven.run(&turns, &Cancel::never(), |cancel| agent(base, cancel)).await;
    drop(turns);
    (seen, engine.await.unwrap())
}

struct Base([String; 3]);

impl Base {
    fn url(&self, format: Format, path: &str) -> String {
        let base = match format {
            Format::Anthropic => &self.0[0],
            Format::Responses | Format::Chat => &self.0[1],
            Format::Gemini => &self.0[2],
        };
        format!("{base}{path}")
    }
}

/// Answers with `lines` one after the other, by how many answers the conversation holds.
fn server(format: Format, log: &Log, lines: Vec<Message>) -> Server {
    let log = log.clone();
    Server::start(move |seen: &Asked, _| {
        let request = format.decode_request(seen.body.clone()).unwrap();
        let number = request.messages.iter().filter(|message| message.role == Role::Assistant).count();
        log.add(format!("asked: {number}"));
        stream(format, lines[number.min(lines.len() - 1)].clone())
    })
}

fn three_turns() -> Vec<Message> {
    vec![writes("c-1", "a"), writes("c-2", "b"), says("All done.")]
}

/// A whole conversation: asks, does what it is told, asks again.
async fn converse(url: &str, format: Format, task: &str) -> String {
    let mut messages = vec![Message::user(task)];
    loop {
        let got = post(url, &body(format, &messages)).await;
        if got.status != 200 {
            return format!("{}: {}", got.status, got.text());
        }
        let answer = read(format, &got.body).message;
        let calls: Vec<String> = answer.tool_calls().map(|(id, _, _)| id.to_owned()).collect();
        let text = answer.text();
        messages.push(answer);
        if calls.is_empty() {
            return text;
        }
        messages.extend(calls.iter().map(|id| result(id)));
    }
}

#[tokio::test]
async fn turns_are_exact_in_every_language() {
    for (name, format, path) in ALL {
        let log = Log::default();
        let server = server(format, &log, three_turns());
        let upstream = remote(&server, &name, |_| {});
        let (seen, turns) = drive(
            upstream,
            job(),
            |_| TurnVerdict::Go,
            &log,
            |base, _| async move {
                assert_eq!(converse(&base.url(format, path), format, "task").await, "All done.");
            },
        )
        .await;
        let order = ["asked: 0", "turn: I write a.", "asked: 1", "turn: I write b.", "asked: 2"];
        assert_eq!(log.lines(), order, "{format:?}: each turn is over before the next call goes on");
        assert_eq!((seen.stopped, seen.said.as_str()), (false, "All done."));
        let last = seen.last.unwrap();
        assert!(last.is_last && last.exact && last.intent == "All done.");
        let roles = |turn: &Turn| turn.messages.iter().map(|message| message.role).collect::<Vec<_>>();
        assert_eq!(roles(&turns[0]), [Role::User, Role::Assistant, Role::Tool], "{format:?}");
        assert_eq!(turns[0].messages[0].text(), "task");
        assert_eq!(roles(&turns[1]), [Role::Assistant, Role::Tool]);
        assert_eq!(roles(&last), [Role::Assistant]);
        for turn in turns.iter().chain([&last]) {
            assert_eq!((turn.usage, turn.provider.as_str(), turn.model.as_str()), (USAGE, name.as_str(), "m-1"));
            assert!(turn.cost_usd.is_some() && turn.exact);
        }
        assert_eq!(turns[1].tool_calls[0].name, "write_file");
    }
}

#[tokio::test]
async fn the_next_call_may_come_before_the_stream_has_ended() {
    let format = Format::Anthropic;
    let log = Log::default();
    // The first answer is whole, but its stream stays open forever.
    let server = Server::start(|_, before| match before {
        0 => Play::Stall(events(Format::Anthropic, writes("c-1", "a"))),
        _ => stream(Format::Anthropic, says("Done.")),
    });
    let upstream = remote(&server, ProviderName::ANTHROPIC, |_| {});
    let (seen, turns) = drive(
        upstream,
        job(),
        |_| TurnVerdict::Go,
        &log,
        |base, _| async move {
            let url = base.url(format, "/v1/messages");
            let mut client = Client::connect(&url).await;
            let task = Message::user("task");
            client.send("POST", &url, &[], body(format, std::slice::from_ref(&task)).to_string().as_bytes()).await;
            client.head().await.unwrap();
            let mut got = Vec::new();
            while !String::from_utf8_lossy(&got).contains("message_stop") {
                got.extend(client.piece().await.unwrap());
            }
            let answer = read(format, &got).message;
            let next = post(&url, &body(format, &[task, answer, result("c-1")])).await;
            assert_eq!(read(format, &next.body).message.text(), "Done.");
        },
    )
    .await;
    assert_eq!((turns.len(), turns[0].intent.as_str(), turns[0].usage), (1, "I write a.", USAGE));
    assert_eq!(seen.last.unwrap().usage, USAGE);
}

#[tokio::test]
async fn answers_in_one_piece_are_recorded_before_delivery() {
    for (name, format, path) in ALL {
        let path = path.replace(":streamGenerateContent?alt=sse", ":generateContent");
        let lines = three_turns();
        let server = Server::start(move |seen, _| {
            let request = format.decode_request(seen.body.clone()).unwrap();
            let number = request.messages.iter().filter(|message| message.role == Role::Assistant).count();
            let body = format.encode_reply(&response(lines[number].clone())).to_string();
            Play::Answer(200, vec![("content-type", "application/json".into())], body)
        });
        let upstream = remote(&server, &name, |_| {});
        let (seen, turns) = drive(
            upstream,
            job(),
            |_| TurnVerdict::Go,
            &Log::default(),
            |base, _| async move {
                let url = base.url(format, &path);
                let mut messages = vec![Message::user("task")];
                for _ in 0..3 {
                    let ask = format.encode_request(&request(&messages), false);
                    let answer = format.decode_reply(post(&url, &ask).await.json()).unwrap().message;
                    let calls: Vec<String> = answer.tool_calls().map(|(id, _, _)| id.to_owned()).collect();
                    messages.push(answer);
                    messages.extend(calls.iter().map(|id| result(id)));
                }
            },
        )
        .await;
        let intents: Vec<&str> = turns.iter().map(|turn| turn.intent.as_str()).collect();
        assert_eq!(intents, ["I write a.", "I write b."], "{format:?}");
        let last = seen.last.unwrap();
        assert_eq!((last.intent.as_str(), last.usage), ("All done.", USAGE), "{format:?}");
    }
}

#[tokio::test]
async fn a_cost_reported_after_the_answer_counts() {
    let format = Format::Chat;
    // The counts come after the end of the words, and the stream stays open.
    let server = Server::start(move |_, _| Play::Stall(events(format, says("Done."))));
    let upstream = remote(&server, ProviderName::COMPATIBLE, |_| {});
    let (seen, _) = drive(
        upstream,
        job(),
        |_| TurnVerdict::Go,
        &Log::default(),
        |base, _| async move {
            let url = base.url(format, "/chat/completions");
            let mut client = Client::connect(&url).await;
            let ask = body(format, &[Message::user("task")]).to_string();
            client.send("POST", &url, &[], ask.as_bytes()).await;
            client.head().await.unwrap();
            let mut got = Vec::new();
            while !String::from_utf8_lossy(&got).contains("[DONE]") {
                got.extend(client.piece().await.unwrap());
            }
            // It leaves at once, and so does the program.
            drop(client);
        },
    )
    .await;
    let last = seen.last.unwrap();
    assert_eq!((last.intent.as_str(), last.usage, last.side_calls.len()), ("Done.", USAGE, 0));
}

#[tokio::test]
async fn helpers_side_by_side_have_turns_of_their_own() {
    let format = Format::Anthropic;
    let log = Log::default();
    let both = Barrier::new(2);
    let server = Server::start(move |seen, _| {
        let request = format.decode_request(seen.body.clone()).unwrap();
        let task = request.messages[0].text();
        let number = request.messages.iter().filter(|message| message.role == Role::Assistant).count();
        if task != "task" && number == 0 {
            // Neither is answered before both have asked.
            both.wait();
        }
        stream(
            format,
            match (task.as_str(), number) {
                ("task", 0) => writes("main", "plan"),
                ("task", _) => says("All done."),
                (helper, 0) => writes(helper, helper),
                (helper, _) => says(&format!("{helper} is done.")),
            },
        )
    });
    let upstream = remote(&server, ProviderName::ANTHROPIC, |_| {});
    let (seen, turns) = drive(
        upstream,
        job(),
        |_| TurnVerdict::Go,
        &log,
        |base, _| async move {
            let url = base.url(format, "/v1/messages");
            let task = Message::user("task");
            let first = post(&url, &body(format, std::slice::from_ref(&task))).await;
            let first = read(format, &first.body).message;
            // Its tool is two helpers at once.
            let (one, two) = tokio::join!(converse(&url, format, "one"), converse(&url, format, "two"));
            assert_eq!((one.as_str(), two.as_str()), ("one is done.", "two is done."));
            let last = post(&url, &body(format, &[task, first, result("main")])).await;
            assert_eq!(read(format, &last.body).message.text(), "All done.");
        },
    )
    .await;
    let mut intents: Vec<&str> = turns.iter().map(|turn| turn.intent.as_str()).collect();
    assert_eq!(intents.first(), Some(&"I write plan."), "in the order of their calls");
    intents.sort_unstable();
    assert_eq!(intents, ["I write one.", "I write plan.", "I write two.", "one is done.", "two is done."]);
    let talks = |intent: &str| {
        let turn = turns.iter().find(|turn| turn.intent == intent).unwrap();
        turn.messages.iter().map(Message::conversation).collect::<Vec<_>>()
    };
    assert_eq!(talks("I write plan."), [0, 0], "what its tools say comes when they are done");
    let (one, two) = (talks("I write one."), talks("I write two."));
    assert!(one.len() == 3 && two.len() == 3 && one[0] > 0 && two[0] > 0 && one[0] != two[0], "{one:?} {two:?}");
    assert_eq!((seen.said.as_str(), seen.last.unwrap().intent.as_str()), ("All done.", "All done."));
}

#[tokio::test]
async fn calls_that_are_made_again_make_no_turn() {
    let format = Format::Chat;
    let log = Log::default();
    let server = Server::start(|_, before| match before {
        0 => Play::Answer(500, vec![], "{}".into()),
        1 => Play::Cut(events(Format::Chat, writes("c-1", "a"))[..1].to_vec()),
        2 => stream(Format::Chat, writes("c-1", "a")),
        _ => stream(Format::Chat, says("Done.")),
    });
    let upstream = remote(&server, ProviderName::COMPATIBLE, |_| {});
    let (seen, turns) = drive(
        upstream,
        job(),
        |_| TurnVerdict::Go,
        &log,
        |base, _| async move {
            let url = base.url(format, "/chat/completions");
            let ask = body(format, &[Message::user("task")]).to_string();
            assert_eq!(Client::connect(&url).await.ask(&url, &[], ask.as_bytes()).await.unwrap().status, 500);
            assert!(Client::connect(&url).await.ask(&url, &[], ask.as_bytes()).await.is_none());
            assert_eq!(converse(&url, format, "task").await, "Done.");
        },
    )
    .await;
    assert_eq!((turns.len(), server.seen().len()), (1, 4));
    assert_eq!(seen.last.unwrap().intent, "Done.");
}

#[tokio::test]
async fn a_stop_refuses_the_next_call_and_ends_the_program() {
    let format = Format::Anthropic;
    let log = Log::default();
    let server = server(format, &log, three_turns());
    let upstream = remote(&server, ProviderName::ANTHROPIC, |_| {});
    let (seen, turns) = drive(
        upstream,
        job(),
        |_| TurnVerdict::Stop,
        &log,
        |base, cancel| async move {
            let url = base.url(format, "/v1/messages");
            let said = converse(&url, format, "task").await;
            assert!(said.starts_with("400: ") && said.contains("this run was stopped"), "{said}");
            let title = json!({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "?"}]});
            assert_eq!(post(&url, &title).await.status, 400);
            cancel.killed().await;
        },
    )
    .await;
    assert!(seen.stopped && seen.last.is_none());
    assert_eq!(turns.len(), 1, "the turn that was over is recorded");
    assert_eq!(server.seen().len(), 1, "nothing more was asked");
}

#[tokio::test]
async fn a_kill_ends_the_program_and_keeps_what_it_did() {
    let format = Format::Anthropic;
    let log = Log::default();
    let server = server(format, &log, three_turns());
    let upstream = remote(&server, ProviderName::ANTHROPIC, |_| {});
    let driven = GatewayRun::open(upstream, &job()).await.unwrap();
    let state = driven.state();
    let url = format!("{}/v1/messages", driven.base_url(format));
    let (canceller, cancel) = Cancel::new();
    let (turns, _inbox) = Turns::channel();
    let seen = driven
        .run(&turns, &cancel, |inner| async move {
            state.set(json!({"session": "s-1"}));
            let got = post(&url, &body(format, &[Message::user("task")])).await;
            assert_eq!(got.status, 200);
            canceller.kill();
            inner.killed().await;
        })
        .await;
    let last = seen.last.unwrap();
    assert_eq!((last.intent.as_str(), last.usage, last.is_last), ("I write a.", USAGE, true));
    assert_eq!(last.state_ref, Some(json!({"session": "s-1"})));
    assert!(!seen.stopped);
}

#[tokio::test]
async fn a_program_that_never_asks_has_one_turn() {
    let server = Server::start(|_, _| Play::Drop);
    let upstream = remote(&server, ProviderName::ANTHROPIC, |_| {});
    let (seen, turns) = drive(upstream, job(), |_| TurnVerdict::Go, &Log::default(), |_, _| async {}).await;
    let last = seen.last.unwrap();
    assert!(turns.is_empty() && last.is_last && last.messages.is_empty() && last.usage == Usage::default());
}

#[tokio::test]
async fn a_program_without_tools_has_turns() {
    for (name, format, path) in ALL {
        let log = Log::default();
        let server = server(format, &log, vec![says("First."), says("Second.")]);
        let upstream = remote(&server, &name, |_| {});
        let (seen, turns) = drive(
            upstream,
            job(),
            |_| TurnVerdict::Go,
            &log,
            |base, _| async move {
                let url = base.url(format, path);
                let mut messages = vec![Message::user("one")];
                for next in ["two", "three"] {
                    let ask = Request { tools: Vec::new(), ..request(&messages) };
                    let got = post(&url, &format.encode_request(&ask, true)).await;
                    messages.extend([read(format, &got.body).message, Message::user(next)]);
                }
            },
        )
        .await;
        assert_eq!(log.lines(), ["asked: 0", "turn: First.", "asked: 1"], "{format:?}");
        let last = seen.last.unwrap();
        for (turn, said) in [(&turns[0], ["one", "First."]), (&last, ["two", "Second."])] {
            assert_eq!(turn.messages.iter().map(Message::text).collect::<Vec<_>>(), said, "{format:?}");
            assert_eq!((turn.usage, turn.side_calls.len(), turn.exact), (USAGE, 0, true));
        }
        assert_eq!(seen.said, "Second.");
    }
}

#[tokio::test]
async fn a_single_question_without_tools_is_a_turn() {
    let format = Format::Anthropic;
    let server = server(format, &Log::default(), vec![says("Yes.")]);
    let upstream = remote(&server, ProviderName::ANTHROPIC, |_| {});
    let (seen, turns) = drive(
        upstream,
        job(),
        |_| TurnVerdict::Go,
        &Log::default(),
        |base, _| async move {
            let ask = Request { tools: Vec::new(), ..request(&[Message::user("task")]) };
            assert_eq!(post(&base.url(format, "/v1/messages"), &format.encode_request(&ask, true)).await.status, 200);
        },
    )
    .await;
    let last = seen.last.unwrap();
    assert!(turns.is_empty() && last.is_last && last.side_calls.is_empty());
    assert_eq!(last.messages.iter().map(Message::text).collect::<Vec<_>>(), ["task", "Yes."]);
    assert_eq!((last.usage, seen.said.as_str()), (USAGE, "Yes."));
}

#[tokio::test]
async fn no_way_of_asking_goes_past_the_budget() {
    let format = Format::Anthropic;
    let anew = |number: usize| body(format, &[Message::user(format!("all of it, for the {number}th time"))]);
    let title = |number: usize| match number {
        0 => body(format, &[Message::user("task")]),
        _ => {
            json!({"model": "m-1", "max_tokens": 99, "messages": [{"role": "user", "content": format!("title {number}?")}]})
        }
    };
    let unread = |_: usize| json!({"model": "m-1", "stream": true, "messages": "who knows"});
    let ways: [(&str, &dyn Fn(usize) -> serde_json::Value); 3] =
        [("anew", &anew), ("title", &title), ("unread", &unread)];
    for (way, ask) in ways {
        let server = Server::start(move |_, before| stream(format, writes(&format!("c-{before}"), "a")));
        let driven = GatewayRun::open(remote(&server, ProviderName::ANTHROPIC, |_| {}), &job()).await.unwrap();
        let url = format!("{}/v1/messages", driven.base_url(format));
        let (turns, mut inbox) = Turns::channel();
        let mut allowance = Allowance::default();
        allowance.limits.budget.tokens = 3 * USAGE.total();
        turns.limit(&job().node, allowance);
        let engine = tokio::spawn(async move {
            let mut spent = 0;
            while let Some((turn, answer)) = inbox.recv().await {
                spent += turn.usage.total() + turn.side_calls.iter().map(|call| call.token_usage.total()).sum::<u64>();
                let _ = answer.send(if spent < 3 * USAGE.total() { TurnVerdict::Go } else { TurnVerdict::Stop });
            }
            spent
        });
        let seen = driven
            .run(&turns, &Cancel::never(), |cancel| async move {
                for number in 0..3 {
                    assert_eq!(post(&url, &ask(number)).await.status, 200, "{way} {number}");
                }
                let got = post(&url, &ask(3)).await;
                assert!(got.status == 400 && got.text().contains("this run was stopped"), "{way}: {}", got.text());
                cancel.killed().await;
            })
            .await;
        drop(turns);
        assert!(seen.stopped && seen.last.is_none(), "{way}");
        assert_eq!((server.seen().len(), engine.await.unwrap()), (3, 3 * USAGE.total()), "{way}: all is on record");
    }
}

#[tokio::test]
async fn recorded_answers_are_replayed_for_free() {
    for (name, format, path) in ALL {
        // The first run, which is interrupted after two turns.
        let log = Log::default();
        let first = server(format, &log, three_turns());
        let upstream = remote(&first, &name, |_| {});
        let (_, turns) = drive(
            upstream,
            job(),
            |_| TurnVerdict::Go,
            &log,
            |base, _| async move {
                converse(&base.url(format, path), format, "task").await;
            },
        )
        .await;
        let recorded: Vec<Message> = turns.into_iter().flat_map(|turn| turn.messages).collect();
        // Records are JSON.
        let recorded: Vec<Message> = serde_json::from_value(serde_json::to_value(recorded).unwrap()).unwrap();
        // The second continues live where the record ends.
        let log = Log::default();
        let second = server(format, &log, vec![says("unused"), says("unused"), says("Done this time.")]);
        let upstream = remote(&second, &name, |_| {});
        let again = Job { past: JobPast::Taped(recorded), ..job() };
        let (seen, turns) = drive(
            upstream,
            again,
            |_| TurnVerdict::Go,
            &log,
            |base, _| async move {
                let said = converse(&base.url(format, path), format, "task").await;
                assert_eq!(said, "Done this time.", "{format:?}");
            },
        )
        .await;
        assert_eq!(log.lines(), ["turn: ", "asked: 2"], "{format:?}: nothing is asked before the record ends");
        let repeats: Vec<bool> = turns.iter().map(|turn| turn.repeats).collect();
        assert_eq!(repeats, [true], "what is on record is not reported again, but that it has ended");
        let last = seen.last.unwrap();
        assert_eq!((last.usage, last.repeats), (USAGE, false));
    }
}
