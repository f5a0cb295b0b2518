//! Merging a hunk word by word. Where words meet is guessed from what they say, so a result is only taken if nothing in
//! it is of nobody: each word is one of a side, each line stands in a side or is one that both have edited.

use std::collections::BTreeSet;

use super::text_merge::{ConflictHunk, TextMerge, lines, merge_items};

impl ConflictHunk {
    /// Merges word by word. None where changes meet there too, and where the result has a word or a line of nobody.
    pub fn by_tokens(&self) -> Option<Vec<u8>> {
        let merged = merge_words([&self.base, &self.ours, &self.theirs])?;
        (self.has_words_of(&merged) && self.has_lines_of(&merged)).then_some(merged)
    }

    fn has_words_of(&self, merged: &[u8]) -> bool {
        let known: BTreeSet<&[u8]> =
            [&self.base, &self.ours, &self.theirs].into_iter().flat_map(|side| words(side)).collect();
        words(merged).iter().all(|word| known.contains(word))
    }

    /// Whether each line stands in a side, or is one that both have edited. Which lines those are is only certain where no
    /// side has more lines than another.
    fn has_lines_of(&self, merged: &[u8]) -> bool {
        let [base, ours, theirs, merged] = [&self.base[..], &self.ours, &self.theirs, merged].map(lines_without_ends);
        let is_even = base.len() == ours.len() && base.len() == theirs.len();
        let edited = base.iter().zip(&ours).zip(&theirs).filter(|_| is_even);
        let edited: BTreeSet<Vec<u8>> =
            edited.filter_map(|((was, one), other)| merge_words([was, one, other])).collect();
        merged.iter().all(|line| ours.contains(line) || theirs.contains(line) || edited.contains(*line))
    }
}

fn merge_words(sides: [&[u8]; 3]) -> Option<Vec<u8>> {
    TextMerge { parts: merge_items(sides.map(words)) }.clean()
}

/// The lines of a text, without their ends: whether the last one has one plays no role.
fn lines_without_ends(text: &[u8]) -> Vec<&[u8]> {
    lines(text).into_iter().map(|line| line.strip_suffix(b"\n").unwrap_or(line)).collect()
}

