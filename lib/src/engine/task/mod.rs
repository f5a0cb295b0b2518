//! A session that works on a task of a tree: a budget of attempts on the task's own branch.
//!
//! Each attempt is a pass through the task's pipeline. A node that stands for a step ends with a step commit, which is
//! what the branch carries; what became of the task is read from those commits alone.

pub(super) mod asked;
mod step;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;

use super::budget::BudgetVerdict;
use super::context::Context;
use super::executor::{Assignment, Conversation, Job, Start};
use super::locks::Locks;
use super::resume::{Found, read, recorded_pipeline};
use super::worker::{Finished, Report, Stopped};
use super::{Engine, Error, Session, StartRequest, secret_check};
use crate::budget::Allowance;
use crate::clock;
use crate::event::{AttemptStarted, Event, Landed, Landing, PipelineStarted, Snapshot, TaskOf, Warning};
use crate::git::{BlobId, Repo};
use crate::ids::{BranchName, CommitId, NodeId, RepoPath, SessionId};
use crate::plan::OF_TASKS;
use crate::plan::pipeline::{HandlerKind, Node};
use crate::plan::tree::{TaskNode, TestCommand, TestKind};
use crate::record::Batch;
use crate::state::{Phase, TaskWork, Visit};
use crate::step::text::Body;
use crate::step::{AttemptNumber, Counts, Step, StepKind, report, text};
use crate::workspace::{Lock, Position, WorkingCopy, Workspace, branch_key};

pub use step::{StepReport, TaskReport};
pub(super) use step::{code_of, in_the_record};

/// The file of a session's first record that holds the tree as it was run.
pub(super) const TREE_FILE: &str = "task-tree.json";

/// What a session has to know of its task.
#[derive(Debug, Clone)]
pub struct TaskJob {
    /// The task.
    pub task: TaskNode,
    /// What tests it; nothing means that it is not tested.
    pub tests: Vec<TestCommand>,
    /// How long a test of its pipeline may take that does not say.
    pub test_timeout: Duration,
    /// Where logs go, from the root of the repository.
    pub logs: String,
    /// Where reports go, likewise.
    pub reports: String,
    /// Whether logs and reports are committed; otherwise the record alone has them.
    pub commit_logs: bool,
    /// How many attempts a budget has, now. When the session was begun it may have been another number.
    pub attempts: u32,
    /// The earliest date its steps may have.
    pub not_before: Timestamp,
    /// Steps of it that lie where it lands, from before its branch: what they changed is its work as well.
    pub begun: Vec<CommitId>,
}

impl TaskJob {
    /// Whether a file is a log or a report of a task, and not its work.
    pub fn is_own(&self, path: &RepoPath) -> bool {
        report::is_own(path, &self.logs, &self.reports)
    }

    /// What a test step runs: its own command, or what tests the task. None for every other node.
    pub fn tests_of(&self, node: &Node) -> Option<Vec<TestCommand>> {
        let own = |command: &String| TestCommand {
            kind: TestKind::Unit,
            command: command.clone(),
            framework: None,
            timeout: node.timeout.or(Some(self.test_timeout)),
        };
        let tests = || node.tool_command.as_ref().map_or_else(|| self.tests.clone(), |command| vec![own(command)]);
        (node.step.as_deref() == Some("test")).then(tests)
    }

    /// What its pipeline is told of the task.
    pub fn inputs(&self) -> BTreeMap<String, String> {
        let TaskNode { id, name, description, .. } = &self.task;
        let values = [id.as_str(), name, description].map(str::to_owned);
        OF_TASKS.map(str::to_owned).into_iter().zip(values).collect()
    }
}

/// The working copy the tasks of a target share, one after another.
#[derive(Debug)]
pub struct SharedWorktree {
    /// Held as long as anything runs in it.
    pub lock: Lock,
    /// The worktrees, once they are open.
    pub workspace: Option<Workspace>,
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
    pub seat: SharedWorktree,
}

