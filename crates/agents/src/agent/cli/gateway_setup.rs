//! Sets a program up for the gateway: a home of its own, so that nothing it finds in the user's can lead it elsewhere,
//! another address, and a key that opens nothing but the gateway. Everybody on the machine can read a command line, so
//! the secret is in variables only.

use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::preset::Preset;
use super::template::Values;
use crate::agent::tool_commands::ToolServer;
use crate::agent::{AgentError, GatewayRun};
use crate::llm::wire::Format;
use os::confined_fs::ConfinedDir;
use pleach_core::config::Environment;

/// Variables to set or to remove.
pub(in crate::agent) type Variables = Vec<(OsString, Option<OsString>)>;

/// Variables by which programs find the home of their user, and where in it they look.
const HOMES: [(&str, &str); 5] = [
    ("HOME", ""),
    ("XDG_CACHE_HOME", ".cache"),
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
];

/// What tools of the work look for below the user's home, and the variables that lead them there all the same.
const TOOLS: [(&str, &str); 12] = [
    ("CARGO_HOME", ".cargo"),
    ("DENO_DIR", ".cache/deno"),
    ("GIT_CONFIG_GLOBAL", ".gitconfig"),
    ("GOMODCACHE", "go/pkg/mod"),
    ("GRADLE_USER_HOME", ".gradle"),
    ("NVM_DIR", ".nvm"),
    ("PIP_CACHE_DIR", ".cache/pip"),
    ("PYENV_ROOT", ".pyenv"),
    ("RBENV_ROOT", ".rbenv"),
    ("RUSTUP_HOME", ".rustup"),
    ("UV_CACHE_DIR", ".cache/uv"),
    ("npm_config_cache", ".npm"),
];

/// The variables that lead tools to what they look for below the user's home, where that is there: all of it, or some.
pub(in crate::agent) fn tools(environment: &Environment, some: impl Fn(&str) -> bool) -> Variables {
    let Some(home) = environment.get_os("HOME").map(PathBuf::from) else { return Variables::new() };
    let unset = TOOLS.iter().filter(|(name, below)| some(below) && environment.get_os(name).is_none());
    let there = unset.map(|(name, below)| (name, home.join(below))).filter(|(_, path)| path.exists());
    there.map(|(name, path)| (name.into(), Some(path.into()))).collect()
}

/// The gateway, as an agent sees it.
#[derive(Debug, Clone)]
pub(in crate::agent) struct GatewayEndpoint {
    /// With the secret.
    pub base_url: String,
    /// The same without a version.
    pub root_url: String,
    /// The base URL without the secret, which leads on only together with the key.
    pub address: String,
    pub key: String,
    pub port: u16,
}

impl GatewayEndpoint {
    /// A gateway's endpoint for a program of this kind.
    pub fn of(gateway_run: &GatewayRun, preset: &Preset) -> Self {
        Self {
            base_url: gateway_run.base_url(preset.format()),
            root_url: gateway_run.base_url(Format::Anthropic),
            address: gateway_run.address(preset.format()),
            key: gateway_run.key().to_owned(),
            port: gateway_run.port(),
        }
    }
}

/// The setup of one program for the gateway.
#[derive(Debug)]
pub(in crate::agent) struct GatewaySetup<'a> {
    pub preset: &'a Preset,
    pub environment: &'a Environment,
    /// The home it gets.
    pub home: &'a Path,
    /// The model, by the name its provider has for it.
    pub model: Option<String>,
    pub endpoint: &'a GatewayEndpoint,
    /// The server of its tools, where its settings name that.
    pub server: Option<&'a ToolServer>,
}

