//! A session: its plan, its budget and its contexts.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::SessionPlan;
use super::context::{Context, OpenedContext, worktrees};
use super::executor::{Assignment, Executor, Running, WorkWatch};
use super::worker::WorkerReport;
use crate::env::{Engine, Error, Registered, RunLedger, SessionRepos, Subscription};
use crate::mirror::{MirrorHooks, MirrorQueue};
use crate::push::{PushQueue, PushSource, RefNote};
use agents::agent::Roster;
use git::Repo;
use git::record::SESSIONS;
use git::workspace::{BranchFollower, Lock, Workspace, branch_ref, context_of_branch, parallel_branches};
use pleach_core::budget::{Amount, Exceeded, Spent};
use pleach_core::event::{PipelineStarted, Warning};
use pleach_core::ids::{CommitId, ContextId, RepoName, RunId, SessionId};
use pleach_core::plan::pipeline::Pipeline;
use pleach_core::state::State;

/// A session this process may write to.
#[derive(Debug)]
pub struct Session {
    pub(super) plan: Arc<SessionPlan>,
    pub(super) engine: Arc<Engine>,
    /// Runs the work of its contexts.
    pub(super) executor: Executor,
    /// Lets requests of other processes reach it.
    _registered: Registered,
    pub(super) repo: Repo,
    /// The context that decides whether the session continues.
    root: ContextId,
    contexts: BTreeMap<ContextId, Context>,
    /// Totals of contexts that are away.
    away: BTreeMap<ContextId, ContextTotals>,
    /// Totals of contexts that have ended.
    closed: BTreeMap<ContextId, ContextTotals>,
    /// Held as long as this process may write to the session.
    pub(super) lock: Lock,
    /// The spending of the runs it shares a budget with.
    pub(crate) run_ledger: Option<RunLedger>,
    /// The limit that stopped it.
    pub(super) over: Option<Exceeded>,
}

/// What counts of a context that is not at hand.
#[derive(Debug)]
struct ContextTotals {
    turns: u64,
    spent: Spent,
}

impl ContextTotals {
    fn of(state: &State) -> Self {
        Self { turns: state.own_turns(), spent: state.spent.clone() }
    }
}

impl Session {
    /// A session with one context, its root.
    pub(super) fn new(
        engine: Arc<Engine>,
        registered: Registered,
        repo: Repo,
        mut plan: SessionPlan,
        lock: Lock,
        opened: OpenedContext,
    ) -> Self {
        let warnings = open_queue(&engine, &mut plan, &opened.state);
        let (plan, root) = (Arc::new(plan), opened.id.clone());
        let mut context = Context::new(Arc::clone(&engine), repo.clone(), Arc::clone(&plan), opened);
        context.warnings.extend(warnings);
        let contexts = BTreeMap::from([(root.clone(), context)]);
        let executor = Executor::new(Arc::clone(&engine), Arc::clone(&plan));
        Self {
            plan,
            engine,
            executor,
            _registered: registered,
            repo,
            root,
            contexts,
            away: BTreeMap::new(),
            closed: BTreeMap::new(),
            lock,
            run_ledger: None,
            over: None,
        }
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.plan.run.session
    }

    /// The run of it.
    pub fn run(&self) -> &RunId {
        &self.plan.run
    }

    /// The start event, with its pipeline and inputs.
    pub fn started(&self) -> &PipelineStarted {
        &self.plan.started
    }

