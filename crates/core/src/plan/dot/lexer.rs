//! Text to tokens. What a run of letters means depends on where it is: after `=` dashes, dots and colons belong to a
//! bare value, elsewhere `a->b` is three tokens. So the parser asks for one token at a time, in one of two modes.

use super::{AttrValue, read_duration};
use crate::plan::diagnostic::{Diagnostic, Span};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind {
    /// A name, possibly dotted; its text is the span's.
    Word,
    /// A quoted string, unescaped.
    Text(String),
    /// A bare value; only after `=`.
    Value(AttrValue),
    /// `<…>`; only after `=`.
    Html,
    Arrow,
    Undirected,
    OpenBrace,
    CloseBrace,
    OpenBracket,
    CloseBracket,
    Equals,
    Comma,
    Semicolon,
    Colon,
    End,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub span: Span,
    /// Nothing but blanks and comments are before it on its line.
    pub first_on_line: bool,
}

pub(super) struct Lexer<'s> {
    source: &'s str,
    at: usize,
    first_on_line: bool,
    pub diagnostics: Vec<Diagnostic>,
    /// How many of them are errors.
    pub errors: usize,
    /// The parser is recovering: errors are not reported.
    pub skipping: bool,
    /// A string or comment took the rest of the file: what is missing after it is no further error.
    pub cut_short: bool,
}

