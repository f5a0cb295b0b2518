//! Takes secrets out of text before it is recorded.
//!
//! Two things count as secret: the values of variables that are named like secrets or come from a `.env` file, and
//! text that has the shape of a known token wherever it came from. A value that is a plain word or a small number is
//! left alone unless its variable is named like a secret: replacing `production` in every record would wreck them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use regex::Regex;
use serde_json::Value;

/// Values shorter than this are never taken for secrets.
const SHORTEST_SECRET: usize = 6;

/// Values that stay readable whatever their variable is called.
const TRIVIAL: [&str; 14] = [
    "changeme",
    "default",
    "development",
    "disabled",
    "enabled",
    "example",
    "localhost",
    "password",
    "production",
    "secret",
    "staging",
    "testing",
    "undefined",
    "unknown",
];

/// Last parts of variable names that mark a secret.
const SECRET_ENDINGS: [&str; 13] = [
    "APIKEY",
    "AUTH",
    "CREDENTIAL",
    "CREDENTIALS",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PAT",
    "PGPASSWORD",
    "PWD",
    "SECRET",
    "TOKEN",
];

/// Words that make a name ending in `_KEY` (or `_KEY_ID`, `_KEY_2`) a secret one.
const SECRET_KEYS: [&str; 6] = ["ACCESS", "API", "ENCRYPTION", "PRIVATE", "SECRET", "SIGNING"];

/// Known token shapes. Where one has a named group, only that is replaced and the text around it stays. Each starts
/// with fixed letters, and word boundaries are those of ASCII: that keeps the search fast, also in text that is not
/// ASCII.
const SHAPES: [&str; 14] = [
    // PEM blocks, then ones cut off before their end.
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----",
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----[A-Za-z0-9+/=\s\\]*",
    // The end of one whose beginning is cut off. What of it is above is looked for from there.
    r"(?<end>-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----)",
    // OpenAI, Anthropic and their imitators.
    r"(?-u:\b)sk-[A-Za-z0-9_-]{16,}",
    r"(?-u:\b)(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,})",
    r"(?-u:\b)(?:AKIA|ASIA)[A-Z0-9]{16}(?-u:\b)",
    r"(?-u:\b)AIza[A-Za-z0-9_-]{30,}",
    r"(?-u:\b)xox[abposr]-[A-Za-z0-9-]{10,}",
    r"(?-u:\b)[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|(?-u:\b)dckr_pat_[A-Za-z0-9_-]{16,}",
    r"(?-u:\b)SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|(?-u:\b)ya29\.[A-Za-z0-9_-]{20,}",
    r"(?-u:\b)hf_[A-Za-z0-9]{24,}|(?-u:\b)npm_[A-Za-z0-9]{30,}|(?-u:\b)pypi-[A-Za-z0-9_-]{40,}",
    r"(?-u:\b)eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    r"(?:Bearer|bearer|BEARER)[ \t]+(?<bearer>[A-Za-z0-9._~+/-]{16,}=*)",
    r"://[^\s/:@\[\]]*:(?<password>[^\s/@\[\]]+)@",
];

/// What ends a word though its last letter is one: sequences that colour text, also without the byte they start with,
/// and characters that are written as an escape.
const ESCAPE: &str = concat!(
    r"(?:\x1b[\[(]?|\x{9b}|\\(?i:u001b|x1b|033|e)\[)[A-Za-z0-9_]$",
    r"|[\[\x{9b}][0-9;:?]+[A-Za-z_]$",
    r"|\\(?:[abefnrtv]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[0-7]{1,3})$",
    r"|%[0-9A-Fa-f]{2}$",
);

/// No escape is longer than this.
const LONGEST_ESCAPE: usize = 64;

/// A run of base64 this long is part of a key, not a word.
const KEY_LINE: usize = 32;

/// So much may be between two lines of a key: a last line that is short, and what a log puts before each.
const BETWEEN_KEY_LINES: usize = 96;

/// What is where a secret was: `[redacted:NAME]`.
const MARK: &str = r"\[redacted:[A-Za-z0-9_.-]*\]";

/// The name of a secret that is recognized only by its shape.
pub const TOKEN: &str = "token";

