//! Runs assignments. An assignment names the record it follows from and no live objects; the executor derives the work
//! from it, finds the agent and the worktrees, and forwards the worker's reports.
//!
//! This executor runs on the machine of the session. A context hands over its worktrees for the duration of the work,
//! along with the facts it knows from its record, which are then not read again.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::place::run_dir;
use super::work::{self, WorkBuilder};
use super::{NodeStart, RecordedFacts, Setup};
use crate::env::{Engine, Error, SessionRepos};
use crate::merging::{self, ConflictSides, TierOptions};
use crate::session::session_plan::SessionPlan;
use crate::session::worker::{NodeFinished, Stopped, TurnAnswer, Worker, WorkerReport, dispatch};
use crate::session::{AssignedWork, Assignment, ConflictWork, Offered, Work};
use crate::view::recorded_pipeline;
use git::record::History;
use git::workspace::{self, CopyPosition, Workspace};
use git::{Conflict, MergeError, Repo};
use os::confined_fs::ConfinedDir;
use os::process::{Cancel, Canceller};
use pleach_core::event::{Outcome, Warning, WarningCode};
use pleach_core::ids::{CommitId, ContextId, RunId};
use pleach_core::merge::{ConflictLabels, Tier};
use pleach_core::plan::pipeline::{HandlerKind, Node, WritePolicy};

/// Called for all work that starts, with its assignment.
pub type WorkWatch = Arc<dyn Fn(&Assignment, &Work) + Send + Sync>;

/// Runs assignments on this machine.
#[derive(Clone)]
pub struct Executor {
    engine: Arc<Engine>,
    plan: Arc<SessionPlan>,
    desks: Arc<Mutex<BTreeMap<ContextId, Desk>>>,
    pub(crate) watch: Option<WorkWatch>,
}

/// What a context has handed over.
#[derive(Debug, Default)]
struct Desk {
    /// Its worktrees, while no worker uses them.
    workspace: Option<Workspace>,
    /// The facts known from a record, and which record that is.
    known: Option<(CommitId, Arc<RecordedFacts>)>,
}

/// A running worker.
#[derive(Debug)]
pub(crate) struct Running {
    pub assignment: Assignment,
    answers: mpsc::Sender<TurnAnswer>,
    worker: AbortHandle,
    canceller: Canceller,
}

impl Running {
    /// Answers the last reported turn. A worker that is gone gets nothing; its end is reported anyway.
    pub(crate) fn answer(&self, answer: TurnAnswer) {
        let _ = self.answers.try_send(answer);
    }

    /// Asks the worker to end at once; it reports that it did.
    pub(crate) fn cancel(&self) {
        self.canceller.kill();
    }

    /// Aborts the worker. Its unreported work is lost, and so are its worktrees.
    pub(crate) fn stop(&self) {
        self.worker.abort();
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("session", &self.plan.run.session).finish_non_exhaustive()
    }
}

impl Executor {
    pub(crate) fn new(engine: Arc<Engine>, plan: Arc<SessionPlan>) -> Self {
        Self { engine, plan, desks: Arc::default(), watch: None }
    }

    /// An executor for a run known only from its record, and not on a task.
    pub fn of_record(engine: Arc<Engine>, repos: SessionRepos, run: &RunId) -> Result<Self, Error> {
        let history = History::newest(repos.record(), run)?;
        let pipeline = recorded_pipeline(&history.started)?;
        let plan = SessionPlan::new(run.clone(), history.started, pipeline, repos, None, engine.cancel.clone())?;
        Ok(Self::new(engine, Arc::new(plan)))
    }

    /// The work of an assignment, derived from the record it names. Changes nothing.
    pub fn work(&self, assignment: &Assignment) -> Result<Work, Error> {
        let node = self.node(assignment)?;
        let making = WorkBuilder {
            engine: &self.engine,
            plan: &self.plan,
            assignment,
            node: &node,
            root: &self.plan.root(&self.engine, &assignment.context),
            withheld: &[],
        };
        making.work(|| RecordedFacts::at(&self.engine, &self.plan, &node, assignment).map(Arc::new))
    }

