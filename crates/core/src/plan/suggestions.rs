//! What names in a file were meant to be.

use std::collections::BTreeMap;

use crate::text::closest;

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
        let found = closest(word, self.names.iter().copied());
        self.seen.insert(word.to_owned(), found);
        found
    }
}
