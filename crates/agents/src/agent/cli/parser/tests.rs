//! What is understood of streams that were recorded from the real programs.

use insta::assert_snapshot;

use super::*;
use pleach_core::config::ParserName::{Claude, Codex, Gemini, Jsonl, Opencode};
use pleach_core::event::ToolCall;

fn stream(file: &str) -> Vec<u8> {
    std::fs::read(format!("tests/data/agents/{file}.jsonl")).unwrap()
}

fn hear(parser: ParserName, bytes: &[u8], earlier: Usage) -> Vec<StreamEvent> {
    let mut reader = StreamReader::new(parser, earlier);
    let mut events = reader.feed(bytes);
    events.extend(reader.finish());
    events
}

/// A capture as it is understood, a line for everything heard.
fn shown(parser: ParserName, file: &str) -> String {
    show(&hear(parser, &stream(file), Usage::default()))
}

fn show(events: &[StreamEvent]) -> String {
    events.iter().map(|events| line(events) + "\n").collect()
}

fn line(events: &StreamEvent) -> String {
    match events {
        StreamEvent::Session(id) => format!("session {id}"),
        StreamEvent::Call(call) => {
            let tools: Vec<String> = call.tools.iter().map(tool).collect();
            let model = call.model.as_deref().unwrap_or("-");
            let cost = call.cost_usd.map(|cost| format!(" ${cost}")).unwrap_or_default();
            format!("call {model} {}{cost}: {:?} [{}]", tokens(&call.usage), call.text(), tools.join(", "))
        }
        StreamEvent::Total(Total { usage, with_earlier, cost_usd }) => {
            let all = with_earlier.map(|all| format!(" of {}", tokens(&all))).unwrap_or_default();
            let cost = cost_usd.map(|cost| format!(" ${cost:.6}")).unwrap_or_default();
            format!("total {}{all}{cost}", tokens(usage))
        }
        StreamEvent::TurnOver => "turn over".to_owned(),
        StreamEvent::Denied(tool) => format!("denied {tool}"),
        StreamEvent::Complaint(said) => format!("complaint {said}"),
        StreamEvent::Result(Claim { text, failure: None }) => format!("done {text:?}"),
        StreamEvent::Result(Claim { failure: Some(failing), .. }) => {
            format!("failed {:?} {}", failing.kind, failing.why)
        }
    }
}

fn tool(call: &ToolCall) -> String {
    let path = ["file_path", "filePath", "command"].iter().find_map(|key| call.arguments.get(key)?.as_str());
    let path = path.map(|path| format!(" {}", path.lines().next().unwrap_or_default())).unwrap_or_default();
    format!("{}{path}{}", call.name, if call.is_error { " FAILED" } else { "" })
}

fn tokens(usage: &Usage) -> String {
    let Usage { input, cache_read, cache_write, output, reasoning, .. } = usage;
    format!("{input}+{cache_read}+{cache_write}/{output}({reasoning})")
}

