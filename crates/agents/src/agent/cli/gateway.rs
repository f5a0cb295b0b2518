//! An agent behind the gateway: its model's calls go through pleach, which makes its turns exact and keeps the real
//! key. `gateway_setup` is how it comes there.

use std::sync::{Mutex, PoisonError};

use super::agent::CliAgent;
use super::gateway_setup::GatewayEndpoint;
use super::launch::{Launch, LaunchOptions};
use super::outcome::ProgramRun;
use super::parser::StreamReader;
use super::transcript::Transcript;
use crate::agent::liveness::signs_of_life;
use crate::agent::tool_commands::Launchers;
use crate::agent::{AgentError, GatewayRun, Job, Turn, Turns};
use crate::gateway::Upstream;
use os::process::{Cancel, CommandSpec, OutputStream};
use pleach_core::event::Usage;

/// Runs the program behind a gateway to its end. All its turns but the last are reported on the way.
pub(super) async fn run(
    agent: &CliAgent,
    job: &Job,
    session: Option<&str>,
    upstream: &Upstream,
    turns: &Turns,
    cancel: &Cancel,
) -> Result<(ProgramRun, Option<Turn>), AgentError> {
    let gateway_run =
        GatewayRun::open(upstream.clone(), job).await?.with_max_failed_calls(agent.settings.max_failed_calls);
    let launchers = Launchers::install(&agent.commands, job, &agent.server)?;
    let launch = Launch { agent, job, launchers: launchers.as_ref() };
    let endpoint = GatewayEndpoint::of(&gateway_run, &agent.preset);
    launch.gateway_setup(&endpoint).make_home()?;
    let bounds = launch.bounds(Some(&endpoint));
    let prompt = launch.prompt(session.is_some(), bounds.as_ref());
    let start = LaunchOptions { session, hooks: None, endpoint: Some(&endpoint), bounds: bounds.as_ref() };
    let signs = Some(signs_of_life(&job.root, Some(gateway_run.meter())));
    let command = CommandSpec { signs, ..launch.command(&prompt, start)? };
    let reader = Mutex::new((StreamReader::new(agent.preset.parser, Usage::default()), Transcript::new(&prompt)));
    let state = gateway_run.state();
    let hear = |bytes: Option<&[u8]>| {
        let mut held = reader.lock().unwrap_or_else(PoisonError::into_inner);
        let (reader, transcript) = &mut *held;
        let events = match bytes {
            Some(bytes) => reader.feed(bytes),
            None => reader.finish(),
        };
        let known = transcript.session.clone();
        events.into_iter().for_each(|event| transcript.push(event));
        if transcript.session != known
            && let Some(new) = agent.state(transcript)
        {
            state.set(new);
        }
    };
    let seen = gateway_run
        .run(turns, cancel, |own| async move {
            let mut on_output = |stream: OutputStream, bytes: &[u8]| {
                if stream == OutputStream::Stdout {
                    hear(Some(bytes));
                }
            };
            let output = agent.spawner.run(command, &own, &mut on_output).await;
            hear(None);
            output
        })
        .await;
    let undone = seen.why_unfinished(&agent.preset.program);
    if let Some(why) = seen.diverged.filter(|_| !cancel.is_killed()) {
        return Err(AgentError::Diverged(why));
    }
    let given_up = seen.given_up.filter(|_| !cancel.is_killed());
    let output = seen.ended.map_err(|error| AgentError::of_spawn(&error))?;
    let (_, mut transcript) = reader.into_inner().unwrap_or_else(PoisonError::into_inner);
    transcript.add_last_words(&seen.said);
    let ran = ProgramRun { output, transcript, stopped: seen.stopped, undone, given_up, unanswered: seen.unanswered };
    Ok((ran, seen.last))
}
