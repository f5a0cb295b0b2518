//! What holds for every format: nothing is lost, and how a stream is cut makes no difference.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::llm::{Message, Part, Role, Stop};
use pleach_core::event::{Extra, Usage};

/// Puts a stream together that comes in pieces of these sizes, again and again.
fn assemble(format: Format, stream: &[u8], sizes: &[usize]) -> Result<Value, WireError> {
    let mut reader = sse::SseReader::default();
    let mut assembler = Assembler::new(format);
    let mut rest = stream;
    let mut sizes = sizes.iter().copied().cycle();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(sizes.next().unwrap_or(rest.len()).clamp(1, rest.len()));
        rest = after;
        for event in reader.push(piece) {
            assembler.push(&event)?;
        }
    }
    if let Some(event) = reader.finish() {
        assembler.push(&event)?;
    }
    assembler.finish()
}

fn streamed(format: Format, body: &Value) -> Vec<u8> {
    format.stream_reply(body).iter().map(sse::SseEvent::to_text).collect::<String>().into_bytes()
}

fn reply_survives(format: Format, body: &Value, sizes: &[usize]) {
    let response = format.decode_reply(body.clone()).unwrap_or_else(|error| panic!("{error}: {body}"));
    assert_eq!(format.encode_reply(&response), *body);
    assert_eq!(assemble(format, &streamed(format, body), sizes), Ok(body.clone()));
    // A message in a record is still the same one.
    let json = serde_json::to_value(&response.message).unwrap();
    assert_eq!(serde_json::from_value::<Message>(json).unwrap(), response.message);
}

fn request_survives(format: Format, body: &Value) {
    let request = format.decode_request(body.clone()).unwrap_or_else(|error| panic!("{error}: {body}"));
    let stream = body.get("stream").is_some_and(|stream| stream == true);
    assert_eq!(format.encode_request(&request, stream), *body);
}

fn text() -> impl Strategy<Value = String> {
    "[ -~é\u{1f600}\\n]{1,30}"
}

/// A field no version knows, half of the time.
fn with_odd_field(value: Value, odd: Option<i64>) -> Value {
    let mut value = value;
    if let (Some(odd), Some(fields)) = (odd, value.as_object_mut()) {
        fields.insert("odd_field".into(), json!({"n": odd, "list": [null, true]}));
    }
    value
}

fn odd() -> impl Strategy<Value = Option<i64>> {
    proptest::option::of(any::<i64>())
}

fn arguments() -> impl Strategy<Value = Value> {
    (text(), any::<i32>(), any::<bool>())
        .prop_map(|(text, number, nested)| json!({"path": text, "n": number, "deep": {"list": [nested, null]}}))
}

mod anthropic {
    use super::*;

