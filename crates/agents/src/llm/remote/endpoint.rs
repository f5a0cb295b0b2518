//! The address, key and headers of a provider's server: the defaults of known providers, and what the configuration
//! sets.

use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};

use super::adjust::versioned;
use crate::llm::http::{HttpClient, HttpError, Proxy, ServerUrl};
use crate::llm::proxy;
use crate::llm::wire::Format;
use pleach_core::config::{self, Environment, ProviderKind, ProviderName, Variable};

/// What is sent with every call.
#[derive(Debug, Clone, Default)]
pub(super) struct Headers {
    /// As the configuration says. An agent's own of these names do not reach the server.
    pub given: Vec<(HeaderName, HeaderValue)>,
    /// Defaults that a call may override.
    pub usual: Vec<(HeaderName, HeaderValue)>,
}

impl Headers {
    /// Whether the configuration gives a header of this name.
    pub fn gives(&self, name: &HeaderName) -> bool {
        self.given.iter().any(|(given, _)| given == name)
    }
}

/// The defaults of a known provider: its format, its address, and the variables of its key and address.
struct KnownProvider {
    format: Format,
    base: Option<&'static str>,
    keys: &'static [&'static str],
    base_variable: &'static str,
    /// Whether it can be asked without a key.
    is_open: bool,
}

fn known(name: &ProviderName) -> Option<KnownProvider> {
    let usual = |format, base, keys, base_variable| KnownProvider {
        format,
        base: Some(base),
        keys,
        base_variable,
        is_open: false,
    };
    Some(match name.as_str() {
        "anthropic" => {
            usual(Format::Anthropic, "https://api.anthropic.com", &["ANTHROPIC_API_KEY"], "ANTHROPIC_BASE_URL")
        }
        "openai" => usual(Format::Responses, "https://api.openai.com/v1", &["OPENAI_API_KEY"], "OPENAI_BASE_URL"),
        "gemini" => usual(
            Format::Gemini,
            "https://generativelanguage.googleapis.com",
            &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            "GEMINI_BASE_URL",
        ),
        "openrouter" => {
            usual(Format::Chat, "https://openrouter.ai/api/v1", &["OPENROUTER_API_KEY"], "OPENROUTER_BASE_URL")
        }
        // A key of its own: no other provider's may end up at a server anybody can name.
        "compatible" => KnownProvider {
            format: Format::Chat,
            base: None,
            keys: &["COMPATIBLE_API_KEY"],
            base_variable: "COMPATIBLE_BASE_URL",
            is_open: true,
        },
        _ => return None,
    })
}

/// The variables a provider's key is usually in, the first one that is set.
pub fn key_variables(name: &ProviderName) -> &'static [&'static str] {
    known(name).map_or(&[], |known| known.keys)
}

/// Why a provider cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It has no key.
    #[error("there is no key for {provider}; set {variable}, or `providers.{provider}.settings.api_key_command`")]
    NoKey {
        /// The provider.
        provider: ProviderName,
        /// The variable of its key.
        variable: String,
    },
    /// It has no address.
    #[error("{0} has no address; set `providers.{0}.base_url`")]
    NoAddress(ProviderName),
    /// The format of its server is not configured.
    #[error("the API of {0} is unknown; set `providers.{0}.kind`")]
    NoKind(ProviderName),
    /// Its address, or its proxy's, is none.
    #[error("{0}")]
    Address(String),
    /// Its key cannot be sent.
    #[error("the key in {0} has invalid characters")]
    Key(String),
    /// One of its headers cannot be sent.
    #[error("the header `{header}` of {provider} cannot be sent: {why}")]
    Header {
        /// The provider.
        provider: ProviderName,
        /// The header.
        header: String,
        /// Why not.
        why: String,
    },
    /// No model is configured for this tier.
    #[error("{provider} has no model `{tier}`; set `providers.{provider}.models.{tier}`")]
    NoModel {
        /// The provider.
        provider: ProviderName,
        /// What was asked for.
        tier: String,
    },
}

/// The key of a provider that is in a variable.
pub(super) enum FoundKey {
    /// This one, of this variable.
    Key(String, String),
    /// None is set, and none is needed: the variable it could be in.
    NotNeeded(String),
}

/// A provider's server, as far as it is known without asking it.
pub(super) struct ProviderEndpoint<'a> {
    name: &'a ProviderName,
    given: &'a config::ServerSettings,
    environment: &'a Environment,
    known: Option<KnownProvider>,
    pub format: Format,
}

impl<'a> ProviderEndpoint<'a> {
    pub fn new(
        name: &'a ProviderName,
        given: &'a config::ServerSettings,
        environment: &'a Environment,
    ) -> Result<Self, Unusable> {
        let known = known(name);
        let said = given.kind.map(|kind| match kind {
            ProviderKind::Anthropic => Format::Anthropic,
            ProviderKind::Responses => Format::Responses,
            ProviderKind::Chat => Format::Chat,
            ProviderKind::Gemini => Format::Gemini,
        });
        let format = said.or(known.as_ref().map(|known| known.format));
        let format = format.ok_or_else(|| Unusable::NoKind(name.clone()))?;
        Ok(Self { name, given, environment, known, format })
    }

