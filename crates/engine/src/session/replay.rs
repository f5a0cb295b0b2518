//! Begins a replay: a run of its own that goes on from a point of another one, to which nothing is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::context::OpenedContext;
use super::point::RunPoint;
use super::session_plan::SessionPlan;
use super::start::OnOpen;
use super::start_request::refuse_clash;
use super::{Session, fork, resume};
use crate::env::{Engine, Error, Locks, SessionRepos, secret_check};
use crate::view::recorded_pipeline;
use git::record::{self, Batch, History, Recorder, contexts};
use git::workspace::{context_of_branch, parallel_branches};
use pleach_core::clock;
use pleach_core::event::{ContextForked, ForkKind, PipelineStarted, Recorded, ReplayChanges, Replayed, RewindVia};
use pleach_core::ids::{BranchName, ContextId, NodeId, RepoName, RunId};
use pleach_core::plan::join_point::join_of;

/// What a replay is to do.
#[derive(Debug, Clone, Default)]
pub struct ReplayOptions {
    /// The node it begins with on the code of the point, instead of where the run was.
    pub begins: Option<NodeId>,
    /// How an agent goes on that was in the middle of its node, if that matters.
    pub via: Option<RewindVia>,
    /// What it does otherwise.
    pub changes: ReplayChanges,
}

impl ReplayOptions {
    /// What the replay is started with.
    pub fn started(&self, point: &RunPoint) -> PipelineStarted {
        let mut started = point.started.clone();
        started.changed_by(&self.changes);
        started.task = started.task.filter(|_| self.changes.pipeline.is_none());
        started
    }

    /// Whether its pipeline can go on where the run was: it has the nodes, and the fan-outs they are in.
    pub fn check(&self, point: &RunPoint) -> Result<(), Error> {
        let unfit = |why: String| Err(Error::PipelineUnfit { why });
        if self.changes.pipeline.is_none() {
            return match &point.started.task {
                Some(task) => unfit(format!("that of task {} runs in its tree alone", task.id)),
                None => Ok(()),
            };
        }
        let pipeline = recorded_pipeline(&self.started(point))?;
        for (context, state) in &point.states {
            let begins = self.begins.as_ref().filter(|_| *context == point.run.root);
            let Some(node) = begins.or(state.next_node()) else { continue };
            if pipeline.node(node).is_none() {
                return unfit(format!("it has no node `{node}`, where `{context}` goes on"));
            }
            let open = state.fan_out.as_ref().filter(|fan_out| !fan_out.is_over && begins.is_none());
            if let Some(fan_out) = open.filter(|fan_out| join_of(&pipeline, &fan_out.node) != Some(&fan_out.join)) {
                return unfit(format!("the branches of `{}` do not join at `{}` in it", fan_out.node, fan_out.join));
            }
        }
        Ok(())
    }
}

/// Starts a replay without running anything. `opened` is called once it is recorded, before its worktrees are created.
pub async fn start_replay(
    engine: Arc<Engine>,
    repos: SessionRepos,
    point: &RunPoint,
    options: &ReplayOptions,
    opened: OnOpen<'_>,
) -> Result<Session, Error> {
    let mut session = tokio::task::block_in_place(|| open_replay(engine, repos, point, options))?;
    session.plan.push.claim().await;
    session.check_own()?;
    opened(&session);
    resume::go_on(&mut session).await?;
    Ok(session)
}