/// The secret in an address: `https://user:SECRET@host`, or the token in `https://TOKEN@host`. With ssh what is before the
/// host is only a name. A password that holds a slash is no valid address, but a secret all the same.
pub fn address_secret(address: &str) -> Option<&str> {
    let (scheme, rest) = address.split_once("://")?;
    let authority = rest.split('/').next().unwrap_or(rest);
    let is_port = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    let login = match authority.rsplit_once('@') {
        Some((login, _)) => login,
        None => {
            let (login, _) = rest.rsplit_once('@')?;
            authority.split_once(':').filter(|(_, password)| !is_port(password)).map(|_| login)?
        }
    };
    let secret = match login.split_once(':') {
        Some((_, password)) => Some(password),
        None => Some(login).filter(|_| scheme.starts_with("http")),
    };
    secret.filter(|secret| !secret.is_empty())
}

/// Whether a variable of this name holds a secret, judged by the name alone.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    if name == "PWD" || name == "OLDPWD" {
        return false;
    }
    let mut parts: Vec<&str> = name.split(['_', '-', '.']).collect();
    // `OPENAI_API_KEY_2` and `AWS_ACCESS_KEY_ID` are what they are without their last part.
    if parts.len() > 1 && parts.last().is_some_and(|part| *part == "ID" || part.bytes().all(|b| b.is_ascii_digit())) {
        parts.pop();
    }
    let Some((last, before)) = parts.split_last() else { return false };
    SECRET_ENDINGS.contains(last)
        || parts.contains(&"SECRET")
        || (*last == "KEY" && before.last().is_some_and(|part| SECRET_KEYS.contains(part)))
}

/// Knows shapes and no values. Patterns are built when the first text is looked at, and once: that takes longer than most
/// of what a short command does.
static SHAPES_ALONE: LazyLock<Arc<KnownSecrets>> = LazyLock::new(|| Arc::new(KnownSecrets::new(BTreeMap::new())));
static MARKS: LazyLock<Regex> = LazyLock::new(|| Regex::new(MARK).expect("a constant pattern"));
static ESCAPES: LazyLock<Regex> = LazyLock::new(|| Regex::new(ESCAPE).expect("a constant pattern"));

/// Whether a variable of this value holds a secret, judged by the value alone: a token of a known shape, or an address with
/// a password in it. A path is none, whatever its directories are called.
pub fn is_secret_value(value: &str) -> bool {
    // Most values have nothing a login has, and need no pattern built.
    let may_be_login = || value.contains(|c: char| matches!(c, '@' | '=') || c.is_whitespace());
    !value.starts_with('/') && (SHAPES_ALONE.name_in(value).is_some() || may_be_login() && LOGIN.is_match(value))
}

/// What is a login where it is all there is, though in the middle of a text it may be anything: a proxy's without
/// `http://`, one in the query of an address or among the words of a database, the content of a header.
static LOGIN: LazyLock<Regex> = LazyLock::new(|| {
    let patterns = [
        r"^[^\s/:@]+:[^\s/@]+@[^\s/@]+$",
        r"(?i)[?&;](?:pass(?:word|wd)?|pwd|api[_-]?key|access[_-]?token|auth[_-]?token|token|secret|sig)=[^&;\s]+",
        r"(?i)^(?:authorization:\s*)?basic\s+[a-z0-9+/]{8,}=*$",
    ];
    Regex::new(&patterns.join("|")).expect("a constant pattern")
});

/// Whether a value is so ordinary that it cannot be a secret: every part of it is a word or a small number, as in
/// `production`, `us-east-1`, `http://localhost:3000`, `claude-sonnet-4-5-20250929`.
fn is_plain(value: &str) -> bool {
    value.split(|c: char| !c.is_ascii_alphanumeric()).all(|word| {
        let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
        let upper = word.bytes().skip(1).filter(u8::is_ascii_uppercase).count();
        match (letters, word.len() - letters) {
            (_, 0) => letters <= 15 && (upper == 0 || upper + 1 == letters),
            (0, digits) => digits <= 8,
            (_, _) => word.len() <= 6,
        }
    }) && value.is_ascii()
        && !has_password(value)
}

