//! A record as turns of a mirror, one for each of its events, and made again of them.
//!
//! A payload has what the event is about, so that people see it there, and with it everything that its record needs to be
//! made again with the same id: the first one its commit, and the files that do not follow from the events byte for byte.

use std::collections::BTreeMap;

use pleach_core::ids::{CommitId, ContextId, RepoPath};
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::apart::{self, LIMITS};
use super::bundle::{Common, TurnType};
use super::error::MirrorError;
use super::frame::{Hash, MirrorTurn};
use git::record::StoredRecord;

/// Where the events of a record are.
const EVENTS: &str = "events.json";

/// How deep payloads may be: somewhat deeper than the JSON they are made of may.
const DEPTH: usize = 192;

/// The version of events that is left out of payloads.
const EVENT_VERSION: u64 = 1;

/// An event of a record, by its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EventPlace {
    pub record: CommitId,
    /// Counted from 1.
    pub number: usize,
}

/// A payload as it was read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Payload {
    pub place: EventPlace,
    /// The number of events in its record.
    pub of: usize,
    /// The context that wrote its record.
    pub context: ContextId,
    turn_type: TurnType,
    fields: Vec<(u64, Value)>,
}

/// A record as it is appended: its turns, and what is too large for them.
#[derive(Debug, Default)]
pub(super) struct EncodedRecord {
    pub turns: Vec<MirrorTurn>,
    pub blobs: Vec<Vec<u8>>,
}

/// Writes a record of a context.
pub(super) fn encode(mut record: StoredRecord, context: &ContextId) -> Result<EncodedRecord, MirrorError> {
    let unreadable = || MirrorError::Record { record: record.id, why: "its events cannot be read".to_owned() };
    let events = record.files.remove(EVENTS).ok_or_else(unreadable)?;
    let all: Vec<Map<String, Value>> = serde_json::from_slice(&events).map_err(|_| unreadable())?;
    if all.is_empty() {
        return Err(unreadable());
    }
    let mut messages = record.take_messages();
    let session = record.session().map(|session| session.to_string()).unwrap_or_default();
    let mut payloads = Vec::new();
    for (index, event) in all.iter().enumerate() {
        let own: Vec<u64> = messages.range(messages_of(event)).map(|(number, _)| *number).collect();
        let own = own.into_iter().filter_map(|number| Some(json!([number, messages.remove(&number)?])));
        let own: Vec<Value> = own.collect();
        let turn_type = TurnType::of(event.get("type").and_then(Value::as_str).unwrap_or_default());
        let mut fields = event_fields(turn_type, event);
        let common = |field: Common, value: Value| (field as u64, value);
        let mut before = vec![
            common(Common::Record, record.id.to_string().into()),
            common(Common::Number, (index + 1).into()),
            common(Common::Of, all.len().into()),
            common(Common::Context, context.as_str().into()),
        ];
        before.push(common(Common::About, about(&session, context, event)));
        before.append(&mut fields);
        if !own.is_empty() {
            before.push(common(Common::Messages, own.into()));
        }
        payloads.push((turn_type, before));
    }
    let made = events_of(payloads.iter().map(|(turn_type, fields)| (*turn_type, fields.as_slice())));
    if made.as_deref() != Some(&events) {
        record.files.insert(EVENTS.to_owned(), events);
    }
    record.put_messages(&messages);
    if let Some((_, first)) = payloads.first_mut() {
        let files = record.files.into_iter().map(|(path, bytes)| (path, as_text(bytes)));
        first.push((Common::Commit as u64, as_text(record.commit)));
        first.push((Common::Files as u64, Value::Object(files.collect())));
    }
    let mut encoded = EncodedRecord::default();
    for (turn_type, mut fields) in payloads {
        if apart::take(&mut fields, LIMITS, &mut encoded.blobs) {
            fields.push((Common::Apart as u64, true.into()));
        }
        let payload = rmp_serde::to_vec(&Tagged(fields)).expect("tags and JSON can be written");
        encoded.turns.push(MirrorTurn { type_id: turn_type.id(), version: turn_type.version, payload });
    }
    Ok(encoded)
}

