//! What a reviewer decided: the newest verdict that is stated as one. It stands as a line (after marks, with or without a
//! label), begins a sentence, or is the bare capital word at the end of the text; programs write `{"verdict": …}`. A
//! negation of its word or a condition on it makes it none, other sentences are its reasons, and a quotation never counts.

mod paragraph;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::Value;

pub use paragraph::Verdict;
use paragraph::{QUOTES, StatedVerdict, VerdictParagraph, is_label, verdict_of};

/// What is said of a review without a verdict, to the person who waits for it and to the next attempt.
pub const NO_VERDICT: &str = "no verdict in the review; end with VERDICT: APPROVED or VERDICT: REJECTED";

/// Reads the verdict of a reply: of its last paragraph, of a labelled one above paragraphs that say nothing of it, or of a
/// closing JSON object. `None` when there is none, or something that disagrees: then the reviewer is asked once more.
pub fn read(reply: &str) -> Option<Verdict> {
    let Some((above, object, verdict)) = closing_json(reply) else {
        let paragraphs = paragraphs(reply);
        let (at, given) = newest(&paragraphs)?;
        let is_quoted = |line: &str| !paragraphs[at].contains(&line.trim()) && line.to_lowercase().contains("reject");
        // A rejection in a quotation counts as little as others, and makes an approval above it doubtful.
        let is_doubtful = given.verdict == Verdict::Approved && behind(reply, given.rest).lines().any(is_quoted);
        return (!is_doubtful).then_some(given.verdict);
    };
    let mut lines: Vec<&str> = above.lines().rev().map(str::trim).take_while(|line| !line.is_empty()).collect();
    lines.reverse();
    let mut texts = Vec::new();
    strings(&serde_json::from_str(object).ok()?, &mut texts);
    let mut said = [lines].into_iter().chain(texts.iter().map(|text| text.lines().map(str::trim).collect()));
    let disagrees = |paragraph: VerdictParagraph<'_>| {
        let is_other = paragraph.verdict().is_some_and(|given| Some(given.verdict) != verdict);
        is_other || verdict == Some(Verdict::Approved) && paragraph.objects
    };
    verdict.filter(|_| !said.any(|lines| disagrees(VerdictParagraph::read(&lines, "", ""))))
}

/// What of a reply is behind a part of it.
fn behind<'t>(reply: &'t str, part: &str) -> &'t str {
    let at = (part.as_ptr() as usize).saturating_sub(reply.as_ptr() as usize);
    reply.get(at..).unwrap_or_default()
}

/// Every text in a JSON value, names of fields included.
fn strings(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| strings(item, texts)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            texts.push(name.clone());
            strings(value, texts);
        }),
        _ => {}
    }
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
    let own = [vec![given.rest], below[1..].to_vec(), [above, &[given.before]].concat()];
    let (earlier, later) = (paragraphs[..at].iter().rev().cloned(), paragraphs[at + 1..].iter().cloned());
    own.into_iter().chain(later).chain(earlier).map(|lines| joined(&lines)).find(|words| !words.is_empty())
}

/// The verdict that counts, and the paragraph it is in. A paragraph goes on from a label, or from what announces it.
fn newest<'t>(paragraphs: &[Vec<&'t str>]) -> Option<(usize, StatedVerdict<'t>)> {
    let above =
        |at: usize| paragraphs.get(at.wrapping_sub(1))?.last().filter(|line| line.ends_with(':') || is_label(line));
    let below = |at: usize| paragraphs.get(at + 1).map_or("", |lines| lines[0]);
    let read = |at: usize| VerdictParagraph::read(&paragraphs[at], above(at).copied().unwrap_or_default(), below(at));
    let mut all = (0..paragraphs.len()).rev().map(|at| (at, read(at)));
    let (at, paragraph) = all.find(|(_, paragraph)| paragraph.speaks)?;
    // A rejection is not taken back in passing: `Approved: the parser.`
    let is_rejected = |given: StatedVerdict<'_>| given.verdict == Verdict::Rejected;
    let mut earlier = all.filter_map(|(_, paragraph)| paragraph.verdict());
    let mut counts = |given: &StatedVerdict<'_>| {
        let is_last = at + 1 == paragraphs.len();
        let is_plain = given.is_labelled || given.is_capital || is_rejected(*given);
        (given.is_labelled || is_last) && (is_plain || !earlier.any(is_rejected))
    };
    paragraph.verdict().filter(|given| counts(given)).map(|given| (at, given))
}

/// The paragraphs of a reply, without quotations and quoted code.
fn paragraphs(reply: &str) -> Vec<Vec<&str>> {
    let is_fence = |line: &&str| line.starts_with("```") || line.starts_with("~~~");
    // A fence nobody closes is none.
    let mut fences = reply.lines().map(str::trim).filter(is_fence).count() / 2 * 2;
    let (mut is_quoted, mut paragraphs) = (false, vec![Vec::new()]);
    for line in reply.lines().map(str::trim) {
        let is_mark = is_fence(&line) && fences > 0;
        fences -= usize::from(is_mark);
        // A rule is blank, and a quotation goes on to the end of its paragraph.
        let is_rule = |c: char| line.matches(c).count() > 2 && line.trim_matches([c, ' ']).is_empty();
        let is_blank = line.is_empty() || ['-', '*', '_', '='].into_iter().any(is_rule);
        is_quoted = !is_blank && (is_quoted || line.starts_with('>'));
        match paragraphs.last_mut() {
            _ if is_mark || fences % 2 == 1 => {}
            Some(lines) if !is_blank && !is_quoted => lines.push(line),
            _ => paragraphs.push(Vec::new()),
        }
    }
    paragraphs.retain(|lines| !lines.is_empty());
    paragraphs
}

/// Lines joined, without headings, labels and what sets the words apart from a verdict.
fn joined(lines: &[&str]) -> String {
    let is_heading = |line: &str| line.ends_with(':') && line.split_whitespace().count() <= 2 || is_label(line);
    let words = lines.iter().filter(|line| !line.starts_with('#') && !is_heading(line)).copied();
    let words = words.collect::<Vec<_>>().join(" ");
    let starts = |c: char| !c.is_alphanumeric() && !QUOTES.contains(&c) && !"'([<$\u{2018}".contains(c);
    words.trim_start_matches(starts).trim_end_matches([' ', '*', '_']).to_owned()
}

/// A verdict as programs write it. That it is given twice is an error.
#[derive(Debug, Deserialize)]
struct JsonVerdict {
    verdict: String,
}

/// The JSON object with a verdict that a reply ends with, in a code fence or without one, behind the text above it. So many
/// lines are tried as its first one that hostile text costs little.
fn closing_json(reply: &str) -> Option<(&str, &str, Option<Verdict>)> {
    let reply = reply.trim_end();
    let text = Some(reply.strip_suffix("```").unwrap_or(reply).trim_end()).filter(|text| text.ends_with('}'))?;
    let line_starts = text.rmatch_indices('\n').map(|(at, _)| at + 1).chain([0]).map(|at| text.split_at(at));
    let objects = line_starts.map(|(above, rest)| {
        let rest = rest.trim_start_matches([' ', '\t', '`']);
        (above, rest.strip_prefix("json").unwrap_or(rest).trim_start_matches([' ', '\t']))
    });
    objects.filter(|(_, object)| object.starts_with('{')).take(64).find_map(|(above, object)| {
        let JsonVerdict { verdict } = serde_json::from_str(object).ok()?;
        Some((above, object, verdict_of(verdict.trim())))
    })
}
