//! Whether the words around an approval contradict it. An objection costs one more question, an approval that was none
//! costs the target.

use super::hedging::{CROSSES, is_crossed_out, is_revoked};
use super::line::{FoundVerdict, Verdict, verdicts_in_line};
use super::words::{ends_sentence, is_one_of, past_label, past_marks, plain_word};

/// Words that make what a sentence says next about an approval none, or one that is not there yet.
pub(super) const DOUBTS: &str = "\
    not no never cannot none nothing nobody neither nor without hardly unable far refuse refused decline \
    declined deny denied withhold against dont cant wont isnt if once until unless before would could \
    should might only when";

/// Whether the lines of a paragraph hold a verdict word that is negated or the opposite of an approval, or a cross
/// after one.
pub(super) fn has_objection(lines: &[&str]) -> bool {
    let mut is_doubtful = false;
    let mut is_behind = false;
    for (at, line) in lines.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |at| lines[at]);
        let is_item = line.starts_with(['-', '+', '#', '\u{2022}', '|']) || line.starts_with("* ");
        is_doubtful &= !is_item && !ends_sentence(before);
        let [begins, ends] = verdicts_in_line(line, before, at + 1 == lines.len());
        let own = begins.or(ends);
        if own.is_some_and(|given| given.verdict == Verdict::Rejected) {
            return true;
        }
        let (first, rest) = own.map_or((*line, ""), |FoundVerdict { before, rest, .. }| (before, rest));
        let marks = past_marks(line).0;
        is_doubtful |= own.is_none() && (is_crossed_out(marks) || marks.contains(['~', '!']));
        let is_against = is_against(first, &mut is_doubtful) || {
            // A verdict is a sentence of its own.
            is_doubtful &= own.is_none();
            is_against(rest, &mut is_doubtful)
        };
        let is_crossed = rest.contains(CROSSES) || is_behind && line.contains(CROSSES);
        if is_against || is_crossed || is_bare_rejection(line) {
            return true;
        }
        is_behind |= own.is_some();
    }
    false
}

/// Whether a line starts, behind a label, as `Verdict: reject` does.
pub(super) fn is_bare_rejection(line: &str) -> bool {
    let text = past_marks(line).1;
    let text = past_label(text).map_or(text, |behind| past_marks(behind).1);
    let word = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    ["reject", "rejection"].iter().any(|reject| word.eq_ignore_ascii_case(reject))
}

/// Whether a text contradicts an approval. `is_doubtful` is whether its sentence has negated something so far.
pub(super) fn is_against(text: &str, is_doubtful: &mut bool) -> bool {
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (written, behind) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
        *is_doubtful |= written.contains(CROSSES);
        // An apostrophe is part of its word.
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '\u{2019}');
        for word in written.split(|c: char| !is_part(c)) {
            let word = plain_word(word).to_lowercase();
            let is_mention = word.contains("approv");
            let is_negated = || !word.starts_with("approv") || is_crossed_out(written) || is_revoked(behind);
            if word == "rejected" || is_mention && (*is_doubtful || is_negated()) {
                return true;
            }
            *is_doubtful |= is_one_of(&word, DOUBTS) || word.ends_with("n't") || word.ends_with("n\u{2019}t");
        }
        *is_doubtful &= !ends_sentence(written);
        rest = behind.trim_start();
    }
    false
}
