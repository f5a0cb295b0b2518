//! A YAML document as a tree in which every value knows its place.
//!
//! Settings are merged and checked on this tree rather than on typed structs, so that one reading finds every error of
//! a file, and a value that wins over another still knows the file and line it came from.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use super::error::{ConfigError, Source};

/// Nesting no configuration needs; deeper documents are refused before they can exhaust the stack.
const DEEPEST: usize = 32;

/// Where a value is: which source, and where in it. Line 0 stands for a source without lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SourceSpan {
    pub source: usize,
    pub line: u32,
    pub column: u32,
    pub width: u32,
}

/// A value with its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ConfigNode {
    pub kind: ConfigNodeKind,
    pub at: SourceSpan,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ConfigNodeKind {
    /// Nothing was written after the key: the layer says nothing about it.
    Null,
    Scalar {
        text: String,
        form: ScalarForm,
    },
    List(Vec<ConfigNode>),
    Map(BTreeMap<String, MapEntry>),
}

/// How a scalar was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScalarForm {
    Text,
    Bool,
    Number,
    /// A variable or flag, which has no types: the setting decides what it is.
    Loose,
}

/// A value of a map, with the place of its key.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MapEntry {
    pub key_at: SourceSpan,
    pub value: ConfigNode,
}

impl ConfigNode {
    pub fn empty_map(at: SourceSpan) -> Self {
        Self { kind: ConfigNodeKind::Map(BTreeMap::new()), at }
    }

    pub fn loose(text: impl Into<String>, source: usize) -> Self {
        let at = SourceSpan { source, line: 0, column: 0, width: 0 };
        Self { kind: ConfigNodeKind::Scalar { text: text.into(), form: ScalarForm::Loose }, at }
    }

    /// The value at a path of keys, if the path leads anywhere.
    pub fn at_path(&self, path: &[&str]) -> Option<&MapEntry> {
        let (first, rest) = path.split_first()?;
        let ConfigNodeKind::Map(map) = &self.kind else { return None };
        let entry = map.get(*first)?;
        if rest.is_empty() { Some(entry) } else { entry.value.at_path(rest) }
    }

    /// Puts a value at a path of keys, making the maps on the way, also where nothing was written after a key. What is
    /// there already stays when it is in the way: its place comes back.
    pub fn put(&mut self, path: &[&str], value: ConfigNode) -> Result<(), SourceSpan> {
        if matches!(self.kind, ConfigNodeKind::Null) {
            self.kind = ConfigNodeKind::Map(BTreeMap::new());
        }
        let ConfigNodeKind::Map(map) = &mut self.kind else { return Err(self.at) };
        let Some((first, rest)) = path.split_first() else { return Ok(()) };
        let at = value.at;
        if rest.is_empty() {
            map.insert((*first).to_owned(), MapEntry { key_at: at, value });
            return Ok(());
        }
        let entry = map.entry((*first).to_owned());
        entry.or_insert_with(|| MapEntry { key_at: at, value: ConfigNode::empty_map(at) }).value.put(rest, value)
    }

    /// Merges a stronger tree into this one: maps key by key, everything else whole. Null changes nothing.
    pub fn overlay(&mut self, stronger: ConfigNode) {
        match (&mut self.kind, stronger.kind) {
            (_, ConfigNodeKind::Null) => {}
            (ConfigNodeKind::Map(map), ConfigNodeKind::Map(over)) => {
                for (key, entry) in over {
                    match map.get_mut(&key) {
                        Some(below) if !matches!(entry.value.kind, ConfigNodeKind::Null) => {
                            below.key_at = entry.key_at;
                            below.value.overlay(entry.value);
                        }
                        Some(_) => {}
                        None => {
                            map.insert(key, entry);
                        }
                    }
                }
            }
            (_, kind) => *self = ConfigNode { kind, at: stronger.at },
        }
    }

    /// Calls `visit` with the dotted path and place of every leaf. Lists are leaves.
    pub fn leaves(&self, prefix: &str, visit: &mut impl FnMut(&str, SourceSpan)) {
        match &self.kind {
            ConfigNodeKind::Null => {}
            ConfigNodeKind::Map(map) => {
                for (key, entry) in map {
                    let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                    entry.value.leaves(&path, visit);
                }
            }
            ConfigNodeKind::Scalar { .. } | ConfigNodeKind::List(_) => visit(prefix, self.at),
        }
    }
}