#[test]
fn streams_of_claude() {
    assert_snapshot!(shown(Claude, "claude_default"), @r#"
    session e205a8c3-4d3e-473a-b389-7c5003108570
    call claude-sonnet-4-5 1000+100+0/1(0): "Turn 1: I will write hello.txt." [Write /workspace/repo/hello.txt]
    call claude-sonnet-4-5 2000+200+0/1(0): "Turn 2: edit hello.txt and add src/two.txt." [Edit /workspace/repo/hello.txt, Write /workspace/repo/src/two.txt]
    call claude-sonnet-4-5 3000+300+0/1(0): "Done: two turns wrote files." []
    total 6000+600+0/66(0) $0.019170
    done "Done: two turns wrote files."
    "#);
    assert_snapshot!(shown(Claude, "claude_denied"), @r#"
    session 71433845-f8fb-4189-9c1d-1e57077d4698
    denied Write
    call claude-opus-5-5 1000+100+0/1(0): "Turn 1: I will write hello.txt." [Write /workspace/repo/hello.txt FAILED]
    denied Write
    call claude-opus-5-5 2000+200+0/1(0): "Turn 2: edit hello.txt and add src/two.txt." [Edit /workspace/repo/hello.txt FAILED, Write /workspace/repo/src/two.txt FAILED]
    call claude-opus-5-5 3000+300+0/1(0): "Done: two turns wrote files." []
    total 6000+600+0/66(0) $0.025440
    done "Done: two turns wrote files."
    "#);
    assert_snapshot!(shown(Claude, "claude_drop"), @r#"
    session f64f3cda-5f17-4db6-aa19-c52c12b8e5a4
    complaint the model did not answer: unknown
    call claude-opus-5-5 1000+100+0/11(0): "this will be cut" []
    total 3000+300+0/13(0) $0.012320
    done "this will be cut"
    "#);
    assert_snapshot!(shown(Claude, "claude_fail401"), @r#"
    session 963a968e-dad2-4f39-815f-dd93405aefbb
    complaint the model did not answer: authentication_failed (401)
    complaint the model did not answer: authentication_failed (401)
    complaint the model did not answer: authentication_failed (401)
    complaint the model did not answer: authentication_failed (401)
    complaint the model did not answer: authentication_failed (401)
    complaint the model did not answer: authentication_failed (401)
    "#);
    assert_snapshot!(shown(Claude, "claude_fail500"), @r#"
    session 08b6bbef-14b5-4772-b368-e7367c806095
    complaint the model did not answer: server_error (500)
    total 0+0+0/0(0) $0.000000
    failed Transient API Error: 500 mock failure 500. This is a server-side issue, usually temporary — try again in a moment. If it persists, check your inference gateway (127.0.0.1:38049).
    "#);
    assert_snapshot!(shown(Claude, "claude_hooks"), @r#"
    session 2c57a11a-ec24-43ee-ba5e-33204385dc53
    call claude-opus-5-5 1000+100+0/1(0): "Turn 1: I will write hello.txt." [Write /workspace/repo/hello.txt]
    call claude-opus-5-5 2000+200+0/1(0): "Turn 2: edit hello.txt and add src/two.txt." [Edit /workspace/repo/hello.txt, Write /workspace/repo/src/two.txt]
    call claude-opus-5-5 3000+300+0/1(0): "Done: two turns wrote files." []
    total 6000+600+0/66(0) $0.025440
    done "Done: two turns wrote files."
    "#);
    assert_snapshot!(shown(Claude, "claude_maxturns"), @r#"
    session 456abd61-bf8a-4fce-80d9-eaa351736443
    call claude-opus-5-5 1000+100+0/1(0): "Turn 1: I will write hello.txt." [Write /workspace/repo/hello.txt]
    total 1000+100+0/11(0) $0.004240
    failed Limit Reached maximum number of turns (1)
    "#);
    assert_snapshot!(shown(Claude, "claude_partial"), @r#"
    session 88287c00-e930-421a-96fe-4d590d455cf0
    call claude-sonnet-4-5 1000+100+0/11(0): "Turn 1: I will write hello.txt." [Write /workspace/repo/hello.txt]
    call claude-sonnet-4-5 2000+200+0/22(0): "Turn 2: edit hello.txt and add src/two.txt." [Edit /workspace/repo/hello.txt, Write /workspace/repo/src/two.txt]
    call claude-sonnet-4-5 3000+300+0/33(0): "Done: two turns wrote files." []
    total 6000+600+0/66(0) $0.019170
    done "Done: two turns wrote files."
    "#);
    assert_snapshot!(shown(Claude, "claude_resume"), @r#"
    session 88287c00-e930-421a-96fe-4d590d455cf0
    call claude-sonnet-4-5 1000+100+0/1(0): "Resumed: write again.txt." [Write /workspace/repo/again.txt]
    call claude-sonnet-4-5 2000+200+0/1(0): "Done again." []
    total 3000+300+0/33(0) $0.009585
    done "Done again."
    "#);
}

#[test]
fn streams_of_codex() {
    assert_snapshot!(shown(Codex, "codex_default"), @r#"
    session 01a1dc93-9654-7162-b634-19507d86a497
    complaint Model metadata for `mock-model` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.
    call - 0+0+0/0(0): "Turn 1: I will write hello.txt.\nTurn 2: edit hello.txt and add src/two.txt.\nDone: two turns wrote files." [shell /bin/bash -lc "cat > hello.txt <<'EOT', shell /bin/bash -lc "sed -i 's/turn 1/turn 2/' hello.txt", shell /bin/bash -lc "mkdir -p src && cat > src/two.txt <<'EOT']
    total 6000+600+0/66(0) of 6000+600+0/66(0)
    done "Done: two turns wrote files."
    "#);
    assert_snapshot!(shown(Codex, "codex_drop"), @r#"
    session 01a1dc96-5c91-7c52-aaf8-0f3ae770fbfb
    complaint Model metadata for `mock-model` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.
    complaint Reconnecting... 1/1 (stream disconnected before completion: stream closed before response.completed)
    complaint stream disconnected before completion: stream closed before response.completed
    failed Transient stream disconnected before completion: stream closed before response.completed
    "#);
    assert_snapshot!(shown(Codex, "codex_fail2"), @r#"
    session 01a1dc96-650a-7130-800a-e628b8cb2fc7
    complaint Model metadata for `mock-model` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.
    complaint mock failure 400
    call - 0+0+0/0(0): "one write then failure" [shell /bin/bash -lc "cat > partial.txt <<'EOT']
    failed Terminal mock failure 400
    "#);
    assert_snapshot!(shown(Codex, "codex_fail401"), @r#"
    session 01a1dc96-3d0c-7c63-88ba-61f4e5076c56
    complaint Model metadata for `mock-model` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.
    complaint Reconnecting... 1/1 (unexpected status 401 Unauthorized: mock failure 401, url: http://127.0.0.1:43503/v1/responses)
    complaint unexpected status 401 Unauthorized: mock failure 401, url: http://127.0.0.1:43503/v1/responses
    failed Refused unexpected status 401 Unauthorized: mock failure 401, url: http://127.0.0.1:43503/v1/responses
    "#);
    assert_snapshot!(shown(Codex, "codex_patch"), @r#"
    session 01a1dc95-f61b-7db2-b119-bd93b0c791c5
    complaint Model metadata for `mock-model` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.
    call - 0+0+0/0(0): "patch one\npatch two\nDone patch." [apply_patch, apply_patch]
    total 6000+600+0/66(0) of 6000+600+0/66(0)
    done "Done patch."
    "#);
    assert_snapshot!(shown(Codex, "codex_resume"), @r#"
    session 01a1dc95-f61b-7db2-b119-bd93b0c791c5
    complaint Model metadata for `mock-model` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.
    call - 0+0+0/0(0): "Resumed: write again.txt.\nDone again." [shell /bin/bash -lc "cat > again.txt <<'EOT']
    total 9000+900+0/99(0) of 9000+900+0/99(0)
    done "Done again."
    "#);
}

#[test]
fn streams_of_gemini() {
    assert_snapshot!(shown(Gemini, "gemini_default"), @r#"
    session e4edf629-7666-4833-9c2f-d4b33f047b0b
    call gemini-2.5-pro 0+0+0/0(0): "Turn 1: I will write hello.txt." [write_file hello.txt]
    call gemini-2.5-pro 0+0+0/0(0): "Turn 2: edit hello.txt and add src/two.txt." [replace hello.txt, write_file src/two.txt]
    call gemini-2.5-pro 0+0+0/0(0): "Done: two turns wrote files." []
    total 6000+600+0/66(0)
    done ""
    "#);
    assert_snapshot!(shown(Gemini, "gemini_denied"), @r#"
    session 59f28048-5849-4b1e-af8a-02131c3609a3
    call gemini-2.5-pro 0+0+0/0(0): "Turn 1: I will write hello.txt." [update_topic FAILED]
    call gemini-2.5-pro 0+0+0/0(0): "Turn 2: edit hello.txt and add src/two.txt." [update_topic FAILED, update_topic FAILED]
    call gemini-2.5-pro 0+0+0/0(0): "Done: two turns wrote files." []
    total 6000+600+0/66(0)
    done ""
    "#);
    assert_snapshot!(shown(Gemini, "gemini_drop"), @r#"
    session 3df8afd2-5160-49ad-99db-e0b1ae16958e
    complaint Model stream ended without a finish reason.
    call gemini-2.5-pro 0+0+0/0(0): "this will be cutthis will be cutthis will be cutthis will be cut" []
    total 0+0+0/0(0)
    failed Transient Model stream ended without a finish reason.
    "#);
    assert_snapshot!(shown(Gemini, "gemini_fail401"), @r#"
    session 1b46f49b-b640-4ef6-9151-d438b32f3284
    total 0+0+0/0(0)
    failed Refused [API Error: {"error":{"code":401,"message":"mock failure 401","status":"UNAUTHENTICATED"}}]
    "#);
    assert_snapshot!(shown(Gemini, "gemini_resume"), @r#"
    session 75ffcaa7-a0cd-4b33-be03-18a1a9d1e1e7
    call gemini-2.5-pro 0+0+0/0(0): "Resumed: write again.txt." [write_file again.txt]
    call gemini-2.5-pro 0+0+0/0(0): "Done again." []
    total 3000+300+0/33(0)
    done ""
    "#);
}

#[test]
fn streams_of_opencode() {
    assert_snapshot!(shown(Opencode, "opencode_default"), @r#"
    session ses_e236b1b47ffevMqhPE1mPoSyZi
    call - 1000+100+0/11(0) $0.003195: "Turn 1: I will write hello.txt." [write /workspace/repo/hello.txt]
    call - 2000+200+0/22(0) $0.00639: "Turn 2: edit hello.txt and add src/two.txt." [edit /workspace/repo/hello.txt, write /workspace/repo/src/two.txt]
    call - 3000+300+0/33(0) $0.009585: "Done: two turns wrote files." []
    done ""
    "#);
    assert_snapshot!(shown(Opencode, "opencode_fail401"), @r#"
    session ses_e235d03d0ffeq6pLBmKgx5YoV0
    complaint mock failure 401
    failed Refused mock failure 401
    "#);
    assert_snapshot!(shown(Opencode, "opencode_resume"), @r#"
    session ses_e235df6a9ffedxaTuOAqN9CvYZ
    call - 1000+100+0/11(0) $0.003195: "Resumed: write again.txt." [write /workspace/repo/again.txt]
    call - 2000+200+0/22(0) $0.00639: "Done again." []
    done ""
    "#);
}

#[test]
fn a_stream_cut_anywhere_tells_no_less() {
    for (parser, file) in [
        (Claude, "claude_partial"),
        (Codex, "codex_default"),
        (Gemini, "gemini_default"),
        (Opencode, "opencode_default"),
    ] {
        let whole = stream(file);
        let mut reader = StreamReader::new(parser, Usage::default());
        let mut events: Vec<StreamEvent> = whole.chunks(7).flat_map(|piece| reader.feed(piece)).collect();
        events.extend(reader.finish());
        assert_eq!(events, hear(parser, &whole, Usage::default()), "{file}");
    }
}

#[test]
fn unknown_events_are_ignored() {
    let noise = b"warning: something\n{\"type\":\"new_kind\",\"x\":[1]}\n[1,2]\n\xff\xfe\n{\"type\":null}\n{\n\n{\"type\":\"assistant\"}\n{\"type\":\"item.completed\"}\n{\"type\":\"tool_use\"}";
    for parser in [Claude, Codex, Gemini, Opencode, Jsonl] {
        for file in ["claude_default", "codex_appserver"] {
            let clean = hear(parser, &stream(file), Usage::default()).len();
            let mut bytes = noise.to_vec();
            bytes.push(b'\n');
            bytes.extend(stream(file));
            let events = hear(parser, &bytes, Usage::default());
            assert!(events.len() >= clean, "{parser} {file}");
        }
    }
    assert!(
        hear(Codex, &stream("codex_appserver"), Usage::default()).is_empty(),
        "another protocol of it says nothing here"
    );
    assert!(hear(ParserName::None, &stream("claude_default"), Usage::default()).is_empty());
    // A line without an end is dropped once it is too long, and the next one is read.
    let mut reader = StreamReader::new(Jsonl, Usage::default());
    let long = vec![b' '; LONGEST_LINE + 1];
    assert!(reader.feed(&long).is_empty() && reader.line.is_empty());
    assert_eq!(show(&reader.feed(b"\n{\"type\":\"session\",\"id\":\"s\"}\n")), "session s\n");
}

#[test]
fn usage_of_earlier_runs_is_subtracted() {
    let earlier = Usage { input: 6000, cache_read: 600, output: 66, ..Usage::default() };
    let events = hear(Codex, &stream("codex_resume"), earlier);
    let total = events
        .iter()
        .find_map(|events| if let StreamEvent::Total(total) = events { Some(total) } else { None })
        .unwrap();
    assert_eq!(tokens(&total.usage), "3000+300+0/33(0)");
    assert_eq!(tokens(&total.with_earlier.unwrap()), "9000+900+0/99(0)");
}

#[test]
fn subagents_of_claude_belong_to_their_tool_call() {
    let stream = concat!(
        r#"{"type":"assistant","message":{"id":"a","content":[{"type":"tool_use","id":"t","name":"Task","input":{}}]},"parent_tool_use_id":null}"#,
        "\n",
        r#"{"type":"assistant","message":{"id":"b","content":[{"type":"text","text":"helping"}]},"parent_tool_use_id":"t"}"#,
        "\n",
        r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"helped"}]}]},"parent_tool_use_id":null}"#,
        "\n",
    );
    let events = hear(Claude, stream.as_bytes(), Usage::default());
    let [StreamEvent::Call(call)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((call.tools.len(), call.messages.len(), call.text().as_str()), (1, 2, ""));
    assert!(serde_json::to_string(&call.messages[1]).unwrap().contains("helped"));
}

#[test]
fn a_rejected_permission_ends_opencode_and_is_a_denial() {
    let stream = concat!(
        r#"{"type":"tool_use","sessionID":"s","part":{"callID":"c","tool":"write","state":{"status":"error","input":{"filePath":"/etc/x"},"error":"The user rejected permission to use this specific tool call."}}}"#,
        "\n",
        r#"{"type":"step_finish","sessionID":"s","part":{"reason":"tool-calls","tokens":{"input":1,"output":1,"reasoning":2,"cache":{"read":0,"write":0}},"cost":0}}"#,
        "\n",
    );
    assert_snapshot!(show(&hear(Opencode, stream.as_bytes(), Usage::default())), @r#"
    session s
    denied write
    call - 1+0+0/3(2): "" [write /etc/x FAILED]
    failed Terminal it was not allowed to use `write` and stopped
    "#);
}

#[test]
fn lines_of_pleachs_own_are_read() {
    let stream = concat!(
        r#"{"type":"session","id":"s1"}"#,
        "\n",
        r#"{"type":"turn","text":"Write it.","model":"m","tools":[{"name":"write","arguments":{"file_path":"a"},"output":"ok"}],"usage":{"input":5,"output":2},"cost_usd":0.25}"#,
        "\n",
        r#"{"type":"denied","tool":"shell"}"#,
        "\n",
        r#"{"type":"error","message":"slow"}"#,
        "\n",
        r#"{"type":"result","status":"error","text":"no luck","retry":true}"#,
    );
    assert_snapshot!(show(&hear(Jsonl, stream.as_bytes(), Usage::default())), @r#"
    session s1
    call m 5+0+0/2(0) $0.25: "Write it." [write a]
    turn over
    denied shell
    complaint slow
    failed Transient no luck
    "#);
}
