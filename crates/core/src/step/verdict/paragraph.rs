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
const LABELS: &str = "verdict result decision review status conclusion outcome recommendation";
const BEFORE_LABELS: &str = "final my the overall code review reviewer's";

/// What negates the words behind it and an approval before it, and what makes an approval depend on something.
const NEGATIONS: &str = "not no never cannot none nothing nobody neither nor without hardly unable far refuse refused \
    decline declined deny denied withhold against cant wont dont isnt false nope null unknown tbd maybe would could should \
    might";
const CONDITIONS: &str = "if once when after unless provided providing assuming until before pending subject only except \
    apart partly partially conditional conditionally condition conditions contingent soon long";

/// What an approval does not come with.
const HEAVY: &str = "change changes fix fixes required reservations reservation exception exceptions proviso caveat blocking \
    blocker following";

/// What reviewers are glad to have found none of; the beginnings of the words.
const FAULTS: &str = "issue problem concern blocker mistake bug defect error fault objection complain change wrong";

const CROSSES: [char; 12] = ['☐', '❌', '❎', '✗', '✘', '✖', '🚫', '⛔', '👎', '🔴', '🛑', '🟥'];
const PAUSES: [char; 4] = [',', '-', '\u{2014}', '\u{2013}'];
const APOSTROPHES: [char; 3] = ['\'', '\u{2018}', '\u{2019}'];
pub(super) const QUOTES: [char; 7] = ['"', '`', '\u{201c}', '\u{201d}', '\u{201e}', '\u{ab}', '\u{bb}'];

/// A verdict where it is stated.
#[derive(Debug, Clone, Copy)]
pub(super) struct StatedVerdict<'t> {
    pub(super) verdict: Verdict,
    /// Whether a label, in its line or above it, says that it is the verdict.
    pub(super) is_labelled: bool,
    /// Whether its word is written in capitals.
    pub(super) is_capital: bool,
    /// Its line in the paragraph, the sentences before it there, and what follows its word.
    pub(super) line: usize,
    pub(super) before: &'t str,
    pub(super) rest: &'t str,
}

/// What a paragraph says of the verdict, if it speaks of one.
#[derive(Debug, Default)]
pub(super) struct VerdictParagraph<'t> {
    statements: Vec<StatedVerdict<'t>>,
    pub(super) objects: bool,
    pub(super) speaks: bool,
}

impl<'t> VerdictParagraph<'t> {
    /// Reads the lines of a paragraph. `above` is the line it may go on from, `below` the one it may go on with.
    pub(super) fn read(lines: &[&'t str], mut above: &'t str, below: &str) -> Self {
        let sentences_of = |at: usize| sentences(lines[at]).into_iter().map(move |(from, text)| (at, from, text));
        let all: Vec<_> = (0..lines.len()).flat_map(sentences_of).collect();
        let (mut read, mut is_quoted) = (Self::default(), false);
        for (index, &(line, from, sentence)) in all.iter().enumerate() {
            let next = all.get(index + 1).map_or(below, |(.., next)| *next);
            // What a line goes on from is the whole one above it, so that an item of a list is known as one.
            above = if from == 0 && line > 0 { lines[line - 1] } else { above };
            let speaks = mentions_verdict(sentence);
            let is_doubtful = speaks && goes_on(above) && ends_in_doubt(above);
            let stated = if speaks { statement(sentence, above, next) } else { None };
            let stated = stated.filter(|given| given.verdict == Verdict::Rejected || !is_doubtful && !is_quoted);
            let own = stated.map_or(sentence, |given| given.rest);
            let begins = own.split_whitespace().take(3).flat_map(words);
            let corrects = { begins }.any(|word| is_one_of(&word, "wait actually correction thought"));
            let follows = stated.is_some() || !read.statements.is_empty();
            read.objects |= speaks && objects(own, is_doubtful) || follows && (own.contains(CROSSES) || corrects);
            read.speaks |= corrects || speaks;
            read.statements.extend(stated.map(|given| {
                let (before, behind) = lines[line].split_at(from);
                let rest = &behind[sentence.len() - given.rest.len()..];
                StatedVerdict { line, before, rest, is_labelled: given.is_labelled && from == 0, ..given }
            }));
            is_quoted ^= sentence.matches(QUOTES).count() % 2 == 1;
            above = sentence;
        }
        read
    }

    /// The newest verdict, where all that are stated agree and nothing objects to an approval.
    pub(super) fn verdict(&self) -> Option<StatedVerdict<'t>> {
        let newest = *self.statements.last()?;
        let agrees = self.statements.iter().all(|given| given.verdict == newest.verdict);
        (agrees && (newest.verdict == Verdict::Rejected || !self.objects)).then_some(newest)
    }
}