    fn block() -> impl Strategy<Value = Value> {
        let plain = prop_oneof![
            text().prop_map(|text| json!({"type": "text", "text": text})),
            (text(), "[a-z]{0,4}")
                .prop_map(|(text, seal)| json!({"type": "thinking", "thinking": text, "signature": seal})),
            ("[a-z0-9_]{1,8}", arguments())
                .prop_map(|(id, input)| json!({"type": "tool_use", "id": id, "name": "shell", "input": input})),
            Just(json!({"type": "redacted_thinking", "data": "zz=="})),
            Just(json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}})),
        ];
        (plain, odd()).prop_map(|(block, odd)| with_odd_field(block, odd))
    }

    fn reply() -> impl Strategy<Value = Value> {
        let stop = prop_oneof![Just("end_turn"), Just("tool_use"), Just("stop_sequence"), Just("pause_turn")];
        (proptest::collection::vec(block(), 0..5), stop, any::<u32>(), any::<u32>(), odd()).prop_map(
            |(content, stop, input, output, odd)| {
                let usage = json!({"input_tokens": input, "cache_read_input_tokens": 7, "output_tokens": output,
                    "cache_creation": {"ephemeral_1h_input_tokens": 0}, "service_tier": "standard"});
                let body = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
                    "stop_reason": stop, "stop_sequence": null, "usage": usage});
                with_odd_field(body, odd)
            },
        )
    }

    fn request() -> impl Strategy<Value = Value> {
        let result = prop_oneof![
            text().prop_map(Value::String),
            text().prop_map(|text| json!([{"type": "text", "text": text}, {"type": "image", "source": {"url": "u"}}])),
        ];
        let turn = (proptest::collection::vec(block(), 1..4), result, any::<bool>(), text(), odd()).prop_map(
            |(said, result, failed, remark, odd)| {
                let mut answer = with_odd_field(json!({"type": "tool_result", "tool_use_id": "t", "content": result}), odd);
                if failed {
                    answer["is_error"] = true.into();
                }
                [
                    json!({"role": "assistant", "content": said}),
                    json!({"role": "user", "content": [answer, {"type": "text", "text": remark, "cache_control": {"type": "ephemeral"}}]}),
                ]
            },
        );
        (text(), proptest::collection::vec(turn, 0..3), any::<bool>(), odd()).prop_map(|(system, turns, stream, odd)| {
            let mut messages = vec![json!({"role": "user", "content": [{"type": "text", "text": "task"}]})];
            messages.extend(turns.into_iter().flatten());
            let mut body = json!({
                "model": "m", "max_tokens": 100, "messages": messages,
                "system": [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "b"}],
                "tools": [{"name": "shell", "description": "d", "input_schema": {"type": "object"}},
                    {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}],
                "output_config": {"effort": "high", "format": {"type": "json"}}, "thinking": {"type": "adaptive"},
            });
            if stream {
                body["stream"] = true.into();
            }
            with_odd_field(body, odd)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn nothing_of_a_reply_is_lost(body in reply(), sizes in proptest::collection::vec(1usize..40, 1..5)) {
            reply_survives(Format::Anthropic, &body, &sizes);
        }

        #[test]
        fn nothing_of_a_request_is_lost(body in request()) {
            request_survives(Format::Anthropic, &body);
        }
    }

    #[test]
    fn a_conversation_is_written_as_the_api_wants_it() {
        let request = Request {
            model: "m".into(),
            system: "rules".into(),
            messages: vec![
                Message::user("task"),
                Message::new(
                    Role::Assistant,
                    vec![
                        Part::Thinking { text: "of another".into(), signature: Some("s".into()), extra: Extra::new() },
                        Part::tool_call("1", "shell", json!({"command": "ls"})),
                        Part::tool_call("2", "shell", json!("{\"cut")),
                    ],
                ),
                Message::new(Role::Tool, vec![Part::tool_result("1", "a", false), Part::tool_result("2", "bad", true)]),
                Message::steering("hurry"),
            ],
            ..Request::default()
        };
        assert_eq!(
            Format::Anthropic.encode_request(&request, true),
            json!({
                "model": "m", "max_tokens": 4096, "stream": true, "system": [{"type": "text", "text": "rules"}],
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "task"}]},
                    {"role": "assistant", "content": [
                        {"type": "tool_use", "id": "1", "name": "shell", "input": {"command": "ls"}},
                        {"type": "tool_use", "id": "2", "name": "shell", "input": {"arguments": "{\"cut"}},
                    ]},
                    {"role": "user", "content": [
                        {"type": "tool_result", "tool_use_id": "1", "content": "a"},
                        {"type": "tool_result", "tool_use_id": "2", "content": "bad", "is_error": true},
                        {"type": "text", "text": "hurry"},
                    ]},
                ],
            })
        );
    }

    /// The answers of three turns, as they came to a real program.
    const CAPTURED: &str = include_str!("../../../tests/data/anthropic-stream.sse");

    #[test]
    fn captured_streams_give_turns_tools_and_tokens() {
        let mut seen = Vec::new();
        let mut total = Usage::default();
        for stream in CAPTURED.split_inclusive("event: message_stop\n").collect::<Vec<_>>() {
            if !stream.contains("message_start") {
                continue;
            }
            let whole = assemble(Format::Anthropic, stream.as_bytes(), &[usize::MAX]).unwrap();
            for size in 1..20 {
                assert_eq!(assemble(Format::Anthropic, stream.as_bytes(), &[size]).as_ref(), Ok(&whole));
            }
            let response = Format::Anthropic.decode_reply(whole.clone()).unwrap();
            assert_eq!(Format::Anthropic.encode_reply(&response), whole);
            let calls: Vec<String> =
                response.message.tool_calls().map(|(_, name, input)| format!("{name} {input}")).collect();
            seen.push((response.message.text(), calls, response.stop));
            total += response.usage;
        }
        let path = |file: &str| format!("/workspace/repo/{file}");
        assert_eq!(seen.len(), 3);
        assert_eq!(seen[0].0, "Turn 1: I will write hello.txt.");
        assert!(seen[0].1[0].starts_with("Write {") && seen[0].1[0].contains(&path("hello.txt")), "{seen:?}");
        assert_eq!((seen[1].1.len(), &seen[1].2), (2, &Stop::ToolCalls), "{seen:?}");
        assert_eq!((seen[2].1.len(), &seen[2].2), (0, &Stop::End), "{seen:?}");
        assert_eq!(
            total,
            Usage {
                input: 6000,
                cache_read: 600,
                cache_write: 0,
                output: 66,
                reasoning: 0,
                cache_write_1h: 0,
                web_searches: 0
            }
        );
    }

    #[test]
    fn an_interrupted_stream_is_not_an_answer() {
        let body = json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "hello"}], "usage": {"input_tokens": 1, "output_tokens": 2}});
        let stream = streamed(Format::Anthropic, &body);
        let whole = stream.len() - "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n".len();
        let said = assemble(Format::Anthropic, &stream[..whole], &[64]);
        assert_eq!(said, Ok(body), "everything was said, only the goodbye is missing");
        for end in 0..whole - 3 {
            let cut = assemble(Format::Anthropic, &stream[..end], &[64]);
            assert!(cut.is_err(), "{end}: {cut:?}");
        }
    }

    #[test]
    fn an_error_in_the_stream_is_reported() {
        let stream = b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
        let error = assemble(Format::Anthropic, stream, &[9]).unwrap_err();
        assert_eq!(error, WireError::Reported { kind: "overloaded_error".into(), message: "Overloaded".into() });
        assert!(matches!(assemble(Format::Anthropic, b"data: {nope}\n\n", &[9]), Err(WireError::Shape(_))));
        for bad in [json!([]), json!({"content": "x"}), json!({"content": [{"type": "text"}]}), json!({})] {
            assert!(matches!(Format::Anthropic.decode_reply(bad), Err(WireError::Shape(_))));
        }
    }
}

