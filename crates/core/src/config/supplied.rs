//! What a repository supplies that the user must approve before it counts: commands pleach would run, and settings that
//! could send keys or records elsewhere or open the sandbox.

use std::collections::BTreeMap;
use std::fmt;

use super::Environment;
use super::agent::{AgentChoice, AgentRef, join_words};
use super::error::{Precedence, Source};
use super::layer::Resolved;
use super::model::{Config, HideFrom, Network, OnExceeded, SandboxMode, SandboxSettings, TurnMode};
use super::provider::{Price, ProviderName, ServerSettings};
use crate::redact::is_secret_name;

/// Why something needs the user's approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SuppliedKind {
    /// A command that would be run.
    Command,
    /// An address keys would be sent to.
    KeyAddress,
    /// A server that would get the records.
    RecordAddress,
    /// A way out of the sandbox.
    Sandbox,
    /// A secret that agents and commands would get.
    Secret,
    /// More than the user's own limits let be spent.
    Spending,
    /// A directory elsewhere that would be written to.
    Directory,
    /// A repository that would be cloned, fetched from and pushed to.
    Remote,
    /// A variable that can make programs run or load something else.
    Variable,
    /// What a session was started with, which its commands get as a variable.
    Input,
}

impl fmt::Display for SuppliedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Command => "command",
            Self::KeyAddress => "address for keys",
            Self::RecordAddress => "address for records",
            Self::Sandbox => "sandbox",
            Self::Secret => "secret",
            Self::Spending => "spending",
            Self::Directory => "directory",
            Self::Remote => "remote",
            Self::Variable => "variable",
            Self::Input => "input",
        })
    }
}

/// One thing a repository supplies that needs trust.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Supplied {
    /// Why.
    pub kind: SuppliedKind,
    /// The setting or variable.
    pub key: String,
    /// Where it is.
    pub source: Source,
    /// What it says, whole.
    pub text: String,
}

/// Variables of a `.env` file that only affect a program's looks and language, not what it runs or connects to. Every
/// list of the dangerous ones would be too short.
const HARMLESS: [&str; 12] = [
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "FORCE_COLOR",
    "LANG",
    "LANGUAGE",
    "NODE_ENV",
    "NO_COLOR",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TZ",
];

/// Ends of names that hold the address of a model provider.
const ADDRESS_ENDINGS: [&str; 4] = ["_API_BASE", "_BASE_URL", "_ENDPOINT", "_API_URL"];

