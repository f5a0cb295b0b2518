//! From a tree of values to typed settings, collecting every error on the way.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde_json::Value;

use super::error::{ConfigError, Source};
use super::node::{ConfigNode, ConfigNodeKind, MapEntry, ScalarForm, SourceSpan, parse};
use crate::ids::{BranchName, RepoName};
use crate::text::closest;

/// A source of settings: what it is called, its text for excerpts, and the directory its relative paths start from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SourceText {
    pub source: Source,
    pub text: String,
    pub base: PathBuf,
}

/// One key of the configuration, for listings and explanations.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingKey {
    /// The dotted key; `*` stands for a name the user chooses.
    pub path: String,
    /// What it means.
    pub about: String,
    /// What its value may be.
    pub takes: String,
    /// Its default; null without one.
    pub default: Value,
}

/// The state of one reading: where values come from, and what was wrong so far.
#[derive(Debug)]
pub(super) struct ReadContext<'o> {
    origins: &'o [SourceText],
    path: Vec<String>,
    pub errors: Vec<ConfigError>,
}

impl<'o> ReadContext<'o> {
    pub fn new(origins: &'o [SourceText]) -> Self {
        Self { origins, path: Vec::new(), errors: Vec::new() }
    }

    /// The dotted key that is being read.
    fn key(&self) -> String {
        self.path.join(".")
    }

    pub fn fail(&mut self, at: SourceSpan, message: impl Into<String>) {
        self.report(at, message, None);
    }

    pub fn report(&mut self, at: SourceSpan, message: impl Into<String>, hint: Option<String>) {
        let Some(origin) = self.origins.get(at.source) else { return };
        let error = ConfigError::new(origin.source.clone(), message);
        let error = error.located(&origin.text, at.line, at.column, at.width);
        self.errors.push(ConfigError { hint, ..error });
    }

    /// Reads the value of one key, with the key on the path while it lasts.
    pub fn enter<T: Setting>(&mut self, key: &str, node: &ConfigNode) -> Option<T> {
        self.path.push(key.to_owned());
        let value = T::read(node, self);
        self.path.pop();
        value
    }

    fn expected(&mut self, node: &ConfigNode, what: &str) {
        self.expected_at(&self.key(), node, what);
    }

    /// Reports that the value of a key has the wrong kind.
    pub fn expected_at(&mut self, key: &str, node: &ConfigNode, what: &str) {
        let found = match &node.kind {
            ConfigNodeKind::Null => "nothing",
            ConfigNodeKind::Scalar { form: ScalarForm::Text | ScalarForm::Loose, .. } => "text",
            ConfigNodeKind::Scalar { form: ScalarForm::Bool, .. } => "true or false",
            ConfigNodeKind::Scalar { form: ScalarForm::Number, .. } => "a number",
            ConfigNodeKind::List(_) => "a list",
            ConfigNodeKind::Map(_) => "a section",
        };
        self.fail(node.at, format!("`{key}` takes {what}, not {found}"));
    }
}

