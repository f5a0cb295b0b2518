//! What takes an approval back: marks against it, conditions and denials that follow it.

use super::words::{begins_with_one, is_one_of, past_marks, plain_word};

/// Marks that say no.
pub(super) const CROSSES: [char; 10] = ['☐', '❌', '❎', '✗', '✘', '✖', '🚫', '⛔', '👎', '🔴'];

/// What an approval that depends on something starts its reasons with, and one of a part only.
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

/// Reasons that start with one of these are an answer: no.
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

/// What a reviewer is glad to have found none of, and what may be before it.
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

/// So much of what follows a word is checked, in characters, so that hostile text costs no more than that.
const LOOKED_AT: usize = 200;

/// Whether the marks around an approval are against it.
pub(super) fn is_crossed_out(marks: &str) -> bool {
    marks.contains(CROSSES) || marks.contains(['?', '¬', '≠']) || marks.contains("!=") || marks.contains("[ ]")
}

/// Whether what follows an approval makes it none.
pub(super) fn is_revoked(rest: &str) -> bool {
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

/// The beginning of a text.
fn head(text: &str) -> &str {
    text.char_indices().nth(LOOKED_AT).map_or(text, |(end, _)| &text[..end])
}
