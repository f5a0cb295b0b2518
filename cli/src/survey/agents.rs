//! The coding agents that are installed here.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pleach::config::{Environment, ProviderName};
use pleach::process::{Cancel, Command, Limits, Spawner};

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(20);

/// An agent pleach knows how to run.
#[derive(Debug)]
pub struct Known {
    /// What it is called, in settings and on PATH.
    pub name: &'static str,
    /// Whose key it uses.
    pub provider: Option<ProviderName>,
    /// Where it keeps a login, below the home directory.
    login: &'static str,
    /// How it is installed.
    pub install: &'static str,
}

/// All of them, in the order in which one is picked.
pub const KNOWN: [Known; 4] = [
    Known {
        name: "claude",
        provider: Some(ProviderName::Anthropic),
        login: ".claude/.credentials.json",
        install: "npm install -g @anthropic-ai/claude-code",
    },
    Known {
        name: "codex",
        provider: Some(ProviderName::Openai),
        login: ".codex/auth.json",
        install: "npm install -g @openai/codex",
    },
    Known {
        name: "gemini",
        provider: Some(ProviderName::Gemini),
        login: ".gemini/oauth_creds.json",
        install: "npm install -g @google/gemini-cli",
    },
    Known {
        name: "opencode",
        provider: None,
        login: ".local/share/opencode/auth.json",
        install: "npm install -g opencode-ai",
    },
];

/// An agent that is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// What it is called.
    pub name: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// The version it says it has.
    pub version: Option<String>,
    /// Whether somebody has logged in to it.
    pub has_login: bool,
}

/// Where a program is: on PATH, or where its path says, as seen from `dir`.
pub fn find(program: &str, environment: &Environment, dir: &Path) -> Option<PathBuf> {
    let runs = |path: &PathBuf| is_executable(path);
    if program.contains('/') {
        return Some(dir.join(program)).filter(runs);
    }
    let path = environment.get_os("PATH")?;
    std::env::split_paths(path).filter(|place| place.is_absolute()).map(|place| place.join(program)).find(runs)
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The agents that are installed, in the order of [`KNOWN`], each asked for its version at the same time.
pub async fn installed(environment: &Environment, spawner: &Spawner, dir: &Path) -> Vec<Installed> {
    let asked: Vec<_> = KNOWN
        .iter()
        .filter_map(|known| Some((known, find(known.name, environment, dir)?)))
        .map(|(known, path)| {
            let asking = tokio::spawn(version(path.clone(), spawner.clone(), dir.to_owned()));
            (known, path, asking)
        })
        .collect();
    let mut found = Vec::new();
    for (known, path, asking) in asked {
        let version = asking.await.ok().flatten();
        let has_login = environment.get_os("HOME").is_some_and(|home| Path::new(home).join(known.login).is_file());
        found.push(Installed { name: known.name, path, version, has_login });
    }
    found
}

/// The version a program says it has; none when it does not say so in time.
async fn version(program: PathBuf, spawner: Spawner, dir: PathBuf) -> Option<String> {
    let mut command = Command::new([program.into_os_string(), "--version".into()], dir);
    command.limits = Limits { wall: Some(PATIENCE), output: 4 << 10, ..Limits::default() };
    let output = spawner.run(command, &Cancel::never(), &mut |_, _| {}).await.ok()?;
    output.exit.success().then(|| version_in(&output.stdout.to_text())).flatten()
}

/// The first word that looks like a version.
fn version_in(text: &str) -> Option<String> {
    let words = text.split_whitespace().map(|word| word.trim_start_matches('v').trim_end_matches([',', ')']));
    let mut versions = words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
    versions.next().map(|version| version.chars().filter(|c| !c.is_control()).take(40).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (said, expected) in [
            ("2.1.325 (Claude Code)\n", Some("2.1.325")),
            ("codex-cli 0.166.0\n", Some("0.166.0")),
            ("v1.18.33", Some("1.18.33")),
            ("no idea 7", None),
            ("", None),
        ] {
            assert_eq!(version_in(said).as_deref(), expected, "{said}");
        }
    }
}
