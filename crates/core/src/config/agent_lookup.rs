//! Which agent a name of the configuration stands for.

use super::Config;
use super::agent::{AgentChoice, AgentRef, InvalidAgent};

impl Config {
    /// What kind of agent a name stands for; without one that of the run.
    pub fn agent_of(&self, name: Option<&str>) -> Result<AgentChoice, InvalidAgent> {
        let Some(name) = name else { return self.agent_of_run() };
        let parsed = name.parse::<AgentChoice>();
        match (self.runner_of(name), parsed) {
            (Some(choice), _) | (None, Ok(choice)) => Ok(choice),
            (None, Err(_)) if self.agents.contains_key(name) => self.agent_of_run(),
            (None, Err(InvalidAgent::Unknown { .. })) => Err(self.unknown_agent(name)),
            (None, Err(error)) => Err(error),
        }
    }

    fn agent_of_run(&self) -> Result<AgentChoice, InvalidAgent> {
        match &self.agent {
            None => Err(InvalidAgent::Unset),
            Some(AgentRef::Kind(kind)) => Ok(kind.clone()),
            Some(AgentRef::Named(name)) => self.runner_of(name).ok_or_else(|| {
                if self.agents.contains_key(name) {
                    InvalidAgent::Nobody(name.clone())
                } else {
                    self.unknown_agent(name)
                }
            }),
        }
    }

    /// The agent an entry of `agents` runs; none where the entry only has settings.
    fn runner_of(&self, name: &str) -> Option<AgentChoice> {
        let agent = self.agents.get(name)?;
        // An entry named like a kind of agent changes that kind.
        let own = || (!agent.command.is_empty() && name.parse::<AgentChoice>().is_err()).then(|| agent.command.clone());
        agent.runner.clone().or_else(|| own().map(AgentChoice::Command))
    }

    /// The entries of `agents` that apply to a name, the weakest first: for the agent of the run also its own entry.
    pub fn agent_entries<'a>(&'a self, name: Option<&'a str>) -> impl Iterator<Item = &'a str> {
        let is_own = name.is_some_and(|name| self.runner_of(name).is_some() || name.parse::<AgentChoice>().is_ok());
        let of_run = self.agent.as_ref().and_then(AgentRef::name).filter(|_| !is_own);
        of_run.into_iter().chain(name)
    }

    fn unknown_agent(&self, name: &str) -> InvalidAgent {
        InvalidAgent::unknown(name, self.agents.keys().map(String::as_str))
    }
}
