//! Paths that are named from the user's home directory.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Environment;
use super::node::ConfigNode;
use super::read::{ReadContext, Setting, normal_path};

/// Directories of the home that a variable can put elsewhere.
const MOVED: [(&str, &str); 4] = [
    (".cache", "XDG_CACHE_HOME"),
    (".config", "XDG_CONFIG_HOME"),
    (".local/share", "XDG_DATA_HOME"),
    (".local/state", "XDG_STATE_HOME"),
];

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
        let absolute = |name: &str| environment.get_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let moved = MOVED.into_iter().filter_map(|(part, variable)| {
            let below = below.strip_prefix(part).ok()?;
            Some(absolute(variable)?.join(below))
        });
        absolute("HOME").map(|home| home.join(below)).into_iter().chain(moved).collect()
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
        let home = Environment::from_pairs([("HOME", "/h"), ("XDG_CONFIG_HOME", "/c"), ("XDG_STATE_HOME", "relative")]);
        for (path, places) in [
            ("~/.ssh", vec!["/h/.ssh"]),
            ("~/.config/gh", vec!["/h/.config/gh", "/c/gh"]),
            ("~/.configured", vec!["/h/.configured"]),
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
