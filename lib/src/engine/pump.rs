//! The loop of a session. It alone waits for worker reports, for records being written, for timers and for stop
//! requests, and decides what every context does next.
//!
//! A context that writes is away on a blocking thread, and the others continue meanwhile. Its events are published and
//! its worker is answered once it is back, which is never before the record is on disk.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::budget::{BudgetVerdict, unpriced_in};
use super::context::{Context, NodeBegin, NodeEnd, RecordedTurn, history};
use super::ended::SessionEnded;
use super::executor::{AssignedWork, Assignment, Conversation, Running, is_told_of_the_run};
use super::worker::{NodeFinished, Stopped, TurnAnswer, WorkerReport};
use super::{Error, Pause, Question, Session, pausing};
use crate::budget::{Allowance, Exceeded};
use crate::clock;
use crate::engine::budget::spending;
use crate::engine::context::{begin_node, end_node, recording, turn};
use crate::engine::executor::work;
use crate::event::PauseReason;
use crate::ids::{ContextId, NodeId};
use crate::plan::pipeline::{HandlerKind, Node};
use crate::route::{self, Action};
use crate::state::{Phase, State, Visit};
use crate::workspace::{self};

/// Capacity of the channel of reports.
const REPORTS: usize = 64;

pub(super) struct Pump<'a> {
    session: &'a mut Session,
    sender: mpsc::Sender<(ContextId, WorkerReport)>,
    reports: mpsc::Receiver<(ContextId, WorkerReport)>,
    /// Contexts that are away.
    jobs: JoinSet<AwayContext>,
    /// Nodes that have started and not ended.
    running: BTreeMap<ContextId, Begins>,
    /// Contexts whose node has no outcome: the session pauses once nothing else runs.
    halted: BTreeMap<ContextId, Halt>,
    /// Results of contexts that came back while the root was away. They need the root.
    waiting: VecDeque<(ContextId, AwayResult)>,
    /// Reports that arrived while their context was away: a worker only waits for an answer to a turn.
    early: VecDeque<(ContextId, WorkerReport)>,
}

/// A started node.
struct Begins {
    node: Node,
    visit: Visit,
    conversation: Conversation,
    /// Its worker, once the start is recorded.
    worker: Option<Running>,
}

/// Why a context does not continue.
enum Halt {
    /// Its node has no outcome.
    Pauses { reason: PauseReason, why: Option<String>, error: Option<Error> },
    /// The budget for its next node is exhausted.
    OverBudget(NodeId, Exceeded),
}

impl Halt {
    fn interrupted() -> Self {
        Self::Pauses { reason: PauseReason::Interrupted, why: None, error: None }
    }
}

/// A context that was away, with its result.
struct AwayContext {
    context: Context,
    done: Result<AwayResult, Error>,
}

/// What a context did while it was away.
enum AwayResult {
    /// It wrote its pending events.
    Flushed,
    /// It started a node.
    Begun(NodeBegin),
    /// It wrote a turn.
    Turn { turn: RecordedTurn, unpriced: Option<String> },
    /// It wrote the end of a node.
    Ended(NodeEnd),
}

impl<'a> Pump<'a> {
    pub(super) fn new(session: &'a mut Session) -> Self {
        let (sender, reports) = mpsc::channel(REPORTS);
        Self {
            session,
            sender,
            reports,
            jobs: JoinSet::new(),
            running: BTreeMap::new(),
            halted: BTreeMap::new(),
            waiting: VecDeque::new(),
            early: VecDeque::new(),
        }
    }

    /// Runs until the session ends or pauses. Every context is back by then.
    pub(super) async fn run(mut self) -> Result<SessionEnded, Error> {
        let ended = self.run_loop().await;
        // Workers still run here only if the run failed with its own error.
        self.running.values().filter_map(|begins| begins.worker.as_ref()).for_each(Running::stop);
        while let Some(job) = self.jobs.join_next().await {
            if let Ok(AwayContext { context, .. }) = job {
                self.session.put_back(context);
            }
        }
        self.session.announce();
        ended
    }

