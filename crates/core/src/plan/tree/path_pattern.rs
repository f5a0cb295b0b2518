//! Patterns of paths: which files a task is expected to change.

use std::fmt;

/// A pattern of paths from the root of the repository. `*` and `?` stay within a name, `**` stands for any number of
/// directories. A path stands for everything below it as well, unless its last name has an ending, as `a.rs` has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    text: String,
    names: Vec<NamePattern>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum NamePattern {
    /// `**`
    AnyNames,
    Name(Vec<NamePart>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamePart {
    Char(char),
    /// `?`, and a set of characters: what is in it makes no difference to whether two patterns might meet.
    AnyChar,
    /// `*`
    AnyChars,
}

impl PathPattern {
    /// Reads a pattern, or says what is wrong with it.
    pub(in crate::plan) fn read(text: &str) -> Result<Self, String> {
        if text.starts_with('!') {
            return Err("cannot be negated: name what the task changes".to_owned());
        }
        let names: Vec<&str> = text.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
        if names.is_empty() {
            return Err("is empty: name a path, or leave it out".to_owned());
        }
        if names.contains(&"..") {
            return Err("leads out of the repository: paths are from its root".to_owned());
        }
        let names = names.into_iter().map(NamePattern::read).collect();
        Ok(Self { text: text.to_owned(), names })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether some path could match both. A set of characters counts as any character.
    pub fn overlaps(&self, other: &Self) -> bool {
        names_meet(&self.with_below(), &other.with_below())
    }

    fn with_below(&self) -> Vec<NamePattern> {
        let is_file = !self.text.ends_with('/') && self.names.last().is_some_and(NamePattern::has_ending);
        let below = (!is_file).then_some(NamePattern::AnyNames);
        self.names.iter().cloned().chain(below).collect()
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl NamePattern {
    fn read(name: &str) -> Self {
        if name == "**" {
            return Self::AnyNames;
        }
        let mut parts = Vec::new();
        let mut rest = name.chars();
        while let Some(char) = rest.next() {
            parts.push(match char {
                '*' => NamePart::AnyChars,
                '?' => NamePart::AnyChar,
                '\\' => NamePart::Char(rest.next().unwrap_or('\\')),
                '[' => match set_end(rest.as_str()) {
                    Some(end) => {
                        rest = rest.as_str()[end..].chars();
                        NamePart::AnyChar
                    }
                    None => NamePart::Char('['),
                },
                char => NamePart::Char(char),
            });
        }
        Self::Name(parts)
    }

    fn has_ending(&self) -> bool {
        match self {
            Self::AnyNames => false,
            Self::Name(parts) => parts.iter().skip(1).any(|part| *part == NamePart::Char('.')),
        }
    }
}

/// Where a set of characters ends, after its `[`. A `]` that comes first is one of them.
fn set_end(rest: &str) -> Option<usize> {
    let first = rest.find(|char| !matches!(char, '!' | '^')).filter(|first| *first <= 1)?;
    let inside = first + rest[first..].chars().next().map_or(0, char::len_utf8);
    rest[inside..].find(']').map(|end| inside + end + 1)
}

fn names_meet(one: &[NamePattern], other: &[NamePattern]) -> bool {
    let is_any = |name: &NamePattern| *name == NamePattern::AnyNames;
    meet(one, other, is_any, |one, other| match (one, other) {
        (NamePattern::Name(one), NamePattern::Name(other)) => {
            let is_any = |part: &NamePart| *part == NamePart::AnyChars;
            meet(one, other, is_any, |one, other| match (one, other) {
                (NamePart::Char(one), NamePart::Char(other)) => one == other,
                _ => true,
            })
        }
        _ => true,
    })
}

/// Whether a sequence could match both patterns, whose parts match one item each, or any number of them.
fn meet<T>(one: &[T], other: &[T], is_any: impl Fn(&T) -> bool, fits: impl Fn(&T, &T) -> bool) -> bool {
    // From the ends to the beginnings: whether what is left of both meets, by how much of the other is left.
    let mut after: Vec<bool> = Vec::new();
    for at in (0..=one.len()).rev() {
        let mut now = vec![false; other.len() + 1];
        for beside in (0..=other.len()).rev() {
            let (part, opposite) = (one.get(at), other.get(beside));
            let (skip_one, skip_other) =
                (after.get(beside).copied().unwrap_or(false), beside < other.len() && now[beside + 1]);
            now[beside] = match (part, opposite) {
                (None, None) => true,
                (Some(part), _) if is_any(part) => skip_one || skip_other,
                (_, Some(opposite)) if is_any(opposite) => skip_one || skip_other,
                (Some(part), Some(opposite)) => fits(part, opposite) && after[beside + 1],
                _ => false,
            };
        }
        after = now;
    }
    after[0]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn overlap(one: &str, other: &str) -> bool {
        let [one, other] = [one, other].map(|text| PathPattern::read(text).unwrap());
        assert_eq!(one.overlaps(&other), other.overlaps(&one), "{one} and {other}");
        one.overlaps(&other)
    }

    #[test]
    fn patterns_overlap_where_a_path_matches_both() {
        for (one, other) in [
            ("src/a.rs", "src/a.rs"),
            ("src/", "src/a.rs"),
            ("src", "src/deep/er/a.rs"),
            ("./src/*.rs", "/src/a.rs"),
            ("src/*", "src/deep/a.rs"),
            ("**/a.rs", "a.rs"),
            ("**/a.rs", "src/**"),
            ("src/**/a.rs", "src/*/deep/?.rs"),
            ("a*c", "*b*"),
            ("src/[ab].rs", "src/b.rs"),
            ("src/[]].rs", "src/].rs"),
            ("**", "any/thing"),
            ("docs", "**/*.md"),
            ("v1.2/", "v1.2/a.rs"),
            ("\\*", "\\*"),
            ("[", "["),
        ] {
            assert!(overlap(one, other), "{one} and {other}");
        }
        for (one, other) in [
            ("src/a.rs", "src/b.rs"),
            ("src", "source/a.rs"),
            ("*.rs", "src/a.rs"),
            ("*.rs", "a.md"),
            ("**/a.rs", "ba.rs"),
            ("**/*.md", "src/a.rs"),
            ("src/**", "docs/**"),
            ("a*c", "b*"),
            ("?", "ab"),
            ("\\*", "a"),
        ] {
            assert!(!overlap(one, other), "{one} and {other}");
        }
    }

    #[test]
    fn patterns_that_cannot_be_meant_are_errors() {
        for text in ["", "/", "./", "!src", "../src", "src/../../x"] {
            assert!(PathPattern::read(text).is_err(), "{text}");
        }
    }

    /// A name matched the slow way.
    fn matches(pattern: &str, name: &str) -> bool {
        let Some(first) = pattern.chars().next() else { return name.is_empty() };
        match first {
            '*' => (0..=name.len()).any(|end| matches(&pattern[1..], &name[end..])),
            '?' => !name.is_empty() && matches(&pattern[1..], &name[1..]),
            char => name.starts_with(char) && matches(&pattern[1..], &name[1..]),
        }
    }

    proptest! {
        #[test]
        fn overlapping_names_are_those_a_name_matches_both_of(one in "[ab*?]{1,5}", other in "[ab*?]{1,5}") {
            prop_assume!(one != "**" && other != "**");
            let names = (0..=10u32).flat_map(|length| {
                (0..1u32 << length).map(move |bits| {
                    (0..length).map(|at| if bits >> at & 1 == 0 { 'a' } else { 'b' }).collect::<String>()
                })
            });
            let found = names.into_iter().any(|name| matches(&one, &name) && matches(&other, &name));
            prop_assert_eq!(overlap(&one, &other), found);
        }
    }
}
