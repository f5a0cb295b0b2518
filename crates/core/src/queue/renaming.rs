//! Which names some work has changed. Others may have begun to use them meanwhile, and a repair writes their lines anew.

use std::collections::BTreeSet;

/// Words for values: one for another is no renaming.
const VALUES: [&str; 16] = [
    "False", "Nil", "None", "Null", "True", "disabled", "enabled", "false", "nil", "no", "none", "null", "off", "on",
    "true", "yes",
];

/// The names in the files that some work has changed, before and after.
#[derive(Debug, Clone, Default)]
pub struct Renaming {
    before: BTreeSet<Vec<u8>>,
    after: BTreeSet<Vec<u8>>,
}

impl Renaming {
    /// Takes in a file, before and after.
    pub fn take(&mut self, old: &[u8], new: &[u8]) {
        for (text, names) in [(old, &mut self.before), (new, &mut self.after)] {
            names.extend(parts(text).into_iter().filter(is_name).map(|(word, _)| word.to_vec()));
        }
    }

    /// Whether a line of the text before is in the text now with nothing changed but names: those the work has
    /// replaced, by names it has added.
    pub fn is_renamed(&self, line: &[u8], (before, now): (&[u8], &[u8])) -> bool {
        let lines = |text: &'_ [u8]| text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
        let (old, line) = (lines(before), parts(line));
        lines(now).iter().filter(|new| !old.contains(new)).any(|new| {
            let new = parts(new);
            new.len() == line.len()
                && line.iter().zip(&new).all(|(one, other)| one == other || self.replaces(one, other))
        })
    }

    /// Whether a name is gone from the work, and another one was not there before.
    fn replaces(&self, (old, _): &(&[u8], bool), (new, _): &(&[u8], bool)) -> bool {
        let (is_gone, is_new) = (!self.after.contains(*old), !self.before.contains(*new));
        self.before.contains(*old) && is_gone && self.after.contains(*new) && is_new
    }
}

fn is_name((word, is_word): &(&[u8], bool)) -> bool {
    *is_word && !word[0].is_ascii_digit() && !VALUES.iter().any(|value| value.as_bytes() == *word)
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
        let is_renamed = |renaming: &Renaming, line: &str, now: &str| {
            renaming.is_renamed(line.as_bytes(), (line.as_bytes(), now.as_bytes()))
        };
        let mut renaming = Renaming::default();
        renaming.take(b"fn greet(who) {}\ngreet(1)\n", b"fn welcome(who) {}\nwelcome(1)\n");
        assert!(is_renamed(&renaming, "  greet(who, 2);", "more\n  welcome(who, 2);\n"));
        for now in
            ["", "# welcome(who, 2)", "  welcome(who);", "  welcome(1, 2);", "  greet(who, 2);", "  hail(who, 2);"]
        {
            assert!(!is_renamed(&renaming, "  greet(who, 2);", now), "{now}");
        }
        assert!(!is_renamed(&renaming, "assert(who)", "assert(welcome)"), "the work has not changed that name");
        renaming.take(b"debug: true, limit: 30", b"debug: false, limit: 60");
        for (line, now) in [("secure: true", "secure: false"), ("timeout: 30", "timeout: 60")] {
            assert!(!is_renamed(&renaming, line, now), "values are no names: {now}");
        }
        renaming.take(b"", b"greet(2)\n");
        assert!(!is_renamed(&renaming, "greet(who)", "welcome(who)"), "the work still uses that name");
    }
}
