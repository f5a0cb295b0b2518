//! Which agent works: the value of `agent`, of an agent's `runner` and of a step's `runner`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::node::ConfigNode;
use super::read::{ReadContext, Setting, each_string};
use crate::text::closest;

/// A kind of agent, with the command of those that are any program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum AgentChoice {
    /// The built-in tool loop.
    Builtin,
    /// No agent: answers are simulated and say so.
    Simulation,
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// OpenCode.
    Opencode,
    /// A program that speaks the Agent Client Protocol, as a command line.
    Acp(String),
    /// Any program: prompt on stdin, answer on stdout.
    Command(Vec<String>),
}

/// The agent a setting names: one of a kind, or one that `agents` gives a name to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum AgentRef {
    /// One of a kind.
    Kind(AgentChoice),
    /// One of `agents`.
    Named(String),
}

/// A text that names no agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAgent {
    /// No agent of this name.
    #[error("there is no agent `{name}`{}", suggestion.as_ref().map(|near| format!(", did you mean `{near}`?")).unwrap_or_default())]
    Unknown {
        /// What was written.
        name: String,
        /// The known name it is close to.
        suggestion: Option<String>,
    },
    /// No agent is named, neither where one is needed nor for the run.
    #[error("no agent is configured")]
    Unset,
    /// An entry of `agents` with settings only, named where an agent is needed.
    #[error("`agents.{0}` has neither `runner` nor `command`")]
    Nobody(String),
    /// The command line of a `command:` or `acp:` agent has an open quote.
    #[error("the command of `{0}` ends inside a quote")]
    OpenQuote(String),
}

/// The names without an argument.
const NAMES: [(&str, AgentChoice); 6] = [
    ("builtin", AgentChoice::Builtin),
    ("simulation", AgentChoice::Simulation),
    ("claude", AgentChoice::Claude),
    ("codex", AgentChoice::Codex),
    ("gemini", AgentChoice::Gemini),
    ("opencode", AgentChoice::Opencode),
];

impl AgentChoice {
    /// The name without its argument: `claude`, `command`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Acp(_) => "acp",
            Self::Command(_) => "command",
            plain => NAMES.iter().find(|(_, choice)| choice == plain).map_or("", |(name, _)| name),
        }
    }

    /// The command line a repository would make us run with this choice, if it is one.
    pub fn command_line(&self) -> Option<String> {
        match self {
            Self::Acp(command) => Some(command.clone()),
            Self::Command(argv) => Some(join_words(argv)),
            _ => None,
        }
    }
}

impl AgentChoice {
    /// The words of the command this choice runs, if it is one.
    pub fn argv(&self) -> Option<Vec<String>> {
        match self {
            Self::Acp(command) => split_words(command),
            Self::Command(argv) => Some(argv.clone()),
            _ => None,
        }
    }
}

impl AgentRef {
    /// The name, of one that `agents` gives a name to.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Kind(_) => None,
            Self::Named(name) => Some(name),
        }
    }

    /// The kind, of one that is named by its kind.
    pub fn kind(&self) -> Option<&AgentChoice> {
        match self {
            Self::Kind(kind) => Some(kind),
            Self::Named(_) => None,
        }
    }
}

impl InvalidAgent {
    /// An unknown name; `named` are the known ones.
    pub(super) fn unknown<'n>(name: &str, named: impl Iterator<Item = &'n str>) -> Self {
        let names = NAMES.iter().map(|(name, _)| *name).chain(["command:", "acp:"]).chain(named);
        Self::Unknown { name: name.to_owned(), suggestion: closest(name, names).map(str::to_owned) }
    }
}

/// The hint that lists the agents a setting can name.
pub(super) fn agents_hint<'n>(named: impl Iterator<Item = &'n str>) -> String {
    let kinds = NAMES.iter().map(|(name, _)| *name);
    let others = named.filter(|name| name.parse::<AgentChoice>().is_err());
    let all: Vec<&str> = kinds.chain(others).chain(["acp:COMMAND", "command:COMMAND"]).collect();
    format!("Agents: {}.", all.join(", "))
}

impl FromStr for AgentChoice {
    type Err = InvalidAgent;

    fn from_str(text: &str) -> Result<Self, InvalidAgent> {
        let text = text.trim();
        if let Some(command) = text.strip_prefix("command:") {
            let open = || InvalidAgent::OpenQuote(text.to_owned());
            return split_words(command).map(Self::Command).ok_or_else(open);
        }
        if let Some(command) = text.strip_prefix("acp:") {
            let open = || InvalidAgent::OpenQuote(text.to_owned());
            return split_words(command).map(|_| Self::Acp(command.trim().to_owned())).ok_or_else(open);
        }
        match NAMES.iter().find(|(name, _)| *name == text) {
            Some((_, choice)) => Ok(choice.clone()),
            None => Err(InvalidAgent::unknown(text, std::iter::empty())),
        }
    }
}

impl FromStr for AgentRef {
    type Err = InvalidAgent;

