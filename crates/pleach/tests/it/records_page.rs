//! The examples in `docs/records.md` are real: each is read and written back without losing or adding a field.

use std::collections::BTreeSet;

use pleach_core::event::{Event, Recorded};
use pleach_core::redact::Redactor;
use serde_json::{Value, json};

use crate::repository::read;

/// The JSON blocks of the page that are events.
fn examples() -> Vec<Value> {
    let page = read("docs/records.md");
    let blocks = page.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    let values = blocks.map(|text| serde_json::from_str::<Value>(text).unwrap_or_else(|e| panic!("{e} in {text}")));
    values.filter(|value| value["type"].as_str().is_some_and(|kind| kind.starts_with("dev."))).collect()
}

#[test]
fn examples_read_back_as_they_are_written() {
    for example in examples() {
        let recorded = Recorded::from_json(example.clone()).unwrap_or_else(|error| panic!("{error}: {example:#}"));
        assert!(!matches!(recorded.event, Event::Unknown { .. }), "unknown type: {example:#}");
        assert_eq!(recorded.to_json(), example);
    }
}

#[test]
fn every_event_has_an_example() {
    let shown: BTreeSet<String> =
        examples().iter().filter_map(|value| value["type"].as_str()).map(Into::into).collect();
    let source = read("crates/core/src/event/mod.rs");
    let list =
        source.split("\nevents! {").nth(1).and_then(|rest| rest.split("\n}").next()).expect("the list of events");
    let names =
        list.lines().map(str::trim).filter(|line| !line.starts_with("//")).filter_map(|line| line.strip_suffix(','));
    let missing: Vec<&str> = names.filter(|name| !shown.contains(&format!("dev.orchestra.{name}"))).collect();
    assert!(missing.is_empty(), "docs/records.md shows no example of {missing:?}");
}

/// Every word of a text that can be taken for a secret.
fn words(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"_.-/".contains(c));
    words.flat_map(|word| word.split(['.', '/', '-']).chain([word])).filter(|word| word.len() >= 6).collect()
}

/// All that is read back from a record: ids, statuses, commits, whatever it is called.
fn structure(event: &Value) -> Value {
    let text = [
        "text",
        "title",
        "message",
        "why",
        "notes",
        "body",
        "subject",
        "commit_message",
        "command",
        "goal",
        "reason",
        "question",
        "answer",
        "comment",
    ];
    match event {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(key, _)| !text.contains(&key.as_str()));
            kept.map(|(key, value)| (key.clone(), structure(value))).collect::<serde_json::Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(structure).collect(),
        value => value.clone(),
    }
}

/// The places of an example where somebody may have said anything.
fn without_text(mut event: Value) -> Value {
    let data = &mut event["data"];
    for key in
        ["model", "provider", "dot_path", "options", "exit", "config", "files_written", "tool_calls", "name", "remote"]
    {
        if data.get(key).is_some() && (key != "name" || data.get("dot").is_none()) {
            data[key] = json!(null);
        }
    }
    if let Some(outcome) = data.get_mut("outcome") {
        outcome["context_updates"] = json!(null);
    }
    if let Some(changes) = data.get_mut("changes") {
        *changes = json!(null);
    }
    structure(&event)
}

#[test]
fn an_event_survives_redaction_of_its_own_words() {
    for example in examples() {
        let recorded = Recorded::from_json(example.clone()).expect("an example");
        for word in words(&example.to_string()) {
            let redactor = Redactor::new([("D_PASSWORD", word)]);
            let Some(clean) = recorded.without_secrets(&redactor) else { continue };
            let read = Recorded::from_json(clean.clone()).unwrap_or_else(|error| panic!("{word}: {error}: {clean:#}"));
            assert_eq!(read.to_json(), clean, "{word}");
            assert_eq!(read.event.kind(), recorded.event.kind(), "{word}");
            assert_eq!(without_text(clean), without_text(example.clone()), "{word}");
        }
    }
}

#[test]
fn texts_of_events_are_redacted() {
    let redactor = Redactor::new([("D_PASSWORD", "orchid")]);
    for (kind, said) in [
        (
            "PipelineStarted",
            json!({"goal": "an orchid", "config": {"agent": "command:x orchid", "tree": {"a": ["orchid"]}}}),
        ),
        ("PipelineStarted", json!({"inputs": {"task_name": "orchid"}, "dot_path": "orchid/x.dot"})),
        ("NodeExecution", json!({"outcome": {"status": "orchid", "context_updates": {"orchid": "orchid"}}})),
        (
            "NodeExecution",
            json!({"outcome": {"status": "fail", "failure_reason": "orchid"}, "warnings": [{"code": "work-kept", "text": "orchid"}]}),
        ),
        (
            "AgentTurn",
            json!({"tool_calls": [{"id": "1", "name": "orchid", "arguments": {"orchid": "orchid"}, "is_error": true}]}),
        ),
        ("AgentTurn", json!({"files_written": {"repo": ["orchid"]}, "agent_state_ref": {"session": "orchid"}})),
        ("ToolExecution", json!({"command": "login orchid", "commit_message": "Use orchid"})),
        (
            "HumanInteraction",
            json!({"question": "orchid?", "options": ["orchid"], "answer": "orchid", "comment": "orchid"}),
        ),
        ("StepFinished", json!({"failing": ["orchid"], "feedback": {"kind": "rejected", "text": "orchid"}})),
        ("StepFinished", json!({"report": {"task_id": "T001", "name": "orchid"}})),
        ("PipelinePaused", json!({"why": "orchid"})),
        ("PipelineFailed", json!({"reason": "orchid"})),
        ("RepoCloned", json!({"remote": "https://orchid@git.example/b.git"})),
        ("PushFailed", json!({"remote": "https://orchid@git.example/b.git", "why": "orchid"})),
        ("Resumed", json!({"of_a_newer_pleach": "orchid"})),
    ] {
        let mut example =
            examples().into_iter().find(|one| one["type"] == format!("dev.orchestra.{kind}")).expect(kind);
        for (key, value) in said.as_object().expect("fields") {
            example["data"][key] = value.clone();
        }
        let clean = Recorded::from_json(example).expect(kind).without_secrets(&redactor).expect(kind);
        assert!(!clean.to_string().contains("orchid"), "{clean:#}");
        assert!(Recorded::from_json(clean).is_ok(), "{kind}");
    }
}
