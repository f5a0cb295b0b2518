//! How a configuration names an agent.

use std::fmt;
use std::str::FromStr;

/// An agent as a configuration names it: `builtin`, `simulation`, `command:ARGV…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentSpec {
    /// The built-in agent.
    Builtin,
    /// Nobody; nodes only pretend.
    Simulation,
    /// A program: its words, at least one.
    Command(Vec<String>),
}

/// A text that names no agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No such agent.
    #[error("there is no agent `{0}`: use `builtin`, `simulation` or `command:PROGRAM ARGUMENTS`")]
    Unknown(String),
    /// A command without a program.
    #[error("`command:` needs a program after the colon, as in `command:./agent.sh --fast`")]
    Empty,
    /// A quote that is opened and not closed.
    #[error("a {0} quote in the agent's command is not closed")]
    Quote(char),
}

impl FromStr for AgentSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match text.trim() {
            "builtin" => Ok(Self::Builtin),
            "simulation" => Ok(Self::Simulation),
            other => match other.strip_prefix("command:") {
                Some(command) => {
                    let words = split_words(command)?;
                    if words.first().is_none_or(String::is_empty) {
                        Err(SpecError::Empty)
                    } else {
                        Ok(Self::Command(words))
                    }
                }
                None => Err(SpecError::Unknown(other.into())),
            },
        }
    }
}

impl fmt::Display for AgentSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin => f.write_str("builtin"),
            Self::Simulation => f.write_str("simulation"),
            Self::Command(words) => {
                let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
                write!(f, "command:{}", quoted.join(" "))
            }
        }
    }
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Splits a command line as a shell would, without expanding anything: quotes and backslashes, no variables.
fn split_words(text: &str) -> Result<Vec<String>, SpecError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or(SpecError::Quote('\''))? {
                        '\'' => break,
                        inner => word.push(inner),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next().ok_or(SpecError::Quote('"'))? {
                        '"' => break,
                        '\\' => match chars.next().ok_or(SpecError::Quote('"'))? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        inner => word.push(inner),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn agents_are_known_by_name() {
        assert_eq!("builtin".parse(), Ok(AgentSpec::Builtin));
        assert_eq!(" simulation ".parse(), Ok(AgentSpec::Simulation));
        let words = |words: &[&str]| Ok(AgentSpec::Command(words.iter().map(|word| word.to_string()).collect()));
        assert_eq!("command:cat".parse(), words(&["cat"]));
        assert_eq!(
            r#"command:sh -c 'echo "a b"; cat' x\ y "q\"$""#.parse(),
            words(&["sh", "-c", r#"echo "a b"; cat"#, "x y", "q\"$"])
        );
        assert_eq!("command: a '' b".parse(), words(&["a", "", "b"]));
        assert_eq!("command:".parse::<AgentSpec>(), Err(SpecError::Empty));
        assert_eq!("command:''".parse::<AgentSpec>(), Err(SpecError::Empty));
        assert_eq!("command:a 'b".parse::<AgentSpec>(), Err(SpecError::Quote('\'')));
        assert_eq!("command:a \"b".parse::<AgentSpec>(), Err(SpecError::Quote('"')));
        assert!(matches!("gpt".parse::<AgentSpec>(), Err(SpecError::Unknown(_))));
    }

    proptest! {
        #[test]
        fn a_shown_command_reads_back(words in prop::collection::vec("\\PC{0,12}", 1..5)) {
            prop_assume!(!words[0].is_empty());
            let spec = AgentSpec::Command(words);
            prop_assert_eq!(spec.to_string().parse::<AgentSpec>(), Ok(spec));
        }
    }
}
