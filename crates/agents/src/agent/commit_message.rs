//! The message of a turn's commit, from the agent's own words and the paths it changed.

use super::imperative::{imperative, is_imperative};
use super::intent::sentences;
use pleach_core::ids::{ContextId, NodeId, RepoPath};
use pleach_core::text::counted;

/// The most characters of a first line.
const SUBJECT: usize = 72;

/// The most characters of a line below it.
const WIDTH: usize = 72;

/// How many lines of a command a message shows.
const COMMAND_LINES: usize = 30;

/// How many paths a message names.
const PATHS: usize = 10;

/// A commit message without trailers: a first line in the imperative, a blank line, a description. Whatever goes in,
/// the first line has 1 to 72 characters, no line looks like a trailer, and there are no control characters.
///
/// `are_new` says that none of the paths was there before.
pub fn commit_message(intent: &str, paths: &[RepoPath], are_new: bool) -> String {
    let words = clean(intent);
    let subject = spoken(&words).unwrap_or_else(|| subject_of_paths(paths, are_new));
    with_body(subject, &words, paths)
}

/// The same for work on a merge conflict: unless the agent `is_speaking` of it, it is named after the branch and its
/// conflicting files. A change without paths is that of the marks alone.
pub fn resolution_message(
    intent: &str,
    is_speaking: bool,
    branch: &ContextId,
    conflicting: &[RepoPath],
    paths: &[RepoPath],
    are_new: bool,
) -> String {
    let files: Vec<&RepoPath> = conflicting.iter().filter(|path| paths.is_empty() || paths.contains(path)).collect();
    if files.is_empty() {
        return commit_message(intent, paths, are_new);
    }
    let (words, does) = (clean(intent), if paths.is_empty() { "Mark" } else { "Resolve" });
    let subject = spoken(&words).filter(|_| is_speaking).unwrap_or_else(|| subject_of_conflict(does, branch, &files));
    with_body(subject, &words, paths)
}

fn with_body(subject: String, words: &str, paths: &[RepoPath]) -> String {
    let mut body = Vec::new();
    let plain = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let said_all = plain.trim_end_matches(['.', '!']) == subject;
    if !plain.is_empty() && !said_all {
        body.push(plain);
    }
    if !paths.is_empty() {
        body.push(list_of_paths(paths));
    }
    let body: Vec<String> = body.iter().map(|paragraph| wrap(paragraph)).filter(|text| !text.is_empty()).collect();
    [subject].into_iter().chain(body).collect::<Vec<_>>().join("\n\n")
}

/// What words give as a first line, where they say what was done.
fn spoken(words: &str) -> Option<String> {
    let order = sentences(words).find_map(imperative).map(|text| cut_subject(&text));
    order.filter(|text| text.contains(' ') && guard(text) == *text)
}

/// Whether words say what was done, as a first line must.
pub(super) fn says_what_was_done(intent: &str) -> bool {
    spoken(&clean(intent)).is_some()
}

/// The message of a commit that the command of a node made, named after the node and its label. The command stands below
/// as it was written, indented and never wrapped: it may be copied from there.
pub fn command_message(node: &NodeId, label: &str, command: &str, paths: &[RepoPath]) -> String {
    let label = clean(label).split_whitespace().collect::<Vec<_>>().join(" ");
    let is_own = !label.is_empty() && !label.eq_ignore_ascii_case(node.as_str());
    let subject = if is_own { format!("Run {node}: {label}") } else { format!("Run {node}") };
    let mut parts = vec![cut_subject(&subject)];
    let command = visible(command.trim());
    if !command.is_empty() {
        parts.push(indented(&command));
    }
    if !paths.is_empty() {
        parts.push(wrap(&list_of_paths(paths)));
    }
    parts.join("\n\n")
}

/// Subjects that say nothing.
const EMPTY_WORDS: [&str; 12] = [
    "auto-commit",
    "auto commit",
    "update files",
    "update code",
    "make changes",
    "commit changes",
    "apply changes",
    "update",
    "changes",
    "wip",
    "fix",
    "misc",
];

