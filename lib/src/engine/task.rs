//! A session that works on a task of a tree: a budget of attempts on the task's own branch.
//!
//! Each attempt is a pass through the task's pipeline. A node that stands for a step ends with a step commit, which is
//! what the branch carries; what became of the task is read from those commits alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use super::assignment::Work;
use super::locks::Locks;
use super::recording::Unwritten;
use super::resume::{Found, read};
use super::worker::Stopped;
use super::{Engine, Error, Observer, Session, StartRequest};
use crate::clock;
use crate::event::{AttemptStarted, Commits, Event, Landed, Landing, PipelineStarted, Snapshot, StepFinished, TaskOf};
use crate::git::{BlobId, CommitSpec, EntryKind, Person, Repo, TreeEdit, TreeId, Writer};
use crate::ids::{BranchName, CommitId, RepoPath, SessionId};
use crate::plan::pipeline::{HandlerKind, Node, WritePolicy};
use crate::plan::tree::{TaskNode, TestCommand, TestKind};
use crate::record::Batch;
use crate::state::{Phase, TaskWork, Visit};
use crate::step::prompt::{self, Bounds};
use crate::step::{Attempt, Counts, Feedback, FeedbackKind, Step, StepKind, TestFacts, counts, report, text};
use crate::trailer::Message;
use crate::workspace::{Lock, Position, WorkingCopy, branch_key};

/// How much of what a failed step said is kept for the next attempt, in characters.
const FEEDBACK: usize = 8_000;

/// The file of a session's first record that holds the tree as it was run.
pub(super) const TREE_FILE: &str = "task-tree.json";

/// What a session has to know of its task.
#[derive(Debug, Clone)]
pub struct TaskJob {
    /// The task.
    pub task: TaskNode,
    /// What tests it; nothing means that it is not tested.
    pub tests: Vec<TestCommand>,
    /// Where logs go, from the root of the repository.
    pub logs: String,
    /// Where reports go, likewise.
    pub reports: String,
    /// Whether logs and reports are committed; otherwise the record alone has them.
    pub commit_logs: bool,
}

impl TaskJob {
    /// Whether a file is a log or a report of a task, and not its work.
    pub fn is_own(&self, path: &RepoPath) -> bool {
        report::is_own(path, &self.logs, &self.reports)
    }
}

/// The working copy the tasks of a target share, one after another.
#[derive(Debug)]
pub struct Seat {
    /// Held as long as anything runs in it.
    pub lock: Lock,
    /// The working copy, once it is open.
    pub copy: Option<WorkingCopy>,
}

/// What a session on a task is started with, beside its pipeline.
#[derive(Debug)]
pub struct TaskStart {
    /// The task, as the record has it.
    pub of: TaskOf,
    /// What the session has to know of it.
    pub job: Arc<TaskJob>,
    /// The tree's file, as it is run, without secrets.
    pub document: BlobId,
    /// The task's branch.
    pub branch: BranchName,
    /// Where the session begins.
    pub base: CommitId,
    /// The first attempt.
    pub attempt: AttemptStarted,
    /// Where it works.
    pub seat: Seat,
}

/// What a node's worker found out about the step it stands for.
#[derive(Debug, Default)]
pub struct StepReport {
    /// The text of the commit.
    pub body: String,
    /// Everything that was said.
    pub said: String,
    /// Whether that is written to a log.
    pub logged: bool,
    /// The facts of a test.
    pub test: Option<TestFacts>,
}

/// A step that is to be committed.
struct Making {
    facts: Step,
    body: String,
    attempt: Option<Attempt>,
    /// Files that are committed with it.
    files: Vec<(RepoPath, String)>,
    /// What the next attempt is told.
    feedback: Option<Feedback>,
}

/// Where the working copy of a target's tasks lies, below that of all working copies.
pub(super) fn shared_copy(target: &BranchName) -> PathBuf {
    Path::new("tasks").join(branch_key(target)).join("main")
}

impl Seat {
    /// Takes the working copy of a target's tasks, or says who has it.
    pub fn take(repo: &Repo, target: &BranchName) -> Result<Self, Error> {
        let name = format!("worktree-tasks-{}", branch_key(target));
        let what = format!("the working copy of the tasks on `{target}`");
        Ok(Self { lock: Lock::take(&repo.common_dir(), &name, &what)?, copy: None })
    }
}

