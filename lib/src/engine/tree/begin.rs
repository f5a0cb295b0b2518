//! Where work on a task begins: in the session an earlier run left, or in a new one with what is there already.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::attempts::start_after;
use super::changed::last_unverified_step;
use super::edited::ok_or_warn;
use super::feedback::told;
use super::plan::TaskPipeline;
use super::refusal::begins_anew;
use super::run::{TreeRun, target_tip};
use super::unfinished::{Left, Unfinished};
use super::{Error, GATE_PIPELINE};
use crate::agent::BoxFuture;
use crate::clock;
use crate::engine::task::{TaskJob, TaskStart, code_of};
use crate::engine::{self, Session, StartRequest};
use crate::event::{AttemptStarted, PauseReason, TaskOf, TaskStarted, WarningCode};
use crate::git::{BlobId, CommitSpec, MergeError, Person, SwapError, TreeId};
use crate::ids::{BranchName, CommitId, TaskId};
use crate::plan;
use crate::plan::diagnostic::Severity;
use crate::plan::pipeline::Pipeline;
use crate::plan::tree::TaskNode;
use crate::progress::{StepCommit, TaskState, TaskStatus};
use crate::record::{self, History, read_through};
use crate::state::{Phase, State, TaskWork};
use crate::step::{AttemptNumber, Feedback, StepKind};
use crate::workspace::{KEEP, branch_ref};

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

/// A session that is about to get its files, which takes long: nobody waits for it. Gives where work was saved that lay in its
/// working copy, too.
pub(super) struct OpeningSession {
    pub session: BoxFuture<'static, Result<(Session, Option<String>), engine::Error>>,
    /// It was begun by a run before this one.
    pub resumed: bool,
}

/// Why a session is not gone on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SkipReason {
    /// Its task has been worked on since, or decided about.
    Outrun,
    /// It could not work with what it was started with, which is another today.
    Mended,
}

impl TreeRun {
    /// The session a task is worked in: the one an earlier run left, or a new one.
    pub(super) fn open_session(
        &mut self,
        job: &Arc<TaskJob>,
        attempt: AttemptNumber,
        retry: u32,
    ) -> Result<OpeningSession, Error> {
        match self.take_up(&job.task.id, job)? {
            Some(opening) => Ok(opening),
            None => self.begin(job, attempt, retry),
        }
    }

    /// Takes in a session that is open now.
    pub(super) fn opened(
        &mut self,
        (mut session, kept): (Session, Option<String>),
        job: &TaskJob,
        resumed: bool,
    ) -> Result<Session, Error> {
        self.tell_spent(&mut session)?;
        // A session that was put aside has committed what it did, and yet there is no step of it.
        let what = if resumed { "uncommitted work" } else { "work that is in no step" };
        if let Some(name) = kept {
            self.engine.warn(WarningCode::WorkKept.with(format!("{what} was in the worktree; it is kept at {name}")));
        }
        session.take_warnings().into_iter().for_each(|warning| self.engine.warn(warning));
        let attempt = session.attempt().filter(|_| job.task.is_leaf());
        self.engine.tell(TaskStarted {
            task: job.task.id.clone(),
            title: job.task.name.clone(),
            session: session.id().clone(),
            number: attempt.map(|attempt| attempt.number),
            of: attempt.map(|attempt| attempt.of),
            resumed,
            extra: Default::default(),
        });
        Ok(session)
    }

    /// The session an earlier run left, if there is one that can go on.
    fn take_up(&mut self, task: &TaskId, job: &Arc<TaskJob>) -> Result<Option<OpeningSession>, Error> {
        let Some(Unfinished { id, first, given }) = self.course.unfinished.get(task).cloned() else {
            return Ok(None);
        };
        // All of it is needed to go on.
        let whole = History::newest(&self.repo, &id).and_then(|history| {
            read_through(&self.repo, history.tip).map_err(record::Error::from)?;
            Ok(history)
        });
        let Some(history) = ok_or_warn(&self.engine, whole, &id) else {
            self.course.unfinished.remove(task);
            return Ok(None);
        };
        if history.first != first {
            self.course.unfinished.remove(task);
            // Nobody has agreed to what it would run now.
            self.engine.warn(
                WarningCode::SessionReplaced
                    .with(format!("session {id} is skipped: its record was replaced since this run started")),
            );
            return Ok(None);
        }
        let state = state_of(&history)?;
        let going_on = self.going_on(&job.task, &history, &state)?;
        if let Ok(left) = &going_on {
            match given {
                true => left.at.iter().try_for_each(|at| self.require_given(task, *at))?,
                false => return Err(Error::Unasked(task.clone())),
            }
        }
        self.course.unfinished.remove(task);
        if let Err(aside) = going_on {
            Session::put_aside(&self.repo, &self.engine.redactor, &id, self.course.seat.as_ref())?;
            self.warn_session_abandoned(task, &history, &state, aside)?;
            return Ok(None);
        }
        let seat = self.course.seat.take().expect("the working copy is back when no task is worked");
        let (engine, repo, job) = (self.engine.clone(), self.repo.clone(), job.clone());
        let session = Box::pin(async move { Session::resume_task(engine, repo, &id, job, seat).await });
        Ok(Some(OpeningSession { session, resumed: true }))
    }

