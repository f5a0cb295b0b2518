//! What goes through the gateway, and what does not.

use std::time::Duration;

use agents::gateway::{CallDecision, Facts, Gateway, Upstream};
use agents::llm::wire::Format;
use agents::llm::{Message, Script};
use pleach_core::config::ProviderName;
use pleach_core::event::WarningCode;
use serde_json::{Value, json};

use super::client::{Client, post};
use super::{ALL, KEY, USAGE, body, events, let_through, open, read, remote, response, says, stream, writes};
use crate::server::{Play, Server};

const ANTHROPIC: (ProviderName, Format) = (ProviderName::ANTHROPIC, Format::Anthropic);

fn task() -> [Message; 1] {
    [Message::user("task")]
}

#[tokio::test]
async fn every_language_goes_through_with_the_real_key() {
    for (name, format, path) in ALL {
        let server = Server::start(move |_, _| stream(format, says("Hello.")));
        let (gateway, arrivals) = open(&server, &name).await;
        let_through(arrivals);
        let url = format!("{}{path}", gateway.base_url(format));
        let mut client = Client::connect(&url).await;
        let headers = [
            ("authorization", "Bearer dummy"),
            ("x-api-key", "dummy"),
            ("x-goog-api-key", "dummy"),
            ("anthropic-beta", "one,two"),
            ("connection", "keep-alive, x-hop"),
            ("x-hop", "1"),
            ("accept-encoding", "gzip, br"),
            ("user-agent", "some-agent/1"),
        ];
        let got = client.ask(&url, &headers, body(format, &task()).to_string().as_bytes()).await.unwrap();
        assert_eq!(got.status, 200, "{}", got.text());
        assert_eq!(got.headers["content-type"], "text/event-stream");
        let said = read(format, &got.body);
        assert_eq!((said.message.text().as_str(), said.usage), ("Hello.", USAGE), "{format:?}");
        let seen = &server.seen()[0];
        let sent: Vec<&String> = ["authorization", "x-api-key", "x-goog-api-key"]
            .iter()
            .filter_map(|name| seen.headers.get(*name))
            .collect();
        assert_eq!(sent.len(), 1, "{:?}", seen.headers);
        assert_eq!(sent[0].trim_start_matches("Bearer "), KEY);
        assert!(!format!("{:?}", seen.headers).contains("dummy"));
        assert_eq!(seen.headers["anthropic-beta"], "one,two");
        assert_eq!(seen.headers["user-agent"], "some-agent/1");
        assert_eq!(seen.headers["accept-encoding"], "identity");
        assert!(!seen.headers.contains_key("x-hop") && seen.headers["host"].starts_with("127.0.0.1:"));
        assert!(!seen.line.contains(&gateway.base_url(Format::Gemini)[24..]), "{}", seen.line);
        if format == Format::Chat {
            assert_eq!(seen.body["stream_options"], json!({"include_usage": true}), "or nobody knew the cost");
        }
        let rest = gateway.close().await;
        assert_eq!((rest.exchanges.len(), rest.exchanges[0].usage), (1, USAGE), "{format:?}");
        let cost = rest.exchanges[0].cost_usd.unwrap();
        assert!((cost - 190e-6).abs() < 1e-12, "{cost}");
    }
}

