//! A coding agent that is a program, and what is known of it before it runs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::preset::Preset;
use super::probe::{Billing, Introduction};
use super::transcript::Transcript;
use super::version::Versions;
use crate::agent::{AgentError, ConfiguredTools, Job, Profile, Turn};
use crate::gateway::Upstream;
use crate::llm::{ModelNames, Prices, Unusable};
use os::process::{Cancel, Spawner};
use pleach_core::config::{Environment, ProviderName, TurnMode};
use pleach_core::event::Usage;

/// What the configuration says about an agent beyond its preset.
#[derive(Debug, Clone, Default)]
pub struct CliSettings {
    /// Arguments after the usual ones.
    pub args: Vec<String>,
    /// What it may do without asking, in its own words.
    pub permission_mode: Option<String>,
    /// The tools it is kept to; all when the list is empty.
    pub tools: Vec<String>,
    /// Seconds one run may take.
    pub timeout: Option<u64>,
    /// Seconds it may go without a sign of life.
    pub idle_timeout: Option<u64>,
    /// How many calls of its model in a row may end without a complete answer.
    pub max_failed_calls: Option<u32>,
    /// The models behind short names.
    pub models: BTreeMap<String, String>,
    /// Prices of models, over those pleach knows.
    pub prices: Prices,
    /// It is a program of the user's own, which gets its task and nothing else.
    pub is_command: bool,
    /// It gets no network where it does not go through the gateway.
    pub is_closed: bool,
}

/// A coding agent that is a program.
#[derive(Debug, Clone)]
pub struct CliAgent {
    /// The kind, as records have it.
    pub kind: &'static str,
    /// What people know it by.
    pub name: String,
    /// How the program is driven.
    pub preset: Preset,
    /// What the configuration says.
    pub settings: CliSettings,
    /// Where the program is.
    pub program: PathBuf,
    /// How its turns are found.
    pub turns: TurnMode,
    /// Its profile.
    pub profile: Profile,
    /// Where its keys are.
    pub environment: Environment,
    /// Starts it.
    pub spawner: Spawner,
    /// Versions that are known.
    pub versions: Versions,
    /// The program, with arguments, that is its hook.
    pub hook: Vec<OsString>,
    /// The commands of the configuration that it finds on its PATH.
    pub commands: ConfiguredTools,
    /// The program, with arguments, that is the server of these commands.
    pub server: Vec<OsString>,
    /// Who answers its model's calls, with `turns: gateway`.
    pub upstream: Option<Upstream>,
}

impl CliAgent {
    /// The turn with everything that is the same for all turns of a run.
    pub(super) fn with_common_fields(&self, job: &Job, mut turn: Turn, transcript: &Transcript) -> Turn {
        if turn.model.is_empty() {
            let model = transcript.model().map(str::to_owned).or_else(|| self.model(job));
            turn.model = model.unwrap_or_else(|| {
                if self.settings.is_command { file_name(&self.program) } else { self.kind.to_owned() }
            });
        }
        if turn.provider.is_empty() {
            let provider = if self.settings.is_command { "local" } else { self.preset.provider.as_str() };
            turn.provider = provider.to_owned();
        }
        turn.exact = self.turns != TurnMode::Stream;
        turn.unbilled = self.billed().is_subscription();
        turn.state_ref = self.state(transcript);
        turn
    }

    /// What tokens cost, where there is a price. A stream that names no model uses the one that was asked for.
    pub(super) fn price(&self, job: &Job, model: &str, usage: &Usage) -> Option<f64> {
        let asked = self.model(job).unwrap_or_default();
        self.settings.prices.cost(ModelNames { asked: &asked, answered: model }, usage)
    }

    /// What the agent needs to resume its conversation, if that is known.
    pub(super) fn state(&self, transcript: &Transcript) -> Option<Value> {
        transcript.session.as_ref().filter(|_| self.preset.resumes()).map(|session| {
            let mut state = json!({"agent": self.kind, "session": session, "home": self.home_word()});
            if let Some(version) = self.versions.known(&self.program).flatten() {
                state["version"] = version.into();
            }
            if let Some(used) = transcript.used() {
                state["used"] = json!(used);
            }
            state
        })
    }

