//! Estimates the tokens of a call by its length, where the provider does not count them.

use serde_json::Value;

use pleach_core::event::{Usage, Warning, WarningCode};

/// How many bytes count as a token.
const BYTES: u64 = 4;

/// How many tokens so many bytes are.
pub(crate) fn tokens(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES)
}

/// What a call took that was `sent` and `received` with so many bytes, and whether that had to be estimated. What the
/// provider counted stands; an answer that broke off was counted at its beginning at most.
pub(crate) fn by_length(reported: Usage, is_cut: bool, sent: u64, received: u64) -> (Usage, bool) {
    if !is_cut && reported.total() > 0 {
        return (reported, false);
    }
    let mut usage = reported;
    if reported.total() == reported.output {
        usage.input = tokens(sent);
    }
    usage.output = reported.output.max(tokens(received));
    (usage, usage != reported)
}

/// The warning that tokens were estimated.
pub(crate) fn warning(model: &str) -> Warning {
    WarningCode::UsageEstimated.with(format!(
        "the provider did not say how many tokens a call of `{model}` took; such calls count by their length"
    ))
}

/// How many bytes of words are in a body: what frames them costs nothing.
pub(crate) fn words(body: &Value) -> u64 {
    match body {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(words).sum(),
        Value::Object(fields) => fields.values().map(words).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_counted_without_what_frames_them() {
        assert_eq!(words(&json!({"content": [{"text": "four"}, {"text": "more"}], "index": 12, "stop": null})), 8);
    }
}