    /// The pipeline it runs.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.plan.pipeline
    }

    /// The state of its root context.
    pub fn state(&self) -> &State {
        &self.root().state
    }

    /// The context that decides whether the session continues.
    pub(super) fn root(&self) -> &Context {
        self.context(&self.root)
    }

    pub(super) fn root_mut(&mut self) -> &mut Context {
        let root = self.root.clone();
        self.context_mut(&root)
    }

    pub(super) fn root_id(&self) -> &ContextId {
        &self.root
    }

    pub(super) fn context(&self, id: &ContextId) -> &Context {
        self.contexts.get(id).expect("contexts are asked for by the names the session has given out")
    }

    pub(super) fn context_mut(&mut self, id: &ContextId) -> &mut Context {
        self.contexts.get_mut(id).expect("contexts are asked for by the names the session has given out")
    }

    pub(super) fn contexts(&self) -> impl Iterator<Item = &Context> {
        self.contexts.values()
    }

    pub(super) fn new_context(&self, opened: OpenedContext) -> Context {
        Context::new(Arc::clone(&self.engine), self.repo.clone(), Arc::clone(&self.plan), opened)
    }

    pub(super) fn add(&mut self, context: Context) {
        self.contexts.insert(context.id.clone(), context);
    }

    /// The contexts that have not ended.
    pub(super) fn open_contexts(&self) -> Vec<ContextId> {
        self.contexts.values().filter(|context| !context.state.is_over()).map(|context| context.id.clone()).collect()
    }

    /// Removes a context while it is away.
    pub(super) fn take(&mut self, id: &ContextId) -> Context {
        let context = self.contexts.remove(id).expect("contexts are sent away when they are here");
        self.away.insert(id.clone(), ContextTotals::of(&context.state));
        context
    }

    /// Takes a context back.
    pub(super) fn put_back(&mut self, context: Context) {
        self.away.remove(&context.id);
        self.add(context);
    }

    /// Whether a context is present.
    pub(super) fn is_here(&self, id: &ContextId) -> bool {
        self.contexts.contains_key(id)
    }

    /// Counts the turns and the spending of a context that has ended.
    pub(super) fn count_closed(&mut self, id: ContextId, state: &State) {
        self.closed.insert(id, ContextTotals::of(state));
    }

    /// Closes a context that has ended.
    pub(super) fn close(&mut self, id: &ContextId) {
        if let Some(context) = self.contexts.remove(id) {
            self.count_closed(id.clone(), &context.state);
        }
    }

    /// The spending of each context.
    pub(super) fn spendings(&self) -> impl Iterator<Item = &Spent> {
        let here = self.contexts.values().map(|context| &context.state.spent);
        here.chain(self.elsewhere().map(|totals| &totals.spent))
    }

    fn elsewhere(&self) -> impl Iterator<Item = &ContextTotals> {
        self.away.values().chain(self.closed.values())
    }

    /// The root context alone, once the session has nothing else to do.
    pub(super) fn into_root(mut self) -> (Lock, Context) {
        let root = self.contexts.remove(&self.root).expect("every session has its root");
        (self.lock, root)
    }

    /// Publishes events that are on disk, once branches and worktrees have followed. A session whose setup fails is not
    /// published.
    pub(super) fn announce(&mut self) {
        self.contexts.values_mut().for_each(Context::announce);
    }

    /// Runs work on the root context that may write.
    pub(super) fn at_root<T>(&mut self, work: impl FnOnce(&mut Context) -> Result<T, Error>) -> Result<T, Error> {
        let done = tokio::task::block_in_place(|| work(self.root_mut()));
        self.announce();
        done
    }

    /// Hands over the worktrees of a context and starts its assignment.
    pub(super) fn set_to_work(
        &mut self,
        assignment: Assignment,
        reports: mpsc::Sender<(ContextId, WorkerReport)>,
    ) -> Running {
        let context = self.context_mut(&assignment.context);
        let workspace = context.workspace.take().expect("the worktrees are back when no node runs");
        self.executor.hand_over(&assignment.context, workspace);
        self.executor.start(assignment, reports)
    }

    /// Takes back the worktrees of a context whose assignment has ended.
    pub(super) fn take_back(&mut self, id: &ContextId) -> Result<(), Error> {
        let workspace = self.executor.take_back(id);
        let context = self.context_mut(id);
        let lost = || Error::Worker { node: context.here(), why: "its worktrees are lost".into() };
        context.workspace = Some(workspace.ok_or_else(lost)?);
        Ok(())
    }

    /// Sets a callback for all work that starts, with its assignment.
    pub fn watch(&mut self, watch: WorkWatch) {
        self.executor.watch = Some(watch);
    }

    /// Whether the repository has a checkout.
    pub fn has_checkout(&self) -> bool {
        self.repo.workdir().is_some()
    }

    /// The agents of its nodes.
    pub fn agents(&self) -> &Roster {
        &self.engine.agents
    }

    /// Whether it was asked to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.plan.cancel.is_stopped()
    }

    /// Whether it was cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.plan.cancel.is_cancelled()
    }

    /// Subscribes to its events from now on.
    pub fn events(&self) -> Subscription {
        self.engine.events.subscribe()
    }

    /// The repository it works in.
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    /// The worktrees, while no node runs.
    pub fn workspace(&self) -> Option<&Workspace> {
        self.root().workspace.as_ref()
    }

    /// Its repositories.
    pub fn repos(&self) -> &SessionRepos {
        &self.plan.repos
    }

    /// Its branches by repository, which follow the record.
    pub fn branches(&self) -> impl Iterator<Item = (&RepoName, &BranchFollower)> {
        self.root().followers.iter()
    }

    /// Checks that no other process moved the session's branches.
    pub fn check_branch(&self) -> Result<(), Error> {
        Ok(self.root().check_branches()?)
    }

    /// Takes the warnings not yet reported.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        self.contexts.values_mut().flat_map(Context::take_warnings).collect()
    }

    /// Fails if another machine has continued it.
    pub(super) fn check_own(&self) -> Result<(), Error> {
        match self.plan.push.elsewhere() {
            Some(remote) => Err(Error::ContinuedElsewhere { run: self.plan.run.clone(), remote: remote.to_owned() }),
            None => Ok(()),
        }
    }

    /// Has the limits of a run count what these runs spend as well.
    pub fn share_budget(&mut self, ledger: &RunLedger) {
        self.run_ledger = Some(ledger.clone());
    }

    /// The number of turns of all its contexts.
    pub fn turns(&self) -> u64 {
        let here = self.contexts.values().map(|context| context.state.own_turns());
        here.chain(self.elsewhere().map(|totals| totals.turns)).sum()
    }

    /// The total spending of its contexts.
    pub fn spent(&self) -> Amount {
        self.spent_by(|spent| spent.total)
    }

    pub(super) fn spent_by(&self, amount: impl Fn(&Spent) -> Amount) -> Amount {
        self.spendings().fold(Amount::default(), |sum, spent| sum + amount(spent))
    }
}

