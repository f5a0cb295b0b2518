use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::llm::{Message, Part};

fn request(pairs: &[(&str, &str)], messages: Vec<Message>) -> Request {
    let metadata: BTreeMap<String, String> =
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    Request { messages, metadata, ..Request::default() }
}

fn script(text: &str) -> Script {
    Script::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

async fn ask(script: &Script, request: &Request) -> Result<Response, LlmError> {
    script.complete(request, &Cancel::never()).await
}

async fn said(script: &Script, pairs: &[(&str, &str)], messages: Vec<Message>) -> String {
    ask(script, &request(pairs, messages)).await.unwrap().message.text()
}

#[tokio::test]
async fn the_first_script_whose_conditions_hold_answers() {
    let script = script(
        "
scripts:
  - {name: second visit, when: {node: [plan, implement], visit: 2}, steps: [{text: two}]}
  - {name: retry, when: {node: implement, attempt: 2}, steps: [{text: again}]}
  - {name: marked, when: {contains: ['[[x]]', y]}, steps: [{text: marked}]}
  - {name: model, when: {model: big}, steps: [{text: big}]}
  - {name: one, when: {node: implement}, steps: [{text: one}]}
",
    );
    let task = || vec![Message::user("do it")];
    let node = |visit, attempt| [("node", "implement"), ("visit", visit), ("attempt", attempt)];
    assert_eq!(said(&script, &node("1", "1"), task()).await, "one");
    assert_eq!(said(&script, &node("2", "1"), task()).await, "two");
    assert_eq!(said(&script, &node("1", "2"), task()).await, "again");
    assert_eq!(said(&script, &[], vec![Message::user("[[x]] and y")]).await, "marked");
    let mut big = request(&[], task());
    big.model = "big".into();
    assert_eq!(ask(&script, &big).await.unwrap().message.text(), "big");

    let error = ask(&script, &request(&[("node", "review"), ("visit", "1")], vec![Message::user("[[x]]")])).await;
    let error = error.unwrap_err();
    assert_eq!(error.class, ErrorClass::Terminal);
    assert_eq!(
        error.message,
        "no script matches node `review`, visit `1`: the file has second visit, retry, marked, model, one; add one \
         whose `when` matches, or one without `when`"
    );
}

#[tokio::test]
async fn the_step_follows_from_the_conversation() {
    let script = script("scripts: [{name: a, steps: [{text: one}, {text: two}, {text: three}]}]");
    let mut messages = vec![Message::user("an earlier task"), Message::assistant("old"), Message::user("task")];
    for expected in ["one", "two", "three"] {
        for _ in 0..2 {
            assert_eq!(said(&script, &[], messages.clone()).await, expected, "asking again changes nothing");
        }
        messages.push(Message::assistant(expected));
        messages.push(Message::steering("a remark is no task"));
    }
    let error = ask(&script, &request(&[], messages)).await.unwrap_err();
    assert_eq!(error.message, "script `a` has 3 answers and was asked for number 4: add a step to it");
    assert!(ask(&script, &request(&[], vec![])).await.unwrap_err().message.contains("without a task"));
}

#[tokio::test]
async fn an_answer_has_words_thoughts_tools_and_a_price() {
    let script = script(
        "
model: scripted-1
scripts:
  - name: a
    steps:
      - thinking: hm
        text: 'At {{node}}, visit {{visit}}: {{not ours}}'
        tools:
          - write_file: {file_path: '{{status_file}}', content: 'x: {{attempt}}', list: ['{{node}}', 1, null]}
          - list_all:
        usage: {input: 10, output: 20, cache_read: 3, cache_write: 4, reasoning: 5}
      - {text: cut, stop: length}
",
    );
    let facts = [("node", "plan"), ("visit", "3"), ("attempt", "2"), ("status_file", "/tmp/s.json")];
    let mut messages = vec![Message::user("task")];
    let response = ask(&script, &request(&facts, messages.clone())).await.unwrap();
    assert_eq!(response.model, "scripted-1");
    assert_eq!(response.stop, Stop::ToolCalls);
    assert_eq!(
        response.usage,
        Usage {
            input: 10,
            cache_read: 3,
            cache_write: 4,
            output: 20,
            reasoning: 5,
            cache_write_1h: 0,
            web_searches: 0
        }
    );
    assert_eq!(response.message.text(), "At plan, visit 3: {{not ours}}");
    assert!(matches!(&response.message.content[0], Part::Thinking { text, .. } if text == "hm"));
    let calls: Vec<_> = response.message.tool_calls().collect();
    let arguments = json!({"file_path": "/tmp/s.json", "content": "x: 2", "list": ["plan", 1, null]});
    assert_eq!(calls, [("call_1_1", "write_file", &arguments), ("call_1_2", "list_all", &json!({}))]);

    messages.push(response.message);
    assert_eq!(ask(&script, &request(&facts, messages)).await.unwrap().stop, Stop::Length);
    let error = ask(&script, &request(&facts[..2], vec![Message::user("t")])).await.unwrap_err();
    assert!(error.message.contains("no `status_file` for `{{status_file}}`"), "{error}");
}

#[tokio::test]
async fn faults_use_up_tries_and_attempts() {
    let script = script(
        "
scripts:
  - name: a
    steps:
      - error: {status: 529, message: busy}
        tries: 2
      - malformed: '{\"half'
      - error: {message: no luck, transient: false}
        attempts: 1
      - error: {status: 429, retry_after: 90s}
        attempts: 1
        tries: 9
      - text: done
      - error: {status: 401}
",
    );
    let task = || vec![Message::user("t")];
    let at = |nth: u32, attempt: u32| [("try", nth.to_string()), ("attempt", attempt.to_string())];
    let mut seen = Vec::new();
    for (nth, attempt) in [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (3, 2), (4, 2)] {
        let pairs = at(nth, attempt);
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (*key, value.as_str())).collect();
        seen.push(match ask(&script, &request(&pairs, task())).await {
            Ok(response) => response.message.text(),
            Err(error) => format!("{:?} {error} {:?}", error.class, error.retry_after),
        });
    }
    assert_eq!(
        seen,
        [
            "Transient the provider answered 529: busy None",
            "Transient the provider answered 529: busy None",
            "Malformed the provider's reply cannot be read: \"{\\\"half\" None",
            "Terminal no luck None",
            "Transient the provider answered 429: an error of the script Some(90s)",
            "Malformed the provider's reply cannot be read: \"{\\\"half\" None",
            "done",
        ]
    );
    let after = vec![Message::user("t"), Message::assistant("done")];
    assert_eq!(ask(&script, &request(&[], after.clone())).await.unwrap_err().class, ErrorClass::Auth);
    let error = ask(&script, &request(&[("try", "2")], after)).await.unwrap_err();
    assert!(error.message.contains("asked for number 2"), "{error}");
}

