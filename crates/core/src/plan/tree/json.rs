//! JSON as it was written: the order of keys kept, and keys that are there twice seen.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::TreeError;

/// A JSON value whose objects may hold a key twice.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::plan) enum Json {
    Scalar(Value),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Its kind, for a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Scalar(Value::Null) => "null",
            Self::Scalar(Value::Bool(_)) => "a boolean",
            Self::Scalar(Value::Number(_)) => "a number",
            Self::Scalar(_) => "a string",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Self::Scalar(Value::Null))
    }

    /// As an ordinary value; duplicate keys are reported.
    fn into_value(self, path: &str, errors: &mut Vec<TreeError>) -> Value {
        match self {
            Self::Scalar(value) => value,
            Self::List(items) => {
                let items = items.into_iter().enumerate();
                Value::Array(items.map(|(at, item)| item.into_value(&format!("{path}[{at}]"), errors)).collect())
            }
            Self::Object(entries) => Value::Object(ObjectFields::new(path.to_owned(), entries, errors).rest()),
        }
    }
}

/// An id in a list, and its index there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::plan) struct ListItem {
    pub at: usize,
    pub id: String,
}

/// The path of a key in the object at `path`. Keys that would make the path unclear are quoted.
pub(in crate::plan) fn member(path: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    match (plain, path.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{path}.{key}"),
        (false, _) => format!("{path}[{}]", Value::from(key)),
    }
}

/// The fields of one object, taken out one by one. What has the wrong type is reported and counts as missing; `null` is
/// the same as leaving a field out.
pub(in crate::plan) struct ObjectFields<'e> {
    pub path: String,
    entries: Vec<(String, Json)>,
    errors: &'e mut Vec<TreeError>,
}

impl<'e> ObjectFields<'e> {
    pub fn new(path: String, entries: Vec<(String, Json)>, errors: &'e mut Vec<TreeError>) -> Self {
        let first = first_of_their_name(&entries);
        let mut kept = Vec::with_capacity(entries.len());
        for ((key, value), is_first) in entries.into_iter().zip(first) {
            if is_first {
                kept.push((key, value));
            } else {
                let message = format!("`{key}` is given twice; keep one");
                errors.push(TreeError { path: member(&path, &key), message });
            }
        }
        Self { path, entries: kept, errors }
    }

    pub fn error(&mut self, key: &str, message: impl Into<String>) {
        self.errors.push(TreeError { path: member(&self.path, key), message: message.into() });
    }

    /// As [`ObjectFields::error`], about an item of a list.
    pub fn error_at(&mut self, key: &str, at: usize, message: String) {
        self.errors.push(TreeError { path: format!("{}[{at}]", member(&self.path, key)), message });
    }

    fn wrong(&mut self, key: &str, expected: &str, found: &Json) {
        self.error(key, format!("must be {expected}, not {}", found.kind()));
    }

    /// The field as it is, `null` included.
    pub fn take(&mut self, key: &str) -> Option<Json> {
        let at = self.entries.iter().position(|(name, _)| name == key)?;
        Some(self.entries.remove(at).1)
    }

    fn take_some(&mut self, key: &str) -> Option<Json> {
        self.take(key).filter(|value| !value.is_null())
    }

    pub fn text(&mut self, key: &str) -> Option<String> {
        match self.take_some(key)? {
            Json::Scalar(Value::String(text)) => Some(text),
            other => {
                self.wrong(key, "a string", &other);
                None
            }
        }
    }

    /// A text that must be there.
    pub fn needed_text(&mut self, key: &str) -> Option<String> {
        let missing = !self.entries.iter().any(|(name, value)| name == key && !value.is_null());
        if missing {
            self.take(key);
            self.error(key, "is missing");
        }
        self.text(key)
    }

    pub fn whole_number(&mut self, key: &str) -> Option<u64> {
        let value = self.take_some(key)?;
        match &value {
            Json::Scalar(number) if number.as_u64().is_some() => number.as_u64(),
            Json::Scalar(Value::Number(number)) => {
                self.error(key, format!("must be a whole number from 0, not {number}"));
                None
            }
            other => {
                self.wrong(key, "a whole number from 0", other);
                None
            }
        }
    }

    pub fn number(&mut self, key: &str) -> Option<f64> {
        let value = self.take_some(key)?;
        match &value {
            Json::Scalar(Value::Number(number)) => number.as_f64(),
            other => {
                self.wrong(key, "a number", other);
                None
            }
        }
    }

    pub fn list(&mut self, key: &str) -> Option<Vec<Json>> {
        match self.take_some(key)? {
            Json::List(items) => Some(items),
            other => {
                self.wrong(key, "a list", &other);
                None
            }
        }
    }

    /// A list of strings; other types are reported and left out.
    pub fn texts(&mut self, key: &str) -> Option<Vec<ListItem>> {
        let mut texts = Vec::new();
        for (at, item) in self.list(key)?.into_iter().enumerate() {
            match item {
                Json::Scalar(Value::String(text)) => texts.push(ListItem { at, id: text }),
                other => self.error_at(key, at, format!("must be a string, not {}", other.kind())),
            }
        }
        Some(texts)
    }

    pub fn object(&mut self, key: &str) -> Option<Vec<(String, Json)>> {
        match self.take_some(key)? {
            Json::Object(entries) => Some(entries),
            other => {
                self.wrong(key, "an object", &other);
                None
            }
        }
    }

    /// The fields of the object that is at `place` in this one.
    pub fn inner(&mut self, place: &str, value: Json) -> Option<ObjectFields<'_>> {
        let path = format!("{}.{place}", self.path);
        match value {
            Json::Object(entries) => Some(ObjectFields::new(path, entries, self.errors)),
            other => {
                self.errors.push(TreeError { path, message: format!("must be an object, not {}", other.kind()) });
                None
            }
        }
    }

    /// The remaining entries, as written.
    pub fn into_entries(self) -> Vec<(String, Json)> {
        self.entries
    }

    /// The remaining fields.
    pub fn rest(self) -> Map<String, Value> {
        let Self { path, entries, errors } = self;
        let values = entries.into_iter().map(|(key, value)| {
            let value = value.into_value(&member(&path, &key), errors);
            (key, value)
        });
        values.collect()
    }
}

/// Which entries have a key that none before them has.
fn first_of_their_name(entries: &[(String, Json)]) -> Vec<bool> {
    let mut seen = BTreeSet::new();
    entries.iter().map(|(key, _)| seen.insert(key.as_str())).collect()
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Json, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Json::Object(map))
    }
}
