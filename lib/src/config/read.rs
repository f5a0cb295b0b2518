//! From a tree of values to typed settings, collecting every mistake on the way.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::error::{ConfigError, Source};
use super::node::{Entry, Form, Kind, Node, Place, parse};

/// A source of settings: what it is called, its text for excerpts, and the directory its relative paths start from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Origin {
    pub source: Source,
    pub text: String,
    pub base: PathBuf,
}

/// One key of the configuration, for listings and explanations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The dotted key; `*` stands for a name the user chooses.
    pub path: String,
    /// What it means.
    pub about: String,
    /// What its value may be.
    pub takes: String,
}

/// The state of one reading: where values come from, and what was wrong so far.
#[derive(Debug)]
pub(super) struct Reading<'o> {
    origins: &'o [Origin],
    path: Vec<String>,
    pub errors: Vec<ConfigError>,
}

impl<'o> Reading<'o> {
    pub fn new(origins: &'o [Origin]) -> Self {
        Self { origins, path: Vec::new(), errors: Vec::new() }
    }

    /// The dotted key that is being read.
    fn key(&self) -> String {
        self.path.join(".")
    }

    pub fn fail(&mut self, at: Place, message: impl Into<String>) {
        self.report(at, message, None);
    }

    pub fn report(&mut self, at: Place, message: impl Into<String>, hint: Option<String>) {
        let Some(origin) = self.origins.get(at.source) else { return };
        let error = ConfigError::new(origin.source.clone(), message);
        let error = error.located(&origin.text, at.line, at.column, at.width);
        self.errors.push(ConfigError { hint, ..error });
    }

    /// Reads the value of one key, with the key on the path while it lasts.
    pub fn enter<T: Setting>(&mut self, key: &str, node: &Node) -> Option<T> {
        self.path.push(key.to_owned());
        let value = T::read(node, self);
        self.path.pop();
        value
    }

    fn expected(&mut self, node: &Node, what: &str) {
        let found = match &node.kind {
            Kind::Null => "nothing",
            Kind::Scalar { form: Form::Text | Form::Loose, .. } => "text",
            Kind::Scalar { form: Form::Bool, .. } => "true or false",
            Kind::Scalar { form: Form::Number, .. } => "a number",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a section",
        };
        let key = self.key();
        self.fail(node.at, format!("`{key}` takes {what}, not {found}"));
    }
}

/// A type settings can have.
pub(super) trait Setting: Sized {
    /// The value of a node, or none when it is not one of this type, which is then among the errors.
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self>;

    /// What its value may be, in words.
    fn takes() -> String;

    /// Adds the keys at and below `path`.
    fn keys(path: &str, about: &str, out: &mut Vec<Key>) {
        out.push(Key { path: path.to_owned(), about: about.trim().to_owned(), takes: Self::takes() });
    }
}

/// The text of a scalar.
fn scalar(node: &Node) -> Option<(&str, Form)> {
    match &node.kind {
        Kind::Scalar { text, form } => Some((text, *form)),
        _ => None,
    }
}

