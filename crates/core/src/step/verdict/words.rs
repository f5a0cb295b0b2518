//! Words, sentences and marks of a review, before anybody asks what they mean.

/// The last words of labels a verdict may be behind, and those that may come before them.
pub(super) const LABELS: [&str; 8] =
    ["verdict", "result", "decision", "review", "status", "conclusion", "outcome", "recommendation"];

pub(super) const BEFORE_LABELS: [&str; 6] = ["final", "my", "the", "overall", "review", "reviewer's"];

/// The marks a text starts with, and what is after them.
pub(super) fn past_marks(text: &str) -> (&str, &str) {
    let at = text.find(char::is_alphanumeric).unwrap_or(text.len());
    text.split_at(at)
}

/// What is behind the label a text starts with.
pub(super) fn past_label(text: &str) -> Option<&str> {
    let ends = [text.find([':', '\u{2014}', '\u{2013}', '=']), text.find(" - ")];
    let at = ends.into_iter().flatten().min()?;
    is_verdict_label(text.get(..at)?).then(|| &text[at..])
}

/// Whether words, alone in their line or before a colon, only say that a verdict follows.
pub(super) fn is_verdict_label(text: &str) -> bool {
    let words: Vec<String> = text.split_whitespace().map(|word| plain_word(word).to_lowercase()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
    let Some((last, before)) = words.split_last() else { return false };
    LABELS.contains(last) && before.len() <= 2 && before.iter().all(|word| BEFORE_LABELS.contains(word))
}

/// A text without the marks around it that say nothing.
pub(super) fn bare(text: &str) -> &str {
    let ends = |c: char| c.is_whitespace() || matches!(c, '*' | '_' | '.' | '!') || is_quote(c);
    let starts = |c: char| c.is_whitespace() || matches!(c, '*' | '_' | '.') || is_quote(c);
    text.trim_end_matches(ends).trim_start_matches(starts)
}

pub(super) fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`' | '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{ab}' | '\u{bb}')
}

/// Splits a line before its last sentence, which comes without the marks around it.
pub(super) fn last_sentence(line: &str) -> (&str, &str) {
    let breaks = line.char_indices().rev().filter(|(_, c)| c.is_whitespace());
    for (at, _) in breaks {
        if ends_sentence(&line[..at]) {
            return (&line[..at], bare(&line[at..]));
        }
    }
    ("", line)
}

/// Whether a text ends where a sentence does, and not in an abbreviation such as `e.g.`.
pub(super) fn ends_sentence(text: &str) -> bool {
    let text = text.trim_end_matches(|c: char| c == '*' || c == ')' || is_quote(c));
    let Some(sentence) = text.strip_suffix(['.', '!', '?', '\u{3002}']) else { return false };
    let word = sentence.rsplit(char::is_whitespace).next().unwrap_or(sentence);
    let initials = word.split('.').all(|part| part.chars().count() == 1);
    !(text.ends_with('.') && word.contains('.') && initials)
}

/// Whether what follows is inside a quotation this text started. `closes` is the mark the line ends with.
pub(super) fn opens_quotation(text: &str, closes: Option<char>) -> bool {
    let mut closing: &[char] = &[];
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        // An apostrophe is between letters, or after one.
        let is_apostrophe = matches!(c, '\'' | '\u{2019}') && next.is_alphanumeric();
        if closing.contains(&c) && !is_apostrophe {
            closing = &[];
        } else if closing.is_empty() {
            closing = match c {
                '"' => &['"'],
                '`' => &['`'],
                // It also is before a lifetime, or a year.
                '\'' if next.is_alphabetic() && before.is_whitespace() => &['\''],
                '\u{2018}' | '\u{201a}' => &['\u{2019}', '\u{2018}'],
                '\u{201c}' => &['\u{201d}'],
                '\u{201e}' => &['\u{201c}', '\u{201d}'],
                '\u{ab}' => &['\u{bb}'],
                '\u{bb}' => &['\u{ab}'],
                _ => &[],
            };
        }
        before = c;
    }
    match closing {
        ['\''] => closes == Some('\''),
        closing => !closing.is_empty(),
    }
}

/// Whether a word is one of a list.
pub(super) fn is_one_of(word: &str, words: &str) -> bool {
    words.split(' ').any(|one| one == word)
}

/// Whether a text starts with one of these words, as a whole word.
pub(super) fn begins_with_one(text: &str, words: &[&str]) -> bool {
    let text = text.trim_start();
    let is_word = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    words.iter().any(|word| text.strip_prefix(word).is_some_and(is_word))
}

/// A word without what surrounds it.
pub(super) fn plain_word(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}