/// Reads YAML (or JSON, which is YAML) into a tree. The first error of syntax ends it.
pub(super) fn parse(text: &str, source: usize, place: &Source) -> Result<ConfigNode, Box<ConfigError>> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        budget: serde_saphyr::budget! { max_depth: DEEPEST },
    };
    match serde_saphyr::from_str_with_options::<Located>(text, options) {
        Ok(located) => Ok(located.into_node(text, source)),
        Err(error) => {
            let location = error.location();
            let message = syntax_message(error.without_snippet(), text);
            let (line, column) = location.map_or((0, 0), |at| (narrow(at.line()), narrow(at.column())));
            Err(Box::new(ConfigError::new(place.clone(), message).located(text, line, column, 1)))
        }
    }
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The parser's message, reworded where it refers to its programming interface.
fn syntax_message(error: &serde_saphyr::Error, text: &str) -> String {
    use serde_saphyr::Error;
    match error {
        Error::DuplicateMappingKey { key, .. } => match key {
            Some(key) => format!("the key `{key}` is given twice"),
            None => "a key is given twice".to_owned(),
        },
        Error::MultipleDocuments { .. } => "more than one YAML document in the file".to_owned(),
        Error::Budget { .. } => "too large or too deeply nested for a configuration file".to_owned(),
        Error::Unexpected { expected, .. } => format!("expected {expected}"),
        other => {
            let message = other.to_string();
            // The place is said in front of every message.
            let plain = message.rfind(" at line ").map_or(message.as_str(), |end| &message[..end]);
            let tab = text.lines().any(|line| line.trim_start_matches(' ').starts_with('\t'));
            if tab { format!("{plain} (YAML is indented with spaces, not tabs)") } else { plain.to_owned() }
        }
    }
}

/// What the YAML crate gives: values with its own locations.
struct Located {
    raw: Raw,
    seen: Location,
    defined: Location,
}

enum Raw {
    Null,
    Scalar(String, ScalarForm),
    List(Vec<Located>),
    Map(Vec<(Spanned<String>, Located)>),
}

impl Located {
    fn into_node(self, text: &str, source: usize) -> ConfigNode {
        let written = written(&self.defined, text);
        let width = written.map_or(1, |written| narrow(written.lines().next().unwrap_or("").chars().count() as u64));
        let at = place(&self.seen, source, width);
        let kind = match self.raw {
            Raw::Null => ConfigNodeKind::Null,
            // A number keeps the digits it was written with: a model called `5.10` is not `5.1`.
            Raw::Scalar(parsed, ScalarForm::Number) => {
                ConfigNodeKind::Scalar { text: written.map_or(parsed, str::to_owned), form: ScalarForm::Number }
            }
            Raw::Scalar(text, form) => ConfigNodeKind::Scalar { text, form },
            Raw::List(items) => {
                ConfigNodeKind::List(items.into_iter().map(|item| item.into_node(text, source)).collect())
            }
            Raw::Map(entries) => ConfigNodeKind::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| {
                        let width = narrow(key.value.chars().count() as u64);
                        let key_at = place(&key.referenced, source, width);
                        (key.value, MapEntry { key_at, value: value.into_node(text, source) })
                    })
                    .collect(),
            ),
        };
        ConfigNode { kind, at }
    }
}

fn place(location: &Location, source: usize, width: u32) -> SourceSpan {
    SourceSpan { source, line: narrow(location.line()), column: narrow(location.column()), width: width.max(1) }
}

/// The text a scalar was written as.
fn written<'t>(location: &Location, text: &'t str) -> Option<&'t str> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let end = start.checked_add(usize::try_from(span.byte_len()?).ok()?)?;
    text.get(start..end).filter(|written| !written.is_empty())
}

impl<'de> Deserialize<'de> for Located {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Raw>::deserialize(deserializer)?;
        Ok(Self { raw: spanned.value, seen: spanned.referenced, defined: spanned.defined })
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.to_string(), ScalarForm::Bool))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.to_string(), ScalarForm::Number))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.to_string(), ScalarForm::Number))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.to_string(), ScalarForm::Number))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.to_string(), ScalarForm::Number))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.to_string(), ScalarForm::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Scalar(value.to_owned(), ScalarForm::Text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Raw::Map(map))
    }
}
