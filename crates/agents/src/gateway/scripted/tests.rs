use super::*;
use crate::llm::ToolSpec;

const SCRIPT: &str = "
model: scripted-1
scripts:
  - name: work
    when: {node: implement}
    steps:
      - text: I write.
        tools:
          - write_file: {file_path: a.txt, content: x}
        usage: {input: 100, output: 10}
      - error: {status: 529, message: busy, retry_after: 2s}
      - text: Done.
";

fn facts() -> Facts {
    let metadata = [(meta::NODE.to_owned(), "implement".to_owned())].into();
    Facts { metadata, cwd: "/w".into(), interruptions: &["You were interrupted.", "Continue."], ..Facts::default() }
}

fn request(messages: Vec<Message>) -> Request {
    let parameters = json!({"properties": {"file_path": {}, "content": {}}});
    let write = ToolSpec { name: "Write".into(), description: String::new(), parameters, extra: Default::default() };
    Request { model: "m".into(), messages, tools: vec![write], ..Request::default() }
}

async fn say(request: &Request, tries: u32) -> Scripted {
    call(&Script::parse(SCRIPT).unwrap(), &facts(), request, Format::Anthropic, tries).await
}

#[tokio::test]
async fn a_script_answers_with_the_tools_of_the_client() {
    let Scripted::Answer(first) = say(&request(vec![Message::user("task")]), 1).await else { panic!() };
    let (id, name, given) = first.message.tool_calls().next().unwrap();
    assert_eq!((name, given), ("Write", &json!({"file_path": "/w/a.txt", "content": "x"})));
    assert_eq!((first.model.as_str(), first.usage.input), ("scripted-1", 100));
    // What the client says beside the tool's answer begins no new task.
    let result = Message::new(Role::Tool, vec![Part::tool_result(id, "ok", false)]);
    let after =
        vec![Message::user("task"), first.message.clone(), result, Message::user("<reminder>"), Message::user("<b>")];
    let Scripted::Fail { status, retry_after, message } = say(&request(after.clone()), 1).await else { panic!() };
    assert_eq!((status, retry_after), (529, Some(Duration::from_secs(2))));
    assert!(message.contains("busy"));
    let Scripted::Answer(last) = say(&request(after.clone()), 2).await else { panic!() };
    assert_eq!(last.message.text(), "Done.");
    // A task in plain words begins anew, wherever it stands.
    let again = [after.clone(), vec![Message::user("Another task")]].concat();
    let Scripted::Answer(first) = say(&request(again), 1).await else { panic!() };
    assert_eq!(first.message.text(), "I write.");
    // Who was interrupted has its task, and goes on with it.
    let goes_on = [after.clone(), vec![Message::user("You were interrupted. Go on.")]].concat();
    let Scripted::Answer(last) = say(&request(goes_on), 2).await else { panic!() };
    assert_eq!(last.message.text(), "Done.");
    // What its program has put into the conversation is no answer that was given.
    let made_up = vec![Message::assistant("(interrupted)"), Message::user("You were interrupted. Go on.")];
    let told_twice = [vec![Message::user("Continue.")], made_up.clone()].concat();
    let answered = Some(answers_on_record(&after, facts().interruptions));
    assert_eq!(answered, Some(1));
    for made_up in [made_up, told_twice] {
        let conversation = request([after.clone(), made_up].concat());
        for (answered, said) in [(answered, "Done."), (Some(0), "I write.")] {
            let script = Script::parse(SCRIPT).unwrap();
            let known = Facts { answered, ..facts() };
            let Scripted::Answer(next) = call(&script, &known, &conversation, Format::Chat, 2).await else { panic!() };
            assert_eq!(next.message.text(), said);
        }
    }
    let Scripted::Answer(first) = say(&request(vec![Message::user("You were interrupted. Go on.")]), 1).await else {
        panic!()
    };
    assert_eq!(first.message.text(), "I write.", "its conversation is lost");
}

#[tokio::test]
async fn a_node_without_tools_is_answered_by_its_script() {
    let mut plain = request(vec![Message::user("task")]);
    plain.tools.clear();
    let without = Facts { has_tools: false, ..facts() };
    let script = Script::parse(SCRIPT).unwrap();
    let Scripted::Answer(said) = call(&script, &without, &plain, Format::Chat, 1).await else { panic!() };
    assert!(said.message.text() == "I write." && !is_beside_the_script(&said));
    let Scripted::Answer(said) = call(&script, &facts(), &plain, Format::Chat, 1).await else { panic!() };
    assert!(is_beside_the_script(&said));
}

#[tokio::test]
async fn side_requests_are_answered_without_a_script() {
    let mut title = request(vec![Message::user("a title?")]);
    title.tools.clear();
    let Scripted::Answer(said) = say(&title, 1).await else { panic!() };
    assert!(!said.message.text().is_empty());
    let schema = json!({"type": "object", "properties": {"isNewTopic": {"type": "boolean"}, "kind": {"enum": ["a", "b"]}, "n": {"type": "INTEGER"}}});
    title.extra.insert("gemini".into(), json!({"generationConfig": {"responseJsonSchema": schema}}));
    let Scripted::Answer(said) = say(&title, 1).await else { panic!() };
    let said: Value = serde_json::from_str(&said.message.text()).unwrap();
    assert_eq!(said, json!({"isNewTopic": false, "kind": "a", "n": 1}));
}

#[tokio::test]
async fn a_script_without_an_answer_says_so() {
    let other = Facts::default();
    let script = Script::parse(SCRIPT).unwrap();
    let said = call(&script, &other, &request(vec![Message::user("task")]), Format::Chat, 1).await;
    let Scripted::Fail { status: 400, message, .. } = said else { panic!("{said:?}") };
    assert!(message.contains("no script matches"), "{message}");
}

#[test]
fn scripted_answers_have_the_fields_clients_expect() {
    let content = vec![Part::text("Hello."), Part::tool_call("c-1", "write", json!({"a": 1}))];
    let plain = Response {
        message: Message::new(Role::Assistant, content),
        usage: Usage { input: 7, output: 3, ..Usage::default() },
        model: "m".into(),
        stop: Stop::ToolCalls,
        extra: Default::default(),
    };
    for (format, ids) in [
        (Format::Anthropic, &["/id"][..]),
        (Format::Responses, &["/id", "/created_at", "/output/0/id", "/output/1/id", "/output/0/content/0/annotations"]),
        (Format::Chat, &["/id", "/created", "/choices/0/message/tool_calls/0/id"]),
        (Format::Gemini, &["/responseId", "/candidates/0/content/parts/1/functionCall/id"]),
    ] {
        let body = format.encode_reply(&with_server_fields(format, plain.clone()));
        for id in ids {
            assert!(body.pointer(id).is_some_and(|id| !id.is_null()), "{format:?} {id}: {body}");
        }
        let back = format.decode_reply(body).unwrap();
        assert_eq!((back.message.text(), back.usage), ("Hello.".to_owned(), plain.usage), "{format:?}");
        assert_eq!(back.message.tool_calls().next().unwrap().0, "c-1", "{format:?}");
    }
}
