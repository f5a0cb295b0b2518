//! An agent behind the gateway: its turns are those of its model's calls, exact as any other's there. What it tells
//! meanwhile says how it ended, and what its last words were.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::client::{Ask, Client, Ended};
use super::pipes::{self, Told};
use super::{AcpAgent, KIND, end};
use crate::agent::cli::{Endpoint, Preset, Way, tools};
use crate::agent::driven::why_failed;
use crate::agent::{AgentError, Driven, End, Job, Reply, Seen, Turns, Verdict};
use crate::config::Environment;
use crate::gateway::Upstream;
use crate::process::Cancel;

/// How an agent comes to its model.
#[derive(Debug, Clone)]
pub(super) struct Route {
    /// How its program is brought there.
    pub preset: Preset,
    /// Who answers.
    pub upstream: Upstream,
    /// Where the user's own things are.
    pub environment: Environment,
    /// The models behind short names.
    pub models: BTreeMap<String, String>,
}

impl Route {
    /// Whether what the agent has kept of its sessions is still there.
    pub fn has_kept(&self, home: &Path) -> bool {
        let kept = &self.preset.keeps;
        home.exists() && (kept.is_empty() || kept.iter().any(|kept| home.join(kept).exists()))
    }

    /// A model by the name its provider has for it.
    fn named(&self, model: &str) -> String {
        self.models.get(model).cloned().unwrap_or_else(|| model.to_owned())
    }

    /// The model an agent is told by its settings, if that is how it is told.
    pub fn told(&self, asked: Option<&str>) -> Option<String> {
        self.preset.gateway.model.as_ref().map(|_| self.named(asked.unwrap_or("worker")))
    }
}

impl AcpAgent {
    /// Lets the agent work behind a gateway.
    pub(super) async fn drive(
        &self,
        route: &Route,
        mut job: Job,
        turns: &Turns,
        cancel: &Cancel,
    ) -> Result<Reply, AgentError> {
        let driven = Driven::open(route.upstream.clone(), &job).await?.with_max_failed_calls(self.max_failed_calls);
        let endpoint = Endpoint::of(&driven, &route.preset);
        let asked = job.model.as_deref().or(self.profile.model.as_deref()).map(|model| route.named(model));
        // Who knows the gateway's models by names of its own is told in its settings which one it is, and not again.
        let in_settings = route.preset.gateway.model.is_some();
        let model = asked.clone().or_else(|| route.told(None));
        let way =
            Way { preset: &route.preset, environment: &route.environment, home: &job.home, model, endpoint: &endpoint };
        way.make_home()?;
        let (variables, arguments) = (way.variables()?, way.arguments());
        job.env.splice(0..0, tools(&route.environment, |_| true));
        let home = job.home.clone();
        job.sandbox = job.sandbox.map(|bounds| Arc::new(bounds.through(endpoint.port).with_write([home])));
        let ask = Ask { model: asked.filter(|_| !in_settings), ..self.ask(&job) };
        let command = self.command(job, variables, arguments, Some(driven.meter()));
        let told = Told::State(driven.state());
        let seen = driven
            .see_through(turns, cancel, |own| async move {
                pipes::talk(&self.spawner, command, Client::new(ask), told, &own).await
            })
            .await;
        let undone = seen.undone(&self.name());
        let Seen { ended: talked, last, stopped, said, asked, unanswered, given_up, .. } = seen;
        let (mut client, ended) = self.ended(talked, turns, cancel)?;
        let ended = if stopped && !cancel.is_killed() { Ended::Cancelled } else { ended };
        let heard = client.last_turn(ended.failed().as_deref());
        let ended = match (ended, undone) {
            // That it is done is only its word.
            (Ended::Done, Some(undone)) => Ended::Failed(undone),
            (Ended::Done, None) if !asked && route.preset.is_known() => Ended::Failed(AgentError::Terminal(format!(
                "agent `{}` says that it is done and has asked no model through the gateway; with `turns: stream` it \
                 works with its own settings and login",
                self.name()
            ))),
            (Ended::Done, None) if !asked && client.words().is_empty() => {
                Ended::Doubtful(format!("agent `{}` asked no model and said nothing", self.name()))
            }
            (ended, _) => ended,
        };
        let ended = match ended {
            Ended::Failed(error) => Ended::Failed(why_failed(&self.name(), error, unanswered.as_ref())),
            ended => ended,
        };
        let ended = match given_up.filter(|_| !cancel.is_killed()) {
            Some(error) => Ended::Failed(error),
            None => ended,
        };
        let failed = ended.failed();
        let text = Some(client.words()).filter(|words| !words.is_empty()).unwrap_or(&said).to_owned();
        if stopped && last.is_none() {
            // Its turns are all reported: the last of them is what it was stopped after.
            return Ok(Reply::new(text, End::Stopped));
        }
        let mut turn = last.unwrap_or_default();
        if !client.is_asked() && turn.messages.is_empty() && turn.side_calls.is_empty() {
            // It was never given its task.
            return Ok(Reply::new(text, end(ended, Verdict::Go)?));
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
        Ok(Reply::new(text, end(ended, verdict)?))
    }
}
