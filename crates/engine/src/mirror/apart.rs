//! Texts that are too large for a frame: they are kept as content of its own, in pieces.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::frame::Hash;

/// What fits into a frame, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameLimits {
    /// The largest payload that is written as one.
    largest: usize,
    /// Texts longer than this are taken out of larger ones.
    long: usize,
    /// The longest piece of a text.
    piece: usize,
}

/// Shorter texts are never taken out: their names are about as long.
const SHORT: usize = 100;

const MIB: usize = 1024 * 1024;

/// A server takes frames of 64 MiB.
pub(super) const LIMITS: FrameLimits = FrameLimits { largest: 48 * MIB, long: MIB, piece: 32 * MIB };

/// The key that stands for a text; its value names the pieces.
const PIECES: &str = "$pieces";

fn is_too_large(fields: &[(u64, Value)], limits: FrameLimits) -> bool {
    fields.iter().map(|(_, value)| size(value)).sum::<usize>() > limits.largest
}

fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 5,
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 5,
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + 5 + size(value)).sum::<usize>() + 5,
        Value::Null | Value::Bool(_) | Value::Number(_) => 9,
    }
}

/// Takes the long texts out of fields that would not fit into a frame, until they do; shorter ones where that is needed. False
/// if they fit.
pub(super) fn take(fields: &mut [(u64, Value)], limits: FrameLimits, blobs: &mut Vec<Vec<u8>>) -> bool {
    let mut long = limits.long;
    while is_too_large(fields, limits) && long >= SHORT {
        take_longer_than(long, fields, limits, blobs);
        long /= 4;
    }
    long != limits.long
}

fn take_longer_than(long: usize, fields: &mut [(u64, Value)], limits: FrameLimits, blobs: &mut Vec<Vec<u8>>) {
    each(fields, &mut |value| {
        let Value::String(text) = value else { return };
        if text.len() > long {
            let pieces = text.as_bytes().chunks(limits.piece).map(|piece| {
                blobs.push(piece.to_vec());
                Value::from(blake3::hash(piece).to_hex().as_str())
            });
            *value = json!({PIECES: pieces.collect::<Vec<_>>()});
        }
    });
}

/// What was taken out of fields.
pub(super) fn names(fields: &[(u64, Value)]) -> Vec<Hash> {
    let mut names = Vec::new();
    each(&mut fields.to_vec(), &mut |value| names.extend(pieces(value).into_iter().flatten()));
    names
}

/// Puts it back.
pub(super) fn put_back(fields: &mut [(u64, Value)], blobs: &BTreeMap<Hash, Vec<u8>>) {
    each(fields, &mut |value| {
        let found =
            pieces(value).and_then(|pieces| pieces.iter().map(|name| blobs.get(name)).collect::<Option<Vec<_>>>());
        let text = found.and_then(|pieces| String::from_utf8(pieces.into_iter().flatten().copied().collect()).ok());
        if let Some(text) = text {
            *value = text.into();
        }
    });
}

fn pieces(value: &Value) -> Option<Vec<Hash>> {
    let named = value.as_object().filter(|fields| fields.len() == 1)?.get(PIECES)?.as_array()?;
    named.iter().map(|name| Some(blake3::Hash::from_hex(name.as_str()?).ok()?.into())).collect()
}

fn each(fields: &mut [(u64, Value)], visit: &mut dyn FnMut(&mut Value)) {
    fields.iter_mut().for_each(|(_, value)| each_value(value, visit));
}

fn each_value(value: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    visit(value);
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each_value(item, visit)),
        Value::Object(fields) => fields.values_mut().for_each(|field| each_value(field, visit)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_come_back_from_their_pieces() {
        let limits = FrameLimits { largest: 480, long: 100, piece: 320 };
        let long = "ä".repeat(167);
        let fields = vec![(70, json!({"a": long, "b": ["short", long]})), (80, json!("short"))];
        assert!(is_too_large(&fields, limits));
        let (mut taken, mut blobs) = (fields.clone(), Vec::new());
        assert!(take(&mut taken, limits, &mut blobs));
        assert!(!is_too_large(&taken, limits) && blobs.len() == 4);
        let kept: BTreeMap<Hash, Vec<u8>> = blobs.into_iter().map(|blob| (blake3::hash(&blob).into(), blob)).collect();
        assert_eq!(names(&taken).len(), 4);
        put_back(&mut taken, &kept);
        assert_eq!(taken, fields);
    }
}