/// Where the working copy of a target's tasks lies, below that of all working copies.
pub(super) fn shared_copy(target: &BranchName) -> PathBuf {
    Path::new("tasks").join(branch_key(target)).join("main")
}

/// How a task's tests ended where it is to land.
#[derive(Debug)]
pub enum Retest {
    /// They pass.
    Green,
    /// They fail, and this is what they said.
    Red(Box<StepReport>),
    /// They are an agent's, which is asked in an attempt alone; this is what another one is told.
    Unknown(Box<StepReport>),
    /// Nobody waited for their end.
    Interrupted,
}

/// What came of a task's tests where it is to land.
#[derive(Debug)]
pub struct Retested {
    /// How they ended.
    pub outcome: Retest,
    /// What a person should know.
    pub warnings: Vec<Warning>,
}

impl SharedWorktree {
    /// The name of the lock on the working copy of a target's tasks.
    pub fn lock_name(target: &BranchName) -> String {
        format!("worktree-tasks-{}", branch_key(target))
    }

    /// Takes the working copy of a target's tasks, or says who has it.
    pub fn take(repo: &Repo, target: &BranchName) -> Result<Self, Error> {
        let name = Self::lock_name(target);
        let what = format!("the worktree of the tasks on `{target}`");
        Ok(Self { lock: Lock::take(repo.common_dir(), &name, &what)?, workspace: None })
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
        // What its tree says of the task may hold one: the record has it without, and who goes on reads the tree again.
        secret_check::pipeline(&engine.redactor, &request.dot_path, &request.dot, &request.files)?;
        tokio::task::block_in_place(|| engine.check_place(&request.repo, &request.repo_name))?;
        let session = tokio::task::block_in_place(|| Self::open_new(engine, request, Some(start)))?;
        let (mut session, kept) = session.make_first_copy().await?;
        tokio::task::block_in_place(|| session.root_mut().lay())?;
        Ok((session, kept))
    }

    /// Takes a session on a task up again, also between two attempts. Returns where work was saved that lay in the
    /// working copy.
    pub async fn resume_task(
        engine: Arc<Engine>,
        repo: Repo,
        id: &SessionId,
        job: Arc<TaskJob>,
        seat: SharedWorktree,
    ) -> Result<(Self, Option<String>), Error> {
        let mut session = tokio::task::block_in_place(|| {
            let locks = Locks::beside(&repo, id, seat.lock.clone())?;
            let mut found: Found = read(&repo, id)?;
            // The tree may have been edited since: what its task is told now, its commands are told too. Nothing else comes
            // from the record, for these are variables of commands, and one there could be named `PATH`.
            let started = &mut found.history.started;
            started.inputs = job.inputs();
            started.task.iter_mut().for_each(|task| task.name.clone_from(&job.task.name));
            found.pipeline = recorded_pipeline(started)?;
            started.goal.clone_from(&found.pipeline.goal);
            Self::open(engine, repo, locks, found, Some(job))
        })?;
        session.root_mut().workspace = seat.workspace;
        let kept = match session.state().phase {
            Phase::Running | Phase::Paused { .. } => {
                session.record_resumed(None)?;
                session.go_on().await?
            }
            _ => session.make_copy().await?,
        };
        tokio::task::block_in_place(|| session.root_mut().lay())?;
        Ok((session, kept))
    }

    /// Records of a session on a task, which a run before this one left, that the target has moved over its steps.
    pub fn close_landed(engine: Arc<Engine>, repo: Repo, id: &SessionId, seat: &SharedWorktree) -> Result<(), Error> {
        let locks = Locks::beside(&repo, id, seat.lock.clone())?;
        let found = read(&repo, id)?;
        let mut session = Self::open(engine, repo, locks, found, None)?;
        let landed = session.root().task_work().landing.clone().into_iter().map(|landing| Landed {
            repo: landing.repo,
            target: landing.target,
            commit: landing.to,
            extra: Default::default(),
        });
        session.record_landed(landed.collect())
    }

