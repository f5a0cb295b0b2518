//! Starting a session: lock, first record, branch, working copy, in that order. A crash in between leaves a session
//! that can be resumed, or nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::context::Opened;
use super::locks::Locks;
use super::session::SessionPlan;
use super::task::{TREE_FILE, TaskStart};
use super::{Engine, Error, RemoveError, Session, remove, secret_check};
use crate::clock;
use crate::event::{Event, PauseReason, PipelineStarted, Recorded, Snapshot};
use crate::git::{Repo, Worktree};
use crate::ids::{ContextId, RepoName, SessionId};
use crate::plan::pipeline::Pipeline;
use crate::record::{self, Batch, Recorder};
use crate::state::{Phase, State};
use crate::workspace::{self, branch_ref, default_worktree_base, new_session_id, session_branch};

/// Is told of a session that is on record and about to get its files, which may take long.
pub type OnOpen<'a> = &'a mut (dyn FnMut(&Session) + Send);

/// What a session is started with.
#[derive(Debug)]
pub struct StartRequest {
    /// The repository.
    pub repo: Repo,
    /// Its name in the workspace.
    pub repo_name: RepoName,
    /// What session branches begin with.
    pub branch_prefix: String,
    /// The pipeline, checked.
    pub pipeline: Pipeline,
    /// The file it was read from, byte for byte.
    pub dot: String,
    /// Where that file is, for messages.
    pub dot_path: String,
    /// The files it names.
    pub files: BTreeMap<String, String>,
    /// `k=v` inputs.
    pub inputs: BTreeMap<String, String>,
    /// The configuration, without keys and machine paths.
    pub config: Value,
    /// No agent is configured.
    pub simulated: bool,
}

impl Session {
    /// Starts a session. Nothing of it runs yet. `opened` is told of it once it is on record, before it gets its files.
    pub async fn start(engine: Arc<Engine>, request: StartRequest, opened: OnOpen<'_>) -> Result<Self, Error> {
        secret_check::pipeline(&engine.redactor, &request.dot_path, &request.dot, &request.files)?;
        secret_check::inputs(&engine.redactor, &request.inputs)?;
        tokio::task::block_in_place(|| engine.check_place(&request.repo, &request.repo_name))?;
        let session = tokio::task::block_in_place(|| Self::open_new(engine, request, None))?;
        opened(&session);
        Ok(session.make_first_copy().await?.0)
    }

    /// Branch and working copy of a session that was just opened. Where the working copy cannot be made, nothing is left of
    /// the session: nobody has begun to work in it.
    pub(super) async fn make_first_copy(mut self) -> Result<(Self, Option<String>), Error> {
        let is_first = !has_branch(&self.repo, self.started())?;
        match self.make_copy().await {
            Ok(kept) => Ok((self, kept)),
            Err(error) => {
                if self.root().workspace.is_none() {
                    // A session that is left all the same can be resumed or removed; why it is one is what counts.
                    let _ = tokio::task::block_in_place(|| self.withdraw(is_first));
                }
                Err(error)
            }
        }
    }

    /// Branch and working copy of the root context. A setup that is cut short pauses the session.
    pub(super) async fn make_copy(&mut self) -> Result<Option<String>, Error> {
        let made = self.root_mut().make_copy().await;
        self.pause_if_interrupted(made)
    }

    /// A session that was interrupted while it was set up can go on, and its record says so, unless it is over already and
    /// waits to land.
    pub(super) fn pause_if_interrupted<T>(&mut self, done: Result<T, Error>) -> Result<T, Error> {
        if matches!(done, Err(Error::Interrupted { .. })) && self.state().phase == Phase::Running {
            tokio::task::block_in_place(|| self.pause(PauseReason::Interrupted))?;
        }
        done
    }

    /// Removes the record, and the branch if it was made for it.
    fn withdraw(self, with_branch: bool) -> Result<(), RemoveError> {
        let (repo, plan) = (self.repo.clone(), Arc::clone(&self.plan));
        let (session, root) = self.into_root();
        let branches = plan.started.branches.iter().filter(|_| with_branch);
        for (of, branch) in branches {
            let (name, tip) = (branch_ref(branch), root.state.on_branches().get(of).copied());
            if tip.is_some() && repo.reference(&name)? == tip {
                remove::delete(&repo, vec![(name, tip)])?;
            }
        }
        let is_shared = plan.started.task.is_some();
        if !is_shared {
            for name in plan.started.branches.keys() {
                let path = root.copy_path(name);
                Worktree::remove(&repo, &path)?;
                remove::remove_run_directory(&path)?;
            }
        }
        remove::delete(&repo, remove::records(&repo, &plan.id)?)?;
        if !is_shared {
            root.lock.remove().map_err(Error::from)?;
        }
        session.remove().map_err(Error::from)?;
        Ok(())
    }

