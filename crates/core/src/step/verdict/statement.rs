//! The verdicts a paragraph of a review states, and what in it negates an approval or makes it depend on something.

use super::words::{
    goes_on, is_label, is_one_of, is_quotation, is_quote, past_label, past_marks, sentences, sets_off, words,
};

/// A reviewer's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The work may land.
    Approved,
    /// It may not.
    Rejected,
}

/// What negates the words behind it, and an approval before it.
const NEGATIONS: &str = "\
    not no never cannot none nothing nobody neither nor without hardly unable far refuse refused decline declined deny \
    denied withhold against cant wont dont isnt false nope null unknown tbd maybe would could should might";

/// What an approval depends on, or is limited by, starts with one of these.
const CONDITIONS: &str = "\
    if once when after unless provided providing assuming until before pending subject only except apart partly \
    partially conditional conditionally condition conditions soon long";

/// What reviewers are glad to have found none of; the beginnings of the words.
const FAULTS: &str = "issue problem concern blocker mistake bug defect error fault objection complain change wrong";

/// A negation counts for a line that goes on with its sentence if it is among so many last words.
const APART: usize = 6;

/// So much of what follows an approval is looked at, in characters, so that hostile text costs no more than that.
const LOOKED_AT: usize = 200;

/// A verdict where it is stated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Statement<'t> {
    pub(super) verdict: Verdict,
    /// Whether a label in its line, or above it, says that it is the verdict.
    pub(super) is_labelled: bool,
    /// Its line in the paragraph, the sentences before it there, and what follows its word.
    pub(super) line: usize,
    pub(super) before: &'t str,
    pub(super) rest: &'t str,
}

/// What a paragraph says of the verdict.
#[derive(Debug, Default)]
pub(super) struct Paragraph<'t> {
    statements: Vec<Statement<'t>>,
    pub(super) objects: bool,
    pub(super) speaks: bool,
}

impl<'t> Paragraph<'t> {
    /// Reads the lines of a paragraph. `above` is the line it may go on from.
    pub(super) fn read(lines: &[&'t str], above: &str) -> Self {
        let mut read = Self::default();
        let mut is_quoted = false;
        for (at, line) in lines.iter().enumerate() {
            let above = at.checked_sub(1).map_or(above, |at| lines[at]);
            let below = lines.get(at + 1).copied().unwrap_or_default();
            let mut is_doubtful = goes_on(above) && ends_in_doubt(above);
            for (start, sentence) in sentences(line) {
                let place = Place { line, start, above, below, is_doubtful, is_quoted };
                let stated = place.statement(sentence).map(|given| Statement { line: at, ..given });
                let behind = line.len() - start - sentence.len();
                let own = stated.map_or(sentence, |given| &given.rest[..given.rest.len() - behind]);
                let follows = stated.is_some() || !read.statements.is_empty();
                read.objects |= objects(own, is_doubtful) || follows && (has_cross(own) || corrects(own));
                read.speaks |= mentions_verdict(sentence) || corrects(sentence);
                read.statements.extend(stated);
                is_quoted ^= sentence.matches(is_quotation).count() % 2 == 1;
                is_doubtful = sets_off(sentence) && words(sentence).any(|word| is_doubt(&word) || word == "with");
            }
        }
        read
    }

    /// The newest verdict, where all that are stated agree and nothing objects to an approval.
    pub(super) fn verdict(&self) -> Option<Statement<'t>> {
        let newest = *self.statements.last()?;
        let agrees = self.statements.iter().all(|given| given.verdict == newest.verdict);
        (agrees && (newest.verdict == Verdict::Rejected || !self.objects)).then_some(newest)
    }
}

/// Where a sentence is.
struct Place<'t, 'l> {
    line: &'t str,
    start: usize,
    above: &'l str,
    below: &'l str,
    /// Whether the sentence it goes on from is negated, and whether a quotation is open.
    is_doubtful: bool,
    is_quoted: bool,
}

