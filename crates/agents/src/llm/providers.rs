//! Which provider answers: the one a node names, else the one of the configuration.

use std::collections::{BTreeMap, BTreeSet};

use super::remote::{Remote, Unusable};
use super::{Provider, Script};
use os::process::Spawner;
use pleach_core::config::{AgentChoice, Config, Environment, ProviderName};
use pleach_core::redact::Redactor;
use pleach_core::text::closest;

/// The providers of a run.
#[derive(Debug, Clone, Default)]
pub struct Providers {
    default: Option<ProviderName>,
    known: BTreeMap<ProviderName, Result<Provider, Unusable>>,
}

/// Why there is no provider to ask.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoProvider {
    /// No provider is configured and none has a key.
    #[error(
        "no model is configured; set a key such as ANTHROPIC_API_KEY, or `providers.default` and its settings in \
         pleach.yaml"
    )]
    None,
    /// There is no provider of this name.
    #[error("there is no provider `{name}`{}; there are {}", suggestion.as_ref().map(|near| format!(", did you mean `{near}`?")).unwrap_or_default(), names.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// One that is nearly it.
        suggestion: Option<String>,
        /// All there are.
        names: Vec<String>,
    },
    /// The scripted provider has no script.
    #[error("the scripted provider has no script; set `providers.script.file`")]
    NoScript,
    /// The provider cannot be asked.
    #[error("{0}")]
    Unusable(#[from] Unusable),
}

impl Providers {
    /// The providers of a configuration, with their keys from `environment`. `script` is the scripted one's.
    pub fn new(config: &Config, environment: &Environment, spawner: &Spawner, script: Option<Script>) -> Self {
        let mut known = BTreeMap::new();
        for (name, given) in config.providers.remote() {
            let remote = Remote::new(name, given, environment, spawner, &config.root);
            known.insert(name.clone(), remote.map(Provider::Remote));
        }
        let script = script.map(|script| script.with_prices(&config.providers.script.prices));
        let scripted = script.is_some().then_some(ProviderName::SCRIPT);
        known.extend(script.map(|script| (ProviderName::SCRIPT, Ok(Provider::Script(script)))));
        // A provider with a key is the user's choice even where the key cannot be used: no other one takes its place.
        let is_meant =
            |known: &Result<Provider, Unusable>| !matches!(known, Err(Unusable::NoKey { .. } | Unusable::NoAddress(_)));
        let in_order = || config.providers.remote().map(|(name, _)| name);
        let meant = || in_order().find(|name| known.get(name).is_some_and(is_meant)).cloned();
        let default = config.providers.default.clone().or(scripted).or_else(meant);
        Self { default, known }
    }

    /// Has the keys that commands print taken out of records.
    pub fn redact_with(&self, redactor: &Redactor) {
        for provider in self.known.values().flatten() {
            if let Provider::Remote(remote) = provider {
                remote.redact_with(redactor);
            }
        }
    }

    /// The provider and the model for side tasks such as commit messages, if the user has said who may see the code: by
    /// a provider, by a cheap model, or by an agent that asks the same one anyway.
    pub fn cheap(&self, config: &Config) -> Option<(Provider, String)> {
        let name = self.default.as_ref()?;
        let Provider::Remote(remote) = self.get(None).ok()? else { return None };
        let model = remote.model("cheap").ok()?;
        let given = config.providers.get(name)?;
        let said = config.providers.default.is_some()
            || given.models.contains_key("cheap")
            || config.agent_of(None) == Ok(AgentChoice::Builtin);
        said.then_some((Provider::Remote(remote), model))
    }

    /// The provider of a name, or the default one.
    pub fn get(&self, name: Option<&str>) -> Result<Provider, NoProvider> {
        let name = match name {
            None => self.default.clone().ok_or(NoProvider::None)?,
            Some(name) => self.named(name)?,
        };
        match self.known.get(&name) {
            Some(Ok(provider)) => Ok(provider.clone()),
            Some(Err(why)) => Err(why.clone().into()),
            None => Err(NoProvider::NoScript),
        }
    }

    fn named(&self, name: &str) -> Result<ProviderName, NoProvider> {
        let wanted = name.to_ascii_lowercase();
        // Google's models are asked for by either name.
        let wanted = if wanted == "google" { "gemini" } else { wanted.as_str() };
        let names: BTreeSet<&ProviderName> = self.known.keys().chain([&ProviderName::SCRIPT]).collect();
        if let Some(known) = names.iter().find(|known| known.as_str() == wanted) {
            return Ok((*known).clone());
        }
        let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
        let suggestion = closest(name, names.iter().map(String::as_str)).map(str::to_owned);
        Err(NoProvider::Unknown { name: name.to_owned(), suggestion, names })
    }
}

/// One provider for everything; for embedding and tests.
impl From<Option<Provider>> for Providers {
    fn from(provider: Option<Provider>) -> Self {
        let name = match &provider {
            Some(Provider::Remote(remote)) => remote.provider().clone(),
            Some(Provider::Script(_)) | None => ProviderName::SCRIPT,
        };
        let default = provider.is_some().then(|| name.clone());
        Self { default, known: provider.into_iter().map(|provider| (name.clone(), Ok(provider))).collect() }
    }
}
