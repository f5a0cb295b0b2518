//! A text that two sides changed, line by line.

use std::collections::BTreeMap;
use std::ops::Range;

use gix_imara_diff::{Interner, Token};

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
    /// Whether a text is this merge with these hunks, and nothing else.
    pub fn is_made_of(&self, chosen: &[(usize, Vec<u8>)], text: &[u8]) -> bool {
        let mut chosen: BTreeMap<usize, &Vec<u8>> = chosen.iter().map(|(hunk, text)| (*hunk, text)).collect();
        let mut number = 0;
        let merged = self.clone().resolved(|_| {
            number += 1;
            chosen.remove(&number).cloned()
        });
        merged.clean().is_some_and(|clean| clean == text)
    }

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

/// Where the conflicts of [`TextMerge::lines`] are in the base, ours and theirs: which lines.
pub(super) fn conflict_lines(base: &[u8], ours: &[u8], theirs: &[u8]) -> Vec<[Range<usize>; 3]> {
    let parts = merged_parts(&[base, ours, theirs].map(lines));
    let place = |part| match part {
        MergedPart::Conflict { base, ours, theirs } => Some([base, ours, theirs]),
        MergedPart::Ours(_) | MergedPart::Theirs(_) => None,
    };
    parts.into_iter().filter_map(place).collect()
}

pub(super) fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Base, ours and theirs with hunks resolved, in all three alike; a hunk without a text stays.
pub fn with_resolved(texts: [&[u8]; 3], resolved: &[Option<&[u8]>]) -> [Vec<u8>; 3] {
    let [base, ours, theirs] = texts;
    let sides = texts.map(lines);
    let mut merged = [const { Vec::new() }; 3];
    let mut ends = [0; 3];
    for (at, text) in conflict_lines(base, ours, theirs).iter().zip(resolved) {
        let Some(text) = text else { continue };
        for side in 0..3 {
            merged[side].extend(sides[side][ends[side]..at[side].start].concat());
            merged[side].extend_from_slice(text);
            ends[side] = at[side].end;
        }
    }
    for side in 0..3 {
        merged[side].extend(sides[side][ends[side]..].concat());
    }
    merged
}

fn merged_parts(sides: &[Vec<&[u8]>; 3]) -> Vec<MergedPart> {
    let mut interner: Interner<&[u8]> = Interner::new(sides.iter().map(Vec::len).sum());
    let tokens = sides.each_ref().map(|side| side.iter().map(|item| interner.intern(*item)).collect::<Vec<Token>>());
    let [base, ours, theirs] = &tokens;
    three_way::merge(base, ours, theirs, interner.num_tokens())
}

/// What two changes make of a text in pieces.
pub(super) fn merge_items(sides: [Vec<&[u8]>; 3]) -> Vec<TextPart> {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_changed_apart_are_merged() {
        let merge = TextMerge::lines(b"a\nb\nc\nd\n", b"A\nb\nc\nd\n", b"a\nb\nc\nD");
        assert_eq!(merge.clean().unwrap(), b"A\nb\nc\nD");
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

    #[test]
    fn a_resolved_hunk_is_alike_in_all_sides() {
        let texts: [&[u8]; 3] = [b"1\nkeep\n2\n", b"a\nkeep\nb\n", b"x\nkeep\ny\nz\n"];
        let sides = with_resolved(texts, &[None, Some(b"yb\n")]);
        assert_eq!(
            sides.map(|side| String::from_utf8(side).unwrap()),
            ["1\nkeep\nyb\n", "a\nkeep\nyb\n", "x\nkeep\nyb\n"]
        );
    }

    proptest! {
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
