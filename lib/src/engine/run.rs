//! The loop: decide, hand out, record, fold.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::assignment::{Conversation, Work, conversation};
use super::budget::{Order, unpriced_in};
use super::node::Start;
use super::worker::{Finished, Report, TurnAnswer, Worker};
use super::{Error, Observer, Pause, Question, Session};
use crate::agent::Roster;
use crate::budget::Allowance;
use crate::clock;
use crate::event::{Event, PauseReason, PipelineCancelled, PipelinePaused};
use crate::git::Repo;
use crate::ids::NodeId;
use crate::plan::pipeline::{HandlerKind, Node};
use crate::record::Batch;
use crate::route::{self, Action};
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
    /// Runs until the pipeline ends or pauses. `observe` is told every event once it is on disk.
    pub async fn run(&mut self, observe: Observer<'_>) -> Result<Ended, Error> {
        let ended = self.run_attempt(observe).await?;
        tokio::task::block_in_place(|| {
            self.settle(observe)?;
            self.catch_up()?;
            self.repo.pack_rest();
            self.trim_pool();
            Ok(ended)
        })
    }

    /// Runs an attempt at a task. Its last node's end is written with the task's last step, which comes right after it.
    pub(super) async fn run_attempt(&mut self, observe: Observer<'_>) -> Result<Ended, Error> {
        self.unseen.iter().for_each(&mut *observe);
        self.unseen.clear();
        self.run_loop(observe).await
    }

    async fn run_loop(&mut self, observe: Observer<'_>) -> Result<Ended, Error> {
        loop {
            let action = route::next(&self.state, clock::now()).into_iter().next();
            let stopped = self.engine.cancel.is_stopped();
            // The end of a node waits for the start of the next one that does something, or for the end of all.
            let is_over = self.state.phase == Phase::Completed;
            if stopped || !is_over && !self.starts_at_once(action.as_ref()) {
                tokio::task::block_in_place(|| self.settle(observe))?;
            }
            if let Some(ended) = tokio::task::block_in_place(|| self.ended())? {
                return Ok(ended);
            }
            let Some(action) = action else {
                return Err(Error::Worker { node: self.here(), why: "nothing is left to do".into() });
            };
            if stopped {
                self.pause(PauseReason::Interrupted, observe)?;
                continue;
            }
            match action {
                Action::WakeAt(time) => self.sleep_until(time).await,
                Action::Start(visit) => self.perform(visit, false, observe).await?,
                Action::Continue(visit) => self.perform(visit, true, observe).await?,
            }
        }
    }

    /// Whether a node is started now, without a look into the record. Agents and people are told what the record holds.
    fn starts_at_once(&self, action: Option<&Action>) -> bool {
        let Some(Action::Start(visit)) = action else { return false };
        let node = self.pipeline.node(&visit.node);
        node.is_some_and(|node| match node.handler {
            HandlerKind::Codergen => self.is_asked_of_the_task(node),
            HandlerKind::WaitHuman => false,
            _ => true,
        })
    }

    fn ended(&mut self) -> Result<Option<Ended>, Error> {
        Ok(match &self.state.phase {
            Phase::Completed => Some(Ended::Completed),
            Phase::Failed { reason } => Some(Ended::Failed { reason: reason.clone() }),
            Phase::Cancelled => Some(Ended::Cancelled),
            Phase::Paused { reason, why } => {
                let (reason, why, node) = (*reason, why.clone(), self.state.next_node().cloned());
                let question = match Question::waiting(&self.pipeline, &self.state) {
                    Some(question) => Some(Box::new(Question { work: Some(self.judged()?), ..question })),
                    None => None,
                };
                Some(Ended::Paused(Pause { reason, node, why, question }))
            }
            Phase::New | Phase::Running => None,
        })
    }

    fn here(&self) -> NodeId {
        self.state.next_node().or(self.state.completed.last()).unwrap_or(&self.start_node).clone()
    }

    async fn sleep_until(&mut self, time: Timestamp) {
        if let Some(copy) = &mut self.copy {
            copy.lend();
        }
        let wait = Duration::try_from(time.duration_since(clock::now())).unwrap_or_default();
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = self.engine.cancel.stopped() => {}
        }
    }

    /// Starts a node, or takes it up again, and sees it through to its end.
    async fn perform(&mut self, visit: Visit, continues: bool, observe: Observer<'_>) -> Result<(), Error> {
        let Some(node) = self.pipeline.node(&visit.node).cloned() else {
            return Err(Error::Worker { node: visit.node, why: "the pipeline has no such node".into() });
        };
        // The first agent after a resume, and a program, which reads one prompt, are told a summary instead.
        let degrade = self.degrade && !continues;
        let mut told = conversation(&self.pipeline, &self.state, &node, &visit, degrade);
        if !self.can_go_on_with(&node, &told) {
            told = conversation(&self.pipeline, &self.state, &node, &visit, true);
        }
        let conversation = told;
        if node.handler == HandlerKind::Codergen {
            self.degrade = false;
        }
        let allowance = match self.engine.is_of_agent(&node) {
            true => self.allowance(&node)?,
            false => Allowance::default(),
        };
        let over = self.over_budget(&node, &allowance, self.unpriced(&node).as_deref(), observe)?;
        if let Some(over) = over.clone().filter(|_| !(continues && self.is_answered(&node))) {
            return tokio::task::block_in_place(|| self.end_over_budget(&node, over, observe));
        }
        let order = self.order(over);
        let start = match continues {
            false => Start::First,
            true if self.must_start_over(&node) => Start::Over,
            true => Start::Continued,
        };
        if start == Start::Over {
            self.recorded = self.recording(&node)?;
            // What the agent said before is not part of any conversation any more.
            self.threads.clear();
        }
        // Everything that can be wrong with the work is found out before the node counts as started. A review is told
        // what has changed, which may be written only with its start.
        let work = match start == Start::First && self.is_asked_of_the_task(&node) {
            true => self.agent_of(&node).map(|_| None)?,
            false => Some(self.work(&node, &visit, &conversation)?),
        };
        if let Some(Work::Pass(outcome)) = work {
            let (at, told) = ((&node, &visit), &conversation);
            return tokio::task::block_in_place(|| self.pass(at, start, told, outcome, observe));
        }
        tokio::task::block_in_place(|| self.record_start(&node, &visit, start, &conversation, observe))?;
        if !matches!(work, Some(Work::Wait(_) | Work::Human(_))) {
            self.bring_setup(observe).await?;
        }
        let work = match work {
            Some(work) => work,
            None => self.work(&node, &visit, &conversation)?,
        };
        let (running, mut incoming) = self.set_to_work(node.clone(), visit.clone(), work, (allowance, order));
        while let Some(report) = incoming.recv().await {
            match report {
                Report::Turn(turn, answer) => {
                    let unpriced = unpriced_in(&turn.turn);
                    let change = self.record_turn(*turn, &conversation, observe)?;
                    let allowance = self.allowance(&node)?;
                    let over = self.over_budget(&node, &allowance, unpriced.as_deref(), observe)?;
                    let stop = self.engine.cancel.is_stopped() || change.branch.is_err();
                    let order = if stop { Order::Halt } else { self.order(over) };
                    // The worker waits for this; if it is gone its end is reported below.
                    let _ = answer.send(TurnAnswer { change, order, allowance, news: self.branch_news() });
                }
                Report::Done(finished) => {
                    return self.node_ended(&node, &visit, *finished, &conversation, observe);
                }
            }
        }
        let why = running.await.err().map_or_else(|| "it stopped".to_owned(), |error| error.to_string());
        Err(Error::Worker { node: visit.node, why })
    }

    /// Whether the agent of a node can be given its conversation: it takes its messages, or it knows it by itself.
    fn can_go_on_with(&self, node: &Node, conversation: &Conversation) -> bool {
        let Some(thread) = &conversation.thread else { return true };
        let Ok(agent) = self.engine.agents.of(node) else { return true };
        let state = self.state.thread_states.get(thread);
        let is_new = !self.state.threads.contains_key(thread);
        agent.can_continue() || ((is_new || state.is_some()) && agent.can_resume(state, &self.agent_home()))
    }

    /// Hands the working copy and something to do in it to a worker.
    fn set_to_work(
        &mut self,
        node: Node,
        visit: Visit,
        work: Work,
        (allowance, order): (Allowance, Order),
    ) -> (JoinHandle<()>, mpsc::Receiver<Report>) {
        let run_dir = self.run_dir().expect("the working copy is back when no node runs");
        let copy = self.copy.take().expect("the working copy is back when no node runs");
        let (reports, incoming) = mpsc::channel(1);
        let worker = Worker {
            engine: Arc::clone(&self.engine),
            session: self.id.clone(),
            pipeline: self.started.name.clone(),
            variables: self.variables(),
            run_dir,
            home: self.agent_home(),
            node,
            visit,
            copy,
            lock: self.locks.worktree.clone(),
            next_turn: self.state.turns + 1,
            job: self.job.clone(),
            scratch: None,
            allowance,
            order,
            reports,
        };
        (tokio::spawn(worker.run(work)), incoming)
    }

    /// Lets a worker do something that is no node's visit and of which only the result counts.
    pub(super) async fn work_aside(&mut self, node: Node, visit: Visit, work: Work) -> Result<Finished, Error> {
        let name = node.id.clone();
        let (running, mut incoming) = self.set_to_work(node, visit, work, (Allowance::default(), Order::Go));
        while let Some(report) = incoming.recv().await {
            if let Report::Done(finished) = report {
                return Ok(*finished);
            }
        }
        let why = running.await.err().map_or_else(|| "it stopped".to_owned(), |error| error.to_string());
        Err(Error::Worker { node: name, why })
    }

    /// Records that the run stops here and can be resumed, or not any more when it was called off.
    pub(super) fn pause(&mut self, reason: PauseReason, observe: Observer<'_>) -> Result<(), Error> {
        let why = self.pause_reason().filter(|_| reason == PauseReason::OverBudget);
        self.pause_because(reason, why, observe)
    }

    /// The same, with more to say about why.
    pub(super) fn pause_because(
        &mut self,
        reason: PauseReason,
        why: Option<String>,
        observe: Observer<'_>,
    ) -> Result<(), Error> {
        let (summary, event): (_, Event) = if self.engine.cancel.is_called_off() {
            ("cancel".to_owned(), PipelineCancelled::default().into())
        } else {
            let node_id = self.state.next_node().cloned();
            let event = PipelinePaused { reason, node_id, why, extra: Default::default() };
            (format!("pause at {}", self.here()), event.into())
        };
        let writer = self.repo.writer();
        self.record(writer, Batch { summary, ..Batch::default() }, vec![event], clock::now(), observe)
    }

    /// The variables of the pipeline, for commands: their shell expands `$goal`, so that no text becomes a command.
    fn variables(&self) -> Vec<(String, String)> {
        let goal = std::iter::once(("goal".to_owned(), self.started.goal.clone()));
        let inputs = goal.chain(self.started.inputs.clone());
        inputs.map(|(name, value)| (name, for_environment(&value))).collect()
    }

    /// Whether the repository has files the user works on.
    pub fn has_checkout(&self) -> bool {
        self.repo.workdir().is_some()
    }

    /// The agents that work on its nodes.
    pub fn agents(&self) -> &Roster {
        &self.engine.agents
    }

    /// The repository it works in.
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    /// The working copy, while no node runs.
    pub fn working_copy(&self) -> Option<&WorkingCopy> {
        self.copy.as_ref()
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
