//! What a reviewer decided. A verdict is explicit or it is none: a word inside a sentence, a negation, a quotation of
//! somebody else's verdict never count.

use serde::Deserialize;

/// A reviewer's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The work may land.
    Approved,
    /// It may not.
    Rejected,
}

/// How many places of a reply are tried as the beginning of its JSON, so that hostile text costs no more than that.
const MAX_JSON_STARTS: usize = 64;

/// Reads the verdict a reply ends with: a last line that is, or ends in, the sentence `APPROVED`, or that begins with
/// `REJECTED` or ends in a sentence that does; or a closing JSON object with a `verdict`. `None` when there is none, or
/// two that disagree: then the reviewer is asked once more.
pub fn read(reply: &str) -> Option<Verdict> {
    let mut lines = reply.trim_end().lines().rev().map(str::trim);
    let last = lines.next().filter(|line| !line.is_empty())?;
    // A sentence may go over the end of a line, but over no empty one.
    let is_negated = lines.next().is_some_and(ends_in_negation);
    in_json(reply).or_else(|| in_line(last).filter(|verdict| *verdict == Verdict::Rejected || !is_negated))
}

/// As many words may stand between a negation and what it negates.
const APART: usize = 6;

/// Whether what follows this line may be what it says is not so: its last sentence goes on, and is negated near its end.
fn ends_in_negation(line: &str) -> bool {
    let goes_on = line.ends_with("...") || !ends_sentence(line);
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let words = line.split_whitespace().rev().take(APART).enumerate();
    // Where another sentence ends, this one begins.
    let mut words = words.take_while(|(at, word)| *at == 0 || !ends_sentence(word)).map(|(_, word)| bare(word));
    let negates = |word: String| {
        let refuses = ["not", "never", "cannot", "far", "hardly", "unable", "refuse", "refused"];
        refuses.contains(&word.as_str()) || word.ends_with("n't") || word.ends_with("n\u{2019}t")
    };
    goes_on && words.any(negates)
}

/// The verdict of the last line.
fn in_line(whole: &str) -> Option<Verdict> {
    let line = bare(whole);
    let closes = whole.trim_end_matches(['*', '.', '!']).chars().next_back().filter(|c| is_quote(*c));
    if line == APPROVED {
        // A quotation that ends here and began on another line is somebody else's.
        let opens = whole.trim_start_matches('*').starts_with(is_quote);
        return (closes.is_none() || opens).then_some(Verdict::Approved);
    }
    let (before, last) = last_sentence(line);
    let own = !before.is_empty() && !opens_quotation(before, closes);
    let rejected = begins_with_rejected(line) || own && begins_with_rejected(last);
    let approved = own && last == APPROVED;
    match (approved, rejected) {
        (true, false) => Some(Verdict::Approved),
        (false, true) => Some(Verdict::Rejected),
        _ => None,
    }
}

const APPROVED: &str = "APPROVED";
const REJECTED: &str = "REJECTED";

