//! Who serves models: names pleach knows, and those the configuration gives to endpoints of its own.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::define::{choice, section};
use super::environment::Environment;
use super::node::{ConfigNode, ConfigNodeKind};
use super::read::{ReadContext, SectionFields, Setting, SettingKey, each_string};

/// The name of a provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProviderName(Cow<'static, str>);

/// A text that can be no provider's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid provider name: use lowercase letters, digits, `-` and `_`, starting with a letter")]
pub struct InvalidProviderName(String);

impl ProviderName {
    /// Anthropic.
    pub const ANTHROPIC: Self = Self(Cow::Borrowed("anthropic"));
    /// OpenAI.
    pub const OPENAI: Self = Self(Cow::Borrowed("openai"));
    /// Google Gemini.
    pub const GEMINI: Self = Self(Cow::Borrowed("gemini"));
    /// OpenRouter.
    pub const OPENROUTER: Self = Self(Cow::Borrowed("openrouter"));
    /// Any server that speaks OpenAI's chat completions.
    pub const COMPATIBLE: Self = Self(Cow::Borrowed("compatible"));
    /// Answers from a file.
    pub const SCRIPT: Self = Self(Cow::Borrowed("script"));

    /// Those behind a server that pleach knows, in the order in which one is picked when none is named.
    pub const REMOTE: [Self; 5] = [Self::ANTHROPIC, Self::OPENAI, Self::GEMINI, Self::OPENROUTER, Self::COMPATIBLE];

    /// The name, as written in configuration.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether pleach knows this provider by itself.
    pub fn is_known(&self) -> bool {
        *self == Self::SCRIPT || Self::REMOTE.contains(self)
    }
}

/// What stands beside the names of providers, and what Google's is called otherwise.
const TAKEN: [&str; 2] = ["default", "google"];

impl FromStr for ProviderName {
    type Err = InvalidProviderName;

    fn from_str(text: &str) -> Result<Self, InvalidProviderName> {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let is_name = text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(is_part);
        if is_name && !TAKEN.contains(&text) {
            Ok(Self(Cow::Owned(text.to_owned())))
        } else {
            Err(InvalidProviderName(text.to_owned()))
        }
    }
}

impl TryFrom<String> for ProviderName {
    type Error = InvalidProviderName;

    fn try_from(text: String) -> Result<Self, InvalidProviderName> {
        text.parse()
    }
}

impl From<ProviderName> for String {
    fn from(name: ProviderName) -> Self {
        name.0.into_owned()
    }
}

impl fmt::Display for ProviderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Setting for ProviderName {
    fn read(node: &ConfigNode, reading: &mut ReadContext<'_>) -> Option<Self> {
        let name = String::read(node, reading)?.parse();
        if let Err(error) = &name {
            reading.fail(node.at, InvalidProviderName::to_string(error));
        }
        name.ok()
    }

    fn takes() -> String {
        let known = Self::REMOTE.iter().chain([&Self::SCRIPT]).map(Self::as_str);
        known.chain(["a name of `providers`"]).collect::<Vec<_>>().join(" | ")
    }

    fn each_text(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
        // What has a name is recorded by it elsewhere too.
        if value.as_str().is_none_or(|name| name.parse::<Self>().is_err()) {
            each_string(value, visit);
        }
    }
}

/// Model providers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "RecordedProviders")]
pub struct ProvidersSettings {
    /// The provider for nodes that name none; by default the first one that has a key.
    pub default: Option<ProviderName>,
    /// Those behind a server: the ones pleach knows, and the configuration's own.
    #[serde(flatten)]
    pub servers: BTreeMap<ProviderName, ServerSettings>,
    /// Answers from a file, for demos and tests.
    pub script: ScriptProvider,
}

/// Variables that a header may be made of and everybody needs.
const OF_EVERYBODY: [&str; 9] = ["HOME", "HOSTNAME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "USER"];

/// Model providers as recorded: those without settings may be missing.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordedProviders {
    default: Option<ProviderName>,
    script: ScriptProvider,
    #[serde(flatten)]
    servers: BTreeMap<ProviderName, ServerSettings>,
}

impl From<RecordedProviders> for ProvidersSettings {
    fn from(given: RecordedProviders) -> Self {
        let mut providers = Self { default: given.default, script: given.script, ..Self::default() };
        providers.servers.extend(given.servers);
        providers
    }
}