mod chat {
    use super::*;

    fn call() -> impl Strategy<Value = Value> {
        let arguments = prop_oneof![
            arguments().prop_map(|value| value.to_string()),
            arguments().prop_map(|value| format!("{value:#}")),
            Just("{\"cut".to_owned()),
            Just(String::new()),
        ];
        let custom = json!({"id": "c", "type": "custom", "custom": {"name": "patch", "input": "x"}});
        prop_oneof![
            ("[a-z0-9_]{1,8}", arguments, odd()).prop_map(|(id, arguments, odd)| {
                let function = with_odd_field(json!({"name": "shell", "arguments": arguments}), odd);
                with_odd_field(json!({"id": id, "type": "function", "function": function}), odd)
            }),
            Just(custom),
        ]
    }

    fn said() -> impl Strategy<Value = Value> {
        let content = prop_oneof![Just(Value::Null), Just(json!("")), text().prop_map(Value::String)];
        let thoughts = proptest::option::of(text());
        (content, thoughts, proptest::collection::vec(call(), 0..3), odd()).prop_map(
            |(content, thoughts, calls, odd)| {
                let mut message = json!({"role": "assistant", "content": content});
                if let Some(thoughts) = thoughts {
                    message["reasoning_content"] = thoughts.into();
                }
                if !calls.is_empty() {
                    message["tool_calls"] = calls.into();
                }
                with_odd_field(message, odd)
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn nothing_of_a_reply_is_lost(said in said(), odd in odd(), usage in any::<bool>(), sizes in proptest::collection::vec(1usize..40, 1..5)) {
            let choice = json!({"index": 0, "message": said, "finish_reason": "tool_calls", "logprobs": {"content": []}});
            let mut body = json!({"id": "c", "object": "chat.completion", "created": 5, "model": "m", "choices": [choice]});
            if usage {
                body["usage"] = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
            }
            reply_survives(Format::Chat, &with_odd_field(body, odd), &sizes);
        }

        #[test]
        fn nothing_of_a_request_is_lost(said in said(), result in text(), odd in odd(), newer in any::<bool>(), role in prop_oneof![Just("system"), Just("developer")]) {
            let limit = if newer { "max_completion_tokens" } else { "max_tokens" };
            let blocks = json!([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "u"}}]);
            let body = json!({
                "model": "m", limit: 9, "reasoning_effort": "low", "stream": true, "stream_options": {"include_usage": true},
                "messages": [
                    {"role": role, "content": "rules"}, {"role": "user", "content": "task"}, {"role": "user", "content": blocks},
                    said, {"role": "tool", "tool_call_id": "a", "content": result},
                    with_odd_field(json!({"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "x"}]}), odd),
                    {"role": "developer", "content": "late"},
                ],
                "tools": [{"type": "function", "function": {"name": "shell", "description": "d", "parameters": {"type": "object"}, "strict": true}},
                    {"type": "custom", "custom": {"name": "patch"}}],
            });
            request_survives(Format::Chat, &with_odd_field(body, odd));
        }
    }

    #[test]
    fn streams_of_other_servers_are_put_together() {
        let stream = r#"data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}

data: {"id":"x","choices":[{"index":0,"delta":{"content":"Hel"}}]}

data: {"id":"x","choices":[{"index":0,"delta":{"content":"lo","reasoning_content":null}}]}

data: {"id":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"shell","arguments":""}}]}}]}