    /// Gives the working copy back.
    pub fn leave(self) -> SharedWorktree {
        let (_, root) = self.into_root();
        SharedWorktree { lock: root.lock, workspace: root.workspace }
    }

    /// Begins the next attempt.
    pub fn begin_attempt(&mut self, attempt: AttemptStarted) -> Result<(), Error> {
        self.at_root(|context| context.begin_attempt(attempt))
    }

    /// Records which branches are about to move.
    pub fn record_landing(&mut self, landing: Vec<Landing>) -> Result<(), Error> {
        self.at_root(|context| context.record_landing(landing))
    }

    /// Records that they have moved.
    pub fn record_landed(&mut self, landed: Vec<Landed>) -> Result<(), Error> {
        self.at_root(|context| context.record_landed(landed))
    }

    /// Ends an attempt that failed outside of its steps, so that it counts and the next one is told.
    pub fn fail_attempt(&mut self, reason: &str) -> Result<(), Error> {
        self.at_root(|context| context.fail_attempt(reason))
    }

    /// Ends the task: its last step, with the report where it is complete. It is written when the landing is recorded, or
    /// by [`Session::write_end_of_task`].
    pub fn end_task(
        &mut self,
        facts: Step,
        body: Body,
        attempt: Option<AttemptNumber>,
        report: Option<TaskReport>,
    ) -> Result<(), Error> {
        self.at_root(|context| context.end_task(facts, body, attempt, report))
    }

    /// Writes the end of the task, if that is not done yet.
    pub fn write_end_of_task(&mut self) -> Result<(), Error> {
        self.at_root(Context::flush)
    }

    /// Makes the task's branch go on from steps that were built anew, with a test that failed there.
    pub fn turn_red(&mut self, built: CommitId, report: StepReport) -> Result<(), Error> {
        self.at_root(|context| context.turn_red(built, report))
    }

    /// The code there is now.
    pub fn code(&mut self) -> Result<CommitId, Error> {
        self.at_root(Context::code)
    }

    /// The commit of the task's last step and what it is built on, as long as it is not written.
    pub fn unwritten_step(&self) -> Option<(CommitId, CommitId)> {
        self.root().unwritten_step()
    }

    /// The facts every step of the session shares.
    pub fn facts(&self, kind: StepKind, passed: bool) -> Step {
        self.root().facts(kind, passed)
    }

    /// The task of a session that works on one.
    pub fn task(&self) -> &TaskOf {
        self.root().task_of()
    }

    /// The newest step's commit, where the task's branch stands.
    pub fn task_tip(&self) -> CommitId {
        self.root().task_tip()
    }

    /// The newest step, and whether it went well.
    pub fn newest_step(&self) -> Option<(StepKind, bool)> {
        self.root().task_work().newest()
    }

    /// Whether the task is complete or given up, as far as its branch is concerned.
    pub fn is_decided(&self) -> bool {
        self.root().task_work().is_decided()
    }

    /// The number of the newest attempt in its budget.
    pub fn attempt_number(&self) -> u32 {
        self.root().task_work().attempt.as_ref().map_or(0, |attempt| attempt.number)
    }

    /// The newest attempt, as it is told.
    pub fn attempt(&self) -> Option<AttemptNumber> {
        self.root().attempt()
    }

    /// What of the work is not committed and not ignored either, in words.
    pub fn left_out(&mut self) -> Result<Vec<String>, Error> {
        Ok(tokio::task::block_in_place(|| self.root_mut().working_mut().left_out())?)
    }

    /// Tries once more to bring the branch forward, and says how to do so by hand if it still cannot be.
    pub fn leave_branch(&mut self) -> Result<Vec<Warning>, Error> {
        tokio::task::block_in_place(|| self.root_mut().leave_branches())
    }

