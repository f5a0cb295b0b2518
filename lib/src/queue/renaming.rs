//! Which names some work has changed. Others may have begun to use them meanwhile, and a repair writes their lines anew.

use std::collections::BTreeMap;

/// The words that some work uses less or more often than what was before it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Renaming {
    more: BTreeMap<Vec<u8>, i64>,
}

impl Renaming {
    /// Takes in a file, before and after.
    pub fn take(&mut self, old: &[u8], new: &[u8]) {
        for (text, by) in [(old, -1), (new, 1)] {
            for (word, _) in parts(text).into_iter().filter(|(_, is_word)| *is_word) {
                *self.more.entry(word.to_vec()).or_default() += by;
            }
        }
    }

    /// Whether a line, of a text that has become another one, is there with nothing changed but names that the work has
    /// replaced: by names that the work has brought.
    pub fn is_renamed(&self, line: &[u8], (before, now): (&[u8], &[u8])) -> bool {
        let lines = |text: &'_ [u8]| text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
        let (old, line) = (lines(before), parts(line));
        lines(now).iter().filter(|new| !old.contains(new)).any(|new| {
            let new = parts(new);
            new.len() == line.len()
                && line.iter().zip(&new).all(|(one, other)| one == other || self.replaces(one, other))
        })
    }

    fn replaces(&self, (old, is_old): &(&[u8], bool), (new, is_new): &(&[u8], bool)) -> bool {
        let more = |word: &[u8]| self.more.get(word).copied().unwrap_or_default();
        *is_old && *is_new && more(old) < 0 && more(new) > 0
    }
}

/// The words of a text, and what is between them.
fn parts(text: &[u8]) -> Vec<(&[u8], bool)> {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    text.chunk_by(|one, other| is_word(one) == is_word(other)).map(|part| (part, is_word(&part[0]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_the_work_has_changed_may_differ() {
        let mut renaming = Renaming::default();
        renaming.take(b"fn greet(who) {}\ngreet(1)\n", b"fn welcome(who) {}\nwelcome(1)\n");
        let is_renamed =
            |line: &str, now: &str| renaming.is_renamed(line.as_bytes(), (line.as_bytes(), now.as_bytes()));
        assert!(is_renamed("  greet(who, 2);", "more\n  welcome(who, 2);\n"));
        for now in
            ["", "# welcome(who, 2)", "  welcome(who);", "  welcome(1, 2);", "  greet(who, 2);", "  hail(who, 2);"]
        {
            assert!(!is_renamed("  greet(who, 2);", now), "{now}");
        }
        assert!(!is_renamed("assert(who)", "assert(welcome)"), "the work has not changed that name");
    }
}