impl GatewaySetup<'_> {
    /// Makes what the program finds in its home.
    pub fn make_home(&self) -> Result<(), AgentError> {
        let make = || {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(self.home)?;
            std::fs::set_permissions(self.home, Permissions::from_mode(0o700))?;
            // The agent can write there, and may have been here before: what is there is left, what is made stays
            // below.
            let home = ConfinedDir::at(self.home)?;
            let own = HOMES.iter().map(|(_, below)| *below).filter(|below| !below.is_empty());
            for dir in own.chain(self.preset.gateway.directories.iter().map(String::as_str)) {
                if !self.home.join(dir).is_dir() {
                    home.make_directory(dir)?;
                }
            }
            for (file, text) in &self.preset.gateway.files {
                if !self.home.join(file).exists() {
                    home.write(file, text.as_bytes())?;
                }
            }
            let values = self.values_without_secret();
            for (file, text) in &self.preset.gateway.settings {
                home.write(file, values.fill(text).unwrap_or_else(|| text.clone()).as_bytes())?;
            }
            Ok(())
        };
        make().map_err(|error: std::io::Error| {
            let (program, home) = (&self.preset.program, self.home.display());
            AgentError::Transient(format!("cannot make a home for `{program}` in {home}: {error}"))
        })
    }

    fn values(&self) -> Values {
        let Self { endpoint, home, model, .. } = self;
        let mut values = Values::default();
        values.set("base_url", Some(&endpoint.base_url));
        values.set("root_url", Some(&endpoint.root_url));
        values.set("key", Some(&endpoint.key));
        values.set("home", Some(home.display().to_string()));
        values.set("model", model.clone());
        self.preset.mcp.set_values(&mut values, self.server);
        if let Some(dialect) = self.preset.gateway.dialects.get(&self.preset.speaks) {
            values.set("sdk", Some(&dialect.sdk));
            values.set("version", Some(&dialect.version));
        }
        values
    }

    /// The same for places others can read.
    fn values_without_secret(&self) -> Values {
        let mut values = self.values();
        values.set("base_url", Some(&self.endpoint.address));
        values.set("root_url", None::<&str>);
        values.set("key", None::<&str>);
        values
    }

    /// Its variables.
    pub fn variables(&self) -> Result<Variables, AgentError> {
        let gateway_setup = &self.preset.gateway;
        let home = |(name, below): &(&str, &str)| (OsString::from(name), Some(self.home.join(below).into()));
        let mut env: Variables = HOMES.iter().map(home).collect();
        env.extend(gateway_setup.unset.iter().map(|name| (OsString::from(name), None)));
        // No proxy of the user's may see calls to the gateway: its secret is in the address.
        for name in ["NO_PROXY", "no_proxy"] {
            let usual = self.environment.get_os(name).filter(|usual| !usual.is_empty());
            let mut direct =
                usual.map(|usual| [usual.to_owned(), ",".into()].into_iter().collect::<OsString>()).unwrap_or_default();
            direct.push("127.0.0.1,localhost");
            env.push((name.into(), Some(direct)));
        }
        let values = self.values();
        for (name, value) in &gateway_setup.env {
            let filled = values.fill(value).ok_or_else(|| {
                let how = "name a model: `llm_model` of the node, or `model` of the agent";
                AgentError::Terminal(format!(
                    "`{}` needs a model to go through the gateway; {how}",
                    self.preset.program
                ))
            })?;
            env.push((name.into(), Some(filled.into())));
        }
        Ok(env)
    }

    /// Its arguments beyond the usual ones.
    pub fn arguments(&self) -> Vec<String> {
        let values = self.values_without_secret();
        self.preset.gateway.args.iter().filter_map(|word| values.fill(word)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn setting_up_a_home_follows_no_links() {
        let dir = tempfile::tempdir().unwrap();
        let (home, mine) = (dir.path().join("home"), dir.path().join("mine"));
        fs::create_dir(&home).unwrap();
        fs::create_dir(&mine).unwrap();
        let endpoint = GatewayEndpoint {
            base_url: String::new(),
            root_url: String::new(),
            address: String::new(),
            key: String::new(),
            port: 9,
        };
        let environment = Environment::default();
        let mut preset = Preset::of("claude").unwrap().clone();
        preset.gateway.directories = vec!["kept/dir".into()];
        preset.gateway.files = [("settings/file".to_owned(), "ours".to_owned())].into();
        let (preset, environment, endpoint) = (&preset, &environment, &endpoint);
        let way = GatewaySetup { preset, environment, home: &home, model: None, endpoint, server: None };
        for name in [".local", "kept", "settings"] {
            symlink(&mine, home.join(name)).unwrap();
            let refused = way.make_home().unwrap_err().to_string();
            assert!(refused.contains(&format!("`{name}` in the path is a link")), "{refused}");
            fs::remove_file(home.join(name)).unwrap();
        }
        assert_eq!(fs::read_dir(&mine).unwrap().count(), 0);
        way.make_home().unwrap();
        assert_eq!(fs::read_to_string(home.join("settings/file")).unwrap(), "ours");
        assert!(home.join("kept/dir").is_dir() && home.join(".local/share").is_dir());
    }
}
