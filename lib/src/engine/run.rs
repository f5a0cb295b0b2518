//! The loop: decide, hand out, record, fold.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::budget::{Order, unpriced_in};
use super::context::work::Work;
use super::context::{Begun, Context, NodeEnd};
use super::worker::{Finished, Report, TurnAnswer, Worker};
use super::{Error, Observer, Pause, Question, Session};
use crate::budget::Allowance;
use crate::clock;
use crate::event::{Event, PauseReason, PipelineCancelled, PipelinePaused};
use crate::ids::{ContextId, NodeId};
use crate::plan::pipeline::{HandlerKind, Node};
use crate::record::Batch;
use crate::route::{self, Action};
use crate::state::{Phase, Visit};

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It reached its exit.
    Completed,
    /// It failed.
    Failed {
        /// Why.
        reason: String,
    },
    /// It was called off.
    Cancelled,
    /// It stopped and can be resumed.
    Paused(Pause),
}

impl Session {
    /// Runs until the pipeline ends or pauses. `observe` is told every event once it is on disk.
    pub async fn run(&mut self, observe: Observer<'_>) -> Result<Ended, Error> {
        let ended = self.run_attempt(observe).await?;
        self.at_root(observe, |context| {
            context.flush()?;
            context.catch_up()
        })?;
        tokio::task::block_in_place(|| {
            self.repo.pack_rest();
            self.trim_pool();
        });
        Ok(ended)
    }

    /// Runs an attempt at a task. Its last node's end is written with the task's last step, which comes right after it.
    pub(super) async fn run_attempt(&mut self, observe: Observer<'_>) -> Result<Ended, Error> {
        self.tell(observe);
        let ended = self.run_loop(observe).await;
        self.tell(observe);
        ended
    }

    async fn run_loop(&mut self, observe: Observer<'_>) -> Result<Ended, Error> {
        let at = self.root_id().clone();
        loop {
            let action = route::next(self.state(), clock::now()).into_iter().next();
            let stopped = self.engine.cancel.is_stopped();
            // The end of a node waits for the start of the next one that does something, or for the end of all.
            let is_over = self.state().phase == Phase::Completed;
            if stopped || !is_over && !self.root().starts_at_once(action.as_ref()) {
                self.writing(&at, observe, Context::flush)?;
            }
            if let Some(ended) = tokio::task::block_in_place(|| self.ended())? {
                return Ok(ended);
            }
            let Some(action) = action else {
                return Err(Error::Worker { node: self.root().here(), why: "nothing is left to do".into() });
            };
            if stopped {
                tokio::task::block_in_place(|| self.pause(PauseReason::Interrupted))?;
                self.tell(observe);
                continue;
            }
            match action {
                Action::WakeAt(time) => self.sleep_until(&at, time).await,
                Action::Start(visit) => self.perform(&at, visit, false, observe).await?,
                Action::Continue(visit) => self.perform(&at, visit, true, observe).await?,
            }
        }
    }

    fn ended(&mut self) -> Result<Option<Ended>, Error> {
        Ok(match &self.state().phase {
            Phase::Completed => Some(Ended::Completed),
            Phase::Failed { reason } => Some(Ended::Failed { reason: reason.clone() }),
            Phase::Cancelled => Some(Ended::Cancelled),
            Phase::Paused { reason, why } => {
                let (reason, why, node) = (*reason, why.clone(), self.state().next_node().cloned());
                let question = match Question::waiting(self.pipeline(), self.state()) {
                    Some(question) => Some(Box::new(Question { work: Some(self.root_mut().judged()?), ..question })),
                    None => None,
                };
                Some(Ended::Paused(Pause { reason, node, why, question }))
            }
            Phase::New | Phase::Running => None,
        })
    }

