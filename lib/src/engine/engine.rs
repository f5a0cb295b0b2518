//! What runs need from outside.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::bounds::SandboxBounds;
use super::{Broadcast, Budget, Handler, Interviewer, UnmeteredAgent, Unpriced};
use crate::agent::{MessageWriter, Roster};
use crate::budget::{BudgetLimits, day_of};
use crate::clock;
use crate::config::Attribution;
use crate::engine::{Error, Supervisor};
use crate::event::{AgentSpoke, AgentWaits, Event, Notification, Recorded, Warning};
use crate::git::Repo;
use crate::ids::{ContextId, NodeId, RepoName, SessionId};
use crate::llm::{Message, Pricing};
use crate::plan::pipeline::{HandlerKind, Node, Pipeline};
use crate::process::Cancel;
use crate::process::sandbox::SandboxPolicy;
use crate::redact::Redactor;
use crate::workspace::{self, Scratch, Workspace, WorktreeSettings, default_worktree_base};

/// What runs need from outside.
pub struct Engine {
    /// What this session or tree shares with others of the process.
    pub supervisor: Arc<Supervisor>,
    /// How worktrees are made.
    pub worktrees: WorktreeSettings,
    /// Finds the agent of a node.
    pub agents: Roster,
    /// Answers gates.
    pub interviewer: Box<dyn Interviewer>,
    /// Handlers of the embedding program, by `type`. They win over built-in ones.
    pub handlers: BTreeMap<String, Arc<dyn Handler>>,
    /// Writes the messages of turns' commits, in place of the agent's own words.
    pub scribe: Option<MessageWriter>,
    /// What agents, tools and tests may touch; everything if not given.
    pub sandbox: Option<SandboxPolicy>,
    /// How many characters of a failed command's output the next agent is told.
    pub output_chars: usize,
    /// What may be spent.
    pub budget: Budget,
    /// What commits say about the agent beyond their trailers.
    pub attribution: Attribution,
    /// Takes secrets out of records.
    pub redactor: Redactor,
    /// Tells what happens.
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
    /// Whether an agent works on a node.
    pub(super) fn is_of_agent(&self, node: &Node) -> bool {
        node.handler == HandlerKind::Codergen && !self.handlers.contains_key(node.handler.as_str())
    }

    /// Tells what happens to a whole tree. Nothing secret is told.
    pub(super) fn tell(&self, event: impl Into<Event>) {
        let recorded = self.without_secrets(Recorded { at: clock::now(), event: event.into() });
        self.events.send(Notification { by: None, recorded: Arc::new(recorded) });
    }

    /// Tells what a person should know.
    pub(super) fn warn(&self, warning: Warning) {
        self.tell(warning);
    }

    /// Tells what an agent said, as soon as it is known.
    pub(super) fn announce(&self, by: (&SessionId, &ContextId), node: &NodeId, messages: &[Message]) {
        let wanted = self.events.words.load(Ordering::Relaxed);
        for message in messages.iter().filter(|_| wanted) {
            let Ok(message) = serde_json::to_value(message) else { continue };
            self.tell_under_way(by, AgentSpoke { node_id: node.clone(), message, extra: Default::default() });
        }
    }

    /// Tells what an agent waits for, or that it goes on.
    pub(super) fn tell_wait(&self, by: (&SessionId, &ContextId), node: &NodeId, why: Option<&str>) {
        let why = why.map(str::to_owned);
        self.tell_under_way(by, AgentWaits { node_id: node.clone(), why, extra: Default::default() });
    }

    fn tell_under_way(&self, (session, context): (&SessionId, &ContextId), event: impl Into<Event>) {
        let recorded = self.without_secrets(Recorded { at: clock::now(), event: event.into() });
        self.events.send(Notification { by: Some((session.clone(), context.clone())), recorded: Arc::new(recorded) });
    }

    /// A place for temporary files, where commands are bound and could not write to that of the system.
    pub(super) fn scratch(&self) -> Result<Option<Scratch>, workspace::Error> {
        self.sandbox.as_ref().map(|_| Scratch::make(&self.supervisor.state_dir)).transpose()
    }

    /// The variables by which programs find a directory for temporary files, and those of caches that are not shared.
    pub(super) fn temporary(&self, scratch: Option<&Scratch>) -> Vec<(OsString, Option<OsString>)> {
        let Some(dir) = scratch.map(Scratch::path) else { return Vec::new() };
        let files = ["TMPDIR", "TMP", "TEMP"].map(|name| (name, dir.to_owned()));
        let caches = self.sandbox.iter().flat_map(|policy| policy.own_caches(dir));
        files.into_iter().chain(caches).map(|(name, path)| (name.into(), Some(path.into()))).collect()
    }

    /// The bounds of what works in a workspace, if anything is bound: it may write there, to `scratch` and to `own`.
    pub(super) fn bounds<'a>(
        &'a self,
        workspace: &'a Workspace,
        scratch: Option<&Scratch>,
        own: impl IntoIterator<Item = PathBuf>,
    ) -> Option<SandboxBounds<'a>> {
        let policy = self.sandbox.as_ref()?;
        let own = scratch.map(|scratch| scratch.path().to_owned()).into_iter().chain(own).collect();
        Some(SandboxBounds { policy, workspace, own })
    }

    /// Sees that a worktree can be made before there is a session that would need one.
    pub(super) fn check_place(&self, repo: &Repo, name: &RepoName) -> Result<(), Error> {
        repo.check_trusted()?;
        Ok(workspace::make_base(&self.worktree_base(repo, name))?)
    }

    /// Where the worktrees of a repository live.
    pub(super) fn worktree_base(&self, repo: &Repo, name: &RepoName) -> PathBuf {
        let base = self.worktrees.base.clone();
        base.unwrap_or_else(|| default_worktree_base(&self.supervisor.state_dir, repo.common_dir(), name))
    }

    /// The event as it will be recorded: what is shown and what the run goes on with is the same as after a resume.
    pub(super) fn without_secrets(&self, event: Recorded) -> Recorded {
        let clean = event.without_secrets(&self.redactor);
        clean.and_then(|clean| Recorded::from_json(clean).ok()).unwrap_or(event)
    }

    /// The nodes agents work on: all that costs something.
    pub(super) fn agent_nodes<'p>(&self, pipeline: &'p Pipeline) -> impl Iterator<Item = &'p Node> {
        pipeline.nodes().iter().filter(|node| self.is_of_agent(node))
    }

    /// Refuses to begin with a pipeline whose agents could not be held to the limits of a day.
    pub(super) fn refuse_uncounted(&self, repo: &Repo, pipeline: &Pipeline) -> Result<(), Error> {
        let limits = BudgetLimits { budget: self.budget.limits.clone(), ..BudgetLimits::default() };
        if limits.is_for_days() && self.agent_nodes(pipeline).next().is_some() {
            self.budget.spent_on(repo, day_of(clock::now()), None)?;
        }
        Ok(())
    }

    /// The first node of these pipelines that may spend only so many dollars and asks a model without a price.
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

    /// The model an agent's node would ask although nobody knows its price.
    pub(in crate::engine) fn unpriced_model(&self, node: &Node) -> Option<String> {
        let (model, pricing) = self.agents.of(node).ok()?.pricing(node.llm_model.as_deref())?;
        (pricing == Pricing::Unknown).then_some(model)
    }

    /// The agents of these pipelines that no budget can hold although there is one.
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