#[tokio::test]
async fn delays_and_hangs_end_at_a_kill_only() {
    let script = script(
        "scripts: [{name: slow, when: {node: slow}, steps: [{text: x, delay: 10m}]}, {name: h, steps: [{hang: true}]}]",
    );
    for pairs in [&[("node", "slow")][..], &[]] {
        let (canceller, cancel) = Cancel::new();
        canceller.stop();
        let request = request(pairs, vec![Message::user("t")]);
        let mut call = Box::pin(script.complete(&request, &cancel));
        tokio::select! {
            biased;
            answer = &mut call => panic!("a stop lets the call go on: {answer:?}"),
            () = tokio::task::yield_now() => {}
        }
        canceller.kill();
        assert_eq!(call.await.unwrap_err().class, ErrorClass::Cancelled);
    }
}

#[test]
fn errors_in_a_script_name_their_position() {
    let cases = [
        ("scripts: [{name: a, step: []}]", "unknown field `step`"),
        ("scripts: []", "the file has no scripts"),
        ("scripts: [{name: a, steps: []}]", "script `a` has no steps"),
        (
            "scripts:\n  - {name: a, steps: [{text: x}]}\n  - {name: a, steps: [{text: x}]}",
            "a second script is called `a`",
        ),
        ("scripts: [{name: a, steps: [{text: x, error: {status: 1}}]}]", "exactly one of"),
        ("scripts: [{name: a, steps: [{usage: {input: 1}}]}]", "exactly one of"),
        ("scripts: [{name: a, steps: [{hang: false}]}]", "remove it"),
        ("scripts: [{name: a, steps: [{text: x, tries: 2}]}]", "not to an answer"),
        ("scripts: [{name: a, steps: [{hang: true, usage: {input: 1}}]}]", "belong to an answer"),
        ("scripts: [{name: a, steps: [{hang: true, tries: 0}]}]", "count from 1"),
        ("scripts: [{name: a, steps: [{error: {message: x}}]}]", "its `status` or whether it is `transient`"),
        ("scripts: [{name: a, steps: [{text: x, delay: soon}]}]", "`soon` is not a duration"),
        ("scripts: [{name: a, steps: [{text: x, delay: 5}]}]", "`5` is not a duration"),
        ("scripts: [{name: a, steps: [{tools: [{a: {}, b: {}}]}]}]", "one per item"),
        ("scripts: [{name: a, steps: [{text: x, usage: {inputs: 1}}]}]", "unknown field `inputs`"),
        ("scripts: [{name: a, when: {nod: x}, steps: [{text: x}]}]", "unknown field `nod`"),
        ("scripts: [{name: a, steps: [{text: x, stop: maybe}]}]", "unknown variant `maybe`"),
        ("scripts: {", ""),
    ];
    for (text, expected) in cases {
        let error = Script::parse(text).unwrap_err();
        assert!(error.message.contains(expected), "{text}\n{error}");
        assert!(!error.message.contains('\n'), "{error}");
        assert!(error.line > 0 || text == "scripts: []", "{text}\n{error}");
    }
    let error = Script::parse("scripts:\n  - name: a\n    steps:\n      - text: x\n        delay: soon\n").unwrap_err();
    assert_eq!(error.to_string(), "line 5, column 16: `soon` is not a duration; write `250ms`, `3s` or `2m`");
}
