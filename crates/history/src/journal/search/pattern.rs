//! What is looked for: first in the bytes of a file, then in the texts they hold.

use std::ops::Range;

use regex::{Regex, RegexBuilder, bytes};
use serde_json::Value;

/// What is looked for.
#[derive(Debug, Clone)]
pub struct SearchPattern {
    text: Regex,
    /// What a message as JSON must hold; none where the JSON cannot tell.
    in_json: Option<bytes::Regex>,
}

/// A regular expression that is none.
#[derive(Debug, thiserror::Error)]
#[error("`{given}` is no regular expression")]
pub struct BadSearch {
    given: String,
    #[source]
    source: Box<regex::Error>,
}

impl SearchPattern {
    /// Looks for a text as it is written, or for a regular expression. Without capitals in it any case is meant.
    pub fn new(given: &str, is_regex: bool) -> Result<Self, BadSearch> {
        let any_case = !has_capitals(given, is_regex);
        let bad = |source: regex::Error| BadSearch { given: given.to_owned(), source: source.into() };
        let text = if is_regex { given.to_owned() } else { regex::escape(given) };
        let text = RegexBuilder::new(&text).case_insensitive(any_case).multi_line(true).build().map_err(bad)?;
        let in_json = if is_regex {
            None
        } else {
            let quoted = Value::String(given.to_owned()).to_string();
            let pattern = regex::escape(&quoted[1..quoted.len() - 1]);
            Some(bytes::RegexBuilder::new(&pattern).case_insensitive(any_case).build().map_err(bad)?)
        };
        Ok(Self { text, in_json })
    }

    /// What a message written as JSON has if its texts have what is looked for; none where only the texts can tell.
    pub(super) fn in_json(&self) -> Option<&bytes::Regex> {
        self.in_json.as_ref()
    }

    /// The first place in a text.
    pub(super) fn find(&self, text: &str) -> Option<Range<usize>> {
        self.text.find(text).map(|found| found.range())
    }
}

/// Whether a capital is looked for. `\W` and its like are none.
fn has_capitals(given: &str, is_regex: bool) -> bool {
    let mut is_escaped = false;
    given.chars().any(|c| {
        let counts = c.is_uppercase() && !is_escaped;
        is_escaped = is_regex && c == '\\' && !is_escaped;
        counts
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn capitals_decide_about_the_case() {
        let finds = |given, is_regex, text: &str| SearchPattern::new(given, is_regex).unwrap().find(text).is_some();
        assert!(finds("todo", false, "a TODO") && finds("TODO", false, "a TODO") && !finds("TODO", false, "a todo"));
        assert!(finds(r"\Wtodo$", true, "a TODO\nb") && !finds(r"\Wtodo", true, "a_todo"));
        assert!(finds("a.b", false, "a.b") && !finds("a.b", false, "axb") && finds("ÄRGER", false, "ÄRGER"));
        assert!(finds("ärger", false, "ÄRGER"));
        assert!(SearchPattern::new("(", true).is_err() && SearchPattern::new("(", false).is_ok());
    }

    proptest! {
        #[test]
        fn the_bytes_never_hide_a_text(text in "[a-cA-C\"\\\\\n\t äÄ\u{1}]{0,12}", at in 0usize..12, length in 1usize..5) {
            let part: String = text.chars().skip(at).take(length).collect();
            prop_assume!(!part.is_empty());
            let pattern = SearchPattern::new(&part, false).unwrap();
            prop_assert!(pattern.find(&text).is_some());
            let json = Value::String(text.clone()).to_string();
            prop_assert!(pattern.in_json().is_some_and(|pattern| pattern.is_match(json.as_bytes())));
        }
    }
}
