//! Running a session: from where it stands to its end or a pause.

use super::context::Context;
use super::executor::is_told_of_the_run;
use super::pump::Pump;
use super::{Error, Pause, Question, Session};
use crate::event::{Event, PauseReason, PipelineCancelled, PipelinePaused};
use crate::ids::NodeId;
use crate::plan::pipeline::HandlerKind;
use crate::record::Batch;
use crate::route::Action;
use crate::state::Phase;
use crate::{clock, git, workspace};

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
            git::pack::pack_remaining(&self.repo);
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
        let (summary, event): (_, Event) = if self.plan.cancel.is_cancelled() {
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
            HandlerKind::Codergen => self.engine.is_of_agent(node) && !is_told_of_the_run(&self.plan, node),
            HandlerKind::WaitHuman => false,
            _ => true,
        })
    }

    /// Whether the worktrees have to be set up again before a node is carried out in them.
    pub(super) fn has_lost_setup(&self, node: &NodeId) -> bool {
        let works = self.plan.pipeline.node(node).is_some_and(|node| !self.engine.only_waits(node));
        works && self.working().copies().any(workspace::has_lost_setup)
    }
}