impl TaskStart {
    pub(super) fn started(&self, request: &StartRequest) -> Result<PipelineStarted, Error> {
        let name = request.pipeline.name().map_err(|error| Error::Name(error.to_string()))?;
        Ok(PipelineStarted {
            name,
            goal: request.pipeline.goal.clone(),
            dot: request.dot.clone(),
            dot_path: request.dot_path.clone(),
            files: request.files.clone(),
            inputs: request.inputs.clone(),
            config: request.config.clone(),
            base: Snapshot::from([(request.repo_name.clone(), self.base)]),
            branches: [(request.repo_name.clone(), self.branch.clone())].into(),
            target: Some(self.of.target.clone()),
            simulated: request.simulated,
            task: Some(self.of.clone()),
            extra: Default::default(),
        })
    }
}

impl Session {
    /// Starts a session on a task. Returns where work was saved that lay in the working copy.
    pub async fn start_task(
        engine: Arc<Engine>,
        request: StartRequest,
        start: TaskStart,
    ) -> Result<(Self, Option<String>), Error> {
        request.refuse_secrets(&engine)?;
        let mut session = tokio::task::block_in_place(|| Self::open_new(engine, request, Some(&start)))?;
        session.job = Some(start.job);
        session.copy = start.seat.copy;
        let kept = session.make_copy().await?;
        session.lay()?;
        Ok((session, kept))
    }

    /// Takes a session on a task up again, also between two attempts. Returns where work was saved that lay in the
    /// working copy.
    pub async fn resume_task(
        engine: Arc<Engine>,
        repo: Repo,
        id: &SessionId,
        job: Arc<TaskJob>,
        seat: Seat,
    ) -> Result<(Self, Option<String>), Error> {
        let mut session = tokio::task::block_in_place(|| {
            let locks = Locks::beside(&repo, id, seat.lock.clone())?;
            let found: Found = read(&repo, id)?;
            Self::open(engine, repo, locks, found)
        })?;
        session.job = Some(job);
        session.copy = seat.copy;
        let kept = match session.state.phase {
            Phase::Running | Phase::Paused { .. } => session.go_on().await?,
            _ => session.make_copy().await?,
        };
        session.lay()?;
        Ok((session, kept))
    }

    /// Records of a session on a task, which a run before this one left, that the target has moved over its steps.
    pub fn close_landed(engine: Arc<Engine>, repo: Repo, id: &SessionId, seat: &Seat) -> Result<(), Error> {
        let locks = Locks::beside(&repo, id, seat.lock.clone())?;
        let found = read(&repo, id)?;
        let mut session = Self::open(engine, repo, locks, found)?;
        match session.task_work().landing {
            Some((_, to)) => session.record_landed(to, &mut |_| {}),
            None => Ok(()),
        }
    }

    /// Gives the working copy back.
    pub fn leave(self) -> Seat {
        Seat { lock: self.locks.worktree, copy: self.copy }
    }

    /// Lays the code of the budget before over the working copy, as long as nothing was committed since.
    fn lay(&mut self) -> Result<(), Error> {
        let laid = self.state.task.as_ref().and_then(|task| task.attempt.as_ref()?.laid);
        let Some(laid) = laid.filter(|_| self.state.work == self.state.base) else { return Ok(()) };
        tokio::task::block_in_place(|| {
            let tree = self.repo.tree_of(laid)?;
            Ok(self.copy.as_mut().expect("the working copy is back when no node runs").lay(tree)?)
        })
    }

    /// Begins the next attempt.
    pub fn begin_attempt(&mut self, attempt: AttemptStarted, observe: Observer<'_>) -> Result<(), Error> {
        let summary = format!("attempt {} of {}", attempt.number, attempt.of);
        // A new attempt is a pass of its own: it is told what went wrong, and nothing else.
        (self.responses, self.threads, self.interrupted) = Default::default();
        let writer = self.repo.writer();
        self.record(writer, Batch { summary, ..Batch::default() }, vec![attempt.into()], clock::now(), observe)
    }

    /// Records that the target is about to move.
    pub fn record_landing(&mut self, from: CommitId, to: CommitId, observe: Observer<'_>) -> Result<(), Error> {
        let target = self.task_of().target.clone();
        let summary = format!("land on {target}");
        let event = Landing { target, from, to, extra: Default::default() };
        if self.unwritten_step().is_some_and(|(step, _)| step == to) {
            return self.write_with(&summary, event.into(), observe);
        }
        let (writer, work) = (self.repo.writer(), vec![to]);
        self.record(writer, Batch { summary, work, ..Batch::default() }, vec![event.into()], clock::now(), observe)
    }