    /// What the newest test step counted.
    pub fn last_counts(&self) -> Option<Counts> {
        let of = |key: &str| {
            let found = self.root().task_work().tested.iter().find(|(name, _)| name == key);
            found.and_then(|(_, value)| value.parse().ok())
        };
        Some(Counts {
            passed: of("Arborist-Test-Passed")?,
            failed: of("Arborist-Test-Failed")?,
            skipped: of("Arborist-Test-Skipped")?,
        })
    }

    /// A path for a report that nothing on the branch has; or what is in the place of the directory of reports.
    pub fn free_report(&self, dir: &str, file: &str) -> Result<Result<String, PathBuf>, Error> {
        let root = self.root();
        let tree = root.task_copy().tree()?;
        Ok(match root.no_directory(tree, dir)? {
            Some(found) => Err(found),
            None => Ok(root.free_path(&format!("{dir}/{file}"), tree)?),
        })
    }

    /// The ref of the session's record.
    pub fn record_name(&self) -> String {
        self.root().recorder.reference()
    }

    /// Runs the task's tests on a commit its steps were built anew as. None when it has no tests.
    pub async fn tests_at(&mut self, commit: CommitId) -> Result<Option<Retested>, Error> {
        let step = self.plan.pipeline.nodes().iter().find(|node| node.step.as_deref() == Some("test"));
        let by_agent = step.is_some_and(|node| node.handler == HandlerKind::Codergen);
        let node = step.or_else(|| self.plan.pipeline.start()).expect("a pipeline that ran has a start");
        if self.plan.tests_at_all(node).is_empty() && !by_agent {
            return Ok(None);
        }
        let node = node.id.clone();
        if by_agent {
            let (id, copy) = (self.plan.id.clone(), self.root_mut().task_copy_mut());
            tokio::task::block_in_place(|| copy.hand_over(id, copy.branch.clone(), Position::all(commit)))?;
            let why = "What the agent tested was built anew since, on what had landed meanwhile.";
            let report = StepReport { said: why.to_owned(), body: text::own(why), ..StepReport::default() };
            return Ok(Some(Retested { outcome: Retest::Unknown(Box::new(report)), warnings: Vec::new() }));
        }
        let finished = self.retest(node.clone(), commit).await?;
        let outcome = match finished.result {
            Ok(outcome) if outcome.status.is_success() => Retest::Green,
            Ok(_) => Retest::Red(Box::new(finished.step.unwrap_or_default())),
            Err(Stopped::Broken(error)) => return Err(error.into()),
            Err(Stopped::Unable(error)) => return Err(*error),
            Err(Stopped::Environment(outcome)) => {
                let why = outcome.failure_reason.unwrap_or_default();
                return Err(Error::Environment { node, why });
            }
            Err(Stopped::Paused(_) | Stopped::NoAnswer(..)) => Retest::Interrupted,
        };
        Ok(Some(Retested { outcome, warnings: finished.warnings }))
    }

    /// Has the tests of the task run on a commit, by the node that tests it. That is no visit, and only the result counts.
    async fn retest(&mut self, node: NodeId, commit: CommitId) -> Result<Finished, Error> {
        let root = self.root();
        let assignment = Assignment {
            session: self.plan.id.clone(),
            context: root.id.clone(),
            record: root.newest_record(),
            visit: Visit { node: node.clone(), visit: 1, attempt: 1, from: None },
            start: Start::First,
            conversation: Conversation::none(),
            next_turn: root.state.turns + 1,
            allowance: Allowance::default(),
            order: BudgetVerdict::Go,
            job: Job::Retest { commit },
        };
        let (context, (reports, mut incoming)) = (root.id.clone(), mpsc::channel(1));
        let _running = self.set_to_work(assignment, reports);
        while let Some((_, report)) = incoming.recv().await {
            match report {
                Report::Done(finished) => {
                    self.take_back(&context)?;
                    return Ok(*finished);
                }
                Report::Lost(why) => return Err(Error::Worker { node, why }),
                Report::Turn(_) => {}
            }
        }
        Err(Error::Worker { node, why: "it stopped".into() })
    }
}

