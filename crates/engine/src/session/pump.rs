//! The loop of a session. It alone waits for worker reports, for records being written, for timers and for stop
//! requests, and decides what every context does next.
//!
//! A context that writes is away on a blocking thread, and the others continue meanwhile. Its events are published and
//! its worker is answered once it is back, which is never before the record is on disk.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::branches::{self, Branches};
use super::context::{
    Context, NodeBegin, NodeEnd, RecordedTurn, begin_node, end_node, history, recording, turn, worktrees,
};
use super::ended::SessionEnded;
use super::executor::{AssignedWork, Assignment, Conversation, Running, is_told_of_the_run, work};
use super::fan_out::{self, FanOutBegin};
use super::worker::{NodeFinished, Stopped, TurnAnswer, WorkerReport};
use super::{Pause, Session, pausing, spending};
use crate::env::{BudgetVerdict, Error, Question, unpriced_in};
use git::workspace::{self, Workspace};
use pleach_core::budget::{Allowance, Exceeded};
use pleach_core::clock;
use pleach_core::event::{Outcome, PauseReason};
use pleach_core::ids::{ContextId, NodeId};
use pleach_core::plan::pipeline::{HandlerKind, Node};
use pleach_core::route::{self, Action, FanOutVerdict};
use pleach_core::state::{Phase, State, Visit};

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
    branches: Branches,
}

