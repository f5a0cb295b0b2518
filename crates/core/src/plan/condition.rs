//! When an edge may be taken: a parsed expression over the run's context.
//!
//! The core is `key=value && key!=value`; beyond it `||`, `!`, parentheses, `==`, `<`, `>`, `<=`, `>=`, `contains` and
//! `matches` are understood, because pipelines in use have them. A key without an operator asks whether it is set.

use std::fmt;

use regex::{Regex, RegexBuilder};

/// A condition that parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition(Expr);

/// The parts of a condition.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// All hold; an empty list always does.
    All(Vec<Expr>),
    /// One of them holds.
    Any(Vec<Expr>),
    /// It does not hold.
    Not(Box<Expr>),
    /// The key is set: neither empty, nor `false`, nor `0`.
    Set(String),
    /// The key's value compared with a literal.
    Compare {
        /// The key.
        key: String,
        /// How they are compared.
        op: Op,
        /// The literal.
        literal: String,
    },
    /// The key's value holds a match of the pattern.
    Matches {
        /// The key.
        key: String,
        /// The pattern.
        pattern: Pattern,
    },
}

/// How a value is compared with a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `=`: the same text.
    Equal,
    /// `!=`: another text.
    NotEqual,
    /// `<` between numbers.
    Less,
    /// `>` between numbers.
    Greater,
    /// `<=` between numbers.
    AtMost,
    /// `>=` between numbers.
    AtLeast,
    /// The value holds the literal.
    Contains,
}

/// A compiled regular expression. Two are equal when their texts are.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// The text it was made of.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

/// Why a text is no condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConditionError {
    /// What is wrong.
    pub message: String,
    /// The byte it is wrong at.
    pub offset: usize,
}

/// Brackets and `!` inside each other; a guard for the stack.
const MAX_DEPTH: usize = 64;

/// Bytes a compiled pattern may take; a guard for memory.
const PATTERN_LIMIT: usize = 1 << 20;

/// The spelling of an outcome this engine uses: other engines say `succeeded` and `failed`.
pub(crate) fn canonical_outcome(text: &str) -> &str {
    match text {
        "succeeded" => "success",
        "failed" => "fail",
        other => other,
    }
}

fn is_outcome(key: &str) -> bool {
    key == "outcome" || key == "context.outcome"
}

impl Condition {
    /// Reads a condition. An empty text always holds.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        let mut parser = ConditionParser { text, at: 0, depth: 0, open: 0 };
        if parser.peek().is_none() {
            return Ok(Self(Expr::All(Vec::new())));
        }
        let expr = parser.any()?;
        match parser.peek() {
            None => Ok(Self(expr)),
            Some(c) => {
                let word = parser.rest().split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
                let found = if word.is_empty() { c.to_string() } else { word.to_owned() };
                Err(parser.error(format!("expected `&&` or `||`, found `{found}`")))
            }
        }
    }

    /// The parsed expression.
    pub fn expr(&self) -> &Expr {
        &self.0
    }

    /// The keys it reads.
    pub fn keys(&self) -> Vec<&str> {
        let mut keys = Vec::new();
        self.0.walk(&mut |part| match part {
            Expr::Set(key) | Expr::Compare { key, .. } | Expr::Matches { key, .. } => keys.push(key.as_str()),
            Expr::All(_) | Expr::Any(_) | Expr::Not(_) => {}
        });
        keys
    }

    /// Whether it mentions this outcome: by its name, or by a matching pattern or part.
    pub fn names_outcome(&self, word: &str) -> bool {
        let mut named = false;
        self.0.walk(&mut |part| {
            named |= match part {
                Expr::Compare { key, op: Op::Equal | Op::NotEqual, literal } => is_outcome(key) && literal == word,
                Expr::Compare { key, op: Op::Contains, literal } => is_outcome(key) && word.contains(literal.as_str()),
                Expr::Matches { key, pattern } => is_outcome(key) && pattern.0.is_match(word),
                _ => false,
            };
        });
        named
    }

    /// Whether it holds. `lookup` gives the value of a key, empty when there is none.
    pub fn eval(&self, lookup: &dyn Fn(&str) -> String) -> bool {
        self.0.eval(lookup)
    }
}

