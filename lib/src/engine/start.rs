//! Starting a session: lock, first record, branch, working copy, in that order. A crash in between leaves a session
//! that can be resumed, or nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::branch::PATIENCE;
use super::locks::Locks;
use super::task::{TREE_FILE, TaskStart, shared_copy};
use super::worker::own_refs;
use super::{Engine, Error, Observer, Opened, RemoveError, Session, remove, unsecret};
use crate::clock;
use crate::event::{
    Commits, Event, PauseReason, PipelineStarted, Recorded, SessionBranchCreated, Snapshot, Warning, WarningCode,
    WorktreeCreated,
};
use crate::git::{Repo, Scan, Worktree};
use crate::ids::{CommitId, ContextId, RepoName, RepoPath, SessionId};
use crate::plan::pipeline::Pipeline;
use crate::process::{Command, Exit, Limits};
use crate::record::{self, Batch, Recorder};
use crate::state::{self, Phase, State};
use crate::text::listed;
use crate::workspace::{
    self, KEEP, Position, Scratch, WorkingCopy, branch_ref, default_worktree_base, new_session_id, session_branch,
};

/// Is told of a session that is on record and about to get its files, which may take long.
pub type OnOpen<'a> = &'a mut (dyn FnMut(&Session) + Send);

/// How many paths a message names.
const NAMED: usize = 10;

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
        unsecret::pipeline(&engine.redactor, &request.dot_path, &request.dot, &request.files)?;
        unsecret::inputs(&engine.redactor, &request.inputs)?;
        tokio::task::block_in_place(|| engine.check_place(&request.repo, &request.repo_name))?;
        let session = tokio::task::block_in_place(|| Self::open_new(engine, request, None))?;
        opened(&session);
        Ok(session.make_first_copy().await?.0)
    }

    /// Branch and working copy of a session that was just opened. Where the working copy cannot be made, nothing is left of
    /// the session: nobody has begun to work in it.
    pub(super) async fn make_first_copy(mut self) -> Result<(Self, Option<String>), Error> {
        let is_first = !has_branch(&self.repo, &self.started)?;
        match self.make_copy().await {
            Ok(kept) => Ok((self, kept)),
            Err(error) => {
                if self.copy.is_none() {
                    // A session that is left all the same can be resumed or removed; why it is one is what counts.
                    let _ = tokio::task::block_in_place(|| self.withdraw(is_first));
                }
                Err(error)
            }
        }
    }

    /// Removes the record, and the branch if it was made for it.
    fn withdraw(self, with_branch: bool) -> Result<(), RemoveError> {
        let branches = self.started.branches.values().filter(|_| with_branch);
        for branch in branches {
            let (name, tip) = (branch_ref(branch), self.state.on_branches().values().next().copied());
            if tip.is_some() && self.repo.reference(&name)? == tip {
                remove::delete(&self.repo, vec![(name, tip)])?;
            }
        }
        let is_shared = self.started.task.is_some();
        if !is_shared {
            let name = self.started.branches.keys().next().expect("every session has a branch");
            let path = self.copy_path(name);
            Worktree::remove(&self.repo, &path)?;
            remove::remove_run_directory(&path)?;
        }
        remove::delete(&self.repo, remove::records(&self.repo, &self.id)?)?;
        match is_shared {
            true => self.locks.remove_session().map_err(Error::from)?,
            false => self.locks.remove().map_err(Error::from)?,
        }
        Ok(())
    }

    /// Makes the first record, which is the session.
    pub(super) fn open_new(
        engine: Arc<Engine>,
        request: StartRequest,
        task: Option<&TaskStart>,
    ) -> Result<Self, Error> {
        let repo = request.repo.clone();
        let start_node = start_node(&request.pipeline)?;
        engine.refuse_uncounted(&repo, &request.pipeline)?;
        loop {
            let id = new_session_id();
            let (started, locks) = match task {
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
            let recorder = Recorder::create(repo.clone(), id.clone(), ContextId::main(), engine.redactor.clone());
            let mut recorder = recorder.on_task(task.map(|task| task.of.id.clone()));
            let at = clock::now();
            let events = std::iter::once(started.clone().into()).chain(task.map(|task| task.attempt.clone().into()));
            let events: Vec<Recorded> = events.map(|event| engine.without_secrets(Recorded { at, event })).collect();
            let mut state = State::new(start_node.clone());
            for event in &events {
                state.apply(event)?;
            }
            let batch = Batch {
                summary: format!("start {}", started.name),
                work: started.base.values().copied().chain(task.and_then(|task| task.attempt.laid)).collect(),
                files: task.map(|task| (TREE_FILE.to_owned(), task.document)).into_iter().collect(),
                events,
                ..Batch::default()
            };
            match recorder.append(repo.writer(), &batch) {
                Err(record::Error::Exists { .. }) => continue,
                other => other?,
            };
            let opened = Opened { id, started, pipeline: request.pipeline, state, start_node, recorder, locks };
            let mut session = Self::new(engine, repo, opened);
            session.events_since_state = batch.events.len();
            session.unseen = batch.events;
            return Ok(session);
        }
    }

    /// Branch and working copy, where they are missing. Both follow from the record, so this is also how a session
    /// comes back on another machine. Returns where uncommitted work was saved.
    pub(super) async fn make_copy(&mut self) -> Result<Option<String>, Error> {
        let (name, branch) = self.started.branches.iter().next().expect("every session has a branch");
        let (name, branch) = (name.clone(), branch.clone());
        let base_of = |snapshot: &Snapshot| *snapshot.get(&name).expect("every snapshot names the repository");
        let base = base_of(&self.state.base);
        let at = Position {
            base: base_of(&self.node_base()),
            tip: base_of(&self.state.work),
            branch: base_of(&self.state.on_branches()),
        };
        let mut events: Vec<Event> = Vec::new();
        if self.bring_branch(&branch, at.branch)? {
            let (repo, branch) = (name.clone(), branch.clone());
            events.push(SessionBranchCreated { repo, branch, base, extra: Default::default() }.into());
        }
        if let Some(mut copy) = self.copy.take() {
            // A session before this one worked here, in this process.
            let kept = tokio::task::block_in_place(|| copy.hand_over(self.id.clone(), branch, at))?;
            copy.hear(self.branch_news());
            self.warnings.extend(copy.tie()?.iter().map(|place| made_way(place)));
            self.copy = Some(copy);
            self.record_making(events)?;
            return Ok(kept);
        }
        // A run that was killed could not remove its temporary files.
        tokio::task::block_in_place(|| Scratch::clear_up(&self.engine.state_dir));
        self.engine.worktrees.hide_base(&self.repo)?;
        let path = self.copy_path(&name);
        let stays = Worktree::take_along(&self.repo, &path, &self.copy_name())?;
        // What lies there is none of a session that begins.
        if let Some((place, why)) = stays.filter(|_| self.has_begun()) {
            let place = place.display();
            self.warnings.push(WarningCode::WorktreeAbandoned.with(format!(
                "the working copy at `{place}` is not gone on with: {why}; what was not committed there stays there"
            )));
        }
        // The copy of a target's tasks outlives its sessions: a new one does not know whose files lie there.
        let belongs = self.started.task.is_none() || self.has_begun();
        let rules = self.engine.worktrees.left_out();
        let mut worktree =
            tokio::task::block_in_place(|| Worktree::bring(&self.repo, &path, at.base, &rules, belongs))?;
        let odd = worktree.take_cleared();
        if !odd.is_empty() {
            let odd = listed(odd, NAMED);
            let text = format!("changed where no agent should write before this run, and put back or removed: {odd}");
            self.warnings.push(WarningCode::WorktreeRepaired.with(text));
        }
        worktree.exclude(&self.engine.worktrees.never_commit());
        let is_set_up = worktree.is_set_up();
        let carries = self.started.task.as_ref().map_or(Commits::Turns, |task| task.commits);
        let limits = self.engine.worktrees.limits.clone();
        let (repo, id) = (self.repo.clone(), self.id.clone());
        let mut copy = WorkingCopy::new(repo, name.clone(), branch, id, worktree, (carries, at), limits)?;
        copy.hear(self.branch_news());
        let (kept, absent) = tokio::task::block_in_place(|| {
            if self.started.task.is_some() && !self.has_begun() {
                copy.refuse_submodules()?;
            }
            let kept = copy.recover()?;
            let is_other = copy.leave_out(&self.engine.worktrees.left_out())?;
            let absent = if is_other || !is_set_up { copy.absent(&self.engine.worktrees)? } else { Vec::new() };
            Ok::<_, Error>((kept, absent))
        })?;
        self.warnings.extend(absent);
        self.warnings.extend(copy.tie()?.iter().map(|place| made_way(place)));
        self.copy = Some(copy);
        // A working copy whose setup failed or was cut short is there, but not ready.
        if !is_set_up {
            self.engine.worktrees.copy_ignored(self.repo.workdir(), &path)?;
            self.set_up(&mut |_| {}).await?;
            self.begin_with_setup(None)?;
            let name = self.main_copy_name();
            let repo = self.started.branches.keys().next().expect("every session has a branch").clone();
            events.push(WorktreeCreated { repo, name, extra: Default::default() }.into());
        }
        self.record_making(events)?;
        Ok(kept)
    }

    /// Whether anything of the session has run.
    fn has_begun(&self) -> bool {
        !self.state.nodes.is_empty() || !matches!(self.state.position, state::Position::Ready { .. })
    }

    fn record_making(&mut self, events: Vec<Event>) -> Result<(), Error> {
        if events.is_empty() {
            return Ok(());
        }
        let summary = "make the session's branch and working copy";
        if self.started.task.is_some() {
            // The working copy stays when the task ends, so nobody has to find it by this.
            return self.put_off(summary, events);
        }
        let mut seen = Vec::new();
        let batch = Batch { summary: summary.into(), ..Batch::default() };
        let writer = self.repo.writer();
        self.record(writer, batch, events, clock::now(), &mut |event| seen.push(event.clone()))?;
        self.unseen.extend(seen);
        Ok(())
    }

    fn main_copy_name(&self) -> String {
        ContextId::main().to_string()
    }

    pub(super) fn copy_path(&self, name: &RepoName) -> PathBuf {
        self.engine.worktree_base(&self.repo, name).join(self.copy_name())
    }

    /// Where the working copy lies, below all of its repository.
    fn copy_name(&self) -> PathBuf {
        match &self.started.task {
            // The tasks of a target are worked on one after another, and share what git ignores: caches, builds.
            Some(task) => shared_copy(&task.target),
            None => Path::new(self.id.as_str()).join(self.main_copy_name()),
        }
    }

    /// Creates the session branch, or moves it forward to the newest record. A branch that stands anywhere else is
    /// left alone and is an error. Returns whether it was created.
    fn bring_branch(&mut self, branch: &crate::ids::BranchName, tip: CommitId) -> Result<bool, Error> {
        let name = branch_ref(branch);
        match self.repo.reference(&name)? {
            None => {
                self.repo.swap(&name, None, tip, "pleach: session").map_err(crate::git::Error::from)?;
                Ok(true)
            }
            Some(at) if at == tip => Ok(false),
            // Steps may have been built anew: what the branch stood at was kept before they were recorded.
            Some(at) if self.repo.is_ancestor(at, tip)? || self.is_kept(at)? => {
                self.bring_from(at, tip, "pleach: resume", PATIENCE)?;
                Ok(false)
            }
            Some(to) => Err(workspace::Error::BranchMoved { branch: branch.clone(), to, tip }.into()),
        }
    }

    fn is_kept(&self, commit: CommitId) -> Result<bool, Error> {
        let Some(task) = &self.started.task else { return Ok(false) };
        let kept = self.repo.references(&format!("{KEEP}{}-", task.id))?;
        Ok(kept.iter().any(|(_, kept)| *kept == commit))
    }

    /// Sets the working copy up again where something of that had to go: git ignored it, and does so no more.
    pub(super) async fn bring_setup(&mut self, observe: Observer<'_>) -> Result<(), Error> {
        let copy = self.copy.as_mut().expect("the working copy is back when no node runs");
        if !copy.has_lost_setup() {
            return Ok(());
        }
        let (own, kept) = own_refs(copy, &self.started.name, &self.id);
        let (before, look) = tokio::task::block_in_place(|| {
            let before = copy.before_setup()?;
            // Code of agents may run with it: what it does beyond the working copy is seen when the next node ends.
            Ok::<_, workspace::Error>((before, copy.look_before(&own, &kept)?))
        })?;
        self.set_up(observe).await?;
        if self.engine.worktrees.setup.is_some() {
            let why = "git had come to see what it had made, which was removed";
            let text = format!("`worktrees.setup` has run again: {why}");
            self.warnings.push(WarningCode::SetupRanAgain.with(text));
        }
        self.begin_with_setup(Some(before))?;
        self.copy.as_mut().expect("the working copy is back when no node runs").keep_look(look);
        Ok(())
    }

    /// Takes what the setup has changed for what the working copy begins with, and says what that is. Where it has run
    /// once more, what was changed before it is given.
    fn begin_with_setup(&mut self, before: Option<Scan>) -> Result<(), Error> {
        let is_changed = self.engine.worktrees.setup.is_some();
        let copy = self.copy.as_mut().expect("the working copy is back when no node runs");
        let changed = tokio::task::block_in_place(|| match before.filter(|_| is_changed) {
            Some(before) => copy.begin_again(&before),
            None => copy.begin_here(is_changed),
        })?;
        if changed.is_empty() {
            return Ok(());
        }
        let named = |(path, is_tracked): &(RepoPath, bool)| match is_tracked {
            true => format!("`{path}` (tracked)"),
            false => format!("`{path}`"),
        };
        self.warnings.push(WarningCode::SetupChangedFiles.with(format!(
            "`worktrees.setup` has changed what git does not ignore: {}; no commit has that until somebody changes it further: have git ignore what is generated, and commit yourself what belongs to the repository",
            listed(changed.iter().map(named), NAMED)
        )));
        Ok(())
    }

    async fn set_up(&mut self, observe: Observer<'_>) -> Result<(), Error> {
        let done = self.run_setup().await;
        // It can go on, and its record says so, unless it is over already and waits to land.
        if matches!(done, Err(Error::Interrupted { .. })) && self.state.phase == Phase::Running {
            self.pause(PauseReason::Interrupted, observe)?;
        }
        done
    }

    async fn run_setup(&self) -> Result<(), Error> {
        let (Some(script), Some(copy)) = (&self.engine.worktrees.setup, &self.copy) else { return Ok(()) };
        let scratch = self.engine.scratch()?;
        let mut command = Command::shell(script, copy.path());
        command.env = self.engine.temporary(scratch.as_ref());
        let bounds = self.engine.bounds(copy, scratch.as_ref(), None);
        command.sandbox = bounds.map(|bounds| Arc::new(bounds.of_command()));
        command.limits = Limits { output: 64 * 1024, ..Limits::default() };
        command.lock = Some(self.locks.worktree.file());
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
            Exit::Cancelled if self.engine.cancel.is_called_off() => Error::CalledOff { session },
            Exit::Cancelled => Error::Interrupted { session },
            exit => Error::Setup { session, command: script.clone(), exit: exit.to_string(), output: last },
        })
    }
}

/// What is said of something that stood in the way of a working copy.
pub(super) fn made_way(place: &Path) -> Warning {
    WarningCode::MovedAside.with(format!(
        "what stood in the way of the working copy is now at `{}`; delete it if nobody needs it",
        place.display()
    ))
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
        base.unwrap_or_else(|| default_worktree_base(&self.state_dir, repo.common_dir(), name))
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
