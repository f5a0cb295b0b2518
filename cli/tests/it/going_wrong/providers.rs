//! Endpoints, proxies, and agents that speak to them.

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use agents::llm::wire::Format;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

use crate::fake_agent;
use crate::gateway::server_of;
use crate::providers::{answer_of, text, tls, tls_before, write};
use crate::server::{Play, Seen, Server};
use crate::sessions::graph;
use crate::support::{Ran, TestEnv};

const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls-authority.pem");

/// A server that writes a file and is done, in whichever language it is asked.
fn server() -> Server {
    Server::start(|seen: &Seen, _| -> Play {
        let path = seen.line.split(' ').nth(1).unwrap_or_default();
        let is_first = !seen.body.to_string().contains("call-");
        if path.contains("/messages") {
            return if is_first {
                answer_of("m-1", &[text("I go on."), write("hello.txt")])
            } else {
                answer_of("m-1", &[text("Done.")])
            };
        }
        let arguments = json!({"file_path": "hello.txt", "content": "one\n"});
        let body = if path.contains("/chat/completions") {
            let call = json!({"id": "call-1", "type": "function",
                "function": {"name": "write_file", "arguments": arguments.to_string()}});
            let (message, reason) = if is_first {
                (json!({"role": "assistant", "content": "I go on.", "tool_calls": [call]}), "tool_calls")
            } else {
                (json!({"role": "assistant", "content": "Done."}), "stop")
            };
            json!({"id": "c", "object": "chat.completion", "model": "m-1",
                "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}})
        } else if path.contains("/responses") {
            let output = if is_first {
                json!([{"type": "function_call", "id": "f", "call_id": "call-1", "name": "write_file",
            "arguments": arguments.to_string(), "status": "completed"}])
            } else {
                json!([{"type": "message", "id": "m", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Done.", "annotations": []}]}])
            };
            json!({"id": "r", "object": "response", "status": "completed", "model": "m-1", "output": output,
                "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}})
        } else {
            let parts = if is_first {
                json!([{"functionCall": {"id": "call-1", "name": "write_file", "args": arguments}}])
            } else {
                json!([{"text": "Done."}])
            };
            json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
                "modelVersion": "m-1", "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}})
        };
        Play::Answer(200, vec![("content-type", "application/json".into())], body.to_string())
    })
}

/// All that is recorded and committed.
fn everything(env: &TestEnv) -> String {
    env.git(&["log", "--all", "-p"])
}

fn run(env: &TestEnv, config: &str, node: &str, variables: &[(&str, &str)]) -> Ran {
    env.configure(config);
    env.write("repo/g.dot", graph("work", &format!("work [prompt=\"Work\"{node}] start -> work -> exit")));
    let mut command = env.command(&["-y", "run", "g.dot"]);
    command.envs(variables.iter().copied());
    env.finish(command.output().expect("pleach can be started"))
}

#[test]
fn n10_a_custom_endpoint_gets_its_format_path_and_headers() {
    for (kind, base, line, key) in [
        ("anthropic", "/team/v1?version=7", "POST /team/v1/messages?version=7 HTTP/1.1", "x-api-key"),
        (
            "chat",
            "/deployments/d?version=7",
            "POST /deployments/d/chat/completions?version=7 HTTP/1.1",
            "authorization",
        ),
        ("responses", "/openai/v1?version=7", "POST /openai/v1/responses?version=7 HTTP/1.1", "authorization"),
        (
            "gemini",
            "/v1beta?version=7",
            "POST /v1beta/models/m-1:streamGenerateContent?alt=sse&version=7 HTTP/1.1",
            "x-goog-api-key",
        ),
    ] {
        let (env, server) = (TestEnv::with_repo(), server());
        let config = format!(
            "agent: builtin\nproviders:\n  default: team-a\n  team-a:\n    kind: {kind}\n    base_url: '{}{base}'\n    \
             api_key: $TEAM_KEY\n    headers: {{X-Team: a, X-Pass-Token: '${{TEAM_TOKEN}}'}}\n    models: {{worker: m-1}}\n",
            server.url()
        );
        let ran = run(&env, &config, "", &[("TEAM_KEY", "tk-0123456789"), ("TEAM_TOKEN", "tt-0123456789")]).expect(0);
        let seen = &server.seen()[0];
        assert_eq!(seen.line, line, "{kind}");
        assert!(seen.headers[key].ends_with("tk-0123456789"), "{kind}: {:?}", seen.headers);
        assert_eq!((&*seen.headers["x-team"], &*seen.headers["x-pass-token"]), ("a", "tt-0123456789"), "{kind}");
        assert!(ran.stderr.contains("builtin (team-a), billed to TEAM_KEY"), "{ran}");
        let turns = env.story().all("AgentTurn").into_iter().cloned().collect::<Vec<Value>>();
        assert!(turns.iter().all(|turn| turn["provider"] == "team-a"), "{turns:?}");
        assert!(!everything(&env).contains("tk-0123456789"), "no key is recorded");
    }
}

#[test]
fn n10_two_endpoints_of_a_kind_serve_their_nodes() {
    let (env, one, two) = (TestEnv::with_repo(), server(), server());
    let endpoint =
        |server: &Server| format!("{{kind: anthropic, base_url: '{}', models: {{worker: m-1}}}}", server.url());
    let config =
        format!("agent: builtin\nproviders: {{default: one, one: {}, two: {}}}\n", endpoint(&one), endpoint(&two));
    run(&env, &config, ", llm_provider=two", &[("ANTHROPIC_API_KEY", "sk-ant-0123456789")]).expect(0);
    assert_eq!((one.seen().len(), two.seen().len()), (0, 2));
    assert!(!two.seen()[0].headers.contains_key("x-api-key"), "no other provider's key goes there");
    run(&env, &config, "", &[]).expect(0);
    assert_eq!((one.seen().len(), two.seen().len()), (2, 2));
    let unknown = run(&env, &config, ", llm_provider=tow", &[]).expect(7);
    unknown.fails_with("agent-missing").naming("`two`");
}

#[test]
fn n10_a_missing_or_forbidden_endpoint_setting_is_reported() {
    let env = TestEnv::with_repo();
    for (provider, code, said) in [
        ("antropic: {models: {worker: m}}", 2, "Did you mean `anthropic`?"),
        ("mine: {base_url: 'http://h'}", 2, "the provider `mine` has no `kind`"),
        ("mine: {kind: chatt}", 2, "Did you mean `chat`?"),
        ("Mine: {kind: chat}", 2, "`Mine` is not a valid provider name"),
        ("mine: {kind: chat, api_key: sk-secret-0123456789}", 2, "expected a variable such as `$NAME`"),
        ("mine: {kind: chat, headers: {Authorization: Bearer s-secret-1}}", 2, "named like a secret"),
        ("mine: {kind: chat, headers: {Host: h}}", 2, "the header `Host` cannot be set here"),
        ("mine: {kind: chat, base_url: 'http://h/?key=s-secret-1'}", 2, "`key` in this address is named like a secret"),
        ("default: mien, mine: {kind: chat}", 2, "Did you mean `mine`?"),
        ("default: mine, mine: {kind: chat}", 7, "mine has no address"),
        ("default: mine, mine: {kind: chat, base_url: 'http://127.0.0.1:9', api_key: $NOT_SET}", 7, "set NOT_SET"),
        (
            "default: mine, mine: {kind: chat, base_url: 'http://127.0.0.1:9', headers: {X: $NOT_SET}}",
            7,
            "the variable NOT_SET is not set",
        ),
        ("default: mine, mine: {kind: chat, base_url: 'http://127.0.0.1:9'}", 7, "mine has no model `worker`"),
    ] {
        let ran = run(&env, &format!("agent: builtin\nproviders: {{{provider}}}\n"), "", &[]).expect(code);
        assert!(ran.stderr.contains(said), "{provider}: {ran}");
        assert!(!ran.stderr.contains("secret-"), "{ran}");
    }
}

#[test]
fn n10_a_repositorys_endpoint_needs_approval_before_a_key() {
    let (env, server) = (TestEnv::with_repo(), server());
    let config = format!(
        "agent: builtin\nproviders:\n  default: mine\n  mine: {{kind: anthropic, base_url: '{}', api_key: $ANTHROPIC_API_KEY, \
         headers: {{X-Team: a}}, models: {{worker: m-1}}}}\n",
        server.url()
    );
    env.write("repo/pleach.yaml", config);
    env.write("repo/g.dot", graph("work", "work [prompt=\"Work\"] start -> work -> exit"));
    env.git(&["add", "."]);
    env.git(&["commit", "--quiet", "-m", "Set up"]);
    let go = |args: &[&str], code: i32| {
        let mut command = env.command(args);
        command.env("ANTHROPIC_API_KEY", "sk-ant-0123456789");
        env.finish(command.output().expect("pleach can be started")).expect(code)
    };
    let refused = go(&["run", "g.dot"], 4);
    for part in ["providers.mine.base_url", "providers.mine.headers.X-Team", "ANTHROPIC_API_KEY is sent as its key"] {
        assert!(refused.stderr.contains(part), "{part}: {refused}");
    }
    assert!(server.seen().is_empty());
    go(&["-y", "run", "g.dot"], 0);
    assert_eq!(server.seen()[0].headers["x-api-key"], "sk-ant-0123456789");
}

/// A proxy that lets callers through to one port, whatever host they name; what it was asked is kept.
fn proxy(to: u16) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port on loopback");
    let port = listener.local_addr().expect("a bound socket").port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    std::thread::spawn(move || {
        for caller in listener.incoming() {
            let (Ok(caller), heard) = (caller, Arc::clone(&heard)) else { return };
            std::thread::spawn(move || let_through(caller, to, &heard));
        }
    });
    (port, asked)
}

fn let_through(mut caller: TcpStream, to: u16, heard: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(caller.try_clone().expect("a socket of the test's own"));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).is_ok_and(|read| read == 0) {
            return;
        }
    }
    heard.lock().expect("no proxy has panicked").push(head.clone());
    // "me:p@ss"
    if !head.contains("Proxy-Authorization: Basic bWU6cEBzcw==\r\n") {
        let _ = caller.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
        return;
    }
    let server = TcpStream::connect(("127.0.0.1", to)).expect("the server");
    let _ = caller.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n");
    let (mut up, mut from) = (server.try_clone().expect("a socket"), server);
    let back = std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut caller);
        let _ = caller.shutdown(Shutdown::Both);
    });
    let _ = std::io::copy(&mut reader, &mut up);
    let _ = up.shutdown(Shutdown::Both);
    let _ = back.join();
}

/// An endpoint over TLS at a name that only a proxy can find.
const BEHIND: &str = "agent: builtin\nproviders:\n  default: far\n  far: {kind: anthropic, base_url: 'https://models.test', models: {worker: m-1}}\n";

#[test]
fn n10_a_proxy_from_variables_is_used_and_named() {
    let (env, server) = (TestEnv::with_repo(), server());
    let (port, asked) = proxy(tls_before(&server));
    let with_login = format!("http://me:p%40ss@127.0.0.1:{port}");
    let trusted = ("SSL_CERT_FILE", AUTHORITY);
    run(&env, BEHIND, "", &[("HTTPS_PROXY", &with_login), trusted]).expect(0);
    let heads = asked.lock().expect("no proxy has panicked").clone();
    assert!(heads[0].starts_with("CONNECT models.test:443 HTTP/1.1\r\n"), "{heads:?}");
    assert_eq!(server.seen()[0].headers["host"], "models.test");
    assert!(!everything(&env).contains("p%40ss"), "the proxy's password is not recorded");

    let no_login = format!("http://127.0.0.1:{port}");
    let refused = run(&env, BEHIND, "", &[("ALL_PROXY", &no_login), trusted]).expect(7);
    let said = format!(
        "cannot connect to https://models.test/v1 through the proxy {no_login} (ALL_PROXY): the proxy answered \
         `HTTP/1.1 407 Proxy Authentication Required`"
    );
    assert!(refused.stderr.contains(&said), "{refused}");

    let before = asked.lock().expect("no proxy has panicked").len();
    let once = BEHIND.replace("models: ", "settings: {retries: 0}, models: ");
    let direct = run(&env, &once, "", &[("HTTPS_PROXY", &with_login), ("NO_PROXY", ".test"), trusted]).expect(7);
    direct.fails_with("agent-unusable").naming("https://models.test/v1");
    assert!(!direct.stderr.contains("p%40ss"), "{direct}");
    assert_eq!(asked.lock().expect("no proxy has panicked").len(), before, "NO_PROXY keeps it off");

    let strange = run(&env, BEHIND, "", &[("HTTPS_PROXY", "socks5://me:p%40ss@h:1"), trusted]).expect(7);
    strange.fails_with("agent-missing").naming("HTTPS_PROXY");
    assert!(!strange.stderr.contains("p%40ss"), "{strange}");
}

#[test]
fn n10_plain_calls_go_to_the_proxy_of_plain_calls() {
    let (env, server) = (TestEnv::with_repo(), server());
    let config = BEHIND.replace("https://", "http://");
    let proxy = server.url().replace("http://", "");
    run(&env, &config, "", &[("http_proxy", &proxy), ("HTTPS_PROXY", "http://127.0.0.1:9")]).expect(0);
    assert_eq!(server.seen()[0].line, "POST http://models.test/v1/messages HTTP/1.1");
}

#[test]
fn n10_an_http_2_server_is_used_over_one_connection() {
    let env = TestEnv::with_repo();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&seen);
    let port = tls(&["h2", "http/1.1"], move |stream| {
        let heard = Arc::clone(&heard);
        heard.lock().expect("no server has panicked").push("a connection".into());
        async move {
            let answer = |request: Request<Incoming>| {
                let heard = Arc::clone(&heard);
                async move {
                    let mut heard = heard.lock().expect("no server has panicked");
                    heard.push(format!("{:?} {} {}", request.version(), request.method(), request.uri()));
                    let blocks = match heard.len() {
                        2 => vec![text("I go on."), write("hello.txt")],
                        _ => vec![text("Done.")],
                    };
                    let Play::Stream(pieces) = answer_of("m-1", &blocks) else { unreachable!("answers are streams") };
                    let mut response = Response::new(Full::new(Bytes::from(pieces.concat())));
                    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
                    Ok::<_, Infallible>(response)
                }
            };
            let _ = http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service_fn(answer))
                .await;
        }
    });
    let config = BEHIND.replace("https://models.test", &format!("https://localhost:{port}"));
    run(&env, &config, "", &[("SSL_CERT_FILE", AUTHORITY)]).expect(0);
    let call = format!("HTTP/2.0 POST https://localhost:{port}/v1/messages");
    assert_eq!(*seen.lock().expect("no server has panicked"), ["a connection", &call, &call]);
}

