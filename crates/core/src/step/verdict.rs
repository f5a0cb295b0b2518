//! What a reviewer decided: the newest verdict that is stated as one. It stands as a line (after marks, with or without a
//! label), begins a sentence, or is the bare capital word at the end of the text; programs write `{"verdict": …}`. A
//! negation of its word or a condition on it makes it none, other sentences are its reasons, and a quotation never counts.

mod paragraph;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::Value;

use paragraph::{Paragraph, Statement, is_label, is_quote, verdict_of};

pub use paragraph::Verdict;

/// What is said of a review without a verdict, to the person who waits for it and to the next attempt.
pub const NO_VERDICT: &str = "no verdict in the review; end with VERDICT: APPROVED or VERDICT: REJECTED";

/// How many places of a reply are tried as the beginning of its JSON, so that hostile text costs no more than that.
const MAX_JSON_STARTS: usize = 64;

/// Reads the verdict of a reply: of its last paragraph, or a labelled one above paragraphs that say nothing of a verdict,
/// or a closing JSON object with a `verdict`. `None` when there is none, or something that disagrees: then the reviewer is
/// asked once more.
pub fn read(reply: &str) -> Option<Verdict> {
    let Some((above, object, verdict)) = closing_json(reply) else {
        return newest(&paragraphs(reply)).map(|(_, given)| given.verdict);
    };
    let mut lines: Vec<&str> = above.lines().rev().map(str::trim).take_while(|line| !line.is_empty()).collect();
    lines.reverse();
    // What the object says beside its verdict is between quotes as well.
    let said = [lines].into_iter().chain(object.split('"').map(|text| vec![text]));
    let disagrees = |paragraph: Paragraph<'_>| {
        let is_other = paragraph.verdict().is_some_and(|given| Some(given.verdict) != verdict);
        is_other || verdict == Some(Verdict::Approved) && paragraph.objects
    };
    verdict.filter(|_| !said.into_iter().any(|lines| disagrees(Paragraph::read(&lines, ""))))
}

/// Why a reviewer has rejected, in the words that are behind the verdict, else in those before it. None when he has
/// not, or says nothing else.
pub fn why(reply: &str) -> Option<String> {
    if let Some((_, object, verdict)) = closing_json(reply) {
        let object: Value = serde_json::from_str(object).ok().filter(|_| verdict == Some(Verdict::Rejected))?;
        let reason = ["reason", "reasons", "why", "issues"].iter().find_map(|key| object.get(*key))?;
        return reason.as_str().or_else(|| reason.get(0)?.as_str()).map(str::to_owned);
    }
    let paragraphs = paragraphs(reply);
    let (at, given) = newest(&paragraphs).filter(|(_, given)| given.verdict == Verdict::Rejected)?;
    let (above, below) = paragraphs[at].split_at(given.line);
    let own = [given.rest.to_owned(), joined(&below[1..]), joined(&[above, &[given.before]].concat())];
    let below = paragraphs[at + 1..].iter().map(|lines| joined(lines));
    let above = paragraphs[..at].iter().rev().map(|lines| joined(lines));
    let all = own.into_iter().chain(below).chain(above);
    all.map(|words| without_marks(&words).to_owned()).find(|words| !words.is_empty())
}

/// The verdict that counts, and the paragraph it is in.
fn newest<'t>(paragraphs: &[Vec<&'t str>]) -> Option<(usize, Statement<'t>)> {
    let above = |at: usize| at.checked_sub(1).and_then(|at| paragraphs[at].last()).copied().unwrap_or_default();
    // A paragraph goes on from a label, or from what announces it.
    let above = |at: usize| Some(above(at)).filter(|line| line.ends_with(':') || is_label(line)).unwrap_or_default();
    let read = paragraphs.iter().enumerate().rev().map(|(at, lines)| (at, Paragraph::read(lines, above(at))));
    let (at, paragraph) = read.into_iter().find(|(_, paragraph)| paragraph.speaks)?;
    let is_last = at + 1 == paragraphs.len();
    paragraph.verdict().filter(|given| is_last || given.is_labelled).map(|given| (at, given))
}

/// The paragraphs of a reply, without quotations and quoted code. Rules are blank.
fn paragraphs(reply: &str) -> Vec<Vec<&str>> {
    let is_fence = |line: &&str| line.starts_with("```") || line.starts_with("~~~");
    // A fence nobody closes is none.
    let mut fences = reply.lines().map(str::trim).filter(is_fence).count() / 2 * 2;
    let (mut is_code, mut is_quoted) = (false, false);
    let mut paragraphs = vec![Vec::new()];
    for line in reply.lines().map(str::trim) {
        if is_fence(&line) && fences > 0 {
            fences -= 1;
            is_code = !is_code;
        } else if !is_code && (line.is_empty() || is_rule(line)) {
            paragraphs.push(Vec::new());
            is_quoted = false;
        } else if !is_code {
            // A quotation goes on to the end of its paragraph.
            is_quoted |= line.starts_with('>');
            match paragraphs.last_mut() {
                Some(lines) if !is_quoted => lines.push(line),
                _ => paragraphs.push(Vec::new()),
            }
        }
    }
    paragraphs.retain(|lines| !lines.is_empty());
    paragraphs
}

/// Lines joined, without headings and labels.
fn joined(lines: &[&str]) -> String {
    let is_heading = |line: &&str| line.ends_with(':') && line.split_whitespace().count() <= 2 || is_label(line);
    let words = lines.iter().filter(|line| !line.starts_with('#') && !is_heading(line));
    words.copied().collect::<Vec<_>>().join(" ")
}

/// Whether a line is a rule of Markdown.
fn is_rule(line: &str) -> bool {
    let is_made_of = |c: char| line.matches(c).count() >= 3 && line.chars().all(|other| other == c || other == ' ');
    ['-', '*', '_', '='].into_iter().any(is_made_of)
}

/// Words without what sets them apart from a verdict.
fn without_marks(words: &str) -> &str {
    let starts = |c: char| !c.is_alphanumeric() && !is_quote(c) && !matches!(c, '(' | '[' | '<' | '$');
    words.trim_start_matches(starts).trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '_'))
}

/// A verdict as programs write it. That it is given twice is an error.
#[derive(Debug, Deserialize)]
struct JsonVerdict {
    verdict: String,
}

/// The JSON object with a verdict that a reply ends with, in a code fence or without one, behind the text above it.
fn closing_json(reply: &str) -> Option<(&str, &str, Option<Verdict>)> {
    let reply = reply.trim_end();
    let text = reply.strip_suffix("```").unwrap_or(reply).trim_end();
    if !text.ends_with('}') {
        return None;
    }
    let line_starts = text.rmatch_indices('\n').map(|(at, _)| at + 1).chain([0]).map(|at| text.split_at(at));
    let objects = line_starts.map(|(above, rest)| {
        let rest = rest.trim_start_matches([' ', '\t', '`']);
        (above, rest.strip_prefix("json").unwrap_or(rest).trim_start_matches([' ', '\t']))
    });
    let read = |(above, object)| {
        let JsonVerdict { verdict } = serde_json::from_str(object).ok()?;
        Some((above, object, verdict_of(verdict.trim())))
    };
    objects.filter(|(_, object)| object.starts_with('{')).take(MAX_JSON_STARTS).find_map(read)
}
