//! A text that two sides changed: line by line, and within a hunk word by word.

use std::ops::Range;

use gix::diff::blob::{Interner, Token};

use super::three_way::{self, MergedPart};

/// What two changes make of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextMerge {
    /// Its parts, in order.
    pub parts: Vec<TextPart>,
}

/// A part of a merged text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextPart {
    /// Lines nobody disagrees about.
    Clean(Vec<u8>),
    /// Lines both sides changed.
    Conflict(ConflictHunk),
}

/// Lines both sides changed, each in another way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictHunk {
    /// What both started from.
    pub base: Vec<u8>,
    /// What the target has.
    pub ours: Vec<u8>,
    /// What the branch has.
    pub theirs: Vec<u8>,
}

impl TextMerge {
    /// Merges line by line.
    pub fn lines(base: &[u8], ours: &[u8], theirs: &[u8]) -> Self {
        Self { parts: merge_items([base, ours, theirs].map(lines)) }
    }

    /// The hunks in conflict.
    pub fn conflicts(&self) -> impl Iterator<Item = &ConflictHunk> {
        self.parts.iter().filter_map(|part| match part {
            TextPart::Conflict(hunk) => Some(hunk),
            TextPart::Clean(_) => None,
        })
    }

    /// The text, if nothing is in conflict.
    pub fn clean(&self) -> Option<Vec<u8>> {
        let clean = |part: &TextPart| match part {
            TextPart::Clean(text) => Some(text.clone()),
            TextPart::Conflict(_) => None,
        };
        self.parts.iter().map(clean).collect::<Option<Vec<_>>>().map(|parts| parts.concat())
    }

    /// The same with hunks resolved, as far as `resolve` can.
    #[must_use]
    pub fn resolved(self, mut resolve: impl FnMut(&ConflictHunk) -> Option<Vec<u8>>) -> Self {
        let part = |part| match part {
            TextPart::Conflict(hunk) => match resolve(&hunk) {
                Some(text) => TextPart::Clean(text),
                None => TextPart::Conflict(hunk),
            },
            clean => clean,
        };
        Self { parts: self.parts.into_iter().map(part).collect() }
    }
}

impl ConflictHunk {
    /// Merges word by word. None where changes meet there too.
    pub fn by_tokens(&self) -> Option<Vec<u8>> {
        let parts = merge_items([&self.base, &self.ours, &self.theirs].map(|text| words(text)));
        TextMerge { parts }.clean()
    }
}