    /// What a session would be worked by, or why it is not gone on with.
    pub(super) fn going_on(
        &self,
        task: &TaskNode,
        history: &History,
        state: &State,
    ) -> Result<Result<Left, SkipReason>, Error> {
        // The node may have been a phase then, and the session its tests.
        let (Some(left), Some(work)) = (Left::of(history, state), &state.task) else {
            return Ok(Err(SkipReason::Outrun));
        };
        if !self.fits(&task.id, state)? || !self.is_newest(&task.id, history, work)? {
            return Ok(Err(SkipReason::Outrun));
        }
        Ok(if self.is_mended(task, history, state) { Err(SkipReason::Mended) } else { Ok(left) })
    }

    /// Says that a session is not gone on with, and where what it has done is.
    fn warn_session_abandoned(
        &self,
        task: &TaskId,
        history: &History,
        state: &State,
        aside: SkipReason,
    ) -> Result<(), Error> {
        let (id, branch) = (&history.session, self.branch_of(task)?);
        let has_steps = state.task.as_ref().is_some_and(|task| task.status.is_some());
        // Who begins anew from the last step does without what came behind it.
        let steps_alone = has_steps && aside == SkipReason::Outrun;
        let done = if steps_alone { state.on_branches() } else { state.work.clone() };
        let done = state.task.as_ref().and_then(|task| done.get(&task.of.repo).copied());
        let base = history.started.built_on();
        let Some(done) = done.filter(|done| Some(*done) != base) else { return Ok(()) };
        let why = match self.repo.reference(&branch_ref(&branch))? {
            // Somebody has built on it, or taken it.
            Some(at) if self.repo.is_ancestor(done, at)? => return Ok(()),
            _ if self.is_on_target(task, done)? => return Ok(()),
            _ if aside == SkipReason::Mended => "its settings or its pipeline were changed since".to_owned(),
            Some(_) => format!("`{branch}` has diverged"),
            None => format!("`{branch}` was removed"),
        };
        self.engine.warn(WarningCode::SessionAbandoned.with(format!(
            "{task} does not resume session {id}: {why}; its work is {}, which its record keeps",
            done.short()
        )));
        Ok(())
    }

    /// Says of a task that is done again, because what had it is gone, where that is.
    fn tell_lost(&self, task: &TaskNode) -> Result<(), Error> {
        if let Some((id, landed)) = self.lost(&task.id)?.filter(|_| task.is_leaf()) {
            let (task, on) = (&task.id, self.lands_on(&task.id)?);
            self.engine.warn(WarningCode::TaskLost.with(format!(
                "{task} is done again: what session {id} has landed is not on `{on}`; its work is {}, which its \
                 record keeps",
                landed.short()
            )));
        }
        Ok(())
    }

    /// Whether a session waits for settings or a pipeline that somebody has mended since: it has its own, as they were.
    fn is_mended(&self, task: &TaskNode, history: &History, state: &State) -> bool {
        let could_not_work = matches!(&state.phase, Phase::Paused { reason: PauseReason::Interrupted, why: Some(_) });
        let (started, today) = (&history.started, self.pipeline_of(task));
        // What is recorded has no secrets in it. They may have become known as such since, so both are compared without.
        let without_secrets = |config: &Value| {
            let mut config = config.clone();
            self.engine.redactor.json(&mut config);
            config
        };
        let is_same = without_secrets(&started.config) == without_secrets(&self.plan.config)
            && started.dot == today.dot
            && started.files == today.files;
        could_not_work && !is_same
    }