    /// Takes the worktrees of a context for its next work.
    pub(crate) fn hand_over(&self, context: &ContextId, workspace: Workspace) {
        self.at_desk(context, |desk| desk.workspace = Some(workspace));
    }

    /// Returns the worktrees of a context, unless a worker uses or has lost them.
    pub(crate) fn take_back(&self, context: &ContextId) -> Option<Workspace> {
        self.at_desk(context, |desk| desk.workspace.take())
    }

    /// Stores the facts a context knows from its newest record, for the assignment that follows from it.
    pub(crate) fn keep(&self, assignment: &Assignment, known: Option<RecordedFacts>) {
        let known = known.map(|known| (assignment.record, Arc::new(known)));
        self.at_desk(&assignment.context, |desk| desk.known = known);
    }

    fn at_desk<T>(&self, context: &ContextId, work: impl FnOnce(&mut Desk) -> T) -> T {
        // A panic while the lock was held has changed one field at most.
        let mut desks = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        work(desks.entry(context.clone()).or_default())
    }

    /// Starts a worker on an assignment, in the worktrees handed over by its context. The end is reported even if the
    /// worker panics.
    pub(crate) fn start(&self, assignment: Assignment, reports: mpsc::Sender<(ContextId, WorkerReport)>) -> Running {
        let (answers, incoming) = mpsc::channel(1);
        let (id, lost) = (assignment.context.clone(), reports.clone());
        let (canceller, cancel) = self.plan.cancel.child();
        let work = self.clone().carry_out(assignment.clone(), cancel, incoming, reports);
        let working = tokio::spawn(work);
        let worker = working.abort_handle();
        tokio::spawn(async move {
            if let Err(broken) = working.await {
                // The receiver is gone if the run failed with its own error.
                let _ = lost.send((id, WorkerReport::Lost(broken.to_string()))).await;
            }
        });
        Running { assignment, answers, worker, canceller }
    }

    async fn carry_out(
        self,
        assignment: Assignment,
        cancel: Cancel,
        answers: mpsc::Receiver<TurnAnswer>,
        reports: mpsc::Sender<(ContextId, WorkerReport)>,
    ) {
        let context = assignment.context.clone();
        let Some(mut workspace) = self.take_back(&context) else {
            let why = "its worktrees were not handed over".to_owned();
            let _ = reports.send((context, WorkerReport::Lost(why))).await;
            return;
        };
        let mut warnings = Vec::new();
        let mut finished = match self.prepare(&assignment, &mut workspace, &mut warnings).await {
            Ok(None) => NodeFinished::of(Ok(Outcome::success())),
            Ok(Some((node, work))) => {
                let worker = self.worker(assignment, node, cancel, workspace, answers, reports.clone());
                let (back, finished) = dispatch::run(worker, work).await;
                workspace = back;
                finished
            }
            Err(error) => NodeFinished::of(Err(Stopped::Unable(Box::new(error)))),
        };
        finished.warnings.extend(warnings);
        self.hand_over(&context, workspace);
        // The receiver is gone only if the run failed with its own error.
        let _ = reports.send((context, WorkerReport::Done(Box::new(finished)))).await;
    }

