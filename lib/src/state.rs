//! What has become of a session: a fold over its recorded events.
//!
//! Nothing here is ever written beside the facts. An event that cannot follow the ones before it is an error, never
//! skipped: it means the record was tampered with or written by a broken program.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::budget::Spent;
use crate::event::{
    AttemptStarted, BudgetExceeded, Checkpoint, Commits, Event, Feedback, HumanInteraction, MessageRange,
    NodeExecution, NodeStarted, Outcome, PauseReason, PipelineStarted, Recorded, RetryAt, Route, Snapshot, Status,
    StepFinished, TaskOf, Written,
};
use crate::ids::{CommitId, NodeId, TurnId};

/// An event that cannot follow the ones before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {kind} cannot follow: {why}")]
pub struct IllegalEvent {
    kind: String,
    why: String,
}

/// Whether the run goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Phase {
    /// No event yet.
    New,
    /// Started and not ended. Whether a process works on it is a question for its lock.
    Running,
    /// Stopped on purpose; can be resumed.
    Paused {
        /// Why.
        reason: PauseReason,
        /// In words, where there is more to say.
        #[serde(default)]
        why: Option<String>,
    },
    /// Reached its exit with every gate satisfied.
    Completed,
    /// Ended without reaching its goal.
    Failed {
        /// Why.
        reason: String,
    },
    /// Called off.
    Cancelled,
}

/// One pass of the engine through one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// The node.
    pub node: NodeId,
    /// How often the run has come to it, from 1.
    pub visit: u32,
    /// The attempt within the visit, from 1.
    pub attempt: u32,
    /// The node the run came from.
    pub from: Option<NodeId>,
}

/// A turn of the node that is running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnMark {
    /// The turn.
    pub turn: TurnId,
    /// Its messages.
    pub messages: Option<MessageRange>,
    /// What its agent needs to go on after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_state: Option<Value>,
    /// The agent's kind and model; none of a command.
    #[serde(default)]
    pub by: Option<(String, String)>,
}

/// Where the run stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Position {
    /// This node comes next.
    Ready {
        /// Which one.
        visit: Visit,
        /// Not before this time.
        not_before: Option<Timestamp>,
    },
    /// This node has been started and has no outcome.
    Running {
        /// Which one.
        visit: Visit,
        /// Since when.
        since: Timestamp,
        /// The commits its working copies stood at.
        base: Snapshot,
        /// Its turns so far.
        turns: Vec<TurnMark>,
        /// The process that started it is gone.
        interrupted: bool,
    },
    /// There is nothing more to do.
    Ended,
}

/// What is known of a node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeState {
    /// How often the run has come to it.
    pub visits: u32,
    /// Attempts after the first in its newest visit.
    pub retries: u32,
    /// Its newest final outcome, without the context updates, which are in the context.
    pub outcome: Option<Outcome>,
    /// A digest of that whole outcome and of the trees it ended with.
    pub result: u64,
    /// How often in a row it ended with that result.
    pub repeats: u32,
    /// The message with its newest answer.
    pub response: Option<u64>,
}

/// The newest attempt at a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Counted from 0 over everything that was tried on the task.
    pub retry: u32,
    /// Counted from 1 in the session's budget.
    pub number: u32,
    /// The attempts of the budget.
    pub of: u32,
    /// The code it began with.
    pub code: CommitId,
    /// The commit whose files were laid over the working copy before it.
    #[serde(default)]
    pub laid: Option<CommitId>,
    /// It has failed, and a step says so.
    #[serde(default)]
    pub has_failed: bool,
}

/// How an attempt ended that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedAttempt {
    /// The status of the step that failed.
    pub status: String,
    /// The code it began with.
    pub before: CommitId,
    /// The code it left.
    pub after: CommitId,
    /// The tests that failed.
    pub failing: Vec<String>,
}