#[test]
fn n10_a_silent_connection_is_not_reused() {
    let env = TestEnv::with_repo();
    let connections = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let port = tls(&["h2"], move |stream| {
        counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async move {
            let silent = |_: Request<Incoming>| std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>();
            let _ = http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service_fn(silent))
                .await;
        }
    });
    let config = BEHIND.replace("https://models.test", &format!("https://localhost:{port}"));
    let config = config.replace("models: ", "settings: {retries: 1, timeout: 1}, models: ");
    run(&env, &config, "", &[("SSL_CERT_FILE", AUTHORITY)]).expect(7);
    assert_eq!(connections.load(std::sync::atomic::Ordering::SeqCst), 2);
}

#[test]
fn n10_the_configuration_s_headers_win_over_an_agent_s() {
    let (env, server) = (TestEnv::with_repo(), server());
    let program = serde_json::json!([fake_agent::path(), env.write("play", "converse anthropic\n")]);
    let config = format!(
        "agents: {{worker: {{command: {program}, turns: gateway, provider: far}}}}\nsandbox: {{mode: off}}\n\
         providers: {{far: {{kind: anthropic, base_url: '{}', headers: {{x-api-key: $TEAM_KEY}}, models: {{worker: m-1}}}}}}\n",
        server.url()
    );
    run(&env, &config, ", agent=worker", &[("TEAM_KEY", "team-key-123")]);
    assert_eq!(server.seen()[0].headers["x-api-key"], "team-key-123");
}

