//! Patches for a terminal, in the colours git gives them.

use anstyle::{AnsiColor, Style};

use super::session::plain;
use super::style::{BAD, GOOD, HEADING, paint};

/// The line that says where a part of a file is.
const PART: Style = AnsiColor::Cyan.on_default();

/// A patch without what would steer the terminal. Carriage returns are part of lines and stay.
pub fn shown_patch(patch: &str) -> String {
    let mut is_part = false;
    let mut shown = String::with_capacity(patch.len());
    for line in patch.split_inclusive('\n') {
        let text = line.trim_end_matches('\n');
        let end = &line[text.len()..];
        let (text, end) = text.strip_suffix('\r').filter(|_| !end.is_empty()).map_or((text, end), |text| (text, "\r\n"));
        // Only in front of its parts is a line that begins with `---` no line of the file.
        is_part = if text.starts_with("diff ") { false } else { is_part || text.starts_with("@@") };
        let style = match text.as_bytes().first() {
            _ if !is_part => Some(HEADING),
            Some(b'@') => Some(PART),
            Some(b'+') => Some(GOOD),
            Some(b'-') => Some(BAD),
            _ => None,
        };
        let text = plain(text);
        shown.push_str(&match style {
            Some(style) => paint(style, &text),
            None => text,
        });
        shown.push_str(end);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_patch_have_the_colours_of_git() {
        let patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n--- old\r\n+new\u{1b}[2J\u{202e}\n";
        let shown = shown_patch(patch);
        let lines: Vec<String> = shown.lines().map(|line| line.replace('\u{1b}', "^")).collect();
        let expected = [
            "^[1mdiff --git a/x b/x^[0m",
            "^[1m--- a/x^[0m",
            "^[1m+++ b/x^[0m",
            "^[36m@@ -1,2 +1,2 @@^[0m",
            " same",
            "^[31m--- old^[0m",
            "^[32m+new\u{fffd}[2J\u{fffd}^[0m",
        ];
        assert_eq!(lines, expected);
        assert!(shown.contains("old\u{1b}[0m\r\n"), "the end of a line stays: {shown:?}");
    }
}
