//! Patches for a terminal, in the colours git gives them.

use anstyle::{AnsiColor, Style};

use super::columns;
use super::session::plain;
use super::style::{BAD, GOOD, HEADING, paint};

/// The line that says where a part of a file is.
const PART: Style = AnsiColor::Cyan.on_default();

/// A patch without what would steer the terminal. Carriage returns are part of lines and stay. Only for a terminal are ids
/// shortened: whole, git takes the patch back.
pub fn shown_patch(patch: &str) -> String {
    patch_for(patch, columns().is_some())
}

fn patch_for(patch: &str, is_terminal: bool) -> String {
    let mut is_part = false;
    let mut shown = String::with_capacity(patch.len());
    for line in patch.split_inclusive('\n') {
        let text = line.trim_end_matches('\n');
        let end = &line[text.len()..];
        let (text, end) =
            text.strip_suffix('\r').filter(|_| !end.is_empty()).map_or((text, end), |text| (text, "\r\n"));
        // Only in front of its parts is a line that begins with `---` no line of the file.
        is_part = if text.starts_with("diff ") { false } else { is_part || text.starts_with("@@") };
        let style = match text.as_bytes().first() {
            _ if !is_part => Some(HEADING),
            Some(b'@') => Some(PART),
            Some(b'+') => Some(GOOD),
            Some(b'-') => Some(BAD),
            _ => None,
        };
        let mut text = plain(text);
        if is_terminal
            && !is_part
            && let Some(ids) = text.strip_prefix("index ")
        {
            text = format!("index {}", ids.split("..").map(short_id).collect::<Vec<_>>().join(".."));
        }
        shown.push_str(&match style {
            Some(style) => paint(style, &text),
            None => text,
        });
        shown.push_str(end);
    }
    shown
}

/// An object's id as it is shown elsewhere, with what stands behind it.
fn short_id(id: &str) -> String {
    let (id, mode) = id.split_once(' ').map_or((id, String::new()), |(id, mode)| (id, format!(" {mode}")));
    id.chars().take(10).collect::<String>() + &mode
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_patch_have_the_colours_of_git() {
        let patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\n--- old\r\n+new\u{1b}[2J\u{202e}\n";
        let shown = patch_for(patch, true);
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
        let index = "index fe87bdd4f32b77a264eb9fb3bd66b9aec59af041..faac6395b0b803d2a26b7cbbc4adb77e2845069d 100644\n";
        assert!(patch_for(index, false).contains(index.trim_end()));
        assert!(patch_for(index, true).contains("index fe87bdd4f3..faac6395b0 100644"));
    }
}
