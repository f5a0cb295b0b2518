//! What makes an approval none: reasons that take it back, and anything else its paragraph says about a verdict. A doubt
//! costs one more question, an approval that was none costs the target.

use super::{FoundVerdict, Verdict, ends_sentence, given, past_label, past_marks};

/// Marks that say no.
pub(super) const CROSSES: [char; 10] = ['☐', '❌', '❎', '✗', '✘', '✖', '🚫', '⛔', '👎', '🔴'];

/// What an approval that depends on something begins its reasons with, and one of a part only.
const CONDITIONS: [&str; 19] = [
    "if",
    "once",
    "when",
    "after",
    "provided",
    "unless",
    "assuming",
    "subject",
    "pending",
    "only",
    "until",
    "as soon",
    "as long",
    "conditional",
    "conditionally",
    "except",
    "apart",
    "partly",
    "partially",
];

/// What says anywhere in the reasons that the approval depends on something, or is none.
const TAKES_BACK: [&str; 9] = [
    "condition that",
    "condition of",
    "on condition",
    "provided that",
    "as long as",
    "only if",
    "subject to",
    "not merge",
    "n't merge",
];

/// Reasons that begin with one of these are an answer: no.
const DENIALS: [&str; 17] = [
    "not",
    "never",
    "false",
    "cannot",
    "nope",
    "0",
    "n",
    "nobody",
    "neither",
    "nowhere",
    "hardly",
    "by no means",
    "null",
    "undefined",
    "unknown",
    "tbd",
    "maybe",
];

/// Answers that are also the beginning of praise, such as `no mistakes`.
const NOTHINGS: &str = "no none nothing zero";

/// What a reviewer is glad to have found none of, and what may stand before it.
const FAULTS: &str = "\
    blocker blockers bug bugs change changes comment comments complaint complaints concern concerns \
    defects error errors faults findings issue issues mistake mistakes nits objection objections problem \
    problems regressions remarks warnings";
const BEFORE_FAULTS: &str = "\
    of the these earlier previous former blocking critical further major more new open other remaining \
    serious such";

/// What may follow a fault nobody found, also behind `were` and the like.
const BEHIND_FAULTS: &str = "\
    found seen spotted remain remains remaining left open needed required necessary to from in with here";
const COPULAS: &str = "were was are is have been";

/// `No issues were fixed` is no praise.
const REPAIRED: &str = "fixed resolved addressed solved handled mended";

/// What there may be nothing of.
const NOTHING_TO: [&str; 13] = [
    "wrong",
    "missing",
    "blocking",
    "to complain",
    "to object",
    "to fix",
    "to change",
    "to add",
    "to remark",
    "to improve",
    "to criticise",
    "to criticize",
    "is wrong",
];

/// Words that make what a sentence goes on to say about an approval none, or one that is not there yet.
const DOUBTS: &str = "\
    not no never cannot none nothing nobody neither nor without hardly unable far refuse refused decline \
    declined deny denied withhold against dont cant wont isnt if once until unless before would could \
    should might only when";

/// So much of what follows a word is looked at, in characters, so that hostile text costs no more than that.
const LOOKED_AT: usize = 200;

/// Whether the marks around an approval are against it.
pub(super) fn is_crossed_out(marks: &str) -> bool {
    marks.contains(CROSSES) || marks.contains(['?', '¬', '≠']) || marks.contains("!=") || marks.contains("[ ]")
}

/// Whether what follows an approval makes it none.
pub(super) fn is_taken_back(rest: &str) -> bool {
    let (marks, reasons) = past_marks(head(rest));
    let reasons = reasons.to_lowercase();
    let reasons = ["but ", "and ", "with "].iter().find_map(|word| reasons.strip_prefix(word)).unwrap_or(&reasons);
    is_crossed_out(marks)
        || is_plain_no(reasons)
        || begins_with_one(reasons, &CONDITIONS)
        || begins_with_one(reasons, &DENIALS)
        || TAKES_BACK.iter().any(|words| reasons.contains(words))
}

/// Whether reasons are an answer such as `no`, `none of it` or `no way`, and no praise such as `no mistakes`.
fn is_plain_no(reasons: &str) -> bool {
    let clause = reasons.split(['.', ',', ';', ':', '!', '?', '(', '\u{2014}', '\u{2013}']).next().unwrap_or_default();
    let mut words = clause.split_whitespace().map(plain_word);
    let Some(nothing) = words.next().filter(|word| is_one_of(word, NOTHINGS)) else {
        // As in `certainly not`.
        return clause.split_whitespace().next_back().is_some_and(|last| ["not", "no", "never"].contains(&last));
    };
    let behind: Vec<&str> = words.collect();
    let is_fault = behind.iter().position(|word| is_one_of(word, FAULTS)).is_some_and(|at| {
        let next = behind[at + 1..].iter().find(|word| !is_one_of(word, COPULAS));
        behind[..at].iter().all(|word| is_one_of(word, BEFORE_FAULTS))
            && next.map_or(at + 1 == behind.len(), |next| is_one_of(next, BEHIND_FAULTS))
    });
    let is_praise = is_fault || nothing == "nothing" && begins_with_one(&behind.join(" "), &NOTHING_TO);
    !is_praise || behind.iter().any(|word| is_one_of(word, REPAIRED))
}

/// Whether the lines of a paragraph hold a verdict word that is negated or the opposite of an approval, or a cross behind
/// one.
pub(super) fn speaks_against(lines: &[&str]) -> bool {
    let mut is_doubtful = false;
    let mut is_behind = false;
    for (at, line) in lines.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |at| lines[at]);
        let is_item = line.starts_with(['-', '+', '#', '\u{2022}', '|']) || line.starts_with("* ");
        is_doubtful &= !is_item && !ends_sentence(before);
        let [begins, ends] = given(line, before, at + 1 == lines.len());
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

/// Whether a line begins, behind a label, as `Verdict: reject` does.
fn is_bare_rejection(line: &str) -> bool {
    let text = past_marks(line).1;
    let text = past_label(text).map_or(text, |behind| past_marks(behind).1);
    let word = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    ["reject", "rejection"].iter().any(|reject| word.eq_ignore_ascii_case(reject))
}

/// Whether a text speaks against an approval. `is_doubtful` is whether its sentence has negated something so far.
fn is_against(text: &str, is_doubtful: &mut bool) -> bool {
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (written, behind) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
        *is_doubtful |= written.contains(CROSSES);
        // An apostrophe is part of its word.
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '\u{2019}');
        for word in written.split(|c: char| !is_part(c)) {
            let word = plain_word(word).to_lowercase();
            let is_mention = word.contains("approv");
            let is_negated = || !word.starts_with("approv") || is_crossed_out(written) || is_taken_back(behind);
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

/// Whether a word is one of a list.
fn is_one_of(word: &str, words: &str) -> bool {
    words.split(' ').any(|one| one == word)
}

/// Whether a text begins with one of these words, as a whole word.
pub(super) fn begins_with_one(text: &str, words: &[&str]) -> bool {
    let text = text.trim_start();
    let is_word = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    words.iter().any(|word| text.strip_prefix(word).is_some_and(is_word))
}

/// A word without what surrounds it.
pub(super) fn plain_word(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

/// The beginning of a text.
fn head(text: &str) -> &str {
    text.char_indices().nth(LOOKED_AT).map_or(text, |(end, _)| &text[..end])
}