    /// The pipeline a task is worked by.
    pub(super) fn pipeline_of(&self, task: &TaskNode) -> TaskPipeline {
        match (&task.pipeline, task.is_leaf()) {
            (_, false) => built_in("gate.dot", GATE_PIPELINE),
            (Some(name), true) => self.plan.pipelines.get(name).unwrap_or(&self.plan.pipeline).clone(),
            (None, true) => self.plan.pipeline.clone(),
        }
    }

    /// Whether a session is still what its task is at. Since it was left, the task may have been reset, skipped or worked
    /// by another session.
    fn is_newest(&self, task: &TaskId, history: &History, work: &TaskWork) -> Result<bool, Error> {
        let base = history.started.built_on();
        let has_steps = base.is_some_and(|base| base != work.step);
        let tip = self.repo.reference(&branch_ref(&self.branch_of(task)?))?;
        // Killed between record and branch, it has a step nobody else knows of.
        let is_known = has_steps && tip == Some(work.step);
        let state = self.progress.task(task);
        let Some(newest) = state.newest() else { return Ok(true) };
        Ok(match newest.step.session.as_ref() {
            Some(session) if *session == history.session => !state.landed,
            _ if is_known => false,
            // What it was begun on is older, whatever the clock of another machine said.
            _ if newest.at <= history.started_at => true,
            _ => base.map_or(Ok(false), |base| self.repo.is_ancestor(newest.commit, base))?,
        })
    }

    /// Whether a task's branch stands where a session has left it, or was about to move it from. Else the branch counts:
    /// somebody has removed it to have the task done again, or has worked on it since.
    fn fits(&self, task: &TaskId, state: &State) -> Result<bool, Error> {
        let Some(work) = &state.task else { return Ok(false) };
        // Another clone may go by another name.
        let Some(tip) = state.on_branches().get(&work.of.repo).copied() else { return Ok(false) };
        match self.repo.reference(&branch_ref(&self.branch_of(task)?))? {
            None => Ok(state.task.as_ref().is_some_and(|task| task.status.is_none())),
            Some(at) => Ok(self.repo.is_ancestor(at, tip)? || self.kept(task, at)?.is_some()),
        }
    }

    /// Whether a commit is on the branch a task lands on, or on the target.
    pub(super) fn is_on_target(&self, task: &TaskId, commit: CommitId) -> Result<bool, Error> {
        let (on, target) = (self.landing_tip(task)?, target_tip(&self.repo, &self.plan.target)?);
        Ok(self.repo.is_ancestor(commit, on)? || (on != target && self.repo.is_ancestor(commit, target)?))
    }

    /// A new session on a task, with what is there of it already.
    pub(super) fn begin(
        &mut self,
        job: &Arc<TaskJob>,
        attempt: AttemptNumber,
        retry: u32,
    ) -> Result<OpeningSession, Error> {
        let task = &job.task;
        self.tell_lost(task)?;
        let beginning = self.beginning(&task.id)?;
        let used = self.pipeline_of(task);
        let inputs = job.inputs();
        let pipeline = load(&used, &inputs, &task.id)?;
        let start = start_after(&pipeline, beginning.after.as_ref()).ok_or_else(|| Error::Pipeline {
            path: used.path.clone(),
            task: task.id.clone(),
            why: "it has no start".into(),
        })?;
        let trees = (self.repo.tree_of(beginning.task_base)?, self.repo.tree_of(beginning.base)?);
        let code = code_of(&self.repo, trees, job)?;
        let first = AttemptStarted {
            retry,
            number: attempt.number,
            of: attempt.of,
            start,
            code,
            laid: beginning.laid,
            feedback: self.lessons(task),
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
            repo: self.plan.repo_name.clone(),
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
            document: self.document()?,
            branch: beginning.branch,
            base: beginning.base,
            attempt: first,
            seat: self.course.seat.take().expect("the working copy is back when no task is worked"),
        };
        let session = Box::pin(Session::start_task(self.engine.clone(), request, start));
        Ok(OpeningSession { session, resumed: false })
    }

    /// What a task is told of the attempts before; the tests of a phase ask nobody.
    fn lessons(&self, task: &TaskNode) -> Vec<Feedback> {
        let steps = if task.is_leaf() { self.progress.task(&task.id).feedback_steps() } else { &[] };
        told(&self.repo, &self.progress, &self.engine.redactor, steps)
    }

    /// The tree's file as the records of sessions have it, written for the first of them.
    fn document(&mut self) -> Result<BlobId, Error> {
        if let Some(written) = self.document {
            return Ok(written);
        }
        let mut writer = self.repo.writer();
        let id = writer.blob(self.engine.redactor.text(&self.plan.document).as_bytes())?;
        writer.flush()?;
        Ok(*self.document.insert(id))
    }