/// Where the conflicts of [`TextMerge::lines`] are in the base, ours and theirs: which lines.
pub(super) fn conflict_lines(base: &[u8], ours: &[u8], theirs: &[u8]) -> Vec<[Range<usize>; 3]> {
    let parts = merged_parts(&[base, ours, theirs].map(lines));
    let place = |part| match part {
        MergedPart::Conflict { base, ours, theirs } => Some([base, ours, theirs]),
        MergedPart::Ours(_) | MergedPart::Theirs(_) => None,
    };
    parts.into_iter().filter_map(place).collect()
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

fn merged_parts(sides: &[Vec<&[u8]>; 3]) -> Vec<MergedPart> {
    let mut interner: Interner<&[u8]> = Interner::new(sides.iter().map(Vec::len).sum());
    let tokens = sides.each_ref().map(|side| side.iter().map(|item| interner.intern(*item)).collect::<Vec<Token>>());
    let [base, ours, theirs] = &tokens;
    three_way::merge(base, ours, theirs, interner.num_tokens())
}

fn merge_items(sides: [Vec<&[u8]>; 3]) -> Vec<TextPart> {
    let parts = merged_parts(&sides);
    let [base, ours, theirs] = &sides;
    let mut merged: Vec<TextPart> = Vec::new();
    for part in parts {
        let clean = match part {
            MergedPart::Ours(range) => ours[range].concat(),
            MergedPart::Theirs(range) => theirs[range].concat(),
            MergedPart::Conflict { base: was, ours: one, theirs: other } => {
                let hunk =
                    ConflictHunk { base: base[was].concat(), ours: ours[one].concat(), theirs: theirs[other].concat() };
                merged.push(TextPart::Conflict(hunk));
                continue;
            }
        };
        match merged.last_mut() {
            Some(TextPart::Clean(text)) => text.extend(clean),
            _ => merged.push(TextPart::Clean(clean)),
        }
    }
    merged
}

/// A text in pieces that are changed as a whole: words, runs of blanks, line ends, and every other character alone.
fn words(text: &[u8]) -> Vec<&[u8]> {
    #[derive(PartialEq, Clone, Copy)]
    enum Kind {
        Word,
        Blank,
        Other,
    }
    let kind = |byte: u8| match byte {
        b'_' | 0x80.. => Kind::Word,
        byte if byte.is_ascii_alphanumeric() => Kind::Word,
        b' ' | b'\t' => Kind::Blank,
        _ => Kind::Other,
    };
    text.chunk_by(|one, next| kind(*one) == kind(*next) && kind(*one) != Kind::Other).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn conflict(base: &str, ours: &str, theirs: &str) -> ConflictHunk {
        let merge = TextMerge::lines(base.as_bytes(), ours.as_bytes(), theirs.as_bytes());
        merge.conflicts().next().cloned().expect("a conflict")
    }

    #[test]
    fn lines_changed_apart_are_merged() {
        let merge = TextMerge::lines(b"a\nb\nc\nd\n", b"A\nb\nc\nd\n", b"a\nb\nc\nD");
        assert_eq!(merge.clean().unwrap(), b"A\nb\nc\nD");
    }

    #[test]
    fn words_changed_apart_are_merged() {
        let hunk = conflict("call(a, b, c);\n", "call(a, b, c, d);\n", "invoke(a, b, c);\n");
        assert_eq!(String::from_utf8(hunk.by_tokens().unwrap()).unwrap(), "invoke(a, b, c, d);\n");
        assert_eq!(conflict("x = 1\n", "x = 2\n", "x = 3\n").by_tokens(), None);
        assert_eq!(conflict("f(a)\n", "f(a, b)\n", "f(a, c)\n").by_tokens(), None);
        // Both put something behind the same word: which comes first is unknown.
        assert_eq!(conflict("use a;\n", "use a;\nuse b;\n", "use a;\nuse c;\n").by_tokens(), None);
    }

    #[test]
    fn a_resolved_hunk_leaves_the_others() {
        let merge = TextMerge::lines(b"1\nkeep\n2\n", b"a\nkeep\nb\n", b"x\nkeep\ny\n");
        assert_eq!(merge.conflicts().count(), 2);
        let merge = merge.resolved(|hunk| (hunk.base == b"1\n").then(|| b"ax\n".to_vec()));
        assert_eq!((merge.conflicts().count(), merge.clean()), (1, None));
        let merge = merge.resolved(|_| Some(Vec::new()));
        assert_eq!(merge.clean().unwrap(), b"ax\nkeep\n");
    }

    proptest! {
        #[test]
        fn pieces_make_up_the_text(text in any::<Vec<u8>>()) {
            prop_assert_eq!(words(&text).concat(), text);
        }

        #[test]
        fn a_merge_is_the_same_from_both_sides(base in "[ab\n]{0,16}", ours in "[ab\n]{0,16}", theirs in "[ab\n]{0,16}") {
            let [base, ours, theirs] = [&base, &ours, &theirs].map(|text| text.as_bytes());
            let one = TextMerge::lines(base, ours, theirs);
            let other = TextMerge::lines(base, theirs, ours);
            prop_assert_eq!(one.clean(), other.clean());
            let swapped = |hunk: &ConflictHunk| ConflictHunk {
                base: hunk.base.clone(), ours: hunk.theirs.clone(), theirs: hunk.ours.clone(),
            };
            prop_assert_eq!(one.conflicts().cloned().collect::<Vec<_>>(), other.conflicts().map(swapped).collect::<Vec<_>>());
        }
    }
}
