//! An agent behind the gateway: its turns are those of its model's calls, exact as any other's there. What it tells
//! meanwhile says how it ended, and what its last words were.

use std::sync::Arc;

use super::agent::AcpAgent;
use super::client::{AcpEnd, AcpTask};
use super::route::AcpRoute;
use super::session::{self, TurnSink};
use super::state::KIND;
use crate::agent::cli::{GatewayEndpoint, GatewaySetup, tools};
use crate::agent::gateway_run::explain_failure;
use crate::agent::tool_commands::Launchers;
use crate::agent::{AgentError, AgentReply, End, GatewayRun, Job, RunOutcome, TurnVerdict, Turns};
use os::process::Cancel;

/// Lets the agent work behind a gateway.
pub(super) async fn run(
    agent: &AcpAgent,
    route: &AcpRoute,
    mut job: Job,
    turns: &Turns,
    cancel: &Cancel,
) -> Result<AgentReply, AgentError> {
    let gateway_run =
        GatewayRun::open(route.upstream.clone(), &job).await?.with_max_failed_calls(agent.max_failed_calls);
    let endpoint = GatewayEndpoint::of(&gateway_run, &route.preset);
    let asked = job.model.as_deref().or(agent.profile.model.as_deref()).map(|model| route.named(model));
    // An agent with its own names for the gateway's models has the model in its settings, and is not asked again.
    let in_settings = route.preset.gateway.model.is_some();
    let model = asked.clone().or_else(|| route.configured_model(None));
    let way = GatewaySetup {
        preset: &route.preset,
        environment: &route.environment,
        home: &job.home,
        model,
        endpoint: &endpoint,
        // It is named when the session is opened.
        server: None,
    };
    way.make_home()?;
    let (variables, arguments) = (way.variables()?, way.arguments());
    job.env.splice(0..0, tools(&route.environment, |_| true));
    let home = job.home.clone();
    job.sandbox = job.sandbox.map(|bounds| Arc::new(bounds.through(endpoint.port).with_write([home])));
    let launchers = Launchers::install(&agent.commands, &job, &agent.server)?;
    let ask = AcpTask { model: asked.filter(|_| !in_settings), ..agent.task(&job, launchers.as_ref()) };
    let command = agent.command(job, variables, arguments, launchers.as_ref(), Some(gateway_run.meter()));
    let sink = TurnSink::State(gateway_run.state());
    let seen = gateway_run
        .run(turns, cancel, |own| async move { session::run(&agent.spawner, command, ask, sink, &own).await })
        .await;
    let undone = seen.why_unfinished(&agent.name());
    let RunOutcome { ended: talked, last, stopped, said, asked, unanswered, given_up, diverged, .. } = seen;
    if let Some(why) = diverged.filter(|_| !cancel.is_killed()) {
        return Err(AgentError::Diverged(why));
    }
    let (mut client, ended) = agent.ended(talked, turns, cancel)?;
    let ended = if stopped && !cancel.is_killed() { AcpEnd::Cancelled } else { ended };
    let heard = client.last_turn(ended.failed().as_deref());
    let ended = match (ended, undone) {
        // That it is done is only its word.
        (AcpEnd::Done, Some(undone)) => AcpEnd::Failed(undone),
        (AcpEnd::Done, None) if !asked && route.preset.is_known() => AcpEnd::Failed(AgentError::Terminal(format!(
            "agent `{}` says that it is done and has asked no model through the gateway; with `turns: stream` it \
             works with its own settings and login",
            agent.name()
        ))),
        (AcpEnd::Done, None) if !asked && client.words().is_empty() => {
            AcpEnd::Doubtful(format!("agent `{}` asked no model and said nothing", agent.name()))
        }
        (ended, _) => ended,
    };
    let ended = match ended {
        AcpEnd::Failed(error) => AcpEnd::Failed(explain_failure(&agent.name(), error, unanswered.as_ref())),
        ended => ended,
    };
    let ended = match given_up.filter(|_| !cancel.is_killed()) {
        Some(error) => AcpEnd::Failed(error),
        None => ended,
    };
    let failed = ended.failed();
    let text = Some(client.words()).filter(|words| !words.is_empty()).unwrap_or(&said).to_owned();
    if stopped && last.is_none() {
        // Its turns are all reported: the last of them is what it was stopped after.
        return Ok(AgentReply::new(text, End::Stopped));
    }
    let mut turn = last.unwrap_or_default();
    if !client.has_prompted() && turn.messages.is_empty() && turn.side_calls.is_empty() {
        // It was never given its task.
        return Ok(AgentReply::new(text, ended.into_end(TurnVerdict::Go)?));
    }
    if let (Some(why), Some(words)) = (&failed, turn.messages.last_mut().filter(|last| last.is_answer())) {
        words.mark_failed(why);
    }
    if turn.model.is_empty() {
        client.model().clone_into(&mut turn.model);
    }
    if turn.provider.is_empty() {
        KIND.clone_into(&mut turn.provider);
    }
    turn.warnings.extend(heard.into_iter().flat_map(|heard| heard.warnings));
    (turn.is_last, turn.exact, turn.state_ref) = (true, true, client.state());
    let verdict = turns.report(turn).await;
    Ok(AgentReply::new(text, ended.into_end(verdict)?))
}