/// A text in pieces that are changed as a whole: words, runs of blanks, and every other character alone. One word is also
/// what makes no sense in parts: a version with its suffix, a date, quoted text without blanks, such as an address.
pub(super) fn words(text: &[u8]) -> Vec<&[u8]> {
    let (mut found, mut at) = (Vec::new(), 0);
    // Where the quote is that ends the quoted text being read: it begins no other.
    let mut closing = None;
    while let Some(&first) = text.get(at) {
        let rest = &text[at..];
        let length = match first {
            b'"' | b'\'' | b'`' if closing != Some(at) => match quoted(rest) {
                Some(length) if !rest[..length].iter().any(|byte| is_blank(*byte)) => length,
                of_several => {
                    closing = of_several.map(|length| at + length - 1).or(closing);
                    1
                }
            },
            byte if is_of_word(byte) => word(rest),
            byte if is_blank(byte) => run(rest, is_blank),
            _ => 1,
        };
        found.push(&rest[..length]);
        at += length;
    }
    found
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn run(text: &[u8], is_of: fn(u8) -> bool) -> usize {
    text.iter().take_while(|byte| is_of(**byte)).count()
}

/// How long the quoted text is that begins here, if it ends in the same line.
fn quoted(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        match *text.get(at)? {
            b'\n' => return None,
            b'\\' => at += 2,
            byte if byte == text[0] => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// How long the word is that begins here.
fn word(text: &[u8]) -> usize {
    let mut length = run(text, is_of_word);
    let digits = |at: usize| text.get(at..).map_or(0, |text| run(text, |byte| byte.is_ascii_digit()));
    let is_version = text[length - 1].is_ascii_digit() && text.get(length) == Some(&b'.') && digits(length + 1) > 0;
    let is_date = || {
        let separator = text.get(length).filter(|byte| matches!(byte, b'-' | b'/'));
        let month = digits(length + 1);
        let day = length + 1 + month;
        digits(0) == length && separator.is_some() && month > 0 && text.get(day) == separator && digits(day + 1) > 0
    };
    if is_version || is_date() {
        while matches!(text.get(length), Some(b'-' | b'+' | b'.' | b':' | b'/')) {
            match text.get(length + 1..).map_or(0, |text| run(text, is_of_word)) {
                0 => break,
                more => length += 1 + more,
            }
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn merged(base: &str, ours: &str, theirs: &str) -> Option<String> {
        let merge = TextMerge::lines(base.as_bytes(), ours.as_bytes(), theirs.as_bytes());
        let text = merge.conflicts().next().expect("a conflict").by_tokens()?;
        Some(String::from_utf8(text).unwrap())
    }

    #[test]
    fn words_changed_apart_are_merged() {
        let call = merged("call(a, b, c);\n", "call(a, b, c, d);\n", "invoke(a, b, c);\n");
        assert_eq!(call.unwrap(), "invoke(a, b, c, d);\n");
        assert_eq!(merged("x = 1\n", "x = 2\n", "x = 3\n"), None);
        assert_eq!(merged("f(a)\n", "f(a, b)\n", "f(a, c)\n"), None);
        // Both put something behind the same word: which comes first is unknown.
        assert_eq!(merged("use a;\n", "use a;\nuse b;\n", "use a;\nuse c;\n"), None);
        let lines = merged("a 1 b\nc\nd\n", "A 1 b\nC\nd\n", "a 1 B\nc\nD\n");
        assert_eq!(lines.unwrap(), "A 1 B\nC\nD\n");
        assert_eq!(merged("a 1 b", "A 1 b", "a 1 B\n").unwrap(), "A 1 B\n");
        let added = merged("a\nb\n", "A\nb\n", "a\nB\nc\n");
        assert_eq!(added.unwrap(), "A\nB\nc\n");
    }

    #[test]
    fn versions_dates_hashes_and_addresses_are_one_word() {
        for (base, ours, theirs) in [
            ("v = 2.14.0\n", "v = 2.14.1\n", "v = 2.15.0\n"),
            ("v1.2.3-rc.1 x\n", "v1.2.3-rc.2 x\n", "v1.3.3-rc.1 x\n"),
            ("on 2026-01-02\n", "on 2026-01-03\n", "on 2026-02-02\n"),
            ("at 2026-01-02T03:04:05Z\n", "at 2026-01-02T03:04:06Z\n", "at 2026-01-03T03:04:05Z\n"),
            ("from \"https://a.org/v1/x\"\n", "from \"https://b.org/v1/x\"\n", "from \"https://a.org/v2/x\"\n"),
            ("import 'old/x';\n", "import 'new/x';\n", "import 'old/y';\n"),
            ("f(\"a b\",\"c/d\")\n", "f(\"a b\",\"c/e\")\n", "f(\"a b\",\"f/d\")\n"),
            ("rev = deadbeef0\n", "rev = deadbeef1\n", "rev = feedbeef0\n"),
        ] {
            assert_eq!(merged(base, ours, theirs), None, "{base}");
        }
        let dep = merged("a = \"1.2.0\" # old\n", "a = \"1.3.0\" # old\n", "a = \"1.2.0\" # new\n");
        assert_eq!(dep.unwrap(), "a = \"1.3.0\" # new\n");
    }

    #[test]
    fn lines_and_words_of_nobody_are_refused() {
        let hunk = |base: &str, ours: &str, theirs: &str| ConflictHunk {
            base: base.into(),
            ours: ours.into(),
            theirs: theirs.into(),
        };
        let element = "<A b={<C />} />\n";
        let theirs = "<A2 b={<C />} />\n<F g={<H />} />\n";
        let conflict = hunk(element, "<A b={<C />} d={<E />} />\n", theirs);
        let wrong = "<A2 b={<C />} />\n<F g={<H />} d={<E />} />\n";
        let words = merge_words([&conflict.base, &conflict.ours, &conflict.theirs]).unwrap();
        assert_eq!(String::from_utf8(words).unwrap(), wrong, "words alone put it into another element");
        assert_eq!(conflict.by_tokens(), None);
        let conflict = hunk(element, "<A b={<D />} />\n", "<A b={<C />} e />\n");
        assert!(conflict.has_lines_of(b"<A b={<D />} e />\n"), "both have edited the line");
        assert!(!conflict.has_lines_of(b"<A b={<C />} />\n"), "a line that both have changed");
        let conflict = hunk("1 a 2\n", "1.5 a 2\n", "1 a 2.7\n");
        assert!(conflict.has_words_of(b"1.5 a 2.7\n") && !conflict.has_words_of(b"1.7 a 2\n"));
    }

    proptest! {
        #[test]
        fn pieces_make_up_the_text(text in any::<Vec<u8>>(), odd in "[ab1.\"'\\\\ \n/-]{0,24}") {
            prop_assert_eq!(words(&text).concat(), text);
            prop_assert_eq!(words(odd.as_bytes()).concat(), odd.as_bytes());
        }

        #[test]
        fn merged_words_are_those_of_the_sides(
            base in "([ab1]|[.\"/ \n-]){0,12}", ours in "([ab1]|[.\"/ \n-]){0,12}", theirs in "([ab1]|[.\"/ \n-]){0,12}",
        ) {
            let hunk = ConflictHunk { base: base.into(), ours: ours.into(), theirs: theirs.into() };
            if let Some(merged) = hunk.by_tokens() {
                let sides = [&hunk.base, &hunk.ours, &hunk.theirs].map(|side| words(side)).concat();
                prop_assert!(words(&merged).iter().all(|word| sides.contains(word)));
            }
        }
    }
}