/// The numbers of the messages an event is about.
fn messages_of(event: &Map<String, Value>) -> std::ops::Range<u64> {
    let data = event.get("data");
    let number = |of: Option<&Value>| of.and_then(Value::as_u64);
    let range = data.and_then(|data| data.get("messages"));
    let range = range.and_then(|range| Some((number(range.get("first"))?, number(range.get("last"))?)));
    let one = || ["output", "stderr", "log"].into_iter().find_map(|key| number(data?.get(key)));
    let (first, last) = range.or_else(|| one().map(|one| (one, one))).unwrap_or_default();
    first..last.saturating_add(1).max(first)
}

/// What an event says, by tags, in the order in which it is written.
fn event_fields(turn_type: TurnType, event: &Map<String, Value>) -> Vec<(u64, Value)> {
    let at = (Common::At as u64, event.get("at").cloned().unwrap_or_default());
    let data = event.get("data").cloned().unwrap_or_default();
    let mut fields = vec![at];
    if turn_type.is_other() {
        let own = [("type", event.get("type").cloned().unwrap_or_default()), ("data", data)];
        fields.extend(own.into_iter().filter_map(|(field, value)| Some((turn_type.tag(field)?, value))));
        return fields;
    }
    let mut more = Map::new();
    let Value::Object(data) = data else { return fields };
    for (field, value) in data {
        match turn_type.tag(&field) {
            Some(tag) => fields.push((tag, value)),
            None => drop(more.insert(field, value)),
        }
    }
    if !more.is_empty() {
        fields.push((Common::More as u64, Value::Object(more)));
    }
    fields
}

/// Who a context is about whose first own turn this becomes: some servers look at that of the whole chain, some at the one
/// after the fork. The tags are the server's.
fn about(session: &str, context: &ContextId, event: &Map<String, Value>) -> Value {
    let started = event.get("data").filter(|_| event.get("type") == Some(&json!("dev.orchestra.PipelineStarted")));
    let text = |key: &str| started?.get(key)?.as_str()?.lines().find(|line| !line.trim().is_empty());
    let title = text("goal").or_else(|| text("name")).map_or_else(|| format!("{session}/{context}"), str::to_owned);
    json!({"1": session, "2": title.chars().take(200).collect::<String>()})
}

/// The file of events that payloads come to; none if they are not whole.
fn events_of<'p>(payloads: impl Iterator<Item = (TurnType, &'p [(u64, Value)])>) -> Option<Vec<u8>> {
    let events = payloads.map(|(turn_type, fields)| {
        let of = |wanted: Common| fields.iter().find(|(tag, _)| *tag == wanted as u64).map(|(_, value)| value);
        let own = fields.iter().filter_map(|(tag, value)| Some((turn_type.field(*tag)?.to_owned(), value.clone())));
        let mut own: Map<String, Value> = own.collect();
        let (kind, data) = if turn_type.is_other() {
            (own.remove("type")?, own.remove("data")?)
        } else {
            own.extend(of(Common::More).and_then(Value::as_object).cloned().into_iter().flatten());
            (turn_type.id().into(), Value::Object(own))
        };
        Some(json!({"type": kind, "version": EVENT_VERSION, "at": of(Common::At)?, "data": data}))
    });
    Some(Value::Array(events.collect::<Option<_>>()?).to_string().into_bytes())
}

impl EventPlace {
    /// Reads from a payload of pleach's which event it holds. What else is in it may be anything, and is passed over.
    pub fn read(payload: &[u8]) -> Option<Self> {
        unpack(payload)
    }
}