    /// Records that the target has moved.
    pub fn record_landed(&mut self, commit: CommitId, observe: Observer<'_>) -> Result<(), Error> {
        let target = self.task_of().target.clone();
        let summary = format!("landed on {target}");
        let event = Landed { target, commit, extra: Default::default() };
        let writer = self.repo.writer();
        self.record(writer, Batch { summary, ..Batch::default() }, vec![event.into()], clock::now(), observe)
    }

    /// Ends an attempt that failed outside of its steps, so that it counts and the next one is told.
    pub fn fail_attempt(&mut self, reason: &str, observe: Observer<'_>) -> Result<(), Error> {
        let attempt = self.state.task.as_ref().and_then(|task| task.attempt.clone());
        let attempt = attempt.expect("an attempt that failed was begun");
        let facts = Step { retry: Some(attempt.retry), ..self.facts(StepKind::Implement, false) };
        let number = Attempt { number: attempt.number, of: attempt.of };
        let told = Feedback { kind: FeedbackKind::RunnerError, text: text::cut(reason, FEEDBACK) };
        let body = text::runner_error(reason);
        let making = Making { facts, body, attempt: Some(number), files: Vec::new(), feedback: Some(told) };
        self.commit_step(making, observe)?;
        Ok(())
    }

    /// Ends the task: its last step, with the report where it is complete. It is written when the landing is recorded, or
    /// by [`Session::write_end_of_task`].
    pub fn end_task(
        &mut self,
        facts: Step,
        body: String,
        attempt: Option<Attempt>,
        files: Vec<(RepoPath, String)>,
        observe: Observer<'_>,
    ) -> Result<(), Error> {
        let making = Making { facts, body, attempt, files, feedback: None };
        tokio::task::block_in_place(|| self.put_off_step(making, observe))
    }

    /// Writes the end of the task, if that is not done yet.
    pub fn write_end_of_task(&mut self, observe: Observer<'_>) -> Result<(), Error> {
        tokio::task::block_in_place(|| self.settle(observe))
    }

    /// The commit of the task's last step and what it is built on, as long as it is not written.
    pub fn unwritten_step(&self) -> Option<(CommitId, CommitId)> {
        let unwritten = self.unwritten.as_ref()?;
        Some((unwritten.step?.0, unwritten.branch?))
    }

    /// Commits a step that is no node's.
    fn commit_step(&mut self, making: Making, observe: Observer<'_>) -> Result<(), Error> {
        tokio::task::block_in_place(|| {
            self.put_off_step(making, observe)?;
            self.settle(observe)
        })
    }

    /// Folds a step that is no node's. Its commit is written with whatever is recorded next.
    fn put_off_step(&mut self, making: Making, observe: Observer<'_>) -> Result<(), Error> {
        self.settle(observe)?;
        let tree = self.working().tree()?;
        let at = self.working().at();
        let parent = if self.carries_turns() { at.tip } else { at.branch };
        let mut writer = self.repo.writer();
        let (step, tree) = self.make_step(&mut writer, making, (tree, parent), clock::now())?;
        let (summary, date, commit) = (step.subject.clone(), step.date, step.git_sha);
        let events = self.fold(vec![step.into()], date)?;
        let batch = Batch { summary, work: vec![commit], events, ..Batch::default() };
        let step = Some((commit, tree));
        self.put_off_end(Unwritten { writer, batch, branch: Some(at.branch), made: None, step });
        Ok(())
    }

    /// The task of a session that works on one.
    pub fn task(&self) -> &TaskOf {
        self.task_of()
    }

    /// What has become of it.
    fn task_work(&self) -> &TaskWork {
        self.state.task.as_deref().expect("only sessions on tasks do this")
    }

    /// The newest step's commit, where the task's branch stands.
    pub fn task_tip(&self) -> CommitId {
        self.task_work().step
    }

    /// Whether the task is complete or given up, as far as its branch is concerned.
    pub fn is_decided(&self) -> bool {
        matches!(self.task_work().status.as_deref(), Some("complete" | "failed"))
    }

    /// Where the target stood that is about to move, or has.
    pub fn landing_from(&self) -> Option<CommitId> {
        self.task_work().landing.map(|(from, _)| from)
    }

    /// The number of the newest attempt in its budget.
    pub fn attempt_number(&self) -> u32 {
        self.task_work().attempt.as_ref().map_or(0, |attempt| attempt.number)
    }

