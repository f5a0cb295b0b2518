//! What a reviewer decided. A verdict is explicit or it is none: a word inside a sentence, a negation, a quotation of
//! somebody else's verdict never count.

mod hedging;
mod line;
mod objections;
mod words;

use serde::Deserialize;
use serde_json::Value;

pub use line::Verdict;
use line::{APPROVED, REJECTED, verdicts_in_line};
use objections::has_objection;
use words::{is_quote, is_verdict_label};

/// What is said of a review without a verdict, to the person who waits for it and to the next attempt.
pub const NO_VERDICT: &str = "no verdict in the review; end with APPROVED or REJECTED: why";

/// How many places of a reply are tried as the beginning of its JSON, so that hostile text costs no more than that.
const MAX_JSON_STARTS: usize = 64;

/// Reads the verdict of a reply's last paragraph: the one its lines give that give any, or a closing JSON object with a
/// `verdict`. `None` when there is none, or something that disagrees: then the reviewer is asked once more.
pub fn read(reply: &str) -> Option<Verdict> {
    match answer_in_json(reply) {
        Some((above, answer)) => answer.agreed(above),
        None => in_paragraph(&last_paragraph(reply)),
    }
}

/// Why a reviewer has rejected, in the words that are behind the verdict, else in those before it. None when he has
/// not, or says nothing else.
pub fn why(reply: &str) -> Option<String> {
    if let Some((_, answer)) = answer_in_json(reply) {
        return answer.why();
    }
    let lines = last_paragraph(reply);
    let before = |at: usize| at.checked_sub(1).map_or("", |at| lines[at]);
    let rejects = |at: usize| {
        let all = verdicts_in_line(lines[at], before(at), at + 1 == lines.len());
        all.into_iter().flatten().find(|given| given.verdict == Verdict::Rejected)
    };
    let (at, given) = (0..lines.len()).rev().find_map(|at| rejects(at).map(|given| (at, given)))?;
    let around = [given.rest.to_owned(), joined(&lines[at + 1..]), joined(&[&lines[..at], &[given.before]].concat())];
    let around = around.into_iter().find(|words| !without_marks(words).is_empty());
    let words = around.or_else(|| {
        let all: Vec<&str> = body_lines(reply);
        let mut above = all.rsplit(|line| line.is_empty()).skip(1).map(joined);
        above.find(|words| !without_marks(words).is_empty())
    })?;
    Some(without_marks(&words).to_owned())
}

/// Lines joined, without headings and labels.
fn joined(lines: &[&str]) -> String {
    let is_label = |line: &&str| line.ends_with(':') && line.split_whitespace().count() <= 2;
    let words = lines.iter().filter(|line| !line.starts_with('#') && !is_label(line) && !is_verdict_label(line));
    words.copied().collect::<Vec<_>>().join(" ")
}

/// The lines of a reply up to its last words: blank lines and rules below them say nothing.
fn body_lines(reply: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = reply.lines().map(str::trim).collect();
    let is_blank = |line: &&str| line.is_empty() || is_rule(line);
    lines.truncate(lines.iter().rposition(|line| !is_blank(line)).map_or(0, |last| last + 1));
    lines
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

/// The lines of the last paragraph that are no quotation of code.
fn last_paragraph(reply: &str) -> Vec<&str> {
    let lines = body_lines(reply);
    let is_fence = |line: &&str| line.starts_with("```") || line.starts_with("~~~");
    // A fence nobody closes is none.
    let fences = lines.iter().filter(|line| is_fence(line)).count() / 2 * 2;
    let start = lines.iter().rposition(|line| line.is_empty()).map_or(0, |blank| blank + 1);
    let mut seen = 0;
    let mut paragraph = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let is_mark = is_fence(line) && seen < fences;
        seen += usize::from(is_mark);
        if at >= start && !is_mark && seen % 2 == 0 {
            paragraph.push(*line);
        }
    }
    paragraph
}

/// The verdict the lines of a paragraph give, where those that give one agree and nothing contradicts an approval.
fn in_paragraph(lines: &[&str]) -> Option<Verdict> {
    let before = |at: usize| at.checked_sub(1).map_or("", |at| lines[at]);
    let read = lines.iter().enumerate().map(|(at, line)| in_line(line, before(at), at + 1 == lines.len()));
    let mut agreed = None;
    for found in read {
        match (found, agreed) {
            (LineVerdict::Says(verdict), Some(other)) if verdict != other => return None,
            (LineVerdict::Says(verdict), _) => agreed = Some(verdict),
            (LineVerdict::SaysBoth, _) => return None,
            (LineVerdict::SaysNothing, _) => {}
        }
    }
    agreed.filter(|verdict| *verdict == Verdict::Rejected || !has_objection(lines))
}

