//! Two changes to one sequence, woven into one, or told apart where they meet.

use std::ops::Range;

use gix_imara_diff::{Algorithm, Diff, Token};

/// A part of what two changes make of a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MergedPart {
    /// These items of ours: nobody changed them, or only we did, or both in the same way.
    Ours(Range<usize>),
    /// These items of theirs: only they changed them.
    Theirs(Range<usize>),
    /// Both changed them, each in another way, or one right beside the other.
    Conflict { base: Range<usize>, ours: Range<usize>, theirs: Range<usize> },
}

/// A change of a side: what it replaced, and by what.
#[derive(Debug, Clone)]
struct Change {
    base: Range<usize>,
    side: Range<usize>,
}

/// Both changes to a sequence of items. Two that touch are in conflict: what comes first there, nobody knows.
pub(super) fn merge(base: &[Token], ours: &[Token], theirs: &[Token], items: u32) -> Vec<MergedPart> {
    let [mut our_changes, mut their_changes] =
        [ours, theirs].map(|side| changes(base, side, items).into_iter().peekable());
    let mut parts = WovenParts::default();
    // How far the base is covered, and by how much each side is ahead of it there.
    let mut covered = 0;
    let (mut our_shift, mut their_shift) = (0isize, 0isize);
    loop {
        let start = match (our_changes.peek(), their_changes.peek()) {
            (None, None) => break,
            (Some(one), None) | (None, Some(one)) => one.base.start,
            (Some(one), Some(other)) => one.base.start.min(other.base.start),
        };
        parts.ours(shifted(covered, our_shift)..shifted(start, our_shift));
        let mut end = start;
        let (mut of_ours, mut of_theirs) = (None::<Change>, None::<Change>);
        // All that is connected, each with what touches it.
        loop {
            let touches = |change: &Change| change.base.start <= end;
            if let Some(change) = our_changes.next_if(touches) {
                end = end.max(change.base.end);
                extend(&mut of_ours, change);
            } else if let Some(change) = their_changes.next_if(touches) {
                end = end.max(change.base.end);
                extend(&mut of_theirs, change);
            } else {
                break;
            }
        }
        let our_range = shifted(start, our_shift)..end_on_side(end, &of_ours, our_shift);
        let their_range = shifted(start, their_shift)..end_on_side(end, &of_theirs, their_shift);
        match (&of_ours, &of_theirs) {
            (Some(_), None) => parts.ours(our_range.clone()),
            (None, Some(_)) => parts.theirs(their_range.clone()),
            _ if ours[our_range.clone()] == theirs[their_range.clone()] => parts.ours(our_range.clone()),
            _ => parts.0.push(MergedPart::Conflict {
                base: start..end,
                ours: our_range.clone(),
                theirs: their_range.clone(),
            }),
        }
        our_shift = signed(our_range.end) - signed(end);
        their_shift = signed(their_range.end) - signed(end);
        covered = end;
    }
    parts.ours(shifted(covered, our_shift)..ours.len());
    parts.0
}

/// The parts so far, with neighbours of one kind as one.
#[derive(Default)]
struct WovenParts(Vec<MergedPart>);

impl WovenParts {
    fn ours(&mut self, range: Range<usize>) {
        match self.0.last_mut() {
            _ if range.is_empty() => {}
            Some(MergedPart::Ours(last)) if last.end == range.start => last.end = range.end,
            _ => self.0.push(MergedPart::Ours(range)),
        }
    }

    fn theirs(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.0.push(MergedPart::Theirs(range));
        }
    }
}

fn changes(base: &[Token], side: &[Token], items: u32) -> Vec<Change> {
    let mut diff = Diff::default();
    diff.compute_with(Algorithm::Histogram, base, side, items);
    let range = |span: &Range<u32>| span.start as usize..span.end as usize;
    diff.hunks().map(|hunk| Change { base: range(&hunk.before), side: range(&hunk.after) }).collect()
}

fn extend(total: &mut Option<Change>, change: Change) {
    match total {
        Some(total) => (total.base.end, total.side.end) = (change.base.end, change.side.end),
        None => *total = Some(change),
    }
}

/// Where a stretch of the base ends on a side: behind its last change there, the side has the base.
fn end_on_side(end: usize, changed: &Option<Change>, shift: isize) -> usize {
    match changed {
        Some(change) => change.side.end + (end - change.base.end),
        None => shifted(end, shift),
    }
}

fn shifted(at: usize, shift: isize) -> usize {
    at.checked_add_signed(shift).expect("a side is nowhere before its beginning")
}

fn signed(at: usize) -> isize {
    isize::try_from(at).expect("no sequence is longer than memory")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What two changes make of a text of letters, with conflicts in brackets.
    fn merged(base: &str, ours: &str, theirs: &str) -> String {
        let tokens = |text: &str| text.bytes().map(|byte| Token(u32::from(byte))).collect::<Vec<_>>();
        let parts = merge(&tokens(base), &tokens(ours), &tokens(theirs), 256);
        let part = |part: &MergedPart| match part {
            MergedPart::Ours(range) => ours[range.clone()].to_owned(),
            MergedPart::Theirs(range) => theirs[range.clone()].to_owned(),
            MergedPart::Conflict { base: was, ours: one, theirs: other } => {
                format!("[{}|{}|{}]", &ours[one.clone()], &base[was.clone()], &theirs[other.clone()])
            }
        };
        parts.iter().map(part).collect()
    }

    #[test]
    fn changes_apart_are_both_made() {
        assert_eq!(merged("abcdef", "aXcdef", "abcdYf"), "aXcdYf");
        assert_eq!(merged("abcdef", "bcdef", "abcde"), "bcde");
        assert_eq!(merged("abc", "abc", "aXbc"), "aXbc");
        assert_eq!(merged("", "", ""), "");
    }

    #[test]
    fn the_same_change_is_made_once() {
        assert_eq!(merged("abc", "aXc", "aXc"), "aXc");
        assert_eq!(merged("abc", "ac", "ac"), "ac");
    }

    #[test]
    fn changes_that_meet_are_in_conflict() {
        assert_eq!(merged("abc", "aXc", "aYc"), "a[X|b|Y]c");
        assert_eq!(merged("abcd", "aXcd", "abYd"), "a[Xc|bc|bY]d");
        assert_eq!(merged("ab", "aXb", "aYb"), "a[X||Y]b");
        assert_eq!(merged("", "X", "Y"), "[X||Y]");
        assert_eq!(merged("abcdefg", "aXcdefg", "abcdYfg"), "aXcdYfg");
    }

    proptest! {
        #[test]
        fn one_sided_changes_are_taken(base in "[a-d]{0,12}", side in "[a-d]{0,12}") {
            prop_assert_eq!(merged(&base, &side, &base), side.clone());
            prop_assert_eq!(merged(&base, &base, &side), side.clone());
            prop_assert_eq!(merged(&base, &side, &side), side);
        }

        #[test]
        fn the_sides_are_in_the_parts(base in "[a-d]{0,10}", ours in "[a-d]{0,10}", theirs in "[a-d]{0,10}") {
            let swapped = merged(&base, &theirs, &ours);
            let of_ours = merged(&base, &ours, &theirs);
            prop_assert_eq!(of_ours.matches('[').count(), swapped.matches('[').count());
        }
    }
}