fn begins_with_rejected(text: &str) -> bool {
    text.strip_prefix(REJECTED).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// A text without the marks around it that say nothing.
fn bare(text: &str) -> &str {
    let ends = |c: char| c.is_whitespace() || matches!(c, '*' | '.' | '!') || is_quote(c);
    let starts = |c: char| c.is_whitespace() || matches!(c, '*' | '.') || is_quote(c);
    text.trim_end_matches(ends).trim_start_matches(starts)
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`' | '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{ab}' | '\u{bb}')
}

/// Splits a line before its last sentence, which comes without the marks around it.
fn last_sentence(line: &str) -> (&str, &str) {
    let breaks = line.char_indices().rev().filter(|(_, c)| c.is_whitespace());
    for (at, _) in breaks {
        if ends_sentence(&line[..at]) {
            return (&line[..at], bare(&line[at..]));
        }
    }
    ("", line)
}

/// Whether a text ends where a sentence does, and not in an abbreviation such as `e.g.`.
fn ends_sentence(text: &str) -> bool {
    let text = text.trim_end_matches(|c: char| c == '*' || c == ')' || is_quote(c));
    let Some(sentence) = text.strip_suffix(['.', '!', '?', '\u{3002}']) else { return false };
    let word = sentence.rsplit(char::is_whitespace).next().unwrap_or(sentence);
    let initials = word.split('.').all(|part| part.chars().count() == 1);
    !(text.ends_with('.') && word.contains('.') && initials)
}

/// Whether what follows stands inside a quotation this text began. `closes` is the mark the line ends with.
fn opens_quotation(text: &str, closes: Option<char>) -> bool {
    let mut closing: &[char] = &[];
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        // An apostrophe stands between letters, or behind one.
        let is_apostrophe = matches!(c, '\'' | '\u{2019}') && next.is_alphanumeric();
        if closing.contains(&c) && !is_apostrophe {
            closing = &[];
        } else if closing.is_empty() {
            closing = match c {
                '"' => &['"'],
                '`' => &['`'],
                // It also stands before a lifetime, or a year.
                '\'' if next.is_alphabetic() && before.is_whitespace() => &['\''],
                '\u{2018}' | '\u{201a}' => &['\u{2019}', '\u{2018}'],
                '\u{201c}' => &['\u{201d}'],
                '\u{201e}' => &['\u{201c}', '\u{201d}'],
                '\u{ab}' => &['\u{bb}'],
                '\u{bb}' => &['\u{ab}'],
                _ => &[],
            };
        }
        before = c;
    }
    match closing {
        ['\''] => closes == Some('\''),
        closing => !closing.is_empty(),
    }
}

/// The verdict of a JSON object the reply ends with, in a code fence or without one.
fn in_json(reply: &str) -> Option<Verdict> {
    #[derive(Deserialize)]
    struct Answer {
        verdict: String,
    }
    let reply = reply.trim_end();
    let text = reply.strip_suffix("```").unwrap_or(reply).trim_end();
    if !text.ends_with('}') {
        return None;
    }
    let line_starts = text.rmatch_indices('\n').map(|(at, _)| at + 1).chain([0]);
    let objects = line_starts.map(|at| past_fence(&text[at..])).filter(|rest| rest.starts_with('{'));
    for object in objects.take(MAX_JSON_STARTS) {
        let Ok(answer) = serde_json::from_str::<Answer>(object) else { continue };
        let verdict = answer.verdict.trim();
        return if verdict.eq_ignore_ascii_case(APPROVED) {
            Some(Verdict::Approved)
        } else if verdict.eq_ignore_ascii_case(REJECTED) {
            Some(Verdict::Rejected)
        } else {
            None
        };
    }
    None
}

/// What a line begins with, alone or in a code fence.
fn past_fence(text: &str) -> &str {
    let blanks = [' ', '\t'];
    let text = text.trim_start_matches(blanks);
    let text = text.strip_prefix("```").unwrap_or(text);
    text.strip_prefix("json").unwrap_or(text).trim_start_matches(blanks)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(verdict: Option<Verdict>, replies: &[&str]) {
        for reply in replies {
            assert_eq!(read(reply), verdict, "{reply:?}");
        }
    }

    #[test]
    fn the_reviews_of_the_original_read_as_it_meant_them() {
        let approved = "The implementation correctly creates the required tables with appropriate\n\
                        constraints. The schema follows best practices. APPROVED.";
        let rejected = "The implementation is missing foreign key constraints. The users table\n\
                        should have a foreign key reference to the posts table. REJECTED.";
        check(Some(Verdict::Approved), &[approved]);
        check(Some(Verdict::Rejected), &[rejected]);
    }

    #[test]
    fn a_plain_verdict_is_read_through_the_marks_around_it() {
        let approved = [
            "APPROVED",
            "APPROVED.",
            "Looks fine.\n\n**APPROVED**\n\n",
            "Looks fine.\r\n\r\n**APPROVED.**\r\n",
            "\"APPROVED\"",
            "`APPROVED`",
            "\u{201c}APPROVED.\u{201d}",
            "\"All is well. APPROVED.\"",
            "Good work! APPROVED",
            "Any doubts? None at all (I looked.) **APPROVED**",
            "REJECTED was my first thought.\nAPPROVED",
            "The name \"x\" is good. APPROVED!",
            "It doesn't leak, and the users' names are \u{201e}safe\u{201c} now. APPROVED.",
            "The 'x' isn't needed. It\u{2019}s gone. APPROVED.",
            "What was missing before is missing not.\nAPPROVED",
            "Is anything wrong? No\n\nAPPROVED",
            "Does it break the API? No\nAPPROVED",
            "- Blocking issues: no\nAPPROVED",
            "- It does not leak.\n- I did not find mistakes.\nAPPROVED",
            "Nothing is wrong with the new names of these two functions\nAPPROVED",
            "It is not long. Well done\nAPPROVED",
            "It takes &'a str now, with a lifetime 'a of its own. APPROVED.",
            "The '90s style is kept. APPROVED",
            "Er sagte \u{bb}gut\u{ab}. APPROVED",
        ];
        check(Some(Verdict::Approved), &approved);
    }

    #[test]
    fn a_rejection_may_give_its_reasons() {
        let rejected = [
            "REJECTED",
            "**REJECTED**",
            "REJECTED: there are no tests.",
            "REJECTED. The index is missing. With it this could be APPROVED.",
            "**REJECTED** - the word to look for is not \"APPROVED\"",
            "The table has no key. REJECTED because rows are lost.",
            "APPROVED\n\nOn second thought:\nREJECTED",
            "Is the code tested? No\nREJECTED: there are no tests",
            "This cannot be\nREJECTED",
        ];
        check(Some(Verdict::Rejected), &rejected);
    }

    #[test]
    fn negations_and_mentions_are_no_verdict() {
        let none = [
            "NOT APPROVED",
            "Not APPROVED.",
            "I cannot say APPROVED",
            "I cannot say APPROVED.",
            "This is not yet \"APPROVED\".",
            "It is far from e.g. APPROVED",
            "APPROVED?",
            "APPROVED? No.",
            "APPROVED, if the tests are mended.",
            "APPROVED or REJECTED",
            "Say APPROVED or REJECTED.",
            "REJECTED. APPROVED.",
            "not REJECTED",
            "REJECTEDNESS",
            "UNAPPROVED",
            "approved",
            "The commit says \"all is well. APPROVED.\"",
            "The commit says `done. APPROVED`",
            "I would never write 'All is well. APPROVED.'",
            "I would not write \u{2018}it\u{2019}s well. APPROVED.\u{2019}",
            "The commit says \u{201e}all is well. APPROVED.\u{201c}",
            "The commit says \u{ab}all is well. APPROVED.\u{bb}",
            "This is definitely not\nAPPROVED",
            "It cannot be called **NOT**\nAPPROVED.",
            "For these reasons it isn't\nAPPROVED",
            "The tests are missing, so this cannot be\nAPPROVED",
            "It should not be\nAPPROVED",
            "This is not yet\nAPPROVED",
            "This is not,\nAPPROVED",
            "I can't mark this as\nAPPROVED",
            "This is not ready to be\nAPPROVED",
            "This is **NOT**:\nAPPROVED",
            "It is not...\nAPPROVED",
            "I will not write:\nAPPROVED",
            "This cannot currently be\nAPPROVED",
            "I refuse to call this\nAPPROVED",
            "It is far from being\nAPPROVED",
            "The author wrote \"all reviewed.\nAPPROVED\"",
            "Er sagte \u{bb}alles gut. APPROVED.\u{ab}",
            "APPROVED\nThough the naming is odd",
            "> APPROVED",
            "```\nAPPROVED\n```",
            "",
            " \n\t\r\n",
            "***",
        ];
        check(None, &none);
    }

    #[test]
    fn a_closing_json_object_may_hold_the_verdict() {
        let approved = [
            r#"{"verdict": "APPROVED"}"#,
            r#"{"verdict":"approved","issues":[]}"#,
            "Here it is:\n```json\n{\n  \"verdict\": \"APPROVED\",\n  \"notes\": [\n    {\"at\": \"a}b\"}\n  ]\n}\n```\n",
            "```\n{\"verdict\": \"approved\"}\n```",
            "```json {\"verdict\": \"approved\"} ```",
        ];
        check(Some(Verdict::Approved), &approved);
        let rejected = ["Reasons above.\r\n```json\r\n{\"verdict\": \"REJECTED\", \"reasons\": [\"x\"]}\r\n```\r\n"];
        check(Some(Verdict::Rejected), &rejected);
        let none = [
            r#"{"verdict": "NOT APPROVED"}"#,
            r#"{"verdict": "REJECTED", "verdict": "APPROVED"}"#,
            r#"{"verdict": true}"#,
            r#"{"result": {"verdict": "APPROVED"}}"#,
            r#"I would not write {"verdict": "APPROVED"}"#,
            "```json\n{\"verdict\": \"APPROVED\"}\n```\nis what I cannot say",
            "{{{{{{{}",
        ];
        check(None, &none);
    }

    #[test]
    fn hostile_text_is_read_in_linear_time() {
        assert_eq!(read(&("{\n".repeat(300_000) + "}")), None);
        assert_eq!(read(&("{".repeat(300_000) + "}")), None);
        assert_eq!(read(&("\n".repeat(300_000) + "}")), None);
        let long = "a. ".repeat(300_000);
        assert_eq!(read(&(long.clone() + "APPROVED")), Some(Verdict::Approved));
        assert_eq!(read(&(" ".repeat(1_000_000) + "b" + &"c ".repeat(500_000))), None);
    }

    proptest! {
        #[test]
        fn what_does_not_hold_the_word_is_never_approved(reply in "[A-Z .*\"\n{}:]{0,80}") {
            prop_assume!(!reply.contains("APPROVED"));
            prop_assert_ne!(read(&reply), Some(Verdict::Approved));
        }

        #[test]
        fn a_word_before_the_verdict_in_its_sentence_takes_it_away(word in "[a-zA-Z]{1,12}") {
            prop_assert_eq!(read(&format!("{word} APPROVED.")), None);
        }

        #[test]
        fn a_verdict_in_a_paragraph_of_its_own_is_read_after_any_text(text in "[^{}]{0,200}") {
            prop_assert_eq!(read(&format!("{text}\n\nAPPROVED")), Some(Verdict::Approved));
            prop_assert_eq!(read(&format!("{text}\n\nREJECTED")), Some(Verdict::Rejected));
        }
    }
}
