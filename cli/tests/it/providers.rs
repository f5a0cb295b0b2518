//! Real providers, as far as a server on loopback can be one: keys, addresses, trust, cost, written commit messages.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

use crate::server::{Play, Seen, Server};
use crate::sessions::graph;
use crate::support::{Ran, TestEnv};

const KEY: &str = "sk-ant-test-0123456789abcdef";

/// An answer of Anthropic's server as a stream.
fn answer(blocks: &[Value]) -> Play {
    answer_of("claude-sonnet-4-5", blocks)
}

/// The same from a model.
pub fn answer_of(model: &str, blocks: &[Value]) -> Play {
    let event = |event: Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    let usage = json!({"input_tokens": 1000, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 100});
    let message = json!({"id": "m", "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "usage": usage});
    let mut pieces = vec![event(json!({"type": "message_start", "message": message}))];
    for (index, block) in blocks.iter().enumerate() {
        let mut begun = block.clone();
        let delta = if block["type"] == "text" {
            begun["text"] = "".into();
            json!({"type": "text_delta", "text": block["text"]})
        } else {
            begun["input"] = json!({});
            json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})
        };
        pieces.push(event(json!({"type": "content_block_start", "index": index, "content_block": begun})));
        pieces.push(event(json!({"type": "content_block_delta", "index": index, "delta": delta})));
        pieces.push(event(json!({"type": "content_block_stop", "index": index})));
    }
    let stop = if blocks.iter().any(|block| block["type"] == "tool_use") { "tool_use" } else { "end_turn" };
    pieces.push(event(json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage})));
    pieces.push(event(json!({"type": "message_stop"})));
    Play::Stream(pieces)
}

pub fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

pub fn write(file: &str) -> Value {
    let input = json!({"file_path": file, "content": "one\n"});
    json!({"type": "tool_use", "id": format!("call-{file}"), "name": "write_file", "input": input})
}

/// An agent that writes a file and is done; the cheap model says what `scribe` says.
fn server(scribe: impl Fn(&Seen) -> Play + Send + Sync + 'static) -> Server {
    Server::start(move |seen, _| {
        if seen.body["model"] == "cheap-model" {
            return scribe(seen);
        }
        let messages = seen.body["messages"].as_array().map_or(0, Vec::len);
        if messages == 1 {
            answer(&[text("I'll write the greeting."), write("hello.txt")])
        } else {
            answer(&[text("Done.")])
        }
    })
}

fn world(server: &Server) -> TestEnv {
    let env = TestEnv::new();
    env.repo();
    env.write("repo/g.dot", graph("greet", "work [prompt=\"Greet\"] start -> work -> exit"));
    let config = format!(
        "agent: builtin\nproviders:\n  default: anthropic\n  anthropic:\n    models: {{worker: claude-sonnet-4-5, cheap: cheap-model}}\n    \
         settings: {{api_base: '{}'}}\n",
        server.url()
    );
    env.write("repo/pleach.yaml", config);
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Set up"]);
    env
}

fn run(env: &TestEnv, args: &[&str]) -> Ran {
    let mut command = env.command(&["run", "g.dot"]);
    command.args(args).env("ANTHROPIC_API_KEY", KEY);
    env.finish(command.output().expect("pleach can be started"))
}

fn message(env: &TestEnv) -> String {
    env.git(&["log", "-1", "--format=%B", &format!("pleach/greet/{}", env.session())])
}

const GOOD: &str = "Add a greeting\n\nThe file greets whoever reads it.";

#[test]
fn commit_message_via_llm() {
    let server = server(|_| answer(&[text(GOOD)]));
    let env = world(&server);
    run(&env, &["-y"]).expect(0);
    let message = message(&env);
    assert!(message.starts_with(&format!("{GOOD}\n\nOrchestra-Model: claude-sonnet-4-5\n")), "{message}");
    let seen = server.seen();
    let asked: Vec<&Seen> = seen.iter().filter(|seen| seen.body["model"] == "cheap-model").collect();
    assert_eq!(asked.len(), 1, "one commit, one message");
    let told = asked[0].body["messages"][0]["content"][0]["text"].as_str().unwrap();
    for fact in ["I'll write the greeting.", "hello.txt", "+one"] {
        assert!(told.contains(fact), "{fact}: {told}");
    }
}

