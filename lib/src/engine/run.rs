//! Running a session: from where it stands to its end or a pause.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::budget::Order;
use super::context::Context;
use super::context::work::Work;
use super::pump::Pump;
use super::worker::{Finished, Report, Worker};
use super::{Error, Pause, Question, Session};
use crate::budget::Allowance;
use crate::clock;
use crate::event::{Event, PauseReason, PipelineCancelled, PipelinePaused};
use crate::ids::ContextId;
use crate::plan::pipeline::{HandlerKind, Node};
use crate::record::Batch;
use crate::route::Action;
use crate::state::{Phase, Visit};
use crate::workspace::WorkingCopy;

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
    /// Runs until the pipeline ends or pauses.
    pub async fn run(&mut self) -> Result<Ended, Error> {
        let ended = self.run_attempt().await?;
        self.at_root(|context| {
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
    pub(super) async fn run_attempt(&mut self) -> Result<Ended, Error> {
        self.announce();
        Pump::new(self).run().await
    }

    pub(super) fn ended(&mut self) -> Result<Option<Ended>, Error> {
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

    /// Records that the run stops here and can be resumed, or not any more when it was called off.
    pub(super) fn pause(&mut self, reason: PauseReason) -> Result<(), Error> {
        let why = self.pause_reason().filter(|_| reason == PauseReason::OverBudget);
        self.pause_because(reason, why)
    }

    /// The same, with more to say about why.
    pub(super) fn pause_because(&mut self, reason: PauseReason, why: Option<String>) -> Result<(), Error> {
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
    pub(super) fn starts_at_once(&self, action: Option<&Action>) -> bool {
        let Some(Action::Start(visit)) = action else { return false };
        let node = self.plan.pipeline.node(&visit.node);
        node.is_some_and(|node| match node.handler {
            HandlerKind::Codergen => self.is_asked_of_the_task(node),
            HandlerKind::WaitHuman => false,
            _ => true,
        })
    }

    /// Whether the worktrees have to be set up again before this work.
    pub(super) fn has_lost_setup(&self, work: &Work) -> bool {
        let waits = matches!(work, Work::Wait(_) | Work::Human(_));
        !waits && self.working().copies().any(WorkingCopy::has_lost_setup)
    }

    /// Hands the worktrees and something to do in them to a worker. It reports its end, also where it breaks.
    pub(super) fn set_to_work(
        &mut self,
        node: Node,
        visit: Visit,
        work: Work,
        (allowance, order): (Allowance, Order),
        reports: mpsc::Sender<(ContextId, Report)>,
    ) {
        let run_dir = self.run_dir().expect("the worktrees are back when no node runs");
        let workspace = self.workspace.take().expect("the worktrees are back when no node runs");
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
            reports: reports.clone(),
        };
        let (id, running) = (self.id.clone(), tokio::spawn(worker.run(work)));
        tokio::spawn(async move {
            if let Err(broken) = running.await {
                // Nobody listens any more where the run has failed with an error of its own.
                let _ = reports.send((id, Report::Lost(broken.to_string()))).await;
            }
        });
    }

    /// Lets a worker do something that is no node's visit and of which only the result counts.
    pub(super) async fn run_detached(&mut self, node: Node, visit: Visit, work: Work) -> Result<Finished, Error> {
        let (name, (reports, mut incoming)) = (node.id.clone(), mpsc::channel(1));
        self.set_to_work(node, visit, work, (Allowance::default(), Order::Go), reports);
        while let Some((_, report)) = incoming.recv().await {
            match report {
                Report::Done(finished) => return Ok(*finished),
                Report::Lost(why) => return Err(Error::Worker { node: name, why }),
                Report::Turn(..) => {}
            }
        }
        Err(Error::Worker { node: name, why: "it stopped".into() })
    }

    /// The variables of the pipeline, for commands: their shell expands `$goal`, so that no text becomes a command.
    fn variables(&self) -> Vec<(String, String)> {
        let started = &self.plan.started;
        let goal = std::iter::once(("goal".to_owned(), started.goal.clone()));
        let inputs = goal.chain(started.inputs.clone());
        inputs.map(|(name, value)| (name, for_environment(&value))).collect()
    }
}

/// How long a variable of the environment may be: systems refuse to start a program that has one of 128 KiB.
const LONGEST_VARIABLE: usize = 100_000;

/// A text as a variable of the environment can hold it: its beginning, and U+FFFD for NUL.
fn for_environment(text: &str) -> String {
    let mut text = text.replace('\0', "\u{fffd}");
    text.truncate(text.floor_char_boundary(LONGEST_VARIABLE));
    text
}
