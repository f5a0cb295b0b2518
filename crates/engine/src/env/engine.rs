//! The environment of runs.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::bounds::SandboxBounds;
use super::{
    Broadcast, Budget, Error, Handler, Interviewer, PushSettings, SessionRepos, Supervisor, UnmeteredAgent, Unpriced,
};
use crate::merging::TierOptions;
use agents::agent::{MessageWriter, Roster};
use agents::llm::{Message, Pricing};
use git::Repo;
use git::workspace::{self, Scratch, Workspace, WorktreeSettings, default_worktree_base};
use os::process::Cancel;
use os::process::sandbox::SandboxPolicy;
use pleach_core::budget::{BudgetLimits, day_of};
use pleach_core::clock;
use pleach_core::config::{Attribution, MirrorAddress};
use pleach_core::event::{AgentSpoke, AgentWaits, Event, Notification, Recorded, Warning};
use pleach_core::ids::{ContextId, NodeId, RepoName, SessionId};
use pleach_core::plan::parallel::FanInPolicy;
use pleach_core::plan::pipeline::{HandlerKind, Node, Pipeline};
use pleach_core::redact::Redactor;

/// The environment of runs: agents, settings, budget, and the hooks of the embedding program.
pub struct Engine {
    /// State shared with other sessions and trees of this process.
    pub supervisor: Arc<Supervisor>,
    /// How worktrees are created.
    pub worktrees: WorktreeSettings,
    /// Finds the agent of a node.
    pub agents: Roster,
    /// Answers gates.
    pub interviewer: Box<dyn Interviewer>,
    /// Handlers of the embedding program, by `type`. They override built-in ones.
    pub handlers: BTreeMap<String, Arc<dyn Handler>>,
    /// Writes commit messages of turns in place of the agent's own words.
    pub scribe: Option<MessageWriter>,
    /// What agents, tools and tests may touch; everything if `None`.
    pub sandbox: Option<SandboxPolicy>,
    /// How many characters of a failed command's output the next agent gets.
    pub output_chars: usize,
    /// What is tried with the conflicts of fan-ins that have a gate.
    pub tiers: TierOptions,
    /// What is pushed where, and when.
    pub push: PushSettings,
    /// The mirror of records.
    pub mirror: Option<MirrorAddress>,
    /// Spending limits.
    pub budget: Budget,
    /// What commits say about the agent beyond their trailers.
    pub attribution: Attribution,
    /// Removes secrets from records.
    pub redactor: Redactor,
    /// Publishes events.
    pub events: Broadcast,
    /// Stops the run.
    pub cancel: Cancel,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("supervisor", &self.supervisor).finish_non_exhaustive()
    }
}

impl Engine {
    /// Whether an agent runs this node.
    pub(crate) fn is_of_agent(&self, node: &Node) -> bool {
        let judges = node.fan_in.as_ref().is_some_and(|rules| rules.policy == FanInPolicy::Judge);
        (node.handler == HandlerKind::Codergen || judges) && !self.handlers.contains_key(node.handler.as_str())
    }

    /// Whether a node is a fan-out of pleach's own.
    pub(crate) fn is_fan_out(&self, node: &Node) -> bool {
        node.handler == HandlerKind::Parallel && !self.handlers.contains_key(node.handler.as_str())
    }

    /// Publishes an event of a whole tree, without secrets.
    pub(crate) fn tell(&self, event: impl Into<Event>) {
        let recorded = self.without_secrets(Recorded { at: clock::now(), event: event.into() });
        self.events.send(Notification { by: None, recorded: Arc::new(recorded) });
    }

    /// Publishes a warning.
    pub(crate) fn warn(&self, warning: Warning) {
        self.tell(warning);
    }

    /// Publishes an agent's messages before its turn is recorded.
    pub(crate) fn announce(&self, session: &SessionId, context: &ContextId, node: &NodeId, messages: &[Message]) {
        let wanted = self.events.words.load(Ordering::Relaxed);
        for message in messages.iter().filter(|_| wanted) {
            let Ok(message) = serde_json::to_value(message) else { continue };
            self.tell_under_way(
                session,
                context,
                AgentSpoke { node_id: node.clone(), message, extra: Default::default() },
            );
        }
    }

    /// Publishes what an agent waits for, or with `None` that it continues.
    pub(crate) fn tell_wait(&self, session: &SessionId, context: &ContextId, node: &NodeId, why: Option<&str>) {
        let why = why.map(str::to_owned);
        self.tell_under_way(session, context, AgentWaits { node_id: node.clone(), why, extra: Default::default() });
    }

    /// Publishes something that is not recorded, or not yet, without secrets.
    pub(crate) fn tell_under_way(&self, session: &SessionId, context: &ContextId, event: impl Into<Event>) {
        let recorded = self.without_secrets(Recorded { at: clock::now(), event: event.into() });
        self.events.send(Notification { by: Some((session.clone(), context.clone())), recorded: Arc::new(recorded) });
    }

    /// A directory for temporary files, needed if a sandbox keeps commands from writing to the system's.
    pub(crate) fn scratch(&self) -> Result<Option<Scratch>, workspace::Error> {
        self.sandbox.as_ref().map(|_| Scratch::make(&self.supervisor.state_dir)).transpose()
    }

