//! Events as JSON: what is written is read back, old records stay readable, new ones are refused or kept.

mod every;
mod random;

use std::collections::BTreeSet;

use pleach_core::event::{Event, EventError, Recorded, VERSION};
use proptest::prelude::*;
use serde_json::{Value, json};

use self::every::every_event;
use self::random::{extra, json_value, recorded};
use crate::repository::read;

/// One event per line, between `[` and `]`.
fn golden_lines() -> Vec<String> {
    let text = read("crates/core/tests/golden/events-v1.json");
    let inner = text.strip_prefix("[\n").and_then(|text| text.strip_suffix("\n]\n")).expect("a list, a line per event");
    inner.split(",\n").map(str::to_owned).collect()
}

#[test]
fn version_1_events_are_read_as_what_they_mean() {
    let read: Vec<Recorded> = golden_lines()
        .iter()
        .map(|line| Recorded::from_json(serde_json::from_str(line).unwrap()).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    let meant = every_event();
    for (read, meant) in read.iter().zip(&meant) {
        assert_eq!(read, meant);
    }
    assert_eq!(read.len(), meant.len());
}

#[test]
fn version_1_events_are_written_back_byte_for_byte() {
    for line in golden_lines() {
        let recorded = Recorded::from_json(serde_json::from_str(&line).unwrap()).unwrap();
        assert_eq!(recorded.to_json().to_string(), line);
        assert_eq!(recorded.to_text(), line);
    }
}

#[test]
fn every_type_of_event_has_a_golden_line() {
    let source = read("crates/core/src/event/mod.rs");
    let list = source.split("\nevents! {").nth(1).and_then(|rest| rest.split("\n}").next()).expect("the list");
    let lines = list.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let types: BTreeSet<String> =
        lines.filter_map(|line| line.strip_suffix(',')).map(|name| format!("dev.orchestra.{name}")).collect();
    let shown: BTreeSet<String> = every_event().iter().map(|recorded| recorded.event.kind().to_owned()).collect();
    assert_eq!(shown, types);
}

#[test]
fn a_newer_version_is_refused_with_advice() {
    for kind in ["dev.orchestra.NodeStarted", "dev.orchestra.NotYetThoughtOf"] {
        let json = json!({"type": kind, "version": VERSION + 1, "at": "2026-11-15T01:02:03.456Z", "data": {}});
        let error = Recorded::from_json(json).unwrap_err();
        assert!(matches!(&error, EventError::Newer { version, .. } if *version == VERSION + 1));
        let text = error.to_string();
        assert!(text.contains(kind) && text.contains("version 2") && text.contains("install a newer pleach"), "{text}");
    }
}

#[test]
fn what_is_not_an_event_is_refused() {
    let at = "2026-11-15T01:02:03.456Z";
    let broken = [
        json!(null),
        json!([]),
        json!("dev.orchestra.Resumed"),
        json!({"type": "dev.orchestra.Resumed", "version": 1, "at": at}),
        json!({"type": "dev.orchestra.Resumed", "at": at, "data": {}}),
        json!({"version": 1, "at": at, "data": {}}),
        json!({"type": "dev.orchestra.Resumed", "version": 1, "at": "yesterday", "data": {}}),
        json!({"type": "dev.orchestra.Resumed", "version": -1, "at": at, "data": {}}),
        json!({"type": "dev.orchestra.Resumed", "version": 1, "at": at, "data": null}),
        json!({"type": "dev.orchestra.NodeStarted", "version": 1, "at": at, "data": {}}),
        json!({"type": "dev.orchestra.PipelineFailed", "version": 1, "at": at, "data": {"reason": 7, "node_id": null}}),
        json!({"type": "dev.orchestra.PipelineFailed", "version": 1, "at": at, "data": {"reason": "", "node_id": "1x"}}),
    ];
    for json in broken {
        let result = Recorded::from_json(json.clone());
        assert!(matches!(result, Err(EventError::Malformed { .. })), "{json} gave {result:?}");
    }
    let named = json!({"type": "dev.orchestra.RetryAt", "version": 1, "at": at, "data": {"node_id": "a"}});
    let error = Recorded::from_json(named).unwrap_err();
    assert!(error.to_string().contains("dev.orchestra.RetryAt"), "{error}");
}

#[test]
fn fields_older_writers_did_not_have_may_be_missing() {
    let optional = [
        ("PipelineStarted", "simulated"),
        ("PipelineStarted", "targets"),
        ("NodeStarted", "starts_over"),
        ("NodeStarted", "fidelity"),
        ("NodeStarted", "thread"),
        ("AgentTurn", "agent_head"),
        ("AgentTurn", "cost_usd"),
        ("AgentTurn", "side_calls"),
        ("PipelinePaused", "why"),
        ("BudgetExceeded", "node_id"),
        ("NodeExecution", "trees"),
        ("NodeExecution", "warnings"),
        ("Checkpoint", "workspace_snapshot"),
        ("Checkpoint", "next_node"),
    ];
    for (kind, field) in optional {
        let event = every_event().into_iter().find(|event| event.event.kind().ends_with(kind)).unwrap();
        let mut json = event.to_json();
        json["data"].as_object_mut().unwrap().shift_remove(field);
        assert!(Recorded::from_json(json).is_ok(), "{kind} without {field}");
    }
}

#[test]
fn times_have_their_milliseconds() {
    let written =
        |at: &str| Recorded { at: at.parse().unwrap(), event: every_event()[1].event.clone() }.to_json()["at"].clone();
    assert_eq!(written("2026-11-15T01:02:03Z"), "2026-11-15T01:02:03.000Z");
    assert_eq!(written("2026-11-15T01:02:03.45Z"), "2026-11-15T01:02:03.450Z");
    assert_eq!(written("2026-11-15T01:02:03.4567Z"), "2026-11-15T01:02:03.4567Z", "nothing is lost");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 2,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn events_round_trip(recorded in recorded()) {
        let text = recorded.to_json().to_string();
        let read = Recorded::from_json(serde_json::from_str(&text).unwrap()).unwrap();
        prop_assert_eq!(&read, &recorded);
        prop_assert_eq!(read.to_text(), text, "to the byte");
    }

    #[test]
    fn unknown_types_are_kept_as_they_are(kind in "[a-z]{1,8}\\.[A-Za-z]{1,12}", data in json_value()) {
        let json = json!({"type": kind, "version": 1, "at": "2026-11-15T01:02:03.456Z", "data": data});
        let recorded = Recorded::from_json(json.clone()).unwrap();
        let known = !matches!(recorded.event, Event::Unknown { .. });
        prop_assert!(!known);
        prop_assert_eq!(recorded.event.kind(), kind);
        prop_assert_eq!(recorded.to_json().to_string(), json.to_string());
    }

    #[test]
    fn unknown_fields_are_kept(index in 0..every_event().len(), extra in extra()) {
        // A warning is part of other events, too, and read from records only there.
        prop_assume!(!matches!(every_event()[index].event, Event::Warning(_)));
        let mut json = every_event()[index].to_json();
        let data = json["data"].as_object_mut().unwrap();
        data.extend(extra.clone());
        let recorded = Recorded::from_json(json.clone()).unwrap();
        prop_assert_eq!(recorded.to_json(), json);
        for (key, value) in &extra {
            prop_assert_eq!(&recorded.event.data()[key], value);
        }
    }

    #[test]
    fn any_json_is_an_event_or_an_error(json in json_value(), kind in 0..every_event().len()) {
        let _ = Recorded::from_json(json.clone());
        let mut event = every_event()[kind].to_json();
        event["data"] = json;
        let _ = Recorded::from_json(event);
    }
}

#[test]
fn results_are_distinguished_by_a_stable_digest() {
    use pleach_core::event::{Outcome, Snapshot};
    use pleach_core::state::result_digest;
    let none = Snapshot::new();
    // Kept states hold these numbers.
    let digest = |outcome: &Outcome, output| result_digest(outcome, &none, output);
    assert_eq!(digest(&Outcome::success(), None), SUCCESS_DIGEST);
    assert_ne!(digest(&Outcome::fail("a"), None), digest(&Outcome::fail("b"), None));
    let told = Outcome { context_updates: [("k".to_owned(), Value::from(1))].into(), ..Outcome::success() };
    assert_ne!(digest(&told, None), digest(&Outcome::success(), None));
    assert_ne!(digest(&Outcome::success(), Some("a")), digest(&Outcome::success(), Some("b")));
    assert_eq!(digest(&Outcome::fail("1 failed in 0.12s"), None), digest(&Outcome::fail("1 failed in 0.34s"), None));
}

const SUCCESS_DIGEST: u64 = 7_736_860_480_840_830_602;
