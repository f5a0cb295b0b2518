//! Small things about words, for messages to people.

pub mod excerpt;

use strsim::osa_distance;

/// The first line that is not blank, trimmed.
pub fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

/// The first `max` characters, with a mark where the rest is left out.
pub fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// The last `max` characters.
pub fn tail(text: &str, max: usize) -> &str {
    match max.checked_sub(1) {
        Some(others) => text.char_indices().rev().nth(others).map_or(text, |(start, _)| &text[start..]),
        None => "",
    }
}

/// As many characters are left out of a text that is cut where no word ends: no secret is expected to be longer.
pub const LONGEST_SECRET: usize = 512;

/// The last `max` characters, without a word that is cut in two: a secret would not be known by its second part.
pub fn last_words(text: &str, max: usize) -> &str {
    let end = tail(text, max);
    if end.len() == text.len() {
        return text;
    }
    let part = end.char_indices().find(|(at, c)| *at >= LONGEST_SECRET || c.is_whitespace());
    part.map_or("", |(at, _)| end[at..].trim_start())
}

/// `a, b, c`; of more than `most` things only so many, and how many more there are.
pub fn listed<T: ToString>(things: impl IntoIterator<Item = T>, most: usize) -> String {
    let mut things = things.into_iter();
    let mut text = things.by_ref().take(most).map(|thing| thing.to_string()).collect::<Vec<_>>().join(", ");
    let more = things.count();
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// A word as a shell reads it back: in quotes where it needs them. Every name in a command pleach prints goes
/// through here, for branches and files may be called `fix(api)`.
pub fn shell_word(word: impl std::fmt::Display) -> String {
    let word = word.to_string();
    let harmless = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(harmless) { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// A path as git shows it: as it is, or between quotation marks with what would end a line or steer a terminal escaped. As
/// with `core.quotePath=false`, letters of every language stay; bytes that are no text are octal numbers.
pub fn quoted_path(path: &[u8]) -> String {
    let mut shown = String::new();
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => shown.extend(['\\', c]),
                '\u{7}' => shown.push_str("\\a"),
                '\u{8}' => shown.push_str("\\b"),
                '\t' => shown.push_str("\\t"),
                '\n' => shown.push_str("\\n"),
                '\u{b}' => shown.push_str("\\v"),
                '\u{c}' => shown.push_str("\\f"),
                '\r' => shown.push_str("\\r"),
                c if is_steering(c) => push_octal(&mut shown, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => shown.push(c),
            }
        }
        push_octal(&mut shown, chunk.invalid());
    }
    if shown.as_bytes() == path { shown } else { format!("\"{shown}\"") }
}

fn push_octal(text: &mut String, bytes: &[u8]) {
    text.extend(bytes.iter().map(|byte| format!("\\{byte:03o}")));
}

/// The bytes of a path that git has quoted, or left as it is; none where the quotes are not git's.
pub fn unquoted_path(shown: &[u8]) -> Option<Vec<u8>> {
    let Some(rest) = shown.strip_prefix(b"\"") else { return Some(shown.to_vec()) };
    let mut bytes = rest.strip_suffix(b"\"")?.iter().copied();
    let mut path = Vec::new();
    while let Some(byte) = bytes.next() {
        path.push(match byte {
            b'\\' => match bytes.next()? {
                b'a' => 7,
                b'b' => 8,
                b't' => b'\t',
                b'n' => b'\n',
                b'v' => 11,
                b'f' => 12,
                b'r' => b'\r',
                same @ (b'"' | b'\\') => same,
                first @ b'0'..=b'3' => {
                    let digits = [first, bytes.next()?, bytes.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 8).ok()?
                }
                _ => return None,
            },
            b'"' => return None,
            byte => byte,
        });
    }
    Some(path)
}

/// Whether a character steers a terminal or turns the direction of the text behind it, which is then read as something
/// else than it is.
pub fn is_steering(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Text without anything that could hide a part of it: control and direction characters are written out.
pub fn visible(text: &str) -> String {
    let hides = |c: char| is_steering(c) || matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    text.chars().map(|c| if hides(c) && c != '\t' { c.escape_unicode().to_string() } else { c.to_string() }).collect()
}

/// Names for a sentence, in quotation marks: the first few, and how many more.
pub fn named(names: &[impl std::fmt::Display]) -> String {
    listed(names.iter().map(|name| format!("`{name}`")), 10)
}

/// A text without how long things took, as test runners print it (`0.12s`, `3.5 ms`): two runs that differ in nothing else
/// say the same. Whole seconds stay, for they are also what is waited for.
pub(crate) fn without_durations(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let end = rest[at..].find(|c: char| !c.is_ascii_digit() && c != '.').map_or(rest.len(), |length| at + length);
        let unit = rest[end..].strip_prefix(' ').unwrap_or(&rest[end..]);
        let (unit, behind) = unit.split_at(unit.find(|c: char| !c.is_alphabetic()).unwrap_or(unit.len()));
        let is_time = matches!(unit, "s" | "sec" | "secs" | "seconds" | "ms" | "us" | "µs" | "ns");
        let (before, after) =
            if is_time && rest[at..end].contains('.') { (&rest[..at], behind) } else { rest.split_at(end) };
        kept.push_str(before);
        rest = after;
    }
    kept + rest
}

/// `1 turn`, `3 turns`, `3 branches`.
pub fn counted(count: impl TryInto<u64>, word: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    let hisses = ["s", "x", "ch", "sh"].iter().any(|ending| word.ends_with(ending));
    let plural = if hisses { "es" } else { "s" };
    format!("{count} {word}{}", if count == 1 { "" } else { plural })
}

/// The word most like `word`, when one is close enough to be what was meant.
pub fn closest<'a>(word: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.chars().take(64).collect();
    let length = word.chars().count();
    let limit = match length {
        0..=2 => return None,
        3..=5 => 1,
        _ => 2,
    };
    let near = words.into_iter().filter(|other| other.chars().count().abs_diff(length) <= limit);
    let scored = near.map(|other| (osa_distance(&word, other), other));
    scored.filter(|(distance, _)| *distance <= limit).min().map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_as_git_does() {
        let shown = |path: &[u8]| quoted_path(path);
        assert_eq!(shown(b"src/a b.rs"), "src/a b.rs");
        assert_eq!(shown("\u{e4}.txt".as_bytes()), "\u{e4}.txt");
        assert_eq!(shown(b"a\nb"), r#""a\nb""#);
        assert_eq!(shown(b"say \"hi\"\\"), r#""say \"hi\"\\""#);
        assert_eq!(shown(b"\x1b[31m\x7f\t"), r#""\033[31m\177\t""#);
        assert_eq!(shown(b"\xff/x"), r#""\377/x""#);
        assert_eq!(shown("\u{9b}x".as_bytes()), r#""\302\233x""#, "a control character beyond ASCII");
        assert_eq!(shown("a\u{202e}txt".as_bytes()), r#""a\342\200\256txt""#, "one that turns the text");
    }

    #[test]
    fn nothing_hides_in_what_is_made_visible() {
        assert_eq!(visible("a\tb \u{1b}[8m\u{202e}\u{feff}\u{e4}\n"), "a\tb \\u{1b}[8m\\u{202e}\\u{feff}\u{e4}\\u{a}");
    }

    #[test]
    fn how_long_things_took_is_left_out_and_nothing_else() {
        assert_eq!(without_durations("1 failed in 0.12s (v1.2.3)"), "1 failed in  (v1.2.3)");
        assert_eq!(without_durations("3.5 ms, 7 µs, 12.0 seconds"), ", 7 µs, ");
        for kept in ["", "wait 30s", "2 of 5", "1.2 stones", "ä 0.5", "0.5sä"] {
            assert_eq!(without_durations(kept), kept);
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(shorten("a\u{e4}c", 2), "a\u{e4}…");
        assert_eq!(shorten("a\u{e4}c", 3), "a\u{e4}c");
        assert_eq!(tail("a\u{e4}c", 2), "\u{e4}c");
        assert_eq!([tail("abc", 5), tail("", 2), tail("abc", 0)], ["abc", "", ""]);
        assert_eq!(
            [last_words("one two", 7), last_words("sk-secret two", 6), last_words("sk-secret", 6)],
            ["one two", "two", ""]
        );
        let long = "s".repeat(3 * LONGEST_SECRET);
        assert_eq!(last_words(&long, 2 * LONGEST_SECRET).len(), LONGEST_SECRET);
    }

    #[test]
    fn the_first_line_is_the_first_with_words() {
        assert_eq!(first_line("\n  one \ntwo"), "one ");
        assert_eq!(first_line(""), "");
    }

    #[test]
    fn long_lists_say_how_much_they_leave_out() {
        assert_eq!(listed(["a", "b"], 2), "a, b");
        assert_eq!(listed(1..=12, 3), "1, 2, 3 and 9 more");
        assert_eq!(listed::<&str>([], 3), "");
    }

    #[test]
    fn a_shell_reads_a_word_back() {
        assert_eq!(
            ["T001", "a/b-c_d.e:f=@%+,1", "gr\u{fc}n"].map(shell_word),
            ["T001", "a/b-c_d.e:f=@%+,1", "gr\u{fc}n"]
        );
        let odd = ["fix(api)", "it's", "a b", "", "$HOME", "a;b", "~", "#1"];
        let read = [r"'fix(api)'", r"'it'\''s'", "'a b'", "''", "'$HOME'", "'a;b'", "'~'", "'#1'"];
        assert_eq!(odd.map(shell_word), read);
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "turn")), ["0 turns", "1 turn", "2 turns"]);
        assert_eq!([1, 2].map(|count| counted(count, "branch")), ["1 branch", "2 branches"]);
    }

    #[test]
    fn what_was_meant_is_close() {
        let words = ["hexagon", "Mdiamond", "diamond", "box"];
        let meant = |word| closest(word, words);
        assert_eq!(meant("hexagn"), Some("hexagon"));
        assert_eq!(meant("mdiamond"), Some("Mdiamond"));
        assert_eq!(meant("daimond"), Some("diamond"));
        assert_eq!([meant("ellipse"), meant("bo"), meant("\u{e4}\u{e4}\u{e4}")], [None, None, None]);
    }
}
