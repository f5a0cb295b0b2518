//! A session that works on a task of a tree.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::job::TaskJob;
use super::report::{Retest, Retested, StepReport, TaskReport};
use super::step;
use super::task_slot::TaskSlot;
use crate::env::{BudgetVerdict, Engine, Error, Locks, SessionRepos, secret_check};
use crate::push::PushOccasion;
use crate::session::context::{Context, begin_node, recording};
use crate::session::executor::{AssignedWork, Assignment, Conversation, NodeStart};
use crate::session::resume::{self, RecordedSession, read};
use crate::session::session::Session;
use crate::session::start;
use crate::session::start_request::{StartRequest, TaskStart};
use crate::session::worker::{NodeFinished, Stopped, WorkerReport};
use crate::view::recorded_pipeline;
use git::Repo;
use git::record::Batch;
use git::workspace::{self, CopyPosition};
use pleach_core::budget::Allowance;
use pleach_core::clock;
use pleach_core::event::{AttemptStarted, Event, Landed, Landing, TaskOf, Warning};
use pleach_core::ids::{BranchName, CommitId, NodeId, SessionId};
use pleach_core::plan::pipeline::HandlerKind;
use pleach_core::state::{Phase, Visit};
use pleach_core::step::text::{self, Body};
use pleach_core::step::{AttemptNumber, Counts, Step, StepKind};

/// A session on a task: a session, plus the records of its task.
#[derive(Debug)]
pub struct TaskSession {
    session: Session,
}

impl Deref for TaskSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl DerefMut for TaskSession {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}

impl TaskSession {
    /// Starts a session on a task. Returns where work found in the worktree was saved.
    pub async fn start(
        engine: Arc<Engine>,
        request: StartRequest,
        start: TaskStart,
    ) -> Result<(Self, Option<String>), Error> {
        // The tree's description of the task may hold a secret: the record omits it, and a resume reads the tree again.
        secret_check::pipeline(&engine.redactor, &request.dot_path, &request.dot, &request.files)?;
        tokio::task::block_in_place(|| engine.check_places(&request.repos()))?;
        let session = tokio::task::block_in_place(|| start::open_new(engine, request, Some(start)))?;
        let (mut session, kept) = start::make_first_copy(session).await?;
        tokio::task::block_in_place(|| overlay_code(session.root_mut()))?;
        Ok((Self { session }, kept))
    }

    /// Resumes a session on a task, even between two attempts. Returns where work found in the worktree was saved.
    pub async fn resume(
        engine: Arc<Engine>,
        repo: Repo,
        id: &SessionId,
        job: Arc<TaskJob>,
        worktree: TaskSlot,
    ) -> Result<(Self, Option<String>), Error> {
        let mut session = tokio::task::block_in_place(|| {
            let locks = Locks::beside(&repo, id, worktree.lock.clone())?;
            let mut found: RecordedSession = read(&repo, id)?;
            // The tree may have changed since: its commands get the same current text as its task. Nothing else comes
            // from the record, because these are environment variables of commands, and a recorded one could be named
            // `PATH`.
            let started = &mut found.history.started;
            started.inputs = job.inputs();
            started.task.iter_mut().for_each(|task| task.name.clone_from(&job.task.name));
            found.pipeline = recorded_pipeline(started)?;
            started.goal.clone_from(&found.pipeline.goal);
            let repos = SessionRepos::one(found.history.started.record_repo().clone(), repo);
            resume::open_recorded(engine, repos, locks, found, Some(job), worktree.number)
        })?;
        session.root_mut().workspace = worktree.workspace;
        let kept = match session.state().phase {
            Phase::Running | Phase::Paused { .. } => {
                resume::record_resumed(&mut session, None)?;
                resume::go_on(&mut session).await?
            }
            _ => start::make_copy(&mut session).await?,
        };
        tokio::task::block_in_place(|| overlay_code(session.root_mut()))?;
        Ok((Self { session }, kept))
    }