/// What OpenCode is, as far as pleach sees: it speaks as its settings say, and tells its steps.
fn opencode(env: &TestEnv, language: &str) {
    let (root, agent) = (env.root().display(), fake_agent::path().display());
    let play = env.write("play", format!("converse {language}\n"));
    let stream = format!("{}/../crates/agents/tests/data/agents/opencode_default.jsonl", env!("CARGO_MANIFEST_DIR"));
    env.write_program(
        "bin/opencode",
        &format!(
            "#!/bin/sh\ntest \"$1\" = --version && echo 1.18.33 && exit\n\
             printf '%s\\n' \"$@\" > {root}/args.txt; printf %s \"$OPENCODE_CONFIG_CONTENT\" > {root}/told.json\n\
             of() {{ sed \"s/.*\\\"$1\\\":\\\"\\([^\\\"]*\\)\\\".*/\\1/\" {root}/told.json; }}\n\
             base=$(of baseURL); key=$(of apiKey)\n\
             export ANTHROPIC_BASE_URL=\"${{base%/v1}}\" OPENAI_BASE_URL=\"$base\" GOOGLE_GEMINI_BASE_URL=\"${{base%/v1beta}}\"\n\
             export ANTHROPIC_API_KEY=$key OPENAI_API_KEY=$key GEMINI_API_KEY=$key\n\
             '{agent}' '{}' >&2 && cat '{stream}'\n",
            play.display()
        ),
    );
}

