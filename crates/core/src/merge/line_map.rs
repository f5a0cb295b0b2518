//! Which lines of a text are lines of another.

use std::ops::Range;

use gix_imara_diff::{Algorithm, Diff, InternedInput};

/// How the lines of two texts belong together, counted from 0.
#[derive(Debug)]
pub struct LineMap {
    /// The lines that are no others' in between: before, and after.
    changes: Vec<(Range<u32>, Range<u32>)>,
    /// How many lines there are after.
    lines: u32,
}

impl LineMap {
    /// Compares two texts.
    pub fn new(before: &[u8], after: &[u8]) -> Self {
        let input = InternedInput::new(before, after);
        let mut diff = Diff::compute(Algorithm::Histogram, &input);
        diff.postprocess_lines(&input);
        let changes = diff.hunks().map(|hunk| (hunk.before, hunk.after)).collect();
        Self { changes, lines: u32::try_from(input.after.len()).unwrap_or(u32::MAX) }
    }

    /// The runs of equal lines: where each begins before and after, and how long it is.
    pub fn equal(&self) -> Vec<(u32, u32, u32)> {
        let (mut runs, mut before, mut after) = (Vec::new(), 0, 0);
        for (old, new) in &self.changes {
            runs.push((before, after, new.start - after));
            (before, after) = (old.end, new.end);
        }
        runs.push((before, after, self.lines.saturating_sub(after)));
        runs.retain(|(.., count)| *count > 0);
        runs
    }

    /// The lines after that are not equal to any before.
    pub fn new_lines(&self) -> Vec<Range<u32>> {
        self.changes.iter().map(|(_, new)| new.clone()).filter(|new| !new.is_empty()).collect()
    }

    /// What a line after was made of: the lines before that it and those around it have replaced. None for a line that is
    /// equal.
    pub fn replaced(&self, after: u32) -> Option<(Range<u32>, Range<u32>)> {
        self.changes.iter().find(|(_, new)| new.contains(&after)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lines_are_found_on_both_sides() {
        let map = LineMap::new(b"a\nb\nc\nd\n", b"a\nx\ny\nc\nd\ne\n");
        assert_eq!(map.equal(), [(0, 0, 1), (2, 3, 2)]);
        assert_eq!(map.replaced(2), Some((1..2, 1..3)));
        assert_eq!(map.replaced(5), Some((4..4, 5..6)));
        assert_eq!(map.replaced(3), None);
        assert_eq!(LineMap::new(b"", b"a\n").equal(), []);
        assert_eq!(LineMap::new(b"a\n", b"a\n").equal(), [(0, 0, 1)]);
    }
}
