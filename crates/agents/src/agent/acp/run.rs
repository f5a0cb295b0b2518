//! One job of an agent that speaks the protocol.

use std::sync::Arc;

use super::agent::AcpAgent;
use super::gateway;
use super::session::{self, TurnSink};
use crate::agent::cli::{Variables, set_up_separate_home, writable_paths};
use crate::agent::tool_commands::Launchers;
use crate::agent::{AgentError, AgentReply, Job, Turns};
use os::process::Cancel;

pub(super) async fn work(
    agent: &AcpAgent,
    mut job: Job,
    turns: &Turns,
    cancel: &Cancel,
) -> Result<AgentReply, AgentError> {
    if let Some(early_reply) = job.early_reply(cancel) {
        return early_reply;
    }
    if let Some(route) = &agent.route {
        return gateway::run(agent, route, job, turns, cancel).await;
    }
    let mut variables = Variables::new();
    if let Some((preset, environment)) = &agent.known {
        variables = set_up_separate_home(preset, environment, &job.home)?;
    }
    job.sandbox = job.sandbox.map(|bounds| {
        let known = agent.known.as_ref();
        let open = known.map(|(preset, environment)| writable_paths(preset, environment));
        let writes = open.into_iter().flatten().chain([job.home.clone()]);
        let own = known.map(|(preset, environment)| preset.own_files_in(environment));
        // It calls its model by itself.
        Arc::new(bounds.with_network().with_read(own.into_iter().flatten()).with_write(writes))
    });
    let launchers = Launchers::install(&agent.commands, &job, &agent.server)?;
    let ask = agent.task(&job, launchers.as_ref());
    let command = agent.command(job, variables, Vec::new(), launchers.as_ref(), None);
    let talked = session::run(&agent.spawner, command, ask, TurnSink::Turns(turns, agent.is_unbilled()), cancel).await;
    let (client, ended) = agent.ended(talked, turns, cancel)?;
    agent.conclude(client, ended, turns).await
}