    /// Prepares the worktrees and derives the work; `None` if preparing was all there was to do.
    async fn prepare(
        &self,
        assignment: &Assignment,
        workspace: &mut Workspace,
        warnings: &mut Vec<Warning>,
    ) -> Result<Option<(Node, Work)>, Error> {
        let node = self.node(assignment)?;
        match assignment.job {
            AssignedWork::Setup => {
                self.set_up(workspace, warnings).await?;
                return Ok(None);
            }
            AssignedWork::Retest { commit } => {
                let task = self.plan.started.task.as_ref().expect("only sessions on tasks do this");
                let copy = workspace.copy_mut(&task.repo);
                let copy = copy.expect("a session on a task has a worktree of the task's repository");
                let (id, branch) = (self.plan.run.session.clone(), copy.branch.clone());
                tokio::task::block_in_place(|| workspace::hand_over(copy, id, branch, CopyPosition::all(commit)))?;
                self.set_up(workspace, warnings).await?;
            }
            AssignedWork::Node => {
                if assignment.start == NodeStart::Redriven {
                    tokio::task::block_in_place(|| workspace.lay_base())?;
                }
                if let Some(conflicts) = &assignment.resolves {
                    tokio::task::block_in_place(|| mark_conflicts(workspace, conflicts))?;
                }
            }
        }
        let mut make = || self.make(assignment, &node, workspace, warnings);
        // Work derived from the plan alone is quick to build.
        let work = if work::needs_no_record(&self.engine, &node) { make() } else { tokio::task::block_in_place(make) }?;
        if let Some(watch) = &self.watch {
            watch(assignment, &work);
        }
        Ok(Some((node, work)))
    }

    async fn set_up(&self, workspace: &mut Workspace, warnings: &mut Vec<Warning>) -> Result<(), Error> {
        let mut setup = Setup { engine: &self.engine, plan: &self.plan, workspace, warnings: Vec::new() };
        let done = setup.again().await;
        warnings.extend(setup.warnings);
        done
    }

    /// The gate that must hold once conflicts are resolved.
    fn gate(&self, conflicts: &ConflictWork) -> Option<String> {
        self.plan.pipeline.node(conflicts.gate.as_ref()?)?.fan_in.as_ref()?.gate.clone()
    }

    /// The node of an assignment, as it will run.
    fn node(&self, assignment: &Assignment) -> Result<Node, Error> {
        let id = &assignment.visit.node;
        let node = self.plan.pipeline.node(id).cloned();
        let node =
            node.ok_or_else(|| Error::Worker { node: id.clone(), why: "the pipeline has no such node".into() })?;
        Ok(match assignment.job {
            AssignedWork::Retest { .. } => Node { write: WritePolicy::Never, ..node },
            // What it writes is a merge, and nothing else.
            _ if matches!(node.handler, HandlerKind::Parallel | HandlerKind::FanIn) => {
                Node { write: WritePolicy::Never, ..node }
            }
            AssignedWork::Node | AssignedWork::Setup => node,
        })
    }

    /// The work to do. Writes the files it needs.
    fn make(
        &self,
        assignment: &Assignment,
        node: &Node,
        workspace: &Workspace,
        warnings: &mut Vec<Warning>,
    ) -> Result<Work, Error> {
        let kept = self.at_desk(&assignment.context, |desk| desk.known.take());
        let found = OnceCell::new();
        if let Some((_, known)) = kept.filter(|(record, _)| *record == assignment.record) {
            let _ = found.set(known);
        }
        let known = || match found.get() {
            Some(known) => Ok(Arc::clone(known)),
            None => {
                let known = Arc::new(RecordedFacts::at(&self.engine, &self.plan, node, assignment)?);
                Ok(Arc::clone(found.get_or_init(|| known)))
            }
        };
        let (engine, plan) = (&*self.engine, &*self.plan);
        let making = WorkBuilder { engine, plan, assignment, node, root: workspace.root(), withheld: &[] };
        let work = making.work(known)?;
        let unwritten = match &work {
            Work::Agent(work) => unwritten(&work.offered),
            _ => Vec::new(),
        };
        if unwritten.is_empty() {
            return Ok(work);
        }
        // A file that could not be written is not offered.
        let mut withheld = Vec::new();
        for (offered, error) in unwritten {
            let text = format!("cannot write `{}` for the next agent: {error}", offered.file.display());
            warnings.push(WarningCode::FileNotOffered.with(text));
            withheld.push(offered.node.clone());
        }
        WorkBuilder { withheld: &withheld, ..making }.work(known)
    }