/// Opens the queues of the mirror and of pushes, these with the refs that are there: those of an earlier run may not have been pushed.
fn open_queue(engine: &Arc<Engine>, plan: &mut SessionPlan, root: &State) -> Vec<Warning> {
    let source = PushSource { run: &plan.run, repos: &plan.repos, cancel: &plan.cancel };
    let (queue, warnings) = PushQueue::open(engine, &source);
    plan.push = queue;
    if let Some(address) = &engine.mirror {
        let (warn, left) = (Arc::clone(engine), Arc::clone(&engine.supervisor));
        let warn = Box::new(move |warning| warn.warn(warning));
        let hooks = MirrorHooks { warn, left: Box::new(move |ended| left.leave_pushes(ended)) };
        plan.mirror = MirrorQueue::open(plan.repos.record(), &plan.run, address, plan.cancel.clone(), hooks);
    }
    if !plan.push.is_open() {
        return warnings;
    }
    let mut notes = Vec::new();
    let mut note = |repo: &RepoName, refs: Result<Vec<(String, CommitId)>, git::Error>| {
        // What cannot be read now is noted when it moves.
        let refs = refs.unwrap_or_default().into_iter();
        notes.extend(refs.map(|(name, commit)| RefNote { repo: repo.clone(), name, commit }));
    };
    let is_own = |name: &str| context_of_ref(name).is_some_and(|context| plan.run.has(&context));
    let records = plan.repo().refs().list(&format!("{SESSIONS}{}/", plan.run.session));
    note(plan.repos.record_name(), records.map(|all| all.into_iter().filter(|(name, _)| is_own(name)).collect()));
    for (name, branch) in &plan.started.branches {
        let Some(repo) = plan.repos.get(name) else { continue };
        let own = branch_ref(branch);
        let at = repo.refs().find(&own).map(|at| at.map(|at| (own, at)).into_iter().collect());
        note(name, at);
        let parallel = format!("refs/heads/{}", parallel_branches(&plan.started, &plan.run.session, branch));
        let is_own =
            |name: &str| branch_context(name).is_some_and(|context| plan.run.has(&context) && context != plan.run.root);
        let parallel = repo.refs().list(&parallel);
        note(name, parallel.map(|all| all.into_iter().filter(|(name, _)| is_own(name)).collect()));
    }
    notes.extend(plan.work_in_others(root));
    plan.push.note(notes);
    warnings
}

/// The context whose records a ref holds.
fn context_of_ref(name: &str) -> Option<ContextId> {
    name.rsplit('/').next()?.parse().ok()
}

/// The context whose branch it is.
fn branch_context(name: &str) -> Option<ContextId> {
    let branch = name.strip_prefix("refs/heads/")?.parse().ok()?;
    context_of_branch(&branch).map(|(_, context)| context)
}

/// Moves the branches of an ended session to its record.
pub(super) fn bring_up(session: &mut Session) -> Result<(), Error> {
    let root = session.root_mut();
    worktrees::make_followers(root);
    Ok(root.followers.values_mut().try_for_each(BranchFollower::catch_up_after_end)?)
}
