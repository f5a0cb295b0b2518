//! The lines of a file that both sides of a merge changed: how often each may be in the result. Where lines are is not
//! looked at, so what merged them is not asked and cannot be wrong in the same way. Words of lines are counted as well.

use gix_imara_diff::{Algorithm, Diff, Interner, Token};

use super::loss_finding::{MergeFault, MergeSides};
use super::word_merge::words;

/// The four texts of a file.
pub(super) struct Texts<'a> {
    pub base: &'a [u8],
    pub ours: &'a [u8],
    pub theirs: &'a [u8],
    pub merged: &'a [u8],
}

/// How often a side added a line, and how often it removed it.
#[derive(Debug, Clone, Copy, Default)]
struct LineDelta {
    added: i64,
    removed: i64,
}

/// How often a line is in each text.
#[derive(Debug, Clone, Copy, Default)]
struct LineCount {
    base: i64,
    ours: i64,
    theirs: i64,
    merged: i64,
}

/// Whether a text has all lines that both sides added, and none that one of them removed.
pub fn keeps_lines(base: &[u8], ours: &[u8], theirs: &[u8], merged: &[u8]) -> bool {
    keeps(check_lines(&Texts { base, ours, theirs, merged }))
}

/// The same for words: both sides may have changed a line, each other words of it.
pub fn keeps_words(base: &[u8], ours: &[u8], theirs: &[u8], merged: &[u8]) -> bool {
    let split = |text| words(text).into_iter().filter(|word| word.iter().any(u8::is_ascii_alphanumeric)).collect();
    keeps(check(Lines::read(&Texts { base, ours, theirs, merged }, split)))
}

fn keeps(faults: Vec<MergeFault>) -> bool {
    faults.iter().all(|fault| matches!(fault, MergeFault::LinesInvented(_) | MergeFault::LinesRepeated(_)))
}

/// Checks that each line was added and removed as often as the side that did so more often, and no more often than both
/// together.
pub(super) fn check_lines(texts: &Texts<'_>) -> Vec<MergeFault> {
    check(Lines::read(texts, |text| {
        let has_none = text.is_empty();
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        text.split(|byte| *byte == b'\n').skip(usize::from(has_none)).collect()
    }))
}

fn check(lines: Lines<'_>) -> Vec<MergeFault> {
    let counts = lines.counts();
    let mut wrong: Vec<usize> = (0..counts.len()).filter(|line| !counts[*line].is_within_net()).collect();
    let is_one_sided = wrong.is_empty() && (lines.merged == lines.ours || lines.merged == lines.theirs);
    if wrong.is_empty() && !is_one_sided {
        return Vec::new();
    }
    let alignments = Alignments { ours: lines.alignments(&lines.ours), theirs: lines.alignments(&lines.theirs) };
    if is_one_sided {
        return lines.check_one_sided(&alignments).into_iter().collect();
    }
    // By the texts alone, a line that one side moved and the other removed was only removed.
    wrong.retain(|line| !alignments.pairs().any(|(ours, theirs)| counts[*line].is_within(ours[*line], theirs[*line])));
    faults(wrong.into_iter().map(|line| (lines.texts[line], counts[line])))
}

/// What a side did to each line; what it moved it removed and added.
type LineDeltas = Vec<LineDelta>;

/// Which of two lines that changed places was moved is a matter of how texts are compared. What merged them has decided
/// it in some way, so whatever one way explains is in order.
struct Alignments {
    ours: Vec<LineDeltas>,
    theirs: Vec<LineDeltas>,
}

impl Alignments {
    fn pairs(&self) -> impl Iterator<Item = (&LineDeltas, &LineDeltas)> {
        self.ours.iter().flat_map(|ours| self.theirs.iter().map(move |theirs| (ours, theirs)))
    }
}