/// A session that works on a task of a tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskWork {
    /// The task.
    pub of: TaskOf,
    /// The newest attempt.
    pub attempt: Option<Attempt>,
    /// The newest step's commit; where there is none, the commit the session began at.
    pub step: CommitId,
    /// The status of the newest step.
    pub status: Option<String>,
    /// The facts of the newest test step.
    pub tested: Vec<(String, String)>,
    /// What went wrong so far, for the next attempt.
    pub feedback: Vec<Feedback>,
    /// The attempts of this session that failed.
    pub failed: Vec<FailedAttempt>,
    /// Where the target is about to move to, or has moved.
    pub landing: Option<(CommitId, CommitId)>,
    /// The commit the target moved to.
    pub landed: Option<CommitId>,
}

/// The folded session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Whether it goes on.
    pub phase: Phase,
    /// Where it stands.
    pub position: Position,
    /// Where the repositories stood at the start.
    pub base: Snapshot,
    /// The newest recorded commit of each repository.
    pub work: Snapshot,
    /// The commits of the newest checkpoint.
    pub checkpointed: Snapshot,
    /// Nodes completed, in order, since the start or the last restart.
    pub completed: Vec<NodeId>,
    /// What is known of each node.
    pub nodes: BTreeMap<NodeId, NodeState>,
    /// How often each edge was taken, by `from` and `to`.
    pub edges_taken: BTreeMap<NodeId, BTreeMap<NodeId, u32>>,
    /// How often each unsatisfied goal gate sent the run back.
    pub gate_retries: BTreeMap<NodeId, u32>,
    /// Gates that sent the run back and have not been run again since.
    pub recheck: BTreeSet<NodeId>,
    /// What the nodes have told each other.
    pub context: BTreeMap<String, Value>,
    /// The context the run began with, for a restart.
    pub initial_context: BTreeMap<String, Value>,
    /// The messages of each conversation, in order.
    pub threads: BTreeMap<String, Vec<MessageRange>>,
    /// What the agent of a conversation needs to go on with it, where its messages are not enough.
    #[serde(default)]
    pub thread_states: BTreeMap<String, Value>,
    /// The number of the last turn.
    pub turns: u64,
    /// The number of the last message.
    pub messages: u64,
    /// Tokens and dollars of all turns.
    pub spent: Spent,
    /// The limits that were said to be reached.
    pub exceeded: BTreeSet<String>,
    /// The models that were said to have no price.
    pub price_unknown: BTreeSet<String>,
    /// The task it works on, in a tree.
    #[serde(default)]
    pub task: Option<Box<TaskWork>>,
    /// The thread the running node's turns belong to.
    thread: Option<String>,
    /// The run ended at its exit, with every gate satisfied.
    reached_exit: bool,
}

impl State {
    /// A session that will begin at this node, and to which nothing has happened yet.
    pub fn new(start_node: NodeId) -> Self {
        let first = Visit { node: start_node, visit: 1, attempt: 1, from: None };
        Self {
            phase: Phase::New,
            position: Position::Ready { visit: first, not_before: None },
            base: Snapshot::new(),
            work: Snapshot::new(),
            checkpointed: Snapshot::new(),
            completed: Vec::new(),
            nodes: BTreeMap::new(),
            edges_taken: BTreeMap::new(),
            gate_retries: BTreeMap::new(),
            recheck: BTreeSet::new(),
            context: BTreeMap::new(),
            initial_context: BTreeMap::new(),
            threads: BTreeMap::new(),
            thread_states: BTreeMap::new(),
            turns: 0,
            messages: 0,
            spent: Spent::default(),
            exceeded: BTreeSet::new(),
            price_unknown: BTreeSet::new(),
            task: None,
            thread: None,
            reached_exit: false,
        }
    }