    /// Environment variables that point programs to the temporary directory and to unshared caches.
    pub(crate) fn temporary(&self, scratch: Option<&Scratch>) -> Vec<(OsString, Option<OsString>)> {
        let Some(dir) = scratch.map(Scratch::path) else { return Vec::new() };
        let files = ["TMPDIR", "TMP", "TEMP"].map(|name| (name, dir.to_owned()));
        let caches = self.sandbox.iter().flat_map(|policy| policy.own_caches(dir));
        files.into_iter().chain(caches).map(|(name, path)| (name.into(), Some(path.into()))).collect()
    }

    /// The sandbox bounds of a workspace, if there is a sandbox: writable are the workspace, `scratch` and `own`.
    pub(crate) fn bounds<'a>(
        &'a self,
        workspace: &'a Workspace,
        scratch: Option<&Scratch>,
        own: impl IntoIterator<Item = PathBuf>,
    ) -> Option<SandboxBounds<'a>> {
        let policy = self.sandbox.as_ref()?;
        let own = scratch.map(|scratch| scratch.path().to_owned()).into_iter().chain(own).collect();
        Some(SandboxBounds { policy, workspace, own })
    }

    /// The same for all repositories of a session, whose worktrees lie in one place.
    pub(crate) fn check_places(&self, repos: &SessionRepos) -> Result<(), Error> {
        repos.iter().try_for_each(|(_, repo)| repo.check_trusted())?;
        self.check_place(repos.record(), repos.record_name())
    }

    /// Checks that a worktree can be created before a session exists that needs one.
    pub(crate) fn check_place(&self, repo: &Repo, name: &RepoName) -> Result<(), Error> {
        repo.check_trusted()?;
        Ok(workspace::make_base(&self.worktree_base(repo, name))?)
    }

    /// The directory that holds the worktrees of a repository.
    pub(crate) fn worktree_base(&self, repo: &Repo, name: &RepoName) -> PathBuf {
        let base = self.worktrees.base.clone();
        base.unwrap_or_else(|| default_worktree_base(&self.supervisor.state_dir, repo.common_dir(), name))
    }

    /// Redacts an event as its record will be, so that display and run see what a resume would see.
    pub(crate) fn without_secrets(&self, event: Recorded) -> Recorded {
        let clean = event.without_secrets(&self.redactor);
        clean.and_then(|clean| Recorded::from_json(clean).ok()).unwrap_or(event)
    }

    /// The nodes that agents run: everything that costs money.
    pub(crate) fn agent_nodes<'p>(&self, pipeline: &'p Pipeline) -> impl Iterator<Item = &'p Node> {
        pipeline.nodes().iter().filter(|node| self.is_of_agent(node))
    }

    /// Refuses to start a pipeline whose agents could not be held to the limits of a day.
    pub(crate) fn refuse_uncounted(&self, repo: &Repo, pipeline: &Pipeline) -> Result<(), Error> {
        let limits = BudgetLimits { budget: self.budget.limits.clone(), ..BudgetLimits::default() };
        if limits.is_for_days() && self.agent_nodes(pipeline).next().is_some() {
            self.budget.spent_on(repo, day_of(clock::now()), None)?;
        }
        Ok(())
    }

    /// The first node of these pipelines that has a limit in dollars and calls a model without a price.
    pub fn unpriced<P: Borrow<Pipeline>>(&self, pipelines: impl IntoIterator<Item = P>) -> Option<Unpriced> {
        pipelines.into_iter().find_map(|pipeline| {
            let pipeline = pipeline.borrow();
            let needs_price = |node: &&Node| {
                let budget = self.budget.limits.clone();
                BudgetLimits { budget, pipeline: pipeline.budget, node: node.budget }.needs_prices()
            };
            let mut nodes = self.agent_nodes(pipeline).filter(needs_price);
            nodes.find_map(|node| Some(Unpriced { node: node.id.clone(), model: self.unpriced_model(node)? }))
        })
    }

    /// The model without a known price that an agent node would call.
    pub(crate) fn unpriced_model(&self, node: &Node) -> Option<String> {
        let (model, pricing) = self.agents.of(node).ok()?.pricing(node.llm_model.as_deref())?;
        (pricing == Pricing::Unknown).then_some(model)
    }

    /// The agents of these pipelines that a configured budget cannot limit.
    pub fn unmetered<P: Borrow<Pipeline>>(&self, pipelines: impl IntoIterator<Item = P>) -> Vec<UnmeteredAgent> {
        let mut found: BTreeMap<String, BTreeSet<NodeId>> = BTreeMap::new();
        for pipeline in pipelines {
            let pipeline = pipeline.borrow();
            for node in pipeline.agent_nodes() {
                let budget = self.budget.limits.clone();
                let is_limited = BudgetLimits { budget, pipeline: pipeline.budget, node: node.budget }.is_set();
                let silent = self.agents.of(node).is_ok_and(|agent| !agent.tells_spending());
                let Ok(name) = self.agents.name(node) else { continue };
                if is_limited && silent {
                    found.entry(name).or_default().insert(node.id.clone());
                }
            }
        }
        found.into_iter().map(|(agent, nodes)| UnmeteredAgent { agent, nodes }).collect()
    }
}