impl Default for ProvidersSettings {
    fn default() -> Self {
        let servers = ProviderName::REMOTE.into_iter().map(|name| (name, ServerSettings::default())).collect();
        Self { default: None, servers, script: ScriptProvider::default() }
    }
}

impl ProvidersSettings {
    /// The settings of a provider that speaks to a server.
    pub fn get(&self, name: &ProviderName) -> Option<&ServerSettings> {
        self.servers.get(name)
    }

    /// Those that speak to a server, in the order in which one is picked when none is named: the ones pleach knows, then
    /// the configuration's own by their names.
    pub fn remote(&self) -> impl Iterator<Item = (&ProviderName, &ServerSettings)> {
        let (known, own): (Vec<_>, Vec<_>) = self.servers.iter().partition(|(name, _)| name.is_known());
        let place = |name: &ProviderName| ProviderName::REMOTE.iter().position(|known| known == name);
        let mut known: Vec<(&ProviderName, &ServerSettings)> = known;
        known.sort_by_key(|(name, _)| place(name));
        known.into_iter().chain(own)
    }

    /// The variables whose values are for providers alone: keys and headers, named by settings or settings themselves.
    pub fn secret_variables(&self, environment: &Environment) -> Vec<OsString> {
        let variables = |given: &ServerSettings| {
            let headers = given.headers.values().filter_map(|text| Variable::of(text));
            given.api_key.iter().cloned().chain(headers).map(|variable| variable.0).collect::<Vec<_>>()
        };
        let named = self.servers.values().flat_map(variables).filter(|name| !OF_EVERYBODY.contains(&name.as_str()));
        let is_header = |name: &str| name.starts_with("PLEACH_PROVIDERS__") && name.contains("__HEADERS__");
        let settings = environment.iter().map(|(name, _)| name).filter(|name| is_header(&name.to_string_lossy()));
        named.map(OsString::from).chain(settings.map(OsStr::to_owned)).collect()
    }

    /// Every name a provider can be asked for by.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.remote().map(|(name, _)| name.as_str()).chain(["script"])
    }
}

const DEFAULT: (&str, &str) =
    ("default", "The provider for nodes that name none; by default the first one that has a key.");
const SCRIPT: &str = "script";

impl Setting for ProvidersSettings {
    fn read(node: &ConfigNode, reading: &mut ReadContext<'_>) -> Option<Self> {
        let named: Vec<&str> = match &node.kind {
            ConfigNodeKind::Map(map) => map.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        };
        let fields = SectionFields::open(node, &named, reading)?;
        let mut providers = Self::default();
        for name in named {
            match name {
                "default" => providers.default = fields.take(name, reading),
                SCRIPT => providers.script = fields.take(name, reading).unwrap_or_default(),
                own => match own.parse::<ProviderName>() {
                    Ok(name) => providers.servers.extend(fields.take(own, reading).map(|given| (name, given))),
                    Err(error) => {
                        let at = node.at_path(&[own]).map_or(node.at, |entry| entry.key_at);
                        reading.fail(at, error.to_string());
                    }
                },
            }
        }
        Some(providers)
    }

    fn takes() -> String {
        "a section".to_owned()
    }

    fn keys(path: &str, _: &str, _: Value, out: &mut Vec<SettingKey>) {
        let (default, about) = DEFAULT;
        Option::<ProviderName>::keys(&format!("{path}.{default}"), about, Value::Null, out);
        for name in ProviderName::REMOTE {
            ServerSettings::keys(&format!("{path}.{name}"), "", Value::Null, out);
        }
        ScriptProvider::keys(&format!("{path}.{SCRIPT}"), "", Value::Null, out);
        ServerSettings::keys(&format!("{path}.*"), "", Value::Null, out);
    }

    fn each_text(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
        let Value::Object(fields) = value else { return each_string(value, visit) };
        for (key, value) in fields {
            match key.as_str() {
                "default" => ProviderName::each_text(value, visit),
                SCRIPT => ScriptProvider::each_text(value, visit),
                _ => ServerSettings::each_text(value, visit),
            }
        }
    }
}