impl Context {
    /// Lays the code of the budget before over the working copy, as long as nothing was committed since.
    fn lay(&mut self) -> Result<(), Error> {
        let laid = self.state.task.as_ref().and_then(|task| task.attempt.as_ref()?.laid);
        let Some(laid) = laid.filter(|_| self.state.work == self.state.base) else { return Ok(()) };
        let copy = self.task_copy_mut();
        let tree = copy.repo.tree_of(laid)?;
        Ok(copy.lay(tree)?)
    }

    fn begin_attempt(&mut self, attempt: AttemptStarted) -> Result<(), Error> {
        let summary = format!("attempt {} of {}", attempt.number, attempt.of);
        // A new attempt is a pass of its own: it is told what went wrong, and nothing else.
        self.memory = Default::default();
        self.record(Batch { summary, ..Batch::default() }, vec![attempt.into()], clock::now())
    }

    fn record_landing(&mut self, landing: Vec<Landing>) -> Result<(), Error> {
        let summary = format!("land on {}", branches(landing.iter().map(|landing| &landing.target)));
        let work: Vec<CommitId> = landing.iter().map(|landing| landing.to).collect();
        let events = landing.into_iter().map(Event::from).collect();
        if self.unwritten_step().is_some_and(|(step, _)| work.contains(&step)) {
            self.defer(&summary, events)?;
            return self.flush();
        }
        self.record(Batch { summary, work, ..Batch::default() }, events, clock::now())
    }

    fn record_landed(&mut self, landed: Vec<Landed>) -> Result<(), Error> {
        let summary = format!("landed on {}", branches(landed.iter().map(|landed| &landed.target)));
        let events = landed.into_iter().map(Event::from).collect();
        self.record(Batch { summary, ..Batch::default() }, events, clock::now())
    }

    /// The worktree of its task's repository.
    pub(super) fn task_copy(&self) -> &WorkingCopy {
        let copy = self.working().copy(&self.task_of().repo);
        copy.expect("a session on a task has a worktree of the task's repository")
    }

    pub(super) fn task_copy_mut(&mut self) -> &mut WorkingCopy {
        let repo = self.task_of().repo.clone();
        let copy = self.working_mut().copy_mut(&repo);
        copy.expect("a session on a task has a worktree of the task's repository")
    }

    /// Where the record has the task's branch.
    fn task_branch_tip(&self) -> CommitId {
        let follower = self.followers.get(&self.task_of().repo);
        follower.expect("a session on a task has a branch in the task's repository").tip()
    }

    /// Tries once more to bring branches forward, and says how to do so by hand where one still cannot be.
    fn leave_branches(&mut self) -> Result<Vec<Warning>, Error> {
        let stays = self.followers.values_mut().map(|follower| follower.leave());
        Ok(stays.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    pub(super) fn task_of(&self) -> &TaskOf {
        self.plan.started.task.as_ref().expect("only sessions on tasks do this")
    }

    /// What has become of its task.
    fn task_work(&self) -> &TaskWork {
        self.state.task.as_deref().expect("only sessions on tasks do this")
    }

    fn task_tip(&self) -> CommitId {
        self.task_work().step
    }

    fn attempt(&self) -> Option<AttemptNumber> {
        let attempt = self.task_work().attempt.as_ref()?;
        let of = self.plan.job.as_ref().map_or(attempt.of, |job| job.attempts);
        Some(AttemptNumber { number: attempt.number, of: of.max(attempt.number) })
    }
}

/// Branches in one line.
fn branches<'b>(all: impl Iterator<Item = &'b BranchName>) -> String {
    all.map(BranchName::as_str).collect::<Vec<_>>().join(", ")
}
