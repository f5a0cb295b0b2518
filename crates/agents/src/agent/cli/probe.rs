//! What is there before a run: the program, and who pays.

use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::preset::Preset;
use crate::gateway::Upstream;
use os::plain_file;
use pleach_core::config::{Environment, TurnMode};

/// The file a command names, looked for on PATH as a shell does.
pub fn find_program(program: impl AsRef<Path>, environment: &Environment) -> Option<PathBuf> {
    let program = program.as_ref();
    let executable =
        |path: &Path| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        return Some(program.to_owned()).filter(|path| executable(path));
    }
    let path = environment.get_os("PATH")?;
    std::env::split_paths(path).map(|dir| dir.join(program)).find(|path| path.is_absolute() && executable(path))
}

/// The variable of a token that stands for a login.
const SUBSCRIPTION_TOKEN: &str = "CLAUDE_CODE_OAUTH_TOKEN";

/// Whether a file that holds the login of an agent holds a key: some keep both there.
fn holds_key(login: &Path) -> bool {
    fn is_key(value: &Value) -> bool {
        let Value::Object(fields) = value else { return false };
        let is = |name: &str, wanted: fn(&str) -> bool| fields.get(name).and_then(Value::as_str).is_some_and(wanted);
        is("type", |kind| kind == "api") || is("OPENAI_API_KEY", |key| !key.is_empty()) || fields.values().any(is_key)
    }
    let text = plain_file::read(login).unwrap_or_default();
    serde_json::from_str(&text).is_ok_and(|login| is_key(&login))
}

/// Who is billed for what an agent spends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Billing {
    /// A key, which stays with pleach.
    Gateway(String),
    /// Nobody: the answers are written down.
    Script,
    /// A key pleach asks with itself.
    Pleach(String),
    /// A key of the environment, which the agent gets.
    Key(String),
    /// The login the user has made with the agent: a subscription, which is not billed by the token.
    Login,
    /// A key the user has left with the agent.
    LeftKey,
    /// What the user has with a cloud, because a variable says so.
    Cloud {
        /// The cloud.
        cloud: String,
        /// The variable.
        variable: String,
    },
    /// Nobody that could be found, and how to change that.
    Unknown(String),
    /// Whom a program asks is its own affair.
    Own,
}

impl Billing {
    /// Who is billed for what goes through the gateway.
    pub fn through_gateway(upstream: &Upstream) -> Self {
        match upstream {
            Upstream::Remote(remote) => Self::Gateway(remote.key_name().to_owned()),
            Upstream::Script(_) => Self::Script,
        }
    }

    /// Who is billed when the agent reaches its model by itself.
    pub fn without_gateway(preset: &Preset, environment: &Environment) -> Self {
        if preset.keys.is_empty() {
            return Self::Own;
        }
        // What leads to a cloud goes over every key and login.
        let is_on = |variable: &str| {
            let value = environment.get(variable).unwrap_or_default().trim().to_lowercase();
            !["", "0", "false", "no", "off"].contains(&value.as_str())
        };
        if let Some((variable, cloud)) = preset.clouds.iter().find(|(variable, _)| is_on(variable)) {
            return Self::Cloud { cloud: cloud.clone(), variable: variable.clone() };
        }
        if let Some(key) = preset.keys.iter().find(|key| environment.get_os(key).is_some_and(|key| !key.is_empty())) {
            return Self::Key(key.clone());
        }
        let logins: Vec<PathBuf> = preset.logins_in(environment).into_iter().filter(|login| login.exists()).collect();
        if logins.is_empty() {
            Self::Unknown(format!("{}, or set {}", preset.log_in, preset.keys[0]))
        } else if logins.iter().any(|login| holds_key(login)) {
            Self::LeftKey
        } else {
            Self::Login
        }
    }

    /// Whether it is not billed by the token.
    pub fn is_subscription(&self) -> bool {
        match self {
            Self::Login => true,
            Self::Key(key) => key == SUBSCRIPTION_TOKEN,
            _ => false,
        }
    }

    /// The other way to pay for what an agent spends, where there is a choice.
    pub fn other_way(&self, preset: &Preset, environment: &Environment) -> Option<String> {
        let has_login = || preset.logins_in(environment).iter().any(|login| login.exists());
        match self {
            Self::Gateway(key) | Self::Key(key) if preset.keys.contains(key) && has_login() => {
                Some(format!("unset {key} to use the login in your home"))
            }
            Self::Login => Some(format!("set {} to use a key", preset.keys.first()?)),
            _ => None,
        }
    }
}