/// Reads what others may have written: it may be anything, but not as deep as they like.
fn unpack<'p, T: Deserialize<'p>>(payload: &'p [u8]) -> Option<T> {
    let mut read = rmp_serde::Deserializer::from_read_ref(payload);
    read.set_max_depth(DEPTH);
    T::deserialize(&mut read).ok()
}

impl Payload {
    /// Reads the payload of a turn; none if it is not one of pleach's.
    pub fn read(type_id: &str, version: u32, payload: &[u8]) -> Option<Self> {
        let turn_type = TurnType::read(type_id, version)?;
        let Tagged(fields) = unpack(payload)?;
        let of = |wanted: Common| fields.iter().find(|(tag, _)| *tag == wanted as u64).map(|(_, value)| value);
        let text = |wanted: Common| of(wanted).and_then(Value::as_str);
        let number =
            |wanted: Common| of(wanted).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok());
        let place = EventPlace { record: text(Common::Record)?.parse().ok()?, number: number(Common::Number)? };
        let (of, context) = (number(Common::Of)?, text(Common::Context)?.parse().ok()?);
        let is_sound = (1..=of).contains(&place.number);
        is_sound.then_some(Self { place, of, context, turn_type, fields })
    }

    /// What is kept apart from it.
    pub fn blobs(&self) -> Vec<Hash> {
        if self.of_field(Common::Apart).is_some() { apart::names(&self.fields) } else { Vec::new() }
    }

    /// Puts what is kept apart back.
    pub fn fill_in(&mut self, blobs: &BTreeMap<Hash, Vec<u8>>) {
        if self.of_field(Common::Apart).is_some() {
            apart::put_back(&mut self.fields, blobs);
        }
    }

    fn of_field(&self, wanted: Common) -> Option<&Value> {
        self.fields.iter().find(|(tag, _)| *tag == wanted as u64).map(|(_, value)| value)
    }
}

/// The record that payloads come to, in order; none if they do not make one.
pub(super) fn decode(payloads: &[&Payload]) -> Option<StoredRecord> {
    let first = payloads.first().filter(|first| first.of == payloads.len())?;
    let mut record = StoredRecord {
        id: first.place.record,
        commit: as_bytes(first.of_field(Common::Commit)?)?,
        files: BTreeMap::new(),
    };
    let events = events_of(payloads.iter().map(|payload| (payload.turn_type, payload.fields.as_slice())));
    record.files.extend(events.map(|events| (EVENTS.to_owned(), events)));
    let messages = payloads.iter().filter_map(|payload| payload.of_field(Common::Messages)?.as_array()).flatten();
    let messages = messages.filter_map(|pair| Some((pair.get(0)?.as_u64()?, pair.get(1)?.clone())));
    record.put_messages(&messages.collect());
    for (path, content) in first.of_field(Common::Files)?.as_object()? {
        record.files.insert(path.clone(), as_bytes(content)?);
    }
    Some(record)
}

/// Content as paths are written: text, which people can read, where it is text.
fn as_text(bytes: Vec<u8>) -> Value {
    serde_json::to_value(RepoPath::new(bytes)).expect("any bytes can be written")
}

fn as_bytes(content: &Value) -> Option<Vec<u8>> {
    serde_json::from_value::<RepoPath>(content.clone()).ok().map(|content| content.as_bytes().to_vec())
}

/// A map with numbers for keys.
struct Tagged(Vec<(u64, Value)>);

