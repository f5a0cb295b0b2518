//! Answers that break off, are empty or make no sense.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::providers::{answer_of, text, write};
use crate::server::{Play, Seen, Server};
use crate::sessions::graph;
use crate::support::TestEnv;
use crate::terminal::Terminal;

pub const MODEL: &str = "claude-sonnet-4-5";

/// A server of Anthropic's that answers the agent as a function says, which is given how often it was asked before. Who
/// asks without tools wants a commit message.
pub fn server(handler: impl Fn(&Seen, usize) -> Play + Send + Sync + 'static) -> Server {
    let asked = AtomicUsize::new(0);
    Server::start(move |seen, _| {
        if is_of_agent(seen) {
            handler(seen, asked.fetch_add(1, Ordering::SeqCst))
        } else {
            answer_of("scribe", &[text("Add a file")])
        }
    })
}

fn is_of_agent(seen: &Seen) -> bool {
    seen.body.get("tools").is_some()
}

/// What the agent has asked.
pub fn asked(server: &Server) -> Vec<Value> {
    server.seen().into_iter().filter(is_of_agent).map(|seen| seen.body).collect()
}

pub fn answer(blocks: &[Value]) -> Play {
    answer_of(MODEL, blocks)
}

/// A world whose built-in agent asks this server, with these settings of the provider.
pub fn world(server: &Server, settings: &str) -> TestEnv {
    let env = TestEnv::with_repo();
    configure(&env, server, settings);
    env
}

pub fn configure(env: &TestEnv, server: &Server, settings: &str) {
    env.configure(&format!(
        "agent: builtin\nproviders:\n  default: anthropic\n  anthropic:\n    models: {{worker: {MODEL}, cheap: scribe}}\n    \
         settings: {{api_base: '{}', api_key_command: 'echo sk-of-a-test', {settings}}}\n",
        server.url()
    ));
}

/// One node that works.
pub fn one_node(attributes: &str) -> String {
    graph("one", &format!("work [prompt=\"Write it\"{attributes}] start -> work -> exit"))
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default())
}

/// The beginning of an answer, up to the words.
fn begun(words: &str) -> Vec<String> {
    let usage = json!({"input_tokens": 1000, "output_tokens": 1});
    let message = json!({"type": "message", "role": "assistant", "model": MODEL, "content": [], "usage": usage});
    [
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}}),
    ]
    .iter()
    .map(event)
    .collect()
}

/// An answer that breaks off because the server has too much to do.
fn overloaded(words: &str) -> Play {
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    Play::Stream([begun(words), vec![event(&error)]].concat())
}

#[test]
fn n05_half_an_answer_is_retried_from_the_same_conversation() {
    let server = server(|_, before| match before {
        0 => answer(&[text("I write."), write("one")]),
        1 => Play::Cut(begun("Half of it, and")),
        2 => overloaded("Another half, and"),
        _ => answer(&[text("Done.")]),
    });
    let env = world(&server, "");
    env.run(&one_node(", max_retries=3"), &[]).expect(0);
    let asked = asked(&server);
    assert_eq!(asked.len(), 4);
    assert_eq!((&asked[1]["messages"], &asked[1]["messages"]), (&asked[2]["messages"], &asked[3]["messages"]));
    let story = env.story();
    assert!(story.all("RetryAt").is_empty());
    let turns = story.all("AgentTurn");
    assert_eq!(turns.len(), 2);
    let halves: Vec<&Value> = turns[1]["side_calls"].as_array().unwrap().iter().map(|call| &call["purpose"]).collect();
    assert_eq!(halves, ["failed_try", "failed_try"], "every half is paid for");
    assert!(turns[1]["side_calls"][0]["token_usage"]["input"].as_u64() >= Some(1000), "{:?}", turns[1]);
}