#[test]
fn n09_opencode_uses_the_api_of_the_key() {
    for (language, format, provider, key, sdk, end) in [
        ("anthropic", Format::Anthropic, "anthropic", "ANTHROPIC_API_KEY", "@ai-sdk/anthropic", "/v1"),
        ("responses", Format::Responses, "openai", "OPENAI_API_KEY", "@ai-sdk/openai", "/v1"),
        ("gemini", Format::Gemini, "gemini", "GEMINI_API_KEY", "@ai-sdk/google", "/v1beta"),
        ("chat", Format::Chat, "compatible", "COMPATIBLE_API_KEY", "@ai-sdk/openai-compatible", "/v1"),
    ] {
        let (env, server) = (TestEnv::with_repo(), server_of(format));
        opencode(&env, language);
        let config = format!(
            "agent: opencode\nsandbox: {{mode: off}}\n\
             providers: {{{provider}: {{base_url: '{}', models: {{worker: m-worker}}}}}}\n",
            server.url()
        );
        let ran = run(&env, &config, "", &[(key, "sk-real-0123456789")]).expect(0);
        let billed = format!("agent opencode 1.18.33 (turns: gateway), billed to {key}");
        assert!(ran.stderr.contains(&billed), "{ran}");
        let told: Value = serde_json::from_str(&env.read("told.json")).expect("settings of OpenCode");
        assert_eq!((&told["model"], &told["small_model"]), (&json!("pleach/m-worker"), &json!("pleach/m-worker")));
        let own = &told["provider"]["pleach"];
        assert_eq!(own["npm"], sdk);
        assert!(own["options"]["baseURL"].as_str().is_some_and(|base| base.ends_with(end)), "{own}");
        assert!(own["models"].get("m-worker").is_some(), "{own}");
        assert!(env.read("args.txt").contains("-m\npleach/m-worker\n"), "{}", env.read("args.txt"));
        assert_eq!(env.committed("hello.txt"), "hello\nmore");
        let turns = env.story().all("AgentTurn").into_iter().cloned().collect::<Vec<Value>>();
        assert!(turns.iter().all(|turn| turn["provider"] == provider && turn["boundary"] == "exact"), "{turns:?}");
        assert!(server.seen().iter().all(|seen| !seen.body.to_string().contains("worker\"")), "{provider}");
    }
}

