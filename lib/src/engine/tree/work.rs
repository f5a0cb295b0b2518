//! Working a task: a session with a budget of attempts, from its start or from where an earlier run left it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::land::Tried;
use super::run::{TaskPipeline, TreeEnded, TreeRun, target_tip};
use super::{Error, GATE_PIPELINE, Note, Notes};
use crate::clock;
use crate::engine::task::{TaskJob, TaskStart, code_of};
use crate::engine::{Ended, Session, StartRequest};
use crate::event::{AttemptStarted, Outcome, TaskOf};
use crate::git::{CommitSpec, MergeError, Person, SwapError};
use crate::ids::{BranchName, CommitId, ContextId, NodeId, RepoPath, SessionId, TaskId};
use crate::plan::diagnostic::Severity;
use crate::plan::pipeline::Pipeline;
use crate::plan::{self, Inputs};
use crate::progress::{Status, TaskState};
use crate::record::History;
use crate::route;
use crate::schedule::{self, After, Failure, Reason};
use crate::state::{Phase, State};
use crate::step::report::{Report, TaskResult};
use crate::step::{Attempt, Step, StepKind, text};
use crate::workspace::{KEEP, branch_ref, phase_branch, task_branch};

/// What came of one thing that was next.
#[derive(Debug)]
pub(super) enum Worked {
    /// Look what is next.
    GoOn,
    /// A task is complete and landed.
    Done(TaskId),
    /// The run is over.
    Ended(TreeEnded),
}

/// Where a session on a task begins.
struct Beginning {
    branch: BranchName,
    /// What the session is built on.
    base: CommitId,
    /// What the task was built on before its first attempt.
    task_base: CommitId,
    /// The step after which it goes on.
    after: Option<StepKind>,
    /// What the newest step on the branch says.
    status: Option<String>,
    /// Files of an earlier budget, laid over the base.
    laid: Option<CommitId>,
}