    /// The whole configuration decides whether the name exists.
    fn from_str(text: &str) -> Result<Self, InvalidAgent> {
        match text.parse() {
            Ok(kind) => Ok(Self::Kind(kind)),
            Err(InvalidAgent::Unknown { name, .. }) => Ok(Self::Named(name)),
            Err(error) => Err(error),
        }
    }
}

impl From<AgentChoice> for AgentRef {
    fn from(kind: AgentChoice) -> Self {
        Self::Kind(kind)
    }
}

impl fmt::Display for AgentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => kind.fmt(f),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for AgentChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acp(command) => write!(f, "acp:{command}"),
            Self::Command(argv) => write!(f, "command:{}", join_words(argv)),
            plain => f.write_str(plain.kind()),
        }
    }
}

impl TryFrom<String> for AgentChoice {
    type Error = InvalidAgent;
    fn try_from(text: String) -> Result<Self, InvalidAgent> {
        text.parse()
    }
}

impl From<AgentChoice> for String {
    fn from(choice: AgentChoice) -> String {
        choice.to_string()
    }
}

impl TryFrom<String> for AgentRef {
    type Error = InvalidAgent;
    fn try_from(text: String) -> Result<Self, InvalidAgent> {
        text.parse()
    }
}

impl From<AgentRef> for String {
    fn from(agent: AgentRef) -> String {
        agent.to_string()
    }
}

impl Setting for AgentChoice {
    fn read(node: &ConfigNode, reading: &mut ReadContext<'_>) -> Option<Self> {
        parsed(node, reading)
    }

    fn takes() -> String {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        format!("{} | acp:COMMAND | command:COMMAND", names.join(" | "))
    }

    fn each_text(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
        if value.as_str().is_none_or(|name| NAMES.iter().all(|(known, _)| *known != name)) {
            each_command(value, visit);
        }
    }
}

impl Setting for AgentRef {
    fn read(node: &ConfigNode, reading: &mut ReadContext<'_>) -> Option<Self> {
        parsed(node, reading)
    }

    fn takes() -> String {
        format!("{} | a name of `agents`", AgentChoice::takes())
    }

    fn each_text(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
        // A name is a key of `agents`.
        if value.as_str().is_none_or(|text| text.contains(':')) {
            each_command(value, visit);
        }
    }
}

/// Calls `visit` with the command of an agent, without the prefix that names its kind.
fn each_command(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    let Value::String(text) = value else { return each_string(value, visit) };
    let kind = ["command:", "acp:"].into_iter().find(|kind| text.starts_with(kind)).unwrap_or_default();
    let mut command = text.split_off(kind.len());
    visit(&mut command);
    text.push_str(&command);
}

/// The agent a node of the configuration names; an error is among the errors.
fn parsed<A: FromStr<Err = InvalidAgent>>(node: &ConfigNode, reading: &mut ReadContext<'_>) -> Option<A> {
    let agent = String::read(node, reading)?.parse::<A>();
    agent.map_err(|error| reading.report(node.at, error.to_string(), Some(agents_hint(std::iter::empty())))).ok()
}

/// Splits a command line as a shell does, as far as words and quotes go; none when a quote stays open.
fn split_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(open), c) if c == open => quote = None,
            (None, '\\') => word.get_or_insert_default().push(chars.next()?),
            (Some('"'), '\\') => match chars.next()? {
                plain @ ('"' | '\\' | '$' | '`') => word.get_or_insert_default().push(plain),
                other => word.get_or_insert_default().extend(['\\', other]),
            },
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

/// A command line that splits into these words again.
pub(super) fn join_words(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:@%+,".contains(c);
    let quoted = words.iter().map(|word| match word.as_str() {
        word if !word.is_empty() && word.chars().all(plain) => word.to_owned(),
        word => format!("'{}'", word.replace('\'', r"'\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_of_an_agent_is_read() {
        let argv = |words: &[&str]| AgentChoice::Command(words.iter().map(|word| (*word).to_owned()).collect());
        let cases = [
            ("builtin", AgentChoice::Builtin),
            (" codex ", AgentChoice::Codex),
            ("acp: gemini --acp", AgentChoice::Acp("gemini --acp".into())),
            ("command:aider --yes", argv(&["aider", "--yes"])),
            (r#"command: sh -c 'echo "a b"' "x\"y" a\ b """#, argv(&["sh", "-c", "echo \"a b\"", "x\"y", "a b", ""])),
            ("command:", argv(&[])),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn unknown_agents_come_with_a_suggestion() {
        assert_eq!(
            AgentChoice::from_str("cluade").unwrap_err().to_string(),
            "there is no agent `cluade`, did you mean `claude`?"
        );
        assert_eq!(AgentChoice::from_str("robot").unwrap_err().to_string(), "there is no agent `robot`");
        for open in ["command:a 'b", "acp:a 'b"] {
            assert_eq!(AgentChoice::from_str(open), Err(InvalidAgent::OpenQuote(open.into())));
        }
    }

    proptest! {
        #[test]
        fn a_printed_command_reads_back(argv in proptest::collection::vec("[ -~äß]{0,8}", 0..5)) {
            let choice = AgentChoice::Command(argv);
            prop_assert_eq!(choice.to_string().parse(), Ok(choice));
        }
    }
}