/// The verdict a sentence states: its word comes first, behind marks and a label.
fn statement<'t>(sentence: &'t str, above: &str, next: &str) -> Option<StatedVerdict<'t>> {
    let (before, label, between, text) = past_label(sentence);
    let word = text.split(|c: char| !c.is_alphanumeric() && c != '_').next()?.trim_end_matches('_');
    let (verdict, rest) = (verdict_of(word)?, &text[word.len()..]);
    let (marks, label) = ([before, between].concat(), if is_label(above) { above } else { label });
    let is_explicit = !label.is_empty() || word.chars().all(char::is_uppercase);
    let reasons = words(rest.split([':', ',', '.', ';']).next().unwrap_or_default());
    let has_reasons = rest.trim_start_matches(['*', '_']).starts_with(' ')
        && reasons.first().is_some_and(|word| is_one_of(word, "with because since as due for and"));
    let states = match verdict {
        Verdict::Rejected => {
            let is_capital = word == "REJECTED" && rest.starts_with(' ');
            !marks.contains(['>', '~', '{']) && (is_alone(rest) || has_reasons || is_capital)
        }
        Verdict::Approved => {
            let is_heavy = |word: &String| is_doubt(word) || is_one_of(word, HEAVY);
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
    let is_capital = word.chars().all(char::is_uppercase);
    is_own.then_some(StatedVerdict { verdict, is_labelled, is_capital, line: 0, before, rest })
}

pub(super) fn verdict_of(word: &str) -> Option<Verdict> {
    let all = [("APPROVED", Verdict::Approved), ("REJECTED", Verdict::Rejected)];
    all.into_iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, verdict)| verdict)
}

/// Whether a verdict's word is alone, or before punctuation: not in a longer word, a name or a sentence.
fn is_alone(rest: &str) -> bool {
    let behind = rest.trim_start_matches(|c: char| matches!(c, '*' | '_') || is_quote(c));
    let joins = |c: char| c.is_alphanumeric() || matches!(c, ':' | '=');
    let mut chars = behind.chars();
    match chars.next().unwrap_or(' ') {
        ' ' => !behind.trim_start().starts_with(char::is_alphanumeric),
        mark => !mark.is_alphanumeric() && mark != '(' && (!mark.is_ascii() || !chars.next().is_some_and(joins)),
    }
}

/// Whether what follows an approval takes it back: its own sentence, or a fragment such as `But only if it is tested.`
fn takes_back(own: &str, next: &str) -> bool {
    let joins = |word: &String| is_one_of(word, "but and with though however even yet then as do");
    let first = |clause: &str| words(clause).into_iter().find(|word| !joins(word)).unwrap_or_default();
    let depends = |clause: &str| is_one_of(&first(clause), CONDITIONS);
    let denies = |text: &str| words(text).last().is_some_and(|last| is_one_of(last, "not no never nope"));
    let is_fault = |word: &String| FAULTS.split(' ').any(|fault| word.starts_with(fault));
    let negates = |clause: &str| is_one_of(&first(clause), "not never nope") && !words(clause).iter().any(is_fault);
    // `If you like, rename it.` speaks of something else; `But only if it is tested, as agreed.` does not.
    let begins = words(next).first().is_some_and(|first| is_one_of(first, "if when once after until before"));
    let is_apart =
        begins && next.find(',').is_some_and(|at| next[..at].trim().contains(' ') && !next[at..].contains("that is"));
    let is_bound = next.trim_start().to_lowercase().starts_with("on condition");
    let mut clauses =
        own.split([',', ':', '(', '\u{2014}', '\u{2013}']).filter(|text| text.contains(char::is_alphanumeric));
    let reason = clauses.clone().next().unwrap_or_default();
    // `No mistakes were found` is praise, `no mistakes were fixed` is not.
    let faults = words(reason).iter().any(is_fault);
    let praises =
        faults && !words(reason).iter().any(|word| is_one_of(word, "fixed solved resolved addressed handled"));
    let is_against = |word: &String| word.starts_with("reject") || word.starts_with("condition");
    let is_denied = is_doubt(&first(reason)) && !praises || reason.trim_start().starts_with("n/a") || denies(own);
    let is_dependent = clauses.any(|clause| depends(clause) || negates(clause))
        || words(own).iter().any(is_against)
        || is_crossed_out(own);
    is_denied || is_dependent || denies(next) || negates(next) || is_bound || depends(next) && !is_apart
}

/// Whether a sentence rejects, or negates an approval. `is_doubtful` is whether what it goes on from negates something.
fn objects(sentence: &str, is_doubtful: bool) -> bool {
    let (marks, label, _, text) = past_label(sentence);
    let all = words(text);
    let first = all.first().map_or("", String::as_str);
    let rejects = is_one_of(first, "reject rejection") || text.starts_with("REJECTED");
    let is_own = !label.is_empty() || is_one_of(first, "i i'm we");
    let mut has_doubts = is_doubtful || is_crossed_out(marks) || marks.contains('!') || sentence.contains(CROSSES);
    let is_against = |(at, word): (usize, &String)| {
        let is_negated =
            has_doubts || !word.starts_with("approv") || all.get(at + 1).is_some_and(|next| is_doubt(next));
        has_doubts |= is_doubt(word);
        word.contains("approv") && is_negated || is_own && word.starts_with("reject")
    };
    rejects || all.iter().enumerate().any(is_against)
}