impl TreeRun<'_> {
    /// The sessions of this tree's tasks that have not landed, by their records.
    pub(super) fn find_unfinished(&self) -> Result<BTreeMap<TaskId, SessionId>, Error> {
        let mut found: BTreeMap<TaskId, (jiff::Timestamp, SessionId)> = BTreeMap::new();
        for id in History::sessions(&self.repo)? {
            // A session nobody can read is none this run could go on with; its own commands say what is wrong with it.
            let Ok(Some(newest)) = History::task_summary(&self.repo, &id) else { continue };
            // Most have landed, and their last record says so in its first line.
            if newest.starts_with("landed on ") {
                continue;
            }
            let Ok(history) = History::newest(&self.repo, &id, &ContextId::main()) else { continue };
            let Some(task) = history.started.task.as_ref() else { continue };
            let newer = found.get(&task.id).is_none_or(|(at, _)| *at < history.started_at);
            if self.is_unfinished(&history, task)? && newer {
                found.insert(task.id.clone(), (history.started_at, id));
            }
        }
        Ok(found.into_iter().map(|(task, (_, id))| (task, id)).collect())
    }

    /// Whether a session is one this run may go on with. Where its task has landed, and its process ended before it could
    /// say so, that is recorded now.
    fn is_unfinished(&self, history: &History, task: &TaskOf) -> Result<bool, Error> {
        if task.target != self.plan.target || task.tree != self.plan.path {
            return Ok(false);
        }
        let Ok(state) = state_of(history) else { return Ok(false) };
        let Some(work) = state.task.as_ref().filter(|work| work.landed.is_none()) else { return Ok(false) };
        if let (Some((_, to)), Some(seat)) = (work.landing, &self.seat)
            && self.is_on_target(&task.id, to)?
        {
            Session::close_landed(self.engine.clone(), self.repo.clone(), &history.session, seat)?;
            return Ok(false);
        }
        // What was begun before the run that counts is none of this run's.
        let base = history.started.base.values().next().copied().unwrap_or(task.base);
        let is_of_run = match &self.progress.run_start {
            Some(start) => self.repo.is_ancestor(start.commit, base)?,
            None => true,
        };
        Ok(is_of_run && !self.plan.fresh && state.phase != Phase::Cancelled)
    }

    /// Works a task until it is complete or given up, and lands it.
    pub(super) async fn work(
        &mut self,
        task: &TaskId,
        attempt: Attempt,
        retry: u32,
        notes: Notes<'_>,
    ) -> Result<Worked, Error> {
        let node = self.plan.tree.node(task).expect("what is next is a task of the tree").clone();
        let job = Arc::new(self.job(&node));
        let session = match self.take_up(task, &job, notes).await? {
            Some(session) => session,
            None => self.begin(&job, attempt, retry, notes).await?,
        };
        self.see_through(session, &job, notes).await
    }

    /// Runs the tests of a phase and lands what they say.
    pub(super) async fn gate(&mut self, gate: &TaskId, notes: Notes<'_>) -> Result<Worked, Error> {
        let node = self.plan.tree.node(gate).expect("what is next is a node of the tree").clone();
        let job = Arc::new(self.job(&node));
        let mut session = match self.take_up(gate, &job, notes).await? {
            Some(session) => session,
            None => {
                let leaves = self.plan.tree.leaves_below(gate);
                let runs = self.progress.gate(gate, leaves).runs;
                self.begin(&job, Attempt { number: 1, of: 1 }, runs, notes).await?
            }
        };
        if let Ended::Paused(pause) = self.run_session(&mut session, notes).await? {
            self.seat = Some(session.leave());
            return Ok(Worked::Ended(TreeEnded::Paused(pause)));
        }
        let tested = session.started.base.values().next().map(|base| self.repo.tree_of(*base)).transpose()?;
        let tried = self.try_land(&mut session, notes).await?;
        let worked = self.landed(session, tried);
        if let (Worked::GoOn, Some(tested)) = (&worked, tested) {
            self.gated.insert(gate.clone(), tested);
        }
        Ok(worked)
    }

    /// The session an earlier run left, if there is one that can go on.
    pub(super) async fn take_up(
        &mut self,
        task: &TaskId,
        job: &Arc<TaskJob>,
        notes: Notes<'_>,
    ) -> Result<Option<Session>, Error> {
        let Some(id) = self.unfinished.remove(task) else { return Ok(None) };
        let history = History::newest(&self.repo, &id, &ContextId::main())?;
        if !self.fits(task, &state_of(&history)?)? {
            return Ok(None);
        }
        let seat = self.seat.take().expect("the working copy is back when no task is worked");
        let resumed = Session::resume_task(self.engine.clone(), self.repo.clone(), &id, job.clone(), seat).await;
        let (session, kept) = resumed?;
        tell_kept(kept, notes);
        tell_began(&session, job, true, notes);
        Ok(Some(session))
    }

    /// Whether a task's branch stands where a session has left it, or was about to move it from. Else the branch counts:
    /// somebody has removed it to have the task done again, or has worked on it since.
    fn fits(&self, task: &TaskId, state: &State) -> Result<bool, Error> {
        let Some(tip) = state.on_branches().values().next().copied() else { return Ok(false) };
        match self.repo.reference(&branch_ref(&self.branch_of(task)?))? {
            None => Ok(state.task.as_ref().is_some_and(|task| task.status.is_none())),
            Some(at) => Ok(self.repo.is_ancestor(at, tip)? || self.kept(task, at)?.is_some()),
        }
    }

    /// Whether a commit is on the branch a task lands on, or on the target.
    fn is_on_target(&self, task: &TaskId, commit: CommitId) -> Result<bool, Error> {
        let (on, target) = (self.landing_tip(task)?, target_tip(&self.repo, &self.plan.target)?);
        Ok(self.repo.is_ancestor(commit, on)? || (on != target && self.repo.is_ancestor(commit, target)?))
    }

    /// A new session on a task, with what is there of it already.
    pub(super) async fn begin(
        &mut self,
        job: &Arc<TaskJob>,
        attempt: Attempt,
        retry: u32,
        notes: Notes<'_>,
    ) -> Result<Session, Error> {
        let task = &job.task;
        let beginning = self.beginning(&task.id, notes)?;
        let used = match (&task.pipeline, task.is_leaf()) {
            (_, false) => built_in("gate.dot", GATE_PIPELINE),
            (Some(name), true) => self.plan.pipelines.get(name).unwrap_or(&self.plan.pipeline).clone(),
            (None, true) => self.plan.pipeline.clone(),
        };
        let inputs: BTreeMap<String, String> =
            [("task_id", task.id.as_str()), ("task_name", &task.name), ("task_description", &task.description)]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into();
        let pipeline = load(&used, &inputs, &task.id)?;
        let start = start_after(&pipeline, beginning.after.as_ref()).ok_or_else(|| Error::Pipeline {
            path: used.path.clone(),
            task: task.id.clone(),
            why: "it has no start".into(),
        })?;
        let code = code_of(&self.repo, self.repo.tree_of(beginning.base)?, job)?;
        let first = AttemptStarted {
            retry,
            number: attempt.number,
            of: attempt.of,
            start,
            code,
            laid: beginning.laid,
            feedback: self.progress.task(&task.id).feedback(),
            extra: Default::default(),
        };
        let request = StartRequest {
            repo: self.repo.clone(),
            repo_name: self.plan.repo_name.clone(),
            branch_prefix: self.plan.branch_prefix.clone(),
            pipeline,
            dot: used.dot,
            dot_path: used.path,
            files: used.files,
            inputs,
            config: self.plan.config.clone(),
            simulated: false,
        };
        let of = TaskOf {
            target: self.plan.target.clone(),
            tree: self.plan.path.clone(),
            id: task.id.clone(),
            name: task.name.clone(),
            base: beginning.task_base,
            commits: self.plan.commits,
            status: beginning.status,
        };
        let start = TaskStart {
            of,
            job: job.clone(),
            document: self.plan.document.clone(),
            branch: beginning.branch,
            base: beginning.base,
            attempt: first,
            seat: self.seat.take().expect("the working copy is back when no task is worked"),
        };
        let (session, kept) = Session::start_task(self.engine.clone(), request, start).await?;
        tell_kept(kept, notes);
        tell_began(&session, job, false, notes);
        Ok(session)
    }

    /// Where a new session on a task begins: where its branch was left, or anew on the tip it will land on.
    fn beginning(&self, task: &TaskId, notes: Notes<'_>) -> Result<Beginning, Error> {
        let branch = self.branch_of(task)?;
        let name = branch_ref(&branch);
        // Nobody but who has the target writes this one, so a lock on it was left by a killed run.
        self.repo.release_stale_lock(&name)?;
        let state = self.progress.task(task);
        let is_leaf = self.plan.tree.is_leaf(task);
        let base = if is_leaf { self.landing_tip(task)? } else { self.gate_base(task)? };
        let Some(tip) = self.repo.reference(&name)? else {
            return Ok(Beginning { branch, base, task_base: base, after: None, status: None, laid: None });
        };
        if is_leaf && is_open(state) {
            let task_base = self.repo.merge_base(tip, base)?.unwrap_or(base);
            let after = state.unfinished().last().map(|found| found.step.kind.clone());
            let status = state.newest().map(|found| found.step.status());
            return Ok(Beginning { branch, base: tip, task_base, after, status, laid: None });
        }
        // The branch belongs to work that has ended. It is made anew once the session is recorded; what only it has is
        // kept, by which the session knows that it may be moved.
        let mut laid = None;
        if !self.repo.is_ancestor(tip, base)? {
            let kept = self.keep(task, tip)?;
            if state.status == Status::Failed {
                laid = self.old_code(task, tip, base)?;
                notes(Note::Said(match laid {
                    Some(_) => format!("{task} goes on with the code of its last attempt ({kept})"),
                    None => format!(
                        "{task} starts clean: the code of its last attempt does not fit to `{}` any more; it is kept at {kept}",
                        self.plan.target
                    ),
                }));
            }
        }
        Ok(Beginning { branch, base, task_base: base, after: None, status: None, laid })
    }

    /// A commit with the files of an earlier budget on another base; none when they do not fit.
    fn old_code(&self, task: &TaskId, tip: CommitId, base: CommitId) -> Result<Option<CommitId>, Error> {
        let Some(old_base) = self.repo.merge_base(tip, base)? else { return Ok(None) };
        let tree = |commit| self.repo.tree_of(commit);
        let merged = match self.repo.merge_trees(tree(old_base)?, tree(base)?, tree(tip)?) {
            Ok(merged) => merged,
            Err(MergeError::Conflict(_)) => return Ok(None),
            Err(MergeError::Git(error)) => return Err(error.into()),
        };
        // Only the session's record leads to it, so that it is there when the session goes on after a crash.
        let mut writer = self.repo.writer();
        let laid = writer.commit(&CommitSpec {
            tree: merged,
            parents: vec![base],
            author: Person::pleach(),
            committer: Person::pleach(),
            at: clock::now(),
            message: format!("Lay the code of the budget before under {task}\n").into_bytes(),
        })?;
        writer.flush()?;
        Ok(Some(laid))
    }

    /// Keeps a commit only a branch leads to that is about to be moved.
    pub(super) fn keep(&self, task: &TaskId, commit: CommitId) -> Result<String, Error> {
        if let Some(name) = self.kept(task, commit)? {
            return Ok(name);
        }
        let prefix = format!("{KEEP}{task}-");
        let taken = self.repo.references(&prefix)?;
        let used = taken.iter().filter_map(|(name, _)| name.strip_prefix(&prefix)?.parse::<u32>().ok());
        let first = used.max().unwrap_or(0) + 1;
        let mut number = first;
        loop {
            let name = format!("{prefix}{number}");
            match self.repo.swap(&name, None, commit, "pleach: keep") {
                Ok(()) => return Ok(name),
                // A killed run left its lock there; the next name will do.
                Err(SwapError::Locked { .. }) if number < first + 9 => number += 1,
                Err(error) => return Err(crate::git::Error::from(error).into()),
            }
        }
    }

    /// Under which name a commit of a task is kept.
    fn kept(&self, task: &TaskId, commit: CommitId) -> Result<Option<String>, Error> {
        let all = self.repo.references(&format!("{KEEP}{task}-"))?;
        Ok(all.into_iter().find(|(_, kept)| *kept == commit).map(|(name, _)| name))
    }

    /// Runs attempts until the task is complete or given up, and lands it.
    pub(super) async fn see_through(
        &mut self,
        mut session: Session,
        job: &Arc<TaskJob>,
        notes: Notes<'_>,
    ) -> Result<Worked, Error> {
        loop {
            if !session.is_decided()
                && let Some(worked) = self.decide(&mut session, job, notes).await?
            {
                self.seat = Some(session.leave());
                return Ok(Worked::Ended(worked));
            }
            match self.try_land(&mut session, notes).await? {
                Tried::Red => self.next_or_fail(&mut session, notes)?,
                tried => return Ok(self.landed(session, tried)),
            }
        }
    }

    /// Runs attempts until the task is complete or given up. Answers only when the run stops before that.
    async fn decide(
        &mut self,
        session: &mut Session,
        job: &TaskJob,
        notes: Notes<'_>,
    ) -> Result<Option<TreeEnded>, Error> {
        while !session.is_decided() {
            match self.run_session(session, notes).await? {
                Ended::Paused(pause) => return Ok(Some(TreeEnded::Paused(pause))),
                Ended::Cancelled => {
                    let reason = "its session was called off".to_owned();
                    return Ok(Some(TreeEnded::Failed { task: job.task.id.clone(), reason }));
                }
                Ended::Completed => self.complete(session, job, notes)?,
                Ended::Failed { reason } => {
                    if !attempt_has_result(session) {
                        session.fail_attempt(&reason, &mut observer(&session.id.clone(), notes))?;
                    }
                    self.next_or_fail(session, notes)?;
                }
            }
        }
        Ok(None)
    }

    /// What follows a failed attempt: another one, or the end of the task.
    fn next_or_fail(&self, session: &mut Session, notes: Notes<'_>) -> Result<(), Error> {
        match self.after(session) {
            After::Again => self.begin_next(session, notes),
            After::GiveUp(why) => self.fail(session, why, notes),
        }
    }

    /// Runs a session, unless its pass has ended already.
    async fn run_session(&mut self, session: &mut Session, notes: Notes<'_>) -> Result<Ended, Error> {
        let id = session.id.clone();
        Ok(session.run(&mut observer(&id, notes)).await?)
    }

    /// What follows the attempts of a session so far.
    fn after(&self, session: &Session) -> After {
        let Some(task) = &session.state.task else { return After::GiveUp(Reason::OutOfAttempts) };
        let number = task.attempt.as_ref().map_or(0, |attempt| attempt.number);
        let ended: Vec<schedule::Ended> = task.failed.iter().map(ended).collect();
        schedule::after(number, &ended, &self.plan.limits)
    }

    fn begin_next(&self, session: &mut Session, notes: Notes<'_>) -> Result<(), Error> {
        let task = session.state.task.as_ref().expect("a session on a task");
        let last = task.attempt.as_ref().expect("an attempt was begun");
        let start = start_after(&session.pipeline, None).expect("a pipeline that ran has a start");
        let code = task.failed.last().map_or(last.code, |failed| failed.after);
        let attempt = AttemptStarted {
            retry: last.retry + 1,
            number: last.number + 1,
            of: self.plan.limits.max_retries,
            start,
            code,
            laid: None,
            feedback: Vec::new(),
            extra: Default::default(),
        };
        Ok(session.begin_attempt(attempt, &mut observer(&session.id.clone(), notes))?)
    }

    /// The last step of a task that is done, with its report.
    fn complete(&self, session: &mut Session, job: &TaskJob, notes: Notes<'_>) -> Result<(), Error> {
        let attempts = session.attempt_number();
        let report = Report {
            task_id: job.task.id.clone(),
            result: TaskResult::Pass,
            retries: attempts.saturating_sub(1),
            name: job.task.name.clone(),
            attempts,
            tested: !job.tests.is_empty(),
            tests: session.last_counts(),
            session: Some(session.id.clone()),
            finished: clock::now(),
        };
        let mut files = Vec::new();
        let named = if job.commit_logs {
            let path = session.free_report(&format!("{}/{}", job.reports, report.file()))?;
            files.push((RepoPath::from(path.as_str()), report.json()));
            path
        } else {
            session.record_name()
        };
        let facts = Step {
            report: Some(named.clone()),
            untested: job.tests.is_empty(),
            ..session.facts(StepKind::Complete, true)
        };
        let body = text::complete(attempts, Some(&named));
        session.end_task(facts, body, None, files, &mut observer(&session.id.clone(), notes))?;
        Ok(())
    }

    /// The last step of a task that is given up.
    fn fail(&self, session: &mut Session, why: Reason, notes: Notes<'_>) -> Result<(), Error> {
        let attempts = session.attempt_number();
        let facts = session.facts(StepKind::Complete, false);
        let body = if why == Reason::OutOfAttempts { String::new() } else { why.to_string() };
        let attempt = Some(Attempt { number: attempts, of: self.plan.limits.max_retries });
        session.end_task(facts, body, attempt, Vec::new(), &mut observer(&session.id.clone(), notes))?;
        Ok(())
    }

    /// Gives a task up whose budget was used up by a run before this one.
    pub(super) async fn give_up(&mut self, task: &TaskId, why: Reason, notes: Notes<'_>) -> Result<Worked, Error> {
        let node = self.plan.tree.node(task).expect("what is next is a task of the tree").clone();
        let job = Arc::new(self.job(&node));
        let state = self.progress.task(task);
        let (number, retry) = (state.in_budget, state.attempts.saturating_sub(1));
        let mut session = match self.take_up(task, &job, notes).await? {
            Some(session) => session,
            None => self.begin(&job, Attempt { number, of: number }, retry, notes).await?,
        };
        if !session.is_decided() {
            self.fail(&mut session, why, notes)?;
        }
        self.see_through(session, &job, notes).await
    }

    /// The branch of a task.
    pub(super) fn branch_of(&self, task: &TaskId) -> Result<BranchName, Error> {
        Ok(task_branch(&self.plan.branch_prefix, &self.plan.target, task)?)
    }

    /// The branch a task lands on: the target, or its phase's.
    pub(super) fn lands_on(&self, task: &TaskId) -> Result<BranchName, Error> {
        let phase = self.plan.tree.phase_of(task);
        let gathered = self.plan.limits.isolation == crate::config::Isolation::Phase && !self.plan.tree.is_leaf(phase);
        match gathered {
            true => Ok(phase_branch(&self.plan.branch_prefix, &self.plan.target, phase)?),
            false => Ok(self.plan.target.clone()),
        }
    }

    /// Where the branch stands a task lands on. A phase's branch begins at the target.
    pub(super) fn landing_tip(&self, task: &TaskId) -> Result<CommitId, Error> {
        let on = self.lands_on(task)?;
        match self.repo.reference(&branch_ref(&on))? {
            Some(tip) => Ok(tip),
            None => target_tip(&self.repo, &self.plan.target),
        }
    }
}