#[test]
fn n05_a_provider_that_always_breaks_off_pauses_the_run() {
    let server = server(|seen, before| match seen.body["messages"].as_array().map_or(0, Vec::len) {
        1 => answer(&[text("I write."), write("one")]),
        _ if before <= 2 => Play::Cut(begun("Half of it, and")),
        _ => answer(&[text("Done.")]),
    });
    let env = world(&server, "retries: 1");
    let ran = env.run(&one_node(", max_retries=3"), &[]).expect(7);
    ran.fails_with("agent-unusable").naming("`work`").naming("2 times");
    assert_eq!(asked(&server).len(), 3, "a call and one more try");
    assert!(env.story().all("RetryAt").is_empty(), "no conversation is thrown away");
    env.resume(&[]).expect(0);
    assert_eq!(asked(&server).len(), 4, "it goes on where it was");
    assert_eq!(env.committed("one"), "one");
}

#[test]
fn n05_a_server_that_asks_for_two_minutes_gets_them() {
    let busy = |_: &Seen, _| Play::Answer(429, vec![("retry-after", "120".into())], "{}".into());
    let server = server(busy);
    let env = world(&server, "");
    let mut run = env.start(&one_node(""), &[]);
    run.wait_for("retrying in 120 s (1 of 7): anthropic is asked too often (429)");
    run.stop();
    run.end_soon().expect(3);
    assert_eq!(asked(&server).len(), 1);

    // At a terminal the live line says so.
    let Some(mut terminal) = Terminal::open(&env, "-y run ../pipeline.dot") else { return };
    terminal.wait_for("retrying in 120 s (1 of 7): anthropic is asked");
    drop(terminal);

    let env = world(&server, "max_wait: 119");
    let ran = env.run(&one_node(""), &[]).expect(7);
    ran.fails_with("agent-unusable").naming("120 s");
}

/// An answer with this stop reason, whose blocks are as they are here.
fn stopped(reason: &str, blocks: &[Value]) -> Play {
    let usage = json!({"input_tokens": 1000, "output_tokens": 100});
    let message = json!({"type": "message", "role": "assistant", "model": MODEL, "content": blocks,
        "stop_reason": reason, "usage": usage});
    Play::Answer(200, vec![("content-type", "application/json".into())], message.to_string())
}

/// A call whose arguments are no object.
fn malformed(words: &str) -> Play {
    let call = json!({"type": "tool_use", "id": "c", "name": "write_file", "input": "{\"file_path\": "});
    stopped("tool_use", &[text(words), call])
}

#[test]
fn n04_an_empty_answer_is_retried_once_and_fails() {
    let faults = [
        (answer(&[]), "it is empty"),
        (stopped("gone_fishing", &[text("Well then.")]), "it ended for an unknown reason: `gone_fishing`"),
        (malformed("I write on."), "the arguments of its call of `write_file` are no JSON object"),
    ];
    for (fault, why) in faults {
        // Once, after the first turn.
        let once = fault.clone();
        let server = server(move |_, before| match before {
            0 => answer(&[text("I write."), write("one")]),
            1 => once.clone(),
            _ => answer(&[text("Done.")]),
        });
        let env = world(&server, "");
        env.run(&one_node(""), &[]).expect(0);
        let asked = asked(&server);
        let last = asked[2]["messages"].as_array().unwrap().last().unwrap();
        assert!(last.to_string().contains(&json!(why).to_string().replace('"', "")), "{last}");
        assert_eq!(env.story().all("AgentTurn").len(), 2);

        let server = self::server(move |_, before| match before {
            0 => answer(&[text("I write."), write("one")]),
            _ => fault.clone(),
        });
        let env = world(&server, "");
        let ran = env.run(&one_node(""), &[]).expect(1);
        assert!(ran.stdout.contains(&format!("could not be used, twice: {why}")), "{ran}");
        assert_eq!(self::asked(&server).len(), 3, "and never again");
    }
}