/// The texts as numbers of lines. The end of a line is no part of it: whether the last one has one is not looked at.
struct Lines<'a> {
    /// Each distinct line.
    texts: Vec<&'a [u8]>,
    base: Vec<Token>,
    ours: Vec<Token>,
    theirs: Vec<Token>,
    merged: Vec<Token>,
}

impl<'a> Lines<'a> {
    fn read(texts: &Texts<'a>, split: impl Fn(&'a [u8]) -> Vec<&'a [u8]>) -> Self {
        let mut interner = Interner::new(0);
        let mut distinct = Vec::new();
        let mut number = |text: &'a [u8]| -> Vec<Token> {
            let pieces = split(text).into_iter().map(|piece| {
                let token = interner.intern(piece);
                if index(token) == distinct.len() {
                    distinct.push(piece);
                }
                token
            });
            pieces.collect()
        };
        let (base, ours) = (number(texts.base), number(texts.ours));
        let (theirs, merged) = (number(texts.theirs), number(texts.merged));
        Self { texts: distinct, base, ours, theirs, merged }
    }

    fn counts(&self) -> Vec<LineCount> {
        let mut counts = vec![LineCount::default(); self.texts.len()];
        self.base.iter().for_each(|line| counts[index(*line)].base += 1);
        self.ours.iter().for_each(|line| counts[index(*line)].ours += 1);
        self.theirs.iter().for_each(|line| counts[index(*line)].theirs += 1);
        self.merged.iter().for_each(|line| counts[index(*line)].merged += 1);
        counts
    }

    /// What a side did to each line, as two ways of comparing see it from the beginning and from the end.
    fn alignments(&self, side: &[Token]) -> Vec<LineDeltas> {
        let reversed = |tokens: &[Token]| tokens.iter().rev().copied().collect::<Vec<_>>();
        let (base_reversed, side_reversed) = (reversed(&self.base), reversed(side));
        let ways = [(self.base.as_slice(), side), (base_reversed.as_slice(), side_reversed.as_slice())];
        let algorithms = [Algorithm::Histogram, Algorithm::Myers];
        algorithms.iter().flat_map(|by| ways.map(|(base, side)| self.deltas(*by, base, side))).collect()
    }

    fn deltas(&self, algorithm: Algorithm, base: &[Token], side: &[Token]) -> LineDeltas {
        let mut deltas = vec![LineDelta::default(); self.texts.len()];
        let mut diff = Diff::default();
        diff.compute_with(algorithm, base, side, u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        for hunk in diff.hunks() {
            base[range(&hunk.before)].iter().for_each(|line| deltas[index(*line)].removed += 1);
            side[range(&hunk.after)].iter().for_each(|line| deltas[index(*line)].added += 1);
        }
        deltas
    }

    /// A side that only moved lines is not missed by counting. Where the result is the file of the other side, that must
    /// have moved them as well.
    fn check_one_sided(&self, alignments: &Alignments) -> Option<MergeFault> {
        let sides = match (self.merged == self.ours, self.merged == self.theirs) {
            (true, false) => MergeSides::Target,
            (false, true) => MergeSides::Branch,
            _ => return None,
        };
        let has_both = |(ours, theirs): (&LineDeltas, &LineDeltas)| {
            let (kept, other) = if sides == MergeSides::Target { (ours, theirs) } else { (theirs, ours) };
            let mut pairs = kept.iter().zip(other);
            pairs.all(|(kept, other)| kept.added >= other.added && kept.removed >= other.removed)
        };
        (!alignments.pairs().any(has_both)).then_some(MergeFault::OnlyOneSide(sides))
    }
}

fn index(line: Token) -> usize {
    line.0 as usize
}

fn range(span: &std::ops::Range<u32>) -> std::ops::Range<usize> {
    span.start as usize..span.end as usize
}

impl LineCount {
    fn net(base: i64, side: i64) -> LineDelta {
        LineDelta { added: (side - base).max(0), removed: (base - side).max(0) }
    }