#[test]
fn a_malformed_message_is_requested_again_then_dropped() {
    let server = server(|seen| {
        let again = seen.body["messages"].as_array().is_some_and(|messages| messages.len() > 1);
        answer(&[text(if again { GOOD } else { "auto-commit" })])
    });
    let env = world(&server);
    run(&env, &["-y"]).expect(0);
    assert!(message(&env).starts_with(GOOD), "{}", message(&env));

    for play in [answer(&[text("auto-commit")]), Play::Answer(500, vec![], "{}".into()), Play::Drop] {
        let server = self::server(move |_| play.clone());
        let env = world(&server);
        let ran = run(&env, &["-y"]).expect(0);
        let message = message(&env);
        assert!(message.starts_with("Write the greeting\n\n"), "in the agent's own words: {message}");
        ran.warns("message-fallback");
    }
}

#[test]
fn an_address_from_the_repository_needs_approval() {
    let server = server(|_| answer(&[text(GOOD)]));
    let env = world(&server);
    let refused = run(&env, &[]).expect(4);
    assert!(refused.stderr.contains("address for keys") && refused.stderr.contains(&server.url()), "{refused}");
    assert!(server.seen().is_empty(), "nothing was sent before");
    let ran = run(&env, &["-y"]).expect(0);
    assert!(ran.stderr.contains("agent builtin (anthropic), billed to ANTHROPIC_API_KEY\n"), "{ran}");
    assert_eq!(server.seen()[0].headers["x-api-key"], KEY);
    run(&env, &[]).expect(0);
}

#[test]
fn turns_know_their_cost_and_nothing_knows_the_key() {
    let server = server(|_| answer(&[text(GOOD)]));
    let env = world(&server);
    let ran = run(&env, &["-y", "--json"]).expect(0);
    let turns: Vec<Value> =
        ran.json_lines().into_iter().filter(|line| line["type"] == "dev.orchestra.AgentTurn").collect();
    assert_eq!(turns.len(), 2, "{ran}");
    let first = &turns[0]["data"];
    // 1000 in and 100 out, twice: the turn, and beside it its commit's message.
    assert_eq!(first["token_usage"]["input"], 1000);
    assert_eq!(first["side_calls"][0]["token_usage"]["input"], 1000);
    assert_eq!(turns[1]["data"]["token_usage"]["output"], 100);
    let cost = turns[1]["data"]["cost_usd"].as_f64().unwrap();
    assert!((cost - 0.0045).abs() < 1e-9, "3 and 15 dollars for a million: {cost}");
    assert_eq!((&first["provider"], &first["model"]), (&json!("anthropic"), &json!("claude-sonnet-4-5")));
    let sid = env.session();
    let records = env.git(&["log", "-p", "--all", "--format=%B", &format!("refs/pleach/sessions/{sid}/main")]);
    for text in [&records, &ran.stdout, &ran.stderr] {
        assert!(!text.contains(KEY));
    }
    let objects = env.git(&["cat-file", "--batch-all-objects", "--batch-check"]);
    for id in objects.lines().filter_map(|line| line.split(' ').next()) {
        let content = env.git(&["cat-file", "-p", id]);
        assert!(!content.contains(KEY), "object {id}");
    }
    assert!(!state_holds(&env.root().join("state"), KEY));
}

#[test]
fn a_key_from_a_command_is_in_no_record() {
    // It has the shape of nothing in particular.
    const PRINTED: &str = "Zq8xT4vB1nM6";
    let server = server_that_says(&format!("Your key is {PRINTED}."));
    let env = world(&server);
    let config = env.read("repo/pleach.yaml");
    env.write(
        "repo/pleach.yaml",
        config.replace("api_base:", &format!("api_key_command: 'echo {PRINTED}', api_base:")),
    );
    let ran = env.pleach(&["-y", "run", "g.dot"]).expect(0);
    assert_eq!(server.seen()[0].headers["x-api-key"], PRINTED);
    let recorded = env.story().whole_text(&env);
    assert!(recorded.contains("Your key is [redacted:ANTHROPIC_API_KEY]."), "{ran}");
    assert!(!recorded.contains(PRINTED));
    let billed = "agent builtin (anthropic), billed to `providers.anthropic.settings.api_key_command`\n";
    assert!(ran.stderr.contains(billed), "{ran}");
}

