//! Paths that are named from the user's home directory.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Environment;
use super::node::ConfigNode;
use super::read::{ReadContext, Setting, normal_path};

/// Directories of the home that a variable can put elsewhere, and their names there.
const MOVED: [(&str, &str, &str); 12] = [
    (".claude", "CLAUDE_CONFIG_DIR", ""),
    (".codex", "CODEX_HOME", ""),
    (".gemini", "GEMINI_CLI_HOME", ".gemini"),
    (".cargo", "CARGO_HOME", ""),
    (".docker", "DOCKER_CONFIG", ""),
    (".azure", "AZURE_CONFIG_DIR", ""),
    (".gnupg", "GNUPGHOME", ""),
    (".config/gcloud", "CLOUDSDK_CONFIG", ""),
    (".config", "XDG_CONFIG_HOME", ""),
    (".cache", "XDG_CACHE_HOME", ""),
    (".local/share", "XDG_DATA_HOME", ""),
    (".local/state", "XDG_STATE_HOME", ""),
];

/// Where a variable says that a path below the home is.
pub(crate) fn moved(below: &Path, environment: &Environment) -> impl Iterator<Item = PathBuf> {
    MOVED.into_iter().filter_map(move |(usual, variable, there)| {
        Some(absolute(environment, variable)?.join(there).join(below.strip_prefix(usual).ok()?))
    })
}

/// Where a path below the home is when no variable says otherwise.
pub(crate) fn at_home(below: &Path, environment: &Environment) -> Option<PathBuf> {
    Some(absolute(environment, "HOME")?.join(below))
}

fn absolute(environment: &Environment, name: &str) -> Option<PathBuf> {
    environment.get_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// A path that may start with `~`, the home of its user. It stays as it was written until it is used: the same list is
/// meant on every machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HomePath(PathBuf);

impl HomePath {
    /// Where it may be: in the home, and where a variable says that this part of the home is. Nowhere when it is in a home
    /// and there is none.
    pub fn places(&self, environment: &Environment) -> Vec<PathBuf> {
        let Ok(below) = self.0.strip_prefix("~") else { return vec![self.0.clone()] };
        at_home(below, environment).into_iter().chain(moved(below, environment)).collect()
    }

    /// Makes it text that can be written down.
    pub(super) fn make_lossy(&mut self) {
        self.0 = PathBuf::from(self.0.to_string_lossy().into_owned());
    }
}

impl From<&str> for HomePath {
    fn from(path: &str) -> Self {
        Self(path.into())
    }
}

impl fmt::Display for HomePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl Setting for HomePath {
    fn read(node: &ConfigNode, reading: &mut ReadContext<'_>) -> Option<Self> {
        match String::read(node, reading)? {
            text if text == "~" || text.starts_with("~/") => Some(Self(normal_path(Path::new(&text)))),
            _ => PathBuf::read(node, reading).map(Self),
        }
    }

    fn takes() -> String {
        "a path, relative to the file that sets it, or to your home with `~/`".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_where_its_user_s_is() {
        let home = Environment::from_pairs([
            ("HOME", "/h"),
            ("XDG_CONFIG_HOME", "/c"),
            ("XDG_STATE_HOME", "relative"),
            ("CARGO_HOME", "/cargo"),
            ("GEMINI_CLI_HOME", "/g"),
        ]);
        for (path, places) in [
            ("~/.ssh", vec!["/h/.ssh"]),
            ("~/.config/gh", vec!["/h/.config/gh", "/c/gh"]),
            ("~/.configured", vec!["/h/.configured"]),
            ("~/.cargo/credentials", vec!["/h/.cargo/credentials", "/cargo/credentials"]),
            ("~/.gemini/.env", vec!["/h/.gemini/.env", "/g/.gemini/.env"]),
            ("~/.local/state/pleach", vec!["/h/.local/state/pleach"]),
            ("/etc/x", vec!["/etc/x"]),
            ("~", vec!["/h"]),
        ] {
            let places: Vec<PathBuf> = places.into_iter().map(PathBuf::from).collect();
            assert_eq!(HomePath::from(path).places(&home), places, "{path}");
        }
        assert_eq!(HomePath::from("~/.ssh").places(&Environment::default()), Vec::<PathBuf>::new());
    }
}
