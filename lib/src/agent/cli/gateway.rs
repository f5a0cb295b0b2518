//! An agent behind the gateway: its model's calls go through pleach, which makes its turns exact and keeps the real key.
//! It gets a home of its own, so that nothing it finds in the user's can lead it elsewhere.

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::gather::Gathered;
use super::launch::{Endpoint, Start};
use super::parser::Reader;
use super::template::Values;
use super::{CliAgent, Ran};
use crate::agent::{AgentError, Driven, Job, Turn, Turns};
use crate::event::Usage;
use crate::gateway::Upstream;
use crate::llm::wire::Format;
use crate::process::{Cancel, Stream};

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

/// How a run behind the gateway went, and its last turn.
pub(super) struct Drove {
    pub ran: Ran,
    pub last: Option<Turn>,
}

impl CliAgent {
    /// Runs the program behind a gateway to its end. All its turns but the last are reported on the way.
    pub(super) async fn drive(
        &self,
        job: &Job,
        session: Option<&str>,
        upstream: &Upstream,
        turns: &Turns,
        cancel: &Cancel,
    ) -> Result<Drove, AgentError> {
        let driven = Driven::open(upstream.clone(), job).await?;
        let endpoint = Endpoint {
            base_url: driven.base_url(self.preset.format()),
            root_url: driven.base_url(Format::Anthropic),
            key: driven.key().to_owned(),
            port: driven.port(),
        };
        let cannot = |error: std::io::Error| {
            AgentError::Transient(format!(
                "cannot make a home for `{}` in {}: {error}",
                self.preset.program,
                job.home.display()
            ))
        };
        self.make_home(&job.home).map_err(cannot)?;
        let bounds = self.bounds(job, Some(&endpoint));
        let prompt = self.prompt(job, session.is_some(), bounds.as_ref());
        let start = Start { session, hooks: None, endpoint: Some(&endpoint), bounds: bounds.as_ref() };
        let command = self.command(job, &prompt, start)?;
        let reader = Mutex::new((Reader::new(self.preset.parser, Usage::default()), Gathered::new(&prompt)));
        let state = driven.state();
        let hear = |bytes: Option<&[u8]>| {
            let mut held = reader.lock().unwrap_or_else(PoisonError::into_inner);
            let (reader, gathered) = &mut *held;
            let heard = match bytes {
                Some(bytes) => reader.feed(bytes),
                None => reader.finish(),
            };
            let known = gathered.session.clone();
            heard.into_iter().for_each(|heard| gathered.hear(heard));
            if gathered.session != known
                && let Some(new) = self.state(gathered)
            {
                state.set(new);
            }
        };
        let seen = driven
            .see_through(turns, cancel, |own| async move {
                let mut on_output = |stream: Stream, bytes: &[u8]| {
                    if stream == Stream::Stdout {
                        hear(Some(bytes));
                    }
                };
                let output = self.spawner.run(command, &own, &mut on_output).await;
                hear(None);
                output
            })
            .await;
        let output = seen.ended.map_err(|error| AgentError::Terminal(format!("the agent did not run: {error}")))?;
        let (_, mut gathered) = reader.into_inner().unwrap_or_else(PoisonError::into_inner);
        gathered.heard_by_gateway(&seen.said);
        Ok(Drove { ran: Ran { output, gathered, stopped: seen.stopped }, last: seen.last })
    }

    /// What the agent finds in its home.
    fn make_home(&self, home: &Path) -> std::io::Result<()> {
        let make = |dir: &Path| std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        make(home)?;
        for (_, below) in HOMES.iter().filter(|(_, below)| !below.is_empty()) {
            make(&home.join(below))?;
        }
        for dir in &self.preset.gateway.directories {
            make(&home.join(dir))?;
        }
        for (file, text) in &self.preset.gateway.files {
            let file = home.join(file);
            if let (Some(dir), false) = (file.parent(), file.exists()) {
                make(dir)?;
                std::fs::write(&file, text)?;
            }
        }
        Ok(())
    }

    /// The variables of an agent behind a gateway: another home, another address, a key that is none.
    pub(super) fn route_variables(
        &self,
        job: &Job,
        endpoint: &Endpoint,
    ) -> Result<Vec<(OsString, Option<OsString>)>, AgentError> {
        let route = &self.preset.gateway;
        let mut env: Vec<(OsString, Option<OsString>)> = Vec::new();
        let users = self.environment.get_os("HOME").map(PathBuf::from);
        for (name, below) in TOOLS {
            let there = users.as_ref().map(|home| home.join(below)).filter(|path| path.exists());
            if let (None, Some(path)) = (self.environment.get_os(name), there) {
                env.push((name.into(), Some(path.into())));
            }
        }
        env.extend(HOMES.iter().map(|(name, below)| (OsString::from(name), Some(job.home.join(below).into()))));
        env.extend(route.unset.iter().map(|name| (OsString::from(name), None)));
        // Whatever proxy the user has, the way to the gateway is not its business: its secret is in the address.
        for name in ["NO_PROXY", "no_proxy"] {
            let usual = self.environment.get_os(name).filter(|usual| !usual.is_empty());
            let mut direct =
                usual.map(|usual| [usual.to_owned(), ",".into()].into_iter().collect::<OsString>()).unwrap_or_default();
            direct.push("127.0.0.1,localhost");
            env.push((name.into(), Some(direct)));
        }
        let mut values = Values::default();
        values.set("base_url", Some(&endpoint.base_url));
        values.set("root_url", Some(&endpoint.root_url));
        values.set("key", Some(&endpoint.key));
        values.set("home", Some(job.home.display().to_string()));
        values.set("model", self.model(job));
        for (name, value) in &route.env {
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
}
