//! The `.env` file beside the project's configuration.

use std::path::Path;

use super::error::{ConfigError, Precedence, Source};

/// One variable of a `.env` file.
#[derive(Clone, PartialEq, Eq)]
pub struct DotEnvEntry {
    /// The variable's name.
    pub name: String,
    /// Its value, unquoted.
    pub value: String,
    /// The line it is in, from 1.
    pub line: u32,
}

impl std::fmt::Debug for DotEnvEntry {
    /// Without the value, which may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}=… (line {})", self.name, self.line)
    }
}

/// Reads `NAME=VALUE` lines: `export` in front, comments, single quotes (as they are), double quotes (with `\n`, `\t`,
/// `\"`, `\\`, `\$`, over several lines). Nothing is expanded. Errors never show a value.
pub fn parse_dotenv(text: &str, file: &Path) -> Result<Vec<DotEnvEntry>, Vec<ConfigError>> {
    let mut entries: Vec<DotEnvEntry> = Vec::new();
    let mut errors = Vec::new();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut line = 1;
    while !rest.is_empty() {
        let (entry, after) = take_entry(rest);
        match entry {
            Ok(Some((name, value))) => entries.push(DotEnvEntry { name, value, line }),
            Ok(None) => {}
            Err(message) => {
                let place = Source { line: Some(line), ..Source::file(Precedence::DotEnv, file) };
                errors.push(ConfigError::new(place, message).with_hint("A line is NAME=VALUE; comments begin with #."));
            }
        }
        let used = &rest[..rest.len() - after.len()];
        line += used.matches('\n').count() as u32;
        rest = after;
    }
    if errors.is_empty() { Ok(entries) } else { Err(errors) }
}

type Parsed = Result<Option<(String, String)>, &'static str>;

/// The entry at the start of `text`, if the line has one, and what comes after it.
fn take_entry(text: &str) -> (Parsed, &str) {
    let (line, next) = split_line(text);
    let trimmed = line.trim();
    if trimmed.is_empty() || trimmed.starts_with('#') {
        return (Ok(None), next);
    }
    let Some((name, _)) = line.split_once('=') else { return (Err("this line has no `=`"), next) };
    let value_start = name.len() + 1;
    let name = name.trim();
    let name = name.strip_prefix("export").filter(|rest| rest.starts_with([' ', '\t'])).map_or(name, str::trim);
    if !is_variable_name(name) {
        return (Err("invalid variable name"), next);
    }
    let raw = text[value_start..].trim_start_matches([' ', '\t']);
    let (value, after) = match raw.chars().next() {
        Some(quote @ ('"' | '\'')) => match quoted(&raw[1..], quote) {
            Some((value, after)) => (value, after),
            None => return (Err("unclosed quote"), next),
        },
        _ => (unquoted(split_line(raw).0), next),
    };
    // Behind a closing quote only a comment may follow.
    let (tail, next) = if after.len() == next.len() { ("", next) } else { split_line(after) };
    let tail = tail.trim();
    if !tail.is_empty() && !tail.starts_with('#') {
        return (Err("unexpected text after the closing quote"), next);
    }
    (Ok(Some((name.to_owned(), value))), next)
}

fn split_line(text: &str) -> (&str, &str) {
    let (line, next) = text.split_once('\n').unwrap_or((text, ""));
    (line.strip_suffix('\r').unwrap_or(line), next)
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.')
}

/// A value without quotes ends at the line's end or at a comment.
fn unquoted(raw: &str) -> String {
    let end = raw.char_indices().find(|(at, c)| *c == '#' && (*at == 0 || raw[..*at].ends_with([' ', '\t'])));
    raw[..end.map_or(raw.len(), |(at, _)| at)].trim().to_owned()
}

/// The value up to the closing quote, and the text after it.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Some((value, &text[at + 1..])),
            '\\' if quote == '"' => match chars.next()?.1 {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                plain @ ('"' | '\\' | '$' | '`') => value.push(plain),
                other => value.extend(['\\', other]),
            },
            plain => value.push(plain),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(text: &str) -> Vec<(String, String, u32)> {
        let entries = parse_dotenv(text, Path::new(".env")).unwrap();
        entries.into_iter().map(|entry| (entry.name, entry.value, entry.line)).collect()
    }

    #[test]
    fn every_form_of_a_line_is_read() {
        let text = "\u{feff}# comment\n\nA=1\nexport B = two words # comment\r\nC='as $it \\n is'\nD=\"x\\n\\\"y\\\"\" # c\nE=\nF=a#b\nG=\"over\nlines\"\nexported=yes\nH=''\nI=a=b\n  J=last";
        let expected = [
            ("A", "1", 3),
            ("B", "two words", 4),
            ("C", "as $it \\n is", 5),
            ("D", "x\n\"y\"", 6),
            ("E", "", 7),
            ("F", "a#b", 8),
            ("G", "over\nlines", 9),
            ("exported", "yes", 11),
            ("H", "", 12),
            ("I", "a=b", 13),
            ("J", "last", 14),
        ];
        assert_eq!(pairs(text), expected.map(|(name, value, line)| (name.into(), value.into(), line)));
    }

    #[test]
    fn errors_have_a_line_and_show_no_value() {
        let errors = parse_dotenv("A=1\njust-a-secret\n9X=y\nB=\"open\nC='x' y\n", Path::new("p/.env")).unwrap_err();
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        p/.env:2: this line has no `=`
        A line is NAME=VALUE; comments begin with #.
        p/.env:3: invalid variable name
        A line is NAME=VALUE; comments begin with #.
        p/.env:4: unclosed quote
        A line is NAME=VALUE; comments begin with #.
        p/.env:5: unexpected text after the closing quote
        A line is NAME=VALUE; comments begin with #.
        "#);
        assert!(!shown.concat().contains("just-a-secret"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[A-Za-z0-9=#'\"\\\\ \nä]{0,80}") {
            let _ = parse_dotenv(&text, Path::new(".env"));
        }

        #[test]
        fn a_quoted_value_reads_back(value in "[ -~\n]{0,20}") {
            let written = value.replace('\\', "\\\\").replace('"', "\\\"");
            prop_assert_eq!(pairs(&format!("K=\"{written}\"")), vec![("K".to_owned(), value, 1)]);
        }
    }
}