    fn worker(
        &self,
        assignment: Assignment,
        node: Node,
        cancel: Cancel,
        mut workspace: Workspace,
        answers: mpsc::Receiver<TurnAnswer>,
        reports: mpsc::Sender<(ContextId, WorkerReport)>,
    ) -> Worker {
        workspace.focus(node.repo.as_deref().and_then(|repo| repo.parse().ok()));
        Worker {
            engine: Arc::clone(&self.engine),
            cancel,
            session: self.plan.run.session.clone(),
            pipeline: self.plan.started.name.clone(),
            variables: self.plan.variables(),
            node,
            run_dir: run_dir(workspace.root(), &assignment.context),
            home: self.plan.agent_home(&self.engine, &assignment.context),
            workspace,
            job: self.plan.job.clone(),
            scratch: None,
            context: assignment.context,
            visit: assignment.visit,
            gate: assignment.resolves.as_ref().and_then(|conflicts| self.gate(conflicts)),
            resolves: assignment.resolves,
            next_turn: assignment.next_turn,
            allowance: assignment.allowance,
            verdict: assignment.verdict,
            answers,
            reports,
        }
    }
}

/// Writes the offered files. Returns those that could not be written.
fn unwritten(offered: &[Offered]) -> Vec<(&Offered, io::Error)> {
    let write = |offered: &Offered| match (offered.file.parent(), offered.file.file_name()) {
        (Some(dir), Some(name)) => {
            std::fs::create_dir_all(dir).and_then(|()| ConfinedDir::at(dir)?.write(name, offered.text.as_bytes()))
        }
        _ => Ok(()),
    };
    offered.iter().filter_map(|offered| Some((offered, write(offered).err()?))).collect()
}

/// A conflict whose files show between the markers what both sides started from, too, and what the sides are called.
fn with_bases(
    repo: &Repo,
    base: Option<CommitId>,
    sides: &ConflictSides,
    conflict: Conflict,
    labels: ConflictLabels,
) -> Result<Conflict, Error> {
    let Some(base) = merging::base_tree(repo, base, sides.ours, sides.theirs)? else { return Ok(conflict) };
    let [ours, theirs] = [repo.tree_of(sides.ours)?, repo.tree_of(sides.theirs)?];
    let only_marked = TierOptions { limit: Tier::Clean, labels, ..TierOptions::default() };
    let result = merging::resolve_conflict(repo, base, ours, theirs, &conflict, &only_marked)?;
    Ok(Conflict { marked: result.tree, ..conflict })
}

/// Merges commits into the worktrees, with the conflicts marked in the files.
fn mark_conflicts(workspace: &mut Workspace, conflicts: &ConflictWork) -> Result<(), Error> {
    for (repo, theirs) in &conflicts.lay {
        let (Some(copy), Some(sides)) = (workspace.copy_mut(repo), conflicts.sides.get(repo)) else { continue };
        // What was resolved of it already stays.
        if copy.has_laid(*theirs)? {
            continue;
        }
        let base = conflicts.bases.get(repo).copied();
        let tree = match merging::merge_from(&copy.repo, base, copy.at().tip, *theirs) {
            Ok(tree) => tree,
            Err(MergeError::Conflict(conflict)) => {
                let labels = ConflictLabels {
                    ours: copy.branch.to_string(),
                    theirs: conflicts.branch.to_string(),
                    ..ConflictLabels::default()
                };
                merging::marked_tree(&copy.repo, sides, &with_bases(&copy.repo, base, sides, conflict, labels)?)?
            }
            Err(MergeError::Git(error)) => return Err(error.into()),
        };
        workspace::overlay_tree(copy, tree)?;
        copy.note_laid(*theirs)?;
    }
    Ok(())
}
