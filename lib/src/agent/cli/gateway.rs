//! An agent behind the gateway: its model's calls go through pleach, which makes its turns exact and keeps the real key.
//! `gateway_setup` is how it comes there.

use std::sync::{Mutex, PoisonError};

use super::gateway_setup::GatewayEndpoint;
use super::launch::LaunchOptions;
use super::parser::StreamReader;
use super::transcript::Transcript;
use super::{CliAgent, ProgramRun};
use crate::agent::liveness::signs_of_life;
use crate::agent::{AgentError, GatewayRun, Job, Turn, Turns};
use crate::event::Usage;
use crate::gateway::Upstream;
use crate::process::{Cancel, Command, Stream};

/// How a run behind the gateway went, and its last turn.
pub(super) struct Drove {
    pub ran: ProgramRun,
    pub last: Option<Turn>,
}

impl CliAgent {
    /// Runs the program behind a gateway to its end. All its turns but the last are reported on the way.
    pub(super) async fn drive(
        &self,
        job: &Job,
        session: Option<&str>,
        upstream: &Upstream,
        turns: &Turns,
        cancel: &Cancel,
    ) -> Result<Drove, AgentError> {
        let gateway_run =
            GatewayRun::open(upstream.clone(), job).await?.with_max_failed_calls(self.settings.max_failed_calls);
        let endpoint = GatewayEndpoint::of(&gateway_run, &self.preset);
        self.way(job, &endpoint).make_home()?;
        let bounds = self.bounds(job, Some(&endpoint));
        let prompt = self.prompt(job, session.is_some(), bounds.as_ref());
        let start = LaunchOptions { session, hooks: None, endpoint: Some(&endpoint), bounds: bounds.as_ref() };
        let signs = Some(signs_of_life(&job.root, Some(gateway_run.meter())));
        let command = Command { signs, ..self.command(job, &prompt, start)? };
        let reader = Mutex::new((StreamReader::new(self.preset.parser, Usage::default()), Transcript::new(&prompt)));
        let state = gateway_run.state();
        let hear = |bytes: Option<&[u8]>| {
            let mut held = reader.lock().unwrap_or_else(PoisonError::into_inner);
            let (reader, transcript) = &mut *held;
            let events = match bytes {
                Some(bytes) => reader.feed(bytes),
                None => reader.finish(),
            };
            let known = transcript.session.clone();
            events.into_iter().for_each(|events| transcript.hear(events));
            if transcript.session != known
                && let Some(new) = self.state(transcript)
            {
                state.set(new);
            }
        };
        let seen = gateway_run
            .run(turns, cancel, |own| async move {
                let mut on_output = |stream: Stream, bytes: &[u8]| {
                    if stream == Stream::Stdout {
                        hear(Some(bytes));
                    }
                };
                let output = self.spawner.run(command, &own, &mut on_output).await;
                hear(None);
                output
            })
            .await;
        let undone = seen.undone(&self.preset.program);
        let given_up = seen.given_up.filter(|_| !cancel.is_killed());
        let output = seen.ended.map_err(|error| AgentError::of_spawn(&error))?;
        let (_, mut transcript) = reader.into_inner().unwrap_or_else(PoisonError::into_inner);
        transcript.heard_by_gateway(&seen.said);
        let ran =
            ProgramRun { output, transcript, stopped: seen.stopped, undone, given_up, unanswered: seen.unanswered };
        Ok(Drove { ran, last: seen.last })
    }
}