#[test]
fn n09_an_agent_a_provider_cannot_answer_is_refused_first() {
    let (env, server) = (TestEnv::with_repo(), server());
    opencode(&env, "gemini");
    env.write_program("bin/claude", "#!/bin/sh\necho 9.8.7\n");
    let base = |provider: &str| format!("providers: {{{provider}: {{base_url: '{}'}}}}\n", server.url());
    let settings = "agent: opencode\nsandbox: {mode: off}\n";
    let gemini = [("GEMINI_API_KEY", "k-0123456789")];
    let router = [("OPENROUTER_API_KEY", "k-0123456789")];
    let ran = run(&env, &format!("{settings}{}", base("openrouter")), "", &router).expect(7);
    let told = "openrouter has no model `worker`\nhint: set `providers.openrouter.models.worker`";
    assert!(ran.stderr.contains(told), "{ran}");
    let ran = run(&env, &format!("{settings}{}", base("compatible")), "", &[]).expect(7);
    ran.fails_with("agent-missing").naming("`worker`");
    let claude =
        format!("agents: {{claude: {{provider: gemini}}}}\nagent: claude\nsandbox: {{mode: off}}\n{}", base("gemini"));
    let ran = run(&env, &claude, "", &gemini);
    ran.fails_with("agent-missing")
        .naming("Claude Code uses the Anthropic Messages API; provider `gemini` does not offer it");
    assert_eq!((ran.code, server.seen().len(), env.sessions().len()), (7, 0, 0), "{ran}");
}

