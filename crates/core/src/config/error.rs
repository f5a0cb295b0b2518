//! Where a setting came from, and what is wrong with one.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use super::secret_name::holds_secret;
use crate::redact::Redactor;

/// Knows tokens by their shape, for excerpts.
static TOKENS: LazyLock<Redactor> = LazyLock::new(|| Redactor::new([("", ""); 0]));

/// A key and what is before its value.
static KEY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"["']?(?<name>[A-Za-z_][A-Za-z0-9_.-]*)["']?\s*[:=]\s*"#).expect("a constant pattern")
});

/// The layers of configuration, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precedence {
    /// Built in.
    Default,
    /// The user's own config file.
    User,
    /// `.arborist/config.json` of the project, and `ARBORIST_*` variables.
    Arborist,
    /// `pleach.yaml` or `orchestra.yaml` of the project.
    Project,
    /// `PLEACH_*` variables of the `.env` file beside the project's config.
    DotEnv,
    /// `PLEACH_*` variables of the environment.
    Env,
    /// The record of the session that is resumed.
    Recorded,
    /// The command line.
    Flag,
}

impl Precedence {
    /// The level's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::User => "user",
            Self::Arborist => "arborist",
            Self::Project => "project",
            Self::DotEnv => "dotenv",
            Self::Env => "env",
            Self::Recorded => "recorded",
            Self::Flag => "flag",
        }
    }

    /// Whether a repository can supply settings of this level, so that they need the user's trust.
    pub fn is_supplied(self) -> bool {
        matches!(self, Self::Arborist | Self::Project | Self::DotEnv | Self::Recorded)
    }
}

/// The place a setting is at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The layer.
    pub level: Precedence,
    /// The file, for layers that are files.
    pub file: Option<PathBuf>,
    /// The variable or flag, for layers that are not.
    pub name: Option<String>,
    /// The line, counted from 1.
    pub line: Option<u32>,
}

impl Source {
    /// The built-in defaults.
    pub const DEFAULT: Self = Self { level: Precedence::Default, file: None, name: None, line: None };

    /// A file of this level.
    pub fn file(level: Precedence, file: impl Into<PathBuf>) -> Self {
        Self { level, file: Some(file.into()), name: None, line: None }
    }

    /// A variable or flag of this level.
    pub fn named(level: Precedence, name: impl Into<String>) -> Self {
        Self { level, file: None, name: Some(name.into()), line: None }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_deref().map(Path::display);
        match (&file, self.line, &self.name) {
            (Some(file), Some(line), _) => write!(f, "{file}:{line}"),
            (Some(file), None, _) => write!(f, "{file}"),
            (None, _, Some(name)) => f.write_str(name),
            (None, _, None) if self.level == Precedence::Recorded => f.write_str("session record"),
            (None, _, None) => f.write_str("default"),
        }
    }
}

/// One thing that is wrong in the configuration, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file, variable or flag it is in; its `line` is set when the place is known.
    pub place: Source,
    /// The column, counted in characters from 1.
    pub column: Option<u32>,
    /// The line it is in and the width of the part that is wrong. Values that look like keys are not shown.
    pub excerpt: Option<(String, u32)>,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

impl ConfigError {
    pub(super) fn new(place: Source, message: impl Into<String>) -> Self {
        Self { place, column: None, excerpt: None, message: message.into(), hint: None }
    }

    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds line, column and the line's text.
    pub(super) fn located(mut self, text: &str, line: u32, column: u32, width: u32) -> Self {
        if line == 0 {
            return self;
        }
        self.place.line = Some(line);
        self.column = Some(column);
        self.excerpt = text.lines().nth(line as usize - 1).map(|excerpt| {
            let rest = excerpt.trim_end().chars().count().saturating_sub(column.saturating_sub(1) as usize);
            let clean = TOKENS.text(&masked(excerpt.trim_end())).replace('\t', " ");
            (clean, width.clamp(1, (rest as u32).max(1)))
        });
        self
    }
}

/// A line of a file without the values of keys that are named like secrets.
fn masked(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(found) = KEY.captures(rest) {
        let (whole, name) = (found.get(0).expect("group 0 is the match"), &found["name"]);
        shown.push_str(&rest[..whole.end()]);
        rest = &rest[whole.end()..];
        if !holds_secret(name) {
            continue;
        }
        // Between braces a bare value ends with a comma, elsewhere with its line.
        let bare: &[char] = if shown.contains('{') { &[',', '}'] } else { &[] };
        let end = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => rest[1..].find(quote).map_or(rest.len(), |end| end + 2),
            _ => rest.find(bare).unwrap_or(rest.len()),
        };
        if !rest[..end].trim().is_empty() {
            shown.push_str(&format!("[redacted:{name}]"));
        }
        rest = &rest[end..];
    }
    shown + rest
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        write!(f, ": {}", self.message)?;
        if let (Some((excerpt, width)), Some(line), Some(column)) = (&self.excerpt, self.place.line, self.column) {
            let number = line.to_string();
            let gutter = " ".repeat(number.len());
            let indent = " ".repeat(column.saturating_sub(1) as usize);
            let carets = "^".repeat(*width as usize);
            write!(f, "\n {number} | {excerpt}\n {gutter} | {indent}{carets}")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\n{hint}"),
            None => Ok(()),
        }
    }
}