    /// Folds `events` into the state of a new session.
    pub fn fold<'a>(start_node: NodeId, events: impl IntoIterator<Item = &'a Recorded>) -> Result<Self, IllegalEvent> {
        let mut state = Self::new(start_node);
        for event in events {
            state.apply(event)?;
        }
        Ok(state)
    }

    /// Takes one more event in. On an error the state is as it was.
    pub fn apply(&mut self, recorded: &Recorded) -> Result<(), IllegalEvent> {
        let result = match &recorded.event {
            Event::PipelineStarted(data) => self.started(data),
            Event::Resumed(_) => self.resumed(),
            Event::NodeStarted(data) => self.node_started(data, recorded.at),
            Event::AgentTurn(data) => {
                let agent_state = data.agent_state_ref.clone().filter(|state| state.get("agent").is_some());
                let by = Some((data.agent.clone(), data.model.clone()));
                let turn = TurnMark { turn: data.turn.clone(), messages: data.messages, agent_state, by };
                let pass = (data.visit, data.attempt);
                let taken = self.turn(turn, data.turn_number, &data.node_id, pass, data.git_sha.as_ref());
                taken.map(|()| self.spent.add(recorded.at, data))
            }
            Event::BudgetExceeded(data) => self.must_run().map(|()| self.exceeded.extend([limit_mark(data)])),
            Event::PriceUnknown(data) => self.must_run().map(|()| self.price_unknown.extend([data.model.clone()])),
            Event::ToolExecution(data) => {
                let messages = data.output.map(|number| MessageRange { first: number, last: number });
                let turn = TurnMark { turn: data.turn.clone(), messages, agent_state: None, by: None };
                let pass = (data.visit, data.attempt);
                self.turn(turn, data.turn_number, &data.node_id, pass, data.git_sha.as_ref())
            }
            Event::HumanInteraction(data) => self.answered(data),
            Event::NodeExecution(data) => self.node_executed(data),
            Event::RetryAt(data) => self.retry_at(data),
            Event::Checkpoint(data) => self.checkpoint(data),
            Event::AttemptStarted(data) => self.attempt_started(data),
            Event::StepFinished(data) => self.step_finished(data),
            Event::Landing(data) => self.on_task(|task| task.landing = Some((data.from, data.to))),
            Event::Landed(data) => self.on_task(|task| {
                task.landing = None;
                task.landed = Some(data.commit);
            }),
            Event::PipelinePaused(data) => self.end(Phase::Paused { reason: data.reason, why: data.why.clone() }),
            Event::PipelineCompleted(_) => self.end(Phase::Completed),
            Event::PipelineFailed(data) => self.end(Phase::Failed { reason: data.reason.clone() }),
            Event::PipelineCancelled(_) => self.cancelled(),
            Event::SessionBranchCreated(_)
            | Event::WorktreeCreated(_)
            | Event::TurnCommitted(_)
            | Event::SnapshotRecorded(_) => self.must_have_begun(),
            Event::Unknown { .. } => Ok(()),
        };
        result.map_err(|why| IllegalEvent { kind: recorded.event.kind().to_owned(), why })
    }

    /// The node that has been started and has no outcome.
    pub fn running(&self) -> Option<&Visit> {
        match &self.position {
            Position::Running { visit, .. } => Some(visit),
            _ => None,
        }
    }

    /// The node that runs or comes next.
    pub fn next_node(&self) -> Option<&NodeId> {
        match &self.position {
            Position::Ready { visit, .. } | Position::Running { visit, .. } => Some(&visit.node),
            Position::Ended => None,
        }
    }

    /// The newest final outcome of a node.
    pub fn outcome(&self, node: &NodeId) -> Option<&Outcome> {
        self.nodes.get(node).and_then(|state| state.outcome.as_ref())
    }

    /// How often the run has come to a node.
    pub fn visits(&self, node: &NodeId) -> u32 {
        self.nodes.get(node).map_or(0, |state| state.visits)
    }

    /// The checkpoint that describes this state.
    pub fn to_checkpoint(&self, current_node: NodeId) -> Checkpoint {
        let nodes = self.nodes.iter();
        let outcomes = nodes.clone().filter_map(|(id, node)| Some((id, &node.outcome.as_ref()?.status)));
        let visits = nodes.clone().filter(|(_, node)| node.visits > 0).map(|(id, node)| (id, node.visits));
        let retries = nodes.filter(|(_, node)| node.retries > 0).map(|(id, node)| (id.clone(), node.retries));
        Checkpoint {
            current_node,
            completed_nodes: Written::list(&self.completed),
            node_outcomes: Written::map(outcomes),
            context: self.context.clone(),
            node_retries: retries.collect(),
            visits: Written::map(visits),
            next_node: self.next_node().cloned(),
            workspace_snapshot: (self.work != self.checkpointed).then(|| self.work.clone()),
            extra: Default::default(),
        }
    }

    fn started(&mut self, data: &PipelineStarted) -> Result<(), String> {
        if self.phase != Phase::New {
            return Err("the session has been started already".into());
        }
        self.phase = Phase::Running;
        self.base = data.base.clone();
        self.work = data.base.clone();
        self.checkpointed = data.base.clone();
        self.context.insert("graph.goal".into(), data.goal.clone().into());
        for (key, value) in &data.inputs {
            self.context.insert(key.clone(), value.clone().into());
        }
        self.initial_context = self.context.clone();
        let begun = data.base.values().next().copied();
        let task = |of: &TaskOf| TaskWork {
            of: of.clone(),
            attempt: None,
            step: begun.unwrap_or(of.base),
            status: of.status.clone(),
            tested: Vec::new(),
            feedback: Vec::new(),
            failed: Vec::new(),
            landing: None,
            landed: None,
        };
        self.task = data.task.as_ref().map(task).map(Box::new);
        Ok(())
    }

    /// Where the session's branches stand: at the newest commit, or at the newest step where they carry steps alone.
    pub fn on_branches(&self) -> Snapshot {
        match &self.task {
            Some(task) if task.of.commits == Commits::Steps => {
                self.work.keys().map(|repo| (repo.clone(), task.step)).collect()
            }
            _ => self.work.clone(),
        }
    }

    fn on_task(&mut self, change: impl FnOnce(&mut TaskWork)) -> Result<(), String> {
        self.must_have_begun()?;
        self.task.as_deref_mut().map(change).ok_or_else(|| "the session works on no task".to_owned())
    }

    /// An attempt is a pass of its own: it begins with the files of the one before and with nothing else of it.
    fn attempt_started(&mut self, data: &AttemptStarted) -> Result<(), String> {
        match self.phase {
            Phase::Running if self.nodes.is_empty() => {}
            Phase::Completed | Phase::Failed { .. } => {}
            _ => return Err(format!("the session is {}", self.phase.word())),
        }
        self.on_task(|task| {
            let &AttemptStarted { retry, number, of, code, laid, .. } = data;
            task.attempt = Some(Attempt { retry, number, of, code, laid, has_failed: false });
            task.feedback.extend(data.feedback.iter().cloned());
        })?;
        self.restart();
        self.nodes.clear();
        self.edges_taken.clear();
        self.reached_exit = false;
        self.phase = Phase::Running;
        let visit = Visit { node: data.start.clone(), visit: 1, attempt: 1, from: None };
        self.position = Position::Ready { visit, not_before: None };
        Ok(())
    }

    fn step_finished(&mut self, data: &StepFinished) -> Result<(), String> {
        if self.phase == Phase::Cancelled {
            return Err("the session is cancelled".into());
        }
        self.on_task(|task| {
            task.step = data.git_sha;
            task.status = Some(data.status.clone());
            task.feedback.extend(data.feedback.clone());
            if data.step == "test" {
                task.tested = data.trailers.clone();
            }
            if data.failed_attempt() {
                task.attempt.iter_mut().for_each(|attempt| attempt.has_failed = true);
                task.failed.push(FailedAttempt {
                    status: data.status.clone(),
                    before: task.attempt.as_ref().map_or(data.code, |attempt| attempt.code),
                    after: data.code,
                    failing: data.failing.clone(),
                });
            }
        })?;
        for commit in self.work.values_mut() {
            *commit = data.git_sha;
        }
        // The tests failed on what was to land: the pass that had reached its exit has not succeeded after all.
        if data.failed_attempt() && self.phase == Phase::Completed {
            self.phase = Phase::Failed { reason: data.subject_alone() };
        }
        Ok(())
    }

    fn resumed(&mut self) -> Result<(), String> {
        match self.phase {
            Phase::Running | Phase::Paused { .. } => self.phase = Phase::Running,
            _ => return Err(format!("the session is {}", self.phase.word())),
        }
        if let Position::Running { interrupted, .. } = &mut self.position {
            *interrupted = true;
        }
        Ok(())
    }

    fn must_have_begun(&self) -> Result<(), String> {
        if self.phase == Phase::New { Err("the session has not been started".into()) } else { Ok(()) }
    }

    fn must_run(&self) -> Result<(), String> {
        if self.phase == Phase::Running { Ok(()) } else { Err(format!("the session is {}", self.phase.word())) }
    }

    fn node_started(&mut self, data: &NodeStarted, at: Timestamp) -> Result<(), String> {
        self.must_run()?;
        let (visit, continued) = match &self.position {
            Position::Ready { visit, .. } => (visit.clone(), None),
            Position::Running { visit, base, turns, interrupted: true, .. } => {
                (visit.clone(), Some((base.clone(), turns.clone())))
            }
            Position::Running { visit, .. } => return Err(format!("`{}` is running", visit.node)),
            Position::Ended => return Err("the run has ended".into()),
        };
        expect_visit(&visit, &data.node_id, (data.visit, data.attempt))?;
        let node = self.nodes.entry(data.node_id.clone()).or_default();
        node.visits = data.visit;
        node.retries = data.attempt - 1;
        let (base, turns) = match continued {
            Some(kept) if !data.starts_over => kept,
            dropped => {
                self.forget_turns(&dropped.map(|(_, turns)| turns).unwrap_or_default());
                self.work = data.base.clone();
                (data.base.clone(), Vec::new())
            }
        };
        self.thread = data.thread.clone();
        self.position = Position::Running { visit, since: at, base, turns, interrupted: false };
        Ok(())
    }

    /// An agent that starts over does not go on with what it said before.
    fn forget_turns(&mut self, turns: &[TurnMark]) {
        if let Some(ranges) = self.thread.as_ref().and_then(|thread| self.threads.get_mut(thread)) {
            ranges.retain(|range| !turns.iter().any(|turn| turn.messages.as_ref() == Some(range)));
        }
        if let Some(thread) = self.thread.as_ref().filter(|_| turns.iter().any(|turn| turn.agent_state.is_some())) {
            self.thread_states.remove(thread);
        }
    }

    /// Whether the running node has taken turns.
    pub fn has_turns(&self) -> bool {
        matches!(&self.position, Position::Running { turns, .. } if !turns.is_empty())
    }

    /// What the agent needs to go on with the conversation of the running node, or with the one named `thread`.
    pub fn agent_state(&self, thread: Option<&str>) -> Option<&Value> {
        let of_node = match &self.position {
            Position::Running { turns, .. } => turns.iter().rev().find_map(|turn| turn.agent_state.as_ref()),
            _ => None,
        };
        of_node.or_else(|| self.thread_states.get(thread?))
    }

    fn turn(
        &mut self,
        mark: TurnMark,
        number: u64,
        node: &NodeId,
        pass: (u32, u32),
        git_sha: Option<&Snapshot>,
    ) -> Result<(), String> {
        self.must_run()?;
        let Position::Running { visit, turns, interrupted: false, .. } = &mut self.position else {
            return Err(format!("`{node}` is not running"));
        };
        expect_visit(visit, node, pass)?;
        if mark.turn.number != number {
            return Err(format!("turn {} has the number {number}", mark.turn));
        }
        if Some(number) != self.turns.checked_add(1) {
            return Err(format!("turn {number} comes after turn {}", self.turns));
        }
        self.turns = number;
        if let Some(range) = mark.messages {
            self.messages = self.messages.max(range.last);
            if let Some(thread) = &self.thread {
                self.threads.entry(thread.clone()).or_default().push(range);
            }
        }
        if let (Some(thread), Some(state)) = (&self.thread, &mark.agent_state) {
            self.thread_states.insert(thread.clone(), state.clone());
        }
        if let Some(commits) = git_sha {
            self.work.extend(commits.iter().map(|(repo, id)| (repo.clone(), *id)));
        }
        turns.push(mark);
        Ok(())
    }

    fn answered(&mut self, data: &HumanInteraction) -> Result<(), String> {
        self.must_run()?;
        match &self.position {
            Position::Running { visit, interrupted: false, .. }
                if visit.node == data.node_id && visit.visit == data.visit => {}
            _ => return Err(format!("`{}` is not running", data.node_id)),
        }
        // A person looked at it and wants another round: what repeats from here on is counted anew. What stood in for
        // a person has looked at nothing.
        if !matches!(data.source.as_str(), "auto-approve" | "default") {
            for node in self.nodes.values_mut() {
                node.repeats = 0;
            }
        }
        Ok(())
    }

    fn node_executed(&mut self, data: &NodeExecution) -> Result<(), String> {
        self.must_run()?;
        let Position::Running { visit, interrupted: false, .. } = &self.position else {
            return Err(format!("`{}` is not running", data.node_id));
        };
        expect_visit(visit, &data.node_id, (data.visit, data.attempt))?;
        let visit = visit.clone();
        self.messages = self.messages.max(data.response.unwrap_or(0)).max(data.prompt.unwrap_or(0));
        if data.route == Route::Retry {
            self.context.insert(format!("internal.retry_count.{}", visit.node), data.attempt.into());
            let again = Visit { attempt: visit.attempt + 1, ..visit };
            self.position = Position::Ready { visit: again, not_before: None };
            return Ok(());
        }
        self.take_outcome(&visit, data);
        self.advance(&visit, &data.route);
        Ok(())
    }

    fn take_outcome(&mut self, visit: &Visit, data: &NodeExecution) {
        let node = self.nodes.entry(visit.node.clone()).or_default();
        let result = result_digest(&data.outcome, &data.trees);
        node.repeats = if node.result == result { node.repeats + 1 } else { 1 };
        node.result = result;
        node.outcome = Some(Outcome { context_updates: BTreeMap::new(), ..data.outcome.clone() });
        node.response = data.response.or(node.response);
        self.recheck.remove(&visit.node);
        self.completed.push(visit.node.clone());
        let updates = data.outcome.context_updates.iter().map(|(key, value)| (key.clone(), value.clone()));
        self.context.extend(updates);
        self.context.remove(&format!("internal.retry_count.{}", visit.node));
        self.context.insert("current_node".into(), visit.node.as_str().into());
        if data.outcome.status != Status::Skipped {
            let label = data.outcome.preferred_label.clone().unwrap_or_default();
            self.context.insert("outcome".into(), data.outcome.status.as_str().into());
            self.context.insert("preferred_label".into(), label.into());
        }
    }

    fn advance(&mut self, from: &Visit, route: &Route) {
        let to = match route {
            Route::Edge { to } | Route::FailureTarget { to } => to,
            Route::GateRetry { gate, to } => {
                *self.gate_retries.entry(gate.clone()).or_default() += 1;
                self.recheck.insert(gate.clone());
                to
            }
            Route::Restart { to } => {
                self.restart();
                to
            }
            Route::Retry | Route::Complete | Route::Fail { .. } => {
                self.reached_exit = *route == Route::Complete;
                self.position = Position::Ended;
                return;
            }
        };
        // A jump to a target takes no edge, also where one happens to lead there.
        if matches!(route, Route::Edge { .. } | Route::Restart { .. }) {
            *self.edges_taken.entry(from.node.clone()).or_default().entry(to.clone()).or_default() += 1;
        }
        let visit = Visit { node: to.clone(), visit: self.visits(to) + 1, attempt: 1, from: Some(from.node.clone()) };
        self.position = Position::Ready { visit, not_before: None };
    }

    /// A run that begins again forgets what its nodes said, but not how often it came to them: that bounds it.
    fn restart(&mut self) {
        self.completed.clear();
        self.context = self.initial_context.clone();
        self.threads.clear();
        self.thread_states.clear();
        self.gate_retries.clear();
        self.recheck.clear();
        for node in self.nodes.values_mut() {
            *node = NodeState { visits: node.visits, ..NodeState::default() };
        }
    }

    fn retry_at(&mut self, data: &RetryAt) -> Result<(), String> {
        self.must_run()?;
        let Position::Ready { visit, not_before } = &mut self.position else {
            return Err("no retry is due".into());
        };
        expect_visit(visit, &data.node_id, (data.visit, data.attempt))?;
        if visit.attempt == 1 || not_before.is_some() {
            return Err("no retry is due".into());
        }
        *not_before = Some(data.at);
        Ok(())
    }

    fn checkpoint(&mut self, data: &Checkpoint) -> Result<(), String> {
        self.must_run()?;
        if self.next_node() != data.next_node.as_ref() {
            return Err("its next node is not the one the events before it lead to".into());
        }
        // After a restart nothing counts as completed.
        let current = self.completed.last().is_none_or(|last| *last == data.current_node);
        if !current || !data.completed_nodes.says(&self.completed) {
            return Err("its completed nodes are not those of the events before it".into());
        }
        match &data.workspace_snapshot {
            Some(snapshot) if *snapshot != self.work => {
                return Err("its commits are not those of the events before it".into());
            }
            Some(snapshot) => self.checkpointed = snapshot.clone(),
            None => {}
        }
        Ok(())
    }

    fn end(&mut self, phase: Phase) -> Result<(), String> {
        self.must_run()?;
        let ended = self.position == Position::Ended;
        match phase {
            Phase::Completed if !(ended && self.reached_exit) => return Err("the run has not reached its exit".into()),
            Phase::Paused { .. } if ended => return Err("the run has ended".into()),
            Phase::Failed { .. } => self.position = Position::Ended,
            _ => {}
        }
        self.phase = phase;
        Ok(())
    }

    fn cancelled(&mut self) -> Result<(), String> {
        match self.phase {
            Phase::Running | Phase::Paused { .. } => {
                self.phase = Phase::Cancelled;
                self.position = Position::Ended;
                Ok(())
            }
            _ => Err(format!("the session is {}", self.phase.word())),
        }
    }
}