/// Everything of the configuration and the `.env` file that needs trust. What the user gave (flags, environment, user
/// configuration) is not in it.
pub fn supplied(resolved: &Resolved, environment: &Environment) -> Vec<Supplied> {
    let mut found = Vec::new();
    let mut add = |kind: SuppliedKind, key: String, text: Option<String>| {
        let source = resolved.source(&key);
        if let Some(text) = text.filter(|_| source.level.is_supplied()) {
            found.push(Supplied { kind, source: source.clone(), key, text });
        }
    };
    let config = &resolved.config;
    let command = SuppliedKind::Command;
    // What one that has a name runs is where its name is explained.
    let line = |agent: &AgentRef| agent.kind().and_then(AgentChoice::command_line);
    add(command, "agent".into(), config.agent.as_ref().and_then(line));
    for (name, agent) in &config.agents {
        let runner = agent.runner.as_ref().and_then(AgentChoice::command_line);
        add(command, format!("agents.{name}.runner"), runner);
        let words = |words: &[String]| (!words.is_empty()).then(|| join_words(words));
        add(command, format!("agents.{name}.command"), words(&agent.command));
        add(command, format!("agents.{name}.args"), words(&agent.args));
        for (variable, value) in &agent.env {
            add(SuppliedKind::Variable, format!("agents.{name}.env.{variable}"), Some(value.clone()));
        }
        add(SuppliedKind::Sandbox, format!("agents.{name}.permission_mode"), agent.permission_mode.clone());
        // Outside the gateway an agent gets the key itself, the network and what it keeps in the user's home.
        let alone = agent.turns.filter(|turns| *turns != TurnMode::Gateway).map(|turns| turns.to_string());
        add(SuppliedKind::Sandbox, format!("agents.{name}.turns"), alone);
    }
    for (name, step) in &config.tree.steps {
        add(command, format!("tree.steps.{name}.runner"), step.runner.as_ref().and_then(line));
    }
    for (index, tool) in config.tools.iter().enumerate() {
        add(command, format!("tools[{index}].command"), Some(tool.command.clone()));
    }
    for (repo, tools) in &config.workspace.tools {
        for (name, tool) in tools {
            add(command, format!("workspace.tools.{repo}.{name}.command"), Some(tool.command.clone()));
        }
    }
    add(command, "worktrees.setup".into(), config.worktrees.setup.clone());
    add(command, "test_command".into(), config.test_command.clone());
    add(command, "tree.test_command".into(), config.tree.test_command.clone());
    add(command, "merge.test_command".into(), config.merge.test_command.clone());
    add(command, "workspace.test_command".into(), config.workspace.test_command.clone());
    add(command, "merge.agent".into(), config.merge.agent.as_ref().and_then(line));
    for (index, derived) in config.merge.derived.iter().enumerate() {
        add(command, format!("merge.derived[{index}].command"), Some(derived.command.clone()));
    }
    for (name, provider) in config.providers.remote() {
        let settings = &provider.settings;
        let key = |key: &str| format!("providers.{name}.settings.{key}");
        add(command, key("api_key_command"), settings.api_key_command.clone());
        add(SuppliedKind::KeyAddress, key("api_base"), settings.api_base.clone());
        add(SuppliedKind::KeyAddress, key("proxy"), settings.proxy.clone());
        let key = |key: &str| format!("providers.{name}.{key}");
        add(SuppliedKind::KeyAddress, key("base_url"), provider.base_url.clone());
        let variable = provider.api_key.as_ref().map(|variable| format!("{} is sent as its key", variable.name()));
        add(SuppliedKind::Secret, key("api_key"), variable);
        for (header, value) in &provider.headers {
            add(SuppliedKind::KeyAddress, key(&format!("headers.{header}")), Some(value.clone()));
        }
    }
    for (name, repo) in &config.workspace.repos {
        let outside = repo.path.as_ref().filter(|path| !path.starts_with(&config.root));
        let outside = outside.map(|path| path.display().to_string());
        add(SuppliedKind::Directory, format!("workspace.repos.{name}.path"), outside);
        add(SuppliedKind::Remote, format!("workspace.repos.{name}.remote"), repo.remote.clone());
    }
    add(SuppliedKind::RecordAddress, "record.cxdb".into(), config.record.cxdb.as_ref().map(ToString::to_string));
    let sandbox = &config.sandbox;
    let weaker = match sandbox.mode {
        SandboxMode::Off => true,
        SandboxMode::Auto => resolved.users.as_ref().is_some_and(|users| {
            users.keys.contains("sandbox.mode") && users.config.sandbox.mode == SandboxMode::Required
        }),
        SandboxMode::Required => false,
    };
    add(SuppliedKind::Sandbox, "sandbox.mode".into(), weaker.then(|| sandbox.mode.to_string()));
    let open = (sandbox.network == Network::Open).then(|| sandbox.network.to_string());
    add(SuppliedKind::Sandbox, "sandbox.network".into(), open);
    let writable: Vec<_> = sandbox.rw.iter().map(|path| path.display().to_string()).collect();
    add(SuppliedKind::Sandbox, "sandbox.rw".into(), (!writable.is_empty()).then(|| writable.join("\n")));
    let users = resolved.users.as_ref().map(|users| &users.config.sandbox);
    // What is added to what is hidden is simply taken.
    let usual = SandboxSettings::default();
    let hidden = &users.unwrap_or(&usual).hide;
    let shown = hidden.iter().filter(|path| !sandbox.hide.contains(path));
    let shown: Vec<String> = shown.map(|path| format!("{path} can be read")).collect();
    add(SuppliedKind::Sandbox, "sandbox.hide".into(), (!shown.is_empty()).then(|| shown.join("\n")));
    let shown: Vec<_> = sandbox.show.iter().map(|path| format!("{path} can be read")).collect();
    add(SuppliedKind::Sandbox, "sandbox.show".into(), (!shown.is_empty()).then(|| shown.join("\n")));
    let fewer = users.is_some_and(|users| users.hide_from == HideFrom::All) && sandbox.hide_from == HideFrom::Agents;
    add(SuppliedKind::Sandbox, "sandbox.hide_from".into(), fewer.then(|| sandbox.hide_from.to_string()));
    let pass = &config.env.pass;
    add(SuppliedKind::Secret, "env.pass".into(), (!pass.is_empty()).then(|| pass.join("\n")));
    found.extend(spending(resolved));
    found.extend(variables(environment));
    found
}