impl<'t> Place<'t, '_> {
    /// The verdict a sentence states: its word comes first, behind marks and a label.
    fn statement(&self, sentence: &'t str) -> Option<Statement<'t>> {
        let (before, text) = past_marks(sentence);
        let (label, behind) = past_label(text).unwrap_or(("", text));
        let (between, text) = past_marks(behind);
        let word = text.split(|c: char| !c.is_alphanumeric() && c != '_').next()?.trim_end_matches('_');
        let verdict = verdict_of(word)?;
        let own = &text[word.len()..];
        let rest = &self.line[self.start + sentence.len() - own.len()..];
        let (goes_on, heads) = (self.start == 0 && goes_on(self.above), self.start == 0 && is_label(self.above));
        let is_explicit = heads || !label.is_empty() || word.chars().all(char::is_uppercase);
        let mut reasons = words(own.split([':', ',', '.', ';']).next().unwrap_or_default());
        let has_reasons = own.trim_start_matches(['*', '_']).starts_with(' ')
            && reasons.next().is_some_and(|word| is_one_of(&word, "with because since as due for and"));
        let stands = match verdict {
            Verdict::Rejected => !before.contains(['>', '~', '{']) && (is_alone(own) || has_reasons),
            Verdict::Approved => {
                let is_heavy =
                    |word: String| is_doubt(&word) || is_one_of(&word, "changes fixes required reservations");
                let closes = own.trim_start_matches(['.', '!', '*', '_']).starts_with(is_quote);
                let is_whole = [before, between].concat().contains(is_quote) && !rest.contains(char::is_alphanumeric);
                let is_quoted = self.is_quoted || closes && (!is_whole || goes_on);
                !(self.is_doubtful
                    || is_quoted
                    || before.ends_with('-')
                    || takes_back(&format!("{rest}. {}", self.below)))
                    && [before, between].iter().all(|marks| agree(marks))
                    && (is_alone(own) || is_explicit && has_reasons && !reasons.any(is_heavy))
            }
        };
        let is_verdict = |label: &str| words(label).last().is_some_and(|last| last == "verdict");
        let is_labelled = self.start == 0 && !goes_on && (heads && is_verdict(self.above) || is_verdict(label));
        let given = Statement { verdict, is_labelled, line: 0, before: &self.line[..self.start], rest };
        // A line in lower case goes on with the sentence above it.
        (stands && !(goes_on && word.starts_with(char::is_lowercase))).then_some(given)
    }
}

/// The verdict that a word is.
pub(super) fn verdict_of(word: &str) -> Option<Verdict> {
    let all = [("APPROVED", Verdict::Approved), ("REJECTED", Verdict::Rejected)];
    all.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, verdict)| verdict)
}

/// Whether a verdict's word is alone, or before punctuation: not in a longer word, a name or a sentence.
fn is_alone(rest: &str) -> bool {
    let behind = rest.trim_start_matches(|c: char| matches!(c, '*' | '_') || is_quote(c));
    let mut chars = behind.trim_start().chars();
    let Some(first) = chars.next() else { return true };
    let next = chars.next();
    match first {
        '.' | '-' => !next.is_some_and(char::is_alphanumeric),
        ':' | '!' => !matches!(next, Some(':' | '=')),
        '(' => !behind.starts_with('('),
        ',' | ';' | ')' | ']' | '|' => true,
        other => !other.is_ascii() && !other.is_alphanumeric(),
    }
}

/// Whether marks before an approval leave it one.
fn agree(marks: &str) -> bool {
    let is_allowed = |c: char| !c.is_ascii() || c.is_whitespace() || "*_#\"'`-|[]():=".contains(c);
    marks.chars().all(is_allowed) && !is_crossed_out(marks)
}

fn has_cross(text: &str) -> bool {
    text.contains(['☐', '❌', '❎', '✗', '✘', '✖', '🚫', '⛔', '👎', '🔴', '🛑', '🟥'])
}

fn is_crossed_out(text: &str) -> bool {
    has_cross(text) || text.contains(['?', '~', '❓', '❔', '¬', '≠']) || text.contains("[ ]") || text.contains("!=")
}