    /// Records that the steps of a session left by an earlier run have landed on the target.
    pub fn close_landed(engine: Arc<Engine>, repo: Repo, id: &SessionId, worktree: &TaskSlot) -> Result<(), Error> {
        let locks = Locks::beside(&repo, id, worktree.lock.clone())?;
        let found = read(&repo, id)?;
        let repos = SessionRepos::one(found.history.started.record_repo().clone(), repo);
        let mut session = Self { session: resume::open_recorded(engine, repos, locks, found, None, worktree.number)? };
        let landed = session.root().task_work().landing.clone().into_iter().map(|landing| Landed {
            repo: landing.repo,
            target: landing.target,
            commit: landing.to,
            extra: Default::default(),
        });
        session.record_landed(landed.collect())
    }

    /// Returns the worktree. What is to be pushed is pushed meanwhile.
    pub fn leave(self) -> TaskSlot {
        if self.session.plan.push.is_open() {
            let pushes = self.session.plan.push.end(PushOccasion::Stopped);
            self.session.engine.supervisor.leave_pushes(pushes);
        }
        let number = self.session.plan.slot;
        let (_, root) = self.session.into_root();
        TaskSlot { number, lock: root.lock, workspace: root.workspace }
    }

    /// Starts the next attempt.
    pub fn begin_attempt(&mut self, attempt: AttemptStarted) -> Result<(), Error> {
        self.at_root(|context| begin_attempt(context, attempt))
    }

    /// Records which branches are about to move.
    pub fn record_landing(&mut self, landing: Vec<Landing>) -> Result<(), Error> {
        self.at_root(|context| record_landing(context, landing))
    }

    /// Records that they have moved.
    pub fn record_landed(&mut self, landed: Vec<Landed>) -> Result<(), Error> {
        self.at_root(|context| record_landed(context, landed))
    }

    /// Fails an attempt outside of its steps, so that it counts and the next one gets feedback.
    pub fn fail_attempt(&mut self, reason: &str) -> Result<(), Error> {
        self.at_root(|context| step::fail_attempt(context, reason))
    }

    /// Ends the task with its last step, and with the report if it is complete. The end is written when the landing is
    /// recorded, or by [`TaskSession::write_end_of_task`].
    pub fn end_task(
        &mut self,
        facts: Step,
        body: Body,
        attempt: Option<AttemptNumber>,
        report: Option<TaskReport>,
    ) -> Result<(), Error> {
        self.at_root(|context| step::end_task(context, facts, body, attempt, report))
    }

    /// Writes the end of the task, if that is still pending.
    pub fn write_end_of_task(&mut self) -> Result<(), Error> {
        self.at_root(recording::flush)
    }

    /// Moves the task's branch to its rebuilt steps, with the test that failed there.
    pub fn turn_red(&mut self, built: CommitId, report: StepReport) -> Result<(), Error> {
        self.at_root(|context| step::turn_red(context, built, &StepKind::Test, report))
    }

    /// The same for a step of another kind, with the files of the rebuilt steps in the worktree.
    pub fn turn_away(&mut self, built: CommitId, step: &StepKind, report: StepReport) -> Result<(), Error> {
        self.at_root(|context| {
            recording::flush(context)?;
            let (id, branch) = (context.plan.run.session.clone(), context.task_copy().branch.clone());
            workspace::hand_over(context.task_copy_mut(), id, branch, CopyPosition::all(built))?;
            step::turn_red(context, built, step, report)
        })
    }

    /// The id of the current code, without logs and reports.
    pub fn code(&mut self) -> Result<CommitId, Error> {
        self.at_root(step::code)
    }

    /// The commit of the task's last step and its parent, while it is not written.
    pub fn unwritten_step(&self) -> Option<(CommitId, CommitId)> {
        step::unwritten_step(self.root())
    }

    /// The facts shared by all steps of the session.
    pub fn facts(&self, kind: StepKind, passed: bool) -> Step {
        step::facts(self.root(), kind, passed)
    }