/// Whether a value is too common to be a secret: a short word as `production` or `us-east-1`, a small number, an
/// address, a path. Replacing those wherever they are would wreck records.
fn is_common(value: &str) -> bool {
    let number = value.bytes().all(|b| b.is_ascii_digit() || b == b'.') && value.len() <= 8;
    let alike = |part: &str| part.bytes().all(|b| b.is_ascii_lowercase()) || part.bytes().all(|b| b.is_ascii_digit());
    let word = value.split(['-', '_', '.']).all(alike) && value.len() <= 14;
    let address = value.contains("://") && !has_password(value) && is_plain(value);
    number || word || address || value.starts_with('/')
}

/// Whether a value is a URL with a password in it.
fn has_password(value: &str) -> bool {
    value.split_once("://").and_then(|(_, rest)| rest.split_once('@')).is_some_and(|(login, _)| login.contains(':'))
}

/// Whether a secret was taken out of a text.
pub fn is_marked(text: &str) -> bool {
    text.contains("[redacted:")
}

/// Whether the value of a variable with this name is worth taking out.
fn is_secret(name: &str, value: &str) -> bool {
    value.len() >= SHORTEST_SECRET
        && !is_marked(value)
        && !TRIVIAL.contains(&value.to_ascii_lowercase().as_str())
        && (is_secret_name(name) || !is_common(value))
}

/// What is at a place of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonPart {
    /// Free text, keys included.
    Text,
    /// An object of fields, or a list of such: its keys are field names, its values may be text.
    Fields,
    /// No text at all, such as an id or a word out of a list of pleach's own. A secret that happens to be the same word
    /// is not given away by it, and the value is unreadable without it.
    Own,
}

/// Replaces secrets in text and JSON. Built once per run; a clean text costs one pass and no copy. Clones learn from each
/// other.
#[derive(Debug, Clone)]
pub struct Redactor(Arc<RwLock<Arc<KnownSecrets>>>);

impl Redactor {
    /// A redactor for these variables (name and value) and all known token shapes. Values too ordinary to be secret
    /// are left out.
    pub fn new<N: Into<String>, V: Into<String>>(secret_values: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut names = BTreeMap::new();
        secret_values.into_iter().for_each(|(name, value)| add(&mut names, &name.into(), &value.into()));
        let known = if names.is_empty() { Arc::clone(&SHAPES_ALONE) } else { Arc::new(KnownSecrets::new(names)) };
        Self(Arc::new(RwLock::new(known)))
    }

    /// Takes out this value too from now on, for all clones.
    pub fn learn(&self, name: &str, value: &str) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut names = known.names.clone();
        add(&mut names, name, value);
        if names.len() > known.names.len() {
            *known = Arc::new(KnownSecrets::new(names));
        }
    }

    /// The text with every secret replaced by `[redacted:NAME]`, or `[redacted:token]` when only its shape is known.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.known().text(text)
    }

    /// Redacts every string of a JSON value, keys included.
    pub fn json(&self, value: &mut Value) {
        self.known().json(value);
    }

    /// Redacts what of a JSON value is text. `part` says what is at a path of keys, such as `outcome.notes`; places in
    /// lists are no part of it.
    pub fn json_text(&self, value: &mut Value, part: &dyn Fn(&str, &Value) -> JsonPart) {
        self.known().parts(value, &mut String::new(), part);
    }

    /// What the first secret in a text is called: after the variable it is the value of, or `token`. None where there is
    /// none.
    pub fn name_in(&self, text: &str) -> Option<String> {
        self.known().name_in(text)
    }

    /// Whether a JSON value given as text certainly has nothing to redact, without taking it apart. It cannot tell
    /// where a string has escapes.
    pub fn is_clean(&self, json: &str) -> bool {
        !json.contains('\\') && self.known().find(json, 0).is_none()
    }

    fn known(&self) -> Arc<KnownSecrets> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Adds the forms of a value that are worth taking out.
fn add(names: &mut BTreeMap<String, String>, name: &str, value: &str) {
    for form in [escaped(value), value.trim().to_owned()] {
        if is_secret(name, &form) {
            names.entry(form).or_insert_with(|| mark_name(name));
        }
    }
}

/// The secrets that are known.
#[derive(Debug)]
struct KnownSecrets {
    pattern: Regex,
    /// What each value is called.
    names: BTreeMap<String, String>,
}