/// A task whose newest step is on its branch.
fn is_open(state: &TaskState) -> bool {
    !state.landed && !state.steps.is_empty()
}

fn ended(failed: &crate::state::FailedAttempt) -> schedule::Ended {
    let failure = match failed.status.as_str() {
        "test-fail" => Failure::Tests(failed.failing.iter().cloned().collect()),
        _ => Failure::Other,
    };
    schedule::Ended { before: failed.before, after: failed.after, failure }
}

/// Whether the newest attempt failed with a step that says so.
fn attempt_has_result(session: &Session) -> bool {
    session.state.task.as_ref().and_then(|task| task.attempt.as_ref()).is_some_and(|attempt| attempt.has_failed)
}

/// Passes a session's events on.
pub(super) fn observer<'a>(
    session: &'a SessionId,
    notes: Notes<'a>,
) -> impl FnMut(&crate::event::Recorded) + Send + use<'a> {
    move |event| notes(Note::Event { session, event })
}

fn tell_kept(kept: Option<String>, notes: Notes<'_>) {
    if let Some(name) = kept {
        notes(Note::Said(format!("work nobody had committed was in the working copy; it is kept at {name}")));
    }
}

fn tell_began(session: &Session, job: &TaskJob, resumed: bool, notes: Notes<'_>) {
    let attempt = session.state.task.as_ref().and_then(|task| task.attempt.as_ref());
    let attempt = attempt.filter(|_| job.task.is_leaf()).map(|at| Attempt { number: at.number, of: at.of });
    notes(Note::Began { task: &job.task.id, name: &job.task.name, attempt, session: &session.id, resumed });
}