impl Serialize for Tagged {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (tag, value) in &self.0 {
            if *tag == Common::About as u64 {
                let about = value.as_object().into_iter().flatten();
                let about = about.filter_map(|(tag, value)| Some((tag.parse().ok()?, value.clone())));
                map.serialize_entry(tag, &Self(about.collect()))?;
            } else {
                map.serialize_entry(tag, value)?;
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Tagged {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tags;
        impl<'de> Visitor<'de> for Tags {
            type Value = Tagged;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a map with numeric tags")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tagged, A::Error> {
                let mut fields = Vec::new();
                while let Some(tag) = map.next_key::<u64>()? {
                    // What it is about is for the server alone.
                    if tag == Common::About as u64 {
                        map.next_value::<Tagged>()?;
                    } else {
                        fields.push((tag, map.next_value()?));
                    }
                }
                Ok(Tagged(fields))
            }
        }
        deserializer.deserialize_map(Tags)
    }
}

impl<'de> Deserialize<'de> for EventPlace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Place;
        impl<'de> Visitor<'de> for Place {
            type Value = EventPlace;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a map with the place of an event")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EventPlace, A::Error> {
                let (mut record, mut number) = (None, None);
                while let Some(tag) = map.next_key::<u64>()? {
                    if tag == Common::Record as u64 {
                        record = map.next_value::<String>()?.parse().ok();
                    } else if tag == Common::Number as u64 {
                        number = Some(map.next_value()?);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                let place = record.zip(number).map(|(record, number)| EventPlace { record, number });
                place.ok_or_else(|| A::Error::custom("it has no place"))
            }
        }
        deserializer.deserialize_map(Place)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::mirror::bundle::bundle;

    fn id() -> CommitId {
        CommitId::from_bytes([7; 20])
    }

