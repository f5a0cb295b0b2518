//! Which agent works: the value of `agent`, of an agent's `runner` and of a step's `runner`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Config;
use super::node::Node;
use super::read::{Reading, Setting};
use crate::text::closest;

/// An agent, as `agent: …` names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum AgentChoice {
    /// The built-in tool loop.
    Builtin,
    /// No agent: every answer is made up and says so.
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

/// A text that names no agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAgent {
    /// No agent of this name.
    #[error("there is no agent `{name}`{}", suggestion.map(|near| format!(", did you mean `{near}`?")).unwrap_or_default())]
    Unknown {
        /// What was written.
        name: String,
        /// The known name it is close to.
        suggestion: Option<&'static str>,
    },
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

impl Config {
    /// What kind of agent a name stands for; without one that of the run, which is simulated where there is none.
    pub fn agent_of(&self, name: Option<&str>) -> Result<AgentChoice, InvalidAgent> {
        let of_run = || self.agent.clone().unwrap_or(AgentChoice::Simulation);
        let Some(name) = name else { return Ok(of_run()) };
        let parsed = name.parse::<AgentChoice>();
        let Some(agent) = self.agents.get(name) else { return parsed };
        Ok(match (&agent.runner, parsed) {
            (Some(runner), _) => runner.clone(),
            // An entry named like a kind of agent changes that kind.
            (None, Ok(kind)) => kind,
            (None, Err(_)) if !agent.command.is_empty() => AgentChoice::Command(agent.command.clone()),
            (None, Err(_)) => of_run(),
        })
    }
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
            None => {
                let names = NAMES.iter().map(|(name, _)| *name).chain(["command:", "acp:"]);
                Err(InvalidAgent::Unknown { name: text.to_owned(), suggestion: closest(text, names) })
            }
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

impl Setting for AgentChoice {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let text = String::read(node, reading)?;
        let choice = text.parse::<Self>();
        if let Err(error) = &choice {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            let hint = format!("Agents: {}, acp:COMMAND, command:COMMAND.", names.join(", "));
            reading.report(node.at, error.to_string(), Some(hint));
        }
        choice.ok()
    }

    fn takes() -> String {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        format!("{} | acp:COMMAND | command:COMMAND", names.join(" | "))
    }
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
    fn wrong_agents_say_what_is_near() {
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