fn built_in(path: &str, dot: &str) -> TaskPipeline {
    TaskPipeline { dot: dot.to_owned(), path: path.to_owned(), files: BTreeMap::new() }
}

fn load(used: &TaskPipeline, inputs: &BTreeMap<String, String>, task: &TaskId) -> Result<Pipeline, Error> {
    let given = Inputs { files: used.files.clone(), values: inputs.clone() };
    let (pipeline, found) = plan::load(&used.dot, &given, &[]);
    let wrong = found.iter().find(|found| found.severity == Severity::Error).map(|found| found.message.clone());
    let unusable = |why| Error::Pipeline { path: used.path.clone(), task: task.clone(), why };
    match (pipeline, wrong) {
        (Some(pipeline), None) => Ok(pipeline),
        (_, wrong) => Err(unusable(wrong.unwrap_or_else(|| "it holds no graph".into()))),
    }
}

/// The node a pass begins at: the start, or the one behind the node of a step that went well.
fn start_after(pipeline: &Pipeline, step: Option<&StepKind>) -> Option<NodeId> {
    let start = pipeline.start()?.id.clone();
    let named = |kind: &StepKind| pipeline.nodes().iter().find(|node| node.step.as_deref() == Some(kind.as_str()));
    let behind = step.and_then(named).and_then(|node| {
        let state = State::new(start.clone());
        route::select_edge(pipeline, &state, node, &Outcome::success()).map(|edge| edge.to.clone())
    });
    Some(behind.unwrap_or(start))
}

fn state_of(history: &History) -> Result<State, Error> {
    let pipeline = crate::engine::recorded_pipeline(&history.started)?;
    Ok(crate::engine::recorded_state(history, &pipeline)?)
}