data: {"id":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}}]}

data: {"id":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"shell","arguments":"{}"}},{"index":0,"function":{"arguments":": 1}"}}]}}]}

: keep alive

data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"id":"x","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":60},"completion_tokens_details":{"reasoning_tokens":8}}}

data: [DONE]
"#;
        let body = assemble(Format::Chat, stream.as_bytes(), &[17]).unwrap();
        let response = Format::Chat.decode_reply(body).unwrap();
        assert_eq!(response.message.text(), "Hello");
        let calls: Vec<_> = response.message.tool_calls().collect();
        assert_eq!(calls, [("a", "shell", &json!({"a": 1})), ("b", "shell", &json!({}))]);
        assert_eq!(
            response.usage,
            Usage {
                input: 40,
                cache_read: 60,
                cache_write: 0,
                output: 20,
                reasoning: 8,
                cache_write_1h: 0,
                web_searches: 0
            }
        );
        assert_eq!(response.stop, Stop::ToolCalls);
        let cut = stream.split(": keep alive").next().unwrap();
        assert_eq!(assemble(Format::Chat, cut.as_bytes(), &[17]), Err(WireError::Cut));
    }
}

mod responses {
    use super::*;

    fn item() -> impl Strategy<Value = Value> {
        let plain = prop_oneof![
            (text(), odd()).prop_map(|(text, odd)| {
                let block = with_odd_field(json!({"type": "output_text", "text": text, "annotations": []}), odd);
                json!({"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
                    "content": [block, {"type": "output_text", "text": "more"}, {"type": "refusal", "refusal": "no"}]})
            }),
            arguments().prop_map(
                |arguments| json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "shell",
                "arguments": format!("{arguments:#}"), "status": "completed"})
            ),
            text().prop_map(|text| json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "zz",
                "summary": [{"type": "summary_text", "text": text}]})),
            Just(json!({"type": "custom_tool_call", "id": "ct", "call_id": "c2", "name": "patch", "input": "x"})),
            Just(json!({"type": "web_search_call", "id": "ws", "status": "completed"})),
        ];
        (plain, odd()).prop_map(|(item, odd)| with_odd_field(item, odd))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn nothing_of_a_reply_is_lost(output in proptest::collection::vec(item(), 0..5), odd in odd(), cut in any::<bool>(), sizes in proptest::collection::vec(1usize..40, 1..5)) {
            let (status, details) = if cut { ("incomplete", json!({"reason": "max_output_tokens"})) } else { ("completed", Value::Null) };
            let usage = json!({"input_tokens": 10, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 5, "total_tokens": 15});
            let body = json!({"id": "resp_1", "object": "response", "created_at": 5, "status": status, "incomplete_details": details,
                "error": null, "model": "m", "output": output, "usage": usage, "store": false});
            reply_survives(Format::Responses, &with_odd_field(body, odd), &sizes);
        }

        #[test]
        fn nothing_of_a_request_is_lost(said in proptest::collection::vec(item(), 0..4), result in text(), odd in odd()) {
            let mut input = vec![
                json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]}),
                json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "u"}]}),
                json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "b"}]}),
            ];
            input.extend(said);
            input.push(with_odd_field(json!({"type": "function_call_output", "call_id": "call_1", "output": result}), odd));
            input.push(json!({"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "x"}]}));
            input.push(json!({"type": "custom_tool_call_output", "call_id": "c2", "output": "done"}));
            let body = json!({
                "model": "m", "instructions": "be good", "input": input, "max_output_tokens": 7, "stream": true, "store": false,
                "reasoning": {"effort": "high", "summary": "auto"}, "include": ["reasoning.encrypted_content"],
                "tools": [{"type": "function", "name": "shell", "description": "d", "parameters": {"type": "object"}, "strict": false},
                    {"type": "function", "name": "plain", "parameters": {"type": "object"}},
                    {"type": "custom", "name": "patch", "format": {"type": "grammar"}}, {"type": "web_search"}],
            });
            request_survives(Format::Responses, &with_odd_field(body, odd));
        }
    }

    #[test]
    fn tools_that_are_an_item_of_the_conversation_are_known() {
        let exec = json!({"type": "custom", "name": "exec", "description": "Run code", "format": {"type": "grammar"}});
        let wait = json!({"type": "function", "name": "wait", "strict": false, "parameters": {"type": "object"}});
        let functions = json!({"type": "namespace", "name": "functions", "description": "", "tools": [exec, wait]});
        let plain = json!({"type": "function", "name": "plain", "parameters": {"type": "object"}});
        let item = json!({"type": "additional_tools", "id": "at_1", "role": "developer",
            "tools": [functions, plain, {"type": "function", "nameless": true}]});
        let user = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]});
        let mut body = json!({"model": "m", "input": [item, user], "tool_choice": "auto"});
        let names = |body: &Value| {
            let request = Format::Responses.decode_request(body.clone()).unwrap();
            assert!(!request.messages.iter().any(|message| message.role == Role::Assistant), "nobody has answered");
            request.tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&body), ["exec", "wait", "plain"]);
        request_survives(Format::Responses, &body);
        body["tools"] =
            json!([{"type": "function", "name": "shell", "parameters": {"type": "object"}, "strict": false}]);
        assert_eq!(names(&body), ["shell", "exec", "wait", "plain"]);
        request_survives(Format::Responses, &body);
    }

    #[test]
    fn failures_and_gaps_in_a_stream_are_read() {
        let failed = br#"event: response.failed
data: {"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"server_error","message":"oops"}}}

"#;
        let error = WireError::Reported { kind: "server_error".into(), message: "oops".into() };
        assert_eq!(assemble(Format::Responses, failed, &[30]), Err(error));
        let sparse = br#"data: {"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c","name":"shell","arguments":"{}"}}

data: {"type":"response.completed","response":{"model":"m","status":"completed","output":[],"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":2},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":1}}}}

"#;
        let response = Format::Responses.decode_reply(assemble(Format::Responses, sparse, &[30]).unwrap()).unwrap();
        assert_eq!(response.message.tool_calls().count(), 1);
        assert_eq!(
            response.usage,
            Usage {
                input: 7,
                cache_read: 2,
                cache_write: 0,
                output: 3,
                reasoning: 1,
                cache_write_1h: 0,
                web_searches: 0
            }
        );
        assert_eq!(response.stop, Stop::ToolCalls);
        let items = vec![Message::user("task"), Message::steering("hurry"), Message::assistant("ok")];
        let body = Format::Responses.encode_request(&Request { messages: items, ..Request::default() }, false);
        assert_eq!(
            body["input"][2],
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]})
        );
    }
}

