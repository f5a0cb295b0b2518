//! Agents that speak the Agent Client Protocol: JSON-RPC over their standard streams. One prompt is one run; where its
//! turns begin and end is inferred from what the agent tells meanwhile.
//!
//! [`client`] decides what to send, [`turn_builder`] makes turns of updates, [`policy`] answers permission requests;
//! `session` has the pipes and the clock. Behind the gateway turns are not inferred: `gateway` takes those it has seen.

mod agent;
mod client;
mod gateway;
mod lines;
mod policy;
mod route;
mod run;
mod schema;
mod session;
mod state;
#[cfg(test)]
mod tests;
mod turn_builder;

use std::path::Path;

use serde_json::Value;

use self::state::{AcpState, KIND};
use super::cli::check_tier;
use super::{Agent, AgentError, AgentReply, BoxFuture, Introduction, Job, Turns};
use crate::llm::Unusable;
use os::process::Cancel;

pub(crate) use self::agent::AcpAgent;
pub(super) use self::agent::known;

impl Agent for AcpAgent {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn can_continue(&self) -> bool {
        false
    }

    fn needs_network(&self) -> bool {
        self.route.is_none()
    }

    fn repeats_calls(&self) -> bool {
        self.route.is_some()
    }

    fn introduction(&self) -> Option<Introduction> {
        let billed = self.billed.clone()?;
        Some(Introduction {
            name: format!("acp:{}", self.name()),
            version: None,
            outdated: None,
            turns: None,
            billed,
            other: None,
        })
    }

    fn check_model(&self, asked: Option<&str>) -> Result<(), Unusable> {
        let Some(route) = &self.route else { return Ok(()) };
        let asked = asked.or(self.profile.model.as_deref());
        route.configured_model(asked).map_or(Ok(()), |model| check_tier(&model, &route.preset.provider))
    }

    fn can_resume(&self, state: Option<&Value>, home: &Path) -> bool {
        let Some(state) = state else { return true };
        let is_own = AcpState::read(state).is_some_and(|state| state.home == self.home());
        is_own && self.route.as_ref().is_none_or(|route| route.has_sessions(home))
    }

    fn run<'a>(
        &'a self,
        job: Job,
        turns: &'a Turns,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<AgentReply, AgentError>> {
        Box::pin(run::work(self, job, turns, cancel))
    }
}