    fn ours(&self) -> LineDelta {
        Self::net(self.base, self.ours)
    }

    fn theirs(&self) -> LineDelta {
        Self::net(self.base, self.theirs)
    }

    fn is_within_net(&self) -> bool {
        self.is_within(self.ours(), self.theirs())
    }

    fn is_within(&self, ours: LineDelta, theirs: LineDelta) -> bool {
        let (fewest, most) = limits(ours, theirs);
        (fewest..=most).contains(&(self.merged - self.base))
    }
}

/// By how much the count of a line may change: what both sides did the same way may be done once or twice.
fn limits(ours: LineDelta, theirs: LineDelta) -> (i64, i64) {
    let fewest = ours.added.max(theirs.added) - (ours.removed + theirs.removed);
    let most = ours.added + theirs.added - ours.removed.max(theirs.removed);
    (fewest, most)
}

/// The faults that lines have which are there too often or not often enough, each kind once.
fn faults<'a>(wrong: impl Iterator<Item = (&'a [u8], LineCount)>) -> Vec<MergeFault> {
    let mut sums = FaultSums::default();
    for (text, count) in wrong {
        sums.add(text, count);
    }
    sums.into_faults()
}

/// Counts of lines; those of sides are of the target, the branch and both.
#[derive(Default)]
struct FaultSums {
    missing: [i64; 3],
    dropped: i64,
    restored: [i64; 3],
    repeated: i64,
    invented: i64,
    markers: i64,
}

impl FaultSums {
    fn add(&mut self, text: &[u8], count: LineCount) {
        let (ours, theirs) = (count.ours(), count.theirs());
        let (fewest, most) = limits(ours, theirs);
        let change = count.merged - count.base;
        if change < fewest {
            match larger(ours.added, theirs.added) {
                Some(side) => self.missing[side] += fewest - change,
                None => self.dropped += fewest - change,
            }
            return;
        }
        let mut extra = change - most;
        if let Some(side) = larger(ours.removed, theirs.removed) {
            let restored = extra.min(ours.removed.max(theirs.removed));
            self.restored[side] += restored;
            extra -= restored;
        }
        match count.base + count.ours + count.theirs {
            _ if is_marker(text) => self.markers += extra,
            0 => self.invented += extra,
            _ => self.repeated += extra,
        }
    }

    fn into_faults(self) -> Vec<MergeFault> {
        let sides = [MergeSides::Target, MergeSides::Branch, MergeSides::Both];
        let number = |count: i64| u64::try_from(count).ok().filter(|count| *count > 0);
        let some = |count: i64, fault: fn(u64) -> MergeFault| number(count).map(fault);
        let missing = sides.iter().zip(self.missing);
        let missing = missing
            .filter_map(|(sides, count)| number(count).map(|count| MergeFault::LinesMissing { sides: *sides, count }));
        let restored = sides.iter().zip(self.restored);
        let restored = restored
            .filter_map(|(sides, count)| number(count).map(|count| MergeFault::LinesRestored { sides: *sides, count }));
        let others = [
            some(self.dropped, MergeFault::LinesDropped),
            some(self.repeated, MergeFault::LinesRepeated),
            some(self.invented, MergeFault::LinesInvented),
            some(self.markers, MergeFault::MarkersLeft),
        ];
        missing.chain(restored).chain(others.into_iter().flatten()).collect()
    }
}

/// Which side has more: the target, the branch or both; none where neither has any.
fn larger(ours: i64, theirs: i64) -> Option<usize> {
    match (ours, theirs) {
        (0, 0) => None,
        _ if ours > theirs => Some(0),
        _ if theirs > ours => Some(1),
        _ => Some(2),
    }
}

/// A line as git writes it around a conflict.
fn is_marker(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let starts: [&[u8]; 3] = [b"<<<<<<< ", b"||||||| ", b">>>>>>> "];
    line == b"=======" || starts.iter().any(|start| line.starts_with(start))
}
