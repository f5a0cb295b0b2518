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
            check(Some(verdict), &[&form.replace("{}", word), &format!("Some words.\n\n{}", form.replace("{}", word))]);
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
        ("The table has no key. REJECTED because rows are lost.", "because rows are lost."),
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
fn an_approval_with_reasons_is_read() {
    let approved = [
        "VERDICT: APPROVED",
        "`VERDICT: APPROVED`",
        "**VERDICT: APPROVED**",
        "- The API does not change\n- Nothing leaks\nVERDICT: APPROVED",
        "1. It is tested.\n2. It is good. The API does not change\nVERDICT: APPROVED",
        "**Verdict: APPROVED** with minor suggestions: consider extracting the helper",
        "The first attempt was rejected because of the missing index; this fixes it. APPROVED",
        "APPROVED. This does not merge the two code paths, which is fine.",
        "Bad tokens are rejected with 401 now. APPROVED",
        "The last round was REJECTED for its names, which are good now. APPROVED.",
        "APPROVED. However, a later change could rename the helper.",
        "APPROVED. If you touch this again, rename the helper.",
        "APPROVED because the tests cover every branch.",
        "APPROVED with one small nit: the name of the test.",
        "APPROVED and ready to merge.",
        "Looks good to me \u{2014} APPROVED",
        "The diff is small and well tested, APPROVED.",
        "The verdict is APPROVED.",
        "My final verdict is **APPROVED**.",
        "| Verdict | APPROVED |",
        "## Verdict: APPROVED\n\nThe parser is right, and its tests would fail without it.",
        "## Verdict\n\n**APPROVED**\n\n### Remarks\n- `parse` could be shorter.\n- The docs are short.",
        "VERDICT: APPROVED\n\nThanks for the careful tests!",
        "VERDICT: REJECTED was what I said last time.\n\nThe index is there now.\n\nVERDICT: APPROVED",
        "> VERDICT: REJECTED\n\nThat is fixed.\n\nVERDICT: APPROVED",
        "```diff\n+VERDICT: REJECTED\n```\nThat line is a test's.\n\nVERDICT: APPROVED",
        "Empty input is not handled, but the task does not ask for it.\n\nVERDICT: APPROVED",
        "Would it survive a restart? Yes.\nVERDICT: APPROVED",
        "Code review verdict: Approved \u{1f389}",
    ];
    check(Some(Verdict::Approved), &approved);
}

#[test]
fn a_rejection_with_reasons_is_read() {
    let rejected = [
        "VERDICT: REJECTED",
        "The code is approved by its tests alone, and they test nothing.\n\nVERDICT: REJECTED",
        "## Verdict: REJECTED\n\nThe index is missing, and rows are lost.",
        "REJECTED with regret: rows are lost.",
        "The verdict is REJECTED.",
        "Rows are lost, so I have to say no \u{2014} REJECTED",
        "VERDICT: APPROVED was too early.\n\nVERDICT: REJECTED",
        "It could be APPROVED with an index. VERDICT: REJECTED",
        "**Verdict:** Rejected due to the missing index",
    ];
    check(Some(Verdict::Rejected), &rejected);
}

