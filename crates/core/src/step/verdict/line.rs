//! The verdicts one line of a review gives.

use super::hedging::{is_crossed_out, is_revoked};
use super::words::{
    bare, begins_with_one, ends_sentence, is_quote, is_verdict_label, last_sentence, opens_quotation, past_label,
    past_marks,
};

/// A reviewer's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The work may land.
    Approved,
    /// It may not.
    Rejected,
}

/// A verdict where it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundVerdict<'t> {
    pub(super) verdict: Verdict,
    /// The word as it is written.
    pub(super) word: &'t str,
    /// What follows it.
    pub(super) rest: &'t str,
    /// The sentences before it in its line.
    pub(super) before: &'t str,
}

pub(super) const APPROVED: &str = "APPROVED";

pub(super) const REJECTED: &str = "REJECTED";

/// As many words may be between a negation and what it negates.
pub(super) const APART: usize = 6;

/// Whether what follows this line may be what it says is not so: its last sentence continues, and is negated near its
/// end.
pub(super) fn ends_in_negation(line: &str) -> bool {
    let goes_on = line.ends_with("...") || !ends_sentence(line);
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let words = line.split_whitespace().rev().take(APART).enumerate();
    // Where another sentence ends, this one starts.
    let mut words = words.take_while(|(at, word)| *at == 0 || !ends_sentence(word)).map(|(_, word)| bare(word));
    let negates = |word: String| {
        let refuses = ["not", "never", "cannot", "far", "hardly", "unable", "refuse", "refused"];
        refuses.contains(&word.as_str()) || word.ends_with("n't") || word.ends_with("n\u{2019}t")
    };
    goes_on && words.any(negates)
}

/// The verdicts a line starts with and ends in.
pub(super) fn verdicts_in_line<'t>(whole: &'t str, before: &str, is_last: bool) -> [Option<FoundVerdict<'t>>; 2] {
    let closes = whole.trim_end_matches(['*', '_', '.', '!']).chars().next_back().filter(|c| is_quote(*c));
    let (rest, last) = last_sentence(bare(whole));
    let own = !rest.is_empty() && !opens_quotation(rest, closes) && !whole.starts_with('>');
    let ends = own.then(|| word_first(last, is_last)).flatten().map(|given| FoundVerdict { before: rest, ..given });
    // What a sentence continues with is no verdict, and least of all what it says is not so.
    let is_apart = before.is_empty() || ends_sentence(before) || is_verdict_label(before);
    let goes_on = |word: &str| !is_apart && word.starts_with(char::is_lowercase);
    let is_own = |given: &FoundVerdict<'_>| match given.verdict {
        _ if goes_on(given.word) => false,
        Verdict::Approved => !ends_in_negation(before) && !is_closed_quotation(whole, closes),
        Verdict::Rejected => true,
    };
    [word_first(whole, is_last).filter(is_own), ends]
}

/// The verdict a text starts with, behind marks and a label.
pub(super) fn word_first(text: &str, is_last: bool) -> Option<FoundVerdict<'_>> {
    let (marks, text) = past_marks(text);
    let (more, text) = match past_label(text) {
        Some(behind) => past_marks(behind),
        None => ("", text),
    };
    // What JSON says is read as such.
    if marks.contains(['{', '}']) {
        return None;
    }
    let word = text.split(|c: char| !c.is_alphanumeric() && c != '_').next()?.trim_end_matches('_');
    let rest = &text[word.len()..];
    if word.eq_ignore_ascii_case(REJECTED) {
        let is_quoted = marks.contains('>') || more.contains('>');
        let reasons = is_last && (word == REJECTED || begins_with_one(rest, &["because", "since", "as", "for", "due"]));
        let is_given = !is_quoted && (is_followed_up(rest) || reasons);
        return is_given.then_some(FoundVerdict { verdict: Verdict::Rejected, word, rest, before: "" });
    }
    // A quotation, a negation, a cross.
    let is_against = |marks: &str| marks.contains(['>', '!', '~']) || is_crossed_out(marks);
    let is_approval = word.eq_ignore_ascii_case(APPROVED)
        && !is_against(marks)
        && !is_against(more)
        && is_followed_up(rest)
        && !is_revoked(rest);
    is_approval.then_some(FoundVerdict { verdict: Verdict::Approved, word, rest, before: "" })
}

/// Whether a verdict's word is alone, or before punctuation: not in a longer word, a name or a sentence.
pub(super) fn is_followed_up(rest: &str) -> bool {
    let marked = rest.trim_start_matches(|c: char| matches!(c, '*' | '_') || is_quote(c));
    let mut chars = marked.trim_start().chars();
    let Some(first) = chars.next() else { return true };
    let next = chars.next();
    let joins = matches!(first, '.' | '-' | '/' | '\\' | '@' | '#') && next.is_some_and(char::is_alphanumeric);
    let is_code = first == ':' && next == Some(':') || first == '(' && marked.starts_with('(');
    !first.is_alphanumeric() && first != '?' && !joins && !is_code
}

/// Whether a line ends a quotation that started on another one: what it says is somebody else's.
pub(super) fn is_closed_quotation(whole: &str, closes: Option<char>) -> bool {
    let opens = whole.trim_start_matches(['*', '_', '#', ' ']).starts_with(is_quote);
    closes.is_some() && !opens && bare(whole).eq_ignore_ascii_case(APPROVED)
}