    /// Whose home it keeps its conversations in.
    pub(super) fn home_word(&self) -> &'static str {
        if self.turns == TurnMode::Gateway { "own" } else { "user" }
    }

    /// Who is billed for its work.
    pub(super) fn billed(&self) -> Billing {
        match (self.turns, &self.upstream) {
            (TurnMode::Gateway, Some(upstream)) => Billing::through_gateway(upstream),
            _ => Billing::without_gateway(&self.preset, &self.environment),
        }
    }

    /// Why it cannot work, and what helps, where it has neither key nor login and was given no other way to a model.
    pub fn unpaid(&self) -> Option<(String, String)> {
        let Billing::Unknown(how) = self.billed() else { return None };
        let is_usual = Preset::of(self.kind)
            .is_some_and(|usual| usual.argv == self.preset.argv && usual.env == self.preset.env)
            && self.settings.args.is_empty();
        let is_sure = is_usual && self.preset.needs_login(&self.environment);
        is_sure.then(|| (format!("{} has no key and no login", self.preset.title), how))
    }

    /// Adds to a refusal which key or login was refused.
    pub(super) fn with_credentials_hint(&self, error: AgentError) -> AgentError {
        let AgentError::Environment(why) = error else { return error };
        let log_in = &self.preset.log_in;
        AgentError::Environment(match self.billed() {
            Billing::Key(key) => format!("{why}; check {key} of your environment, or unset it and {log_in}"),
            Billing::Login | Billing::LeftKey => format!("{why}; check the login in your home: {log_in}"),
            Billing::Unknown(how) => format!("{why}; no login or key was found: {how}"),
            _ => why,
        })
    }

    /// The introduction of the agent without its version.
    pub fn at_a_glance(&self) -> Introduction {
        let billed = self.billed();
        let other = billed.other_way(&self.preset, &self.environment);
        let (name, turns) = (self.name.clone(), Some(self.turns));
        Introduction { name, version: None, outdated: None, turns, billed, other }
    }

    /// How the agent is introduced before it works.
    pub async fn introduce(&self, cancel: &Cancel) -> Introduction {
        let (mut version, mut outdated) = (None, None);
        // What a program of the user's own makes of such a question is not known.
        if !self.settings.is_command {
            let said = self.versions.of(&self.program, &self.spawner, cancel).await;
            outdated = said.as_deref().and_then(|version| self.preset.outdated(version));
            version = Some(said.unwrap_or_else(|| "of unknown version".to_owned()));
        }
        Introduction { version, outdated, ..self.at_a_glance() }
    }

    /// The model of a job, by the name its provider has for it.
    pub(super) fn model(&self, job: &Job) -> Option<String> {
        self.named_model(job.model.as_deref())
    }

    /// The model of a node that names this one.
    pub(super) fn named_model(&self, asked: Option<&str>) -> Option<String> {
        let asked = asked.or(self.profile.model.as_deref());
        let needs_one = self.turns == TurnMode::Gateway && self.preset.gateway.model.is_some();
        let asked = asked.or(needs_one.then_some("worker"))?;
        Some(self.settings.models.get(asked).cloned().unwrap_or_else(|| asked.to_owned()))
    }

    /// Whether a node that names this model, or none, can be worked on: a program that gets its model from pleach never
    /// gets a tier without a model.
    pub(super) fn knows_model(&self, asked: Option<&str>) -> Result<(), Unusable> {
        let is_told = self.turns == TurnMode::Gateway && self.preset.gateway.model.is_some();
        self.named_model(asked).filter(|_| is_told).map_or(Ok(()), |model| check_tier(&model, &self.preset.provider))
    }
}

/// Refuses a tier without a configured model.
pub(in crate::agent) fn check_tier(model: &str, provider: &ProviderName) -> Result<(), Unusable> {
    if ["smart", "worker", "cheap"].contains(&model) {
        Err(Unusable::NoModel { provider: provider.clone(), tier: model.to_owned() })
    } else {
        Ok(())
    }
}

pub(super) fn session_of(state: &Value) -> Option<String> {
    state.get("session")?.as_str().filter(|session| !session.is_empty()).map(str::to_owned)
}

fn file_name(program: &Path) -> String {
    program.file_name().map_or_else(|| "command".to_owned(), |name| name.to_string_lossy().into_owned())
}