impl Expr {
    fn eval(&self, lookup: &dyn Fn(&str) -> String) -> bool {
        let value = |key: &str| {
            let direct = lookup(key);
            match key.strip_prefix("context.") {
                Some(short) if direct.is_empty() => lookup(short),
                _ => direct,
            }
        };
        match self {
            Self::All(parts) => parts.iter().all(|part| part.eval(lookup)),
            Self::Any(parts) => parts.iter().any(|part| part.eval(lookup)),
            Self::Not(part) => !part.eval(lookup),
            Self::Set(key) => !matches!(value(key).as_str(), "" | "false" | "0"),
            Self::Compare { key, op, literal } => op.holds(key, &value(key), literal),
            Self::Matches { key, pattern } => pattern.0.is_match(&value(key)),
        }
    }

    /// Calls `visit` with this part and every part inside it.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        visit(self);
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.walk(visit)),
            Self::Not(part) => part.walk(visit),
            _ => {}
        }
    }
}

impl Op {
    fn holds(self, key: &str, value: &str, literal: &str) -> bool {
        let value = if is_outcome(key) { canonical_outcome(value) } else { value };
        let numbers = || Some((value.trim().parse::<f64>().ok()?, literal.trim().parse::<f64>().ok()?));
        match self {
            Self::Equal => value == literal,
            Self::NotEqual => value != literal,
            Self::Contains => value.contains(literal),
            // What is not a number is neither less nor more.
            Self::Less => numbers().is_some_and(|(a, b)| a < b),
            Self::Greater => numbers().is_some_and(|(a, b)| a > b),
            Self::AtMost => numbers().is_some_and(|(a, b)| a <= b),
            Self::AtLeast => numbers().is_some_and(|(a, b)| a >= b),
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::Greater => ">",
            Self::AtMost => "<=",
            Self::AtLeast => ">=",
            Self::Contains => " contains ",
        }
    }
}

impl fmt::Display for Condition {
    /// A text that parses back to the same condition.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |f: &mut fmt::Formatter<'_>, parts: &[Expr], with: &str| {
            for (index, part) in parts.iter().enumerate() {
                let group = matches!(part, Self::All(_) | Self::Any(_));
                write!(f, "{}", if index == 0 { "" } else { with })?;
                if group { write!(f, "({part})")? } else { write!(f, "{part}")? }
            }
            Ok(())
        };
        match self {
            Self::All(parts) => join(f, parts, " && "),
            Self::Any(parts) => join(f, parts, " || "),
            Self::Not(part) if matches!(**part, Self::Set(_)) => write!(f, "!{part}"),
            Self::Not(part) => write!(f, "!({part})"),
            Self::Set(key) => f.write_str(key),
            Self::Compare { key, op, literal } => write!(f, "{key}{}{}", op.as_str(), Literal(literal)),
            Self::Matches { key, pattern } => write!(f, "{key} matches {}", Literal(pattern.as_str())),
        }
    }
}

/// A literal, quoted where it could be misread.
struct Literal<'a>(&'a str);

impl fmt::Display for Literal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_.:-/".contains(c);
        if !self.0.is_empty() && self.0.chars().all(plain) {
            return f.write_str(self.0);
        }
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}

struct ConditionParser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    /// Parentheses that wait to be closed.
    open: usize,
}

impl<'t> ConditionParser<'t> {
    fn error(&self, message: impl Into<String>) -> ConditionError {
        ConditionError { message: message.into(), offset: self.at.min(self.text.len()) }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// The next character that is not blank; the parser then is on it.
    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.rest().chars().next()
    }

