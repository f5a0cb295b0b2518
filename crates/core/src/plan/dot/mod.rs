//! The text of a pipeline as a document: what was written, in order, each piece with its place.
//!
//! [`parse`] never reads a file and never panics; it reports as many errors at once as it can tell apart. What the
//! statements *mean* (defaults, scopes, subgraph classes) is worked out in [`crate::plan::graph`].

mod lexer;
mod parser;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use super::diagnostic::Span;

pub use parser::parse;

/// An attribute's value as it was written.
#[derive(Debug, Clone, PartialEq)]
pub enum AttrValue {
    /// `"quoted"` or a bare word.
    Text(String),
    /// `3`
    Integer(i64),
    /// `0.5`
    Float(f64),
    /// `true`
    Boolean(bool),
    /// `900s`
    Duration(Duration),
}

impl fmt::Display for AttrValue {
    /// The value as plain text, the way a quoted string would hold it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Float(number) => write!(f, "{number}"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Duration(duration) => f.write_str(&show_duration(*duration)),
        }
    }
}

/// A name with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ident {
    /// The name.
    pub text: String,
    /// Where it is.
    pub span: Span,
}

/// `key = value`, in a block or on its own.
#[derive(Debug, Clone, PartialEq)]
pub struct AttrEntry {
    /// The name, dotted ones included.
    pub key: Ident,
    /// The value.
    pub value: AttrValue,
    /// Where the value is, quotes included.
    pub value_span: Span,
}

impl AttrEntry {
    /// From the first letter of the key to the end of the value.
    pub fn span(&self) -> Span {
        self.key.span.to(self.value_span)
    }
}

/// What a default block is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultsFor {
    /// `graph [..]`
    Graph,
    /// `node [..]`
    Node,
    /// `edge [..]`
    Edge,
}

/// One statement of a graph or subgraph.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `graph [..]`, `node [..]`, `edge [..]`: what later declarations in this scope start from.
    Defaults {
        /// What they are for.
        target: DefaultsFor,
        /// The attributes.
        attrs: Vec<AttrEntry>,
    },
    /// `key = value` on its own.
    Attribute(AttrEntry),
    /// `subgraph Name { .. }`
    Subgraph {
        /// Its name, where it has one.
        id: Option<Ident>,
        /// What is inside.
        statements: Vec<Statement>,
    },
    /// `name [..]`
    Node {
        /// The node.
        id: Ident,
        /// The attributes.
        attrs: Vec<AttrEntry>,
    },
    /// `a -> b -> c [..]`
    Edge {
        /// The nodes in order, at least two.
        ids: Vec<Ident>,
        /// The attributes of every pair.
        attrs: Vec<AttrEntry>,
    },
}

/// A whole file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// The graph's identifier; none when the file does not start with `digraph Name`.
    pub id: Option<Ident>,
    /// Its statements.
    pub statements: Vec<Statement>,
    /// The graph's closing brace; none when it is missing.
    pub close: Option<Span>,
}

/// Whether `text` may be the name of a node, graph or subgraph.
pub(crate) fn is_identifier(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Reads `900s`, `250ms`, `2h`: digits and a unit. None for anything else, and for what no clock can hold.
pub fn read_duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let seconds = |each: u64| number.checked_mul(each).map(Duration::from_secs);
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => seconds(1),
        "m" => seconds(60),
        "h" => seconds(3600),
        "d" => seconds(86_400),
        _ => None,
    }
}

/// The shortest spelling [`read_duration`] reads back as the same length.
pub(crate) fn show_duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    if millis != 0 {
        return format!("{}ms", duration.as_millis());
    }
    let units = [(86_400, "d"), (3600, "h"), (60, "m")];
    match units.into_iter().find(|(each, _)| seconds != 0 && seconds % each == 0) {
        Some((each, unit)) => format!("{}{unit}", seconds / each),
        None => format!("{seconds}s"),
    }
}