#[test]
fn what_only_speaks_of_approval_is_no_verdict() {
    let none = [
        "VERDICT: APPROVED once the index is there",
        "VERDICT: APPROVED, provided the index is added",
        "VERDICT: APPROVED after the names are changed",
        "VERDICT: APPROVED unless CI is red",
        "VERDICT: APPROVED if CI is green",
        "VERDICT: cannot be APPROVED",
        "VERDICT: APPROVED with changes",
        "VERDICT: APPROVED with required changes: add an index",
        "VERDICT: APPROVED for merging once CI is green",
        "VERDICT: APPROVED\nif the index is added",
        "VERDICT: APPROVED\n- only if the index is added",
        "VERDICT: APPROVED. But only if the index is added.",
        "VERDICT: APPROVED. Provided that the index is added.",
        "VERDICT: APPROVED. Not!",
        "VERDICT: APPROVED, but\nonly if the index is added",
        "VERDICT: APPROVED\n\n(only if the index is added)",
        "VERDICT: APPROVED, except for the parser",
        "VERDICT: APPROVED-ish",
        "VERDICT: APPROVED in part",
        "VERDICT: APPROVED pending an index",
        "VERDICT: APPROVED or VERDICT: REJECTED",
        "VERDICT: APPROVED | REJECTED",
        "VERDICT: APPROVED\nor\nVERDICT: REJECTED",
        "VERDICT: APPROVED?",
        "VERDICT: APPROVED, right?",
        "VERDICT: not yet APPROVED",
        "VERDICT: PARTIALLY APPROVED",
        "VERDICT: APPROVED. Wait, the index is missing.",
        "VERDICT: APPROVED\n\nOn second thought, the index is missing.",
        "VERDICT: APPROVED\n\nNo, this cannot be approved.",
        "VERDICT: APPROVED \u{274c}",
        "VERDICT: ~~APPROVED~~",
        "+VERDICT: APPROVED",
        "-VERDICT: APPROVED",
        "// VERDICT: APPROVED",
        "<!-- VERDICT: APPROVED -->",
        "I will not write:\n\nVERDICT: APPROVED",
        "The author writes:\n\"VERDICT: APPROVED\"",
        "The commit says \"Done. VERDICT: APPROVED. Merge it.\" and proves nothing.",
        "\"APPROVED\" is what the commit says.",
        "> The author says\nVERDICT: APPROVED",
        "The page shows\nStatus: approved\n\nbut nothing is stored.",
        "Fix the index, and the next round will be APPROVED.",
        "Add an index to get APPROVED",
        "With an index, APPROVED",
        "I see no way to call this done, APPROVED",
        "I wish I could say this is APPROVED",
        "I reject this.\nVERDICT: APPROVED",
        "Reject.\nVERDICT: APPROVED",
        "{\"verdict\": \"approved\", \"reasons\": [\"this cannot be approved\"]}",
        "I looked at all of it and found it good.",
    ];
    check(None, &none);
}

#[test]
fn an_approval_that_is_taken_back_is_none() {
    let replies = [
        "The parser is good. Approved.\n\n```\nVERDICT: REJECTED\n```",
        "Approved.\n\n> VERDICT: REJECTED",
        "VERDICT: APPROVED\n\n> On second look: VERDICT: REJECTED",
        "VERDICT: REJECTED\n\nApproved: parser, docs.\nNeeds work: tests, index.",
        "REJECTED\n\nApproved: docs.",
        "VERDICT: APPROVED. But only if the index is added, as discussed.",
        "VERDICT: APPROVED. If, and only if, the index is added.",
        "VERDICT: APPROVED. Provided, of course, that the index is added.",
        "VERDICT: APPROVED. Once the index is there, that is.",
        "APPROVED. But not yet, the index is missing.",
        "VERDICT: APPROVED\nNot for merging.",
        "VERDICT: APPROVED\n\nnot yet: the index is missing",
        "VERDICT: APPROVED with the exception of the parser, which must be rewritten",
        "VERDICT: APPROVED with the following change: add an index",
        "VERDICT: APPROVED with the proviso that an index is added",
        "VERDICT: APPROVED with a blocking issue",
        "VERDICT: APPROVED as a proof of concept, not for merging",
        "VERDICT: APPROVED; contingent on the index",
        "VERDICT: APPROVED; on condition that the index is added",
        "{\"verdict\": \"approved\", \"reasons\": \"All good.\\nREJECTED: no tests\"}",
        "{\"verdict\": \"approved\", \"reasons\": \"I would not call this \\\"approved\\\"\"}",
    ];
    check(None, &replies);
    check(
        Some(Verdict::Approved),
        &["REJECTED at first.\n\nIt is fixed now.\n\nAPPROVED", "APPROVED. If you like, rename it."],
    );
    check(Some(Verdict::Rejected), &["REJECTED bad", "REJECTED no tests were added"]);
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
            "not approved", "not yet Approved", "never approved", "cannot be approved", "isn't approved",
            "unapproved", "disapproved", "no approval", "approved: no", "don't approve", "without approval",
            "approved: \u{274c}", "neither tested nor approved",
        ]),
        around in select(&["{}", "- {}", "It is {}.", "{}: the tests", "**{}**", "(so {})", "Verdict: {}"]),
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