impl Setting for String {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
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
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        match scalar(node) {
            Some(("true", Form::Bool | Form::Loose)) => Some(true),
            Some(("false", Form::Bool | Form::Loose)) => Some(false),
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
            fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
                let valid: fn(&$type) -> bool = $valid;
                let number = match scalar(node) {
                    Some((text, Form::Number | Form::Loose)) => text.trim().parse().ok().filter(valid),
                    _ => None,
                };
                if number.is_none() {
                    match scalar(node) {
                        Some((text, Form::Number | Form::Loose)) => {
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

/// Paths are made absolute by the directory of the file they stand in.
impl Setting for PathBuf {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
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
        Some(normal(&base.join(text)))
    }

    fn takes() -> String {
        "a path, relative to the file it stands in".to_owned()
    }
}

/// A path without `.` parts and with `..` taken off where it can be, by its text alone.
pub(super) fn normal(path: &Path) -> PathBuf {
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
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        T::read(node, reading).map(Some)
    }

    fn takes() -> String {
        T::takes()
    }

    fn keys(path: &str, about: &str, out: &mut Vec<Key>) {
        T::keys(path, about, out);
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let parsed;
        let items = match &node.kind {
            Kind::List(items) => items.as_slice(),
            // A variable holds a YAML list, or is the only item.
            Kind::Scalar { text, form: Form::Loose } if text.trim_start().starts_with('[') => {
                let source = reading.origins.get(node.at.source).map(|origin| origin.source.clone());
                parsed = match parse(text, node.at.source, &source.unwrap_or(Source::DEFAULT)) {
                    Ok(Node { kind: Kind::List(items), .. }) => items,
                    _ => {
                        reading.expected(node, "a list such as [a, b]");
                        return None;
                    }
                };
                parsed.as_slice()
            }
            Kind::Scalar { text, form: Form::Loose } if text.is_empty() => &[],
            Kind::Scalar { form: Form::Loose, .. } => std::slice::from_ref(node),
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

    fn keys(path: &str, about: &str, out: &mut Vec<Key>) {
        let mut below = Vec::new();
        T::keys(&format!("{path}[]"), "", &mut below);
        match below.as_slice() {
            // A list of plain values is one key.
            [only] if only.path.ends_with("[]") => {
                out.push(Key { path: path.to_owned(), about: about.trim().to_owned(), takes: Self::takes() });
            }
            _ => out.append(&mut below),
        }
    }
}

impl<K: FromStr<Err: Display> + Ord, T: Setting> Setting for BTreeMap<K, T> {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let Kind::Map(map) = &node.kind else {
            reading.expected(node, "a section");
            return None;
        };
        let mut values = BTreeMap::new();
        for (name, entry) in map.iter().filter(|(_, entry)| !matches!(entry.value.kind, Kind::Null)) {
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

    fn keys(path: &str, about: &str, out: &mut Vec<Key>) {
        T::keys(&format!("{path}.*"), about, out);
    }
}

/// The keys of a section while it is read.
#[derive(Debug)]
pub(super) struct Fields<'n> {
    map: &'n BTreeMap<String, Entry>,
}

impl<'n> Fields<'n> {
    /// The fields of a node, and an error for each that is not among the known ones.
    pub fn open(node: &'n Node, known: &[&str], reading: &mut Reading<'_>) -> Option<Self> {
        let Kind::Map(map) = &node.kind else {
            if let Kind::Scalar { form: Form::Loose, .. } = &node.kind {
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
    pub fn take<T: Setting>(&self, name: &str, reading: &mut Reading<'_>) -> Option<T> {
        let entry = self.map.get(name).filter(|entry| !matches!(entry.value.kind, Kind::Null))?;
        reading.enter(name, &entry.value)
    }
}

fn unknown_key_hint(name: &str, known: &[&str]) -> String {
    if crate::redact::is_secret_name(name) {
        return "Keys do not belong in configuration files: set the provider's variable (such as ANTHROPIC_API_KEY), \
                or `api_key_command`."
            .to_owned();
    }
    match closest(name, known.iter().copied()) {
        Some(near) => format!("Did you mean `{near}`?"),
        None => format!("Known here: {}.", known.join(", ")),
    }
}

/// The candidate most like `text`, if one is like it at all.
pub(super) fn closest<'c>(text: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let most = (text.chars().count() / 3).clamp(1, 3);
    let near = candidates.into_iter().map(|candidate| (distance(text, candidate), candidate));
    near.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// How many letters must be changed, added, dropped or swapped with their neighbour to get from one text to the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().take(64).collect(), to.chars().take(64).collect());
    // Row i, column j: the distance between the first i and the first j letters.
    let mut rows: Vec<Vec<usize>> = (0..=from.len()).map(|i| (i..=i + to.len()).collect()).collect();
    for i in 1..=from.len() {
        for j in 1..=to.len() {
            let change = usize::from(from[i - 1] != to[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[from.len()][to.len()]
}

/// A struct of settings: its fields with their meaning and default, in one place.
macro_rules! section {
    ($(#[doc = $about:literal])+ $name:ident {
        $($(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:expr,)+
    } $(beside { $($(#[doc = $beside_doc:literal])+ $beside:ident: $beside_type:ty,)+ })?) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $type,)+
            $($($(#[doc = $beside_doc])+ #[serde(skip)] pub $beside: $beside_type,)+)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ $($($beside: Default::default(),)+)? }
            }
        }

        impl $name {
            /// The names of its keys.
            pub(crate) const FIELDS: &[&str] = &[$(stringify!($field)),+];
        }

        impl $crate::config::read::Setting for $name {
            fn read(
                node: &$crate::config::node::Node,
                reading: &mut $crate::config::read::Reading<'_>,
            ) -> Option<Self> {
                let fields = $crate::config::read::Fields::open(node, Self::FIELDS, reading)?;
                let mut value = Self::default();
                $(if let Some(given) = fields.take(stringify!($field), reading) {
                    value.$field = given;
                })+
                Some(value)
            }

            fn takes() -> String {
                "a section".to_owned()
            }

            fn keys(path: &str, _: &str, out: &mut Vec<$crate::config::read::Key>) {
                $({
                    let below = if path.is_empty() { String::new() } else { format!("{path}.") };
                    let about = concat!($($doc),+);
                    <$type as $crate::config::read::Setting>::keys(&(below + stringify!($field)), about, out);
                })+
            }
        }
    };
}

/// An enum of settings: its words, the first of which is the default.
macro_rules! choice {
    ($(#[doc = $about:literal])+ $name:ident {
        $(#[doc = $first_doc:literal])+ $first:ident = $first_word:literal,
        $($(#[doc = $doc:literal])+ $variant:ident = $word:literal,)*
    }) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $(#[doc = $first_doc])+ #[default] #[serde(rename = $first_word)] $first,
            $($(#[doc = $doc])+ #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// Every word, as written in configuration.
            pub const WORDS: &[&str] = &[$first_word, $($word),*];

            /// The word for this value.
            pub fn as_str(self) -> &'static str {
                match self { Self::$first => $first_word, $(Self::$variant => $word,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl $crate::config::read::Setting for $name {
            fn read(
                node: &$crate::config::node::Node,
                reading: &mut $crate::config::read::Reading<'_>,
            ) -> Option<Self> {
                match $crate::config::read::word(node, Self::WORDS, reading)? {
                    $first_word => Some(Self::$first),
                    $($word => Some(Self::$variant),)*
                    _ => None,
                }
            }

            fn takes() -> String {
                Self::WORDS.join(" | ")
            }
        }
    };
}

pub(super) use {choice, section};

/// One of the known words, or an error that names them.
pub(super) fn word(node: &Node, words: &[&'static str], reading: &mut Reading<'_>) -> Option<&'static str> {
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

impl Setting for crate::ids::RepoName {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let name = Self::new(String::read(node, reading)?);
        if let Err(error) = &name {
            reading.fail(node.at, error.to_string());
        }
        name.ok()
    }

    fn takes() -> String {
        "the name of a repository".to_owned()
    }
}
