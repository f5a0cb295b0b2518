//! An event as records hold it: its type, its version, its time and its data.

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Event, EventError, VERSION};

/// An event and when it happened, as records hold it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// When it happened, to the millisecond.
    pub at: Timestamp,
    /// What happened.
    pub event: Event,
}

#[derive(Deserialize)]
struct Envelope<D> {
    #[serde(rename = "type")]
    kind: String,
    version: u32,
    at: Timestamp,
    data: D,
}

/// Writes a time with its three digits of milliseconds, zeros included; with more where it has more.
pub fn to_the_millisecond<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    let whole = at.subsec_nanosecond() % 1_000_000 == 0;
    if whole { serializer.collect_str(&format_args!("{at:.3}")) } else { at.serialize(serializer) }
}

impl Serialize for Recorded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct EnvelopeRef<'a> {
            #[serde(rename = "type")]
            kind: &'a str,
            version: u32,
            #[serde(serialize_with = "to_the_millisecond")]
            at: Timestamp,
            data: &'a Event,
        }
        EnvelopeRef { kind: self.event.kind(), version: VERSION, at: self.at, data: &self.event }.serialize(serializer)
    }
}

impl Recorded {
    /// The JSON object records hold.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("events are structs with text keys, which always serialise")
    }

    /// What [`Recorded::to_json`] gives, as text.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("events are structs with text keys, which always serialise")
    }

    /// Reads what [`Recorded::to_json`] wrote.
    pub fn from_json(json: Value) -> Result<Self, EventError> {
        Self::opened(serde_json::from_value::<Envelope<Value>>(json))
    }

    /// Reads an event's text, which is faster where there is much of it: nothing is made of it but the event.
    pub fn from_text(text: &str) -> Result<Self, EventError> {
        Self::opened(serde_json::from_str::<Envelope<&RawValue>>(text))
    }

    fn opened<'de, D>(envelope: Result<Envelope<D>, serde_json::Error>) -> Result<Self, EventError>
    where
        D: Deserializer<'de, Error = serde_json::Error>,
    {
        let envelope = envelope.map_err(|source| EventError::Malformed { kind: "?".into(), source })?;
        if envelope.version > VERSION {
            return Err(EventError::Newer { kind: envelope.kind, version: envelope.version });
        }
        Ok(Self { at: envelope.at, event: Event::from_data(envelope.kind, envelope.data)? })
    }
}