/// What would lift the limits of the user's own file: a higher one or none, a mere warning, and prices by which less
/// counts as spent.
fn spending(resolved: &Resolved) -> Vec<Supplied> {
    let mut found = Vec::new();
    let Some(users) = &resolved.users else { return found };
    let mut add = |key: String, text: String| {
        let source = resolved.source(&key);
        if source.level.is_supplied() {
            found.push(Supplied { kind: SuppliedKind::Spending, source: source.clone(), key, text });
        }
    };
    let (mine, theirs) = (&users.config.budget, &resolved.config.budget);
    let mut limits = |key: &str, mine: f64, theirs: f64| {
        if mine > 0.0 && !(f64::MIN_POSITIVE..=mine).contains(&theirs) {
            add(format!("budget.{key}"), format!("{theirs}, where your own limit is {mine}"));
        }
    };
    limits("tokens", mine.tokens as f64, theirs.tokens as f64);
    limits("usd", mine.usd, theirs.usd);
    limits("per_task_tokens", mine.per_task_tokens as f64, theirs.per_task_tokens as f64);
    limits("per_task_usd", mine.per_task_usd, theirs.per_task_usd);
    limits("per_day_tokens", mine.per_day_tokens as f64, theirs.per_day_tokens as f64);
    limits("per_day_usd", mine.per_day_usd, theirs.per_day_usd);
    let in_dollars = mine.usd > 0.0 || mine.per_task_usd > 0.0 || mine.per_day_usd > 0.0;
    let in_tokens = mine.tokens > 0 || mine.per_task_tokens > 0 || mine.per_day_tokens > 0;
    let holds = in_dollars || in_tokens || users.keys.contains("budget.on_exceeded");
    if holds && mine.on_exceeded != OnExceeded::Warn && theirs.on_exceeded == OnExceeded::Warn {
        add("budget.on_exceeded".into(), format!("warn, where your own is {}", mine.on_exceeded));
    }
    if !in_dollars {
        return found;
    }
    for (name, own, given) in prices(&users.config, &resolved.config) {
        for (model, price) in given.iter().filter(|(model, price)| own.get(*model).is_none_or(|own| lowers(price, own)))
        {
            let keys = ["input", "output", "cache_read", "cache_write"];
            let keys = keys.map(|key| format!("providers.{name}.prices.{model}.{key}"));
            if let Some(key) = keys.into_iter().find(|key| resolved.source(key).level.is_supplied()) {
                add(key, shown(price));
            }
        }
    }
    found
}

type PricesByModel = BTreeMap<String, Price>;

/// The prices of both configurations, provider by provider.
fn prices<'a>(own: &'a Config, given: &'a Config) -> Vec<(&'a str, &'a PricesByModel, &'a PricesByModel)> {
    static NONE: PricesByModel = PricesByModel::new();
    let (own, given) = (&own.providers, &given.providers);
    let both = |(name, given): (&'a ProviderName, &'a ServerSettings)| {
        (name.as_str(), own.get(name).map_or(&NONE, |own| &own.prices), &given.prices)
    };
    given.remote().map(both).chain([("script", &own.script.prices, &given.script.prices)]).collect()
}

/// Whether anything counts as cheaper by a price than by another.
fn lowers(price: &Price, than: &Price) -> bool {
    let cached = |price: &Price| (price.cache_read.unwrap_or(price.input), price.cache_write.unwrap_or(price.input));
    let ((read, write), (than_read, than_write)) = (cached(price), cached(than));
    price.input < than.input || price.output < than.output || read < than_read || write < than_write
}

fn shown(price: &Price) -> String {
    let mut text = format!("the whole price is input {}, output {}", price.input, price.output);
    for (name, price) in [("cache_read", price.cache_read), ("cache_write", price.cache_write)] {
        text.extend(price.map(|price| format!(", {name} {price}")));
    }
    text
}

/// The variables of a `.env` file that need trust.
fn variables(environment: &Environment) -> impl Iterator<Item = Supplied> {
    environment.dotenv().filter_map(|(name, value)| {
        let name = name.to_string_lossy();
        let kind = kind_of_variable(&name)?;
        let source = Source::named(Precedence::DotEnv, format!("{name} in .env"));
        Some(Supplied { kind, key: name.into_owned(), source, text: value.to_string_lossy().into_owned() })
    })
}

/// The inputs of a session. Each needs trust, whatever its name: it takes the place of the user's own variable, and commands
/// are written to use it.
pub fn supplied_inputs<'a>(inputs: &'a BTreeMap<String, String>, source: &'a Source) -> impl Iterator<Item = Supplied> {
    inputs.iter().map(|(name, value)| Supplied {
        kind: SuppliedKind::Input,
        key: name.clone(),
        source: source.clone(),
        text: value.clone(),
    })
}

/// Why a variable of this name needs trust; none when it needs none.
fn kind_of_variable(name: &str) -> Option<SuppliedKind> {
    let upper = name.to_ascii_uppercase();
    if ADDRESS_ENDINGS.iter().any(|ending| upper.ends_with(ending)) {
        return Some(SuppliedKind::KeyAddress);
    }
    // A key is in where there is none and does nothing else. What is called credentials may be a file of settings.
    let key = is_secret_name(name) && !upper.contains("CREDENTIAL");
    let harmless = HARMLESS.contains(&name) || name.starts_with("LC_") || is_setting(name);
    (!key && !harmless).then_some(SuppliedKind::Variable)
}

/// Whether a variable is a setting of pleach's own, which is judged as such.
fn is_setting(name: &str) -> bool {
    let key = name.strip_prefix("PLEACH_").map(str::to_ascii_lowercase);
    key.is_some_and(|key| Config::FIELDS.contains(&key.split("__").next().unwrap_or_default()))
}