#[test]
fn n04_what_arrived_of_an_answer_is_shown() {
    for end in [Play::Cut, Play::Stream] {
        let server = server(move |_, before| match before {
            0 => answer(&[text("I write."), write("one")]),
            1 => malformed("I write on."),
            _ => end(begun("Half of it, and")),
        });
        let env = world(&server, "retries: 0");
        env.run(&one_node(""), &[]).expect(7);
        let shown = env.pleach(&["show", "main.2"]).expect(0).stdout;
        assert!(shown.contains("── assistant, not used: the arguments of its call of `write_file`"), "{shown}");
        assert!(shown.contains("I write on.\n"), "{shown}");
        assert!(shown.contains("── assistant, not used: ") && shown.contains("Half of it, and\n"), "{shown}");
    }
}

/// What the tools have answered in the newest message of a request.
fn results(body: &Value) -> Vec<String> {
    let last = body["messages"].as_array().and_then(|messages| messages.last()).expect("a message");
    let blocks = last["content"].as_array().expect("blocks");
    blocks.iter().filter_map(|block| block["content"].as_str()).map(str::to_owned).collect()
}

/// A call of a tool.
pub fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

#[test]
fn n06_a_truncated_call_is_told_to_write_pieces() {
    let server = server(|_, before| match before {
        0 => {
            let usage = json!({"input_tokens": 1000, "output_tokens": 1});
            let message = json!({"type": "message", "model": MODEL, "content": [], "usage": usage});
            let cut = "{\"file_path\": \"long\", \"content\": \"and so on";
            let events = [
                json!({"type": "message_start", "message": message}),
                json!({"type": "content_block_start", "index": 0, "content_block": call("a", "write_file", &json!({}))}),
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": cut}}),
                json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 64000}}),
                json!({"type": "message_stop"}),
            ];
            Play::Stream(events.iter().map(event).collect())
        }
        1 => answer(&[write("short")]),
        _ => answer(&[text("Done.")]),
    });
    let env = world(&server, "");
    env.run(&one_node(""), &[]).expect(0);
    let asked = asked(&server);
    assert_eq!(asked[0]["max_tokens"], 64000, "the model's own limit");
    let told = results(&asked[1]);
    assert_eq!(told, ["not run: the call was cut at 64000 tokens; write in pieces, with several smaller calls"]);
    assert!(asked[1]["messages"][1]["content"][0]["input"].is_object(), "{}", asked[1]);
    assert_eq!(env.files(), ["README.md", "short"]);
}

#[test]
fn n06_argument_errors_name_the_field_and_repeat_nothing() {
    let long = "do not repeat this ".repeat(50);
    let calls = [
        call("a", "read_file", &json!({"file_path": "README.md", "limit": "10"})),
        call("b", "read_file", &json!({"file_path": "README.md", "limit": long})),
        call("c", "write_file", &json!({"content": long})),
        call("d", "write_file", &json!({"file_path": "x", "content": {"deep": long}})),
    ];
    let server = server(move |_, before| match before {
        0 => answer(&calls),
        _ => answer(&[text("Done.")]),
    });
    let env = world(&server, "");
    env.run(&one_node(""), &[]).expect(0);
    let told = results(&asked(&server)[1]);
    assert!(told[0].starts_with("  1 | "), "{told:?}");
    let fit = "the arguments do not fit the tool: ";
    assert_eq!(
        told[1..],
        [
            format!("{fit}`limit` must be a whole number from 1, not this text"),
            format!("{fit}missing field `file_path`"),
            format!("{fit}`content` must be text, not an object"),
        ]
    );
}