    fn stored(events: &str, files: &[(&str, &[u8])]) -> StoredRecord {
        let files = files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec()));
        StoredRecord {
            id: id(),
            commit:
                b"tree 0\nauthor a\n\nsubject\n\nPleach-Record: 1\nPleach-Session: abcdefgh\nPleach-Context: main\n"
                    .to_vec(),
            files: files.chain([(EVENTS.to_owned(), events.as_bytes().to_vec())]).collect(),
        }
    }

    fn read(turns: &[MirrorTurn]) -> Vec<Payload> {
        let read = turns.iter().map(|turn| Payload::read(&turn.type_id, turn.version, &turn.payload));
        read.map(|payload| payload.expect("it is one of pleach's")).collect()
    }

    /// What a mirror's typed view shows of a turn, and which of the record's files went along as they are.
    fn shown(turn: &MirrorTurn) -> Value {
        let Tagged(fields) = rmp_serde::from_slice(&turn.payload).expect("a map with tags");
        let turn_type = TurnType::read(&turn.type_id, turn.version).expect("a type");
        let bundle: Value = serde_json::from_str(&bundle()).expect("it is JSON");
        let known = &bundle["types"][turn_type.id()]["versions"][turn_type.version.to_string()]["fields"];
        let name = |tag: u64| known[tag.to_string()]["name"].as_str().expect("a field").to_owned();
        Value::Object(fields.into_iter().map(|(tag, value)| (name(tag), value)).collect())
    }

    fn there_and_back(record: &StoredRecord) -> Vec<MirrorTurn> {
        let encoded = encode(record.clone(), &ContextId::main()).expect("it has events");
        let payloads = read(&encoded.turns);
        for (turn, payload) in encoded.turns.iter().zip(&payloads) {
            assert_eq!(EventPlace::read(&turn.payload), Some(payload.place));
        }
        let made = decode(&payloads.iter().collect::<Vec<_>>()).expect("a record");
        assert_eq!(made, *record);
        encoded.turns
    }

    #[test]
    fn a_turn_shows_what_was_said_beside_what_it_cost() {
        let long = "x".repeat(9000);
        let events = r#"[{"type":"dev.orchestra.AgentTurn","version":1,"at":"2026-11-15T01:02:03.456Z","data":{"turn":"main.1","messages":{"first":1,"last":2},"cost_usd":0.5}},{"type":"dev.orchestra.Checkpoint","version":1,"at":"2026-11-15T01:02:03.456Z","data":{"current_node":"a"}}]"#;
        let one = br#"{"role":"user","content":"hello"}"#;
        let two = br#"{"role":"tool","content":{"$out":"out/0002-1.txt"}}"#;
        let files: [(&str, &[u8]); 5] = [
            ("messages/0001.json", one),
            ("messages/0002.json", two),
            ("out/0002-1.txt", long.as_bytes()),
            ("messages/0003.json", br#"{"role":"user", "content":"not as it is written"}"#),
            ("state.json", b"{}"),
        ];
        let turns = there_and_back(&stored(events, &files));
        let mut first = shown(&turns[0]);
        let said = first["record_messages"].take();
        assert_eq!(said, json!([[1, {"role": "user", "content": "hello"}], [2, {"role": "tool", "content": long}]]));
        insta::assert_snapshot!(first, @r#"{"record":"0707070707070707070707070707070707070707","record_n":1,"record_of":2,"record_context":"main","recorded_at":"2026-11-15T01:02:03.456Z","turn":"main.1","messages":{"first":1,"last":2},"cost_usd":0.5,"record_messages":null,"record_commit":"tree 0\nauthor a\n\nsubject\n\nPleach-Record: 1\nPleach-Session: abcdefgh\nPleach-Context: main\n","record_files":{"messages/0003.json":"{\"role\":\"user\", \"content\":\"not as it is written\"}","state.json":"{}"}}"#);
        insta::assert_snapshot!(shown(&turns[1]), @r#"{"record":"0707070707070707070707070707070707070707","record_n":2,"record_of":2,"record_context":"main","recorded_at":"2026-11-15T01:02:03.456Z","current_node":"a"}"#);
    }

    #[test]
    fn what_the_types_do_not_have_goes_along() {
        for (events, is_kept) in [
            // A newer field at the end, a type nobody knows, and fields in another order.
            (
                r#"[{"type":"dev.orchestra.Landed","version":1,"at":"a","data":{"repo":"r","newer":[1.0,-0.5,18446744073709551615]}}]"#,
                false,
            ),
            (r#"[{"type":"dev.example.New","version":1,"at":"a","data":["any",{"thing":null}]}]"#, false),
            (r#"[{"type":"dev.orchestra.Landed","version":1,"at":"a","data":{"newer":1,"repo":"r"}}]"#, true),
            (r#"[{"version":1,"type":"dev.orchestra.Landed","at":"a","data":{}}]"#, true),
            (r#"[{"type":"dev.orchestra.Landed","version":2,"at":"a","data":{}}]"#, true),
            (r#"[ {"type":"dev.orchestra.Landed"} ]"#, true),
        ] {
            let turns = there_and_back(&stored(events, &[("raw", b"\xff\xfe")]));
            assert_eq!(shown(&turns[0])["record_files"].get(EVENTS).is_some(), is_kept, "{events}");
            assert_eq!(shown(&turns[0])["record_files"]["raw"], json!({"bytes": "//4="}));
        }
        for none in ["", "[]", "{}", "[1]"] {
            assert!(encode(stored(none, &[]), &ContextId::main()).is_err(), "{none}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec(("[a-z_$]{0,6}", inner), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_record_comes_back_byte_for_byte(
            events in proptest::collection::vec(
                ("(dev.orchestra.(AgentTurn|Landed|Checkpoint|StepFinished|Other)|[a-z.]{0,9})",
                 proptest::collection::vec(("(repo|turn|messages|log|commit|newer|type|data)", value()), 0..5)),
                1..5),
            messages in proptest::collection::vec(value(), 0..4),
            raw in proptest::collection::vec(any::<u8>(), 0..30),
        ) {
            let events = events.into_iter().map(|(kind, data)| {
                let data: Map<String, Value> = data.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
                json!({"type": kind, "version": 1, "at": "2026-11-15T01:02:03.456Z", "data": data})
            });
            let events = Value::from(events.collect::<Vec<_>>()).to_string();
            let mut record = stored(&events, &[("raw", &raw)]);
            record.put_messages(&(1..).zip(messages).collect());
            there_and_back(&record);
        }
    }
}