/// `codex-acp` that finds its gateway in its settings alone, or does not look for it.
fn codex_acp(env: &TestEnv, script: &str) -> String {
    let root = env.root().display();
    env.write("script", script);
    env.write_program(
        "bin/codex-acp",
        &format!(
            "#!/bin/sh\ntest -f \"$CODEX_HOME/config.toml\" || exit 9\n\
             OPENAI_BASE_URL=$(sed -n 's/^base_url = \"\\(.*\\)\"/\\1/p' \"$CODEX_HOME/config.toml\")\n\
             export OPENAI_BASE_URL OPENAI_API_KEY=\"$PLEACH_GATEWAY_KEY\"\n\
             exec '{}' '{root}/script' '{root}/log'\n",
            crate::acp::program().display()
        ),
    );
    "agent: 'acp:codex-acp'\nsandbox: {mode: off}\n".to_owned()
}

#[test]
fn n09_codex_over_acp_finds_the_gateway_in_its_settings() {
    let (env, server) = (TestEnv::with_repo(), server_of(Format::Responses));
    let config = codex_acp(&env, "converse responses\n");
    let config = format!("{config}providers: {{openai: {{base_url: '{}'}}}}\n", server.url());
    let ran = run(&env, &config, "", &[("OPENAI_API_KEY", "sk-real-0123456789")]).expect(0);
    assert!(ran.stderr.contains("agent acp:codex-acp, billed to OPENAI_API_KEY through the gateway"), "{ran}");
    assert_eq!(env.committed("hello.txt"), "hello\nmore");
    assert_eq!(server.seen()[0].headers["authorization"], "Bearer sk-real-0123456789");
}

#[test]
fn n09_codex_over_acp_asking_no_model_fails() {
    let (env, server) = (TestEnv::with_repo(), server());
    let config = codex_acp(&env, "say All done.\n");
    let config = format!("{config}providers: {{openai: {{base_url: '{}'}}}}\n", server.url());
    let ran = run(&env, &config, "", &[("OPENAI_API_KEY", "sk-real-0123456789")]).expect(1);
    let said = "agent `codex-acp` says that it is done and has asked no model through the gateway";
    assert!(ran.stdout.contains(said) || ran.stderr.contains(said), "{ran}");
}