/// A message another author wrote, in the form of ours: first line in the imperative with 1 to 72 characters, a blank
/// line, a description; no line looks like a trailer. Otherwise what is wrong with it.
///
/// `typed` keeps the type before a first line, such as `feat: `.
pub(super) fn checked_message(said: &str, typed: bool) -> Result<String, String> {
    let text = visible(said);
    let lines: Vec<&str> =
        text.lines().map(str::trim_end).filter(|line| !line.trim_start().starts_with("```")).collect();
    let text = lines.join("\n");
    let (first, rest) = text.trim().split_once('\n').unwrap_or((text.trim(), ""));
    let first = first.trim_matches(['"', '`', '*', '#', ' ']).trim_end_matches(['.', ' ']);
    let (kind, order) = split_type(first);
    let order = capital(order);
    let subject = match kind.filter(|_| typed) {
        Some(kind) => format!("{kind}: {}", small(&order)),
        None => order.clone(),
    };
    if order.is_empty() {
        return Err("it is empty".into());
    }
    let length = subject.chars().count();
    if length > SUBJECT {
        return Err(format!("its first line has {}, {SUBJECT} is the most", counted(length, "character")));
    }
    if EMPTY_WORDS.contains(&order.to_lowercase().as_str()) {
        return Err("its first line does not say what was done".into());
    }
    if !is_imperative(&order) {
        return Err("its first line is not in the imperative mood".into());
    }
    if guard(&order) != order {
        return Err("its first line looks like a trailer".into());
    }
    if !rest.is_empty() && !rest.starts_with('\n') {
        return Err("its second line is not blank".into());
    }
    // Trailers are ours to write: who the model thanks or signs for is left out.
    let paragraphs: Vec<String> = rest.split("\n\n").map(described).filter(|text| !text.is_empty()).collect();
    if paragraphs.is_empty() {
        return Err("it has no description below the first line".into());
    }
    Ok([subject].into_iter().chain(paragraphs).collect::<Vec<_>>().join("\n\n"))
}

/// A paragraph without trailers, its lists kept, its long lines wrapped.
fn described(paragraph: &str) -> String {
    let trailer = |line: &str| {
        let token = line.split(": ").next().unwrap_or_default().to_ascii_lowercase();
        token.ends_with("-by") && line.contains(": ")
    };
    let lines = paragraph.lines().map(str::trim).filter(|line| !line.is_empty() && !trailer(line));
    let mut blocks: Vec<String> = Vec::new();
    for line in lines {
        match blocks.last_mut().filter(|_| !line.starts_with(['-', '*'])) {
            Some(block) => {
                block.push(' ');
                block.push_str(line);
            }
            None => blocks.push(line.to_owned()),
        }
    }
    blocks.iter().map(|block| wrap(block)).collect::<Vec<_>>().join("\n")
}

/// The type some put before a subject, and the rest: `feat(parser): add x` is `feat(parser)` and `add x`.
fn split_type(subject: &str) -> (Option<&str>, &str) {
    const TYPES: [&str; 11] =
        ["feat", "fix", "docs", "style", "refactor", "perf", "test", "build", "ci", "chore", "revert"];
    let split = subject.split_once(": ").filter(|(kind, _)| {
        let kind = kind.trim_end_matches('!');
        let kind = kind.split_once('(').map_or(kind, |(kind, _)| kind);
        TYPES.contains(&kind.to_lowercase().as_str())
    });
    split.map_or((None, subject), |(kind, rest)| (Some(kind), rest.trim()))
}