/// A type settings can have.
pub(super) trait Setting: Sized {
    /// The value of a node, or none when it is not one of this type, which is then among the errors.
    fn read(node: &ConfigNode, reading: &mut ReadContext<'_>) -> Option<Self>;

    /// What its value may be, in words.
    fn takes() -> String;

    /// Adds the keys at and below `path`.
    fn keys(path: &str, about: &str, default: Value, out: &mut Vec<SettingKey>) {
        out.push(SettingKey { path: path.to_owned(), about: about.trim().to_owned(), takes: Self::takes(), default });
    }

    /// Calls `visit` with every free text of a recorded value: no keys, no words out of a list and no names defined
    /// elsewhere.
    fn each_text(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
        each_string(value, visit);
    }
}

/// Calls `visit` with every string of a value, but for keys.
pub(super) fn each_string(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_string(item, visit)),
        Value::Object(fields) => fields.values_mut().for_each(|value| each_string(value, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The text of a scalar.
fn scalar(node: &ConfigNode) -> Option<(&str, ScalarForm)> {
    match &node.kind {
        ConfigNodeKind::Scalar { text, form } => Some((text, *form)),
        _ => None,
    }
}

impl Setting for String {
    fn read(node: &ConfigNode, reading: &mut ReadContext<'_>) -> Option<Self> {
        match scalar(node) {
            Some((text, _)) => Some(text.to_owned()),
            None => {
                reading.expected(node, "text");
                None
            }
        }
    }

    fn takes() -> String {
        "text".to_owned()
    }
}

impl Setting for bool {
    fn read(node: &ConfigNode, reading: &mut ReadContext<'_>) -> Option<Self> {
        match scalar(node) {
            Some(("true", ScalarForm::Bool | ScalarForm::Loose)) => Some(true),
            Some(("false", ScalarForm::Bool | ScalarForm::Loose)) => Some(false),
            _ => {
                reading.expected(node, "true or false");
                None
            }
        }
    }

    fn takes() -> String {
        "true or false".to_owned()
    }
}

macro_rules! number {
    ($type:ty, $what:literal, $valid:expr) => {
        impl Setting for $type {
            fn read(node: &ConfigNode, reading: &mut ReadContext<'_>) -> Option<Self> {
                let valid: fn(&$type) -> bool = $valid;
                let number = match scalar(node) {
                    Some((text, ScalarForm::Number | ScalarForm::Loose)) => text.trim().parse().ok().filter(valid),
                    _ => None,
                };
                if number.is_none() {
                    match scalar(node) {
                        Some((text, ScalarForm::Number | ScalarForm::Loose)) => {
                            let key = reading.key();
                            reading.fail(node.at, format!("`{key}` takes {}, not `{text}`", $what));
                        }
                        _ => reading.expected(node, $what),
                    }
                }
                number
            }

            fn takes() -> String {
                $what.to_owned()
            }
        }
    };
}

number!(u32, "a whole number", |_| true);
number!(u64, "a whole number", |_| true);
number!(f64, "a number from 0", |number| number.is_finite() && *number >= 0.0);

/// Paths are made absolute by the directory of the file they are in.
impl Setting for PathBuf {
    fn read(node: &ConfigNode, reading: &mut ReadContext<'_>) -> Option<Self> {
        let text = String::read(node, reading)?;
        let key = reading.key();
        if text.is_empty() {
            reading.fail(node.at, format!("`{key}` is an empty path"));
            return None;
        }
        if text == "~" || text.starts_with("~/") {
            reading.fail(node.at, format!("`{key}`: `~` is not expanded, write the path out"));
            return None;
        }
        let base = reading.origins.get(node.at.source).map_or(Path::new(""), |origin| &origin.base);
        Some(normal_path(&base.join(text)))
    }

    fn takes() -> String {
        "a path, relative to the file that sets it".to_owned()
    }
}

/// A path without `.` parts and with `..` taken off where it can be, by its text alone.
pub fn normal_path(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => {
                out.pop();
            }
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::RootDir)) => {}
            part => out.push(part),
        }
    }
    if out.as_os_str().is_empty() { PathBuf::from(".") } else { out }
}

impl<T: Setting> Setting for Option<T> {
    fn read(node: &ConfigNode, reading: &mut ReadContext<'_>) -> Option<Self> {
        T::read(node, reading).map(Some)
    }

    fn takes() -> String {
        T::takes()
    }

    fn keys(path: &str, about: &str, default: Value, out: &mut Vec<SettingKey>) {
        T::keys(path, about, default, out);
    }

    fn each_text(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
        T::each_text(value, visit);
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn read(node: &ConfigNode, reading: &mut ReadContext<'_>) -> Option<Self> {
        let parsed;
        let items = match &node.kind {
            ConfigNodeKind::List(items) => items.as_slice(),
            // A variable holds a YAML list, or is the only item.
            ConfigNodeKind::Scalar { text, form: ScalarForm::Loose } if text.trim_start().starts_with('[') => {
                let source = reading.origins.get(node.at.source).map(|origin| origin.source.clone());
                parsed = match parse(text, node.at.source, &source.unwrap_or(Source::DEFAULT)) {
                    Ok(ConfigNode { kind: ConfigNodeKind::List(items), .. }) => items,
                    _ => {
                        reading.expected(node, "a list such as [a, b]");
                        return None;
                    }
                };
                parsed.as_slice()
            }
            ConfigNodeKind::Scalar { text, form: ScalarForm::Loose } if text.is_empty() => &[],
            ConfigNodeKind::Scalar { form: ScalarForm::Loose, .. } => std::slice::from_ref(node),
            _ => {
                reading.expected(node, "a list");
                return None;
            }
        };
        let before = reading.errors.len();
        let values: Vec<T> =
            items.iter().enumerate().filter_map(|(index, item)| reading.enter(&index.to_string(), item)).collect();
        (reading.errors.len() == before).then_some(values)
    }

    fn takes() -> String {
        format!("a list ({})", T::takes())
    }

    fn keys(path: &str, about: &str, default: Value, out: &mut Vec<SettingKey>) {
        let mut below = Vec::new();
        T::keys(&format!("{path}[]"), about, Value::Null, &mut below);
        match below.as_slice() {
            // A list of plain values is one key.
            [only] if only.path.ends_with("[]") => {
                out.push(SettingKey {
                    path: path.to_owned(),
                    about: about.trim().to_owned(),
                    takes: Self::takes(),
                    default,
                });
            }
            _ => out.append(&mut below),
        }
    }

    fn each_text(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| T::each_text(item, visit)),
            other => each_string(other, visit),
        }
    }
}