    /// The task of the session.
    pub fn task(&self) -> &TaskOf {
        self.root().task_of()
    }

    /// The commit of the newest step, which is the tip of the task's branch.
    pub fn task_tip(&self) -> CommitId {
        self.root().task_tip()
    }

    /// The newest step, and whether it passed.
    pub fn newest_step(&self) -> Option<(StepKind, bool)> {
        self.root().task_work().newest()
    }

    /// Whether the task is complete or given up, according to its branch.
    pub fn is_decided(&self) -> bool {
        self.root().task_work().is_decided()
    }

    /// The number of the newest attempt in its budget.
    pub fn attempt_number(&self) -> u32 {
        self.root().task_work().attempt.as_ref().map_or(0, |attempt| attempt.number)
    }

    /// The newest attempt, for messages.
    pub fn attempt(&self) -> Option<AttemptNumber> {
        self.root().attempt()
    }

    /// Files that are neither committed nor ignored, for messages.
    pub fn left_out(&mut self) -> Result<Vec<String>, Error> {
        Ok(tokio::task::block_in_place(|| self.root_mut().working_mut().left_out())?)
    }

    /// Retries moving the branch, and warns how to do it by hand if that still fails.
    pub fn leave_branch(&mut self) -> Result<Vec<Warning>, Error> {
        tokio::task::block_in_place(|| leave_branches(self.root_mut()))
    }

    /// The counts of the newest test step.
    pub fn last_counts(&self) -> Option<Counts> {
        let count = |key: &str| {
            let found = self.root().task_work().tested.iter().find(|(name, _)| name == key);
            found.and_then(|(_, value)| value.parse().ok())
        };
        Some(Counts {
            passed: count("Arborist-Test-Passed")?,
            failed: count("Arborist-Test-Failed")?,
            skipped: count("Arborist-Test-Skipped")?,
        })
    }

    /// A free path for a report on the branch, or the file in place of the directory of reports.
    pub fn free_report(&self, dir: &str, file: &str) -> Result<Result<String, PathBuf>, Error> {
        let root = self.root();
        let tree = root.task_copy().tree()?;
        Ok(match step::no_directory(root, tree, dir)? {
            Some(found) => Err(found),
            None => Ok(step::free_path(root, &format!("{dir}/{file}"), tree)?),
        })
    }

    /// The ref of the session's record.
    pub fn record_name(&self) -> String {
        self.root().recorder.reference()
    }

    /// Runs the task's tests on the commit of its rebuilt steps. `None` if it has no tests.
    pub async fn tests_at(&mut self, commit: CommitId) -> Result<Option<Retested>, Error> {
        let step = self.plan.pipeline.nodes().iter().find(|node| node.step.as_deref() == Some("test"));
        let by_agent = step.is_some_and(|node| node.handler == HandlerKind::Codergen);
        let node = step.or_else(|| self.plan.pipeline.start()).expect("a pipeline that ran has a start");
        if self.plan.tests_at_all(node).is_empty() && !by_agent {
            return Ok(None);
        }
        let node = node.id.clone();
        if by_agent {
            let (id, copy) = (self.plan.run.session.clone(), self.root_mut().task_copy_mut());
            tokio::task::block_in_place(|| {
                workspace::hand_over(copy, id, copy.branch.clone(), CopyPosition::all(commit))
            })?;
            let why = "What the agent tested was rebuilt since, on what landed meanwhile.";
            let report = StepReport { said: why.to_owned(), body: text::own(why), ..StepReport::default() };
            return Ok(Some(Retested { outcome: Retest::Unknown(Box::new(report)), warnings: Vec::new() }));
        }
        let finished = self.retest(node.clone(), commit).await?;
        let outcome = match finished.result {
            Ok(outcome) if outcome.status.is_success() => Retest::Green,
            Ok(_) => Retest::Red(Box::new(finished.step.unwrap_or_default())),
            Err(Stopped::Broken(error)) => return Err(error.into()),
            Err(Stopped::Unable(error)) => return Err(*error),
            Err(Stopped::NotStarted(error)) => return Err(error.into()),
            Err(Stopped::Environment(outcome)) => {
                let why = outcome.failure_reason.unwrap_or_default();
                return Err(Error::Environment { node, why });
            }
            Err(Stopped::Paused(_) | Stopped::NoAnswer(..) | Stopped::Unresolved(_)) => Retest::Interrupted,
        };
        Ok(Some(Retested { outcome, warnings: finished.warnings }))
    }