    /// Makes the first record, which is the session.
    pub(super) fn open_new(engine: Arc<Engine>, request: StartRequest, task: Option<TaskStart>) -> Result<Self, Error> {
        let repo = request.repo.clone();
        let start_node = start_node(&request.pipeline)?;
        engine.refuse_uncounted(&repo, &request.pipeline)?;
        loop {
            let id = new_session_id();
            let (started, locks) = match &task {
                Some(task) => (task.started(&request)?, Locks::beside(&repo, &id, task.seat.lock.clone())?),
                None => {
                    let started = request.started(&repo, &id)?;
                    // Somebody's, also where its record is not: a clone has branches alone.
                    if has_branch(&repo, &started)? {
                        continue;
                    }
                    (started, Locks::take(&repo, &id)?)
                }
            };
            // Here a session is opened; everybody else asks for its root.
            let root = ContextId::main();
            let recorder = Recorder::create(repo.clone(), id.clone(), root.clone(), engine.redactor.clone());
            let mut recorder = recorder.on_task(task.as_ref().map(|task| task.of.id.clone()));
            let at = clock::now();
            let attempt = task.as_ref().map(|task| task.attempt.clone());
            let laid = attempt.as_ref().and_then(|attempt| attempt.laid);
            let events = std::iter::once(started.clone().into()).chain(attempt.map(Event::from));
            let events: Vec<Recorded> = events.map(|event| engine.without_secrets(Recorded { at, event })).collect();
            let mut state = State::new(start_node.clone());
            for event in &events {
                state.apply(event)?;
            }
            let batch = Batch {
                summary: format!("start {}", started.name),
                work: started.base.values().copied().chain(laid).collect(),
                files: task.as_ref().map(|task| (TREE_FILE.to_owned(), task.document)).into_iter().collect(),
                events,
                ..Batch::default()
            };
            match recorder.append(repo.writer(), &batch) {
                Err(record::Error::Exists { .. }) => continue,
                other => other?,
            };
            let Locks { session, mut worktrees } = locks;
            let lock = worktrees.remove(&root).expect("the lock of the root's worktree was taken");
            let (job, workspace) = task.map(|task| (task.job, task.seat.workspace)).unzip();
            let opened = Opened {
                id: root,
                state,
                recorder,
                lock,
                workspace: workspace.flatten(),
                events: batch.events.len(),
                written: batch.events,
            };
            let registered = engine.supervisor.register(&repo, &id, &engine.cancel);
            let cancel = registered.cancel.clone();
            let plan = SessionPlan::new(id, started, request.pipeline, repo.clone(), job, cancel)?;
            return Ok(Self::new((engine, registered), repo, plan, session, opened));
        }
    }
}

impl Engine {
    /// Sees that a working copy can be made before there is a session that would need one.
    pub(super) fn check_place(&self, repo: &Repo, name: &RepoName) -> Result<(), Error> {
        repo.check_trusted()?;
        Ok(workspace::make_base(&self.worktree_base(repo, name))?)
    }

    /// Where the working copies of a repository live.
    pub(super) fn worktree_base(&self, repo: &Repo, name: &RepoName) -> PathBuf {
        let base = self.worktrees.base.clone();
        base.unwrap_or_else(|| default_worktree_base(&self.supervisor.state_dir, repo.common_dir(), name))
    }
}

impl StartRequest {
    fn started(&self, repo: &Repo, id: &SessionId) -> Result<PipelineStarted, Error> {
        let head = repo.head()?;
        let invalid = |error: crate::ids::InvalidId| Error::Name(error.to_string());
        let name = self.pipeline.name().map_err(invalid)?;
        let branch = session_branch(&self.branch_prefix, &name, id).map_err(invalid)?;
        refuse_clash(repo, branch.as_str())?;
        Ok(PipelineStarted {
            name,
            goal: self.pipeline.goal.clone(),
            dot: self.dot.clone(),
            dot_path: self.dot_path.clone(),
            files: self.files.clone(),
            inputs: self.inputs.clone(),
            config: self.config.clone(),
            base: Snapshot::from([(self.repo_name.clone(), head.commit)]),
            branches: BTreeMap::from([(self.repo_name.clone(), branch)]),
            target: head.branch,
            simulated: self.simulated,
            task: None,
            extra: Default::default(),
        })
    }
}

/// Whether a branch a session is to have is there already.
fn has_branch(repo: &Repo, started: &PipelineStarted) -> Result<bool, Error> {
    for branch in started.branches.values() {
        if repo.reference(&branch_ref(branch))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A branch that is a directory of another's name makes that name impossible. Found before anything is written, because
/// a session without a branch is of no use.
pub(super) fn refuse_clash(repo: &Repo, branch: &str) -> Result<(), Error> {
    for (end, _) in branch.match_indices('/') {
        let above = &branch[..end];
        if repo.reference(&format!("refs/heads/{above}"))?.is_some() {
            return Err(Error::Name(format!("git cannot have a branch `{branch}` beside your branch `{above}`")));
        }
    }
    Ok(())
}

/// The node a run begins at.
pub(super) fn start_node(pipeline: &Pipeline) -> Result<crate::ids::NodeId, Error> {
    match (pipeline.start(), pipeline.exit()) {
        (Some(start), Some(_)) => Ok(start.id.clone()),
        _ => Err(Error::Invalid { diagnostics: Vec::new() }),
    }
}
