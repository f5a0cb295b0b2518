//! An agent behind the gateway: its model's calls go through pleach, which makes its turns exact and keeps the real key.
//! `route` is how it comes there.

use std::sync::{Mutex, PoisonError};

use super::gather::Gathered;
use super::launch::Start;
use super::parser::Reader;
use super::route::Endpoint;
use super::{CliAgent, Ran};
use crate::agent::signs::signs;
use crate::agent::{AgentError, Driven, Job, Turn, Turns};
use crate::event::Usage;
use crate::gateway::Upstream;
use crate::process::{Cancel, CommandSpec, OutputStream};

/// How a run behind the gateway went, and its last turn.
pub(super) struct Drove {
    pub ran: Ran,
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
        let driven = Driven::open(upstream.clone(), job).await?.with_max_failed_calls(self.settings.max_failed_calls);
        let endpoint = Endpoint::of(&driven, &self.preset);
        self.way(job, &endpoint).make_home()?;
        let bounds = self.bounds(job, Some(&endpoint));
        let prompt = self.prompt(job, session.is_some(), bounds.as_ref());
        let start = Start { session, hooks: None, endpoint: Some(&endpoint), bounds: bounds.as_ref() };
        let signs = Some(signs(&job.root, Some(driven.meter())));
        let command = CommandSpec { signs, ..self.command(job, &prompt, start)? };
        let reader = Mutex::new((Reader::new(self.preset.parser, Usage::default()), Gathered::new(&prompt)));
        let state = driven.state();
        let hear = |bytes: Option<&[u8]>| {
            let mut held = reader.lock().unwrap_or_else(PoisonError::into_inner);
            let (reader, gathered) = &mut *held;
            let heard = match bytes {
                Some(bytes) => reader.feed(bytes),
                None => reader.finish(),
            };
            let known = gathered.session.clone();
            heard.into_iter().for_each(|heard| gathered.hear(heard));
            if gathered.session != known
                && let Some(new) = self.state(gathered)
            {
                state.set(new);
            }
        };
        let seen = driven
            .see_through(turns, cancel, |own| async move {
                let mut on_output = |stream: OutputStream, bytes: &[u8]| {
                    if stream == OutputStream::Stdout {
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
        let (_, mut gathered) = reader.into_inner().unwrap_or_else(PoisonError::into_inner);
        gathered.heard_by_gateway(&seen.said);
        let ran = Ran { output, gathered, stopped: seen.stopped, undone, given_up, unanswered: seen.unanswered };
        Ok(Drove { ran, last: seen.last })
    }
}