    fn take(&mut self, token: &str) -> bool {
        self.peek();
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn any(&mut self) -> Result<Expr, ConditionError> {
        let mut parts = vec![self.all()?];
        while self.take("||") {
            parts.push(self.all()?);
        }
        Ok(single_or(parts, Expr::Any))
    }

    fn all(&mut self) -> Result<Expr, ConditionError> {
        let mut parts = vec![self.part()?];
        while self.take("&&") {
            parts.push(self.part()?);
        }
        Ok(single_or(parts, Expr::All))
    }

    fn part(&mut self) -> Result<Expr, ConditionError> {
        if self.depth == MAX_DEPTH {
            return Err(self.error("the condition is nested too deep"));
        }
        self.depth += 1;
        let part = if self.take("!") {
            self.part().map(|part| Expr::Not(Box::new(part)))
        } else if self.take("(") {
            self.open += 1;
            let inside = self.any()?;
            if !self.take(")") {
                return Err(self.error("`)` is missing"));
            }
            self.open -= 1;
            Ok(inside)
        } else {
            self.clause()
        };
        self.depth -= 1;
        part
    }

    fn clause(&mut self) -> Result<Expr, ConditionError> {
        let key = self.key()?;
        const OPS: [(&str, Op); 7] = [
            ("!=", Op::NotEqual),
            ("==", Op::Equal),
            ("=", Op::Equal),
            ("<=", Op::AtMost),
            (">=", Op::AtLeast),
            ("<", Op::Less),
            (">", Op::Greater),
        ];
        if let Some((_, op)) = OPS.into_iter().find(|(token, _)| self.take(token)) {
            return self.compare(key, op);
        }
        let start = self.at;
        match self.word() {
            "contains" => self.compare(key, Op::Contains),
            "matches" => {
                let start = self.at;
                let literal = self.literal(&key)?;
                match RegexBuilder::new(&literal).size_limit(PATTERN_LIMIT).build() {
                    Ok(regex) => Ok(Expr::Matches { key, pattern: Pattern(regex) }),
                    Err(_) => {
                        self.at = start;
                        self.peek();
                        Err(self.error(format!("`{literal}` is not a regular expression")))
                    }
                }
            }
            _ => {
                self.at = start;
                Ok(Expr::Set(key))
            }
        }
    }

    fn compare(&mut self, key: String, op: Op) -> Result<Expr, ConditionError> {
        let mut literal = self.literal(&key)?;
        if is_outcome(&key) {
            literal = canonical_outcome(&literal).to_owned();
        }
        Ok(Expr::Compare { key, op, literal })
    }

    fn word(&mut self) -> &'t str {
        self.peek();
        let rest = self.rest();
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn key(&mut self) -> Result<String, ConditionError> {
        let found = self.peek();
        let rest = self.rest();
        let length = rest.find(|c: char| !(c.is_alphanumeric() || "_.-".contains(c))).unwrap_or(rest.len());
        if length == 0 {
            let found = found.map_or("the end".to_owned(), |c| format!("`{c}`"));
            return Err(self.error(format!("expected a key such as `outcome`, found {found}")));
        }
        self.at += length;
        Ok(rest[..length].to_owned())
    }

    /// A quoted literal, or everything up to the next `&&`, `||` or closing parenthesis: labels have blanks in them.
    fn literal(&mut self, key: &str) -> Result<String, ConditionError> {
        if self.peek() == Some('"') {
            return self.quoted();
        }
        let rest = self.rest();
        let stops = ["&&", "||"].into_iter().filter_map(|stop| rest.find(stop));
        let closing = (self.open > 0).then(|| rest.find(')')).flatten();
        let length = stops.chain(closing).min().unwrap_or(rest.len());
        let literal = rest[..length].trim_end();
        if literal.is_empty() {
            return Err(self.error(format!("a value is missing; an empty one is written `{key}=\"\"`")));
        }
        self.at += length;
        Ok(literal.to_owned())
    }

    fn quoted(&mut self) -> Result<String, ConditionError> {
        let start = self.at;
        let mut literal = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((offset, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += offset + 1;
                    return Ok(literal);
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => literal.push('\n'),
                    Some((_, 't')) => literal.push('\t'),
                    Some((_, c @ ('"' | '\\'))) => literal.push(c),
                    Some((_, c)) => literal.extend(['\\', c]),
                    None => break,
                },
                c => literal.push(c),
            }
        }
        self.at = start;
        Err(self.error("unclosed `\"`"))
    }
}