    /// What the newest test step counted.
    pub fn last_counts(&self) -> Option<Counts> {
        let of = |key: &str| {
            let found = self.task_work().tested.iter().find(|(name, _)| name == key);
            found.and_then(|(_, value)| value.parse().ok())
        };
        Some(Counts {
            passed: of("Arborist-Test-Passed")?,
            failed: of("Arborist-Test-Failed")?,
            skipped: of("Arborist-Test-Skipped")?,
        })
    }

    /// A path for a report that nothing on the branch has.
    pub fn free_report(&self, path: &str) -> Result<String, Error> {
        self.free_path(path, self.working().tree()?)
    }

    /// The ref of the session's record.
    pub fn record_name(&self) -> String {
        self.recorder.reference()
    }

    pub(super) fn task_of(&self) -> &TaskOf {
        self.started.task.as_ref().expect("only sessions on tasks do this")
    }

    /// Runs the task's tests on a commit its steps were built anew as. None when it has no tests; red tests answer
    /// with what they said, or with nothing when they were interrupted.
    pub async fn tests_at(&mut self, commit: CommitId) -> Result<Option<Result<(), Option<StepReport>>>, Error> {
        let job = self.job.clone().expect("only sessions on tasks do this");
        let step = self.pipeline.nodes().iter().find(|node| node.step.as_deref() == Some("test"));
        let node = step.or_else(|| self.pipeline.start()).expect("a pipeline that ran has a start").clone();
        let tests = self.step_tests(&node).unwrap_or_else(|| job.tests.clone());
        if tests.is_empty() {
            return Ok(None);
        }
        let node = Node { write: WritePolicy::Never, ..node };
        let copy = self.copy.as_mut().expect("the working copy is back when no node runs");
        let at = Position { branch: copy.at().branch, ..Position::all(commit) };
        tokio::task::block_in_place(|| copy.hand_over(self.id.clone(), copy.branch.clone(), at))?;
        let visit = Visit { node: node.id.clone(), visit: 1, attempt: 1, from: None };
        let finished = self.work_aside(node, visit, Work::Tests(tests)).await?;
        self.copy = Some(finished.copy);
        Ok(Some(match finished.result {
            Ok(outcome) if outcome.status.is_success() => Ok(()),
            Ok(_) => Err(Some(finished.step.unwrap_or_default())),
            Err(Stopped::Broken(error)) => return Err(error.into()),
            Err(_) => Err(None),
        }))
    }

    /// Makes the task's branch go on from steps that were built anew, with a test that failed there.
    pub fn turn_red(&mut self, built: CommitId, report: StepReport, observe: Observer<'_>) -> Result<(), Error> {
        let old = self.working().at().branch;
        self.copy.as_mut().expect("the working copy is back when no node runs").place(built);
        let name = "test".to_owned();
        let node = Node { step: Some(name), ..self.pipeline.start().expect("a pipeline that ran has a start").clone() };
        let mut writer = self.repo.writer();
        let tree = self.repo.tree_of(built)?;
        let made = self.node_step(&node, false, Some(report), &mut writer, (tree, built))?;
        let (step, tree) = made.expect("a test of a task is a step of it");
        let (commit, date) = (step.git_sha, step.date);
        let batch = Batch { summary: step.subject.clone(), work: vec![commit], ..Batch::default() };
        self.record(writer, batch, vec![step.into()], date, observe)?;
        self.move_branch(old, commit)?;
        let copy = self.copy.as_mut().expect("the working copy is back when no node runs");
        copy.take_step(commit, tree)?;
        Ok(copy.follow()?)
    }

    fn working(&self) -> &WorkingCopy {
        self.copy.as_ref().expect("the working copy is back when no node runs")
    }