#[tokio::test]
async fn no_request_without_the_secret_passes() {
    let server = Server::start(|_, _| Play::Drop);
    let (gateway, _arrivals) = open(&server, ANTHROPIC.0).await;
    let host = format!("http://127.0.0.1:{}", gateway.port());
    for path in ["/", "/v1/messages", "/0123456789abcdef0123456789abcdef/v1/messages"] {
        let got = post(&format!("{host}{path}"), &body(ANTHROPIC.1, &task())).await;
        assert_eq!(got.status, 404, "{path}");
        assert!(!got.text().contains("gateway"), "{}", got.text());
    }
    let address = gateway.address(Format::Anthropic);
    assert!(!address.contains(gateway.key()), "{address}");
    for headers in
        [("authorization", "Bearer pleach-gateway"), ("x-api-key", ""), ("x-goog-api-key", "0123456789abcdef")]
    {
        let mut client = Client::connect(&address).await;
        let url = format!("{address}/v1/messages");
        let got = client.ask(&url, &[headers], body(ANTHROPIC.1, &task()).to_string().as_bytes()).await.unwrap();
        assert_eq!(got.status, 404, "{headers:?}");
    }
    let base = gateway.base_url(Format::Anthropic);
    let got = post(&format!("{base}/v1/messages/batches"), &json!({"requests": []})).await;
    assert_eq!(got.status, 404, "a batch would be paid for unseen");
    let mut client = Client::connect(&base).await;
    client.send("HEAD", &base, &[], b"").await;
    assert_eq!(client.head().await.unwrap().status, 200);
    assert!(server.seen().is_empty(), "nothing went on");
    let (other, _arrivals) = open(&server, ANTHROPIC.0).await;
    assert_ne!(base[24..], other.base_url(Format::Anthropic)[24..], "each has its own");
    let warning = &gateway.close().await.warnings[0];
    assert_eq!(warning.code, WarningCode::CallRefused);
    assert!(warning.text.contains("/v1/messages/batches"), "{warning}");
}

#[tokio::test]
async fn the_key_opens_the_address_everybody_may_know() {
    for (name, format, path) in ALL {
        let server = Server::start(move |_, _| stream(format, says("Done.")));
        let (gateway, arrivals) = open(&server, &name).await;
        let_through(arrivals);
        let url = format!("{}{path}", gateway.address(format));
        let bearer = format!("Bearer {}", gateway.key());
        let key = match format {
            Format::Anthropic => ("x-api-key", gateway.key()),
            Format::Gemini => ("x-goog-api-key", gateway.key()),
            Format::Responses | Format::Chat => ("authorization", bearer.as_str()),
        };
        let mut client = Client::connect(&url).await;
        let got = client.ask(&url, &[key], body(format, &task()).to_string().as_bytes()).await.unwrap();
        assert_eq!(got.status, 200, "{format:?}");
        let seen = server.seen();
        assert_eq!(seen.len(), 1);
        assert!(!seen[0].headers.values().any(|value| value.contains(gateway.key())), "it goes no further: {format:?}");
    }
}