impl Phase {
    /// One word for people.
    pub fn word(&self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Running => "running",
            Self::Paused { .. } => "paused",
            Self::Completed => "done",
            Self::Failed { .. } => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What tells a reached limit from others: a limit that was raised can be reached again.
pub fn limit_mark(data: &BudgetExceeded) -> String {
    let node = data.node_id.as_ref().map(|node| format!(" {node}")).unwrap_or_default();
    format!("{}{node} {} {}", data.scope, data.limit, data.of)
}

/// Two results are the same when the outcome and the files are. All a command printed does not count, only its last
/// words, which are the reason of a failure: most commands print times.
pub fn result_digest(outcome: &Outcome, trees: &Snapshot) -> u64 {
    let mut outcome = outcome.clone();
    outcome.context_updates.remove("tool.output");
    let text = serde_json::to_string(&(outcome, trees)).unwrap_or_default();
    // FNV-1a, which stays the same from build to build: the digest is part of kept states.
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn expect_visit(visit: &Visit, node: &NodeId, (number, attempt): (u32, u32)) -> Result<(), String> {
    if visit.node == *node && visit.visit == number && visit.attempt == attempt {
        return Ok(());
    }
    Err(format!("`{}` visit {} attempt {} is due", visit.node, visit.visit, visit.attempt))
}