    async fn run_loop(&mut self) -> Result<SessionEnded, Error> {
        loop {
            self.session.announce();
            let wake = self.start_all()?;
            if self.running.is_empty() && self.jobs.is_empty() && self.waiting.is_empty() && wake.is_none() {
                if let Some(ended) = tokio::task::block_in_place(|| ended(self.session))? {
                    return Ok(ended);
                }
                self.pause()?;
                continue;
            }
            let cancel = self.session.plan.cancel.clone();
            tokio::select! {
                Some((context, report)) = self.reports.recv() => self.take_in(&context, report)?,
                Some(job) = self.jobs.join_next() => {
                    let job = job.map_err(|error| self.lost(self.session.root_id(), error.to_string()))?;
                    self.come_back(job)?;
                }
                () = sleep_until(wake) => {}
                // The same request stops running workers; a context waiting for its time would not notice it.
                () = cancel.stopped(), if wake.is_some() => {}
            }
        }
    }

    /// Starts whatever can start in every idle context. Returns the time at which the next action is due.
    fn start_all(&mut self) -> Result<Option<Timestamp>, Error> {
        let mut wake = None;
        let is_stopped = self.session.plan.cancel.is_stopped();
        for id in self.idle() {
            let action = self.next(&id);
            let context = self.session.context(&id);
            // The end of a node is written with the start of the next node that does something, or with the end of the
            // session.
            let is_over = context.state.phase == Phase::Completed;
            if context.pending.is_some() && (is_stopped || !is_over && !starts_at_once(context, action.as_ref())) {
                self.away(&id, |context| recording::flush(context).map(|()| AwayResult::Flushed));
                continue;
            }
            match action {
                None => {}
                Some(_) if is_stopped => drop(self.halted.insert(id, Halt::interrupted())),
                Some(Action::WakeAt(time)) => {
                    if let Some(workspace) = &mut self.session.context_mut(&id).workspace {
                        workspace.release();
                    }
                    wake = Some(wake.map_or(time, |before: Timestamp| before.min(time)));
                }
                Some(Action::Start(visit)) => self.begin(&id, visit, false)?,
                Some(Action::Continue(visit)) => self.begin(&id, visit, true)?,
            }
        }
        Ok(wake)
    }

    /// The contexts that are present and idle.
    fn idle(&self) -> Vec<ContextId> {
        let is_idle = |id: &&ContextId| {
            let waits = self.waiting.iter().any(|(context, _)| context == *id);
            !self.running.contains_key(*id) && !self.halted.contains_key(*id) && !waits
        };
        self.session.contexts().map(|context| &context.id).filter(is_idle).cloned().collect()
    }

    /// What a context does next. The root reaches its exit only after its branches have reached theirs.
    fn next(&self, id: &ContextId) -> Option<Action> {
        let states: Vec<&State> = self.session.contexts().map(|context| &*context.state).collect();
        let actions = route::next(&states, clock::now());
        let action = actions.into_iter().find(|(context, _)| context == id).map(|(_, action)| action)?;
        let is_exit = |visit: &Visit| {
            let node = self.session.plan.pipeline.node(&visit.node);
            node.is_some_and(|node| node.handler == HandlerKind::Exit)
        };
        match &action {
            Action::Start(visit)
                if id == self.session.root_id() && is_exit(visit) && self.session.has_open_branches() =>
            {
                None
            }
            _ => Some(action),
        }
    }

    /// Sends a context away for work that may block.
    fn away(&mut self, id: &ContextId, work: impl FnOnce(&mut Context) -> Result<AwayResult, Error> + Send + 'static) {
        let mut context = self.session.take(id);
        self.jobs.spawn_blocking(move || {
            let done = work(&mut context);
            AwayContext { context, done }
        });
    }

