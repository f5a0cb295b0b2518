//! Why a node has no agent, and what to do about it.

use super::Builtin;
use crate::llm::NoProvider;
use pleach_core::config::TurnMode;

/// Why a node has no agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAgent {
    /// The name is neither configured nor a kind of agent.
    #[error(
        "{why}; set `agents.NAME` in pleach.yaml, or use {}builtin, claude, codex, gemini, opencode, simulation, command:PROGRAM or acp:COMMAND",
        named.iter().map(|name| format!("{name}, ")).collect::<String>()
    )]
    Unknown {
        /// Why not.
        why: String,
        /// The names the configuration gives.
        named: Vec<String>,
    },
    /// The program is not there.
    #[error("{title} is not installed: there is no program `{program}`{}; {how}", if program.contains('/') { "" } else { " on PATH" })]
    Missing {
        /// What people call the agent.
        title: String,
        /// The program.
        program: String,
        /// How to get it.
        how: String,
    },
    /// The program is there, but not executable.
    #[error("{title} cannot be started: `{program}` is not executable; make it so with `chmod +x {program}`")]
    NotExecutable {
        /// What people call the agent.
        title: String,
        /// The program.
        program: String,
    },
    /// The configured turn mode is not possible.
    #[error("`agents.{agent}.turns` cannot be `{turns}`: {why}; it can be {}", can.join(", "))]
    Turns {
        /// The agent.
        agent: String,
        /// What was asked for.
        turns: TurnMode,
        /// Why not.
        why: &'static str,
        /// What it can be.
        can: Vec<&'static str>,
    },
    /// The agent is to be limited to some of its tools, and cannot be.
    #[error("`agents.{agent}.tools` is set, but `{program}` cannot be limited to some of its tools; {how}")]
    Tools {
        /// The agent.
        agent: String,
        /// The program.
        program: String,
        /// What to do about it.
        how: &'static str,
    },
    /// The built-in agent has no provider.
    #[error("{0}")]
    NoProvider(#[from] NoProvider),
    /// The agent is given a tool that does not exist.
    #[error("`agents.{agent}.tools` names `{tool}`, which the built-in agent does not have; it has {}", Builtin::tool_names().join(", "))]
    UnknownTool {
        /// The agent.
        agent: String,
        /// The tool.
        tool: String,
    },
    /// A command of the configuration is called like a tool the built-in agent has.
    #[error("`tools` names `{0}`, which the built-in agent has already; give the command another name")]
    TakenTool(String),
    /// The provider does not offer the agent's API format.
    #[error(
        "{agent} uses the {language} API; provider `{provider}` does not offer it; name one that does, or another agent"
    )]
    Language {
        /// The agent.
        agent: String,
        /// The format.
        language: &'static str,
        /// The provider.
        provider: String,
    },
}