#[test]
fn n06_calls_sharing_an_index_but_not_id_are_two() {
    let server = Server::start(|_, before| {
        let chunk = |delta: &Value, finish: &Value| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
            format!("data: {}\n\n", json!({"id": "x", "model": "m", "choices": [choice]}))
        };
        let none = Value::Null;
        if before > 0 {
            let said = json!({"role": "assistant", "content": "Done."});
            return Play::Stream(vec![chunk(&said, &none), chunk(&json!({}), &json!("stop"))]);
        }
        let begins = |id: &str, file: &str| {
            let arguments = format!("{{\"file_path\": \"{file}\", \"content\"");
            let function = json!({"name": "write_file", "arguments": arguments});
            chunk(&json!({"tool_calls": [{"index": 0, "id": id, "type": "function", "function": function}]}), &none)
        };
        let rest = chunk(&json!({"tool_calls": [{"index": 0, "function": {"arguments": ": \"x\"}"}}]}), &none);
        let end = chunk(&json!({}), &json!("tool_calls"));
        Play::Stream(vec![begins("a", "one"), rest.clone(), begins("b", "two"), rest, end])
    });
    let env = TestEnv::with_repo();
    env.configure(&format!(
        "agent: builtin\nproviders: {{default: compatible, compatible: {{models: {{worker: m}}, settings: {{api_base: '{}'}}}}}}\n",
        server.url()
    ));
    env.run(&one_node(""), &[]).expect(0);
    assert_eq!(env.files(), ["README.md", "one", "two"]);
}

mod behind_the_gateway {
    //! Programs behind the gateway whose model's answers break off.

    use serde_json::json;

    use crate::fake_agent;
    use crate::going_wrong::runaway::{brings_tools, half, page, refusal};
    use crate::providers::{answer_of, text};
    use crate::server::{Play, Server};
    use crate::sessions::graph;
    use crate::support::{Ran, TestEnv};

    /// What a program does whose model's answer is not whole.
    const SAYS_ALL_IS_WELL: &str = "\"$@\"; echo All is well.";
    const ASKS_AGAIN: &str = "prompt=$(cat); until printf %s \"$prompt\" | \"$@\"; do :; done";

    fn run(env: &TestEnv, server: &Server, script: &str) -> Ran {
        run_with(env, server, script, "")
    }

    /// The same with these attributes of the node.
    fn run_with(env: &TestEnv, server: &Server, script: &str, attributes: &str) -> Ran {
        let program = json!(["sh", "-c", script, "sh", fake_agent::path(), env.write("play", "converse anthropic\n")]);
        env.configure(&format!(
            "agents: {{worker: {{command: {program}, turns: gateway, provider: anthropic}}}}\nsandbox: {{mode: off}}\n\
             providers: {{anthropic: {{settings: {{api_base: '{}', api_key_command: echo sk-ant-test}}}}}}\n",
            server.url()
        ));
        let node = format!("work [prompt=\"Work\", agent=worker{attributes}] start -> work -> exit");
        env.run(&graph("work", &node), &[])
    }

    /// Has a file written.
    fn writes(name: &str) -> Play {
        let input = json!({"command": format!("echo {name} > {name}.txt")});
        let call = json!({"type": "tool_use", "id": format!("c-{name}"), "name": "Bash", "input": input});
        answer_of("claude-sonnet-4-5", &[text("I write."), call])
    }

    /// Writes a file first; then its answer breaks off.
    fn breaks_off_second(before: usize) -> Play {
        match before {
            0 => writes("one"),
            1 => half("It is nearly"),
            _ => answer_of("claude-sonnet-4-5", &[text("All of it.")]),
        }
    }

    #[test]
    fn n04_a_stream_without_end_is_never_a_success() {
        let env = TestEnv::with_repo();
        let server = Server::start(|_, before| breaks_off_second(before));
        let ran = run(&env, &server, SAYS_ALL_IS_WELL).expect(7);
        let why = "the last call of its model was not answered: the provider's answer broke off";
        assert!(ran.stderr.contains(why), "{ran}");
        let story = env.story();
        assert_eq!(env.committed("one.txt"), "one", "what was done before stays");
        let turns = story.all("AgentTurn");
        let shown = env.pleach(&["show", turns.last().unwrap()["turn"].as_str().unwrap()]).expect(0);
        assert!(shown.stdout.contains("It is nearly"), "what arrived is shown: {shown}");
        assert!(shown.stdout.contains("the answer broke off"), "and that it is not all: {shown}");
        env.resume(&[]).expect(0);
        assert_eq!(server.seen().len(), 3, "what was answered before is not asked for again");
    }