    /// The step a node's end stands for, with its commit in `writer`. The tree is that of the working copy.
    pub(super) fn node_step(
        &mut self,
        node: &Node,
        passed: bool,
        report: Option<StepReport>,
        writer: &mut Writer,
        (tree, tip): (TreeId, CommitId),
    ) -> Result<Option<(StepFinished, TreeId)>, Error> {
        let (Some(job), Some(name), Some(report)) = (self.job.clone(), &node.step, report) else { return Ok(None) };
        let Some(attempt) = self.state.task.as_ref().and_then(|task| task.attempt.clone()) else { return Ok(None) };
        // What a command changed, or an agent that broke off, is not written yet; it is looked into below.
        writer.flush()?;
        let Some(kind) = StepKind::from_word(name) else { return Ok(None) };
        let at = clock::now();
        let mut facts = Step { retry: Some(attempt.retry), ..self.facts(kind.clone(), passed) };
        let mut files = Vec::new();
        facts.test = report.test;
        let feedback = (!passed).then(|| feedback(&kind, &report.said));
        if report.logged {
            let named = if job.commit_logs {
                let path = format!("{}/{}", job.logs, report::log_file(&job.task.id, name, at));
                let path = self.free_path(&path, tree)?;
                files.push((RepoPath::from(path.as_str()), report.said));
                path
            } else {
                self.recorder.reference()
            };
            match (&mut facts.test, &kind) {
                (Some(test), StepKind::Test) => test.log = Some(named),
                (_, StepKind::Review) => facts.review_log = Some(named),
                _ => {}
            }
        }
        let attempt = Attempt { number: attempt.number, of: attempt.of };
        let parent = match self.task_of().commits {
            Commits::Steps => self.working().at().branch,
            Commits::Turns => tip,
        };
        // A gate is no attempt at anything.
        let attempt = self.is_leaf_task().then_some(attempt);
        let making = Making { facts, body: report.body, attempt, files, feedback };
        self.make_step(writer, making, (tree, parent), at).map(Some)
    }

    /// What a test step runs: its own command, or what tests the task. None for every other node.
    pub(super) fn step_tests(&self, node: &Node) -> Option<Vec<TestCommand>> {
        let job = self.job.as_ref().filter(|_| node.step.as_deref() == Some("test"))?;
        let own = |command: &String| TestCommand {
            kind: TestKind::Unit,
            command: command.clone(),
            framework: None,
            timeout: node.timeout.unwrap_or(TestCommand::TIMEOUT),
        };
        Some(node.tool_command.as_ref().map_or_else(|| job.tests.clone(), |command| vec![own(command)]))
    }

    /// Whether a node's agent is told nothing of the run so far: its task, or what the task has changed, is all it gets.
    pub(super) fn is_asked_of_the_task(&self, node: &Node) -> bool {
        let is_agent =
            node.handler == HandlerKind::Codergen && !self.engine.handlers.contains_key(node.handler.as_str());
        is_agent && self.job.is_some() && matches!(node.step.as_deref(), Some("implement" | "review"))
    }

    /// What the agent of a step is asked: the task, with what went wrong before; or for its verdict on the changes.
    /// A prompt of the pipeline's own stands in place of the first part.
    pub(super) fn step_prompt(&self, node: &Node) -> Result<Option<String>, Error> {
        let (Some(job), Some(step)) = (&self.job, node.step.as_deref()) else { return Ok(None) };
        let own = node.attrs.contains_key("prompt").then_some(node.prompt.as_str());
        Ok(match step {
            "review" => {
                let (stat, diff) = self.task_diff(job)?;
                let asked = prompt::review(&job.task, &stat, &diff);
                Some(own.map_or_else(|| asked.clone(), |own| format!("{own}\n\n{asked}")))
            }
            "implement" => {
                let feedback = self.state.task.as_ref().map(|task| &task.feedback[..]).unwrap_or_default();
                let bounds = Bounds::default();
                Some(match own {
                    Some(own) => format!("{own}\n{}", prompt::lessons(feedback, bounds)),
                    None => prompt::implement(&job.task, feedback, &job.tests, bounds),
                })
            }
            _ => None,
        })
    }

    /// Everything the task has changed since before its first attempt, but for what pleach wrote itself.
    fn task_diff(&self, job: &TaskJob) -> Result<(String, String), Error> {
        let (old, new) = (self.repo.tree_of(self.task_of().base)?, self.working().tree()?);
        let changes = self.repo.changes(old, new)?;
        let paths: Vec<RepoPath> =
            changes.into_iter().map(|change| change.path).filter(|path| !job.is_own(path)).collect();
        if paths.is_empty() {
            return Ok(Default::default());
        }
        // Too many names for one command line: then pleach's own files are shown with the rest.
        let paths = if paths.len() > 1_000 { &[] } else { &paths[..] };
        Ok(self.repo.patch_with_stat(old, new, paths)?)
    }