#[tokio::test]
async fn nothing_is_forwarded_before_the_gate_opens() {
    let server = Server::start(|_, _| stream(Format::Anthropic, says("Hello.")));
    let (gateway, mut arrivals) = open(&server, ANTHROPIC.0).await;
    let url = format!("{}/v1/messages", gateway.base_url(Format::Anthropic));
    let mut client = Client::connect(&url).await;
    client.send("POST", &url, &[], body(Format::Anthropic, &task()).to_string().as_bytes()).await;
    let arrival = arrivals.recv().await.unwrap();
    assert_eq!((arrival.conversation, arrival.tries, arrival.before.len()), (Some(0), 1, 0));
    assert_eq!((arrival.request.model.as_str(), arrival.request.messages.len()), ("m-1", 1));
    // Another goes through meanwhile, so that this one had all the time in the world.
    let title = json!({"model": "m-1", "max_tokens": 9, "messages": [{"role": "user", "content": "a title?"}]});
    let (got, beside) = tokio::join!(post(&url, &title), async {
        let beside = arrivals.recv().await.unwrap();
        let seen = (beside.conversation, beside.request.messages[0].text(), server.seen().len());
        beside.answer.send(CallDecision::Forward).unwrap();
        seen
    });
    assert_eq!((got.status, beside), (200, (None, "a title?".to_owned(), 0)), "it is held as well");
    assert_eq!(server.seen().len(), 1);
    arrival.answer.send(CallDecision::Refuse("the money is gone".into())).unwrap();
    let got = client.answer().await.unwrap();
    assert_eq!((got.status, got.json()["error"]["message"].as_str()), (400, Some("the money is gone")));
    assert_eq!(server.seen().len(), 1);
    let told = Box::new(response(says("as before")));
    client.send("POST", &url, &[], body(Format::Anthropic, &task()).to_string().as_bytes()).await;
    let arrival = arrivals.recv().await.unwrap();
    assert_eq!(
        (arrival.tries, arrival.side_calls[0].token_usage, arrival.side_calls[0].purpose.as_str()),
        (2, USAGE, "aside"),
        "the title was paid for"
    );
    arrival.answer.send(CallDecision::Answer(told)).unwrap();
    assert_eq!(read(Format::Anthropic, &client.answer().await.unwrap().body).message.text(), "as before");
    gateway.refuse("over");
    assert_eq!(post(&url, &title).await.status, 400, "also what is no part of a conversation");
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn chunks_are_forwarded_as_they_arrive() {
    let pieces = events(Format::Anthropic, says("Hello."));
    let first = pieces[0].clone();
    let server = Server::start(move |_, _| Play::Stall(vec![first.clone()]));
    let (gateway, arrivals) = open(&server, ANTHROPIC.0).await;
    let_through(arrivals);
    let url = format!("{}/v1/messages", gateway.base_url(Format::Anthropic));
    let mut client = Client::connect(&url).await;
    client.send("POST", &url, &[], body(Format::Anthropic, &task()).to_string().as_bytes()).await;
    assert_eq!(client.head().await.unwrap().status, 200);
    let piece = client.piece().await.unwrap();
    assert_eq!(String::from_utf8(piece).unwrap(), pieces[0], "though the server has not said all");
    // The client goes; the call continues until the gateway is closed.
    drop(client);
    let rest = gateway.close().await;
    tokio::task::spawn_blocking(move || server.wait_for_leaving(1)).await.unwrap();
    assert!(rest.exchanges.is_empty());
    let call = &rest.side_calls[0];
    assert_eq!(
        (call.purpose.as_str(), call.model.as_str(), call.provider.as_str()),
        ("broken_off", "m-1", "anthropic")
    );
    assert_eq!((call.token_usage.input, call.token_usage.cache_read), (100, 50), "what was counted until then");
}

#[tokio::test]
async fn a_call_that_closing_cuts_off_is_paid_for() {
    let pieces = events(Format::Anthropic, says("Hello."));
    let server = Server::start(move |_, _| Play::Stall(pieces[..1].to_vec()));
    let (gateway, arrivals) = open(&server, ANTHROPIC.0).await;
    let_through(arrivals);
    let url = format!("{}/v1/messages", gateway.base_url(Format::Anthropic));
    let mut client = Client::connect(&url).await;
    client.send("POST", &url, &[], body(Format::Anthropic, &task()).to_string().as_bytes()).await;
    client.head().await.unwrap();
    client.piece().await.unwrap();
    // The client is still there, and so is the call.
    let rest = gateway.close().await;
    assert_eq!((rest.side_calls.len(), rest.side_calls[0].purpose.as_str()), (1, "broken_off"));
    assert_eq!(rest.side_calls[0].token_usage.input, 100);
    assert!(client.piece().await.is_none(), "it was hung up on");
}

#[tokio::test]
async fn a_client_leaving_while_held_never_counted() {
    let server = Server::start(|_, _| stream(Format::Anthropic, says("Hello.")));
    let (gateway, mut arrivals) = open(&server, ANTHROPIC.0).await;
    let url = format!("{}/v1/messages", gateway.base_url(Format::Anthropic));
    let mut client = Client::connect(&url).await;
    client.send("POST", &url, &[], body(Format::Anthropic, &task()).to_string().as_bytes()).await;
    let mut arrival = arrivals.recv().await.unwrap();
    drop(client);
    arrival.answer.closed().await;
    assert!(arrival.answer.send(CallDecision::Forward).is_err());
    assert!(server.seen().is_empty());
    assert!(gateway.close().await.exchanges.is_empty());
}

#[tokio::test]
async fn a_client_closing_its_half_counts_as_gone() {
    let server = Server::start(|_, _| Play::Hang);
    let (gateway, arrivals) = open(&server, ANTHROPIC.0).await;
    let_through(arrivals);
    let url = format!("{}/v1/messages", gateway.base_url(Format::Anthropic));
    let mut client = Client::connect(&url).await;
    client.send("POST", &url, &[], body(Format::Anthropic, &task()).to_string().as_bytes()).await;
    client.half_close().await;
    assert!(client.answer().await.is_none());
    // The call may not have got to the server yet; if it has, it is given up there too.
    assert!(gateway.close().await.exchanges.is_empty());
    assert!(server.seen().len() <= 1);
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let pieces = events(Format::Anthropic, says("Hello."));
    let server = Server::start(move |_, before| match before {
        0 => Play::Hang,
        1 => Play::Stall(pieces[..1].to_vec()),
        2 => Play::Drop,
        _ => stream(Format::Anthropic, says("Hello.")),
    });
    let impatient = remote(&server, ANTHROPIC.0, |given| given.settings.timeout = 3);
    let (gateway, arrivals) = Gateway::open(impatient, Facts::default()).await.unwrap();
    let_through(arrivals);
    let url = format!("{}/v1/messages", gateway.base_url(Format::Anthropic));
    let ask = body(Format::Anthropic, &task());
    let got = post(&url, &ask).await;
    assert_eq!(got.status, 504, "{}", got.text());
    assert!(got.json()["error"]["message"].as_str().unwrap().contains("sent nothing for 3 s"));
    let mut client = Client::connect(&url).await;
    assert!(client.ask(&url, &[], ask.to_string().as_bytes()).await.is_none(), "the stream breaks off");
    let got = post(&url, &ask).await;
    assert_eq!(got.status, 502, "{}", got.text());
    assert!(!got.text().contains(KEY));
    assert_eq!(post(&url, &ask).await.status, 200);
    let rest = gateway.close().await;
    assert_eq!(rest.exchanges.len(), 1, "four tries of one call");
    assert_eq!(rest.exchanges[0].usage.input, 200, "two of which cost something");
}

#[tokio::test]
async fn an_answer_that_breaks_off_breaks_off_for_the_client() {
    for (name, format, path) in ALL {
        let pieces = events(format, writes("c-1", "a"));
        let half = pieces[..1].to_vec();
        let server = Server::start(move |_, _| Play::Cut(half.clone()));
        let (gateway, arrivals) = open(&server, &name).await;
        let_through(arrivals);
        let url = format!("{}{path}", gateway.base_url(format));
        let mut client = Client::connect(&url).await;
        let got = client.ask(&url, &[], body(format, &task()).to_string().as_bytes()).await;
        assert!(got.is_none(), "{format:?}: it is not passed off as whole");
        let rest = gateway.close().await;
        assert!(rest.exchanges.is_empty(), "{format:?}");
    }
}

#[tokio::test]
async fn refusals_of_the_provider_are_the_clients() {
    let refusal = r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#;
    let headers = vec![("retry-after", "7".to_owned()), ("request-id", "r-1".to_owned())];
    let server = Server::start(move |_, _| Play::Answer(429, headers.clone(), refusal.into()));
    let (gateway, arrivals) = open(&server, ANTHROPIC.0).await;
    let_through(arrivals);
    let got = post(&format!("{}/v1/messages", gateway.base_url(Format::Anthropic)), &body(ANTHROPIC.1, &task())).await;
    assert_eq!((got.status, got.text().as_str()), (429, refusal));
    assert_eq!((got.headers["retry-after"].as_str(), got.headers["request-id"].as_str()), ("7", "r-1"));
    assert!(gateway.close().await.exchanges.is_empty());
}

#[tokio::test]
async fn a_hundred_megabytes_go_through_and_are_not_kept() {
    let pieces = events(Format::Anthropic, says("WORD"));
    let at = pieces.iter().position(|piece| piece.contains("WORD")).unwrap();
    let (first, last) = (pieces[..at].concat(), pieces[at + 1..].concat());
    let word = pieces[at].replace("WORD", &"x".repeat(100_000));
    let length = word.len();
    let server = Server::start(move |_, _| Play::Flood(first.clone(), word.clone(), 1_000, last.clone()));
    let (gateway, arrivals) = open(&server, ANTHROPIC.0).await;
    let_through(arrivals);
    let url = format!("{}/v1/messages", gateway.base_url(Format::Anthropic));
    let mut client = Client::connect(&url).await;
    client.send("POST", &url, &[], body(Format::Anthropic, &task()).to_string().as_bytes()).await;
    assert_eq!(client.head().await.unwrap().status, 200);
    // Nobody reads, so that the server cannot continue: what it has sent is in the buffers between.
    let mut before = usize::MAX;
    while server.sent() != before {
        before = server.sent();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(before < 300, "{before} of a thousand pieces were taken in though nobody reads");
    let mut read = 0;
    loop {
        let piece = client.piece().await.expect("a whole answer");
        read += piece.len();
        if piece.is_empty() {
            break;
        }
    }
    assert!(read > 1_000 * length, "{read}");
    let rest = gateway.close().await;
    assert_eq!((rest.exchanges.len(), rest.exchanges[0].usage), (1, USAGE), "its tokens are known");
    assert!(rest.exchanges[0].response.is_none());
    assert_eq!(rest.warnings[0].code, WarningCode::AnswerUnrecorded);
}

#[tokio::test]
async fn connections_are_kept_on_both_sides() {
    let whole = Format::Anthropic.encode_reply(&response(says("Hello."))).to_string();
    let server = Server::start(move |_, before| match before {
        2 | 3 => Play::Answer(200, vec![("content-type", "application/json".into())], whole.clone()),
        _ => stream(Format::Anthropic, says("Hello.")),
    });
    let (gateway, arrivals) = open(&server, ANTHROPIC.0).await;
    let_through(arrivals);
    let url = format!("{}/v1/messages", gateway.base_url(Format::Anthropic));
    let mut client = Client::connect(&url).await;
    for number in 0..5 {
        let ask = body(Format::Anthropic, &[Message::user(format!("task {number}"))]);
        assert_eq!(client.ask(&url, &[], ask.to_string().as_bytes()).await.unwrap().status, 200);
    }
    let seen = server.seen();
    assert_eq!((seen.len(), seen.iter().map(|seen| seen.connection).max()), (5, Some(0)));
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut deflate = zlib_rs::Deflate::new(6, true, 16 + 15);
    let mut out = vec![0; text.len() + 1024];
    deflate.compress(text, &mut out, zlib_rs::DeflateFlush::Finish).unwrap();
    out.truncate(deflate.total_out() as usize);
    out
}

fn zstd(text: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
}

#[tokio::test]
async fn packed_bodies_go_through_as_they_are_and_are_understood() {
    let reply = events(Format::Responses, writes("c-1", "a")).concat();
    for (encoding, pack) in [("gzip", gzip as fn(&[u8]) -> Vec<u8>), ("zstd", zstd)] {
        let packed = pack(reply.as_bytes());
        let play = packed.clone();
        let server = Server::start(move |_, _| {
            let headers = vec![("content-type", "text/event-stream".into()), ("content-encoding", encoding.into())];
            Play::Bytes(200, headers, play.clone())
        });
        let (gateway, mut arrivals) = open(&server, ProviderName::OPENAI).await;
        let url = format!("{}/responses", gateway.base_url(Format::Responses));
        let ask = pack(body(Format::Responses, &task()).to_string().as_bytes());
        let asking = tokio::spawn({
            let (url, ask) = (url.clone(), ask.clone());
            async move { Client::connect(&url).await.ask(&url, &[("content-encoding", encoding)], &ask).await.unwrap() }
        });
        let arrival = arrivals.recv().await.unwrap();
        assert_eq!(arrival.request.messages[0].text(), "task", "{encoding}");
        arrival.answer.send(CallDecision::Forward).unwrap();
        let got = asking.await.unwrap();
        assert_eq!((got.headers["content-encoding"].as_str(), &got.body), (encoding, &packed));
        let seen = &server.seen()[0];
        assert_eq!((seen.headers["content-encoding"].as_str(), &seen.raw), (encoding, &ask));
        let rest = gateway.close().await;
        assert_eq!(rest.exchanges[0].usage, USAGE, "{encoding}");
        assert_eq!(rest.exchanges[0].response.as_ref().unwrap().message.tool_calls().count(), 1);
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_passed_on_with_a_warning() {
    let server = Server::start(|_, _| stream(Format::Anthropic, says("Hello.")));
    let (gateway, mut arrivals) = open(&server, ANTHROPIC.0).await;
    let url = format!("{}/v1/messages", gateway.base_url(Format::Anthropic));
    let odd =
        json!({"model": "m-1", "stream": true, "messages": "who knows", "tools": [{"name": "x", "input_schema": {}}]});
    let (got, warnings) = tokio::join!(post(&url, &odd), async {
        let arrival = arrivals.recv().await.unwrap();
        arrival.answer.send(CallDecision::Forward).unwrap();
        arrival.warnings
    });
    assert_eq!((got.status, server.seen()[0].body.clone()), (200, odd));
    let rest = gateway.close().await;
    assert!(rest.exchanges.is_empty());
    assert_eq!(rest.side_calls[0].token_usage, USAGE, "but it is paid for");
    assert_eq!(warnings[0].code, WarningCode::CallUnread);
}

#[tokio::test]
async fn a_possible_background_response_is_refused() {
    let server = Server::start(|_, _| Play::Drop);
    let (gateway, _arrivals) = open(&server, ProviderName::OPENAI).await;
    let url = format!("{}/responses", gateway.base_url(Format::Responses));
    let unread = br#"{"model": "m-1", "background": true, "input": "x", "metadata": {"x": "\ud800"}}"#;
    for (headers, ask) in [(&[][..], &unread[..]), (&[("content-encoding", "br")], b"{}")] {
        let got = Client::connect(&url).await.ask(&url, headers, ask).await.unwrap();
        let said = String::from_utf8_lossy(&got.body).into_owned();
        assert!(got.status == 400 && said.contains("cannot read"), "{} {said}", got.status);
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn an_agent_of_another_api_gets_an_error() {
    let server = Server::start(|_, _| Play::Drop);
    let (gateway, arrivals) = open(&server, ProviderName::OPENAI).await;
    let_through(arrivals);
    let got = post(&format!("{}/v1/messages", gateway.base_url(Format::Anthropic)), &body(ANTHROPIC.1, &task())).await;
    let message = got.json()["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(got.status, 400);
    assert!(message.contains("set `provider` of the agent"), "{message}");
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn requests_around_model_calls_are_forwarded() {
    let server = Server::start(|seen, _| {
        let body = if seen.line.contains("count_tokens") { r#"{"input_tokens":7}"# } else { r#"{"data":[]}"# };
        Play::Answer(200, vec![("content-type", "application/json".into())], body.into())
    });
    let (gateway, _arrivals) = open(&server, ANTHROPIC.0).await;
    let base = gateway.base_url(Format::Anthropic);
    assert_eq!(post(&format!("{base}/v1/messages/count_tokens?beta=true"), &json!({})).await.json()["input_tokens"], 7);
    let mut client = Client::connect(&base).await;
    client.send("GET", &format!("{base}/v1/models?limit=5"), &[], b"").await;
    assert_eq!(client.answer().await.unwrap().json(), json!({"data": []}));
    let lines: Vec<String> = server.seen().iter().map(|seen| seen.line.clone()).collect();
    assert_eq!(lines, ["POST /v1/messages/count_tokens?beta=true HTTP/1.1", "GET /v1/models?limit=5 HTTP/1.1"]);
    assert!(server.seen().iter().all(|seen| seen.headers["x-api-key"] == KEY));
}

#[tokio::test]
async fn nothing_that_costs_something_passes_the_gate_by() {
    let server = Server::start(|_, _| Play::Drop);
    let unread = json!({"model": "m-1", "messages": "who knows"});
    for (name, format, path, ask) in [
        (ProviderName::OPENAI, Format::Responses, "/responses/compact", json!({"model": "m-1", "input": []})),
        (ProviderName::OPENAI, Format::Responses, "/embeddings", json!({"model": "m-1", "input": "x"})),
        (ProviderName::GEMINI, Format::Gemini, "/v1beta/models/m-1:embedContent", json!({"content": {}})),
        (ProviderName::ANTHROPIC, Format::Anthropic, "/v1/messages", unread),
    ] {
        let (gateway, mut arrivals) = open(&server, &name).await;
        let url = format!("{}{path}", gateway.base_url(format));
        let (got, conversation) = tokio::join!(post(&url, &ask), async {
            let arrival = arrivals.recv().await.unwrap();
            arrival.answer.send(CallDecision::Refuse("the money is gone".into())).unwrap();
            arrival.conversation
        });
        assert_eq!((got.status, conversation), (400, None), "{path}");
        assert!(got.text().contains("the money is gone"), "{path}: {}", got.text());
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn embeddings_are_passed_on_and_counted() {
    let vector = json!({"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}],
        "model": "embed-1", "usage": {"prompt_tokens": 8, "total_tokens": 8}});
    let body = vector.to_string();
    let server =
        Server::start(move |_, _| Play::Answer(200, vec![("content-type", "application/json".into())], body.clone()));
    let (gateway, arrivals) = open(&server, ProviderName::OPENAI).await;
    let_through(arrivals);
    let url = format!("{}/embeddings", gateway.base_url(Format::Chat));
    assert_eq!(post(&url, &json!({"model": "embed-1", "input": "x"})).await.json(), vector);
    assert_eq!(server.seen()[0].line, "POST /v1/embeddings HTTP/1.1");
    let rest = gateway.close().await;
    assert_eq!((rest.exchanges.len(), rest.side_calls.len()), (0, 1), "it is no turn");
    let call = &rest.side_calls[0];
    assert_eq!((call.token_usage.input, call.model.as_str(), call.purpose.as_str()), (8, "embed-1", "aside"));
}

const SCRIPT: &str = "
model: scripted-1
scripts:
  - name: work
    steps:
      - text: I write it.
        tools:
          - write_file: {file_path: a.txt, content: x}
        usage: {input: 100, output: 10}
      - error: {status: 529, message: busy, retry_after: 2s}
      - malformed: '<html>'
      - text: Done.
";

#[tokio::test]
async fn a_script_answers_in_every_language_and_shape() {
    for (_, format, path) in ALL {
        let script = Upstream::Script(Script::parse(SCRIPT).unwrap());
        let facts = Facts { cwd: "/w".into(), ..Facts::default() };
        let (gateway, arrivals) = Gateway::open(script, facts).await.unwrap();
        let_through(arrivals);
        let base = gateway.base_url(format);
        let url = format!("{base}{path}");
        let first = post(&url, &body(format, &task())).await;
        let first = read(format, &first.body);
        let (id, name, given) = first.message.tool_calls().next().unwrap();
        assert_eq!((name, given["file_path"].as_str()), ("write_file", Some("/w/a.txt")), "{format:?}");
        assert_eq!((first.usage.input, first.usage.output, first.model.as_str()), (100, 10, "scripted-1"));
        let next = [Message::user("task"), first.message.clone(), super::result(id)];
        let busy = post(&url, &body(format, &next)).await;
        assert_eq!((busy.status, busy.headers["retry-after"].as_str()), (529, "2"), "{format:?}");
        assert_eq!(post(&url, &body(format, &next)).await.text(), "<html>", "{format:?}");
        let (url, ask) = match format {
            Format::Gemini => (format!("{base}/v1beta/models/m-1:generateContent"), body(format, &next)),
            _ => (url, format.encode_request(&super::request(&next), false)),
        };
        let whole = post(&url, &ask).await;
        assert_eq!(whole.headers["content-type"], "application/json");
        let whole = format.decode_reply(whole.json()).unwrap();
        assert_eq!(whole.message.text(), "Done.", "{format:?}");
        let rest = gateway.close().await;
        assert_eq!(rest.exchanges.len(), 1, "the first was told when the second came");
    }
    let (gateway, arrivals) =
        Gateway::open(Upstream::Script(Script::parse(SCRIPT).unwrap()), Facts::default()).await.unwrap();
    let_through(arrivals);
    let base = gateway.base_url(Format::Gemini);
    let listed = post(&format!("{base}/v1beta/models/m-1:countTokens"), &json!({"contents": []})).await;
    assert!(listed.json()["totalTokens"].is_u64());
    let title: Value = json!({"contents": [{"role": "user", "parts": [{"text": "a title?"}]}]});
    let list = post(&format!("{base}/v1beta/models/m-1:streamGenerateContent"), &title).await.json();
    assert!(list[0]["candidates"][0]["content"]["parts"][0]["text"].is_string(), "{list}");
}
