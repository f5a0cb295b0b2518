//! The examples in `docs/records.md` are real: each is read and written back without losing or adding a field.

use std::collections::BTreeSet;

use pleach::event::{Event, Recorded};
use serde_json::Value;

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
    let source = read("lib/src/event/mod.rs");
    let list =
        source.split("\nevents! {").nth(1).and_then(|rest| rest.split("\n}").next()).expect("the list of events");
    let names =
        list.lines().map(str::trim).filter(|line| !line.starts_with("//")).filter_map(|line| line.strip_suffix(','));
    let missing: Vec<&str> = names.filter(|name| !shown.contains(&format!("dev.orchestra.{name}"))).collect();
    assert!(missing.is_empty(), "docs/records.md shows no example of {missing:?}");
}
