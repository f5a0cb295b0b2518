//! Starting a session: lock, first record, branch, working copy, in that order. A crash in between leaves a session
//! that can be resumed, or nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::{Engine, Error, Session};
use crate::clock;
use crate::event::{Event, PipelineStarted, Recorded, SessionBranchCreated, Snapshot, WorktreeCreated};
use crate::git::{Repo, Worktree};
use crate::ids::{CommitId, ContextId, RepoName, SessionId};
use crate::plan::pipeline::Pipeline;
use crate::process::{Command, Exit, Limits};
use crate::record::{self, Batch, Recorder};
use crate::state::State;
use crate::workspace::{self, Lock, WorkingCopy, branch_ref, default_worktree_base, new_session_id, session_branch};

/// A file in a working copy's git directory, which git removes with it: its ignored files and its setup are there.
const SET_UP: &str = "pleach-set-up";

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
    /// Starts a session. Nothing of it runs yet.
    pub async fn start(engine: Arc<Engine>, request: StartRequest) -> Result<Self, Error> {
        request.refuse_secrets(&engine)?;
        let mut session = tokio::task::block_in_place(|| Self::open_new(engine, request))?;
        session.make_copy().await?;
        Ok(session)
    }

    fn open_new(engine: Arc<Engine>, request: StartRequest) -> Result<Self, Error> {
        let repo = request.repo.clone();
        let start_node = start_node(&request.pipeline)?;
        loop {
            let id = new_session_id();
            let lock = take_lock(&repo, &id)?;
            let worktree_lock = take_worktree_lock(&repo, &id)?;
            let started = request.started(&repo, &id)?;
            let mut recorder = Recorder::create(repo.clone(), id.clone(), ContextId::main(), engine.redactor.clone());
            let event = Recorded { at: clock::now(), event: started.clone().into() };
            let mut state = State::new(start_node.clone());
            state.apply(&event)?;
            let batch = Batch {
                summary: format!("start {}", started.name),
                events: vec![event.clone()],
                work: started.base.values().copied().collect(),
                ..Batch::default()
            };
            match recorder.append(repo.writer(), &batch) {
                Err(record::Error::Exists { .. }) => continue,
                other => other?,
            };
            return Ok(Self {
                id,
                started,
                pipeline: Arc::new(request.pipeline),
                state,
                engine,
                repo,
                recorder,
                copy: None,
                worktree_lock,
                unwritten: None,
                unseen: vec![event],
                responses: BTreeMap::new(),
                threads: BTreeMap::new(),
                interrupted: Vec::new(),
                degrade: false,
                events_since_state: 1,
                start_node,
                _lock: lock,
            });
        }
    }

    /// Branch and working copy, where they are missing. Both follow from the record, so this is also how a session
    /// comes back on another machine. Returns where uncommitted work was saved.
    pub(super) async fn make_copy(&mut self) -> Result<Option<String>, Error> {
        let (name, branch) = self.started.branches.iter().next().expect("every session has a branch");
        let (name, branch) = (name.clone(), branch.clone());
        let base_of = |snapshot: &Snapshot| *snapshot.get(&name).expect("every snapshot names the repository");
        let tip = base_of(&self.state.work);
        let head = base_of(&self.node_base());
        let base = base_of(&self.state.base);
        let mut events: Vec<Event> = Vec::new();
        if self.bring_branch(&branch, tip)? {
            let (repo, branch) = (name.clone(), branch.clone());
            events.push(SessionBranchCreated { repo, branch, base, extra: Default::default() }.into());
        }
        self.engine.worktrees.hide_base(&self.repo)?;
        let path = self.copy_path(&name);
        let exists = path.join(".git").exists();
        let mut worktree = tokio::task::block_in_place(|| match exists {
            true => Worktree::open(&self.repo, &path),
            false => {
                // git may still remember a working copy whose files are gone.
                if path.symlink_metadata().is_err() {
                    Worktree::remove(&self.repo, &path)?;
                }
                Worktree::add(&self.repo, &path, head)
            }
        })?;
        worktree.exclude(&self.engine.worktrees.never_commit());
        let set_up = worktree.git_dir().join(SET_UP);
        let mut copy =
            WorkingCopy::new(self.repo.clone(), name.clone(), branch, self.id.clone(), worktree, (head, tip))?;
        let kept = tokio::task::block_in_place(|| copy.recover())?;
        self.copy = Some(copy);
        // A working copy whose setup failed or was cut short is there, but not ready.
        if !set_up.exists() {
            self.engine.worktrees.copy_ignored(self.repo.workdir(), &path)?;
            self.set_up(&path).await?;
            std::fs::write(&set_up, "").map_err(|source| workspace::Error::Io {
                doing: "write",
                path: set_up,
                source,
            })?;
            let name = self.main_copy_name();
            let repo = self.started.branches.keys().next().expect("every session has a branch").clone();
            events.push(WorktreeCreated { repo, name, extra: Default::default() }.into());
        }
        if !events.is_empty() {
            let mut seen = Vec::new();
            let batch = Batch { summary: "make the session's branch and working copy".into(), ..Batch::default() };
            let writer = self.repo.writer();
            self.record(writer, batch, events, clock::now(), &mut |event| seen.push(event.clone()))?;
            self.unseen.extend(seen);
        }
        Ok(kept)
    }

    fn main_copy_name(&self) -> String {
        ContextId::main().to_string()
    }

    fn copy_path(&self, name: &RepoName) -> PathBuf {
        let base = self.engine.worktrees.base.clone();
        let base = base.unwrap_or_else(|| default_worktree_base(&self.engine.state_dir, &self.repo.common_dir(), name));
        base.join(self.id.as_str()).join(self.main_copy_name())
    }

    /// Creates the session branch, or moves it forward to the newest record. A branch that stands anywhere else is
    /// left alone and is an error. Returns whether it was created.
    fn bring_branch(&self, branch: &crate::ids::BranchName, tip: CommitId) -> Result<bool, Error> {
        let name = branch_ref(branch);
        let swap = |old, why| self.repo.swap(&name, old, tip, why).map_err(crate::git::Error::from);
        match self.repo.reference(&name)? {
            None => {
                swap(None, "pleach: session")?;
                Ok(true)
            }
            Some(at) if at == tip => Ok(false),
            Some(at) if self.repo.is_ancestor(at, tip)? => {
                swap(Some(at), "pleach: resume")?;
                Ok(false)
            }
            Some(to) => Err(workspace::Error::BranchMoved { branch: branch.clone(), to, tip }.into()),
        }
    }

    async fn set_up(&self, path: &Path) -> Result<(), Error> {
        let Some(script) = &self.engine.worktrees.setup else { return Ok(()) };
        let mut command = Command::shell(script, path);
        command.limits = Limits { output: 64 * 1024, ..Limits::default() };
        command.lock = Some(self.worktree_lock.file());
        let output = self.engine.spawner.run(command, &self.engine.cancel, &mut |_, _| {}).await?;
        if output.exit == Exit::Code(0) {
            return Ok(());
        }
        let text = format!("{}{}", output.stdout.to_text(), output.stderr.to_text());
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(20)..].join("\n");
        let last = self.engine.redactor.text(&last).into_owned();
        let session = self.id.clone();
        Err(match output.exit {
            Exit::Cancelled => Error::Interrupted { session },
            exit => Error::Setup { session, command: script.clone(), exit: exit.to_string(), output: last },
        })
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
            extra: Default::default(),
        })
    }

    /// The pipeline is recorded as it is, since it must be run again as it was. So it may hold no secret.
    fn refuse_secrets(&self, engine: &Engine) -> Result<(), Error> {
        let inputs = self.inputs.iter().map(|(key, value)| (format!("input `{key}`"), value));
        let files = self.files.iter().map(|(name, text)| (format!("`{name}`"), text));
        let texts = std::iter::once((format!("`{}`", self.dot_path), &self.dot)).chain(files).chain(inputs);
        for (what, text) in texts {
            let redacted = engine.redactor.text(text);
            if redacted != text.as_str() {
                let found = redacted.find("[redacted").map(|at| {
                    let rest = &redacted[at..];
                    rest[..rest.find(']').map_or(rest.len(), |end| end + 1)].to_owned()
                });
                return Err(Error::Secret { what, found: found.unwrap_or_default() });
            }
        }
        Ok(())
    }
}

/// A branch that is a directory of the session branch's name makes that name impossible. Found before anything is
/// written, because a session without a branch is of no use.
fn refuse_clash(repo: &Repo, branch: &str) -> Result<(), Error> {
    for (end, _) in branch.match_indices('/') {
        let above = &branch[..end];
        if repo.reference(&format!("refs/heads/{above}"))?.is_some() {
            return Err(Error::Name(format!("git allows no branch `{branch}` beside your branch `{above}`")));
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

pub(super) fn take_lock(repo: &Repo, id: &SessionId) -> Result<Lock, Error> {
    Ok(Lock::take(&repo.common_dir(), &lock_name(id), &format!("session {id}"))?)
}

pub(super) fn take_worktree_lock(repo: &Repo, id: &SessionId) -> Result<Lock, Error> {
    let what = format!("the working copy of session {id}");
    Ok(Lock::take(&repo.common_dir(), &format!("worktree-{id}-main"), &what)?)
}

/// The name of a session's lock.
pub fn lock_name(id: &SessionId) -> String {
    format!("session-{id}")
}