    /// Where a new session on a task begins: where its branch was left, or anew on the tip it will land on.
    fn beginning(&self, task: &TaskId) -> Result<Beginning, Error> {
        let branch = self.branch_of(task)?;
        let name = branch_ref(&branch);
        // Nobody but who has the target writes this one, so a lock on it was left by a killed run.
        self.repo.release_stale_lock(&name)?;
        let state = self.progress.task(task);
        let is_leaf = self.plan.tree.is_leaf(task);
        if is_leaf {
            self.bring_phase(task)?;
        }
        let base = if is_leaf { self.landing_tip(task)? } else { self.gate_base(task)? };
        let tip = self.repo.reference(&name)?;
        if let Some(tip) = tip.filter(|_| is_leaf && is_open(state)) {
            self.require_given(task, tip)?;
            let task_base = self.own_base(task, tip, base)?.unwrap_or(base);
            let (behind, newest) = match self.has_changed_since(state, tip, base)? {
                true => {
                    self.engine.warn(WarningCode::CodeNewerThanSteps.with(format!(
                        "{task} has code on `{branch}` that is newer than its steps: its tests and its review are done again"
                    )));
                    (last_unverified_step(state), last_unverified_step(state))
                }
                false => (state.unfinished().last().map(Arc::as_ref), state.newest()),
            };
            let after = behind.map(|found| found.step.kind.clone());
            let status = newest.map(|found| found.step.status());
            return Ok(Beginning { branch, base: tip, task_base, after, status, laid: None });
        }
        if is_leaf {
            self.require_given(task, base)?;
        }
        // The branch belongs to work that has ended. It is made anew once the session is recorded; what only it has is
        // kept, by which the session knows that it may be moved.
        let mut kept = None;
        if let Some(tip) = tip
            && !self.repo.is_ancestor(tip, base)?
        {
            // It would stay where it is, and so what is done now would be on no branch.
            if let Some(checkout) = self.repo.checkouts_of(&branch)?.into_iter().next() {
                return Err(begins_anew(task, branch, &checkout));
            }
            kept = Some((tip, self.keep(task, tip)?));
        }
        let laid = self.lay_last_budget(task, base, kept)?;
        Ok(Beginning { branch, base, task_base: base, after: None, status: None, laid })
    }

    /// The code a task that failed begins another budget with. Says where it is kept, and where else what the task's
    /// branch had is.
    fn lay_last_budget(
        &self,
        task: &TaskId,
        base: CommitId,
        kept: Option<(CommitId, String)>,
    ) -> Result<Option<CommitId>, Error> {
        let last = self.last_budget(task, base, kept.as_ref())?;
        let laid = last.as_ref().map(|(tip, _)| self.old_code(task, *tip, base)).transpose()?.flatten();
        if let Some((tip, _)) = last.as_ref().filter(|_| laid.is_some()) {
            self.require_given(task, *tip)?;
        }
        if let Some((tip, name)) = kept.filter(|kept| last.as_ref() != Some(kept))
            && !self.are_earlier_runs(task, tip, base)?
        {
            let branch = self.branch_of(task)?;
            self.engine.warn(WarningCode::TaskBranchRestarted.with(format!(
                "`{branch}` is restarted; what it had is kept at \
                     {name}"
            )));
        }
        let Some((_, name)) = last else {
            let branch = self.branch_of(task)?;
            let is_gone = self.repo.reference(&branch_ref(&branch))?.is_none();
            let state = self.progress.task(task);
            if is_gone && state.status == TaskStatus::Failed && state.had_branch() {
                self.engine.warn(WarningCode::CodeMissing.with(format!(
                    "{task} starts clean: `{branch}`, which had the code of its last attempt, is missing"
                )));
            }
            return Ok(None);
        };
        self.engine.warn(match laid {
            Some(_) => {
                let text = format!("{task} continues with the code of its last attempt ({name})");
                WarningCode::CodeContinued.with(text)
            }
            None => WarningCode::CodeConflicts.with(format!(
                "{task} starts clean: the code of its last attempt conflicts with `{}`; it is kept at {name}",
                self.plan.target
            )),
        });
        Ok(laid)
    }

