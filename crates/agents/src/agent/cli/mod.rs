//! Coding agents that are programs: Claude Code, Codex, Gemini CLI, OpenCode, or any other by a template.
//!
//! `preset` is what is known of them, `parser` what they say while they work, `transcript` makes turns of it, `outcome`
//! judges how it went. `launch` starts them, `follow` and `gateway` see them through, `gateway_setup` is their way to
//! the gateway.

mod agent;
mod follow;
mod gateway;
mod gateway_setup;
mod hooks;
mod launch;
mod mcp_preset;
mod outcome;
pub mod parser;
mod preset;
mod probe;
mod run;
mod separate_home;
mod template;
mod transcript;
mod version;

use std::path::Path;

use serde_json::Value;

use self::agent::session_of;
use super::{Agent, AgentError, AgentReply, BoxFuture, Job, Turns};
use crate::gateway::Upstream;
use crate::llm::{ModelNames, Pricing, Unusable};
use os::process::Cancel;
use pleach_core::config::{ParserName, TurnMode};

pub(super) use agent::check_tier;
pub use agent::{CliAgent, CliSettings};
pub(super) use gateway_setup::{GatewayEndpoint, GatewaySetup, Variables, tools};
pub use hooks::hook_main;
pub(super) use separate_home::{set_up as set_up_separate_home, writable_paths};

pub(super) use launch::epilogue;
pub use preset::Preset;
pub use probe::{Billing, Introduction, find_program};
pub use version::Versions;

impl Agent for CliAgent {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn can_continue(&self) -> bool {
        false
    }

    fn check_model(&self, asked: Option<&str>) -> Result<(), Unusable> {
        self.knows_model(asked)
    }

    /// Where its conversations are kept, it resumes them by itself.
    fn can_resume(&self, state: Option<&Value>, home: &Path) -> bool {
        let Some(state) = state else { return self.preset.resumes() };
        let is = |key: &str, value: &str| state.get(key).and_then(Value::as_str) == Some(value);
        let own = is("agent", self.kind) && is("home", self.home_word()) && session_of(state).is_some();
        let places = match self.turns {
            TurnMode::Gateway => self.preset.keeps.iter().map(|kept| home.join(kept)).collect(),
            _ => separate_home::kept_paths(&self.preset, &self.environment, home),
        };
        let kept = self.preset.keeps.is_empty() || places.iter().any(|place| place.exists());
        self.preset.resumes() && own && kept
    }

    fn pricing(&self, asked: Option<&str>) -> Option<(String, Pricing)> {
        let is_priced = match self.turns {
            TurnMode::Gateway => !matches!(self.upstream, Some(Upstream::Script(_))),
            // These tell their tokens and not what they cost. Others may say that themselves.
            _ => {
                let tells_tokens_alone = matches!(self.preset.parser, ParserName::Codex | ParserName::Gemini);
                tells_tokens_alone && !self.billed().is_subscription()
            }
        };
        let model = self.named_model(asked).filter(|_| is_priced)?;
        let pricing = self.settings.prices.pricing(ModelNames::asked(&model));
        Some((model, pricing))
    }

    fn needs_network(&self) -> bool {
        self.turns != TurnMode::Gateway && !self.settings.is_closed
    }

    /// Through the gateway every call is seen, whatever the program says.
    fn tells_spending(&self) -> bool {
        self.turns == TurnMode::Gateway || self.preset.parser != ParserName::None
    }

    fn repeats_calls(&self) -> bool {
        self.turns == TurnMode::Gateway
    }

    fn as_program(&self) -> Option<&CliAgent> {
        Some(self)
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