    /// Starts or resumes a node.
    fn begin(&mut self, id: &ContextId, visit: Visit, continues: bool) -> Result<(), Error> {
        // The root records what the budget reports.
        if !self.session.is_here(self.session.root_id()) {
            return Ok(());
        }
        let Some(node) = self.session.plan.pipeline.node(&visit.node).cloned() else {
            return Err(Error::Worker { node: visit.node, why: "the pipeline has no such node".into() });
        };
        let conversation = begin_node::conversation(self.session.context_mut(id), &node, &visit, continues);
        let allowance = match self.session.engine.is_of_agent(&node) {
            true => spending::allowance(self.session, &node)?,
            false => Allowance::default(),
        };
        let unpriced = spending::unpriced_node(self.session, &node);
        let over = spending::over_budget(self.session, &node, &allowance, unpriced.as_deref())?;
        if let Some(over) =
            over.clone().filter(|_| !(continues && begin_node::is_answered(self.session.context(id), &node)))
        {
            self.halted.insert(id.clone(), Halt::OverBudget(node.id, over));
            return Ok(());
        }
        let verdict = spending::verdict(self.session, over);
        let (at, told) = ((node.clone(), visit.clone()), conversation.clone());
        self.running.insert(id.clone(), Begins { node, visit, conversation, worker: None });
        let limits = (allowance, verdict);
        self.away(id, move |context| {
            begin_node::begin(context, &at.0, &at.1, continues, &told, limits).map(AwayResult::Begun)
        });
        Ok(())
    }

    /// Handles the report of a worker.
    fn take_in(&mut self, id: &ContextId, report: WorkerReport) -> Result<(), Error> {
        if !self.session.is_here(id) {
            self.early.push_back((id.clone(), report));
            return Ok(());
        }
        let Some(Begins { node, visit, conversation, worker: Some(worker) }) = self.running.get(id) else {
            return Err(self.lost(id, "a report of a node that was not begun".into()));
        };
        let (node, visit, conversation) = (node.clone(), visit.clone(), conversation.clone());
        match report {
            WorkerReport::Turn(turn) => {
                let unpriced = unpriced_in(&turn.turn);
                self.away(id, move |context| {
                    let turn = turn::record_turn(context, *turn, &conversation)?;
                    Ok(AwayResult::Turn { turn, unpriced })
                });
            }
            WorkerReport::Done(finished) => {
                let assignment = worker.assignment.clone();
                self.session.take_back(id)?;
                if assignment.job == AssignedWork::Setup {
                    return self.set_up(Assignment { job: AssignedWork::Node, ..assignment }, *finished);
                }
                self.away(id, move |context| {
                    end_node::node_ended(context, &node, &visit, *finished, &conversation).map(AwayResult::Ended)
                });
            }
            WorkerReport::Lost(why) => return Err(Error::Worker { node: node.id, why }),
        }
        Ok(())
    }

    /// Takes a context back: publishes its events and continues from its result.
    fn come_back(&mut self, job: AwayContext) -> Result<(), Error> {
        let AwayContext { context, done } = job;
        let id = context.id.clone();
        self.session.put_back(context);
        self.session.announce();
        self.waiting.push_back((id, done?));
        while self.session.is_here(self.session.root_id())
            && let Some((id, after)) = self.waiting.pop_front()
        {
            self.go_on(&id, after)?;
        }
        let early = self.early.iter().position(|(of, _)| self.session.is_here(of));
        match early.and_then(|at| self.early.remove(at)) {
            Some((id, report)) => self.take_in(&id, report),
            None => Ok(()),
        }
    }

    fn go_on(&mut self, id: &ContextId, after: AwayResult) -> Result<(), Error> {
        match after {
            AwayResult::Flushed => {}
            AwayResult::Begun(NodeBegin::Passed(end)) | AwayResult::Ended(end) => {
                self.running.remove(id);
                if let NodeEnd::Pauses { reason, why, error } = end {
                    self.halted.insert(id.clone(), Halt::Pauses { reason, why, error });
                }
            }
            AwayResult::Begun(NodeBegin::Started(assignment, known)) => {
                self.session.executor.keep(&assignment, known);
                let lost = has_lost_setup(self.session.context(id), &assignment.visit.node);
                let job = if lost { AssignedWork::Setup } else { AssignedWork::Node };
                self.set_to_work(Assignment { job, ..*assignment });
            }
            AwayResult::Turn { turn, unpriced } => {
                let Some(begins) = self.running.get(id) else { return Ok(()) };
                let node = begins.node.clone();
                let allowance = spending::allowance(self.session, &node)?;
                let over = spending::over_budget(self.session, &node, &allowance, unpriced.as_deref())?;
                let stop = self.session.plan.cancel.is_stopped() || turn.is_stopped;
                let verdict = if stop { BudgetVerdict::Halt } else { spending::verdict(self.session, over) };
                let (changes, followed) = (turn.changes, self.session.context_mut(id).take_followed());
                if let Some(worker) = self.running.get(id).and_then(|begins| begins.worker.as_ref()) {
                    worker.answer(TurnAnswer { changes, verdict, allowance, followed });
                }
            }
        }
        Ok(())
    }

