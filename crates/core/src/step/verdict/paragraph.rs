//! The verdicts a paragraph of a review states, and what in it negates an approval or makes it depend on something.

/// A reviewer's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The work may land.
    Approved,
    /// It may not.
    Rejected,
}

/// The last words of labels a verdict may be behind, and those that may come before them.
const LABELS: [&str; 2] = [
    "verdict result decision review status conclusion outcome recommendation",
    "final my the overall code review reviewer's",
];

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

/// A verdict where it is stated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Statement<'t> {
    pub(super) verdict: Verdict,
    /// Whether a label, in its line or above it, says that it is the verdict.
    pub(super) is_labelled: bool,
    /// Its line in the paragraph, the sentences before it there, and what follows its word.
    pub(super) line: usize,
    pub(super) before: &'t str,
    pub(super) rest: &'t str,
}

/// What a paragraph says of the verdict, if it speaks of one.
#[derive(Debug, Default)]
pub(super) struct Paragraph<'t> {
    statements: Vec<Statement<'t>>,
    pub(super) objects: bool,
    pub(super) speaks: bool,
}

impl<'t> Paragraph<'t> {
    /// Reads the lines of a paragraph. `above` is the line it may go on from.
    pub(super) fn read(lines: &[&'t str], mut above: &'t str) -> Self {
        let numbered =
            |(at, line): (usize, &&'t str)| sentences(line).into_iter().map(move |(from, text)| (at, from, text));
        let all: Vec<_> = lines.iter().enumerate().flat_map(numbered).collect();
        let (mut read, mut is_quoted) = (Self::default(), false);
        for (index, &(line, from, sentence)) in all.iter().enumerate() {
            let next = all.get(index + 1).map_or("", |(.., next)| *next);
            let is_doubtful = goes_on(above) && ends_in_doubt(above);
            let stated = statement(sentence, above, next);
            let stated = stated.filter(|given| given.verdict == Verdict::Rejected || !is_doubtful && !is_quoted);
            let own = stated.map_or(sentence, |given| given.rest);
            let corrects = words(own).iter().take(3).any(|word| is_one_of(word, "wait actually correction thought"));
            let is_behind = stated.is_some() || !read.statements.is_empty();
            read.objects |= objects(own, is_doubtful) || is_behind && (has_cross(own) || corrects);
            read.speaks |= mentions_verdict(sentence) || corrects;
            read.statements.extend(stated.map(|given| {
                let (before, behind) = lines[line].split_at(from);
                let rest = &behind[sentence.len() - given.rest.len()..];
                Statement { line, before, rest, is_labelled: given.is_labelled && from == 0, ..given }
            }));
            is_quoted ^= sentence.matches(|c| is_quote(c) && !is_apostrophe(c)).count() % 2 == 1;
            above = sentence;
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

/// The verdict a sentence states: its word comes first, behind marks and a label.
fn statement<'t>(sentence: &'t str, above: &str, next: &str) -> Option<Statement<'t>> {
    let (before, label, between, text) = past_label(sentence);
    let word = text.split(|c: char| !c.is_alphanumeric() && c != '_').next()?.trim_end_matches('_');
    let (verdict, rest) = (verdict_of(word)?, &text[word.len()..]);
    let marks = [before, between].concat();
    let label = if is_label(above) { above } else { label };
    let is_explicit = !label.is_empty() || word.chars().all(char::is_uppercase);
    let reasons = words(rest.split([':', ',', '.', ';']).next().unwrap_or_default());
    let has_reasons = rest.trim_start_matches(['*', '_']).starts_with(' ')
        && reasons.first().is_some_and(|word| is_one_of(word, "with because since as due for and"));
    let states = match verdict {
        Verdict::Rejected => !marks.contains(['>', '~', '{']) && (is_alone(rest) || has_reasons),
        Verdict::Approved => {
            let is_heavy = |word: &String| is_doubt(word) || is_one_of(word, "changes fixes required reservations");
            let is_light = is_explicit && has_reasons && !reasons[1..].iter().any(is_heavy);
            // Somebody's words, unless they are all there is.
            let is_closed = rest.trim_start_matches(['.', '!', '*', '_']).starts_with(is_quote);
            let is_whole = marks.contains(is_quote) && !rest.contains(char::is_alphanumeric) && !goes_on(above);
            let is_mark = |c: char| !c.is_ascii() || c.is_whitespace() || "*_#\"'`-|[]():=".contains(c);
            let is_marked = before.ends_with('-') || !marks.chars().all(is_mark) || is_crossed_out(&marks);
            !is_marked && (!is_closed || is_whole) && (is_alone(rest) || is_light) && !takes_back(rest, next)
        }
    };
    // A line in lower case goes on with the sentence above it.
    let is_own = states && !(goes_on(above) && word.starts_with(char::is_lowercase));
    let is_labelled = !goes_on(above) && words(label).last().is_some_and(|last| last == "verdict");
    is_own.then_some(Statement { verdict, is_labelled, line: 0, before, rest })
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
    match (first, chars.next()) {
        ('.' | '-', next) => !next.is_some_and(char::is_alphanumeric),
        (':' | '!', next) => !matches!(next, Some(':' | '=')),
        ('(', _) => !behind.starts_with('('),
        (other, _) => ",;)]|".contains(other) || !other.is_ascii() && !other.is_alphanumeric(),
    }
}

/// Whether what follows an approval takes it back: its own sentence, or a fragment such as `But only if it is tested.`
fn takes_back(own: &str, next: &str) -> bool {
    let joins = |word: &String| is_one_of(word, "but and with though however even yet then as do");
    let first = |clause: &str| words(clause).into_iter().find(|word| !joins(word)).unwrap_or_default();
    let depends = |clause: &str| is_one_of(&first(clause), CONDITIONS);
    let denies = |text: &str| words(text).last().is_some_and(|last| is_one_of(last, "not no never nope"));
    let clauses = own.split([',', ':', '(', '\u{2014}', '\u{2013}']);
    let reason = clauses.clone().find(|clause| clause.contains(char::is_alphanumeric)).unwrap_or_default();
    // `No mistakes were found` is praise, `no mistakes were fixed` is not.
    let praises = words(reason).iter().any(|word| FAULTS.split(' ').any(|fault| word.starts_with(fault)))
        && !words(reason).iter().any(|word| is_one_of(word, "fixed solved resolved addressed handled"));
    let is_denial = is_doubt(&first(reason)) && !praises || reason.trim_start().starts_with("n/a");
    let is_against = |word: &String| word.starts_with("reject") || word.starts_with("condition");
    is_crossed_out(own)
        || is_denial
        || words(own).iter().any(is_against)
        || clauses.clone().any(depends)
        || denies(own)
        || denies(next)
        || depends(next) && !next.contains(',')
}

/// Whether a sentence rejects, or negates an approval. `is_doubtful` is whether what it goes on from negates something.
fn objects(sentence: &str, is_doubtful: bool) -> bool {
    let (marks, label, _, text) = past_label(sentence);
    let all = if mentions_verdict(sentence) { words(text) } else { return false };
    let is_rejection = |word: &String| word.starts_with("reject");
    let first = all.first().map_or("", String::as_str);
    let rejects = is_one_of(first, "reject rejection")
        || text.starts_with("REJECTED")
        || (!label.is_empty() || is_one_of(first, "i i'm we")) && all.iter().any(is_rejection);
    let is_doubtful = is_doubtful || is_crossed_out(marks) || marks.contains('!') || has_cross(sentence);
    let doubts = all.iter().position(|word| is_doubt(word)).unwrap_or(all.len());
    rejects
        || all.iter().enumerate().filter(|(_, word)| word.contains("approv")).any(|(at, word)| {
            let is_negated = is_doubtful || doubts < at || !word.starts_with("approv");
            is_negated || all.get(at + 1).is_some_and(|next| is_doubt(next))
        })
}

fn mentions_verdict(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains("approv") || text.contains("reject")
}

/// Whether a word makes what is said of an approval after it none.
fn is_doubt(word: &str) -> bool {
    word.ends_with("n't") || is_one_of(word, NEGATIONS) || is_one_of(word, CONDITIONS)
}

fn has_cross(text: &str) -> bool {
    text.contains(['☐', '❌', '❎', '✗', '✘', '✖', '🚫', '⛔', '👎', '🔴', '🛑', '🟥'])
}

fn is_crossed_out(text: &str) -> bool {
    has_cross(text) || text.contains(['?', '~', '❓', '❔', '¬', '≠']) || text.contains("[ ]") || text.contains("!=")
}

/// Whether a sentence that is left open is negated near its end. `Blocking issues: none` is an answer.
fn ends_in_doubt(sentence: &str) -> bool {
    let clause = sentence.trim_end().trim_end_matches(':').rsplit(':').next().unwrap_or_default().to_lowercase();
    let is_against = |word: &String| is_doubt(word) || sets_off(sentence) && word == "with";
    !is_one_of(clause.trim(), "no none") && words(sentence).iter().rev().take(6).any(is_against)
}

/// Whether what is behind a sentence, or a line, may go on with it.
fn goes_on(text: &str) -> bool {
    let text = text.trim_end();
    let is_item = ["#", "|", "\u{2022}", "- ", "* "].iter().any(|mark| text.starts_with(mark)) && !text.ends_with(':');
    let is_open = text.ends_with("...") || text.ends_with('\u{2026}') || !ends_sentence(text);
    is_open && !text.is_empty() && !is_item && !is_label(text)
}

/// The sentences of a line and where they start. A semicolon ends one as well, and so does what sets the capital word off
/// that a line ends with: `Looks good to me, APPROVED`.
fn sentences(line: &str) -> Vec<(usize, &str)> {
    let is_bare = |text: &str| {
        text.len() < 20 && ["APPROVED", "REJECTED"].contains(&text.trim_matches([' ', '*', '_', '.', '!']))
    };
    let (mut all, mut start, mut end) = (Vec::new(), 0, 0);
    for word in line.split_inclusive(char::is_whitespace) {
        end += word.len();
        let is_end =
            ends_sentence(word.trim_end()) || word.trim_end().ends_with(';') || sets_off(word) && is_bare(&line[end..]);
        if is_end || end == line.len() {
            all.push((start, &line[start..end]));
            start = end;
        }
    }
    all
}

fn sets_off(text: &str) -> bool {
    text.trim_end().ends_with([',', '-', '\u{2014}', '\u{2013}'])
}

/// Whether a text ends where a sentence does, and not in an abbreviation such as `e.g.`.
fn ends_sentence(text: &str) -> bool {
    let text = text.trim_end_matches(|c: char| matches!(c, '*' | '_' | ')') || is_quote(c));
    let Some(sentence) = text.strip_suffix(['.', '!', '?', '\u{3002}']) else { return false };
    let word = sentence.rsplit(char::is_whitespace).next().unwrap_or(sentence);
    let initials = word.split('.').all(|part| part.chars().filter(|c| c.is_alphanumeric()).count() == 1);
    !(text.ends_with('.') && word.contains('.') && initials)
}

/// The marks a text starts with, its label, the marks behind that, and what is left.
fn past_label(text: &str) -> (&str, &str, &str, &str) {
    let past_marks = |text: &str| text.find(char::is_alphanumeric).unwrap_or(text.len());
    let (marks, text) = text.split_at(past_marks(text));
    let ends = [text.find([':', '\u{2014}', '\u{2013}', '=', '|']), text.find(" - "), text.find(" is ")];
    let end = ends.into_iter().flatten().min().filter(|at| is_label(&text[..*at])).unwrap_or(0);
    let (label, behind) = text.split_at(end);
    let verb = if behind.starts_with(" is ") { 4 } else { 0 };
    let (between, rest) = behind.split_at(verb + past_marks(&behind[verb..]));
    (marks, label, between.get(verb..).unwrap_or_default(), rest)
}

/// Whether words, alone in their line or before a colon, only say that a verdict follows.
pub(super) fn is_label(text: &str) -> bool {
    let words = if text.len() < 60 { words(text) } else { return false };
    let Some((last, before)) = words.split_last() else { return false };
    is_one_of(last, LABELS[0]) && before.len() <= 2 && before.iter().all(|word| is_one_of(word, LABELS[1]))
}

pub(super) fn is_quote(c: char) -> bool {
    is_apostrophe(c) || matches!(c, '"' | '`' | '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{ab}' | '\u{bb}')
}

fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '\u{2018}' | '\u{2019}')
}

/// The words of a text, in lower case. An apostrophe is part of its word.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '\u{2019}');
    let words = words.map(|word| word.trim_matches(is_apostrophe).to_lowercase().replace('\u{2019}', "'"));
    words.filter(|word| !word.is_empty()).collect()
}

fn is_one_of(word: &str, words: &str) -> bool {
    words.split(' ').any(|one| one == word)
}
