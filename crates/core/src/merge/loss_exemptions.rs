//! What the check of losses lets pass, because the merge says how it came about.

use std::collections::BTreeSet;

use super::alignment::align;
use super::conflict_markers::has_conflict_markers;
use super::merge_origin::ResolvedHunk;
use super::text_merge::{TextMerge, conflict_lines};
use super::tier::Tier;
use crate::config::DerivedRules;
use crate::ids::RepoPath;

/// What a merge names as resolved or made again.
#[derive(Debug, Clone, Default)]
pub struct LossExemptions {
    /// Hunks that were resolved. Derived files are not exempt by being named here.
    pub resolved: Vec<ResolvedHunk>,
    /// The files whose commands have run in the result.
    pub derived: DerivedRules,
    /// The files in which lines may be added beside the hunks.
    pub extended: BTreeSet<RepoPath>,
}

impl LossExemptions {
    /// Whether a file is exempt as a whole. One merged by its lines alone was no choice of anybody's, and has to have all of
    /// both sides.
    pub(super) fn is_whole(&self, path: &RepoPath) -> bool {
        let is_exempt = |source: Tier| !matches!(source, Tier::Tokens | Tier::Derived);
        let is_named = |hunk: &ResolvedHunk| hunk.path == *path && hunk.hunk == 0 && is_exempt(hunk.source);
        self.resolved.iter().any(is_named) || self.derived.command_of(path).is_some()
    }

    /// The hunks of a file that are exempt.
    pub(super) fn hunks(&self, path: &RepoPath) -> BTreeSet<usize> {
        self.resolved.iter().filter(|hunk| hunk.path == *path && hunk.hunk > 0).map(|hunk| hunk.hunk).collect()
    }
}

/// Base, ours, theirs and result of a file without some of its hunks. One that is not found in the result, because lines
/// beside it are others, or still has markers there, stays.
pub(super) fn without_hunks(texts: [&[u8]; 4], hunks: &BTreeSet<usize>) -> [Vec<u8>; 4] {
    let [base, ours, theirs, merged] = texts;
    let sides = [base, ours, theirs].map(lines);
    let merge = TextMerge::lines(base, ours, theirs);
    let mut kept = [(); 4].map(|()| Vec::new());
    let mut ends = [0; 4];
    let placed = align(&merge, merged).into_iter().zip(conflict_lines(base, ours, theirs));
    for (number, (place, at)) in placed.enumerate() {
        let place =
            place.filter(|place| hunks.contains(&(number + 1)) && !has_conflict_markers(&merged[place.clone()]));
        let Some(place) = place else { continue };
        for side in 0..3 {
            kept[side].extend(sides[side][ends[side]..at[side].start].concat());
            ends[side] = at[side].end;
        }
        kept[3].extend(&merged[ends[3]..place.start]);
        ends[3] = place.end;
    }
    for side in 0..3 {
        kept[side].extend(sides[side][ends[side]..].concat());
    }
    kept[3].extend(&merged[ends[3]..]);
    kept
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(merged: &str, hunks: &[usize]) -> [String; 4] {
        let base = "1\na\nb\n2\nc\n";
        let texts = [base, "o1\na\nb\no2\nc\n", "t1\na\nb\nt2\nc\n", merged].map(str::as_bytes);
        without_hunks(texts, &hunks.iter().copied().collect()).map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn named_hunks_are_taken_out_of_all_texts() {
        let cut = without("new\na\nb\no2\nc\n", &[1]);
        assert_eq!(cut, ["a\nb\n2\nc\n", "a\nb\no2\nc\n", "a\nb\nt2\nc\n", "a\nb\no2\nc\n"]);
        assert_eq!(without("x\na\nb\ny\nz\nc\n", &[1, 2]), ["a\nb\nc\n"; 4]);
        assert_eq!(without("x\na\nb\nc\n", &[])[3], "x\na\nb\nc\n");
    }

    #[test]
    fn a_file_merged_by_its_lines_is_checked_whole() {
        let is_exempt = |source| {
            let hunk = ResolvedHunk { path: "a".into(), hunk: 0, source };
            LossExemptions { resolved: vec![hunk], ..LossExemptions::default() }.is_whole(&"a".into())
        };
        let tiers = [Tier::Tokens, Tier::Derived, Tier::Structural, Tier::Agent];
        assert_eq!(tiers.map(is_exempt), [false, false, true, true]);
    }

    #[test]
    fn hunks_that_are_not_found_stay() {
        let merged = "x\nA\nB\no2\nc\n";
        assert_eq!(without(merged, &[1])[3], merged, "the lines beside it are others");
        let marked = "<<<<<<< o\no1\n=======\nt1\n>>>>>>> t\na\nb\no2\nc\n";
        assert_eq!(without(marked, &[1])[3], marked);
    }
}