section! {
    /// One model provider.
    ServerSettings {
        /// The API of its server. Required for a provider pleach does not know by name.
        kind: Option<ProviderKind> = None,
        /// The server's address, with the path and query its calls need, instead of the provider's own.
        base_url: Option<String> = None,
        /// The variable that holds its key, as `$NAME`, instead of the provider's own; without either no key is sent.
        api_key: Option<Variable> = None,
        /// Headers sent with every call. `$NAME` stands for the value of a variable.
        headers: BTreeMap<String, String> = BTreeMap::new(),
        /// The model behind a short name such as smart, worker or cheap.
        models: BTreeMap<String, String> = BTreeMap::new(),
        /// How its server is called.
        settings: ProviderSettings = ProviderSettings::default(),
        /// Prices by model, over those pleach knows.
        prices: BTreeMap<String, Price> = BTreeMap::new(),
    }
}

section! {
    /// What a model's tokens cost, in US dollars for a million.
    Price {
        /// US dollars for a million tokens of input.
        input: f64 = 0.0,
        /// US dollars for a million tokens of output.
        output: f64 = 0.0,
        /// US dollars for a million tokens read from the cache; as input without it.
        cache_read: Option<f64> = None,
        /// US dollars for a million tokens written to the cache; as input without it.
        cache_write: Option<f64> = None,
    }
}

section! {
    /// How a provider's server is called.
    ProviderSettings {
        /// The most tokens of one answer; without it the model's own limit.
        max_tokens: Option<u32> = None,
        /// The older name of `base_url`.
        api_base: Option<String> = None,
        /// A command that prints the key, for keys that are not in a variable.
        api_key_command: Option<String> = None,
        /// Seconds without data before a call is abandoned.
        timeout: u64 = 300,
        /// How often a temporarily failed call is retried before the run pauses.
        retries: u32 = 7,
        /// The longest delay a server may ask for before a retry, in seconds.
        max_wait: u64 = 300,
        /// The HTTP proxy for this server, instead of HTTPS_PROXY, HTTP_PROXY or ALL_PROXY.
        proxy: Option<String> = None,
    }
}

section! {
    /// The scripted provider.
    ScriptProvider {
        /// The YAML file with the scripted provider's answers.
        file: Option<PathBuf> = None,
        /// Prices by model, so that scripted answers cost something.
        prices: BTreeMap<String, Price> = BTreeMap::new(),
    }
}

choice! {
    /// The language a server speaks.
    ProviderKind {
        /// Anthropic's Messages.
        Anthropic = "anthropic",
        /// OpenAI's Responses.
        Responses = "responses",
        /// OpenAI's Chat Completions.
        Chat = "chat",
        /// Google's generateContent.
        Gemini = "gemini",
    }
}

impl ServerSettings {
    /// The address of its server and the setting that gives it, if one does.
    pub fn address(&self) -> Option<(&str, &'static str)> {
        let older = || Some((self.settings.api_base.as_deref()?, "settings.api_base"));
        self.base_url.as_deref().map(|address| (address, "base_url")).or_else(older)
    }
}

/// A variable that holds a secret, in the place of the secret: `$NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Variable(String);

impl Variable {
    /// The variable a text stands for, if it is `$NAME` or `${NAME}`.
    pub fn of(text: &str) -> Option<Self> {
        let name = text.strip_prefix('$')?;
        let name = name.strip_prefix('{').map_or(Some(name), |name| name.strip_suffix('}'))?;
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        is_name.then(|| Self(name.to_owned()))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Variable {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        Self::of(&text).ok_or("a variable is written as $NAME")
    }
}

impl From<Variable> for String {
    fn from(variable: Variable) -> Self {
        format!("${}", variable.0)
    }
}

impl Setting for Variable {
    fn read(node: &ConfigNode, reading: &mut ReadContext<'_>) -> Option<Self> {
        let variable = Self::of(&String::read(node, reading)?);
        if variable.is_none() {
            let hint = "Keys do not belong in configuration files: put it into a variable and write `$NAME` with the \
                        variable's name, or set `settings.api_key_command`.";
            reading.report(node.at, "expected a variable such as `$NAME`", Some(hint.to_owned()));
        }
        variable
    }

    fn takes() -> String {
        "a variable, as $NAME".to_owned()
    }

    fn each_text(_: &mut Value, _: &mut dyn FnMut(&mut String)) {}
}