    #[test]
    fn n04_an_unanswered_last_call_is_never_a_success() {
        let cases = [
            (refusal(500, "the server fell over"), 7, "the server fell over"),
            (refusal(401, "invalid x-api-key"), 7, "invalid x-api-key"),
            (refusal(400, "no such field"), 1, "no such field"),
            (Play::Drop, 7, "the last call of its model was not answered"),
            (page(), 7, "<html>please log in</html>"),
        ];
        for (fault, code, why) in cases {
            let env = TestEnv::with_repo();
            let server = Server::start(move |seen, _| match seen.body["messages"].as_array().map_or(0, Vec::len) {
                1 => writes("one"),
                _ => fault.clone(),
            });
            let ran = run(&env, &server, SAYS_ALL_IS_WELL).expect(code);
            assert!(format!("{}{}", ran.stdout, ran.stderr).contains(why), "{ran}");
            assert_eq!(env.committed("one.txt"), "one", "what was done before stays");
        }
        let env = TestEnv::with_repo();
        let server = Server::start(|_, _| page());
        let ran = run(&env, &server, SAYS_ALL_IS_WELL).expect(7);
        ran.fails_with("agent-unusable").naming("no call of its model was answered");
    }

    #[test]
    fn n04_an_overcome_refusal_or_failed_title_is_no_failure() {
        let env = TestEnv::with_repo();
        let title = env.write("title", "say anthropic Title\n");
        let script = format!("{ASKS_AGAIN}; \"$1\" {}; echo All is well.", title.display());
        let server = Server::start(|seen, before| match (brings_tools(seen), before) {
            (false, _) => refusal(500, "no titles today"),
            (true, 0) => refusal(400, "no such field"),
            (true, _) => answer_of("claude-sonnet-4-5", &[text("All of it.")]),
        });
        let ran = run(&env, &server, &script).expect(0);
        assert_eq!(server.seen().len(), 3, "{ran}");
    }

    #[test]
    fn n05_a_programs_conversation_survives_another_attempt() {
        for (script, failed) in [(SAYS_ALL_IS_WELL, 1), (ASKS_AGAIN, 10), ("\"$@\"", 1)] {
            let env = TestEnv::with_repo();
            let server = Server::start(move |_, before| match before {
                0 => writes("one"),
                1 => writes("two"),
                _ if before < 2 + failed => half("It is nearly"),
                _ => answer_of("claude-sonnet-4-5", &[text("All of it.")]),
            });
            let ran = run_with(&env, &server, script, ", max_retries=2").expect(7);
            assert_eq!(server.seen().len(), 2 + failed, "no new attempt: {ran}");
            assert!(env.story().all("RetryAt").is_empty(), "{ran}");
            let ran = env.resume(&[]).expect(0);
            assert_eq!(server.seen().len(), 3 + failed, "what is on record is not asked again: {ran}");
            assert_eq!((env.committed("one.txt").as_str(), env.committed("two.txt").as_str()), ("one", "two"));
        }
    }

    #[test]
    fn n04_an_answer_completed_late_is_a_success() {
        let env = TestEnv::with_repo();
        let server = Server::start(|_, before| breaks_off_second(before + 1));
        let ran = run(&env, &server, ASKS_AGAIN).expect(0);
        assert_eq!(server.seen().len(), 2, "{ran}");
        let turns = env.story().all("AgentTurn").into_iter().cloned().collect::<Vec<_>>();
        let spent: u64 = turns.iter().filter_map(|turn| turn["token_usage"]["input"].as_u64()).sum();
        assert_eq!(spent, 2000, "the half is paid for: {turns:#?}");
    }
}