/// Whether most subjects have a type before them.
pub(super) fn are_typed(subjects: &[String]) -> bool {
    let typed = subjects.iter().filter(|subject| split_type(subject).0.is_some()).count();
    typed > 0 && typed * 2 >= subjects.len()
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn small(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// The lines that say something, below each other.
fn indented(command: &str) -> String {
    let lines: Vec<&str> = command.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let shown = lines.iter().take(COMMAND_LINES).map(|line| format!("    {line}"));
    let more = lines.len().saturating_sub(COMMAND_LINES);
    let more = (more > 0).then(|| format!("    … {}", counted(more, "more line")));
    shown.chain(more).collect::<Vec<_>>().join("\n")
}

/// Words without markdown, and without what [`visible`] takes out.
fn clean(text: &str) -> String {
    let text = visible(text).replace("**", "").replace("```", "");
    let line = |line: &str| line.trim().trim_start_matches(['#', '>', '*', '-', '=', '_', ' ']).to_owned();
    text.lines().map(line).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// A text without control characters, line ends aside, and without characters that change how others are shown.
fn visible(text: &str) -> String {
    let hidden =
        |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let shown = |c: char| match c {
        '\u{2019}' => '\'',
        c if c.is_control() && c != '\n' => ' ',
        c => c,
    };
    text.chars().filter(|c| !hidden(*c)).map(shown).collect()
}

/// Cuts a subject to its length, at a pause where there is one.
fn cut_subject(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut short = text.as_str();
    if let Some((limit, _)) = text.char_indices().nth(SUBJECT) {
        // One character more, so that a word that ends right at the limit stays whole.
        let end = limit + text[limit..].chars().next().map_or(0, char::len_utf8);
        let window = &text[..end];
        let pauses =
            [", ", "; ", ": ", " \u{2014} ", " - ", " (", " so that ", " which ", " because ", " by ", " and "];
        let pause = pauses.iter().filter_map(|pause| window.rfind(pause)).filter(|at| *at >= 20).max();
        let space = window.rfind(' ').filter(|at| *at >= 20);
        short = &text[..pause.or(space).unwrap_or(limit)];
    }
    let mut short = short.to_owned();
    if short.matches('`').count() % 2 == 1 {
        short.retain(|c| c != '`');
    }
    // Nothing is left hanging at the end.
    loop {
        let end = short.trim_end_matches(|c: char| c.is_whitespace() || ".,:;-(\u{2014}".contains(c)).len();
        short.truncate(end);
        let Some(less) = HANGING.iter().find_map(|word| short.strip_suffix(word)) else { return short };
        short.truncate(less.len());
    }
}

/// Words a subject does not end with.
const HANGING: &[&str] =
    &[" and", " or", " the", " a", " an", " to", " of", " with", " in", " for", " so", " that", " by", " which"];

fn shown(path: &RepoPath) -> String {
    visible(&path.to_string()).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn subject_of_paths(paths: &[RepoPath], are_new: bool) -> String {
    let fits = |text: &String| text.chars().count() <= SUBJECT;
    let does = if are_new { "Add" } else { "Update" };
    match paths {
        [] => "Record the work of this turn".into(),
        [path] => {
            let path = shown(path);
            let name = path.rsplit('/').next().unwrap_or_default();
            let candidates = [format!("{does} {path}"), format!("{does} {name}")];
            candidates
                .into_iter()
                .find(|text| fits(text) && text.len() > does.len() + 1 && guard(text) == *text)
                .unwrap_or_else(|| format!("{does} one file"))
        }
        paths => {
            let count = format!("{does} {}", counted(paths.len(), "file"));
            let inside = common_directory(paths).map(|dir| format!("{count} in {}/", shown(&RepoPath::new(dir))));
            inside.filter(fits).unwrap_or(count)
        }
    }
}

fn subject_of_conflict(does: &str, branch: &ContextId, files: &[&RepoPath]) -> String {
    let names = files.iter().map(|path| shown(path)).collect::<Vec<_>>().join(", ");
    let count = counted(files.len(), "file");
    let candidates =
        [format!("{does} the conflict of {branch} in {names}"), format!("{does} the conflict of {branch} in {count}")];
    let fits = |text: &String| text.chars().count() <= SUBJECT && guard(text) == *text;
    candidates.into_iter().find(fits).unwrap_or_else(|| format!("{does} a conflict in {count}"))
}

/// The deepest directory that holds all paths, if it is not the root.
fn common_directory(paths: &[RepoPath]) -> Option<Vec<u8>> {
    let parts = |path: &RepoPath| {
        let mut parts: Vec<Vec<u8>> = path.as_bytes().split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect();
        parts.pop();
        parts
    };
    let mut common = parts(paths.first()?);
    for path in &paths[1..] {
        let other = parts(path);
        let same = common.iter().zip(&other).take_while(|(one, two)| one == two).count();
        common.truncate(same);
    }
    (!common.is_empty()).then(|| common.join(&b'/'))
}

fn list_of_paths(paths: &[RepoPath]) -> String {
    let mut names: Vec<String> = paths.iter().take(PATHS).map(shown).collect();
    if paths.len() > PATHS {
        names.push(format!("{} more", paths.len() - PATHS));
    }
    let last = names.pop().unwrap_or_default();
    if names.is_empty() { format!("Changes {last}.") } else { format!("Changes {} and {last}.", names.join(", ")) }
}

fn wrap(paragraph: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in paragraph.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| guard(line)).collect::<Vec<_>>().join("\n")
}

/// A line that git could take for a trailer, or for the end of the message, as a list item.
fn guard(line: &str) -> String {
    let token = line.split(':').next().unwrap_or_default().trim_end();
    let is_token = !token.is_empty() && token.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let looks = (line.contains(':') && is_token) || line.starts_with("(cherry picked") || line.starts_with("---");
    if looks { format!("- {line}") } else { line.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn paths(names: &[&str]) -> Vec<RepoPath> {
        names.iter().map(|name| RepoPath::from(*name)).collect()
    }

    fn subject(intent: &str) -> String {
        commit_message(intent, &paths(&["src/a.rs"]), false).lines().next().unwrap().to_owned()
    }

    #[test]
    fn work_on_a_conflict_names_branch_and_files() {
        let (branch, conflicting) = (ContextId::new("b").unwrap(), paths(&["a.txt", "src/b.rs"]));
        let subject = |intent: &str, names: &[&str]| {
            let message = resolution_message(intent, true, &branch, &conflicting, &paths(names), false);
            message.lines().next().unwrap().to_owned()
        };
        assert_eq!(subject("", &[]), "Mark the conflict of b in a.txt, src/b.rs");
        assert_eq!(subject("", &["a.txt", "c.txt"]), "Resolve the conflict of b in a.txt");
        assert_eq!(subject("", &["c.txt"]), "Update c.txt");
        assert_eq!(subject("Keep both greetings.", &["a.txt"]), "Keep both greetings");
        let long = paths(&["x".repeat(80).as_str()]);
        let message = resolution_message("Write x", false, &branch, &long, &long, false);
        assert!(message.starts_with("Resolve the conflict of b in 1 file\n"), "{message}");
    }

    #[test]
    fn words_become_orders() {
        for (said, subject_) in [
            ("I'll add a parser for durations.", "Add a parser for durations"),
            ("Added the parser.", "Add the parser"),
            ("Adding tests for it", "Add tests for it"),
            ("I've implemented retry logic in `client.rs`.", "Implement retry logic in `client.rs`"),
            ("Let me fix the failing test.", "Fix the failing test"),
            ("Sure! First, I'll start by creating the module.", "Create the module"),
            ("Great. Now I\u{2019}m going to rewrite it.", "Rewrite it"),
            ("Using the new API everywhere", "Use the new API everywhere"),
            ("Copied the file", "Copy the file"),
            ("Dropped support for v1", "Drop support for v1"),
            ("## Fixed: nothing to say\nUpdates the docs.", "Update the docs"),
            ("**Refactored** the loop", "Refactor the loop"),
            ("I wrote the plan to PLAN.md", "Write the plan to PLAN.md"),
            ("Write src/a.rs, edit b.rs", "Write src/a.rs, edit b.rs"),
        ] {
            assert_eq!(subject(said), subject_, "{said}");
        }
    }

    #[test]
    fn without_an_order_the_paths_speak() {
        for said in ["", "The parser looks right now.", "Done.", "I", "   \n\n", "Add", "Additional words", "Added ,`"]
        {
            assert_eq!(subject(said), "Update src/a.rs", "{said}");
        }
        let message = |names: &[&str]| commit_message("", &paths(names), false).lines().next().unwrap().to_owned();
        assert_eq!(message(&["src/x/a.rs", "src/x/b.rs", "src/y.rs"]), "Update 3 files in src/");
        assert_eq!(message(&["a", "src/b"]), "Update 2 files");
        assert_eq!(message(&["_x"]), "Update _x");
        assert_eq!(message(&["-"]), "Update -");
        assert_eq!(message(&[&format!("{}/a.rs", "d".repeat(100))]), "Update a.rs");
        assert_eq!(message(&[&"d".repeat(100)]), "Update one file");
        assert_eq!(commit_message("", &[], false), "Record the work of this turn");
    }

    #[test]
    fn a_long_subject_is_split_at_a_pause() {
        let said = "I'll add a duration parser with units and checks, so that timeouts can be written as people say them, \
                    and then use it in the configuration.";
        let message = commit_message(said, &paths(&["src/a.rs", "b"]), false);
        insta::assert_snapshot!(message, @r"
        Add a duration parser with units and checks

        I'll add a duration parser with units and checks, so that timeouts can
        be written as people say them, and then use it in the configuration.

        Changes src/a.rs and b.
        ");
    }

    #[test]
    fn nothing_looks_like_a_trailer() {
        let said = "Fix it\nSigned-off-by: Mallory <m@x>\nOrchestra-Turn: main.1\n---\nReviewed-by:x";
        let message = commit_message(said, &paths(&["x:y", "Acked-by: z"]), false);
        for line in message.lines() {
            assert_eq!(guard(line), line, "{message}");
        }
    }

    #[test]
    fn a_command_stands_below_the_name_of_its_node() {
        let node = NodeId::new("check").expect("a node's id");
        let message = |label: &str, command: &str| command_message(&node, label, command, &paths(&["a.txt"]));
        assert_eq!(message("Check", "make **/*.o"), "Run check\n\n    make **/*.o\n\nChanges a.txt.");
        assert_eq!(message("Count\nwords", "wc"), "Run check: Count words\n\n    wc\n\nChanges a.txt.");
        assert_eq!(message("check", ""), "Run check\n\nChanges a.txt.");
        let subject = message(&"word ".repeat(40), "wc").lines().next().map(|line| line.chars().count());
        assert!(subject.is_some_and(|chars| chars <= SUBJECT), "{subject:?}");
        let long = format!("printf '%s\\n' {} > a.txt && git status --porcelain", "word ".repeat(30).trim());
        assert!(message("", &long).contains(&format!("\n\n    {long}\n\nChanges a.txt.")), "{}", message("", &long));
        insta::assert_snapshot!(message("", "set -e\n\nfor f in *; do\n  echo \"Signed-off-by: $f\"\n---\ndone\n"), @r#"
        Run check

            set -e
            for f in *; do
              echo "Signed-off-by: $f"
            ---
            done

        Changes a.txt.
        "#);
        assert!(message("", &"x\n".repeat(40)).contains("    … 10 more lines"));
    }

    /// Source row "Commit message format": first line under 72 characters, imperative mood, blank line, description.
    #[test]
    fn a_written_message_is_held_to_its_form() {
        let good = [
            ("Add a parser\n\nIt reads x.", "Add a parser\n\nIt reads x."),
            ("```\nAdd a parser.\n\nIt reads x.\n```", "Add a parser\n\nIt reads x."),
            ("feat(parser)!: add a parser\n\nIt reads x.", "Add a parser\n\nIt reads x."),
            ("\"Add it all\"\n\n- one\n- two\n  more", "Add it all\n\n- one\n- two more"),
            ("Embed the page\n\nWhy not.\n\nCo-authored-by: A <a@b>", "Embed the page\n\nWhy not."),
            ("Add a note\n\nNote: it is one.", "Add a note\n\n- Note: it is one."),
        ];
        for (said, text) in good {
            assert_eq!(checked_message(said, false).as_deref(), Ok(text), "{said}");
        }
        let long = format!("Add {}\n\nx", "y".repeat(70));
        let bad = [
            ("", "empty"),
            ("  \n\n", "empty"),
            ("Added a parser\n\nx", "imperative"),
            ("Adds a parser\n\nx", "imperative"),
            ("Adding a parser\n\nx", "imperative"),
            ("Reworked the parser\n\nx", "imperative"),
            ("I add a parser\n\nx", "imperative"),
            ("Parser\n\nx", "imperative"),
            // Longer in lower case than as it stands.
            ("İndirme—düzelt\n\nx", "imperative"),
            ("auto-commit\n\nx", "does not say"),
            ("Update files\n\nx", "does not say"),
            ("Add a parser", "no description"),
            ("Add a parser\n\nSigned-off-by: A <a@b>", "no description"),
            ("Add a parser\nIt reads x.", "not blank"),
            (long.as_str(), "has 74 characters"),
        ];
        for (said, why) in bad {
            let wrong = checked_message(said, false).unwrap_err();
            assert!(wrong.contains(why), "{said}: {wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_written_message_that_passes_has_the_form(said in prop_oneof!["[A-Za-z:`#\\-\\n .]{0,200}", "[İA-z—é ]{0,9}\\PC{0,40}\n\nx", any::<String>()]) {
            if let Ok(text) = checked_message(&said, false) {
                let lines: Vec<&str> = text.lines().collect();
                prop_assert!((1..=SUBJECT).contains(&lines[0].chars().count()) && lines[1].is_empty() && lines.len() > 2);
                prop_assert!(lines[2..].iter().all(|line| guard(line) == **line), "{text}");
            }
        }

        #[test]
        fn every_message_of_a_command_is_fit_for_git(command in prop_oneof!["\\PC{0,300}", any::<String>()]) {
            let node = NodeId::new("check").expect("a node's id");
            let message = command_message(&node, &command, &command, &paths(&["x:y"]));
            let lines: Vec<&str> = message.split('\n').collect();
            prop_assert!((1..=SUBJECT).contains(&lines[0].chars().count()), "{message:?}");
            prop_assert!(lines.len() == 1 || lines[1].is_empty());
            prop_assert!(!message.chars().any(|c| c.is_control() && c != '\n'), "{message:?}");
            prop_assert!(!message.contains("\n\n\n") && !message.ends_with('\n'), "{message:?}");
            prop_assert!(lines.iter().all(|line| guard(line) == *line), "{message:?}");
        }

        #[test]
        fn every_message_is_fit_for_git(
            intent in prop_oneof!["\\PC{0,300}", "(I'll|Added|Fix|Let me write) [a-z`,.: \n\t\u{7}-]{0,200}", any::<String>()],
            names in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..15),
        ) {
            let paths: Vec<RepoPath> = names.into_iter().map(RepoPath::new).collect();
            let message = commit_message(&intent, &paths, false);
            let lines: Vec<&str> = message.split('\n').collect();
            prop_assert!((1..=SUBJECT).contains(&lines[0].chars().count()), "{message:?}");
            prop_assert!(!lines[0].trim().is_empty());
            prop_assert!(lines.len() == 1 || lines[1].is_empty());
            prop_assert!(!message.chars().any(|c| c.is_control() && c != '\n'), "{message:?}");
            prop_assert!(!message.contains("\n\n\n") && !message.ends_with('\n'));
            prop_assert!(lines.iter().all(|line| guard(line) == *line && *line == line.trim_end()), "{message:?}");
            prop_assert!(!message.to_lowercase().starts_with("auto-commit"));
        }
    }
}
