//! What was made of each hunk in conflict: a resolved file, laid against the lines nobody disagreed about.

use std::collections::BTreeSet;
use std::ops::Range;

use gix_imara_diff::{Algorithm, Diff, Interner, Token};

use super::conflict_markers::has_conflict_markers;
use super::text_merge::{TextMerge, TextPart};

/// How many lines around a hunk must be as they were, if others of the file are not.
const CONTEXT: usize = 3;

/// The text chosen for each hunk in conflict, with its number from 1. Hunks around which lines were changed as well, and
/// those that still have markers, are left out.
pub fn learn(merge: &TextMerge, resolved: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let aligned = align(merge, resolved).into_iter().zip(merge.conflicts());
    let chosen = aligned.enumerate().filter_map(|(at, (range, hunk))| {
        let text = &resolved[range?];
        let is_left = has_conflict_markers(text) && !has_conflict_markers(&[&hunk.ours[..], &hunk.theirs].concat());
        (!is_left).then(|| (at + 1, text.to_vec()))
    });
    chosen.collect()
}

/// Where each hunk's text is in a resolved file.
pub(super) fn align(merge: &TextMerge, resolved: &[u8]) -> Vec<Option<Range<usize>>> {
    let frame = CleanFrame::new(merge, resolved);
    let changes = frame.changes();
    let is_hunk = |change: &Replaced| change.before.len() == 1 && frame.hunks.contains(&change.before.start);
    let is_exact = changes.iter().all(is_hunk);
    let mut found: Vec<Option<Range<usize>>> = vec![None; frame.hunks.len()];
    for change in &changes {
        let Ok(hunk) = frame.hunks.binary_search(&change.before.start) else { continue };
        if change.before.len() == 1 && (is_exact || frame.is_intact_around(change.before.start, &changes)) {
            found[hunk] = Some(change.after.clone());
        }
    }
    if !is_exact && let Some(only) = frame.only_placing() {
        found = only.into_iter().map(Some).collect();
    }
    found.into_iter().map(|lines| Some(frame.bytes(&lines?))).collect()
}

/// Lines of the frame that became others.
struct Replaced {
    before: Range<usize>,
    after: Range<usize>,
}

/// A piece of the frame: a line nobody disagrees about, or a hunk in conflict, which equals nothing.
#[derive(Debug, PartialEq, Eq, Hash)]
enum FramePiece<'a> {
    Line(&'a [u8]),
    Hunk(usize),
}

/// The clean lines with the hunks between them, and the resolved lines.
struct CleanFrame {
    pieces: Vec<Token>,
    /// Which of the pieces are hunks.
    hunks: Vec<usize>,
    resolved: Vec<Token>,
    /// Where each resolved line starts, and where the last one ends.
    offsets: Vec<usize>,
    distinct: u32,
}

impl CleanFrame {
    fn new(merge: &TextMerge, resolved: &[u8]) -> Self {
        let mut interner = Interner::new(0);
        let (mut pieces, mut hunks) = (Vec::new(), Vec::new());
        for part in &merge.parts {
            match part {
                TextPart::Clean(text) => pieces.extend(lines(text).map(|line| interner.intern(FramePiece::Line(line)))),
                TextPart::Conflict(_) => {
                    hunks.push(pieces.len());
                    pieces.push(interner.intern(FramePiece::Hunk(hunks.len())));
                }
            }
        }
        let mut offsets = vec![0];
        offsets.extend(lines(resolved).scan(0, |end, line| {
            *end += line.len();
            Some(*end)
        }));
        let resolved = lines(resolved).map(|line| interner.intern(FramePiece::Line(line))).collect();
        Self { pieces, hunks, resolved, offsets, distinct: interner.num_tokens() }
    }

    fn changes(&self) -> Vec<Replaced> {
        let mut diff = Diff::default();
        diff.compute_with(Algorithm::Histogram, &self.pieces, &self.resolved, self.distinct);
        let range = |span: &Range<u32>| span.start as usize..span.end as usize;
        diff.hunks().map(|hunk| Replaced { before: range(&hunk.before), after: range(&hunk.after) }).collect()
    }

    fn bytes(&self, lines: &Range<usize>) -> Range<usize> {
        self.offsets[lines.start]..self.offsets[lines.end]
    }

    /// Whether the lines next to a hunk are as they were, with nothing put between them: then what is between them is the
    /// hunk's.
    fn is_intact_around(&self, hunk: usize, changes: &[Replaced]) -> bool {
        let hunks: BTreeSet<usize> = self.hunks.iter().copied().collect();
        let start = hunks.range(..hunk).next_back().map_or(0, |last| last + 1).max(hunk.saturating_sub(CONTEXT));
        let end = hunks.range(hunk + 1..).next().copied().unwrap_or(self.pieces.len()).min(hunk + 1 + CONTEXT);
        changes.iter().filter(|change| change.before != (hunk..hunk + 1)).all(|Replaced { before, .. }| {
            if before.is_empty() {
                before.start < start || before.start > end
            } else {
                before.end <= start || before.start >= end
            }
        })
    }

