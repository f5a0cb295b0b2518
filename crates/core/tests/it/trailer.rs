//! Commit messages, read by us and by git itself.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use pleach_core::ids::RepoPath;
use pleach_core::merge::{MergeOrigin, ResolvedHunk, Tier};
use pleach_core::trailer::{CommitMessage, TurnFacts};
use proptest::collection::vec;
use proptest::prelude::*;

fn message(subject: &str, body: &str, trailers: &[(&str, &str)]) -> CommitMessage {
    let trailers = trailers.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    CommitMessage { subject: subject.into(), body: body.into(), trailers }
}

/// Runs the git program, without anybody's configuration.
fn git(dir: &Path, args: &[&str], input: &str) -> String {
    let mut command = crate::real_git::command();
    let nowhere = if cfg!(windows) { "NUL" } else { "/dev/null" };
    command.args(args).current_dir(dir).env("LC_ALL", "C");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", nowhere);
    for (name, value) in [("NAME", "pleach"), ("EMAIL", "pleach@local")] {
        command.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("git is installed");
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    // A git that stops reading early has said so by its output.
    let _ = writer.join().unwrap();
    assert!(output.status.success(), "git {args:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The trailers git finds in a message.
fn parsed_by_git(dir: &Path, text: &str) -> Vec<(String, String)> {
    let lines = git(dir, &["interpret-trailers", "--parse"], text);
    let split = |line: &str| {
        let (key, value) = line.split_once(':').unwrap_or_else(|| panic!("{line}"));
        (key.to_owned(), value.trim_ascii().to_owned())
    };
    lines.lines().map(split).collect()
}

const STEP: [(&str, &str); 3] =
    [("Arborist-Step", "test"), ("Arborist-Test", "fail"), ("Pleach-Tree", "a b/\u{e4}.json")];

const SCISSORS: &str = "# ------------------------ >8 ------------------------";

fn nasty_bodies() -> Vec<String> {
    let mut bodies: Vec<String> = [
        "",
        "Plain words.",
        "Arborist-Step: complete\nArborist-Result: pass",
        "Words.\n\nArborist-Step: complete\nArborist-Result: pass",
        "Signed-off-by: A <a@b>\n\n\n\nReviewed-by: B <b@c>",
        "---",
        "---\nhidden?",
        "--- FAIL: TestGreeting (0.00s)\n    greet_test.go:7: no",
        "before\n---\n diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@",
        " ---\n  --- two\n\t---",
        "----\n---x",
        "one\r\ntwo\r\n---\r\nthree\r\n",
        "\u{e4}\u{f6}\u{fc} \u{65e5}\u{672c} \u{1f333}\n\u{a0}\n\u{a0}Key: value",
        "\"quoted\" 'single' `tick` \\back $dollar %percent",
        "# a comment\n#not: one\n#",
        "Conflicts:\n\tsrc/a.rs\n\tsrc/b.rs",
        "(cherry picked from commit 0123456789abcdef0123456789abcdef01234567)",
        "<<<<<<< ours\n=======\n>>>>>>> theirs",
        "   \n\n  indented\n   \n",
        "\rlone\rcarriage\rreturns",
        "nul\0inside",
        "[Key: value]\nKey:value\n: no key\nkey with blanks: value",
    ]
    .map(str::to_owned)
    .into();
    bodies.push(format!("above\n{SCISSORS}\nbelow"));
    bodies.push(format!("{SCISSORS}\n"));
    bodies.push("0123456789abcdef line of a long log\n--- and a divider\n".repeat(20_000));
    bodies
}

/// A body as a commit can hold it.
fn normal(body: &str) -> String {
    let lines: Vec<String> =
        body.split('\n').map(|line| line.trim_end_matches('\r').replace('\0', "\u{fffd}")).collect();
    lines.join("\n").trim_matches('\n').trim_end().to_owned()
}

#[test]
fn git_finds_exactly_our_trailers_whatever_the_body_holds() {
    let dir = tempfile::tempdir().unwrap();
    for body in nasty_bodies() {
        let written = message("test \"greeting\"", &body, &STEP);
        let shown: String = body.chars().take(200).collect();
        assert_eq!(parsed_by_git(dir.path(), &written.write()), written.trailers, "{shown:?}");
        assert_eq!(
            CommitMessage::read(&written.write()),
            CommitMessage { body: normal(&body), ..written },
            "{shown:?}"
        );
    }
}

#[test]
fn git_finds_our_trailers_whatever_the_subject_is() {
    let dir = tempfile::tempdir().unwrap();
    for subject in ["---", "--- a/x", "Key: value", "# hash", SCISSORS, "task(main@T001@test-fail): tests fail"] {
        let written = message(subject, "body", &STEP);
        assert_eq!(parsed_by_git(dir.path(), &written.write()), written.trailers, "{subject}");
        assert_eq!(CommitMessage::read(&written.write()), written, "{subject}");
    }
}

#[test]
fn messages_survive_a_commit() {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "-q"], "");
    let tree = git(dir.path(), &["mktree"], "");
    for body in nasty_bodies() {
        let written = message("turn main.1: greet", &body, &STEP);
        let commit = git(dir.path(), &["commit-tree", "-F", "-", tree.trim()], &written.write());
        let raw = git(dir.path(), &["cat-file", "commit", commit.trim()], "");
        let text = raw.split_once("\n\n").unwrap().1;
        assert_eq!(text, written.write());
        let listed = git(dir.path(), &["log", "-1", "--format=%(trailers:only,unfold)", commit.trim()], "");
        let ours: String = written.trailers.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
        assert_eq!(listed.trim_end(), ours.trim_end());
    }
}

#[test]
fn git_finds_the_trailers_of_a_merge() {
    let dir = tempfile::tempdir().unwrap();
    let paths: [&[u8]; 7] = [
        b"src/a.rs",
        b"a b",
        b" edge  of\tblanks ",
        b"#1=agent",
        b"\"quoted\"\\",
        "\u{e4}\u{2028}".as_bytes(),
        b"\xff: \n\nx: y",
    ];
    let hunk =
        |(at, path): (usize, &&[u8])| ResolvedHunk { path: RepoPath::new(*path), hunk: at, source: Tier::Tokens };
    let origin = MergeOrigin { tier: Tier::Structural, resolved: paths.iter().enumerate().map(hunk).collect() };
    for body in nasty_bodies() {
        let written = CommitMessage { subject: "Merge task".into(), body, trailers: origin.trailers() };
        assert_eq!(parsed_by_git(dir.path(), &written.write()), written.trailers);
        assert_eq!(MergeOrigin::read(&CommitMessage::read(&written.write())), Some(origin.clone()));
    }
}

#[test]
fn trailers_of_others_are_found_below_a_divider() {
    let text = "task(T009): tests fail for \"Sort the list\" (attempt 2/5)\n\nTest (unit) stdout (last 1000 chars):\n\
                --- FAIL: TestSort (0.00s)\n---\nFAIL\n\nArborist-Step: test\nArborist-Test: fail\nArborist-Retry: 1\n";
    let message = CommitMessage::read(text);
    assert_eq!(message.trailer("Arborist-Test"), Some("fail"));
    assert!(message.body.ends_with("--- FAIL: TestSort (0.00s)\n---\nFAIL"), "{}", message.body);
}

/// A text, its subject, body and trailers.
type Taken = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Messages shaped like those of the original Arborist.
#[test]
fn step_commits_are_taken_apart() {
    let table: [Taken; 5] = [
        (
            "task(T007): implement \"Parse dates\"\n\nRunner output (truncated to 2000 chars):\nWrote dates.py with a parser.\n\n\
             Arborist-Step: implement\nArborist-Result: pass\nArborist-Retry: 0\n",
            "task(T007): implement \"Parse dates\"",
            "Runner output (truncated to 2000 chars):\nWrote dates.py with a parser.",
            &[("Arborist-Step", "implement"), ("Arborist-Result", "pass"), ("Arborist-Retry", "0")],
        ),
        (
            "task(T007): tests fail for \"Parse dates\" (attempt 1/5)\n\nTest (unit) stderr (last 1000 chars):\n\
             FAILED test_leap - 29 is no day: ValueError\n\nTest (unit) stdout (last 1000 chars):\nRan 9 tests in 0.4s\n\n\
             Arborist-Step: test\nArborist-Test: fail\nArborist-Retry: 0\nArborist-Test-Runtime: 0.4\n\
             Arborist-Test-Log: spec/logs/T007_test_20260301T101112.log",
            "task(T007): tests fail for \"Parse dates\" (attempt 1/5)",
            "Test (unit) stderr (last 1000 chars):\nFAILED test_leap - 29 is no day: ValueError\n\n\
             Test (unit) stdout (last 1000 chars):\nRan 9 tests in 0.4s",
            &[
                ("Arborist-Step", "test"),
                ("Arborist-Test", "fail"),
                ("Arborist-Retry", "0"),
                ("Arborist-Test-Runtime", "0.4"),
                ("Arborist-Test-Log", "spec/logs/T007_test_20260301T101112.log"),
            ],
        ),
        (
            "task(T007): failed \"Parse dates\" after 5 retries\n\nArborist-Step: complete\nArborist-Result: fail\n",
            "task(T007): failed \"Parse dates\" after 5 retries",
            "",
            &[("Arborist-Step", "complete"), ("Arborist-Result", "fail")],
        ),
        (
            "task(T007): review approved for \"Parse dates\"\r\n\r\nReview:\r\nGood: it is short.\r\nAPPROVED.\r\n\r\n\
             Arborist-Step: review\r\nArborist-Review: approved\r\n",
            "task(T007): review approved for \"Parse dates\"",
            "Review:\nGood: it is short.\nAPPROVED.",
            &[("Arborist-Step", "review"), ("Arborist-Review", "approved")],
        ),
        (
            "Tidy up\nand more\n\nJust: words\nand no trailers\n",
            "Tidy up and more",
            "Just: words\nand no trailers",
            &[],
        ),
    ];
    for (text, subject, body, trailers) in table {
        assert_eq!(CommitMessage::read(text), message(subject, body, trailers));
    }
}

#[test]
fn any_text_is_a_message() {
    let table: [(&str, CommitMessage); 14] = [
        ("", message("", "", &[])),
        ("\n\n \t\n", message("", "", &[])),
        ("\r", message("", "", &[])),
        ("\0", message("", "", &[])),
        ("---", message("---", "", &[])),
        ("---\n", message("---", "", &[])),
        ("a\n\n---", message("a", "---", &[])),
        ("a\n\n ---", message("a", "---", &[])),
        ("Key: value", message("Key: value", "", &[])),
        ("Key: value\nOther: one\n", message("Key: value Other: one", "", &[])),
        ("\n\na\n\nKey: value\n\n\n", message("a", "", &[("Key", "value")])),
        ("a\n\nKey: one\n  two\n\tthree\n", message("a", "", &[("Key", "one two three")])),
        ("a\n\n  Key: one\n", message("a", "  Key: one", &[])),
        ("a\n\nKey :one\nEmpty:\n", message("a", "", &[("Key", "one"), ("Empty", "")])),
    ];
    for (text, read) in table {
        assert_eq!(CommitMessage::read(text), read, "{text:?}");
    }
}

#[test]
fn the_newest_trailer_counts_and_names_have_no_case() {
    let message = message("a", "", &[("Key", "old"), ("KEY", "new"), ("Other", "x")]);
    assert_eq!(message.trailer("key"), Some("new"));
    assert_eq!(message.trailer("missing"), None);
}

/// Text that fits one line, without blanks at its ends or two in a row.
fn words() -> impl Strategy<Value = String> {
    vec("[!-~äß日🌳\u{a0}]{1,9}", 1..6).prop_map(|words| words.join(" "))
}

fn trailers() -> impl Strategy<Value = Vec<(String, String)>> {
    vec(("[A-Za-z0-9][A-Za-z0-9-]{0,12}", prop_oneof![9 => words(), 1 => Just(String::new())]), 1..5)
}

fn body() -> impl Strategy<Value = String> {
    let bodies = nasty_bodies();
    let lines: Vec<String> =
        bodies[..bodies.len() - 1].iter().flat_map(|body| body.split('\n')).map(str::to_owned).collect();
    let line = prop_oneof![2 => proptest::sample::select(lines), 1 => any::<String>(), 1 => " {0,3}-{1,5} ?[a-z]{0,3}"];
    vec(line, 0..9).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_messages_read_back(subject in words(), body in body(), trailers in trailers()) {
        let written = CommitMessage { subject, body, trailers };
        let read = CommitMessage::read(&written.write());
        prop_assert_eq!(&read, &CommitMessage { body: normal(&written.body), ..written.clone() });
        prop_assert_eq!(read.write(), written.write());
    }

    #[test]
    fn reading_never_panics_and_settles(text in any::<String>(), body in body()) {
        for text in [text.clone(), body.clone(), format!("{text}\n\n{body}\n\nKey: {text}")] {
            let read = CommitMessage::read(&text);
            // Without trailers, a last paragraph that looks like some cannot be distinguished from them.
            if !read.subject.is_empty() && !read.trailers.is_empty() {
                let again = CommitMessage::read(&read.write());
                prop_assert_eq!(again.write(), read.write());
            }
        }
    }

    #[test]
    fn subject_and_trailers_stay_on_their_lines(subject in any::<String>(), value in any::<String>()) {
        let written = message(&format!("a{subject}"), "", &[("Key", &format!("v{value}"))]).write();
        prop_assert_eq!(written.matches('\n').count(), 3, "{:?}", written);
        let breaks = written.contains(|c: char| c != '\n' && c.is_control());
        prop_assert!(!breaks);
        let read = CommitMessage::read(&written);
        prop_assert!(read.subject.starts_with('a'));
        prop_assert!(read.trailer("Key").is_some_and(|value| value.starts_with('v')));
    }

    #[test]
    fn turn_facts_round_trip(
        model in words(),
        provider in words(),
        node in "[A-Za-z_][A-Za-z0-9_]{0,12}",
        pipeline in "[a-z0-9-]{1,12}",
        session in "[a-z2-7]{8}",
        number in 1..u64::MAX,
        body in body(),
    ) {
        let facts = TurnFacts {
            model,
            provider,
            node: node.parse().unwrap(),
            pipeline: pipeline.parse().unwrap(),
            session: session.parse().unwrap(),
            turn: format!("main.{number}").parse().unwrap(),
        };
        let message = CommitMessage { subject: "Add a greeting".into(), body, trailers: facts.trailers() };
        prop_assert_eq!(TurnFacts::read(&CommitMessage::read(&message.write())), Some(facts.clone()));
        for missing in 0..6 {
            let mut trailers = facts.trailers();
            trailers.remove(missing);
            prop_assert_eq!(TurnFacts::read(&CommitMessage { trailers, ..message.clone() }), None);
        }
    }
}

#[test]
fn git_and_we_agree_on_random_messages() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let dir = tempfile::tempdir().unwrap();
    let mut runner = TestRunner::deterministic();
    for _ in 0..40 {
        let drawn = (words(), body(), trailers()).new_tree(&mut runner).unwrap().current();
        let written = CommitMessage { subject: drawn.0, body: drawn.1, trailers: drawn.2 };
        assert_eq!(parsed_by_git(dir.path(), &written.write()), written.trailers, "{:?}", written.write());
    }
}