impl KnownSecrets {
    fn new(names: BTreeMap<String, String>) -> Self {
        // Longer values first: where one secret starts with another, the whole of it goes.
        let mut values: Vec<&String> = names.keys().collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        let literals = values.iter().map(|value| literal(value));
        let mut all: Vec<String> = literals.chain(SHAPES.iter().map(|shape| format!("(?:{shape})"))).collect();
        // Behind all others: where one of these is found, nothing else starts there.
        let words: Vec<String> =
            values.iter().filter_map(|value| Some(literal(value).strip_prefix(EDGE)?.to_owned())).collect();
        if !words.is_empty() {
            all.push(format!("(?<word>{})", words.join("|")));
        }
        let pattern = regex::RegexBuilder::new(&all.join("|"))
            .size_limit(64 << 20)
            .build()
            .expect("escaped literals and our own constant patterns make a valid expression");
        Self { pattern, names }
    }

    fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        // Taking one secret out can lay the edge of another bare; each round leaves less unmarked text, so this ends.
        while let Some(less) = self.round(&text) {
            text = Cow::Owned(less);
        }
        text
    }

    fn json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.text(text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.json(item)),
            Value::Object(map) => {
                map.values_mut().for_each(|item| self.json(item));
                if map.keys().any(|key| matches!(self.text(key), Cow::Owned(_))) {
                    let entries = std::mem::take(map);
                    map.extend(entries.into_iter().map(|(key, value)| (self.text(&key).into_owned(), value)));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn parts(&self, value: &mut Value, path: &mut String, part: &dyn Fn(&str, &Value) -> JsonPart) {
        match (part(path, value), value) {
            (JsonPart::Own, _) => {}
            (JsonPart::Fields, Value::Array(items)) => items.iter_mut().for_each(|item| self.parts(item, path, part)),
            (JsonPart::Fields, Value::Object(fields)) => {
                let above = path.len();
                for (key, value) in fields {
                    path.push_str(if above == 0 { "" } else { "." });
                    path.push_str(key);
                    self.parts(value, path, part);
                    path.truncate(above);
                }
            }
            (JsonPart::Fields | JsonPart::Text, value) => self.json(value),
        }
    }

    fn name_in(&self, text: &str) -> Option<String> {
        MARKS.split(text).find_map(|gap| self.find(gap, 0)).map(|(_, name)| name.to_owned())
    }

    /// One pass over the text between the marks that are there already; `None` when nothing was found.
    fn round(&self, text: &str) -> Option<String> {
        if !self.pattern.is_match(text) {
            return None;
        }
        let mut out = String::with_capacity(text.len());
        let mut changed = false;
        let mut end = 0;
        let marks = MARKS.find_iter(text).map(|mark| mark.range());
        for mark in marks.chain(std::iter::once(text.len()..text.len())) {
            let gap = &text[end..mark.start];
            let mut done = 0;
            while let Some((secret, name)) = self.find(gap, done) {
                out.push_str(&gap[done..secret.start]);
                out.push_str(&format!("[redacted:{name}]"));
                done = secret.end;
                changed = true;
            }
            out.push_str(&gap[done..]);
            out.push_str(&text[mark.clone()]);
            end = mark.end;
        }
        changed.then_some(out)
    }

    /// The first secret after `from` in a text without marks, and its name.
    fn find(&self, text: &str, from: usize) -> Option<(Range<usize>, &str)> {
        let mut at = from;
        while let Some(found) = self.pattern.captures_at(text, at) {
            let whole = found.get(0).expect("group 0 is the match");
            let secret = found.name("bearer").or_else(|| found.name("password")).unwrap_or(whole);
            let begin = if found.name("end").is_some() {
                key_begin(&text[from..whole.start()]).map(|begin| from + begin)
            } else if found.name("word").is_some() {
                self.ends_in_escape(&text[..whole.start()]).then_some(whole.start())
            } else {
                Some(secret.start())
            };
            if let Some(begin) = begin {
                return Some((begin..secret.end(), self.names.get(secret.as_str()).map_or(TOKEN, String::as_str)));
            }
            // Another may start within what is none; both start with a single byte.
            at = whole.start() + 1;
        }
        None
    }

    fn ends_in_escape(&self, text: &str) -> bool {
        let from = (text.len().saturating_sub(LONGEST_ESCAPE)..text.len()).find(|at| text.is_char_boundary(*at));
        from.is_some_and(|from| ESCAPES.is_match(&text[from..]))
    }
}

/// Where a private key starts whose last line is to follow a text: at the first of the lines of base64 at its end. None
/// when there is no such line.
fn key_begin(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_key = |at: usize| bytes[at].is_ascii_alphanumeric() || b"+/=\\".contains(&bytes[at]);
    // The last run of base64 before a place that is not too far from it.
    let run_before = |at: usize, floor: usize| {
        let end = (floor..at).rfind(|at| is_key(*at))? + 1;
        let start = (0..end).rfind(|at| !is_key(*at)).map_or(0, |before| before + 1);
        Some(start..end)
    };
    let (mut begin, mut seen) = (bytes.len(), bytes.len());
    while let Some(run) = run_before(seen, begin.saturating_sub(BETWEEN_KEY_LINES).min(seen)) {
        seen = run.start;
        if run.len() >= KEY_LINE {
            begin = run.start;
        }
    }
    // Above the others is what a cut has left of a line; where there are none, it and the last one may be all.
    for _ in 0..2 {
        let Some(run) = run_before(begin, begin.saturating_sub(BETWEEN_KEY_LINES)) else { break };
        let between = &text[run.end..begin];
        let is_break = begin < bytes.len() || between.contains('\n') || text[run.clone()].contains("\\n");
        let around = |c: char| c.is_whitespace() && c != '\n' || "\"',>|-".contains(c);
        let above = text[..run.start].trim_end_matches(around);
        let is_first = above.is_empty() || above.ends_with('\n');
        if !is_break || !is_first || !between.trim_matches(|c| c == '\n' || around(c)).is_empty() {
            break;
        }
        begin = run.start;
    }
    (begin < bytes.len()).then_some(begin)
}

/// A value as it is inside a JSON string.
fn escaped(value: &str) -> String {
    let quoted = Value::String(value.trim().to_owned()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// A name as it may be in a mark.
fn mark_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' }).collect()
}

/// Where a word starts or ends.
const EDGE: &str = r"(?-u:\b)";

/// The expression for one value. Ordinary words count only where they are alone.
fn literal(value: &str) -> String {
    let word = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    let edge = |byte: Option<u8>| if is_plain(value) && word(byte) { EDGE } else { "" };
    let (first, last) = (edge(value.bytes().next()), edge(value.bytes().last()));
    format!("{first}{}{last}", regex::escape(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn redactor() -> Redactor {
        Redactor::new([
            ("DB_PASSWORD", "hunter42!"),
            ("SERVICE_TOKEN", "hunter42!extra"),
            ("NODE_ENV", "production"),
            ("AWS_REGION", "us-east-1"),
            ("WEBHOOK", "https://hooks.example.com/T0AB1CDE/Z9y8X7w6V5u4"),
            ("ROOT_PASSWORD", "orchid"),
            ("DEBUG", "true"),
            ("MULTI_SECRET", "first\nsecond \"quoted\""),
        ])
    }

    #[test]
    fn later_secrets_apply_to_all_clones() {
        let redactor = redactor();
        let clone = redactor.clone();
        assert_eq!(clone.text("key 9f8e7d6c5b4a"), "key 9f8e7d6c5b4a");
        redactor.learn("ANTHROPIC_API_KEY", "9f8e7d6c5b4a\n");
        assert_eq!(clone.text("key 9f8e7d6c5b4a"), "key [redacted:ANTHROPIC_API_KEY]");
        assert_eq!(clone.text("hunter42!"), "[redacted:DB_PASSWORD]", "what was known stays known");
    }

    #[test]
    fn variables_are_judged_by_their_names() {
        for name in [
            "OPENAI_API_KEY",
            "openai_api_key",
            "OPENAI_API_KEY_2",
            "AWS_SECRET_ACCESS_KEY",
            "GH_TOKEN",
            "DB_PASS",
            "AWS_ACCESS_KEY_ID",
            "PGPASSWORD",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "SECRET_KEY_BASE",
            "TOKEN",
            "DB_CREDENTIAL",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "PWD",
            "OLDPWD",
            "MAX_TOKENS",
            "TOKENIZERS_PARALLELISM",
            "SSH_AUTH_SOCK",
            "KEYBOARD",
            "XDG_SESSION_ID",
            "GIT_AUTHOR_NAME",
            "COMPASS",
            "",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn variables_are_judged_by_their_values() {
        let body = "Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6";
        for value in [
            "postgres://me:pw@db.example.com/x".to_owned(),
            "redis://:hunter2@localhost:6379/0".to_owned(),
            "http://user:pa%2Fss@proxy:3128".to_owned(),
            format!("https://{}_{body}@github.com/a/b", "ghp"),
            format!("sk-{body}"),
            format!("--header 'Authorization: Bearer {body}'"),
        ] {
            assert!(is_secret_value(&value), "{value}");
        }
        for value in [
            "postgres://me@db.example.com/x",
            "http://localhost:3000/@me",
            "/home/me/sk-a-directory-with-a-long-name:/usr/bin",
            "git@github.com:a/b.git",
            "en_US.UTF-8",
            "",
        ] {
            assert!(!is_secret_value(value), "{value}");
        }
    }

    #[test]
    fn values_are_replaced_and_ordinary_ones_stay() {
        let cases = [
            ("login hunter42! done", "login [redacted:DB_PASSWORD] done"),
            ("login hunter42!extra done", "login [redacted:SERVICE_TOKEN] done"),
            ("production in us-east-1 is true", "production in us-east-1 is true"),
            ("curl https://hooks.example.com/T0AB1CDE/Z9y8X7w6V5u4", "curl [redacted:WEBHOOK]"),
            ("orchid and orchids", "[redacted:ROOT_PASSWORD] and orchids"),
            (r#"{"a":"first\nsecond \"quoted\""}"#, r#"{"a":"[redacted:MULTI_SECRET]"}"#),
        ];
        let redactor = redactor();
        for (text, expected) in cases {
            assert_eq!(redactor.text(text), expected);
        }
    }

    #[test]
    fn token_shapes_are_known_without_their_values() {
        // Put together here so that no scanner takes this file for a leak.
        let body = "Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6";
        let upper = "ABCD1234EFGH5678";
        let cases = [
            (format!("key sk-ant-api03-{body}."), "key [redacted:token]."),
            (format!("key sk-proj-{body}"), "key [redacted:token]"),
            (format!("ghp_{body} github_pat_11A_{body}"), "[redacted:token] [redacted:token]"),
            (format!("id=AKIA{upper};"), "id=[redacted:token];"),
            (format!("AIza{body}"), "[redacted:token]"),
            (format!("xoxb-12345678-{body}"), "[redacted:token]"),
            (format!("eyJ{body}.eyJ{body}.{body}"), "[redacted:token]"),
            (format!("Authorization: Bearer {body}\n"), "Authorization: Bearer [redacted:token]\n"),
            (format!("https://me:{body}@git.example.com/x"), "https://me:[redacted:token]@git.example.com/x"),
            (
                format!("-----BEGIN RSA PRIVATE KEY-----\n{body}\n{body}==\n-----END RSA PRIVATE KEY-----\nend"),
                "[redacted:token]\nend",
            ),
        ];
        let redactor = Redactor::new([("", ""); 0]);
        for (text, expected) in cases {
            assert_eq!(redactor.text(&text), expected);
        }
        for text in [
            "task-management-and-other-things",
            "risk-averse-people-everywhere",
            "http://localhost:3000/@me",
            "bearer of news",
        ] {
            assert!(matches!(redactor.text(text), Cow::Borrowed(_)), "{text}");
        }
    }

    #[test]
    fn a_word_may_follow_an_escape() {
        let mark = "[redacted:ROOT_PASSWORD]";
        let redactor = redactor();
        for before in [
            "\x1b[31m",
            "\x1b[m",
            "\x1b[0m\x1b[1;38;2;255;255;255;48;2;10;20;30m",
            "\x1b(B",
            "\u{9b}1m",
            "[31m",
            r"\u001b[31m",
            r"\u001b[m",
            r"\033[0m",
            r"\n",
            r"\n\n\t",
            r"\\n",
            r"é\r\n",
            r"\u000a",
            r#"\""#,
            "%3D",
        ] {
            assert_eq!(redactor.text(&format!("{before}orchid")), format!("{before}{mark}"), "{before:?}");
            let twice = format!("an {before}orchid{before}orchid\x1b[0m norchid {before}orchid.");
            let expected = format!("an {before}{mark}{before}{mark}\x1b[0m norchid {before}{mark}.");
            assert_eq!(redactor.text(&twice), expected, "{before:?}");
            assert!(!redactor.is_clean(&twice), "{before:?}");
            assert_eq!(redactor.name_in(&twice).as_deref(), Some("ROOT_PASSWORD"), "{before:?}");
            // What only contains it stays.
            for other in ["norchid", "an orchids", "_orchid", "[norchid]", "3morchid", "uorchid orchid1"] {
                assert!(matches!(redactor.text(other), Cow::Borrowed(_)), "{other}");
            }
            let longer = format!("{before}orchids");
            assert!(matches!(redactor.text(&longer), Cow::Borrowed(_)), "{longer}");
        }
        // One that starts within a word that is not one is found all the same.
        let redactor =
            Redactor::new([("A_PASSWORD", "orchid"), ("B_PASSWORD", "chid!x9Zq7w8"), ("C_PASSWORD", "orchid-bed")]);
        assert_eq!(redactor.text("norchid!x9Zq7w8"), "nor[redacted:B_PASSWORD]");
        assert_eq!(
            redactor.text(r"\norchid-bed \norchid-beds"),
            r"\n[redacted:C_PASSWORD] \n[redacted:A_PASSWORD]-beds"
        );
    }

    #[test]
    fn the_end_of_a_private_key_is_recognized() {
        let line = "Ab3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6lO9rU2xA5dG8jM1pS4vY7bE0hK3n";
        let end = format!("-----{} RSA PRIVATE KEY-----", "END");
        let cut = "[... 5 bytes left out ...]\n";
        let redactor = Redactor::new([("", ""); 0]);
        for (key, rest) in [
            (format!("{line}\n{line}\nQ8sT=\n"), ""),
            (format!("T1vW\n{line}\nQ8sT=\n"), ""),
            ("T1vW\nQ8sT=\n".to_owned(), ""),
            ("Q8sT=\n".to_owned(), ""),
            (format!("    {line}\r\n    {line}\r\n    Q8sT=\r\n    "), "    "),
            (format!("{line}\\n{line}\\nQ8sT=\\n"), ""),
            ("T1vW\\nQ8sT=\\n".to_owned(), ""),
            (format!("{line} {line} Q8sT= "), ""),
            (format!("-{line}\n-{line}\n-Q8sT=\n-"), "-"),
            (format!("\"{line}\",\n\"{line}\",\n\"Q8sT=\",\n\""), "\""),
            (format!("  7: {line}\n  8: {line}\n  9: Q8sT=\n 10: "), "  7: "),
        ] {
            let text = format!("é {cut}{key}{end}\nend");
            let expected = format!("é {cut}{rest}[redacted:token]\nend");
            assert_eq!(redactor.text(&text), expected);
            assert_eq!(redactor.name_in(&text).as_deref(), Some(TOKEN));
        }
        for text in [
            end.clone(),
            format!("grep -e '{end}' file"),
            format!("It ends with\n{end}"),
            format!("It ends\\n{end}"),
            format!("{line}\n{}\n{end}", "These are many words that are no key. ".repeat(4)),
        ] {
            assert!(matches!(redactor.text(&text), Cow::Borrowed(_)), "{text}");
        }
        // Whoever has much of both waits for neither.
        let much = format!("{}{}", "Ab3d".repeat(200_000), format!(" x\\n{end}").repeat(20_000));
        assert!(redactor.text(&much).len() < much.len());
    }

    #[test]
    fn binary_data_is_left_alone() {
        let redactor = Redactor::new([("ROOT_PASSWORD", "orchid")]);
        let part = |path: &str, _: &Value| match path {
            "" | "orchid" | "list" => JsonPart::Fields,
            "list.id" => JsonPart::Own,
            _ => JsonPart::Text,
        };
        let mut value = json!({"orchid": {"orchid": "an orchid"}, "list": [{"id": "orchid", "orchid": ["orchid"]}, "orchid"],
            "map": {"orchid": 1}});
        redactor.json_text(&mut value, &part);
        let mark = "[redacted:ROOT_PASSWORD]";
        assert_eq!(
            value,
            json!({"orchid": {"orchid": format!("an {mark}")}, "list": [{"id": "orchid", "orchid": [mark]}, mark],
                "map": {mark: 1}})
        );
    }

    #[test]
    fn the_first_secret_is_named() {
        let redactor = redactor();
        assert_eq!(redactor.name_in("[redacted:OLD] orchid hunter42!").as_deref(), Some("ROOT_PASSWORD"));
        assert_eq!(redactor.name_in("AKIAABCD1234EFGH5678").as_deref(), Some(TOKEN));
        assert_eq!(redactor.name_in("[redacted:OLD] orchids"), None);
    }

    #[test]
    fn json_is_redacted_in_keys_and_values() {
        let mut value = json!({"a": ["hunter42!", 1, null], "hunter42!": {"b": "x hunter42!"}});
        redactor().json(&mut value);
        assert_eq!(
            value,
            json!({"a": ["[redacted:DB_PASSWORD]", 1, null], "[redacted:DB_PASSWORD]": {"b": "x [redacted:DB_PASSWORD]"}})
        );
    }

    proptest! {
        #[test]
        fn redacting_twice_changes_nothing_and_no_secret_survives(
            values in proptest::collection::vec(("[A-C]{1,2}_(TOKEN|URL)", "[a-z0-9!\\[\\]:@/ \"\\\\]{3,12}"), 0..6),
            pieces in proptest::collection::vec((0usize..8, "[a-zA-Z0-9 \\[\\]:.@/-]{0,10}"), 0..12),
        ) {
            let redactor = Redactor::new(values.clone());
            let text: String = pieces.iter().map(|(index, filler)| match values.get(*index) {
                Some((_, value)) => format!("{value}{filler}"),
                None if *index == 7 => format!("Bearer {filler}sk-0123456789abcdef0123"),
                None => filler.clone(),
            }).collect();
            let once = redactor.text(&text).into_owned();
            prop_assert_eq!(&redactor.text(&once), &once);
            for (name, value) in values.iter().filter(|(name, value)| is_secret(name, value.trim()) && !is_plain(value.trim())) {
                let gaps = MARKS.split(&once);
                prop_assert!(gaps.into_iter().all(|gap| !gap.contains(value.trim())), "{name}={value} in {once}");
            }
        }

        #[test]
        fn clean_text_is_left_alone_piece_by_piece(
            values in proptest::collection::vec(("[A-C]{1,2}_(TOKEN|URL)", "[a-z0-9!:/\n\"\\\\]{5,8}"), 0..4),
            pieces in proptest::collection::vec((0usize..6, "[a-z \n\t\"\\\\é]{0,3}", "[a-z \n]{0,3}"), 0..6),
        ) {
            let redactor = Redactor::new(values.clone());
            let strings: Vec<Value> = pieces.iter().map(|(index, before, after)| match values.get(*index) {
                Some((_, value)) => format!("{before}{value}{after}").into(),
                None if *index == 5 => format!("{before}Bearer 0123456789abcdef{after}").into(),
                None => format!("{before}{after}").into(),
            }).collect();
            let map: BTreeMap<&str, usize> = strings.iter().filter_map(Value::as_str).zip(0..).collect();
            let json = json!({"list": strings, "map": map});
            if redactor.is_clean(&json.to_string()) {
                let mut redacted = json.clone();
                redactor.json(&mut redacted);
                prop_assert_eq!(redacted, json);
            }
        }
    }

    #[test]
    fn most_json_is_known_to_be_clean_at_once() {
        let redactor = redactor();
        assert!(redactor.is_clean(r#"{"type":"node_started","data":{"node_id":"test","visit":1}}"#));
        assert!(!redactor.is_clean(r#"{"output":"it is orchid"}"#));
        assert!(!redactor.is_clean(r#"{"output":"it is\norchid"}"#), "the n before it is no letter of the text");
    }
}