    async fn sleep_until(&mut self, at: &ContextId, time: Timestamp) {
        if let Some(workspace) = &mut self.context_mut(at).workspace {
            workspace.lend();
        }
        let wait = Duration::try_from(time.duration_since(clock::now())).unwrap_or_default();
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = self.engine.cancel.stopped() => {}
        }
    }

    /// Starts a node, or takes it up again, and sees it through to its end.
    async fn perform(
        &mut self,
        at: &ContextId,
        visit: Visit,
        continues: bool,
        observe: Observer<'_>,
    ) -> Result<(), Error> {
        let Some(node) = self.plan.pipeline.node(&visit.node).cloned() else {
            return Err(Error::Worker { node: visit.node, why: "the pipeline has no such node".into() });
        };
        let conversation = self.context_mut(at).conversation(&node, &visit, continues);
        let allowance = match self.engine.is_of_agent(&node) {
            true => self.allowance(&node)?,
            false => Allowance::default(),
        };
        let over = self.over_budget(&node, &allowance, self.unpriced(&node).as_deref())?;
        self.tell(observe);
        if let Some(over) = over.clone().filter(|_| !(continues && self.context(at).is_answered(&node))) {
            tokio::task::block_in_place(|| self.end_over_budget(&node, over))?;
            self.tell(observe);
            return Ok(());
        }
        let order = self.order(over);
        let begun = self.writing(at, observe, |context| context.begin(&node, &visit, continues, &conversation))?;
        let work = match begun {
            Begun::Passed(end) => return self.after_node(end, observe),
            Begun::Started(work) => work,
        };
        if !matches!(work, Some(Work::Wait(_) | Work::Human(_))) {
            let set_up = self.context_mut(at).bring_setup().await;
            self.pause_if_interrupted(set_up)?;
        }
        let work = match work {
            Some(work) => work,
            None => self.context_mut(at).work(&node, &visit, &conversation)?,
        };
        let set_to_work = self.context_mut(at).set_to_work(node.clone(), visit.clone(), work, (allowance, order));
        let (running, mut incoming) = set_to_work;
        while let Some(report) = incoming.recv().await {
            match report {
                Report::Turn(turn, answer) => {
                    let unpriced = unpriced_in(&turn.turn);
                    let recorded = self.writing(at, observe, |context| context.record_turn(*turn, &conversation))?;
                    let allowance = self.allowance(&node)?;
                    let over = self.over_budget(&node, &allowance, unpriced.as_deref())?;
                    self.tell(observe);
                    let stop = self.engine.cancel.is_stopped() || recorded.is_stopped;
                    let order = if stop { Order::Halt } else { self.order(over) };
                    let (changes, followed) = (recorded.changes, self.context_mut(at).take_followed());
                    // The worker waits for this; if it is gone its end is reported below.
                    let _ = answer.send(TurnAnswer { changes, order, allowance, followed });
                }
                Report::Done(finished) => {
                    let end = self
                        .writing(at, observe, |context| context.node_ended(&node, &visit, *finished, &conversation))?;
                    return self.after_node(end, observe);
                }
            }
        }
        Err(ended_silently(visit.node, running).await)
    }

    /// What the end of a node means for the session.
    fn after_node(&mut self, end: NodeEnd, observe: Observer<'_>) -> Result<(), Error> {
        let NodeEnd::Pauses { reason, why, error } = end else { return Ok(()) };
        let why = why.or_else(|| self.pause_reason().filter(|_| reason == PauseReason::OverBudget));
        tokio::task::block_in_place(|| self.pause_because(reason, why))?;
        self.tell(observe);
        error.map_or(Ok(()), Err)
    }

    /// Records that the run stops here and can be resumed, or not any more when it was called off.
    pub(super) fn pause(&mut self, reason: PauseReason) -> Result<(), Error> {
        let why = self.pause_reason().filter(|_| reason == PauseReason::OverBudget);
        self.pause_because(reason, why)
    }

    /// The same, with more to say about why.
    fn pause_because(&mut self, reason: PauseReason, why: Option<String>) -> Result<(), Error> {
        let root = self.root();
        let (summary, event): (_, Event) = if self.engine.cancel.is_called_off() {
            ("cancel".to_owned(), PipelineCancelled::default().into())
        } else {
            let node_id = root.state.next_node().cloned();
            let event = PipelinePaused { reason, node_id, why, extra: Default::default() };
            (format!("pause at {}", root.here()), event.into())
        };
        self.root_mut().record(Batch { summary, ..Batch::default() }, vec![event], clock::now())
    }
}

impl Context {
    /// Whether a node is started now, without a look into the record. Agents and people are told what the record holds.
    fn starts_at_once(&self, action: Option<&Action>) -> bool {
        let Some(Action::Start(visit)) = action else { return false };
        let node = self.plan.pipeline.node(&visit.node);
        node.is_some_and(|node| match node.handler {
            HandlerKind::Codergen => self.is_asked_of_the_task(node),
            HandlerKind::WaitHuman => false,
            _ => true,
        })
    }

    /// Hands the working copy and something to do in it to a worker.
    fn set_to_work(
        &mut self,
        node: Node,
        visit: Visit,
        work: Work,
        (allowance, order): (Allowance, Order),
    ) -> (JoinHandle<()>, mpsc::Receiver<Report>) {
        let run_dir = self.run_dir().expect("the worktrees are back when no node runs");
        let workspace = self.workspace.take().expect("the worktrees are back when no node runs");
        let (reports, incoming) = mpsc::channel(1);
        let worker = Worker {
            engine: Arc::clone(&self.engine),
            session: self.plan.id.clone(),
            context: self.id.clone(),
            pipeline: self.plan.started.name.clone(),
            variables: self.variables(),
            run_dir,
            home: self.agent_home(),
            node,
            visit,
            workspace,
            next_turn: self.state.turns + 1,
            job: self.plan.job.clone(),
            scratch: None,
            allowance,
            order,
            reports,
        };
        (tokio::spawn(worker.run(work)), incoming)
    }

    /// Lets a worker do something that is no node's visit and of which only the result counts.
    pub(super) async fn run_detached(&mut self, node: Node, visit: Visit, work: Work) -> Result<Finished, Error> {
        let name = node.id.clone();
        let (running, mut incoming) = self.set_to_work(node, visit, work, (Allowance::default(), Order::Go));
        while let Some(report) = incoming.recv().await {
            if let Report::Done(finished) = report {
                return Ok(*finished);
            }
        }
        Err(ended_silently(name, running).await)
    }

    /// The variables of the pipeline, for commands: their shell expands `$goal`, so that no text becomes a command.
    fn variables(&self) -> Vec<(String, String)> {
        let started = &self.plan.started;
        let goal = std::iter::once(("goal".to_owned(), started.goal.clone()));
        let inputs = goal.chain(started.inputs.clone());
        inputs.map(|(name, value)| (name, for_environment(&value))).collect()
    }
}

/// Why a worker is gone that has reported no end.
async fn ended_silently(node: NodeId, running: JoinHandle<()>) -> Error {
    let why = running.await.err().map_or_else(|| "it stopped".to_owned(), |error| error.to_string());
    Error::Worker { node, why }
}

/// How long a variable of the environment may be: systems refuse to start a program that has one of 128 KiB.
const LONGEST_VARIABLE: usize = 100_000;

/// A text as a variable of the environment can hold it: its beginning, and U+FFFD for NUL.
fn for_environment(text: &str) -> String {
    let mut text = text.replace('\0', "\u{fffd}");
    text.truncate(text.floor_char_boundary(LONGEST_VARIABLE));
    text
}
