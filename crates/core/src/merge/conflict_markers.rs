//! Conflicts shown in a text, as `git merge` does with `merge.conflictStyle=zdiff3`: what both sides start or end with in
//! common is outside of the markers.

use super::text_merge::{ConflictHunk, TextMerge, TextPart};

/// How long a marker is at least. Those of a conflict within another are longer.
const LENGTH: usize = 7;

/// What the sides are called at the markers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictLabels {
    /// The side that is merged into.
    pub ours: String,
    /// What both started from.
    pub base: String,
    /// The side that is merged.
    pub theirs: String,
}

impl Default for ConflictLabels {
    fn default() -> Self {
        Self { ours: "ours".into(), base: "base".into(), theirs: "theirs".into() }
    }
}

/// A merged text, with the hunks that are left between markers.
pub fn marked_text(merge: &TextMerge, labels: &ConflictLabels) -> Vec<u8> {
    let part = |part: &TextPart| match part {
        TextPart::Clean(text) => text.clone(),
        TextPart::Conflict(hunk) => marked_hunk(hunk, labels),
    };
    merge.parts.iter().map(part).collect::<Vec<_>>().concat()
}

/// A hunk between markers, with the lines around them that both sides have.
pub fn marked_hunk(hunk: &ConflictHunk, labels: &ConflictLabels) -> Vec<u8> {
    let [ours, theirs] = [&hunk.ours, &hunk.theirs].map(|side| lines(side));
    let shortest = ours.len().min(theirs.len());
    let head = ours.iter().zip(&theirs).take_while(|(one, other)| one == other).count();
    let tails = ours.iter().rev().zip(theirs.iter().rev());
    let tail = tails.take_while(|(one, other)| one == other).count().min(shortest - head);
    let has_cr = [&hunk.ours, &hunk.base, &hunk.theirs].iter().any(|text| text.ends_with(b"\r\n"));
    let end: &[u8] = if has_cr { b"\r\n" } else { b"\n" };
    let mut text = ours[..head].concat();
    let mut section = |mark: &str, label: &str, lines: &[&[u8]]| {
        let blank = if label.is_empty() { "" } else { " " };
        text.extend([mark.repeat(LENGTH).as_bytes(), blank.as_bytes(), label.as_bytes(), end].concat());
        text.extend(lines.concat());
        // A last line without an end must not swallow the marker below it.
        if lines.last().is_some_and(|line| !line.ends_with(b"\n")) {
            text.extend(end);
        }
    };
    section("<", &labels.ours, &ours[head..ours.len() - tail]);
    section("|", &labels.base, &lines(&hunk.base));
    section("=", "", &theirs[head..theirs.len() - tail]);
    section(">", &labels.theirs, &[]);
    text.extend(ours[ours.len() - tail..].concat());
    text
}

/// Whether a text has the markers of an unresolved conflict.
pub fn has_conflict_markers(text: &[u8]) -> bool {
    let is_marker = |line: &[u8]| {
        let Some(mark) = line.first().filter(|mark| matches!(mark, b'<' | b'>')) else { return false };
        let length = line.iter().take_while(|byte| *byte == mark).count();
        length >= LENGTH && line.get(length) == Some(&b' ')
    };
    text.split(|byte| *byte == b'\n').any(is_marker)
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(base: &str, ours: &str, theirs: &str) -> String {
        let merge = TextMerge::lines(base.as_bytes(), ours.as_bytes(), theirs.as_bytes());
        let labels = ConflictLabels { ours: "main".into(), base: "before".into(), theirs: "feature".into() };
        String::from_utf8(marked_text(&merge, &labels)).unwrap()
    }

    #[test]
    fn common_lines_are_outside_of_the_markers() {
        let text = marked("a\nx\nb\n", "a\n1\n2\n3\nb\n", "a\n1\n9\n3\nb\n");
        let expected = "a\n1\n<<<<<<< main\n2\n||||||| before\nx\n=======\n9\n>>>>>>> feature\n3\nb\n";
        assert_eq!(text, expected);
        // What repeats is not taken out twice.
        let text = marked("", "1\n1\n", "1\n1\n1\n");
        assert_eq!(text, "1\n1\n<<<<<<< main\n||||||| before\n=======\n1\n>>>>>>> feature\n");
    }

    #[test]
    fn markers_have_lines_of_their_own() {
        let text = marked("x", "ours", "theirs");
        assert_eq!(text, "<<<<<<< main\nours\n||||||| before\nx\n=======\ntheirs\n>>>>>>> feature\n");
        let text = marked("a\r\nx\r\n", "a\r\n1\r\n", "a\r\n2\r\n");
        assert!(text.contains("\r\n<<<<<<< main\r\n1\r\n||||||| before\r\n"), "{text:?}");
    }

    #[test]
    fn markers_are_found_at_the_beginning_of_lines() {
        assert!(has_conflict_markers(b"a\n<<<<<<< ours\nb\n=======\nc\n>>>>>>> theirs\n"));
        assert!(has_conflict_markers(b"a\n>>>>>>> theirs"));
        assert!(has_conflict_markers(b"<<<<<<<< ours:g.txt\n"));
        assert!(!has_conflict_markers(b"Title\n=======\na <<<<<<< b\n"));
    }
}