    /// The lines of every hunk, if the clean ones are all there and fit in one way only.
    fn only_placing(&self) -> Option<Vec<Range<usize>>> {
        let mut edges = vec![0];
        edges.extend(self.hunks.iter().flat_map(|hunk| [*hunk, hunk + 1]));
        edges.push(self.pieces.len());
        let clean: Vec<&[Token]> = edges.chunks_exact(2).map(|edge| &self.pieces[edge[0]..edge[1]]).collect();
        let (first, last) = (*clean.first()?, *clean.last()?);
        let end = self.resolved.len().checked_sub(last.len())?;
        if clean.len() < 2 || !self.resolved.starts_with(first) || !self.resolved.ends_with(last) || first.len() > end {
            return None;
        }
        let middle = &clean[1..clean.len() - 1];
        let (mut from, mut leftmost) = (first.len(), Vec::new());
        for part in middle {
            let at = (from..=end.checked_sub(part.len())?).find(|at| self.resolved[*at..].starts_with(part))?;
            leftmost.push(at);
            from = at + part.len();
        }
        let mut to = end;
        for (part, leftmost) in middle.iter().zip(&leftmost).rev() {
            let at = (first.len()..=to.checked_sub(part.len())?).rfind(|at| self.resolved[*at..].starts_with(part))?;
            if at != *leftmost {
                return None;
            }
            to = at;
        }
        let starts = std::iter::once(first.len()).chain(leftmost.iter().zip(middle).map(|(at, part)| at + part.len()));
        Some(starts.zip(leftmost.iter().copied().chain([end])).map(|(start, end)| start..end).collect())
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn merge(base: &str, ours: &str, theirs: &str) -> TextMerge {
        TextMerge::lines(base.as_bytes(), ours.as_bytes(), theirs.as_bytes())
    }

    fn learned(merge: &TextMerge, resolved: &str) -> Vec<(usize, String)> {
        let text = |(hunk, text)| (hunk, String::from_utf8(text).unwrap());
        learn(merge, resolved.as_bytes()).into_iter().map(text).collect()
    }

    fn two_hunks() -> TextMerge {
        merge("1\na\nb\nc\nd\ne\n2\n", "o1\na\nb\nc\nd\ne\no2\n", "t1\na\nb\nc\nd\ne\nt2\n")
    }

    #[test]
    fn the_text_of_each_hunk_is_found() {
        let all = learned(&two_hunks(), "o1\nt1\na\nb\nc\nd\ne\n");
        assert_eq!(all, [(1, "o1\nt1\n".to_owned()), (2, String::new())]);
    }

    #[test]
    fn hunks_with_changes_beside_them_are_left_out() {
        let one = learned(&two_hunks(), "o1\nA\nb\nc\nd\ne\nt2\n");
        assert_eq!(one, [(2, "t2\n".to_owned())], "a line beside the first was changed");
        assert_eq!(learned(&two_hunks(), "o1\nx\n"), [], "the lines between them are gone");
    }

    #[test]
    fn lines_like_those_around_belong_to_the_hunk() {
        let merge = merge("f {\nx\n}\n", "f {\no\n}\n", "f {\nt\n}\n");
        let both = learned(&merge, "f {\no\n}\nf {\nt\n}\n");
        assert_eq!(both, [(1, "o\n}\nf {\nt\n".to_owned())]);
    }

    #[test]
    fn hunks_that_are_still_marked_are_left_out() {
        let marked = "<<<<<<< ours\no1\n=======\nt1\n>>>>>>> theirs\na\nb\nc\nd\ne\no2\n";
        assert_eq!(learned(&two_hunks(), marked), [(2, "o2\n".to_owned())]);
    }

    fn applied(merge: &TextMerge, chosen: &[(usize, Vec<u8>)]) -> Option<Vec<u8>> {
        let mut number = 0;
        let resolved = merge.clone().resolved(|_| {
            number += 1;
            chosen.iter().find(|(hunk, _)| *hunk == number).map(|(_, text)| text.clone())
        });
        resolved.clean()
    }

    proptest! {
        #[test]
        fn what_was_learned_makes_the_same_file(
            base in "([abcd]\n){0,12}", ours in "([abcd]\n){0,12}", theirs in "([abcd]\n){0,12}",
            texts in proptest::collection::vec("([abcdx]\n){0,3}", 12),
        ) {
            let merge = merge(&base, &ours, &theirs);
            let mut texts = texts.into_iter();
            let resolved = merge.clone().resolved(|_| texts.next().map(String::into_bytes)).clean().unwrap();
            let chosen = learn(&merge, &resolved);
            if chosen.len() == merge.conflicts().count() {
                prop_assert_eq!(applied(&merge, &chosen), Some(resolved));
            }
        }

        #[test]
        fn every_hunk_between_lines_of_their_own_is_learned(
            sides in proptest::collection::vec((any::<bool>(), "[op]{1,3}", "[tu]{1,3}"), 1..20),
            texts in proptest::collection::vec("([xy]\n){0,3}", 20),
        ) {
            let text = |side: usize| sides.iter().enumerate().map(|(at, (is_conflict, ours, theirs))| {
                let line = [format!("base {at}"), ours.clone(), theirs.clone()][if *is_conflict { side } else { 0 }].clone();
                format!("{line}\nkeep {at}\n")
            }).collect::<String>();
            let merge = merge(&text(0), &text(1), &text(2));
            let mut given = texts.iter();
            let resolved = merge.clone().resolved(|_| given.next().map(|text| text.clone().into_bytes())).clean().unwrap();
            let expected: Vec<(usize, Vec<u8>)> =
                texts.into_iter().take(merge.conflicts().count()).enumerate().map(|(at, text)| (at + 1, text.into_bytes())).collect();
            prop_assert_eq!(learn(&merge, &resolved), expected);
        }
    }
}