/// Whether a word makes what is said of an approval after it none.
fn is_doubt(word: &str) -> bool {
    word.ends_with("n't") || is_one_of(word, NEGATIONS) || is_one_of(word, CONDITIONS)
}

/// Whether what follows an approval takes it back: in its sentence, or as a fragment behind it such as
/// `But only if the tests pass.`
fn takes_back(rest: &str) -> bool {
    let rest = rest.char_indices().nth(LOOKED_AT).map_or(rest, |(end, _)| &rest[..end]);
    let mut all = sentences(rest).map(|(_, sentence)| sentence);
    let (own, next) = (all.next().unwrap_or_default(), all.next().unwrap_or_default());
    let joins = |word: &String| is_one_of(word, "but and with though however even yet then as do");
    let first = |clause: &str| words(clause).find(|word| !joins(word)).unwrap_or_default();
    let depends = |clause: &str| is_one_of(&first(clause), CONDITIONS);
    let clauses = own.split([',', ':', '(', '\u{2014}', '\u{2013}']);
    let reason = clauses.clone().find(|clause| clause.contains(char::is_alphanumeric)).unwrap_or_default();
    // `No mistakes were found` is praise, `no mistakes were fixed` is not.
    let praises = words(reason).any(|word| FAULTS.split(' ').any(|fault| word.starts_with(fault)))
        && !words(reason).any(|word| is_one_of(&word, "fixed solved resolved addressed handled"));
    let denies = |text: &str| words(text).last().is_some_and(|last| is_one_of(&last, "not no never nope"));
    is_crossed_out(own)
        || words(own).any(|word| word.starts_with("reject") || word.starts_with("condition"))
        || is_doubt(&first(reason)) && !praises
        || reason.trim_start().starts_with("n/a")
        || clauses.into_iter().any(depends)
        || denies(own)
        || denies(next)
        || depends(next) && !next.contains(',')
}

/// Whether the sentence a line leaves open is negated near its end. `Blocking issues: none` is an answer.
fn ends_in_doubt(line: &str) -> bool {
    let last = sentences(line).last().map_or("", |(_, sentence)| sentence);
    let clause = last.trim_end_matches(':').rsplit(':').next().unwrap_or_default();
    let all: Vec<String> = words(last).collect();
    !["no", "none"].contains(&clause.to_lowercase().trim()) && all.iter().rev().take(APART).any(|word| is_doubt(word))
}

fn mentions_verdict(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains("approv") || text.contains("reject")
}

/// Whether a sentence corrects what was said before it.
fn corrects(sentence: &str) -> bool {
    words(sentence).take(3).any(|word| is_one_of(&word, "wait actually correction thought"))
}

/// Whether a sentence rejects, or negates an approval. `is_doubtful` is whether what it goes on from negates something.
fn objects(sentence: &str, is_doubtful: bool) -> bool {
    if !mentions_verdict(sentence) {
        return false;
    }
    let (marks, text) = past_marks(sentence);
    let (label, behind) = past_label(text).unwrap_or(("", text));
    let all: Vec<String> = words(behind).collect();
    let is_rejection = |word: &String| word.starts_with("reject");
    let first = all.first().map_or("", String::as_str);
    let rejects = is_one_of(first, "reject rejection")
        || text.starts_with("REJECTED")
        || !label.is_empty() && first.starts_with("reject")
        || is_one_of(first, "i i'm we") && all.iter().any(is_rejection);
    let is_doubtful = is_doubtful || is_crossed_out(marks) || marks.contains('!') || has_cross(sentence);
    let doubts = all.iter().position(|word| is_doubt(word)).unwrap_or(all.len());
    let is_negated = |(at, word): (usize, &String)| {
        let is_against = is_doubtful || doubts < at || !word.starts_with("approv");
        word.contains("approv") && (is_against || all.get(at + 1).is_some_and(|next| is_doubt(next)))
    };
    rejects || all.iter().enumerate().any(is_negated)
}
