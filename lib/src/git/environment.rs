//! Stands in for `config::Environment` until that module is there. To be replaced.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The environment of the process, as values.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// An environment of these variables.
    pub fn from_pairs<K: Into<OsString>, V: Into<OsString>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        Self(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }

    /// A variable, when it is set and UTF-8.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(OsStr::new(name)).and_then(|value| value.to_str())
    }

    /// All variables.
    pub fn iter(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.0.iter()
    }
}