mod gemini {
    use super::*;

    fn part() -> impl Strategy<Value = Value> {
        prop_oneof![
            (text(), "[a-z]{1,4}").prop_map(|(text, seal)| json!({"text": text, "thoughtSignature": seal})),
            (text(), "[a-z]{1,4}").prop_map(|(text, seal)| json!({"text": text, "thought": true, "thoughtSignature": seal})),
            (arguments(), odd()).prop_map(|(args, odd)| {
                json!({"functionCall": with_odd_field(json!({"name": "shell", "args": args}), odd), "thoughtSignature": "s"})
            }),
            arguments().prop_map(|args| json!({"functionCall": {"id": "f1", "name": "shell", "args": args}})),
            Just(json!({"inlineData": {"mimeType": "image/png", "data": "zz"}})),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn nothing_of_a_reply_is_lost(parts in proptest::collection::vec(part(), 0..5), odd in odd(), sizes in proptest::collection::vec(1usize..40, 1..5)) {
            let usage = json!({"promptTokenCount": 10, "cachedContentTokenCount": 4, "candidatesTokenCount": 5, "thoughtsTokenCount": 2});
            let candidate = json!({"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP", "avgLogprobs": 0.5});
            let body = json!({"candidates": [with_odd_field(candidate, odd)], "usageMetadata": usage, "modelVersion": "m", "responseId": "r"});
            reply_survives(Format::Gemini, &with_odd_field(body, odd), &sizes);
        }

        #[test]
        fn nothing_of_a_request_is_lost(said in proptest::collection::vec(part(), 1..4), result in text(), odd in odd()) {
            let answers = json!([
                {"functionResponse": {"name": "shell", "response": {"output": result}}},
                {"functionResponse": {"id": "f1", "name": "shell", "response": {"deep": [1]}}},
                {"functionResponse": with_odd_field(json!({"id": "f2", "name": "other", "response": {"error": "bad"}}), odd)},
                {"text": "and now"},
            ]);
            let body = json!({
                "contents": [{"role": "user", "parts": [{"text": "task"}]}, {"role": "model", "parts": said}, {"role": "user", "parts": answers}],
                "systemInstruction": {"role": "user", "parts": [{"text": "rules"}]},
                "generationConfig": {"maxOutputTokens": 5, "temperature": 0.5, "thinkingConfig": {"thinkingLevel": "low", "includeThoughts": true}},
                "tools": [{"functionDeclarations": [{"name": "shell", "description": "d", "parametersJsonSchema": {"type": "object"}},
                    {"name": "old", "parameters": {"type": "OBJECT"}}]}, {"googleSearch": {}}],
            });
            request_survives(Format::Gemini, &with_odd_field(body, odd));
        }
    }

    #[test]
    fn words_go_on_from_piece_to_piece() {
        let stream = r#"data: {"candidates":[{"content":{"parts":[{"text":"hm","thought":true}],"role":"model"}}],"modelVersion":"g"}

data: {"candidates":[{"content":{"parts":[{"text":"Hel"}],"role":"model"}}]}

data: {"candidates":[{"content":{"parts":[{"text":"lo"}],"role":"model"}}]}

data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"shell","args":{"a":1}}},{"functionCall":{"name":"shell","args":{"a":2}}}],"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"candidatesTokenCount":5,"thoughtsTokenCount":2}}