    fn set_to_work(&mut self, assignment: Assignment) {
        let Some(begins) = self.running.get_mut(&assignment.context) else { return };
        begins.worker = Some(self.session.set_to_work(assignment, self.sender.clone()));
    }

    /// Handles the end of a repeated setup of a context's worktrees.
    fn set_up(&mut self, then: Assignment, finished: NodeFinished) -> Result<(), Error> {
        self.session.context_mut(&then.context).warnings.extend(finished.warnings);
        match finished.result {
            Err(Stopped::Unable(error)) => Err(*error),
            _ => {
                self.set_to_work(then);
                Ok(())
            }
        }
    }

    /// Pauses or fails the session once nothing runs any more.
    fn pause(&mut self) -> Result<(), Error> {
        let Some((_, halt)) = self.halted.pop_first() else {
            return Err(self.lost(self.session.root_id(), "nothing is left to do".into()));
        };
        self.halted.clear();
        let (reason, why, error) = match halt {
            Halt::Pauses { reason, why, error } => (reason, why, error),
            Halt::OverBudget(node, over) => {
                tokio::task::block_in_place(|| spending::end_over_budget(self.session, &node, over))?;
                return Ok(());
            }
        };
        let why = why.or_else(|| pausing::pause_reason(self.session).filter(|_| reason == PauseReason::OverBudget));
        tokio::task::block_in_place(|| pausing::pause_because(self.session, reason, why))?;
        error.map_or(Ok(()), Err)
    }

    fn lost(&self, id: &ContextId, why: String) -> Error {
        let node = match self.session.is_here(id) {
            true => self.session.context(id).here(),
            false => self.running.get(id).map_or_else(|| self.session.plan.start_node.clone(), |at| at.node.id.clone()),
        };
        Error::Worker { node, why }
    }
}

async fn sleep_until(time: Option<Timestamp>) {
    match time {
        Some(time) => {
            let wait = Duration::try_from(time.duration_since(clock::now())).unwrap_or_default();
            tokio::time::sleep(wait).await;
        }
        None => std::future::pending().await,
    }
}

/// Whether the worktrees must be set up again before a node can run in them.
pub(super) fn has_lost_setup(context: &Context, node: &NodeId) -> bool {
    let works = context.plan.pipeline.node(node).is_some_and(|node| !work::only_waits(&context.engine, node));
    works && context.working().copies().any(workspace::has_lost_setup)
}

/// Whether a node starts now without reading the record. Agents and people get content from the record.
pub(super) fn starts_at_once(context: &Context, action: Option<&Action>) -> bool {
    let Some(Action::Start(visit)) = action else { return false };
    let node = context.plan.pipeline.node(&visit.node);
    node.is_some_and(|node| match node.handler {
        HandlerKind::Codergen => context.engine.is_of_agent(node) && !is_told_of_the_run(&context.plan, node),
        HandlerKind::WaitHuman => false,
        _ => true,
    })
}

pub(super) fn ended(session: &mut Session) -> Result<Option<SessionEnded>, Error> {
    Ok(match &session.state().phase {
        Phase::Completed => Some(SessionEnded::Completed),
        Phase::Failed { reason } => Some(SessionEnded::Failed { reason: reason.clone() }),
        Phase::Cancelled => Some(SessionEnded::Cancelled),
        Phase::Paused { reason, why } => {
            let (reason, why, node) = (*reason, why.clone(), session.state().next_node().cloned());
            let question = match Question::waiting(session.pipeline(), session.state()) {
                Some(question) => {
                    Some(Box::new(Question { work: Some(history::judged_in(session.root_mut())?), ..question }))
                }
                None => None,
            };
            Some(SessionEnded::Paused(Pause { reason, node, why, question }))
        }
        Phase::New | Phase::Running => None,
    })
}