fn single_or(mut parts: Vec<Expr>, group: fn(Vec<Expr>) -> Expr) -> Expr {
    match parts.len() {
        1 => parts.remove(0),
        _ => group(parts),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn context(key: &str) -> String {
        match key {
            "outcome" => "success",
            "preferred_label" => "Request changes",
            "tests" => "passed",
            "context.full" => "by its whole name",
            "full" => "by its short name",
            "n" => "10",
            "zero" => "0",
            "no" => "false",
            "odd" => "a && b = \"c\"",
            _ => "",
        }
        .to_owned()
    }

    #[test]
    fn conditions_hold_or_not() {
        for (text, holds) in [
            ("", true),
            ("  ", true),
            ("outcome=success", true),
            (" outcome = success ", true),
            ("outcome==success", true),
            ("outcome=Success", false),
            ("outcome!=fail", true),
            ("outcome=succeeded", true),
            ("outcome!=failed", true),
            ("context.outcome=succeeded", true),
            ("preferred_label=Request changes", true),
            ("preferred_label=request changes", false),
            ("preferred_label=\"Request changes\" && n=10", true),
            ("context.tests=passed", true),
            ("context.full=by its whole name", true),
            ("missing=\"\"", true),
            ("context.missing!=x", true),
            ("tests", true),
            ("missing", false),
            ("zero", false),
            ("no", false),
            ("!missing", true),
            ("!(outcome=fail || tests)", false),
            ("outcome=success && tests=passed && n=10", true),
            ("outcome=success && tests=failed", false),
            ("outcome=fail || tests=passed", true),
            ("outcome=fail && tests || n=10", true),
            ("outcome=fail && (tests || n=10)", false),
            ("n>9", true),
            ("n > 10", false),
            ("n>=10", true),
            ("n<10.5", true),
            ("n<=9", false),
            ("tests>1", false),
            ("missing<1", false),
            ("tests contains ass", true),
            ("tests contains \"x\"", false),
            ("tests matches ^p.*d$", true),
            ("tests matches \"^(passed|ok)$\"", true),
            ("tests matches ^q", false),
            ("odd=\"a && b = \\\"c\\\"\"", true),
            ("odd contains \"&&\" && n=10", true),
        ] {
            let condition = Condition::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(condition.eval(&context), holds, "{text} is {condition:?}");
            assert_eq!(Condition::parse(&condition.to_string()), Ok(condition.clone()), "{text} shown as {condition}");
        }
    }

    #[test]
    fn an_invalid_condition_says_where_and_why() {
        for (text, offset, message) in [
            ("outcome=", 8, "a value is missing; an empty one is written `outcome=\"\"`"),
            ("outcome= && x", 9, "a value is missing; an empty one is written `outcome=\"\"`"),
            ("=success", 0, "expected a key such as `outcome`, found `=`"),
            ("a && ", 5, "expected a key such as `outcome`, found the end"),
            ("a b", 2, "expected `&&` or `||`, found `b`"),
            ("outcome and x=1", 8, "expected `&&` or `||`, found `and`"),
            ("a & b", 2, "expected `&&` or `||`, found `&`"),
            ("(a", 2, "`)` is missing"),
            ("a)", 1, "expected `&&` or `||`, found `)`"),
            ("a=\"x", 2, "unclosed `\"`"),
            ("a=\"x\" y", 6, "expected `&&` or `||`, found `y`"),
            ("a matches (", 10, "`(` is not a regular expression"),
        ] {
            let error = Condition::parse(text).expect_err(text);
            assert_eq!((error.offset, error.message.as_str()), (offset, message), "{text}");
        }
        assert!(Condition::parse(&"!".repeat(1000)).is_err());
        assert!(Condition::parse(&"(".repeat(1000)).is_err());
    }

    proptest! {
        #[test]
        fn parsed_text_round_trips(text in "([a-z]{1,3}|[ =!<>()\"\\\\.-]|&&|\\|\\|| contains | matches |[0-9]){0,24}") {
            if let Ok(condition) = Condition::parse(&text) {
                prop_assert_eq!(Condition::parse(&condition.to_string()), Ok(condition.clone()), "{}", condition);
            }
        }
    }
}