"#;
        let response =
            Format::Gemini.decode_reply(assemble(Format::Gemini, stream.as_bytes(), &[23]).unwrap()).unwrap();
        assert_eq!((response.message.text().as_str(), &response.stop), ("Hello", &Stop::ToolCalls));
        assert_eq!(
            response.usage,
            Usage {
                input: 6,
                cache_read: 4,
                cache_write: 0,
                output: 7,
                reasoning: 2,
                cache_write_1h: 0,
                web_searches: 0
            }
        );
        let ids: Vec<&str> = response.message.tool_calls().map(|(id, _, _)| id).collect();
        assert_eq!(ids.len(), 2);
        assert_ne!(ids[0], ids[1]);
        // Answers go back by name, and without an id the server did not give.
        let results = ids.iter().map(|id| Part::tool_result(*id, "done", false)).collect();
        let messages = vec![Message::user("t"), response.message.clone(), Message::new(Role::Tool, results)];
        let body = Format::Gemini.encode_request(&Request { messages, ..Request::default() }, true);
        let answer = json!({"functionResponse": {"name": "shell", "response": {"output": "done"}}});
        assert_eq!(body["contents"][2], json!({"role": "user", "parts": [answer, answer]}));
        let cut = stream.rsplit_once("data: ").unwrap().0;
        assert_eq!(assemble(Format::Gemini, cut.as_bytes(), &[23]), Err(WireError::Cut));
    }

    #[test]
    fn a_refused_permission_is_answered() {
        let body = json!({"promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": "g"});
        let response = Format::Gemini.decode_reply(body).unwrap();
        assert_eq!(response.stop, Stop::ContentFilter);
        assert!(matches!(Format::Gemini.decode_reply(json!({})), Err(WireError::Shape(_))));
    }
}
