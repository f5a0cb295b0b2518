//! What a repository supplies that the user must agree to before it counts: commands pleach would run, and settings
//! that could send keys or records elsewhere or open the sandbox.

use std::fmt;

use super::Environment;
use super::agent::join_words;
use super::error::{Level, Source};
use super::layer::Resolved;
use super::model::{Config, Network, SandboxMode, TurnMode};
use crate::redact::is_secret_name;

/// Why something needs the user's agreement.
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
    /// A variable that can make programs run or load something else.
    Variable,
}

impl fmt::Display for SuppliedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Command => "command",
            Self::KeyAddress => "address for keys",
            Self::RecordAddress => "address for records",
            Self::Sandbox => "sandbox",
            Self::Variable => "variable",
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
    /// Where it stands.
    pub source: Source,
    /// What it says, whole.
    pub text: String,
}

/// Variables of a `.env` file that say how a program looks and speaks, and nothing about what it runs or whom it talks
/// to. Every list of the dangerous ones would be too short.
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
    add(command, "agent".into(), config.agent.as_ref().and_then(|agent| agent.command_line()));
    for (name, agent) in &config.agents {
        let line = agent.runner.as_ref().and_then(|agent| agent.command_line());
        add(command, format!("agents.{name}.runner"), line);
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
        let line = step.runner.as_ref().and_then(|agent| agent.command_line());
        add(command, format!("tree.steps.{name}.runner"), line);
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
    add(command, "tree.test_command".into(), config.tree.test_command.clone());
    add(command, "merge.test_command".into(), config.merge.test_command.clone());
    for (name, provider) in [
        ("anthropic", &config.providers.anthropic),
        ("openai", &config.providers.openai),
        ("gemini", &config.providers.gemini),
        ("compatible", &config.providers.compatible),
    ] {
        let settings = &provider.settings;
        let key = |key: &str| format!("providers.{name}.settings.{key}");
        add(command, key("api_key_command"), settings.api_key_command.clone());
        add(SuppliedKind::KeyAddress, key("api_base"), settings.api_base.clone());
        add(SuppliedKind::KeyAddress, key("proxy"), settings.proxy.clone());
    }
    add(SuppliedKind::RecordAddress, "record.cxdb".into(), config.record.cxdb.clone());
    let sandbox = &config.sandbox;
    let weaker = match sandbox.mode {
        SandboxMode::Off => true,
        SandboxMode::Auto => resolved.users_sandbox == Some(SandboxMode::Required),
        SandboxMode::Required => false,
    };
    add(SuppliedKind::Sandbox, "sandbox.mode".into(), weaker.then(|| sandbox.mode.to_string()));
    let open = (sandbox.network == Network::Open).then(|| sandbox.network.to_string());
    add(SuppliedKind::Sandbox, "sandbox.network".into(), open);
    let writable: Vec<_> = sandbox.rw.iter().map(|path| path.display().to_string()).collect();
    add(SuppliedKind::Sandbox, "sandbox.rw".into(), (!writable.is_empty()).then(|| writable.join("\n")));
    found.extend(variables(environment));
    found
}

/// The variables of a `.env` file that need trust.
fn variables(environment: &Environment) -> impl Iterator<Item = Supplied> {
    environment.dotenv().filter_map(|(name, value)| {
        let name = name.to_string_lossy();
        let kind = kind_of_variable(&name)?;
        let source = Source::named(Level::DotEnv, format!("{name} in .env"));
        Some(Supplied { kind, key: name.into_owned(), source, text: value.to_string_lossy().into_owned() })
    })
}

/// Why a variable of this name needs trust; none when it needs none.
fn kind_of_variable(name: &str) -> Option<SuppliedKind> {
    let upper = name.to_ascii_uppercase();
    if ADDRESS_ENDINGS.iter().any(|ending| upper.ends_with(ending)) {
        return Some(SuppliedKind::KeyAddress);
    }
    // A key stands in where there is none and does nothing else. What is called credentials may be a file of settings.
    let key = is_secret_name(name) && !upper.contains("CREDENTIAL");
    let harmless = HARMLESS.contains(&name) || name.starts_with("LC_") || is_setting(name);
    (!key && !harmless).then_some(SuppliedKind::Variable)
}

/// Whether a variable is a setting of pleach's own, which is judged as such.
fn is_setting(name: &str) -> bool {
    let key = name.strip_prefix("PLEACH_").map(str::to_ascii_lowercase);
    key.is_some_and(|key| Config::FIELDS.contains(&key.split("__").next().unwrap_or_default()))
}
