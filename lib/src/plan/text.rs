//! Small things about words.

use std::collections::BTreeMap;

/// The word most like `word`, when one is close enough to be what was meant.
pub(crate) fn closest<'a>(word: &str, words: &[&'a str]) -> Option<&'a str> {
    let limit = match word.len() {
        0..=2 => return None,
        3..=5 => 1,
        _ => 2,
    };
    let near = words.iter().filter(|other| other.len().abs_diff(word.len()) <= limit);
    let scored = near.map(|other| (distance(word.as_bytes(), other.as_bytes()), *other));
    scored.filter(|(distance, _)| *distance <= limit).min().map(|(_, other)| other)
}

/// Looks up what was meant among many names. A look costs a pass over all of them, so after some misses it stops
/// guessing: a file with that many slips has another problem.
pub(crate) struct Suggestions<'a> {
    names: Vec<&'a str>,
    seen: BTreeMap<String, Option<&'a str>>,
}

impl<'a> Suggestions<'a> {
    const LIMIT: usize = 20;

    pub fn among(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self { names: names.into_iter().collect(), seen: BTreeMap::new() }
    }

    pub fn closest(&mut self, word: &str) -> Option<&'a str> {
        if let Some(known) = self.seen.get(word) {
            return *known;
        }
        if self.seen.len() == Self::LIMIT {
            return None;
        }
        let found = closest(word, &self.names);
        self.seen.insert(word.to_owned(), found);
        found
    }
}

/// How many letters must be added, removed, changed or swapped with their neighbour to get from `a` to `b`.
pub(crate) fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1; b.len() + 1];
        for j in 0..b.len() {
            let change = last[j] + usize::from(a[i] != b[j]);
            row[j + 1] = change.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}