impl<K: FromStr<Err: Display> + Ord, T: Setting> Setting for BTreeMap<K, T> {
    fn read(node: &ConfigNode, reading: &mut ReadContext<'_>) -> Option<Self> {
        let ConfigNodeKind::Map(map) = &node.kind else {
            reading.expected(node, "a section");
            return None;
        };
        let mut values = BTreeMap::new();
        for (name, entry) in map.iter().filter(|(_, entry)| !matches!(entry.value.kind, ConfigNodeKind::Null)) {
            let value = reading.enter(name, &entry.value);
            match K::from_str(name) {
                Ok(key) => values.extend(value.map(|value| (key, value))),
                Err(error) => reading.fail(entry.key_at, error.to_string()),
            }
        }
        Some(values)
    }

    fn takes() -> String {
        format!("names, each with {}", T::takes())
    }

    fn keys(path: &str, about: &str, _: Value, out: &mut Vec<SettingKey>) {
        T::keys(&format!("{path}.*"), about, Value::Null, out);
    }

    fn each_text(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
        match value {
            Value::Object(entries) => entries.values_mut().for_each(|entry| T::each_text(entry, visit)),
            other => each_string(other, visit),
        }
    }
}

/// The keys of a section while it is read.
#[derive(Debug)]
pub(super) struct SectionFields<'n> {
    map: &'n BTreeMap<String, MapEntry>,
}

impl<'n> SectionFields<'n> {
    /// The fields of a node, and an error for each that is not among the known ones.
    pub fn open(node: &'n ConfigNode, known: &[&str], reading: &mut ReadContext<'_>) -> Option<Self> {
        let ConfigNodeKind::Map(map) = &node.kind else {
            if let ConfigNodeKind::Scalar { form: ScalarForm::Loose, .. } = &node.kind {
                let key = reading.key();
                let hint = "Add `__` and a key to the variable's name, as in PLEACH_TREE__MAX_RETRIES.";
                reading.report(node.at, format!("`{key}` is a section"), Some(hint.to_owned()));
            } else {
                reading.expected(node, "a section");
            }
            return None;
        };
        for (name, entry) in map.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
            let mut key = reading.key();
            if !key.is_empty() {
                key.push('.');
            }
            let hint = unknown_key_hint(name, known);
            reading.report(entry.key_at, format!("unknown key `{key}{name}`"), Some(hint));
        }
        Some(Self { map })
    }

    /// The value of one field, if it is given and right.
    pub fn take<T: Setting>(&self, name: &str, reading: &mut ReadContext<'_>) -> Option<T> {
        let entry = self.map.get(name).filter(|entry| !matches!(entry.value.kind, ConfigNodeKind::Null))?;
        reading.enter(name, &entry.value)
    }
}

fn unknown_key_hint(name: &str, known: &[&str]) -> String {
    match closest(name, known.iter().copied()) {
        Some(near) => format!("Did you mean `{near}`?"),
        None if crate::redact::is_secret_name(name) => "Keys do not belong in configuration files: set the provider's \
                                                        variable (such as ANTHROPIC_API_KEY), or `api_key_command`."
            .to_owned(),
        None => format!("Known here: {}.", known.join(", ")),
    }
}

/// One of the known words, or an error that names them.
pub(super) fn word(node: &ConfigNode, words: &[&'static str], reading: &mut ReadContext<'_>) -> Option<&'static str> {
    let text = String::read(node, reading)?;
    let known = words.iter().find(|word| **word == text).copied();
    if known.is_none() {
        let key = reading.key();
        let hint = match closest(&text, words.iter().copied()) {
            Some(near) => format!("Did you mean `{near}`?"),
            None => format!("It is one of: {}.", words.join(", ")),
        };
        reading.report(node.at, format!("`{key}` cannot be `{text}`"), Some(hint));
    }
    known
}

macro_rules! name {
    ($type:ty, $what:literal) => {
        impl Setting for $type {
            fn read(node: &ConfigNode, reading: &mut ReadContext<'_>) -> Option<Self> {
                let name = Self::new(String::read(node, reading)?);
                if let Err(error) = &name {
                    reading.fail(node.at, error.to_string());
                }
                name.ok()
            }

            fn takes() -> String {
                $what.to_owned()
            }

            fn each_text(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
                // What has a name is recorded by it elsewhere too.
                if value.as_str().is_none_or(|name| Self::new(name).is_err()) {
                    each_string(value, visit);
                }
            }
        }
    };
}

name!(RepoName, "the name of a repository");
name!(BranchName, "the name of a branch");