/// What a line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineVerdict {
    SaysNothing,
    Says(Verdict),
    SaysBoth,
}

/// What a line after another one says: by the word it starts with, or by its last sentence.
fn in_line(whole: &str, before: &str, is_last: bool) -> LineVerdict {
    let [begins, ends] = verdicts_in_line(whole, before, is_last).map(|given| given.map(|given| given.verdict));
    match (begins, ends) {
        (Some(one), Some(two)) if one != two => LineVerdict::SaysBoth,
        (Some(verdict), _) | (None, Some(verdict)) => LineVerdict::Says(verdict),
        (None, None) => LineVerdict::SaysNothing,
    }
}

/// A verdict as programs write it.
#[derive(Debug, Deserialize)]
struct JsonVerdict {
    verdict: String,
    #[serde(flatten)]
    more: serde_json::Map<String, Value>,
}

impl JsonVerdict {
    fn verdict(&self) -> Option<Verdict> {
        let verdict = self.verdict.trim();
        if verdict.eq_ignore_ascii_case(APPROVED) {
            Some(Verdict::Approved)
        } else if verdict.eq_ignore_ascii_case(REJECTED) {
            Some(Verdict::Rejected)
        } else {
            None
        }
    }

    /// The verdict, unless the text right above it, or something else in it, says the opposite.
    fn agreed(&self, above: &str) -> Option<Verdict> {
        let mut lines: Vec<&str> = above.lines().rev().map(str::trim).take_while(|line| !line.is_empty()).collect();
        lines.reverse();
        let disagrees = |verdict: &Verdict| match verdict {
            Verdict::Approved => has_objection(&lines) || self.more.values().any(value_objects),
            Verdict::Rejected => in_paragraph(&lines) == Some(Verdict::Approved),
        };
        self.verdict().filter(|verdict| !disagrees(verdict))
    }

    fn why(&self) -> Option<String> {
        let reason = ["reason", "reasons", "why", "issues"].iter().find_map(|key| self.more.get(*key))?;
        let said = reason.as_str().or_else(|| reason.get(0)?.as_str());
        said.map(str::to_owned).filter(|_| self.verdict() == Some(Verdict::Rejected))
    }
}