    fn variable(&self, name: &str) -> Option<&'a str> {
        self.environment.get(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// The name its key has where it is taken out of text.
    pub fn key_name(&self) -> String {
        let own = || format!("{}_API_KEY", self.name.as_str().to_ascii_uppercase().replace('-', "_"));
        self.known.as_ref().map_or_else(own, |known| known.keys[0].to_owned())
    }

    /// Its key, where that is in a variable.
    pub fn key(&self) -> Result<FoundKey, Unusable> {
        let usual = self.known.as_ref().map_or(&[][..], |known| known.keys);
        let named = self.given.api_key.as_ref().map(Variable::name);
        let variables = named.map_or_else(|| usual.to_vec(), |named| vec![named]);
        match variables.iter().find_map(|key| Some((*key, self.variable(key)?))) {
            Some((key, value)) if HeaderValue::from_str(value).is_err() => Err(Unusable::Key(key.to_owned())),
            Some((key, value)) => Ok(FoundKey::Key(key.to_owned(), value.to_owned())),
            // A configured variable must be set.
            None if named.is_none() && self.known.as_ref().is_none_or(|known| known.is_open) => {
                Ok(FoundKey::NotNeeded(self.key_name()))
            }
            None => {
                let variable = variables.first().map_or_else(|| self.key_name(), |&variable| variable.to_owned());
                Err(Unusable::NoKey { provider: self.name.clone(), variable })
            }
        }
    }

    /// The client of its server.
    pub fn client(&self) -> Result<HttpClient, Unusable> {
        let Self { name, given, .. } = self;
        let setting = |key: &str| format!("`providers.{name}.{key}`");
        let by_variable = || {
            let variable = self.known.as_ref()?.base_variable;
            Some((self.variable(variable)?, variable.to_owned()))
        };
        let usual = || Some((self.known.as_ref()?.base?, setting("base_url")));
        let said = given.address().map(|(address, key)| (address, setting(key)));
        let (address, place) =
            said.or_else(by_variable).or_else(usual).ok_or_else(|| Unusable::NoAddress((*name).clone()))?;
        let wrong = |place: String| move |error: HttpError| Unusable::Address(format!("{error}; correct {place}"));
        let mut base = ServerUrl::parse(address).map_err(wrong(place.clone()))?;
        base.path = versioned(self.format, &base.path);
        let through = match given.settings.proxy.as_deref() {
            Some(proxy) => Some((proxy, setting("settings.proxy"))),
            None => proxy::from_environment(self.environment, &base),
        };
        let through = through.map(|(address, place)| {
            // As in other programs, a proxy may be named without a scheme.
            let address = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
            Proxy::parse(&address, place.trim_matches('`')).map_err(wrong(place))
        });
        HttpClient::new(base, through.transpose()?, Duration::from_secs(given.settings.timeout)).map_err(wrong(place))
    }

    /// The headers of every call: those of the configuration, and defaults that a call may override.
    pub fn headers(&self) -> Result<Headers, Unusable> {
        let mut headers = Vec::new();
        for (header, text) in &self.given.headers {
            let wrong = |why: String| {
                let (provider, header) = (self.name.clone(), header.clone());
                Unusable::Header { provider, header, why }
            };
            let name = HeaderName::from_bytes(header.as_bytes()).map_err(|_| wrong("that is no name".into()))?;
            let variable = Variable::of(text);
            let value = match &variable {
                Some(variable) => self
                    .variable(variable.name())
                    .ok_or_else(|| wrong(format!("the variable {} is not set", variable.name())))?,
                None => text.as_str(),
            };
            let value = HeaderValue::from_str(value);
            let mut value = value.map_err(|_| wrong("its value has invalid characters".into()))?;
            value.set_sensitive(variable.is_some());
            headers.push((name, value));
        }
        let expected: &[(&'static str, Option<&str>)] = match self.format {
            Format::Anthropic => &[("anthropic-version", Some("2023-06-01"))],
            // These belong to an OpenAI account and go to no other provider.
            Format::Responses if *self.name == ProviderName::OPENAI => &[
                ("openai-organization", self.variable("OPENAI_ORG_ID")),
                ("openai-project", self.variable("OPENAI_PROJECT_ID")),
            ],
            Format::Responses | Format::Chat | Format::Gemini => &[],
        };
        let expected = expected.iter().filter_map(|(name, value)| {
            let name = HeaderName::from_static(name);
            let value = HeaderValue::from_str((*value)?).ok()?;
            (!headers.iter().any(|(given, _)| *given == name)).then_some((name, value))
        });
        let usual = expected.collect();
        Ok(Headers { given: headers, usual })
    }
}