impl fmt::Display for Billing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateway(key) => write!(f, "billed to {key} through the gateway"),
            Self::Pleach(key) => write!(f, "billed to {key}"),
            Self::Script => f.write_str("answered by a script"),
            Self::Key(key) => write!(f, "billed to {key} of your environment"),
            Self::Login => f.write_str("on the login in your home, not billed by the token"),
            Self::LeftKey => f.write_str("billed to the key stored in it"),
            Self::Cloud { cloud, variable } => {
                write!(f, "billed to your credentials with {cloud}, because {variable} is set")
            }
            Self::Unknown(how) => write!(f, "no login or key was found: {how}"),
            Self::Own => f.write_str("with what it finds itself"),
        }
    }
}

/// An agent, introduced before it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// Its name.
    pub name: String,
    /// Its version in words, if it was asked for one.
    pub version: Option<String>,
    /// Why that version may not do, if it may not.
    pub outdated: Option<String>,
    /// Its turn mode, where there is more than one.
    pub turns: Option<TurnMode>,
    /// Who pays.
    pub billed: Billing,
    /// The other way to pay, where there is a choice.
    pub other: Option<String>,
}

impl fmt::Display for Introduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, version, turns, billed, other, .. } = self;
        let version = version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        let turns = turns.map(|turns| format!(" (turns: {turns})")).unwrap_or_default();
        let other = other.as_ref().map(|other| format!("; {other}")).unwrap_or_default();
        write!(f, "agent {name}{version}{turns}, {billed}{other}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn billing_is_known_before_the_run() {
        let home = tempfile::tempdir().unwrap();
        let claude = Preset::of("claude").unwrap();
        let environment = |more: &[(&str, &str)]| {
            let home = [("HOME", home.path().to_str().unwrap())];
            Environment::from_pairs(home.into_iter().chain(more.iter().copied()))
        };
        let billed = |more: &[(&str, &str)]| Billing::without_gateway(claude, &environment(more)).to_string();
        assert_eq!(billed(&[]), "no login or key was found: run `claude` once and log in, or set ANTHROPIC_API_KEY");
        std::fs::create_dir(home.path().join(".claude")).unwrap();
        std::fs::write(home.path().join(".claude/.credentials.json"), "{}").unwrap();
        assert_eq!(billed(&[]), "on the login in your home, not billed by the token");
        assert_eq!(billed(&[("ANTHROPIC_API_KEY", "k")]), "billed to ANTHROPIC_API_KEY of your environment");
        let token = environment(&[("CLAUDE_CODE_OAUTH_TOKEN", "t")]);
        assert!(Billing::without_gateway(claude, &token).is_subscription(), "it stands for a login");
        let codex = Preset::of("codex").unwrap();
        std::fs::create_dir(home.path().join(".codex")).unwrap();
        for (login, billed) in [
            (r#"{"OPENAI_API_KEY": null, "tokens": {"access_token": "t"}}"#, Billing::Login),
            (r#"{"OPENAI_API_KEY": "k"}"#, Billing::LeftKey),
            (r#"{"anthropic": {"type": "api", "key": "k"}}"#, Billing::LeftKey),
        ] {
            std::fs::write(home.path().join(".codex/auth.json"), login).unwrap();
            assert_eq!(Billing::without_gateway(codex, &environment(&[])), billed, "{login}");
        }
        assert_eq!(
            billed(&[("ANTHROPIC_API_KEY", "k"), ("CLAUDE_CODE_USE_BEDROCK", "1")]),
            "billed to your credentials with AWS, because CLAUDE_CODE_USE_BEDROCK is set"
        );
        assert!(billed(&[("CLAUDE_CODE_USE_VERTEX", "true")]).contains("with Google Cloud, because"));
        for off in ["", "0", "false"] {
            assert_eq!(
                billed(&[("CLAUDE_CODE_USE_BEDROCK", off)]),
                "on the login in your home, not billed by the token",
                "{off}"
            );
        }
        let gemini = environment(&[("GOOGLE_GENAI_USE_VERTEXAI", "true"), ("GEMINI_API_KEY", "k")]);
        assert_eq!(
            Billing::without_gateway(Preset::of("gemini").unwrap(), &gemini).to_string(),
            "billed to your credentials with Google Cloud, because GOOGLE_GENAI_USE_VERTEXAI is set"
        );
    }

    #[test]
    fn programs_are_looked_for_on_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tool");
        std::fs::write(&file, "").unwrap();
        let environment = Environment::from_pairs([("PATH", format!("/nowhere:{}", dir.path().display()))]);
        assert_eq!(find_program("tool", &environment), None, "it cannot be executed");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_program("tool", &environment), Some(file.clone()));
        assert_eq!(find_program(file.to_str().unwrap(), &Environment::default()), Some(file));
    }
}