    /// Whether a branch has nothing but what earlier runs of a phase's tests said, which has landed or was put aside.
    fn are_earlier_runs(&self, gate: &TaskId, tip: CommitId, base: CommitId) -> Result<bool, Error> {
        if self.plan.tree.is_leaf(gate) {
            return Ok(false);
        }
        let Some(shared) = self.repo.merge_base(tip, base)? else { return Ok(false) };
        for commit in self.chain(tip, shared)? {
            let is_run = |found: StepCommit| found.step.task.as_ref() == Some(gate);
            // They may have run on a merge that nobody has made.
            if self.repo.commit(commit)?.parents.len() < 2 && !self.found(commit)?.is_some_and(is_run) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Where the code of a task that failed is kept: what its branch just had, unless that is another tree's by now.
    /// Whoever removes the branch of such a task has it done without.
    pub(super) fn last_budget(
        &self,
        task: &TaskId,
        base: CommitId,
        kept: Option<&(CommitId, String)>,
    ) -> Result<Option<(CommitId, String)>, Error> {
        let state = self.progress.task(task);
        let Some(newest) = state.newest().filter(|_| state.status == TaskStatus::Failed) else { return Ok(None) };
        if let Some(kept) = kept
            && self.has_no_step_of_others(kept.0, base)?
        {
            return Ok(Some(kept.clone()));
        }
        let left = self.left_at(newest)?;
        Ok(self.kept(task, left)?.map(|name| (left, name)))
    }

    /// What the work on a task's branch is built on: the last step of another task below it, or where the branch left
    /// what it would land on. It may have been begun on the branch of a phase that it is no part of any more.
    fn own_base(&self, task: &TaskId, tip: CommitId, onto: CommitId) -> Result<Option<CommitId>, Error> {
        let Some(shared) = self.repo.merge_base(tip, onto)? else { return Ok(None) };
        let steps = self.steps_ahead(tip, onto)?;
        let of_another = steps.iter().rev().find(|found| found.step.task.as_ref() != Some(task));
        Ok(Some(of_another.map_or(shared, |found| found.commit)))
    }

    /// Whether the newest step of a branch is none of another tree.
    fn has_no_step_of_others(&self, tip: CommitId, base: CommitId) -> Result<bool, Error> {
        let steps = self.steps_ahead(tip, base)?;
        let tree = steps.last().and_then(|newest| newest.step.tree.as_ref());
        Ok(tree.is_none_or(|tree| *tree == self.plan.path))
    }

    /// The files of an earlier budget on another base; none when they do not fit.
    pub(super) fn old_files(&self, task: &TaskId, tip: CommitId, base: CommitId) -> Result<Option<TreeId>, Error> {
        let Some(old_base) = self.own_base(task, tip, base)? else { return Ok(None) };
        let tree = |commit| self.repo.tree_of(commit);
        match self.repo.merge_trees(tree(old_base)?, tree(base)?, tree(tip)?) {
            Ok(merged) => Ok(Some(merged)),
            Err(MergeError::Conflict(_) | MergeError::Git(crate::git::Error::Overwritten { .. })) => Ok(None),
            Err(MergeError::Git(error)) => Err(error.into()),
        }
    }

    /// A commit with them.
    fn old_code(&self, task: &TaskId, tip: CommitId, base: CommitId) -> Result<Option<CommitId>, Error> {
        let Some(merged) = self.old_files(task, tip, base)? else { return Ok(None) };
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
}

/// A task whose newest step is on its branch.
pub(super) fn is_open(state: &TaskState) -> bool {
    !state.landed && !state.steps.is_empty()
}

fn built_in(path: &str, dot: &str) -> TaskPipeline {
    TaskPipeline { dot: dot.to_owned(), path: path.to_owned(), files: BTreeMap::new() }
}

pub(super) fn load(used: &TaskPipeline, inputs: &BTreeMap<String, String>, task: &TaskId) -> Result<Pipeline, Error> {
    let (pipeline, found) = plan::load_for_tasks(&used.dot, &used.inputs(inputs.clone()));
    let wrong = found.iter().find(|found| found.severity == Severity::Error).map(|found| found.message.clone());
    let unusable = |why| Error::Pipeline { path: used.path.clone(), task: task.clone(), why };
    match (pipeline, wrong) {
        (Some(pipeline), None) => Ok(pipeline),
        (_, wrong) => Err(unusable(wrong.unwrap_or_else(|| "it holds no graph".into()))),
    }
}

pub(super) fn state_of(history: &History) -> Result<State, Error> {
    let pipeline = crate::engine::recorded_pipeline(&history.started)?;
    Ok(crate::engine::recorded_state(history, &pipeline)?)
}