/// A started node.
struct Begins {
    node: Node,
    visit: Visit,
    conversation: Conversation,
    /// Its worker, once the start is recorded.
    worker: Option<Running>,
    /// Its branches are what runs.
    is_fan_out: bool,
    begun: Instant,
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
    /// It has its worktrees.
    Made,
    /// It was to stop while they were made.
    Interrupted,
    /// Its fan-out was started.
    FannedOut(FanOutBegin),
    /// It has recorded how these branches ended.
    BranchesEnded(Vec<ContextId>),
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
        let branches = Branches::of(session);
        Self {
            session,
            sender,
            reports,
            jobs: JoinSet::new(),
            running: BTreeMap::new(),
            halted: BTreeMap::new(),
            waiting: VecDeque::new(),
            early: VecDeque::new(),
            branches,
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
            if self.advance_fan_outs()? {
                // What was stopped may have had nothing left that runs, and then nothing would wake the loop.
                continue;
            }
            if self.is_still() && wake.is_none() {
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
            if self.branches.is_stopping(&id) {
                self.flush_stopping(&id);
                continue;
            }
            let action = self.next(&id);
            if action.is_some() && !is_stopped && self.session.context(&id).workspace.is_none() {
                self.start_branch(&id)?;
                continue;
            }
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

    /// Writes what a context that is being stopped has not written yet. Nothing more is started in it, and its end is
    /// recorded only once its own record is complete.
    fn flush_stopping(&mut self, id: &ContextId) {
        if self.session.context(id).pending.is_some() {
            self.away(id, |context| recording::flush(context).map(|()| AwayResult::Flushed));
        }
    }

    /// The contexts that are present and idle.
    fn idle(&self) -> Vec<ContextId> {
        let is_idle = |id: &&ContextId| {
            let waits = self.waiting.iter().any(|(context, _)| context == *id);
            !self.running.contains_key(*id) && !self.halted.contains_key(*id) && !waits
        };
        self.session.contexts().map(|context| &context.id).filter(is_idle).cloned().collect()
    }

    /// What a context does next.
    fn next(&self, id: &ContextId) -> Option<Action> {
        let states: Vec<&State> = self.session.contexts().map(|context| &*context.state).collect();
        let actions = route::next(&states, clock::now());
        actions.into_iter().find(|(context, _)| context == id).map(|(_, action)| action)
    }

    /// Whether nothing goes on. A fan-out goes on as long as one of its branches does.
    fn is_still(&self) -> bool {
        let fan_outs_only = self.running.values().all(|begins| begins.is_fan_out);
        fan_outs_only && self.jobs.is_empty() && self.waiting.is_empty()
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
        let allowance = if self.session.engine.is_of_agent(&node) {
            spending::allowance(self.session, &node)?
        } else {
            Allowance::default()
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
        let (at, node_conversation) = ((node.clone(), visit.clone()), conversation.clone());
        let is_fan_out = self.session.engine.is_fan_out(&node);
        let begun = Instant::now();
        self.running.insert(id.clone(), Begins { node, visit, conversation, worker: None, is_fan_out, begun });
        if is_fan_out {
            self.away(id, move |context| fan_out::begin(context, &at.0, &at.1, continues).map(AwayResult::FannedOut));
            return Ok(());
        }
        self.away(id, move |context| {
            begin_node::begin(context, &at.0, &at.1, continues, &node_conversation, allowance, verdict)
                .map(AwayResult::Begun)
        });
        Ok(())
    }

    /// Handles the report of a worker.
    fn take_in(&mut self, id: &ContextId, report: WorkerReport) -> Result<(), Error> {
        if !self.session.is_here(id) {
            self.early.push_back((id.clone(), report));
            return Ok(());
        }
        let Some(Begins { node, visit, conversation, worker: Some(worker), .. }) = self.running.get(id) else {
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
                    let end = end_node::node_ended(context, &node, &visit, *finished, &conversation)?;
                    fan_out::clean_up(context)?;
                    Ok(AwayResult::Ended(end))
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
        let early = self.early.iter().position(|(early_id, _)| self.session.is_here(early_id));
        match early.and_then(|at| self.early.remove(at)) {
            Some((id, report)) => self.take_in(&id, report),
            None => Ok(()),
        }
    }

    fn go_on(&mut self, id: &ContextId, after: AwayResult) -> Result<(), Error> {
        if self.branches.is_stopping(id) {
            return self.go_on_stopping(id, after);
        }
        match after {
            AwayResult::Flushed | AwayResult::Made => {}
            AwayResult::Interrupted => drop(self.halted.insert(id.clone(), Halt::interrupted())),
            AwayResult::FannedOut(FanOutBegin::Forked(children)) => {
                if let Some(workspace) = &mut self.session.context_mut(id).workspace {
                    workspace.release();
                }
                children.into_iter().for_each(|child| self.session.add(child));
            }
            AwayResult::BranchesEnded(ended) => {
                for branch in ended {
                    self.close_branch(&branch)?;
                }
            }
            AwayResult::FannedOut(FanOutBegin::Ended(end))
            | AwayResult::Begun(NodeBegin::Passed(end))
            | AwayResult::Ended(end) => {
                self.running.remove(id);
                match end {
                    NodeEnd::Pauses { reason, why, error } => {
                        self.halted.insert(id.clone(), Halt::Pauses { reason, why, error });
                    }
                    NodeEnd::GoesOn => {}
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

    /// Takes back a context that is being stopped: whatever it was about to start is not started.
    fn go_on_stopping(&mut self, id: &ContextId, after: AwayResult) -> Result<(), Error> {
        match after {
            AwayResult::Flushed | AwayResult::Made | AwayResult::Interrupted => {}
            // Their first records are written, so they are closed with it.
            AwayResult::FannedOut(FanOutBegin::Forked(children)) => {
                self.running.remove(id);
                children.into_iter().for_each(|child| self.session.add(child));
            }
            AwayResult::BranchesEnded(ended) => {
                for branch in ended {
                    self.close_branch(&branch)?;
                }
            }
            AwayResult::FannedOut(FanOutBegin::Ended(_)) | AwayResult::Begun(_) | AwayResult::Ended(_) => {
                self.running.remove(id);
            }
            AwayResult::Turn { turn, .. } => {
                let followed = self.session.context_mut(id).take_followed();
                if let Some(worker) = self.running.get(id).and_then(|begins| begins.worker.as_ref()) {
                    let (verdict, allowance) = (BudgetVerdict::Halt, Allowance::default());
                    worker.answer(TurnAnswer { changes: turn.changes, verdict, allowance, followed });
                }
            }
        }
        // While it was away nobody could see what forked from it.
        self.stop_branch(id);
        Ok(())
    }

    /// Starts a branch, if there is room beside the others: it gets its worktrees.
    fn start_branch(&mut self, id: &ContextId) -> Result<(), Error> {
        let halted = &self.halted;
        if !self.branches.start(self.session, id, |id| halted.contains_key(id)) {
            return Ok(());
        }
        let Some((parent, fan_out)) = branches::fan_out_of(self.session, id) else { return Ok(()) };
        let is_shared = fan_out.branch(id).is_some_and(|branch| branch.of.read_only);
        let (parent, node) = (self.session.context(parent), fan_out.node.clone());
        let shared = parent.workspace.as_ref().filter(|_| is_shared).map(Workspace::share).transpose()?;
        let mut context = self.session.take(id);
        self.jobs.spawn(async move {
            let begun = worktrees::begin_branch(&mut context, node, shared).await;
            let done = match begun {
                Ok(()) => Ok(AwayResult::Made),
                Err(Error::Interrupted { .. }) => Ok(AwayResult::Interrupted),
                Err(error) => Err(error),
            };
            AwayContext { context, done }
        });
        Ok(())
    }

    /// Takes every fan-out a step further: branches that have ended are recorded, those nobody needs are stopped, and one
    /// without open branches ends. Returns whether a branch was stopped.
    fn advance_fan_outs(&mut self) -> Result<bool, Error> {
        let mut has_stopped = false;
        let is_fan_out = |(_, begins): &(&ContextId, &Begins)| begins.is_fan_out;
        let fan_outs = self.running.iter().filter(is_fan_out).map(|(id, begins)| (id.clone(), begins.node.clone()));
        for (id, node) in fan_outs.collect::<Vec<_>>() {
            let waits = self.waiting.iter().any(|(context, _)| *context == id);
            if waits || !self.session.is_here(&id) || self.branches.is_stopping(&id) {
                continue;
            }
            let Some(fan_out) = self.session.context(&id).state.fan_out.clone() else { continue };
            let open: Vec<ContextId> = fan_out.open().map(|branch| branch.of.context.clone()).collect();
            let ended: Vec<ContextId> = open.iter().filter(|branch| self.has_ended(branch)).cloned().collect();
            if !ended.is_empty() {
                let ends = ended.iter().map(|branch| fan_out::branch_end(self.session.context(branch), &fan_out));
                let ends: Vec<_> = ends.collect();
                self.away(&id, move |context| {
                    fan_out::record_ends(context, ends).map(|()| AwayResult::BranchesEnded(ended))
                });
                continue;
            }
            let Some(rules) = node.fan_out else { continue };
            match route::verdict(&rules, &fan_out) {
                FanOutVerdict::Open => {}
                FanOutVerdict::StopOthers => {
                    for branch in &open {
                        has_stopped |= self.stop_branch(branch);
                    }
                }
                FanOutVerdict::Over(outcome) => self.end_fan_out(&id, node, outcome),
            }
        }
        Ok(has_stopped)
    }

    /// Whether a branch has come to its end, or was stopped and nothing of it runs any more. Either way all it did is
    /// written: the record of its end names its commits.
    fn has_ended(&self, id: &ContextId) -> bool {
        let is_quiet = |id: &ContextId| {
            let is_expected = self.waiting.iter().any(|(context, _)| context == id)
                || self.early.iter().any(|(context, _)| context == id);
            let is_idle = self.session.is_here(id) && !self.running.contains_key(id) && !is_expected;
            is_idle && self.session.context(id).pending.is_none()
        };
        if !is_quiet(id) {
            return false;
        }
        if self.session.context(id).state.is_over() {
            return true;
        }
        self.branches.is_stopping(id) && branches::with_descendants(self.session, id).iter().all(is_quiet)
    }

    /// Stops a branch whose result is not needed, with all that forked from it. Returns whether one of them was not
    /// being stopped yet. A node that is being started or ended is left to [`Self::go_on_stopping`].
    fn stop_branch(&mut self, id: &ContextId) -> bool {
        let stopped = self.branches.stop(self.session, id);
        let is_new = !stopped.is_empty();
        for id in stopped {
            self.halted.remove(&id);
            match self.running.get(&id) {
                Some(Begins { worker: Some(worker), .. }) => worker.cancel(),
                Some(Begins { is_fan_out: true, .. }) => drop(self.running.remove(&id)),
                _ => {}
            }
        }
        is_new
    }

    /// Closes a branch whose end is on record, with all that forked from it.
    fn close_branch(&mut self, id: &ContextId) -> Result<(), Error> {
        for id in branches::with_descendants(self.session, id) {
            if self.session.is_here(&id) && !self.session.context(&id).state.is_over() {
                tokio::task::block_in_place(|| fan_out::record_stop(self.session.context_mut(&id)))?;
            }
            self.branches.forget(&id);
            self.session.announce();
            self.session.close(&id);
        }
        Ok(())
    }

    /// Ends a fan-out whose branches have all ended.
    fn end_fan_out(&mut self, id: &ContextId, node: Node, outcome: Outcome) {
        let Some(begins) = self.running.get_mut(id) else { return };
        begins.is_fan_out = false;
        let (visit, duration) = (begins.visit.clone(), begins.begun.elapsed());
        self.away(id, move |context| fan_out::end(context, &node, &visit, outcome, duration).map(AwayResult::Begun));
    }

    fn set_to_work(&mut self, assignment: Assignment) {
        let Some(begins) = self.running.get_mut(&assignment.context) else { return };
        begins.is_fan_out = false;
        begins.worker = Some(self.session.set_to_work(assignment, self.sender.clone()));
    }

    /// Handles the end of a repeated setup of a context's worktrees.
    fn set_up(&mut self, then: Assignment, finished: NodeFinished) -> Result<(), Error> {
        self.session.context_mut(&then.context).warnings.extend(finished.warnings);
        match finished.result {
            _ if self.branches.is_stopping(&then.context) => {
                self.running.remove(&then.context);
                Ok(())
            }
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
        let why = why.or_else(|| self.session.check_own().err().map(|error| error.to_string()));
        let why = why.or_else(|| pausing::pause_reason(self.session).filter(|_| reason == PauseReason::OverBudget));
        tokio::task::block_in_place(|| pausing::pause_because(self.session, reason, why))?;
        error.map_or(Ok(()), Err)
    }

    fn lost(&self, id: &ContextId, why: String) -> Error {
        let node = if self.session.is_here(id) {
            self.session.context(id).here()
        } else {
            self.running.get(id).map_or_else(|| self.session.plan.start_node.clone(), |at| at.node.id.clone())
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
            let branches = session.contexts().filter(|context| context.state.is_branch).map(|context| &*context.state);
            let mut questions = Question::waiting(session.pipeline(), session.state(), branches);
            for question in &mut questions {
                question.task = session.plan.task_id();
                question.work = Some(history::judged_in(session.context_mut(&question.context))?);
            }
            Some(SessionEnded::Paused(Pause { reason, node, why, questions }))
        }
        Phase::New | Phase::Running => None,
    })
}