impl<'s> Lexer<'s> {
    pub fn new(source: &'s str) -> Self {
        let at = if source.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { source, at, first_on_line: true, diagnostics: Vec::new(), errors: 0, skipping: false, cut_short: false }
    }

    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump_while(&mut self, keep: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|c| !keep(c)).unwrap_or(rest.len());
    }

    pub fn report(&mut self, diagnostic: Diagnostic) {
        self.errors += usize::from(diagnostic.is_error());
        self.diagnostics.push(diagnostic);
    }

    fn error(&mut self, start: usize, end: usize, message: impl Into<String>, fix: Option<String>) {
        if self.skipping && !self.cut_short {
            return;
        }
        let mut diagnostic = Diagnostic::error("syntax", message, Span { start, end });
        diagnostic.fix = fix;
        self.report(diagnostic);
    }

    /// The next token outside of a value.
    pub fn next(&mut self) -> Token {
        loop {
            self.skip_blanks();
            let start = self.at;
            let first_on_line = std::mem::replace(&mut self.first_on_line, false);
            let Some(c) = self.peek() else { return self.token(TokenKind::End, start, first_on_line) };
            let kind = match c {
                '"' => self.quoted(),
                _ if is_word(c) => self.word(),
                _ => match self.punctuation() {
                    Some(kind) => kind,
                    None => {
                        self.bump_while(|c| !is_word(c) && !c.is_whitespace() && !"\"{}[]=,;:-/#".contains(c));
                        self.at = self.at.max(start + c.len_utf8());
                        let text = &self.source[start..self.at];
                        self.error(start, self.at, format!("unexpected `{text}`"), None);
                        self.first_on_line = first_on_line;
                        continue;
                    }
                },
            };
            return self.token(kind, start, first_on_line);
        }
    }

    /// The token after an `=`. Punctuation comes back as such when there is no value.
    pub fn value(&mut self) -> Token {
        self.skip_blanks();
        let start = self.at;
        let first_on_line = std::mem::replace(&mut self.first_on_line, false);
        let kind = match self.peek() {
            Some('"') => self.quoted(),
            Some('<') => self.html(),
            Some(c) if !c.is_whitespace() && !"{}[],;=".contains(c) => self.bare_value(),
            _ => {
                self.first_on_line = first_on_line;
                return self.next();
            }
        };
        let token = self.token(kind, start, first_on_line);
        match token.kind {
            // A string without an end is known by its beginning; the rest of the file is no part of it.
            TokenKind::Text(_) if self.cut_short => Token { span: Span { start, end: start + 1 }, ..token },
            _ => token,
        }
    }

    fn token(&self, kind: TokenKind, start: usize, first_on_line: bool) -> Token {
        Token { kind, span: Span { start, end: self.at }, first_on_line }
    }

    fn skip_blanks(&mut self) {
        loop {
            let before = self.at;
            self.bump_while(char::is_whitespace);
            if self.source[before..self.at].contains('\n') {
                self.first_on_line = true;
            }
            let rest = self.rest();
            if rest.starts_with("//") || (rest.starts_with('#') && self.first_on_line) {
                self.bump_while(|c| c != '\n');
            } else if let Some(inside) = rest.strip_prefix("/*") {
                match inside.find("*/") {
                    Some(length) => self.at += length + 4,
                    None => {
                        let start = self.at;
                        self.at = self.source.len();
                        self.cut_short = true;
                        self.error(start, start + 2, "unclosed comment", Some("add `*/`".into()));
                    }
                }
            } else {
                return;
            }
        }
    }

    fn punctuation(&mut self) -> Option<TokenKind> {
        let rest = self.rest();
        let (kind, length) = match rest.as_bytes() {
            [b'-', b'>', ..] => (TokenKind::Arrow, 2),
            [b'-', b'-', ..] => (TokenKind::Undirected, 2),
            [b'{', ..] => (TokenKind::OpenBrace, 1),
            [b'}', ..] => (TokenKind::CloseBrace, 1),
            [b'[', ..] => (TokenKind::OpenBracket, 1),
            [b']', ..] => (TokenKind::CloseBracket, 1),
            [b'=', ..] => (TokenKind::Equals, 1),
            [b',', ..] => (TokenKind::Comma, 1),
            [b';', ..] => (TokenKind::Semicolon, 1),
            [b':', ..] => (TokenKind::Colon, 1),
            _ => return None,
        };
        self.at += length;
        Some(kind)
    }

    /// A name, possibly dotted. What is almost a name is reported and still taken as one, so that the statement
    /// around it can be read.
    fn word(&mut self) -> TokenKind {
        let start = self.at;
        loop {
            self.bump_while(is_word);
            // `a-b` is one bad name, `a->b` and `a--b` are not.
            let mut ahead = self.rest().chars();
            match (ahead.next(), ahead.next()) {
                (Some('-' | '.'), Some(c)) if is_word(c) => self.at += 1,
                _ => break,
            }
        }
        let text = &self.source[start..self.at];
        if !text.split('.').all(super::is_identifier) {
            let digit = text.starts_with(|c: char| c.is_ascii_digit());
            let fixed = format!("{}{}", if digit { "_" } else { "" }, text.replace('-', "_"));
            let fix = super::is_identifier(&fixed).then(|| format!("write `{fixed}`"));
            let message = format!("`{text}` is not a name: ASCII letters, digits and `_`, not starting with a digit");
            self.error(start, self.at, message, fix);
        }
        TokenKind::Word
    }

    fn quoted(&mut self) -> TokenKind {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = self.rest();
            let plain = rest.find(['"', '\\']).unwrap_or(rest.len());
            text.push_str(&rest[..plain]);
            self.at += plain;
            let mut ahead = self.rest().chars();
            match (ahead.next(), ahead.next()) {
                (None, _) => {
                    self.cut_short = true;
                    let fix = "add the closing `\"`; a quote inside the string is written `\\\"`";
                    self.error(start, start + 1, "unclosed string", Some(fix.into()));
                    return TokenKind::Text(text);
                }
                (Some('"'), _) => {
                    self.at += 1;
                    return TokenKind::Text(text);
                }
                (Some(_), escaped) => self.escape(escaped, &mut text),
            }
        }
    }

    /// `at` is on a backslash and `escaped` is the character after it.
    fn escape(&mut self, escaped: Option<char>, text: &mut String) {
        self.at += 1 + escaped.map_or(0, char::len_utf8);
        match escaped {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some(c @ ('"' | '\\')) => text.push(c),
            // A backslash at the end of a line joins it with the next one.
            Some('\n') => {}
            Some('\r') if self.rest().starts_with('\n') => self.at += 1,
            // Shell text is full of `\.` and `\d`: anything else stays as it was written.
            Some(c) => text.extend(['\\', c]),
            None => text.push('\\'),
        }
    }

    /// Everything up to the next separator outside of `<…>`, or the rest of the line when a `<` is never closed.
    fn html(&mut self) -> TokenKind {
        let mut depth = 0usize;
        for (offset, c) in self.rest().char_indices() {
            match c {
                '<' => depth += 1,
                '>' => depth = depth.saturating_sub(1),
                ',' | ';' | ']' | '}' | '\n' if depth == 0 => {
                    self.at += offset;
                    return TokenKind::Html;
                }
                _ => {}
            }
        }
        self.bump_while(|c| c != '\n');
        TokenKind::Html
    }

    fn bare_value(&mut self) -> TokenKind {
        let start = self.at;
        loop {
            self.bump_while(|c| !c.is_whitespace() && !"{}[],;=\"/".contains(c));
            let rest = self.rest();
            if rest.starts_with('/') && !rest.starts_with("//") && !rest.starts_with("/*") {
                self.at += 1;
            } else {
                break;
            }
        }
        let text = &self.source[start..self.at];
        if let Some(value) = read_bare(text) {
            return TokenKind::Value(value);
        }
        let end = self.at;
        self.error(start, end, format!("`{text}` is not a value"), Some(format!("write `\"{text}\"`")));
        TokenKind::Value(AttrValue::Text(text.to_owned()))
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// A value without quotes, where `text` is one.
pub(super) fn read_bare(text: &str) -> Option<AttrValue> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if is_digits(unsigned) {
        return text.parse().ok().map(AttrValue::Integer);
    }
    if let Some((whole, part)) = unsigned.split_once('.')
        && (whole.is_empty() || is_digits(whole))
        && is_digits(part)
    {
        return text.parse().ok().filter(|number: &f64| number.is_finite()).map(AttrValue::Float);
    }
    if let Some(duration) = read_duration(text) {
        return Some(AttrValue::Duration(duration));
    }
    match text {
        "true" => Some(AttrValue::Boolean(true)),
        "false" => Some(AttrValue::Boolean(false)),
        _ => {
            let starts = text.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
            let goes_on = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b));
            (starts && goes_on).then(|| AttrValue::Text(text.to_owned()))
        }
    }
}
