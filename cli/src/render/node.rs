//! The worker of a node, in plain words.

use std::collections::BTreeMap;

use agents::agent::Roster;
use pleach_core::config::AgentChoice;
use pleach_core::ids::NodeId;
use pleach_core::plan::pipeline::{HandlerKind, Pipeline};

/// `agent`, `command`, `person`
pub fn kind(handler: &HandlerKind) -> &str {
    match handler {
        HandlerKind::Start => "start",
        HandlerKind::Exit => "exit",
        HandlerKind::Codergen => "agent",
        HandlerKind::Conditional => "condition",
        HandlerKind::Tool => "command",
        HandlerKind::WaitHuman => "person",
        HandlerKind::Wait => "wait",
        HandlerKind::Parallel => "fan-out",
        HandlerKind::FanIn => "fan-in",
        HandlerKind::ManagerLoop => "manager",
        HandlerKind::Custom(name) => name,
    }
}

/// The kinds of a pipeline's nodes, agents with their names: `agent claude`.
#[derive(Debug, Default, Clone)]
pub struct Workers(BTreeMap<NodeId, String>);

impl Workers {
    /// The workers of a pipeline's nodes.
    pub fn of(pipeline: &Pipeline, agents: &Roster) -> Self {
        let words = |node: &pleach_core::plan::pipeline::Node| match node.handler {
            HandlerKind::Codergen if agents.simulates(node) => "agent, simulated".to_owned(),
            HandlerKind::Codergen => {
                agents.name(node).map_or("agent".to_owned(), |name| format!("agent {}", short(&name)))
            }
            _ => kind(&node.handler).to_owned(),
        };
        Self(pipeline.nodes().iter().map(|node| (node.id.clone(), words(node))).collect())
    }

    /// The worker of a node; its handler where the worker is unknown.
    pub fn of_node<'a>(&'a self, id: &NodeId, handler: &'a HandlerKind) -> &'a str {
        self.0.get(id).map_or_else(|| kind(handler), String::as_str)
    }
}

/// The name of an agent, of one that is a command line its program.
fn short(name: &str) -> String {
    let argv = name.parse::<AgentChoice>().ok().and_then(|choice| choice.argv());
    let program = argv.as_deref().and_then(|argv| argv.first()).map(String::as_str);
    program.map_or(name, |program| program.rsplit('/').next().unwrap_or(program)).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_agent_is_named_after_its_program() {
        let names = ["claude", "checker", "command:/usr/bin/my-agent --print", "acp:gemini --acp"].map(short);
        assert_eq!(names, ["claude", "checker", "my-agent", "gemini"]);
    }
}
