//! Which agent runs a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{AcpAgent, Agent, Builtin, CommandAgent, Profile, Simulated};
use crate::config::{AgentChoice, Config, InvalidAgent};
use crate::llm::{NoProvider, Providers};
use crate::plan::pipeline::Node;
use crate::process::Spawner;

/// The agents of a run: the one the configuration names for all nodes, and those it gives names to.
#[derive(Debug, Clone)]
pub struct Roster {
    default: Option<AgentChoice>,
    named: BTreeMap<String, Option<AgentChoice>>,
    profiles: BTreeMap<String, Profile>,
    providers: Providers,
    spawner: Spawner,
}

/// Why a node has no agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAgent {
    /// The name is neither configured nor a kind of agent.
    #[error("{0}; set `agents.NAME` in pleach.yaml, or use builtin, simulation or command:PROGRAM")]
    Unknown(String),
    /// A kind of agent this version cannot run.
    #[error("agent `{0}` cannot be run by this version of pleach; use builtin, simulation or command:PROGRAM")]
    Unsupported(String),
    /// The built-in agent has nobody to ask.
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
}

impl Roster {
    /// The agents of `config`. The built-in one asks `providers`; programs are started by `spawner`.
    pub fn new(config: &Config, providers: impl Into<Providers>, spawner: Spawner) -> Self {
        let named = config.agents.iter().map(|(name, agent)| (name.clone(), agent.runner.clone())).collect();
        let profiles = config.agents.iter().map(|(name, agent)| (name.clone(), Profile::of(agent))).collect();
        Self { default: config.agent.clone(), named, profiles, providers: providers.into(), spawner }
    }

    /// The same with these profiles in place of those without their files.
    pub fn with_profiles(self, profiles: BTreeMap<String, Profile>) -> Self {
        Self { profiles, ..self }
    }

    /// Whether a node is only simulated.
    pub fn simulates(&self, node: &Node) -> bool {
        self.choice(node).is_ok_and(|choice| choice == AgentChoice::Simulation)
    }

    /// What kind of agent a node has: the one it names, else the configured one, else the simulated one.
    pub fn choice(&self, node: &Node) -> Result<AgentChoice, NoAgent> {
        let default = || self.default.clone().unwrap_or(AgentChoice::Simulation);
        let Some(name) = &node.agent else { return Ok(default()) };
        match self.named.get(name) {
            Some(runner) => Ok(runner.clone().unwrap_or_else(default)),
            None => name.parse().map_err(|error: InvalidAgent| NoAgent::Unknown(error.to_string())),
        }
    }

    fn profile(&self, node: &Node) -> Result<Profile, NoAgent> {
        let named = node.agent.as_ref().and_then(|name| self.profiles.get_key_value(name));
        let Some((agent, profile)) = named else { return Ok(Profile::default()) };
        let known = Builtin::tool_names();
        match profile.tools.iter().find(|tool| !known.contains(tool)) {
            Some(tool) => Err(NoAgent::UnknownTool { agent: agent.clone(), tool: tool.clone() }),
            None => Ok(profile.clone()),
        }
    }

    /// The agent of a node.
    pub fn of(&self, node: &Node) -> Result<Arc<dyn Agent>, NoAgent> {
        self.make(self.choice(node)?, node.llm_provider.as_deref(), || self.profile(node))
    }

    /// The agent that works where nothing else is said; none when there is none but a simulated one.
    pub fn configured(&self) -> Option<Result<Arc<dyn Agent>, NoAgent>> {
        let choice = self.default.clone().filter(|choice| *choice != AgentChoice::Simulation)?;
        Some(self.make(choice, None, || Ok(Profile::default())))
    }

    fn make(
        &self,
        choice: AgentChoice,
        provider: Option<&str>,
        profile: impl FnOnce() -> Result<Profile, NoAgent>,
    ) -> Result<Arc<dyn Agent>, NoAgent> {
        match choice {
            AgentChoice::Simulation => Ok(Arc::new(Simulated)),
            AgentChoice::Builtin => {
                let provider = self.providers.get(provider)?;
                Ok(Arc::new(Builtin::new(provider, self.spawner.clone()).with_profile(profile()?)))
            }
            AgentChoice::Command(argv) => Ok(Arc::new(CommandAgent::new(argv, self.spawner.clone()))),
            AgentChoice::Acp(_) => {
                let argv = choice.argv().unwrap_or_default();
                Ok(Arc::new(AcpAgent::new(argv, self.spawner.clone())))
            }
            other => Err(NoAgent::Unsupported(other.to_string())),
        }
    }
}
