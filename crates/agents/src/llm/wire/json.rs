//! Reading and writing the JSON of providers. What a format alone knows is kept under its name.

use serde_json::{Map, Value, json};

use crate::llm::Part;
use pleach_core::event::Extra;

/// A JSON object.
pub(super) type JsonObject = Map<String, Value>;

/// Text of a server that cannot be taken for a request or an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It does not have the shape of its format.
    #[error("{0}")]
    Shape(String),
    /// The stream ended before the answer did.
    #[error("the stream ended in the middle of the answer")]
    Cut,
    /// The server reported an error in the stream.
    #[error("{message}")]
    Reported {
        /// The server's word for it.
        kind: String,
        /// What happened.
        message: String,
    },
}

pub(super) fn shape(text: impl Into<String>) -> WireError {
    WireError::Shape(text.into())
}

/// An object, or what stands in its place named in an error.
pub(super) fn object(value: Value, what: &str) -> Result<JsonObject, WireError> {
    match value {
        Value::Object(object) => Ok(object),
        other => Err(shape(format!("{what} is not an object but {}", kind_of(&other)))),
    }
}

pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Takes a text out of an object; none when there is none, or something else in its place.
pub(super) fn take_text(object: &mut JsonObject, key: &str) -> Option<String> {
    match object.get(key) {
        Some(Value::String(_)) => match object.shift_remove(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Takes a text that must be there out of an object.
pub(super) fn need_text(object: &mut JsonObject, key: &str, what: &str) -> Result<String, WireError> {
    take_text(object, key).ok_or_else(|| shape(format!("{what} has no `{key}`")))
}

/// Takes a list out of an object; nothing in its place is an empty one.
pub(super) fn take_list(object: &mut JsonObject, key: &str) -> Result<Vec<Value>, WireError> {
    match object.shift_remove(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => Ok(list),
        Some(other) => Err(shape(format!("`{key}` is not a list but {}", kind_of(&other)))),
    }
}

/// A number of tokens somewhere in an object.
pub(super) fn count(value: &Value, path: &[&str]) -> u64 {
    path.iter().try_fold(value, |value, key| value.get(key)).and_then(Value::as_u64).unwrap_or_default()
}

/// Keeps what a format alone knows, if there is anything.
pub(super) fn keep(extra: &mut Extra, format: &str, rest: JsonObject) {
    if !rest.is_empty() {
        extra.insert(format.to_owned(), Value::Object(rest));
    }
}

/// What a format alone knows.
pub(super) fn kept<'a>(extra: &'a Extra, format: &str) -> Option<&'a JsonObject> {
    extra.get(format).and_then(Value::as_object)
}

/// Adds what one side says; what it says in several messages becomes one, with its parts under `key`. What the format
/// alone knows of the message stays with it.
pub(super) fn say(said: &mut Vec<JsonObject>, role: &str, key: &str, parts: Vec<Value>, known: Option<&JsonObject>) {
    if parts.is_empty() {
        return;
    }
    let known = known.cloned().unwrap_or_default();
    match said.last_mut().filter(|last| last["role"] == role) {
        Some(last) => {
            if let Some(Value::Array(before)) = last.get_mut(key) {
                before.extend(parts);
            }
            last.extend(known);
        }
        None => {
            let mut fields = JsonObject::from_iter([("role".into(), role.into()), (key.into(), parts.into())]);
            fields.extend(known);
            said.push(fields);
        }
    }
}

/// These fields and those the format alone knows; the former win.
pub(super) fn with_kept(fields: Value, extra: &Extra, format: &str) -> Value {
    let mut all = match fields {
        Value::Object(fields) => fields,
        other => return other,
    };
    for (key, value) in kept(extra, format).into_iter().flatten() {
        if !all.contains_key(key) {
            all.insert(key.clone(), value.clone());
        }
    }
    Value::Object(all)
}

/// Content pleach does not know, as a part of a message.
pub(super) fn native(format: &str, value: Value) -> Part {
    Part::Unknown(json!({"type": "native", "format": format, "value": value}))
}

/// The content behind [`native`], if it is of this format.
pub(super) fn native_of<'a>(part: &'a Value, format: &str) -> Option<&'a Value> {
    let ours = part.get("type")? == "native" && part.get("format")? == format;
    part.get("value").filter(|_| ours)
}

/// A part's words as blocks of `text`, or the text itself.
pub(super) fn words_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Arguments that were sent as text. Text that is not JSON stays text, which the tool refuses.
pub(super) fn parse_arguments(raw: &str) -> Value {
    if raw.trim().is_empty() {
        return json!({});
    }
    serde_json::from_str(raw).unwrap_or_else(|_| raw.into())
}

/// Reads arguments sent as text, and keeps the text in `rest` where it would be written differently.
pub(super) fn read_arguments(raw: &str, rest: &mut JsonObject) -> Value {
    let value = parse_arguments(raw);
    let written = value.to_string();
    if written != raw {
        rest.insert("arguments".into(), raw.into());
    }
    value
}

/// The text of arguments: the one that came, as long as it says the same.
pub(super) fn write_arguments(value: &Value, known: Option<&JsonObject>) -> String {
    let raw = known.and_then(|known| known.get("arguments")?.as_str());
    raw.filter(|raw| parse_arguments(raw) == *value).map_or_else(|| value.to_string(), str::to_owned)
}

/// Where servers have their word for an error.
pub(super) const ERROR_WORDS: [&str; 3] = ["code", "status", "type"];

/// The error in a body, if it is one: the server's word for it, under the first of these keys, and what happened.
pub(super) fn reported_error(body: &Value, words: [&str; 3]) -> Option<(String, String)> {
    let error = body.get("error").filter(|error| !error.is_null())?;
    let text = |key: &str| error.get(key).and_then(Value::as_str);
    let kind = words.into_iter().find_map(text).unwrap_or("error");
    let message = text("message").or(error.as_str()).unwrap_or(kind);
    Some((kind.to_owned(), message.to_owned()))
}
