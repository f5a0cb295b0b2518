//! Words, sentences and marks of a review, before anybody asks what they mean.

/// The last words of labels a verdict may be behind, and those that may come before them.
const LABELS: &str = "verdict result decision review status conclusion outcome recommendation";
const BEFORE_LABELS: &str = "final my the overall code review reviewer's";

/// The marks a text starts with, and what is after them.
pub(super) fn past_marks(text: &str) -> (&str, &str) {
    text.split_at(text.find(char::is_alphanumeric).unwrap_or(text.len()))
}

/// The label a text starts with, and what is behind it.
pub(super) fn past_label(text: &str) -> Option<(&str, &str)> {
    let is = text.find(" is ").map(|at| at + 1);
    let ends = [text.find([':', '\u{2014}', '\u{2013}', '=', '|']), text.find(" - "), is];
    let (label, behind) = text.split_at(ends.into_iter().flatten().min()?);
    is_label(label).then(|| (label, behind.strip_prefix("is ").unwrap_or(behind)))
}

/// Whether words, alone in their line or before a colon, only say that a verdict follows.
pub(super) fn is_label(text: &str) -> bool {
    let words: Vec<String> = words(text).take(4).collect();
    let Some((last, before)) = words.split_last() else { return false };
    is_one_of(last, LABELS) && before.len() <= 2 && before.iter().all(|word| is_one_of(word, BEFORE_LABELS))
}

/// The sentences of a line and where they start. A semicolon ends one as well, and so does what sets the capital word off
/// that a line ends with: `Looks good to me, APPROVED`.
pub(super) fn sentences(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let mut end = start;
        for word in line[start..].split_inclusive(char::is_whitespace) {
            end += word.len();
            let word = word.trim_end();
            if ends_sentence(word) || word.ends_with(';') || sets_off(word) && is_bare_verdict(&line[end..]) {
                break;
            }
        }
        let sentence = (start, &line[start..end]);
        start = end;
        (!sentence.1.is_empty()).then_some(sentence)
    })
}

/// Whether a text ends in a mark that sets off what is behind it.
pub(super) fn sets_off(text: &str) -> bool {
    text.trim_end().ends_with([',', '-', '\u{2014}', '\u{2013}'])
}

fn is_bare_verdict(text: &str) -> bool {
    text.len() < 20 && ["APPROVED", "REJECTED"].contains(&text.trim_matches(|c: char| " *_.!".contains(c)))
}

/// Whether a text ends where a sentence does, and not in an abbreviation such as `e.g.`.
pub(super) fn ends_sentence(text: &str) -> bool {
    let text = text.trim_end_matches(|c: char| matches!(c, '*' | '_' | ')') || is_quote(c));
    let Some(sentence) = text.strip_suffix(['.', '!', '?', '\u{3002}']) else { return false };
    let word = sentence.rsplit(char::is_whitespace).next().unwrap_or(sentence);
    let initials = word.split('.').all(|part| part.chars().filter(|c| c.is_alphanumeric()).count() == 1);
    !(text.ends_with('.') && word.contains('.') && initials)
}

/// Whether the line below may go on with the sentence of this one.
pub(super) fn goes_on(line: &str) -> bool {
    let is_item = ["#", "|", "\u{2022}", "- ", "* "].iter().any(|mark| line.starts_with(mark)) && !line.ends_with(':');
    let is_open = line.ends_with("...") || line.ends_with('\u{2026}') || !ends_sentence(line);
    is_open && !line.is_empty() && !is_item && !is_label(line)
}

pub(super) fn is_quote(c: char) -> bool {
    matches!(c, '\'' | '\u{2018}' | '\u{2019}') || is_quotation(c)
}

/// Whether a mark begins or ends a quotation, and is no apostrophe.
pub(super) fn is_quotation(c: char) -> bool {
    matches!(c, '"' | '`' | '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{ab}' | '\u{bb}')
}

/// The words of a text, in lower case. An apostrophe is part of its word.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '\u{2019}')));
    let words = words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    words.filter(|word| !word.is_empty()).map(|word| word.to_lowercase().replace('\u{2019}', "'"))
}

/// Whether a word is one of a list.
pub(super) fn is_one_of(word: &str, words: &str) -> bool {
    words.split(' ').any(|one| one == word)
}