#[test]
fn a_written_commit_message_has_no_secret_in_it() {
    const TOKEN: &str = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";
    const PASSWORD: &str = "Zq8xT4vB1nM6";
    let server = Server::start(|seen, _| {
        let messages = seen.body["messages"].as_array().map_or(0, Vec::len);
        match seen.body["model"].as_str() {
            Some("cheap-model") => answer(&[text(&format!("Add {TOKEN}\n\nIt uses {PASSWORD}."))]),
            _ if messages == 1 => answer(&[text("I'll write it."), write(&format!("{TOKEN}.txt"))]),
            _ => answer(&[text("Done.")]),
        }
    });
    let env = world(&server);
    let mut command = env.command(&["-y", "run", "g.dot"]);
    command.env("ANTHROPIC_API_KEY", KEY).env("DB_PASSWORD", PASSWORD);
    env.finish(command.output().expect("pleach can be started")).expect(0);
    let message = message(&env);
    assert!(message.starts_with("Add [redacted:") && message.contains("It uses [redacted:DB_PASSWORD]."), "{message}");
    let recorded = env.story().first("AgentTurn")["commit_message"].as_str().map(str::to_owned);
    assert!(recorded.is_some_and(|recorded| message.starts_with(recorded.trim_end())), "{message}");
    let seen = server.seen();
    let asked = seen.iter().find(|seen| seen.body["model"] == "cheap-model").expect("somebody was asked");
    assert!(!asked.body.to_string().contains(TOKEN), "{}", asked.body);
}

fn server_that_says(words: &str) -> Server {
    let said = [text(words)];
    Server::start(move |_, _| answer(&said))
}

/// Whether any file below a directory holds a text.
fn state_holds(dir: &Path, text: &str) -> bool {
    std::fs::read_dir(dir).expect("the state directory").flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            state_holds(&path, text)
        } else {
            std::fs::read(&path).is_ok_and(|held| String::from_utf8_lossy(&held).contains(text))
        }
    })
}

