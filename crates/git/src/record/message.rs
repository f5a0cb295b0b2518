//! Messages as files of a record. Long texts become blobs of their own, so that git stores equal ones once and
//! reading the events stays cheap.

use serde_json::{Map, Value};

use pleach_core::redact::JsonPart;

/// Texts longer than this are stored apart.
const LONG: usize = 8 * 1024;

/// The key that stands for a text stored apart; its value is the text's path in the record.
const APART: &str = "$out";

/// What of a message is text, and may hold a secret: all but who speaks, and of which kind each piece is.
pub(super) fn part(path: &str, _: &Value) -> JsonPart {
    match path {
        "" | "content" => JsonPart::Fields,
        "role" | "content.type" => JsonPart::Own,
        _ => JsonPart::Text,
    }
}

/// The path of a message in its record.
pub(super) fn path(number: u64) -> String {
    format!("messages/{number:04}.json")
}

/// Takes the long texts out of a message. Returns them with the paths they are stored under.
pub(super) fn split(number: u64, message: &mut Value) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    split_value(number, message, &mut texts);
    texts
}

fn split_value(number: u64, value: &mut Value, texts: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) if text.len() > LONG => {
            let path = format!("out/{number:04}-{}.txt", texts.len() + 1);
            texts.push((path.clone(), std::mem::take(text)));
            *value = Value::Object(Map::from_iter([(APART.to_owned(), Value::String(path))]));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| split_value(number, item, texts)),
        Value::Object(fields) => fields.values_mut().for_each(|field| split_value(number, field, texts)),
        _ => {}
    }
}

/// Puts the long texts back. `read` answers with the text at a path of the record, if there is one.
pub(super) fn join<E>(value: &mut Value, read: &mut dyn FnMut(&str) -> Result<Option<String>, E>) -> Result<(), E> {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(path)) = fields.get(APART)
                && fields.len() == 1
                && let Some(text) = read(path)?
            {
                *value = Value::String(text);
                return Ok(());
            }
            fields.values_mut().try_for_each(|field| join(field, read))
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| join(item, read)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use serde_json::json;

    use super::*;

    #[test]
    fn long_texts_come_back_to_their_place() {
        let long = "x".repeat(LONG + 1);
        let original = json!({"role": "tool", "content": [{"text": long, "n": 1}, {"text": "short"}], "raw": [long]});
        let mut stored = original.clone();
        let texts: BTreeMap<_, _> = split(7, &mut stored).into_iter().collect();
        assert_eq!(texts.keys().collect::<Vec<_>>(), ["out/0007-1.txt", "out/0007-2.txt"]);
        assert!(stored.to_string().len() < 300);
        join::<Infallible>(&mut stored, &mut |path| Ok(texts.get(path).cloned())).unwrap();
        assert_eq!(stored, original);
    }

    #[test]
    fn an_object_that_resembles_a_reference_is_kept() {
        let mut value = json!({"$out": "out/elsewhere"});
        join::<Infallible>(&mut value, &mut |_| Ok(None)).unwrap();
        assert_eq!(value, json!({"$out": "out/elsewhere"}));
    }
}
