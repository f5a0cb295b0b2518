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

/// Files of the home that a variable can put elsewhere, and whether it lists several, as `PATH` does.
const MOVED_FILES: [(&str, &str, bool); 12] = [
    (".kube/config", "KUBECONFIG", true),
    (".netrc", "NETRC", false),
    (".npmrc", "NPM_CONFIG_USERCONFIG", false),
    (".npmrc", "npm_config_userconfig", false),
    (".aws/credentials", "AWS_SHARED_CREDENTIALS_FILE", false),
    (".aws/config", "AWS_CONFIG_FILE", false),
    (".pgpass", "PGPASSFILE", false),
    (".bash_history", "HISTFILE", false),
    (".zsh_history", "HISTFILE", false),
    (".zhistory", "HISTFILE", false),
    (".histfile", "HISTFILE", false),
    (".sh_history", "HISTFILE", false),
];

/// Where variables say that a path below the home is, or files in it.
pub fn moved(below: &Path, environment: &Environment) -> impl Iterator<Item = PathBuf> {
    let dirs = MOVED.into_iter().filter_map(move |(usual, variable, there)| {
        Some(absolute(environment, variable)?.join(there).join(below.strip_prefix(usual).ok()?))
    });
    let files = MOVED_FILES.into_iter().filter(move |(usual, ..)| Path::new(usual).starts_with(below));
    dirs.chain(files.flat_map(move |(_, variable, is_list)| {
        let value = environment.get_os(variable).unwrap_or_default();
        let paths: Vec<PathBuf> = if is_list { std::env::split_paths(value).collect() } else { vec![value.into()] };
        // Devices hold no secrets: `/dev/null` stands for no file.
        paths.into_iter().filter(|path| path.is_absolute() && !path.starts_with("/dev"))
    }))
}

/// Where a path below the home is when no variable says otherwise.
pub fn at_home(below: &Path, environment: &Environment) -> Option<PathBuf> {
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
            ("KUBECONFIG", "/k/one:relative:/k/two"),
            ("NETRC", "/n:etrc"),
            ("NPM_CONFIG_USERCONFIG", "/dev/null"),
            ("npm_config_userconfig", "/npm"),
            ("AWS_SHARED_CREDENTIALS_FILE", "/a/c"),
            ("AWS_CONFIG_FILE", "a"),
            ("PGPASSFILE", "/pg"),
            ("HISTFILE", "/hist"),
        ]);
        for (path, places) in [
            ("~/.ssh", vec!["/h/.ssh"]),
            ("~/.config/gh", vec!["/h/.config/gh", "/c/gh"]),
            ("~/.configured", vec!["/h/.configured"]),
            ("~/.cargo/credentials", vec!["/h/.cargo/credentials", "/cargo/credentials"]),
            ("~/.gemini/.env", vec!["/h/.gemini/.env", "/g/.gemini/.env"]),
            ("~/.local/state/pleach", vec!["/h/.local/state/pleach"]),
            ("/etc/x", vec!["/etc/x"]),
            ("~/.kube", vec!["/h/.kube", "/k/one", "/k/two"]),
            ("~/.kube/config", vec!["/h/.kube/config", "/k/one", "/k/two"]),
            ("~/.kube/cache", vec!["/h/.kube/cache"]),
            ("~/.netrc", vec!["/h/.netrc", "/n:etrc"]),
            ("~/.npmrc", vec!["/h/.npmrc", "/npm"]),
            ("~/.aws", vec!["/h/.aws", "/a/c"]),
            ("~/.pgpass", vec!["/h/.pgpass", "/pg"]),
            ("~/.zsh_history", vec!["/h/.zsh_history", "/hist"]),
        ] {
            let places: Vec<PathBuf> = places.into_iter().map(PathBuf::from).collect();
            assert_eq!(HomePath::from(path).places(&home), places, "{path}");
        }
        let paths = HomePath::from("~/.netrc").places(&home).into_iter().map(PathBuf::into_os_string);
        assert!(paths.eq(["/h/.netrc", "/n:etrc"]), "a file, not a directory");
        let alone = Environment::from_pairs([("HOME", "/h")]);
        assert_eq!(HomePath::from("~").places(&alone), [PathBuf::from("/h")]);
        assert_eq!(HomePath::from("~/.ssh").places(&Environment::default()), Vec::<PathBuf>::new());
    }
}