#[test]
fn a_missing_or_refused_key_comes_with_a_hint() {
    let server = Server::start(|seen, _| {
        if seen.headers["x-api-key"] == KEY {
            return answer(&[text("Done.")]);
        }
        let body = json!({"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}});
        Play::Answer(401, vec![], body.to_string())
    });
    let env = world(&server);
    let missing = env.pleach(&["run", "g.dot", "-y"]).expect(7);
    missing.fails_with("agent-missing").naming("ANTHROPIC_API_KEY");
    let with = |key: &str, args: &[&str]| {
        let mut command = env.command(args);
        env.finish(command.env("ANTHROPIC_API_KEY", key).output().expect("pleach can be started"))
    };
    let refused = with("sk-ant-of-yesterday", &["-y", "run", "g.dot"]).expect(7);
    let said = "does not accept the key (401): invalid x-api-key\nhint: check ANTHROPIC_API_KEY; ";
    assert!(refused.stderr.contains(said), "{refused}");
    assert_eq!(server.seen().len(), 1, "a refused key is not tried again");
    let sid = env.session();
    refused.fails_with("agent-unusable").naming(format!("`pleach resume {sid}`"));
    let status = env.pleach(&["status", &sid]).expect(0);
    assert!(status.stdout.contains("paused: `work` cannot continue: anthropic does not accept the key"), "{status}");
    with(KEY, &["-y", "resume", &sid]).expect(0);
}

/// A script whose first answer is this, in every node that talks to a model.
fn begins_with(answer: &str) -> String {
    format!("scripts: [{{name: all, steps: [{answer}, {{text: Done.}}]}}]")
}

const DOWN: &str = "{error: {status: 503, message: no service, retry_after: 1ms}, tries: 99}";

#[test]
fn a_down_provider_pauses_after_the_nodes_retries() {
    let env = TestEnv::with_script(&begins_with(DOWN));
    let dot = graph("down", "code [prompt=Work, max_retries=1] start -> code -> exit");
    let ran = env.run(&dot, &[]).expect(7);
    ran.fails_with("agent-unusable").naming("`code`").naming("503");
    assert_eq!(env.story().all("RetryAt").len(), 1);
    env.resume(&[]).expect(7);
    env.script(&begins_with("{text: I work.}"));
    env.resume(&[]).expect(0);

    // What was done before it went down is not done again.
    let writes = "{text: I write., tools: [{write_file: {file_path: one, content: x}}]}";
    let env = TestEnv::with_script(&format!("scripts: [{{name: all, steps: [{writes}, {DOWN}, {{text: Done.}}]}}]"));
    env.run(&graph("down", "code [prompt=Work] start -> code -> exit"), &[]).expect(7);
    env.script(&format!("scripts: [{{name: all, steps: [{writes}, {{text: Done.}}]}}]"));
    env.resume(&[]).expect(0);
    assert_eq!(env.story().all("AgentTurn").len(), 2);
}

#[test]
fn a_run_falls_back_to_another_agent_without_model() {
    let env = TestEnv::with_script(&begins_with("{error: {status: 401, message: no}}"));
    let instead = "code [prompt=Work] instead [shape=parallelogram, tool_command=\"echo mine > mine\"] \
                   start -> code -> exit code -> instead [condition=\"outcome=fail\"] instead -> exit";
    env.run(&graph("instead", instead), &[]).expect(0);
    assert_eq!(env.committed("mine"), "mine");

    let script = "scripts: [{name: review, when: {node: review}, steps: [{error: {status: 401, message: no}}]}, \
                  {name: code, steps: [{text: Done.}]}]";
    let env = TestEnv::with_script(script);
    let back = "code [prompt=Work] review [prompt=Look, retry_target=code] start -> code -> review -> exit \
                review -> code [condition=\"outcome=fail\"]";
    let ran = env.run(&graph("back", back), &[]).expect(7);
    ran.fails_with("agent-unusable").naming("`review`");
    assert_eq!(env.story().all("AgentTurn").len(), 1, "nothing was paid twice");
}

#[test]
fn a_key_without_server_address_is_not_missing() {
    let env = TestEnv::with_repo();
    env.configure("agent: builtin\n");
    env.pipeline(&graph("one", "work [prompt=Greet] start -> work -> exit"));
    for others in [&[][..], &[("OPENAI_API_KEY", "sk-of-somebody-else")]] {
        let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
        command.env("ANTHROPIC_API_KEY", KEY).env("ANTHROPIC_BASE_URL", "nonsense").envs(others.iter().copied());
        let ran = env.finish(command.output().expect("pleach can be started")).expect(7);
        let said = "`nonsense` is not the address of a server: it begins with neither https:// nor http://\n\
                    hint: correct ANTHROPIC_BASE_URL";
        assert!(ran.stderr.contains(said), "{ran}");
    }
    let mut command = env.command(&["-y", "run", "../pipeline.dot"]);
    command.env("ANTHROPIC_BASE_URL", "nonsense");
    let ran = env.finish(command.output().expect("pleach can be started")).expect(7);
    ran.fails_with("agent-missing").naming("no model is configured");
}

#[test]
fn an_unknown_model_is_found_before_spending() {
    let server = server(|_| answer(&[text(GOOD)]));
    let env = world(&server);
    let run = |node: &str, code: i32| {
        let body = format!(
            "work [prompt=Greet] other [prompt=Look, llm_provider=openrouter{node}] start -> work -> other -> exit"
        );
        env.write("repo/g.dot", graph("greet", &body));
        let mut command = env.command(&["-y", "run", "g.dot"]);
        command
            .env("ANTHROPIC_API_KEY", KEY)
            .env("OPENROUTER_API_KEY", "k-router")
            .env("OPENROUTER_BASE_URL", server.url());
        env.finish(command.output().expect("pleach can be started")).expect(code)
    };
    let said = "`other` cannot run: openrouter has no model `worker`\nhint: set `providers.openrouter.models.worker`";
    let ran = run("", 7);
    assert!(ran.stderr.contains(said), "{ran}");
    let ran = run(", llm_model=smart", 7);
    ran.fails_with("agent-missing").naming("`smart`");
    assert!(server.seen().is_empty(), "nobody was asked");
}

#[test]
fn profile_files_tell_agents_their_role() {
    let server = server(|_| answer(&[text(GOOD)]));
    let env = world(&server);
    env.write("repo/g.dot", graph("greet", "work [prompt=\"Greet\", agent=\"poet\"] start -> work -> exit"));
    let config = env.read("repo/pleach.yaml");
    env.write("repo/pleach.yaml", format!("{config}agents: {{poet: {{role: agents/role.yaml, model: m-poet}}}}\n"));
    let missing = run(&env, &["-y"]).expect(2);
    missing.fails_with("layer-invalid").naming("`poet`");
    env.write("repo/agents/role.yaml", "content: You rhyme.\n");
    run(&env, &["-y"]).expect(0);
    let first = &server.seen()[0].body;
    assert_eq!(first["model"], "m-poet");
    assert!(first["system"][1]["text"].as_str().unwrap().contains("\n# Role\nYou rhyme.\n"));
}

/// Puts TLS before a plain server, as `localhost` and `models.test`, certified by an authority of the tests alone; gives
/// the port.
pub fn tls_before(server: &Server) -> u16 {
    let plain = server.url().replace("http://", "");
    tls(&[], move |mut caller| {
        let plain = plain.clone();
        async move {
            let mut server = tokio::net::TcpStream::connect(plain).await.expect("the plain server");
            let _ = tokio::io::copy_bidirectional(&mut caller, &mut server).await;
        }
    })
}

/// A server over TLS that offers to speak these languages by ALPN; gives the port.
pub fn tls<F: Future<Output = ()> + Send + 'static>(
    languages: &[&str],
    serve: impl Fn(TlsStream<tokio::net::TcpStream>) -> F + Clone + Send + Sync + 'static,
) -> u16 {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("../data/tls-server.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../data/tls-server-key.pem")).expect("a key");
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(vec![certificate], key))
        .expect("a certificate and its key");
    config.alpn_protocols = languages.iter().map(|language| language.as_bytes().to_vec()).collect();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port on loopback");
    let port = listener.local_addr().expect("a bound socket").port();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            listener.set_nonblocking(true).expect("a socket of the test's own");
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket of the test's own");
            let acceptor = TlsAcceptor::from(Arc::new(config));
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, serve) = (acceptor.clone(), serve.clone());
                tokio::spawn(async move {
                    // A caller that does not trust us hangs up here.
                    let Ok(caller) = acceptor.accept(stream).await else { return };
                    serve(caller).await;
                });
            }
        });
    });
    port
}

#[test]
fn a_server_over_tls_must_be_one_the_machine_trusts() {
    let server = server(|_| answer(&[text(GOOD)]));
    let env = world(&server);
    let port = tls_before(&server);
    let run = |host: &str, authority: Option<&str>| {
        let mut command = env.command(&["run", "g.dot", "-y"]);
        command.env("ANTHROPIC_API_KEY", KEY);
        command.env("PLEACH_PROVIDERS__ANTHROPIC__SETTINGS__API_BASE", format!("https://{host}:{port}"));
        command.envs(authority.map(|file| ("SSL_CERT_FILE", file)));
        env.finish(command.output().expect("pleach can be started"))
    };
    let authority = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls-authority.pem");
    for (host, authority) in [("localhost", None), ("127.0.0.1", Some(authority))] {
        let refused = run(host, authority).expect(7);
        refused.fails_with("agent-unusable").naming(format!("https://{host}:{port}/v1"));
        assert!(server.seen().is_empty(), "nothing was sent");
    }
    run("localhost", Some(authority)).expect(0);
    assert_eq!(server.seen()[0].headers["host"], format!("localhost:{port}"));
}