/// Records a replay, which has no worktree yet. Blocks.
fn open_replay(
    engine: Arc<Engine>,
    repos: SessionRepos,
    point: &RunPoint,
    options: &ReplayOptions,
) -> Result<Session, Error> {
    check_secrets(&engine, &options.changes)?;
    options.check(point)?;
    let repo = repos.record().clone();
    let RunPoint { run: of, cut, started, .. } = point;
    let to = *cut.get(&of.root).ok_or_else(|| record::Error::Missing { session: of.session.clone() })?;
    let history = History::up_to(&repo, &of.session, &of.root, to)?;
    let before = point.root()?;
    let mut number = next_number(&repos, point)?;
    loop {
        let run = RunId { session: of.session.clone(), root: ContextId::of_replay(number) };
        number += 1;
        let locks = Locks::take(&repo, &run)?;
        let branches = branches(&repos, point, &run.root)?;
        let node_id = options.begins.clone().or_else(|| before.next_node().cloned());
        let Some(node_id) = node_id else { return Err(Error::NothingFollows { run: of.clone() }) };
        let (begins, via, changes) = (options.begins.clone(), options.via, options.changes.clone());
        let replayed = Replayed { turn: point.turn.clone(), to, cut: cut.clone(), begins, via, changes };
        let fork = ContextForked {
            from: of.root.clone(),
            context: run.root.clone(),
            kind: ForkKind::Replay,
            node_id,
            base: before.work.clone(),
            branches,
            join: None,
            replayed: Some(Box::new(replayed)),
            extra: Default::default(),
        };
        let event = engine.without_secrets(Recorded { at: clock::now(), event: fork.clone().into() });
        let mut state = before.clone();
        state.apply(&event)?;
        let (session, redactor) = (run.session.clone(), engine.redactor.clone());
        let mut recorder = Recorder::replay(repo.clone(), session, run.root.clone(), redactor, history.end(before));
        let batch = Batch {
            summary: format!("replay {of} from {}", point.name()),
            work: state.work.get(repos.record_name()).copied().into_iter().collect(),
            events: vec![event],
            ..Batch::default()
        };
        match recorder.append(repo.writer(), &batch) {
            // Another process was first.
            Err(record::Error::Exists { .. }) => continue,
            other => other?,
        };
        let mut started = started.clone();
        started.replayed_as(&fork);
        let pipeline = recorded_pipeline(&started)?;
        let Locks { session: lock, mut worktrees } = locks;
        let root_lock = worktrees.remove(&run.root).expect("the lock of the root's worktree was taken");
        let events = history.events().count() + 1;
        let opened = OpenedContext {
            id: run.root.clone(),
            state,
            recorder,
            lock: root_lock,
            workspace: None,
            events,
            written: batch.events,
        };
        let registered = engine.supervisor.register(&repo, &run, &engine.cancel);
        let plan = SessionPlan::new(run, started, pipeline, repos, None, registered.cancel.clone())?;
        let mut session = Session::new(engine, registered, repo, plan, lock, opened);
        fork::open_forks(&mut session, worktrees)?;
        return Ok(session);
    }
}

/// What is recorded can be pushed.
fn check_secrets(engine: &Engine, changes: &ReplayChanges) -> Result<(), Error> {
    secret_check::inputs(&engine.redactor, &changes.inputs)?;
    if let Some(text) = &changes.prompt_append {
        secret_check::inputs(&engine.redactor, &BTreeMap::from([("--prompt-append".to_owned(), text.clone())]))?;
    }
    if let Some(pipeline) = &changes.pipeline {
        secret_check::pipeline(&engine.redactor, &pipeline.dot_path, &pipeline.dot, &pipeline.files)?;
    }
    Ok(())
}

/// The number of the next replay: no ref here or brought from a remote has it. Creating the ref of its records decides.
fn next_number(repos: &SessionRepos, point: &RunPoint) -> Result<u32, Error> {
    let session = &point.run.session;
    let mut numbers: Vec<u32> = Vec::new();
    let number = |context: &ContextId| context.run_root().replay_number();
    numbers.extend(contexts(repos.record(), session)?.iter().filter_map(number));
    for (_, repo) in repos.iter() {
        for prefix in ["refs/heads/", "refs/pleach/remote/", "refs/pleach/keep/"] {
            let names = repo.refs().names(prefix)?;
            let names = names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse::<BranchName>().ok());
            let own = names.filter_map(|branch| context_of_branch(&branch)).filter(|(id, _)| id == session);
            numbers.extend(own.filter_map(|(_, context)| number(&context)));
        }
    }
    Ok(numbers.into_iter().max().unwrap_or_default() + 1)
}

/// The branches of a replay, beside those of its session.
fn branches(repos: &SessionRepos, point: &RunPoint, root: &ContextId) -> Result<BTreeMap<RepoName, BranchName>, Error> {
    let beside = |(name, branch): (&RepoName, &BranchName)| {
        let branch = format!("{}{root}", parallel_branches(&point.started, &point.run.session, branch));
        if let Some(repo) = repos.get(name) {
            refuse_clash(repo, &branch)?;
        }
        Ok((name.clone(), BranchName::new(branch).map_err(|error| Error::Name(error.to_string()))?))
    };
    point.started.branches.iter().map(beside).collect()
}
