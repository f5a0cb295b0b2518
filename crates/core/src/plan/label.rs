//! Labels of edges: how they are compared, and the keys people type at a gate.

use super::pipeline::Edge;

/// A label as it is compared: lower case, trimmed, without the accelerators `[Y] `, `Y) ` and `Y - `.
pub fn normalise_label(label: &str) -> String {
    let label = label.trim();
    let rest = accelerator(label).map_or(label, |(_, rest)| rest);
    rest.trim().to_lowercase()
}

/// Splits `[Y] Yes`, `Y) Yes` and `Y - Yes` into accelerator and text.
pub fn accelerator(label: &str) -> Option<(&str, &str)> {
    if let Some((key, rest)) = label.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (!key.trim().is_empty() && rest.starts_with(' ')).then(|| (key.trim(), rest.trim_start()));
    }
    let mut chars = label.char_indices();
    let (_, first) = chars.next()?;
    let (after, _) = chars.next()?;
    let rest = &label[after..];
    let rest = rest.strip_prefix(") ").or_else(|| rest.strip_prefix(" - "))?;
    first.is_alphanumeric().then(|| (&label[..after], rest.trim_start()))
}

/// What an edge is at a gate: the key people type, and the text they see. Without an accelerator the key is the first
/// character, without a label the text is the target.
pub fn choice(edge: &Edge) -> (String, String) {
    let label = if edge.label.is_empty() { edge.to.as_str() } else { &edge.label };
    match accelerator(label) {
        Some((key, label)) => (key.to_uppercase(), label.to_owned()),
        None => (label.chars().take(1).flat_map(char::to_uppercase).collect(), label.to_owned()),
    }
}