    fn is_leaf_task(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.task.children.is_empty())
    }

    /// The facts every step of the session shares.
    pub fn facts(&self, kind: StepKind, passed: bool) -> Step {
        let of = self.task_of();
        Step {
            session: Some(self.id.clone()),
            tree: Some(of.tree.clone()),
            name: Some(of.name.clone()),
            ..Step::new(Some(of.id.clone()), kind, passed)
        }
    }

    /// A tree without what pleach wrote into it, by which attempts are compared.
    fn code_of(&self, tree: TreeId) -> Result<CommitId, Error> {
        let job = self.job.as_ref().expect("only sessions on tasks make steps");
        code_of(&self.repo, (self.repo.tree_of(self.task_of().base)?, tree), job)
    }

    fn make_step(
        &mut self,
        writer: &mut Writer,
        making: Making,
        (tree, parent): (TreeId, CommitId),
        date: Timestamp,
    ) -> Result<(StepFinished, TreeId), Error> {
        let Making { facts, body, attempt, files, feedback } = making;
        let code = self.code_of(tree)?;
        let of = self.task_of();
        let mut edits = Vec::new();
        for (path, text) in files {
            let text = self.engine.redactor.text(&text).into_owned();
            self.working().put(&path, text.as_bytes())?;
            edits.push(TreeEdit::Put(path, EntryKind::File, writer.blob(text.as_bytes())?));
        }
        let tree = if edits.is_empty() { tree } else { writer.tree(Some(tree), &edits)? };
        let redactor = &self.engine.redactor;
        let subject = facts.subject(of.target.as_str(), &of.name, attempt);
        let message = Message {
            subject: redactor.text(&subject).into_owned(),
            body: redactor.text(&body).into_owned(),
            trailers: facts.trailers(),
        };
        let date = to_the_second(date);
        let commit = writer.commit(&CommitSpec {
            tree,
            parents: vec![parent],
            author: Person::pleach(),
            committer: Person::pleach(),
            at: date,
            message: message.write().into_bytes(),
        })?;
        let finished = StepFinished {
            task: of.id.clone(),
            step: facts.kind.as_str().to_owned(),
            status: facts.status(),
            attempt: facts.retry,
            parent,
            tree: CommitId::from_bytes(*tree.as_bytes()),
            subject: message.subject,
            body: message.body,
            trailers: message.trailers,
            date,
            git_sha: commit,
            code,
            failing: feedback.as_ref().map(|feedback| counts::failing(&feedback.text)).unwrap_or_default(),
            feedback,
            extra: Default::default(),
        };
        Ok((finished, tree))
    }

    /// A path nothing in the tree has: two steps can end in the same second.
    pub(super) fn free_path(&self, path: &str, tree: TreeId) -> Result<String, Error> {
        let (stem, extension) = path.rsplit_once('.').unwrap_or((path, "log"));
        let mut free = path.to_owned();
        let mut number = 2;
        while self.repo.tree_entry(tree, &RepoPath::from(free.as_str()))?.is_some() {
            free = format!("{stem}-{number}.{extension}");
            number += 1;
        }
        Ok(free)
    }
}

/// A tree without the logs and reports that came since `base`, by which attempts are compared.
pub(super) fn code_of(repo: &Repo, (base, tree): (TreeId, TreeId), job: &TaskJob) -> Result<CommitId, Error> {
    let own = repo.changes(base, tree)?.into_iter().map(|change| change.path).filter(|path| job.is_own(path));
    let own: Vec<TreeEdit> = own.map(TreeEdit::Remove).collect();
    // The objects are of no use to anybody and never written.
    let code = if own.is_empty() { tree } else { repo.writer().tree(Some(tree), &own)? };
    Ok(CommitId::from_bytes(*code.as_bytes()))
}

/// What a failed step tells the next attempt.
fn feedback(kind: &StepKind, said: &str) -> Feedback {
    let tail = |kind| Feedback { kind, text: text::cut(said, FEEDBACK) };
    match kind {
        StepKind::Review => tail(FeedbackKind::Rejected),
        StepKind::Test => prompt::test_failure(&text::cut(said, FEEDBACK)),
        StepKind::Custom(_) => tail(FeedbackKind::TestFailure),
        _ => tail(FeedbackKind::RunnerError),
    }
}

/// Commits know no smaller unit, and the step is found again by its date.
fn to_the_second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

/// The events that are only of interest to who runs the tree.
pub fn is_of_task(event: &Event) -> bool {
    matches!(event, Event::AttemptStarted(_) | Event::StepFinished(_) | Event::Landing(_) | Event::Landed(_))
}