/// Whether a text somewhere in a value contradicts an approval.
fn value_objects(value: &Value) -> bool {
    match value {
        Value::String(text) => has_objection(&text.lines().map(str::trim).collect::<Vec<_>>()),
        Value::Array(values) => values.iter().any(value_objects),
        Value::Object(fields) => fields.values().any(value_objects),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The JSON object with a verdict the reply ends with, in a code fence or without one, and the text above it.
fn answer_in_json(reply: &str) -> Option<(&str, JsonVerdict)> {
    let reply = reply.trim_end();
    let text = reply.strip_suffix("```").unwrap_or(reply).trim_end();
    if !text.ends_with('}') {
        return None;
    }
    let line_starts = text.rmatch_indices('\n').map(|(at, _)| at + 1).chain([0]).map(|at| text.split_at(at));
    let objects = line_starts.map(|(above, rest)| (above, past_fence(rest))).filter(|(_, rest)| rest.starts_with('{'));
    let read = |(above, object)| Some((above, serde_json::from_str(object).ok()?));
    objects.take(MAX_JSON_STARTS).find_map(read)
}

/// What a line starts with, alone or in a code fence.
fn past_fence(text: &str) -> &str {
    let blanks = [' ', '\t'];
    let text = text.trim_start_matches(blanks);
    let text = text.strip_prefix("```").unwrap_or(text);
    text.strip_prefix("json").unwrap_or(text).trim_start_matches(blanks)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

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
    fn a_verdict_is_read_with_marks_labels_and_reasons() {
        let forms = [
            "Verdict: {}",
            "**Verdict:** {}",
            "## Final verdict: **{}**",
            "Result: {}.",
            "My verdict \u{2014} {}",
            "\u{2705} {}",
            "# {}",
            "- {}",
            "[{}]",
            "_{}_",
            "{} \u{1f44d}",
            "{}: the reasons",
            "{}: no mistakes were found",
            "{}, no objections",
            "**{}** \u{2014} nice",
            "{} (with one remark)",
            "{}\nThough the naming is odd",
            "The reasons are these.\n{}.\nThank you.",
            "All was looked at. {}",
            "```\ncode\n```\n{}",
            "```\nnobody closes this\n\n{}",
            "{}\nFinal verdict: {}",
            "{}\n\n---",
            "{}\n\n* * *\n\n",
            "Verdict:\n{}",
            "## Final verdict\n{}",
            "## Verdict\n\n{}\n---",
        ];
        let words = [(Verdict::Approved, ["APPROVED", "Approved", "approved"])];
        let words = words.into_iter().chain([(Verdict::Rejected, ["REJECTED", "Rejected", "rejected"])]);
        for (verdict, words) in words {
            for (form, word) in forms.iter().flat_map(|form| words.map(|word| (form, word))) {
                check(
                    Some(verdict),
                    &[&form.replace("{}", word), &format!("Some words.\n\n{}", form.replace("{}", word))],
                );
            }
        }
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
            "\u{274c} REJECTED",
            "Rejected because there are no tests",
        ];
        check(Some(Verdict::Rejected), &rejected);
    }

    #[test]
    fn a_rejections_reason_is_the_text_around_it() {
        let cases = [
            ("REJECTED: there are no tests.", "there are no tests."),
            ("Much is good.\n\n**REJECTED** \u{2014} rows are lost", "rows are lost"),
            ("Final verdict: Rejected: rows are lost", "rows are lost"),
            ("REJECTED\n- no tests\n- no docs", "no tests - no docs"),
            ("- no tests\n- no docs\n\nREJECTED", "no tests - no docs"),
            ("No tests.\nREJECTED", "No tests."),
            ("The table has no key. Rows\nare lost. REJECTED.", "The table has no key. Rows are lost."),
            ("The table has no key. REJECTED because rows are lost.", "because rows are lost"),
            ("Problems:\n- a.txt lacks a newline\n\n## Verdict\n\n**REJECTED**", "a.txt lacks a newline"),
            ("No tests.\r\n\r\n---\r\n\r\n**Verdict:**\r\nREJECTED\r\n\r\n---\r\n", "No tests."),
            ("### What is wrong\nNo tests.\n\n### Review result\n\nREJECTED", "No tests."),
            ("{\"verdict\": \"REJECTED\", \"reasons\": [\"no tests\", \"x\"]}", "no tests"),
        ];
        for (reply, expected) in cases {
            assert_eq!(why(reply).as_deref(), Some(expected), "{reply:?}");
        }
        for reply in ["REJECTED", "APPROVED: all is well", "", "Nothing is said."] {
            assert_eq!(why(reply), None, "{reply:?}");
        }
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
            "unapproved",
            "Approved changes are listed above",
            "Approved-by: Jane",
            "approved.txt",
            "approved() is called twice",
            "approved::check",
            "Approved by nobody",
            "Verdict: NOT APPROVED",
            "Verdict: not approved",
            "This cannot be approved.",
            "I do not think that, with the tests as they are and all of that, it should be\napproved.",
            "Approved: no",
            "Approved: No.",
            "approved = false",
            "Approved \u{2014} not!",
            "APPROVED, but only if the tests are fixed",
            "Approved once the names are better",
            "Approved, once the names are better",
            "!approved",
            "\u{274c} APPROVED",
            "~~APPROVED~~",
            "[ ] APPROVED",
            "[ ] APPROVED\n[x] REJECTED",
            "APPROVED\nREJECTED",
            "REJECTED\nAPPROVED",
            "Approved. Rejected.",
            "APPROVED: was REJECTED before",
            "Former verdict: APPROVED",
            "# APPROVED\n\nThere is more to say",
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
            "> APPROVED",
            "> Verdict: APPROVED",
            "```\nAPPROVED\n```",
            "```\nall is well\n\nAPPROVED\n```",
            "",
            " \n\t\r\n",
            "***",
        ];
        check(None, &none);
    }

    #[test]
    fn a_revoked_approval_is_none() {
        let none = [
            "Approved: \u{274c}",
            "APPROVED \u{2717}",
            "APPROVED\n\u{1f44e}",
            "Approved (?)",
            "Approved [ ]",
            "approved != true",
            "Verdict: Approved / Rejected",
            "Approved, no wait, rejected",
            "Verdict: Approved \u{2014} rejected by the linter, so not mergeable",
            "Approved \u{2014} the rejected input is handled now",
            "REJECTED was my first thought.\nAPPROVED",
            "APPROVED\nNOT APPROVED",
            "\u{274c} APPROVED\nAPPROVED",
            "Verdict: reject\nAPPROVED",
            "I can't approve this\nAPPROVED",
            "This is not\n**approved** by me.\nAPPROVED",
            "Approved once the names are better.\nAPPROVED",
            "Approved: the parser\nNot approved: the tests",
            "Review: not yet approved.\nAPPROVED: nothing",
            "Approved: nothing",
            "Approved: none",
            "Approved: none of it",
            "Approved: no way",
            "Approved: no way, too many problems",
            "Approved: certainly not",
            "Approved: no issues were fixed",
            "Approved: none of the problems are solved",
            "Approved: n/a",
            "Approved \u{2014} do not merge",
            "Approved: partially",
            "Verdict: APPROVED (with the condition that tests are added)",
            "Rejected: no tests\n{\"verdict\":\"approved\"}",
            "Rejected: no tests\n```json\n{\"verdict\":\"approved\"}\n```",
            "{\"verdict\":\"approved\",\"reasons\":[\"rejected: no tests\"]}",
            "APPROVED\n{\"verdict\":\"rejected\"}",
        ];
        check(None, &none);
    }

    #[test]
    fn praise_that_begins_like_a_denial_is_none() {
        let approved = [
            "APPROVED: nothing to complain about",
            "Approved: nothing is wrong with it",
            "Approved: no issues found",
            "Approved: no further changes needed.",
            "Approved, no problems with the parser",
            "APPROVED \u{2014} none of the earlier problems remain",
            "I approve this change. There are no problems.\nAPPROVED",
            "It does not leak. This is approved.\nAPPROVED: good work!",
            "\u{1f534} Blocking: none\nAPPROVED",
            "Not APPROVED in the last round.\n\nAPPROVED",
            "{\"verdict\":\"approved\",\"reasons\":[\"no mistakes\"],\"issues\":[]}",
        ];
        check(Some(Verdict::Approved), &approved);
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
        fn a_word_before_a_verdict_invalidates_it(word in "[a-zA-Z]{1,12}") {
            prop_assert_eq!(read(&format!("{word} APPROVED.")), None);
        }

        #[test]
        fn a_negated_or_opposite_word_prevents_approval(
            mut lines in prop::collection::vec(r"[-a-zA-Z ,.:()'*]{0,30}", 0..4),
            approval in select(&[
                "APPROVED", "Verdict: Approved", "**APPROVED** - good", "\u{2705} approved", "All is well. APPROVED.",
                "{\"verdict\": \"approved\"}",
            ]),
            doubt in select(&[
                "rejected", "not approved", "not yet Approved", "never approved", "cannot be approved", "isn't approved",
                "unapproved", "disapproved", "no approval", "approved: no", "don't approve", "without approval",
                "approved: \u{274c}", "neither tested nor approved",
            ]),
            around in select(&["{}", "- {}", "It is {}.", "{}: the tests", "> {}", "**{}**", "(so {})", "Verdict: {}"]),
            (at, to, shouts, joins) in (0..9_usize, 0..9_usize, any::<bool>(), any::<bool>()),
        ) {
            lines.retain(|line| !line.trim().is_empty());
            let doubt = if shouts { doubt.to_uppercase() } else { doubt.to_owned() };
            let doubt = around.replace("{}", &doubt);
            lines.insert(at % (lines.len() + 1), approval.to_owned());
            let to = to % (lines.len() + 1);
            // In a line of its own, or after another one.
            match lines.get_mut(to).filter(|line| joins && !line.starts_with('{')) {
                Some(line) => *line = format!("{line}, {doubt}"),
                None => lines.insert(to, doubt),
            }
            prop_assert_ne!(read(&lines.join("\n")), Some(Verdict::Approved));
        }

        #[test]
        fn a_verdict_in_its_own_paragraph_is_read(text in "[^{}]{0,200}") {
            prop_assert_eq!(read(&format!("{text}\n\nAPPROVED")), Some(Verdict::Approved));
            prop_assert_eq!(read(&format!("{text}\n\nREJECTED")), Some(Verdict::Rejected));
        }
    }
}
