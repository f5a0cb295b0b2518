//! A message in which something was found.

use std::ops::Range;

use agents::llm::{Message, Part, Role};
use jiff::Timestamp;
use pleach_core::event::to_the_millisecond;
use pleach_core::ids::{NodeId, TurnId};
use serde::Serialize;
use serde_json::Value;

/// So many characters are shown on each side of what was found.
const AROUND: usize = 60;

/// A message in which something was found, by the first place in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchHit {
    /// The run: `SESSION`, or `SESSION/r1` for a replay.
    pub run: String,
    /// The turn it was said in.
    pub turn: Option<TurnId>,
    /// The number of the message in its context.
    pub message: u64,
    /// Who said it.
    pub role: Role,
    /// What of the message it is.
    #[serde(skip)]
    pub part: SearchPart,
    /// The node.
    pub node: Option<NodeId>,
    /// When it was recorded.
    #[serde(serialize_with = "to_the_millisecond")]
    pub at: Timestamp,
    /// The line, as far as it is near what was found.
    pub excerpt: String,
    /// Where in it that is.
    #[serde(skip)]
    pub found: Range<usize>,
}

/// What of messages is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchPart {
    /// What the model is told.
    Prompt,
    /// What the model says, its thoughts included.
    Answer,
    /// The tools it calls, and what they are given.
    Tool,
    /// What tools and commands print.
    Output,
}

impl SearchPart {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Answer => "answer",
            Self::Tool => "tool",
            Self::Output => "output",
        }
    }
}

/// The texts of a message, each with what it is.
pub(super) fn texts(message: &Message) -> Vec<(SearchPart, &str)> {
    let own = match message.role {
        Role::System | Role::User => SearchPart::Prompt,
        Role::Assistant => SearchPart::Answer,
        Role::Tool => SearchPart::Output,
    };
    let mut texts = Vec::new();
    for part in &message.content {
        match part {
            Part::Text { text, .. } | Part::Thinking { text, .. } => texts.push((own, text.as_str())),
            Part::ToolCall { name, arguments, .. } => {
                texts.push((SearchPart::Tool, name));
                strings(arguments, &mut |text| texts.push((SearchPart::Tool, text)));
            }
            Part::ToolResult { content, .. } => texts.push((SearchPart::Output, content)),
            Part::Unknown(value) => strings(value, &mut |text| texts.push((own, text))),
        }
    }
    texts
}

fn strings<'v>(value: &'v Value, take: &mut impl FnMut(&'v str)) {
    match value {
        Value::String(text) => take(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, take)),
        Value::Object(fields) => fields.values().for_each(|field| strings(field, take)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The line around a place in a text, and where that is in it.
pub(super) fn excerpt(text: &str, found: Range<usize>) -> (String, Range<usize>) {
    let line_start = text[..found.start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[found.start..].find('\n').map_or(text.len(), |at| found.start + at);
    let found = found.start..found.end.min(line_end);
    let before = text[line_start..found.start].char_indices().rev().nth(AROUND - 1);
    let start = before.map_or(line_start, |(at, _)| line_start + at);
    let after = text[found.end..line_end].char_indices().nth(AROUND);
    let end = after.map_or(line_end, |(at, _)| found.end + at);
    let mark = |is_cut: bool| if is_cut { "…" } else { "" };
    let lead = text[start..found.start].trim_start();
    let head = format!("{}{lead}", mark(start > line_start));
    let place = head.len()..head.len() + found.len();
    let tail = text[found.end..end].trim_end();
    (format!("{head}{}{tail}{}", &text[found], mark(end < line_end)), place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_the_line_around_what_was_found() {
        let text = format!("first\n  {}needle{}\nlast", "ä".repeat(80), "ö".repeat(80));
        let at = text.find("needle").unwrap();
        let (shown, found) = excerpt(&text, at..at + 6);
        assert_eq!(shown, format!("…{}needle{}…", "ä".repeat(60), "ö".repeat(60)));
        assert_eq!(&shown[found], "needle");
        assert_eq!(excerpt("  a needle\nb", 4..12), ("a needle".to_owned(), 2..8));
        assert_eq!(excerpt("", 0..0), (String::new(), 0..0));
    }
}