fn mentions_verdict(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains("approv") || text.contains("reject")
}

/// Whether a word makes what is said of an approval after it none.
fn is_doubt(word: &str) -> bool {
    word.ends_with("n't") || is_one_of(word, NEGATIONS) || is_one_of(word, CONDITIONS)
}

fn is_crossed_out(text: &str) -> bool {
    let is_against = text.contains(CROSSES) || text.contains(['?', '~', '❓', '❔', '¬', '≠']);
    is_against || text.contains("[ ]") || text.contains("!=")
}

/// Whether the sentence a line leaves open is negated near its end. `Blocking issues: none` is an answer.
fn ends_in_doubt(line: &str) -> bool {
    let sentence = sentences(line).last().map_or("", |(_, sentence)| sentence.trim_end());
    let clause = sentence.trim_end_matches(':').rsplit(':').next().unwrap_or_default().to_lowercase();
    let is_against = |word: &String| is_doubt(word) || sentence.ends_with(PAUSES) && word == "with";
    !is_one_of(clause.trim(), "no none") && words(sentence).iter().rev().take(6).any(is_against)
}

/// Whether what is behind a sentence, or a line, may go on with it.
fn goes_on(text: &str) -> bool {
    let text = text.trim_end();
    let item = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = item.len() < text.len() && item.starts_with(['.', ')']);
    let is_marked = is_numbered || ["#", "|", "\u{2022}", "- ", "* "].iter().any(|mark| text.starts_with(mark));
    let is_item = is_marked && !text.ends_with(':');
    let is_open = text.ends_with("...") || text.ends_with('\u{2026}') || !ends_sentence(text);
    is_open && !text.is_empty() && !is_item && !is_label(text)
}

/// The sentences of a line and where they start. A semicolon ends one as well, and so does what sets the capital word off
/// that a line ends with: `Looks good to me, APPROVED`.
fn sentences(line: &str) -> Vec<(usize, &str)> {
    let is_bare = |text: &str| matches!(text.trim_matches([' ', '*', '_', '.', '!']), "APPROVED" | "REJECTED");
    let (mut all, mut start, mut end) = (Vec::new(), 0, 0);
    for word in line.split_inclusive(char::is_whitespace) {
        end += word.len();
        let word = word.trim_end();
        let sets_off = word.ends_with(PAUSES) && line.len() - end < 20 && is_bare(&line[end..]);
        if ends_sentence(word) || word.ends_with(';') || sets_off || end == line.len() {
            all.push((start, &line[start..end]));
            start = end;
        }
    }
    all
}

/// Whether a text ends where a sentence does, and not in an abbreviation such as `e.g.`.
fn ends_sentence(text: &str) -> bool {
    let text = text.trim_end_matches(|c: char| matches!(c, '*' | '_' | ')') || is_quote(c));
    let word = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    let Some(before) = word.strip_suffix(['.', '!', '?', '\u{3002}']) else { return false };
    let initials = before.split('.').all(|part| part.chars().filter(|c| c.is_alphanumeric()).count() == 1);
    !(word.ends_with('.') && before.contains('.') && initials)
}

/// The marks a text starts with, its label, the marks behind that, and what is left.
fn past_label(text: &str) -> (&str, &str, &str, &str) {
    let marks_of = |text: &str| text.find(char::is_alphanumeric).unwrap_or(text.len());
    let (marks, text) = text.split_at(marks_of(text));
    let ends = [text.find([':', '\u{2014}', '\u{2013}', '=', '|']), text.find(" - "), text.find(" is ")];
    let end = ends.into_iter().flatten().min().filter(|at| is_label(&text[..*at])).unwrap_or(0);
    let (label, behind) = text.split_at(end);
    let behind = behind.strip_prefix(" is ").unwrap_or(behind);
    let (between, rest) = behind.split_at(marks_of(behind));
    (marks, label, between, rest)
}

/// Whether words, alone in their line or before a colon, only say that a verdict follows.
pub(super) fn is_label(text: &str) -> bool {
    let words = if text.len() < 60 { words(text) } else { return false };
    let Some((last, before)) = words.split_last() else { return false };
    is_one_of(last, LABELS) && before.len() <= 2 && before.iter().all(|word| is_one_of(word, BEFORE_LABELS))
}

fn is_quote(c: char) -> bool {
    QUOTES.contains(&c) || APOSTROPHES.contains(&c)
}

/// The words of a text, in lower case. An apostrophe is part of its word.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '\u{2019}');
    let words = words.map(|word| word.trim_matches(APOSTROPHES).to_lowercase().replace('\u{2019}', "'"));
    words.filter(|word| !word.is_empty()).collect()
}

fn is_one_of(word: &str, words: &str) -> bool {
    words.split(' ').any(|one| one == word)
}
