//! Which headers and query fields hold secrets.

use crate::redact::is_secret_name;

/// Whether the value of a header or query field of this name is secret.
pub(super) fn holds_secret(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let words = ["code", "cookie", "key", "pass", "pw", "pwd", "sig", "signature", "subscription-key"];
    is_secret_name(name) || lower.contains("authorization") || words.contains(&lower.as_str())
}
