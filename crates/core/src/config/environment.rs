//! The process environment, read once and passed on as a value.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

use crate::redact::is_secret_name;

/// Variables as they were when the program started, and those a `.env` file added to them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
    from_dotenv: BTreeSet<OsString>,
    /// Variables declared secret, whatever their names.
    secret: BTreeSet<OsString>,
}

impl Environment {
    /// Reads the environment of this process. Called once, at the start.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    pub fn capture() -> Self {
        Self { variables: std::env::vars_os().collect(), ..Self::default() }
    }

    /// An environment of exactly these variables.
    pub fn from_pairs<N: Into<OsString>, V: Into<OsString>>(pairs: impl IntoIterator<Item = (N, V)>) -> Self {
        let variables = pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { variables, ..Self::default() }
    }

    /// The value of a variable; none when it is not set or not UTF-8.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_os(name)?.to_str()
    }

    /// The value of a variable, byte for byte.
    pub fn get_os(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Every variable, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// This environment with the variables of a `.env` file. What is set already stays as it is.
    pub fn with_dotenv<N: Into<OsString>, V: Into<OsString>>(
        mut self,
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        for (name, value) in pairs {
            let (name, value) = (name.into(), value.into());
            if !self.variables.contains_key(&name) || self.from_dotenv.contains(&name) {
                self.from_dotenv.insert(name.clone());
                self.variables.insert(name, value);
            }
        }
        self
    }

    /// This environment, in which these variables hold secrets.
    pub fn with_secrets<N: Into<OsString>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.secret.extend(names.into_iter().map(Into::into));
        self
    }

    /// Whether a variable holds a secret, by its name or by declaration.
    pub fn is_secret(&self, name: &OsStr) -> bool {
        self.secret.contains(name) || is_secret_name(&name.to_string_lossy())
    }

    /// The variables that came from a `.env` file.
    pub fn dotenv(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.iter().filter(|(name, _)| self.from_dotenv.contains(*name))
    }

    /// Names and values to keep out of records: variables that hold secrets and all that came from a `.env` file.
    /// [`Redactor::new`](crate::redact::Redactor::new) takes them and leaves out the ones too ordinary to be secret.
    pub fn secrets(&self) -> impl Iterator<Item = (String, String)> {
        self.iter().filter_map(|(name, value)| {
            let secret = self.from_dotenv.contains(name) || self.is_secret(name);
            secret.then(|| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
        })
    }

    /// This environment without the variables that hold secrets.
    pub fn without_secrets(&self) -> Self {
        let mut kept = self.clone();
        kept.variables.retain(|name, _| !self.is_secret(name));
        kept.from_dotenv.retain(|name| kept.variables.contains_key(name));
        kept
    }
}

impl std::fmt::Debug for Environment {
    /// Names only: values may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotenv_never_overrides_the_real_environment() {
        let env = Environment::from_pairs([("A", "real"), ("GH_TOKEN", "t")]).with_dotenv([("A", "file"), ("B", "b")]);
        assert_eq!((env.get("A"), env.get("B")), (Some("real"), Some("b")));
        assert_eq!(env.dotenv().collect::<Vec<_>>(), [(OsStr::new("B"), OsStr::new("b"))]);
        let secrets: Vec<_> = env.secrets().map(|(name, _)| name).collect();
        assert_eq!(secrets, ["B", "GH_TOKEN"]);
        let left: Vec<_> = env.without_secrets().iter().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(left, ["A", "B"]);
    }

    #[test]
    fn debug_output_holds_no_values() {
        let env = Environment::from_pairs([("GH_TOKEN", "very-secret")]);
        assert_eq!(format!("{env:?}"), r#"{"GH_TOKEN"}"#);
    }
}