    /// Runs the task's tests on a commit, through its test node. This is not a visit, and only the result counts.
    async fn retest(&mut self, node: NodeId, commit: CommitId) -> Result<NodeFinished, Error> {
        let root = self.root();
        let assignment = Assignment {
            session: self.plan.run.session.clone(),
            context: root.id.clone(),
            record: begin_node::newest_record(root),
            visit: Visit { node: node.clone(), visit: 1, attempt: 1, from: None },
            start: NodeStart::First,
            conversation: Conversation::none(),
            next_turn: root.state.turns + 1,
            allowance: Allowance::default(),
            verdict: BudgetVerdict::Go,
            resolves: None,
            job: AssignedWork::Retest { commit },
        };
        let (context, (reports, mut incoming)) = (root.id.clone(), mpsc::channel(1));
        let _running = self.set_to_work(assignment, reports);
        while let Some((_, report)) = incoming.recv().await {
            match report {
                WorkerReport::Done(finished) => {
                    self.take_back(&context)?;
                    return Ok(*finished);
                }
                WorkerReport::Lost(why) => return Err(Error::Worker { node, why }),
                WorkerReport::Turn(_) => {}
            }
        }
        Err(Error::Worker { node, why: "it stopped".into() })
    }
}

/// Overlays the code of the previous budget on the worktree, as long as nothing was committed since.
fn overlay_code(context: &mut Context) -> Result<(), Error> {
    let laid = context.state.task.as_ref().and_then(|task| task.attempt.as_ref()?.laid);
    let Some(laid) = laid.filter(|_| context.state.work == context.state.base) else { return Ok(()) };
    let copy = context.task_copy_mut();
    let tree = copy.repo.tree_of(laid)?;
    Ok(workspace::overlay_tree(copy, tree)?)
}

fn begin_attempt(context: &mut Context, attempt: AttemptStarted) -> Result<(), Error> {
    let summary = format!("attempt {} of {}", attempt.number, attempt.of);
    // A new attempt starts from scratch: it gets the feedback, and nothing else.
    context.memory = Default::default();
    recording::record(context, Batch { summary, ..Batch::default() }, vec![attempt.into()], clock::now())
}

fn record_landing(context: &mut Context, landing: Vec<Landing>) -> Result<(), Error> {
    let summary = format!("land on {}", branches(landing.iter().map(|landing| &landing.target)));
    let work: Vec<CommitId> = landing.iter().map(|landing| landing.to).collect();
    let events = landing.into_iter().map(Event::from).collect();
    if step::unwritten_step(context).is_some_and(|(step, _)| work.contains(&step)) {
        recording::defer(context, &summary, events)?;
        return recording::flush(context);
    }
    recording::record(context, Batch { summary, work, ..Batch::default() }, events, clock::now())
}

fn record_landed(context: &mut Context, landed: Vec<Landed>) -> Result<(), Error> {
    let summary = format!("landed on {}", branches(landed.iter().map(|landed| &landed.target)));
    let events = landed.into_iter().map(Event::from).collect();
    recording::record(context, Batch { summary, ..Batch::default() }, events, clock::now())
}

/// Retries moving branches, and warns how to do it by hand if that still fails.
fn leave_branches(context: &mut Context) -> Result<Vec<Warning>, Error> {
    let stays = context.followers.values_mut().map(|follower| follower.warn_if_lagging());
    Ok(stays.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn branches<'b>(all: impl Iterator<Item = &'b BranchName>) -> String {
    all.map(BranchName::as_str).collect::<Vec<_>>().join(", ")
}
